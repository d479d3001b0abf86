"""From gradients to better parameters: descent, Adam, learning rates, clipping. Chapter 10."""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from npt_lib.module import Array, Parameter

Parameters = Mapping[str, Parameter] | Iterable[Parameter]


class SGD:
    """p -= lr * velocity, where velocity = momentum * velocity + grad.

    A parameter without a gradient stays as it is. Built in chapter 10.
    """

    def __init__(self, parameters: Parameters, lr: float, momentum: float = 0.0):
        _check_range("momentum", momentum)
        self.parameters = as_list(parameters)
        self.lr, self.momentum = _check_lr(lr), momentum
        self.velocity = [np.zeros_like(p.value) for p in self.parameters]

    def step(self, lr: float | None = None) -> None:
        """Move every parameter once, by lr if given."""
        rate = self.lr if lr is None else _check_rate(lr)
        for p, velocity in zip(self.parameters, self.velocity, strict=True):
            if p.grad is None:
                continue
            velocity *= self.momentum
            velocity += p.grad
            p.value = p.value - rate * velocity

    def state_dict(self) -> dict[str, Array]:
        return _copies(velocity=self.velocity)

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        self.velocity = _restored(state, velocity=self.velocity)["velocity"]


class Adam:
    """Steps of about lr each, whatever a gradient's size: mean of gradients over their spread.

    Both running means start at zero, so they are divided by what they miss (bias correction).
    weight_decay is decoupled (AdamW): it shrinks matrices, never biases, gains or other vectors.
    A parameter without a gradient stays as it is. Built in chapter 10.
    """

    def __init__(
        self,
        parameters: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-9,
        weight_decay: float = 0.0,
    ):
        for name, beta in zip(("betas[0]", "betas[1]"), betas, strict=True):
            _check_range(name, beta)
        if not eps > 0 or not 0 <= weight_decay < math.inf:
            raise ValueError(f"eps must be above 0 and weight_decay at least 0, "
                             f"got {eps} and {weight_decay}.")
        self.parameters = as_list(parameters)
        self.lr, self.betas, self.eps, self.weight_decay = _check_lr(lr), betas, eps, weight_decay
        self.mean = [np.zeros_like(p.value) for p in self.parameters]
        self.square = [np.zeros_like(p.value) for p in self.parameters]
        self.n_steps = 0

    def step(self, lr: float | None = None) -> None:
        """Move every parameter once, at the learning rate lr if given."""
        rate = self.lr if lr is None else _check_rate(lr)
        self.n_steps += 1
        b1, b2 = self.betas
        missing1, missing2 = 1 - b1**self.n_steps, 1 - b2**self.n_steps
        for p, mean, square in zip(self.parameters, self.mean, self.square, strict=True):
            if p.grad is None:
                continue
            mean += (1 - b1) * (p.grad - mean)
            square += (1 - b2) * (p.grad * p.grad - square)
            spread = np.sqrt(square / missing2)
            spread += self.eps
            decay = rate * self.weight_decay if p.value.ndim > 1 else 0.0
            p.value = p.value * (1 - decay) - (rate / missing1) * (mean / spread)

    def state_dict(self) -> dict[str, Array]:
        """A copy of both running means, and how many steps they have seen."""
        state = _copies(mean=self.mean, square=self.square)
        return {**state, "n_steps": np.array(self.n_steps)}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        restored = _restored(state, mean=self.mean, square=self.square)
        if "n_steps" not in state:
            raise ValueError("An Adam state must hold n_steps.")
        self.mean, self.square = restored["mean"], restored["square"]
        self.n_steps = int(state["n_steps"])


def noam(step: int, d_model: int, warmup: int) -> float:
    """The paper's learning rate: rising for warmup steps, then falling as 1 / sqrt(step)."""
    if step < 1 or d_model < 1 or warmup < 1:
        raise ValueError(f"step, d_model and warmup must be at least 1, "
                         f"got {step}, {d_model} and {warmup}.")
    return min(step**-0.5, step * warmup**-1.5) / math.sqrt(d_model)


def warmup_cosine(step: int, peak: float, warmup: int, total: int) -> float:
    """Rises to peak over warmup steps, then falls along half a cosine to 0 at total."""
    if step < 1 or warmup < 0 or total <= warmup:
        raise ValueError(f"step must be at least 1 and warmup from 0 to below total, "
                         f"got step={step}, warmup={warmup}, total={total}.")
    if step <= warmup:
        return peak * step / warmup
    done = min((step - warmup) / (total - warmup), 1.0)
    return peak * 0.5 * (1 + math.cos(math.pi * done))


def clip_gradients(parameters: Parameters, max_norm: float) -> float:
    """Scale all gradients together so that their norm is at most max_norm; returns the old norm."""
    if not max_norm > 0:
        raise ValueError(f"max_norm must be above 0, got {max_norm}.")
    found = as_list(parameters)
    norm = math.sqrt(sum(float(np.vdot(p.grad, p.grad)) for p in found if p.grad is not None))
    for p in found:
        if p.grad is not None and norm > max_norm:
            p.grad = p.grad * (max_norm / norm)
    return norm


def as_list(parameters: Parameters) -> list[Parameter]:
    """The parameters of a mapping or an iterable, which must not be empty."""
    values = parameters.values() if isinstance(parameters, Mapping) else parameters
    found = list(values)
    if not found:
        raise ValueError("An optimizer needs at least 1 parameter, got 0.")
    return found


def _check_lr(lr: float) -> float:
    if not 0 < lr < math.inf:
        raise ValueError(f"lr must be above 0, got {lr}.")
    return lr


def _check_rate(lr: float) -> float:
    """One step may have a learning rate of 0, as at the end of a schedule."""
    if not 0 <= lr < math.inf:
        raise ValueError(f"A step's lr must be at least 0, got {lr}.")
    return lr


def _check_range(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, got {value}.")


def _copies(**groups: list[Array]) -> dict[str, Array]:
    return {f"{name}.{i}": x.copy() for name, xs in groups.items() for i, x in enumerate(xs)}


def _restored(state: Mapping[str, Array], **groups: list[Array]) -> dict[str, list[Array]]:
    """Copies of the groups' arrays from a state, checked against the present ones."""
    restored: dict[str, list[Array]] = {name: [] for name in groups}
    for name, xs in groups.items():
        for i, x in enumerate(xs):
            got = state.get(f"{name}.{i}")
            if got is None or got.shape != x.shape:
                raise ValueError(f"{name}.{i} must have shape {x.shape}, "
                                 f"got {None if got is None else got.shape}.")
            restored[name].append(got.astype(x.dtype))
    return restored

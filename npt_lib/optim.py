"""From gradients to better parameters: descent, Adam, learning rates, clipping. Chapter 10."""

import math
from collections.abc import Mapping
from itertools import repeat

import numpy as np

from npt_lib.flat import STRETCH, Parameters, as_list, flat, gradient, hand_out, stretches
from npt_lib.module import Array, Parameter
from npt_lib.threads import each


class SGD:
    """p -= lr * velocity, where velocity = momentum * velocity + grad.

    A parameter without a gradient stays as it is. Built in chapter 10.
    """

    def __init__(self, parameters: Parameters, lr: float, momentum: float = 0.0):
        _check_range("momentum", momentum)
        self.parameters = as_list(parameters)
        self.lr, self.momentum = _check_lr(lr), momentum
        self.velocity = np.zeros_like(flat(p.value for p in self.parameters))

    def step(self, lr: float | None = None) -> None:
        """Move every parameter once, by lr if given."""
        rate = self.lr if lr is None else _check_rate(lr)
        for place, some in stretches(self.parameters):
            velocity = self.velocity[place]
            velocity *= self.momentum
            velocity += flat(gradient(p) for p in some)
            hand_out(flat(p.value for p in some) - rate * velocity, some)

    def state_dict(self) -> dict[str, Array]:
        return {"velocity": self.velocity.copy()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        (self.velocity,) = _restored(state, velocity=self.velocity)


class Adam:
    """Steps of about lr each, whatever a gradient's size: mean of gradients over their spread.

    Both running means start at zero, so they are divided by what they miss (bias correction).
    weight_decay is decoupled (AdamW): it shrinks matrices, never biases, gains or other vectors.
    A parameter without a gradient stays as it is. Built in chapter 10.
    The means are flat, all parameters' numbers in a row: small parameters move many at a time.
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
        self.mean = np.zeros_like(flat(p.value for p in self.parameters))
        self.square = np.zeros_like(self.mean)
        self.n_steps = 0

    def step(self, lr: float | None = None) -> None:
        """Move every parameter once, at the learning rate lr if given."""
        rate = self.lr if lr is None else _check_rate(lr)
        self.n_steps += 1
        each(self._move, stretches(self.parameters), repeat(rate))

    def _move(self, stretch: tuple[slice, list[Parameter]], rate: float) -> None:
        """One step of neighbouring parameters."""
        place, some = stretch
        grad = flat(gradient(p) for p in some)
        value = flat(self._decayed(p, rate) for p in some)
        mean, square, new = self.mean[place], self.square[place], np.empty_like(value)
        for i in range(0, len(new), STRETCH):                 # pieces that fit in the cache
            piece = slice(i, i + STRETCH)
            change = self._change(grad[piece], mean[piece], square[piece])
            change *= rate
            np.subtract(value[piece], change, out=new[piece])
        hand_out(new, some)

    def _change(self, grad: Array, mean: Array, square: Array) -> Array:
        """Both running means moved on, in place; returns the one over the root of the other."""
        b1, b2 = self.betas
        mean += (1 - b1) * (grad - mean)
        square += (1 - b2) * (grad * grad - square)
        spread = np.sqrt(square / (1 - b2**self.n_steps))
        spread += self.eps
        return mean / (1 - b1**self.n_steps) / spread

    def _decayed(self, p: Parameter, rate: float) -> Array:
        decays = self.weight_decay and p.value.ndim > 1
        return p.value * (1 - rate * self.weight_decay) if decays else p.value

    def state_dict(self) -> dict[str, Array]:
        """A copy of both running means, and how many steps they have seen."""
        return {"mean": self.mean.copy(), "square": self.square.copy(),
                "n_steps": np.array(self.n_steps)}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        mean, square = _restored(state, mean=self.mean, square=self.square)
        if "n_steps" not in state:
            raise ValueError("An Adam state must hold n_steps.")
        self.mean, self.square, self.n_steps = mean, square, int(state["n_steps"])


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
    norm = math.sqrt(sum([float(np.vdot(p.grad, p.grad)) for p in found if p.grad is not None]))
    for p in found:
        if p.grad is not None and norm > max_norm:
            p.grad = p.grad * (max_norm / norm)
    return norm


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


def _restored(state: Mapping[str, Array], **present: Array) -> list[Array]:
    """Copies of the arrays of these names from a state, checked against the present ones."""
    restored = []
    for name, x in present.items():
        got = state.get(name)
        if got is None or got.shape != x.shape:
            raise ValueError(f"{name} must have shape {x.shape}, "
                             f"got {None if got is None else got.shape}.")
        restored.append(got.astype(x.dtype))
    return restored

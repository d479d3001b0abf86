"""From gradients to better parameters: descent, Adam, learning rates, clipping. Chapter 10."""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any

import numpy as np

from npt_lib.module import Array, Parameter
from npt_lib.parallel.threads import each
from npt_lib.require import FLOATS, check_count, check_number, check_share, described, is_plain

Parameters = Mapping[str, Parameter] | Iterable[Parameter]
STRETCH = 1 << 16              # numbers handled together: a few arrays of so many fit in the cache


class SGD:
    """p -= lr * velocity, where velocity = momentum * velocity + grad.

    A parameter without a gradient stays as it is. Built in chapter 10.
    """

    def __init__(self, parameters: Parameters, lr: float, momentum: float = 0.0):
        self.parameters = by_name(parameters)
        self.lr, self.momentum = _check_lr(lr), check_share("momentum", momentum)
        self.velocity, self.shapes = _zeros(self.parameters), _shapes(self.parameters)

    def step(self, lr: float | None = None) -> None:
        """Move every parameter once, by lr if given."""
        rate = _check_rate(self.lr if lr is None else lr)
        _check_gradients(self.parameters, self.shapes, self.velocity.dtype)
        for place, some in stretches(self.parameters.values()):
            velocity = self.velocity[place]
            velocity *= self.momentum
            velocity += flat(_gradient(p) for p in some)
            set_values(some, flat(p.value for p in some) - rate * velocity)

    def settings(self) -> dict[str, Any]:
        """The numbers that a resumed run must have in common with the run before."""
        return {"lr": self.lr, "momentum": self.momentum}

    def state_dict(self) -> dict[str, Array]:
        return {"velocity": self.velocity.copy()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        self.velocity = _restored(state, "velocity", self.velocity)


class Adam:
    """Steps of about lr, whatever a gradient's size: its mean divided by its root mean square.

    Both running means start at zero, so they are divided by what they miss (bias correction).
    weight_decay is decoupled (AdamW): it shrinks matrices, never biases, gains or other vectors.
    A parameter without a gradient stays as it is; if its first one comes late, its steps are off
    for a while, for the correction counts the steps of all. Built in chapter 10.
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
        self.parameters = by_name(parameters)
        self.lr, self.betas = _check_lr(lr), _check_betas(betas)
        self.eps = check_number("eps", eps, "above 0", lambda x: 0 < x < math.inf)
        self.weight_decay = check_number(
            "weight_decay", weight_decay, "at least 0", lambda x: 0 <= x < math.inf)
        self.mean, self.square = _zeros(self.parameters), _zeros(self.parameters)
        self.n_steps, self.shapes = 0, _shapes(self.parameters)

    def step(self, lr: float | None = None) -> None:
        """Move every parameter once, at the learning rate lr if given."""
        rate = _check_rate(self.lr if lr is None else lr)
        _check_gradients(self.parameters, self.shapes, self.mean.dtype)
        self.n_steps += 1
        each(self._move, stretches(self.parameters.values()), repeat(rate))

    def _move(self, stretch: tuple[slice, list[Parameter]], rate: float) -> None:
        """One step of neighbouring parameters."""
        place, some = stretch
        grad = flat(_gradient(p) for p in some)
        value = flat(self._decayed(p, rate) for p in some)
        mean, square, new = self.mean[place], self.square[place], np.empty_like(value)
        for i in range(0, len(new), STRETCH):                 # pieces that fit in the cache
            piece = slice(i, i + STRETCH)
            change = self._change(grad[piece], mean[piece], square[piece], rate)
            np.subtract(value[piece], change, out=new[piece])
        set_values(some, new)

    def _change(self, grad: Array, mean: Array, square: Array, rate: float) -> Array:
        """Both running means moved on, in place; returns rate times the one over the other's root.

        Bias correction divides each mean by one number, which can wait to the end.
        """
        b1, b2 = self.betas
        unbiased = math.sqrt(1 - b2**self.n_steps)
        change = (1 - b1) * grad
        mean *= b1
        mean += change
        np.multiply(grad, grad, out=change)
        change *= 1 - b2
        square *= b2
        square += change
        np.sqrt(square, out=change)
        change += self.eps * unbiased
        np.divide(mean, change, out=change)
        change *= rate * unbiased / (1 - b1**self.n_steps)
        return change

    def _decayed(self, p: Parameter, rate: float) -> Array:
        decays = self.weight_decay and p.value.ndim > 1
        return p.value * (1 - rate * self.weight_decay) if decays else p.value

    def settings(self) -> dict[str, Any]:
        """The numbers that a resumed run must have in common with the run before."""
        return {"lr": self.lr, "betas": list(self.betas), "eps": self.eps,
                "weight_decay": self.weight_decay}

    def state_dict(self) -> dict[str, Array]:
        """A copy of both running means, and how many steps they have seen."""
        return {"mean": self.mean.copy(), "square": self.square.copy(),
                "n_steps": np.array(self.n_steps)}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Take over a state: all of it, or nothing if anything does not fit."""
        mean, square = (_restored(state, name, getattr(self, name)) for name in ("mean", "square"))
        if (square < 0).any():
            raise ValueError(f"square must be at least 0, got {square.min()}.")
        n_steps = np.asarray(state["n_steps"]) if "n_steps" in state else None
        if n_steps is None or n_steps.shape != () or n_steps.dtype.kind not in "iu" or n_steps < 0:
            raise ValueError(f"n_steps must be a whole number of at least 0, got {n_steps}.")
        self.mean, self.square, self.n_steps = mean, square, int(n_steps)


def noam(step: int, d_model: int, warmup: int) -> float:
    """The paper's learning rate: rising for warmup steps, then falling as 1 / sqrt(step)."""
    step, d_model = check_count("step", step), check_count("d_model", d_model)
    warmup = check_count("warmup", warmup)
    return min(step**-0.5, step * warmup**-1.5) / math.sqrt(d_model)


def warmup_cosine(step: int, peak: float, warmup: int, total: int) -> float:
    """Rises to peak over warmup steps, then falls along half a cosine to 0 at total.

    step counts from 1, as in ``train``: with total=n_steps, the last step's rate is 0.
    """
    step, warmup = check_count("step", step), check_count("warmup", warmup, 0)
    total, peak = check_count("total", total, warmup + 1), _check_rate(peak, "peak")
    if step <= warmup:
        return peak * step / warmup
    done = min((step - warmup) / (total - warmup), 1.0)
    return peak * 0.5 * (1 + math.cos(math.pi * done))


def clip_gradients(parameters: Parameters, max_norm: float) -> float:
    """Scale all gradients together so that their norm is at most max_norm; returns the old norm."""
    max_norm = check_number("max_norm", max_norm, "above 0", lambda x: x > 0)
    found = [p for p in by_name(parameters).values() if p.grad is not None]
    norm = gradient_norm([_gradient(p) for p in found])
    if max_norm < norm < math.inf:
        for p in found:
            p.grad = np.asarray(_gradient(p) * (max_norm / norm))
    return norm


def gradient_norm(grads: list[Array]) -> float:
    """The root of the sum of all squares; where those leave float32's range, in float64."""
    with np.errstate(over="ignore"):
        total = sum([float(np.vdot(grad, grad)) for grad in grads])
    if 1e-20 < total < math.inf:
        return math.sqrt(total)
    largest = float(np.max([np.abs(grad).max(initial=0) for grad in grads], initial=0))
    if largest == 0 or not math.isfinite(largest):
        return largest
    shares = (np.divide(grad, largest, dtype=np.float64) for grad in grads)
    return largest * math.sqrt(sum([float(np.vdot(share, share)) for share in shares]))


# Many parameters as one flat row, so that an optimizer moves them together.

def by_name(parameters: Parameters) -> dict[str, Parameter]:
    """The parameters of a mapping or an iterable, each once: at least one, all of one dtype."""
    if not isinstance(parameters, Mapping):
        several = isinstance(parameters, Iterable) and not isinstance(parameters, np.ndarray)
        items: Any = parameters if several else [parameters]
        parameters = {f"parameter {i}": p for i, p in enumerate(items)}
    found: dict[Parameter, str] = {}
    for name, p in parameters.items():
        if not isinstance(p, Parameter):
            raise ValueError(f"An optimizer needs Parameters, such as model.parameters() has, "
                             f"got {described(p)}.")
        found.setdefault(p, name)
    if not found:
        raise ValueError("An optimizer needs at least 1 parameter, got 0.")
    _check_dtypes({p.value.dtype for p in found})
    return {name: p for p, name in found.items()}


def flat(arrays: Iterable[Array]) -> Array:
    """All numbers in one row; those of a single array as a view, where that can be."""
    rows = [x.reshape(-1) for x in arrays]
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def stretches(parameters: Iterable[Parameter]) -> Iterator[tuple[slice, list[Parameter]]]:
    """Neighbours with a gradient, up to STRETCH numbers together, and their place in the row.

    A parameter without a gradient is left out; a larger one is a stretch of its own.
    """
    start = stop = 0
    some: list[Parameter] = []
    for p in parameters:
        if some and (p.grad is None or stop - start + p.value.size > STRETCH):
            yield slice(start, stop), some
            start, some = stop, []
        stop += p.value.size
        if p.grad is None:
            start = stop
        else:
            some.append(p)
    if some:
        yield slice(start, stop), some


def set_values(parameters: list[Parameter], row: Array) -> None:
    """Give each parameter its share of the row as its value."""
    start = 0
    for p in parameters:
        stop = start + p.value.size
        p.value = row[start:stop].reshape(p.value.shape)
        start = stop


def _zeros(parameters: Mapping[str, Parameter]) -> Array:
    return np.zeros_like(flat(p.value for p in parameters.values()))


def _gradient(p: Parameter) -> Array:
    assert p.grad is not None
    return p.grad


def _shapes(parameters: Mapping[str, Parameter]) -> dict[str, tuple[int, ...]]:
    return {name: p.shape for name, p in parameters.items()}


def _check_gradients(
    parameters: Mapping[str, Parameter], shapes: Mapping[str, tuple[int, ...]], dtype: np.dtype
) -> None:
    """Each gradient is an array as its parameter's value is; and at least one is there."""
    if all(p.grad is None for p in parameters.values()):
        raise ValueError("No parameter has a gradient: a backward pass through the model whose "
                         "parameters these are must come before a step.")
    for name, p in parameters.items():
        if p.value.dtype != dtype or p.shape != shapes[name]:
            raise ValueError(f"{name} must stay {dtype} {shapes[name]}, got {described(p.value)}.")
        if p.grad is not None and (not is_plain(p.grad) or p.grad.shape != p.shape
                                   or p.grad.dtype != dtype):
            raise ValueError(f"The gradient of {name} must be {described(p.value)}, "
                             f"got {described(p.grad)}.")


def _check_dtypes(dtypes: set[np.dtype]) -> None:
    if len(dtypes) > 1:
        raise ValueError(f"An optimizer needs parameters of one dtype, "
                         f"got {sorted(str(dtype) for dtype in dtypes)}.")
    if not dtypes <= set(FLOATS):
        raise ValueError(f"An optimizer needs parameters of float32 or float64, "
                         f"got {dtypes.pop()}.")


def _check_lr(lr: float) -> float:
    return check_number("lr", lr, "above 0", lambda x: 0 < x < math.inf)


def _check_rate(lr: float, name: str = "A step's lr") -> float:
    """One step may have a learning rate of 0, as at the end of a schedule."""
    return check_number(name, lr, "at least 0", lambda x: 0 <= x < math.inf)


def _check_betas(betas: Any) -> tuple[float, float]:
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise ValueError(f"betas must be two numbers, got {betas!r}.")
    return check_share("betas[0]", betas[0]), check_share("betas[1]", betas[1])


def _restored(state: Mapping[str, Array], name: str, present: Array) -> Array:
    """A copy of the array of this name from a state, checked against the present one."""
    got = np.asarray(state[name]) if name in state else None
    if got is None or got.shape != present.shape or got.dtype.kind != "f":
        raise ValueError(f"{name} must have shape {present.shape}, "
                         f"got {None if got is None else described(got)}.")
    if not np.isfinite(got).all():
        raise ValueError(f"{name} holds NaN or infinity.")
    return got.astype(present.dtype)

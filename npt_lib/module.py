"""The one idea of the library, and the two classes that carry it.

``y, backward = layer.forward(x)``: forward returns its output and a function that takes
dL/dy and returns dL/dx. Chapter 1 builds it on six lines; everything else has this shape.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from npt_lib.require import FLOATS, check_dtype, described, is_plain

Array = np.ndarray
Backward = Callable[..., Any]
Rng = np.random.Generator


class Parameter:
    """An array that is learned, and the gradient that its backward passes have added up.

    ``grad`` is None until a backward pass reaches the parameter.
    """

    def __init__(self, value: Array):
        if not is_plain(value) or value.dtype not in FLOATS:
            raise ValueError(f"Parameter needs an array of float32 or float64, "
                             f"got {described(value)}.")
        self.value = value
        self.grad: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def add_grad(self, grad: Array) -> None:
        """Add to the gradient, in the value's dtype.

        Never in place, so an array that was handed out stays as it was.
        """
        if self.shape == () and isinstance(grad, float | np.floating):
            grad = np.asarray(grad)               # sums of a single number are no arrays
        if not is_plain(grad) or grad.shape != self.shape:
            raise ValueError(f"The gradient of a parameter must be an array of its shape "
                             f"{self.shape}, got {described(grad)}.")
        if grad.dtype != self.value.dtype:
            grad = grad.astype(self.value.dtype)
        self.grad = grad if self.grad is None else np.asarray(self.grad + grad)

    def __repr__(self) -> str:
        return f"Parameter{self.shape}"


class Module:
    """Something with parameters, whose ``forward`` returns its output and its way back.

    The contract, for every layer, block and model:
    ``forward(*inputs)`` returns ``(y, backward)``; calling the module drops ``backward``.
    ``backward(dy)`` returns the gradient of each array of floats that went in, in the order of
    the inputs (nothing where only ids went in), and adds to ``grad`` of the parameters.
    Neither changes an array that it was given, nor may you change x or y before backward has
    run: some layers remember them. (So y = x + h in a block of your own, never x += h.)
    A module holds parameters, sizes and constants: two forwards may be alive at once.
    Parameters and modules are found in attributes, lists, tuples and dicts, however nested.
    """

    forward: Callable[..., tuple[Any, Backward]]

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        y, _ = self.forward(*inputs, **options)
        return y

    def parameters(self) -> dict[str, Parameter]:
        """Every parameter by its path, such as ``blocks.0.attn.qkv.W``; a shared one once."""
        names: dict[Parameter, str] = {}
        for name, parameter in walk(self):
            names.setdefault(parameter, name)
        found = {name: parameter for parameter, name in names.items()}
        if len(found) < len(names):
            twice = next(name for p, name in names.items() if found[name] is not p)
            raise ValueError(f"Two parameters must not have one path, got {twice} twice: "
                             f"a dict's keys must differ as texts.")
        return found

    def zero_grad(self) -> None:
        """Forget all gradients. Without it, the next backward adds to the old ones."""
        for parameter in self.parameters().values():
            parameter.grad = None

    def n_parameters(self) -> int:
        """How many numbers all parameters hold together, a shared one counted once."""
        return sum(parameter.value.size for parameter in self.parameters().values())

    def astype(self, dtype: Any) -> Self:
        """A copy with parameters of float32 or float64; those that were shared stay shared."""
        wanted = check_dtype("dtype", dtype)
        other = copy.deepcopy(self)
        for parameter in other.parameters().values():
            parameter.value = parameter.value.astype(wanted)
            parameter.grad = None
        return other

    def state_dict(self) -> dict[str, Array]:
        """A copy of every parameter's value, by name."""
        return {name: parameter.value.copy() for name, parameter in self.parameters().items()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Take over the values of ``state``: all of them, or none if anything does not fit."""
        parameters = self.parameters()
        _check_names(set(parameters), set(state))
        for name, parameter in parameters.items():
            got = np.asarray(state[name])
            if got.shape != parameter.shape or got.dtype.kind not in "fiu":
                raise ValueError(f"{name} needs numbers of shape {parameter.shape}, "
                                 f"but the state holds {got.dtype} of shape {got.shape}.")
        for name, parameter in parameters.items():
            parameter.value = np.array(state[name], parameter.value.dtype, order="C")

    def __repr__(self) -> str:
        return "\n".join(_tree(self, type(self).__name__))


def saved(backward: Backward) -> dict[str, Any]:
    """What a backward function remembers of its forward pass, by name."""
    if not inspect.isfunction(backward):
        raise ValueError(f"saved needs a backward, as forward returns it, "
                         f"got {described(backward)}.")
    return dict(inspect.getclosurevars(backward).nonlocals)


def parts(module: Module) -> Iterator[tuple[str, Any]]:
    """What a module holds: each attribute, and each item of its containers, by its path."""
    for name, value in vars(module).items():
        yield from _items(name, value)


def _items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _items(f"{name}.{key}", item)
    else:
        yield name, value


def walk(module: Module, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
    """Every parameter with its path, a shared one once for each of its places."""
    for name, part in parts(module):
        if isinstance(part, Parameter):
            yield prefix + name, part
        elif isinstance(part, Module):
            yield from walk(part, f"{prefix}{name}.")


def _tree(module: Module, label: str, indent: str = "") -> Iterator[str]:
    """One line for each module: its own parameters with shapes, and how many numbers it holds."""
    own = {name: part for name, part in parts(module) if isinstance(part, Parameter)}
    shapes = "".join(f"  {name} {part.shape}" for name, part in own.items())
    yield f"{indent}{label}{shapes}  [{module.n_parameters():,}]"
    for name, part in parts(module):
        if isinstance(part, Module):
            yield from _tree(part, f"{name}: {type(part).__name__}", indent + "  ")


def _check_names(required: set[str], got: set[str]) -> None:
    missing, unknown = sorted(required - got), sorted(got - required)
    if missing or unknown:
        raise ValueError(
            f"The state must name exactly the model's {len(required)} parameters: "
            f"missing {missing[:3]}, unknown {unknown[:3]} ({len(missing)} and {len(unknown)})."
        )

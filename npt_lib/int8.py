"""int8 weights for a model that only writes, a quarter of the file. Chapter 14.
"""

import json
from typing import Any

import numpy as np

from npt_lib.checkpoint import (
    PathLike,
    blame,
    build_model,
    check_model,
    check_numbers,
    check_rebuilt,
    described_tokenizers,
    group,
    parse_json,
    prefixed,
    read_arrays,
    write_arrays,
)
from npt_lib.fewer_bits import modules
from npt_lib.layers import Linear
from npt_lib.module import Array, Module, Parameter
from npt_lib.require import check_floats, described, is_plain
from npt_lib.tokenizer import Tokenizer

MOST = 127                        # of a signed byte; -128 is left out, so that both sides are alike


class Int8:
    """A matrix as whole numbers from -127 to 127, and the scale of each column (or row).

    It stands where a Parameter stood, and has its value, in float32, for whoever reads it. It
    learns nothing: a gradient is an error.
    """

    def __init__(self, numbers: Array, scale: Array):
        if not is_plain(numbers) or numbers.dtype != np.int8 or numbers.ndim != 2:
            raise ValueError(f"Int8 needs a matrix of int8, got {described(numbers)}.")
        rows, cols = numbers.shape
        if not is_plain(scale) or scale.dtype != np.float32 or scale.shape not in (
                (1, cols), (rows, 1)):
            raise ValueError(f"Int8 needs a float32 scale (1, {cols}) or ({rows}, 1), "
                             f"got {described(scale)}.")
        self.numbers, self.scale = numbers, scale

    @classmethod
    def of(cls, x: Array, axis: int = 0) -> "Int8":
        """The nearest: with axis 0 one scale for each column, with axis 1 one for each row."""
        check_floats("Int8.of", x)
        if x.ndim != 2 or axis not in (0, 1) or not np.isfinite(x).all():
            raise ValueError(f"Int8.of needs a finite matrix and axis 0 or 1, got {described(x)} "
                             f"and {axis!r}.")
        largest = np.abs(x).max(axis=axis, keepdims=True, initial=0)
        scale = np.where(largest > 0, largest / MOST, 1).astype(np.float32)
        numbers = np.clip(np.rint(x / scale), -MOST, MOST)
        return cls(numbers.astype(np.int8), scale)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    @property
    def value(self) -> Array:
        return self.numbers * self.scale

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + self.scale.nbytes

    def add_grad(self, grad: Array) -> None:
        raise ValueError("int8 weights are for writing and do not learn: train the model that "
                         "they were made of.")

    def __repr__(self) -> str:
        return f"Int8{self.shape}"


def quantize(model: Module) -> Any:
    """A copy of a model for writing, in float32: but every matrix is stored as Int8.

    A Linear's weight has a scale for each column, a table (of tokens, of positions) one for each
    row. What shared a parameter shares its Int8. Backward is an error.
    """
    if not isinstance(model, Module):
        raise ValueError(f"quantize needs a Module, got {described(model)}.")
    other = model.astype(np.float32)
    made: dict[Parameter, Int8] = {}
    for _, module in [("", other), *modules(other)]:
        for name, part in list(vars(module).items()):
            if isinstance(part, Parameter) and part.value.ndim == 2:
                if part not in made:
                    made[part] = Int8.of(part.value, 0 if isinstance(module, Linear) else 1)
                setattr(module, name, made[part])
    return other


def int8_weights(model: Module) -> dict[str, Int8]:
    """Every Int8 of a model by its path; a shared one once."""
    found: dict[int, tuple[str, Int8]] = {}
    for path, module in [("", model), *modules(model)]:
        for name, part in vars(module).items():
            if isinstance(part, Int8):
                found.setdefault(id(part), (f"{path}.{name}".removeprefix("."), part))
    return dict(found.values())


def save_quantized(path: PathLike, model: Module, *tokenizers: Tokenizer) -> None:
    """Write what quantize made to one .npz file, as ``save`` does; load_quantized reads it."""
    about, weights = check_model(model), int8_weights(model)
    if not weights:
        raise ValueError("save_quantized needs a model that quantize has made, got one without "
                         "int8 weights.")
    floats = model.state_dict()
    check_numbers(floats)
    size = sum(x.size for x in [*floats.values(), *(w.numbers for w in weights.values())])
    check_rebuilt(model, quantize(build_model(about, size)))
    write_arrays(path, {
        "about": np.array(json.dumps(about)),
        "tokenizers": np.array(json.dumps(described_tokenizers(tokenizers))),
        **prefixed("floats", floats),
        **prefixed("int8", {name: w.numbers for name, w in weights.items()}),
        **prefixed("scale", {name: w.scale for name, w in weights.items()}),
    })


def load_quantized(path: PathLike) -> Any:
    """The model of a file that save_quantized wrote; ``load_tokenizers`` reads its tokenizers."""
    arrays = read_arrays(path)
    about = parse_json(path, arrays, "about")
    floats, numbers, scales = (group(arrays, name) for name in ("floats", "int8", "scale"))
    with blame(path):
        size = sum(x.size for x in [*floats.values(), *numbers.values()])
        model = quantize(build_model(about, size))
        weights = int8_weights(model)
        if not (set(weights) == set(numbers) == set(scales)):
            raise ValueError(f"the file must hold the int8 weights of {about['kind']}, which are "
                             f"{sorted(weights)[:3]} and so on, got {sorted(numbers)[:3]}.")
        for name, weight in weights.items():
            there = Int8(numbers[name], scales[name])
            if (there.shape, there.scale.shape) != (weight.shape, weight.scale.shape):
                raise ValueError(f"{name} must be {weight.shape} with a scale "
                                 f"{weight.scale.shape}, got {there.shape} and "
                                 f"{there.scale.shape}.")
            if not np.isfinite(there.scale).all():
                raise ValueError(f"the scale of {name} holds NaN or infinity.")
            weight.numbers, weight.scale = there.numbers, there.scale
        check_numbers(floats)
        model.load_state_dict(floats)
    return model

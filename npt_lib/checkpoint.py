"""Models and training runs as .npz files: kind, config and vocabularies inside. Chapter 10.

Never pickle, never an import: ``load`` builds a model only of classes that are there by name.
Writing goes to a temporary file that is renamed when it is whole; reading checks everything
before it changes anything.
"""

import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, BinaryIO

import numpy as np

from npt_lib.module import Array, Module, Parameter, Rng
from npt_lib.require import FLOATS, check_path, described
from npt_lib.tokenizer import Tokenizer, from_dict

FORMAT = "npt_lib 2"
PathLike = str | os.PathLike[str]
UNFIT = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


# A model.

def save(path: PathLike, model: Module, *tokenizers: Tokenizer) -> None:
    """Write the model, its kind, its config and any tokenizers to one .npz file.

    What ``load`` could not rebuild is a ValueError: a model is Kind(config, rng), its kind and
    its config's stand at the top of a module, and model.config says all of what was built.
    """
    write_arrays(path, model_arrays(model, tokenizers))


def load(path: PathLike, build: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """The model of a file that save or train wrote, with the parameters' dtypes as they were.

    Its classes are found by name among what is imported; for others, build(config_fields) makes
    the model.
    """
    arrays = read_arrays(path)
    about, state = parse_json(path, arrays, "about"), group(arrays, "model")
    with blame(path):
        model = (build(_decoded(about["config"], _plain)) if build
                 else build_model(about, _size(state)))
        _load_parameters(model, state)
    return model


def load_tokenizers(path: PathLike) -> tuple[Tokenizer, ...]:
    """The tokenizers of a file that save wrote, in their order."""
    saved = parse_json(path, read_arrays(path), "tokenizers")
    with blame(path):
        return tuple(map(from_dict, saved))


def model_arrays(model: Module, tokenizers: tuple[Tokenizer, ...] = ()) -> dict[str, Array]:
    """All that a file holds of a model, once it is sure that load can read it."""
    about, state = check_model(model), model.state_dict()
    check_numbers(state)
    check_rebuilt(model, build_model(about, _size(state)))
    return {
        "about": np.array(json.dumps(about)),
        "tokenizers": np.array(json.dumps(described_tokenizers(tokenizers))),
        **prefixed("model", state),
    }


def check_model(model: Any) -> dict[str, Any]:
    """The model's kind and config, ready for JSON; refuses what has none."""
    if not isinstance(model, Module):
        inside = isinstance(getattr(model, "model", None), Module)
        raise ValueError(f"save needs a Module, got {described(model)}"
                         f"{': save its model, learner.model' if inside else ''}.")
    config, kind = getattr(model, "config", None), type(model).__name__
    if not is_dataclass(config) or isinstance(config, type):
        raise ValueError(f"save needs {kind}.config, a dataclass from which {kind}(config, rng) "
                         f"builds the model, got {described(config)}.")
    return {"kind": _name(type(model)), "config": _encoded("config", config)}


def described_tokenizers(tokenizers: Any) -> list[dict[str, Any]]:
    """All tokenizers as JSON holds them; refuses what load_tokenizers would not read."""
    if not isinstance(tokenizers, tuple | list):
        raise ValueError(f"tokenizers must be a tuple of Tokenizers, got {described(tokenizers)}.")
    for tokenizer in tokenizers:
        if not isinstance(tokenizer, Tokenizer):
            raise ValueError(f"tokenizers must be Tokenizers, got {described(tokenizer)}.")
    saved = [tokenizer.to_dict() for tokenizer in tokenizers]
    for tokenizer, again in zip(tokenizers, map(from_dict, json.loads(json.dumps(saved)))):
        if type(again) is not type(tokenizer) or again.tokens != tokenizer.tokens:
            raise ValueError(f"{tokenizer} cannot be read again: it would become {again}.")
    return saved


# Kinds and configs as text, and back.

def _name(kind: type) -> str:
    """The module and name under which a class is found again; refuses one that is not."""
    name = f"{kind.__module__}:{kind.__qualname__}"
    if _find(name) is not kind:
        raise ValueError(f"{kind.__qualname__} cannot be found again as {name}: define the class "
                         f"once, at the top of a module.")
    return name


def _find(name: str) -> Any:
    """What stands under this name in a module that is imported already, or None."""
    module, _, path = str(name).partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found


def _found(name: str, fits: Callable[[Any], bool], what: str) -> Any:
    kind = _find(name)
    if not isinstance(kind, type) or not fits(kind):
        how = ("it was saved by a script, under another name: pass load a build"
               if str(name).startswith("__main__:") else "import it before, or pass load a build")
        raise ValueError(f"{name} must be {what} that is imported: {how}.")
    return kind


def _encoded(name: str, value: Any) -> Any:
    """A config's value for JSON; what JSON has no word for is said by a key."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": _name(type(value)),
                "fields": {f.name: _encoded(f"{name}.{f.name}", getattr(value, f.name))
                           for f in fields(value) if f.init}}
    if isinstance(value, list | tuple):
        items = [_encoded(f"{name}[{i}]", item) for i, item in enumerate(value)]
        return {type(value).__name__: items}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encoded(f"{name}[{key!r}]", x) for key, x in value.items()}}
    raise ValueError(f"{name} must be a number, text, list, tuple, dict or dataclass to be saved, "
                     f"got {described(value)}.")


def _decoded(value: Any, make: Callable[[str, dict[str, Any]], Any]) -> Any:
    """The value that ``_encoded`` described; make(kind, fields) makes a dataclass."""
    if not isinstance(value, dict):
        return value
    if "list" in value or "tuple" in value:
        kind = list if "list" in value else tuple
        return kind(_decoded(x, make) for x in value[kind.__name__])
    fields = value["fields"] if "kind" in value else value["dict"]
    found = {name: _decoded(x, make) for name, x in fields.items()}
    return make(value["kind"], found) if "kind" in value else found


def _dataclass(kind: str, fields: dict[str, Any]) -> Any:
    return _found(kind, is_dataclass, "a dataclass")(**fields)


def _plain(kind: str, fields: dict[str, Any]) -> Any:
    return fields


# Built anew.

class _Bounded(np.random.Generator):
    """A generator for a model of so many numbers: one that draws many more has wrong sizes.

    Some more are right: a model with one table for all draws three, and keeps one.
    """

    def __init__(self, size: int):
        super().__init__(np.random.PCG64(0))
        self.size, self.left = size, 8 * size + 1_000_000

    def standard_normal(self, size: Any = None, *args: Any, **options: Any) -> Any:
        self.left -= 1 if size is None else math.prod(map(int, np.atleast_1d(size)))
        if self.left < 0:
            raise ValueError(f"the config's sizes do not fit the {self.size:,} numbers stored.")
        return super().standard_normal(size, *args, **options)


def build_model(about: Mapping[str, Any], size: int) -> Any:
    """Kind(config, rng)."""
    kind = _found(about["kind"], lambda kind: issubclass(kind, Module), "a Module")
    config = _decoded(about["config"], _dataclass)
    try:
        return kind(config, _Bounded(size))
    except (TypeError, MemoryError) as error:
        raise ValueError(f"{kind.__name__}(config, rng) must build the model: {error}") from error


def _size(state: Mapping[str, Array]) -> int:
    return sum(x.size for x in state.values())


def check_numbers(state: Mapping[str, Array]) -> None:
    for name, x in state.items():
        if x.dtype not in FLOATS:
            raise ValueError(f"{name} must be float32 or float64, got {described(x)}.")
        if not np.isfinite(x).all():
            raise ValueError(f"{name} holds NaN or infinity.")


def _load_parameters(model: Any, state: Mapping[str, Array]) -> None:
    if not isinstance(model, Module):
        raise ValueError(f"build must return a Module, got {described(model)}.")
    for name, p in model.parameters().items():
        if name in state and state[name].dtype in FLOATS:
            p.value = p.value.astype(state[name].dtype)
    model.load_state_dict(state)
    check_numbers(state)


def check_rebuilt(model: Module, again: Module) -> None:
    """The first difference that load would make, as a ValueError."""
    kind = type(model).__name__
    for path, mine, anew in _differences(kind, model, again, {}):
        raise ValueError(f"{path} is {mine}, but {kind}(config, rng) makes it {anew}, and so would "
                         "load: build the part in the config or in a subclass.")


def _differences(path: str, x: Any, y: Any, seen: dict[Any, str]) -> Iterator[tuple[str, Any, Any]]:
    """Where two trees of parts are not of the same types, shapes, sharing or plain values."""
    x, y = (v.item() if isinstance(v, np.generic) else v for v in (x, y))
    if type(x) is not type(y):
        yield path, type(x).__name__, type(y).__name__
    elif (_is_weight(x) or isinstance(x, Module)) and seen.get(id(x)) != seen.get(id(y)):
        yield path, seen.get(id(x), "its own"), seen.get(id(y), "its own")
    elif (id(x), id(y)) not in seen:
        inside = _inside(x)
        if inside is None:
            yield from () if _is_same(x, y) else [(path, _told(x), _told(y))]
            return
        seen[id(x)] = seen[id(y)] = seen[id(x), id(y)] = f"that of {path}"
        others = _inside(y) or {}
        for name in [*inside, *(others.keys() - inside.keys())]:
            here = f"{path}.{name}"
            if name in inside and name in others:
                yield from _differences(here, inside[name], others[name], seen)
            else:
                words = ("there", "missing")
                yield here, *(words if name in inside else words[::-1])


def _is_weight(x: Any) -> bool:
    """A Parameter, or what stands in its place in a model that only writes."""
    return isinstance(x, Parameter) or (
        hasattr(x, "add_grad") and not isinstance(x, Module | type))


def _inside(x: Any) -> dict[Any, Any] | None:
    """What a container or an object holds, by name; None of a plain value."""
    if isinstance(x, list | tuple):
        return dict(enumerate(x))
    if isinstance(x, dict):
        return x
    if _is_weight(x):
        return {"shape": x.shape}
    if isinstance(x, partial):
        return {"func": x.func, "args": x.args, "keywords": x.keywords}
    if isinstance(x, MethodType):
        return {"self": x.__self__, "func": x.__func__}
    if isinstance(x, FunctionType):
        cells = [cell.cell_contents for cell in x.__closure__ or ()]
        return {"code": x.__code__, "defaults": x.__defaults__, "closure": cells}
    return None if isinstance(x, type | np.ndarray) else getattr(x, "__dict__", None)


def _told(x: Any) -> str:
    return described(x) if isinstance(x, np.ndarray) else repr(x)


def _is_same(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray):
        return x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
    return isinstance(x, np.random.Generator) or x is y or bool(x == y) or bool(x != x and y != y)


# A run: everything that the next step depends on.

def save_run(
    path: PathLike, model: dict[str, Array], about: Mapping[str, Any], parts: Mapping[str, Any]
) -> None:
    """Write a model's arrays, what the run is about, and the state of each part; load reads it."""
    states = [prefixed(name, part.state_dict()) for name, part in parts.items()]
    write_arrays(path, {**model, "run": np.array(json.dumps(about)),
                        **{key: x for state in states for key, x in state.items()}})


def load_run(path: PathLike, about: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
    """Put all parts where save_run found them; nothing changes if the file does not fit."""
    arrays = read_arrays(path)
    if "run" not in arrays:
        raise ValueError(f"{path} must hold a run of train to go on with, got a model alone.")
    _check_same(path, parse_json(path, arrays, "run"), json.loads(json.dumps(about)))
    before = {name: part.state_dict() for name, part in parts.items()}
    try:
        check_numbers(group(arrays, "model"))
        for name, part in parts.items():
            part.load_state_dict(group(arrays, name))
    except UNFIT as error:
        for name, part in parts.items():
            part.load_state_dict(before[name])
        raise ValueError(f"{path}: {_said(error)}") from error


def _check_same(path: PathLike, then: Any, now: Any) -> None:
    """Refuse to go on with a run of something else; says in what it differs."""
    before, here = dict(_leaves("", then)), dict(_leaves("", now))
    names = [name for name in {**before, **here} if before.get(name) != here.get(name)]
    if names:
        told = "; ".join(f"{name.replace('.fields', '')} was {before.get(name)!r} and is "
                         f"{here.get(name)!r}" for name in names[:5])
        raise ValueError(f"{path} must hold a run of this model and optimizer: {told}.")


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}" if path else key, item)
    else:
        yield path, value


class GeneratorState:
    """A generator as a part of a run: what it will draw, as text."""

    def __init__(self, rng: Rng):
        self.rng = rng

    def state_dict(self) -> dict[str, Array]:
        state = self.rng.bit_generator.state
        return {"rng": np.array(json.dumps(state, default=lambda array: array.tolist()))}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        found = json.loads(str(state["rng"]))
        got, own = found["bit_generator"], self.rng.bit_generator.state["bit_generator"]
        if got != own:
            raise ValueError(f"The checkpoint's generator is {got}, but the one passed is {own}.")
        self.rng.bit_generator.state = found


# Files.

def prefixed(name: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {f"{name}/{key}": array for key, array in arrays.items()}


def group(arrays: Mapping[str, Array], name: str) -> dict[str, Array]:
    """The arrays whose names start with ``name/``, without that."""
    start = name + "/"
    return {key.removeprefix(start): x for key, x in arrays.items() if key.startswith(start)}


def write_arrays(path: PathLike, arrays: Mapping[str, Array]) -> None:
    """An .npz file of ours, whole or not at all."""
    if wrong := [name for name in arrays if name.endswith(".npy")]:
        raise ValueError(f"no name may end in .npy, which .npz files leave out: got {wrong[0]}.")
    with written_whole(path) as file:
        np.savez(file, format=np.array(FORMAT), **dict(arrays))    # type: ignore[arg-type]


@contextmanager
def written_whole(path: PathLike) -> Iterator[BinaryIO]:
    """A file to write to: all or nothing, an interruption leaves the old one as it was."""
    path = os.path.realpath(check_path(path))               # where a link leads
    with beside(path) as folder:
        temporary = folder / "whole"
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


@contextmanager
def beside(path: PathLike) -> Iterator[Path]:
    """A temporary folder next to a file that is to be written, of a name that nobody else has."""
    path = check_path(path)
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"{path} must be a file in a folder that exists: "
                         f"{path if path.is_dir() else path.parent} is "
                         f"{'a folder' if path.is_dir() else 'none'}.")
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.", suffix=".part",
                                     dir=path.parent) as folder:
        yield Path(folder)


def read_arrays(path: PathLike) -> dict[str, Array]:
    """Every array of the file, or a ValueError that says what is wrong with it."""
    path = check_path(path)
    try:
        with open(path, "rb") as file:
            found = np.load(file, allow_pickle=False)
            arrays = dict(found) if isinstance(found, np.lib.npyio.NpzFile) else {}
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:                    # a damaged file may fail in any way
        words = str(error).rstrip(".")
        raise ValueError(f"{path} is damaged or no .npz file: {words}.") from error
    got = str(arrays["format"]) if "format" in arrays else None
    if got != FORMAT:
        raise ValueError(f"{path} must be a checkpoint of format {FORMAT!r}, got {got!r}.")
    return arrays


def parse_json(path: PathLike, arrays: Mapping[str, Array], name: str) -> Any:
    if name not in arrays:
        raise ValueError(f"{path} must hold {name!r}, got {sorted(arrays)[:5]}.")
    with blame(path):
        return json.loads(str(arrays[name]))


@contextmanager
def blame(path: PathLike) -> Iterator[None]:
    """Put the file's name in front of what is wrong with it."""
    try:
        yield
    except UNFIT as error:
        raise ValueError(f"{path}: {_said(error)}") from error


def _said(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)

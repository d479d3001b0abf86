"""Models and training runs as .npz files: config and vocabularies inside, never pickle. Chapter 10.

Writing goes to a temporary file that is renamed when it is whole; reading checks everything
before it changes anything.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from npt_lib.config import Config
from npt_lib.module import Array
from npt_lib.tokenizer import Tokenizer, from_dict
from npt_lib.transformer import Transformer

FORMAT = "npt_lib 1"
PathLike = str | os.PathLike[str]


def save(
    path: PathLike,
    model: Transformer,
    src_tokenizer: Tokenizer | None = None,
    tgt_tokenizer: Tokenizer | None = None,
) -> None:
    """Write the model, its config and, if given, both vocabularies to one .npz file."""
    write_arrays(path, model_arrays(model, src_tokenizer, tgt_tokenizer))


def load(path: PathLike) -> Transformer:
    """The model of a file that save or train wrote, with the parameters' dtype as it was."""
    arrays = read_arrays(path)
    sizes, state = _parse(path, arrays, "config"), group(arrays, "model")
    with _blame(path):
        config = Config(**sizes)
    model = Transformer(config, np.random.default_rng(0))     # every number is replaced below
    dtypes = [x.dtype for x in state.values() if x.dtype.kind == "f"]
    with _blame(path):
        model = model.astype(dtypes[0]) if dtypes else model
        model.load_state_dict(state)
    return model


def load_tokenizers(path: PathLike) -> tuple[Tokenizer | None, Tokenizer | None]:
    """The source's and the target's tokenizer of a file that save wrote."""
    saved = _parse(path, read_arrays(path), "tokenizers")
    with _blame(path):
        src, tgt = saved
        return src and from_dict(src), tgt and from_dict(tgt)


def model_arrays(
    model: Transformer, src_tokenizer: Tokenizer | None, tgt_tokenizer: Tokenizer | None
) -> dict[str, Array]:
    """All that a file holds of a model: config, vocabularies and every parameter."""
    tokenizers = [t and t.to_dict() for t in (src_tokenizer, tgt_tokenizer)]
    return {
        "config": np.array(json.dumps(asdict(model.config))),
        "tokenizers": np.array(json.dumps(tokenizers)),
        **prefixed("model", model.state_dict()),
    }


def prefixed(name: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {f"{name}/{key}": array for key, array in arrays.items()}


def group(arrays: Mapping[str, Array], name: str) -> dict[str, Array]:
    """The arrays whose names start with ``name/``, without that."""
    start = name + "/"
    return {key.removeprefix(start): x for key, x in arrays.items() if key.startswith(start)}


def write_arrays(path: PathLike, arrays: Mapping[str, Array]) -> None:
    """All or nothing: an interruption leaves the old file as it was."""
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            np.savez(file, format=np.array(FORMAT), **dict(arrays))    # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_arrays(path: PathLike) -> dict[str, Array]:
    """Every array of the file, or a ValueError that says what is wrong with it."""
    try:
        with open(path, "rb") as file:
            found = np.load(file, allow_pickle=False)
            arrays = dict(found) if isinstance(found, np.lib.npyio.NpzFile) else {}
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as error:                    # a damaged file may fail in any way
        raise ValueError(f"{path} is damaged or no .npz file: {error}") from error
    got = str(arrays["format"]) if "format" in arrays else None
    if got != FORMAT:
        raise ValueError(f"{path} must be a checkpoint of format {FORMAT!r}, got {got!r}.")
    return arrays


def _parse(path: PathLike, arrays: Mapping[str, Array], name: str) -> Any:
    if name not in arrays:
        raise ValueError(f"{path} must hold {name!r}, got {sorted(arrays)[:5]}.")
    with _blame(path):
        return json.loads(str(arrays[name]))


@contextmanager
def _blame(path: PathLike) -> Iterator[None]:
    """Put the file's name in front of what is wrong with it."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}: {error}") from error

"""Looking inside: what a forward pass remembered, found through its backward."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from npt_lib.layers import softmax
from npt_lib.module import Array, Backward, saved


def attention_maps(backward: Backward) -> dict[str, Array]:
    """Every attention's weights (B, H, T, S), by name, such as ``decoder.0.cross``.

    backward is what the forward of a model, stack, block or layer returned. The names come
    from the closures themselves: ``attn_backward`` is ``attn``, the blocks are numbered.
    """
    return dict(_find(backward, ()))


def _find(backward: Backward, path: tuple[str, ...]) -> Iterator[tuple[str, Array]]:
    inside = saved(backward)
    if backward.__qualname__ == "whole.<locals>.backward":
        yield ".".join(path) or "attention", inside["w"]
    elif backward.__qualname__ == "by_rows.<locals>.backward":
        yield ".".join(path) or "attention", _weights(**saved(inside["weigh"]))
    for name, value in inside.items():
        for step, deeper in _backwards(name, value):
            yield from _find(deeper, path + step)


def _weights(q: Array, k: Array, masks: Array | None, **others: Any) -> Array:
    """Those that attention by rows did not keep."""
    w, _ = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.dtype.type(q.shape[-1])), masks)
    return w


def _backwards(name: str, value: Any) -> Iterator[tuple[tuple[str, ...], Backward]]:
    """The backward functions in one remembered value, each with its part of the path."""
    step = name.removesuffix("_backward")
    if name.endswith("_backward") and hasattr(value, "__closure__"):
        yield (() if step in SILENT else (step,)), value
    elif name == "block_backwards":
        yield from (((str(i),), undo) for i, undo in enumerate(value))


SILENT = {"attention", "encode", "decode"}        # steps of the code that are no part of the model

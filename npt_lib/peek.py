"""Looking inside: what a forward pass remembered, found through its backward."""

from collections.abc import Iterator
from typing import Any

from npt_lib.module import Array, Backward, saved


def attention_maps(backward: Backward) -> dict[str, Array]:
    """Every attention's weights (B, H, T, S), by name, such as ``decoder.0.cross``.

    backward is what the forward of a model, stack, block or layer returned. The names come
    from the closures themselves: ``attn_backward`` is ``attn``, the blocks are numbered.
    """
    return dict(_find(backward, ()))


def _find(backward: Backward, path: tuple[str, ...]) -> Iterator[tuple[str, Array]]:
    inside = saved(backward)
    if backward.__qualname__ == "attention.<locals>.backward":
        yield ".".join(path) or "attention", inside["w"]
    for name, value in inside.items():
        for step, deeper in _backwards(name, value):
            yield from _find(deeper, path + step)


def _backwards(name: str, value: Any) -> Iterator[tuple[tuple[str, ...], Backward]]:
    """The backward functions in one remembered value, each with its part of the path."""
    step = name.removesuffix("_backward")
    if name.endswith("_backward") and hasattr(value, "__closure__"):
        yield (() if step in SILENT else (step,)), value
    elif name == "block_backwards":
        yield from (((str(i),), undo) for i, undo in enumerate(value))


SILENT = {"attention", "encode", "decode"}        # steps of the code that are no part of the model

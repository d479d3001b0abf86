"""How many bytes one encoder block moves, forwards and backwards, and which of them it must.

    python -m benchmarks.passes            the table of benchmarks/passes.md

An array that watches itself goes through the block: each operation on it reads its arguments and
writes its result, and both are counted. The matrix products must read and write their own
matrices; whatever else is a pass over memory that a compiler which joins passes could save.
Nothing is timed: the counts are the same on every machine.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import npt_lib as npt
from benchmarks.work import SIZES, Array, Size
from npt_lib import long_attention, module, optim, require

PRODUCTS = (np.matmul, np.vecdot)
MAKERS = ("empty", "zeros", "ones", "empty_like", "zeros_like")
Counts = dict[str, list[int]]          # bytes of products and of other passes, by part


class Watched(np.ndarray):
    """An array whose operations are counted."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.get("out", ())
        options["out"] = tuple(plain(x) for x in out)
        if not out:
            del options["out"]
        result = getattr(ufunc, method)(*map(plain, inputs), **options)
        written = out[0] if out else watched(result)
        note(method == "__call__" and is_product(ufunc, inputs), *inputs, written)
        return written

    def __setitem__(self, key: Any, value: Any) -> None:
        plain(self)[key] = plain(value)
        note(False, value, plain(self)[key])

    def astype(self, *args: Any, **options: Any) -> Any:
        return self._moved(plain(self).astype(*args, **options))

    def copy(self, order: Any = "C") -> Any:
        return self._moved(plain(self).copy(order))

    def reshape(self, *shape: Any) -> Any:
        """Counted only where the numbers must be moved for it."""
        return self._moved(plain(self).reshape(*shape))

    def _moved(self, result: Array) -> Any:
        if not np.shares_memory(plain(self), result):
            note(False, self, result)
        return watched(result)


def plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Watched) else x


def watched(x: Any) -> Any:
    return x.view(Watched) if type(x) is np.ndarray else x


def is_product(ufunc: Any, inputs: tuple[Any, ...]) -> bool:
    """A product of two matrices; a product with ones or of rows is a sum, one more pass."""
    return ufunc is np.matmul and all(np.ndim(x) > 1 and 1 not in np.shape(x)[-2:] for x in inputs)


COUNTED: list[tuple[bool, int]] = []


def note(product: bool, *arrays: Any) -> None:
    COUNTED.append((product, sum(size(x) for x in arrays)))


def size(x: Any) -> int:
    """The bytes behind an array: a number that is repeated along an axis is read once."""
    if not isinstance(x, np.ndarray):
        return 0
    kept = [n for n, step in zip(x.shape, x.strides, strict=True) if step]
    return int(np.prod(kept, dtype=int)) * x.itemsize


@contextmanager
def watching() -> Iterator[None]:
    """The library takes watched arrays for plain ones, and those that it makes are watched."""
    makers = {name: getattr(np, name) for name in MAKERS}
    is_array = {"is_plain": lambda x: isinstance(x, np.ndarray)}
    with (mock.patch.multiple(np, **{name: made(make) for name, make in makers.items()}),
          mock.patch.multiple(require, **is_array), mock.patch.multiple(module, **is_array),
          mock.patch.multiple(optim, **is_array), mock.patch.multiple(long_attention, **is_array)):
        yield


def made(make: Callable[..., Array]) -> Callable[..., Any]:
    return lambda *args, **options: watched(make(*args, **options))


def counts(layer: Any, *inputs: Array) -> tuple[list[int], list[int]]:
    """(bytes of products, bytes of other passes), of the forward and of the backward."""
    with watching():
        for parameter in parameters(layer):
            parameter.value, parameter.grad = watched(parameter.value), None
        COUNTED.clear()
        y, backward = (layer.forward if hasattr(layer, "forward") else layer)(*map(watched, inputs))
        forward = totals()
        dy = watched(np.ones(y.shape, y.dtype))
        COUNTED.clear()
        backward(dy)
        return forward, totals()


def parameters(layer: Any) -> list[Any]:
    return list(layer.parameters().values()) if hasattr(layer, "parameters") else []


def totals() -> list[int]:
    by_kind: dict[bool, int] = defaultdict(int)
    for product, n in COUNTED:
        by_kind[product] += n
    return [by_kind[True], by_kind[False]]


def parts(size: Size) -> dict[str, tuple[list[int], list[int]]]:
    """The counts of each part of an encoder block at this size; the last row is the block."""
    rng = np.random.default_rng(0)
    D, H = size.d_model, size.n_heads
    config = npt.Config(size.n_vocab, size.n_vocab, D, H, size.d_ff, 1, 0.0)
    block = npt.EncoderBlock(config, rng)
    x = rng.standard_normal((size.batch, size.n_src, D), dtype=np.float32)
    h = rng.standard_normal((size.batch, size.n_src, size.d_ff), dtype=np.float32)
    q = rng.standard_normal((size.batch, H, size.n_src, D // H), dtype=np.float32)
    found = {
        "queries, keys, values: a linear layer": counts(block.attn.qkv, x),
        "attention between them": counts(npt.attention, q, q, q),
        "output of attention: a linear layer": counts(block.attn.out, x),
        "norm, twice": twice(counts(block.norm1, x)),
        "up: a linear layer": counts(block.ffn.up, x),
        "ReLU": counts(npt.relu, h),
        "down: a linear layer": counts(block.ffn.down, h),
    }
    whole = counts(block, x)
    found["heads put side by side, sums with the residual"] = rest(whole, found)
    return {**found, "the block": whole}


def twice(both: tuple[list[int], list[int]]) -> tuple[list[int], list[int]]:
    forward, backward = ([2 * n for n in way] for way in both)
    return forward, backward


def rest(whole: tuple[list[int], list[int]], found: dict[str, Any]) -> tuple[list[int], list[int]]:
    forward, backward = ([total - sum(part[way][kind] for part in found.values())
                          for kind, total in enumerate(whole[way])] for way in range(2))
    return forward, backward


def report() -> str:
    """The Markdown of all sizes: bytes as multiples of the block's input x."""
    return HEAD + "\n".join(table(name, SIZES[name]) for name in ("SMALL", "BASE"))


HEAD = """# The passes over memory of one encoder block

Made by `python -m benchmarks.passes`, which counts and times nothing. Each number says how often
as many bytes are read or written as the block's input holds. *Products* is what the matrix
products themselves must read and write: the least possible, if a compiler did all else on the way.
*Others* is everything else: biases, softmax, ReLU, norm, sums, copies.
"""


def table(name: str, size: Size) -> str:
    unit = 4 * size.batch * size.n_src * size.d_model
    lines = [f"\n## {name}: x is {size.batch} × {size.n_src} × {size.d_model}\n",
             "| part | products, forward | others | products, backward | others |",
             "| --- | ---: | ---: | ---: | ---: |"]
    for part, (forward, backward) in parts(size).items():
        cells = (f"{n / unit:.1f}" for n in (*forward, *backward))
        lines.append(f"| {part} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    out = Path(__file__).with_name("passes.md")
    out.write_text(report(), "utf8")
    print(out.read_text("utf8"))

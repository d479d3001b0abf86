"""Attention for long texts: tiles of queries and keys, patterns of who sees whom. Chapter 13.

A pattern is an object with one method, ``sees(rows, keys)``: of these queries, which
see which of these keys? It is asked for a tile at a time, so no table of all pairs is ever made.

``attention`` goes this way from about a thousand positions on. Before, it took a few queries with
all keys at a time: without a mask as fast (tiles of 256 by 512 took 0.98 to 1.00 of its time, 1,024
to 4,096 positions, one core), under a causal one slower (tiles take half to two thirds of its time:
half are left out).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from npt_lib.layers import row_sum
from npt_lib.module import Array, Backward
from npt_lib.parallel.threads import each
from npt_lib.require import check_attention, check_count, check_flag, check_has, described, is_plain

TILE = 512, 256                # queries and keys, so that a tile of scores stays in a core's cache
Seen = bool | Array            # everything, nothing, or a boolean table (queries, keys)


class Pattern(Protocol):
    """Which positions see which. rows and keys are ranges of positions, such as range(64, 128)."""

    def sees(self, rows: range, keys: range) -> Seen:
        """True for all of them, False for none, or a boolean array (len(rows), len(keys))."""
        ...


@dataclass(frozen=True)
class Causal:
    """Each position sees itself and all before it."""

    def sees(self, rows: range, keys: range) -> Seen:
        """True if all of these queries see all of these keys, False if none; else a table."""
        return _band(rows, keys, 0, math.inf)


@dataclass(frozen=True)
class Window:
    """Each position sees itself and the ``width - 1`` before it.

    causal=False: also the ``width - 1`` that follow it.
    """

    width: int
    causal: bool = True

    def __post_init__(self) -> None:
        _set(self, width=check_count("width", self.width), causal=check_flag("causal", self.causal))

    def sees(self, rows: range, keys: range) -> Seen:
        """As ``Causal.sees``."""
        return _band(rows, keys, 0 if self.causal else 1 - self.width, self.width)


@dataclass(frozen=True)
class BlockSparse:
    """Positions in blocks of ``size``: each sees its block, the ``near - 1`` before, and posts.

    Posts are block 0, block ``every``, block 2 * ``every`` and so on. causal=False: also the
    ``near - 1`` blocks and the posts that follow.
    """

    size: int
    every: int
    near: int = 2
    causal: bool = True

    def __post_init__(self) -> None:
        for name in ("size", "every", "near"):
            _set(self, **{name: check_count(name, getattr(self, name))})
        _set(self, causal=check_flag("causal", self.causal))

    def sees(self, rows: range, keys: range) -> Seen:
        """As ``Causal.sees``."""
        past = Causal().sees(rows, keys) if self.causal else True
        i, j = self._blocks(rows), self._blocks(keys)
        if past is False or len(i) == len(j) == 1:                # nearly always, and quick
            return past if self._open(i[0], j[0]) else False
        table = np.array([[self._open(a, b) for b in j] for a in i])          # (blocks, blocks)
        return _both(table[np.array(rows)[:, None] // self.size - i[0],
                           np.array(keys) // self.size - j[0]], past)

    def _open(self, i: int, j: int) -> bool:
        """Whether block i looks at block j, as far as it is past."""
        return abs(i - j) < self.near or j % self.every == 0

    def _blocks(self, positions: range) -> range:
        return range(positions[0] // self.size, positions[-1] // self.size + 1)


def attention_in_tiles(
    q: Array, k: Array, v: Array, mask: Array | None = None, pattern: Pattern | None = None,
    tile: tuple[int, int] | None = None,
) -> tuple[Array, Backward]:
    """Attention whose memory grows with the length, not with its square: the scores of one tile
    of queries and keys at a time, by the online softmax, and none of them kept. (The list of tiles
    can grow with the square, but it is tiny.)

    Shapes and mask as in ``attention``. pattern says who sees whom as well; of T queries and S
    keys, the queries are the last T positions. A tile in which nobody sees anybody is left out.
    Backward: computes each tile again; returns dq, dk, dv. Derived in chapter 13.
    """
    check_attention(q, k, v, mask)
    if pattern is not None:
        check_pattern(pattern)
    S, scale = k.shape[-2], 1 / math.sqrt(q.shape[-1])
    plan = list(_plan(q.shape[-2], S, pattern, tile))
    tables = list(np.ndindex(q.shape[:-2]))               # each batch row and head
    masks = None if mask is None else np.broadcast_to(mask, (*q.shape[:-1], S))
    dtype = np.result_type(q, k, v)
    lowest = np.finfo(dtype).min
    y = np.empty((*q.shape[:-1], v.shape[-1]), dtype)
    log_total = np.empty((*q.shape[:-1], 1), dtype)       # of each query's exp(scores)

    def tiles(t: tuple[int, ...], rows: slice, columns: list[slice]) -> Iterator[tuple[slice, Any]]:
        """The scores of these queries, tile by tile of keys; -inf where a key is hidden."""
        qs = q[t][rows] * scale
        for keys in columns:
            seen = _seen(pattern, S - q.shape[-2], rows, keys)
            if masks is not None:
                seen = _both(masks[t][rows, keys], seen)
            if seen is not False:
                scores = qs @ k[t][keys].T
                if seen is not True:
                    np.copyto(scores, -np.inf, where=~seen)
                yield keys, scores

    def table_forward(t: tuple[int, ...]) -> None:
        for rows, columns in plan:
            n = rows.stop - rows.start
            top, total = np.full((n, 1), lowest, dtype), np.zeros((n, 1), dtype)
            mix = np.zeros((n, v.shape[-1]), dtype)
            for keys, scores in tiles(t, rows, columns):
                higher = np.maximum(top, scores.max(axis=-1, keepdims=True))
                shrink = np.exp(top - higher)             # the factor of all that is old
                top = higher
                scores -= top
                e = np.exp(scores, out=scores)
                total = total * shrink + row_sum(e)
                mix *= shrink
                mix += e @ v[t][keys]
            total += total == 0                           # a query that saw nothing
            y[t][rows] = mix / total
            log_total[t][rows] = top + np.log(total)

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        dq, dk, dv = (np.zeros(x.shape, dtype) for x in (q, k, v))

        def table_backward(t: tuple[int, ...]) -> None:
            for rows, columns in plan:
                dys = dy[t][rows]
                sums = np.vecdot(dys, y[t][rows])[:, None]            # of dw * w
                for keys, scores in tiles(t, rows, columns):
                    scores -= log_total[t][rows]
                    w = np.exp(scores, out=scores)
                    dv[t][keys] += w.T @ dys
                    dscores = dys @ v[t][keys].T
                    dscores -= sums
                    dscores *= w
                    dk[t][keys] += dscores.T @ q[t][rows]
                    dq[t][rows] += dscores @ k[t][keys]
            dk[t] *= scale
            dq[t] *= scale

        each(table_backward, tables)
        return dq, dk, dv

    each(table_forward, tables)
    return y, backward


def pattern_table(pattern: Pattern | None, n_rows: int, n_keys: int) -> Array:
    """Who sees whom as one boolean table (n_rows, n_keys): the queries are the last positions."""
    table = np.empty((n_rows, n_keys), bool)
    table[:] = _seen(pattern, n_keys - n_rows, slice(0, n_rows), slice(0, n_keys))
    return table


def causal_view(n_rows: int, n_keys: int) -> Array:
    """The past of the last n_rows of n_keys positions, (n_rows, n_keys), True = may attend.

    What causal_mask says, but read-only, and a view of n_rows + n_keys - 1 numbers.
    """
    line = np.arange(1 - n_rows, n_keys) <= n_keys - n_rows
    return np.lib.stride_tricks.sliding_window_view(line, n_keys)[::-1]


def check_pattern(pattern: Any) -> None:
    """Refuse what cannot say who sees whom."""
    check_has("pattern", pattern, ("sees",))


def _check_tile(tile: Any) -> tuple[int, int]:
    if not isinstance(tile, tuple | list) or len(tile) != 2:
        raise ValueError(f"tile must be two whole numbers, queries and keys, got {tile!r}.")
    return check_count("tile", tile[0]), check_count("tile", tile[1])


def _plan(
    T: int, S: int, pattern: Pattern | None, tile: tuple[int, int] | None
) -> Iterator[tuple[slice, list[slice]]]:
    """Each tile of queries with the tiles of keys of which it sees any."""
    high, wide = _good_tile(pattern) if tile is None else _check_tile(tile)
    for i in range(0, T, high):
        rows = slice(i, min(i + high, T))
        columns = [slice(j, min(j + wide, S)) for j in range(0, S, wide)]
        yield rows, [keys for keys in columns if _seen(pattern, S - T, rows, keys) is not False]


def _good_tile(pattern: Pattern | None) -> tuple[int, int]:
    """Small enough that little is computed in vain, large enough that NumPy is worth its calls."""
    if isinstance(pattern, Window):
        side = min(max(pattern.width, 128), 256)
        return side, side
    if isinstance(pattern, BlockSparse):
        side = pattern.size * -(-64 // pattern.size)
        return side, side
    return (256, 256) if isinstance(pattern, Causal) else TILE


def _seen(pattern: Pattern | None, start: int, rows: slice, keys: slice) -> Seen:
    """What a pattern says of one tile; start is the first query's position."""
    if pattern is None or rows.start == rows.stop:
        return True
    seen = pattern.sees(range(rows.start + start, rows.stop + start), range(keys.start, keys.stop))
    if isinstance(seen, bool):
        return seen
    shape = rows.stop - rows.start, keys.stop - keys.start
    if not is_plain(seen) or seen.dtype != bool or seen.shape != shape:
        raise ValueError(f"{pattern!r}.sees must return True, False or a boolean array {shape}, "
                         f"got {described(seen)}.")
    return seen


def _both(seen: Array, other: Seen) -> Seen:
    """What both let through."""
    if other is False or not seen.any():
        return False
    if seen.all():
        return other
    return seen if other is True else seen & other


def _band(rows: range, keys: range, low: float, high: float) -> Seen:
    """Who sees whom where a key lies at least low and less than high positions back."""
    least, most = rows[0] - keys[-1], rows[-1] - keys[0]
    if most < low or least >= high:
        return False
    if least >= low and most < high:
        return True
    back = np.arange(rows.start, rows.stop)[:, None] - np.arange(keys.start, keys.stop)
    return (back >= low) & (back < high)


def _set(frozen: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(frozen, name, value)

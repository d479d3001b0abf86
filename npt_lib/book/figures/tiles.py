"""Attention in tiles: which tile of the table is read, and what is known of each query then."""

from collections.abc import Sequence

import numpy as np

from .arrays import matrix, row
from .svg import Picture, fixed

NOT_YET, HIDDEN, READ, NOW = -1, 2, 0, 1      # groups of matrix: their colours


def tile_walk(scores, seen, tile: int, n: int, words: Sequence[str]) -> tuple[Picture, str]:
    """The table of scores (T, T) after n tiles, a row of tiles at a time, and a caption.

    seen is boolean, (T, T). Beside the table: each query's largest score so far, and the total
    of exp(score - largest).
    """
    scores, seen = np.asarray(scores, float), np.asarray(seen, bool)
    corners = [(i, j) for i in range(0, len(scores), tile) for j in range(0, len(scores), tile)]
    groups = np.full(scores.shape, NOT_YET)
    for i, j in corners[:n]:
        place = slice(i, i + tile), slice(j, j + tile)
        last = (i, j) == corners[n - 1] and seen[place].any()
        groups[place] = np.where(seen[place], NOW if last else READ, NOT_YET)
    read = groups >= 0
    known = np.where(read, scores, -np.inf)
    top = known.max(axis=1)                               # -inf: nothing is read
    total = np.exp(known - np.where(np.isfinite(top), top, 0)[:, None]).sum(axis=1)
    state = np.stack([top, total], axis=1)
    caption = _caption(corners, seen, tile, n, words)
    alt = f"{caption} " + "; ".join(
        f"{word}: largest {fixed(float(a), 1)}, total {fixed(float(b), 2)}"
        for word, (a, b) in zip(words, state, strict=True) if np.isfinite(a))
    shown = np.where(seen, scores, np.nan)
    table = matrix(shown, alt, rows=words, cols=words, digits=1, groups=groups)
    beside = matrix(state, alt, cols=["largest", "total"], digits=2,
                    groups=np.full(state.shape, NOT_YET))
    return row(table, beside, alt=alt), caption


def _caption(corners, seen, tile: int, n: int, words: Sequence[str]) -> str:
    if n == 0:
        return "Nothing is read yet."
    i, j = corners[n - 1]
    queries, keys = " ".join(words[i:i + tile]), " ".join(words[j:j + tile])
    if not seen[i:i + tile, j:j + tile].any():
        return f"Tile {n}: {queries} may not look at {keys}. The tile is left out."
    return f"Tile {n}: {queries} meet {keys}."

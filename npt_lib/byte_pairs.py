"""A tokenizer that learns its tokens: pairs of bytes, joined again. Chapter 11."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Self

from npt_lib.require import check_count, check_rows
from npt_lib.tokenizer import SPECIAL, Tokenizer, check_texts

FIRST = len(SPECIAL)                   # the id of byte 0
N_BYTES = 256
# a word with the space before it, a number, a run of signs, a run of spaces: no token crosses these
PIECES = re.compile(r" ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
Pair = tuple[int, int]


class BytePairTokenizer(Tokenizer):
    """Tokens are bytes, and pairs of tokens that were often neighbours in the text it learned from.

    merges: the pairs of ids that were joined, in order; the first makes token 3 + 256.
    Any text can be encoded, and decode(encode(text)) is the text, letter by letter.
    """

    kind = "byte pair"
    words: re.Pattern[str] = PIECES                          # no token crosses its matches

    def __init__(self, merges: Iterable[Pair] = ()):
        self.merges = [_pair(pair, FIRST + N_BYTES + n)
                       for n, pair in enumerate(check_rows("merges", merges, "pairs of ids"))]
        self.ranks = {pair: FIRST + N_BYTES + n for n, pair in enumerate(self.merges)}
        if len(self.ranks) < len(self.merges):
            raise ValueError("merges must be different pairs, got one twice.")
        self.pieces = [b""] * FIRST + [bytes([b]) for b in range(N_BYTES)]
        for a, b in self.merges:
            self.pieces.append(self.pieces[a] + self.pieces[b])
        self.tokens = SPECIAL + [shown(piece) for piece in self.pieces[FIRST:]]
        self._known: dict[str, list[int]] = {}

    @classmethod
    def from_texts(cls, texts: Iterable[str], n_merges: int = 768) -> Self:
        """Join the most frequent pair of neighbours, n_merges times; of equals, the lowest ids.

        Fewer merges where no pair is left that occurs twice.
        """
        counts: Counter[str] = Counter()
        for text in check_texts(texts):
            counts.update(cls.words.findall(text))
        return cls(learn(counts, check_count("n_merges", n_merges, 0)))

    def ids_of(self, text: str) -> list[int]:
        return [i for word in self.words.findall(text) for i in self._word(word)]

    def split(self, text: str) -> list[str]:
        """The tokens of a text, as ``tokens`` spells them: to look at."""
        return [self.tokens[i] for i in self.encode(text)]

    def _word(self, word: str) -> list[int]:
        """The ids of one word, joined in the order in which the pairs were learned."""
        ids = self._known.get(word)
        if ids is None:
            ids = to_bytes(word)
            while len(ids) > 1:
                pairs = list(pairwise(ids))
                first = min(pairs, key=lambda pair: self.ranks.get(pair, len(self)))
                if first not in self.ranks:
                    break
                ids = join(ids, first, self.ranks[first])
            self._known[word] = ids
        return ids

    def text_of(self, ids: list[int]) -> str:
        """The text of these ids; a letter cut short becomes a question mark in a diamond."""
        joined = b"".join(self.pieces[i] for i in ids)
        try:
            return joined.decode("utf8", "surrogatepass")
        except UnicodeDecodeError:
            return joined.decode("utf8", "replace")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "merges": self.merges}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        return cls(saved["merges"])


def to_bytes(word: str) -> list[int]:
    """The ids of a word's bytes."""
    return [FIRST + b for b in word.encode("utf8", errors="surrogatepass")]


def join(ids: list[int], pair: Pair, new: int) -> list[int]:
    """The ids with every occurrence of the pair replaced by one new id, from the left."""
    a, b = pair
    out, i = [], 0
    while i < len(ids):
        if ids[i] == a and i + 1 < len(ids) and ids[i + 1] == b:
            out.append(new)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


def learn(counts: dict[str, int], n_merges: int) -> list[Pair]:
    """The merges for words that occur so often; only words with the joined pair are recounted."""
    words = [to_bytes(word) for word in counts]
    times = list(counts.values())
    total: Counter[Pair] = Counter()
    where: defaultdict[Pair, set[int]] = defaultdict(set)
    for n, ids in enumerate(words):
        for pair in pairwise(ids):
            total[pair] += times[n]
            where[pair].add(n)
    merges: list[Pair] = []
    while len(merges) < n_merges and total:
        best = min(total, key=lambda pair: (-total[pair], pair))
        if total[best] < 2:
            break
        merges.append(best)
        new = FIRST + N_BYTES + len(merges) - 1
        for n in where.pop(best):
            before, after = words[n], join(words[n], best, new)
            words[n] = after
            for pair in pairwise(before):
                total[pair] -= times[n]
            for pair in pairwise(after):
                total[pair] += times[n]
                where[pair].add(n)
        total = +total if len(merges) % 64 == 0 else total    # those at 0 are dropped
        total.pop(best, None)
    return merges


def shown(piece: bytes) -> str:
    """A token for the eye: its letters, or the bytes of a part of a letter."""
    try:
        return piece.decode("utf8")
    except UnicodeDecodeError:
        return "".join(f"\\x{b:02x}" for b in piece)


def _pair(pair: Any, n_known: int) -> Pair:
    """Two ids of tokens that exist when the pair is joined."""
    ids = tuple(check_count("an id of a merge", i, FIRST)
                for i in check_rows("a merge", pair, "two ids"))
    if len(ids) != 2 or max(ids) >= n_known:
        raise ValueError(f"merge {n_known - FIRST - N_BYTES} needs two ids below {n_known}, "
                         f"got {ids}.")
    return ids

"""The package tokenizers, given our merges, cuts every text as we do."""

import pytest

import npt_lib as npt
from npt_lib.byte_pairs import FIRST, PIECES
from npt_lib.tasks import numpy_documentation

tokenizers = pytest.importorskip("tokenizers")


def theirs(ours):
    """A byte-level BPE of the package tokenizers with our vocabulary and merges."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    letters = letter_of_byte(byte_level)

    def spelled(piece):
        return "".join(letters[b] for b in piece)

    vocabulary = {spelled(piece): i for i, piece in enumerate(ours.pieces) if i >= FIRST}
    merges = [(spelled(ours.pieces[a]), spelled(ours.pieces[b])) for a, b in ours.merges]
    made = Tokenizer(models.BPE(vocabulary, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PIECES.pattern), "isolated"), byte_level])
    return made


def letter_of_byte(byte_level):
    """GPT-2's letter for each byte: printable ones stand for themselves."""
    itself = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1),
              *range(ord("®"), ord("ÿ") + 1)]
    others = [b for b in range(256) if b not in itself]
    letters = {b: chr(b) for b in itself} | {b: chr(256 + n) for n, b in enumerate(others)}
    assert set(letters.values()) == set(byte_level.alphabet())
    return letters


def test_every_docstring_is_cut_alike():
    texts = numpy_documentation()
    ours = npt.BytePairTokenizer.from_texts(texts.train, 768)
    judge = theirs(ours)
    strange = ["naïve café, 日本語 🙂", "a  b   c\n\n\td", "_x__y_ 12.5e-3", "  "]
    for text in [*texts.test, *texts.train[::5], *strange]:
        assert ours.encode(text) == judge.encode(text).ids, text[:80]

"""The tokenizer that learns its tokens: by hand, against a plain search, without loss."""

from itertools import pairwise

import numpy as np
import pytest

import npt_lib as npt
from npt_lib.byte_pairs import FIRST, N_BYTES, PIECES, learn
from npt_lib.tasks import numpy_documentation

NEW = FIRST + N_BYTES
STRANGE = ["", " ", "\n\n  \t", "naïve café", "e\u0301 is two letters", "日本語, 한국어",
           "🙂🙂 \U0001f469\u200d\U0001f680",
           "<eos> is not special here", "a\x00b", "\ud800 alone", "x" * 300,
           "_under__score_ 12.5e-3\r\n"]


def ids_of(word):
    return [FIRST + b for b in word.encode()]


def test_a_text_on_paper():
    """The pair that occurs most comes first: l and o, five times; then lo and w."""
    tokenizer = npt.BytePairTokenizer.from_texts(["low low low lower lowest"], 4)
    joined = [b.decode() for b in tokenizer.pieces[NEW:]]
    assert joined == ["lo", "low", " low", " lowe"]
    assert tokenizer.split("low lowest") == ["low", " lowe", "s", "t"]


def plainly(counts, n_merges):
    """What learn does, by counting everything anew for each merge."""
    words = {word: ids_of(word) for word in counts}
    merges = []
    for n in range(n_merges):
        total = {}
        for word, ids in words.items():
            for pair in pairwise(ids):
                total[pair] = total.get(pair, 0) + counts[word]
        best = min(total, key=lambda pair: (-total[pair], pair), default=None)
        if best is None or total[best] < 2:
            break
        merges.append(best)
        for word, ids in words.items():
            out = []
            while ids:
                width = 2 if tuple(ids[:2]) == best else 1
                out.append(ids[0] if width == 1 else NEW + n)
                ids = ids[width:]
            words[word] = out
    return merges


@pytest.mark.parametrize("text", ["aaaaaaa aaaa aa", "the cat lost her red ball, the cat lost it",
                                  "abababab bababa ab", "1 2 3 4 5 6 1 2 3", npt.Module.__doc__])
def test_it_learns_what_a_plain_search_finds(text):
    counts = {}
    for word in PIECES.findall(text):
        counts[word] = counts.get(word, 0) + 1
    assert learn(counts, 60) == plainly(counts, 60)


@pytest.mark.parametrize("text", STRANGE)
@pytest.mark.parametrize("n_merges", [0, 40])
def test_nothing_is_lost(text, n_merges):
    tokenizer = npt.BytePairTokenizer.from_texts(STRANGE, n_merges) if n_merges else \
        npt.BytePairTokenizer()
    ids = tokenizer.encode(text, bos=True, eos=True)
    assert ids[0] == 1 and ids[-1] == 2 and 0 not in ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode_batch(tokenizer.encode_batch([text, text + "!"]))[0] == text
    assert "".join(PIECES.findall(text)) == text


def test_a_letter_cut_in_its_middle_is_shown_as_such():
    tokenizer = npt.BytePairTokenizer()
    ids = tokenizer.encode("é")
    assert len(ids) == 2 and tokenizer.decode(ids[:1]) == "\ufffd"
    assert tokenizer.tokens[ids[0]] == "\\xc3"


def test_it_comes_back_from_a_file(tmp_path):
    tokenizer = npt.BytePairTokenizer.from_texts(["to be or not to be, that is to be asked"], 9)
    model = npt.GPT(npt.gpt_config(len(tokenizer), d_model=8, n_heads=2, d_ff=8, n_layers=1),
                    np.random.default_rng(0))
    npt.save(tmp_path / "model.npz", model, tokenizer)
    (again,) = npt.load_tokenizers(tmp_path / "model.npz")
    assert again.merges == tokenizer.merges and again.tokens == tokenizer.tokens
    assert again.encode("to be") == tokenizer.encode("to be")


@pytest.mark.parametrize(("make", "words"), [
    (lambda: npt.BytePairTokenizer.from_texts("one text"), "list of texts"),
    (lambda: npt.BytePairTokenizer.from_texts(["a"], -1), "n_merges"),
    (lambda: npt.BytePairTokenizer.from_texts([3]), "text"),
    (lambda: npt.BytePairTokenizer([(3, NEW)]), f"below {NEW}"),
    (lambda: npt.BytePairTokenizer([(0, 4)]), "id of a merge"),
    (lambda: npt.BytePairTokenizer([(3, 4, 5)]), "two ids"),
    (lambda: npt.BytePairTokenizer([(3, 4), (3, 4)]), "twice"),
    (lambda: npt.BytePairTokenizer().encode(b"bytes"), "text"),
    (lambda: npt.BytePairTokenizer().decode([NEW]), "outside"),
])
def test_wrong_inputs_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_the_documentation_is_cut_by_name_and_in_rows():
    texts = numpy_documentation()
    assert not set(texts.test) & set(texts.train)
    assert len(texts.train) > 800 and len(texts.test) > 40
    assert sum(map(len, texts.train)) > 1_200_000
    whole = "\n".join(texts.train + texts.test)
    assert "Return the sum of the array elements over the given axis." in whole
    tokenizer = npt.BytePairTokenizer()
    (rows,) = texts.rows(tokenizer, 50, "test")
    stream = [i for text in texts.test for i in tokenizer.encode(text, eos=True)]
    assert rows[:, :-1].ravel().tolist() == stream[:len(rows) * 50]
    assert (rows[1:, 0] == rows[:-1, -1]).all()
    for wrong in (lambda: texts.rows(tokenizer, 50, "all"), lambda: texts.rows(tokenizer, 10**9)):
        with pytest.raises(ValueError):
            wrong()

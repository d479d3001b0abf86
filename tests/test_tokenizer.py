"""Text to ids and back, exactly; and whatever cannot come back is one clear error."""

import json
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npt_lib import CharTokenizer, WordTokenizer
from npt_lib.tokenizer import SPECIAL, from_dict

SENTENCE = "the cat lost her red ball"


def has_no_special(text):
    return not any(token in text for token in SPECIAL)


words = st.text(st.characters(exclude_characters="-", exclude_categories=["Z", "C"]), min_size=1)
word_texts = st.builds(
    lambda parts, gaps: "".join(w + g for w, g in zip(parts, gaps, strict=False)) + parts[-1],
    st.lists(words, min_size=1, max_size=6),
    st.lists(st.sampled_from([" ", "-"]), min_size=5, max_size=5),
).map(lambda text: unicodedata.normalize("NFC", text)).filter(has_no_special)


def raises(message):
    return pytest.raises(ValueError, match="^" + re.escape(message) + "$")


def test_words_get_ids_after_the_special_tokens_in_alphabetical_order():
    tok = WordTokenizer.from_texts([SENTENCE])
    assert tok.tokens == [*SPECIAL, "ball", "cat", "her", "lost", "red", "the"]
    assert len(tok) == 9
    assert tok.encode("the red ball") == [8, 7, 3]
    assert tok.encode("the red ball", bos=True, eos=True) == [1, 8, 7, 3, 2]
    assert tok.decode([8, 7, 3]) == "the red ball"


def test_characters_are_composed_before_they_are_looked_up():
    tok = CharTokenizer.from_texts(["año", "dieciséis"])
    assert len(tok) == 3 + len(set("añodieciséis"))
    decomposed = unicodedata.normalize("NFD", "dieciséis")
    assert len(decomposed) == 10
    assert tok.encode(decomposed) == tok.encode("dieciséis")
    assert tok.decode(tok.encode(decomposed)) == "dieciséis"


def test_a_hyphen_between_words_is_a_token():
    tok = WordTokenizer.from_texts(["forty-two", "two hundred and forty"])
    assert tok.tokens[3:] == ["-", "and", "forty", "hundred", "two"]
    assert tok.decode(tok.encode("two hundred and forty-two")) == "two hundred and forty-two"


@given(st.lists(st.text(max_size=12).filter(has_no_special), min_size=1, max_size=5))
def test_characters_round_trip(texts):
    tok = CharTokenizer.from_texts(texts)
    for text in texts:
        composed = unicodedata.normalize("NFC", text)
        assert tok.decode(tok.encode(text, bos=True, eos=True)) == composed


@given(st.lists(word_texts, min_size=1, max_size=4))
def test_words_round_trip(texts):
    tok = WordTokenizer.from_texts(texts)
    assert tok.decode_batch(tok.encode_batch(texts, bos=True, eos=True)) == texts


@given(st.text(max_size=20))
def test_any_text_comes_back_from_words_or_is_an_error(text):
    try:
        tok = WordTokenizer.from_texts([text])
        ids = tok.encode(text)
    except ValueError:
        return
    assert tok.decode(ids) == unicodedata.normalize("NFC", text)


@given(st.lists(word_texts, min_size=1, max_size=4), st.randoms())
def test_the_vocabulary_does_not_depend_on_the_order_of_the_texts(texts, random):
    shuffled = random.sample(texts, len(texts))
    assert WordTokenizer.from_texts(texts).tokens == WordTokenizer.from_texts(shuffled).tokens


def test_a_batch_is_padded_at_the_end():
    tok = CharTokenizer("abc")
    batch = tok.encode_batch(["ab", "c", ""], bos=True, eos=True)
    assert batch.dtype == np.int64
    assert batch.tolist() == [[1, 3, 4, 2], [1, 5, 2, 0], [1, 2, 0, 0]]
    assert tok.encode_batch(["ab", "c"]).tolist() == [[3, 4], [5, 0]]


def test_decoding_stops_at_the_end_token_and_skips_the_others():
    tok = CharTokenizer("abc")
    assert tok.decode([1, 3, 0, 4, 2, 5, 99]) == "ab"
    assert tok.decode(np.array([3, 4, 5, 0, 0])) == "abc"
    assert tok.decode([]) == ""


@pytest.mark.parametrize("tok", [CharTokenizer("año"), WordTokenizer(["año", "-", "dos"])])
def test_a_vocabulary_survives_json(tok):
    again = from_dict(json.loads(json.dumps(tok.to_dict())))
    assert type(again) is type(tok)
    assert again.tokens == tok.tokens
    assert type(tok)(tok.tokens).tokens == tok.tokens
    assert again.encode("año") == tok.encode("año")


def test_its_repr_says_how_many_tokens():
    assert repr(CharTokenizer("abc")) == "CharTokenizer(6 tokens)"


def test_what_is_unknown_is_named_with_the_nearest_that_is_known():
    with raises("unknown word 'bell': not in the vocabulary of 9; the nearest is 'ball'."):
        WordTokenizer.from_texts([SENTENCE]).encode("the red bell")
    with raises("unknown character 'z': not in the vocabulary of 6."):
        CharTokenizer("abc").encode("abz")


def test_a_vocabulary_of_only_special_tokens_knows_the_empty_text():
    tok = CharTokenizer.from_texts([])
    assert tok.tokens == SPECIAL
    assert tok.encode("", eos=True) == [2]
    with raises("unknown character 'a': not in the vocabulary of 3."):
        tok.encode("a")


@pytest.mark.parametrize("kind", [CharTokenizer, WordTokenizer])
@pytest.mark.parametrize("text", ["a <eos> b", "<pad>", "x<bos>"])
def test_the_spelling_of_a_special_token_is_an_error(kind, text):
    token = text.strip("abx ")
    with raises(f"{text!r} contains {token}, the spelling of a special token."):
        kind.from_texts([text])
    with raises(f"{text!r} contains {token}, the spelling of a special token."):
        kind.from_texts([SENTENCE]).encode(text)


@pytest.mark.parametrize("text", ["a  b", " a", "a ", "a\tb", "a\nb", "a - b", "-a", "a--b", " "])
def test_words_with_other_gaps_would_not_come_back(text):
    with raises(f"words must have single spaces or a hyphen between them, got {text!r}."):
        WordTokenizer.from_texts([text])


@pytest.mark.parametrize("i", [6, -1])
def test_an_id_outside_the_vocabulary_is_named(i):
    with raises(f"id {i} is outside the vocabulary of 6."):
        CharTokenizer("abc").decode([3, i])


def test_a_float_is_not_an_id():
    with raises("ids must be whole numbers, got 3.0."):
        CharTokenizer("abc").decode([3.0])


def test_bad_vocabularies():
    with raises("a vocabulary has each character once, got ['a', 'b'] twice."):
        CharTokenizer("abab")
    with raises("'ab' is not one character."):
        CharTokenizer(["ab"])
    with raises("'' is not one character."):
        CharTokenizer([""])
    with raises("'two words' is not one word."):
        WordTokenizer(["two words"])
    with raises("'forty-two' is not one word."):
        WordTokenizer(["forty-two"])
    with raises("from_texts needs a list of texts, got one text."):
        WordTokenizer.from_texts("hello")
    with raises("a tokenizer is one of ['byte pair', 'char', 'gpt-2', 'word'], got 'bytes'."):
        from_dict({"kind": "bytes", "tokens": []})
    with raises("a batch needs at least one text, got none."):
        CharTokenizer("abc").encode_batch([])

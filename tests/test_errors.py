"""Bad input: what is wrong, what is required, what was got. The messages are pinned whole."""

from dataclasses import replace

import numpy as np
import pytest
import small
from small import CONFIG

import npt_lib as npt
from npt_lib.tasks import copy_task, noun_phrases, number_words

RNG = np.random.default_rng(0)
MODEL = small.transformer()
SRC, TGT = small.pairs(np.random.default_rng(0), 3)
X = RNG.standard_normal((2, 5, 8)).astype(np.float32)
MEMORY = RNG.standard_normal((2, 4, 8)).astype(np.float32)
HEADS = RNG.standard_normal((2, 2, 5, 4))
LINEAR = npt.Linear(3, 2, RNG)
SELF, CROSS = npt.SelfAttention(8, 2, RNG), npt.CrossAttention(8, 2, RNG)
LETTERS, WORDS = npt.CharTokenizer("abc"), npt.WordTokenizer(["red", "ball"])
EMBED, UNEMBED = npt.Embedding(12, 8, RNG), npt.Unembedding(npt.Embedding(12, 8, RNG).table)
FIXED, LEARNED = npt.SinusoidalPositions(6, 8), npt.LearnedPositions(6, 8, RNG)
PARAMETERS = LINEAR.parameters()
LOGITS = RNG.standard_normal((2, 3, 11))


def with_param(**options):
    return lambda: replace(CONFIG, **options)


def cache_append(shape):
    cache = npt.KVCache(2, 3, 4, 5, np.dtype(np.float32))
    return lambda: cache.append(np.zeros(shape), np.zeros(shape))


def full_cache():
    cache, k = npt.KVCache(2, 3, 4, 5, np.dtype(np.float32)), np.zeros((2, 3, 1, 5))
    for _ in range(5):
        cache.append(k, k)


def step_with(ids, n=3, max_len=4):
    return lambda: MODEL.step(ids, MODEL.start(SRC[:n], max_len))


def sample(**options):
    return lambda: npt.sample(MODEL, SRC, 4, np.random.default_rng(0), **options)


def lost_gradient():
    layer = npt.Linear(3, 2, RNG).astype(np.float64)
    return npt.check_gradients(lambda x: (x @ layer.W.value, lambda dy: dy @ layer.W.value.T),
                               [np.ones((4, 3))], layer.parameters())


def state_with(**changes):
    state = {**LINEAR.state_dict(), **changes}
    return lambda: npt.Linear(3, 2, RNG).load_state_dict(state)


WRONG = [
    # sizes
    (with_param(n_heads=3), "d_model=8 must be divisible by n_heads=3."),
    (lambda: npt.SelfAttention(10, 3, RNG), "d_model=10 must be divisible by n_heads=3."),
    (lambda: npt.CrossAttention(10, 4, RNG), "d_model=10 must be divisible by n_heads=4."),
    (lambda: npt.SelfAttention(8, 0, RNG), "n_heads must be a whole number of at least 1, got 0."),
    (with_param(n_layers=0), "n_layers must be a whole number of at least 1, got 0."),
    (with_param(d_ff=2.5), "d_ff must be a whole number of at least 1, got 2.5."),
    (with_param(n_src_vocab=-1), "n_src_vocab must be a whole number of at least 1, got -1."),
    (with_param(max_len=0), "max_len must be a whole number of at least 1, got 0."),
    (with_param(dropout=1.0), "dropout must be at least 0 and below 1, got 1.0."),
    (with_param(dropout=float("nan")), "dropout must be at least 0 and below 1, got nan."),
    (with_param(activation="tanh"),
     "activation must be one of ['exact_gelu', 'gelu', 'relu'] or a function, got 'tanh'."),
    (with_param(positions="none"),
     "positions must be one of ('sinusoidal', 'learned'), got 'none'."),
    (with_param(eos_id=11), "eos_id=11 is outside the target vocabulary of 11."),
    (with_param(bos_id=0), "pad_id, bos_id and eos_id must differ, "
                           "got {'pad_id': 0, 'bos_id': 0, 'eos_id': 2}."),
    (lambda: npt.Linear(0, 3, RNG), "d_in must be a whole number of at least 1, got 0."),
    (lambda: npt.FeedForward(8, 7, RNG, "swish"),
     "activation must be one of ['exact_gelu', 'gelu', 'relu'] or a function, got 'swish'."),
    (lambda: npt.Embedding(0, 8, RNG),
     "n_vocab must be a whole number of at least 1, got 0."),
    (lambda: npt.LearnedPositions(-1, 8, RNG),
     "max_len must be a whole number of at least 1, got -1."),
    (lambda: npt.SinusoidalPositions(0, 8), "n must be a whole number of at least 1, got 0."),
    (lambda: npt.sinusoidal_positions(4, 0),
     "d_model must be a whole number of at least 1, got 0."),
    (lambda: npt.LayerNorm(0), "d_model must be a whole number of at least 1, got 0."),
    (lambda: npt.LayerNorm(8, 0.0), "eps must be above 0 and finite, got 0.0."),
    (lambda: npt.Dropout(-0.1), "dropout must be at least 0 and below 1, got -0.1."),
    (lambda: npt.causal_mask(-1), "n must be a whole number of at least 0, got -1."),

    # what the layers read
    (lambda: npt.softmax(np.arange(3)),
     "softmax needs an array of float32 or float64, got int64 (3,)."),
    (lambda: npt.softmax(np.array(3.0)),
     "softmax needs an array with at least one axis, got shape ()."),
    (lambda: npt.softmax([1.0, 2.0]), "softmax needs an array of float32 or float64, got list."),
    (lambda: LINEAR(np.ones((4, 2))), "Linear needs a last axis of 3, got shape (4, 2)."),
    (lambda: LINEAR(np.array(1.0)), "Linear needs an array with at least one axis, got shape ()."),
    (lambda: LINEAR([1.0, 2.0, 3.0]),
     "Linear needs an array of float32 or float64, got list."),
    (lambda: LINEAR(np.array(["a", "b", "c"])),
     "Linear needs an array of float32 or float64, got <U1 (3,)."),
    (lambda: UNEMBED(np.ones((2, 7))), "Unembedding needs a last axis of 8, got shape (2, 7)."),
    (lambda: npt.LayerNorm(4)(np.ones((2, 3))),
     "LayerNorm needs a last axis of 4, got shape (2, 3)."),
    (lambda: npt.LayerNorm(4)(np.ones((2, 4), int)),
     "LayerNorm needs an array of float32 or float64, got int64 (2, 4)."),
    (lambda: npt.Dropout(0.5)(np.ones(4, int), RNG),
     "Dropout needs an array of float32 or float64, got int64 (4,)."),
    (lambda: SELF(X[0]), "SelfAttention needs axes (B, T, D), got shape (5, 8)."),
    (lambda: SELF(X[:, :, :6]), "SelfAttention needs a last axis of 8, got shape (2, 5, 6)."),
    (lambda: CROSS(X, MEMORY[..., :6]),
     "CrossAttention's memory needs a last axis of 8, got shape (2, 4, 6)."),
    (lambda: CROSS(X, MEMORY[:1]),
     "x and memory need equally many rows, got 2, 1."),
    (lambda: npt.attention(HEADS, HEADS[0], HEADS),
     "q, k and v must share their leading axes, got (2, 2, 5, 4), (2, 5, 4) and (2, 2, 5, "
     "4): k[:, None] adds an axis, np.broadcast_to repeats it."),
    (lambda: npt.attention(HEADS, HEADS[..., :3], HEADS),
     "q (..., T, K), k (..., S, K) and v (..., S, K') must agree in K and S, at least 1, "
     "got (2, 2, 5, 4), (2, 2, 5, 3) and (2, 2, 5, 4)."),
    (lambda: npt.attention(HEADS, HEADS[:, :, :0], HEADS[:, :, :0]),
     "q (..., T, K), k (..., S, K) and v (..., S, K') must agree in K and S, at least 1, "
     "got (2, 2, 5, 4), (2, 2, 0, 4) and (2, 2, 0, 4)."),
    (lambda: npt.attention([[1.0]], HEADS, HEADS),
     "q needs an array of float32 or float64, got list."),
    (lambda: npt.split_heads(X, 3), "d_model=8 must be divisible by n_heads=3."),
    (lambda: npt.split_heads(X[0], 2), "split_heads needs axes (B, T, D), got shape (5, 8)."),
    (lambda: npt.merge_heads(X), "merge_heads needs axes (B, H, T, K), got shape (2, 5, 8)."),
    (lambda: npt.merge_heads(HEADS, HEADS[:1]),
     "merge_heads needs parts of one shape, got (2, 2, 5, 4) and (1, 2, 5, 4)."),
    (lambda: npt.merge_heads(), "merge_heads needs at least one part, got none."),
    (cache_append((1, 3, 1, 5)),
     "k and v must be (B, H, T, K) for a cache of (2, 3, 4, 5), got (1, 3, 1, 5) and (1, "
     "3, 1, 5)."),
    (full_cache, "5 tokens, but max_len=4."),
    (lambda: FIXED(X[:, :, :4]),
     "SinusoidalPositions needs a last axis of 8, got shape (2, 5, 4)."),
    (lambda: FIXED(np.ones((1, 7, 8))), "7 tokens, but max_len=6."),
    (lambda: FIXED(X, start=2), "7 tokens, but max_len=6."),
    (lambda: LEARNED(X[0, 0]),
     "LearnedPositions needs x (..., T, D), got shape (8,)."),
    (lambda: LEARNED(X, start=-1),
     "start must be a whole number of at least 0, got -1."),
    (lambda: FIXED(np.ones((1, 2, 8), int)),
     "SinusoidalPositions needs an array of float32 or float64, got int64 (1, 2, 8)."),

    # masks
    (lambda: npt.attention(HEADS, HEADS, HEADS, np.ones((5, 4), bool)),
     "mask (5, 4) does not broadcast to scores (B, H, T, S) = (2, 2, 5, 5)."),
    (lambda: npt.attention(HEADS[0], HEADS[0], HEADS[0], np.ones((3, 2, 5, 5), bool)),
     "mask (3, 2, 5, 5) does not broadcast to scores (..., T, S) = (2, 5, 5)."),
    (lambda: npt.attention(HEADS, HEADS, HEADS, np.ones((5, 5))),
     "mask must be boolean, True = may attend, got float64 (5, 5)."),
    (lambda: npt.attention(HEADS, HEADS, HEADS, [[True]]),
     "mask must be boolean, True = may attend, got list."),
    (lambda: npt.softmax(np.ones((2, 3)), np.ones((3, 2), bool)),
     "mask (3, 2) does not broadcast to scores (..., T, S) = (2, 3)."),
    (lambda: SELF(X, np.ones((2, 5, 5), bool)[:, :, :4]),
     "mask (2, 5, 4) does not broadcast to scores (B, H, T, S) = (2, 2, 5, 5)."),
    (lambda: MODEL.encoder(X, np.ones((2, 1, 1, 5), int)),
     "mask must be boolean, True = may attend, got int64 (2, 1, 1, 5)."),
    (lambda: MODEL.decoder(X, MEMORY, npt.causal_mask(5), np.ones((2, 1, 1, 3), bool)),
     "mask (2, 1, 1, 3) does not broadcast to scores (B, H, T, S) = (2, 2, 5, 4)."),
    (lambda: npt.padding_mask(np.ones(4, int)), "ids must have two axes (B, S), got shape (4,)."),
    (lambda: npt.padding_mask([[1, 2], [3]]),
     "token ids must be rows of one length, padded at the end."),

    # ids
    (lambda: EMBED(np.array([3, 12])), "token id 12 is outside the vocabulary of 12."),
    (lambda: EMBED(np.array([-1])), "token id -1 is outside the vocabulary of 12."),
    (lambda: EMBED(np.array([1.0])), "token ids must be integers, got float64."),
    (lambda: MODEL(np.where(SRC == SRC[0, 0], 17, SRC), TGT),
     "source id 17 is outside the vocabulary of 13."),
    (lambda: MODEL(SRC, np.full((3, 4), 11)), "target id 11 is outside the vocabulary of 11."),
    (lambda: MODEL(SRC * 1.0, TGT), "source ids must be integers, got float64."),
    (lambda: MODEL(SRC, TGT > 0), "target ids must be integers, got bool."),
    (lambda: MODEL([["a", "b"]], TGT[:1]), "source ids must be integers, got <U1."),
    (lambda: MODEL([[3, 4], [5]], TGT[:2]),
     "source ids must be rows of one length, padded at the end."),
    (lambda: MODEL(SRC, [[1, 2], [3], [4]]),
     "target ids must be rows of one length, padded at the end."),
    (lambda: MODEL(SRC[0], TGT),
     "source ids must be (batch, length), both at least 1, got shape (6,)."),
    (lambda: MODEL(SRC[:0], TGT[:0]),
     "source ids must be (batch, length), both at least 1, got shape (0, 6)."),
    (lambda: MODEL(SRC, TGT[:, :0]),
     "target ids must be (batch, length), both at least 1, got shape (3, 0)."),
    (lambda: MODEL(np.tile(SRC, 2), TGT), "12 tokens, but max_len=9."),
    (lambda: MODEL(SRC, np.tile(TGT, 2)), "12 tokens, but max_len=9."),
    (lambda: MODEL(SRC[:2], TGT), "source and target must be equally many, got 2, 3."),
    (lambda: MODEL.encode(SRC[0, 0]),
     "source ids must be (batch, length), both at least 1, got shape ()."),
    (lambda: MODEL.decode(TGT, MODEL.encode(SRC)[:, :4], SRC),
     "memory must be (B, S, D) = (3, 6, 8), got (3, 4, 8)."),
    (step_with(np.array([1, 1])), "ids must be (3,), one for each row, got (2,)."),
    (step_with(np.array([1, 1, 11])), "token id 11 is outside the vocabulary of 11."),
    (step_with(np.array([1.0, 1.0, 1.0])), "token ids must be integers, got float64."),
    (lambda: MODEL.start(SRC, 10), "10 tokens, but max_len=9."),

    # writing
    (lambda: npt.greedy(MODEL, SRC, 0), "max_len must be a whole number of at least 1, got 0."),
    (lambda: npt.greedy(MODEL, SRC, 10), "10 tokens, but max_len=9."),
    (lambda: npt.greedy(MODEL, SRC[:0], 4),
     "source ids must be (batch, length), both at least 1, got shape (0, 6)."),
    (lambda: npt.greedy(MODEL, 3, 4),
     "source ids must be (batch, length), both at least 1, got shape ()."),
    (sample(temperature=0.0), "temperature must be above 0 and finite, got 0.0."),
    (sample(temperature=float("inf")), "temperature must be above 0 and finite, got inf."),
    (sample(top_k=0), "top_k must be a whole number of at least 1, got 0."),
    (sample(top_p=0.0), "top_p must be above 0 and at most 1, got 0.0."),
    (sample(top_p=float("nan")), "top_p must be above 0 and at most 1, got nan."),
    (lambda: npt.beam_search(MODEL, SRC, 4, width=0),
     "width must be a whole number of at least 1, got 0."),
    (lambda: npt.beam_search(MODEL, SRC, 4, length_penalty=float("nan")),
     "length_penalty must be from -100 to 100, got nan."),
    (lambda: npt.log_probability(MODEL, SRC, np.array([[3, 99]] * 3)),
     "target id 99 is outside the vocabulary of 11."),
    (lambda: npt.log_probability(MODEL, SRC, np.array([3, 4])),
     "ids must be (batch, length), got shape (2,)."),

    # modules and the gradient check
    (state_with(W=np.zeros((2, 3))),
     "W needs numbers of shape (3, 2), but the state holds float64 of shape (2, 3)."),
    (state_with(b=np.array(["x", "y"])),
     "b needs numbers of shape (2,), but the state holds <U1 of shape (2,)."),
    (state_with(c=np.zeros(2)), "The state must name exactly the model's 2 parameters: "
                                "missing [], unknown ['c'] (0 and 1)."),
    (lambda: LINEAR.load_state_dict({"W": np.zeros((3, 2))}),
     "The state must name exactly the model's 2 parameters: missing ['b'], unknown [] (1 and 0)."),
    (lambda: npt.check_gradients(npt.relu, [np.ones(3, np.float32)]),
     "A gradient check needs float64, but input 0 is float32: use astype(np.float64)."),
    (lambda: npt.check_gradients(lambda x: (x, lambda dy: None), [np.ones(3)]),
     "backward must return 1 gradients, got 0."),
    (lost_gradient, "backward left no gradient on ['W', 'b']."),
    (lambda: npt.check_gradients(lambda ids: (1.0, lambda dy: None), [np.array([1])]),
     "A gradient check needs an input of floats or a parameter, got none."),
    (lambda: npt.numeric_gradient(lambda: 0.0, np.arange(3)),
     "numeric_gradient needs an array of float64, got int64 (3,)."),

    # tokenizers and tasks
    (lambda: LETTERS.encode("abd"), "unknown character 'd': not in the vocabulary of 6."),
    (lambda: WORDS.encode("red bal"),
     "unknown word 'bal': not in the vocabulary of 5; the nearest is 'ball'."),
    (lambda: WORDS.encode("red  ball"),
     "words must have single spaces or a hyphen between them, got 'red  ball'."),
    (lambda: LETTERS.encode("a<eos>"), "'a<eos>' contains <eos>, the spelling of a special token."),
    (lambda: LETTERS.decode([3, 6]), "id 6 is outside the vocabulary of 6."),
    (lambda: LETTERS.encode_batch([]), "a batch needs at least one text, got none."),
    (lambda: npt.CharTokenizer("aab"), "a vocabulary has each character once, got ['a'] twice."),
    (lambda: npt.WordTokenizer(["two words"]), "'two words' is not one word."),
    (lambda: npt.WordTokenizer.from_texts("a text"),
     "from_texts needs a list of texts, got one text."),
    (lambda: number_words(RNG, n_train=100),
     "n_train must be a whole number of at least 200, got 100."),
    (lambda: copy_task(RNG).arrays("dev"), "part must be 'train' or 'test', got 'dev'."),
    (lambda: noun_phrases(RNG, 1.0), "held_out must be above 0 and at most 0.4, got 1.0."),
]


@pytest.mark.parametrize("call, message", WRONG, ids=[str(m)[:60] for _, m in WRONG])
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


# NaN and infinity: the step and the parameter are named, and nothing is learned from them.

def spoiled(name, value=np.nan):
    model = small.transformer()
    model.parameters()[name].value[0] = value
    return model


def train_once(model, optimizer=None, **options):
    optimizer = optimizer or npt.Adam(model.parameters())
    return npt.train(model, optimizer, [(SRC, TGT)] * 3, None, n_steps=3, **options)


@pytest.mark.parametrize("name", ["encoder.blocks.0.ffn.up.W", "decoder.blocks.1.norm3.bias",
                                  "src_embed.tokens.table"])
def test_a_nan_loss_names_step_and_parameter(name):
    model = spoiled(name)
    if name.endswith("table"):
        model.parameters()[name].value[:] = np.nan
    before = model.state_dict()
    with pytest.raises(ValueError) as caught:
        train_once(model)
    assert str(caught.value) == f"Step 1: The loss is nan: parameter {name} holds NaN or infinity."
    for key, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[key])


def test_a_nan_gradient_names_the_parameter(monkeypatch):
    """The gradient alone is wrong: the loss is still a number, the parameters are finite."""
    model = small.transformer()
    add_grad = npt.Parameter.add_grad
    wrong = model.parameters()["decoder.blocks.0.cross.q.b"]

    def spoil(self, grad):
        add_grad(self, grad * np.nan if self is wrong else grad)

    monkeypatch.setattr(npt.Parameter, "add_grad", spoil)
    before = model.state_dict()
    with pytest.raises(ValueError) as caught:
        train_once(model)
    assert str(caught.value) == ("Step 1: The gradient's norm is nan: the gradient of "
                                 "decoder.blocks.0.cross.q.b holds NaN or infinity.")
    for key, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[key])


def test_a_run_that_diverges_stops_with_the_step():
    """A learning rate far too large overflows in a few steps; it never goes on with NaN."""
    model = small.transformer()
    sgd = npt.SGD(model.parameters(), 1e30)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"^Step [23]: The (loss|grad)"):
        train_once(model, sgd)


# Rows that are all padding: a result, and never NaN.

@pytest.mark.parametrize("style", small.STYLES)
def test_all_padding_is_a_result_forwards_backwards_and_written(style):
    model = small.transformer(**small.STYLES[style])
    src, tgt = np.zeros((3, 4), int), np.zeros((3, 5), int)
    src[0, :2], tgt[0, :4] = [4, 5], [1, 6, 7, 2]        # one real row among empty ones
    with np.errstate(all="raise", under="ignore"):
        logits, backward = model.forward(src, tgt[:, :-1], np.random.default_rng(0))
        loss, loss_backward = npt.cross_entropy(logits, tgt[:, 1:], 0, 0.1)
        backward(loss_backward())
        written = [npt.greedy(model, src, 4), npt.beam_search(model, src, 4),
                   npt.sample(model, src, 4, np.random.default_rng(0))]
    assert np.isfinite(loss) and loss > 0
    assert np.isfinite(logits).all()
    for name, p in model.parameters().items():
        assert np.isfinite(p.grad).all(), name
    assert all(np.isin(ids, [0, *range(2, 11)]).all() for ids in written)
    alone = npt.greedy(model, src[:1], 4)
    np.testing.assert_array_equal(written[0][:1, :alone.shape[1]], alone)


def test_a_batch_of_nothing_but_padding_changes_nothing():
    model = small.transformer()
    src, tgt = np.zeros((3, 4), int), np.zeros((3, 5), int)
    before = model.state_dict()
    loss = npt.train_step(model, npt.SGD(model.parameters(), 0.1), (src, tgt), None)
    assert loss == 0.0
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    found = npt.evaluate(model, (src, tgt))
    assert (found.loss, found.scores["token_accuracy"]) == (0.0, 0.0)


def test_batches_of_empty_rows_can_be_trained_on():
    src, tgt = np.zeros((3, 4), int), np.zeros((3, 5), int)
    tgt[:, 0] = 1
    batch = next(npt.Batches((src, tgt), 2, np.random.default_rng(0), 0))
    assert batch[0].shape == batch[1].shape == (2, 2)
    model = small.transformer()
    assert npt.train_step(model, npt.Adam(model.parameters()), batch, None) == 0.0


def test_no_dropout_is_so_high_that_nothing_can_be_scaled():
    """p is counted in steps of 1/65536; the nearest step below 1 still leaves one value in."""
    y = npt.Dropout(1 - 1e-9)(np.ones(1000), np.random.default_rng(0))
    assert np.isfinite(y).all()

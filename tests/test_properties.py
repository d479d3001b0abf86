"""Random shapes, dtypes and values at the public entry points (hypothesis).

Either the result is right, judged by loops over single numbers, or it is a ValueError in our own
words. NaN comes out only where NaN or infinity went in.
"""

import math
import re
import warnings
from dataclasses import fields

import numpy as np
import pytest
import small
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import npt_lib as npt

few, some = settings(max_examples=60), settings(max_examples=150)
seeds = st.integers(0, 2**31)
floats = st.sampled_from([np.float32, np.float64])
sizes = st.integers(1, 5)

# Words of NumPy's own errors, none of which a reader of ours should meet.
RAW = re.compile(r"operand|broadcast together|could not broadcast|ufunc|matmul|reshape|zero-size|"
                 r"array element|inhomogeneous|axis \d|out of bounds|index \d|unpack|negative dim|"
                 r"not aligned|argument|Cannot cast|einsum|all the input")


def attempt(f, *args, **options):
    """The result, or None after a ValueError in our own words: capital or name first, full stop."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return f(*args, **options)
    except ValueError as error:
        assert not RAW.search(str(error)), error
        assert str(error).endswith("."), error
        return None


def large(dtype):
    """So large that squares and cubes still fit; beyond that, any program overflows."""
    return float(np.finfo(dtype).max) ** 0.25


@st.composite
def arrays(draw, shape=None, dtype=None, wild=True):
    """An array of any kind: random sizes (0 as well), dtypes, and hand-picked strange values."""
    if shape is None:
        shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    if dtype is None:
        dtype = draw(st.sampled_from(["f2", "f4", "f8", "i4", "i8", "u1", "?", "U1", "O"]))
    rng = np.random.default_rng(draw(seeds))
    x = (rng.standard_normal(shape) * draw(st.sampled_from([1e-30, 1e-3, 1.0, 30.0])))
    if np.dtype(dtype).kind != "f":
        return np.asarray(x * 3).astype(dtype)
    x = np.asarray(x).astype(dtype)
    strange = [0.0, -0.0, large(dtype), -large(dtype), np.finfo(dtype).tiny]
    strange += [np.inf, -np.inf, np.nan] if wild else []
    if x.size and draw(st.booleans()):
        x.flat[rng.integers(x.size)] = draw(st.sampled_from(strange))
    return x


def finite(*xs):
    return all(np.isfinite(x).all() for x in xs if np.asarray(x).dtype.kind == "f")


# Every entry point, with anything: our words or a result; no NaN from numbers.

RNG = np.random.default_rng(0)
SINGLE = {
    "softmax": npt.softmax,
    "Linear": npt.Linear(3, 2, RNG).forward,
    "LayerNorm": npt.LayerNorm(3).forward,
    "Dropout": lambda x: npt.Dropout(0.3).forward(x, np.random.default_rng(0)),
    "FeedForward": npt.FeedForward(3, 4, RNG).forward,
    "FeedForward, gelu": npt.FeedForward(3, 4, RNG, "gelu").forward,
    "SelfAttention": npt.SelfAttention(4, 2, RNG).forward,
    "Embedding": npt.Embedding(4, 3, RNG).forward,
    "Unembedding": npt.Unembedding(npt.Embedding(4, 3, RNG).table).forward,
    "SinusoidalPositions": npt.SinusoidalPositions(4, 3).forward,
    "LearnedPositions": npt.LearnedPositions(4, 3, RNG).forward,
    "EncoderBlock": npt.EncoderBlock(small.CONFIG, RNG).forward,
    "padding_mask": lambda x: (npt.padding_mask(x), None),
    "split_heads": lambda x: (npt.split_heads(x, 2), None),
    "merge_heads": lambda x: (npt.merge_heads(x), None),
}


@pytest.mark.parametrize("name", SINGLE)
@given(x=arrays())
@settings(max_examples=120)
def test_anything_gives_a_result_or_our_words(name, x):
    found = attempt(SINGLE[name], x)
    if found is not None and finite(x):
        y, backward = found
        assert finite(y)
        if backward and y.dtype.kind == "f":
            dx = attempt(backward, np.ones_like(y))
            assert dx is None or finite(dx)


# Shapes that nearly fit: the last axes are right more often than not.

@given(x=arrays(), last=st.sampled_from([3, 4, 8]), dtype=st.sampled_from(["f4", "f8", "f2"]))
@some
def test_nearly_right_shapes_are_a_result_or_our_words(x, last, dtype):
    shape = (*x.shape[:-1], last) if x.ndim else ()
    x = np.ones(shape, dtype)
    for name, forward in SINGLE.items():
        found = attempt(forward, x)
        if found is not None and name not in ("padding_mask", "split_heads", "merge_heads"):
            y, backward = found
            assert finite(y) and finite(backward(np.ones_like(y)))


@given(q=arrays(), k=arrays(), v=arrays(), mask=arrays())
@some
def test_attention_with_anything(q, k, v, mask):
    attempt(npt.attention, q, k, v, mask)
    found = attempt(npt.attention, q, q, q, mask)
    if found is not None and finite(q):
        assert finite(found[0])


@given(src=arrays(), tgt=arrays())
@some
def test_the_model_with_anything(src, tgt):
    model = small.transformer()
    for call in (lambda: model(src, tgt), lambda: model.encode(src),
                 lambda: npt.greedy(model, src, 3),
                 lambda: model.step(src, model.start(np.full((2, 3), 4), 4)),
                 lambda: npt.evaluate(model, (src, tgt)),
                 lambda: npt.beam_search(model, src, 3, width=2),
                 lambda: npt.log_probability(model, src, tgt)):
        found = attempt(call)
        assert not isinstance(found, np.ndarray) or finite(found)


@given(ids=st.lists(st.lists(st.integers(-2, 14), max_size=4), max_size=4))
@some
def test_lists_of_ids_are_a_result_or_our_words(ids):
    model = small.transformer()
    found = attempt(model, ids, ids)
    right = (len(ids) > 0 and len({len(row) for row in ids}) == 1 and len(ids[0]) > 0
             and all(0 <= i < small.V for row in ids for i in row))
    assert (found is not None) == right
    if right:
        np.testing.assert_array_equal(found, model(np.array(ids), np.array(ids)))


@given(logits=arrays(), targets=arrays(), pad_id=st.sampled_from([None, 0, 3]))
@some
def test_cross_entropy_with_anything(logits, targets, pad_id):
    for wanted in (targets, np.zeros(logits.shape[:-1], int)):
        found = attempt(npt.cross_entropy, logits, wanted, pad_id, 0.1)
        if found is not None and finite(logits):
            loss, backward = found
            assert math.isfinite(loss) and finite(backward())


@given(options=st.fixed_dictionaries({}, optional={
    f.name: st.one_of(st.integers(-2, 12), st.floats(), st.booleans(), st.none(),
                      st.sampled_from(["relu", "learned", "no"]))
    for f in fields(npt.Config)}))
@some
def test_a_config_is_refused_or_builds_a_model_that_runs(options):
    config = attempt(lambda: small.config(**options))
    if config is not None and config.n_src_vocab > 4 and config.max_len > 3:
        model = npt.Transformer(config, np.random.default_rng(0))
        y = attempt(model, np.full((2, 3), 4), np.full((2, 3), min(4, config.n_tgt_vocab - 1)))
        assert y is not None and y.shape == (2, 3, config.n_tgt_vocab) and finite(y)


# Right results, judged by loops.

def softmax_by_loops(x, mask):
    """One number at a time, exactly summed; a masked entry does not exist."""
    w = np.zeros(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        open_ = [j for j in range(x.shape[-1]) if mask[(*row, j)]]
        top = max((float(x[(*row, j)]) for j in open_), default=0.0)
        e = {j: math.exp(float(x[(*row, j)]) - top) for j in open_}
        for j in open_:
            w[(*row, j)] = e[j] / math.fsum(e.values())
    return w


@given(shape=hnp.array_shapes(min_dims=1, max_dims=3, max_side=5), dtype=floats, data=st.data())
@some
def test_softmax_agrees_with_loops(shape, dtype, data):
    x = data.draw(arrays(shape, dtype, wild=False))
    mask = data.draw(hnp.arrays(bool, shape))
    w, _ = npt.softmax(x, mask)
    np.testing.assert_allclose(w, softmax_by_loops(x, mask), rtol=3e-5 if dtype == np.float32 else
                               1e-12, atol=1e-30)
    assert w.dtype == dtype and not w[~mask].any()
    np.testing.assert_allclose(w.sum(axis=-1), mask.any(axis=-1), rtol=1e-6)


@given(shape=hnp.array_shapes(min_dims=1, max_dims=3, max_side=5), shift=st.integers(-40, 40),
       seed=seeds)
@few
def test_softmax_does_not_see_a_shift(shape, shift, seed):
    x = np.round(np.random.default_rng(seed).standard_normal(shape), 3)
    np.testing.assert_allclose(npt.softmax(x)[0], npt.softmax(x + shift)[0], rtol=1e-9)


@given(b=sizes, t=sizes, s=sizes, k=sizes, dtype=floats, data=st.data())
@some
def test_attention_agrees_with_loops(b, t, s, k, dtype, data):
    q, key, v = (data.draw(arrays(shape, dtype, wild=False))
                 for shape in ((b, t, k), (b, s, k), (b, s, 3)))
    with np.errstate(over="ignore"):
        assume(finite(q[..., None, :] * key[:, None]))
    mask = data.draw(hnp.arrays(bool, (b, t, s)))
    y, _ = npt.attention(q, key, v, mask)
    exact = [x.astype(np.longdouble) for x in (q, key, v)]
    scores = np.array([[[sum(exact[0][i, j] * exact[1][i, n]) / math.sqrt(k) for n in range(s)]
                        for j in range(t)] for i in range(b)])
    assume(np.abs(scores).max() < 100)           # beyond that a rounding is a different answer
    w = softmax_by_loops(scores, mask)
    wanted = np.array([[sum(w[i, j, n] * exact[2][i, n] for n in range(s)) for j in range(t)]
                       for i in range(b)])
    tolerance = 1e-3 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(y, wanted.astype(float), rtol=tolerance,
                               atol=tolerance * max(1.0, float(np.abs(v).max())))


@given(rows=st.integers(0, 4), d_in=sizes, d_out=sizes, dtype=floats, data=st.data())
@few
def test_linear_agrees_with_loops(rows, d_in, d_out, dtype, data):
    layer = npt.Linear(d_in, d_out, np.random.default_rng(data.draw(seeds))).astype(dtype)
    layer.b.value = layer.b.value + 1
    x = data.draw(arrays((rows, d_in), dtype, wild=False))
    wanted = [[math.fsum([float(x[i, n]) * float(layer.W.value[n, j]) for n in range(d_in)] + [1.0])
               for j in range(d_out)] for i in range(rows)]
    size = max(1.0, float(np.abs(x).max(initial=0)))
    np.testing.assert_allclose(layer(x), np.reshape(wanted, (rows, d_out)), rtol=1e-4,
                               atol=size * (1e-5 if dtype == np.float32 else 1e-13))


@given(shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=6), seed=seeds,
       scale=st.sampled_from([1e-2, 1.0, 1e4]), shift=st.sampled_from([-5.0, 0.0, 3.0]))
@some
def test_layer_norm_gives_mean_0_and_variance_1_then_gain_and_bias(shape, seed, scale, shift):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * scale + shift
    norm = npt.LayerNorm(shape[-1]).astype(np.float64)
    y = norm(x)
    variance = x.var(axis=-1)
    np.testing.assert_allclose(y.mean(axis=-1), 0, atol=1e-9)
    np.testing.assert_allclose(y.var(axis=-1), variance / (variance + 1e-5), rtol=1e-6)
    norm.gain.value, norm.bias.value = rng.standard_normal((2, shape[-1]))
    np.testing.assert_allclose(norm(x), y * norm.gain.value + norm.bias.value, rtol=1e-9,
                               atol=1e-12)


@given(shape=hnp.array_shapes(min_dims=1, max_dims=3, max_side=4), v=st.integers(2, 6), seed=seeds,
       smoothing=st.sampled_from([0.0, 0.1, 0.7]), scale=st.sampled_from([1.0, 1e3]))
@some
def test_cross_entropy_agrees_with_loops(shape, v, seed, smoothing, scale):
    rng = np.random.default_rng(seed)
    logits, targets = rng.standard_normal((*shape, v)) * scale, rng.integers(0, v, shape)
    loss, _ = npt.cross_entropy(logits, targets, 0, smoothing)
    terms = []
    for place in np.ndindex(shape):
        if targets[place]:
            top = max(logits[place])
            log_sum = top + math.log(math.fsum(math.exp(z - top) for z in logits[place]))
            wanted = [smoothing / v + (1 - smoothing) * (j == targets[place]) for j in range(v)]
            terms.append(math.fsum(p * (log_sum - z)
                                   for p, z in zip(wanted, logits[place], strict=True)))
    assert loss == pytest.approx(math.fsum(terms) / max(len(terms), 1), rel=1e-9, abs=1e-12)


def test_a_logit_of_minus_infinity_is_a_token_that_cannot_be():
    logits = np.array([[0.0, -np.inf, 0.0], [1.0, -np.inf, 2.0]])
    loss, backward = npt.cross_entropy(logits, np.array([0, 2]))
    other, _ = npt.cross_entropy(logits[:, [0, 2]], np.array([0, 1]))
    assert loss == pytest.approx(other) and finite(backward())


@given(n=st.integers(1, 300), d=st.integers(1, 9))
@few
def test_sinusoidal_positions_agree_with_their_formula(n, d):
    table = npt.sinusoidal_positions(n, d)
    for position, i in ((0, 0), (n - 1, 0), (n - 1, d - 1), (n // 2, d // 2)):
        angle = position / 10000 ** ((i - i % 2) / d)
        wanted = math.cos(angle) if i % 2 else math.sin(angle)
        assert table[position, i] == pytest.approx(wanted, abs=1e-9)


# What must not matter, does not; to the last bit where the same numbers are added.

@given(seed=seeds, s=st.integers(2, 7))
@few
def test_attention_does_not_see_the_order_of_keys(seed, s):
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((2, 3, 5)), *rng.standard_normal((2, 2, s, 5))
    mask, order = rng.random((2, 3, s)) < 0.7, rng.permutation(s)
    y, backward = npt.attention(q, k, v, mask)
    moved, moved_backward = npt.attention(q, k[:, order], v[:, order], mask[..., order])
    np.testing.assert_allclose(moved, y, rtol=1e-9, atol=1e-12)
    (dq, dk, dv), (dq2, dk2, dv2) = backward(np.cos(y)), moved_backward(np.cos(moved))
    for a, b in ((dq, dq2), (dk[:, order], dk2), (dv[:, order], dv2)):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-11)


@given(seed=seeds, style=st.sampled_from(sorted(small.STYLES)), at=st.integers(1, 5))
@few
def test_a_later_token_changes_no_earlier_logit_by_a_bit(seed, style, at):
    rng = np.random.default_rng(seed)
    model = small.transformer(**small.STYLES[style])
    src, tgt = small.sources(rng, 3), rng.integers(0, small.V, (3, 6))
    changed = tgt.copy()
    changed[:, at:] = rng.integers(0, small.V, (3, 6 - at))
    a, b = model(src, tgt), model(src, changed)
    np.testing.assert_array_equal(a[:, :at], b[:, :at])
    if not (changed == tgt).all():
        assert np.abs(a - b).max() > 1e-4


@given(seed=seeds, style=st.sampled_from(sorted(small.STYLES)), more=st.integers(1, 3))
@few
def test_more_padding_changes_nothing(seed, style, more):
    """Padded further, sources give real tokens the same memory, and targets the same logits."""
    rng = np.random.default_rng(seed)
    model = small.transformer(**small.STYLES[style]).astype(np.float64)
    src, tgt = small.pairs(rng)
    wide = np.pad(src, ((0, 0), (0, more)))
    memory, padded = model.encode(src), model.encode(wide)[:, :src.shape[1]]
    np.testing.assert_allclose(padded[src > 0], memory[src > 0], rtol=1e-10, atol=1e-12)
    logits = model(src, tgt)
    np.testing.assert_allclose(model(wide, tgt), logits, rtol=1e-10, atol=1e-12)
    wider = np.pad(tgt, ((0, 0), (0, more)))
    np.testing.assert_allclose(model(src, wider)[:, :tgt.shape[1]], logits, rtol=1e-10, atol=1e-12)


@given(seed=seeds)
@few
def test_padding_gets_no_attention_and_no_gradient(seed):
    rng = np.random.default_rng(seed)
    model = small.transformer()
    src, tgt = small.pairs(rng)
    logits, backward = model.forward(src, tgt[:, :-1])
    _, loss_backward = npt.cross_entropy(logits, tgt[:, 1:], 0)
    backward(loss_backward())
    for name, w in npt.attention_maps(backward).items():
        if "decoder" not in name or name.endswith("cross"):
            hidden = np.broadcast_to((src == 0)[:, None, None], w.shape)
            assert not w[hidden].any(), name
    assert not model.src_embed.tokens.table.grad[0].any()
    assert model.src_embed.tokens.table.grad[src[0, 0]].any()


@given(seed=seeds, heads=st.sampled_from([2, 4]))
@few
def test_heads_do_not_see_each_other(seed, heads):
    """Changing one head's projections changes that head's output and no other, to the bit."""
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, 2, heads, 5, 3))
    y, _ = npt.attention(q, k, v, npt.causal_mask(5))
    one = rng.integers(heads)
    k2, v2 = k.copy(), v.copy()
    k2[:, one], v2[:, one] = rng.standard_normal((2, 2, 5, 3))
    changed, _ = npt.attention(q, k2, v2, npt.causal_mask(5))
    others = np.arange(heads) != one
    np.testing.assert_array_equal(changed[:, others], y[:, others])
    assert (changed[:, one] != y[:, one]).any()
    for h in range(heads):
        alone, _ = npt.attention(q[:, h], k[:, h], v[:, h], npt.causal_mask(5))
        np.testing.assert_allclose(alone, y[:, h], rtol=1e-12)


@given(b=sizes, t=sizes, h=sizes, k=sizes)
@few
def test_heads_split_and_merge_back(b, t, h, k):
    x = np.arange(b * t * h * k, dtype=np.float32).reshape(b, t, h * k)
    heads = npt.split_heads(x, h)
    assert heads.shape == (b, h, t, k) and np.shares_memory(heads, x)
    assert heads[-1, -1, -1, 0] == x[-1, -1, (h - 1) * k]
    np.testing.assert_array_equal(npt.merge_heads(heads), x)


@given(p=st.floats(0, 0.95), seed=seeds)
@settings(max_examples=30)
def test_dropout_keeps_the_mean_and_drops_its_share(p, seed):
    n = 40_000
    y = npt.Dropout(p)(np.ones(n, np.float32), np.random.default_rng(seed))
    assert len(np.unique(y)) <= 2 and y.dtype == np.float32
    spread = math.sqrt(p * (1 - p) / n) + 1e-4
    assert abs((y == 0).mean() - p) < 5 * spread
    assert abs(y.mean() - 1) < 5 * spread / (1 - p)
    x = np.ones(3)
    assert npt.Dropout(p)(x) is x


@given(data=st.data(), dtype=floats, f=st.sampled_from([npt.relu, npt.gelu]))
@some
def test_activations_stay_between_zero_and_x(data, dtype, f):
    x = data.draw(arrays((4, 3), dtype, wild=False))
    y, backward = f(x)
    low = 0 if f is npt.relu else -0.171
    assert (y <= np.maximum(x, 0)).all() and (y >= low).all() and y.dtype == dtype
    dx = backward(np.ones_like(y))
    assert finite(dx) and (np.abs(dx) < 1.13).all()
    np.testing.assert_allclose(y[np.abs(x) > 9], np.maximum(x, 0)[np.abs(x) > 9], rtol=1e-6)


# Tokenizers.

@given(texts=st.lists(st.text("abcñé ", max_size=6), min_size=1, max_size=4),
       other=st.text(max_size=5))
@some
def test_characters_round_trip_or_are_unknown(texts, other):
    tokenizer = npt.CharTokenizer.from_texts(texts)
    assert tokenizer.decode_batch(tokenizer.encode_batch(texts, bos=True, eos=True)) == texts
    ids = attempt(tokenizer.encode, other)
    if ids is not None:
        assert set(tokenizer.decode(ids)) <= set(tokenizer.tokens)

"""What a review of the library by running it found: each defect has its test here, by topic."""

import importlib
import subprocess
import sys

import numpy as np
import pytest
import small

import npt_lib as npt
from npt_lib.layers import softmax_in_place

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 8)).astype(np.float32)


# The judge of gradients.

@pytest.mark.parametrize("wrong", [lambda dx: dx.sum(axis=0), lambda dx: dx[None], lambda dx: 0.0])
def test_a_gradient_of_another_shape_is_refused(wrong):
    x = np.ones((3, 4))
    with pytest.raises(ValueError, match=r"The gradient of input 0 must have its shape \(3, 4\)"):
        npt.check_gradients(lambda x: (2 * x, lambda dy: wrong(2 * dy)), [x])


@pytest.mark.parametrize("wrong", [np.ones((1, 4)), np.ones(3), np.float64(1), np.ma.ones(4)])
def test_a_parameter_takes_gradients_of_its_own_shape_alone(wrong):
    p = npt.Parameter(np.zeros(4))
    with pytest.raises(ValueError, match=r"must be an array of its shape \(4,\)"):
        p.add_grad(wrong)
    assert p.grad is None


def test_a_gradient_check_needs_a_forward_that_repeats_itself():
    rng = np.random.default_rng(0)
    drop = npt.Dropout(0.5)
    with pytest.raises(ValueError, match="must give the same finite result each time"):
        npt.check_gradients(lambda x: drop.forward(x, rng), [np.ones(50)])


def test_an_interrupted_difference_leaves_x_as_it_was():
    x, calls = np.array([1.0, 2.0]), iter(range(3))

    def f():
        if next(calls) == 2:
            raise KeyboardInterrupt
        return x.sum()

    with pytest.raises(KeyboardInterrupt):
        npt.numeric_gradient(f, x)
    np.testing.assert_array_equal(x, [1.0, 2.0])


# Modules.

class Boxes(npt.Module):
    def __init__(self):
        one = npt.Parameter(np.ones(2, np.float32))
        self.layers = {"a": npt.Linear(2, 3, RNG), "b": [(one, {"c": npt.LayerNorm(4)})]}
        self.again, self.nothing, self.text = one, {}, ["x", {"y": 1}]


def test_parameters_are_found_in_any_container():
    module = Boxes()
    assert list(module.parameters()) == ["layers.a.W", "layers.a.b", "layers.b.0.0",
                                         "layers.b.0.1.c.gain", "layers.b.0.1.c.bias"]
    assert module.n_parameters() == 2 * 3 + 3 + 2 + 8
    assert "  layers.a: Linear  W (2, 3)  b (3,)  [9]" in repr(module).splitlines()
    other = module.astype(np.float64)
    assert other.again is other.layers["b"][0][0] and other.again.value.dtype == np.float64


def test_a_module_and_a_public_function_never_share_a_name():
    for name in npt.__all__:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"npt_lib.{name}")
    code = "import npt_lib.training as t; assert t.train is not None and t.__name__"
    subprocess.run([sys.executable, "-c", code], check=True)


# Numbers.

@pytest.mark.parametrize("width, value", [(768, 1000.0), (48, 1e5), (48, 100000.3), (512, 1e-3)])
def test_layer_norm_of_a_constant_row_is_its_bias(width, value):
    norm = npt.LayerNorm(width)
    norm.gain.value = RNG.standard_normal(width).astype(np.float32)
    norm.bias.value = RNG.standard_normal(width).astype(np.float32)
    y = norm(np.full((3, width), value, np.float32))
    np.testing.assert_allclose(y, np.tile(norm.bias.value, (3, 1)), atol=1e-4)


def test_scores_beyond_44_are_shifted_and_others_are_not():
    """float32 ends at e to the power of 88.7: sums of e to the power of 44 are far from it."""
    for largest, shift in ((43.9, 0.0), (44.8, np.float32(44.8))):
        x = np.array([[1.0, 30.0, largest, 43.5]], np.float32)
        e = np.exp(x - shift)
        np.testing.assert_array_equal(softmax_in_place(x.copy()), e / (e @ np.ones((4, 1), "f4")))
    many = np.full((2, 16384), 80, np.float32)
    np.testing.assert_allclose(npt.softmax(many)[0], 1 / 16384, rtol=1e-5)


class Known(np.random.Generator):
    """Bytes that are known beforehand."""

    def __init__(self, draws):
        super().__init__(np.random.PCG64())
        self.draws = np.array(draws, np.uint16)

    def bytes(self, length):
        return self.draws.tobytes()


def test_dropout_drops_exactly_its_share_of_draws():
    y, _ = npt.Dropout(0.25).forward(np.ones(4, np.float32), Known([0, 16383, 16384, 65535]))
    np.testing.assert_allclose(y, [0, 0, 4 / 3, 4 / 3])


def test_sums_by_ones_keep_no_memory():
    from npt_lib.layers import ONES, row_sum, sum_rows
    held = sum(x.base.nbytes for x in ONES.values())
    assert held < 300_000
    many = np.ones((100_000, 1), np.float32)
    assert sum_rows(many) == 100_000 and row_sum(many.T) == 100_000
    assert sum(x.base.nbytes for x in ONES.values()) == held
    with pytest.raises(ValueError):
        ONES[np.dtype(np.float32)][0] = 2


@pytest.mark.parametrize("call", [
    lambda x: npt.softmax(x), lambda x: npt.LayerNorm(8)(x), lambda x: npt.attention(x, x, x),
    lambda x: npt.Linear(8, 2, RNG)(x), lambda x: npt.gelu(x), lambda x: npt.Parameter(x),
    lambda x: npt.Dropout(0.5)(x, RNG), lambda x: npt.cross_entropy(x, np.zeros((2, 3), int)),
], ids=range(8))
@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, np.complex64, np.int64])
def test_two_kinds_of_floats_are_promised_and_others_refused(call, dtype):
    with pytest.raises(ValueError, match="float32 or float64"):
        call(X.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float16, int, "U1", None, "nonsense"])
def test_a_model_is_float32_or_float64(dtype):
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        small.transformer().astype(dtype)


def test_gradients_follow_the_parameter_s_dtype():
    layer = npt.Linear(8, 2, RNG)
    _, backward = layer.forward(X.astype(np.float64))
    backward(np.ones((2, 3, 2)))
    assert layer.W.grad.dtype == layer.b.grad.dtype == np.float32


# Inputs that used to be read in another way than they were meant.

def test_a_mask_for_each_row_and_not_for_each_head():
    q = RNG.standard_normal((2, 2, 3, 4))              # as many rows as heads
    mask = np.ones((2, 3, 3), bool)
    with pytest.raises(ValueError, match=r"mask \(2, 3, 3\) is ambiguous"):
        npt.attention(q, q, q, mask)
    npt.attention(q, q, q, mask[:, None])
    npt.attention(q[0], q[0], q[0], mask)


@pytest.mark.parametrize("good", [
    dict(n_src_vocab=np.int64(5)), dict(dropout=np.float32(0.1)), dict(pre_norm=np.True_),
    dict(n_decoder_layers=np.int32(3)),
])
def test_numbers_of_numpy_are_numbers(good):
    config = npt.Config(**{"n_src_vocab": 5, "n_tgt_vocab": 7, **good})
    assert all(type(value) in (int, float, bool, str, type(None))
               for value in vars(config).values())


@pytest.mark.parametrize("bad, name", [
    (dict(pre_norm="False"), "pre_norm must be True or False, got 'False'."),
    (dict(d_ff=True), "d_ff must be a whole number of at least 1, got True."),
    (dict(dropout="0.1"), "dropout must be at least 0 and below 1, got '0.1'."),
    (dict(share_embeddings=True), "share_embeddings needs vocabularies of one size, got "
                                  "n_src_vocab=5, n_tgt_vocab=7."),
])
def test_choices_are_what_they_say(bad, name):
    with pytest.raises(ValueError) as caught:
        npt.Config(5, 7, **bad)
    assert str(caught.value) == name


@pytest.mark.parametrize("call, message", [
    (lambda: npt.padding_mask(np.ones((2, 3), int), "0"),
     "pad_id must be a whole number of at least 0, got '0'."),
    (lambda: npt.Linear(3, 2, 0), "rng must be a generator, such as np.random.default_rng(0), "
                                  "got int."),
    (lambda: npt.Dropout(0.5)(X, 3), "rng must be a generator, such as np.random.default_rng(0), "
                                     "got int."),
    (lambda: npt.Linear(8, 2, RNG)(np.matrix([[1.0] * 8])),
     "Linear needs an array of float32 or float64, got matrix float64 (1, 8)."),
    (lambda: npt.softmax(np.ma.array([1.0, 2.0])),
     "softmax needs an array of float32 or float64, got MaskedArray float64 (2,)."),
    (lambda: npt.Linear(2.0, 2, RNG), "d_in must be a whole number of at least 1, got 2.0."),
    (lambda: npt.Embedding(9, 2, RNG)([[1, 2], [3]]),
     "token ids must be rows of one length, padded at the end."),
])
def test_wrong_kinds_are_named(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


# Writing.

MODEL, SRC = small.transformer(), small.sources(np.random.default_rng(0), 3)


@pytest.mark.parametrize("write", [npt.greedy, npt.beam_search, lambda model, src, n: npt.sample(
    model, src, n, np.random.default_rng(0))], ids=["greedy", "beam", "sample"])
def test_nan_logits_stop_with_an_error(write):
    broken = small.transformer()
    broken.unembed.table.value = np.full_like(broken.unembed.table.value, np.nan)
    with pytest.raises(ValueError, match="token 1 needs a finite score"):
        write(broken, SRC, 4)


@pytest.mark.parametrize("width", [3, 6])
def test_beam_search_prefers_an_answer_to_a_beginning(width):
    """Over many models: where any answer was found, what is returned has ended."""
    found = 0
    for seed in range(30):
        model = small.transformer(seed, spread=0.3)
        best = npt.beam_search(model, SRC, 4, width=width, length_penalty=2.0, n_best=width)
        ended = (best == 2).any(axis=2)
        assert (ended[:, :1] | ~ended.any(axis=1, keepdims=True)).all()
        assert (np.diff(ended.astype(int), axis=1) <= 0).all()
        found += ended.any()
    assert found >= 10


def test_n_best_begins_with_the_best_and_none_comes_twice():
    many = npt.beam_search(MODEL, SRC, 5, width=4, n_best=4)
    np.testing.assert_array_equal(many[:, 0], npt.beam_search(MODEL, SRC, 5, width=4))
    assert many.shape[:2] == (3, 4)
    for row in many:
        assert len({tuple(ids) for ids in row}) == 4


def test_a_minimum_length_keeps_the_end_away():
    eager = small.transformer(spread=0.3)
    table = eager.unembed.table
    table.value = table.value.copy()
    written = npt.greedy(eager, SRC, 6)
    short = npt.greedy(eager, SRC, 6, end_ids=set(written[:, 0].tolist()))
    assert short.shape == (3, 1)
    later = npt.greedy(eager, SRC, 6, end_ids=set(written[:, 0].tolist()), min_len=3)
    assert not np.isin(later[:, :3], written[:, 0]).any()


def test_any_of_several_ends_is_an_end():
    first = npt.greedy(MODEL, SRC, 6)[:, 0]
    ids = npt.greedy(MODEL, SRC, 6, end_ids=[2, int(first[0])])
    assert ids[0, 0] == first[0] and not ids[0, 1:].any()


def test_a_penalty_for_repetition_makes_other_tokens_win():
    model = small.transformer(spread=0.3)
    free = npt.greedy(model, SRC, 8, end_ids=())
    varied = npt.greedy(model, SRC, 8, end_ids=(), repetition_penalty=1e6)
    assert sum(len(set(row)) for row in varied) > sum(len(set(row)) for row in free)


@pytest.mark.parametrize("options, message", [
    (dict(max_len=3.0), "max_len must be a whole number of at least 1, got 3.0."),
    (dict(width=2.0), "width must be a whole number of at least 1, got 2.0."),
    (dict(length_penalty=5000), "length_penalty must be from -100 to 100, got 5000."),
    (dict(n_best=5), "n_best must be at most width=4, got 5."),
    (dict(end_ids=[99]), "end_ids (99,) and never_ids (0, 1) must be inside the vocabulary of 11."),
    (dict(end_ids=["."]), "end_ids must be a whole number of at least 0, got '.'."),
    (dict(min_len=-1), "min_len must be a whole number of at least 0, got -1."),
    (dict(repetition_penalty=0), "repetition_penalty must be above 0 and finite, got 0."),
])
def test_wrong_options_of_writing_are_named(options, message):
    with pytest.raises(ValueError) as caught:
        npt.beam_search(MODEL, SRC, **{"max_len": 4, **options})
    assert str(caught.value) == message


def test_room_of_zero_is_refused_and_rows_outside_a_state_too():
    with pytest.raises(ValueError, match="max_len must be a whole number of at least 1, got 0"):
        MODEL.start(SRC, 0)
    with pytest.raises(ValueError, match="row id 5 is outside the vocabulary of 3"):
        MODEL.start(SRC, 3).select([5])


def test_a_mask_of_the_source_does_not_need_the_padding_id():
    """Real tokens may have the padding's id, if the mask says so."""
    config = npt.Config(9, 9, d_model=8, n_heads=2, d_ff=7, n_layers=1, dropout=0.0, pad_id=0)
    model = npt.Transformer(config, np.random.default_rng(0))
    src, tgt = np.array([[3, 0, 4, 5]]), np.array([[1, 3, 4]])
    real = np.array([[True, True, True, False]])
    logits = model(src, tgt, src_mask=real)
    np.testing.assert_allclose(model(src[:, :3], tgt, src_mask=real[:, :3]), logits, atol=1e-6)
    assert np.abs(logits - model(src, tgt)).max() > 1e-3
    state = model.start(src, 3, src_mask=real)
    np.testing.assert_allclose(model.step(state.last, state), logits[:, 0], atol=1e-5)


# What a cold trial found.

class Tripled(npt.SelfAttention):
    """Changes forward alone: the step that it inherits is not its own."""

    def forward(self, x, mask=None, rng=None):
        y, backward = super().forward(x, mask, rng)
        return 3 * y, lambda dy: backward(3 * dy)


class TripledConfig(npt.Config):
    def make_self_attention(self, rng):
        return Tripled(self.d_model, self.n_heads, rng)


def test_a_changed_forward_is_what_writes():
    config = TripledConfig(13, 11, d_model=8, n_heads=2, d_ff=7, max_len=9, dropout=0.0)
    model, tgt = npt.Transformer(config, np.random.default_rng(0)), np.array([[1, 3, 4, 5]] * 3)
    state = model.start(SRC, 4)
    for i in range(4):
        np.testing.assert_allclose(model.step(tgt[:, i], state), model(SRC, tgt[:, :i + 1])[:, -1],
                                   atol=1e-5)


class OtherBlock(npt.EncoderBlock):
    def forward(self, x, mask=None, rng=None):
        return super().forward(x, mask, rng)


def test_a_block_with_another_forward_needs_a_step_of_its_own():
    encoder = npt.Encoder(small.CONFIG, np.random.default_rng(0))
    encoder.blocks[1] = OtherBlock(small.CONFIG, np.random.default_rng(0))
    with pytest.raises(ValueError, match="OtherBlock has a forward of its own, so it needs a step"):
        encoder.start(2, 5)


@pytest.mark.parametrize("penalty", [1.3, 2.0])
def test_a_beam_of_one_is_greedy_with_a_penalty_too(penalty):
    for seed in range(5):
        model = small.transformer(seed)
        np.testing.assert_array_equal(
            npt.beam_search(model, SRC, 8, width=1, repetition_penalty=penalty),
            npt.greedy(model, SRC, 8, repetition_penalty=penalty))


def test_two_parameters_cannot_have_one_path():
    module = npt.Module()
    module.parts = {1: npt.Linear(2, 3, RNG), "1": npt.Linear(2, 3, RNG)}
    with pytest.raises(ValueError, match=r"Two parameters must not have one path, got parts\.1\.W"):
        module.parameters()


def test_a_run_goes_on_with_its_parameters_in_the_same_order(tmp_path):
    def run(names, n_steps, resume):
        task, model = small.copying()
        own = model.parameters()
        optimizer = npt.Adam({name: own[name] for name in names(own)})
        return npt.train(model, optimizer, task.batches(8, np.random.default_rng(0)), None, n_steps,
                         path=tmp_path / "run.npz", resume=resume)

    run(sorted, 3, resume=False)
    with pytest.raises(ValueError, match="parameters"):
        run(lambda own: sorted(own, reverse=True), 6, resume=True)
    assert len(run(sorted, 6, resume=True).loss) == 6


# What a second cold trial found.

def test_a_large_vocabulary_with_one_table_is_saved(tmp_path):
    """The model draws three tables of which it keeps one: load must let it."""
    config = npt.Config(200_000, 200_000, d_model=8, n_heads=1, d_ff=1, n_layers=1,
                        share_embeddings=True, tie_embeddings=True)
    model = npt.Transformer(config, np.random.default_rng(0))
    npt.save(tmp_path / "model.npz", model)
    again = npt.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.unembed.table.value, model.unembed.table.value)


@pytest.mark.parametrize("call", [
    lambda x: npt.softmax(x), lambda x: npt.attention(x, x, x), lambda x: npt.LayerNorm(8)(x),
    lambda x: npt.cross_entropy(x, np.zeros((2, 3), int)),
])
@pytest.mark.parametrize("dtype", [">f4", ">f8"])
def test_numbers_of_another_machine_are_refused_in_our_words(call, dtype):
    with pytest.raises(ValueError, match=rf"needs an array of float32 or float64, got {dtype}"):
        call(X.astype(dtype))


@pytest.mark.parametrize("pad_id", [-1, 99])
def test_targets_may_be_padded_with_what_is_no_token(pad_id):
    logits = RNG.standard_normal((2, 3, 5))
    targets = np.array([[1, 4, pad_id], [0, pad_id, pad_id]])
    loss, backward = npt.cross_entropy(logits, targets, pad_id, label_smoothing=0.1)
    real = targets != pad_id
    wanted, rows_backward = npt.cross_entropy(logits[real], targets[real], label_smoothing=0.1)
    assert loss == wanted
    np.testing.assert_array_equal(backward()[real], rows_backward())
    assert not backward()[~real].any()
    with pytest.raises(ValueError, match="target id -2 is outside"):
        npt.cross_entropy(logits, np.where(real, -2, pad_id), pad_id)


class Counter(npt.Module):
    """Writes one more than the token before."""

    def start(self, prompt, max_len):
        return npt.DecodingState([], prompt[:, -1])

    def step(self, ids, state):
        return np.eye(9)[ids + 1]


@pytest.mark.parametrize("write", [npt.greedy, npt.beam_search])
def test_no_rows_to_write_are_refused(write):
    assert write(Counter(), np.array([[3], [4]]), 2).tolist() == [[4, 5], [5, 6]]
    with pytest.raises(ValueError, match="There must be at least one row to write, got none"):
        write(Counter(), np.zeros((0, 1), int), 2)


class OtherEncoder(npt.Encoder):
    def forward(self, x, mask=None, rng=None):
        y, backward = super().forward(x, mask, rng)
        return x + y, lambda dy: dy + backward(dy)


class OtherDecoder(npt.Decoder):
    def forward(self, *inputs):
        return super().forward(*inputs)


class OtherModel(npt.Transformer):
    def forward(self, *inputs, **options):
        return super().forward(*inputs, **options)


class OtherModelThatWrites(OtherModel):
    step = npt.Transformer.step


@pytest.mark.parametrize("kind, start", [
    (OtherEncoder, lambda stack: stack.start(2, 5)),
    (OtherDecoder, lambda stack: stack.start(X, None, 5)),
    (OtherModel, lambda model: model.start(SRC)),
])
def test_a_stack_or_model_with_another_forward_needs_a_step_of_its_own(kind, start):
    """Its step would write what the old forward says, without a word."""
    with pytest.raises(ValueError, match=f"{kind.__name__} has a forward of its own, so it needs"):
        start(kind(small.CONFIG, np.random.default_rng(0)))
    OtherModelThatWrites(small.CONFIG, np.random.default_rng(0)).start(SRC)


SELF, CROSS = npt.SelfAttention(8, 2, RNG), npt.CrossAttention(8, 2, RNG)


@pytest.mark.parametrize("call, message", [
    (lambda: SELF.start(-1, 3), "n_rows must be a whole number of at least 0, got -1."),
    (lambda: SELF.start(2, 3.5), "max_len must be a whole number of at least 0, got 3.5."),
    (lambda: SELF.step(X[:, 0], SELF.start(2, 3)), "SelfAttention needs axes (B, T, D), "
                                                   "got shape (2, 8)."),
    (lambda: CROSS.start(X[0], None), "CrossAttention's memory needs axes (B, T, D), "
                                      "got shape (3, 8)."),
    (lambda: CROSS.start(X, np.ones((2, 3), bool)),
     "mask (2, 3) does not broadcast to scores (B, H, T, S) = (2, 2, 1, 3)."),
    (lambda: CROSS.start(X, np.ones((2, 1, 3), bool)),
     "mask (2, 1, 3) is ambiguous for scores of shape (2, 2, 1, 3): "
     "give it 2 axes or 4, of size 1 where all are alike."),
    (lambda: npt.train(MODEL, npt.Adam(MODEL.parameters()), [], None, 1, schedule=0.1),
     "schedule must be a function, got float."),
    (lambda: npt.train(MODEL, npt.Adam(MODEL.parameters()), None, None, 1),
     "batches must be something to go through, such as Batches or a list, got NoneType."),
])
def test_what_ended_in_the_words_of_numpy_or_python(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("losses, best", [
    ([np.nan, 0.5], True), ([0.5, np.nan], False), ([np.nan], False), ([0.4, np.nan, 0.3], True),
    ([0.3, np.nan, 0.4], False), ([0.5, 0.5], False), ([0.5], True),
])
def test_an_evaluation_that_is_no_number_is_never_the_best(losses, best):
    history = npt.History(evaluations=[npt.Evaluation(i, x) for i, x in enumerate(losses)])
    assert history.best_is_last() == best


class Grammar(npt.Module):
    """4 is followed by 3, 3 by the end, and the end by nothing: not one token may be next."""

    config = small.CONFIG

    def start(self, prompt, max_len):
        return npt.DecodingState([], prompt[:, -1])

    def step(self, ids, state):
        logits = np.full((len(ids), 6), -np.inf, np.float32)
        for row, i in enumerate(ids):
            if i in (3, 4):
                logits[row, 2 if i == 3 else 3] = 0.0
        return logits


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("write", [npt.greedy, npt.beam_search, lambda model, prompt, n: npt.sample(
    model, prompt, n, np.random.default_rng(0))], ids=["greedy", "beam", "sample"])
def test_what_comes_after_an_end_is_not_asked(write):
    assert write(Grammar(), np.array([[3], [4]]), 5).tolist() == [[2, 0], [3, 2]]
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="token 1 needs a finite"):
        write(Grammar(), np.array([[3], [5]]), 5)

"""Bad input to training: what is wrong, what is required, what was got. Messages pinned whole."""

import numpy as np
import pytest
import small

import npt_lib as npt

RNG = np.random.default_rng(0)
MODEL = small.transformer()
SRC, TGT = small.pairs(np.random.default_rng(0), 3)
LINEAR = npt.Linear(3, 2, RNG)
PARAMETERS = LINEAR.parameters()
LOGITS = RNG.standard_normal((2, 3, 11))
IDS = np.zeros((2, 3), int)


def optimize(make, **options):
    return lambda: make(PARAMETERS, **options)


def train(model=MODEL, optimizer=None, batches=((SRC, TGT),), rng=None, **options):
    optimizer = npt.Adam(MODEL.parameters()) if optimizer is None else optimizer
    return lambda: npt.train(model, optimizer, batches, rng, **{"n_steps": 1} | options)


def train_step(model=MODEL, batch=(SRC, TGT), rng=None, **options):
    return lambda: npt.train_step(model, npt.Adam(MODEL.parameters()), batch, rng, **options)


def batches(arrays=(SRC, TGT), batch_size=2, rng=RNG, **options):
    return lambda: npt.Batches(arrays, batch_size, rng, **options)


def adam_state(**changes):
    adam = npt.Adam(PARAMETERS)
    state = {**adam.state_dict(), **changes}
    return lambda: adam.load_state_dict({k: v for k, v in state.items() if v is not None})


def batches_state(n_rows, generator=np.random.PCG64):
    other = npt.Batches((SRC, TGT), 2, np.random.default_rng(0), 0)
    mine = npt.Batches((np.arange(n_rows),), 2, np.random.Generator(generator(0)))
    return lambda: mine.load_state_dict(other.state_dict())


def step_with(grad, make=npt.Adam):
    p = npt.Parameter(np.ones((3, 2), np.float32))
    p.grad = grad
    return lambda: make({"a.W": p}, 0.1).step()


def converted():
    p = npt.Parameter(np.ones(2, np.float32))
    adam = npt.Adam({"a.b": p})
    p.value, p.grad = np.ones(2), np.ones(2)
    return adam.step()


class Losses(npt.Module):
    """Its loss is one for each row."""

    n_targets = len

    def loss(self, batch, rng=None):
        return np.ones(3), lambda dloss=1.0: None


NO_GRADIENT = ("No parameter has a gradient: a backward pass through the model whose parameters "
               "these are must come before a step.")
RATE = "A step's lr must be at least 0, got "
WHOLE = "must be a whole number of at least"
A_GENERATOR = "rng must be a generator, such as np.random.default_rng(0), got int."

WRONG = [
    # the loss
    (lambda: npt.cross_entropy(LOGITS, np.zeros((2, 4), int)),
     "logits (..., V) and targets (...) must agree, got (2, 3, 11) and (2, 4)."),
    (lambda: npt.cross_entropy(np.zeros((2, 5), "f4"), [1]),
     "logits (..., V) and targets (...) must agree, got (2, 5) and (1,)."),
    (lambda: npt.cross_entropy(LOGITS, np.full((2, 3), 11)),
     "target id 11 is outside the vocabulary of 11."),
    (lambda: npt.cross_entropy(LOGITS, np.zeros((2, 3))),
     "target ids must be integers, got float64."),
    (lambda: npt.cross_entropy(LOGITS, [[1], [2, 3]]),
     "target ids must be rows of one length, padded at the end."),
    (lambda: npt.cross_entropy(LOGITS.astype(int), IDS),
     "cross_entropy needs an array of float32 or float64, got int64 (2, 3, 11)."),
    (lambda: npt.cross_entropy(LOGITS.astype(np.float16), IDS),
     "cross_entropy needs an array of float32 or float64, got float16 (2, 3, 11)."),
    (lambda: npt.cross_entropy(LOGITS, IDS, label_smoothing=1.0),
     "label_smoothing must be at least 0 and below 1, got 1.0."),
    (lambda: npt.cross_entropy(LOGITS, IDS, label_smoothing="0.1"),
     "label_smoothing must be at least 0 and below 1, got '0.1'."),
    (lambda: npt.cross_entropy(LOGITS, IDS, pad_id=0.0), f"pad_id {WHOLE} -1, got 0.0."),

    # optimizers and schedules
    (optimize(npt.SGD, lr=0.0), "lr must be above 0, got 0.0."),
    (optimize(npt.SGD, lr="0.1"), "lr must be above 0, got '0.1'."),
    (optimize(npt.SGD, lr=0.1, momentum=1.0), "momentum must be at least 0 and below 1, got 1.0."),
    (optimize(npt.Adam, lr=float("nan")), "lr must be above 0, got nan."),
    (optimize(npt.Adam, lr=np.array([0.1, 0.2])), "lr must be above 0, got array([0.1, 0.2])."),
    (optimize(npt.Adam, betas=(0.9, 1.0)), "betas[1] must be at least 0 and below 1, got 1.0."),
    (optimize(npt.Adam, betas=0.9), "betas must be two numbers, got 0.9."),
    (optimize(npt.Adam, eps=0.0), "eps must be above 0, got 0.0."),
    (optimize(npt.Adam, weight_decay=-1.0), "weight_decay must be at least 0, got -1.0."),
    (lambda: npt.Adam({}), "An optimizer needs at least 1 parameter, got 0."),
    (lambda: npt.Adam([np.ones(3)]), "An optimizer needs Parameters, such as model.parameters() "
                                     "has, got float64 (3,)."),
    (lambda: npt.SGD(LINEAR, 0.1), "An optimizer needs Parameters, such as model.parameters() "
                                   "has, got Linear."),
    (lambda: npt.Adam([npt.Parameter(np.ones(2, np.float32)), npt.Parameter(np.ones(3))]),
     "An optimizer needs parameters of one dtype, got ['float32', 'float64']."),
    (lambda: npt.Adam(PARAMETERS).step(float("nan")), f"{RATE}nan."),
    (lambda: npt.SGD(PARAMETERS, 0.1).step(-0.1), f"{RATE}-0.1."),
    (lambda: npt.Adam(PARAMETERS).step(), NO_GRADIENT),
    (lambda: npt.SGD(PARAMETERS, 0.1).step(), NO_GRADIENT),
    (step_with(np.ones(2, np.float32)),
     "The gradient of a.W must be float32 (3, 2), got float32 (2,)."),
    (step_with(np.ones((3, 2)), npt.SGD),
     "The gradient of a.W must be float32 (3, 2), got float64 (3, 2)."),
    (step_with(np.ones((3, 2), np.float32).view(np.matrix)),
     "The gradient of a.W must be float32 (3, 2), got matrix float32 (3, 2)."),
    (converted, "a.b must stay float32 (2,), got float64 (2,)."),
    (adam_state(mean=np.zeros(3)), "mean must have shape (8,), got float64 (3,)."),
    (adam_state(mean=np.full(8, np.nan)), "mean holds NaN or infinity."),
    (adam_state(square=None), "square must have shape (8,), got None."),
    (adam_state(square=np.full(8, -1.0)), "square must be at least 0, got -1.0."),
    (adam_state(n_steps=None), f"n_steps {WHOLE} 0, got None."),
    (adam_state(n_steps=-1), f"n_steps {WHOLE} 0, got -1."),
    (lambda: npt.noam(0, 64, 10), f"step {WHOLE} 1, got 0."),
    (lambda: npt.noam(1, 64.0, 10), f"d_model {WHOLE} 1, got 64.0."),
    (lambda: npt.warmup_cosine(1, 1.0, 10, 10), f"total {WHOLE} 11, got 10."),
    (lambda: npt.warmup_cosine(1, float("inf"), 1, 10), "peak must be at least 0, got inf."),
    (lambda: npt.clip_gradients(PARAMETERS, 0.0), "max_norm must be above 0, got 0.0."),
    (lambda: npt.clip_gradients(PARAMETERS, float("nan")), "max_norm must be above 0, got nan."),

    # batches
    (batches(SRC), "arrays must be a tuple, such as (src, tgt), got int64 (3, 6)."),
    (batches([SRC, TGT]), "arrays must be a tuple, such as (src, tgt), got list."),
    (batches((SRC[:0], TGT[:0])),
     "arrays must have one first axis, and no axis of 0, got shapes (0, 6), (0, 6)."),
    (batches((SRC, TGT[:2])),
     "arrays must have one first axis, and no axis of 0, got shapes (3, 6), (2, 6)."),
    (batches((SRC[:, :0], TGT)),
     "arrays must have one first axis, and no axis of 0, got shapes (3, 0), (3, 6)."),
    (batches((SRC, np.array(3))),
     "arrays must have one first axis, and no axis of 0, got shapes (3, 6), ()."),
    (batches(([[3], [4, 5], [6]], TGT)),
     "arrays[0] must have rows of one length, padded at the end."),
    (batches((SRC, ["a", "b", "c"])), "arrays[1] must be an array of numbers, got list."),
    (batches((SRC.view(np.matrix), TGT)),
     "arrays[0] must be an array of numbers, got matrix int64 (3, 6)."),
    (batches((SRC, np.ma.masked_equal(TGT, 0))),
     "arrays[1] must be an array of numbers, got MaskedArray int64 (3, 6)."),
    (batches(batch_size=0), f"batch_size {WHOLE} 1, got 0."),
    (batches(batch_size=2.0), f"batch_size {WHOLE} 1, got 2.0."),
    (batches(rng=0), A_GENERATOR),
    (batches((SRC * 1.0, TGT[:, 0]), pad_id=0), "pad_id needs ids, integers (N, L), among the "
                                                "arrays, got ['float64 (3, 6)', 'int64 (3,)']."),
    (batches(by_length=True), "by_length needs a pad_id, which says where a row ends."),
    (batches(pad_id=0, by_length=1), "by_length must be True or False, got 1."),
    (batches_state(4), "The state's batches must have 4 rows, got 3."),
    (batches_state(3, np.random.MT19937),
     "The checkpoint's generator is PCG64, but the one passed is MT19937."),

    # training and evaluation
    (train(n_steps=0), f"n_steps {WHOLE} 1, got 0."),
    (train(n_steps=3.0), f"n_steps {WHOLE} 1, got 3.0."),
    (train(every=0), f"every {WHOLE} 1, got 0."),
    (train(n_threads=0), f"n_threads {WHOLE} 1, got 0."),
    (train(resume="yes"), "resume must be True or False, got 'yes'."),
    (train(rng=7), A_GENERATOR),
    (train(optimizer=npt.Adam(PARAMETERS)), "The optimizer must have been given parameters of "
                                            "this model, but W is none of them."),
    (train(optimizer=3), "An optimizer needs at least 1 parameter, got 0."),
    (train(model=LINEAR), "A model that learns needs loss(batch, rng), n_targets(batch) and "
                          "parameters(), but Linear has no loss."),
    (train(batches=npt.Batches((SRC, TGT), 2, RNG, 3)), "Batches must have the model's pad_id, 0, "
                                                        "got 3."),
    (train(shedule=lambda step: 1.0), "Transformer.loss(batch, rng, shedule): got an unexpected "
                                      "keyword argument 'shedule'."),
    (train(validation=SRC), "arrays must be a tuple, such as (src, tgt), got int64 (3, 6)."),
    (train(validation=(SRC, TGT + 9)), "target id 18 is outside the vocabulary of 11."),
    (train(tokenizers="ab", path="run.npz"),
     "tokenizers must be a tuple of Tokenizers, got str."),
    (train(path="none/run.npz"),
     "none/run.npz must be a file in a folder that exists: none is none."),
    (train(path=3), "path must be the name of a file, got int."),
    (train(schedule=lambda step: -1.0), f"Step 1: {RATE}-1.0."),
    (train(schedule=lambda step: None), f"Step 1: {RATE}None."),
    (train(max_norm=0), "Step 1: max_norm must be above 0, got 0."),
    (train_step(batch=(SRC[:0], TGT[:0])),
     "source ids must be (batch, length), both at least 1, got shape (0, 6)."),
    (train_step(rng=1), A_GENERATOR),
    (train_step(model=LINEAR), "A model that learns needs loss(batch, rng), n_targets(batch) and "
                               "parameters(), but Linear has no loss."),
    (train_step(model=Losses()), "A model's loss must be one number, got shape (3,)."),
    (lambda: npt.evaluate(MODEL, SRC), "arrays must be a tuple, such as (src, tgt), "
                                       "got int64 (3, 6)."),
    (lambda: npt.evaluate(MODEL, (SRC[:0], TGT[:0])),
     "arrays must have one first axis, and no axis of 0, got shapes (0, 6), (0, 6)."),
    (lambda: npt.evaluate(MODEL, (SRC, TGT), batch_size=0), f"batch_size {WHOLE} 1, got 0."),
    (lambda: npt.evaluate(LINEAR, (SRC, TGT)), "A model that learns needs loss(batch, rng), "
                                               "n_targets(batch) and parameters(), "
                                               "but Linear has no loss."),
    (lambda: npt.threads(0).__enter__(), f"threads {WHOLE} 1, got 0."),
]


@pytest.mark.parametrize("wrong, message", WRONG, ids=[message[:60] for _, message in WRONG])
def test_bad_input_is_named(wrong, message):
    with pytest.raises(ValueError) as caught:
        wrong()
    assert str(caught.value) == message


# Numbers of NumPy are numbers, and never change a dtype.

@pytest.mark.parametrize("optimizer", [
    lambda ps: npt.SGD(ps, np.float64(0.1), np.float64(0.5)),
    lambda ps: npt.Adam(ps, np.float64(0.1), (np.float64(0.9), np.float64(0.98)), np.float64(1e-9),
                        np.float64(0.1)),
], ids=["SGD", "Adam"])
@pytest.mark.parametrize("scalar", [np.float64, np.float32, float])
def test_a_float32_model_stays_float32(optimizer, scalar):
    model = small.transformer()
    optimizer = optimizer(model.parameters())
    optimizer.lr = np.float64(0.01)
    history = npt.train(model, optimizer, [(SRC, TGT)] * 2, None, 2, label_smoothing=scalar(0.1),
                        schedule=lambda step: scalar(0.01), max_norm=scalar(0.1))
    optimizer.step()
    optimizer.step(np.float64(0.1))
    assert {p.value.dtype for p in model.parameters().values()} == {np.dtype(np.float32)}
    assert {x.dtype for x in optimizer.state_dict().values() if x.ndim} == {np.dtype(np.float32)}
    assert type(history.lr[0]) is float and type(history.loss[0]) is float


def test_a_run_saved_under_a_schedule_of_numpy_numbers(tmp_path):
    model = small.transformer()
    history = npt.train(model, npt.Adam(model.parameters()), [(SRC, TGT)] * 2, None, np.int64(2),
                        schedule=lambda step: np.float32(0.25), every=np.int32(1),
                        path=tmp_path / "run.npz")
    assert history.lr == [0.25, 0.25]


def test_a_parameter_given_twice_moves_and_counts_once():
    p, q = (npt.Parameter(np.zeros(2)) for _ in range(2))
    for one in (p, q):
        one.grad = np.array([3.0, 4.0])
    assert npt.clip_gradients([p, p], 2.5) == npt.clip_gradients([q], 2.5) == 5.0
    np.testing.assert_array_equal(p.grad, [1.5, 2.0])
    npt.SGD([p, p], 1.0).step()
    np.testing.assert_array_equal(p.value, [-1.5, -2.0])


@pytest.mark.parametrize("size", [1e20, 3e38, 1e-25, 1e-38])
def test_the_norm_of_gradients_whose_squares_float32_does_not_hold(size):
    p, q = (npt.Parameter(np.zeros(2, np.float32)) for _ in range(2))
    p.grad, q.grad = np.array([[0.6, 0], [0, 0.8]], np.float32) * np.float32(size)
    norm = npt.clip_gradients([p, q], size / 2)
    assert norm == pytest.approx(size, rel=1e-6)
    np.testing.assert_allclose([*p.grad, *q.grad], np.array([0.3, 0, 0, 0.4]) * size, rtol=1e-5)
    assert p.grad.dtype == np.float32


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_no_number_is_left_for_the_message(number):
    p = npt.Parameter(np.zeros(3))
    p.grad = np.array([1.0, number, 2.0])
    assert not np.isfinite(npt.clip_gradients([p], 1.0))
    np.testing.assert_array_equal(p.grad, [1.0, number, 2.0])


# A run's files and batches.

@pytest.mark.parametrize("name, best", [
    ("run.npz", "run.best.npz"), ("lr0.1.npz", "lr0.1.best.npz"), ("lr0.1", "lr0.1.best.npz"),
    ("lr0.01", "lr0.01.best.npz"), ("run", "run.best.npz"),
])
def test_the_best_model_has_a_file_of_its_own(tmp_path, name, best):
    model = small.transformer()
    npt.train(model, npt.Adam(model.parameters()), [(SRC, TGT)], None, 1, validation=(SRC, TGT),
              path=tmp_path / name)
    assert sorted(x.name for x in tmp_path.iterdir()) == sorted([name, best])


def test_a_model_that_cannot_be_saved_is_not_trained_in_vain(tmp_path):
    model = small.transformer()
    model.encoder.blocks[0].norm1.eps = 0.1
    before = model.state_dict()
    with pytest.raises(ValueError, match=r"norm1\.eps is 0\.1"):
        npt.train(model, npt.Adam(model.parameters()), [(SRC, TGT)], None, 1,
                  path=tmp_path / "run.npz")
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def python_generator(seed):
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.permutation(len(SRC))[:2]
        yield SRC[rows], TGT[rows]


def a_list():
    return [(SRC[i:i + 1], TGT[i:i + 1]) for i in (0, 1, 2, 0, 1, 2)]


@pytest.mark.parametrize("make", [lambda: python_generator(3), a_list])
def test_batches_of_any_kind_go_on_where_they_were(tmp_path, make):
    def run(n_steps, **options):
        model = small.transformer()
        npt.train(model, npt.Adam(model.parameters()), make(), np.random.default_rng(0), n_steps,
                  path=tmp_path / "run.npz", **options)
        return model.state_dict()

    whole = run(6)
    run(4)
    for name, value in run(6, resume=True).items():
        np.testing.assert_array_equal(value, whole[name], err_msg=name)

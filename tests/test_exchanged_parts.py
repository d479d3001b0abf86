"""Other models fit in: written with public names only, they train, write and are checked."""

import numpy as np
import pytest
from readers_models import Classifier, LanguageModel, ModernConfig, Sizes
from small import loss_errors

import npt_lib as npt

MODERN = ModernConfig(9, 11, d_model=8, n_heads=2, d_ff=7, n_layers=2, max_len=9, dropout=0.2)
SIZES = Sizes(11, 11, d_model=8, n_heads=2, d_ff=7, n_layers=2, max_len=12, dropout=0.2,
              pre_norm=True, positions="learned", pad_id=0)


def language_batch(rng, n=5):
    """Counting up, modulo the vocabulary: easy to learn, and easy to judge."""
    start = rng.integers(3, 11, (n, 1))
    return (3 + (start - 3 + np.arange(8)) % 8,)


def pair_batch(rng, n=5):
    src = rng.integers(3, 9, (n, 6))
    src[0, 4:] = 0
    tgt = np.zeros((n, 8), int)
    for ids, row in zip(src, tgt, strict=True):
        real = ids[ids > 0]
        row[:len(real) + 2] = [1, *real[::-1], 2]
    return src, tgt


def class_batch(rng, n=16):
    ids = rng.integers(3, 9, (n, 5))
    ids[0, 3:] = 0
    return ids, (ids == 4).any(axis=1).astype(int)


MODELS = {
    "a language model": (lambda rng: LanguageModel(SIZES, rng), language_batch),
    "a classifier": (lambda rng: Classifier(MODERN, rng), class_batch),
    "an encoder-decoder of other parts": (lambda rng: npt.Transformer(MODERN, rng), pair_batch),
}
every = pytest.mark.parametrize("build, batch", MODELS.values(), ids=list(MODELS))


def made(build, batch, seed=0):
    rng = np.random.default_rng(seed)
    return build(rng), batch(rng)


@every
def test_the_loss_has_the_right_gradients(build, batch):
    model, given = made(build, batch)
    model = model.astype(np.float64)
    errors = loss_errors(lambda: model.loss(given, np.random.default_rng(1)),
                         model.parameters())
    assert len(errors) == len(model.parameters()) > 15
    assert max(errors.values()) < 1e-6


@every
def test_it_learns(build, batch):
    rng = np.random.default_rng(0)
    model = build(rng)
    optimizer = npt.Adam(model.parameters(), lr=3e-3)
    losses = [npt.train_step(model, optimizer, batch(rng, 32), None) for _ in range(250)]
    assert np.mean(losses[-10:]) < 0.35 * losses[0]
    assert all(p.value.dtype == np.float32 for p in model.parameters().values())


def by_the_whole_model(model, inputs, n):
    """Greedy writing without any cache: the whole sequence again for each token."""
    is_pair = isinstance(model, npt.Transformer)
    ids = np.full((len(inputs), 1), model.config.bos_id) if is_pair else inputs
    ended = np.zeros(len(inputs), bool)
    for _ in range(n):
        logits = (model(inputs, ids) if is_pair else model(ids))[:, -1]
        logits[:, [0, 1]] = -np.inf
        last = np.where(ended, 0, logits.argmax(axis=-1))
        ended |= last == 2
        ids = np.concatenate([ids, last[:, None]], axis=1)
    return ids[:, -n:]


@pytest.mark.parametrize("name", ["a language model", "an encoder-decoder of other parts"])
def test_it_writes_what_the_whole_model_says(name):
    model, (inputs, *_) = made(*MODELS[name], seed=3)
    wanted = by_the_whole_model(model, inputs, 4)
    greedy = npt.greedy(model, inputs, 4)
    np.testing.assert_array_equal(np.pad(greedy, ((0, 0), (0, 4 - greedy.shape[1]))), wanted)
    np.testing.assert_array_equal(npt.beam_search(model, inputs, 4, width=1), greedy)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(npt.sample(model, inputs, 4, rng, top_k=1), greedy)
    several = npt.beam_search(model, inputs, 4, width=3, n_best=3)
    assert several.shape[:2] == (5, 3)
    assert all(len({tuple(ids) for ids in row}) == 3 for row in several)


@pytest.mark.parametrize("n_read", [1, 5])
def test_a_prompt_read_at_once_gives_the_logits_of_the_whole_model(n_read):
    model, (ids,) = made(*MODELS["a language model"])
    state = model.start(ids[:, :n_read], 8 - n_read)
    for i in range(n_read, 8):
        np.testing.assert_allclose(model.step(state.last if i == n_read else ids[:, i - 1], state),
                                   model(ids[:, :i])[:, -1], atol=1e-5)


def test_attention_without_a_step_of_its_own_writes_what_forward_says():
    model, (src, tgt) = made(*MODELS["an encoder-decoder of other parts"])
    state = model.start(src, 7)
    for i in range(1, 8):
        np.testing.assert_allclose(model.step(tgt[:, i - 1], state),
                                   model(src, tgt[:, :i])[:, -1], atol=1e-5)


def test_attention_maps_are_found_whoever_wrote_the_attention():
    model, (src, tgt) = made(*MODELS["an encoder-decoder of other parts"])
    _, backward = model.forward(src, tgt[:, :-1])
    maps = npt.attention_maps(backward)
    assert sorted(maps) == sorted(f"{part}.{i}.{kind}" for i in range(2) for part, kind in
                                  (("encoder", "attn"), ("decoder", "attn"), ("decoder", "cross")))
    for name, w in maps.items():
        np.testing.assert_allclose(w.sum(axis=-1), 1, atol=1e-5, err_msg=name)

    def wrapped(x):
        y, inner = model.encoder.forward(x)
        return y * 2, lambda dy: inner(dy * 2)

    x = np.ones((2, 3, 8), np.float32)
    assert list(npt.attention_maps(wrapped(x)[1])) == ["0.attn", "1.attn"]

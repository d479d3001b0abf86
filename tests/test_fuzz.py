"""20,000 odd inputs at every public entry point: a result, or an error of ours that says why.

Seeded, so that a failure can be seen again: each is printed with its call.
"""

import inspect
import itertools
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import small

import npt_lib as npt
from npt_lib import tasks

N = 20_000
PACKAGE = Path(npt.__file__).parent


# What may be handed over: for each kind of argument good values, and odd ones that fit any kind.

def floats(*shapes):
    return lambda rng: rng.standard_normal(shapes[rng.integers(len(shapes))]).astype(
        rng.choice(["f4", "f8"]))


def ids(high, *shapes):
    return lambda rng: rng.integers(0, high, shapes[rng.integers(len(shapes))])


def one_of(*values):
    return lambda rng: values[rng.integers(len(values))]


def new(make):
    return lambda rng: make()


def odd(rng):
    """Something of another kind, shape, size or value than is asked for."""
    x = rng.standard_normal(tuple(rng.integers(0, 4, rng.integers(0, 4))))
    pool = [
        None, True, 0, -1, 1, 3, 10**12, -(2**70), 0.5, -1.5, 1e300, float("nan"), float("inf"),
        np.float32(0.5), np.int64(2), np.bool_(True), "2", "", b"x", [], [1, 2], [[1], [2, 3]], {},
        (1, 2), {"a": 1}, object(), len, np.random.default_rng(0), npt.Parameter,
        npt.Parameter(np.ones(3)), LINEAR, x, x.astype("f4"), x.astype("f2"), x.astype(int), x > 0,
        x.astype(str), x.astype(object), x * 1e30, x.astype(complex), np.ma.array(x), np.array(3),
        np.full((2, 3), np.nan), np.full((2, 3), np.inf, "f4"), np.full((2, 3), 3),
        np.full((2, 3), -1), np.matrix([[1.0, 2.0]]), np.empty((0, 3), "f4"), np.empty((2, 0), int),
        np.ones((2, 3, 8), "f4")[:, :, ::-1], np.datetime64("2020-01-01"), range(3), iter([1, 2]),
    ]
    return pool[rng.integers(len(pool))]


LINEAR = npt.Linear(8, 5, np.random.default_rng(0))
MODEL = small.transformer()
GPT = npt.GPT(npt.gpt_config(9, d_model=8, n_heads=2, d_ff=8, n_layers=1), np.random.default_rng(0))
CONFIG = MODEL.config
count, share, flag = one_of(1, 2, 3, 5), one_of(0.0, 0.1, 0.5), one_of(True, False)
rng_ = new(lambda: np.random.default_rng(0))
maybe_rng = one_of(None, np.random.default_rng(0))
x = floats((2, 3, 8), (1, 5, 8), (8,), (4, 8))
sequence, two = floats((2, 3, 8), (2, 5, 8)), floats((2, 3, 8))
heads = floats((2, 2, 3, 4), (2, 2, 3, 4), (3, 4))
mask = one_of(None, None, np.ones((3, 3), bool), np.tri(3, dtype=bool),
              np.zeros((2, 1, 1, 3), bool))
src, tgt = ids(9, (2, 4), (2, 4), (3, 6)), ids(9, (2, 4), (2, 4), (3, 5))
inputs = ids(9, (2, 4), (3, 6))
options = dict(min_len=one_of(0, 1, 2), end_ids=one_of(None, (2,), (2, 3)),
               repetition_penalty=one_of(1.0, 1.3))
parameter = new(lambda: npt.Parameter(np.ones((3, 2))))
parameters = new(lambda: npt.Linear(3, 2, np.random.default_rng(0)).parameters())
texts = one_of("abc", "cab", "a b", "red ball", "")
BYTES = npt.BytePairTokenizer([(4, 5)])
SPELLED = npt.GPT2Tokenizer.from_merges(BYTES)
SPELLING = npt.GPT(npt.gpt_config(len(SPELLED), d_model=8, n_heads=2, d_ff=8, n_layers=1),
                   np.random.default_rng(0))
LETTERS, WORDS = npt.CharTokenizer("abc "), npt.WordTokenizer(["red", "ball", "a", "b"])


def with_grad(build):
    """An optimizer over parameters that have a gradient, after one step."""
    def run(*args, **kwargs):
        layer = npt.Linear(3, 2, np.random.default_rng(0))
        _, backward = layer.forward(np.ones((4, 3), np.float32))
        backward(np.ones((4, 2), np.float32))
        optimizer = build(layer.parameters(), *args, **kwargs)
        optimizer.step()
        return [p.value for p in layer.parameters().values()]
    return run


def forward(make):
    """A layer made of the first arguments, run on the last."""
    def run(x, **sizes):
        y, backward = make(**sizes).forward(x)
        backward(np.ones_like(y))
        return y
    return run


def block(kind, *memory):
    """A block or a stack over two sequences, with any mask and rng."""
    module = kind(CONFIG, np.random.default_rng(0))

    def run(x, mask, rng, **more):
        y, backward = module.forward(x, *more.values(), mask=mask, rng=rng)
        backward(np.ones_like(y))
        return y
    return run


def trained(step):
    """Training a small model: one step, or a run of a few."""
    def run(batch=None, **options):
        model = small.transformer()
        optimizer = npt.Adam(model.parameters())
        if step:
            return npt.train_step(model, optimizer, batch, **options)
        return npt.train(model, optimizer, [batch] * 9, **options).loss
    return run


def cached(k, v):
    return npt.KVCache(2, 2, 5, 4, np.dtype("f4")).append(k, v)


def saved_and_loaded(path, model):
    return npt.load(path) if npt.save(path, model) is None else None


CALLS = {
    "softmax": (npt.softmax, dict(x=x, mask=one_of(None, np.ones(8, bool)))),
    "relu": (npt.relu, dict(x=x)),
    "gelu": (npt.gelu, dict(x=x)),
    "exact_gelu": (npt.exact_gelu, dict(x=x)),
    "attention": (npt.attention, dict(q=heads, k=heads, v=heads, mask=mask)),
    "attention_in_tiles, Causal": (npt.attention_in_tiles, dict(
        q=heads, k=heads, v=heads, mask=mask, tile=one_of(None, (2, 2)),
        pattern=one_of(None, npt.Causal(), npt.Window(2), npt.BlockSparse(1, 2)))),
    "Window": (npt.Window, dict(width=count, causal=flag)),
    "BlockSparse": (npt.BlockSparse, dict(size=count, every=count, near=count, causal=flag)),
    "causal_mask": (npt.causal_mask, dict(n=count)),
    "padding_mask": (npt.padding_mask, dict(ids=src, pad_id=one_of(0, 1))),
    "split_heads": (npt.split_heads, dict(x=sequence, n_heads=one_of(1, 2, 4))),
    "merge_heads": (npt.merge_heads, dict(a=heads)),
    "sinusoidal_positions": (npt.sinusoidal_positions, dict(n=count, d_model=count)),
    "Parameter": (npt.Parameter, dict(value=x)),
    "Linear": (forward(npt.Linear), dict(d_in=one_of(8), d_out=count, rng=rng_, bias=flag, x=x)),
    "LayerNorm": (forward(npt.LayerNorm), dict(d_model=one_of(8), eps=one_of(1e-5, 1e-3), x=x)),
    "Dropout": (forward(npt.Dropout), dict(p=share, x=x)),
    "FeedForward": (forward(npt.FeedForward), dict(
        d_model=one_of(8), d_ff=count, rng=rng_, activation=one_of("relu", "gelu"), x=x)),
    "SelfAttention": (forward(npt.SelfAttention), dict(
        d_model=one_of(8), n_heads=one_of(1, 2), rng=rng_, d_head=one_of(None, 3), x=sequence)),
    "PatternAttention": (forward(npt.PatternAttention), dict(
        d_model=one_of(8), n_heads=one_of(1, 2), rng=rng_, d_head=one_of(None, 3),
        pattern=one_of(npt.Causal(), npt.Window(2)), x=sequence)),
    "CrossAttention": (
        lambda x, memory, mask, **sizes: npt.CrossAttention(**sizes)(x, memory, mask), dict(
            d_model=one_of(8), n_heads=one_of(1, 2), rng=rng_, x=two, memory=two, mask=mask)),
    "EncoderBlock": (block(npt.EncoderBlock), dict(x=two, mask=mask, rng=maybe_rng)),
    "Encoder": (block(npt.Encoder), dict(x=two, mask=mask, rng=maybe_rng)),
    "DecoderBlock": (block(npt.DecoderBlock), dict(x=two, memory=two, mask=mask, rng=maybe_rng)),
    "Decoder": (block(npt.Decoder), dict(x=two, memory=two, mask=mask, rng=maybe_rng)),
    "KVCache": (cached, dict(k=one_of(np.ones((2, 2, 1, 4), "f4")),
                             v=one_of(np.ones((2, 2, 1, 4), "f4")))),
    "Unembedding": (lambda table, bias, x: npt.Unembedding(table, bias)(x), dict(
        table=one_of(npt.Parameter(np.ones((9, 8), "f4"))), bias=flag, x=x)),
    "InputEmbedding": (lambda ids, rng, start: MODEL.tgt_embed(ids, rng, start), dict(
        ids=src, rng=maybe_rng, start=one_of(0, 1))),
    "train_step": (trained(step=True), dict(
        batch=lambda rng: (src(rng)[:2], tgt(rng)[:2]), rng=maybe_rng, lr=one_of(None, 1e-3),
        max_norm=one_of(1.0))),
    "train": (trained(step=False), dict(
        batch=lambda rng: (src(rng)[:2], tgt(rng)[:2]), rng=maybe_rng, n_steps=one_of(1, 2),
        max_norm=one_of(1.0), every=count, n_threads=one_of(1))),
    "threads": (lambda n: npt.threads(n).__enter__(), dict(n=one_of(1))),
    "GPT2Tokenizer": (npt.GPT2Tokenizer, dict(
        vocabulary=one_of(SPELLED.vocabulary), merges=one_of(SPELLED.pairs, []))),
    "GPT2Tokenizer.encode": (SPELLED.encode, dict(text=texts, bos=flag, eos=flag)),
    "GPT2Tokenizer.decode": (SPELLED.decode, dict(ids=ids(9, (4,), (6,)))),
    "save_gpt2": (npt.save_gpt2, dict(
        folder=one_of("gpt2"), model=one_of(SPELLING), tokenizer=one_of(None, SPELLED))),
    "load_gpt2": (npt.load_gpt2, dict(folder=one_of("none", "gpt2"))),
    "load_tokenizers": (npt.load_tokenizers, dict(path=one_of("none.npz"))),
    "gradient_errors": (npt.gradient_errors, dict(
        forward=one_of(lambda *xs: (2 * sum(xs), lambda dy: (2 * dy,) * len(xs))),
        inputs=one_of([np.ones(3)]), parameters=one_of(()))),
    "attention_maps": (npt.attention_maps, dict(backward=one_of(MODEL.forward([[3]], [[1]])[1]))),
    "Embedding": (lambda ids, **sizes: npt.Embedding(**sizes).forward(ids), dict(
        n_vocab=one_of(9), d_model=count, rng=rng_, ids=src)),
    "LearnedPositions": (forward(npt.LearnedPositions), dict(
        max_len=one_of(5, 9), d_model=one_of(8), rng=rng_, x=sequence)),
    "SinusoidalPositions": (forward(npt.SinusoidalPositions), dict(
        max_len=one_of(5, 9), d_model=one_of(8), x=sequence)),
    "Config": (npt.Config, dict(
        n_src_vocab=one_of(5, 9), n_tgt_vocab=one_of(5, 9), d_model=one_of(8), n_heads=one_of(1, 2),
        d_ff=count, n_layers=count, dropout=share, max_len=count, pad_id=one_of(0), pre_norm=flag,
        tie_embeddings=flag, bos_id=one_of(1), eos_id=one_of(2), activation=one_of("relu", "gelu"),
        positions=one_of("learned", "sinusoidal"), n_decoder_layers=one_of(None, 1))),
    "Transformer": (lambda src, tgt, src_mask: MODEL(src, tgt, src_mask=src_mask), dict(
        src=src, tgt=tgt, src_mask=one_of(None))),
    "Transformer.loss": (lambda src, tgt, **more: MODEL.loss((src, tgt), **more)[0], dict(
        src=src, tgt=tgt, rng=one_of(None), label_smoothing=share)),
    "GPT": (lambda ids, rng: GPT(ids, rng), dict(ids=inputs, rng=maybe_rng)),
    "GPT.loss": (lambda ids, **more: GPT.loss((ids,), **more)[0], dict(
        ids=inputs, rng=maybe_rng, label_smoothing=share)),
    "GPT writes": (lambda ids, n: npt.greedy(GPT, ids, n), dict(ids=inputs, n=count)),
    "gpt_config, GPTConfig": (npt.gpt_config, dict(
        n_vocab=one_of(9), d_model=one_of(8), n_heads=one_of(2), dropout=share)),
    "modern_config, llama_config, ModernConfig": (
        lambda llama, **sizes: (npt.llama_config if llama is True else npt.modern_config)(**sizes),
        dict(
            llama=flag, n_vocab=one_of(9), d_model=one_of(8), n_heads=one_of(2), dropout=share,
            norm=one_of("layer", "rms"), gated=flag, bias=flag, n_kv_heads=one_of(None, 1, 2),
            positions=one_of("learned", "rotary", "relative", "none"))),
    "RMSNorm": (forward(npt.RMSNorm), dict(x=x, d_model=one_of(8), eps=one_of(1e-5))),
    "Rotary": (forward(npt.Rotary), dict(
        x=floats((2, 3, 8), (4, 8)), max_len=count, d_head=one_of(8), base=one_of(10.0))),
    "RelativeBias": (forward(npt.RelativeBias), dict(
        x=floats((2, 3, 4, 4), (2, 3, 1, 4)), far=count, n_heads=one_of(3), rng=rng_)),
    "NoPositions": (forward(npt.NoPositions), dict(x=x)),
    "silu": (npt.silu, dict(x=x)),
    "GatedFeedForward": (forward(npt.GatedFeedForward), dict(
        x=x, d_model=one_of(8), d_ff=count, rng=rng_, bias=flag)),
    "GroupedAttention": (forward(npt.GroupedAttention), dict(
        x=sequence, d_model=one_of(8), n_heads=one_of(1, 2, 4), rng=rng_,
        n_kv_heads=one_of(None, 1, 2), d_head=one_of(None, 3), bias=flag, dropout=share)),
    "BytePairTokenizer": (npt.BytePairTokenizer, dict(
        merges=one_of((), [(4, 5)], [(4, 5), (3, 259)]))),
    "BytePairTokenizer.from_texts": (npt.BytePairTokenizer.from_texts, dict(
        texts=one_of(["low low lower"], ["a"]), n_merges=count)),
    "BytePairTokenizer.encode": (BYTES.encode, dict(text=texts, bos=flag, eos=flag)),
    "BytePairTokenizer.decode": (BYTES.decode, dict(ids=ids(9, (4,), (6,)))),
    "greedy": (npt.greedy, dict(model=one_of(MODEL), inputs=inputs, max_len=count, **options)),
    "sample": (npt.sample, dict(model=one_of(MODEL), inputs=inputs, max_len=count, rng=rng_,
                                temperature=one_of(0.5, 1.0), top_k=one_of(None, 1, 3),
                                top_p=one_of(0.5, 1.0), **options)),
    "beam_search": (npt.beam_search, dict(
        model=one_of(MODEL), inputs=inputs, max_len=count, width=one_of(1, 2, 3),
        length_penalty=one_of(0.0, 0.6), n_best=one_of(None, 1), **options)),
    "log_probability": (npt.log_probability, dict(model=one_of(MODEL), src=src, ids=tgt)),
    "cross_entropy": (npt.cross_entropy, dict(
        logits=floats((2, 4, 9), (3, 5, 9)), targets=tgt, pad_id=one_of(None, 0),
        label_smoothing=share)),
    "check_gradients": (npt.check_gradients, dict(
        forward=one_of(lambda *xs: (2 * sum(xs), lambda dy: (2 * dy,) * len(xs))),
        inputs=one_of([np.ones(3)], [np.ones((2, 2))]), parameters=one_of(()))),
    "numeric_gradient": (npt.numeric_gradient, dict(f=one_of(lambda: 0.0), x=x, h=one_of(1e-5))),
    "SGD": (with_grad(npt.SGD), dict(lr=one_of(0.1, 1e-3), momentum=share)),
    "Adam": (with_grad(npt.Adam), dict(lr=one_of(0.1, 1e-3), betas=one_of((0.9, 0.98)),
                                       eps=one_of(1e-9), weight_decay=one_of(0.0, 0.1))),
    "optimizer's parameters": (npt.Adam, dict(parameters=parameters)),
    "step": (lambda lr: with_grad(npt.SGD)(lr), dict(lr=one_of(0.1))),
    "clip_gradients": (npt.clip_gradients, dict(parameters=parameters, max_norm=one_of(1.0))),
    "noam": (npt.noam, dict(step=count, d_model=count, warmup=count)),
    "warmup_cosine": (npt.warmup_cosine, dict(
        step=count, peak=one_of(1e-3), warmup=one_of(0, 1), total=one_of(5, 9))),
    "Batches": (lambda arrays, **more: next(npt.Batches(arrays, **more)), dict(
        arrays=lambda rng: (src(rng)[:2], tgt(rng)[:2]), batch_size=count, rng=rng_,
        pad_id=one_of(None, 0), by_length=one_of(False))),
    "evaluate": (npt.evaluate, dict(
        model=one_of(MODEL), arrays=lambda rng: (src(rng)[:2], tgt(rng)[:2]), batch_size=count)),
    "CharTokenizer": (npt.CharTokenizer, dict(tokens=one_of("abc", ["a", "b"]))),
    "WordTokenizer": (npt.WordTokenizer, dict(tokens=one_of(["red", "ball"], ["a"]))),
    "from_texts": (npt.WordTokenizer.from_texts, dict(texts=one_of(["red ball"], ["a", "b c"]))),
    "encode": (one_of(LETTERS, WORDS)(np.random.default_rng(0)).encode, dict(text=texts, bos=flag)),
    "decode": (WORDS.decode, dict(ids=one_of([1, 3, 4, 2], [3], np.array([4, 5])))),
    "encode_batch": (WORDS.encode_batch, dict(texts=one_of(["red ball", "a"], ["b"]))),
    "copy_task": (tasks.copy_task, dict(rng=rng_, n_train=one_of(5), n_test=one_of(2),
                                        lengths=one_of((2, 4)), n_values=one_of(5))),
    "rounded": (npt.rounded, dict(x=x, to=one_of("bfloat16"))),
    "MixedPrecision": (lambda batch, **more: npt.MixedPrecision(**more).loss(batch)[0], dict(
        model=one_of(MODEL), to=one_of("float16", "bfloat16"), scale=one_of(1.0, 1024.0),
        grow_after=one_of(None, 3), masters=one_of(True),
        batch=lambda rng: (src(rng)[:2], tgt(rng)[:2]))),
    "quantize": (lambda model, ids: npt.quantize(model)(ids), dict(model=one_of(GPT), ids=inputs)),
    "save_quantized": (lambda path, model: npt.save_quantized(path, model), dict(
        path=one_of("small.npz"), model=one_of(npt.quantize(GPT)))),
    "load_quantized": (npt.load_quantized, dict(path=one_of("none.npz", "small.npz"))),
    "save and load": (saved_and_loaded, dict(path=one_of("model.npz"), model=one_of(MODEL))),
}


def is_ours(error):
    """Raised by a raise statement of the library, in a sentence."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (isinstance(error, ValueError | TypeError) and PACKAGE in Path(last.filename).parents
            and last.line.startswith("raise") and str(error).rstrip().endswith("."))


def is_finite_unless_given(result, given):
    arrays = [a for a in leaves(result) if a.dtype.kind == "f"]
    if all(np.isfinite(a).all() for a in arrays):
        return True
    return not all(np.isfinite(a).all() and np.abs(a).max(initial=0) < 1e25
                   for a in leaves(given) if a.dtype.kind == "f")


def leaves(thing):
    if isinstance(thing, np.ndarray | np.number | float):
        return [np.asarray(thing)]
    if isinstance(thing, dict):
        thing = thing.values()
    if isinstance(thing, list | tuple | type({}.values())):
        return list(itertools.chain.from_iterable(map(leaves, thing)))
    return []


def outcome(name, given):
    """ "result", "refused", or what went wrong."""
    call, _ = CALLS[name]
    try:
        result = call(given["a"]) if "a" in given else call(**given)
    except (MemoryError, FileNotFoundError):                # a size or a path that is none of ours
        return "refused"
    except Exception as error:
        return "refused" if is_ours(error) else f"{type(error).__name__}: {error}"
    return "result" if is_finite_unless_given(result, given) else "not finite"


def drawn(rng, name):
    """Arguments for one call: most are good, and every other call has odd ones."""
    _, kinds = CALLS[name]
    given = {argument: good(rng) for argument, good in kinds.items()}
    if rng.random() < 0.5:
        for argument in rng.choice(list(kinds), rng.integers(1, 3)):
            value = odd(rng)
            if argument in ("forward", "f", "activation") and callable(value):   # a reader's own
                continue
            given[argument] = value
    return given


def test_every_public_name_is_fuzzed_that_takes_something():
    covered = " ".join([*CALLS, inspect.getsource(saved_and_loaded)])
    left = {name for name in npt.__all__ if name not in covered}
    assert left == {"DecodingState", "Evaluation", "History", "Module", "Rules", "keep_memory",
                    "processes"}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_odd_inputs_give_a_result_or_our_words(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(seed)
    names, found, wrong = list(CALLS), Counter(), []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for i in range(N // 4):
            name = names[i % len(names)]
            given = drawn(rng, name)
            said = outcome(name, given)
            found[said if said in ("result", "refused") else "wrong"] += 1
            if said not in ("result", "refused"):
                wrong.append(f"{name}({given}): {said}"[:600])
    assert not wrong, f"{len(wrong)} of {found}\n" + "\n".join(wrong[:40])
    assert found["result"] > N // 4 * 0.4 and found["refused"] > N // 4 * 0.2

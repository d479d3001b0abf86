"""One training run in float32, float16 and bfloat16: where do the curves part?

    python -m examples.fewer_bits            trains what is not stored yet, and prints the table
    python -m examples.fewer_bits --table    only prints what is stored
    python -m examples.fewer_bits --model    trains the model that chapter 14 reads, and stores it

A small model of chapter 11's kind reads NumPy's documentation. For one seed all runs begin with
the same weights and see the same batches. Each run is stored as soon as it ends, so the command
can be stopped and called again. Beyond float32, everything is computed by rounding: slower.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import npt_lib as npt
from examples import records
from examples.language_model import BATCH, LENGTH, RATE, bits_per_byte
from npt_lib.fewer_bits import MixedPrecision
from npt_lib.tasks import numpy_documentation

STORE = Path(__file__).resolve().parents[1] / "book" / "beyond" / "fewer_bits.json"
MODEL = STORE.with_suffix(".npz")
MERGES, STEPS, SEEDS, MORE_STEPS = 768, 200, (0, 1), 1000
EVERY, LOOK = 10, 50                  # a mean of so many losses is stored; weights are compared
SIZES: dict[str, Any] = dict(d_model=64, n_heads=4, d_ff=256, n_layers=2, dropout=0.0,
                             max_len=LENGTH + 1)
KINDS: dict[str, dict[str, Any] | None] = {
    "float32": None,
    "float32, loss / 256": dict(to="float32", scale=2.0**-8),
    "float16": dict(to="float16"),
    "float16, loss / 256": dict(to="float16", scale=2.0**-8),
    "float16, scaled": dict(to="float16", scale=2.0**16, grow_after=25),
    "bfloat16": dict(to="bfloat16"),
    "bfloat16, no masters": dict(to="bfloat16", masters=False),
}


def data() -> tuple[Any, Any, Any, Any]:
    """The texts, their tokenizer, the rows to learn from, the rows held out."""
    texts = numpy_documentation()
    tokenizer = npt.BytePairTokenizer.from_texts(texts.train, MERGES)
    return texts, tokenizer, *(texts.rows(tokenizer, LENGTH, of) for of in ("train", "test"))


def run(kind: str, seed: int) -> dict[str, Any]:
    """Train one model: its losses, its scales, its weights that stood still, its bits per byte."""
    texts, tokenizer, rows, held_out = data()
    model = npt.GPT(npt.gpt_config(len(tokenizer), **SIZES), np.random.default_rng(seed))
    choices = KINDS[kind]
    learner: Any = model if choices is None else MixedPrecision(model, **choices)
    optimizer = npt.Adam(model.parameters(), RATE)
    batches = npt.Batches(rows, BATCH, np.random.default_rng(100 + seed))
    losses, scales, still = [], [], {}
    for step in range(1, STEPS + 1):
        before = used(learner) if step % LOOK == 0 else None
        rate = npt.warmup_cosine(step, RATE, 50, STEPS)
        losses.append(npt.train_step(learner, optimizer, next(batches), None, rate))
        scales.append(getattr(learner, "scale", 1.0))
        if before is not None:
            still[str(step)] = float(np.mean(before == used(learner)))
    bits = bits_per_byte(npt.evaluate(learner, held_out).loss, texts.test, tokenizer)
    return {"kind": kind, "seed": seed, "parameters": model.n_parameters(), "bits": bits,
            "losses": np.reshape(losses, (-1, EVERY)).mean(axis=1).round(4).tolist(),
            "scales": scales[EVERY - 1::EVERY], "still": still,
            "overflows": getattr(learner, "overflows", 0), "numpy": np.__version__}


def used(learner: Any) -> np.ndarray:
    """All numbers of the model as the next pass uses them, in a row."""
    model = learner
    if isinstance(learner, MixedPrecision):
        learner.take_values()
        model = learner.copy
    return np.concatenate([p.value.ravel() for p in model.parameters().values()])


def make_model() -> None:
    """The model whose gradients and weights the chapter looks at, trained in float32."""
    texts, tokenizer, rows, held_out = data()
    model = npt.GPT(npt.gpt_config(len(tokenizer), **SIZES), np.random.default_rng(0))
    npt.train(model, npt.Adam(model.parameters()),
              npt.Batches(rows, BATCH, np.random.default_rng(100)), None, MORE_STEPS,
              schedule=lambda step: npt.warmup_cosine(step, RATE, 50, MORE_STEPS))
    npt.save(MODEL, model, tokenizer)
    bits = bits_per_byte(npt.evaluate(model, held_out).loss, texts.test, tokenizer)
    print(f"{MODEL.name}: {model.n_parameters():,} numbers, {bits:.3f} bits per byte")


def stored() -> list[dict[str, Any]]:
    return records.stored(STORE)


def store(runs: list[dict[str, Any]]) -> None:
    """All runs in one file, in the order of KINDS."""
    order = list(KINDS)
    records.store(STORE, sorted(runs, key=lambda r: (order.index(r["kind"]), r["seed"])))


def table(runs: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A line for each kind: bits per byte for each seed, and the difference to float32."""
    by = {(r["kind"], r["seed"]): r["bits"] for r in runs}
    lines = []
    for kind in KINDS:
        seeds = [s for s in SEEDS if (kind, s) in by and ("float32", s) in by]
        if seeds:
            lines.append((kind, " ".join(f"{by[kind, s]:.3f}" for s in seeds),
                          " ".join(f"{by[kind, s] - by['float32', s]:+.3f}" for s in seeds)))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.fewer_bits",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--model", action="store_true")
    options = parser.parse_args()
    if options.model:
        return make_model()
    runs = stored()
    there = {(r["kind"], r["seed"]) for r in runs}
    missing = [(kind, seed) for seed in SEEDS for kind in KINDS if (kind, seed) not in there]
    for what in missing if not options.table else []:
        runs.append(run(*what))
        store(runs)
        print(f"{what[0]}, seed {what[1]}: {runs[-1]['bits']:.3f}", flush=True)
    for line in table(runs):
        print("{:24}{:>14}  {:>16}".format(*line))


if __name__ == "__main__":
    main()

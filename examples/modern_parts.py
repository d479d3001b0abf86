"""One part exchanged at a time in a language model: what does each gain, at equal budget?

    python -m examples.modern_parts                 trains what is not stored yet, prints the table
    python -m examples.modern_parts --jobs 2        two runs at a time
    python -m examples.modern_parts --dask ADDRESS  as many as a cluster of Dask has workers
    python -m examples.modern_parts --table         only prints what is stored

Every run is examples/language_model.py with other parts: the same text, the same batches in the
same order for a seed, the same rate for all. It takes half as many steps; each run is stored
as soon as it ends, so the command can be stopped and called again. --dask local is a cluster of
this machine's own (chapter 15); a scheduler's address is one of yours.
"""

import argparse
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import npt_lib as npt
from examples import records
from examples.language_model import BATCH, LENGTH, RATE, bits_per_byte
from npt_lib.sweeps import sweep
from npt_lib.tasks import Texts, numpy_documentation

STORE = Path(__file__).resolve().parents[1] / "book" / "beyond" / "modern_parts.json"
SWEEP = STORE.parents[2] / "_build" / "modern_parts"        # a file for each run of a sweep
MERGES, STEPS, SEEDS = 768, 300, (0, 1, 2)
LOOKS = 100, 200, 300                # after so many steps the held-out text is read
GATED = 341                          # hidden units, so that three matrices weigh what two did
SIZES: dict[str, Any] = dict(d_model=128, n_heads=4, d_ff=512, n_layers=4, dropout=0.0,
                             max_len=LENGTH + 1)
PARTS: dict[str, dict[str, Any]] = {                    # chapter 11's model with other positions
    "learned": {},                                     # at random, as large as the words' vectors
    "begun half as large": {"begin": "half"},          # GPT-2's own
    "begun at 0": {"begin": "zeros"},                  # chapter 11's
    "begun as waves": {"begin": "waves"},              # chapter 5's, as large as the words' vectors
    "no positions": {"positions": "none"},
    "relative bias": {"positions": "relative"},
    "rotary": {"positions": "rotary"},
}
WITH_ROTARY: dict[str, dict[str, Any]] = {              # and then, one at a time, the other parts
    "RMSNorm": {"norm": "rms"},
    "SwiGLU": {"gated": True, "d_ff": GATED},
    "2 heads of keys": {"n_kv_heads": 2},
    "1 head of keys": {"n_kv_heads": 1},
    "all, no biases": {"norm": "rms", "gated": True, "d_ff": GATED, "n_kv_heads": 2,
                       "bias": False},
}
PARTS |= {part: {"positions": "rotary"} | choices for part, choices in WITH_ROTARY.items()}


def run(part: str, seed: int) -> dict[str, Any]:
    """Train one model; its parameters, and its bits per byte on held-out text at each look."""
    texts, tokenizer, rows, held_out = data()
    model = model_of(part, seed, len(tokenizer))
    optimizer = npt.Adam(model.parameters(), RATE)
    batches = npt.Batches(rows, BATCH, np.random.default_rng(100 + seed))
    bits, done = {}, 0
    for look in LOOKS:
        npt.train(model, optimizer, batches, None, look - done,
                  schedule=lambda step, done=done: npt.warmup_cosine(done + step, RATE, 50, STEPS))
        done = look
        bits[str(look)] = bits_per_byte(npt.evaluate(model, held_out).loss, texts.test, tokenizer)
    return {"part": part, "seed": seed, "parameters": model.n_parameters(), "bits": bits,
            "config": asdict(model.config), "numpy": np.__version__}


@cache
def data(
    merges: int = MERGES, length: int = LENGTH
) -> tuple[Texts, npt.BytePairTokenizer, tuple[Any], tuple[Any]]:
    """The texts, their tokenizer, and rows of ids to learn from and to judge by."""
    texts = numpy_documentation()
    tokenizer = npt.BytePairTokenizer.from_texts(texts.train, merges)
    train, test = (texts.rows(tokenizer, length, of) for of in ("train", "test"))
    return texts, tokenizer, train, test


def model_of(part: str, seed: int, n_vocab: int) -> npt.GPT:
    """The model of a row of the table, before its training."""
    choices = SIZES | PARTS[part]
    begin = choices.pop("begin", None)
    model = npt.GPT(npt.modern_config(n_vocab, **choices), np.random.default_rng(seed))
    if begin:
        positions = model.embed.positions.table
        waves = npt.sinusoidal_positions(*positions.shape) / 8
        value = {"half": positions.value / 2, "zeros": 0 * waves, "waves": waves}[begin]
        positions.value = np.float32(value)
    return model


def stored() -> list[dict[str, Any]]:
    return records.stored(STORE)


def store(runs: list[dict[str, Any]]) -> None:
    """All runs in one file, in the order of PARTS."""
    order = list(PARTS)
    records.store(STORE, sorted(runs, key=lambda r: (order.index(r["part"]), r["seed"])))


def table(runs: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A line for each part: parameters, mean and range of the bits, difference seed by seed.

    The difference is to what the part was added to: rotary, or positions that begin large.
    """
    by = {(r["part"], r["seed"]): r["bits"][str(STEPS)] for r in runs}
    lines = []
    for part in PARTS:
        rival = "rotary" if part in WITH_ROTARY else next(iter(PARTS))
        seeds = [s for s in SEEDS if (part, s) in by and (rival, s) in by]
        if not seeds:
            continue
        bits = [by[part, s] for s in seeds]
        gains = [by[part, s] - by[rival, s] for s in seeds]
        size = next(r["parameters"] for r in runs if r["part"] == part)
        lines.append((part, f"{size:,}", f"{np.mean(bits):.3f}",
                      f"{min(bits):.3f} to {max(bits):.3f}",
                      " ".join(f"{g:+.3f}" for g in gains)))
    return lines


def by_dask(missing: list[tuple[str, int]], runs: list[dict[str, Any]], cluster: Any = None,
            folder: Path = SWEEP, **options: Any) -> None:
    """The same runs by Dask; those that have ended are stored, though others fail."""
    settings = [{"part": part, "seed": seed} for part, seed in missing]
    runs += [o.result for o in sweep(run, settings, folder, cluster, **options) if o.result]
    store(runs)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.modern_parts",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--dask", metavar="ADDRESS", help="a scheduler's address, or: local")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    runs = stored()
    there = {(r["part"], r["seed"]) for r in runs}
    missing = [(part, seed) for seed in SEEDS for part in PARTS if (part, seed) not in there]
    if missing and options.dask and not options.table:
        local = options.dask == "local"
        by_dask(missing, runs, None if local else options.dask, n_workers=options.jobs)
    elif missing and not options.table:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")          # of each new process
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.jobs, fresh) as pool:
            for made in as_completed([pool.submit(run, *what) for what in missing]):
                runs.append(made.result())
                store(runs)
                print(f"{made.result()['part']}, seed {made.result()['seed']}: "
                      f"{made.result()['bits'][str(STEPS)]:.3f}", flush=True)
    for line in table(runs):
        print("{:20}{:>10}  {}  ({})  {}".format(*line))


if __name__ == "__main__":
    from examples import modern_parts

    modern_parts.main()                        # a worker finds what it should do by this name

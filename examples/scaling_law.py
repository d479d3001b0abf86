"""A scaling law: the loss of chapter 11's model in six sizes, at equal tokens.

    python -m examples.scaling_law                  trains what is not stored yet, prints the table
    python -m examples.scaling_law --jobs 2         two runs at a time
    python -m examples.scaling_law --dask ADDRESS   as many as a cluster of Dask has workers
    python -m examples.scaling_law --table          only prints what is stored

Every size first finds its learning rate by successive halving, in short runs; then it learns with
that rate from three seeds. Each run is kept in _build as soon as it ends, so the command can be
stopped and called again. It takes under twenty minutes of one core in all, and needs Dask:
pip install "npt-lib[sweeps]".
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import npt_lib as npt
from examples import records
from examples.modern_parts import data
from npt_lib.sweeps import Outcome, successive_halving, sweep, workers

STORE = Path(__file__).resolve().parents[1] / "book" / "beyond" / "scaling_law.json"
SWEEP = STORE.parents[2] / "_build" / "scaling_law"
WIDTHS = 8, 16, 24, 40, 64, 88
RATES = 8e-3, 16e-3, 32e-3, 64e-3, 128e-3, 256e-3, 512e-3
SHORT, STEPS, SEEDS = (50, 100), 300, (0, 1, 2)
LAYERS, HEADS, LENGTH, BATCH = 4, 4, 32, 64       # short rows, many of them: attention costs less
MERGES = 256                                      # large tables would outweigh small models


def learn(width: int, rate: float, budget: int, seed: int) -> dict[str, Any]:
    """One model after budget steps: its size, and its loss on held-out text in nats a token."""
    _, tokenizer, rows, (held_out,) = data(MERGES, LENGTH)
    model = model_of(width, seed, len(tokenizer))
    npt.train(model, npt.Adam(model.parameters(), rate),
              npt.Batches(rows, BATCH, np.random.default_rng(100 + seed)), None, budget,
              schedule=lambda step: npt.warmup_cosine(step, rate, max(budget // 6, 1), budget))
    return {"loss": npt.evaluate(model, (held_out[::4],), BATCH).loss, "parameters": size(model),
            "tokens": budget * BATCH * LENGTH}


def model_of(width: int, seed: int, n_vocab: int) -> npt.GPT:
    """Chapter 11's model of another width, with rotary positions: they need not be learned."""
    config = npt.modern_config(n_vocab, d_model=width, n_heads=HEADS, d_ff=4 * width,
                               n_layers=LAYERS, dropout=0.0, max_len=LENGTH + 1,
                               positions="rotary")
    return npt.GPT(config, np.random.default_rng(seed))


def size(model: npt.GPT) -> int:
    """Its parameters without the table of tokens, as Kaplan et al. count."""
    return model.n_parameters() - model.embed.tokens.table.value.size


def experiment(
    folder: Path = SWEEP, widths: tuple[int, ...] = WIDTHS, rates: tuple[float, ...] = RATES,
    short: tuple[int, ...] = SHORT, steps: int = STEPS, seeds: tuple[int, ...] = SEEDS,
    **options: Any,
) -> list[dict[str, Any]]:
    """Every width's search and its last runs, as they are stored."""
    runs, chosen = [], {}
    for width in widths:
        tried = successive_halving(learn, [{"width": width, "rate": rate, "seed": 0}
                                           for rate in rates], folder, short, **options)
        chosen[width] = tried[-1][0].setting["rate"]
        runs += [_stored("search", outcome) for outcomes in tried for outcome in outcomes]
    last = [{"width": width, "rate": chosen[width], "seed": seed, "budget": steps}
            for seed in seeds for width in widths]
    return runs + [_stored("last", outcome) for outcome in sweep(learn, last, folder, **options)]


def _stored(stage: str, outcome: Outcome) -> dict[str, Any]:
    return {"stage": stage, **outcome.setting, **(outcome.result or {"error": outcome.error})}


def stored() -> list[dict[str, Any]]:
    return records.stored(STORE)


def store(runs: list[dict[str, Any]]) -> None:
    records.store(STORE, runs)


def table(runs: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A line for each size: parameters, learning rate, mean and range of the loss."""
    lines = []
    for width in sorted({r["width"] for r in runs}):
        last = [r for r in runs if r["stage"] == "last" and r["width"] == width and "loss" in r]
        if last:
            losses = [r["loss"] for r in last]
            lines.append((str(width), f"{last[0]['parameters']:,}", f"{last[0]['rate']:g}",
                          f"{np.mean(losses):.3f}", f"{min(losses):.3f} to {max(losses):.3f}"))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.scaling_law",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--dask", metavar="ADDRESS", help="a scheduler's address")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        with workers(options.dask, options.jobs) as client:
            store(experiment(cluster=client, tell=lambda line: print(line, flush=True)))
    for line in table(stored()):
        print("width {:>4}{:>10} parameters  rate {:6}  loss {}  ({})".format(*line))


if __name__ == "__main__":
    from examples import scaling_law

    scaling_law.main()                         # a worker finds what it should do by this name

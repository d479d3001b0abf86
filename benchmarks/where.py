"""Where the time goes in a step of training, and in writing one sequence.

    python -m benchmarks.where             measures, and stores benchmarks/where/: numbers, table

Three kinds of work are timed in turn, in rounds. The whole; its matrix products alone, on arrays
of the same shapes; and the same program on a model whose sizes are the least that they can be,
where nearly nothing is left but the calls. What remains is the other work on arrays.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import npt_lib as npt
from benchmarks import with_npt, work
from benchmarks.contestants import CONTESTANTS
from benchmarks.flops import flops, training_products
from benchmarks.forms import once
from benchmarks.machine import Load, machine
from benchmarks.race import ROOT, environment
from benchmarks.report import shares
from benchmarks.with_npt import model_of, sgemm, written
from benchmarks.work import SIZES, Size

FOLDER = Path(__file__).parent / "where"
TURN, ROUNDS = 0.3, 7           # seconds that a turn should take, and how many turns
Run = Callable[[], object]


def least(size: Size) -> Size:
    """As many blocks and heads, and hardly a number in them."""
    return replace(size, batch=1, n_src=2, n_tgt=2, d_model=size.n_heads, d_ff=1, n_vocab=4)


def step(size: Size) -> Run:
    """A step of training, as train makes it."""
    model, batch = model_of(size), work.batch(size, 0)
    adam = npt.Adam(model.parameters(), work.LR)
    return lambda: npt.train_step(model, adam, batch, None, label_smoothing=work.SMOOTHING)


def products(size: Size) -> Run:
    """A step's matrix products, and nothing else."""
    job = with_npt.products(size)
    return lambda: job(1)


def writing(size: Size) -> Run:
    """N_TOKENS of one sequence, with a cache."""
    model, source = model_of(size), work.batch(size, 0)[0][:1]
    return lambda: written(model, source)


def measured(runs: dict[str, Run]) -> dict[str, list[float]]:
    """Seconds of each, round by round."""
    for run in runs.values():
        run()
    times = {name: max(1, round(TURN / once(run))) for name, run in runs.items()}
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            found[name].append(once(run, times[name]))
    return found


def everything() -> dict:
    npt.keep_memory()
    load, found, peak = Load(), {}, sgemm()(8)[0]
    for name, size in SIZES.items():
        found[name] = {
            "step": measured({"whole": step(size), "products": products(size),
                              "calls": step(least(size))}),
            "writing": measured({"whole": writing(size), "calls": writing(least(size))})}
    here = machine([CONTESTANTS["npt"]])
    peak = max(peak, sgemm()(8)[0])                    # before or after, whichever was better
    return {"machine": here | load.by_others(), "sgemm": peak, "found": found}


def table(numbers: dict) -> str:
    """The middle times, and their shares of the whole."""
    rows = []
    for name, kinds in numbers["found"].items():
        middle = {kind: {part: 1e3 * statistics.median(times) for part, times in parts.items()}
                  for kind, parts in kinds.items()}
        s, t = middle["step"], middle["writing"]
        products, calls, rest = shares(kinds["step"])
        speed = flops(training_products(SIZES[name])) / 1e6 / s["products"] / numbers["sgemm"]
        rows.append(f"| {name} | {s['whole']:.3g} ms | {products:.0%} | {speed:.0%} "
                    f"| {calls:.0%} | {rest:.0%} "
                    f"| {t['whole']:.3g} ms | {t['calls'] / t['whole']:.0%} |")
    return "\n".join([
        "| size | a step | products | of sgemm | calls | the rest "
        "| writing 64 tokens | its calls |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", *rows])


def report(numbers: dict) -> str:
    here = "\n".join(f"| {key} | {value} |" for key, value in numbers["machine"].items())
    return f"""# Where the time goes

The middle of {ROUNDS} rounds. *Products*: a step's matrix products alone; *of sgemm*: their
speed, as a share of one large product's, {numbers["sgemm"]:.0f} GFLOP/s. *Calls*: the same program
on a model with as many blocks and heads, whose arrays hold hardly a number. One sequence is
written, with a cache.

{table(numbers)}

| machine | here |
| --- | --- |
{here}
"""


def main() -> None:
    clean = environment(CONTESTANTS["npt"])         # nothing chooses BLAS's kernel or threads
    if clean.keys() < os.environ.keys() | clean.keys():
        sys.exit(subprocess.run([sys.executable, "-m", "benchmarks.where"], cwd=ROOT,
                                env=clean).returncode)
    FOLDER.mkdir(exist_ok=True)
    numbers = everything()
    (FOLDER / "results.json").write_text(json.dumps(numbers, indent=1) + "\n", "utf8")
    (FOLDER / "report.md").write_text(report(numbers), "utf8")
    print(report(numbers))


if __name__ == "__main__":
    main()

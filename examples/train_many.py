"""One model on many processes, by MPI: number words, or chapter 11's language model.

    mpiexec -n 4 python examples/train_many.py                       number words
    mpiexec -n 4 python examples/train_many.py --task documentation  chapter 11's model
    mpiexec -n 2 python examples/train_many.py --save run.npz        keeps the run
    mpiexec -n 3 python examples/train_many.py --save run.npz        goes on with it, by any number

Every process draws the same batches and computes its share of the rows; gradients are added up.
Needs mpi4py and an MPI: pip install "npt-lib[mpi]". On several machines: mpiexec's --hosts.
"""

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")        # the processes are enough

import numpy as np

import npt_lib as npt
from npt_lib.parallel.processes import processes
from npt_lib.tasks import number_words, numpy_documentation

LENGTH, BATCH = 128, 16


def numbers(rng):
    """(model, batches, validation, peak rate): number words into Spanish, as in chapter 10."""
    task = number_words(rng, 4_000, 400)
    config = task.config(d_model=64, n_heads=4, d_ff=128, n_layers=2, max_len=32, pre_norm=True)
    return npt.Transformer(config, rng), task.batches(BATCH, rng), task.arrays("test"), 3e-3


def documentation(rng):
    """(model, batches, validation, peak rate): chapter 11's model and text."""
    texts = numpy_documentation()
    tokenizer = npt.BytePairTokenizer.from_texts(texts.train, 768)
    config = npt.gpt_config(len(tokenizer), d_model=128, n_heads=4, d_ff=512, n_layers=4,
                            dropout=0.0, max_len=LENGTH + 1)
    rows, held_out = (texts.rows(tokenizer, LENGTH, part) for part in ("train", "test"))
    return npt.GPT(config, rng), npt.Batches(rows, BATCH, rng), held_out, 4e-3


TASKS = {"numbers": numbers, "documentation": documentation}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--task", choices=TASKS, default="numbers")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save", help="a file; where it is there, the run goes on")
    options = parser.parse_args()
    with processes() as comm:
        rng = np.random.default_rng(0)                    # the same on every process
        model, batches, validation, rate = TASKS[options.task](rng)
        began = time.perf_counter()
        history = npt.train(
            model, npt.Adam(model.parameters(), rate), batches, rng, options.steps,
            schedule=lambda step: npt.warmup_cosine(step, rate, 50, max(options.steps, 51)),
            validation=validation, path=options.save, resume=options.save is not None, comm=comm)
        if comm.rank == 0:
            last = history.evaluations[-1]
            print(f"{comm.size} processes, {last.step} steps in "
                  f"{time.perf_counter() - began:.0f} s: held-out loss {last.loss:.4f}")


if __name__ == "__main__":
    main()

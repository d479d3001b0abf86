"""What tests/test_processes.py starts with mpiexec: a function each, named on the command line."""

import json
import os
import signal
import sys

import numpy as np
import small

import npt_lib as npt
from npt_lib.parallel.data_parallel import DataParallel
from npt_lib.parallel.processes import Processes, processes


def model_and_batch(dropout=0.0, n_rows=7):
    """A model in float64 and rows of very different lengths, one of them padding alone."""
    model = small.transformer(dropout=dropout).astype(np.float64)
    rng = np.random.default_rng(1)
    src, tgt = rng.integers(3, 11, (n_rows, 6)), rng.integers(3, 11, (n_rows, 5))
    tgt[:, 0] = 1
    for n in range(n_rows):
        tgt[n, 2 + n % 4:] = 0
    tgt[-1, 1:] = 0
    return model, (src, tgt)


def worst(parameters, others):
    return max(float(np.abs(p.grad - q.grad).max() / np.abs(q.grad).max())
               for p, q in zip(parameters, others, strict=True) if np.abs(q.grad).max() > 1e-12)


def gradients(comm):
    """The parts' gradients beside the whole batch's."""
    alone, batch = model_and_batch()
    loss, backward = alone.loss(batch)
    backward()
    backward()
    model, _ = model_and_batch()
    shared, shared_backward = Processes(model, comm).loss(batch)
    shared_backward()
    shared_backward()                                 # adds, as every backward does
    return {"loss": abs(shared - loss) / loss,
            "gradients": worst(model.parameters().values(), alone.parameters().values())}


def dropout(comm):
    """Several processes drop what as many threads drop."""
    threads, batch = model_and_batch(dropout=0.3, n_rows=8)
    loss, backward = DataParallel(threads, comm.size).loss(batch, np.random.default_rng(2))
    backward()
    model, _ = model_and_batch(dropout=0.3)
    shared, shared_backward = Processes(model, comm).loss(batch, np.random.default_rng(2))
    shared_backward()
    plain, _ = model.loss(batch)
    return {"loss": abs(shared - loss) / loss, "dropped": abs(plain - shared),
            "gradients": worst(model.parameters().values(), threads.parameters().values())}


def unused(comm):
    """A parameter that nobody has used keeps no gradient, and one that some have used gets it."""
    model, batch = model_and_batch()
    model.extra = npt.Parameter(np.ones(3))
    _, backward = Processes(model, comm).loss(batch)
    backward()
    return {"extra": model.extra.grad is None,
            "rest": all(p.grad is not None for n, p in model.parameters().items() if n != "extra")}


def train(comm, path, n_steps):
    """Steps with clipping, a schedule, evaluations and a file; goes on where that stopped."""
    model, arrays = model_and_batch(n_rows=11)
    rng = np.random.default_rng(comm.rank if path == "unlike" else 0)
    history = npt.train(
        model, npt.Adam(model.parameters(), 0.01), npt.Batches(arrays, 5, rng), None, int(n_steps),
        schedule=lambda step: 0.01 / step, validation=arrays, every=3,
        path=None if path in ("none", "unlike") else path, resume=True, comm=comm)
    return {"loss": history.loss, "evaluations": [e.loss for e in history.evaluations],
            "norm": float(sum((p.value ** 2).sum() for p in model.parameters().values()))}


class Trouble(npt.Module):
    """A model that goes wrong on one process, in its third step."""

    def __init__(self, kind, comm, path):
        self.inner, _ = model_and_batch()
        self.kind, self.comm, self.calls = kind, comm, 0
        self.config = self.inner.config
        self.n_targets = self.inner.n_targets
        self.path = path

    def loss(self, batch, rng=None, **options):
        self.calls += 1
        loss, backward = self.inner.loss(batch, rng, **options)
        wrong = self.comm.rank == self.comm.size - 1 and self.calls == 5
        if wrong and self.kind == "nan":
            loss = float("nan")
        elif wrong and self.kind == "nan weights":
            p = next(iter(self.inner.parameters().values()))
            p.value[:] = np.nan
            loss = float("nan")
        elif wrong and self.kind == "error":
            raise ValueError("the batch is odd.")
        elif wrong and self.kind == "bug":
            raise KeyError("a bug")
        elif wrong and self.kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return loss, backward


def trouble(comm, kind, path):
    model = Trouble(kind, comm, path)
    _, arrays = model_and_batch(n_rows=8)
    batches = npt.Batches(arrays, 8, np.random.default_rng(0))
    learner = Processes(model, comm)
    optimizer = npt.Adam(model.parameters(), 0.01)
    for _, batch in zip(range(8), batches, strict=False):
        npt.train_step(learner, optimizer, batch, None)
        if comm.rank == 0:
            npt.save(path, model.inner)
    return {}


def main():
    name, *arguments = sys.argv[1:]
    with processes() as comm:
        result = globals()[name](comm, *arguments)
        every = comm.gather(result)
        if comm.rank == 0:
            print(json.dumps(every))


if __name__ == "__main__":
    main()

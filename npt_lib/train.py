"""The training step and the training loop. Chapter 10."""

import math
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import numpy as np

from npt_lib.batches import Batch
from npt_lib.checkpoint import PathLike, model_arrays, write_arrays
from npt_lib.evaluate import evaluate
from npt_lib.loss import cross_entropy
from npt_lib.memory import reuse_memory
from npt_lib.module import Rng
from npt_lib.optim import SGD, Adam, clip_gradients
from npt_lib.progress import progress_bar
from npt_lib.replicas import Replicas
from npt_lib.run import History, ctrl_c, load_run, save_run
from npt_lib.threads import all_of_blas, blas_threads, threads
from npt_lib.tokenizer import Tokenizer
from npt_lib.transformer import Transformer

Schedule = Callable[[int], float]


def train_step(
    model: Transformer | Replicas,
    optimizer: SGD | Adam,
    batch: Batch,
    rng: Rng | None,
    lr: float | None = None,
    max_norm: float = 1.0,
    label_smoothing: float = 0.0,
) -> float:
    """One batch forwards, backwards, and one step of the optimizer; returns the loss.

    batch is (src, tgt). The decoder reads tgt without its last token and must predict tgt
    without its first. Dropout acts when rng is given. Built in chapter 10.
    """
    model.zero_grad()
    loss = add_gradients(model, batch, rng, label_smoothing)
    norm = clip_gradients(optimizer.parameters, max_norm)
    check_finite(model, f"The gradient's norm is {norm}", norm)
    optimizer.step(lr)
    return loss


def add_gradients(
    model: Transformer | Replicas, batch: Batch, rng: Rng | None, label_smoothing: float
) -> float:
    """Forwards and backwards: the loss. What backward remembered is free before the next step."""
    src, tgt = batch
    logits, model_backward = model.forward(src, tgt[:, :-1], rng)
    loss, loss_backward = cross_entropy(logits, tgt[:, 1:], model.config.pad_id, label_smoothing)
    check_finite(model, f"The loss is {loss}", loss)
    model_backward(loss_backward())
    return loss


def check_finite(model: Transformer | Replicas, what: str, number: float) -> None:
    """Stop before a NaN or an infinity spreads, and name the first parameter that has one."""
    if math.isfinite(number):
        return
    for name, p in model.parameters().items():
        if not np.isfinite(p.value).all():
            raise ValueError(f"{what}: parameter {name} holds NaN or infinity.")
        if p.grad is not None and not np.isfinite(p.grad).all():
            raise ValueError(f"{what}: the gradient of {name} holds NaN or infinity.")
    raise ValueError(f"{what}, though every parameter is finite.")


def train(
    model: Transformer,
    optimizer: SGD | Adam,
    batches: Iterable[Batch],
    rng: Rng | None,
    n_steps: int,
    schedule: Schedule | None = None,
    max_norm: float = 1.0,
    label_smoothing: float = 0.0,
    validation: Batch | None = None,
    every: int = 200,
    path: PathLike | None = None,
    resume: bool = False,
    tokenizers: tuple[Tokenizer | None, Tokenizer | None] = (None, None),
    n_threads: int | None = None,
) -> History:
    """Train until step n_steps, or until batches run out, or Ctrl-C.

    schedule(step) gives the learning rate. Every ``every`` steps, and at the end: validation
    pairs (src, tgt) are evaluated, the run is saved to path, and the model with the lowest
    validation loss to path with the ending .best.npz. With resume, a run found at path goes
    on where it stopped, bit for bit. Built in chapter 10.
    Large batches are computed in n_threads parts at once; by default as many as BLAS would use.
    For large models on Linux, see keep_memory.
    """
    if n_steps < 1 or every < 1:
        raise ValueError(f"n_steps and every must be at least 1, got {n_steps} and {every}.")
    n_threads = blas_threads() or 1 if n_threads is None else n_threads
    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}.")
    reuse_memory()
    replicas = Replicas(model, n_threads)
    history = (load_run(path, model, optimizer, batches, rng)
               if path is not None and resume and Path(path).exists() else History())

    def keep() -> None:
        finished = len(history.loss) % every == 0 or not history.interrupted
        if validation is not None and finished:
            with all_of_blas():
                history.evaluations.append(evaluate(model, *validation, step=len(history.loss)))
            if path is not None and history.best_is_last():
                best = Path(path).with_suffix(".best.npz")
                write_arrays(best, model_arrays(model, *tokenizers))
        if path is not None:
            save_run(path, model, optimizer, batches, rng, history, tokenizers)

    kept = len(history.loss)
    steps = range(kept + 1, n_steps + 1)
    with closing(progress_bar(kept, n_steps)) as bar, ctrl_c() as asked, threads(n_threads):
        for step, batch in zip(steps, batches, strict=False):
            lr = schedule(step) if schedule else optimizer.lr
            try:
                loss = train_step(replicas, optimizer, batch, rng, lr, max_norm, label_smoothing)
            except ValueError as error:
                raise ValueError(f"Step {step}: {error}") from error
            history.add(loss, lr)
            bar.update(1)
            if asked() and step < n_steps:
                history.interrupted = True
                break
            if step % every == 0:
                keep()
                kept = step
        if len(history.loss) > kept:
            keep()
    return history

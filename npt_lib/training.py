"""Batches, the training step, the training loop, and how good a model has become. Chapter 10."""

import inspect
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from npt_lib.checkpoint import (
    GeneratorState,
    PathLike,
    beside,
    check_model,
    load_run,
    model_arrays,
    save_run,
    write_arrays,
)
from npt_lib.module import Array, Parameter, Rng
from npt_lib.optim import SGD, Adam, by_name, clip_gradients
from npt_lib.parallel.data_parallel import DataParallel
from npt_lib.parallel.memory import reuse_memory
from npt_lib.parallel.processes import Processes
from npt_lib.parallel.threads import check_threads, threads
from npt_lib.require import (
    check_callable,
    check_count,
    check_flag,
    check_number,
    check_rng,
    described,
    is_plain,
)
from npt_lib.tokenizer import Tokenizer

Batch = tuple[Array, ...]
Schedule = Callable[[int], float]


class Model(Protocol):
    """What training knows of a model; and, if it has it, scores(batch)."""

    @property
    def loss(self) -> Callable[..., tuple[float, Callable[..., Any]]]:
        """Called as loss(batch, rng, **options): (loss, backward), a mean over its targets.

        backward(dloss=1.0) adds to the parameters' grad, and returns nothing.
        """

    @property
    def n_targets(self) -> Callable[[Any], int]:
        """Called as n_targets(batch): how many targets the loss of this batch is a mean over."""

    def parameters(self) -> dict[str, Parameter]: ...

    def zero_grad(self) -> None: ...


# Batches.

class Batches:
    """Endless mini-batches, tuples of rows: every row once before any row twice.

    arrays is a tuple with equal first axes, such as (src, tgt): ids, labels, floats. With pad_id,
    arrays of whole numbers (N, L), taken for ids, lose the columns that are padding in the whole
    batch; two at least stay. (So labels of that shape should be bool or floats.)
    A new random order is drawn from rng for each pass. Built in chapter 10.
    by_length puts rows of about one length together, the batches in random order: less padding.
    """

    def __init__(
        self, arrays: Batch, batch_size: int, rng: Rng, pad_id: int | None = None,
        by_length: bool = False,
    ):
        self.arrays = check_arrays(arrays)
        self.n_rows = len(self.arrays[0])
        self.batch_size = min(check_count("batch_size", batch_size), self.n_rows)
        check_rng(rng)
        self.rng, self.order = rng, np.zeros(0, int)
        self.pad_id = None if pad_id is None else check_count("pad_id", pad_id, -1)
        self.by_length = check_flag("by_length", by_length)
        if pad_id is not None and not any(map(is_padded, self.arrays)):
            raise ValueError("pad_id needs ids, integers (N, L), among the arrays, "
                             f"got {[described(x) for x in self.arrays]}.")
        if self.by_length and pad_id is None:
            raise ValueError("by_length needs a pad_id, which says where a row ends.")

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Batch:
        while len(self.order) < self.batch_size:      # what is left of a pass opens the next
            self.order = np.concatenate([self.order, self._new_pass()])
        rows, self.order = self.order[: self.batch_size], self.order[self.batch_size :]
        batch = tuple(x[rows] for x in self.arrays)
        return batch if self.pad_id is None else trim(batch, self.pad_id)

    def _new_pass(self) -> Array:
        """Every row once, in random order, or in groups of about one length."""
        rows = self.rng.permutation(self.n_rows)
        if not self.by_length:
            return rows
        n = self.batch_size
        first, rows = np.split(rows, [-len(self.order) % n])  # with what the last pass has left
        lengths = sum(np.sum(x[rows] != self.pad_id, axis=1)
                      for x in self.arrays if is_padded(x))
        rows = rows[np.argsort(lengths, kind="stable")]       # of one length: still at random
        groups, rest = np.split(rows, [len(rows) // n * n])
        return np.concatenate([first, self.rng.permutation(groups.reshape(-1, n)).ravel(), rest])

    def state_dict(self) -> dict[str, Array]:
        return {"order": self.order.copy(), "n_rows": np.array(self.n_rows),
                **GeneratorState(self.rng).state_dict()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on where the batches of the state stood; they must have had as many rows."""
        got = int(state["n_rows"]) if "n_rows" in state else None
        if got != self.n_rows:
            raise ValueError(f"The state's batches must have {self.n_rows} rows, got {got}.")
        order = np.asarray(state.get("order"))
        if order.ndim != 1 or order.dtype.kind not in "iu" or (
                order.size and not 0 <= order.min() <= order.max() < got):
            raise ValueError(f"The state's order must be of rows from 0 to {got - 1}, "
                             f"got {described(order)}.")
        GeneratorState(self.rng).load_state_dict(state)
        self.order = order.astype(int)


def check_arrays(arrays: Any) -> Batch:
    """A tuple of arrays of one first axis, at least 1, and with nothing of size 0."""
    if not isinstance(arrays, tuple) or not arrays:
        raise ValueError(f"arrays must be a tuple, such as (src, tgt), got {described(arrays)}.")
    found = tuple(_as_array(f"arrays[{i}]", x) for i, x in enumerate(arrays))
    if any(x.ndim == 0 or 0 in x.shape for x in found) or len({len(x) for x in found}) > 1:
        raise ValueError("arrays must have one first axis, and no axis of 0, "
                         f"got shapes {', '.join(str(x.shape) for x in found)}.")
    return found


def _as_array(name: str, x: Any) -> Array:
    """Lists as an array; refuses ragged ones, and what is not made of numbers."""
    try:
        found = x if isinstance(x, np.ndarray) else np.asarray(x)
    except ValueError:
        raise ValueError(f"{name} must have rows of one length, padded at the end.") from None
    if not is_plain(found) or found.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be an array of numbers, got {described(x)}.")
    return found


def is_padded(x: Array) -> bool:
    return x.ndim == 2 and x.dtype.kind in "iu"


def trim(batch: Batch, pad_id: int) -> Batch:
    """Ids without the columns at the end that hold nothing but padding; two columns stay."""
    return tuple(x[:, : max(_n_used(x, pad_id), 2)] if is_padded(x) else x for x in batch)


def _n_used(ids: Array, pad_id: int) -> int:
    used = np.flatnonzero((ids != pad_id).any(axis=0))
    return int(used[-1]) + 1 if used.size else 0


# One step.

def train_step(
    model: Model,
    optimizer: SGD | Adam,
    batch: Any,
    rng: Rng | None,
    lr: float | None = None,
    max_norm: float = 1.0,
    **loss_options: Any,
) -> float:
    """One batch forwards, backwards, and one step of the optimizer; returns the loss.

    The model brings its loss(batch, rng, **loss_options). Dropout acts when rng is given.
    Built in chapter 10.
    """
    model.zero_grad()
    loss = add_gradients(model, batch, rng, **loss_options)
    norm = clip_gradients(optimizer.parameters, max_norm)
    check_finite(model, f"The gradient's norm is {norm}", norm)
    optimizer.step(lr)
    return loss


def add_gradients(model: Model, batch: Any, rng: Rng | None, **loss_options: Any) -> float:
    """Forwards and backwards: the loss. What backward remembered is free before the next step."""
    check_learns(model, rng)
    loss, backward = model.loss(batch, rng, **loss_options)
    check_finite(model, f"The loss is {loss}", loss)
    backward()
    return float(loss)


def check_finite(model: Model, what: str, number: float) -> None:
    """Stop before a NaN or an infinity spreads, and name the first parameter that has one."""
    if np.shape(number) != ():
        raise ValueError(f"A model's loss must be one number, got shape {np.shape(number)}.")
    if math.isfinite(number):
        return
    for name, p in model.parameters().items():
        if not np.isfinite(p.value).all():
            raise ValueError(f"{what}: parameter {name} holds NaN or infinity.")
        if p.grad is not None and not np.isfinite(p.grad).all():
            raise ValueError(f"{what}: the gradient of {name} holds NaN or infinity.")
    raise ValueError(f"{what}, though every parameter is finite.")


# How good a model is on rows that it does not learn from.

@dataclass
class Evaluation:
    """The loss after so many steps, and the mean of each of the model's scores."""

    step: int
    loss: float
    scores: dict[str, float] = field(default_factory=dict)


def evaluate(model: Model, arrays: Batch, batch_size: int = 256, step: int = 0) -> Evaluation:
    """The loss over all rows, and the mean of each of the model's scores. No dropout."""
    check_learns(model)
    batches = list(in_turn(check_arrays(arrays), check_count("batch_size", batch_size)))
    found: dict[str, list[Array]] = {}
    for batch in batches:
        for name, score in scores_of(model, batch).items():
            found.setdefault(name, []).append(np.ravel(score))
    scores = {name: np.concatenate(parts) for name, parts in found.items()}
    return Evaluation(check_count("step", step, 0), mean_loss(model, batches),
                      {name: float(x.mean()) if x.size else 0.0 for name, x in scores.items()})


def in_turn(arrays: Batch, batch_size: int) -> Iterator[Batch]:
    for i in range(0, len(arrays[0]), batch_size):
        yield tuple(x[i:i + batch_size] for x in arrays)


def mean_loss(model: Model, batches: list[Batch]) -> float:
    """The mean over the targets of all batches; 0 where there are none."""
    counts = [model.n_targets(batch) for batch in batches]
    losses = [model.loss(batch, None)[0] if n else 0.0
              for batch, n in zip(batches, counts, strict=True)]
    return float(np.dot(counts, losses)) / max(sum(counts), 1)


def scores_of(model: Any, batch: Batch) -> dict[str, Array]:
    found = model.scores(batch) if hasattr(model, "scores") else {}
    for name, score in found.items():
        if np.ndim(score) == 0:
            raise ValueError(f"the score {name!r} must be an array, an entry for each row or "
                             f"token, got {score!r}: batches differ in size.")
    return found


# A run of many steps.

@dataclass
class History:
    """What a training run went through: one number a step, one evaluation now and then."""

    loss: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    interrupted: bool = False

    def add(self, loss: float, lr: float) -> None:
        self.loss.append(loss)
        self.lr.append(lr)

    def best_is_last(self) -> bool:
        """Whether the newest evaluation has the lowest loss so far."""
        *before, last = [evaluation.loss for evaluation in self.evaluations]
        return last < min([x for x in before if not math.isnan(x)], default=math.inf)

    def state_dict(self) -> dict[str, Array]:
        return {"json": np.array(json.dumps(asdict(self)))}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        fields = json.loads(str(state["json"]))
        evaluations = [Evaluation(**numbers) for numbers in fields["evaluations"]]
        self.loss, self.lr = ([float(x) for x in fields[name]] for name in ("loss", "lr"))
        self.evaluations, self.interrupted = evaluations, False
        if len(self.loss) != len(self.lr):
            raise ValueError(f"The history must have a loss and a learning rate for each step, "
                             f"got {len(self.loss)} and {len(self.lr)}.")


def train(
    model: Model,
    optimizer: SGD | Adam,
    batches: Iterable[Any],
    rng: Rng | None,
    n_steps: int,
    schedule: Schedule | None = None,
    max_norm: float = 1.0,
    validation: Batch | None = None,
    every: int = 200,
    path: PathLike | None = None,
    resume: bool = False,
    tokenizers: tuple[Tokenizer, ...] = (),
    n_threads: int = 1,
    comm: Any = None,
    **loss_options: Any,
) -> History:
    """Train until step n_steps, or until batches run out, or Ctrl-C.

    schedule(step) gives the learning rate; gradients longer than max_norm are clipped to it;
    loss_options go to the model's loss alone, not to its n_targets, and not to validation. Every
    ``every`` steps, and at the end, validation arrays are evaluated and the run is saved to path,
    with its tokenizers, and the model with the lowest validation loss beside it, as
    name.best.npz. With resume, a run found at path goes on where it stopped, bit for bit; batches
    that have no state_dict must be those from the beginning, by a generator of their own: as many
    as there were steps are left out. n_threads computes each batch in so many parts at once (for
    large models); comm, of ``processes``, does so on all processes of MPI. The parts draw from
    rng: give the batches a generator of their own to compare runs. Built in chapter 10. For
    memory on Linux, see keep_memory.
    """
    n_steps, every = check_count("n_steps", n_steps), check_count("every", every)
    _check_parts(model, optimizer, batches, rng, loss_options)
    if schedule is not None:
        check_callable("schedule", schedule)
    run = _Run(model, optimizer, batches, rng, validation, path, tokenizers, _Team(comm))
    run.check()
    history = run.go_on() if check_flag("resume", resume) and run.exists() else run.history
    several = check_threads("n_threads", n_threads) > 1
    if (several or comm is not None) and hasattr(model, "check_alone"):
        model.check_alone()                       # MixedPrecision: not all of it can be shared
    learner: Any = DataParallel(model, n_threads) if several else model
    learner = learner if comm is None else Processes(learner, comm)
    reuse_memory()
    kept = len(history.loss)
    steps = range(kept + 1, n_steps + 1)
    with closing(run.team.bar(kept, n_steps)) as bar, ctrl_c() as asked:
        for step, batch in zip(steps, run.rest(), strict=False):
            with _named(step):
                lr = optimizer.lr if schedule is None else _rate(schedule(step))
                with threads(n_threads) if several else nullcontext():
                    loss = train_step(learner, optimizer, batch, rng, lr, max_norm, **loss_options)
            history.add(loss, lr)
            bar.update(1)
            if run.team.any(asked()) and step < n_steps:
                history.interrupted = True
                break
            if step % every == 0:
                run.keep(evaluated=True)
                kept = step
        if len(history.loss) > kept:
            run.keep(evaluated=len(history.loss) % every == 0 or not history.interrupted)
    return history


@dataclass
class _Run:
    """All that a run is made of, and its file."""

    model: Any
    optimizer: SGD | Adam
    batches: Iterable[Any]
    rng: Rng | None
    validation: Batch | None
    path: PathLike | None
    tokenizers: tuple[Tokenizer, ...]
    team: "_Team"
    history: History = field(default_factory=History)

    def check(self) -> None:
        """What would fail when the first steps are done fails here."""
        if self.validation is not None:
            batches = list(in_turn(check_arrays(self.validation), 256))
            mean_loss(self.model, batches)
            scores_of(self.model, tuple(x[:1] for x in batches[0]))
        if self.path is not None:
            model_arrays(self.model, self.tokenizers)
            with beside(self.path) if self.team.writes else nullcontext():
                pass

    def exists(self) -> bool:
        return self.team.told(self.path is not None and Path(self.path).exists())

    def keep(self, evaluated: bool) -> None:
        """Evaluate the model if asked, and save it and the run."""
        step = len(self.history.loss)
        if self.validation is not None and evaluated:
            found = (evaluate(self.model, self.validation, step=step) if self.team.writes
                     else None)
            self.history.evaluations.append(self.team.told(found))
        if self.path is None or not self.team.writes:
            return
        arrays = model_arrays(self.model, self.tokenizers)
        if self.validation is not None and evaluated and self.history.best_is_last():
            write_arrays(best_path(self.path), arrays)
        save_run(self.path, arrays, self._about(), self._parts())

    def go_on(self) -> History:
        """Everything as the file says; one process reads it, and tells the others."""
        assert self.path is not None
        parts = {"model": self.model, **self._parts()}
        if self.team.writes:
            load_run(self.path, self._about(), parts)
        states = self.team.told({name: part.state_dict() for name, part in parts.items()})
        if not self.team.writes:
            for name, part in parts.items():
                part.load_state_dict(states[name])
        return self.history

    def rest(self) -> Iterator[Any]:
        """The batches that are still to come; a generator draws as if those before were not."""
        rest = iter(self.batches)
        if not hasattr(self.batches, "state_dict"):
            before = GeneratorState(self.rng).state_dict() if self.rng else {}
            for _ in zip(self.history.loss, rest, strict=False):
                pass
            if self.rng:
                GeneratorState(self.rng).load_state_dict(before)
        return rest

    def _parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"optimizer": self.optimizer, "history": self.history}
        if hasattr(self.batches, "state_dict"):
            parts["batches"] = self.batches
        return parts | ({"rng": GeneratorState(self.rng)} if self.rng else {})

    def _names(self) -> list[str]:
        """What the optimizer moves, in its order: so do its means stand in the file."""
        names = {p: name for name, p in self.model.parameters().items()}
        return [names[p] for p in by_name(self.optimizer.parameters).values()]

    def _about(self) -> dict[str, Any]:
        """What a run that goes on must have in common with the one before."""
        shared = getattr(self.batches, "rng", None) is self.rng
        dtypes = {str(p.value.dtype) for p in self.model.parameters().values()}
        settings = self.optimizer.settings() if hasattr(self.optimizer, "settings") else {}
        return {"model": check_model(self.model) | {"dtype": sorted(dtypes)},
                "optimizer": {"kind": type(self.optimizer).__name__, **settings,
                              "parameters": self._names()},
                "batches": hasattr(self.batches, "state_dict"),
                "rng": "none" if self.rng is None else "that of batches" if shared else "its own"}


class _Team:
    """The processes that train one model together: one alone if there is no communicator."""

    def __init__(self, comm: Any):
        self.comm = comm
        self.writes = comm is None or comm.rank == 0

    def told(self, value: Any) -> Any:
        """What the first process says."""
        return value if self.comm is None else self.comm.bcast(value)

    def any(self, flag: bool) -> bool:
        """Whether it is so on any process."""
        return flag if self.comm is None else any(self.comm.allgather(flag))

    def bar(self, start: int, total: int) -> Any:
        return progress_bar(start, total) if self.writes else SilentBar()


def best_path(path: PathLike) -> Path:
    """Beside a run's file: run.npz has run.best.npz, and lr0.1 has lr0.1.best.npz."""
    path = Path(path)
    return path.with_name(path.name.removesuffix(".npz") + ".best.npz")


@contextmanager
def _named(step: int) -> Iterator[None]:
    """Say in which step something was wrong."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Step {step}: {error}") from error


def _rate(lr: Any) -> float:
    return check_number("A step's lr", lr, "at least 0", lambda x: 0 <= x < math.inf)


def check_learns(model: Any, rng: Any = None) -> None:
    """Refuse what has no loss, and a seed in place of a generator."""
    if rng is not None:
        check_rng(rng)
    missing = [name for name in ("loss", "n_targets", "parameters") if not hasattr(model, name)]
    if missing:
        raise ValueError(f"A model that learns needs loss(batch, rng), n_targets(batch) and "
                         f"parameters(), but {described(model)} has no {missing[0]}.")


def _check_parts(
    model: Any, optimizer: Any, batches: Any, rng: Any, loss_options: dict[str, Any]
) -> None:
    """Refuse parts that cannot work together."""
    check_learns(model, rng)
    own, given = set(model.parameters().values()), by_name(getattr(optimizer, "parameters", ()))
    others = [name for name, p in given.items() if p not in own]
    if others:
        raise ValueError(f"The optimizer must have been given parameters of this model, "
                         f"but {others[0]} is none of them.")
    if not isinstance(batches, Iterable) and not hasattr(batches, "__getitem__"):
        raise ValueError(f"batches must be something to go through, such as Batches or a list, "
                         f"got {described(batches)}.")
    _check_pad_id(model, batches)
    try:
        inspect.signature(model.loss).bind(None, rng, **loss_options)
    except TypeError as error:
        raise ValueError(f"{type(model).__name__}.loss(batch, rng, "
                         f"{', '.join(loss_options)}): {error}.") from None


def _check_pad_id(model: Any, batches: Any) -> None:
    own = getattr(getattr(model, "config", None), "pad_id", None)
    got = batches.pad_id if isinstance(batches, Batches) else None
    if None not in (own, got) and own != got:
        raise ValueError(f"Batches must have the model's pad_id, {own}, got {got}.")


@contextmanager
def ctrl_c() -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C only asks, so that the step at hand is finished; the next stops."""
    asked, old = threading.Event(), signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or old in (signal.SIG_IGN, None):     # signals are not ours to handle
        yield asked.is_set
        return

    def ask(number: int, frame: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, old)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, old)


# A progress bar where somebody is watching, and silence everywhere else.

def progress_bar(start: int, total: int) -> Any:
    """A tqdm bar in a notebook or a terminal; otherwise, or with TQDM_DISABLE=1, a silent one."""
    if not is_watched() or os.environ.get("TQDM_DISABLE", "0") not in ("", "0"):
        return SilentBar()
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return SilentBar()
    return tqdm(total=total, initial=start, unit="step")


def is_watched() -> bool:
    shell = sys.modules.get("ipykernel") and sys.modules.get("IPython")
    return bool(shell and shell.get_ipython()) or sys.stderr.isatty()


class SilentBar:
    """Has what train calls on a bar, and does nothing."""

    def update(self, n: int) -> None: ...

    def set_postfix(self, **numbers: Any) -> None: ...

    def close(self) -> None: ...

"""A training run as a file: everything that the next step depends on. Chapter 10."""

import json
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from npt_lib.batches import Batch, Batches, rng_state, set_rng_state
from npt_lib.checkpoint import PathLike, group, model_arrays, prefixed, read_arrays, write_arrays
from npt_lib.evaluate import Evaluation
from npt_lib.module import Rng
from npt_lib.optim import SGD, Adam
from npt_lib.tokenizer import Tokenizer
from npt_lib.transformer import Transformer


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
        losses = [evaluation.loss for evaluation in self.evaluations]
        return losses[-1] < min(losses[:-1], default=np.inf)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "History":
        fields = json.loads(text)
        evaluations = [Evaluation(**numbers) for numbers in fields["evaluations"]]
        return cls(fields["loss"], fields["lr"], evaluations)


def save_run(
    path: PathLike,
    model: Transformer,
    optimizer: SGD | Adam,
    batches: Iterable[Batch],
    rng: Rng | None,
    history: History,
    tokenizers: tuple[Tokenizer | None, Tokenizer | None],
) -> None:
    """Write model, optimizer, random state, the batches' order and history; load reads it too."""
    order = batches.state_dict() if isinstance(batches, Batches) else {}
    write_arrays(path, {
        **model_arrays(model, *tokenizers),
        **prefixed("optimizer", optimizer.state_dict()),
        **prefixed("batches", order),
        "rng": np.array(rng_state(rng) if rng else ""),
        "history": np.array(history.to_json()),
    })


def load_run(
    path: PathLike,
    model: Transformer,
    optimizer: SGD | Adam,
    batches: Iterable[Batch],
    rng: Rng | None,
) -> History:
    """Put all of these where save_run found them; nothing changes if the file does not fit."""
    arrays = read_arrays(path)
    if "history" not in arrays or bool(rng) != bool(str(arrays["rng"])):
        raise ValueError(f"{path} must hold a run of train that used "
                         f"{'an rng' if rng else 'no rng'}, as this one does.")
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer}
    parts |= {"batches": batches} if isinstance(batches, Batches) else {}
    before = {name: part.state_dict() for name, part in parts.items()}
    try:
        history = History.from_json(str(arrays["history"]))
        for name, part in parts.items():
            part.load_state_dict(group(arrays, name))
        if rng:
            set_rng_state(rng, str(arrays["rng"]))
    except (ValueError, TypeError, KeyError) as error:
        for name, part in parts.items():
            part.load_state_dict(before[name])
        raise ValueError(f"{path}: {error}") from error
    return history


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

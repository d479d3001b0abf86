"""Many runs at once, by Dask: results kept in a folder, and successive halving. Chapter 15.

Needs Dask, as long as a run is not stored yet: pip install "npt-lib[sweeps]".
"""

import asyncio
import hashlib
import importlib
import inspect
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from npt_lib.checkpoint import written_whole
from npt_lib.parallel.threads import single_blas
from npt_lib.require import (
    check_callable,
    check_count,
    check_flag,
    check_number,
    check_rows,
    described,
)

Setting = dict[str, Any]
Tell = Callable[[str], Any]
PATIENCE = 10                          # seconds in which a cluster must answer
NO_PAGES = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}      # no port of its own


@dataclass(frozen=True)
class Outcome:
    """A setting and what its run has returned; or, with no result, why it failed."""

    setting: Setting
    result: dict[str, Any] | None
    error: str = ""


def sweep(
    run: Callable[..., Mapping[str, Any]],
    settings: list[Setting],
    folder: str | os.PathLike[str],
    cluster: Any = None,
    n_workers: int | None = None,
    processes: bool = True,
    tell: Tell = print,
) -> list[Outcome]:
    """run(**setting) for every setting, many at once: what came out, in the order of settings.

    A setting is a dict of plain values, and so is what run returns. Each result is stored in the
    folder as soon as it is there: what is stored is not run again. A run that fails is told, and
    the others go on; called again, it is tried again. Another run needs another folder. cluster,
    n_workers and processes are those of ``workers``. tell gets a line for each run.
    """
    shelf = _Shelf(run, folder)
    wanted = [_checked(run, setting) for setting in check_rows("settings", settings, "dicts")]
    found = {key: shelf.read(key) for key in map(_key, wanted)}
    missing = [s for s in _once(wanted) if found[_key(s)] is None]
    _tell_start(tell, len(found), len(missing))
    if missing:
        with workers(cluster, n_workers, processes) as client:
            for n, outcome in enumerate(_run_all(client, run, missing), 1):
                if outcome.result is not None:
                    shelf.write(outcome)
                found[_key(outcome.setting)] = outcome
                tell(f"{n} of {len(missing)}: {_line(outcome)}")
    failed = [o for o in found.values() if o and o.error]
    if failed:
        tell(f"{len(failed)} of {len(found)} failed: call again to try them again.")
    return [o for s in wanted if (o := found[_key(s)])]


def successive_halving(
    run: Callable[..., Mapping[str, Any]],
    settings: list[Setting],
    folder: str | os.PathLike[str],
    budgets: tuple[int, ...],
    keep: float = 0.5,
    score: str = "loss",
    **options: Any,
) -> list[list[Outcome]]:
    """All settings with a small budget, the best of them with the next: the rounds, best first.

    Each round calls run(**setting, budget=…). Its share ``keep`` with the lowest result[score]
    goes on, at least one; a run that fails does not. options are those of ``sweep``.
    """
    settings = check_rows("settings", settings, "dicts")
    if wrong := [s for s in settings if not isinstance(s, Mapping) or "budget" in s]:
        raise ValueError(f"A setting must be a dict without a budget, got {wrong[0]!r}.")
    keep = check_number("keep", keep, "above 0 and below 1", lambda x: 0 < x < 1)
    rounds: list[list[Outcome]] = []
    for budget in check_rows("budgets", budgets, "whole numbers"):
        budget = check_count("budget", budget)
        tried = sweep(run, [{**s, "budget": budget} for s in settings], folder, **options)
        rounds.append(sorted(tried, key=lambda outcome: _score(outcome, score)))
        well = [outcome for outcome in rounds[-1] if outcome.result is not None]
        if not well:
            raise ValueError(f"No run with a budget of {budget} ended well: "
                             f"{tried[0].error if tried else 'there are no settings'}")
        best = well[:max(int(len(tried) * keep), 1)]
        settings = [{k: v for k, v in o.setting.items() if k != "budget"} for o in best]
    return rounds


# Workers.

@contextmanager
def workers(
    cluster: Any = None, n_workers: int | None = None, processes: bool = True
) -> Iterator[Any]:
    """Dask's Client: of a cluster by its scheduler's address, or of workers on this machine.

    Here there are n_workers of them, by default one for each core: processes, or else threads of
    this one. A Client is taken as it is, and stays open.
    """
    distributed = needs_dask()
    if isinstance(cluster, distributed.Client):
        yield cluster
    elif cluster is not None:
        with _connected(distributed, cluster) as client:
            yield client
    else:
        n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        n = n if n_workers is None else check_count("n_workers", n_workers)
        with (distributed.LocalCluster(
                n_workers=n, threads_per_worker=1, processes=check_flag("processes", processes),
                memory_limit=0, silence_logs=logging.CRITICAL, scheduler_kwargs=NO_PAGES) as own,
              distributed.Client(own, set_as_default=False) as client):
            client.run_on_scheduler(_drop_late_waits)
            client.run(_drop_late_waits)
            yield client


def _drop_late_waits() -> None:
    """Called on an event loop: it says nothing of a wait that ran out when nobody waits any more.

    Dask's senders wait with a time limit, over and over. Where the limit falls together with the
    end of the cluster, asyncio would report a TimeoutError that nobody asked for.
    """
    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not ("never retrieved" in context.get("message", "")
                and isinstance(context.get("exception"), TimeoutError)):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(report)


def needs_dask() -> Any:
    """Dask's module distributed, or one clear error that says how to install it."""
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise ImportError(f'Many runs at once need Dask: pip install "npt-lib[sweeps]" '
                          f'({error}).') from None


def _connected(distributed: Any, address: Any) -> Any:
    if not isinstance(address, str):
        raise ValueError(f"cluster must be an address, such as 'tcp://10.0.0.1:8786', or a Client "
                         f"of Dask, got {described(address)}.")
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"No scheduler of Dask answers at {address}: "
                         f"{str(error) or type(error).__name__}.") from None


def _run_all(client: Any, run: Callable[..., Any], settings: list[Setting]) -> Iterator[Outcome]:
    """Each outcome, as it comes."""
    waiting = {client.submit(work, run, s, pure=False): s for s in settings}
    try:
        for future in needs_dask().as_completed(list(waiting), loop=client.loop):
            error = future.exception()
            yield (Outcome(waiting[future], json.loads(future.result())) if error is None
                   else Outcome(waiting[future], None, _why(error)))
    finally:
        client.cancel(list(waiting))


def work(run: Callable[..., Any], setting: Setting) -> str:
    """What a worker does: one run, BLAS on one thread. The result as it is stored."""
    with single_blas():
        result = run(**setting)
    if not isinstance(result, Mapping):
        raise ValueError(f"a run must return a dict, got {described(result)}.")
    words = json.dumps(dict(result), allow_nan=False, default=_plain)
    _check_keys(result)
    return words


def _why(error: BaseException) -> str:
    if type(error).__name__ == "KilledWorker":
        return "its worker died, each time that it was tried"
    return f"{type(error).__name__}: {error}"


# Settings, and the folder.

def _checked(run: Callable[..., Any], setting: Any) -> Setting:
    """A setting as JSON holds it; refuses what run cannot be called with."""
    if not isinstance(setting, Mapping) or not all(isinstance(name, str) for name in setting):
        raise ValueError(f"A setting must be a dict from names to values, got {setting!r}.")
    try:
        plain = json.loads(json.dumps(dict(setting), allow_nan=False, default=_plain))
        _check_keys(setting)
        inspect.signature(run).bind(**plain)
    except (TypeError, ValueError) as error:
        raise ValueError(f"run(**{dict(setting)}) cannot be called or stored: {error}.") from None
    return plain


def _check_keys(value: Any) -> None:
    """JSON would make texts of other keys."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"a key must be a text, got {key!r}")
            _check_keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_keys(item)


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, for JSON."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{described(value)} is no number, text, list or dict")


def _key(setting: Setting) -> str:
    return hashlib.sha256(json.dumps(setting, sort_keys=True).encode()).hexdigest()[:16]


def _once(settings: list[Setting]) -> list[Setting]:
    return list({_key(s): s for s in settings}.values())


def _name(run: Any) -> str:
    """What tells a run from others: of an object, its class; with partial, what it brings, too."""
    if isinstance(run, partial):
        try:
            brought = json.dumps([run.args, run.keywords], sort_keys=True,
                                 default=lambda x: _name(x) if callable(x) else _plain(x))
        except (TypeError, ValueError) as error:
            raise ValueError(f"what run brings cannot be stored: {error}.") from None
        return f"{_name(run.func)} with {brought}"
    name = str(getattr(run, "__qualname__", type(run).__name__))
    if "<lambda>" in name:
        raise ValueError("run must be a function with a name: the stored results of two lambdas "
                         "could not be told apart.")
    return name


class _Shelf:
    """The folder with a file for each result."""

    def __init__(self, run: Any, folder: Any):
        check_callable("run", run)
        if not isinstance(folder, str | os.PathLike):
            raise ValueError(f"folder must be the name of a folder, got {described(folder)}.")
        self.run = _name(run)
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, key: str) -> Outcome | None:
        path = self.folder / f"{key}.json"
        if not path.exists():
            return None
        try:
            about = json.loads(path.read_text("utf8"))
            name, setting, result = about["run"], dict(about["setting"]), dict(about["result"])
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(f"{path} is no result of a sweep ({error}): delete it.") from None
        if name != self.run:
            raise ValueError(f"{self.folder} holds results of {name}: {self.run} needs a folder of "
                             f"its own.")
        return Outcome(setting, result)

    def write(self, outcome: Outcome) -> None:
        about = {"run": self.run, "setting": outcome.setting, "result": outcome.result}
        with written_whole(self.folder / f"{_key(outcome.setting)}.json") as file:
            file.write((json.dumps(about) + "\n").encode())


# What is told.

def _tell_start(tell: Tell, n: int, n_missing: int) -> None:
    there = f", {n - n_missing} of them stored already" if n_missing < n else ""
    tell(f"{n} run{'s' * (n != 1)}{there}.")


def _line(outcome: Outcome) -> str:
    if outcome.result is None:
        return f"{_words(outcome.setting)} failed: {outcome.error}"
    return f"{_words(outcome.setting)}: {_words(outcome.result)}"


def _words(values: Mapping[str, Any]) -> str:
    """Names and values, but no lists."""
    return ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                     for name, value in values.items()
                     if value is None or isinstance(value, bool | int | float | str))


def _score(outcome: Outcome, name: str) -> float:
    if outcome.result is None:
        return np.inf
    if not isinstance(outcome.result.get(name), int | float):
        raise ValueError(f"run must return a number as {name!r}, got {outcome.result}.")
    return float(outcome.result[name])

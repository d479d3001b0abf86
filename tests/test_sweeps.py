"""Sweeps by Dask: every run once, stored whole; failures told; halving keeps the best."""

import asyncio
import json
import os
import sys

import numpy as np
import pytest

import npt_lib as npt
from examples import modern_parts, scaling_law
from npt_lib import sweeps
from npt_lib.parallel.threads import blas_controller
from npt_lib.sweeps import successive_halving, sweep, workers
from npt_lib.tasks import Texts

SETTINGS = [{"lr": lr, "seed": seed} for lr in (0.1, 1.0) for seed in (0, 1)]


@pytest.fixture(scope="module")
def client():
    """Two workers, threads of this process."""
    pytest.importorskip("distributed")
    with workers(n_workers=2, processes=False) as client:
        yield client


def quadratic(lr, seed, budget=3):
    if lr == 7:
        raise ValueError("the loss is nan.")
    return {"loss": (lr - 0.3) ** 2 + seed / 10 + 1 / budget, "lr": np.float32(lr),
            "curve": np.arange(2)}


def test_results_in_the_settings_order_each_in_a_file(tmp_path, client):
    told = []
    found = sweep(quadratic, SETTINGS, tmp_path / "new", client, tell=told.append)
    assert [o.setting for o in found] == SETTINGS
    assert found[3].result == {"loss": pytest.approx(0.49 + 0.1 + 1 / 3), "lr": 1.0,
                               "curve": [0, 1]}
    files = list((tmp_path / "new").iterdir())
    assert len(files) == 4
    assert all(set(json.loads(f.read_text())) == {"run", "setting", "result"} for f in files)
    assert told[0] == "4 runs." and len(told) == 5
    assert "1 of 4: lr 0.1, seed " in told[1] and "loss 0." in told[1]


def test_what_is_stored_is_not_run_again(tmp_path, client):
    sweep(quadratic, SETTINGS[:3], tmp_path, client, tell=str)
    before = {f: f.stat().st_mtime_ns for f in tmp_path.iterdir()}
    told = []
    found = sweep(quadratic, SETTINGS + SETTINGS, tmp_path, client, tell=told.append)
    assert len(found) == 8 and len(list(tmp_path.iterdir())) == 4
    assert told[0] == "4 runs, 3 of them stored already." and len(told) == 2
    assert all(f.stat().st_mtime_ns == when for f, when in before.items())


def test_a_finished_sweep_needs_no_dask(tmp_path, client, monkeypatch):
    sweep(quadratic, SETTINGS, tmp_path, client, tell=str)
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert len(sweep(quadratic, SETTINGS, tmp_path, tell=str)) == 4
    with pytest.raises(ImportError, match=r'need Dask: pip install "npt-lib\[sweeps\]"'):
        sweep(quadratic, [{"lr": 2, "seed": 0}], tmp_path, tell=str)


def test_a_run_that_fails_is_told_and_the_others_go_on(tmp_path, client):
    told, settings = [], [{"lr": lr, "seed": 0} for lr in (7, 1)]
    found = sweep(quadratic, settings, tmp_path, client, tell=told.append)
    assert found[0].result is None and found[0].error == "ValueError: the loss is nan."
    assert found[1].result and len(list(tmp_path.iterdir())) == 1
    assert any(line.endswith("lr 7, seed 0 failed: ValueError: the loss is nan.") for line in told)
    assert told[-1] == "1 of 2 failed: call again to try them again."


@pytest.mark.parametrize("result, why", [
    (3, "ValueError: a run must return a dict, got int."),
    ({"loss": float("nan")}, "ValueError: Out of range float values are not JSON compliant"),
    ({"model": object()}, "TypeError: object is no number, text, list or dict"),
])
def test_what_cannot_be_stored_has_failed(tmp_path, client, result, why):
    def run(lr):
        return result

    (found,) = sweep(run, [{"lr": 1}], tmp_path, client, tell=str)
    assert found.error.startswith(why) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("settings, message", [
    (7, "settings must be a list of dicts"),
    ([3], "A setting must be a dict from names to values, got 3."),
    ([{"rate": 3}], "cannot be called or stored: missing a required argument"),
    ([{"lr": 1, "seed": object()}], "cannot be called or stored: object is no number"),
    ([{"lr": float("inf"), "seed": 0}], "cannot be called or stored: Out of range"),
])
def test_settings_are_looked_at_first(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        sweep(quadratic, settings, tmp_path)


def test_a_folder_holds_one_sweep(tmp_path, client):
    def other(lr, seed):
        return {"loss": 0.0}

    sweep(quadratic, SETTINGS, tmp_path, client, tell=str)
    with pytest.raises(ValueError, match="holds results of quadratic"):
        sweep(other, SETTINGS, tmp_path, client)
    next(iter(tmp_path.iterdir())).write_text("half a fi")
    with pytest.raises(ValueError, match=r"is no result of a sweep .*: delete it"):
        sweep(quadratic, SETTINGS, tmp_path, client)
    with pytest.raises(ValueError, match="folder must be"):
        sweep(quadratic, SETTINGS, 3)


def test_halving_gives_the_best_more(tmp_path, client):
    settings = [{"lr": lr, "seed": 0} for lr in (7, 0.9, 0.1, 0.4, 7.5)]
    rounds = successive_halving(quadratic, settings, tmp_path, (1, 2, 4), cluster=client, tell=str)
    assert [[o.setting["lr"] for o in r] for r in rounds] == [
        [0.4, 0.1, 0.9, 7.5, 7], [0.4, 0.1], [0.4]]
    assert rounds[-1][0].setting == {"lr": 0.4, "seed": 0, "budget": 4}
    assert len(list(tmp_path.iterdir())) == 4 + 2 + 1


def test_halving_when_nothing_goes_well(tmp_path, client):
    with pytest.raises(ValueError, match="No run with a budget of 3 ended well: ValueError: the l"):
        successive_halving(quadratic, [{"lr": 7, "seed": 0}], tmp_path, (3, 5), cluster=client,
                           tell=str)
    with pytest.raises(ValueError, match="keep must be above 0 and below 1, got 2"):
        successive_halving(quadratic, SETTINGS, tmp_path, (1, 2), keep=2)
    with pytest.raises(ValueError, match="must return a number as 'score'"):
        successive_halving(quadratic, SETTINGS, tmp_path, (1, 2), score="score", cluster=client,
                           tell=str)


def about_the_worker(n):
    blas = [pool["num_threads"] for pool in blas_controller().info() if pool["user_api"] == "blas"]
    return {"blas": blas, "pid": os.getpid()}


def test_processes_of_this_machine_with_one_thread_of_blas(tmp_path):
    pytest.importorskip("distributed")
    (found,) = sweep(about_the_worker, [{"n": 0}], tmp_path, n_workers=1, tell=str)
    assert set(found.result["blas"]) <= {1} and found.result["pid"] != os.getpid()


def test_a_cluster_by_its_address(tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(1, threads_per_worker=1, processes=False, protocol="tcp",
                                  scheduler_kwargs=sweeps.NO_PAGES) as cluster:
        found = sweep(quadratic, SETTINGS, tmp_path, cluster.scheduler_address, tell=str)
        assert all(o.result for o in found)
        with distributed.Client(cluster, set_as_default=False):
            pass                                         # it is still there


def test_no_cluster_at_that_address(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(sweeps, "PATIENCE", 0.3)
    with pytest.raises(ValueError, match=r"No scheduler of Dask answers at tcp://127.0.0.1:9: "):
        sweep(quadratic, SETTINGS, tmp_path, "tcp://127.0.0.1:9", tell=str)
    with pytest.raises(ValueError, match="cluster must be an address"):
        sweep(quadratic, SETTINGS, tmp_path, 8786, tell=str)


# What the examples do with it.

@pytest.fixture
def little(monkeypatch):
    """A text that is read in no time."""
    words = "one two three four five six seven eight nine ten ".split()
    rng = np.random.default_rng(0)
    train, test = ([" ".join(rng.choice(words, 300)) for _ in range(n)] for n in (8, 2))
    texts = Texts("little", train, test)
    tokenizer = npt.BytePairTokenizer.from_texts(train, 20)
    rows = [texts.rows(tokenizer, 16, part) for part in ("train", "test")]
    for module in (scaling_law, modern_parts):
        monkeypatch.setattr(module, "data", lambda *merges: (texts, tokenizer, *rows))


def test_a_scaling_law_in_small(tmp_path, client, little):
    made = scaling_law.experiment(tmp_path, (8, 16), (1e-3, 1e-2, 1e-1), (2, 4), 6, (0, 1),
                                  cluster=client, tell=str)
    assert [r["stage"] for r in made] == 2 * (3 * ["search"] + ["search"]) + 4 * ["last"]
    for width in (8, 16):
        search = [r for r in made if r["stage"] == "search" and r["width"] == width]
        last = [r for r in made if r["stage"] == "last" and r["width"] == width]
        assert {r["rate"] for r in last} == {search[3]["rate"]} == {search[0]["rate"]}
        assert {r["tokens"] for r in last} == {6 * 64 * 32}
        assert {r["parameters"] for r in last} == {4 * (12 * width ** 2 + 13 * width) + 2 * width}
    assert len(scaling_law.table(made)) == 2


def test_ablations_by_dask_are_those_without(tmp_path, client, little, monkeypatch):
    monkeypatch.setattr(modern_parts, "LOOKS", (1, 2))
    monkeypatch.setattr(modern_parts, "SIZES", modern_parts.SIZES | dict(
        d_model=8, n_heads=4, d_ff=12, n_layers=1))
    monkeypatch.setattr(modern_parts, "STORE", tmp_path / "all.json")
    missing = [("begun half as large", 0), ("RMSNorm", 1)]
    runs = []
    modern_parts.by_dask(missing, runs, client, tmp_path / "runs", tell=str)
    assert runs == modern_parts.stored()
    alone = [json.loads(json.dumps(modern_parts.run(*what))) for what in missing]
    assert runs == alone


def test_what_is_stored_is_what_the_command_would_make():
    """Chapter 15 reads these runs: every width's search, and all seeds at the rate it chose."""
    runs = scaling_law.stored()
    last = [r for r in runs if r["stage"] == "last"]
    assert {(r["width"], r["seed"]) for r in last} == {
        (w, s) for w in scaling_law.WIDTHS for s in scaling_law.SEEDS}
    assert {r["tokens"] for r in last} == {614_400}
    for width in scaling_law.WIDTHS:
        tried = [r for r in runs if r["stage"] == "search" and r["width"] == width]
        best = min((r for r in tried if r["budget"] == scaling_law.SHORT[-1]),
                   key=lambda r: r["loss"])
        assert {r["rate"] for r in last if r["width"] == width} == {best["rate"]}
        assert {r["rate"] for r in tried} == {*scaling_law.RATES}
        assert scaling_law.RATES[0] < best["rate"] < scaling_law.RATES[-1]      # not at an edge
        model = scaling_law.model_of(width, 0, 515)
        assert {r["parameters"] for r in last if r["width"] == width} == {scaling_law.size(model)}


def test_what_is_stored_says_what_the_page_says():
    """The text of chapter 15 speaks in these bounds; the page prints the numbers."""
    last = [r for r in scaling_law.stored() if r["stage"] == "last"]
    sizes = np.array(sorted({r["parameters"] for r in last}))
    loss = np.array([[r["loss"] for r in last if r["parameters"] == n] for n in sizes])
    assert sizes[-1] == 376_464 and 100 < sizes[-1] / sizes[0] < 110

    def line(n, y):
        slope, start = np.polyfit(np.log(n), np.log(y), 1)
        return slope, lambda m: np.exp(start + slope * np.log(m))

    mean = loss.mean(axis=1)
    seeds = np.ptp(loss, axis=1).max()
    assert 0 < seeds < (mean[:-1] - mean[1:]).min() < 2 * seeds          # sizes beside seeds
    assert abs(line(sizes[:-1], mean[:-1])[1](sizes[-1]) / mean[-1] - 1) < 0.06
    far, alphas = [], []
    for E in (0, 1, 2):
        slope, drawn_on = line(sizes, mean - E)
        assert np.abs(E + drawn_on(sizes) - mean).mean() < seeds
        far.append(E + drawn_on(100 * sizes[-1]))
        alphas.append(-slope)
    assert far[2] - far[0] > 0.3 and alphas == sorted(alphas)
    table = 515 * np.array(sorted({r["width"] for r in last}))
    assert table[0] > sizes[0] and -line(sizes + table, mean)[0] > alphas[0]
    assert 1.8 < sizes[-1] / sizes[0] / ((sizes + table)[-1] / (sizes + table)[0]) < 2.2


@pytest.mark.parametrize("error, told", [(TimeoutError("Timeout"), 0), (OSError("lost"), 1)])
def test_a_wait_that_runs_out_at_the_end_is_not_reported(caplog, error, told):
    pytest.importorskip("distributed")
    with workers(n_workers=1, processes=False) as client:
        loop = client.loop.asyncio_loop
    late = loop.create_future()                 # as Dask's sender leaves one behind
    late.set_exception(error)
    del late
    assert [r.name for r in caplog.records].count("asyncio") == told


def test_worker_processes_do_not_report_it_either():
    pytest.importorskip("distributed")
    with workers(n_workers=1) as client:
        (handler,) = client.run(_handler_of_the_loop).values()
    assert "_drop_late_waits" in handler


def _handler_of_the_loop():
    return asyncio.get_running_loop().get_exception_handler().__qualname__

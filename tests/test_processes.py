"""Several processes by MPI: the gradient of the whole, runs that go on, and errors that end all."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npt_lib as npt
from npt_lib.parallel import processes
from npt_lib.parallel.data_parallel import cut_rows

HERE = Path(__file__).resolve().parent
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}"
                                       f"{os.environ['PATH']}")
with_mpi = pytest.mark.skipif(MPIEXEC is None, reason="needs mpi4py and an MPI")


def start(n, script, *arguments):
    return subprocess.run([MPIEXEC, "-n", str(n), sys.executable, *map(str, (script, *arguments))],
                          capture_output=True, text=True, timeout=120, cwd=HERE.parent,
                          env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})


def work(n, *arguments):
    """What every process found."""
    pytest.importorskip("mpi4py")
    done = start(n, HERE / "mpi_work.py", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@with_mpi
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_parts_gradients_add_up_to_the_gradient_of_the_whole(n):
    for found in work(n, "gradients"):
        assert found["loss"] < 1e-12 and found["gradients"] < 1e-12


@with_mpi
def test_more_processes_than_rows():
    for found in work(9, "gradients"):
        assert found["gradients"] < 1e-12


@with_mpi
@pytest.mark.parametrize("n", [2, 4])
def test_each_process_drops_in_its_own_way(n):
    for found in work(n, "dropout"):
        assert found["loss"] < 1e-12 and found["gradients"] < 1e-12 and found["dropped"] > 1e-3


@with_mpi
def test_what_nobody_used_has_no_gradient():
    assert work(2, "unused") == 2 * [{"extra": True, "rest": True}]


class Copies:
    """The communicator of so many processes that all have the same."""

    def __init__(self, n):
        self.size = n

    def Allreduce(self, _, values):
        values *= values.dtype.type(self.size)


def test_the_sum_of_many_processes(monkeypatch):
    """256 of them have a gradient: counted in eight bits, that would be nobody."""
    monkeypatch.setattr(processes, "in_place", lambda: None)
    used, unused = npt.Parameter(np.ones(3)), npt.Parameter(np.ones(2))
    for n in (2, 256, 1000):
        used.grad = np.arange(3.0)
        assert np.array_equal(processes.add_up(Copies(n), [unused, used])[1], n * np.arange(3.0))
        assert processes.add_up(Copies(n), [unused]) == [None]


@with_mpi
def test_a_run_goes_on_with_any_number(tmp_path):
    """Four steps on two processes, then to ten on three: as ten on one, up to the order of sums."""
    (whole,) = work(1, "train", "none", 10)
    work(2, "train", tmp_path / "run.npz", 4)
    three = work(3, "train", tmp_path / "run.npz", 10)
    assert three[0] == three[1] == three[2]
    for name in ("loss", "norm"):
        np.testing.assert_allclose(three[0][name], whole[name], rtol=1e-9)
    assert len(three[0]["evaluations"]) == 5              # after 3, 4, 6, 9 and 10
    assert {p.name for p in tmp_path.iterdir()} == {"run.npz", "run.best.npz"}


@with_mpi
@pytest.mark.parametrize("kind, message", [
    ("nan", "ValueError: The loss is nan, though every parameter is finite."),
    ("error", "ValueError: Process 1 of 2: the batch is odd."),
    ("bug", "Process 1 of 2: KeyError: 'a bug'"),
    ("killed", ""),
])
def test_what_goes_wrong_on_one_ends_all(tmp_path, kind, message):
    pytest.importorskip("mpi4py")
    done = start(2, HERE / "mpi_work.py", "trouble", kind, tmp_path / "model.npz")
    assert done.returncode != 0
    assert done.stderr.count(message) == 1 if message else True
    assert "Traceback" not in done.stderr
    npt.load(tmp_path / "model.npz")                      # of the step before


@with_mpi
def test_where_the_errors_differ_each_process_says_its_own(tmp_path):
    """One has NaN among its weights: the others see a loss of nan, and it names the parameter."""
    pytest.importorskip("mpi4py")
    done = start(2, HERE / "mpi_work.py", "trouble", "nan weights", tmp_path / "model.npz")
    assert done.returncode != 0
    first, second = done.stderr.strip().splitlines()[:2]
    assert re.fullmatch(r"Process 0 of 2: ValueError: The loss is nan, though every parameter is "
                        r"finite\. \(mpi_work.py, line \d+\)", first)
    assert re.fullmatch(r"Process 1 of 2: ValueError: The loss is nan: parameter .* holds NaN or "
                        r"infinity\. \(mpi_work.py, line \d+\)", second)


@with_mpi
def test_processes_that_draw_different_batches_are_told(tmp_path):
    pytest.importorskip("mpi4py")
    done = start(2, HERE / "mpi_work.py", "train", "unlike", 3)
    assert done.returncode == 1
    assert done.stderr.count("Step 1: All processes must get the same batches: seed their "
                             "generators alike.") == 1


@with_mpi
def test_the_example_trains(tmp_path):
    pytest.importorskip("mpi4py")
    script = HERE.parent / "examples" / "train_many.py"
    done = start(2, script, "--steps", 4, "--save", tmp_path / "run.npz")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 processes, 4 steps in ")
    done = start(1, script, "--steps", 6, "--save", tmp_path / "run.npz")
    assert done.stdout.startswith("1 processes, 6 steps in "), done.stderr


def test_without_mpi_it_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(ImportError, match=r'needs mpi4py and an MPI: pip install "npt-lib\[mpi\]"'):
        with processes.processes():
            pass


def test_without_mpiexec_it_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(processes, "needs_mpi", lambda: True)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(processes.sys, "executable", "/nowhere/python")
    with pytest.raises(ImportError, match=r'needs mpiexec.*: pip install "npt-lib\[mpi\]"'):
        processes.mpiexec()


@with_mpi
def test_mpiexec_is_found():
    pytest.importorskip("mpi4py")
    assert processes.mpiexec() == MPIEXEC


@pytest.mark.parametrize("n_rows, n_parts", [(7, 3), (2, 5), (0, 2), (8, 4), (1, 1)])
def test_rows_are_dealt_out_once(n_rows, n_parts):
    cuts = cut_rows(n_rows, n_parts)
    assert len(cuts) == n_parts
    assert [i for cut in cuts for i in range(n_rows)[cut]] == list(range(n_rows))
    sizes = [cut.stop - cut.start for cut in cuts]
    assert max(sizes) - min(sizes) <= 1


def test_the_measured_times_say_what_the_page_says():
    """Chapter 15 reads this record, and its text relies on these bounds."""
    record = json.loads((HERE.parent / "book" / "beyond" / "efficiency.json").read_text("utf8"))
    faster = {name: np.median([r["one"]["step"] / r[name]["step"] for r in record["rounds"]])
              for name in ("two processes", "two threads")}
    assert 1.1 < faster["two processes"] < 2.1 and faster["two threads"] < faster["two processes"]
    share = [r["two processes"]["sum"] / r["two processes"]["step"] for r in record["rounds"]]
    assert np.median(share) < 0.2

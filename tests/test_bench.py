"""The benchmark's own parts: what everyone is fed, what is counted, checked and reported.

Nothing here needs PyTorch or JAX, and nothing asserts a time.
"""

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import npt_lib as npt
from benchmarks import __main__ as command
from benchmarks import checks, flops, machine, measure
from benchmarks.contestants import CONTESTANTS, SETTINGS, anatomy, forms, textbook, with_kernel
from benchmarks.contestants import npt as contestant
from benchmarks.process import HELD_BACK_BY, Process, WorkerError, environment
from benchmarks.race import Disagreement, give_up, race
from benchmarks.sizes import (
    BOS,
    EOS,
    FIRST_WORD,
    MAX_LEN,
    N_TOKENS,
    PAD,
    SIZES,
    Size,
    attention_inputs,
    positions,
)
from benchmarks.sizes import batch as batch_of
from benchmarks.worker import Worker, serve
from benchmarks.writing import APART, SECTIONS, prose, report, stats, write_report
from benchmarks.writing.forms import gains

TOY = Size("TOY", 3, 5, 7, 8, 2, 12, 2, 11)


@pytest.fixture(scope="module")
def weights():
    with measure.weights_of(TOY) as path:
        yield path


# what everyone is fed

@pytest.mark.parametrize("size", [TOY, *SIZES.values()], ids=lambda size: size.name)
def test_batches_have_the_promised_shapes_and_padding(size):
    src, tgt = batch_of(size, 5)
    assert src.shape == (size.batch, size.n_src)
    assert tgt.shape == (size.batch, size.n_tgt + 1)
    assert (src[0] != PAD).all() and (tgt[0] != PAD).all()
    for row in [*src, *tgt]:
        used = np.count_nonzero(row)
        assert (row[:used] != PAD).all() and used >= len(row) // 2
    for row in tgt:
        words = row[1:np.count_nonzero(row) - 1]
        assert (row[0], row[len(words) + 1]) == (BOS, EOS)
        assert (words >= FIRST_WORD).all() and (words < size.n_vocab).all()
    assert len({np.count_nonzero(row) for row in src}) > 1


def test_a_seed_is_a_batch():
    for again, other in zip(batch_of(TOY, 1), batch_of(TOY, 2)):
        assert (again != other).any()
    assert all((a == b).all() for a, b in zip(batch_of(TOY, 1), batch_of(TOY, 1)))


def test_positions_are_the_librarys():
    ours = npt.sinusoidal_positions(MAX_LEN, TOY.d_model)
    np.testing.assert_allclose(positions(TOY.d_model), ours, atol=1e-6)


# what is counted

class Counted(np.ndarray):
    """An array that counts the multiply-and-adds of its products of matrices, twice each.

    A product with a column of ones is a sum, and not counted.
    """

    done = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [np.asarray(x) for x in inputs]
        if "out" in options:
            options["out"] = tuple(np.asarray(x) for x in options["out"])
        y = getattr(ufunc, method)(*plain, **options)
        if ufunc is np.matmul and plain[0].ndim > 1 and plain[1].ndim > 1 and y.shape[-1] > 1:
            Counted.done += 2 * y.size * plain[0].shape[-1]
        return y.view(Counted) if isinstance(y, np.ndarray) else y


def test_flops_are_those_that_a_forward_pass_does():
    """The library's own model, with weights that count the products they are part of."""
    model = contestant.model_of(TOY)
    for parameter in model.parameters().values():
        parameter.value = parameter.value.view(Counted)
    full = np.full((TOY.batch, max(TOY.n_src, TOY.n_tgt)), FIRST_WORD)
    Counted.done = 0
    model.forward(full[:, :TOY.n_src], full[:, :TOY.n_tgt])
    assert Counted.done == flops.forward_flops(TOY)


def test_flops_of_a_step_by_hand():
    size = Size("HAND", 1, 2, 3, 4, 1, 5, 1, 7)
    encoder = 2 * (2 * 4 * 12 + 2 * (2 * 4 * 2) + 2 * 4 * 4 + 2 * (2 * 4 * 5))
    decoder = 2 * (3 * 4 * 12 + 2 * (3 * 4 * 3) + 3 * 4 * 4 + 2 * (3 * 4 * 5))
    cross = 2 * (3 * 4 * 4 + 2 * 4 * 8 + 2 * (3 * 4 * 2) + 3 * 4 * 4)
    assert flops.training_flops(size) == 3 * (encoder + decoder + cross + 2 * 3 * 4 * 7)
    twice = replace(size, n_layers=2)
    assert (flops.forward_flops(twice) - flops.forward_flops(size)) == encoder + decoder + cross


# the worker, and who works in it

def answers(module, *commands):
    out = io.StringIO()
    serve(Worker(module), io.StringIO("".join(json.dumps(c) + "\n" for c in commands)), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_worker_trains_as_the_library_does(weights):
    options = {"size": TOY.as_dict(), "weights": weights}
    ready, first, more, held = answers(contestant, {"prepare": "train", "options": options},
                                       {"run": 2}, {"run": 1}, {"memory": True})
    assert ready == {}
    assert first["seconds"] > 0 and held["bytes"] >= 0
    model = contestant.model_of(TOY, weights=weights)
    optimizer = npt.Adam(model.parameters(), 1e-3)
    wanted = [npt.train_step(model, optimizer, batch_of(TOY, seed), None, label_smoothing=0.1)
              for seed in range(3)]
    np.testing.assert_allclose(first["values"] + more["values"], wanted, rtol=1e-5)


def test_the_settings_train_alike(weights, monkeypatch):
    kept = []
    monkeypatch.setattr(npt, "keep_memory", lambda: kept.append(True))
    variants = {variant for _, _, *pair in SETTINGS for _, variant in pair}
    assert variants == {"", "one-thread", "bare", "bare reuse", "bare keep"}
    checks.same_numbers({variant: contestant.training(TOY, weights, variant=variant)(3)
                         for variant in variants})
    assert kept == [True]


def test_a_worker_answers_an_error_and_goes_on(weights):
    no_job, no_kind, about = answers(contestant, {"run": 1}, {"prepare": "fly"}, {"about": True})
    assert "prepare must come first" in no_job["error"]
    assert "kind must be one of ['attend', 'decode', 'train'], got 'fly'" in no_kind["error"]
    assert about["NumPy"] == np.__version__


def test_decoding_writes_what_greedy_writes(weights):
    (tokens,) = [contestant.decoding(TOY, weights, 2)(1)]
    assert np.shape(tokens) == (2, N_TOKENS)
    model = contestant.model_of(TOY, weights=weights)
    src = batch_of(TOY, 0)[0][:2]
    so_far = np.full((2, 1), BOS)
    for position in range(5):
        so_far = np.append(so_far, model(src, so_far)[:, -1:].argmax(-1), axis=1)
        assert [row[position] for row in tokens] == so_far[:, -1].tolist()


def test_the_textbooks_attention_is_the_librarys():
    ours, theirs = contestant.attending(6)(1), textbook.attending(6)(1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    q, k, v, dy = attention_inputs(6)
    assert npt.attention(q, k, v)[0].shape == dy.shape


def test_a_process_is_a_worker_with_its_own_kernel(monkeypatch):
    for name in HELD_BACK_BY:
        monkeypatch.setenv(f"{name}NUM_THREADS", "1")
    held = with_kernel("Haswell")
    kept = environment(held)
    assert kept["OPENBLAS_CORETYPE"] == "Haswell"
    assert not [name for name in kept if name.endswith("NUM_THREADS")]
    with Process(CONTESTANTS["textbook"]) as process:
        process.prepare("attend", n=6)
        np.testing.assert_allclose(process.run(1).values, textbook.attending(6)(1), rtol=1e-5)
        with pytest.raises(WorkerError, match=r"textbook NumPy: [^$]*kind must be one of"):
            process.prepare("train")


def test_a_race_gives_everyone_as_many_rounds():
    racers = [CONTESTANTS["npt"], CONTESTANTS["textbook"]]
    found = race(racers, "attend", {"n": 6}, 3, checks.same_numbers, target=0.001)
    assert {key: len(line) for key, line in found["seconds"].items()} == {"npt": 3, "textbook": 3}
    assert set(found["checked"]) == {"npt", "textbook"} and found["times"] >= 1


def test_forms_compute_what_their_textbook_forms_do(monkeypatch):
    """Each is checked when it is prepared; Adam's moves with every call, decoding's tokens."""
    monkeypatch.setattr(npt, "keep_memory", lambda: False)
    assert len(forms.FORMS) >= 13
    for name in forms.FORMS:
        old, new, before, after = forms.comparing(name)(1)
        assert old != new and len(before) == len(after) == 1
    with pytest.raises(AssertionError, match="softmax"):
        forms.same("softmax", [np.ones(2)], [np.zeros(2)])


def test_a_step_is_divided_among_all_parts_of_the_library():
    kinds, parts = (dict(anatomy.KINDS[kind](TOY)(2)) for kind in ("kinds", "parts"))
    assert list(kinds) == ["matrix products", "other work on arrays", "Python and calls"]
    assert list(parts) == [*anatomy.PARTS, anatomy.REST]
    assert all(spent > 0 for spent in parts.values())
    files = {file.stem for file in Path(npt.__file__).parent.glob("*.py")}
    assert {stem for stems in anatomy.PARTS.values() for stem in stems} <= files
    assert anatomy.part_of(npt.attention.__code__.co_filename, "attention") == "attention"
    assert anatomy.part_of(np.__file__, "array") is None
    helpers = [getattr(npt.layers, name) for name in anatomy.SHARED]
    assert {anatomy.part_of(f.__wrapped__.__code__.co_filename if hasattr(f, "__wrapped__")
                            else f.__code__.co_filename, f.__name__) for f in helpers} == {None}


# whether all did the same

def test_numbers_that_differ_stop_the_run():
    assert checks.same_numbers({"a": [1.0, 2.0], "b": [1.00005, 2.0]})
    with pytest.raises(Disagreement, match=r"differences of 2e-04, 0e\+00: b has"):
        checks.same_numbers({"a": [1.0, 2.0], "b": [1.0002, 2.0]})
    with pytest.raises(Disagreement):
        checks.same_numbers({"a": [1.0], "b": [float("nan")]})


def test_losses_may_part_later_but_not_at_once():
    losses = [3.0] * measure.N_COMPARED
    assert checks.same_losses({"a": losses, "b": [*losses[:-1], 3.002]})
    with pytest.raises(Disagreement):
        checks.same_losses({"a": losses, "b": [3.002, *losses[1:]]})


def test_tokens_that_differ_stop_the_run():
    row = [[3] * 200]
    assert checks.same_tokens({"a": row, "b": [[3] * 199 + [4]]}) == {"a": 1.0, "b": 0.995}
    with pytest.raises(Disagreement, match=r"b writes 98\.0% of the tokens that a writes"):
        checks.same_tokens({"a": row, "b": [[3] * 196 + [4] * 4]})


def test_who_lacks_a_package_is_left_out(monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "jax" else name)
    there, missing = command.chosen(["npt", "jax"], "Haswell")
    assert [c.key for c in there] == ["npt", "npt-Haswell"]
    assert [c.key for c in missing] == ["jax"]


def test_who_cannot_run_here_is_left_out_but_never_the_library(capsys):
    broken = WorkerError("torch.compile: Traceback\n  ...\nRuntimeError: no compiler")
    give_up(CONTESTANTS["torch-compile"], broken)
    assert capsys.readouterr().err == "torch.compile is left out: RuntimeError: no compiler\n"
    with pytest.raises(WorkerError):
        give_up(CONTESTANTS["npt"], broken)


def test_a_name_that_is_none_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "--sizes", "TINY,HUGE"])
    with pytest.raises(SystemExit):
        command.arguments()
    assert "must be some of TINY,SMALL,MEDIUM,BASE, got HUGE" in capsys.readouterr().err


def test_a_run_stores_each_part_and_reports_it(tmp_path, monkeypatch):
    """The command from end to end, with one contestant and one part."""
    monkeypatch.setattr(command, "SIZES", {"TINY": TOY})
    monkeypatch.setattr(sys, "argv", ["x", "--quick", "--only", "memory", "--contestants", "npt",
                                      "--out", str(tmp_path / "new")])
    command.main()
    stored = json.loads((tmp_path / "new" / "results.json").read_text("utf8"))
    assert stored["titles"] == {"npt": "npt_lib"} and stored["rounds"] == 2
    assert set(stored["memory"]) == {"TOY"} and stored["memory"]["TOY"]["npt"] >= 0
    assert "| npt_lib |" in (tmp_path / "new" / "report.md").read_text("utf8")
    assert str(tmp_path) not in (tmp_path / "new" / "report.md").read_text("utf8")


def test_load_is_that_of_others(monkeypatch):
    seconds = {"busy": [100.0, 140.0], "own": [10.0, 40.0]}
    for name, readings in seconds.items():
        monkeypatch.setattr(machine, name, lambda readings=readings: readings.pop(0))
    assert machine.Load().by_others() == {"Load by others": "25% of the busy time"}


def test_the_machine_names_what_it_measures():
    found = machine.machine([CONTESTANTS["npt"], with_kernel("Haswell")])
    assert found["NumPy"] == np.__version__ and int(found["Cores"]) >= 1
    wanted = {"Processor", "System", "Python", "BLAS", "BLAS of npt_lib, Haswell kernel"}
    assert wanted <= set(found)


def test_stored_numbers_are_short():
    assert command.rounded({"a": [1 / 3, (2, "b")]}) == {"a": [0.333333333, [2, "b"]]}


# the report

TITLES = {"npt": "npt_lib", "torch": "PyTorch eager", "jax": "JAX jit"}
SECONDS = {"npt": [0.5, 0.9, 0.6], "torch": [1.0, 1.0, 2.0], "jax": [0.4, 1.0, 0.5]}


def made_up(**sections):
    return {"machine": {"Cores": "2"}, "rounds": 3, "titles": TITLES,
            "missing": ["torch.compile"], **sections}


def race_of(**more):
    return {"times": 4, "seconds": SECONDS, "checked": {key: [1.0, 0.5] for key in SECONDS}, **more}


def everything():
    train = race_of(flops=3e9, peak={"npt": 100.0, "torch": 100.0, "jax": 50.0})
    decode = {name: {**race_of(rows=rows), "checked": dict.fromkeys(SECONDS, 1.0)}
              for name, rows in (("one", 1), ("batch", 32))}
    held = {"npt": 5 * 2**20, "torch": 50 * 2**20, "jax": 100 * 2**20}
    form = {"name": "softmax", "from": "out of place", "to": "in place",
            "before": [2.0, 3.0, 2.0], "after": [1.0, 1.0, 2.0]}
    return made_up(train={"TINY": train, "SMALL": train}, dropout=race_of(),
                   memory={"TINY": held}, decode={"TINY": decode},
                   attention={"256": race_of(bytes=held), "512": race_of(bytes=held)},
                   forms=[form],
                   profile={"SMALL": {"kinds": {"products": 3.0, "calls": 1.0},
                                      "parts": {"attention": 1.0, "loss": 1.0}}})


def test_ratios_are_within_a_round():
    found = stats.ratios(SECONDS)
    assert found["npt"] == (0.5, 0.3, 0.9)
    assert found["torch"] == (1.0, 1.0, 1.0)
    assert all(r.least <= r.median <= r.most for r in found.values())
    assert stats.ratios({"jax": [2.0], "npt": [1.0]})["npt"].median == 0.5      # no PyTorch there


def test_faster_is_said_only_of_every_round():
    found = stats.compared(SECONDS, "npt", ["torch", "jax"])
    assert list(found["faster"]) == ["torch"] and list(found["level"]) == ["jax"]
    assert list(stats.compared(SECONDS, "torch", ["npt"])["slower"]) == ["npt"]


def test_the_report_says_its_numbers():
    words, pictures = report(everything())
    assert "| npt_lib | 0.50<br><small>0.30–0.90</small> | 0.50" in words
    assert "| PyTorch eager | 1 | 1 |" in words
    assert ("- TINY: faster than PyTorch eager (0.50); now faster, now slower than JAX jit (1.20)."
            in words)
    assert "- A training step: faster than all **but** JAX jit at TINY and SMALL." in words
    assert "torch.compile is not installed there" in words
    assert "| npt_lib | 600 ms<br><small>5%</small> |" in words
    assert "| npt_lib | 5 MiB<br><small>0.10</small> |" in words
    assert "| sgemm | 100 GFLOP/s | 100 GFLOP/s |\n| sgemm of JAX jit | 50 GFLOP/s | 50" in words
    apart = "".join(SECTIONS[name](everything())[0] for name in APART)
    assert "| softmax: out of place → in place | 2000 ms | 1000 ms | 2.00<br>" in apart
    assert "## Each form" not in words and "## Where" not in words
    assert set(re.findall(r"\((\S+\.svg)\)", words + apart)) == set(pictures)
    assert not re.search(r"^# ", words, re.M) and words.startswith("## ")


def test_a_gain_is_told_for_each_form_and_a_setting_once():
    base = {"from": "old", "to": "new", "after": [1.0, 1.0, 2.0]}
    found = gains({"forms": [
        {**base, "name": "softmax", "before": [2.0, 3.0, 2.2]},
        {**base, "name": "threads, TINY", "before": [0.5, 0.5, 1.0]},
        {**base, "name": "threads, SMALL", "before": [2.0, 0.5, 4.0]}]})
    assert "<!-- softmax -->\n\n**Measured:** 2200 ms before, 1000 ms after, " \
           "2.00 times as fast (1.10 to 3.00).\n" in found
    assert "at TINY 500 ms before, 1000 ms after, 0.50 times as fast (0.50 to 0.50, a loss); " \
           "at SMALL" in found and "(0.50 to 2.00, not a gain in every round).\n" in found
    settings = [name for name, *_ in SETTINGS]
    assert re.findall("<!-- (.*) -->", found) == [*forms.FORMS, *settings, "end"]
    assert "<!-- Adam -->\n\n**Measured:** not in this run." in found
    assert "<!-- freed memory -->\n\n**Measured:** not in this run." in found


def test_in_short_tells_faster_from_not():
    ahead = {"npt": [1.0, 1.0], "torch": [2.0, 1.1], "npt-Haswell": [0.1, 0.1]}
    level = {"npt": [1.0, 1.0], "torch": [2.0, 1.0], "jax": [0.5, 0.4]}
    said = prose.in_short({"TINY": ahead, "SMALL": ahead, "BASE": level}, TITLES)
    assert said == ("faster than all others at TINY and SMALL; "
                    "than **nobody** at BASE")
    some = {"npt": [1.0, 1.0], "torch": [2.0, 1.1], "jax": [0.5, 2.0]}
    assert prose.in_short({"TINY": some, "BASE": ahead}, TITLES) == (
        "faster than all **but** JAX jit at TINY; than all others at BASE")


def test_a_part_of_the_numbers_is_a_part_of_the_report():
    whole = everything()
    words, pictures = report(made_up(memory=whole["memory"]))
    assert re.findall(r"^## (.*)", words, re.M) == ["What was measured", "Memory"]
    assert pictures == {}


def test_what_is_shown_apart_is_never_of_another_run(tmp_path):
    write_report(everything(), tmp_path)
    write_report(made_up(memory=everything()["memory"]), tmp_path)
    for name in (f"{section}.md" for section in APART):
        assert (tmp_path / name).read_text() == "*Not measured in this run.*\n"
    assert set(re.findall(r"Measured:\*\* (.*)", (tmp_path / "gains.md").read_text())) == {
        "not in this run."}


def test_the_report_is_the_same_bytes_again(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).mkdir()
        write_report(everything(), tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert "report.md" in files and "training.svg" in files
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    (tmp_path / "b" / "results.json").write_text(json.dumps(everything()))
    (tmp_path / "b" / "report.md").unlink()
    monkeypatch.setattr(sys, "argv", ["x", "--report-only", "--out", str(tmp_path / "b")])
    command.main()
    a, b = (tmp_path / name / "report.md" for name in "ab")
    assert a.read_bytes() == b.read_bytes()


def test_parts_measured_alike_are_kept(tmp_path):
    store = tmp_path / "results.json"
    now = {"machine": {"Cores": "2"}, "rounds": 5, "titles": {"npt": "npt_lib"}}
    assert command.earlier(store, now) == {}
    old = {**now, "machine": {"Cores": "2", "Load by others": "1%"}, "train": {}}
    store.write_text(json.dumps(old), "utf8")
    assert command.earlier(store, now) == old
    for other in ({"rounds": 7}, {"machine": {"Cores": "4"}}, {"titles": {}}):
        assert command.earlier(store, now | other) == {}

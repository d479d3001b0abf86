"""Files: what goes in comes out, whole or not at all, and never by pickle."""

import io
import json
import os
import sys
import threading
import zipfile
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import pytest
import small

import npt_lib as npt
from npt_lib import checkpoint
from npt_lib.checkpoint import load_tokenizers

SRC, TGT = small.pairs(np.random.default_rng(0))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.npz"


def same_states(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def rewrite(path, **changes):
    """The file again, with these arrays changed, added, or (None) left out."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {**file, **changes}
    np.savez(path, **{name: x for name, x in arrays.items() if x is not None})


def refused(path, read=npt.load):
    """The one clear error of a file that does not fit: a ValueError that begins with its path."""
    with pytest.raises(ValueError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(str(path)), message
    return message.removeprefix(str(path))


# Round trips.

@pytest.mark.parametrize("style", small.STYLES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_comes_back_as_it_was(path, style, dtype):
    model = small.transformer(**small.STYLES[style]).astype(dtype)
    npt.save(path, model)
    again = npt.load(path)
    assert again.config == model.config
    same_states(again.state_dict(), model.state_dict())
    np.testing.assert_array_equal(again(SRC, TGT), model(SRC, TGT))
    tied = model.config.tie_embeddings
    assert (again.unembed.table is again.tgt_embed.tokens.table) == tied


def test_every_choice_of_the_config_comes_back(path):
    config = npt.Config(n_src_vocab=17, n_tgt_vocab=17, d_model=12, n_heads=3, d_ff=5, n_layers=1,
                        dropout=0.25, max_len=7, pad_id=4, pre_norm=True, tie_embeddings=True,
                        bos_id=5, eos_id=6, activation="gelu", positions="learned",
                        n_decoder_layers=2, share_embeddings=True, scale_embeddings=False,
                        output_bias=True, final_norm=False)
    default = npt.Config(13, 17)
    assert all(getattr(config, name) != getattr(default, name)
               for name in config.__dataclass_fields__ if not name.startswith("n_src")
               and not name.startswith("n_tgt"))
    npt.save(path, npt.Transformer(config, np.random.default_rng(0)))
    assert npt.load(path).config == config


def test_vocabularies_come_back(path):
    letters, words = npt.CharTokenizer("añb"), npt.WordTokenizer(["el", "niño", "-"])
    npt.save(path, small.transformer(), letters, words)
    src, tgt = load_tokenizers(path)
    assert (type(src), src.tokens) == (npt.CharTokenizer, letters.tokens)
    assert (type(tgt), tgt.tokens) == (npt.WordTokenizer, words.tokens)
    assert tgt.decode(tgt.encode("el niño")) == "el niño"
    npt.save(path, small.transformer(), words)
    assert [one.tokens for one in load_tokenizers(path)] == [words.tokens]
    npt.save(path, small.transformer())
    assert load_tokenizers(path) == ()


def test_a_path_may_be_text_and_needs_no_ending(tmp_path):
    name = str(tmp_path / "a model")
    npt.save(name, small.transformer())
    assert os.listdir(tmp_path) == ["a model"]
    assert npt.load(name).config == small.CONFIG


def test_the_file_is_an_npz_without_objects(path):
    npt.save(path, small.transformer(), npt.CharTokenizer("ab"))
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)                                   # objects would raise
    about = json.loads(str(arrays["about"]))
    assert about["kind"] == "npt_lib.transformer:Transformer"
    assert about["config"]["kind"] == "npt_lib.config:Config"
    assert about["config"]["fields"]["d_model"] == 8
    assert str(arrays["format"]) == checkpoint.FORMAT
    assert arrays["model/encoder.blocks.0.ffn.up.W"].shape == (8, 7)


# Written whole or not at all.

@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch, error):
    old, new = small.transformer(0), small.transformer(1)
    npt.save(path, old)
    before = path.read_bytes()
    savez = np.savez

    def fail(file, **arrays):
        savez(file, **dict(list(arrays.items())[:5]))
        raise error("stopped")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(error, match="stopped"):
        npt.save(path, new)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    monkeypatch.undo()
    same_states(npt.load(path).state_dict(), old.state_dict())


def test_a_failed_rename_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    npt.save(path, small.transformer(0))
    before = path.read_bytes()

    def fail(*args):
        raise PermissionError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(PermissionError):
        npt.save(path, small.transformer(1))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_saving_again_replaces_the_file(path):
    npt.save(path, small.transformer(0))
    npt.save(path, small.transformer(1))
    same_states(npt.load(path).state_dict(), small.transformer(1).state_dict())
    assert os.listdir(path.parent) == [path.name]


def test_the_file_is_on_the_disk_before_it_takes_its_name(path, monkeypatch):
    """A power cut in between must not leave a name without its contents."""
    done, fsync, replaced = [], os.fsync, os.replace

    def synced(number):
        done.append(("synced", os.fstat(number).st_ino, os.fstat(number).st_size))
        fsync(number)

    def renamed(one, other):
        done.append(("renamed", os.stat(one).st_ino, os.stat(one).st_size))
        replaced(one, other)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    npt.save(path, small.transformer())
    assert [what for what, *_ in done] == ["synced", "renamed"]
    assert done[0][1:] == done[1][1:] and path.stat().st_size == done[0][2]


def test_two_that_save_to_one_path_at_once_do_not_meet(path, monkeypatch):
    """Both have written before either renames: the later one's file is there, whole."""
    meeting, replaced = threading.Barrier(2), os.replace
    models = [small.transformer(seed) for seed in (0, 1)]

    def renamed(one, other):
        meeting.wait(60)
        replaced(one, other)

    monkeypatch.setattr(os, "replace", renamed)
    savers = [threading.Thread(target=npt.save, args=(path, model)) for model in models]
    for saver in savers:
        saver.start()
    for saver in savers:
        saver.join(60)
    table = npt.load(path).state_dict()["unembed.table"]
    assert any((table == model.unembed.table.value).all() for model in models)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("name, said", [
    ("none/model.npz", "must be a file in a folder that exists: {}/none is none."),
    (".", "must be a file in a folder that exists: {} is a folder."),
])
def test_a_place_where_no_file_can_be_is_named(tmp_path, name, said):
    with pytest.raises(ValueError) as caught:
        npt.save(tmp_path / name, small.transformer())
    assert str(caught.value) == f"{tmp_path / name} {said.format(tmp_path)}"


def test_others_may_read_the_file_as_any_other(path):
    """A temporary file is private; the checkpoint has the rights of a file opened for writing."""
    npt.save(path, small.transformer())
    plain = path.parent / "plain"
    plain.write_bytes(b"")
    assert path.stat().st_mode == plain.stat().st_mode


# Files that do not fit.

def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        npt.load(tmp_path / "none.npz")


@pytest.mark.parametrize("part", [0, 1, 10, 100, 0.1, 0.3, 0.5, 0.8, 0.99, -1])
def test_a_truncated_file_is_refused(path, part):
    npt.save(path, small.transformer())
    whole = path.read_bytes()
    n = int(part * len(whole)) if isinstance(part, float) else part % len(whole)
    path.write_bytes(whole[:n])
    assert refused(path).startswith(" is damaged or no .npz file: ")


def test_a_flipped_byte_is_refused_or_changes_nothing(path):
    """Anywhere in the file: the data has check sums, and what has none is not used."""
    model = small.transformer(n_layers=1)
    npt.save(path, model)
    whole, wanted = path.read_bytes(), model.state_dict()
    rng, n_refused = np.random.default_rng(0), 0
    places = np.concatenate([rng.integers(len(whole), size=150), np.arange(60),
                             len(whole) - 1 - np.arange(120)])
    for place in places:
        spoiled = bytearray(whole)
        spoiled[place] ^= 1 << rng.integers(8)
        path.write_bytes(spoiled)
        try:
            again = npt.load(path)
        except ValueError as error:
            assert str(error).startswith(str(path)), (place, error)
            n_refused += 1
        else:
            same_states(again.state_dict(), wanted)
    assert n_refused > 150


def npy(path):
    np.save(path.with_suffix(".npy"), np.ones(3))
    path.with_suffix(".npy").rename(path)


def pickled(path):
    np.savez(path, format=np.array([{"a": 1}], dtype=object))


def empty_zip(path):
    with zipfile.ZipFile(path, "w"):
        pass


def zip_of_text(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("format.npy", "no array")


@pytest.mark.parametrize("write, said", [
    (lambda path: path.write_text("hello"), " is damaged or no .npz file: "),
    (lambda path: path.write_bytes(b""), " is damaged or no .npz file: "),
    (pickled, " is damaged or no .npz file: "),
    (lambda path: path.mkdir(), " is damaged or no .npz file: "),
    (zip_of_text, " must be a checkpoint of format 'npt_lib 2', got \"b'no array'\"."),
    (npy, " must be a checkpoint of format 'npt_lib 2', got None."),
    (empty_zip, " must be a checkpoint of format 'npt_lib 2', got None."),
    (lambda path: np.savez(path, x=np.ones(3)),
     " must be a checkpoint of format 'npt_lib 2', got None."),
    (lambda path: np.savez(path, format=np.array("npt_lib 1")),
     " must be a checkpoint of format 'npt_lib 2', got 'npt_lib 1'."),
    (lambda path: np.savez(path, format=np.array("npt_lib 2")),
     " must hold 'about', got ['format']."),
], ids=["text", "nothing", "pickle", "folder", "zip of text", "npy", "empty zip", "foreign npz",
        "another version", "no model"])
def test_a_foreign_file_is_refused(path, write, said):
    write(path)
    message = refused(path)
    assert message == said if said.endswith(".") else message.startswith(said)


def test_no_pickle_is_ever_opened(path):
    """An array of objects, the way that runs code on loading."""
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(path.parent / "boom"),))

    npt.save(path, small.transformer())
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Bomb()], object), allow_pickle=True)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("model/extra.npy", buffer.getvalue())
    refused(path)
    assert not (path.parent / "boom").exists()


W = "model/encoder.blocks.0.ffn.up.W"


def about(kind="npt_lib.transformer:Transformer", config="npt_lib.config:Config", **fields):
    """What a file says of a small model, with these changes."""
    fields = asdict(small.CONFIG) | fields
    return {"about": np.array(json.dumps(
        {"kind": kind, "config": {"kind": config, "fields": fields}}))}


@pytest.mark.parametrize("changes, said", [
    ({W: np.zeros((7, 8))}, ": encoder.blocks.0.ffn.up.W needs numbers of shape (8, 7), "
                            "but the state holds float64 of shape (7, 8)."),
    ({W: None}, ": The state must name exactly the model's 67 parameters: "
                "missing ['encoder.blocks.0.ffn.up.W'], unknown [] (1 and 0)."),
    ({"model/more": np.zeros(2)}, ": The state must name exactly the model's 67 parameters: "
                                  "missing [], unknown ['more'] (0 and 1)."),
    ({W: np.full((8, 7), "x")}, ": encoder.blocks.0.ffn.up.W needs numbers of shape (8, 7), "
                                "but the state holds <U1 of shape (8, 7)."),
    ({W: np.full((8, 7), np.nan, "f4")}, ": encoder.blocks.0.ffn.up.W holds NaN or infinity."),
    ({W: np.zeros((8, 7), np.float16)}, ": encoder.blocks.0.ffn.up.W must be float32 or float64, "
                                        "got float16 (8, 7)."),
    ({W: np.zeros((8, 7), int)}, ": encoder.blocks.0.ffn.up.W must be float32 or float64, "
                                 "got int64 (8, 7)."),
    ({"about": np.array("{")}, None),
    ({"about": np.array("[]")}, None),
    ({"about": np.array("{}")}, ": 'kind' is missing"),
    ({"about": np.array("5")}, None),
    ({"about": np.zeros(3)}, None),
    (about(colour=3), None),
    (about(n_heads=5), ": d_model=8 must be divisible by n_heads=5."),
    (about(d_model=10**12), ": the config's sizes do not fit the 2,676 numbers stored."),
    (about(n_layers=10**9), ": the config's sizes do not fit the 2,676 numbers stored."),
    (about(d_model=20_000), ": the config's sizes do not fit the 2,676 numbers stored."),
    (about(max_len=10**15), None),
    (about(kind="npt_lib.transformer:Nobody"),
     ": npt_lib.transformer:Nobody must be a Module that is imported: import it before, "
     "or pass load a build."),
    (about(kind="npt_lib.config:Config"), ": npt_lib.config:Config must be a Module that is "
     "imported: import it before, or pass load a build."),
    (about(kind="os:system"), ": os:system must be a Module that is imported: import it before, "
     "or pass load a build."),
    (about(config="subprocess:Popen"), ": subprocess:Popen must be a dataclass that is imported: "
     "import it before, or pass load a build."),
], ids=["shape", "missing", "unknown", "text", "NaN", "half", "whole numbers", "no JSON", "list",
        "empty", "number", "numbers", "unknown size", "bad sizes", "absurd width", "absurd depth",
        "large width", "absurd length", "unknown kind", "no module", "a function", "no dataclass"])
def test_what_does_not_fit_is_named(path, changes, said):
    npt.save(path, small.transformer())
    rewrite(path, **changes)
    message = refused(path)
    assert message == said if said else message.startswith(": ")


def test_nothing_is_imported(path):
    """Not even what would fit: a file does not run code that is not there."""
    npt.save(path, small.transformer())
    rewrite(path, **about(kind="this:Model"))
    assert "this" not in sys.modules
    refused(path)
    assert "this" not in sys.modules


@pytest.mark.parametrize("saved", ["3", "[1, 2]", "[null]", '[{"kind": "bytes"}, null]',
                                   '[{"kind": "char"}, null]', '[{"kind": "char", "tokens": 3}, 0]',
                                   '["char", null]', "{"])
def test_tokenizers_that_do_not_fit_are_refused(path, saved):
    npt.save(path, small.transformer())
    rewrite(path, tokenizers=np.array(saved))
    assert refused(path, load_tokenizers).startswith(": ")
    assert npt.load(path).config == small.CONFIG         # the model does not need them


# Runs: into a model, an optimizer, batches and an rng that exist already.

def run_parts(seed, optimizer=npt.Adam, **options):
    model = small.transformer(seed, **options)
    batches = npt.Batches((SRC, TGT), 2, np.random.default_rng(seed), 0)
    return model, optimizer(model.parameters(), 1e-3), batches, np.random.default_rng(seed)


def snapshot(model, optimizer, batches, rng):
    states = {**model.state_dict(), **optimizer.state_dict()}
    states |= {f"batches {k}": v for k, v in batches.state_dict().items()}
    return states | {"rng": np.array(str(rng.bit_generator.state))}


def go_on(path, parts):
    return npt.train(*parts, n_steps=4, path=path, resume=True)


@pytest.fixture
def run(path):
    parts = run_parts(0)
    npt.train(*parts, n_steps=3, path=path)
    return path


def test_load_reads_the_model_of_a_run_too(path):
    parts = run_parts(0)
    npt.train(*parts, n_steps=3, path=path, tokenizers=(npt.CharTokenizer("ab"),))
    same_states(npt.load(path).state_dict(), parts[0].state_dict())
    assert load_tokenizers(path)[0].tokens[3:] == ["a", "b"]


@pytest.mark.parametrize("changes", [
    {W: np.zeros((7, 8))}, {W: None}, {W: np.full((8, 7), np.nan)},
    {"optimizer/mean": np.zeros(3)}, {"optimizer/square": None},
    {"optimizer/mean": np.full(2676, np.inf)}, {"optimizer/square": np.full(2676, -1e-9)},
    {"optimizer/n_steps": None}, {"optimizer/n_steps": np.array("many")},
    {"optimizer/n_steps": np.array(-1)}, {"optimizer/n_steps": np.array(2.5)},
    {"batches/order": None}, {"batches/n_rows": np.array(99)}, {"batches/rng": np.array("{}")},
    {"batches/order": np.array([999])}, {"batches/order": np.array([-1])},
    {"batches/order": np.array([0.5])}, {"batches/order": np.array(3)}, {"batches/rng": None},
    {"rng/rng": np.array("{")}, {"rng/rng": np.array("")}, {"rng/rng": None},
    {"rng/rng": np.array('{"bit_generator": "MT19937"}')},
    {"rng/rng": np.array('{"bit_generator": "PCG64"}')},
    {"history/json": np.array("{}")}, {"history/json": np.array("[")}, {"history/json": None},
    {"history/json": np.array('{"loss": [1], "lr": [], "evaluations": []}')},
    {"history/json": np.array('{"loss": ["x"], "lr": [1], "evaluations": []}')},
    {"run": None}, {"run": np.array("{}")}, {"run": np.array("{")},
    {"format": np.array("npt_lib 0")},
], ids=lambda changes: " ".join(changes))
def test_a_run_that_does_not_fit_changes_nothing(run, changes):
    parts = run_parts(1)
    npt.train(*parts, n_steps=2)
    before = snapshot(*parts)
    rewrite(run, **changes)
    refused(run, lambda path: go_on(path, parts))
    same_states(snapshot(*parts), before)


@pytest.mark.parametrize("cut", [100, 0.5, 0.999])
def test_a_truncated_run_changes_nothing(run, cut):
    parts = run_parts(1)
    before = snapshot(*parts)
    whole = run.read_bytes()
    run.write_bytes(whole[:int(cut * len(whole)) if cut < 1 else cut])
    refused(run, lambda path: go_on(path, parts))
    same_states(snapshot(*parts), before)


OTHERS = " must hold a run of this model and optimizer: "


@pytest.mark.parametrize("options, said", [
    ({"d_ff": 9}, "model.config.d_ff was 7 and is 9"),
    ({"n_heads": 4}, "model.config.n_heads was 2 and is 4"),
    ({"activation": "gelu"}, "model.config.activation was 'relu' and is 'gelu'"),
    ({"dropout": 0.1}, "model.config.dropout was 0.2 and is 0.1"),
    ({"optimizer": lambda ps, lr: npt.Adam(ps, 2 * lr)}, "optimizer.lr was 0.001 and is 0.002"),
    ({"optimizer": lambda ps, lr: npt.Adam(ps, lr, (0.9, 0.99), 1e-8, 0.1)},
     "optimizer.betas was [0.9, 0.98] and is [0.9, 0.99]; optimizer.eps was 1e-09 and is 1e-08; "
     "optimizer.weight_decay was 0.0 and is 0.1"),
    ({"optimizer": npt.SGD},
     "optimizer.kind was 'Adam' and is 'SGD'; optimizer.betas was [0.9, 0.98] and is None; "
     "optimizer.eps was 1e-09 and is None; optimizer.weight_decay was 0.0 and is None; "
     "optimizer.momentum was None and is 0.0"),
])
def test_a_run_of_another_model_or_optimizer_is_refused(run, options, said):
    parts = run_parts(0, **options)
    before = snapshot(*parts)
    assert refused(run, lambda path: go_on(path, parts)) == f"{OTHERS}{said}."
    same_states(snapshot(*parts), before)


def test_a_run_of_other_randomness_or_precision_is_refused(run):
    model, adam, batches, rng = run_parts(1)
    assert refused(run, lambda path: go_on(path, (model, adam, batches, None))) == (
        f"{OTHERS}rng was 'its own' and is 'none'.")
    assert refused(run, lambda path: go_on(path, (model, adam, batches, batches.rng))) == (
        f"{OTHERS}rng was 'its own' and is 'that of batches'.")
    assert refused(run, lambda path: go_on(path, (model, adam, [(SRC, TGT)], rng))) == (
        f"{OTHERS}batches was True and is False.")
    assert refused(run, lambda path: go_on(
        path, (model, adam, batches, np.random.Generator(np.random.MT19937(0))))) == (
        ": The checkpoint's generator is PCG64, but the one passed is MT19937.")
    precise = model.astype(np.float64)
    adam = npt.Adam(precise.parameters())
    assert refused(run, lambda path: go_on(path, (precise, adam, batches, rng))) == (
        f"{OTHERS}model.dtype was ['float32'] and is ['float64'].")


def test_a_model_without_a_run_cannot_be_gone_on_with(path):
    parts = run_parts(0)
    npt.save(path, parts[0])
    assert refused(path, lambda path: go_on(path, parts)) == (
        " must hold a run of train to go on with, got a model alone.")


# What load would refuse, save refuses.

class Sum(npt.Module):
    """A reader's model: any parts, a nested config, plain values."""

    def __init__(self, config, rng):
        self.config, self.power, self.act = config, config.power, np.tanh
        self.layers = {name: npt.Linear(3, n, rng) for name, n in config.widths.items()}
        self.scale = 1 / 3 if config.inner is None else config.inner.x

    def twice(self, x):
        return 2 * x


@dataclass(frozen=True)
class Inner:
    x: float = 0.5
    path: tuple = (1, (2.5, "a"))


@dataclass(frozen=True)
class Outer:
    widths: dict = field(default_factory=lambda: {"a": 2, "b": 4})
    inner: Inner | None = Inner()
    power: int = 2
    names: list = field(default_factory=lambda: ["x", None, True])


def test_any_model_with_a_config_comes_back(path):
    own = Outer(inner=Inner(np.float64(7.0), ()))
    for config in (Outer(), Outer({"one": 1}, None, 3, []), own):
        model = Sum(config, np.random.default_rng(0))
        npt.save(path, model)
        again = npt.load(path)
        assert type(again) is Sum and again.config == config and again.scale == model.scale
        assert type(again.config.inner) is type(config.inner)
        same_states(again.state_dict(), model.state_dict())


def test_mixed_precision_comes_back(path):
    model = Sum(Outer(), np.random.default_rng(0))
    model.layers["a"].W.value = model.layers["a"].W.value.astype(np.float64)
    npt.save(path, model)
    same_states(npt.load(path).state_dict(), model.state_dict())


def test_a_kind_of_another_program_is_built_by_hand(path):
    """As a class of a script is in the next script: not there by its name."""
    npt.save(path, Sum(Outer(power=5), np.random.default_rng(0)))
    with np.load(path) as file:
        told = str(file["about"]).replace(__name__, "__main__")
        wanted = file["model/layers.a.W"]
    rewrite(path, about=np.array(told))
    assert refused(path).startswith(": __main__:Sum must be a Module that is imported")

    def build(fields):
        assert fields["power"] == 5 and fields["inner"] == {"x": 0.5, "path": (1, (2.5, "a"))}
        return Sum(Outer(**fields | {"inner": Inner(**fields["inner"])}), np.random.default_rng(1))

    np.testing.assert_array_equal(npt.load(path, build).layers["a"].W.value, wanted)


def changed(change, model=None):
    model = model or small.transformer()
    change(model)
    return model


def local_kind():
    class Local(npt.Transformer):
        pass

    return Local(small.CONFIG, np.random.default_rng(0))


def share_tables(model):
    model.unembed.table = model.tgt_embed.tokens.table


def set_in(path, value):
    def change(model):
        *names, last = path.split(".")
        for name in names:
            model = model[int(name)] if name.isdigit() else getattr(model, name)
        setattr(model, last, value)

    return change


ANEW = (", but Transformer(config, rng) makes it {}, and so would load: build the part in the "
        "config or in a subclass.")


@pytest.mark.parametrize("model, said", [
    (lambda: changed(set_in("encoder.blocks.0.norm1.eps", 0.1)),
     "Transformer.encoder.blocks.0.norm1.eps is 0.1" + ANEW.format("1e-05")),
    (lambda: changed(set_in("encoder.blocks.1.norm1", npt.LayerNorm(8, 1e-3))),
     "Transformer.encoder.blocks.1.norm1.eps is 0.001" + ANEW.format("1e-05")),
    (lambda: changed(set_in("decoder.blocks.0.ffn", npt.Linear(8, 8, np.random.default_rng(0)))),
     "Transformer.decoder.blocks.0.ffn is Linear" + ANEW.format("FeedForward")),
    (lambda: changed(set_in("extra", npt.Parameter(np.ones(2)))),
     "Transformer.extra is there" + ANEW.format("missing")),
    (lambda: changed(lambda model: delattr(model, "unembed")),
     "Transformer.unembed is missing" + ANEW.format("there")),
    (lambda: changed(lambda model: model.encoder.blocks.pop()),
     "Transformer.encoder.blocks.1 is missing" + ANEW.format("there")),
    (lambda: changed(share_tables), "Transformer.unembed.table is that of "
     "Transformer.tgt_embed.tokens.table" + ANEW.format("its own")),
    (lambda: changed(set_in("unembed.table", npt.Parameter(np.ones((11, 8), "f4"))),
                     small.transformer(tie_embeddings=True)), "Transformer.unembed.table is its own"
     + ANEW.format("that of Transformer.tgt_embed.tokens.table")),
    (lambda: changed(set_in("encoder.blocks.0.drop.p", 0.5)), None),
    (lambda: changed(set_in("twice", lambda x: x), Sum(Outer(), np.random.default_rng(0))), None),
    (lambda: changed(set_in("act", np.sinh), Sum(Outer(), np.random.default_rng(0))), None),
    (lambda: changed(lambda model: model.unembed.table.value.__setitem__(0, np.inf)),
     "unembed.table holds NaN or infinity."),
    (lambda: npt.Linear(2, 3, np.random.default_rng(0)),
     "save needs Linear.config, a dataclass from which Linear(config, rng) builds the model, "
     "got NoneType."),
    (lambda: changed(set_in("config", {"d_model": 8})),
     "save needs Transformer.config, a dataclass from which Transformer(config, rng) builds the "
     "model, got dict."),
    (lambda: np.ones(3), "save needs a Module, got float64 (3,)."),
    (local_kind, "local_kind.<locals>.Local cannot be found again as "
     f"{__name__}:local_kind.<locals>.Local: define the class once, at the top of a module."),
    (lambda: Sum(Outer(widths={1: 2}), np.random.default_rng(0)),
     "config.widths must be a number, text, list, tuple, dict or dataclass to be saved, got dict."),
    (lambda: Sum(Outer(names=[len]), np.random.default_rng(0)),
     "config.names[0] must be a number, text, list, tuple, dict or dataclass to be saved, "
     "got builtin_function_or_method."),
])
def test_a_model_that_load_could_not_build_is_not_saved(path, model, said):
    with pytest.raises(ValueError) as caught:
        npt.save(path, model())
    if said:
        assert str(caught.value) == said
    assert said or "and so would load: build the part" in str(caught.value)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("tokenizers, said", [
    ((None,), "tokenizers must be Tokenizers, got NoneType."),
    (("abc",), "tokenizers must be Tokenizers, got str."),
])
def test_tokenizers_that_could_not_be_read_are_not_saved(path, tokenizers, said):
    with pytest.raises(ValueError) as caught:
        npt.save(path, small.transformer(), *tokenizers)
    assert str(caught.value) == said


def test_a_readers_own_tokenizer_is_refused_or_comes_back(path):
    class Shouting(npt.CharTokenizer):
        pass

    with pytest.raises(ValueError, match="cannot be read again"):
        npt.save(path, small.transformer(), Shouting("AB"))


def test_configs_differ_where_they_should():
    """A frozen config cannot drift from its model."""
    with pytest.raises(AttributeError):
        small.CONFIG.d_model = 3
    assert replace(small.CONFIG, d_ff=9) != small.CONFIG

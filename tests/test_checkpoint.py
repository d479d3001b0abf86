"""Files: what goes in comes out, whole or not at all, and never by pickle."""

import io
import json
import os
import zipfile
from dataclasses import replace

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
    config = npt.Config(n_src_vocab=13, n_tgt_vocab=17, d_model=12, n_heads=3, d_ff=5, n_layers=1,
                        dropout=0.25, max_len=7, pad_id=4, pre_norm=True, tie_embeddings=True,
                        bos_id=5, eos_id=6, activation="gelu", positions="learned")
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
    npt.save(path, small.transformer(), None, words)
    assert load_tokenizers(path)[0] is None
    npt.save(path, small.transformer())
    assert load_tokenizers(path) == (None, None)


def test_a_path_may_be_text_and_needs_no_ending(tmp_path):
    name = str(tmp_path / "a model")
    npt.save(name, small.transformer())
    assert os.listdir(tmp_path) == ["a model"]
    assert npt.load(name).config == small.CONFIG


def test_the_file_is_an_npz_without_objects(path):
    npt.save(path, small.transformer(), npt.CharTokenizer("ab"), None)
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)                                   # objects would raise
    assert json.loads(str(arrays["config"]))["d_model"] == 8
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
    (zip_of_text, " must be a checkpoint of format 'npt_lib 1', got \"b'no array'\"."),
    (npy, " must be a checkpoint of format 'npt_lib 1', got None."),
    (empty_zip, " must be a checkpoint of format 'npt_lib 1', got None."),
    (lambda path: np.savez(path, x=np.ones(3)),
     " must be a checkpoint of format 'npt_lib 1', got None."),
    (lambda path: np.savez(path, format=np.array("npt_lib 2")),
     " must be a checkpoint of format 'npt_lib 1', got 'npt_lib 2'."),
    (lambda path: np.savez(path, format=np.array("npt_lib 1")),
     " must hold 'config', got ['format']."),
], ids=["text", "nothing", "pickle", "folder", "zip of text", "npy", "empty zip", "foreign npz",
        "another version", "no config"])
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


@pytest.mark.parametrize("changes, said", [
    ({W: np.zeros((7, 8))}, ": encoder.blocks.0.ffn.up.W needs numbers of shape (8, 7), "
                            "but the state holds float64 of shape (7, 8)."),
    ({W: None}, ": The state must name exactly the model's 67 parameters: "
                "missing ['encoder.blocks.0.ffn.up.W'], unknown [] (1 and 0)."),
    ({"model/more": np.zeros(2)}, ": The state must name exactly the model's 67 parameters: "
                                  "missing [], unknown ['more'] (0 and 1)."),
    ({W: np.full((8, 7), "x")}, ": encoder.blocks.0.ffn.up.W needs numbers of shape (8, 7), "
                                "but the state holds <U1 of shape (8, 7)."),
    ({"config": np.array("{")}, None),
    ({"config": np.array("[]")}, None),
    ({"config": np.array("5")}, None),
    ({"config": np.array('{"colour": 3}')}, None),
    ({"config": np.zeros(3)}, None),
    ({"config": np.array('{"n_src_vocab": 13, "n_tgt_vocab": 11, "n_heads": 5}')},
     ": d_model=64 must be divisible by n_heads=5."),
], ids=["shape", "missing", "unknown", "text", "no JSON", "list", "number", "unknown size",
        "numbers", "bad sizes"])
def test_what_does_not_fit_is_named(path, changes, said):
    npt.save(path, small.transformer())
    rewrite(path, **changes)
    message = refused(path)
    assert message == said if said else message.startswith(": ")


@pytest.mark.parametrize("saved", ["[]", "3", "[1, 2]", '[{"kind": "bytes"}, null]',
                                   '[{"kind": "char"}, null]', '[{"kind": "char", "tokens": 3}, 0]',
                                   '["char", null]', "{"])
def test_tokenizers_that_do_not_fit_are_refused(path, saved):
    npt.save(path, small.transformer())
    rewrite(path, tokenizers=np.array(saved))
    assert refused(path, load_tokenizers).startswith(": ")
    assert npt.load(path).config == small.CONFIG         # the model does not need them


# Runs: into a model, an optimizer, batches and an rng that exist already.

def run_parts(seed, **options):
    model = small.transformer(seed, **options)
    batches = npt.Batches(SRC, TGT, 2, np.random.default_rng(seed))
    return model, npt.Adam(model.parameters()), batches, np.random.default_rng(seed)


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
    npt.train(*parts, n_steps=3, path=path, tokenizers=(npt.CharTokenizer("ab"), None))
    same_states(npt.load(path).state_dict(), parts[0].state_dict())
    assert load_tokenizers(path)[0].tokens[3:] == ["a", "b"]


@pytest.mark.parametrize("changes", [
    {W: np.zeros((7, 8))}, {W: None},
    {"optimizer/mean": np.zeros(3)}, {"optimizer/square": None},
    {"optimizer/n_steps": None}, {"optimizer/n_steps": np.array("many")},
    {"batches/order": None}, {"batches/n_rows": np.array(99)}, {"batches/rng": np.array("{}")},
    {"rng": np.array("{")}, {"rng": np.array("")},
    {"rng": np.array('{"bit_generator": "MT19937"}')},
    {"history": np.array("{}")}, {"history": np.array("[")}, {"history": None},
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


def test_a_run_of_another_model_optimizer_or_randomness_is_refused(run):
    bigger = run_parts(1, d_ff=9)
    assert "needs numbers of shape" in refused(run, lambda path: go_on(path, bigger))
    model, _, batches, rng = run_parts(1)
    momentum = npt.SGD(model.parameters(), 0.1)
    assert "velocity must have shape (2676,), got None." in refused(
        run, lambda path: go_on(path, (model, momentum, batches, rng)))
    model, adam, batches, _ = run_parts(1)
    assert refused(run, lambda path: go_on(path, (model, adam, batches, None))) == (
        " must hold a run of train that used no rng, as this one does.")
    assert refused(run, lambda path: go_on(
        path, (model, adam, batches, np.random.Generator(np.random.MT19937(0))))) == (
        ": The checkpoint's generator is PCG64, but the one passed is MT19937.")


def test_a_model_without_a_run_cannot_be_gone_on_with(path):
    parts = run_parts(0)
    npt.save(path, parts[0])
    assert refused(path, lambda path: go_on(path, parts)) == (
        " must hold a run of train that used an rng, as this one does.")


def test_configs_differ_where_they_should():
    """A frozen config cannot drift from its model."""
    with pytest.raises(AttributeError):
        small.CONFIG.d_model = 3
    assert replace(small.CONFIG, d_ff=9) != small.CONFIG

"""GPT-2's files: what is written is read again, and what does not fit is refused by name."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npt_lib as npt
from npt_lib.gpt2 import LETTERS, GPT2Tokenizer, load_gpt2, save_gpt2, their_name

safetensors = pytest.importorskip("safetensors.numpy")

TEXTS = ["the cat lost her red ball, the cat lost it", "low lower lowest, it's 12 ½ cats"]
STRANGE = ["", " ", "a  b\n\n c", "naïve 🙂 日本語", "'ll it's", "x\x1c\x85y", "_a_ 12½²",
           "<|endoftext|>"]


@pytest.fixture(scope="module")
def tokenizer():
    return GPT2Tokenizer.from_merges(npt.BytePairTokenizer.from_texts(TEXTS, 30))


@pytest.fixture
def model(tokenizer):
    V = len(tokenizer)
    config = npt.gpt_config(V, d_model=8, n_heads=2, d_ff=12, n_layers=2, max_len=9, dropout=0.0,
                            pad_id=None, bos_id=None, eos_id=V - 1)
    return npt.GPT(config, np.random.default_rng(0))


@pytest.fixture
def folder(model, tokenizer, tmp_path):
    save_gpt2(tmp_path, model, tokenizer)
    return tmp_path


def test_what_was_written_is_read(model, folder):
    again = load_gpt2(folder)
    assert again.config == model.config
    ids = np.random.default_rng(1).integers(0, len(model.unembed.table.value), (2, 9))
    np.testing.assert_array_equal(again(ids), model(ids))
    assert {p.name for p in folder.iterdir()} == {
        "config.json", "model.safetensors", "vocab.json", "merges.txt"}


def test_the_names_are_those_of_gpt_2(folder):
    names = set(safetensors.load_file(folder / "model.safetensors"))
    block = {f"h.{n}.{part}" for n in range(2) for part in (
        "ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight",
        "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias",
        "mlp.c_proj.weight", "mlp.c_proj.bias")}
    assert names == block | {"wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"}
    assert their_name("body.blocks.11.attn.qkv.W") == "h.11.attn.c_attn.weight"


def test_without_padding_every_id_counts(model):
    ids = np.random.default_rng(1).integers(0, 3, (2, 9))              # 0 is a token like others
    assert model.n_targets((ids,)) == 16
    written = npt.greedy(model, ids[:, :4], 5, end_ids=())
    assert written.shape == (2, 5)
    loss, _ = model.loss((ids,))
    logits = model(ids[:, :-1]).astype(np.float64)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -np.take_along_axis(logp, ids[:, 1:, None], -1).mean()
    assert loss == pytest.approx(expected, rel=1e-5)


def test_old_files_hold_masks_and_prefixes(model, folder):
    path = folder / "model.safetensors"
    tensors = {f"transformer.{name}": x for name, x in safetensors.load_file(path).items()}
    tensors["transformer.h.0.attn.bias"] = np.tri(9, dtype=np.float32)[None, None]
    tensors["transformer.h.1.attn.masked_bias"] = np.float32([-1e4])
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"]
    safetensors.save_file(tensors, path)
    ids = np.arange(9)[None]
    np.testing.assert_array_equal(load_gpt2(folder)(ids), model(ids))
    tensors["lm_head.weight"] = tensors["lm_head.weight"] + 1
    safetensors.save_file(tensors, path)
    with pytest.raises(ValueError, match=r"lm_head\.weight must be wte\.weight"):
        load_gpt2(folder)


def test_any_text_comes_back(tokenizer, folder):
    again = GPT2Tokenizer.read(folder)
    assert again.vocabulary == tokenizer.vocabulary and again.tokens == tokenizer.tokens
    for text in TEXTS + STRANGE:
        ids = tokenizer.encode(text)
        assert again.encode(text) == ids
        assert tokenizer.decode([*ids, tokenizer.eos_id, 5]) == text
    assert [tokenizer.tokens[i] for i in tokenizer.encode("the cat")] == ["the", " cat"]
    assert tokenizer.encode("!") == [0] and tokenizer.bos_id == len(tokenizer) - 1
    assert len(set(LETTERS)) == 256


def test_it_has_no_padding(tokenizer):
    with pytest.raises(ValueError, match="has no padding: a batch needs rows of one length"):
        tokenizer.encode_batch(["the cat", "the"])
    assert tokenizer.encode_batch(["the cat", "the cat lost"[:7]]).shape == (2, 2)


def test_a_checkpoint_keeps_both(model, tokenizer, tmp_path):
    npt.save(tmp_path / "m.npz", model, tokenizer)
    assert npt.load(tmp_path / "m.npz").config == model.config
    (again,) = npt.load_tokenizers(tmp_path / "m.npz")
    assert again.encode("it's low") == tokenizer.encode("it's low")


def changed(folder, name, change):
    path = folder / name
    if name.endswith(".json"):
        said = json.loads(path.read_text("utf8"))
        change(said)
        path.write_text(json.dumps(said), "utf8")
    else:
        path.write_bytes(change(path.read_bytes()))


def drop(name):
    return lambda tensors: safetensors.save({n: x for n, x in tensors.items() if n != name})


@pytest.mark.parametrize("name, change, message", [
    ("config.json", lambda c: c.update(activation_function="relu"),
     "config.json must say activation_function='gelu_new', got 'relu'."),
    ("config.json", lambda c: c.update(model_type="llama"),
     "config.json must say model_type='gpt2', got 'llama'."),
    ("config.json", lambda c: c.pop("n_embd"), "config.json must say n_embd."),
    ("config.json", lambda c: c.update(n_embd=9), "d_model=9 must be divisible by n_heads=2."),
    ("config.json", lambda c: c.update(n_layer=3), "missing ['h.2.attn.c_attn.bias'"),
    ("config.json", lambda c: c.update(n_inner=13), "body.blocks.0.ffn.up.W needs numbers of"),
    ("model.safetensors", lambda b: b[:100], "model.safetensors must be a safetensors file"),
    ("model.safetensors", lambda b: drop("ln_f.bias")(safetensors.load(b)),
     "missing ['ln_f.bias'], unknown [] (1 and 0)."),
    ("config.json", None, "config.json is not there."),
    ("model.safetensors", None, "model.safetensors is not there."),
])
def test_a_model_that_does_not_fit_is_refused(folder, name, change, message):
    if change is None:
        (folder / name).unlink()
    else:
        changed(folder, name, change)
    with pytest.raises(ValueError) as caught:
        load_gpt2(folder)
    assert message in str(caught.value)


@pytest.mark.parametrize("name, change, message", [
    ("vocab.json", lambda v: v.update({"new": len(v)}), "besides it holds ['new']."),
    ("vocab.json", lambda v: v.update({"!": 7}), "must give the ids 0 to"),
    ("merges.txt", lambda b: b + b"x y z\n", "a line of merges.txt must be two tokens, got"),
    ("merges.txt", lambda b: b + "日 本\n".encode(), "must join two known tokens"),
    ("merges.txt", lambda b: b + b"\xff", "merges.txt must be a text in UTF-8"),
    ("vocab.json", None, "vocab.json is not there."),
])
def test_a_tokenizer_that_does_not_fit_is_refused(folder, name, change, message):
    if change is None:
        (folder / name).unlink()
    else:
        changed(folder, name, change)
    with pytest.raises(ValueError) as caught:
        GPT2Tokenizer.read(folder)
    assert message in str(caught.value)


SIZES = dict(d_model=8, n_heads=2, d_ff=8)


@pytest.mark.parametrize("config", [
    npt.llama_config(9, **SIZES), npt.modern_config(9, norm="rms", **SIZES),
    npt.modern_config(9, n_kv_heads=1, **SIZES), npt.gpt_config(9, pattern=npt.Window(3), **SIZES),
    npt.gpt_config(9, output_bias=True, **SIZES), npt.gpt_config(9, final_norm=False, **SIZES),
    npt.gpt_config(9, tie_embeddings=False, **SIZES),
])
def test_only_gpt_2_becomes_its_files(tmp_path, config):
    model = npt.GPT(config, np.random.default_rng(0))
    with pytest.raises(ValueError, match="save_gpt2 needs a GPT with gpt_config's choices, got"):
        save_gpt2(tmp_path / "none", model)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("other, said", [
    (npt.BytePairTokenizer(), r"must be a GPT2Tokenizer \(GPT2Tokenizer.from_merges makes one\), "
                              "got BytePairTokenizer."),
    (GPT2Tokenizer.from_merges(npt.BytePairTokenizer()), r"each of the model's \d+ rows, got 257")])
def test_a_tokenizer_that_is_not_the_models_is_refused_before_a_file_is_there(
        tmp_path, model, other, said):
    with pytest.raises(ValueError, match=said):
        save_gpt2(tmp_path / "none", model, other)
    assert not (tmp_path / "none").exists()


def test_an_interruption_leaves_the_old_files(model, folder, monkeypatch):
    before = (folder / "model.safetensors").read_bytes()
    monkeypatch.setattr("os.fsync", lambda number: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_gpt2(folder, npt.GPT(model.config, np.random.default_rng(1)))
    assert (folder / "model.safetensors").read_bytes() == before
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize("prompt", ["the cat lost", ""])
def test_the_command_writes(folder, prompt):
    done = run(folder, prompt, "--tokens", "4")
    assert done.returncode == 0 and done.stdout.startswith(prompt)
    assert run(folder, prompt, "--tokens", "4").stdout == done.stdout


def test_the_command_says_what_is_missing(tmp_path):
    done = run(tmp_path, "the cat")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("python -m examples.gpt2: a folder of GPT-2 needs config.json, "
                                  "model.safetensors, vocab.json and merges.txt, but ")


def run(*arguments):
    root = Path(__file__).resolve().parents[1]
    return subprocess.run([sys.executable, "-m", "examples.gpt2", *map(str, arguments)], cwd=root,
                          capture_output=True, text=True, timeout=120)


FROM_TRANSFORMERS = Path(__file__).parent / "fixtures" / "gpt2"


def test_files_that_transformers_wrote():
    """Random weights in files of the package transformers, and what it computed with them."""
    judged = safetensors.load_file(FROM_TRANSFORMERS / "judged.safetensors")
    model = load_gpt2(FROM_TRANSFORMERS)
    logits = model(judged["ids"].astype(int))
    assert np.abs(logits - judged["logits"]).max() < 1e-4 * np.abs(judged["logits"]).max()
    written = npt.greedy(model, judged["ids"][:, :5].astype(int), 8, end_ids=())
    np.testing.assert_array_equal(written, judged["written"])
    _, backward = model.loss((judged["ids"].astype(int),))
    backward()
    for name, p in model.parameters().items():
        wanted = judged[f"gradient/{their_name(name)}"]
        assert np.abs(p.grad - wanted).max() < 1e-4 * np.abs(wanted).max(), name


def test_texts_are_cut_as_transformers_cuts_them():
    judged = json.loads((FROM_TRANSFORMERS / "judged.json").read_text("utf8"))
    tokenizer = GPT2Tokenizer.read(FROM_TRANSFORMERS)
    assert len(judged) > 5
    for text, ids in judged.items():
        assert tokenizer.encode(text) == ids, text

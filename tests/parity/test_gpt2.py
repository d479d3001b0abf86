"""GPT-2 of the package transformers beside ours, over the files that either of them writes.

GPT-2's own files are not ours to store. Who has them asks with GPT2=FOLDER make test-parity.
"""

import os
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch

import npt_lib as npt
from npt_lib.gpt2 import GPT2Tokenizer, load_gpt2, save_gpt2, their_name
from npt_lib.tasks import numpy_documentation

transformers = pytest.importorskip("transformers")
pytest.importorskip("safetensors")

OWN = os.environ.get("GPT2", "")            # a folder with the files as they were published
WITHOUT = "asked with GPT2=FOLDER, GPT-2's own files"
SMALL = dict(vocab_size=61, n_embd=24, n_head=3, n_layer=3, n_positions=17)


def judge(**sizes):
    torch.manual_seed(0)
    twin = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        **{"bos_token_id": 60, "eos_token_id": 60, **sizes})).to(torch.float32).eval()
    with torch.no_grad():
        for p in twin.parameters():                       # no gain is 1, no bias 0
            if p.ndim == 1:
                p += 0.1 * torch.randn_like(p)
    return twin


def test_their_files_in_float64(tmp_path):
    """Logits, loss and every gradient of a model that transformers has written."""
    twin = judge(**SMALL)
    twin.save_pretrained(tmp_path)
    twin = twin.to(torch.float64)
    model = load_gpt2(tmp_path).astype(np.float64)
    ids = np.random.default_rng(0).integers(0, 61, (3, 17))
    logits = twin(torch.from_numpy(ids)).logits
    np.testing.assert_allclose(model(ids), logits.detach(), rtol=1e-9, atol=1e-9)
    expected = torch.nn.functional.cross_entropy(              # theirs is float32 always
        logits[:, :-1].flatten(0, 1), torch.from_numpy(ids[:, 1:]).flatten())
    loss, backward = model.loss((ids,))
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-12)
    backward()
    expected.backward()
    for name, p in model.parameters().items():
        wanted = twin.transformer.get_parameter(their_name(name)).grad.numpy()
        assert np.abs(p.grad - wanted).max() < 1e-9 * np.abs(wanted).max(), name


def test_our_files_are_theirs(tmp_path):
    config = npt.gpt_config(61, d_model=24, n_heads=3, d_ff=50, n_layers=2, max_len=17,
                            dropout=0.0, pad_id=None, bos_id=None, eos_id=60)
    model = npt.GPT(config, np.random.default_rng(0))
    save_gpt2(tmp_path, model)
    twin = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    ids = np.random.default_rng(0).integers(0, 61, (3, 17))
    np.testing.assert_allclose(model(ids), twin(torch.from_numpy(ids)).logits.detach(),
                               rtol=1e-4, atol=1e-5)


def test_every_text_is_cut_alike(tmp_path):
    texts = numpy_documentation()
    ours = GPT2Tokenizer.from_merges(npt.BytePairTokenizer.from_texts(texts.train[::8], 300))
    ours.write(tmp_path)
    theirs = transformers.GPT2Tokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    strange = ["naïve café, 日本語 🙂", "a  b   c\n\n\td", "_x__y_ 12.5e-3", "  ", "it's we'll I'M",
               "½²Ⅷ 3½ x²", "a\x1cb \x85 c\u2028d", "e\u0301 ñ", "٣٤ 一二三", "\u200d\u00ad x"]
    for text in [*texts.test[::3], *strange]:
        assert ours.encode(text) == theirs(text)["input_ids"], text[:80]


def test_gpt_2_in_its_full_size(tmp_path):
    """124 million parameters, random: the same logits, and the same 20 tokens."""
    twin = judge(vocab_size=50257, n_embd=768, n_head=12, n_layer=12, n_positions=1024,
                 bos_token_id=50256, eos_token_id=50256)
    with torch.no_grad():
        twin.transformer.wte.weight *= 5                   # as far apart as a trained model's
    twin.save_pretrained(tmp_path)
    model = load_gpt2(tmp_path)
    assert model.n_parameters() == 124_439_808
    ids = np.random.default_rng(0).integers(0, 50257, (2, 40))
    with torch.no_grad():
        theirs = twin(torch.from_numpy(ids)).logits.numpy()
    assert np.abs(model(ids) - theirs).max() < 1e-4 * np.abs(theirs).max()
    written = npt.greedy(model, ids, 20, end_ids=())
    expected = twin.generate(torch.from_numpy(ids), max_new_tokens=20, do_sample=False,
                             eos_token_id=None, pad_token_id=50256)
    np.testing.assert_array_equal(written, expected.numpy()[:, 40:])


def test_what_is_stored_for_every_run_is_what_transformers_computes():
    """tests/test_gpt2.py judges by these files."""
    from make_gpt2_files import FOLDER, judged
    from safetensors import numpy as safetensors

    stored = safetensors.load_file(FOLDER / "judged.safetensors")
    model = transformers.GPT2LMHeadModel.from_pretrained(FOLDER).to(torch.float32).eval()
    for name, x in judged(model).items():
        assert np.abs(x - stored[name]).max() <= 1e-4 * np.abs(stored[name]).max(), name


def has(name):
    return bool(OWN) and (Path(OWN) / name).exists()


def odd_texts(n, rng):
    """Signs of all of Unicode that Python and the judge both know, among the usual ones."""
    usual = list("  \n\n\t'abcDE123.,!?_stllveredm\u00a0\u3000")
    known = [c for c in map(chr, range(0x20000)) if unicodedata.category(c) not in ("Cn", "Cs")]
    for length in rng.integers(1, 30, n):
        signs = (usual if rng.random() < 0.6 else known for _ in range(length))
        yield "".join(some[rng.integers(len(some))] for some in signs)


@pytest.mark.skipif(not has("merges.txt"), reason=WITHOUT)
def test_gpt_2s_own_vocabulary():
    """Its 50,257 tokens: the documentation of NumPy and 2,000 odd texts get the ids they should."""
    folder = Path(OWN)
    ours = GPT2Tokenizer.read(folder)
    theirs = transformers.GPT2Tokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    assert len(ours) == 50_257 and ours.encode("This is some text") == [1212, 318, 617, 2420]
    texts = numpy_documentation()
    for text in [*texts.train, *texts.test, *odd_texts(2000, np.random.default_rng(0))]:
        ids = ours.encode(text)
        assert ids == theirs(text)["input_ids"], text[:80]
        assert ours.decode(ids) == text


@pytest.mark.skipif(not has("model.safetensors"), reason=WITHOUT)
def test_gpt_2s_own_weights():
    """Logits, and the 20 tokens that follow a prompt."""
    model, tokenizer = load_gpt2(OWN), GPT2Tokenizer.read(OWN)
    twin = transformers.GPT2LMHeadModel.from_pretrained(OWN).to(torch.float32).eval()
    ids = np.array([tokenizer.encode("An array is a")])
    with torch.no_grad():
        theirs = twin(torch.from_numpy(ids)).logits.numpy()
    assert np.abs(model(ids) - theirs).max() < 1e-4 * np.abs(theirs).max()
    expected = twin.generate(torch.from_numpy(ids), max_new_tokens=20, do_sample=False,
                             eos_token_id=None, pad_token_id=50256)
    np.testing.assert_array_equal(npt.greedy(model, ids, 20, end_ids=()),
                                  expected.numpy()[:, ids.shape[1]:])

"""The twin in PyTorch that leaves chapter 16's folder: what is stored is what PyTorch computes."""

import json

import numpy as np
import pytest
import torch

import npt_lib as npt
from npt_lib.gpt2 import GPT2Tokenizer, load_gpt2

pytest.importorskip("safetensors")

from safetensors import numpy as safetensors

from examples import torch_twin


@pytest.fixture(autouse=True)
def float32():
    """The program's own dtype: other tests here ask PyTorch for float64, for the whole process."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(before)


def twin_of(folder):
    """The twin with the weights of a folder."""
    arrays = safetensors.load_file(folder / "model.safetensors")
    twin = torch_twin.Twin(len(arrays["wte.weight"]))
    with torch.no_grad():
        for name, p in twin.named_parameters():
            x = torch.from_numpy(arrays.pop(name))
            p.copy_(x.T if x.ndim == 2 and name.startswith("h.") else x)
    assert not arrays
    return twin


def test_the_stored_record_is_pytorch_s():
    twin, folder = twin_of(torch_twin.FOLDER), torch_twin.FOLDER
    about = json.loads((folder / "told.json").read_text("utf8"))
    stored = safetensors.load_file(folder / "told.safetensors")
    rows = torch.from_numpy(stored["rows"].astype(np.int64))
    assert twin.loss(rows).item() == pytest.approx(about["loss"], rel=1e-5)
    tokenizer = GPT2Tokenizer.read(folder)
    for prompt, written in about["written"].items():
        assert tokenizer.decode(twin.write(tokenizer.encode(prompt), 40)) == written
    for name, x in torch_twin.told(twin, rows).items():
        assert np.abs(x - stored[name]).max() <= 1e-4 * np.abs(stored[name]).max(), name


def test_what_is_trained_in_pytorch_comes_back(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["torch_twin", str(tmp_path), "--steps", "20"])
    torch_twin.main()
    about = json.loads((tmp_path / "told.json").read_text("utf8"))
    assert about["steps"] == 20 and '"written"' in capsys.readouterr().out
    model, twin = load_gpt2(tmp_path).astype(np.float64), twin_of(tmp_path).double()
    rows = safetensors.load_file(tmp_path / "told.safetensors")["rows"].astype(np.int64)
    with torch.no_grad():
        theirs = twin(torch.from_numpy(rows[:, :-1])).numpy()
    assert np.abs(model(rows[:, :-1]) - theirs).max() < 1e-10 * np.abs(theirs).max()
    loss, _ = model.loss((rows,))
    assert loss == pytest.approx(about["loss"], rel=1e-4)
    assert npt.greedy(model, rows[:1, :5], 3, end_ids=()).shape == (1, 3)

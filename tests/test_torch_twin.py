"""The model that PyTorch trained and chapter 16 reads: the stored files alone, without PyTorch."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import npt_lib as npt
from npt_lib.gpt2 import GPT2Tokenizer, load_gpt2, read_bytes, their_name
from npt_lib.tasks.numbers import number_to_english

safetensors = pytest.importorskip("safetensors.numpy")

BEYOND = Path(__file__).resolve().parents[1] / "book" / "beyond"
FOLDER = BEYOND / "from_torch"


@pytest.fixture(scope="module")
def about():
    return json.loads((FOLDER / "told.json").read_text("utf8"))


@pytest.fixture(scope="module")
def told():
    return safetensors.load(read_bytes(FOLDER, "told.safetensors"))


@pytest.fixture
def model():
    return load_gpt2(FOLDER)


def apart(ours, theirs):
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


def test_it_comes_back_with_its_loss_and_its_text(model, about, told):
    assert model.n_parameters() == about["parameters"]
    loss, _ = model.loss((told["rows"].astype(int),))
    assert loss == pytest.approx(about["loss"], rel=1e-5)
    tokenizer = GPT2Tokenizer.read(FOLDER)
    assert len(about["written"]) == 2
    for prompt, written in about["written"].items():
        ids = np.array([tokenizer.encode(prompt)])
        assert tokenizer.decode(npt.greedy(model, ids, 40, end_ids=())[0]) == written


def test_it_counts(told, about):
    tokenizer = GPT2Tokenizer.read(FOLDER)
    counted = ", ".join(map(number_to_english, range(640, 700)))
    for row in told["rows"]:
        assert tokenizer.decode(row.tolist()) in counted
    right = ", ".join(map(number_to_english, range(97, 120)))
    prompt, written = next(iter(about["written"].items()))
    assert (prompt + written) in right


def test_gradients_are_pytorch_s_parameter_by_parameter(model, told):
    _, backward = model.loss((told["rows"].astype(int),))
    backward()
    names = {f"gradient/{their_name(name)}": p.grad for name, p in model.parameters().items()}
    assert set(names) == {name for name in told if name.startswith("gradient/")}
    for name, grad in names.items():
        assert apart(grad, told[name]) < 3e-5, name            # a slip of the page: 2e-4 at least


def test_parts_are_pytorch_s(model, told):
    logits = model(told["rows"][:1, :16].astype(int))
    assert apart(logits[0], told["part/logits"]) < 1e-5
    x = model.embed(told["rows"][:1, :16].astype(int))
    assert apart(x[0], told["part/embed"]) < 1e-6
    x = model.body.blocks[0](x, npt.causal_mask(16))
    assert apart(x[0], told["part/h.0"]) < 1e-5


def test_the_page_says_how_it_was_trained(about):
    page = "".join("".join(cell["source"]) for cell in json.loads(
        (BEYOND / "16_other_weights.ipynb").read_text("utf8"))["cells"])
    assert about["device"] == "cpu" and "ordinary processor" in page
    (steps,) = re.findall(r"in ([\d,]+) steps", page)
    assert int(steps.replace(",", "")) == about["steps"]
    size = sum(path.stat().st_size for path in FOLDER.iterdir())
    assert size < 450_000

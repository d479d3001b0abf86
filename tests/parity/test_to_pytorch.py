"""The example that turns a checkpoint into PyTorch's module, and the tables that document it."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

import npt_lib as npt
from examples import to_pytorch as example

PAGE = Path(__file__).resolve().parents[2] / "book" / "api.md"
SIZES = {"V": 11, "D": 12, "F": 7, "N": 17}
LIMITS = {np.float32: 2e-5, np.float64: 1e-12}


def model_of(**choices):
    V, D, d_ff, max_len = SIZES.values()
    config = npt.Config(V, V, D, 3, d_ff, 2, max_len=max_len, **choices)
    model, rng = npt.Transformer(config, np.random.default_rng(0)), np.random.default_rng(1)
    for p in model.parameters().values():                  # no gain is 1, no bias 0
        p.value = p.value + rng.standard_normal(p.shape, np.float32) / 10
    return model


CHOICES = [dict(pre_norm=pre, tie_embeddings=tied, activation=activation, positions=positions)
           for (pre, tied), (activation, positions) in product(
               [(False, False), (True, True)], [("relu", "sinusoidal"), ("gelu", "learned")])]


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("choices", CHOICES, ids=lambda c: "-".join(map(str, c.values())))
def test_the_twin_computes_the_same(choices, dtype):
    ours = model_of(**choices).astype(dtype)
    theirs = example.to_pytorch(ours)
    assert {p.dtype for p in theirs.parameters()} == {torch.from_numpy(np.zeros(1, dtype)).dtype}
    assert example.difference(ours, theirs) < LIMITS[dtype]
    theirs.encoder.layers[1].linear2.bias.data[3] += 1
    assert example.difference(ours, theirs) > 100 * LIMITS[dtype]


def test_it_tells_how_it_is_called(capsys):
    with pytest.raises(SystemExit) as end:
        example.main(["--help"])
    assert end.value.code == 0
    assert "model.npz" in capsys.readouterr().out


def test_dropout_comes_along_and_waits_for_train():
    theirs = example.to_pytorch(model_of(dropout=0.3))
    ids = torch.ones(2, 5, dtype=torch.long)
    assert torch.equal(theirs(ids, ids), theirs(ids, ids))
    theirs.train()
    assert not torch.equal(theirs(ids, ids), theirs(ids, ids))


def test_from_one_file_to_the_other(tmp_path, capsys):
    ours = model_of(tie_embeddings=True)
    npt.save(tmp_path / "model.npz", ours)
    example.main([str(tmp_path / "model.npz"), str(tmp_path / "model.pt")])
    said = capsys.readouterr().out
    assert said.startswith(f"{ours.n_parameters():,} parameters; no logit differs by more than")
    state = torch.load(tmp_path / "model.pt", weights_only=True)
    fresh = example.Model(ours)
    fresh.load_state_dict(state)
    assert example.difference(ours, fresh.eval()) < LIMITS[np.float32]


def test_a_model_of_another_size_is_refused():
    wide, narrow = model_of(), model_of(tie_embeddings=True)
    with pytest.raises(ValueError, match=f"must have our {wide.n_parameters()} parameters"):
        example.copy_weights(example.Model(narrow), wide)


def told():
    """(name, shape, PyTorch's name, its shape) for every row of the page's tables."""
    code = r"`([^`]+)`"
    found = re.findall(rf"^\| {code} \| {code} \| {code} \| {code} \|$", PAGE.read_text("utf8"),
                       re.M)
    return [row for short in found for row in written_out(short)]


def written_out(row):
    """What the page says beside its tables: the blocks' beginnings, the decoder's names, norm3."""
    name, shape, their_name, their_shape = row
    rows = [row]
    if name.split(".")[0] not in ("src_embed", "encoder", "unembed"):
        rows = [(f"encoder.blocks.{n}.{name}", shape, f"encoder.layers.{n}.{their_name}",
                 their_shape) for n in range(2)]
    also = {"src_embed": ["tgt_embed"], "encoder.": ["decoder."], "norm1": ["norm2", "norm3"]}
    for step, others in also.items():
        rows += [tuple(x.replace(step, other) for x in row)
                 for row in rows if step in row[0] for other in others]
    return rows


@pytest.mark.parametrize("choices", CHOICES, ids=lambda c: "-".join(map(str, c.values())))
def test_the_table_of_names_is_so(choices):
    ours = model_of(**choices)
    parameters, theirs = ours.parameters(), example.to_pytorch(ours).state_dict()
    rows = {row[0]: row[1:] for row in told()}
    assert set(parameters) <= set(rows)
    for name, p in parameters.items():
        shape, their_name, their_shape = rows[name]
        assert p.shape == eval(shape, {}, SIZES), name
        assert tuple(theirs[their_name].shape) == eval(their_shape, {}, SIZES), their_name
        assert example.their_name(name) == their_name
    assert set(theirs) <= {their_name for _, their_name, _ in rows.values()}

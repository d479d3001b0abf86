"""What every module can do: name its parameters, take over a state, show itself; looking inside."""

import numpy as np
import pytest
import small
from small import CONFIG

import npt_lib as npt

RNG = np.random.default_rng(0)


def test_parameters_are_found_by_walking_the_attributes():
    names = list(npt.EncoderBlock(CONFIG, RNG).parameters())
    assert names == ["attn.qkv.W", "attn.qkv.b", "attn.out.W", "attn.out.b",
                     "ffn.up.W", "ffn.up.b", "ffn.down.W", "ffn.down.b",
                     "norm1.gain", "norm1.bias", "norm2.gain", "norm2.bias"]
    model = small.transformer(pre_norm=True)
    assert "decoder.blocks.1.cross.kv.W" in model.parameters()
    assert "encoder.norm.gain" in model.parameters()
    assert len(model.parameters()) == 3 + 2 * 12 + 2 * 20 + 2 * 2


class Nest(npt.Module):
    """Parameters in lists and tuples, and things that are no parameters."""

    def __init__(self):
        self.weights = [npt.Parameter(np.zeros(2)), npt.Parameter(np.zeros((3, 1)))]
        self.layers = (npt.Linear(2, 3, RNG), npt.Linear(3, 2, RNG))
        self.again = self.layers[0]
        self.width, self.name, self.table = 3, "nest", np.zeros(4)

    def forward(self, x):
        return x, lambda dy: dy


def test_lists_and_tuples_are_walked_and_a_shared_parameter_counts_once():
    nest = Nest()
    assert list(nest.parameters()) == ["weights.0", "weights.1", "layers.0.W", "layers.0.b",
                                       "layers.1.W", "layers.1.b"]
    assert nest.n_parameters() == 2 + 3 + 9 + 8
    tied, apart = small.transformer(tie_embeddings=True), small.transformer()
    assert apart.n_parameters() - tied.n_parameters() == small.V * 8
    assert tied.unembed.table is tied.tgt_embed.tokens.table
    assert "unembed.table" in apart.parameters() and "unembed.table" not in tied.parameters()


def test_a_tied_table_gets_the_gradient_of_both_its_uses():
    src, tgt = small.pairs(np.random.default_rng(0))
    tied, apart = small.transformer(tie_embeddings=True), small.transformer()
    state = tied.state_dict()
    apart.load_state_dict({**state, "unembed.table": state["tgt_embed.tokens.table"]})
    for model in (tied, apart):
        logits, backward = model.forward(src, tgt)
        backward(np.cos(np.arange(logits.size, dtype=np.float32)).reshape(logits.shape))
    grads = {name: p.grad for name, p in apart.parameters().items()}
    both = grads["tgt_embed.tokens.table"] + grads["unembed.table"]
    np.testing.assert_allclose(tied.unembed.table.grad, both, rtol=1e-5, atol=1e-5)


def test_zero_grad_forgets_and_backward_adds_up():
    layer, x = npt.Linear(3, 2, RNG), np.ones((4, 3), np.float32)
    assert layer.W.grad is None
    for times in (1, 2):
        layer.forward(x)[1](np.ones((4, 2), np.float32))
        np.testing.assert_array_equal(layer.W.grad, np.full((3, 2), 4.0 * times))
    layer.zero_grad()
    assert layer.W.grad is None and layer.b.grad is None


def test_calling_gives_the_output_of_forward_and_drops_the_way_back():
    src, tgt = small.pairs(np.random.default_rng(0))
    model = small.transformer()
    y = model(src, tgt)
    assert isinstance(y, np.ndarray)
    np.testing.assert_array_equal(y, model.forward(src, tgt)[0])
    dropped = model(src, tgt, rng=np.random.default_rng(0))
    assert (dropped != y).any()                       # options arrive


# Types.

def test_astype_copies_converts_and_keeps_sharing():
    model = small.transformer(tie_embeddings=True)
    before = model.state_dict()
    double = model.astype(np.float64)
    assert {p.value.dtype for p in double.parameters().values()} == {np.dtype("f8")}
    assert double.unembed.table is double.tgt_embed.tokens.table is not model.unembed.table
    for p in double.parameters().values():
        p.value += 1.0
    for name, value in model.state_dict().items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, before[name])


def test_models_are_float32_by_default_all_through():
    src, tgt = small.pairs(np.random.default_rng(0))
    for options in small.STYLES.values():
        model = npt.Transformer(small.config(**options), np.random.default_rng(0))
        logits, backward = model.forward(src, tgt, np.random.default_rng(0))
        backward(np.ones_like(logits))
        dtypes = {p.value.dtype for p in model.parameters().values()}
        assert dtypes | {p.grad.dtype for p in model.parameters().values()} | {logits.dtype} \
            == {np.dtype("f4")}


def test_the_same_seed_builds_the_same_model():
    one, same = (npt.Transformer(CONFIG, np.random.default_rng(3)).state_dict() for _ in range(2))
    other = npt.Transformer(CONFIG, np.random.default_rng(4)).state_dict()
    for name, value in one.items():
        np.testing.assert_array_equal(value, same[name])
    assert (one["unembed.table"] != other["unembed.table"]).any()


def test_weights_start_with_the_variances_they_should_have():
    layer = npt.Linear(300, 200, np.random.default_rng(0))
    assert layer.W.value.std() == pytest.approx(np.sqrt(2 / 500), rel=0.02)
    assert abs(layer.W.value.mean()) < 1e-3 and not layer.b.value.any()
    table = npt.Embedding(500, 64, np.random.default_rng(0)).table.value
    assert table.std() == pytest.approx(1 / 8, rel=0.02)


# States.

def test_a_state_goes_into_another_model_and_gives_the_same_outputs():
    src, tgt = small.pairs(np.random.default_rng(0))
    one, other = small.transformer(0), small.transformer(1)
    state = one.state_dict()
    other.load_state_dict(state)
    np.testing.assert_array_equal(one(src, tgt), other(src, tgt))
    for value in state.values():
        value += 1.0                                  # a copy on both ways
    np.testing.assert_array_equal(one(src, tgt), other(src, tgt))
    assert not any(np.shares_memory(a, b.value) for a in state.values()
                   for b in other.parameters().values())


def test_a_state_is_converted_to_the_types_of_the_model():
    layer = npt.Linear(3, 2, RNG)
    layer.load_state_dict({"W": np.arange(6).reshape(3, 2), "b": np.ones(2)})
    assert layer.W.value.dtype == layer.b.value.dtype == np.float32
    np.testing.assert_array_equal(layer.W.value, [[0, 1], [2, 3], [4, 5]])


@pytest.mark.parametrize("change", [
    lambda state: state.pop("norm2.bias"),
    lambda state: state.update(extra=np.zeros(1)),
    lambda state: state.update({"norm2.bias": np.zeros(3)}),
    lambda state: state.update({"norm2.bias": np.array(["a"] * 8)}),
    lambda state: state.update({"norm2.bias": np.array([None] * 8)}),
], ids=["missing", "unknown", "wrong shape", "text", "objects"])
def test_a_state_is_taken_over_whole_or_not_at_all(change):
    block, other = npt.EncoderBlock(CONFIG, RNG), npt.EncoderBlock(CONFIG, RNG)
    before, state = block.state_dict(), other.state_dict()
    change(state)
    with pytest.raises(ValueError, match=r"norm2\.bias|extra"):
        block.load_state_dict(state)
    for name, value in block.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


# Looking inside.

TREE = """\
Transformer  [1,478]
  src_embed: InputEmbedding  [104]
    tokens: Embedding  table (13, 8)  [104]
    positions: SinusoidalPositions  [0]
    drop: Dropout  [0]
  encoder: Encoder  [447]
    blocks.0: EncoderBlock  [447]
      attn: SelfAttention  [288]
        qkv: Linear  W (8, 24)  b (24,)  [216]
        out: Linear  W (8, 8)  b (8,)  [72]
"""


def test_repr_shows_the_tree_with_shapes_and_counts():
    model = small.transformer(n_layers=1)
    lines = repr(model).splitlines()
    assert lines[:10] == TREE.splitlines()
    assert lines[0] == f"Transformer  [{model.n_parameters():,}]"
    assert lines[-1] == "  unembed: Unembedding  table (11, 8)  [88]"
    assert "      cross: CrossAttention  [288]" in lines
    assert "      norm3: LayerNorm  gain (8,)  bias (8,)  [16]" in lines
    assert len(lines) == 42
    assert repr(npt.Linear(3, 2, RNG)) == "Linear  W (3, 2)  b (2,)  [8]"
    assert repr(npt.Linear(3, 2, RNG).W) == "Parameter(3, 2)"


def test_the_counts_of_the_parts_add_up():
    model = small.transformer()
    parts = (model.src_embed, model.encoder, model.tgt_embed, model.decoder, model.unembed)
    assert sum(part.n_parameters() for part in parts) == model.n_parameters()
    assert sum(p.value.size for p in model.parameters().values()) == model.n_parameters()


def test_saved_opens_a_closure():
    x = np.array([1.0, -2.0])
    assert npt.saved(npt.relu(x)[1]).keys() == {"y"}
    q, k, v = RNG.standard_normal((3, 4, 5))
    inside = npt.saved(npt.attention(q, k, v)[1])
    assert {"w", "k", "v", "qs", "scale"} <= inside.keys()
    np.testing.assert_allclose(inside["w"].sum(axis=-1), 1)


@pytest.mark.parametrize("style", small.STYLES)
def test_attention_maps_have_a_name_a_shape_and_rows_that_add_up(style):
    model = small.transformer(**small.STYLES[style])
    src, tgt = small.pairs(np.random.default_rng(0))
    src = np.pad(src, ((0, 0), (0, 1)))
    maps = npt.attention_maps(model.forward(src, tgt)[1])
    B, T, S, H = 5, 6, 7, 2
    assert {name: w.shape for name, w in maps.items()} == {
        "encoder.0.attn": (B, H, S, S), "encoder.1.attn": (B, H, S, S),
        "decoder.0.attn": (B, H, T, T), "decoder.1.attn": (B, H, T, T),
        "decoder.0.cross": (B, H, T, S), "decoder.1.cross": (B, H, T, S)}
    for name, w in maps.items():
        np.testing.assert_allclose(w.sum(axis=-1), 1, rtol=1e-5, err_msg=name)
        if name.startswith("decoder") and name.endswith("attn"):
            assert not np.triu(w, 1).any()
        else:
            assert not w[0, :, :, (src[0] == 0)].any() and w[0, :, :, (src[0] > 0)].any()


def test_attention_maps_of_a_block_a_layer_and_a_function():
    x, memory = RNG.standard_normal((2, 5, 8)), RNG.standard_normal((2, 4, 8))
    block = npt.DecoderBlock(CONFIG, RNG).forward(x, memory)[1]
    assert npt.attention_maps(block).keys() == {"attn", "cross"}
    layer = npt.SelfAttention(8, 2, RNG).forward(x)[1]
    maps = npt.attention_maps(layer)
    assert {name: w.shape for name, w in maps.items()} == {"attention": (2, 2, 5, 5)}
    alone = npt.attention_maps(npt.attention(x, x, x)[1])
    np.testing.assert_allclose(alone["attention"], npt.softmax(x @ x.swapaxes(1, 2) / 8**0.5)[0])


def test_maps_are_those_that_made_the_output():
    """Each name belongs to its own layer: told apart by one layer whose keys are all alike."""
    model = small.transformer()
    model.decoder.blocks[1].cross.kv.W.value[:, :8] = 0        # all keys alike: uniform weights
    src, tgt = np.full((1, 4), 5), np.array([[1, 3, 4]])
    maps = npt.attention_maps(model.forward(src, tgt)[1])
    np.testing.assert_allclose(maps["decoder.1.cross"], 0.25, rtol=1e-5)
    assert np.abs(maps["decoder.0.cross"] - 0.25).max() > 1e-3


def test_a_state_in_column_order_changes_nothing():
    """As M.T is: the embedding's gradient once went to a copy of the table's gradient."""
    plain, turned = (npt.Embedding(5, 3, np.random.default_rng(0)) for _ in range(2))
    turned.load_state_dict({"table": np.asfortranarray(plain.table.value)})
    outside = npt.Embedding(5, 3, np.random.default_rng(0))
    outside.table.value = np.asfortranarray(plain.table.value)
    for layer in (plain, turned, outside):
        _, backward = layer.forward(np.array([1, 4, 1]))
        backward(np.ones((3, 3), np.float32))
        np.testing.assert_array_equal(layer.table.grad[:, 0], [0, 2, 0, 0, 1])
    assert turned.table.value.flags.c_contiguous

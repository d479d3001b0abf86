"""A Llama of the package transformers, with our weights: its logits, loss and every gradient."""

import numpy as np
import pytest
import torch

import npt_lib as npt

transformers = pytest.importorskip("transformers")

V, D, F, T = 29, 24, 40, 11
THEIR = {"ffn.down": ["mlp.down_proj"], "ffn.gate_and_up": ["mlp.gate_proj", "mlp.up_proj"],
         "attn.q": ["self_attn.q_proj"], "attn.kv": ["self_attn.k_proj", "self_attn.v_proj"],
         "attn.out": ["self_attn.o_proj"], "norm1": ["input_layernorm"],
         "norm2": ["post_attention_layernorm"]}


def names_of(name):
    """The names in transformers of our parameter: several stand side by side in ours."""
    whole = {"embed.tokens.table": "model.embed_tokens", "body.norm.gain": "model.norm",
             "unembed.table": "lm_head"}
    if name in whole:
        return [f"{whole[name]}.weight"]
    _, _, n, part = name.split(".", 3)
    return [f"model.layers.{n}.{theirs}.weight" for theirs in THEIR[part.rpartition(".")[0]]]


def ours_from(tensors, name):
    """Their arrays, laid out as our parameter of this name."""
    arrays = [tensor.detach().numpy() for tensor in tensors]
    return np.concatenate([a.T for a in arrays], axis=1) if name.endswith(".W") else arrays[0]


class InDouble:
    """torch, but what asks for float32 gets float64."""

    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.fixture(autouse=True)
def _in_double(monkeypatch):
    """Whatever a model's dtype, transformers does norms, softmax and angles in float32."""
    from transformers.models.llama import modeling_llama

    monkeypatch.setattr(modeling_llama, "torch", InDouble())
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def judge(n_heads, n_kv_heads, tied):
    config = transformers.LlamaConfig(
        vocab_size=V, hidden_size=D, intermediate_size=F, num_hidden_layers=3,
        num_attention_heads=n_heads, num_key_value_heads=n_kv_heads, rms_norm_eps=1e-5,
        max_position_embeddings=T, tie_word_embeddings=tied, attn_implementation="eager")
    torch.manual_seed(0)
    twin = transformers.LlamaForCausalLM(config).to(torch.float64)
    d_head = D // n_heads
    twin.model.rotary_emb.inv_freq = torch.tensor(10000 ** (-np.arange(0, d_head, 2) / d_head))
    for name, p in twin.named_parameters():
        if "norm" in name:
            p.data += 0.5 * torch.randn_like(p)
    return twin


@pytest.mark.parametrize("n_heads, n_kv_heads, tied", [(4, 2, False), (6, 1, True), (2, 2, False)])
def test_logits_and_every_gradient(n_heads, n_kv_heads, tied):
    twin = judge(n_heads, n_kv_heads, tied)
    config = npt.llama_config(V, d_model=D, n_heads=n_heads, n_kv_heads=n_kv_heads, d_ff=F,
                              n_layers=3, dropout=0.0, max_len=T, tie_embeddings=tied)
    model = npt.GPT(config, np.random.default_rng(0)).astype(np.float64)
    theirs = dict(twin.named_parameters())
    parameters = model.parameters()
    model.load_state_dict({name: ours_from([theirs[n] for n in names_of(name)], name)
                           for name in parameters})
    assert model.n_parameters() == sum(p.numel() for p in twin.parameters())

    ids = np.random.default_rng(1).integers(3, V, (3, T))
    logits = twin(torch.from_numpy(ids)).logits
    np.testing.assert_allclose(model(ids), logits.detach().numpy(), rtol=1e-9, atol=1e-9)

    loss, backward = model.loss((ids,))
    backward()
    expected = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1), torch.from_numpy(ids[:, 1:]).flatten())
    expected.backward()
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-12)
    for name, p in parameters.items():
        wanted = ours_from([theirs[n].grad for n in names_of(name)], name)
        error = np.abs(p.grad - wanted).max() / np.abs(wanted).max()
        assert error < 1e-9, (name, error)

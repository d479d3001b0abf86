"""The Transformer out of the layers that PyTorch ships, at the same weights."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.contestants.torch_model import Embedding, State
from benchmarks.sizes import PAD, Size

# the names of nn.TransformerEncoderLayer and nn.TransformerDecoderLayer, and npt_lib's
LINEAR = {"self_attn.in_proj_": "attn.qkv", "self_attn.out_proj.": "attn.out",
          "multihead_attn.out_proj.": "cross.out", "linear1.": "ffn.up", "linear2.": "ffn.down"}


def translated(state: State, block: str) -> State:
    """One block's weights under the names that PyTorch's own layers have for them."""
    own = {name.removeprefix(block): x for name, x in state.items() if name.startswith(block)}
    crosses = "cross.q.W" in own
    found: State = {}
    for theirs, ours in LINEAR.items():
        if f"{ours}.W" in own:
            found |= {f"{theirs}weight": own[f"{ours}.W"].T, f"{theirs}bias": own[f"{ours}.b"]}
    for i in range(1, 3 + crosses):
        found |= {f"norm{i}.weight": own[f"norm{i}.gain"], f"norm{i}.bias": own[f"norm{i}.bias"]}
    if crosses:
        q, kv = "cross.q", "cross.kv"
        found["multihead_attn.in_proj_weight"] = torch.cat([own[f"{q}.W"].T, own[f"{kv}.W"].T])
        found["multihead_attn.in_proj_bias"] = torch.cat([own[f"{q}.b"], own[f"{kv}.b"]])
    return found


class Shipped(nn.Module):
    """nn.TransformerEncoder and nn.TransformerDecoder between the same embeddings."""

    def __init__(self, size: Size, state: State, dropout: float = 0.0):
        super().__init__()
        self.src_embed = Embedding(state["src_embed.tokens.table"], dropout)
        self.tgt_embed = Embedding(state["tgt_embed.tokens.table"], dropout)
        sizes = (size.d_model, size.n_heads, size.d_ff, dropout)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(*sizes, batch_first=True), size.n_layers)
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(*sizes, batch_first=True), size.n_layers)
        for name, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            for i, layer in enumerate(stack.layers):
                layer.load_state_dict(translated(state, f"{name}.blocks.{i}."))
        self.unembed = nn.Parameter(state["unembed.table"].clone())

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        padding = src == PAD
        future = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        memory = self.encoder(self.src_embed(src), src_key_padding_mask=padding)
        x = self.decoder(self.tgt_embed(tgt), memory, tgt_mask=future, tgt_is_causal=True,
                         memory_key_padding_mask=padding)
        return F.linear(x, self.unembed)

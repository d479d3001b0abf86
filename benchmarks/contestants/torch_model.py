"""The Transformer as one writes it in PyTorch for speed: fused projections, fused attention."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.sizes import PAD, Size, positions

State = dict[str, Tensor]


def linear(state: State, name: str) -> nn.Linear:
    """A layer at npt_lib's weights, which are (d_in, d_out)."""
    layer = nn.utils.skip_init(nn.Linear, *state[f"{name}.W"].shape)
    layer.weight.data.copy_(state[f"{name}.W"].T)
    layer.bias.data.copy_(state[f"{name}.b"])
    return layer


def norm(state: State, name: str) -> nn.LayerNorm:
    layer = nn.LayerNorm(len(state[f"{name}.gain"]))
    layer.weight.data.copy_(state[f"{name}.gain"])
    layer.bias.data.copy_(state[f"{name}.bias"])
    return layer


def split(x: Tensor, n_parts: int, n_heads: int) -> tuple[Tensor, ...]:
    """(B, T, parts * D) to as many (B, H, T, K)."""
    B, T, _ = x.shape
    return x.view(B, T, n_parts, n_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)


def merge(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class Embedding(nn.Module):
    """Token vectors times sqrt(D), plus positions, then dropout."""

    def __init__(self, table: Tensor, dropout: float):
        super().__init__()
        self.table = nn.Parameter(table.clone())
        self.register_buffer("waves", torch.from_numpy(positions(table.shape[1])))
        self.dropout = dropout

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        x = F.embedding(ids, self.table) * math.sqrt(self.table.shape[1])
        x = x + self.waves[start:start + ids.shape[1]]
        return F.dropout(x, self.dropout, self.training)


class Cache(NamedTuple):
    """What a decoder block keeps while it decodes: room for its past, and the memory's part."""

    keys: Tensor
    values: Tensor
    memory_keys: Tensor
    memory_values: Tensor
    mask: Tensor


class Block(nn.Module):
    """A post-norm encoder block, or with cross-attention a decoder block."""

    def __init__(self, state: State, name: str, n_heads: int, dropout: float):
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.crosses = f"{name}.cross.q.W" in state
        self.qkv, self.out = linear(state, f"{name}.attn.qkv"), linear(state, f"{name}.attn.out")
        self.up, self.down = linear(state, f"{name}.ffn.up"), linear(state, f"{name}.ffn.down")
        self.norms = nn.ModuleList(norm(state, f"{name}.norm{i + 1}")
                                   for i in range(2 + self.crosses))
        if self.crosses:
            self.q, self.kv = linear(state, f"{name}.cross.q"), linear(state, f"{name}.cross.kv")
            self.cross_out = linear(state, f"{name}.cross.out")

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def cross(self, x: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        (q,) = split(self.q(x), 1, self.n_heads)
        return self.cross_out(merge(F.scaled_dot_product_attention(q, k, v, mask)))

    def feed(self, x: Tensor) -> Tensor:
        return self.norms[-1](x + self.drop(self.down(F.relu(self.up(x)))))

    def forward(self, x: Tensor, src_mask: Tensor, memory: Tensor | None = None) -> Tensor:
        q, k, v = split(self.qkv(x), 3, self.n_heads)
        h = (F.scaled_dot_product_attention(q, k, v, is_causal=True) if self.crosses
             else F.scaled_dot_product_attention(q, k, v, src_mask))
        x = self.norms[0](x + self.drop(self.out(merge(h))))
        if self.crosses:
            k, v = split(self.kv(memory), 2, self.n_heads)
            x = self.norms[1](x + self.drop(self.cross(x, k, v, src_mask)))
        return self.feed(x)

    def step(self, x: Tensor, cache: Cache, position: int) -> Tensor:
        """The newest position alone, (B, 1, D), in a decoder block without gradients."""
        q, k, v = split(self.qkv(x), 3, self.n_heads)
        seen = slice(0, position + 1)
        cache.keys[:, :, position:position + 1], cache.values[:, :, position:position + 1] = k, v
        h = F.scaled_dot_product_attention(q, cache.keys[:, :, seen], cache.values[:, :, seen])
        x = self.norms[0](x + self.out(merge(h)))
        x = self.norms[1](x + self.cross(x, cache.memory_keys, cache.memory_values, cache.mask))
        return self.feed(x)


class HandWritten(nn.Module):
    """The whole model; src (B, S) and tgt (B, T) in, logits (B, T, V) out."""

    def __init__(self, size: Size, state: State, dropout: float = 0.0):
        super().__init__()
        self.src_embed = Embedding(state["src_embed.tokens.table"], dropout)
        self.tgt_embed = Embedding(state["tgt_embed.tokens.table"], dropout)
        self.encoder, self.decoder = (nn.ModuleList(
            Block(state, f"{side}.blocks.{i}", size.n_heads, dropout)
            for i in range(size.n_layers)) for side in ("encoder", "decoder"))
        self.unembed = nn.Parameter(state["unembed.table"].clone())

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """The memory (B, S, D) and the mask (B, 1, 1, S) of its real tokens."""
        mask = (src != PAD)[:, None, None, :]
        x = self.src_embed(src)
        for block in self.encoder:
            x = block(x, mask)
        return x, mask

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory, mask = self.encode(src)
        x = self.tgt_embed(tgt)
        for block in self.decoder:
            x = block(x, mask, memory)
        return F.linear(x, self.unembed)

    def start(self, src: Tensor, room: int) -> list[Cache]:
        """A cache for each decoder block, ready to write so many tokens."""
        memory, mask = self.encode(src)
        caches = []
        for block in self.decoder:
            k, v = split(block.kv(memory), 2, block.n_heads)
            keys, values = k.new_empty(2, len(src), block.n_heads, room, k.shape[-1])
            caches.append(Cache(keys, values, k, v, mask))
        return caches

    def step(self, ids: Tensor, caches: list[Cache], position: int) -> Tensor:
        """Logits (B, V) for the token after ids (B,)."""
        x = self.tgt_embed(ids[:, None], position)
        for block, cache in zip(self.decoder, caches, strict=True):
            x = block.step(x, cache, position)
        return F.linear(x[:, 0], self.unembed)

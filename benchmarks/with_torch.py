"""PyTorch: a module written by hand for speed, eager or compiled, and one of nn.Transformer's."""

import math
import re
from collections.abc import Callable
from itertools import cycle
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks import work
from benchmarks.flops import training_products
from benchmarks.with_npt import model_of
from benchmarks.work import Size
from examples import to_pytorch
from npt_lib import keep_memory

torch.ones(1).add(1)            # what starts at the first operation belongs to the import
Job = Callable[[int], list]
State = dict[str, Tensor]


def about() -> Job:
    mkl = re.search(r"Math Kernel Library Version ([\d.]+)", torch.__config__.show())
    blas = f"MKL {mkl[1]}" if mkl else "unknown"
    return lambda n: [("PyTorch", f"{torch.__version__}, {torch.get_num_threads()} threads"),
                      ("BLAS of PyTorch", blas)]


def train(size: Size, weights: str, variant: str = "") -> Job:
    """n steps of training; the losses. keep: freed memory is kept, as npt_lib can have it."""
    if variant == "keep":
        keep_memory()
    model = (Shipped if variant == "nn" else HandWritten)(size, state_of(weights)).train()
    compute = torch.compile(loss_of) if variant == "compile" else loss_of
    optimizer = torch.optim.Adam(model.parameters(), work.LR, work.BETAS, work.EPS, fused=True)
    data = cycle([tuple(map(torch.from_numpy, pair)) for pair in work.batches(size)])

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = compute(model, *next(data))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), work.MAX_NORM)
        optimizer.step()
        return loss.item()

    return lambda n: [step() for _ in range(n)]


def loss_of(model: nn.Module, src: Tensor, tgt: Tensor) -> Tensor:
    logits = model(src, tgt[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(),
                           ignore_index=work.PAD, label_smoothing=work.SMOOTHING)


def products(size: Size) -> Job:
    """A step's matrix products and nothing else, n times over; a corner of each."""
    pairs = [tuple(map(torch.from_numpy, pair))
             for pair in work.factors(training_products(size))]

    @torch.inference_mode()
    def multiplied() -> list[float]:
        return [(a @ b)[0, 0, 0].item() for a, b in pairs]

    return lambda n: [multiplied() for _ in range(n)][-1]


def decode(size: Size, weights: str, n_rows: int) -> Job:
    """N_TOKENS a row, each the likeliest, n times over, with a cache; the tokens."""
    model = HandWritten(size, state_of(weights)).eval()
    src = torch.from_numpy(work.batches(size)[0][0][:n_rows])

    @torch.inference_mode()
    def write() -> Tensor:
        state, ids, written = model.start(src, work.N_TOKENS), torch.full((n_rows,), work.BOS), []
        for position in range(work.N_TOKENS):
            ids = model.step(ids, state, position).argmax(dim=-1)
            written.append(ids)
        return torch.stack(written, dim=1)

    return lambda n: [write().tolist() for _ in range(n)][-1]


def attend(n: int, variant: str = "") -> Job:
    """Attention over n positions, forwards and backwards; the squares of all, summed."""
    if variant == "keep":
        keep_memory()
    *inputs, dy = torch.from_numpy(work.attention_inputs(n)).unbind(0)
    leaves = [x.requires_grad_() for x in inputs]

    def both() -> list[float]:
        y = F.scaled_dot_product_attention(*leaves)
        gradients = torch.autograd.grad(y, leaves, dy)
        return [(x * x).sum().item() for x in (y.detach(), *gradients)]

    return lambda times: [both() for _ in range(times)][-1]


def state_of(weights: str) -> State:
    with np.load(weights) as arrays:
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


class Shipped(nn.Module):
    """The ready-made layers of nn.Transformer, told that the decoder's mask is causal."""

    def __init__(self, size: Size, state: State):
        super().__init__()
        self.model = to_pytorch.Model(model_of(size))
        for name, array in state.items():
            theirs = self.model.get_parameter(to_pytorch.their_name(name))
            to_pytorch.as_ours(theirs.data, name).copy_(array)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        model, padding = self.model, src == work.PAD
        future = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        memory = model.encoder(model.src_embed(src), src_key_padding_mask=padding)
        return model.unembed(model.decoder(
            model.tgt_embed(tgt), memory, tgt_mask=future, tgt_is_causal=True,
            memory_key_padding_mask=padding))


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


class Cache(NamedTuple):
    """What a decoder block keeps while it decodes: room for its past, and the memory's part."""

    keys: Tensor
    values: Tensor
    memory_keys: Tensor
    memory_values: Tensor
    mask: Tensor


class Block(nn.Module):
    """A post-norm encoder block, or with cross-attention a decoder block."""

    def __init__(self, state: State, name: str, n_heads: int):
        super().__init__()
        self.n_heads, self.crosses = n_heads, f"{name}.cross.q.W" in state
        self.qkv, self.out = linear(state, f"{name}.attn.qkv"), linear(state, f"{name}.attn.out")
        self.up, self.down = linear(state, f"{name}.ffn.up"), linear(state, f"{name}.ffn.down")
        self.norms = nn.ModuleList(norm(state, f"{name}.norm{i + 1}")
                                   for i in range(2 + self.crosses))
        if self.crosses:
            self.q, self.kv = linear(state, f"{name}.cross.q"), linear(state, f"{name}.cross.kv")
            self.cross_out = linear(state, f"{name}.cross.out")

    def forward(self, x: Tensor, src_mask: Tensor, memory: Tensor | None = None) -> Tensor:
        q, k, v = split(self.qkv(x), 3, self.n_heads)
        h = (F.scaled_dot_product_attention(q, k, v, is_causal=True) if self.crosses
             else F.scaled_dot_product_attention(q, k, v, src_mask))
        x = self.norms[0](x + self.out(merge(h)))
        if self.crosses:
            k, v = split(self.kv(memory), 2, self.n_heads)
            x = self.cross(x, k, v, src_mask)
        return self.feed(x)

    def cross(self, x: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        (q,) = split(self.q(x), 1, self.n_heads)
        h = F.scaled_dot_product_attention(q, k, v, mask)
        return self.norms[1](x + self.cross_out(merge(h)))

    def feed(self, x: Tensor) -> Tensor:
        return self.norms[-1](x + self.down(F.relu(self.up(x))))

    def step(self, x: Tensor, cache: Cache, position: int) -> Tensor:
        """The newest position alone, (B, 1, D), in a decoder block without gradients."""
        q, k, v = split(self.qkv(x), 3, self.n_heads)
        seen = slice(0, position + 1)
        cache.keys[:, :, position:position + 1], cache.values[:, :, position:position + 1] = k, v
        h = F.scaled_dot_product_attention(q, cache.keys[:, :, seen], cache.values[:, :, seen])
        x = self.norms[0](x + self.out(merge(h)))
        return self.feed(self.cross(x, cache.memory_keys, cache.memory_values, cache.mask))


class HandWritten(nn.Module):
    """The whole model; src (B, S) and tgt (B, T) in, logits (B, T, V) out."""

    def __init__(self, size: Size, state: State):
        super().__init__()
        self.src_table, self.tgt_table, self.unembed = (
            nn.Parameter(state[f"{name}.table"].clone())
            for name in ("src_embed.tokens", "tgt_embed.tokens", "unembed"))
        self.register_buffer("waves", torch.from_numpy(work.positions(size.d_model)))
        self.encoder, self.decoder = (nn.ModuleList(
            Block(state, f"{side}.blocks.{i}", size.n_heads)
            for i in range(size.n_layers)) for side in ("encoder", "decoder"))

    def embed(self, ids: Tensor, table: Tensor, start: int = 0) -> Tensor:
        x = F.embedding(ids, table) * math.sqrt(table.shape[1])
        return x + self.waves[start:start + ids.shape[1]]

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """The memory (B, S, D) and the mask (B, 1, 1, S) of its real tokens."""
        mask = (src != work.PAD)[:, None, None, :]
        x = self.embed(src, self.src_table)
        for block in self.encoder:
            x = block(x, mask)
        return x, mask

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory, mask = self.encode(src)
        x = self.embed(tgt, self.tgt_table)
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
        x = self.embed(ids[:, None], self.tgt_table, position)
        for block, cache in zip(self.decoder, caches, strict=True):
            x = block.step(x, cache, position)
        return F.linear(x[:, 0], self.unembed)

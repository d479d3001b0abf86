"""PyTorch's own modules, with our weights: the outside judge.

TWINS says which of them stands beside each of our parts; how their parameters are called, and
the modules that PyTorch lacks, are in examples/to_pytorch.py. Everything is in float64.
"""

from collections import OrderedDict
from functools import partial

import numpy as np
import torch
from parity_runs import MAX_NORM, SMOOTHING, inputs_of, module_of
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

import npt_lib as npt
from examples.to_pytorch import (
    Embed,
    Model,
    as_ours,
    copy_weights,
    decoder,
    encoder,
    future,
    layer,
    their_name,
    waves,
)
from npt_lib import exact_gelu

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def to_ours(twin, module, what):
    """Every parameter of ours by name, with what(PyTorch's parameter): its value or gradient."""
    if isinstance(twin, Written):
        return {name: what(twin[name]).numpy().copy() for name in module.parameters()}
    tensors = {name: what(twin.get_parameter(their_name(name))) for name in module.parameters()}
    return {name: as_ours(tensor, name).numpy().copy() for name, tensor in tensors.items()}


def softmax(_, x, mask=None):
    """PyTorch makes NaN of a row that is hidden throughout: it becomes 0, and so does its dx."""
    if mask is None:
        return F.softmax(x, -1)
    return F.softmax(x.masked_fill(~mask, -torch.inf), -1).nan_to_num(0.0)


def hidden(mask, n_heads):
    """PyTorch's attention mask, (B * H, T, S) and True = hidden, from one of (B, ?, ?, S)."""
    return ~mask.expand(-1, n_heads, -1, -1).flatten(0, 1)


def cross_entropy(logits, targets, **options):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), **options)


def attend(twin, x, memory, mask):
    B, T, S = *x.shape[:2], memory.shape[1]
    mask = hidden(mask.expand(B, -1, T, S), twin.num_heads)
    return twin(x, memory, memory, attn_mask=mask, need_weights=False)[0]


def encode(twin, x, mask):
    first = twin.layers[0] if isinstance(twin, nn.TransformerEncoder) else twin
    return twin(x, hidden(mask, first.self_attn.num_heads))


def decode(twin, x, memory, memory_mask):
    return twin(x, memory, future(x.shape[1]), memory_key_padding_mask=~memory_mask[:, 0, 0])


def heads(m):
    return nn.MultiheadAttention(m.out.W.shape[0], m.n_heads, batch_first=True)


class Heads(nn.Module):
    """Heads of any width, which nn.MultiheadAttention does not have: its function does."""

    def __init__(self, m):
        super().__init__()
        d_model, width = m.out.W.shape[1], m.out.W.shape[0]
        self.n_heads, biased = m.n_heads, m.out.b is not None
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, d_model))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width)) if biased else None
        self.out_proj = nn.Linear(width, d_model, bias=biased)

    def forward(self, x, memory, mask):
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        weights = self.in_proj_weight.chunk(3)
        q, k, v = (F.linear(y, W, b).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                   for y, W, b in zip((x, memory, memory), weights, biases, strict=True))
        y = F.scaled_dot_product_attention(q, k, v, mask)
        return self.out_proj(y.transpose(1, 2).flatten(2))


def feed_forward(m):
    activations = {"relu": nn.ReLU(), "gelu": nn.GELU("tanh"), exact_gelu: nn.GELU()}
    up, down = (nn.Linear(*linear.W.shape, bias=linear.b is not None) for linear in (m.up, m.down))
    return nn.Sequential(OrderedDict(
        linear1=up, activation=activations[m.activation], linear2=down))


def call(twin, *xs):
    return twin(*xs)


def nothing(m):
    return nn.Module()


def distance(T, S):
    """How many positions back each key lies, (T, S), the queries being the last T positions."""
    return torch.arange(S - T, S)[:, None] - torch.arange(S)


def window(T, S, width):
    return (distance(T, S) >= 0) & (distance(T, S) < width)


def blocks(T, S, size, every):
    """One's own block, and every so many-th, as far as they are past."""
    i, j = torch.arange(S - T, S)[:, None] // size, torch.arange(S) // size
    return ((i == j) | (j % every == 0)) & (distance(T, S) >= 0)


def attend_in(seen):
    """Attention where seen(T, S) says True, and a mask as well."""
    def run(_, q, k, v, *masks):
        seen_here = seen(q.shape[-2], k.shape[-2])
        for mask in masks:
            seen_here = seen_here & mask
        return F.scaled_dot_product_attention(q, k, v, seen_here)
    return run


class GPT(nn.Module):
    """PyTorch's encoder under a causal mask, and its embedding's table once more at the end."""

    def __init__(self, m):
        super().__init__()
        self.width = m.config.pattern.width if m.config.pattern else m.config.max_len
        self.embed, self.body = Embed(m.embed), encoder(m.body)
        self.unembed = nn.Linear(*m.unembed.table.shape[::-1], bias=False)
        self.unembed.weight = self.embed.tokens.weight

    def forward(self, ids):
        T = ids.shape[1]
        return self.unembed(self.body(self.embed(ids), ~window(T, T, self.width)))


class Written(nn.Module):
    """What PyTorch has no module of, in its functions; the parameters are called as ours."""

    def __init__(self, m):
        super().__init__()
        self.ours = m
        self.tensors = nn.ParameterDict({name.replace(".", "/"): torch.tensor(p.value)
                                         for name, p in m.parameters().items()})

    def __getitem__(self, name):
        return self.tensors[name.replace(".", "/")]

    def linear(self, name, x):
        has_bias = f"{name}.b".replace(".", "/") in self.tensors
        return F.linear(x, self[f"{name}.W"].T, self[f"{name}.b"] if has_bias else None)

    def norm(self, name, x, norm):
        if isinstance(norm, npt.RMSNorm):
            return F.rms_norm(x, x.shape[-1:], self[f"{name}gain"], norm.eps)
        return F.layer_norm(x, x.shape[-1:], self[f"{name}gain"], self[f"{name}bias"], norm.eps)

    def gated(self, name, x, m):
        gate, up = self.linear(f"{name}gate_and_up", x).chunk(2, -1)
        act = F.silu if m.activation is npt.silu else partial(F.gelu, approximate="tanh")
        return self.linear(f"{name}down", act(gate) * up)

    def plain(self, name, x):
        return self.linear(f"{name}down", F.gelu(self.linear(f"{name}up", x), approximate="tanh"))

    def grouped(self, name, x, mask, m):
        q = self.linear(f"{name}q", x).unflatten(-1, (m.n_heads, -1)).transpose(1, 2)
        k, v = (y.unflatten(-1, (m.n_kv_heads, -1)).transpose(1, 2)
                for y in self.linear(f"{name}kv", x).chunk(2, -1))
        if m.rotary:
            q, k = turned(q), turned(k)
        bias = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        if m.relative:
            bias = bias + distances(self[f"{name}relative.table"], x.shape[1])
        y = F.scaled_dot_product_attention(q, k, v, bias, enable_gqa=True)
        return self.linear(f"{name}out", y.transpose(1, 2).flatten(2))

    def gpt(self, ids):
        m, mask = self.ours, ~future(ids.shape[1])[None, None]
        x = self["embed.tokens.table"][ids]
        for i, block in enumerate(m.body.blocks):
            name = f"body.blocks.{i}."
            h = self.norm(f"{name}norm1.", x, block.norm1)
            x = x + self.grouped(f"{name}attn.", h, mask, block.attn)
            h = self.norm(f"{name}norm2.", x, block.norm2)
            is_gated = isinstance(block.ffn, npt.GatedFeedForward)
            x = x + (self.gated(f"{name}ffn.", h, block.ffn) if is_gated
                     else self.plain(f"{name}ffn.", h))
        return F.linear(self.norm("body.norm.", x, m.body.norm), self["unembed.table"])


def turned(x, start=0):
    """Rotary positions as the product with complex numbers of length 1."""
    T, K = x.shape[-2:]
    angles = torch.outer(torch.arange(start, start + T), 10000 ** (-torch.arange(0, K, 2) / K))
    pairs = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([pairs.real, pairs.imag], -1)


def distances(table, T, S=None):
    """The bias (H, T, S) that each head gives to the distances from -far to far."""
    S, far = S or T, table.shape[1] // 2
    rows = [[min(max(j - i, -far), far) + far for j in range(S)] for i in range(S - T, S)]
    return table[:, torch.tensor(rows)]


# Our public name (or one case's name), how to make PyTorch's twin of it, how to run that.
TWINS = {
    "softmax": (nothing, softmax),
    "relu": (nothing, lambda _, x: F.relu(x)),
    "gelu": (nothing, lambda _, x: F.gelu(x, approximate="tanh")),
    "exact_gelu": (nothing, lambda _, x: F.gelu(x)),
    "attention": (nothing, lambda _, *qkv: F.scaled_dot_product_attention(*qkv)),
    "attention_in_tiles": (nothing, lambda _, *qkv: F.scaled_dot_product_attention(*qkv)),
    "attention in tiles, causal": (nothing, attend_in(lambda T, S: distance(T, S) >= 0)),
    "attention in tiles, window": (nothing, attend_in(lambda T, S: window(T, S, 3))),
    "attention in tiles, block-sparse": (nothing, attend_in(lambda T, S: blocks(T, S, 2, 3))),
    "Linear": (lambda m: nn.Linear(*m.W.shape, bias=m.b is not None), call),
    "self-attention, narrow": (Heads, lambda twin, x, mask: twin(x, x, mask)),
    "cross-attention, wide": (Heads, call),
    "SelfAttention": (heads, lambda twin, x, mask: attend(twin, x, x, mask)),
    "PatternAttention": (heads, lambda twin, x, mask: attend(
        twin, x, x, mask & window(x.shape[1], x.shape[1], 3))),
    "CrossAttention": (heads, attend),
    "FeedForward": (feed_forward, call),
    "Embedding": (lambda m: nn.Embedding(*m.table.shape), call),
    "Unembedding": (lambda m: nn.Linear(*m.table.shape[::-1], bias=m.b is not None), call),
    "SinusoidalPositions": (nothing, lambda _, x: x + waves(*x.shape[1:])),
    "LearnedPositions": (lambda m: nn.Embedding(*m.table.shape),
                         lambda twin, x: x + twin(torch.arange(x.shape[1]))),
    "InputEmbedding": (Embed, call),
    "LayerNorm": (lambda m: nn.LayerNorm(m.gain.shape, m.eps), call),
    "Dropout": (lambda m: nn.Dropout(m.p).eval(), call),
    "EncoderBlock": (lambda m: layer(nn.TransformerEncoderLayer, m), encode),
    "Encoder": (encoder, encode),
    "DecoderBlock": (lambda m: layer(nn.TransformerDecoderLayer, m), decode),
    "Decoder": (decoder, decode),
    "cross_entropy": (nothing, lambda _, *xs: cross_entropy(*xs)),
    "cross-entropy, padded and smoothed": (nothing, lambda _, *xs: cross_entropy(
        *xs, ignore_index=0, label_smoothing=0.1)),
    "Transformer": (Model, call),
    "GPT": (GPT, call),
    "silu": (nothing, lambda _, x: F.silu(x)),
    "RMSNorm": (Written, lambda twin, x: twin.norm("", x, twin.ours)),
    "Rotary": (nothing, lambda _, x: turned(x, start=2)),
    "RelativeBias": (Written, lambda twin, x: x + distances(twin["table"], *x.shape[-2:])),
    "NoPositions": (nothing, lambda _, x: x),
    "GatedFeedForward": (Written, lambda twin, x: twin.gated("", x, twin.ours)),
    "GroupedAttention": (Written, lambda twin, x, mask: twin.grouped("", x, mask, twin.ours)),
    "gpt, llama": (Written, Written.gpt),
    "gpt, relative": (Written, Written.gpt),
}


def theirs(case, given):
    """What parity_runs.ours returns, from PyTorch."""
    module = module_of(case, given)
    build, run = TWINS.get(case.name) or TWINS[case.covers]
    twin = build(module)
    if module and not isinstance(twin, Written):
        copy_weights(twin, module)
    xs = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs_of(given)]
    y = run(twin, *xs)
    y.backward(torch.tensor(given["dy"]))
    return {
        "y": y.detach().numpy(),
        **{f"dx{i}": x.grad.numpy() for i, x in enumerate(x for x in xs if x.requires_grad)},
        **(to_ours(twin, module, lambda p: p.grad) if module else {}),
    }


def adamw(twin):
    """As ours decays: matrices, not vectors."""
    matrices = [p for p in twin.parameters() if p.ndim > 1]
    vectors = [p for p in twin.parameters() if p.ndim == 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.3},
                              {"params": vectors, "weight_decay": 0.0}],
                             betas=(0.9, 0.98), eps=1e-9)


OPTIMIZERS = {
    "adam": lambda twin: torch.optim.Adam(twin.parameters(), betas=(0.9, 0.98), eps=1e-9),
    "adamw": adamw,
    "sgd": lambda twin: torch.optim.SGD(twin.parameters(), momentum=0.9),
}


def step(twin, optimizer, src, tgt, lr):
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad()
    before = tgt[:, :-1]
    loss = cross_entropy(twin(src, before, before == twin.pad_id), tgt[:, 1:],
                         ignore_index=twin.pad_id, label_smoothing=SMOOTHING)
    loss.backward()
    norm = get_total_norm([p.grad for p in twin.parameters()])
    # clip_grad_norm_, but for the 1e-6 that PyTorch adds to the norm and we do not
    clip_grads_with_norm_(twin.parameters(), MAX_NORM, norm - 1e-6)
    optimizer.step()
    return loss.item(), norm.item()


def train_theirs(training, given):
    """What parity_runs.train_ours returns, from PyTorch, and the norms before clipping."""
    model = module_of(training, given)
    twin = Model(model)
    copy_weights(twin, model)
    optimizer = OPTIMIZERS[training.optimizer](twin)
    src, tgt = torch.tensor(given["src"]), torch.tensor(given["tgt"])
    done = [step(twin, optimizer, *now) for now in zip(src, tgt, given["rates"], strict=True)]
    losses, norms = np.array(done).T
    return {"losses": losses, "norms": norms, **to_ours(twin, model, lambda p: p.detach())}

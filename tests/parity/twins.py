"""PyTorch's own modules, with our weights: the outside judge.

TWINS says which of them stands beside each of our parts; how their parameters are called, and
the modules that PyTorch lacks, are in examples/to_pytorch.py. Everything is in float64.
"""

from collections import OrderedDict

import numpy as np
import torch
from parity_runs import MAX_NORM, SMOOTHING, inputs_of, module_of
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

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
}


def theirs(case, given):
    """What parity_runs.ours returns, from PyTorch."""
    module = module_of(case, given)
    build, run = TWINS.get(case.name) or TWINS[case.covers]
    twin = build(module)
    if module:
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

"""Models as a reader would write them, with public names only: what the library has to carry."""

from dataclasses import dataclass

import numpy as np

import npt_lib as npt


@dataclass(frozen=True)
class Sizes(npt.Config):
    """A language model has one vocabulary, and no token of it is special."""

    def make_feed_forward(self, rng):
        return npt.FeedForward(self.d_model, self.d_ff, rng, "gelu")


class LanguageModel(npt.Module):
    """GPT-2's architecture: pre-norm, learned positions, GELU, a tied table, a final norm."""

    def __init__(self, config, rng):
        self.config = config
        self.embed = npt.InputEmbedding(config.n_tgt_vocab, config, rng)
        self.body = npt.Encoder(config, rng)
        self.unembed = npt.Unembedding(self.embed.tokens.table)

    def forward(self, ids, rng=None):
        x, embed_backward = self.embed.forward(ids, rng)
        x, body_backward = self.body.forward(x, npt.causal_mask(ids.shape[1]), rng)
        logits, unembed_backward = self.unembed.forward(x)

        def backward(dlogits):
            embed_backward(body_backward(unembed_backward(dlogits)))

        return logits, backward

    def loss(self, batch, rng=None):
        (ids,) = batch
        logits, model_backward = self.forward(ids[:, :-1], rng)
        loss, loss_backward = npt.cross_entropy(logits, ids[:, 1:])

        def backward(dloss=1.0):
            model_backward(loss_backward(dloss))

        return loss, backward

    def n_targets(self, batch):
        (ids,) = batch
        return ids[:, 1:].size

    def start(self, prompt, max_len):
        caches = self.body.start(len(prompt), prompt.shape[1] + max_len)
        state = npt.DecodingState(caches, prompt[:, -1])
        if prompt.shape[1] > 1:
            self._read(prompt[:, :-1], state)
        return state

    def step(self, ids, state):
        return self.unembed(self._read(ids[:, None], state))[:, -1]

    def _read(self, ids, state):
        x = self.embed(ids, start=state.length)
        state.length += ids.shape[1]
        return self.body.step(x, state.caches)


class Classifier(npt.Module):
    """Encoder alone: the mean of its vectors, and a score for each class."""

    def __init__(self, config, rng):
        self.config = config
        self.embed = npt.InputEmbedding(config.n_src_vocab, config, rng)
        self.encoder = npt.Encoder(config, rng)
        self.heads = {"classes": npt.Linear(config.d_model, config.n_tgt_vocab, rng)}

    def forward(self, ids, rng=None):
        real = ids != self.config.pad_id
        x, embed_backward = self.embed.forward(ids, rng)
        x, encoder_backward = self.encoder.forward(x, real[:, None, None], rng)
        share = (real / real.sum(axis=1, keepdims=True)).astype(x.dtype)[..., None]
        logits, head_backward = self.heads["classes"].forward((x * share).sum(axis=1))

        def backward(dlogits):
            dmean = head_backward(dlogits)
            embed_backward(encoder_backward(dmean[:, None] * share))

        return logits, backward

    def loss(self, batch, rng=None):
        ids, labels = batch
        logits, model_backward = self.forward(ids, rng)
        loss, loss_backward = npt.cross_entropy(logits, labels)
        return loss, lambda dloss=1.0: model_backward(loss_backward(dloss))

    def n_targets(self, batch):
        return len(batch[1])

    def scores(self, batch):
        ids, labels = batch
        return {"accuracy": self(ids).argmax(axis=-1) == labels}


class RMSNorm(npt.Module):
    """x over the root of its mean square, times a gain."""

    def __init__(self, d_model, eps=1e-6):
        self.eps, self.gain = eps, npt.Parameter(np.ones(d_model, np.float32))

    def forward(self, x):
        gain = self.gain.value
        root = np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.eps)
        n = x / root

        def backward(dy):
            self.gain.add_grad((dy * n).reshape(-1, len(gain)).sum(axis=0))
            dn = dy * gain
            return (dn - n * (dn * n).mean(axis=-1, keepdims=True)) / root

        return n * gain, backward


def turn(x, back=False):
    """Each pair (first half, second half) turned by an angle that grows with the position."""
    T, K = x.shape[-2:]
    angles = np.arange(T)[:, None] * 100.0 ** (-np.arange(K // 2) / (K // 2))
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    sin = -sin if back else sin
    a, b = x[..., :K // 2], x[..., K // 2:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


class RotaryAttention(npt.Module):
    """Self-attention whose queries and keys are turned by their position; forward only."""

    def __init__(self, d_model, n_heads, rng):
        self.n_heads = n_heads
        self.projections = [npt.Linear(d_model, d_model, rng, bias=False) for _ in range(4)]

    def forward(self, x, mask=None, rng=None):
        *qkv, out = self.projections
        (q, q_backward), (k, k_backward), (v, v_backward) = (p.forward(x) for p in qkv)
        q, k, v = (npt.split_heads(y, self.n_heads) for y in (q, k, v))
        heads, attention_backward = npt.attention(turn(q), turn(k), v, mask)
        y, out_backward = out.forward(npt.merge_heads(heads))

        def backward(dy):
            dq, dk, dv = attention_backward(npt.split_heads(out_backward(dy), self.n_heads))
            dq, dk = turn(dq, back=True), turn(dk, back=True)
            dq, dk, dv = (npt.merge_heads(d) for d in (dq, dk, dv))
            return q_backward(dq) + k_backward(dk) + v_backward(dv)

        return y, backward


class NoPositions(npt.Module):
    """Rotary attention knows positions by itself."""

    def forward(self, x, start=0):
        return x, lambda dy: dy


@dataclass(frozen=True)
class ModernConfig(npt.Config):
    """An encoder-decoder whose parts are exchanged."""

    norm_eps: float = 1e-6

    def make_norm(self):
        return RMSNorm(self.d_model, self.norm_eps)

    def make_self_attention(self, rng):
        return RotaryAttention(self.d_model, self.n_heads, rng)

    def make_positions(self, rng):
        return NoPositions()

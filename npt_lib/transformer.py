"""The whole encoder-decoder: chapter 9."""

import math

import numpy as np

from npt_lib.attention import causal_mask, padding_mask
from npt_lib.config import Config
from npt_lib.decoder import BlockCache, Decoder
from npt_lib.embedding import Embedding, LearnedPositions, SinusoidalPositions, Unembedding
from npt_lib.encoder import Encoder
from npt_lib.module import Array, Backward, Module, Rng
from npt_lib.norm import Dropout
from npt_lib.require import as_ids, check_ids, check_length


class InputEmbedding(Module):
    """Token vectors times sqrt(D), plus positions, then dropout.

    ids is (B, T), y is (B, T, D); start is the position of the first id.
    Backward: returns nothing. Built in chapter 9 from the parts of chapter 5.
    """

    def __init__(self, n_vocab: int, config: Config, rng: Rng):
        D, n = config.d_model, config.max_len
        self.tokens = Embedding(n_vocab, D, rng)
        learned = config.positions == "learned"
        self.positions = LearnedPositions(n, D, rng) if learned else SinusoidalPositions(n, D)
        self.drop = Dropout(config.dropout)

    def forward(
        self, ids: Array, rng: Rng | None = None, start: int = 0
    ) -> tuple[Array, Backward]:
        x, tokens_backward = self.tokens.forward(ids)             # (B, T, D)
        scale = math.sqrt(x.shape[-1])
        x, positions_backward = self.positions.forward(x * scale, start)
        y, drop_backward = self.drop.forward(x, rng)

        def backward(dy: Array) -> None:
            dx = positions_backward(drop_backward(dy))
            tokens_backward(dx * scale)

        return y, backward


class DecodingState:
    """Where a batch of decodings stands: its caches, the source's mask, the next position."""

    def __init__(self, caches: list[BlockCache], memory_mask: Array):
        self.caches, self.memory_mask, self.length = caches, memory_mask, 0

    def select(self, rows: Array) -> None:
        """Keep these rows, in this order; a row may appear several times (beam search)."""
        self.memory_mask = self.memory_mask[rows]
        for cache in self.caches:
            cache.select(rows)


class Transformer(Module):
    """Source ids and target ids in, logits for each next target token out.

    src is (B, S), tgt is (B, T), padded at the end with pad_id; logits are (B, T, V).
    The masks are made from the ids: nobody attends to source padding, nobody to the future.
    Backward: dlogits in; returns nothing, since ids have no gradient. Built in chapter 9.
    """

    def __init__(self, config: Config, rng: Rng):
        self.config = config
        self.src_embed = InputEmbedding(config.n_src_vocab, config, rng)
        self.encoder = Encoder(config, rng)
        self.tgt_embed = InputEmbedding(config.n_tgt_vocab, config, rng)
        self.decoder = Decoder(config, rng)
        own = Embedding(config.n_tgt_vocab, config.d_model, rng).table
        self.unembed = Unembedding(self.tgt_embed.tokens.table if config.tie_embeddings else own)

    def forward(self, src: Array, tgt: Array, rng: Rng | None = None) -> tuple[Array, Backward]:
        memory, encode_backward = self._encode(src, rng)          # (B, S, D)
        logits, decode_backward = self._decode(tgt, memory, src, rng)

        def backward(dlogits: Array) -> None:
            dmemory = decode_backward(dlogits)
            encode_backward(dmemory)

        return logits, backward

    def _encode(self, src: Array, rng: Rng | None) -> tuple[Array, Backward]:
        src = self._check("source", src, self.config.n_src_vocab)
        x, embed_backward = self.src_embed.forward(src, rng)      # (B, S, D)
        memory, encoder_backward = self.encoder.forward(x, self._src_mask(src), rng)

        def backward(dmemory: Array) -> None:
            embed_backward(encoder_backward(dmemory))

        return memory, backward

    def _decode(
        self, tgt: Array, memory: Array, src: Array, rng: Rng | None
    ) -> tuple[Array, Backward]:
        src = self._check("source", src, self.config.n_src_vocab)
        tgt = self._check("target", tgt, self.config.n_tgt_vocab)
        self._check_pair(src, tgt, memory)
        x, embed_backward = self.tgt_embed.forward(tgt, rng)      # (B, T, D)
        future = causal_mask(tgt.shape[1])         # hides padding too: it comes after every token
        h, decoder_backward = self.decoder.forward(x, memory, future, self._src_mask(src), rng)
        logits, unembed_backward = self.unembed.forward(h)        # (B, T, V)

        def backward(dlogits: Array) -> Array:
            dx, dmemory = decoder_backward(unembed_backward(dlogits))
            embed_backward(dx)
            return dmemory

        return logits, backward

    def encode(self, src: Array, rng: Rng | None = None) -> Array:
        """The memory (B, S, D) of a batch of sources."""
        memory, _ = self._encode(src, rng)
        return memory

    def decode(self, tgt: Array, memory: Array, src: Array, rng: Rng | None = None) -> Array:
        """Logits (B, T, V) over a memory that encode returned; src says where its padding is."""
        logits, _ = self._decode(tgt, memory, src, rng)
        return logits

    def start(self, src: Array, max_len: int | None = None) -> DecodingState:
        """Encode the sources once, ready to decode up to max_len tokens one at a time."""
        room = check_length(max_len or self.config.max_len, self.config.max_len)
        memory = self.encode(src)
        return DecodingState(self.decoder.start(memory, room), self._src_mask(src))

    def step(self, ids: Array, state: DecodingState) -> Array:
        """Logits (B, V) for the token after ids (B,); state moves one position on."""
        ids = self._check("target", np.reshape(ids, (-1, 1)), self.config.n_tgt_vocab)
        if len(ids) != len(state.memory_mask):
            raise ValueError(f"{len(ids)} ids for a state of {len(state.memory_mask)} rows.")
        x = self.tgt_embed(ids, start=state.length)               # (B, 1, D)
        x = self.decoder.step(x, state.caches, state.memory_mask)
        state.length += 1
        return self.unembed(x)[:, 0]

    def _src_mask(self, src: Array) -> Array:
        return padding_mask(src, self.config.pad_id)

    def _check(self, name: str, ids: Array, n_vocab: int) -> Array:
        ids = as_ids(name, ids)
        if ids.ndim != 2 or 0 in ids.shape:
            raise ValueError(f"{name} ids must be (batch, length), both at least 1, "
                             f"got shape {ids.shape}.")
        check_length(ids.shape[1], self.config.max_len)
        return check_ids(name, ids, n_vocab)

    def _check_pair(self, src: Array, tgt: Array, memory: Array) -> None:
        if len(src) != len(tgt):
            raise ValueError(f"source and target must be equally many, got {len(src)}, {len(tgt)}.")
        wanted = (*src.shape, self.config.d_model)
        if np.shape(memory) != wanted:
            raise ValueError(f"memory must be (B, S, D) = {wanted}, got {np.shape(memory)}.")

"""The whole encoder-decoder: chapter 9."""

import math

import numpy as np

from npt_lib.config import Config
from npt_lib.decoder import Decoder
from npt_lib.dot_product_attention import causal_mask, padding_mask
from npt_lib.embedding import Embedding, Unembedding
from npt_lib.encoder import Encoder
from npt_lib.generate import DecodingState, greedy
from npt_lib.loss import cross_entropy
from npt_lib.module import Array, Backward, Module, Rng
from npt_lib.multi_head_attention import check_blocks
from npt_lib.require import (
    as_ids,
    check_count,
    check_ids,
    check_length,
    check_padding,
    check_rows,
    described,
    is_plain,
)


class InputEmbedding(Module):
    """Token vectors times sqrt(D) (if scale_embeddings), plus positions, then dropout.

    ids is (B, T), y is (B, T, D); start is the position of the first id.
    Backward: returns nothing. Built in chapter 9 from the parts of chapter 5.
    """

    def __init__(self, n_vocab: int, config: Config, rng: Rng):
        self.tokens = Embedding(n_vocab, config.d_model, rng)
        self.positions = config.make_positions(rng)
        self.drop = config.make_dropout()
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0

    def forward(
        self, ids: Array, rng: Rng | None = None, start: int = 0
    ) -> tuple[Array, Backward]:
        x, tokens_backward = self.tokens.forward(ids)             # (B, T, D)
        x, positions_backward = self.positions.forward(x * self.scale, start)
        y, drop_backward = self.drop.forward(x, rng)

        def backward(dy: Array) -> None:
            dx = positions_backward(drop_backward(dy))
            tokens_backward(dx * self.scale)

        return y, backward


class Transformer(Module):
    """Source ids and target ids in, logits for each next target token out.

    src is (B, S), tgt is (B, T), padded at the end with pad_id; logits are (B, T, V).
    Nobody attends to source padding, nobody to the future. src_mask (B, S), True = a token, says
    where the source has tokens if pad_id does not.
    Backward: dlogits in; returns nothing, since ids have no gradient. Built in chapter 9.
    """

    def __init__(self, config: Config, rng: Rng):
        self.config = config
        self.src_embed = InputEmbedding(config.n_src_vocab, config, rng)
        self.encoder = Encoder(config, rng)
        self.tgt_embed = InputEmbedding(config.n_tgt_vocab, config, rng)
        if config.share_embeddings:
            self.tgt_embed.tokens = self.src_embed.tokens
        self.decoder = Decoder(config, rng)
        own = Embedding(config.n_tgt_vocab, config.d_model, rng).table
        tied = self.tgt_embed.tokens.table if config.tie_embeddings else own
        self.unembed = Unembedding(tied, config.output_bias)

    def forward(
        self, src: Array, tgt: Array, rng: Rng | None = None, src_mask: Array | None = None
    ) -> tuple[Array, Backward]:
        memory, encode_backward = self._encode(src, rng, src_mask)        # (B, S, D)
        logits, decode_backward = self._decode(tgt, memory, src, rng, src_mask)

        def backward(dlogits: Array) -> None:
            dmemory = decode_backward(dlogits)
            encode_backward(dmemory)

        return logits, backward

    def loss(
        self, batch: tuple[Array, Array], rng: Rng | None = None, label_smoothing: float = 0.0
    ) -> tuple[float, Backward]:
        """The mean cross-entropy of a batch (src, tgt): what ``train`` makes small.

        The decoder reads tgt without its last token and must predict tgt without its first.
        Backward: called with dloss, 1.0 if left out; returns nothing. Built in chapter 10.
        """
        src, tgt = self._pair(batch)
        logits, model_backward = self.forward(src, tgt[:, :-1], rng)
        loss, loss_backward = cross_entropy(
            logits, tgt[:, 1:], self.config.pad_id, label_smoothing)

        def backward(dloss: float = 1.0) -> None:
            model_backward(loss_backward(dloss))

        return loss, backward

    def n_targets(self, batch: tuple[Array, Array]) -> int:
        """How many tokens the loss of this batch is a mean over: those that are not padding."""
        _, tgt = self._pair(batch)
        return int(np.sum(tgt[:, 1:] != self.config.pad_id))

    def scores(self, batch: tuple[Array, Array]) -> dict[str, Array]:
        """Right or wrong, for each token given those before it, and for each row written freely."""
        src, tgt = self._pair(batch)
        wanted, pad_id = tgt[:, 1:], self.config.pad_id
        right = self(src, tgt[:, :-1]).argmax(axis=-1) == wanted
        written = greedy(self, src, wanted.shape[1])
        missing = wanted.shape[1] - written.shape[1]              # where all rows ended early
        padded = np.pad(written, ((0, 0), (0, missing)), constant_values=pad_id)
        return {"token_accuracy": right[wanted != pad_id],
                "exact_match": (padded == wanted).all(axis=1)}

    def _encode(
        self, src: Array, rng: Rng | None, src_mask: Array | None
    ) -> tuple[Array, Backward]:
        src = self._check("source", src, self.config.n_src_vocab)
        x, embed_backward = self.src_embed.forward(src, rng)      # (B, S, D)
        memory, encoder_backward = self.encoder.forward(x, self._mask(src, src_mask), rng)

        def backward(dmemory: Array) -> None:
            embed_backward(encoder_backward(dmemory))

        return memory, backward

    def _decode(
        self, tgt: Array, memory: Array, src: Array, rng: Rng | None, src_mask: Array | None
    ) -> tuple[Array, Backward]:
        src = self._check("source", src, self.config.n_src_vocab)
        tgt = self._check("target", tgt, self.config.n_tgt_vocab)
        self._check_pair(src, tgt, memory)
        x, embed_backward = self.tgt_embed.forward(tgt, rng)      # (B, T, D)
        future = causal_mask(tgt.shape[1])         # hides padding too, which comes at the end
        source = self._mask(src, src_mask)
        h, decoder_backward = self.decoder.forward(x, memory, future, source, rng)
        logits, unembed_backward = self.unembed.forward(h)        # (B, T, V)

        def backward(dlogits: Array) -> Array:
            dx, dmemory = decoder_backward(unembed_backward(dlogits))
            embed_backward(dx)
            return dmemory

        return logits, backward

    def encode(self, src: Array, rng: Rng | None = None, src_mask: Array | None = None) -> Array:
        """The memory (B, S, D) of a batch of sources."""
        memory, _ = self._encode(src, rng, src_mask)
        return memory

    def decode(
        self, tgt: Array, memory: Array, src: Array, rng: Rng | None = None,
        src_mask: Array | None = None,
    ) -> Array:
        """Logits (B, T, V) over a memory that encode returned; src says where its padding is."""
        logits, _ = self._decode(tgt, memory, src, rng, src_mask)
        return logits

    def start(
        self, src: Array, max_len: int | None = None, src_mask: Array | None = None
    ) -> DecodingState:
        """Encode the sources once, ready to write up to max_len tokens, one at a time."""
        check_blocks([self])
        room = self.config.max_len if max_len is None else check_count("max_len", max_len)
        check_length(room, self.config.max_len)
        memory = self.encode(src, src_mask=src_mask)
        caches = self.decoder.start(memory, self._mask(as_ids("source", src), src_mask), room)
        return DecodingState(caches, np.full(len(memory), self.config.bos_id))

    def step(self, ids: Array, state: DecodingState) -> Array:
        """Logits (B, V) for the token after ids (B,); state moves one position on."""
        ids = as_ids("target", ids)
        if ids.shape != state.last.shape:
            raise ValueError(f"ids must be {state.last.shape}, one for each row, got {ids.shape}.")
        x = self.tgt_embed(ids[:, None], start=state.length)      # (B, 1, D)
        x = self.decoder.step(x, state.caches)
        state.length += 1
        return self.unembed(x)[:, 0]

    def _pair(self, batch: tuple[Array, Array]) -> tuple[Array, Array]:
        """A batch as (src, tgt), whose targets have a start token and one more."""
        pair = check_rows("batch", batch, "two arrays, src and tgt")
        if len(pair) != 2:
            raise ValueError(f"a batch must be (src, tgt), got {len(pair)} arrays.")
        tgt = as_ids("target", pair[1])
        if tgt.ndim != 2 or tgt.shape[1] < 2:
            raise ValueError(f"tgt needs rows of a start token and one more, "
                             f"got shape {tgt.shape}.")
        check_padding("tgt", tgt, self.config.pad_id)
        return pair[0], tgt

    def _mask(self, src: Array, src_mask: Array | None) -> Array:
        if src_mask is None:
            return padding_mask(src, self.config.pad_id)
        if not is_plain(src_mask) or src_mask.dtype != bool or src_mask.shape != src.shape:
            raise ValueError(f"src_mask must be bool {src.shape}, True = a token, "
                             f"got {described(src_mask)}.")
        return src_mask[:, None, None, :]

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

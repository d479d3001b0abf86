"""A model of npt_lib as a module of PyTorch: the same weights, the same numbers.

    python -m examples.to_pytorch model.npz             says how far the logits of both differ
    python -m examples.to_pytorch model.npz model.pt    stores the state_dict as well

Names and layouts are told on the library's page of the book, under "Names in PyTorch". PyTorch's
layers also drop attention weights and hidden units, where ours do not: without dropout, or after
eval(), both compute the same.
"""

import argparse
import re
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import npt_lib as npt

NAMES = {                                        # one step of a parameter's path: ours, PyTorch's
    "blocks": "layers", "attn": "self_attn", "cross": "multihead_attn", "ffn": "",
    "up": "linear1", "down": "linear2", "out": "out_proj",
    "qkv": "in_proj", "q": "in_proj", "kv": "in_proj",
    "W": "weight", "b": "bias", "gain": "weight", "table": "weight",
}
# Functions, not modules: of a module, nn.TransformerDecoder's copies make ReLU (PyTorch 2.13).
ACTIVATIONS = {"relu": F.relu, "gelu": partial(F.gelu, approximate="tanh"), "exact_gelu": F.gelu}


class Model(nn.Transformer):
    """nn.Transformer with its embeddings, and with a last LayerNorm only where ours has one."""

    def __init__(self, ours: npt.Transformer, dropout: float = 0.0):
        c = ours.config
        super().__init__(c.d_model, c.n_heads, custom_encoder=encoder(ours.encoder, dropout),
                         custom_decoder=decoder(ours.decoder, dropout), batch_first=True)
        self.src_embed = Embed(ours.src_embed, dropout)
        self.tgt_embed = Embed(ours.tgt_embed, dropout)
        if c.share_embeddings:
            self.tgt_embed.tokens = self.src_embed.tokens
        self.unembed = nn.Linear(c.d_model, c.n_tgt_vocab, bias=c.output_bias)
        if c.tie_embeddings:
            self.unembed.weight = self.tgt_embed.tokens.weight
        self.pad_id = c.pad_id

    def forward(self, src: Tensor, tgt: Tensor, tgt_pad: Tensor | None = None) -> Tensor:
        """Logits (B, T, V). The future hides the target's padding, also without tgt_pad."""
        src_pad, T = src == self.pad_id, tgt.shape[1]
        h = super().forward(
            self.src_embed(src), self.tgt_embed(tgt), tgt_mask=future(T).to(src.device),
            src_key_padding_mask=src_pad, memory_key_padding_mask=src_pad,
            tgt_key_padding_mask=tgt_pad)
        return self.unembed(h)


class Embed(nn.Module):
    """Token vectors times sqrt(D), plus positions, then dropout."""

    def __init__(self, ours: npt.InputEmbedding, dropout: float = 0.0):
        super().__init__()
        self.tokens = nn.Embedding(*ours.tokens.table.shape)
        n, D = ours.positions.table.shape
        learned = isinstance(ours.positions, npt.LearnedPositions)
        self.positions = nn.Embedding(n, D) if learned else None
        self.register_buffer("waves", None if learned else waves(n, D), persistent=False)
        self.drop = nn.Dropout(dropout)
        self.scale = ours.scale

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)                                      # (B, T, D)
        T = x.shape[1]
        table = self.waves if self.positions is None else self.positions.weight
        return self.drop(x * self.scale + table[:T].to(x.dtype))


def waves(n: int, d_model: int) -> Tensor:
    """The paper's sinusoidal positions, (n, D), in float64."""
    i = torch.arange(d_model, dtype=torch.float64)
    pos = torch.arange(n, dtype=torch.float64)[:, None]
    angle = pos / 10000 ** (2 * (i // 2) / d_model)
    return torch.where(i % 2 == 0, angle.sin(), angle.cos())


def future(n: int) -> Tensor:
    """True where a position would look ahead: PyTorch's masks say what is hidden."""
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def encoder(ours: npt.Encoder, dropout: float = 0.0) -> nn.TransformerEncoder:
    return stack(nn.TransformerEncoder, nn.TransformerEncoderLayer, ours, dropout,
                 enable_nested_tensor=False)


def decoder(ours: npt.Decoder, dropout: float = 0.0) -> nn.TransformerDecoder:
    return stack(nn.TransformerDecoder, nn.TransformerDecoderLayer, ours, dropout)


def stack(kind, layer_kind, ours, dropout, **options):
    norm = nn.LayerNorm(ours.norm.gain.shape) if ours.norm else None
    return kind(layer(layer_kind, ours.blocks[0], dropout), len(ours.blocks), norm, **options)


def layer(kind, block, dropout: float = 0.0):
    D, d_ff = block.ffn.up.W.shape
    return kind(D, block.attn.n_heads, d_ff, dropout, batch_first=True,
                activation=ACTIVATIONS[block.ffn.activation], norm_first=block.pre_norm)


def their_name(name: str) -> str:
    """What PyTorch calls our parameter of this name."""
    path = ".".join(filter(None, (NAMES.get(step, step) for step in name.split("."))))
    return path.replace("in_proj.", "in_proj_")


def as_ours(tensor: Tensor, name: str) -> Tensor:
    """A view of PyTorch's tensor, laid out as our parameter of this name."""
    third = len(tensor) // 3
    if re.search(r"\bq\.", name):                # one in_proj for q, k and v; we keep q apart
        tensor = tensor[:third]
    elif re.search(r"\bkv\.", name):
        tensor = tensor[third:]
    return tensor.T if name.endswith("W") else tensor


def copy_weights(theirs: nn.Module, ours: npt.Module) -> None:
    """Every parameter of ours into its place; none of theirs may be left over."""
    n_theirs = sum(p.numel() for p in theirs.parameters())
    if n_theirs != ours.n_parameters():
        raise ValueError(f"PyTorch's module must have our {ours.n_parameters()} parameters, "
                         f"got {n_theirs}.")
    for name, p in ours.parameters().items():
        view = as_ours(theirs.get_parameter(their_name(name)).data, name)
        if view.shape != p.shape:
            raise ValueError(f"{name} must be {p.shape}, got {tuple(view.shape)}.")
        view.copy_(torch.from_numpy(p.value))


def to_pytorch(ours: npt.Transformer) -> Model:
    """PyTorch's twin of a model, in its dtype, with its weights and dropout, in eval mode."""
    if not isinstance(ours, npt.Transformer):
        raise ValueError(f"to_pytorch needs a Transformer, got {type(ours).__name__}.")
    model = Model(ours, ours.config.dropout)
    model = model.to(torch.from_numpy(ours.unembed.table.value).dtype)
    copy_weights(model, ours)
    return model.eval()


def difference(ours: npt.Transformer, theirs: Model, n_rows: int = 8) -> float:
    """The largest difference between the logits of both, for random ids with padding."""
    c, rng = ours.config, np.random.default_rng(0)
    T = min(c.max_len, 16)
    src = rng.integers(0, c.n_src_vocab, (n_rows, T))
    src[:, :1] = c.bos_id                                 # no source is padding throughout
    tgt = rng.integers(0, c.n_tgt_vocab, (n_rows, T))
    with torch.no_grad():
        logits = theirs(torch.from_numpy(src), torch.from_numpy(tgt)).numpy()
    return float(np.abs(ours(src, tgt) - logits).max())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.to_pytorch",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a Transformer that npt_lib.save has written: model.npz")
    parser.add_argument("target", nargs="?", help="where the state_dict goes, such as model.pt")
    options = parser.parse_args(arguments)
    ours = npt.load(options.model)
    theirs = to_pytorch(ours)
    worst = difference(ours, theirs)
    print(f"{ours.n_parameters():,} parameters; "
          f"no logit differs by more than {worst:.1e}")
    if options.target:
        torch.save(theirs.state_dict(), options.target)


if __name__ == "__main__":
    main()

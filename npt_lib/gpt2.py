"""Other people's weights, GPT-2's files: read and written. Chapter 16.

Needs safetensors: pip install "npt-lib[weights]".
"""

import importlib
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from npt_lib.byte_pairs import FIRST, N_BYTES, BytePairTokenizer
from npt_lib.checkpoint import PathLike, check_numbers, check_rebuilt, written_whole
from npt_lib.gpt import GPT, GPT_2, GPTConfig, gpt_config
from npt_lib.module import Array
from npt_lib.require import check_path, check_rows, described
from npt_lib.tokenizer import Tokenizer

END = "<|endoftext|>"
CONFIG, WEIGHTS, VOCABULARY, MERGES = (
    "config.json", "model.safetensors", "vocab.json", "merges.txt")
# one step of a parameter's path: ours, theirs
STEPS = {"embed.tokens.table": "wte.weight", "embed.positions.table": "wpe.weight",
         "body.norm": "ln_f", "body.blocks": "h", "norm1": "ln_1", "norm2": "ln_2",
         "attn.qkv": "attn.c_attn", "attn.out": "attn.c_proj", "ffn.up": "mlp.c_fc",
         "ffn.down": "mlp.c_proj"}
LEAVES = {"W": "weight", "b": "bias", "gain": "weight", "bias": "bias"}
CONSTANTS = re.compile(r"\.attn\.(masked_)?bias$")         # constants that old files hold besides
# what their config may say otherwise, and ours not
CHOICES: dict[str, tuple[Any, ...]] = {
    "model_type": ("gpt2",), "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "layer_norm_epsilon": (1e-5,), "tie_word_embeddings": (True,), "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,), "add_cross_attention": (False,)}


def load_gpt2(folder: PathLike) -> GPT:
    """The model in a folder with GPT-2's config.json and model.safetensors, in float32.

    pad_token_id is its padding, where it is no other token's as well.
    """
    said = read_json(folder, CONFIG)
    for name, known in CHOICES.items():
        if said.get(name, known[0]) not in known:
            raise ValueError(f"{CONFIG} must say {name}={known[0]!r}, got {said[name]!r}.")
    sizes = {"vocab_size", "n_embd", "n_head", "n_layer", "n_positions"}
    if missing := sizes - set(said):
        raise ValueError(f"{CONFIG} must say {', '.join(sorted(missing))}.")
    eos = said.get("eos_token_id", said["vocab_size"] - 1)
    bos, pad = said.get("bos_token_id", eos), said.get("pad_token_id")
    config = gpt_config(
        said["vocab_size"], d_model=said["n_embd"], n_heads=said["n_head"],
        d_ff=said.get("n_inner") or 4 * said["n_embd"], n_layers=said["n_layer"],
        max_len=said["n_positions"], dropout=said.get("resid_pdrop", 0.1),
        pad_id=None if pad in (bos, eos) else pad, bos_id=None if bos == eos else bos, eos_id=eos)
    model = GPT(config, np.random.default_rng(0))
    state = as_ours(read_tensors(folder), set(model.parameters()))
    model.load_state_dict(state)
    check_numbers(state)
    return model


def save_gpt2(folder: PathLike, model: GPT, tokenizer: "GPT2Tokenizer | None" = None) -> None:
    """Write a GPT, and its tokenizer, as the files that others read; each whole or not at all."""
    check_gpt2("save_gpt2", model)
    c, state = model.config, model.state_dict()
    check_numbers(state)
    check_rebuilt(model, GPT(c, np.random.default_rng(0)))
    if tokenizer is not None:
        check_gpt2_tokenizer(tokenizer, c.n_tgt_vocab)
    said = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
            "vocab_size": c.n_tgt_vocab, "n_embd": c.d_model, "n_head": c.n_heads,
            "n_layer": c.n_layers, "n_positions": c.max_len, "n_inner": c.d_ff,
            "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
            "resid_pdrop": c.dropout, "embd_pdrop": c.dropout, "attn_pdrop": c.dropout,
            "bos_token_id": c.eos_id if c.bos_id is None else c.bos_id, "eos_token_id": c.eos_id,
            "pad_token_id": c.pad_id, "tie_word_embeddings": True}
    there = check_path(folder)
    there.mkdir(parents=True, exist_ok=True)
    tensors = {their_name(name): value for name, value in state.items()}
    write(there / WEIGHTS, needs_safetensors().numpy.save(tensors, {"format": "pt"}))
    write(there / CONFIG, json.dumps(said, indent=2).encode())
    if tokenizer is not None:
        tokenizer.write(there)


def check_gpt2(name: str, model: Any) -> None:
    """Refuse a model with other parts than GPT-2's, whatever its sizes."""
    c = getattr(model, "config", None)
    if type(model) is not GPT or type(c) is not GPTConfig or c.pattern is not None or any(
            getattr(c, choice) != wanted for choice, wanted in GPT_2.items()
            ) or c.output_bias or c.final_norm is False:
        raise ValueError(f"{name} needs a GPT with gpt_config's choices, got "
                         f"{type(model).__name__} with {c}.")


def check_gpt2_tokenizer(tokenizer: Any, n_vocab: int) -> None:
    """Refuse another tokenizer, and one whose ids are not those of the model's table."""
    if not isinstance(tokenizer, GPT2Tokenizer):
        raise ValueError("tokenizer must be a GPT2Tokenizer (GPT2Tokenizer.from_merges makes one), "
                         f"got {type(tokenizer).__name__}.")
    if len(tokenizer.vocabulary) != n_vocab:
        raise ValueError(f"tokenizer must have an id for each of the model's {n_vocab} rows, got "
                         f"{len(tokenizer.vocabulary)} ids.")


def their_name(name: str) -> str:
    """What GPT-2's files call our parameter of this name."""
    for ours, theirs in STEPS.items():
        name = re.sub(rf"(^|\.){re.escape(ours)}(?=\.|$)", rf"\1{theirs}", name)
    path, _, leaf = name.rpartition(".")
    return f"{path}.{LEAVES.get(leaf, leaf)}"


def as_ours(tensors: Mapping[str, Array], names: set[str]) -> dict[str, Array]:
    """Their tensors by our names: all of ours, and nothing of theirs left over but constants."""
    known = {name.removeprefix("transformer."): x for name, x in tensors.items()}
    known = {name: x for name, x in known.items() if not CONSTANTS.search(name)}
    head = known.pop("lm_head.weight", None)             # the table once more, in some files
    wanted = {their_name(name): name for name in names}
    missing, unknown = sorted(set(wanted) - set(known)), sorted(set(known) - set(wanted))
    if missing or unknown:
        raise ValueError(f"{WEIGHTS} must hold a GPT-2's {len(wanted)} tensors: missing "
                         f"{missing[:3]}, unknown {unknown[:3]} "
                         f"({len(missing)} and {len(unknown)}).")
    if head is not None and not np.array_equal(head, known["wte.weight"]):
        raise ValueError("lm_head.weight must be wte.weight: GPT-2's table is tied.")
    return {wanted[name]: x for name, x in known.items()}


class GPT2Tokenizer(Tokenizer):
    """GPT-2's tokens: bytes and 50,000 merges, learned from other texts, with ids of its own.

    vocabulary: the id of each token, merges: pairs of tokens, both in the letters of the files.
    There is no padding; the end token also stands between texts.
    """

    kind = "gpt-2"
    pad_id = None

    def __init__(self, vocabulary: Mapping[str, int], merges: Iterable[tuple[str, str]]):
        self.vocabulary = checked_vocabulary(vocabulary)
        self.pairs = [spelled_pair(pair, n + 1) for n, pair in enumerate(
            check_rows("merges", merges, "pairs of tokens"))]
        byte_of = {letter: b for b, letter in enumerate(LETTERS)}
        ours = {LETTERS[b]: FIRST + b for b in range(N_BYTES)}     # a token's id in the inner one
        joined = []
        for n, (a, b) in enumerate(self.pairs):
            if a not in ours or b not in ours or a + b not in self.vocabulary:
                raise ValueError(f"merge {n + 1} of {MERGES}, {a!r} {b!r}, must join two known "
                                 f"tokens to one of {VOCABULARY}.")
            if a + b in ours:
                raise ValueError(f"merge {n + 1} of {MERGES}, {a!r} {b!r}, must make a new token, "
                                 f"got {a + b!r} again.")
            joined.append((ours[a], ours[b]))
            ours[a + b] = FIRST + N_BYTES + n
        rest = set(self.vocabulary) - set(ours)
        if not set(ours) <= set(self.vocabulary) or rest != {END}:
            raise ValueError(f"{VOCABULARY} must hold all {N_BYTES} bytes, what {MERGES} joins, "
                             f"and {END}; besides it holds {sorted(rest - {END})[:3]}.")
        self._inner = BytePairTokenizer(joined)
        self._inner.words = words_of_gpt2()
        self._to_theirs = {ours[token]: i for token, i in self.vocabulary.items() if token in ours}
        self.bos_id = self.eos_id = self.vocabulary[END]
        spelled = sorted(self.vocabulary, key=self.vocabulary.__getitem__)
        self._bytes = [b"" if token == END else bytes(byte_of[letter] for letter in token)
                       for token in spelled]
        self.tokens = [END if token == END else piece.decode("utf8", "backslashreplace")
                       for token, piece in zip(spelled, self._bytes)]

    @classmethod
    def read(cls, folder: PathLike) -> Self:
        """From the files vocab.json and merges.txt."""
        lines = read_text(folder, MERGES).split("\n")
        pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
        if wrong := [pair for pair in pairs if len(pair) != 2]:
            raise ValueError(f"a line of {MERGES} must be two tokens, got {' '.join(wrong[0])!r}.")
        return cls(read_json(folder, VOCABULARY), [(a, b) for a, b in pairs])

    def write(self, folder: PathLike) -> None:
        """Both files."""
        lines = ["#version: 0.2", *(f"{a} {b}" for a, b in self.pairs), ""]
        write(check_path(folder) / VOCABULARY,
              json.dumps(self.vocabulary, ensure_ascii=False).encode())
        write(check_path(folder) / MERGES, "\n".join(lines).encode())

    @classmethod
    def from_merges(cls, tokenizer: BytePairTokenizer) -> Self:
        """The merges of chapter 11's tokenizer with ids as GPT-2 gives them."""
        letters = ["".join(LETTERS[b] for b in piece) for piece in tokenizer.pieces]
        bytes_first = sorted(range(N_BYTES), key=lambda b: LETTERS[b])
        tokens = [LETTERS[b] for b in bytes_first] + letters[FIRST + N_BYTES:]
        vocabulary = {token: i for i, token in enumerate(dict.fromkeys([*tokens, END]))}
        return cls(vocabulary, [(letters[a], letters[b]) for a, b in tokenizer.merges])

    def split(self, text: str) -> list[str]:
        """The tokens of a text, as ``tokens`` spells them: to look at."""
        return [self.tokens[i] for i in self.encode(text)]

    def ids_of(self, text: str) -> list[int]:
        try:
            text.encode("utf8")
        except UnicodeEncodeError as error:
            raise ValueError(f"a text must be Unicode that UTF-8 can hold: {error}.") from None
        return [self._to_theirs[i] for i in self._inner.ids_of(text)]

    def text_of(self, ids: list[int]) -> str:
        """The text of these ids; a letter cut short becomes a question mark in a diamond."""
        return b"".join(self._bytes[i] for i in ids).decode("utf8", "replace")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "vocabulary": self.vocabulary, "merges": self.pairs}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        return cls(saved["vocabulary"], saved["merges"])


def letters_of_bytes() -> list[str]:
    """GPT-2's letter for each byte: printable ones for themselves, others from 256 on."""
    itself = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1),
              *range(ord("®"), ord("ÿ") + 1)}
    others = [b for b in range(N_BYTES) if b not in itself]
    return [chr(b if b in itself else N_BYTES + others.index(b)) for b in range(N_BYTES)]


LETTERS = letters_of_bytes()


@cache
def words_of_gpt2() -> re.Pattern[str]:
    """What GPT-2 cuts a text into, in Python's re, which has no classes of letters and numbers."""
    # numbers that are no decimal digits, such as ½: Python counts them among the letters
    odd = "".join(c for c in map(chr, range(sys.maxunicode + 1))
                  if unicodedata.category(c) in ("Nl", "No"))
    space = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
    return re.compile(rf"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_{odd}]+| ?[\d{odd}]+"
                      rf"| ?(?:[^{space}\w]|_)+|[{space}]+(?![^{space}])|[{space}]+")


# files

def read_tensors(folder: PathLike) -> dict[str, Array]:
    """All arrays of model.safetensors, as float32."""
    content, package = read_bytes(folder, WEIGHTS), needs_safetensors()
    try:
        tensors = package.numpy.load(content)
    except (package.SafetensorError, KeyError) as error:         # no such file, or no such dtype
        raise ValueError(f"{WEIGHTS} must be a safetensors file of numbers: {error}") from None
    return {name: x.astype(np.float32) if x.dtype.kind == "f" else x
            for name, x in tensors.items()}


def read_bytes(folder: PathLike, name: str) -> bytes:
    path = check_path(folder) / name
    if not path.is_file():
        raise ValueError(f"a folder of GPT-2 needs {CONFIG}, {WEIGHTS}, {VOCABULARY} and {MERGES}, "
                         f"but {path} is not there.")
    return path.read_bytes()


def checked_vocabulary(vocabulary: Any) -> dict[str, int]:
    """The id of each token, if they are texts, and their ids 0, 1, 2 and so on."""
    if not isinstance(vocabulary, Mapping) or not all(isinstance(x, str) for x in vocabulary):
        raise ValueError(f"{VOCABULARY} must give the id of each token, got "
                         f"{described(vocabulary)}.")
    ids = list(vocabulary.values())
    if not all(isinstance(i, int) for i in ids) or sorted(ids) != list(range(len(ids))):
        raise ValueError(f"{VOCABULARY} must give the ids 0 to {len(ids) - 1}, each to one token.")
    return dict(vocabulary)


def spelled_pair(pair: Any, n: int) -> tuple[str, str]:
    """The two tokens of the n-th merge."""
    if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(
            isinstance(token, str) for token in pair):
        raise ValueError(f"merge {n} must be two tokens, got {pair!r}.")
    return pair[0], pair[1]


def read_text(folder: PathLike, name: str) -> str:
    try:
        return read_bytes(folder, name).decode("utf8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} must be a text in UTF-8: {error}") from None


def read_json(folder: PathLike, name: str) -> dict[str, Any]:
    try:
        said = json.loads(read_text(folder, name))
    except json.JSONDecodeError as error:
        raise ValueError(f"{name} must be JSON: {error}") from None
    if not isinstance(said, dict):
        raise ValueError(f"{name} must be an object of JSON, got {type(said).__name__}.")
    return said


def write(path: Path, content: bytes) -> None:
    with written_whole(path) as file:
        file.write(content)


def needs_safetensors() -> Any:
    """The package, with its functions for NumPy."""
    try:
        importlib.import_module("safetensors.numpy")
        return importlib.import_module("safetensors")
    except ImportError:
        raise ImportError('GPT-2\'s weights need safetensors: '
                          'pip install "npt-lib[weights]".') from None

"""A GPT-2 in PyTorch alone: trained there, and left as a folder that chapter 16 reads.

    python -m examples.torch_twin                   trains, and writes book/beyond/from_torch
    python -m examples.torch_twin OTHER_FOLDER --steps 200 --device cuda

No layer of npt_lib computes here: modules, gradients and optimizer are PyTorch's. Besides GPT-2's
four files the folder gets told.json and told.safetensors: what PyTorch itself computed with these
weights, part by part and gradient by gradient. Needs torch and safetensors.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np

try:
    import torch
    from safetensors import numpy as safetensors
    from torch import Tensor, nn
    from torch.nn import functional as F
except ImportError:
    raise ImportError("examples/torch_twin.py needs PyTorch and safetensors: "
                      "pip install torch safetensors.") from None

from npt_lib.byte_pairs import BytePairTokenizer
from npt_lib.checkpoint import written_whole
from npt_lib.gpt2 import CONFIG, WEIGHTS, GPT2Tokenizer
from npt_lib.tasks.numbers import number_to_english

FOLDER = Path(__file__).resolve().parents[1] / "book" / "beyond" / "from_torch"
WIDTH, HEADS, BLOCKS, LENGTH = 32, 4, 2, 64
MERGES, BATCH, STEPS, RATE = 100, 32, 2000, 3e-3
PROMPTS = "ninety-seven, ninety-eight,", "six hundred and fifty-seven,"
HELD_OUT = range(640, 690)              # no row of the training holds them, nor 621 to 639


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:                        # (B, T, D)
        B, T, D = x.shape
        q, k, v = (part.view(B, T, HEADS, D // HEADS).transpose(1, 2)
                   for part in self.c_attn(x).split(D, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(B, T, D))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.ln_2, self.mlp = nn.LayerNorm(WIDTH), FeedForward()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Twin(nn.Module):
    """Ids (B, T) in, logits (B, T, V) out; every part has the name that GPT-2's files give it."""

    def __init__(self, n_vocab: int):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(n_vocab, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                std = 0.02 if name.startswith("w") else 1 / math.sqrt(p.shape[1])
                nn.init.normal_(p, std=std / math.sqrt(2 * BLOCKS) if "c_proj" in name else std)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T

    def embed(self, ids: Tensor) -> Tensor:
        return self.wte(ids) + self.wpe.weight[:ids.shape[1]]

    def loss(self, rows: Tensor) -> Tensor:
        logits = self(rows[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())

    @torch.no_grad()
    def write(self, ids: list[int], n: int) -> list[int]:
        """The n likeliest next tokens, one after another."""
        device, read = self.wte.weight.device, list(ids)
        for _ in range(n):
            read.append(int(self(torch.tensor([read], device=device))[0, -1].argmax()))
        return read[len(ids):]


def in_file(name: str, x: Tensor) -> np.ndarray:
    """A tensor as GPT-2's files lay it out: a Linear's weight is (in, out) there."""
    x = x.detach().cpu().numpy()
    return np.ascontiguousarray(x.T if x.ndim == 2 and name.startswith("h.") else x)


def counted(first: int) -> str:
    return ", ".join(map(number_to_english, range(first, first + 40)))


def rows_of(firsts: range, tokenizer: GPT2Tokenizer) -> Tensor:
    """A row for each number to begin with: as many tokens as fit, and one to be guessed."""
    return torch.tensor([tokenizer.encode(counted(n))[:LENGTH + 1] for n in firsts])


def train(model: Twin, rows: Tensor, steps: int) -> float:
    """Adam with a short warm-up and a falling rate; the last step's loss."""
    order = torch.Generator().manual_seed(0)
    adam = torch.optim.Adam(model.parameters(), RATE)
    shape = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: min(1, (step + 1) / 50) * (
        0.02 + 0.98 * (1 + math.cos(math.pi * step / steps)) / 2))
    for step in range(steps):
        some = rows[torch.randint(len(rows), (BATCH,), generator=order).to(rows.device)]
        adam.zero_grad()
        loss = model.loss(some)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        shape.step()
        if step % 200 == 0:
            print(f"step {step:4}  loss {loss.item():.4f}", flush=True)
    return loss.item()


def parts(model: Twin, ids: Tensor) -> dict[str, np.ndarray]:
    """What each part makes of one row (T,), in the order in which it is computed."""
    found: dict[str, Tensor] = {}
    watched = {name: part for name, part in model.named_modules()
               if name.split(".")[-1] in ("ln_1", "attn", "ln_2", "mlp", "ln_f")
               or isinstance(part, Block)}
    hooks = [part.register_forward_hook(lambda _, __, y, name=name: found.update({name: y}))
             for name, part in watched.items()]
    with torch.no_grad():
        found["embed"] = model.embed(ids[None])
        found["logits"] = model(ids[None])
    for hook in hooks:
        hook.remove()
    return {f"part/{name}": y[0].cpu().numpy() for name, y in found.items()}


def told(model: Twin, rows: Tensor) -> dict[str, np.ndarray]:
    """What PyTorch computes on held-out rows: the parts of the first one, all gradients."""
    model.zero_grad()
    model.loss(rows).backward()
    return {"rows": rows.cpu().numpy().astype(np.int32), **parts(model, rows[0, :16]),
            **{f"gradient/{name}": in_file(name, p.grad) for name, p in model.named_parameters()}}


def store(folder: Path, model: Twin, tokenizer: GPT2Tokenizer, rows: Tensor, about: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    V = len(tokenizer)
    config = {"model_type": "gpt2", "vocab_size": V, "n_embd": WIDTH, "n_head": HEADS,
              "n_layer": BLOCKS, "n_positions": LENGTH, "activation_function": "gelu_new",
              "layer_norm_epsilon": 1e-5, "bos_token_id": V - 1, "eos_token_id": V - 1,
              "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    weights = {name: in_file(name, p) for name, p in model.named_parameters()}
    written = {prompt: tokenizer.decode(model.write(tokenizer.encode(prompt), 40))
               for prompt in PROMPTS}
    about = {**about, "parameters": sum(x.size for x in weights.values()),
             "loss": model.loss(rows).item(), "written": written, "torch": torch.__version__}
    for name, content in [
            (CONFIG, json.dumps(config, indent=2).encode() + b"\n"),
            (WEIGHTS, safetensors.save(weights)),
            ("told.safetensors", safetensors.save(told(model, rows))),
            ("told.json", json.dumps(about, indent=2).encode() + b"\n")]:
        with written_whole(folder / name) as file:
            file.write(content)
    tokenizer.write(folder)
    print(json.dumps(about, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.torch_twin",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    # no row begins at 610 to 689; the row that begins at 609 gets as far as 620
    known = [n for n in range(940) if n not in range(HELD_OUT[0] - 30, HELD_OUT[-1] + 1)]
    tokenizer = GPT2Tokenizer.from_merges(
        BytePairTokenizer.from_texts(map(counted, known), MERGES))
    rows, held_out = (rows_of(firsts, tokenizer).to(options.device)
                      for firsts in (known, range(HELD_OUT[0], HELD_OUT[-1] - 15, 5)))
    model, began = Twin(len(tokenizer)).to(options.device), time.perf_counter()
    last = train(model, rows, options.steps)
    store(options.folder, model, tokenizer, held_out, {
        "steps": options.steps, "last_loss": last, "device": options.device,
        "seconds": round(time.perf_counter() - began, 1)})


if __name__ == "__main__":
    main()

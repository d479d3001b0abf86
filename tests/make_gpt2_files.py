"""Store a small GPT-2 of the package transformers, and what it computes: tests/fixtures/gpt2.

    .venv-parity/bin/python tests/make_gpt2_files.py

Random weights in GPT-2's four files, for tests/test_gpt2.py, which needs neither PyTorch nor
transformers. judged.safetensors holds ids, logits, what is written greedily, and all gradients;
judged.json some texts and their ids.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors import numpy as safetensors

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from npt_lib.byte_pairs import BytePairTokenizer  # noqa: E402
from npt_lib.gpt2 import GPT2Tokenizer  # noqa: E402

FOLDER = ROOT / "tests" / "fixtures" / "gpt2"
TEXTS = ["the cat lost her red ball, the cat lost it, low lower lowest", "it's 12½ cats, isn't it?",
         "a  b   c\n\n\td", "naïve café, 日本語", "_x__y_ 12.5e-3", "½²Ⅷ 3½ x²", "  "]


def judge(V: int) -> "transformers.GPT2LMHeadModel":
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=V, n_embd=12, n_head=3, n_layer=2, n_positions=17, bos_token_id=V - 1,
        eos_token_id=V - 1)).to(torch.float32).eval()
    with torch.no_grad():
        for p in model.parameters():                     # no gain is 1, no bias 0, no logits alike
            p += 0.1 * torch.randn_like(p)
    return model


def judged(model) -> dict[str, np.ndarray]:
    """What transformers computes with a model."""
    V = model.config.vocab_size
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, V, (2, 17)))
    model.zero_grad()
    logits = model(ids).logits
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    written = model.generate(ids[:, :5], max_new_tokens=8, do_sample=False, eos_token_id=None,
                             pad_token_id=V - 1)[:, 5:]
    return {"ids": ids.numpy().astype(np.int32), "logits": logits.detach().numpy(),
            "written": written.numpy().astype(np.int32),
            **{f"gradient/{name}": p.grad.numpy()
               for name, p in model.transformer.named_parameters()}}


def main() -> None:
    tokenizer = GPT2Tokenizer.from_merges(BytePairTokenizer.from_texts(TEXTS[:1], 20))
    model = judge(len(tokenizer))
    model.save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink(missing_ok=True)
    tokenizer.write(FOLDER)
    theirs = transformers.GPT2Tokenizer(str(FOLDER / "vocab.json"), str(FOLDER / "merges.txt"))
    texts = {text: theirs(text)["input_ids"] for text in TEXTS}
    (FOLDER / "judged.json").write_text(json.dumps(texts, ensure_ascii=False, indent=1) + "\n",
                                        "utf8")
    safetensors.save_file(judged(model), FOLDER / "judged.safetensors")


if __name__ == "__main__":
    main()

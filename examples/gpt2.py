"""Write with GPT-2: its own weights, read by npt_lib, where you have its files.

    python -m examples.gpt2 FOLDER "A prompt"
    python -m examples.gpt2 FOLDER "A prompt" --tokens 60 --temperature 0.8 --top-p 0.95

FOLDER holds config.json, model.safetensors, vocab.json and merges.txt, as they are published with
the model; nothing is downloaded. Needs safetensors: pip install "npt-lib[weights]".
"""

import argparse
import sys

import numpy as np

import npt_lib as npt
from npt_lib.gpt2 import GPT2Tokenizer, load_gpt2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.gpt2",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--temperature", type=float, default=0.8, help="0 writes greedily")
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        tokenizer, model = GPT2Tokenizer.read(options.folder), load_gpt2(options.folder)
        prompt = np.array([tokenizer.encode(options.prompt) or [tokenizer.bos_id]])
        if options.temperature == 0:
            ids = npt.greedy(model, prompt, options.tokens)
        else:
            ids = npt.sample(model, prompt, options.tokens, np.random.default_rng(options.seed),
                             options.temperature, top_p=options.top_p)
    except (ValueError, ImportError) as error:
        sys.exit(f"{parser.prog}: {error}")
    print(options.prompt + tokenizer.decode(ids[0]))


if __name__ == "__main__":
    main()

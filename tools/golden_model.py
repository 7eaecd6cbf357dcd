#!/usr/bin/env python3
"""Writes test/golden/model_smollm2.txt: what PyTorch says about the default model, in fp32, on the same GGUF file.

transformers reads the file itself (gguf_file=) and dequantises its weights exactly, so the only differences to the engine are the
engine's own: int8 activations and the order of its sums. Needs, in a virtual environment outside the tree:

    pip install torch transformers gguf accelerate
    python tools/golden_model.py "$(make -s model-path)"

The engine's test suite reads only the file written here.
"""
import argparse
import pathlib
import sys

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROSE = ROOT / "test" / "golden" / "model_prose.txt"
OUT = ROOT / "test" / "golden" / "model_smollm2.txt"

# Name, question, tokens of answer at most.
CHATS = [
    ("chat_tides", "Why does the sea have tides? Explain it to a child in a few sentences.", 70),
    ("chat_code", "Write a Python function that counts the vowels in a string, and show how to call it.", 100),
    ("chat_french", "Translate into English: « Où est la gare, s'il vous plaît ? »", 40),
]

HEAD = """\
# What PyTorch (fp32) predicts at each position of a few token sequences, for test/test_model.c.
# Written by tools/golden_model.py; do not edit.
#
#   sequence NAME N     then N lines:
#   ID TOP MARGIN       the token at this position, the most likely next token after it, and by how much its logit leads
#
# The chats end in the model's own greedy answer, which is fed back as it was generated (teacher forcing).
"""


def load(path):
    folder, name = str(path.parent), path.name
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    return tokenizer, model.eval()


def chat_prompt(tokenizer, question):
    text = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False)
    return tokenizer(text, add_special_tokens=False).input_ids


def answer(model, prompt, limit):
    """The greedy continuation, the end token left out."""
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=limit, do_sample=False, repetition_penalty=1.0)
    new = out[0, len(prompt):].tolist()
    return new[: new.index(model.config.eos_token_id)] if model.config.eos_token_id in new else new


def sequences(tokenizer, model):
    yield "prose", tokenizer(PROSE.read_text(encoding="utf-8"), add_special_tokens=False).input_ids
    for name, question, limit in CHATS:
        prompt = chat_prompt(tokenizer, question)
        new = answer(model, prompt, limit)
        print(f"{name}: {tokenizer.decode(new)!r}", file=sys.stderr)
        yield name, prompt + new


def score(model, ids):
    """For every position the best next token and its lead over the second best."""
    logits = model(torch.tensor([ids])).logits[0]
    best = logits.topk(2)
    return best.indices[:, 0].tolist(), (best.values[:, 0] - best.values[:, 1]).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    args = parser.parse_args()
    tokenizer, model = load(args.model)
    total = 0
    with torch.no_grad(), open(args.out, "w", encoding="ascii") as out:
        out.write(HEAD)
        for name, ids in sequences(tokenizer, model):
            tops, margins = score(model, ids)
            total += len(ids)
            out.write(f"sequence {name} {len(ids)}\n")
            out.writelines(f"{i} {t} {m:.3f}\n" for i, t, m in zip(ids, tops, margins))
    print(f"{args.out}: {total} positions", file=sys.stderr)


if __name__ == "__main__":
    main()

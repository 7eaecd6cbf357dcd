#!/usr/bin/env python3
"""Writes test/golden/model_smollm2.txt and model_tiny.txt: what PyTorch says, in fp32, about the default model and about small
random ones of other families and types, on the same GGUF files as the engine.

transformers reads the files itself (gguf_file=) and dequantises their weights exactly, so the only differences to the engine are the
engine's own: int8 activations and the order of its sums. Needs build/tiny_model and, in a virtual environment outside the tree:

    pip install torch transformers gguf accelerate
    python tools/golden_model.py "$(make -s model-path)"

The engine's test suite reads only the files written here.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "test" / "golden"
TINY_MODEL = ROOT / "build" / "tiny_model"

# Name, question, tokens of answer at most.
CHATS = [
    ("chat_tides", "Why does the sea have tides? Explain it to a child in a few sentences.", 70),
    ("chat_code", "Write a Python function that counts the vowels in a string, and show how to call it.", 100),
    ("chat_french", "Translate into English: « Où est la gare, s'il vous plaît ? »", 40),
]

# Random models, which test/test_model.c makes with the same options.
TINY = {
    "qwen2": "--arch qwen2 --layers 4 --dim 128 --heads 4 --kv-heads 2 --ffn 352 --type q4_0 --head-type q8_0 --untied --seed 7",
    "llama_mixed": "--arch llama --layers 3 --dim 256 --heads 8 --kv-heads 2 --ffn 512 --type q6_k --v-type q4_1 --untied --seed 9",
}
TINY_IDS = 96
TINY_BYTES = 256  # the first ids of their vocabulary

HEAD = """\
# What PyTorch (fp32) predicts at each position of a few token sequences, for test/test_model.c.
# Written by tools/golden_model.py; do not edit.
#
#   sequence NAME N     then N lines:
#   ID TOP MARGIN       the token at this position, the most likely next token after it, and by how much its logit leads
#
"""
HEAD_DEFAULT = HEAD + "# The chats end in the model's own greedy answer, which is fed back as it was generated (teacher forcing).\n"
HEAD_TINY = HEAD + "# Each sequence has a random model of its own (tools/tiny_model.c), which the test makes with the same options.\n"


def load(path):
    model = transformers.AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32)
    return model.eval()


def chat_prompt(tokenizer, question):
    text = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False)
    return tokenizer(text, add_special_tokens=False).input_ids


def answer(model, prompt, limit):
    """The greedy continuation, the end token left out."""
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=limit, do_sample=False, repetition_penalty=1.0)
    new = out[0, len(prompt):].tolist()
    return new[: new.index(model.config.eos_token_id)] if model.config.eos_token_id in new else new


def default_sequences(path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    model = load(path)
    prose = (GOLDEN / "model_prose.txt").read_text(encoding="utf-8")
    yield "prose", model, tokenizer(prose, add_special_tokens=False).input_ids
    for name, question, limit in CHATS:
        prompt = chat_prompt(tokenizer, question)
        new = answer(model, prompt, limit)
        print(f"{name}: {tokenizer.decode(new)!r}", file=sys.stderr)
        yield name, model, prompt + new


def tiny_sequences():
    with tempfile.TemporaryDirectory() as folder:
        for name, options in TINY.items():
            path = pathlib.Path(folder) / f"{name}.gguf"
            subprocess.run([TINY_MODEL, "--out", path, *options.split()], check=True)
            ids = torch.randint(0, TINY_BYTES, (TINY_IDS,), generator=torch.Generator().manual_seed(1))
            yield name, load(path), ids.tolist()


def score(model, ids):
    """For every position the best next token and its lead over the second best."""
    best = model(torch.tensor([ids])).logits[0].topk(2)
    return best.indices[:, 0].tolist(), (best.values[:, 0] - best.values[:, 1]).tolist()


def write(path, head, sequences):
    total = 0
    with open(path, "w", encoding="ascii") as out:
        out.write(head)
        for name, model, ids in sequences:
            tops, margins = score(model, ids)
            total += len(ids)
            out.write(f"sequence {name} {len(ids)}\n")
            out.writelines(f"{i} {t} {m:.3f}\n" for i, t, m in zip(ids, tops, margins))
    print(f"{path}: {total} positions", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    args = parser.parse_args()
    with torch.no_grad():
        write(GOLDEN / "model_tiny.txt", HEAD_TINY, tiny_sequences())
        write(GOLDEN / "model_smollm2.txt", HEAD_DEFAULT, default_sequences(args.model))


if __name__ == "__main__":
    main()

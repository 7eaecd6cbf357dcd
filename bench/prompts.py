"""Prompts of the suite: the workload as a page would ask, and a text of known length."""

import json
import os
import sys

TASKS = ["summarize", "bullets", "entities_json", "article_qa", "msmarco", "squad", "hotpotqa", "xsum", "humaneval", "gsm8k", "mtbench"]

# As the default model's template has it, written out, so that every engine gets the same tokens.
CHAT = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"

# One token each, with the space before it, in the vocabularies of SmolLM2, Qwen2.5, Llama 3 and tools/tiny_model.
WORDS = """the and of to is that for was with as it on you be at this have from or one had by word but not what all we when your can said
there use each how their will up about""".split()


def workload(folder, lines):
    """The first `lines` lines of each task file: dicts with id, task and text."""
    prompts = []
    for task in TASKS:
        path = os.path.join(folder, task + ".jsonl")
        if not os.path.isfile(path):
            sys.exit(f"suite.py: {path} is missing; --workload wants the folder with {', '.join(TASKS)}.jsonl")
        with open(path, encoding="utf-8") as file:
            for _, line in zip(range(lines), file):
                item = json.loads(line)
                content = "\n\n".join(part for part in (item["context"], item["instruction"]) if part)
                prompts.append({"id": item["id"], "task": task, "text": CHAT.format(content)})
    return prompts


def filler(tokens):
    """A text of so many tokens; any order will do, for what a step costs does not depend on it."""
    words, state = [], 1
    for _ in range(tokens):
        state = (state * 1664525 + 1013904223) % 2**32
        words.append(" " + WORDS[(state >> 8) % len(WORDS)])
    return "".join(words)

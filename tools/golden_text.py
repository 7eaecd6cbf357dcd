#!/usr/bin/env python3
"""Writes test/golden/text_*: what Hugging Face `tokenizers` makes of a few thousand strings.

    pip install tokenizers==0.23.3 gguf==0.19.0 jinja2==3.1.6
    tools/golden_text.py MODEL.gguf            writes the files
    tools/golden_text.py MODEL.gguf --show N   prints all the ids of line N of text_ids.txt

MODEL is the default model; its vocabulary, merges and chat template serve every pre-tokenizer. text_vocab.txt is a small
vocabulary, trained here, so that all of it can be tested without a model too. The strings are in golden_strings.py.

text_ids.txt has a string a line, tab-separated:
  text      \\xNN, \\n, \\t, \\r and \\\\ are escapes, everything else is itself
  smollm    ids, separated by spaces
  gpt2 qwen2 llama3     "=" like smollm's, or count:hash (hash32 below)
  special   ids for smollm where special tokens are recognised; "=" if that changes nothing
  small     four times count:hash of the ids with the small vocabulary and, behind them, the sizes in bytes of the pieces that the text
            is cut into (a vocabulary alone hides cuts where it has no merge): gpt2 qwen2 llama3 smollm
"""
import json
import pathlib
import re
import sys

import gguf
import jinja2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import golden_strings

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "test/golden"
ALPHABET = {b: c for b, c in zip(
    [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)], map(chr, [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]))}
ALPHABET.update({b: chr(0x100 + i) for i, b in enumerate(b for b in range(256) if b not in ALPHABET)})

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLITS = {  # what comes before the byte alphabet, as the models' tokenizer.json have it
    "gpt2": pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"), "isolated"),
    "qwen2": pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated"),
    "llama3": pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
}
STAND_IN = 0x10FE00  # for bytes that are not UTF-8; no string holds characters from there
KINDS = ["gpt2", "qwen2", "llama3", "smollm"]


def pre_tokenizer(kind):
    if kind == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if kind == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return pre_tokenizers.Sequence([SPLITS[kind], pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


class Oracle:
    """The tokenizer of one kind over a vocabulary."""

    def __init__(self, kind, vocab, merges, special):
        self.kind = kind
        self.tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=kind == "llama3"))
        self.tokenizer.pre_tokenizer = pre_tokenizer(kind)
        self.tokenizer.decoder = decoders.ByteLevel()
        if kind == "qwen2":
            self.tokenizer.normalizer = normalizers.NFC()
        self.tokenizer.add_special_tokens(special)
        self.special = {text: vocab[text] for text in special}

    def encode(self, data, special=False):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self.encode_broken(data, special)
        self.tokenizer.encode_special_tokens = not special
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def encode_broken(self, data, special):
        names = sorted(self.special, key=len, reverse=True) if special else []
        text, ids = stand_in(data), []
        for part in re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]:
            if part in names:
                ids.append(self.special[part])
                continue
            for piece in self.pieces(part):
                ids += [token.id for token in self.tokenizer.model.tokenize("".join(ALPHABET[b] for b in piece))]
        return ids

    def pieces(self, text):
        """What BPE gets to see, as bytes; `text` as stand_in() has it."""
        if self.kind == "qwen2":
            text = normalizers.NFC().normalize_str(text)
        parts = [text]
        if self.kind == "smollm":
            parts = [part for part, _ in pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str(text)]
        split = SPLITS["gpt2" if self.kind == "smollm" else self.kind]
        for piece, _ in (piece for part in parts for piece in split.pre_tokenize_str(part)):
            yield b"".join(bytes([ord(c) - STAND_IN]) if STAND_IN + 0x80 <= ord(c) < STAND_IN + 0x100 else c.encode() for c in piece)


def stand_in(data):
    """The reference takes only text. Private-use characters, which are neither letters, digits nor white space, stand for the bytes
    that are not UTF-8 until the text is cut into pieces."""
    text = data.decode("utf-8", "surrogateescape")
    return "".join(chr(STAND_IN + ord(c) - 0xDC00) if 0xDC80 <= ord(c) < 0xDD00 else c for c in text)


def hash32(ids):
    """How many, and FNV-1a over them as little-endian 32-bit words."""
    value = 0x811C9DC5
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{len(ids)}:{value:08x}"


def escape(data):
    """Visible characters as they are; everything that an editor could hide, join or lose as escapes."""
    out = []
    for char in data.decode("utf-8", "surrogateescape"):
        if char in "\\\n\r\t":
            out.append({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}[char])
        elif char == " " or golden_strings.is_plain(char):
            out.append(char)
        else:
            out.append("".join(f"\\x{b:02x}" for b in char.encode("utf-8", "surrogateescape")))
    text = "".join(out)
    if text.startswith("#"):  # else a comment
        text = "\\x23" + text[1:]
    return text[:-1] + "\\x20" if text.endswith(" ") else text


def spaced(ids):
    return " ".join(map(str, ids))


class Model:
    def __init__(self, path):
        fields = gguf.GGUFReader(path).fields
        tokens = fields["tokenizer.ggml.tokens"].contents()
        types = fields["tokenizer.ggml.token_type"].contents()
        self.template = fields["tokenizer.chat_template"].contents()
        self.vocab = {t: i for i, t in enumerate(tokens)}
        self.merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
        self.special = [t for t, kind in zip(tokens, types) if kind == 3]

    def oracles(self):
        return {kind: Oracle(kind, self.vocab, self.merges, self.special) for kind in KINDS}


SMALL_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SMALL_WHOLE = ["quartz", "\u0120jukebox", "\u0120\u0120\u0120\u0120x", "\u00c3\u00a9t\u00c3\u00a9"]  # tokens that no merge makes


def train_small(strings):
    """A vocabulary of the special tokens, 256 bytes, SMALL_WHOLE and the results of 700 merges, in this order."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer("qwen2")
    bytes_ = [ALPHABET[b] for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=256 + 700, initial_alphabet=bytes_, show_progress=False)
    tokenizer.train_from_iterator(strings, trainer)
    merges = [tuple(m) for m in json.loads(tokenizer.to_str())["model"]["merges"]]
    tokens = SMALL_SPECIAL + bytes_ + SMALL_WHOLE
    merges = [m for m in merges if "".join(m) not in tokens]
    tokens += dict.fromkeys("".join(m) for m in merges)
    return {t: i for i, t in enumerate(tokens)}, merges


def write(name, comment, lines):
    (GOLDEN / name).write_bytes(f"# {comment}; written by tools/golden_text.py\n".encode() + "".join(line + "\n" for line in lines).encode())


def id_line(data, oracles, small):
    smollm = oracles["smollm"].encode(data)
    fields = [escape(data), spaced(smollm)]
    for kind in ("gpt2", "qwen2", "llama3"):
        ids = oracles[kind].encode(data)
        fields.append("=" if ids == smollm else hash32(ids))
    special = oracles["smollm"].encode(data, special=True)
    fields.append("=" if special == smollm else spaced(special))
    fields += [hash32(small[kind].encode(data) + [len(piece) for piece in small[kind].pieces(stand_in(data))]) for kind in KINDS]
    return "\t".join(fields)


def chat_lines(model, oracle):
    """Conversations with the ids of their prompt: the template's text by Jinja, tokenised in one go."""
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(model.template)
    for messages in golden_strings.conversations():
        text = template.render(messages=messages, add_generation_prompt=True)
        parts = [part for m in messages for part in (m["role"], escape(m["content"].encode()))]
        yield "\t".join([spaced(oracle.encode(text.encode(), special=True)), *parts])


def main():
    model = Model(sys.argv[1])
    strings = golden_strings.strings(model.special)
    texts = [s.decode() for s in strings if s.isascii() or s == s.decode("utf-8", "ignore").encode()]
    vocab, merges = train_small(texts)
    oracles = model.oracles()
    small = {kind: Oracle(kind, vocab, merges, SMALL_SPECIAL) for kind in KINDS}
    if "--show" in sys.argv:
        data = strings[int(sys.argv[sys.argv.index("--show") + 1]) - 2]  # line 1 is the comment
        print(escape(data))
        for name, group in (("model", oracles), ("small", small)):
            for kind in KINDS:
                print(name, kind, spaced(group[kind].encode(data)), list(group[kind].pieces(stand_in(data))))
        return
    write("text_ids.txt", "strings and their ids", (id_line(s, oracles, small) for s in strings))
    write("text_vocab.txt", "specials, whole tokens and merges of a small vocabulary",
          [*(f"special {t}" for t in SMALL_SPECIAL), *(f"whole {t}" for t in SMALL_WHOLE), *(f"merge {a} {b}".replace("\\", "\\\\") for a, b in merges)])
    write("text_chat.txt", "ids of a prompt, then role and content of each message", chat_lines(model, oracles["smollm"]))
    write("text_utf8.txt", "bytes and what they decode to, in hex",
          (f"{data.hex()} {data.decode('utf-8', 'replace').encode().hex()}" for data in golden_strings.broken_utf8()))


main()

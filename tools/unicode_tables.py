#!/usr/bin/env python3
"""Writes src/text/unicode_data.h: what the tokenizer must know of Unicode, as the reference tokenizer knows it.

The reference is Hugging Face `tokenizers`; its regex engine and its NFC each carry a Unicode version of their own. So both are
asked, code point by code point, and Python's own unicodedata serves as a proposal only, where it knows more than they tell.

    pip install tokenizers==0.23.3
    tools/unicode_tables.py          writes the header
    tools/unicode_tables.py --check  fails if the header differs from what would be written
"""
import pathlib
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

HEADER = pathlib.Path(__file__).resolve().parent.parent / "src/text/unicode_data.h"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
OTHER, LETTER, NUMBER, SPACE = range(4)
HANGUL = range(0xAC00, 0xD7A4)  # by arithmetic, not by table


def members(pattern):
    """Code points that the reference's regex engine puts into a character class."""
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return {c for c in CODE_POINTS if len(split.pre_tokenize_str(f"^{chr(c)}^")) > 1}


def class_runs():
    """(first code point, class) wherever the class changes."""
    classes = [OTHER] * 0x110000
    for pattern, value in ((r"\p{L}", LETTER), (r"\p{N}", NUMBER), (r"\s", SPACE)):
        for c in members(pattern):
            assert classes[c] == OTHER, f"U+{c:04X} is in two classes"
            classes[c] = value
    return [(c, classes[c]) for c in range(0x110000) if c == 0 or classes[c] != classes[c - 1]]


NFC = normalizers.NFC().normalize_str
NFD = normalizers.NFD().normalize_str


def decompositions():
    """Code point -> its canonical decomposition, one step (one or two code points), where the reference decomposes."""
    table = {}
    for c in CODE_POINTS:
        text = unicodedata.decomposition(chr(c))
        if c in HANGUL or NFD(chr(c)) == chr(c):
            continue
        assert text and not text.startswith("<"), f"U+{c:04X} decomposes for the reference only"
        table[c] = [int(part, 16) for part in text.split()]
    return table


def combining_classes():
    """Code point -> combining class, where the reference reorders by it."""
    table = {}
    for c in CODE_POINTS:
        value = unicodedata.combining(chr(c))
        low, high = "\u0334", "\u0345"  # classes 1 and 240, the ends of the scale
        after_high, before_low = NFD(high + chr(c)), NFD(chr(c) + low)
        moves = (value < 240 and after_high != high + NFD(chr(c))) or (value > 1 and before_low != NFD(chr(c)) + low)
        if value and moves:
            table[c] = value
        else:
            assert value == 0 or not moves, hex(c)
    return table


def runs_of(table):
    """Neighbouring code points of equal value as (first, length, value); a length fits a byte."""
    runs = []
    for c, value in sorted(table.items()):
        if runs and runs[-1][0] + runs[-1][1] == c and runs[-1][2] == value and runs[-1][1] < 255:
            runs[-1][1] += 1
        else:
            runs.append([c, 1, value])
    return runs


def lines(values, width=128):
    out, line = [], ""
    for value in values:
        if len(line) + len(value) + 2 > width:
            out.append("    " + line.rstrip())
            line = ""
        line += value + ", "
    return "\n".join(out + ["    " + line.rstrip()])


def array(kind, name, comment, values):
    return f"/* {comment} */\nstatic const {kind} {name}[] = {{\n{lines(values)}\n}};\n"


def header():
    runs = class_runs()
    table = decompositions()
    low_pairs = [(c, *d) for c, d in sorted(table.items()) if len(d) == 2 and c < 0x10000]
    low_singles = [(c, *d) for c, d in sorted(table.items()) if len(d) == 1 and c < 0x10000 and d[0] < 0x10000]
    high_singles = [(c, *d) for c, d in sorted(table.items()) if len(d) == 1 and c >= 0x10000]
    rest = set(table) - {p[0] for p in low_pairs + low_singles + high_singles}
    high_pairs = [(c, table[c][0], table[c][1] if len(table[c]) == 2 else 0) for c in sorted(rest)]
    assert all(max(p) < 0x10000 for p in low_pairs)
    first = high_singles[0][0]
    assert [c for c, _ in high_singles] == list(range(first, first + len(high_singles))), "no longer one range"

    def composes(pair):
        return pair[2] != 0 and NFC(chr(pair[1]) + chr(pair[2])) == chr(pair[0])

    order = sorted((i for i, p in enumerate(low_pairs) if composes(p)), key=lambda i: low_pairs[i][1:])
    marks = runs_of(combining_classes())
    low_marks = [m for m in marks if m[0] < 0x10000]
    high_marks = [m for m in marks if m[0] >= 0x10000]
    return "\n".join(
        [
            f"/* unicode_data.h: written by tools/unicode_tables.py from tokenizers {tokenizers.__version__}; do not edit. */",
            "// clang-format off",
            "#ifndef FR_TEXT_UNICODE_DATA_H",
            "#define FR_TEXT_UNICODE_DATA_H",
            "",
            "#include <stdint.h>",
            "",
            array("uint32_t", "class_runs", "first code point << 2 | class (fr_class), where the class changes",
                  [f"{c << 2 | v:#x}" for c, v in runs]),
            "typedef struct nfc_pair {\n    uint16_t code, first, second;\n} nfc_pair;",
            "typedef struct nfc_high_pair {\n    uint32_t code, first, second;\n    uint32_t composes;\n} nfc_high_pair;",
            "typedef struct nfc_single {\n    uint16_t code, to;\n} nfc_single;",
            "typedef struct nfc_marks {\n    uint16_t first; /* behind `base` */\n    uint8_t count, combining;\n} nfc_marks;\n",
            array("nfc_pair", "nfc_pairs", "canonical decompositions into two, by code", [f"{{{c:#x}, {a:#x}, {b:#x}}}" for c, a, b in low_pairs]),
            array("uint16_t", "nfc_composing", "those of nfc_pairs that also compose, by (first, second)", [str(i) for i in order]),
            array("nfc_high_pair", "nfc_high_pairs", "those that do not fit there, by code; second is 0 if there is none",
                  [f"{{{p[0]:#x}, {p[1]:#x}, {p[2]:#x}, {int(composes(p))}}}" for p in high_pairs]),
            array("nfc_single", "nfc_singles", "canonical decompositions into one, by code", [f"{{{c:#x}, {a:#x}}}" for c, a in low_singles]),
            f"enum {{ NFC_HIGH_SINGLES = {first:#x} }};",
            array("uint32_t", "nfc_high_singles", "and from U+%X on, all of them" % first, [f"{a:#x}" for _, a in high_singles]),
            array("nfc_marks", "nfc_low_marks", "combining classes other than 0, up to U+FFFF", [f"{{{c:#x}, {n}, {v}}}" for c, n, v in low_marks]),
            array("nfc_marks", "nfc_high_marks", "the same from U+10000 on", [f"{{{c - 0x10000:#x}, {n}, {v}}}" for c, n, v in high_marks]),
            "#endif",
            "",
        ]
    )


def main():
    text = header()
    if "--check" in sys.argv[1:]:
        if HEADER.read_text() != text:
            sys.exit(f"{HEADER} differs from what this script and tokenizers {tokenizers.__version__} give; run it without --check")
        return
    HEADER.write_text(text)


main()

#!/usr/bin/env python3
"""Writes an ONNX model of random weights with the shapes and the tokenizer of a GGUF file, for Transformers.js: make_onnx.py MODEL.gguf FOLDER [f16]

The graph is what exporters make for onnxruntime-web: MatMulNBits (4 bits, blocks of 32, symmetric) for every matrix, GroupQueryAttention with
rotary embedding inside, fused norms; the head sees the last token only. Activations, caches and the embedding are f32, or f16.
Needs onnx and numpy (deps/plots).
"""

import json
import os
import struct
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

BLOCK = 32
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


def read_metadata(path):
    """Key > value of a GGUF file."""
    with open(path, "rb") as file:

        def take(form):
            return struct.unpack(form, file.read(struct.calcsize(form)))[0]

        def text():
            return file.read(take("<Q")).decode("utf-8", "replace")

        def value(kind):
            if kind == 8:
                return text()
            if kind == 9:
                item, count = take("<I"), take("<Q")
                return [value(item) for _ in range(count)]
            return take(SCALARS[kind])

        if file.read(4) != b"GGUF":
            sys.exit(f"make_onnx.py: {path} is no GGUF file")
        take("<I")
        take("<Q")
        pairs = take("<Q")
        found = {}
        for _ in range(pairs):
            key = text()
            found[key] = value(take("<I"))
        return found


class Graph:
    def __init__(self, meta, f16):
        arch = meta["general.architecture"]
        self.meta = meta
        self.layers, self.dim, self.ffn = (meta[f"{arch}.{k}"] for k in ("block_count", "embedding_length", "feed_forward_length"))
        self.heads, self.kv_heads = meta[f"{arch}.attention.head_count"], meta[f"{arch}.attention.head_count_kv"]
        self.head_dim = meta.get(f"{arch}.attention.key_length", self.dim // self.heads)
        self.eps = meta[f"{arch}.attention.layer_norm_rms_epsilon"]
        self.base = meta[f"{arch}.rope.freq_base"]
        self.vocab = len(meta["tokenizer.ggml.tokens"])
        self.bias = arch == "qwen2"
        self.context = min(meta[f"{arch}.context_length"], 4096)
        self.kind = TensorProto.FLOAT16 if f16 else TensorProto.FLOAT
        self.type = np.float16 if f16 else np.float32
        self.rng = np.random.default_rng(0)
        self.nodes, self.tensors = [], []

    def tensor(self, name, array):
        self.tensors.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, kind, inputs, outputs, name, domain="com.microsoft", **attributes):
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def product(self, name, x, rows, cols, sigma):
        """x times a matrix [rows][cols] of 4-bit codes, whose deviation is 4.6 steps."""
        blocks = cols // BLOCK
        codes = self.tensor(name + ".codes", self.rng.integers(0, 256, (rows, blocks, BLOCK // 2), dtype=np.uint8))
        scales = self.tensor(name + ".scales", ((0.75 + 0.5 * self.rng.random(rows * blocks)) * sigma / 4.6).astype(self.type))
        return self.node("MatMulNBits", [x, codes, scales], [name + ".out"], name, K=cols, N=rows, bits=4, block_size=BLOCK, accuracy_level=4)

    def norm(self, name, x, skip=None):
        """The norm of x, and x, which is x + skip first if there is that."""
        gain = self.tensor(name + ".gain", np.ones(self.dim, self.type))
        if skip is None:
            return self.node("SimplifiedLayerNormalization", [x, gain], [name + ".out"], name, domain="", axis=-1, epsilon=self.eps, stash_type=1), x
        self.node("SkipSimplifiedLayerNormalization", [x, skip, gain], [name + ".out", "", "", name + ".sum"], name, epsilon=self.eps)
        return name + ".out", name + ".sum"

    def layer(self, i, x, skip):
        p, width = f"layer{i}.", self.heads * self.head_dim
        rows, sigma = width + 2 * self.kv_heads * self.head_dim, self.dim**-0.5
        h, x = self.norm(p + "norm1", x, skip)
        h = self.product(p + "qkv", h, rows, self.dim, sigma)
        if self.bias:
            h = self.node("Add", [h, self.tensor(p + "qkv.bias", np.zeros(rows, self.type))], [p + "biased"], p + "bias", domain="")
        past, present = f"past_key_values.{i}.", f"present.{i}."
        h = self.node("GroupQueryAttention", [h, "", "", past + "key", past + "value", "seqlens_k", "total", "cos", "sin"],
                      [p + "attention.out", present + "key", present + "value"], p + "attention", num_heads=self.heads, kv_num_heads=self.kv_heads,
                      do_rotary=1, rotary_interleaved=0, scale=self.head_dim**-0.5)
        h, x = self.norm(p + "norm2", x, self.product(p + "o", h, self.dim, width, width**-0.5))
        gate, up = (self.product(p + n, h, self.ffn, self.dim, sigma) for n in ("gate", "up"))
        s = self.node("Sigmoid", [gate], [p + "sigmoid.out"], p + "sigmoid", domain="")
        s = self.node("Mul", [gate, s], [p + "silu.out"], p + "silu", domain="")
        s = self.node("Mul", [s, up], [p + "hidden.out"], p + "hidden", domain="")
        return x, self.product(p + "down", s, self.dim, self.ffn, self.ffn**-0.5)

    def positions(self):
        """Inputs of the attention that follow from the mask, and the rotary tables."""
        one = self.tensor("one", np.array([1], np.int64))
        total = self.node("ReduceSum", ["attention_mask", one], ["sum"], "sum", domain="", keepdims=0)
        self.node("Sub", [total, one], ["last"], "last", domain="")
        self.node("Cast", ["last"], ["seqlens_k"], "seqlens_k", domain="", to=TensorProto.INT32)
        self.node("Shape", ["attention_mask"], ["mask_shape"], "mask_shape", domain="")
        self.node("Gather", ["mask_shape", self.tensor("axis", np.array(1, np.int64))], ["total64"], "total64", domain="", axis=0)
        self.node("Cast", ["total64"], ["total"], "total", domain="", to=TensorProto.INT32)
        angles = np.outer(np.arange(self.context), self.base ** (-np.arange(0, self.head_dim, 2) / self.head_dim))
        self.tensor("cos", np.cos(angles).astype(self.type))
        self.tensor("sin", np.sin(angles).astype(self.type))

    def build(self):
        self.positions()
        table = self.tensor("embedding", (self.rng.standard_normal((self.vocab, self.dim), dtype=np.float32) * 0.1).astype(self.type))
        x, skip = self.node("Gather", [table, "input_ids"], ["embedded"], "embed", domain="", axis=0), None
        for i in range(self.layers):
            x, skip = self.layer(i, x, skip)
        h, _ = self.norm("norm", x, skip)
        h = self.node("Gather", [h, self.tensor("end", np.array([-1], np.int64))], ["last_hidden"], "last_hidden", domain="", axis=1)
        self.product("logits", h, self.vocab, self.dim, 3 * self.dim**-0.5)
        self.nodes[-1].output[0] = "logits"
        cache = ["batch_size", self.kv_heads, "past_sequence_length", self.head_dim]
        inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]), helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"])]
        outputs = [helper.make_tensor_value_info("logits", self.kind, ["batch_size", 1, self.vocab])]
        for i in range(self.layers):
            for part in ("key", "value"):
                inputs.append(helper.make_tensor_value_info(f"past_key_values.{i}.{part}", self.kind, cache))
                outputs.append(helper.make_tensor_value_info(f"present.{i}.{part}", self.kind, ["batch_size", self.kv_heads, "total_sequence_length", self.head_dim]))
        graph = helper.make_graph(self.nodes, "forerun-bench", inputs, outputs, self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False)


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["f16"]):
        print("usage: make_onnx.py MODEL.gguf FOLDER [f16]", file=sys.stderr)
        return 2
    path, folder, f16 = sys.argv[1], sys.argv[2], len(sys.argv) == 4
    meta = read_metadata(path)
    graph = Graph(meta, f16)
    os.makedirs(os.path.join(folder, "onnx"), exist_ok=True)
    onnx.save(graph.build(), os.path.join(folder, "onnx", "model_q4f16.onnx" if f16 else "model_q4.onnx"))
    tokens, eos = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.eos_token_id"]
    special = [i for i, kind in enumerate(meta["tokenizer.ggml.token_type"]) if kind == 3]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    write_json(folder, "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [{"id": i, "content": tokens[i], **flags} for i in special], "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                  "vocab": {t: i for i, t in enumerate(tokens)}, "merges": meta["tokenizer.ggml.merges"]}})
    write_json(folder, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizer", "model_max_length": graph.context, "eos_token": tokens[eos], "clean_up_tokenization_spaces": False})
    write_json(folder, "generation_config.json", {"eos_token_id": eos, "bos_token_id": eos, "pad_token_id": eos})
    write_json(folder, "config.json", {
        "model_type": meta["general.architecture"], "architectures": ["Qwen2ForCausalLM" if graph.bias else "LlamaForCausalLM"], "hidden_size": graph.dim, "intermediate_size": graph.ffn,
        "num_hidden_layers": graph.layers, "num_attention_heads": graph.heads, "num_key_value_heads": graph.kv_heads, "head_dim": graph.head_dim, "vocab_size": graph.vocab,
        "max_position_embeddings": graph.context, "eos_token_id": eos, "bos_token_id": eos, "rms_norm_eps": graph.eps, "rope_theta": graph.base, "hidden_act": "silu",
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}})
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""llama.cpp reads the GGUF files that `phidias convert` writes, and goes on with the same tokens.

Usage: llama_cpp_test.py PROGRAM REFERENCE_DATA REAL_MODEL. Skipped (status 77) where the package llama_cpp is not installed.

Both sides hold the weights in f32 and the cache in f32, so only the order of sums differs. Steps are compared until
one whose two best logits are closer than NEAR: from there on either choice is right.
"""
import ctypes
import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import llama_cpp
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PROGRAM = sys.argv.pop(1)
REFERENCE = Path(sys.argv.pop(1))
REAL = Path(sys.argv.pop(1))

NEAR = 1e-2
STEPS = 24
GGML_F32 = 0
TINY = ["mini-4k", "medium-4k", "phi-4"]
# llama.cpp picks LongRoPE's list by another rule and knows no window: these are only loaded, those only compared
# while the window sees everything.
LONG = ["mini-128k", "phi-4-mini", "medium-128k-su"]


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8")
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def read_safetensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    types = {"F32": numpy.float32, "I64": numpy.int64}
    return {name: numpy.frombuffer(data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]],
                                   types[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in json.loads(data[8:8 + length]).items() if name != "__metadata__"}


def open_peer(path, context):
    return llama_cpp.Llama(str(path), n_ctx=context, n_threads=2, n_threads_batch=2, type_k=GGML_F32, type_v=GGML_F32,
                           flash_attn=False, verbose=False)


def greedy(peer, ids, steps):
    """Tokens, and the logits each was taken from."""
    tokens, rows = [], []
    peer.reset()
    peer.eval(ids)
    for _ in range(steps):
        row = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(peer._ctx.ctx, -1), (peer.n_vocab(),)).copy()
        rows.append(row)
        tokens.append(int(row.argmax()))
        peer.eval(tokens[-1:])
    return tokens, rows


class LlamaCpp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compare(self, model, ids, context, steps=STEPS):
        if not model.exists():
            self.skipTest(f"not found: {model}")
        gguf = self.folder / "model.gguf"
        run("convert", "-m", model, "-o", gguf, "--type", "f32")
        out = self.folder / "out.safetensors"
        run("logits", "-m", gguf, "--numerics", "exact", "--ids", ",".join(map(str, ids)), "--generate", steps, "-o", out)
        ours = read_safetensors(out)
        peer = open_peer(gguf, context)
        tokens, rows = greedy(peer, ids, steps)
        compared = 0
        for step in range(steps):
            best = numpy.sort(ours["step_logits"][step])[-2:]
            if best[1] - best[0] < NEAR:
                break
            self.assertEqual(tokens[step], int(ours["tokens"][step]), f"step {step} of {model.name}")
            largest = numpy.abs(ours["step_logits"][step]).max()
            self.assertLess(numpy.abs(rows[step] - ours["step_logits"][step]).max(), 1e-3 * largest, f"step {step}")
            compared += 1
        return peer, compared

    def real_ids(self, model, text):
        return [int(i) for i in run("tokenize", "-m", model, "--text", text).split()]

    def test_tiny_checkpoints_give_the_same_tokens(self):
        for name in TINY:
            with self.subTest(name):
                model = REFERENCE / "models" / name
                if not model.exists():
                    self.skipTest(f"not found: {model}")
                config = json.loads((model / "config.json").read_text())
                window = config["sliding_window"] or 48
                compared = 0
                for first in [3, 50, 90]:
                    ids = [(7 * i + first) % (config["vocab_size"] - 1) for i in range(window // 2)]
                    compared += self.compare(model, ids, 64, window - len(ids) + 1)[1]
                self.assertGreater(compared, 4)

    def test_long_rope_files_are_read(self):
        for name in LONG:
            with self.subTest(name):
                model = REFERENCE / "models" / name
                if not model.exists():
                    self.skipTest(f"not found: {model}")
                gguf = self.folder / "model.gguf"
                run("convert", "-m", model, "-o", gguf)
                tokens, _ = greedy(open_peer(gguf, 64), [1, 2, 3], 2)
                self.assertEqual(len(tokens), 2)

    def test_the_real_model_gives_the_same_tokens_and_ids(self):
        text = "The water of the lake was so cold that"
        for name in ["phi3", "llama"]:
            with self.subTest(name):
                model = REAL / name
                if not model.exists():
                    self.skipTest(f"not made: {model}")
                peer, compared = self.compare(model, self.real_ids(model, text), 256)
                self.assertGreater(compared, 4)
                for sample in [text, "<|im_start|>user\nWho? 12345 of 67<|im_end|>\n", "  é\tdef f(x):\n    return x**2"]:
                    self.assertEqual(peer.tokenize(sample.encode(), add_bos=False, special=True),
                                     self.real_ids(model, sample), sample)
                self.assertIn("<|im_start|>", peer.metadata["tokenizer.chat_template"])

    def test_control_vectors_steer_alike(self):
        """A direction of our layer l is llama.cpp's of its layer l: the same file steers both the same way."""
        model = REAL / "llama"
        if not model.exists():
            self.skipTest(f"not made: {model}")
        gguf, pairs, joy = (self.folder / name for name in ["model.gguf", "pairs.jsonl", "joy.gguf"])
        run("convert", "-m", model, "-o", gguf, "--type", "f32")
        pairs.write_text("".join(
            json.dumps({"positive": f"I am so happy about {thing}!", "negative": f"I am so sad about {thing}."}) + "\n"
            for thing in ["the weather", "my garden", "this day", "your letter"]))
        run("vector", "-m", gguf, "--numerics", "exact", "--pairs", pairs, "--method", "mean", "-o", joy)
        ids = self.real_ids(model, "Today the old man walked to the lake and")
        out = self.folder / "out.safetensors"

        def ours(*edit):
            run("trace", "-m", gguf, "--numerics", "exact", "--ids", ",".join(map(str, ids)), *edit,
                "--read", "logits", "--read", "layers[*].layer_output", "-o", out)
            return read_safetensors(out)

        plain, steered = ours(), ours("--edit", f"layers[*].layer_output += 1.5 * {joy}")
        layers = sum(name.startswith("layers.") for name in plain)
        width = plain["layers.0.layer_output"].shape[-1]
        # The directions, as the first layer that differs and those behind it have them.
        directions = numpy.zeros((layers - 1, width), numpy.float32)
        for layer in range(1, layers):
            run("trace", "-m", gguf, "--numerics", "exact", "--ids", "1", "--read", f"layers[{layer}].layer_output",
                "--edit", f"layers[{layer}].layer_output = 0", "--edit",
                f"layers[{layer}].layer_output += 1 * {joy}", "-o", out)
            directions[layer - 1] = read_safetensors(out)[f"layers.{layer}.layer_output"][0, 0]
        peer = open_peer(gguf, 64)
        data = numpy.ascontiguousarray(1.5 * directions)
        pointer = data.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        llama_cpp.llama_set_adapter_cvec(peer._ctx.ctx, pointer, data.size, width, 1, layers - 1)
        theirs = greedy(peer, ids, 1)[1][0]
        largest = numpy.abs(theirs).max()
        self.assertLess(numpy.abs(theirs - steered["logits"][0, -1]).max(), 1e-3 * largest)
        self.assertGreater(numpy.abs(theirs - plain["logits"][0, -1]).max(), 0.05 * largest)
        self.assertTrue((plain["layers.0.layer_output"] == steered["layers.0.layer_output"]).all())

    def test_quantized_files_are_read(self):
        if not (REAL / "phi3").exists():
            self.skipTest("the real model has not been made")
        for recipe in ["q8_0", "q4_k_m", "q5_0"]:
            with self.subTest(recipe):
                gguf = self.folder / f"{recipe}.gguf"
                run("quantize", "-m", REAL / "phi3", "-o", gguf, "--type", recipe)
                peer = open_peer(gguf, 128)
                tokens, _ = greedy(peer, self.real_ids(REAL / "phi3", "One, two, three, four,"), 4)
                self.assertIn("five", peer.detokenize(tokens).decode())


if __name__ == "__main__":
    unittest.main()

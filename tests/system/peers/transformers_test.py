#!/usr/bin/env python3
"""transformers loads the folders that `phidias export --hf` writes, and goes on with the same tokens.

Usage: transformers_test.py PROGRAM REFERENCE_DATA REAL_MODEL. Skipped (status 77) where torch or transformers is not
installed.

Each model goes from its folder to GGUF and from there to a new folder, which transformers reads. Both sides compute in
f32, so only the order of sums differs. Steps are compared until one whose two best logits are closer than NEAR: from
there on either choice is right. transformers runs the whole sequence for each step, as the definition of LongRoPE's
choice of factors asks for.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
try:
    import numpy
    import torch
    import transformers
    from safetensors.numpy import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PROGRAM = sys.argv.pop(1)
REFERENCE = Path(sys.argv.pop(1))
REAL = Path(sys.argv.pop(1))

NEAR = 1e-2
TINY = ["mini-4k", "medium-4k", "mini-128k", "medium-128k-su", "phi-4", "phi-4-mini", "wide-bf16", "phimoe"]
# Windows and the switch of LongRoPE's list lie inside.
TINY_PROMPT, TINY_STEPS = 12, 12
# transformers 5.24 rotates phimoe by the short list at every length.
SHORT_LIST_ALONE = ["phimoe"]


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8")
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


class Transformers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def exported(self, model, *options):
        gguf, folder = self.folder / f"{model.name}.gguf", self.folder / model.name
        run("convert", "-m", model, "-o", gguf)
        run("export", "-m", gguf, "--hf", folder, *options)
        return folder

    def compare(self, model, folder, ids, steps):
        """Of the model as it was and transformers' pass over the exported folder; how many steps agreed."""
        out = self.folder / "out.safetensors"
        run("logits", "-m", model, "--numerics", "exact", "--ids", ",".join(map(str, ids)), "--generate", steps, "-o", out)
        ours = load_file(out)
        peer = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        peer.eval()
        sequence = list(ids)
        for step in range(steps):
            with torch.no_grad():
                logits = peer(torch.tensor([sequence]), use_cache=False).logits[0].numpy()
            if step == 0:
                self.close(logits, ours["logits"][0], f"{model.name}, the prompt")
            expected = ours["step_logits"][step]
            self.close(logits[-1], expected, f"{model.name}, step {step}")
            best = numpy.sort(expected)[-2:]
            if best[1] - best[0] < NEAR:
                return step
            token = int(logits[-1].argmax())
            self.assertEqual(token, int(ours["tokens"][step]), f"{model.name}, step {step}")
            sequence.append(token)
        return steps

    def close(self, theirs, ours, what):
        self.assertEqual(theirs.shape, ours.shape, what)
        self.assertLess(numpy.abs(theirs - ours).max(), 1e-4 * numpy.abs(ours).max(), what)

    def test_tiny_checkpoints_give_the_same_tokens(self):
        for name in TINY:
            with self.subTest(name):
                model = REFERENCE / "models" / name
                if not model.exists():
                    self.skipTest(f"not found: {model}")
                config = json.loads((model / "config.json").read_text())
                original = config.get("original_max_position_embeddings", 16)
                steps = original - TINY_PROMPT if name in SHORT_LIST_ALONE else TINY_STEPS
                folder = self.exported(model, "--type", "bf16" if name == "wide-bf16" else "f32")
                agreed = sum(self.compare(model, folder, [(7 * i + first) % (config["vocab_size"] - 1)
                                                         for i in range(TINY_PROMPT)], steps)
                             for first in (5, 52, 90))
                self.assertGreater(agreed, steps)

    def test_the_real_model_gives_the_same_tokens_from_shards(self):
        model = REAL / "phi3"
        if not model.exists():
            self.skipTest(f"not made: {model}")
        folder = self.exported(model, "--shard-gb", "0.1")
        self.assertGreater(len(list(folder.glob("model-*-of-*.safetensors"))), 2)
        text = "The water of the lake was so cold that"
        ids = [int(i) for i in run("tokenize", "-m", model, "--text", text).split()]
        self.assertGreater(self.compare(model, folder, ids, 16), 4)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.assertEqual(tokenizer(text, add_special_tokens=False)["input_ids"], ids)
        turns = [{"role": "user", "content": "Who?"}]
        original = transformers.AutoTokenizer.from_pretrained(model)
        self.assertEqual(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True),
                         original.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The built command as a user runs it: formats, exit statuses, messages. Usage: command_test.py PROGRAM DATA_FOLDER"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1)
DATA = Path(sys.argv.pop(1))
MINI = DATA / "models" / "mini-128k"
WINDOW = DATA / "models" / "mini-4k"


def run(*arguments, stdin=None, status=0, environment=None):
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True, encoding="utf-8",
                          timeout=120, env={**os.environ, **(environment or {})})
    if status is not None and done.returncode != status:
        raise AssertionError(f"exit status {done.returncode}, expected {status}: {done.stderr}")
    return done


def read_safetensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return {name: (entry["dtype"], entry["shape"], data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def logits(self, *arguments, model=MINI):
        path = self.folder / "out.safetensors"
        run("logits", "-m", model, "-o", path, *arguments)
        return read_safetensors(path)

    def test_help_names_every_command_and_the_exit_statuses(self):
        text = run("--help").stdout
        for word in ("chat", "generate", "pull", "inspect", "tokenize", "detokenize", "render", "logits", "perplexity", "version", "Exit status"):
            self.assertIn(word, text)
        for command in ("chat", "generate", "pull", "inspect", "tokenize", "detokenize", "render", "logits", "perplexity"):
            self.assertIn("-", run(command, "--help").stdout)

    def test_wrong_usage_is_status_2_and_failure_is_status_1(self):
        run(status=2)
        run("no-such-command", status=2)
        wrong = run("generate", "-m", MINI, "--numerics", "quick", status=2)
        self.assertIn("quick", wrong.stderr)
        self.assertIn("phidias generate --help", wrong.stderr)
        self.assertIn('no command "no-such-command"', run("no-such-command", status=2).stderr)
        self.assertIn("--ids-file", run("trace", "-m", MINI, "--read", "logits", status=1).stderr)
        done = run("generate", "-m", self.folder / "absent", "-p", "x", status=1)
        self.assertIn("absent", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_common_mistakes_are_told_what_to_do(self):
        gguf = self.folder / "a.gguf"
        gguf.write_bytes(b"GGUF")
        mistakes = [
            (["bench", "--cache", "q8"], "did you mean --kv"),
            (["generate", "-m", MINI, "hi"], "a text is given with -p"),
            (["generate", "-m", MINI, "-p", "hello", "world"], "in quotes"),
            (["inspect", MINI], "the model is given with -m"),
            (["perplexity", "-m", MINI, gguf], "a file is given with --file"),
            (["generate", "-m", MINI, "--ctx", "0"], "--ctx: 0 is not above 0"),
            (["generate", "-m", MINI, "--numerics", "quick"], "--numerics takes one of exact, fast"),
        ]
        for arguments, answer in mistakes:
            self.assertIn(answer, run(*arguments, status=2).stderr, arguments)
        self.assertIn("such as a.gguf", run("generate", "-m", self.folder, "--ids", "5", status=1).stderr)
        absent = run("generate", "-m", "models/absent.gguf", "--ids", "5", status=1).stderr
        self.assertEqual(absent, "phidias: models/absent.gguf: there is no such file or folder\n")
        self.assertIn("-o FILE", run("trace", "-m", MINI, "--ids", "5", "--read", "logits").stderr)

    def test_version_names_kernels_and_formats(self):
        text = run("version").stdout
        told = json.loads(run("version", "--json").stdout)
        self.assertIn(f"phidias {told['version']} ", text)
        self.assertTrue(told["kernels"]["scalar"])
        self.assertIn("phi3", told["model_types"])
        for name in [*told["kernels"], *told["formats"]]:
            self.assertIn(name, text)
        for word in ("phidias", "scalar", "phi3", "llama", "Q4_K"):
            self.assertIn(word, text)

    def test_logits_have_the_stated_tensors(self):
        tensors = self.logits("--ids", "5,6,7", "--generate", "4")
        self.assertEqual(tensors["logits"][:2], ("F32", [1, 3, 320]))
        self.assertEqual(tensors["tokens"][:2], ("I64", [4]))
        self.assertEqual(tensors["step_logits"][:2], ("F32", [4, 320]))
        # The first step's logits are those of the prompt's last position.
        self.assertEqual(tensors["logits"][2][-320 * 4:], tensors["step_logits"][2][:320 * 4])

    def test_chunks_neighbours_and_threads_change_no_bit(self):
        ids = ",".join(str(4 + i * 13 % 300) for i in range(15))
        for numerics in ("exact", "fast"):
            common = ("--ids", ids, "--generate", "6", "--numerics", numerics)
            expected = self.logits(*common, "-t", "1")
            for other in (("--chunk", "4"), ("--batch-with", "7,8,9;11;" + ids + ",20,21"), ("--chunk", "3", "--batch-with", "9,9", "-t", "2")):
                self.assertEqual(self.logits(*common, *other), expected, (numerics, other))

    def test_output_that_is_no_regular_file_is_written_in_place(self):
        done = subprocess.run([PROGRAM, "logits", "-m", str(MINI), "--ids", "5", "-o", "/dev/stdout"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b'"logits"', done.stdout)

    def test_perplexity_is_json_with_windows(self):
        ids = self.folder / "ids.txt"
        ids.write_text(" ".join(str(4 + i * 7 % 310) for i in range(70)))
        common = ("perplexity", "-m", MINI, "--ids-file", ids, "--window", "20", "--json", "--numerics", "exact")
        result = json.loads(run(*common).stdout)
        self.assertEqual(len(result["windows"]), 3)
        self.assertEqual(result["tokens"], 3 * 19)
        saved = self.folder / "saved.safetensors"
        run(*common, "--save-logits", saved)
        self.assertEqual(read_safetensors(saved)["log_probabilities"][:2], ("F16", [57, 320]))
        compared = json.loads(run(*common, "--against", saved).stdout)
        self.assertLess(abs(compared["kl_mean"]), 1e-3)
        self.assertEqual(compared["same_best"], 1)
        self.assertIn("--ctx", run("perplexity", "-m", MINI, "--ids-file", ids, "--window", "9999", status=None).stderr + "--ctx")
        self.assertIn("does not fit", run("perplexity", "-m", WINDOW, "--ids-file", ids, "--window", "30", "--against", saved, status=1).stderr)

    def test_generate_gives_ids_where_there_is_no_tokenizer(self):
        done = run("generate", "-m", MINI, "--ids", "5,6,7", "-n", "5", "--json", "--stop-ids", "", "--logprobs", "2")
        choice = json.loads(done.stdout)["choices"][0]
        self.assertEqual(len(choice["ids"]), 5)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(len(choice["logprobs"][0]["top"]), 2)
        self.assertIn("tokenizer", run("generate", "-m", MINI, "-p", "hello", status=1).stderr)
        self.assertIn("token id", run("generate", "-m", MINI, "--ids", "5,x", status=1).stderr)
        self.assertIn("vocabulary", run("generate", "-m", MINI, "--ids", "99999", status=1).stderr)
        self.assertIn("no tokenizer", run("chat", "-m", MINI, stdin="hi\n", status=1).stderr)

    def test_a_prompt_that_fills_the_context_is_refused_with_both_lengths(self):
        error = run("generate", "-m", MINI, "--ids", ",".join(["5"] * 130), status=1).stderr
        self.assertIn("130", error)
        self.assertIn("128", error)
        self.assertIn("128", run("generate", "-m", MINI, "--ids", "5", "--ctx", "8192", status=1).stderr)

    def test_inspect_states_sizes_by_the_formula(self):
        report = json.loads(run("inspect", "-m", MINI, "--json").stdout)
        self.assertEqual(report["problems"], [])
        self.assertEqual(report["kv_bytes_per_position"]["f16"], 2 * report["num_layers"] * report["num_kv_heads"] * report["head_dim"] * 2)
        self.assertEqual(report["weight_bytes"], report["parameters"] * 4)
        self.assertEqual(report["config"]["model_type"], "phi3")
        self.assertIn("LongRoPE", run("inspect", "-m", MINI).stdout)

    def test_inspect_works_on_a_configuration_alone(self):
        # Phi-3-mini-128k: 48 GiB of f16 cache at its full context.
        config = {"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32, "num_attention_heads": 32,
                  "num_key_value_heads": 32, "vocab_size": 32064, "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
                  "rms_norm_eps": 1e-5, "rope_scaling": {"type": "su", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}}
        (self.folder / "config.json").write_text(json.dumps(config))
        report = json.loads(run("inspect", "-m", self.folder, "--json").stdout)
        self.assertEqual(report["kv_bytes_per_position"]["f16"], 393216)
        self.assertIn("48.00 GiB", run("inspect", "-m", self.folder).stdout)
        self.assertIn("no model.safetensors", run("generate", "-m", self.folder, "--ids", "5", status=1).stderr)

    def broken(self, change):
        copy = self.folder / "model"
        if copy.exists():
            shutil.rmtree(copy)
        shutil.copytree(MINI, copy)
        change(copy)
        return run("generate", "-m", copy, "--ids", "5", "-n", "1", status=1).stderr

    def test_each_broken_checkpoint_has_its_own_sentence(self):
        def config(**changes):
            def change(folder):
                path = folder / "config.json"
                content = json.loads(path.read_text())
                for key, value in changes.items():
                    if value is None:
                        del content[key]
                    else:
                        content[key] = value
                path.write_text(json.dumps(content))
            return change

        weights = "model.safetensors"
        cases = [
            (lambda f: (f / weights).write_bytes((f / weights).read_bytes()[:-10]), weights),
            (lambda f: (f / weights).write_bytes((f / weights).read_bytes() + b"0" * 16), weights),
            (lambda f: (f / weights).write_bytes(struct.pack("<Q", 1 << 63)), weights),
            (lambda f: (f / weights).write_bytes(b""), weights),
            (lambda f: (f / weights).write_bytes((f / weights).read_bytes().replace(b"model.norm.weight", b"model.nurm.weight")), "model.nurm.weight"),
            (lambda f: (f / "config.json").write_text("{"), "config.json"),
            (lambda f: (f / "config.json").unlink(), "config.json"),
            (config(model_type="banana"), "banana"),
            (config(hidden_size=None), "hidden_size"),
            (config(vocab_size=321), "lm_head.weight"),
            (config(num_hidden_layers=4), "layers.3"),
            (config(rope_scaling={"type": "banana"}), "banana"),
        ]
        for change, word in cases:
            error = self.broken(change)
            self.assertIn(word, error)
            self.assertTrue(error.startswith("phidias: "), error)

    def test_paths_outside_ascii_open_under_any_locale(self):
        copy = self.folder / "модели 模型"
        shutil.copytree(MINI, copy)
        run("generate", "-m", copy, "--ids", "5", "-n", "1", environment={"LC_ALL": "C"})
        self.assertIn("あ.gguf", run("generate", "-m", self.folder / "あ.gguf", "--ids", "5", status=1, environment={"LC_ALL": "C"}).stderr)

    def test_render_takes_templates_in_the_lines(self):
        lines = [
            {"template": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", "messages": [{"role": "user", "content": "你好"}]},
            {"template": "{{ raise_exception('no') }}", "messages": []},
            {"template": "{{ x + 1 }}", "context": {"x": 2}},
        ]
        done = run("render", "--jsonl", stdin="".join(json.dumps(line) + "\n" for line in lines) + "not json\n")
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(answers[0], {"text": "<user>你好"})
        self.assertEqual(answers[1], {"error": "no"})
        self.assertEqual(answers[2], {"text": "3"})
        self.assertIn("error", answers[3])

    def test_json_lines_go_in_and_come_out_line_by_line(self):
        tokenizer = next(path.parent for path in sorted((DATA / "tokenizers").glob("*/tokenizer.json")))
        texts = ["hello", "", "a\u2028b\nc", "\u00e9\U0001f98a"]
        done = run("tokenize", "-m", tokenizer, "--no-add-special", "--jsonl", stdin="".join(json.dumps(text) + "\n" for text in texts))
        ids = [json.loads(line) for line in done.stdout.split("\n") if line]
        self.assertEqual(len(ids), len(texts))
        done = run("detokenize", "-m", tokenizer, "--jsonl", "--stream", stdin="".join(json.dumps(line) + "\n" for line in ids))
        lines = done.stdout.splitlines()  # splits at U+2028 too, which must not be there as it is
        self.assertEqual(len(lines), len(texts))
        for line, own in zip(lines, ids):
            self.assertEqual(len(json.loads(line)), len(own) + 1)
        self.assertIn("last id", run("detokenize", "-m", tokenizer, "--ids", "99999999", status=1).stderr)
        self.assertIn("line 2", run("tokenize", "-m", tokenizer, "--jsonl", stdin='"a"\n5\n', status=1).stderr)

    def test_a_full_disk_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "inspect", "-m", str(MINI)], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"phidias: ", done.stderr)

    def test_options_that_would_be_ignored_are_wrong_usage(self):
        for arguments in (["-p", "x", "--ids", "5"], ["--ids", "5", "--chat"], ["-p", "x", "--system", "y"], ["--ids", "5", "--logprobs", "1"]):
            run("generate", "-m", MINI, *arguments, status=2)

    def test_stop_strings_may_have_brackets(self):
        # Refused for the right reason: this checkpoint has no tokenizer, whatever the string looks like.
        self.assertIn("tokenizer", run("generate", "-m", MINI, "--ids", "5", "--stop", "[a,b]", status=1).stderr)

    def table(self, *arguments):
        """The numbers of a table of layers, by layer."""
        lines = run(*arguments, "-m", WINDOW, "--numerics", "exact").stdout.splitlines()
        return [[float(cell) for cell in line.split()[1:]] for line in lines[3:]]

    def test_patching_a_whole_layer_brings_everything_back(self):
        texts = ["--clean-ids", "5,6,7,8", "--corrupt-ids", "5,9,7,8", "--metric", "logit_diff(11,22)"]
        whole = self.table("patch", *texts, "--sweep", "layers")
        self.assertEqual(whole, [[1.0]] * 3)
        cells = self.table("patch", *texts)
        self.assertEqual([len(row) for row in cells], [4, 4, 4])
        self.assertTrue(all(row[0] == 0 for row in cells))  # before the difference
        self.assertEqual(cells[-1], [0, 0, 0, 1])  # the metric reads the last position alone
        self.assertEqual(len(self.table("patch", *texts, "--value", "attention_head_outputs", "--sweep", "layers,heads")[0]), 4)

    def test_causal_tracing_needs_noise_or_another_text(self):
        metric = ["--metric", "logit(11)"]
        self.assertEqual(len(self.table("patch", "--clean-ids", "5,6,7,8", "--noise", "0.5", "--noise-at", "1:3", *metric)), 3)
        for others in ([], ["--corrupt-ids", "5,9,7,8", "--noise", "1"]):
            run("patch", "-m", WINDOW, "--clean-ids", "5,6,7,8", *others, *metric, status=1)

    def test_attributions_and_ablations_are_tables_and_pages(self):
        direct = run("attrib", "-m", WINDOW, "--numerics", "exact", "--method", "direct", "--clean-ids", "5,6,7,8", "--metric", "logit(11)").stdout
        metric, total = re.search(r"metric (\S+), .* sum of all (\S+)", direct).groups()
        self.assertEqual(metric, total)
        texts = ["--clean-ids", "5,6,7,8", "--corrupt-ids", "5,9,7,8", "--metric", "logit_diff(11,22)"]
        for method in ("atp", "atp*", "ig"):
            table = self.table("attrib", *texts, "--method", method, "--value", "attention_head_outputs")
            self.assertEqual([len(row) for row in table], [4, 4, 4])
        page = self.folder / "page.html"
        run("ablate", "-m", WINDOW, "--ids", "5,6,7,8", "--metric", "logit(11)", "--html", page)
        html = page.read_text()
        self.assertEqual(html.count("<td "), 12)
        self.assertNotIn("http", html)
        run("attrib", "-m", WINDOW, *texts[:2], "--metric", "logit(11)", status=1)

    def test_a_reader_that_goes_away_is_no_crash(self):
        shell = f"'{PROGRAM}' --help | head -n 1"
        self.assertEqual(subprocess.run(["bash", "-o", "pipefail", "-c", shell], capture_output=True, timeout=60).returncode in (0, 141), True)

    def test_a_name_that_is_nowhere_says_where_was_looked(self):
        error = run("chat", "-m", "microsoft/Phi-9", stdin="", status=1, environment={"HF_HUB_CACHE": str(self.folder)}).stderr
        self.assertIn("Phi-9", error)
        self.assertLess(len(error.splitlines()), 10)


if __name__ == "__main__":
    unittest.main(verbosity=1)

"""tools/check_layers on small trees, each with one fault or none."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parents[3] / "tools" / "check_layers"
LAYERS = """
[layers]
base = []
text = ["base"]
model = ["base"]
[front_ends]
folders = ["cli"]
"""
TREE = {
    "tools/layers.toml": LAYERS,
    "include/phidias/api.h": "#include <string_view>\n",
    "src/base/a.h": "",
    "src/text/t.h": '#include "base/a.h"\n#include "phidias/api.h"\n',
    "src/model/m.h": '#include "base/a.h"\n#include <unistd.h>\n',
    "cli/own.h": "",
    "cli/main.cpp": '#include "own.h"\n#include "phidias/api.h"\n',
}


def check(**changes):
    """Exit status and output for the tree with some files replaced; keys are paths with __ for / and _DOT_ for a dot."""
    with tempfile.TemporaryDirectory() as folder:
        files = TREE | {key.replace("__", "/").replace("_DOT_", "."): text for key, text in changes.items()}
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, CHECK, folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class CheckLayers(unittest.TestCase):
    def assert_fault(self, where, **changes):
        status, output = check(**changes)
        self.assertEqual(status, 1, output)
        self.assertEqual(len(output.splitlines()), 1, output)
        self.assertTrue(output.startswith(where), output)

    def test_clean_tree_passes(self):
        self.assertEqual(check(), (0, ""))

    def test_upward_include(self):
        self.assert_fault("src/base/a.h:2:", src__base__a_DOT_h='\n#include "text/t.h"\n')

    def test_sideways_include(self):
        self.assert_fault("src/model/m.h:1:", src__model__m_DOT_h='#include "text/t.h"\n')

    def test_header_that_does_not_exist(self):
        self.assert_fault("src/model/m.h:1:", src__model__m_DOT_h='#include "base/gone.h"\n')

    def test_layer_includes_front_end(self):
        self.assert_fault("src/model/m.h:1:", src__model__m_DOT_h='#include "cli/own.h"\n')

    def test_front_end_includes_layer(self):
        self.assert_fault("cli/main.cpp:1:", cli__main_DOT_cpp='#include "base/a.h"\n')
        self.assert_fault("cli/main.cpp:1:", cli__main_DOT_cpp='#include "../src/base/a.h"\n')

    def test_public_header_includes_layer_or_library(self):
        self.assert_fault("include/phidias/api.h:1:", include__phidias__api_DOT_h='#include "base/a.h"\n')
        self.assert_fault("include/phidias/api.h:1:", include__phidias__api_DOT_h="#include <nlohmann/json.hpp>\n")
        self.assert_fault("include/phidias/api.h:1:", include__phidias__api_DOT_h="#include <curl.h>\n")

    def test_folder_without_a_row(self):
        self.assert_fault("src/new:1:", src__new__n_DOT_h="")

    def test_table_with_a_cycle(self):
        self.assert_fault("tools/layers.toml:1:", tools__layers_DOT_toml=LAYERS.replace('base = []', 'base = ["text"]'))


if __name__ == "__main__":
    unittest.main()

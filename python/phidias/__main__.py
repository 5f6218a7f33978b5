"""``python -m phidias run_tests -m MODEL... [-c CHECK...]``: checks of models, on the models themselves."""

from __future__ import annotations

import argparse
import sys

from . import selftest
from .errors import Error
from .model import Model


def main(arguments: list[str] | None = None) -> int:
    """1 where a check fails or a model cannot be loaded."""
    parser = argparse.ArgumentParser(prog="python -m phidias", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    tests = verbs.add_parser("run_tests", help="checks of models")
    tests.add_argument("-m", "--model", nargs="+", required=True, help="folders, .gguf files, names")
    tests.add_argument("-c", "--check", nargs="+", choices=list(selftest.CHECKS), help="these alone")
    given = parser.parse_args(arguments)
    failed = False
    for path in given.model:
        print(path)
        try:
            model = Model(path)
        except Error as error:
            print(error, file=sys.stderr)
            failed = True
            continue
        for check in selftest.run(model, given.check):
            print(check, flush=True)
            failed |= check.failure is not None
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

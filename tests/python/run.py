#!/usr/bin/env python3
"""Runs one file of tests of the Python package; exit code 77, with the reason, where something is missing that it needs.

    run.py FOLDER_OF_THE_PACKAGE TEST_FILE [MODULES THAT IT NEEDS...]
"""
import importlib
import pathlib
import sys
import unittest

SKIPPED = 77


def main():
    package, file, *needed = sys.argv[1:]
    sys.path.insert(0, package)
    sys.path.insert(0, str(pathlib.Path(file).parent))
    for name in ("numpy", *needed):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"skipped: {sys.executable} has no {name} ({error}); pip install {name}")
            return SKIPPED
    suite = unittest.defaultTestLoader.loadTestsFromName(pathlib.Path(file).stem)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A test that cannot run is skipped, never passed; every test has a time limit; every entry of ctest runs some test case."""
import json
import pathlib
import re
import subprocess
import sys

ROOT, BUILD, CTEST, PROBE = pathlib.Path(sys.argv[1]), *sys.argv[2:]
SKIPPED = 77
# By what the cases are named; a failure is more than a skip.
EXIT_CODES = {"passes": 0, "skips": SKIPPED, "passes,skips": SKIPPED, "fails": 1, "skips,fails": 1}


def wrong_exit_codes():
    for cases, expected in EXIT_CODES.items():
        code = subprocess.run([PROBE, f"--test-case={cases}"], capture_output=True).returncode
        if code != expected:
            yield f"a program whose case {cases} gives exit code {code}, expected {expected}"


def messages_instead_of_skips():
    for path in sorted((ROOT / "tests").rglob("*.cpp")):
        if path.name != "main.cpp" and re.search(r"MESSAGE\([^;]*\b(SKIP|skipped|not tested|needs lib)", path.read_text()):
            yield f"{path.relative_to(ROOT)}: say it with test::skip() of tests/skip.h: a MESSAGE lets the test pass"


def without_limits(tests):
    for test in tests:
        properties = {entry["name"]: entry["value"] for entry in test["properties"]}
        if not properties.get("TIMEOUT"):
            yield f"{test['name']}: no time limit; declare it with moxie_add_test"
        if properties.get("SKIP_RETURN_CODE") != SKIPPED:
            yield f"{test['name']}: exit code {SKIPPED} is not a skip; declare it with moxie_add_test"


def without_cases(tests):
    """A misspelt case or suite in a CMakeLists.txt would run nothing, and pass."""
    for test in tests:
        command = test.get("command", [])  # absent where the program is not built
        if any(re.match("--test-(case|suite)=", argument) for argument in command):
            listed = subprocess.run([*command, "--list-test-cases", "--no-colors"], capture_output=True, text=True).stdout
            if "unskipped test cases passing the current filters: 0\n" in listed:
                yield f"{test['name']}: no test case passes {' '.join(command[1:])}"


def unskipped(tests):
    """Entries that only say why they are skipped must be skipped."""
    for test in tests:
        command = test.get("command", [])
        if any(argument.startswith("echo 'skipped:") for argument in command):
            code = subprocess.run(command, capture_output=True).returncode
            if code != SKIPPED:
                yield f"{test['name']}: ends with exit code {code}, expected {SKIPPED}"


def main():
    listing = subprocess.run([CTEST, "--show-only=json-v1"], cwd=BUILD, capture_output=True, text=True, check=True).stdout
    tests = json.loads(listing)["tests"]
    problems = [*wrong_exit_codes(), *messages_instead_of_skips(), *without_limits(tests), *without_cases(tests), *unskipped(tests)]
    print("\n".join(problems) or f"{len(tests)} tests")
    return 1 if problems or not tests else 0


if __name__ == "__main__":
    sys.exit(main())

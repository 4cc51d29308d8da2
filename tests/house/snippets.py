#!/usr/bin/env python3
"""What the documentation shows works: every fenced snippet is compiled (cpp, c), parsed (mox) or run (sh, on the table of csv; python)."""
import argparse
import itertools
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ASSIGNMENT = re.compile(r"[A-Z_]+=")
SECONDS = 120
IMPORT = re.compile(r"^import (.*)$", re.MULTILINE)
OPTIONAL = ("jax", "sklearn", "torch")


def run(command, out=None, **options):
    """What is wrong with a command, or nothing. `out` is the file that takes what it prints."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, **options)
    except subprocess.TimeoutExpired:
        return f"took longer than {SECONDS} s"
    if out and not done.returncode:
        out.write_text(done.stdout)
    return (done.stdout + done.stderr).strip() or f"exit code {done.returncode}" if done.returncode else None


def syntax(script):
    is_python = script.suffix == ".py" or "python" in script.read_text().partition("\n")[0]
    return run([sys.executable, "-c", f"compile(open({str(script)!r}).read(), 'script', 'exec')"] if is_python else ["bash", "-n", script])


class Checker:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOXIE_")}
        self.environment = environment | {"MOXIE_CACHE_DIR": str(folder / "cache")}
        self.presets = json.loads((options.root / "CMakePresets.json").read_text())

    def cpp(self, text):
        file = self.folder / "snippet.cpp"
        file.write_text(text)
        return run([self.options.compiler, "-std=c++20", "-fsyntax-only", "-I", self.options.root, file])

    def mox(self, text):
        file = self.folder / "snippet.mox"
        file.write_text(text)
        return run([self.options.parser, file])

    def c(self, text):
        """A program that includes NAME.h calls the library of the formula that was shown before it."""
        name = re.search(r"#include <(\w+)\.h>", text)[1]
        (self.folder / f"{name}.mox").write_text((self.folder / "snippet.mox").read_text())
        (self.folder / "main.c").write_text(text)
        target = "cpu:aarch64" if platform.machine() == "aarch64" else "cpu:x86-64"
        aot = [self.options.moxie, "aot", f"{name}.mox", "--dim", "R=3", "--target", target, "-o", "."]
        compile_it = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I.", "main.c", "-L.", f"-l{name}", "-o", "main"]
        commands = (aot, compile_it, ["./main"])
        return next(filter(None, (run(command, cwd=self.folder, env=self.environment) for command in commands)), None)

    def sh(self, text):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            self.give_model(words)
            problem = self.command(words) if words else None
            if problem:
                return f"`{line}`: {problem}"
        return None

    def give_model(self, words):
        """A file NAME.mox that a command names is the formula that was shown before it."""
        for word in words:
            if word.endswith(".mox") and "/" not in word and not (self.folder / word).exists():
                (self.folder / word).write_text((self.folder / "snippet.mox").read_text())

    def csv(self, text):
        """The table of the commands that follow."""
        (self.folder / "table.csv").write_text(text)

    def command(self, words):
        """moxie itself runs; of everything that builds or tests, the parts it names must exist."""
        assigned = dict(word.split("=", 1) for word in itertools.takewhile(ASSIGNMENT.match, words))
        program, *arguments = words[len(assigned):] or [""]
        if program == "mpirun" and "moxie" in arguments:  # what it starts runs, alone
            program, *arguments = arguments[arguments.index("moxie"):]
        if program in ("build/bin/moxie", "moxie"):
            out = self.folder / arguments.pop() if arguments[-2:-1] == [">"] else None
            arguments = [argument for argument in arguments if argument != ">"]
            return run([self.options.moxie, *arguments], out, cwd=self.folder, env=self.environment | assigned)
        if program.startswith("build/bin/"):
            exists = (self.options.moxie.parent / pathlib.Path(program).name).exists()
            return None if exists else "the build makes no such program"
        if program.startswith(("tools/", ".ci/")):
            return syntax(self.options.root / program)
        if program in ("cmake", "ctest"):
            kind = "workflow" if "--workflow" in arguments else "test" if program == "ctest" else "configure"
            known = {preset["name"] for preset in self.presets[f"{kind}Presets"]}
            named = [arguments[position + 1] for position, word in enumerate(arguments) if word == "--preset"]
            return next((f"there is no {kind} preset {name}" for name in named if name not in known), None)
        if program == "python" and arguments[0].endswith(".py"):
            return syntax(self.options.root / arguments[0])
        if program in ("git", "cd", "pip") or (program == "python" and arguments[:2] == ["-m", "venv"]):
            return None
        return "no command that this check knows"


def modules_missing(text, python):
    """Of those that a snippet imports."""
    names = sorted({name for line in IMPORT.findall(text) for name in re.findall(r"[a-z_]+", line.replace(" as np", "")) if name in OPTIONAL})
    return [name for name in names if run([python, "-c", f"import {name}"])]


def python_problems(options, folder, environment):
    """The snippets of a document run one after the other in one process, but for those of libraries that are not here."""
    for document in documents(options.root):
        blocks = [text for language, text in FENCE.findall(document.read_text()) if language == "python"]
        program = "".join(block for block in blocks if not modules_missing(block, options.python))
        problem = run([options.python, "-c", program], cwd=folder, env=environment | {"PYTHONPATH": str(options.package)}) if program else None
        if problem:
            yield f"{document.relative_to(options.root)}: python snippets: {problem}"


def documents(root):
    skipped = {".git", "build"}
    return [path for path in sorted(root.rglob("*.md")) if not skipped & set(path.relative_to(root).parts)]


def snippets(root):
    """(place, language, text) of every snippet in a language that can be checked."""
    for document in documents(root):
        text = document.read_text()
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{document.relative_to(root)}:{line}", match[1], match[2]


def parse_options():
    parser = argparse.ArgumentParser()
    for name in ("root", "compiler", "parser", "moxie"):
        parser.add_argument(f"--{name}", type=lambda text: pathlib.Path(text).absolute(), required=True)
    for name, meaning in (("python", "an interpreter for which the Python package is built"), ("package", "the folder of that package")):
        parser.add_argument(f"--{name}", type=pathlib.Path, help=meaning)
    return parser.parse_args()


def main():
    options = parse_options()
    problems, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(options, pathlib.Path(folder))
        checks = {"cpp": checker.cpp, "mox": checker.mox, "c": checker.c, "csv": checker.csv, "sh": checker.sh}
        for place, language, text in snippets(options.root):
            problem = checks[language](text) if language in checks else None
            if problem:
                problems.append(f"{place}: {language} snippet: {problem}")
            count += language in checks
        if options.python:
            problems += python_problems(options, folder, checker.environment)
    print("\n".join(problems) or f"{count} snippets work")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())

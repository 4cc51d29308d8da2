#!/usr/bin/env python3
"""The README of a folder names what is there: its files and folders, and nothing that is gone. No text holds merge markers."""
import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
TOPS = ("benchmarks", "codegen_templates", "compiler", "data", "examples", "learn", "moxie", "ops", "python", "runtime", "tests", "tools")
# Files that a README explains; `.mox` files explain themselves in their first lines.
CODE = (".h", ".cpp", ".cu", ".py", "")
TEXT = (".h", ".cpp", ".cu", ".cuh", ".py", ".md", ".txt", ".cmake", ".mox", ".json", ".yml", ".in", "")

NAME = re.compile(r"`([^`\s]+)`")
LISTING = re.compile(r"^\| *(?:files?|folders?|rooms?) *\|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)
BULLET = re.compile(r"^- (`[^:\n]*)(?::|$)", re.MULTILINE)
MARKER = re.compile(r"^(?:<{7}|>{7}|\|{7}) .*$", re.MULTILINE)


def visible(folder):
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith((".", "__pycache__", "build"))]


def matches(path, name):
    """Whether a README's `name` (a file with or without its ending, a folder, a pattern) means this path."""
    return any(fnmatch.fnmatch(own, name.rstrip("/")) for own in (path.name, path.stem))


def listed(text):
    """Names of the first column of tables of files, and of the beginnings of list items: those must exist."""
    for table in LISTING.finditer(text):
        for row in table[1].splitlines():
            yield from NAME.findall(row.split("|")[1])
    for item in BULLET.finditer(text):
        yield from NAME.findall(item[1])


def problems_of(readme):
    folder, text = readme.parent, readme.read_text()
    below = list(folder.rglob("*"))
    mentioned = [name.rstrip("/").split("/")[0] for name in NAME.findall(text)]
    for name in listed(text):
        if not any(matches(path, pathlib.PurePath(name).name) for path in below):
            yield f"{readme.relative_to(ROOT)}: names `{name}`, which is not in the folder"
    for path in visible(folder):
        explained = path.is_dir() or path.suffix in CODE
        if explained and not any(matches(path, name) for name in mentioned):
            kind = "folder" if path.is_dir() else "file"
            yield f"{readme.relative_to(ROOT)}: does not name the {kind} `{path.name}`; say in a few words what it is for"


def results_of_nothing():
    """Figures that no text explains: nobody knows what was measured."""
    text = (ROOT / "benchmarks" / "README.md").read_text()
    for path in sorted((ROOT / "benchmarks" / "results").iterdir()):
        if not any(f"`{name}`" in text for name in (path.stem, f"{path.stem}.json")):
            yield f"{path.relative_to(ROOT)}: benchmarks/README.md does not say what was measured here"


def merge_markers(path):
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return
    for marker in MARKER.finditer(text):
        yield f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, marker.start()) + 1}: a marker of an unfinished merge"


def main():
    files = [path for top in (*TOPS, "docs", "cmake", ".ci") for path in sorted((ROOT / top).rglob("*"))]
    files += sorted(ROOT.iterdir())
    files = [path for path in files if path.is_file() and path.suffix in TEXT and "__pycache__" not in path.parts]
    readmes = [path for path in files if path.name == "README.md" and path.parent != ROOT]
    problems = [problem for path in files for problem in merge_markers(path)]
    problems += [problem for readme in readmes for problem in problems_of(readme)]
    problems += list(results_of_nothing())
    print("\n".join(problems) or f"{len(readmes)} READMEs, {len(files)} files without merge markers")
    return 1 if problems or not readmes else 0


if __name__ == "__main__":
    sys.exit(main())

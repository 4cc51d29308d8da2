#!/usr/bin/env python3
"""Every source file is built and short enough to read, and every room says what it is for."""
import json
import pathlib
import re
import sys

ROOT, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
TOPS = ("benchmarks", "codegen_templates", "compiler", "data", "examples", "learn", "moxie", "ops", "python", "runtime", "tests", "tools")
LONGEST = 700
SOURCES = (".h", ".cpp", ".py", ".mox", ".cmake")
INCLUDE = re.compile(r'^#include "(.*)"', re.MULTILINE)
# Tests are described by their names.
WITHOUT_README = ("tests/",)
# Projects of their own, what benchmarks/hand/compare.py builds, and what needs MPI's headers.
NOT_BUILT_HERE = ("tests/integration/", "benchmarks/hand/", "runtime/mpi/mpi_plugin.cpp")


def files_of(top):
    return [path for path in sorted((ROOT / top).rglob("*")) if path.is_file() and "__pycache__" not in path.parts]


def built_files():
    """What is compiled by itself or, in a unity build, as an include of a generated file."""
    for entry in json.load((BUILD / "compile_commands.json").open()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        yield from map(pathlib.Path, INCLUDE.findall(path.read_text())) if path.parent.name == "Unity" else [path]


def main():
    built = set(built_files())
    # Not built where Python's headers or nanobind are missing.
    unbuilt = NOT_BUILT_HERE if any(ROOT / "python" in path.parents for path in built) else (*NOT_BUILT_HERE, "python/")
    problems, rooms, count = [], set(), 0
    for path in (file for top in TOPS for file in files_of(top)):
        name = str(path.relative_to(ROOT))
        if path.suffix not in SOURCES:
            continue
        count += 1
        rooms.add(path.parent)
        lines = len(path.read_text().splitlines())
        if lines > LONGEST:
            problems.append(f"{name}: {lines} lines; the longest file allowed has {LONGEST}: give its second purpose a file of its own")
        if path.suffix == ".cpp" and not name.startswith(unbuilt) and path.resolve() not in built:
            problems.append(f"{name}: no CMakeLists.txt builds it; add it to the one of its folder, or delete it")
    for room in [ROOT / "tests", ROOT / "compiler", *sorted(rooms)]:
        name = str(room.relative_to(ROOT))
        has_readme = any((folder / "README.md").exists() for folder in (room, room.parent) if folder != ROOT)
        if not has_readme and not name.startswith(WITHOUT_README):
            problems.append(f"{name}: neither the room nor the one around it has a README.md that says what it is for")
    print("\n".join(problems) or f"{count} files, {len(rooms)} rooms")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())

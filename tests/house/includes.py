#!/usr/bin/env python3
"""Includes run one way: each room of the house includes only rooms below it, and no file includes itself over others."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
PIPELINE = [f"compiler/{room}" for room in ("support", "arithmetic", "expression", "program", "analysis", "reference", "builder", "text", "diff", "rewrite", "fuse", "loop",
                                                "schedule", "codegen")]
BELOW = {room: PIPELINE[: position + 1] for position, room in enumerate(PIPELINE)}
BELOW["codegen_templates"] = ["codegen_templates", "compiler/support"]
BELOW["compiler/codegen"].append("codegen_templates")
BELOW["ops"] = PIPELINE[: PIPELINE.index("compiler/diff") + 1] + ["ops"]
BELOW["runtime"] = PIPELINE + ["codegen_templates", "runtime"]
LIBRARIES = PIPELINE + ["runtime", "ops"]
BELOW["data"] = LIBRARIES + ["data"]
BELOW["learn"] = LIBRARIES + ["data", "learn"]
BELOW["moxie"] = LIBRARIES + ["data", "learn", "moxie"]
BELOW["python"] = LIBRARIES + ["data", "learn", "python"]
BELOW["tools"] = LIBRARIES + ["data", "learn", "tools"]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def room_of(path):
    """The longest name of a room that `path` begins with."""
    return max((room for room in BELOW if path.startswith(room + "/")), key=len, default=None)


def from_root(include, path, top):
    """Fragments are text for other compilers, and name their neighbours as those find them."""
    neighbour = path.parent / include
    return str(neighbour.relative_to(ROOT)) if top == "codegen_templates" and neighbour.exists() else include


def read_includes():
    files = {}
    for top in ("codegen_templates", "compiler", "data", "learn", "moxie", "ops", "python", "runtime", "tools"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                files[str(path.relative_to(ROOT))] = [from_root(include, path, top) for include in INCLUDE.findall(path.read_text())]
    return files


def wrong_directions(files):
    for file, includes in files.items():
        for include in includes:
            if include not in files:
                yield f'{file}: "{include}" is no file of the project; includes are written from its root'
            elif room_of(include) not in BELOW[room_of(file)]:
                yield f"{file}: {room_of(file)} may not include {include}; it may include {', '.join(BELOW[room_of(file)])}"


def cycles(files):
    done, path = set(), []

    def walk(file):
        if file in path:
            yield "cycle: " + " -> ".join(path[path.index(file):] + [file])
        if file in done or file in path:
            return
        path.append(file)
        for include in files.get(file, []):
            yield from walk(include)
        path.pop()
        done.add(file)

    for file in files:
        yield from walk(file)


def main():
    files = read_includes()
    problems = list(wrong_directions(files)) + list(cycles(files))
    print("\n".join(problems) or f"{len(files)} files include downwards")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Names in the unnamed namespaces of a library differ from file to file, so that any of its files can be compiled as one (CMAKE_UNITY_BUILD)."""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
# Folders whose files may meet in one translation unit. Test programs are never unity builds.
LIBRARIES = ("compiler", "ops", "runtime", "tools/data", "tools/commands")
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{$", re.MULTILINE)
UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
# clang-format puts every declaration of a namespace at the beginning of a line.
TYPE = re.compile(r"(?:struct|class|enum class|enum) (\w+)(?: final)?(?: :.*)? ?[{;]")
ALIAS = re.compile(r"using (\w+) = ")
VARIABLE = re.compile(r"(?:static |inline )*(?:const|constexpr|thread_local|std::atomic)\b[^(]*?\b(k?[A-Za-z]\w*)(?:\[\w*\])* ?[={;]")
FUNCTION = re.compile(r"[\w:<>,&*\[\] ]+?[ &*](\w+)\((.*)")


def parameter_types(parameters):
    depth, end = 1, len(parameters)
    for position, letter in enumerate(parameters):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            end = position
            break
    types = re.split(r",(?![^<]*>)", parameters[:end])
    # A call cannot choose between a value and a reference to a constant.
    return ", ".join(re.sub(r"^const (.*)&$", r"\1", re.sub(r"\w+$", "", re.sub(r" = .*", "", type.strip())).strip()) for type in types)


def declarations(line):
    """What a line declares, so that two equal ones cannot stand in one file."""
    if match := TYPE.match(line) or ALIAS.match(line):
        return [match[1]]
    if match := VARIABLE.match(line):
        return [match[1], *re.findall(r", (k[A-Z]\w*) = ", line[match.end():])]
    if match := FUNCTION.match(line):
        return [f"{match[1]}({parameter_types(match[2])})"]
    return []


def whole_lines(text):
    """Lines with those that continue them, as far as parentheses are open."""
    lines = iter(text.split("\n"))
    for line in lines:
        while line.count("(") > line.count(")"):
            line += " " + next(lines, ")" * line.count("(")).strip()
        yield line


def names_of(path):
    text = RAW_STRING.sub('""', path.read_text())
    for block in UNNAMED.finditer(text):
        around = "::".join(NAMESPACE.findall(text[: block.start()]))
        for line in whole_lines(block[1]):
            for name in [] if re.match(r"[ }/#]|template|$", line) else declarations(line):
                # The same alias may be declared twice.
                yield f"{around}::{name}", line if ALIAS.match(line) else path


def main():
    problems, count = [], 0
    for library in LIBRARIES:
        files, kinds = collections.defaultdict(set), collections.defaultdict(set)
        for path in sorted((ROOT / library).rglob("*.cpp")):
            for name, kind in names_of(path):
                files[name].add(str(path.relative_to(ROOT)))
                kinds[name].add(kind)
        count += len(files)
        problems += [f"{name} is declared in {' and '.join(sorted(files[name]))}: rename one, or share it" for name in files if len(kinds[name]) > 1]
    print("\n".join(problems) or f"{count} names")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Names in the unnamed namespaces of a library differ from file to file, hide no function of its headers and are not overloaded elsewhere where they are
handed over, so that any of its files can be compiled as one (CMAKE_UNITY_BUILD). Types of a named namespace are defined once in the whole project: the
linker keeps one of the functions that two of them have alike, whichever type it is for."""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
# Folders whose files may meet in one translation unit. Test programs are never unity builds.
LIBRARIES = ("compiler", "ops", "runtime", "data", "learn", "tools/commands")
# The program and what may be linked into it or a test.
PROJECT = ("codegen_templates", "compiler", "ops", "runtime", "data", "learn", "tools")
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


def classes():
    """The project's own types, and the aliases of what is made of them. A call with one of them finds the functions of headers past those of an unnamed
    namespace."""
    lines = [line.strip() for path in ROOT.rglob("*.h") for line in path.read_text().split("\n")]
    found = {match[1] for line in lines if (match := TYPE.match(line))}
    aliases = [(match[1], line) for line in lines if (match := ALIAS.match(line))]
    return found | {name for name, line in aliases if found & set(re.findall(r"\w+", line.split("=")[1]))}


def functions_of_headers(library):
    """Name, types of parameters, and file."""
    for path in sorted((ROOT / library).rglob("*.h")):
        text = path.read_text()
        around = "::".join(NAMESPACE.findall(text))
        for line in whole_lines(text):
            match = None if re.match(r"[ }/#]|template|$", line) or TYPE.match(line) else FUNCTION.match(line)
            if match:
                yield f"{around}::{match[1]}", parameter_types(match[2]), path.relative_to(ROOT)


def hidden_by_name(library, own_types):
    """The functions of a library's headers that one of the same name in an unnamed namespace hides from every other unnamed namespace."""
    return {name: path for name, types, path in functions_of_headers(library) if not own_types & set(re.findall(r"\w+", types))}


def functions_of(path):
    text = RAW_STRING.sub('""', path.read_text())
    for block in UNNAMED.finditer(text):
        around = "::".join(NAMESPACE.findall(text[: block.start()]))
        for line in whole_lines(re.sub(r"^template <.*>\n", "", block[1], flags=re.MULTILINE)):
            if not re.match(r"[ }/#]|template|$", line) and not TYPE.match(line) and (match := FUNCTION.match(line)):
                yield around, match[1]


def hands_over(path, name):
    """Whether a function is named without a call, other than as a parameter or variable that has its name."""
    text = re.sub(r"//.*", "", RAW_STRING.sub('""', path.read_text()))
    return re.search(rf"[(,{{=] ?&?{name}[),;}}]", text) and not re.search(rf"[\w>&*] {name}(?: =|[,;)])", text)


def overloads_handed_over(library):
    files = collections.defaultdict(set)
    for path in sorted((ROOT / library).rglob("*.cpp")):
        for function in functions_of(path):
            files[function].add(path)
    return [f"{path.relative_to(ROOT)} hands over {name}, which has overloads in other files: rename it"
            for (_, name), paths in files.items() if len(paths) > 1 for path in sorted(paths) if hands_over(path, name)]


def types_defined_twice():
    files = collections.defaultdict(set)
    for path in sorted(path for top in PROJECT for path in (ROOT / top).rglob("*") if path.suffix in (".h", ".cpp")):
        text, around = UNNAMED.sub("", RAW_STRING.sub('""', path.read_text())), ""
        for line in text.split("\n"):
            if (match := NAMESPACE.match(line)):
                around = match[1]
            elif (match := TYPE.match(line)) and line.endswith("{"):
                files[f"{around}::{match[1]}"].add(str(path.relative_to(ROOT)))
            elif line.startswith("}  // namespace"):
                around = ""
    return [f"{name} is defined in {' and '.join(sorted(paths))}: rename one" for name, paths in files.items() if len(paths) > 1]


def main():
    problems, count, own_types = types_defined_twice(), 0, classes()
    for library in LIBRARIES:
        files, kinds = collections.defaultdict(set), collections.defaultdict(set)
        for path in sorted((ROOT / library).rglob("*.cpp")):
            for name, kind in names_of(path):
                files[name].add(str(path.relative_to(ROOT)))
                kinds[name].add(kind)
        count += len(files)
        hidden = hidden_by_name(library, own_types)
        for name, types, path in functions_of_headers(library):
            problems += [f"{name}({types}) in {file} stands in {path} too, and a call cannot choose: rename one, or share it"
                         for file in sorted(files.get(f"{name}({types})", ()))]
        problems += overloads_handed_over(library)
        problems += [f"{name} in {' and '.join(sorted(files[name]))} hides that of {hidden[name.split('(')[0]]}: rename one"
                     for name in files if "(" in name and name.split("(")[0] in hidden]
        problems += [f"{name} is declared in {' and '.join(sorted(files[name]))}: rename one, or share it" for name in files if len(kinds[name]) > 1]
    print("\n".join(problems) or f"{count} names")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())

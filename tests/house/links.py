#!/usr/bin/env python3
"""Every link between documents leads to a file of the project, and to a heading that is there."""
import pathlib
import re
import sys
import urllib.parse

ROOT = pathlib.Path(sys.argv[1])
SKIPPED = {".git", "build"}
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def text_of(document):
    return FENCE.sub("", document.read_text())


def anchors_of(document):
    """As GitHub makes them of headings: lower case, without punctuation, with a hyphen for every space."""
    titles = (re.sub(r"[`*]", "", title).strip().lower() for title in HEADING.findall(text_of(document)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def problems_of(document):
    for link in LINK.findall(CODE.sub("", text_of(document))):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = urllib.parse.unquote(link).partition("#")
        target = ((document.parent / path) if path else document).resolve()
        if not target.exists() or ROOT.resolve() not in (target, *target.parents):
            yield f"{document.relative_to(ROOT)}: ({link}) leads to no file of the project"
        elif anchor and target.suffix == ".md" and anchor not in anchors_of(target):
            yield f"{document.relative_to(ROOT)}: ({link}) names no heading of {target.relative_to(ROOT.resolve())}; it has {', '.join(sorted(anchors_of(target)))}"


def main():
    documents = [path for path in sorted(ROOT.rglob("*.md")) if not any(part in SKIPPED or part.startswith("build") for part in path.relative_to(ROOT).parts)]
    problems = [problem for document in documents for problem in problems_of(document)]
    print("\n".join(problems) or f"{len(documents)} documents link to what is there")
    return 1 if problems or not documents else 0


if __name__ == "__main__":
    sys.exit(main())

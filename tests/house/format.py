#!/usr/bin/env python3
"""Every source file is as clang-format writes it, by the version that the project has settled on."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
VERSION = "19"
SKIPPED = 77


def formatter():
    """Path of a clang-format of this version, or None: other versions break lines elsewhere."""
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path and re.search(rf"version {VERSION}\.", subprocess.run([path, "--version"], capture_output=True, text=True).stdout):
            return path
    return None


def main():
    program = formatter()
    if not program:
        print(f"no clang-format {VERSION} here (Debian: apt-get install clang-format-{VERSION}): the format is not checked")
        return 1 if os.environ.get("CI") else SKIPPED
    # A copy without its history has no list of files; build folders lie inside the root, so the folders are named.
    tops = ("benchmarks", "codegen_templates", "compiler", "data", "examples", "learn", "moxie", "ops", "python", "runtime", "tests", "tools")
    files = sorted(str(f) for top in tops for f in (ROOT / top).rglob("*") if f.suffix in (".cpp", ".h", ".cuh", ".cu"))
    result = subprocess.run([program, "--dry-run", "--Werror", "--ferror-limit=1", *files], capture_output=True, text=True)
    wrong = sorted(set(re.findall(r"^(.*?):\d+:\d+: error: code should be clang-formatted", result.stderr, re.M)))
    if wrong:
        print("\n".join(f"{name}: not formatted; run {program} -i on it" for name in wrong))
        return 1
    if result.returncode:
        print(result.stderr)
        return 1
    print(f"{len(files)} files")
    return 0 if files else 1


if __name__ == "__main__":
    sys.exit(main())

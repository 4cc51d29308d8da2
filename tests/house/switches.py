#!/usr/bin/env python3
"""docs/switches.md lists the switches that the program knows, and no others."""
import pathlib
import re
import subprocess
import sys

ROOT, MOXIE = pathlib.Path(sys.argv[1]), sys.argv[2]


def main():
    text = subprocess.run([MOXIE, "help", "environment"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^\s*(MOXIE_\w+)=", text, re.MULTILINE))
    documented = set(re.findall(r"^\| `(MOXIE_\w+)=", (ROOT / "docs/switches.md").read_text(), re.MULTILINE))
    for name in sorted(known ^ documented):
        print(f"{name}: {'not in docs/switches.md' if name in known else 'in docs/switches.md, but the program does not know it'}")
    return 1 if known != documented or not known else 0


if __name__ == "__main__":
    sys.exit(main())

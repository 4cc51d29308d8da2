#!/usr/bin/env python3
"""Installed libraries define nothing outside of moxie's own names that could clash with a program that links them."""
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path(sys.argv[1])
NOT_INSTALLED = {"libmoxie_test_main.a"}
# Strong definitions; the linker and the loader take one of several weak ones without a word.
STRONG = re.compile(r"^[0-9a-f]+ [TDBRSC] (\S+)$", re.MULTILINE)
OF_THE_LINKER = {"__bss_start", "_edata", "_end", "_init", "_fini"}


def strong_symbols(library):
    dynamic = ["-D"] if library.suffix == ".so" else []
    listing = subprocess.run(["nm", "--extern-only", "--defined-only", *dynamic, str(library)], capture_output=True, text=True, check=True)
    return set(STRONG.findall(listing.stdout)) - OF_THE_LINKER


def is_own(symbol):
    """In the namespace moxie, or a C name that begins with it."""
    return symbol.startswith("moxie_") or (symbol.startswith("_Z") and "5moxie" in symbol)


libraries = [path for path in sorted(BUILD.rglob("libmoxie_*")) if path.suffix in (".a", ".so") and path.name not in NOT_INSTALLED]
if not libraries:
    sys.exit(f"no library of moxie in {BUILD}: build first")
foreign = [f"{library.name}: defines {symbol}; make it weak, or local to its file" for library in libraries for symbol in sorted(strong_symbols(library)) if not is_own(symbol)]
print("\n".join(foreign) or f"{len(libraries)} libraries define moxie's own names only")
sys.exit(1 if foreign else 0)

"""The program `moxie`, which lies inside the package."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from typing import Callable, Sequence

from .errors import Error, InputError

_HERE = pathlib.Path(__file__).parent
PATH = _HERE / "program" / "moxie"


def environment() -> dict[str, str]:
    """With the place of the CPU's code generator, unless somebody chose one."""
    here = {"MOXIE_PLUGIN_DIR": str(_HERE)} if (_HERE / "libmoxie_llvm.so").exists() else {}
    return here | os.environ


def _existing() -> pathlib.Path:
    if not PATH.exists():
        raise Error("this build of the package holds no program moxie: build it with MOXIE_BUILD_TOOLS=ON")
    return PATH


def run(arguments: Sequence[str], failure: type[Error], on_line: Callable[[str], None] = lambda line: None) -> str:
    """Runs a command and returns what it prints, of which `on_line` gets every line as it comes. Ctrl-C ends the command
    in order, once, and then raises KeyboardInterrupt.

    Raises InputError where the command was used in a wrong way, and `failure` where its work failed.
    """
    command = [str(_existing()), *arguments]
    # Errors go to a file: a pipe that nobody reads while lines come would fill up and stop the command.
    with tempfile.TemporaryFile("w+", errors="replace") as errors, subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace",
            env=environment(), start_new_session=True) as process:
        printed = []
        try:
            for line in process.stdout:
                printed.append(line)
                on_line(line.rstrip("\n"))
            process.wait()
        except KeyboardInterrupt:
            # A terminal would send it to the command as well, a notebook would not: in a session of its own it gets one.
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
        errors.seek(0)
        problem = errors.read().strip()
    if process.returncode:
        kind = InputError if process.returncode == 2 else failure
        raise kind(problem.removeprefix("moxie: ") or "".join(printed) or f"moxie ended with exit code {process.returncode}")
    return "".join(printed)


def main() -> None:
    """The command `moxie` of an environment where the package is installed."""
    os.execve(_existing(), ["moxie", *sys.argv[1:]], environment())

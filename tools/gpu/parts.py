"""Parts of a check: each has a time limit, and what it stops with is part of the report."""
import os
import pathlib
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field


class Failed(Exception):
    def __init__(self, reason, output=""):
        super().__init__(reason)
        self.output = output  # of a command, as far as it came


class Skipped(Exception):
    pass


@dataclass
class Check:
    """What the parts share: folders, the report that they fill, and the time that is left."""
    root: pathlib.Path
    folder: pathlib.Path  # everything that a check makes, and what was packed
    ends: float
    report: dict = field(default_factory=dict)
    part: str = ""
    part_ends: float = 0

    @property
    def build(self):
        return self.folder / "build"

    def program(self, name):
        path = self.build / "bin" / name
        if not path.exists():
            raise Failed(f"the build made no {name}")
        return path

    def has_gpu(self):
        return self.report.get("gpu", {}).get("usable", False)

    def need_gpu(self):
        if not self.has_gpu():
            raise Skipped(f"no device cuda: {self.report.get('gpu', {}).get('state', 'its state is unknown')}")

    def run(self, *command, environment=None, accepted=(0,), seconds=float("inf")):
        """The output of a command that may take as long as its part; all of it goes to the part's log."""
        command = [str(word) for word in command]
        left = min(seconds, self.part_ends - time.monotonic(), self.ends - time.monotonic())
        if left <= 0:
            raise Failed(f"no time was left for `{' '.join(command)}`")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", cwd=self.root,
                                   env=os.environ | (environment or {}), start_new_session=True)
        try:
            out, err = process.communicate(timeout=left)
        except subprocess.TimeoutExpired as late:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            self.log(command, out, err)
            raise Failed(f"`{' '.join(command)}` was ended after {left:.0f} s: {last_lines(out + err)}", out) from late
        self.log(command, out, err)
        if process.returncode not in accepted:
            raise Failed(f"`{' '.join(command)}` ended with {process.returncode}: {last_lines(out + err)}", out)
        return out

    def log(self, command, out, err):
        path = self.folder / "logs" / f"{self.part}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(f"$ {' '.join(command)}\n{out}{err}\n")


def find_tool(name):
    """A program of the CUDA toolkit or the driver, which are not always on the path. Throws Skipped."""
    toolkit = pathlib.Path(os.environ.get("CUDA_PATH", "/usr/local/cuda"))
    folders = (toolkit / "bin", toolkit / "compute-sanitizer", "/usr/local/nvidia/bin")
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, folders)))
    if not found:
        raise Skipped(f"there is no {name}")
    return found


def last_lines(text, count=15):
    return "\n".join(text.strip().splitlines()[-count:])


def perform(check, name, seconds, work):
    """One row of the report; whatever happens, the next part has its turn."""
    check.part, start = name, time.monotonic()
    check.part_ends = start + seconds
    (check.folder / "logs" / f"{name}.log").unlink(missing_ok=True)
    row = {"part": name, "outcome": "passed"}
    try:
        work(check)
    except Skipped as reason:
        row.update(outcome="skipped", reason=str(reason))
    except Exception as problem:  # a part's own mistake must not cost the parts behind it
        row.update(outcome="failed", reason=str(problem) if isinstance(problem, Failed) else repr(problem))
    row["seconds"] = round(time.monotonic() - start, 1)
    return row

#!/usr/bin/env python3
"""`pip install .` in a fresh virtual environment: a wheel of what this build tree holds works alone, and loads LLVM late.

The wheel is made by the same back end, from the same pyproject.toml and rules of installation, but of files that are
built already (MOXIE_PREBUILT): that everything compiles from scratch under pip is what is not tested here.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import venv

SOURCE, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
SKIPPED = 77

PROGRAM = """
import pathlib, subprocess, sys
import moxie, numpy as np

def loaded(name):
    return [line.split()[-1] for line in open("/proc/self/maps") if name in line]

here = pathlib.Path(sys.prefix).resolve()
assert here in pathlib.Path(moxie.__file__).resolve().parents, moxie.__file__
assert not loaded("libLLVM") and not loaded("libmoxie_llvm"), "LLVM is loaded at import"
f = moxie.formula("dim S dynamic, R\\nindex s:S, r:R\\ninput x[S], w[R]\\noutput y[s] = sum[r](w[r]*exp(-x[s]^2))\\n")
y, grads = f.grad("y", wrt=["w"])(x=np.zeros(3), w=np.ones(2))
assert y.tolist() == [2, 2, 2] and grads["w"].tolist() == [3, 3], (y, grads)
assert all(here in pathlib.Path(path).resolve().parents for path in loaded("libmoxie_llvm")), "the plugin is another one"
assert bool(loaded("libmoxie_llvm")) == WITH_LLVM
command = pathlib.Path(sys.prefix) / "bin" / "moxie"
if moxie._program.PATH.exists():
    assert "gpn.response_mean" in subprocess.run([command, "ops"], capture_output=True, text=True, check=True).stdout
print("the wheel works")
"""


def run(*command, **options):
    subprocess.run([str(part) for part in command], check=True, **options)


def has_llvm():
    return "MOXIE_WITH_LLVM:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text()


def main():
    missing = [name for name in ("pip", "scikit_build_core", "nanobind", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}; pip install scikit-build-core nanobind numpy")
        return SKIPPED
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MOXIE_", "PYTHON"))}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        settings = [f"build-dir={work / 'build'}", f"cmake.define.MOXIE_PREBUILT={BUILD}"]
        run(sys.executable, "-m", "pip", "wheel", SOURCE, "--no-build-isolation", "--no-deps", "--no-index", "-w", work,
            *(f"--config-settings={setting}" for setting in settings), env=environment)
        (wheel,) = work.glob("moxie-*.whl")
        print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")
        venv.create(work / "fresh", with_pip=False)
        python = work / "fresh" / "bin" / "python"
        run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, env=environment)
        # numpy is the one of this environment: tests take nothing from the network.
        packages = next((work / "fresh" / "lib").glob("python*/site-packages"))
        (packages / "numpy.pth").write_text(str(pathlib.Path(importlib.util.find_spec("numpy").origin).parent.parent) + "\n")
        environment["MOXIE_CACHE_DIR"] = str(work / "cache")
        device = {} if has_llvm() else {"MOXIE_DEVICE": "interp"}
        run(python, "-c", PROGRAM.replace("WITH_LLVM", str(has_llvm())), cwd=work, env=environment | device)
    return 0


if __name__ == "__main__":
    sys.exit(main())

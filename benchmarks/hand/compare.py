#!/usr/bin/env python3
"""Times moxie beside C++ written by hand, one thread, single precision: the formulas NAME.mox of this folder with NAME.cpp.

    python benchmarks/hand/compare.py [--moxie build/bin/moxie] [--rows NAME ..] [--rounds 3] [--compilers g++ ..] [--json FILE]

The values and gradients by hand are compared with moxie's interpreter at small extents, and with its kernels at those that are timed. In every
round all take a median of processor time, one after the other; the table has the smallest of the rounds, by hand of all compilers. It comes as
Markdown, in milliseconds, forward / forward + backward.
"""
import argparse
import ctypes
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from moxie_program import Moxie, distance  # noqa: E402
from texts import Text  # noqa: E402

FLAGS = ["-std=c++20", "-O3", "-march=native", "-mprefer-vector-width=512", "-ffast-math", "-fopenmp-simd", "-shared", "-fPIC"]
TOLERANCE = 1e-4  # of the largest element; of a gradient at least a thousandth of the largest of all gradients


@dataclass(frozen=True)
class Row:
    formula: str
    small: str  # extents for the interpreter
    dims: str
    wrt: str
    values: dict = field(default_factory=dict)  # of an input: a function of the random array


def near(x):
    """So that distances in 64 dimensions are not beyond all exponentials."""
    return x / 8


ROWS = (
    Row("stencil", "N=37", "N=1000000", "x"),
    Row("pair_energy", "N=45", "N=4096", "x"),
    Row("prefix_sum", "N=200", "N=1000000", "x"),
    Row("gauss3", "I=13 J=21", "I=2000 J=2000", "x,z,b"),
    Row("gauss64", "I=50 J=70", "I=1024 J=1024", "x,z,b", {"x": near, "z": near}),
    Row("softmax", "S=5 N=37", "S=1024 N=1000", "x"),
    Row("layer_norm", "S=5 N=37", "S=1024 N=1000", "x,gamma,beta"),
    Row("batched_product", "B=3 N=5 M=19 K=6", "B=500 N=26 M=72 K=26", "x,y"),
    Row("attention", "H=2 S=60", "H=8 S=512", "Q,K,V"),
    Row("extrema", "S=7 N=133", "S=4096 N=256", "x", {"x": lambda x: 1 + x / 16}),
    Row("static_batch", "N=19 R=3", "N=50 R=14", "mu,var,beta,M"),
)


class ByHand:
    """A formula's library, with memory for one set of inputs."""

    def __init__(self, row, compiler, folder):
        library = pathlib.Path(folder) / f"{row.formula}-{pathlib.Path(compiler).name}.so"
        subprocess.run([compiler, *FLAGS, HERE / f"{row.formula}.cpp", HERE / "timer.cpp", "-o", library], check=True)
        self.library = ctypes.CDLL(str(library))
        self.library.median_seconds.restype = ctypes.c_double

    def prepare(self, text, tensors, results):
        def pointers(arrays):
            return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))

        self.tensors = [numpy.ascontiguousarray(tensor) for tensor in tensors.values()]
        self.results = {name: numpy.zeros_like(result) for name, result in results.items()}
        extents = (ctypes.c_int64 * len(text.extents))(*text.extents.values())
        self.arguments = extents, pointers(self.tensors), pointers(list(self.results.values()))

    def values(self, gradients):
        for result in self.results.values():
            result.fill(numpy.nan)
        (self.library.forward_backward if gradients else self.library.forward)(*self.arguments)
        return self.results

    def seconds(self):
        return tuple(self.library.median_seconds(ctypes.c_bool(gradients), *self.arguments) for gradients in (False, True))


def check(row, text, hand, moxie, device):
    """Both get the same inputs; the values by hand must be those of the device."""
    random = numpy.random.default_rng(1)
    inputs = text.draw(random, row.values)
    shapes = {name: value.shape for name, value in moxie.values(text, inputs, device=device).items() if name in text.outputs}
    cotangents = {f"cot.{name}": numpy.asarray(random.standard_normal(shapes[name]), numpy.float32) for name in text.outputs}
    values = moxie.values(text, inputs | cotangents, wrt=row.wrt, device=device)
    names = [*text.outputs, *(f"grad.{name}" for name in row.wrt.split(","))]
    hand.prepare(text, inputs | cotangents, {name: values[name] for name in names})
    scale = 1e-3 * max(numpy.abs(values[name]).max() for name in names if name not in text.outputs)
    for gradients in (False, True):
        found = hand.values(gradients)
        for name in names if gradients else text.outputs:
            apart = distance(found[name], values[name], 0 if name in text.outputs else scale)
            if not apart <= TOLERANCE:
                raise RuntimeError(f"{name} by hand and on {device} differ by {apart:.2g} of the largest element at {text.dims}")


def smallest(pairs):
    return tuple(min(pair[k] for pair in pairs) for k in range(2))


def measure(row, options, moxie, folder):
    """Seconds by hand and of moxie, forward and with gradients."""
    by_hand = [ByHand(row, compiler, folder) for compiler in options.compilers]
    text = Text(row.formula, [HERE], options.dims or row.dims)
    for hand in by_hand:
        check(row, Text(row.formula, [HERE], row.small), hand, moxie, "interp")
        check(row, text, hand, moxie, "cpu")
    rounds = [([hand.seconds() for hand in by_hand], moxie.seconds(text, wrt=row.wrt)) for _ in range(options.rounds)]
    return [smallest([pair for hands, _ in rounds for pair in hands]), smallest([pair for _, pair in rounds])]


def milliseconds(pair):
    return " / ".join(f"{1e3 * seconds:.3g}" for seconds in pair)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moxie", default=HERE.parents[1] / "build" / "bin" / "moxie", help="the program")
    parser.add_argument("--rows", nargs="+", default=[], help="the formulas to measure, all if not given")
    parser.add_argument("--dims", default="", help='other extents for them, such as "N=1000"')
    parser.add_argument("--rounds", type=int, default=3)
    found = [compiler for compiler in ("g++", "clang++-19", "clang++") if shutil.which(compiler)][:2]
    parser.add_argument("--compilers", nargs="+", default=found, help="the first two of g++, clang++-19 and clang++ if not given")
    parser.add_argument("--json", type=pathlib.Path, help="where the seconds go, too")
    options = parser.parse_args()
    moxie, records = Moxie(options.moxie), []
    print("| formula | extents | by hand | moxie | moxie / by hand |\n| --- | --- | --- | --- | --- |")
    for row in ROWS:
        if options.rows and row.formula not in options.rows:
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                hand, generated = measure(row, options, moxie, folder)
        except RuntimeError as problem:
            print(f"| {row.formula} | {options.dims or row.dims} | {problem} |", flush=True)
            continue
        ratios = [b / a for a, b in zip(hand, generated)]
        records.append({"formula": row.formula, "dims": options.dims or row.dims, "by_hand": hand, "moxie": generated})
        print(f"| {row.formula} | {options.dims or row.dims} | {milliseconds(hand)} | {milliseconds(generated)} | {' / '.join(f'{r:.2f}' for r in ratios)} |", flush=True)
        if options.json:
            options.json.write_text(json.dumps(records, indent=1) + "\n")
    if records:
        for k, what in enumerate(("forward", "forward + backward")):
            mean = math.exp(sum(math.log(record["moxie"][k] / record["by_hand"][k]) for record in records) / len(records))
            print(f"{what}: moxie takes {mean:.2f} times as long as the code by hand (geometric mean)")


if __name__ == "__main__":
    main()

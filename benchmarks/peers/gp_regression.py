#!/usr/bin/env python3
"""Times Gaussian process regression, gp_regression.mox, beside NumPy and LAPACK: the negative log evidence of N targets and its gradient for the
length scales, the amplitude and the noise, in double precision.

    python benchmarks/peers/gp_regression.py [--moxie build/bin/moxie] [--samples 2000] [--features 8] [--threads 1] [--rounds 5]

First value and gradients are compared. Then every round takes one time of each, in turn; the table has the smallest processor time and the smallest
wall time of the rounds, in milliseconds. NumPy's side is what a competent user writes: squared distances by one matrix product, LAPACK's potrf, potrs
and potri through SciPy, which work in place, and gradients by the identity dE = tr((K^-1 - a a^T) dK)/2.
"""
import argparse
import json
import math
import os
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from moxie_program import MISLEADING, Moxie, distance  # noqa: E402

GRADIENTS = ("length", "amplitude", "noise")
TOLERANCE = 1e-8  # of the largest element


def restart_with_threads(threads):
    """BLAS reads these variables when it is loaded."""
    wanted = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    if all(os.environ.get(name) == value for name, value in wanted.items()) and not any(name in os.environ for name in MISLEADING):
        return
    environment = {name: value for name, value in os.environ.items() if name not in MISLEADING} | wanted
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def kernel_matrix(x, length, amplitude):
    import numpy

    scaled = x / length
    norms = (scaled**2).sum(1)
    squares = scaled @ scaled.T
    squares *= -2
    squares += norms[:, None]
    squares += norms
    squares *= -0.5
    kernel = numpy.exp(squares, out=squares)
    kernel *= amplitude**2
    return scaled, kernel


def evidence(x, y, length, amplitude, noise):
    """Value only."""
    import numpy
    from scipy.linalg import lapack

    _, kernel = kernel_matrix(x, length, amplitude)
    kernel.ravel()[:: len(y) + 1] += noise
    # A symmetric matrix is its own transpose: LAPACK gets it without a copy.
    factor, info = lapack.dpotrf(kernel.T, lower=1, overwrite_a=1, clean=0)
    assert info == 0
    a, _ = lapack.dpotrs(factor, y, lower=1)
    return 0.5 * (y @ a) + numpy.log(numpy.diagonal(factor)).sum() + 0.5 * len(y) * math.log(2 * math.pi)


def evidence_and_gradient(x, y, length, amplitude, noise):
    import numpy
    from scipy.linalg import lapack

    scaled, kernel = kernel_matrix(x, length, amplitude)
    noisy = kernel.copy()
    noisy.ravel()[:: len(y) + 1] += noise
    factor, info = lapack.dpotrf(noisy.T, lower=1, overwrite_a=1, clean=0)
    assert info == 0
    a, _ = lapack.dpotrs(factor, y, lower=1)
    value = 0.5 * (y @ a) + numpy.log(numpy.diagonal(factor)).sum() + 0.5 * len(y) * math.log(2 * math.pi)
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    # Only a triangle of the inverse is computed; a symmetric weight takes the other one from it.
    diagonal = numpy.diagonal(inverse) - a**2
    weight = numpy.tril(inverse, -1)
    weight *= 2
    weight -= 2 * numpy.tril(numpy.outer(a, a), -1)
    weight *= kernel
    on_diagonal = diagonal * numpy.diagonal(kernel)
    rows, columns = weight.sum(1), weight.sum(0)
    # sum_ij W_ij (z_id - z_jd)^2 for a triangle W, by one product of matrices
    squares = (rows + columns) @ scaled**2 - 2 * (scaled * (weight @ scaled)).sum(0)
    return value, {
        "length": 0.5 * squares / length,
        "amplitude": (weight.sum() + on_diagonal.sum()) / amplitude,
        "noise": 0.5 * diagonal.sum(),
    }


class Text:
    """The formula as moxie_program.Moxie takes it."""

    outputs = ["nle"]
    path = HERE / "gp_regression.mox"

    def dim_option(self):
        return []


def moxie_seconds(moxie, threads):
    """Processor and wall time, without and with gradients."""
    command = ["bench", Text.path, "--in", moxie.inputs, "--json", "--grad", "nle", "--wrt", ",".join(GRADIENTS), "--threads", threads]
    [figures] = json.loads(moxie.run(*command))
    return [(figures[f"{what}_cpu_s"], figures[f"{what}_s"]) for what in ("forward", "forward_backward")]


def peer_seconds(inputs):
    times = []
    for function in (evidence, evidence_and_gradient):
        runs = []
        for _ in range(3):
            cpu, wall = time.process_time(), time.perf_counter()
            function(**inputs)
            runs.append((time.process_time() - cpu, time.perf_counter() - wall))
        times.append(tuple(map(min, zip(*runs))))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moxie", default="build/bin/moxie")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    restart_with_threads(options.threads)
    import numpy

    random = numpy.random.default_rng(1)
    inputs = {
        "x": random.standard_normal((options.samples, options.features)),
        "y": random.standard_normal(options.samples),
        "length": random.uniform(1, 2, options.features),
        "amplitude": numpy.float64(1.3),
        "noise": numpy.float64(0.2),
    }
    moxie = Moxie(options.moxie)
    arrays = {name: numpy.asarray(value) for name, value in inputs.items()}
    found = moxie.values(Text(), arrays | {"cot.nle": numpy.asarray(1.0)}, "nle", ",".join(GRADIENTS))
    value, gradients = evidence_and_gradient(**inputs)
    errors = [distance(found["nle"], value)] + [distance(found[f"grad.{name}"], gradients[name]) for name in GRADIENTS]
    if not max(errors) <= TOLERANCE:
        sys.exit(f"moxie and NumPy differ by {max(errors):.2g} of the largest element")
    rounds = [(moxie_seconds(moxie, options.threads), peer_seconds(inputs)) for _ in range(options.rounds)]
    print(f"N = {options.samples}, D = {options.features}, threads: {options.threads}; worst difference {max(errors):.1e}\n")
    print("| ms | moxie, processor | NumPy, processor | ratio | moxie, wall | NumPy, wall | ratio |\n| --- | --- | --- | --- | --- | --- | --- |")
    for k, name in enumerate(("value", "value and gradient")):
        cells = []
        for clock in range(2):
            ours, theirs = (1e3 * min(both[side][k][clock] for both in rounds) for side in range(2))
            cells += [f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}"]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

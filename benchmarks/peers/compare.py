#!/usr/bin/env python3
"""Times moxie beside JAX (jit) and PyTorch (eager), single precision, on the formulas of rows.py, layers.py, strangers.py and fields.py, one thread or a GPU.

    python benchmarks/peers/compare.py --formulas DIR [--device cuda] [--moxie build/bin/moxie] [--rows NAME ..] [--rounds 3] [--json FILE]

First the values and gradients of all three are compared; rows that differ are named and not timed. In every round each of the three takes a
median of processor time, one after the other; the table has the smallest of the rounds. (On one thread processor time is the time of an idle
machine, and other work disturbs it least.) On a GPU the time is that of the clock, from the call until its values are there, and extents are larger.
It comes as Markdown, in milliseconds, forward / forward + backward.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from moxie_program import MISLEADING, Moxie, distance  # noqa: E402
FOLDERS = ("layers", "strangers", "fields")  # of formulas, beside this file
TOLERANCE = 1e-3  # of the largest element; of a gradient at least a thousandth of the largest of all gradients
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    # Large tensors are kept instead of being given back to the system after every operation.
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=30000000000:glibc.malloc.trim_threshold=30000000000:glibc.malloc.mmap_max=0",
    "JAX_PLATFORMS": "cpu",
}


ON_A_GPU = {"JAX_PLATFORMS": "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
ENVIRONMENTS = {"cpu": ONE_THREAD, "cuda": ON_A_GPU}
CLOCKS = {"cpu": time.process_time, "cuda": time.perf_counter}


def restart_for(device):
    """Libraries read these variables when they are loaded, the allocator before that."""
    wanted = ENVIRONMENTS[device]
    if wanted.items() <= os.environ.items():
        return
    environment = {name: value for name, value in os.environ.items() if name not in MISLEADING} | wanted
    if device == "cpu" and "avx512f" in pathlib.Path("/proc/cpuinfo").read_text():
        environment["ATEN_CPU_CAPABILITY"] = "avx512"
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def median_seconds(call, clock):
    """Of at least 11 runs, and of more while they are short. Runs of seconds are fewer."""
    times, begin = [], clock()
    while not times or (spent := clock() - begin) < 5 and (len(times) < 11 or spent < 0.5):
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


def on_the_host(values):
    """Arrays of either peer for numpy, wherever they are."""
    import numpy

    return numpy.asarray(values.cpu() if hasattr(values, "cpu") else values)


def worst_error(values, outputs, gradients, text):
    import numpy

    outputs, gradients = [on_the_host(output) for output in outputs], {name: on_the_host(gradient) for name, gradient in gradients.items()}
    scale = 1e-3 * max(numpy.abs(gradient).max(initial=0) for gradient in gradients.values())
    errors = [distance(values[name], output, 0) for name, output in zip(text.outputs, outputs)]
    return max(errors + [distance(values[f"grad.{name}"], gradient, scale) for name, gradient in gradients.items()])


def prepare_jacobian(row, text, moxie, peers):
    """As prepare(), of all derivatives of one output."""
    import numpy

    inputs = text.draw(numpy.random.default_rng(1), row.values)
    values = moxie.jacobian(text, inputs, row.jacobian, row.wrt)
    calls = {}
    for peer in peers:
        calls[peer.name] = peer.forward(getattr(row, peer.key), inputs), peer.jacobian(getattr(row, f"{peer.key}_jacobian"), inputs)
        outputs, derivatives = ([on_the_host(of) for of in call()] for call in calls[peer.name])
        named = dict(zip(text.outputs, outputs)) | {f"jac.{row.jacobian}.{name}": of for name, of in zip(row.wrt.split(","), derivatives)}
        worst = max(distance(values[name], of) for name, of in named.items())
        if not worst <= TOLERANCE:
            raise RuntimeError(f"moxie and {peer.name} differ by {worst:.2g} of the largest element")
    return calls


def prepare(row, text, moxie, peers):
    """The calls of the peers, once their values are those of moxie; else what is wrong."""
    import numpy

    random = numpy.random.default_rng(1)
    inputs = text.draw(random, row.values)
    chosen = [text.outputs.index(name) for name in (row.grad.split(",") if row.grad else text.outputs)]
    wrt = row.wrt.split(",") if row.wrt else list(text.inputs)
    forward = {peer.name: peer.forward(getattr(row, peer.key), inputs) for peer in peers}
    shapes = [output.shape for output in forward[peers[0].name]()]
    cotangents = tuple(numpy.asarray(random.standard_normal(shapes[i]), numpy.float32) for i in chosen)
    both = {peer.name: peer.gradients(getattr(row, peer.key), inputs, cotangents, wrt, chosen) for peer in peers}
    weights = {f"cot.{text.outputs[i]}": cotangent for i, cotangent in zip(chosen, cotangents)}
    values = moxie.values(text, inputs | weights, row.grad, row.wrt)
    for name, call in both.items():
        worst = worst_error(values, *call(), text)
        if not worst <= TOLERANCE:
            raise RuntimeError(f"moxie and {name} differ by {worst:.2g} of the largest element")
    return {name: (forward[name], both[name]) for name in both}


def measure(row, text, moxie, peers, rounds):
    clock = CLOCKS[moxie.device]
    calls = (prepare_jacobian if row.jacobian else prepare)(row, text, moxie, peers)
    best = {}
    for _ in range(rounds):
        seconds = moxie.jacobian_seconds(text, row.jacobian, row.wrt) if row.jacobian else moxie.seconds(text, row.grad, row.wrt)
        taken = {"moxie": seconds}
        for name, (forward, both) in calls.items():
            taken[name] = (median_seconds(forward, clock), median_seconds(both, clock))
        best = {name: tuple(map(min, times, best.get(name, times))) for name, times in taken.items()}
    return best


def ratios(times):
    """Of moxie to the faster peer, forward and with gradients."""
    return tuple(times["moxie"][k] / min(pair[k] for name, pair in times.items() if name != "moxie") for k in range(2))


def milliseconds(pair):
    return " / ".join(f"{1e3 * seconds:.3g}" for seconds in pair)


def print_means(measured):
    for k, what in enumerate(("forward", "forward + backward")):
        list_of = [ratios(times)[k] for times in measured]
        mean = math.exp(sum(map(math.log, list_of)) / len(list_of))
        print(f"{what}: moxie takes {mean:.2f} times as long as the best peer (geometric mean), and is ahead in "
              f"{sum(ratio <= 1 for ratio in list_of)} of {len(list_of)} rows")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--formulas", type=pathlib.Path, action="append", default=[], help="a folder of .mox texts; may be given several times")
    options.add_argument("--device", choices=ENVIRONMENTS, default="cpu")
    options.add_argument("--moxie", default=HERE.parents[1] / "build" / "bin" / "moxie", help="the program")
    options.add_argument("--rows", nargs="+", default=[], help="the formulas to measure, all if not given")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", type=pathlib.Path, help="where the seconds go, too")
    given = options.parse_args()
    restart_for(given.device)

    import calls
    import fields
    import layers
    import rows
    import strangers
    import texts

    torch = calls.Torch(given.device)  # first: it says so where there is no GPU
    peers = [calls.Jax(given.device), torch]
    moxie = Moxie(given.moxie, (*ENVIRONMENTS[given.device], *MISLEADING), given.device)
    print("| formula | extents | moxie | " + " | ".join(peer.name for peer in peers) + " | moxie / best |")
    print("| --- " * (4 + len(peers)) + "|")
    measured, records = [], []
    for row in (*rows.ROWS, *layers.ROWS, *strangers.ROWS, *fields.ROWS):
        if given.rows and row.formula not in given.rows:
            continue
        dims = row.gpu_dims or row.dims if given.device == "cuda" else row.dims
        text = texts.Text(row.formula, [*given.formulas, HERE, *(HERE / name for name in FOLDERS), HERE.parent / "adbench"], dims)
        try:
            times = measure(row, text, moxie, [peer for peer in peers if getattr(row, peer.key)], given.rounds)
        except RuntimeError as problem:
            print(f"| {row.formula} | {dims} | {problem} |", flush=True)
            continue
        measured.append(times)
        records.append({"formula": row.formula, "dims": dims, "seconds": times})
        where = f"{dims}{f' (wrt {row.wrt})' if row.wrt else ''}"
        cells = [milliseconds(times[name]) if name in times else "" for name in ("moxie", *(peer.name for peer in peers))]
        print(f"| {row.formula} | {where} | {' | '.join(cells)} | {' / '.join(f'{ratio:.2f}' for ratio in ratios(times))} |", flush=True)
        if given.json:
            given.json.write_text(json.dumps(records, indent=1) + "\n")
    if measured:
        print()
        print_means(measured)


if __name__ == "__main__":
    main()

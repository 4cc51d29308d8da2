"""Figures of moxie, of kernels written by hand and of PyTorch, in seconds."""
import json
import sys

from gpu.parts import Failed, Skipped, find_tool

LAYER = {"S": 16384, "N": 512}
ELEMENTWISE = {"S": 16384, "N": 2048}  # many times what the caches hold
SECONDS_PER_CASE = 30
WRONG_VALUES = 2  # what hand_kernels ends with, figures printed
CASES = {
    "gpn_layer_variance": LAYER,
    "gpn_layer_variance_equispaced": LAYER,
    "gpn_layer_mean": LAYER,
    "probact_forward": ELEMENTWISE,
    "probact_sample": ELEMENTWISE,
    "train_step_letter": {"S": 256},
    "train_step_letter_tanh": {"S": 256},
}


def run_moxie(check):
    check.need_gpu()
    figures, problems = {}, []
    for case, dims in CASES.items():
        extents = ",".join(f"{name}={extent}" for name, extent in dims.items())
        try:
            [figures[case]] = json.loads(check.run(check.program("moxie"), "bench", case, "--device", "cuda", "--dims", extents, "--json",
                                                  seconds=SECONDS_PER_CASE))
        except Failed as problem:
            problems.append(str(problem))
    check.report["moxie"] = figures
    if problems:
        raise Failed("\n".join(problems))


def run_hand_kernels(check):
    """Compiled in any case."""
    source, program = check.root / "benchmarks" / "gpu" / "hand_kernels.cu", check.folder / "hand_kernels"
    architecture = ["-arch=native"] if "device" in check.report else []
    check.run(find_tool("nvcc"), "-O3", "-std=c++17", *architecture, "--use_fast_math", source, "-o", program)
    check.need_gpu()
    figures = json.loads(check.run(program, LAYER["S"], LAYER["N"], accepted=(0, WRONG_VALUES)))
    check.report["hand_kernels"] = figures
    if figures["wrong"]:
        raise Failed("the kernels written by hand compute wrong values")


def run_pytorch(check):
    check.need_gpu()
    script = check.root / "benchmarks" / "gpu" / "gpn_layer_torch.py"
    try:
        output = check.run(sys.executable, script, "--S", LAYER["S"], "--N", LAYER["N"])
    except Failed as problem:
        check.report["pytorch"] = last_report(problem.output)
        raise
    figures = check.report["pytorch"] = last_report(output)
    if "skipped" in figures:
        raise Skipped(figures["skipped"])
    failures = [f"{name}: {figures[name]['failed']}" for name in ("eager", "compiled") if "failed" in figures[name]]
    if failures:
        raise Failed("\n".join(failures))


def last_report(output):
    """Each line of the script's output has all that the one before it has."""
    lines = output.strip().splitlines()
    return json.loads(lines[-1]) if lines else {}

"""How far figures are from what the device can do, and from the others'.

The counts of operations are those of docs/gpu.md, per element of the layer.
"""
from dataclasses import dataclass

SPECIAL_PER_CLOCK = 16  # of one multiprocessor: exp2, rsqrt, ...
MULTIPLY_ADDS_PER_CLOCK = {75: 64, 80: 64}
USUAL_MULTIPLY_ADDS_PER_CLOCK = 128


@dataclass(frozen=True)
class Work:
    """Of one pass over one element."""
    arithmetic: int
    special: int
    bytes: int


LAYERS = {
    "gpn_layer_variance": {"forward_s": [Work(369, 121, 16)], "forward_backward_s": [Work(369, 121, 16), Work(989, 121, 24)]},
    "gpn_layer_variance_equispaced": {"forward_s": [Work(135, 43, 16)], "forward_backward_s": [Work(135, 43, 16), Work(365, 43, 24)]},
}
BYTES_PER_ELEMENT = {"probact_forward": 12, "probact_sample": 8}
# Parts of the limit, times of others over moxie's, and parts of a step's time, that are wanted at least.
WANTED = {
    "gpn_layer_variance forward_backward_s of limit": 0.6,
    "gpn_layer_variance forward_backward_s against pytorch compiled": 20,
    "probact_sample forward_s of copy": 0.85,
    "train_step_letter step_s of 60 us": 1,
}


def least_seconds(passes, elements, device, copy):
    """Where the passes are bound by arithmetic, by special functions or by memory."""
    clocks = device["multiprocessors"] * device["clock_hz"]
    multiply_adds = MULTIPLY_ADDS_PER_CLOCK.get(device["architecture"], USUAL_MULTIPLY_ADDS_PER_CLOCK)
    return sum(elements * max(work.arithmetic / multiply_adds / clocks, work.special / SPECIAL_PER_CLOCK / clocks, work.bytes / copy if copy else 0)
               for work in passes)


def elements_of(entry):
    return entry["dims"]["S"] * entry["dims"]["N"]


def layer_ratios(report, copy):
    device = report.get("device", {})
    if not {"multiprocessors", "clock_hz", "architecture"} <= device.keys():
        return
    for case, timings in LAYERS.items():
        for timing, passes in timings.items():
            if case in report["moxie"]:
                entry = report["moxie"][case]
                yield f"{case} {timing} of limit", least_seconds(passes, elements_of(entry), device, copy) / entry[timing]


def copy_ratios(report, copy):
    for case, size in BYTES_PER_ELEMENT.items():
        if copy and case in report["moxie"]:
            entry = report["moxie"][case]
            yield f"{case} forward_s of copy", size * elements_of(entry) / copy / entry["forward_s"]


def peer_ratios(report):
    layer = report["moxie"].get("gpn_layer_variance")
    torch = report.get("pytorch", {})
    peers = {"hand kernels": report.get("hand_kernels", {}).get("gpn_layer_variance", {}), "pytorch eager": torch.get("eager", {}),
             "pytorch compiled": torch.get("compiled", {})}
    for peer, figures in peers.items():
        for timing in ("forward_s", "forward_backward_s"):
            if layer and timing in figures:
                yield f"gpn_layer_variance {timing} against {peer}", figures[timing] / layer[timing]


def ratios(report):
    """Rows of the report: larger is better."""
    if not report.get("moxie"):
        return []
    copy = report.get("hand_kernels", {}).get("copy_bytes_per_s", 0)
    values = dict([*layer_ratios(report, copy), *copy_ratios(report, copy), *peer_ratios(report)])
    if "train_step_letter" in report["moxie"]:
        values["train_step_letter step_s of 60 us"] = 60e-6 / report["moxie"]["train_step_letter"]["step_s"]
    rows = [{"what": what, "value": float(f"{value:.4g}")} for what, value in values.items()]
    for row in rows:
        if row["what"] in WANTED:
            row.update(wanted=WANTED[row["what"]], reached=row["value"] >= WANTED[row["what"]])
    return rows

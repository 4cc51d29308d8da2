"""What is measured, and on what."""
import datetime
import json
import platform
import shutil

from gpu.parts import Failed, Skipped, find_tool


def commit_of(check):
    """That of the checkout, else the one that was packed."""
    if shutil.which("git"):
        try:
            return check.run("git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*").strip()
        except Failed:
            pass  # a copy of the sources has no history
    packed = check.folder / "packed.json"
    return json.loads(packed.read_text())["commit"] if packed.exists() else "unknown"


def version_of(check, tool, word):
    """The line with this word of what a tool says of itself."""
    try:
        return next(line for line in check.run(find_tool(tool), "--version").splitlines() if word in line).strip()
    except (Failed, Skipped, StopIteration):
        return "absent"


def describe(check):
    check.report.update(
        date=datetime.date.today().isoformat(), commit=commit_of(check), host=f"{platform.system()} {platform.machine()}",
        compiler=version_of(check, "g++", "g++"), toolkit=version_of(check, "nvcc", "release"))
    fields = ("name", "driver_version", "clocks.max.sm", "memory.total")
    row = check.run(find_tool("nvidia-smi"), f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", "--id=0").strip().split(", ")
    check.report["device"] = {"name": row[0], "driver": row[1], "clock_hz": float(row[2]) * 1e6, "memory_mib": float(row[3])}


def ask_doctor(check):
    """moxie's own view; what it lacks besides the GPU is no matter here, such as LLVM."""
    findings = json.loads(check.run(check.program("moxie"), "doctor", "--json", accepted=(0, 1)))
    parts = {finding.pop("part"): finding for finding in findings}
    check.report["doctor"] = {part: finding["state"] for part, finding in parts.items()}
    driver, nvrtc = parts["CUDA driver"], parts["NVRTC"]
    check.report["gpu"] = nvrtc if driver["usable"] and not nvrtc["usable"] else driver
    if driver["usable"]:
        device = check.report.setdefault("device", {"name": driver["state"].partition(" (")[0]})
        device.update(architecture=driver["architecture"], multiprocessors=driver["multiprocessors"])
    elif "device" in check.report:
        raise Failed(f"nvidia-smi sees a GPU, moxie does not: {driver['state']}")

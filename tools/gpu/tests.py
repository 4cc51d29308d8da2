"""The tests of label gpu, and a few of them under compute-sanitizer."""
import xml.etree.ElementTree

from gpu.parts import Failed, find_tool

# Few and short: a sanitizer makes kernels many times slower.
SANITIZED = (("session_devices_test",), ("property_gpu_test", "--test-case=*on gradients"))
ONLY_GPU = {"TEST_DEVICES": "cuda"}
ERROR_CODE = 86


def outcome_of(case):
    if case.find("skipped") is not None:
        return "skipped"
    return "passed" if case.get("status") == "run" and case.find("failure") is None else "failed"


def run_tests(check):
    results = check.folder / "logs" / "tests.xml"
    check.run("ctest", "--test-dir", check.build, "-L", "gpu", "--parallel", 4, "--output-on-failure", "--no-tests=error", "--output-junit", results,
              accepted=(0, 8))
    outcomes = {case.get("name"): outcome_of(case) for case in xml.etree.ElementTree.parse(results).iter("testcase")}
    check.report["tests"] = outcomes
    bad = [name for name, outcome in outcomes.items() if outcome == "failed" or (outcome == "skipped" and check.has_gpu())]
    if bad:
        raise Failed(f"these did not pass: {', '.join(bad)}; see {check.folder / 'logs' / 'tests.log'}")
    check.need_gpu()


def sanitize(check, tool):
    check.need_gpu()
    program = find_tool("compute-sanitizer")
    for name, *arguments in SANITIZED:
        check.run(program, "--tool", tool, "--error-exitcode", ERROR_CODE, check.program(name), *arguments, environment=ONLY_GPU)


def run_memcheck(check):
    sanitize(check, "memcheck")


def run_racecheck(check):
    sanitize(check, "racecheck")

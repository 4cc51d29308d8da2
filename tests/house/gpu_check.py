#!/usr/bin/env python3
"""tools/gpu_check, as far as it goes without building: its help, its limits of time, its report."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

from gpu import limits, pack, parts, report  # noqa: E402

# A GPU of 100 multiprocessors at 1 GHz: 12.8e12 multiply-adds and 1.6e12 special functions a second.
DEVICE = {"name": "NVIDIA Test", "architecture": 90, "multiprocessors": 100, "clock_hz": 1e9}
LAYER = {"dims": {"S": 1000, "N": 1000, "R": 14}, "forward_s": 151.25e-6, "forward_backward_s": 305.78125e-6}


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.check = parts.Check(self.folder, self.folder, time.monotonic() + 60)

    def gpu_check(self, *arguments):
        return subprocess.run([sys.executable, "-B", ROOT / "tools" / "gpu_check", *arguments], capture_output=True, text=True)

    def test_help_names_the_parts_that_the_documentation_explains(self):
        done = self.gpu_check("--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        documented = (ROOT / "docs" / "gpu.md").read_text()
        for part in " ".join(done.stdout.split("some of:")[1].split()).split(", "):
            self.assertIn(f"`{part}`", documented)

    def test_unknown_parts_are_refused(self):
        done = self.gpu_check("--only", "nothing")
        self.assertEqual(done.returncode, 2)
        self.assertIn("invalid choice: 'nothing'", done.stderr)

    def test_packages_are_those_of_the_setup(self):
        setup = (ROOT / "tools" / "setup").read_text()
        for package in pack.PACKAGES:
            if package.endswith("-dev"):
                self.assertIn(package, setup)

    def test_packed_packages_do_not_name_where_they_were_installed(self):
        self.assertEqual(pack.relocated('set(_IMPORT_PREFIX "/usr")\n', "lib/cmake/doctest/doctestTargets.cmake"),
                         'get_filename_component(_IMPORT_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)\n')

    def test_a_part_that_fails_says_why_with_the_end_of_its_output(self):
        row = parts.perform(self.check, "build", 10, lambda check: check.run("sh", "-c", "echo no compiler >&2; exit 3"))
        self.assertEqual(row["outcome"], "failed")
        self.assertIn("ended with 3: no compiler", row["reason"])
        self.assertIn("no compiler", (self.folder / "logs" / "build.log").read_text())

    def test_a_part_that_takes_too_long_is_ended_with_what_it_started(self):
        row = parts.perform(self.check, "tests", 0.5, lambda check: check.run("sh", "-c", "echo begun; sleep 30 & wait"))
        self.assertEqual(row["outcome"], "failed")
        self.assertIn("begun", row["reason"])
        self.assertLess(row["seconds"], 10)

    def test_what_is_missing_is_a_failure_of_its_part_alone(self):
        missing = parts.perform(self.check, "doctor", 10, lambda check: check.program("moxie"))
        unforeseen = parts.perform(self.check, "doctor", 10, lambda check: check.run("no-such-program"))
        self.assertIn("the build made no moxie", missing["reason"])
        self.assertEqual(unforeseen["outcome"], "failed")

    def test_without_a_gpu_the_report_says_so(self):
        self.check.report["gpu"] = {"usable": False, "state": "no driver"}
        row = parts.perform(self.check, "benchmarks", 10, lambda check: check.need_gpu())
        self.assertEqual((row["outcome"], row["reason"]), ("skipped", "no device cuda: no driver"))
        self.assertEqual(report.write(self.check, [row], self.folder / "absent.json"), 0)
        self.assertEqual(json.loads((self.folder / "absent.json").read_text())["outcome"], "passed, device cuda absent")

    def test_ratios_are_those_of_the_limits(self):
        figures = {"device": DEVICE, "moxie": {"gpn_layer_variance": LAYER, "train_step_letter": {"step_s": 120e-6}},
                   "hand_kernels": {"copy_bytes_per_s": 4e12}, "pytorch": {"compiled": {"forward_backward_s": 3.0578125e-3}}}
        rows = {row["what"]: row for row in limits.ratios(figures)}
        self.assertEqual(rows["gpn_layer_variance forward_s of limit"]["value"], 0.5)  # 121e6 / 1.6e12 s
        self.assertEqual(rows["gpn_layer_variance forward_backward_s of limit"]["value"], 0.5)  # and 989e6 / 12.8e12 s
        self.assertEqual(rows["gpn_layer_variance forward_backward_s against pytorch compiled"], {
            "what": "gpn_layer_variance forward_backward_s against pytorch compiled", "value": 10.0, "wanted": 20, "reached": False})
        self.assertEqual(rows["train_step_letter step_s of 60 us"]["value"], 0.5)

    def test_without_figures_there_are_no_ratios(self):
        self.assertEqual(limits.ratios({}), [])


if __name__ == "__main__":
    unittest.main()

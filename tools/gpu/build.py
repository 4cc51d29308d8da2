"""Configures and builds what a check runs, with the packed prefix where there is one."""
import os
import shutil

TARGETS = ("moxie", "gpu_tests")


def configure(check):
    options = ["-DMOXIE_WITH_LLVM=OFF", "-DMOXIE_BUILD_EXAMPLES=OFF", "-DMOXIE_INSTALL=OFF", "-DCMAKE_BUILD_TYPE=Release", "-DMOXIE_TEST_GPU=device",
               "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG"]
    if (check.folder / "prefix").is_dir():
        options += [f"-DCMAKE_PREFIX_PATH={check.folder / 'prefix'}"]
    if (check.folder / "shared").is_dir():
        options += [f"-DMOXIE_SHARED_DIR={check.folder / 'shared'}"]
    if shutil.which("ninja"):
        options += ["-G", "Ninja"]
    if shutil.which("ccache"):
        options += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    check.run("cmake", "-S", check.root, "-B", check.build, *options)


def build(check):
    """What does not compile must not keep the rest from being built."""
    going_on = ("--", "-k", "0") if shutil.which("ninja") else ("--", "-k")
    check.run("cmake", "--build", check.build, "--parallel", os.cpu_count() or 1, "--target", *TARGETS, *going_on)

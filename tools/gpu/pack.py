"""What the build needs from Debian's packages, in a folder that travels with the sources."""
import json
import pathlib
import shutil
import subprocess

# Development files, and the shared libraries that they link.
PACKAGES = ("libfmt-dev", "libfmt9", "libzstd-dev", "libzstd1", "libxxhash-dev", "libxxhash0", "nlohmann-json3-dev", "libcli11-dev",
            "doctest-dev", "zlib1g-dev", "zlib1g")
KEPT = ("include/", "lib/", "share/cmake/")
LEFT_OUT = (".pc",)


class PackError(Exception):
    pass


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise PackError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


def files_of(package):
    """(file, its place below a prefix) of what a build reads."""
    for line in output_of("dpkg", "-L", package).splitlines():
        path = pathlib.Path(line)
        below = line.removeprefix("/usr").lstrip("/")
        if path.is_file() and below.startswith(KEPT) and path.suffix not in LEFT_OUT:
            yield path, below


def relocated(text, below):
    """A configuration of cmake that names the prefix it was installed to, with its place below the prefix instead."""
    here = "/".join([".."] * (len(pathlib.PurePath(below).parts) - 1))
    return text.replace('set(_IMPORT_PREFIX "/usr")', f'get_filename_component(_IMPORT_PREFIX "${{CMAKE_CURRENT_LIST_DIR}}/{here}" ABSOLUTE)')


def copy(path, below, prefix):
    target = prefix / below
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".cmake":
        target.write_text(relocated(path.read_text(), below))
    else:
        shutil.copyfile(path, target)


def pack(root, folder):
    """The bytes of all that is now in `folder`/prefix and `folder`/shared. Links become copies, since not every way to carry a folder keeps them."""
    try:
        versions = dict(line.split() for line in output_of("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *PACKAGES).splitlines())
    except FileNotFoundError as missing:
        raise PackError(f"{missing.filename} is missing: pack on Debian, after tools/setup") from missing
    for old in ("prefix", "shared"):
        shutil.rmtree(folder / old, ignore_errors=True)
    for path, below in (file for package in PACKAGES for file in files_of(package)):
        copy(path, below, folder / "prefix")
    golden = root.parent / "shared" / "golden"
    if golden.is_dir():
        shutil.copytree(golden, folder / "shared" / "golden")
    commit = output_of("git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*").strip()
    (folder / "packed.json").write_text(json.dumps({"commit": commit, "packages": versions}, indent=1) + "\n")
    return sum(file.stat().st_size for part in ("prefix", "shared") for file in (folder / part).rglob("*") if file.is_file())

"""What a comparison needs of a .mox text: the shapes of the inputs, and the names of the outputs."""
import re
from pathlib import Path

import numpy

INPUT = re.compile(r"(\w+)(?:\[([^\]]*)\])?\s*(?::\s*(\w+))?\s*([<>]=?\s*[-\d.]+)?")


class Text:
    def __init__(self, formula, folders, dims):
        found = [folder / f"{formula}.mox" for folder in folders if (folder / f"{formula}.mox").exists()]
        if not found:
            raise SystemExit(f"no {formula}.mox in {', '.join(map(str, folders))}; name its folder with --formulas")
        self.path = found[0]
        self.dims = {name: int(value) for name, value in (pair.split("=") for pair in dims.split())}
        lines = [line.split("#")[0].strip() for line in self.path.read_text().splitlines()]
        declared = ",".join(line.removeprefix("dim ") for line in lines if line.startswith("dim "))
        self.extents = {}  # of all dims, in the order of the text
        for name, value in re.findall(r"(\w+)(?: dynamic)?(?: *= *(\d+))?", declared):
            self.extents[name] = self.dims[name] if name in self.dims else int(value)
        self.outputs = [re.match(r"output (\w+)", line)[1] for line in lines if line.startswith("output ")]
        self.inputs = {}  # the shape, and whether only positive values are allowed
        self.integers = set()
        for line in lines:
            if line.startswith("input "):
                for name, shape, dtype, domain in INPUT.findall(line.removeprefix("input ")):
                    self.inputs[name] = (tuple(eval(f"[{shape}]", {}, self.extents)), bool(domain))
                    if dtype == "i32":
                        self.integers.add(name)

    def dim_option(self):
        return ["--dim", ",".join(f"{name}={value}" for name, value in self.dims.items())]

    def draw(self, random, values):
        """An array for every input; `values` has a number or a function of the array for some of them."""
        arrays = {}
        for name, (shape, positive) in self.inputs.items():
            array = (random.uniform(0.5, 1.5, shape) if positive else random.standard_normal(shape)).astype(numpy.float32)
            change = values.get(name, lambda same: same)
            dtype = numpy.int32 if name in self.integers else numpy.float32
            arrays[name] = numpy.asarray(change(array) if callable(change) else numpy.full(shape, change), dtype)
        return arrays

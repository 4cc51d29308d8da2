"""Tensors of 40 digits, the draws of inputs, gradients by central differences, and the files of golden cases.

Inputs are multiples of a power of two, so that they are exact in single precision.
"""
import functools
import itertools
import json
import pathlib
import random
import sys

from mpmath import mp, mpf

mp.dps = 40
STEP = mpf(10) ** -12
WANTED = set(sys.argv[1:])


class Tensor:
    def __init__(self, shape, data):
        self.shape, self.data = list(shape), [mpf(x) for x in data]

    def position(self, index):
        flat = 0
        for i, extent in zip(index, self.shape):
            flat = flat * extent + i
        return flat

    def __getitem__(self, index):
        return self.data[self.position(index if isinstance(index, tuple) else (index,))]

    def moved(self, positions, step):
        return Tensor(self.shape, [x + step if i in positions else x for i, x in enumerate(self.data)])

    def json(self):
        return {"shape": self.shape, "data": [float(x) for x in self.data]}


def tensor(f, *shape):
    return Tensor(shape, [f(*i) for i in itertools.product(*map(range, shape))])


def scalar(value):
    return Tensor([], [value])


def draw(generator, shape, low, high, grid=64):
    count = 1
    for extent in shape:
        count *= extent
    return Tensor(shape, [round(generator.uniform(low, high) * grid) / grid for _ in range(count)])


class Covariance:
    """Draws B B^T, with B lower triangular and a diagonal of at least 1/2, for the last two of `shape`."""

    def __init__(self, *shape):
        self.shape = shape

    def draw(self, generator):
        *batch, size, _ = self.shape
        low, high = draw(generator, self.shape, -0.5, 0.5, 8), draw(generator, (*batch, size), 0.5, 1, 8)

        def factor(index, r, t):
            return high[(*index, r)] if r == t else low[(*index, r, t)] if t < r else mpf(0)

        return tensor(lambda *i: sum(factor(i[:-2], i[-2], t) * factor(i[:-2], i[-1], t) for t in range(size)), *self.shape)

    def orbit(self, position):
        """The positions of an element and of its mirror image."""
        size = self.shape[-1]
        block, r, t = position // size**2, position // size % size, position % size
        return {position, (block * size + t) * size + r}


def weighted(outputs, cotangents):
    return sum(c * y for name in outputs for c, y in zip(cotangents[name].data, outputs[name].data))


def gradients(function, inputs, cotangents, constants, covariances):
    """The gradient of a covariance is the symmetric G with dJ = sum_ij G_ij dC_ij for symmetric dC."""
    result = {}
    for name, value in inputs.items():
        if name in constants:
            continue
        slopes = []
        for k in range(len(value.data)):
            moved = covariances[name].orbit(k) if name in covariances else {k}
            up, down = (weighted(function(**{**inputs, name: value.moved(moved, step)}), cotangents) for step in (STEP, -STEP))
            slopes.append((up - down) / (2 * STEP * len(moved)))
        result[name] = Tensor(value.shape, slopes)
    return result


def write(op, function, ranges, constants=(), dims=None, without_gradients=None, tolerance=1e-12, single=(1e-5, 2e-5), held=()):
    """One case of an operation. `ranges` says how each input is drawn: (shape, low, high[, grid]) or a Covariance; `dims` has those that
    no shape shows; `single` holds the relative tolerances in single precision of values and of gradients; `without_gradients` is the
    reason why there are none. For each input in `held`, the function has an argument held_NAME: its value where the gradient is taken, which
    no difference moves (stop_gradient)."""
    if WANTED and op not in WANTED:
        return
    generator = random.Random(op)
    covariances = {name: how for name, how in ranges.items() if isinstance(how, Covariance)}
    inputs = {name: how.draw(generator) if name in covariances else draw(generator, *how) for name, how in ranges.items()}
    function = functools.partial(function, **{f"held_{name}": inputs[name] for name in held})
    outputs = function(**inputs)
    case = {"name": "small", "op": op, "rtol_float64": tolerance, "rtol_float32": single[0], "cotangents": {}, "gradients": {}}
    if dims:
        case["dims"] = dims
    if without_gradients:
        case["note"] = without_gradients
    else:
        case["rtol_grad_float64"], case["rtol_grad_float32"] = tolerance, single[1]
        cotangents = {name: draw(generator, y.shape, -1, 1) for name, y in outputs.items()}
        slopes = gradients(function, inputs, cotangents, constants, covariances)
        case["cotangents"] = {name: t.json() for name, t in cotangents.items()}
        case["gradients"] = {name: t.json() for name, t in slopes.items()}
    case["inputs"] = {name: t.json() for name, t in inputs.items()}
    case["outputs"] = {name: t.json() for name, t in outputs.items()}
    file = {"op": op, **({"symmetric_inputs": list(covariances)} if covariances else {}), "cases": [case]}
    pathlib.Path(__file__).with_name(op + ".json").write_text(to_text(file) + "\n")


def to_text(value, margin=""):
    """JSON with a tensor in each line."""
    if isinstance(value, dict) and "data" not in value and value:
        inner = margin + " "
        return "{\n" + ",\n".join(f"{inner}{json.dumps(k)}: {to_text(v, inner)}" for k, v in value.items()) + "\n" + margin + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ", ".join(to_text(v, margin) for v in value) + "]"
    return json.dumps(value)

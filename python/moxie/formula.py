"""Formulas in index notation as functions of arrays."""

from __future__ import annotations

import difflib
import functools
import html as _html
import json
import keyword
import operator
import os
import pathlib
import re
import tempfile
import threading
from collections import namedtuple
from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from . import _core, _program, interop
from ._devices import chosen
from .errors import CheckError, DtypeError, FormulaError, InputError, ShapeError

if TYPE_CHECKING:
    from .derivatives import Gradient, HessianProduct, Jacobian, Tangent


class TensorInfo(NamedTuple):
    """An input or output: its name, the dtype it is declared with, its extents and declared domain as text."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    domain: str

    @property
    def is_real(self) -> bool:
        """Whether its elements are real numbers, which have derivatives, and no integers."""
        return "float" in self.dtype


def formula(text: str, *, name: str = "formula", file: str = "<formula>", dims: Mapping[str, int] | None = None,
            dtype: Any = None, device: str | _core.Device | None = None, seed: int = 0) -> Formula:
    """A formula in moxie's text form as a function of arrays.

    text    the formula: docs/text-form.md describes the language
    name    the name of its kernels, in dumps
    file    the name that error messages give the text
    dims    values of dims that no input shows
    dtype   numpy.float32 or numpy.float64; None: that of the arrays of a call
    device  a name ("cpu", "cuda", "interp", "auto") or what `moxie.device` gives; None: $MOXIE_DEVICE, else "cpu"
    seed    of its random numbers, if it draws any

    Raises FormulaError for a text that is no formula. Nothing is compiled before the first call.
    """
    if not isinstance(text, str):
        raise InputError(f"expected the text of a formula, found {type(text).__name__}")
    if "\n" not in text and text.strip().endswith(".mox"):
        raise InputError(f"expected the text of a formula, found the name of a file; moxie.load({text.strip()!r}) reads it")
    return Formula(_core.parse(text, file, name), dims=dims, dtype=dtype, device=device, seed=seed)


def load(path: str | os.PathLike[str], *, name: str | None = None, include: Iterable[str | os.PathLike[str]] = (),
         **options: Any) -> Formula:
    """The formula in a .mox file, with the options of `formula`. It may include files from its folder and below, and from
    the folders `include`."""
    path = pathlib.Path(path)
    with path.open("rb"):
        pass  # raises OSError for a file that cannot be read
    program = _core.read_formula(str(path), path.stem if name is None else name, [str(folder) for folder in include])
    return Formula(program, **options)


def op(name: str, **options: Any) -> Formula:
    """A formula of moxie's catalogue, such as "gpn.response_mean", with the options of `formula` but name and file."""
    return Formula(_core.catalogue_formula(name), **options)


def ops() -> list[str]:
    """The names of the catalogue."""
    return _core.catalogue_names()


def _real_names(tensors: Iterable[TensorInfo]) -> list[str]:
    return [tensor.name for tensor in tensors if tensor.is_real]


def _dtype_name(dtype: Any) -> str | None:
    if dtype is None:
        return None
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name not in ("float32", "float64"):
        raise DtypeError(f"expected dtype float32 or float64, found {name}")
    return name


def _whole(value: Any, what: str, low: int, high: int) -> int:
    """A whole number in low..high-1. Raises InputError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{what}: expected a whole number, found {value!r}") from None
    if not low <= number < high:
        raise InputError(f"{what}: expected a number in {low}..{high - 1}, found {number}")
    return number


def _some(names: str | Iterable[str], kind: str) -> list[str]:
    """The names, of which there must be some."""
    found = _names(names)
    if not found:
        raise InputError(f"expected at least one {kind}, found none")
    return found


def _names(names: str | Iterable[str]) -> list[str]:
    """Each name once."""
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))


def _unknown(kind: str, name: str, known: Sequence[str]) -> InputError:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return InputError(f"there is no {kind} {name}{hint} There are: {', '.join(known)}" if close
                      else f"there is no {kind} {name}; there are: {', '.join(known)}")


def _in_order(given: Any, names: Sequence[str], kind: str, plural: str) -> list[Any]:
    """The arrays for `names`, given as a dict, as a sequence, or as one array for one name. Raises InputError."""
    if not isinstance(given, Mapping):
        if len(names) != 1 and len(given) != len(names):
            raise InputError(f"expected {len(names)} {plural} ({', '.join(names)}), found {len(given)}")
        given = {names[0]: given} if len(names) == 1 else dict(zip(names, given))
    for name in given:
        if name not in names:
            raise _unknown(kind, name, names)
    missing = [name for name in names if name not in given]
    if missing:
        raise InputError(f"missing {plural}: {', '.join(missing)}")
    return [given[name] for name in names]


def _field(name: str) -> str:
    """The name as an attribute of Python."""
    plain = name.replace(".", "_")
    return plain + "_" if keyword.iskeyword(plain) else plain


@functools.lru_cache(maxsize=None)
def _outputs_type(fields: tuple[str, ...]) -> Any:
    """The class of several results: a named tuple, which can be pickled."""
    kind = namedtuple("Outputs", fields, rename=True)
    kind.__reduce__ = lambda self: (_outputs, (fields, tuple(self)))
    return kind


def _outputs(fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _outputs_type(fields)._make(values)


class Formula:
    """A formula as a function. Made by `formula`, `load` and `op`; never changes, but for the step of random numbers.

    Call it with one array for each input, by name or in the order of `inputs`; an input whose name is a keyword of
    Python is given with an underscore (`lambda_=`). Arrays of numpy, torch and jax and of everything that speaks the
    buffer protocol or DLPack serve as they are: they are copied only where they do not lie row by row in the memory of
    the host. Results are new arrays of the same library: one array for one output, a named tuple for several.

    Dims declared `dynamic` may change from call to call at the price of a look-up; other dims are compiled in, so that
    new values cost a compilation. What was compiled for the last 32 sets of shapes is kept.

    Threads may share a formula: kernels run without the GIL. It can be pickled.
    """

    def __init__(self, program: _core.Program, *, dims: Mapping[str, int] | None = None, dtype: Any = None,
                 device: str | _core.Device | None = None, seed: int = 0):
        self._program = program
        self._dims = {name: _whole(value, f"dim {name}", 0, 2**63) for name, value in (dims or {}).items()}
        self._dtype = _dtype_name(dtype)
        self._device = chosen(device)
        self._seed, self._step = _whole(seed, "seed", 0, 2**64), 0
        known = [name for name, _, _ in program.dims]
        for name in self._dims:
            if name not in known:
                raise _unknown("dim", name, known)
        self._function = _core.Function(program, self._dims, self._dtype, self._device)
        self._call = self._function.call
        self._is_random = program.is_random
        self._dynamic_dims = frozenset(name for name, _, dynamic in program.dims if dynamic)
        self._lock = threading.Lock()
        self.inputs = tuple(TensorInfo(*info) for info in program.inputs)
        self.outputs = tuple(TensorInfo(*info) for info in program.outputs)
        if not self.outputs:
            raise FormulaError("the formula has no output; add a line such as: output y = 2*x")
        self._input_names = [info.name for info in self.inputs]
        self._output_names = [info.name for info in self.outputs]
        self._count = len(self.inputs)
        fields = [_field(name) for name in self._output_names]
        self._results = None if len(fields) == 1 else _outputs_type(tuple(fields))._make
        self._derivatives: dict[Any, Formula] = {}
        self._bridges: dict[Any, Any] = {}
        self._handles: dict[tuple[str, ...], Any] = {}  # for calls by XLA

    # ---- What it is ----

    @property
    def name(self) -> str:
        """The name of its kernels."""
        return self._program.name

    @property
    def text(self) -> str:
        """The formula as .mox text."""
        return self._program.text

    @property
    def dims(self) -> dict[str, int]:
        """The values of dims in the last call; before the first, those that are known."""
        declared = {name: value for name, value, _ in self._program.dims if value is not None}
        return declared | self._dims | self._function.last_dims

    @property
    def device(self) -> _core.Device:
        """Where it runs."""
        return self._device

    @functools.cached_property
    def _spelling(self) -> str:
        """All that says what it computes, and where: the same in another process."""
        return json.dumps([self.name, self.text, self._dims, self._dtype, self._device.name])

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}[{','.join(shape)}]" if shape else name for name, _, shape, _ in self.inputs)
        return f"<moxie.Formula {self.name}({inputs}) -> {', '.join(self._output_names)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{_html.escape(self.text)}</pre>"

    def __reduce__(self):
        options = {"dims": self._dims, "dtype": self._dtype, "device": self._device.name, "seed": self._seed}
        return _rebuild, (self.name, self.text, options, self._step)

    # ---- Calls ----

    def __call__(self, /, *args: Any, **arrays: Any) -> Any:
        """The values of the outputs; see the class."""
        values = self._ordered(args, arrays)
        return self._pack(self._evaluate(values, self._seed, self._next_step()))

    def _next_step(self) -> int:
        if not self._is_random:
            return 0
        with self._lock:
            step, self._step = self._step, self._step + 1
        return step

    def _evaluate(self, values: Sequence[Any], seed: int, step: int) -> Sequence[Any]:
        """One result for each output. Whatever is not a plain array of numpy goes the longer way."""
        if interop.PLAIN.issuperset(map(type, values)):
            return self._call(values, seed, step)
        return self._evaluate_foreign(values, seed, step)

    def _pack(self, results: Sequence[Any]) -> Any:
        """Results as a call returns them."""
        return self._results(results) if self._results else results[0]

    def _ordered(self, args: Sequence[Any], arrays: Mapping[str, Any]) -> list[Any]:
        """As _match, quickly where every input is given by its name."""
        if args or len(arrays) != self._count:
            return self._match(args, arrays)
        try:
            return [arrays[name] for name in self._input_names]
        except KeyError:
            return self._match(args, arrays)

    def _match(self, args: Sequence[Any], arrays: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call in the order of inputs. Raises InputError."""
        if len(args) > self._count:
            raise InputError(f"{self.name} has {self._count} inputs ({', '.join(self._input_names)}), found {len(args)} arrays")
        given = dict(zip(self._input_names, args))
        aliases = {_field(name): name for name in self._input_names}
        for key, value in arrays.items():
            name = key if key in self._input_names else aliases.get(key, key)
            if name not in self._input_names:
                raise _unknown("input", key, self._input_names)
            if name in given:
                raise InputError(f"input {name} is given twice")
            given[name] = value
        missing = [info for info in self.inputs if info.name not in given]
        if missing:
            described = ", ".join(f"{info.name}[{','.join(info.shape)}]" if info.shape else info.name for info in missing)
            raise InputError(f"missing inputs: {described}")
        return [given[name] for name in self._input_names]

    def _evaluate_foreign(self, values: Sequence[Any], seed: int, step: int) -> Sequence[Any]:
        library = interop.common_library(self._input_names, values)
        if library and any(interop.library_of(value) and interop.is_tracked(value, library) for value in values):
            return self._bridge(library)(self, values, seed, step)
        results = self._call(interop.all_as_numpy(self.inputs, values, self._dtype), seed, step)
        wrap = interop.wrapper_for(library)
        return [wrap(result) for result in results]

    @staticmethod
    def _bridge(library: str) -> Any:
        """What evaluates a formula so that the library sees the call."""
        if library == "torch":
            from .torch import evaluate
        else:
            from .jax import evaluate
        return evaluate

    def random_state(self, seed: int | None = None, step: int | None = None) -> tuple[int, int]:
        """The seed and the step of the next call's random numbers; sets those that are given. Each call takes a step."""
        if seed is not None:
            self._seed = _whole(seed, "seed", 0, 2**64)
        if step is not None:
            self._step = _whole(step, "step", 0, 2**64)
        return self._seed, self._step

    # ---- Batches ----

    def batched(self, inputs: str | Iterable[str] | None = None) -> Formula:
        """The formula for many samples at once: each of `inputs` (None: all) has one more axis, the first, and so has
        each output that depends on one of them.

            many = f.batched("x")
            y = many(x=np.stack([x1, x2]), w=w, c=c)       # y[0] is f(x=x1, w=w, c=c)

        The number of samples may change from call to call. Random numbers are the same for all samples.
        """
        names = list(self._input_names) if inputs is None else _some(inputs, "input")
        self._check_inputs(names)
        key = ("batched", tuple(sorted(names)))
        if key not in self._derivatives:
            self._derivatives[key] = self._with(self._program.batched(names))
        return self._derivatives[key]

    # ---- Gradients ----

    def grad(self, of: str | Iterable[str] | None = None, wrt: str | Iterable[str] | None = None) -> Gradient:
        """Values and exact gradients as one function, compiled together.

        of   the outputs to differentiate, None: all that hold real numbers
        wrt  the inputs to differentiate with respect to; None: all that hold real numbers. One name, not in a list:
             gradients are one array

            g = f.grad("y", wrt=["w", "c"])
            y, grads = g(x=x, w=w, c=c)                      # grads["w"] has the shape of w
            y, grads = g(x=x, w=w, c=c, cotangents=v)        # the vector-Jacobian product: sum(v*y) differentiated

        Without cotangents it is the sum of all elements that is differentiated: of an output without axes, its value.
        """
        from .derivatives import Gradient

        outputs = _real_names(self.outputs) if of is None else _names(of)
        return Gradient(self, outputs, _real_names(self.inputs) if wrt is None else wrt)

    def jvp(self, of: str | Iterable[str] | None = None, wrt: str | Iterable[str] | None = None) -> Tangent:
        """Values and their exact change along a direction, by forward mode, as one function.

        of   the outputs, None: all that hold real numbers
        wrt  the inputs that change, None: all that hold real numbers

            j = f.jvp("y", wrt=["w", "c"])
            y, change = j(x=x, w=w, c=c, tangents={"w": dw, "c": dc})   # change has the shape of y

        `tangents` is a dict by input, or one array where `wrt` was one name. `change` is one array where `of` was one
        name, else a dict by output.
        """
        from .derivatives import Tangent

        return Tangent(self, _real_names(self.outputs) if of is None else of, _real_names(self.inputs) if wrt is None else wrt)

    def hvp(self, of: str | Iterable[str] | None = None, wrt: str | Iterable[str] | None = None) -> HessianProduct:
        """Gradients and products with the Hessian, by forward mode over reverse mode, as one function.

            h = f.hvp("loss", wrt=["w", "c"])
            grads, products = h(x=x, w=w, c=c, tangents={"w": dw, "c": dc})

        It is the sum of all elements of the outputs that is differentiated, or sum(v*y) with `cotangents=v`. `products`
        holds the derivative of every gradient along the tangents of all inputs of `wrt` together.
        """
        from .derivatives import HessianProduct

        return HessianProduct(self, _real_names(self.outputs) if of is None else of, _real_names(self.inputs) if wrt is None else wrt)

    def jacobian(self, of: str | Iterable[str] | None = None, wrt: str | Iterable[str] | None = None, *,
                 mode: str = "auto") -> Jacobian:
        """All derivatives of all elements, as one function: J[..axes of y.., ..axes of x..].

            y, J = f.jacobian("y", wrt="w")(x=x, w=w, c=c)       # J.shape == y.shape + w.shape

        `mode` is "forward", which costs as much as the formula for each element of the inputs, "reverse", for each
        element of the outputs, or "auto": the one with fewer elements. J is one array where `of` and `wrt` are one name
        each, else a dict by the pair (y, x).
        """
        from .derivatives import Jacobian

        return Jacobian(self, _real_names(self.outputs) if of is None else of, _real_names(self.inputs) if wrt is None else wrt, mode)

    def differentiate(self, of: str | Iterable[str], wrt: str | Iterable[str], *, keep_outputs: bool = True) -> Formula:
        """The vector-Jacobian product as a formula: with an input cot.y for every y of `of` and an output grad.x for
        every x of `wrt`, of the shape of x. It can be differentiated again."""
        outputs, inputs = _names(of), _names(wrt)
        self._check_outputs(outputs)
        self._check_inputs(inputs)
        key = (tuple(outputs), tuple(inputs), keep_outputs)
        if key not in self._derivatives:
            self._derivatives[key] = self._with(self._program.differentiate(outputs, inputs, keep_outputs))
        return self._derivatives[key]

    def tangents(self, of: str | Iterable[str], wrt: str | Iterable[str], *, keep_outputs: bool = True) -> Formula:
        """The Jacobian-vector product as a formula: with an input tan.x for every x of `wrt` and an output tan.y for
        every y of `of`, of the shape of y. It can be differentiated again."""
        outputs, inputs = _names(of), _names(wrt)
        self._check_outputs(outputs)
        self._check_inputs(inputs)
        key = ("tangents", tuple(outputs), tuple(inputs), keep_outputs)
        if key not in self._derivatives:
            self._derivatives[key] = self._with(self._program.tangents(outputs, inputs, keep_outputs))
        return self._derivatives[key]

    def _check_outputs(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._output_names:
                raise _unknown("output", name, self._output_names)

    def _check_inputs(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._input_names:
                raise _unknown("input", name, self._input_names)

    def _with(self, program: _core.Program) -> Formula:
        return Formula(program, dims=self._dims, dtype=self._dtype, device=self._device, seed=self._seed)

    # ---- What the compiler makes of it ----

    def dump(self, stage: str | Iterable[str] = (), *, dims: Mapping[str, int] | None = None, kernel: str = "",
             device: str = "") -> str:
        """What the compiler makes of the formula, as text.

        stage   one or several of ir, diff, rewrite, fuse, schedule, loop, cuda, ptx, sass, llvm, asm; none: all
        dims    values of dims; None: those of the last call
        kernel  a regular expression for the names of kernels to show
        device  "cpu" or "cuda"; "": where the stages are of
        """
        return _core.dump(self._program, self._program, self._known_dims(dims), _names(stage), kernel, device, False)

    def html(self, path: str | os.PathLike[str], *, dims: Mapping[str, int] | None = None) -> pathlib.Path:
        """Writes all stages as one page with linked lines, which needs no network."""
        page = _core.dump(self._program, self._program, self._known_dims(dims), [], "", "", True)
        path = pathlib.Path(path)
        path.write_text(page)
        return path

    def check(self, *, dims: Mapping[str, int] | None = None, wrt: str | Iterable[str] = ()) -> str:
        """Compares all devices of this machine with the definition of the language, and gradients with finite
        differences, at random inputs: the table of largest differences. Raises CheckError where one is beyond its
        tolerance.

        dims  values of dims; small ones where none is given
        wrt   the inputs to differentiate with respect to; none: all
        """
        self._check_inputs(_names(wrt))
        arguments = [f"--dim={name}={int(value)}" for name, value in (self._dims | dict(dims or {})).items()]
        arguments += [f"--wrt={','.join(_names(wrt))}"] if wrt else []
        with tempfile.TemporaryDirectory(prefix="moxie-") as folder:
            file = pathlib.Path(folder) / f"{re.sub(r'[^A-Za-z0-9_.]', '_', self.name)}.mox"
            file.write_text(self.text)
            return _program.run(["check", str(file), *arguments], CheckError)

    def _known_dims(self, dims: Mapping[str, int] | None) -> dict[str, int]:
        known = self.dims | {name: _whole(value, f"dim {name}", 0, 2**63) for name, value in (dims or {}).items()}
        missing = [name for name, _, dynamic in self._program.dims if not dynamic and name not in known]
        if missing:
            example = ", ".join(f'"{name}": 8' for name in missing)
            raise ShapeError(f"dims {', '.join(missing)} have no values yet; call the formula first, or give dims={{{example}}}")
        return known


def _rebuild(name: str, text: str, options: dict[str, Any], step: int) -> Formula:
    rebuilt = formula(text, name=name, **options)
    rebuilt._step = step
    return rebuilt

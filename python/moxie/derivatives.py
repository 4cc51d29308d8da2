"""Derivatives of formulas: gradients, along a direction, second ones, and all at once."""

from __future__ import annotations

import itertools
import os
import pathlib
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from .formula import Formula, _in_order, _some


class Gradient:
    """A formula with its gradients, as `Formula.grad` gives it: `values, gradients = g(...)`.

    `values` is what the formula gives; `gradients` is a dict by input, or one array where `wrt` was one name. All come
    from one run of kernels that share their common parts.
    """

    def __init__(self, formula: Formula, of: Sequence[str], wrt: str | Iterable[str]):
        self._formula = formula
        self.of, self.wrt = _some(of, "output"), _some(wrt, "input")
        self._single = isinstance(wrt, str)
        self._weighted = formula.differentiate(self.of, self.wrt)
        program = self._weighted._program
        for name in self._weighted._input_names[formula._count:]:
            program = program.with_unit_input(name)
        self._summed = formula._with(program)
        names = self._weighted._output_names
        self._places = [names.index(name) for name in formula._output_names]

    @property
    def formula(self) -> Formula:
        """The gradient as a formula, with inputs cot.y and outputs grad.x: to look at, and to differentiate again."""
        return self._weighted

    def __repr__(self) -> str:
        return f"<moxie.Gradient of {', '.join(self.of)} with respect to {', '.join(self.wrt)}>"

    def __call__(self, /, *args: Any, cotangents: Any = None, **arrays: Any) -> tuple[Any, Any]:
        """Values and gradients. `cotangents` is an array of the output's shape, or a dict of them where `of` has
        several; None: ones."""
        values = self._formula._ordered(args, arrays)
        step = self._formula._next_step()
        if cotangents is None:
            results = self._summed._evaluate(values, self._formula._seed, step)
        else:
            results = self._weighted._evaluate(values + self._cotangents(cotangents), self._formula._seed, step)
        gradients = results[-len(self.wrt):]
        return (self._formula._pack([results[place] for place in self._places]),
                gradients[0] if self._single else dict(zip(self.wrt, gradients)))

    def _cotangents(self, given: Any) -> list[Any]:
        """In the order of `of`, which is that of the inputs cot.y."""
        return _in_order(given, self.of, "output with cotangents", "cotangents")

    def dump(self, stage: str | Iterable[str] = (), **options: Any) -> str:
        """As `Formula.dump`, of the formula with its gradients."""
        return self._summed.dump(stage, **options)

    def html(self, path: str | os.PathLike[str], **options: Any) -> pathlib.Path:
        """As `Formula.html`, of the formula with its gradients."""
        return self._summed.html(path, **options)


class _Derivative:
    """A formula with derivatives, called with the inputs of the formula and more."""

    def __init__(self, formula: Formula, of: str | Iterable[str], wrt: str | Iterable[str]):
        self._formula = formula
        self.of, self.wrt = _some(of, "output"), _some(wrt, "input")
        self._one_output, self._one_input = isinstance(of, str), isinstance(wrt, str)
        formula._check_outputs(self.of)
        formula._check_inputs(self.wrt)

    def _derived(self, key: Any, make: Any) -> Formula:
        """What `make` gives, made once for the formula."""
        known = self._formula._derivatives
        if key not in known:
            known[key] = self._formula._with(make())
        return known[key]

    def _run(self, derived: Formula, args: Sequence[Any], arrays: Mapping[str, Any], more: Sequence[Any]) -> dict[str, Any]:
        """The results by name. `more` are the inputs of `derived` beside those of the formula."""
        values = self._formula._ordered(args, arrays)
        results = derived._evaluate([*values, *more], self._formula._seed, self._formula._next_step())
        return dict(zip(derived._output_names, results))

    def _values(self, results: Mapping[str, Any]) -> Any:
        return self._formula._pack([results[name] for name in self._formula._output_names])

    def _tangents(self, given: Any) -> list[Any]:
        return _in_order(given, self.wrt, "input with tangents", "tangents")

    def __repr__(self) -> str:
        return f"<moxie.{type(self).__name__} of {', '.join(self.of)} with respect to {', '.join(self.wrt)}>"


class Tangent(_Derivative):
    """A formula with its change along a direction, as `Formula.jvp` gives it: `values, change = j(..., tangents=...)`."""

    def __init__(self, formula: Formula, of: str | Iterable[str], wrt: str | Iterable[str]):
        super().__init__(formula, of, wrt)
        self.formula = formula.tangents(self.of, self.wrt)
        """With inputs tan.x and outputs tan.y: to look at, and to differentiate again."""

    def __call__(self, /, *args: Any, tangents: Any, **arrays: Any) -> tuple[Any, Any]:
        """Values, and their change where the inputs change by `tangents`: a dict by input, or one array."""
        results = self._run(self.formula, args, arrays, self._tangents(tangents))
        added = _added(self.formula, self._formula, [f"tan.{name}" for name in self.of])
        changes = {name: results[full] for name, full in zip(self.of, added)}
        return self._values(results), changes[self.of[0]] if self._one_output else changes


class HessianProduct(_Derivative):
    """Gradients and products with the Hessian, as `Formula.hvp` gives them."""

    def __init__(self, formula: Formula, of: str | Iterable[str], wrt: str | Iterable[str]):
        super().__init__(formula, of, wrt)
        self.formula = self._derived(("hvp", tuple(self.of), tuple(self.wrt)),
                                     lambda: formula._program.hessian_products(self.of, self.wrt, False))
        """With inputs cot.y and tan.x and outputs grad.x and hvp.x."""
        names = self.formula._input_names[formula._count:formula._count + len(self.of)]
        program = self.formula._program
        for name in names:
            program = program.with_unit_input(name)
        self._summed = formula._with(program)

    def __call__(self, /, *args: Any, tangents: Any, cotangents: Any = None, **arrays: Any) -> tuple[Any, Any]:
        """Gradients, and their change where the inputs change by `tangents`, of the sum of all elements, or of
        sum(cotangents*y): dicts by input, or one array each where `wrt` was one name."""
        more = self._tangents(tangents)
        if cotangents is None:
            results = self._run(self._summed, args, arrays, more)
        else:
            weights = _in_order(cotangents, self.of, "output with cotangents", "cotangents")
            results = self._run(self.formula, args, arrays, [*weights, *more])
        added = _added(self.formula, self._formula, [f"{kind}.{name}" for kind in ("grad", "hvp") for name in self.wrt])
        gradients, products = (dict(zip(self.wrt, (results[full] for full in names)))
                               for names in (added[:len(self.wrt)], added[len(self.wrt):]))
        return (gradients[self.wrt[0]], products[self.wrt[0]]) if self._one_input else (gradients, products)


class Jacobian(_Derivative):
    """A formula with all derivatives of all elements, as `Formula.jacobian` gives it: `values, J = j(...)`."""

    def __init__(self, formula: Formula, of: str | Iterable[str], wrt: str | Iterable[str], mode: str):
        super().__init__(formula, of, wrt)
        self.mode = mode
        formula._program.jacobian(self.of, self.wrt, mode, {})  # raises for an unknown mode

    def formula(self, dims: Mapping[str, int] | None = None) -> Formula:
        """With outputs jac.y.x, in the mode for these values of dims."""
        known = self._formula._dims | dict(dims or {})
        key = ("jacobian", tuple(self.of), tuple(self.wrt), self.mode, tuple(sorted(known.items())) if self.mode == "auto" else ())
        return self._derived(key, lambda: self._formula._program.jacobian(self.of, self.wrt, self.mode, known))

    def __call__(self, /, *args: Any, **arrays: Any) -> tuple[Any, Any]:
        """Values, and J[..axes of y.., ..axes of x..]: one array where one output and one input were named, else a dict by
        the pair (y, x)."""
        values = self._formula._ordered(args, arrays)
        derived = self.formula(self._dims_of(values))
        results = self._run(derived, values, {}, [])
        pairs = [(y, x) for y in self.of for x in self.wrt]
        added = _added(derived, self._formula, [f"jac.{y}.{x}" for y, x in pairs])
        parts = {pair: results[full] for pair, full in zip(pairs, added)}
        return self._values(results), parts[pairs[0]] if self._one_output and self._one_input else parts

    def _dims_of(self, values: Sequence[Any]) -> dict[str, int]:
        """The dims that stand alone in the shapes of the inputs."""
        dims = {}
        for info, value in zip(self._formula.inputs, values):
            shape = getattr(value, "shape", None) or np.shape(value)
            dims |= {name: int(extent) for name, extent in zip(info.shape, shape) if name.isidentifier()}
        return {name: dims[name] for name, _, _ in self._formula._program.dims if name in dims}


def _added(derived: Formula, formula: Formula, wanted: Iterable[str]) -> list[str]:
    """The outputs that a derivative added under the names `wanted`, which go on with _2, _3, .. where they were taken."""
    new = [name for name in derived._output_names if name not in formula._output_names]
    found: list[str] = []
    for name in wanted:
        tries = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        found.append(next(full for full in tries if full in new and full not in found))
    return found

"""Formulas as functions of PyTorch: derivatives of any order by torch.autograd and torch.func, in both modes, under
torch.compile and torch.vmap.

    layer = moxie.torch.Function(f)
    y = layer(x=x, w=w, c=c)       # tensors on the CPU; y.sum().backward() gives w.grad

Calls are an autograd.Function; graphs of torch.compile and torch.export hold them as the operator moxie::evaluate, which
costs twice as much a call. Graphs outlive the process, in files and in caches, so that the operator takes the formula's
text.
"""

from __future__ import annotations

import functools
import json
import weakref
from typing import Any, Sequence

import torch

from . import interop
from .formula import Formula, formula as parse

__all__ = ["Function"]


class Function:
    """A formula as a differentiable function of tensors.

    Called as the formula is, with tensors on the CPU or numbers; gives a tensor, or a named tuple of tensors. Gradients
    are the formula's own, exact; they can be differentiated again. Parameters belong to the torch.nn.Module that calls
    it. Tensors share their memory with the kernels. torch.compile takes it as one operator, without a break of the
    graph, unless it draws random numbers; torch.vmap calls it once for the whole batch.
    """

    def __init__(self, formula: Formula):
        self.formula = formula
        self._spelling = _spelling_of(formula)

    def __reduce__(self):
        return Function, (self.formula,)

    def __repr__(self) -> str:
        return f"moxie.torch.Function({self.formula!r})"

    def __call__(self, /, *args: Any, **tensors: Any) -> Any:
        formula = self.formula
        values = formula._match(args, tensors)
        step = _next_step(formula) if formula._is_random else 0
        if torch.compiler.is_compiling():
            return formula._pack(torch.ops.moxie.evaluate(_as_tensors(formula, values), self._spelling, formula._seed, step))
        return formula._pack(evaluate(formula, values, formula._seed, step))


@torch.compiler.disable
def _next_step(formula: Formula) -> int:
    return formula._next_step()


def evaluate(formula: Formula, values: Sequence[Any], seed: int, step: int) -> Sequence[torch.Tensor]:
    """One tensor for each output of the formula, known to autograd where that is enabled."""
    values = _as_tensors(formula, values)
    if _is_transformed():
        return _Transformed.apply(formula, (seed, step), *values)
    if torch.is_grad_enabled():
        return _Evaluation.apply(formula, (seed, step), *values)
    return _values(formula, values, seed, step)


# Whether torch.func transforms what is called. There is no public way to ask, and a Function that is ready for it takes
# five times as long to be called.
_is_transformed = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)


class _Evaluation(torch.autograd.Function):
    """Its derivatives evaluate formulas of their own in the same way, and so can be differentiated."""

    @staticmethod
    def forward(ctx, formula: Formula, random_state: tuple[int, int], *values: torch.Tensor):
        ctx.formula, ctx.random_state = formula, random_state
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*values)
        ctx.save_for_forward(*values)
        return _values(formula, values, *random_state)

    @staticmethod
    def backward(ctx, *cotangents: torch.Tensor | None):
        needed = ctx.needs_input_grad[2:]
        gradient, weights = _gradient(ctx.formula, cotangents, needed)
        found = iter(evaluate(gradient, [*ctx.saved_tensors, *weights], *ctx.random_state) if gradient else ())
        return (None, None, *(next(found, None) if is_needed else None for is_needed in needed))

    @staticmethod
    def jvp(ctx, _formula, _random_state, *tangents: torch.Tensor | None):
        formula, given = ctx.formula, [tangent for tangent in tangents if tangent is not None]
        of = [info.name for info in formula.outputs if info.is_real]
        wrt = [name for name, tangent in zip(formula._input_names, tangents) if tangent is not None]
        changes = iter(evaluate(formula.tangents(of, wrt, keep_outputs=False), [*ctx.saved_tensors, *given],
                                *ctx.random_state) if of and wrt else ())
        return tuple(next(changes, None) if info.is_real else None for info in formula.outputs)


class _Transformed(_Evaluation):
    """As torch.func wants it."""

    @staticmethod
    def forward(formula: Formula, random_state: tuple[int, int], *values: torch.Tensor):
        return _values(formula, values, *random_state)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.formula, ctx.random_state, *values = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*values)
        ctx.save_for_forward(*values)

    @staticmethod
    def vmap(info, in_dims, formula: Formula, random_state: tuple[int, int], *values: torch.Tensor):
        many, values, out_dims = _batch(formula, values, in_dims[2:])
        return tuple(evaluate(many, values, *random_state)), tuple(out_dims)


_HALVES = (torch.bfloat16, torch.float16)
# Whether a mode watches what is called, as traces (torch.func.linearize) and tensors without values do: it sees operators.
_is_watched = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)


def _values(formula: Formula, values: Sequence[torch.Tensor], seed: int, step: int) -> tuple[torch.Tensor, ...]:
    if _is_watched():
        return tuple(torch.ops.moxie.evaluate(list(values), _spelling_of(formula), seed, step))
    arrays = interop.all_as_numpy(formula.inputs, values, formula._dtype)
    return tuple(interop.as_torch(result) for result in formula._call(arrays, seed, step))


def _gradient(formula: Formula, cotangents: Sequence[Any], needed: Sequence[bool]) -> tuple[Formula | None, list[Any]]:
    """The formula that gives what is needed, if anything is, and the cotangents that it takes."""
    of = {info.name: cotangent for info, cotangent in zip(formula.outputs, cotangents)
          if cotangent is not None and info.is_real}
    wrt = [name for name, is_needed in zip(formula._input_names, needed) if is_needed]
    return formula.differentiate(of, wrt, keep_outputs=False) if of and wrt else None, list(of.values())


def _batch(formula: Formula, values: Sequence[torch.Tensor], dims: Sequence[int | None]) -> tuple[Formula, list[Any], list[Any]]:
    """The formula of the batch, its inputs, which have the samples first, and where its outputs have them."""
    many = formula.batched([name for name, dim in zip(formula._input_names, dims) if dim is not None])
    samples_first = [value if dim is None else value.movedim(dim, 0) for value, dim in zip(values, dims)]
    return many, samples_first, [0 if len(one.shape) < len(other.shape) else None
                                 for one, other in zip(formula.outputs, many.outputs)]


def _as_tensors(formula: Formula, values: Sequence[Any]) -> list[torch.Tensor]:
    """Numbers and lists become tensors of the dtype of the others; under autocast, halves are what a formula takes."""
    if torch.is_autocast_enabled("cpu"):
        values = [value.float() if info.dtype == "float32" and getattr(value, "dtype", None) in _HALVES else value
                  for info, value in zip(formula.inputs, values)]
    if all(isinstance(value, torch.Tensor) for value in values):
        return list(values)
    dtypes = [value.dtype for value in values if isinstance(value, torch.Tensor)]
    default = getattr(torch, formula._dtype) if formula._dtype else next(
        (dtype for dtype in dtypes if dtype in (torch.float32, torch.float64)), torch.float64)
    return [value if isinstance(value, torch.Tensor) else
            torch.as_tensor(value, dtype=default if info.dtype in ("float32", "float64") else getattr(torch, info.dtype))
            for info, value in zip(formula.inputs, values)]


# ---- What graphs hold. ----

_formulas: weakref.WeakValueDictionary[str, Formula] = weakref.WeakValueDictionary()


def _spelling_of(formula: Formula) -> str:
    _formulas.setdefault(formula._spelling, formula)
    return formula._spelling


def _spelled(spelling: str) -> Formula:
    known = _formulas.get(spelling)
    return _read(spelling) if known is None else known


@functools.lru_cache(maxsize=256)
def _read(spelling: str) -> Formula:
    """The formula of a graph that another process made, or that outlived it."""
    name, text, dims, dtype, device = json.loads(spelling)
    return parse(text, name=name, dims=dims, dtype=dtype, device=device)


@torch.library.custom_op("moxie::evaluate", mutates_args=())
def _evaluate(values: list[torch.Tensor], formula: str, seed: int, step: int) -> list[torch.Tensor]:
    return list(_values(_spelled(formula), values, seed, step))


@_evaluate.register_fake
def _(values, formula, seed, step):
    formula = _spelled(formula)
    shapes = _shapes(formula, [tuple(value.shape) for value in values])
    dtypes = formula._function.output_dtypes([str(value.dtype).removeprefix("torch.") for value in values])
    device = values[0].device if values else "cpu"
    return [torch.empty(shape, dtype=getattr(torch, dtype), device=device) for shape, dtype in zip(shapes, dtypes)]


def _shapes(formula: Formula, shapes: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """The shapes of outputs: in terms of symbols, where extents of dynamic dims are some."""
    known = {"": 1} | {name: value for name, value, _ in formula._program.dims if value is not None} | formula._dims
    for info, shape in zip(formula.inputs, shapes):
        for name, extent in zip(info.shape, shape):
            known.setdefault(name, extent if name in formula._dynamic_dims else int(extent))
    outputs = formula._program.output_extents
    needed = {name for axes in outputs for terms in axes for name, _ in terms}
    if needed <= known.keys() and any(isinstance(extent, torch.SymInt) for extent in known.values()):
        return [[sum(factor * known[name] for name, factor in terms) for terms in axes] for axes in outputs]
    return formula._function.output_shapes([[int(extent) for extent in shape] for shape in shapes])


def _keep(ctx, inputs, output):
    values, ctx.spelling, ctx.seed, ctx.step = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*values)


def _backward(ctx, cotangents):
    needed = ctx.needs_input_grad[0]
    gradient, weights = _gradient(_spelled(ctx.spelling), cotangents, needed)
    found = iter(torch.ops.moxie.evaluate([*ctx.saved_tensors, *weights], _spelling_of(gradient), ctx.seed, ctx.step)
                 if gradient else ())
    return [next(found, None) if is_needed else None for is_needed in needed], None, None, None


_evaluate.register_autograd(_backward, setup_context=_keep)


@_evaluate.register_vmap
def _(_info, in_dims, values, formula, seed, step):
    many, values, out_dims = _batch(_spelled(formula), values, in_dims[0])
    return torch.ops.moxie.evaluate(values, _spelling_of(many), seed, step), out_dims

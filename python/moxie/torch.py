"""Formulas as functions of PyTorch, with gradients of any order by torch.autograd.

    layer = moxie.torch.Function(f)
    y = layer(x=x, w=w, c=c)       # tensors on the CPU; y.sum().backward() gives w.grad
"""

from __future__ import annotations

from typing import Any, Sequence

import torch

from . import interop
from .formula import Formula

__all__ = ["Function"]


class Function:
    """A formula as a differentiable function of tensors.

    Called as the formula is, with tensors on the CPU or numbers; gives a tensor, or a named tuple of tensors. Gradients
    are the formula's own, exact; they can be differentiated again. Parameters belong to the torch.nn.Module that calls
    it. Tensors share their memory with the kernels. In torch.compile it is a graph break.
    """

    def __init__(self, formula: Formula):
        self.formula = formula

    def __repr__(self) -> str:
        return f"moxie.torch.Function({self.formula!r})"

    @torch.compiler.disable
    def __call__(self, /, *args: Any, **tensors: Any) -> Any:
        formula = self.formula
        values = formula._match(args, tensors)
        return formula._pack(evaluate(formula, values, formula._seed, formula._next_step()))


def evaluate(formula: Formula, values: Sequence[Any], seed: int, step: int) -> Sequence[torch.Tensor]:
    """One tensor for each output of the formula, known to autograd where that is enabled."""
    if torch.is_grad_enabled():
        return _Evaluation.apply(formula, (seed, step), *values)
    return _values(formula, values, seed, step)


def _values(formula: Formula, values: Sequence[Any], seed: int, step: int) -> tuple[torch.Tensor, ...]:
    arrays = interop.all_as_numpy(formula.inputs, values, formula._dtype)
    return tuple(interop.as_torch(result) for result in formula._call(arrays, seed, step))


class _Evaluation(torch.autograd.Function):
    """Its backward pass evaluates the formula of the gradient in the same way, and so can be differentiated."""

    @staticmethod
    def forward(ctx, formula: Formula, random_state: tuple[int, int], *values: Any):
        ctx.formula, ctx.random_state = formula, random_state
        ctx.set_materialize_grads(False)
        ctx.numbers = [None if isinstance(value, torch.Tensor) else value for value in values]
        ctx.save_for_backward(*(value for value in values if isinstance(value, torch.Tensor)))
        return _values(formula, values, *random_state)

    @staticmethod
    def backward(ctx, *cotangents: torch.Tensor | None):
        formula: Formula = ctx.formula
        saved = iter(ctx.saved_tensors)
        values = [next(saved) if number is None else number for number in ctx.numbers]
        of = [name for name, cotangent in zip(formula._output_names, cotangents) if cotangent is not None]
        needed = ctx.needs_input_grad[2:]
        wrt = [name for name, is_needed in zip(formula._input_names, needed) if is_needed]
        if not of or not wrt:
            return (None, None, *(None for _ in values))
        gradient = formula.differentiate(of, wrt, keep_outputs=False)
        weights = [cotangent for cotangent in cotangents if cotangent is not None]
        results = iter(evaluate(gradient, [*values, *weights], *ctx.random_state))
        return (None, None, *(next(results) if is_needed else None for is_needed in needed))

"""Formulas as functions of JAX: under jit and vmap, with gradients of any order in reverse mode.

    h = moxie.jax.function(f)
    y = h(x, w, c)
    slope = jax.jit(jax.grad(lambda w: h(x, w, c).sum()))(w)

Under vmap the formula has one more axis (Formula.batched), so that one call serves the whole batch. Kernels are called
through jax.pure_callback: arrays lie in the memory of the host. Forward mode (jax.jvp) is not there.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .formula import Formula

__all__ = ["function"]

_KEPT_BRIDGES = 32


def function(formula: Formula) -> Callable[..., Any]:
    """The formula as a function of JAX, called as the formula is: with arrays in the order of inputs, or by name.

    Random numbers do not change from call to call, since functions of JAX are pure: they are those of the formula's
    seed and step at the time of tracing.
    """

    @functools.wraps(formula.__call__)
    def call(*args: Any, **arrays: Any) -> Any:
        values = formula._match(args, arrays)
        return formula._pack(evaluate(formula, values, *formula.random_state()))

    call.formula = formula
    return call


def evaluate(formula: Formula, values: Sequence[Any], seed: int, step: int) -> Sequence[jax.Array]:
    """One array for each output of the formula, known to JAX."""
    return _differentiable(formula, seed, step)(*_promoted(formula, values))


def _promoted(formula: Formula, values: Sequence[Any]) -> list[jax.Array]:
    """Numbers and lists become arrays of the dtype of the others."""
    dtypes = [np.dtype(value.dtype).name for value in values if hasattr(value, "dtype")]
    default = formula._dtype or next((name for name in dtypes if name in ("float32", "float64")), None)
    return [value if hasattr(value, "dtype") else jnp.asarray(value, default or float if info.is_real else info.dtype)
            for info, value in zip(formula.inputs, values)]


def _differentiable(formula: Formula, seed: int, step: int) -> Callable[..., tuple[jax.Array, ...]]:
    """One function for each random state, so that JAX finds what it has compiled for it."""
    known = formula._bridges
    if (seed, step) not in known:
        if len(known) >= _KEPT_BRIDGES:
            known.pop(next(iter(known)))
        known[seed, step] = _make_differentiable(formula, seed, step)
    return known[seed, step]


def _make_differentiable(formula: Formula, seed: int, step: int) -> Callable[..., tuple[jax.Array, ...]]:
    """With the gradient as a rule of JAX, which is a function of this kind again."""

    call = jax.custom_vjp(_make_batchable(formula, seed, step))

    def forward(*values):
        return call(*values), values

    def backward(values, cotangents):
        of = [info.name for info in formula.outputs if info.is_real]
        wrt = [info.name for info in formula.inputs if info.is_real]
        gradients = iter(())
        if of and wrt:
            gradient = formula.differentiate(of, wrt, keep_outputs=False)
            weights = [weight for info, weight in zip(formula.outputs, cotangents) if info.is_real]
            gradients = iter(evaluate(gradient, [*values, *weights], seed, step))
        return tuple(next(gradients, None) if info.is_real else np.zeros(value.shape, jax.dtypes.float0)
                     for info, value in zip(formula.inputs, values))

    call.defvjp(forward, backward)
    return call


def _make_batchable(formula: Formula, seed: int, step: int) -> Callable[..., tuple[jax.Array, ...]]:
    """With the formula of the batch as a rule of JAX, which is a function of this kind again."""

    @jax.custom_batching.custom_vmap
    def call(*values):
        return _callback(formula, seed, step, values)

    @call.def_vmap
    def batch(_size, is_batched, *values):
        many = formula.batched([info.name for info, own in zip(formula.inputs, is_batched) if own])
        is_result_batched = tuple(len(one.shape) < len(other.shape) for one, other in zip(formula.outputs, many.outputs))
        return _make_batchable(many, seed, step)(*values), is_result_batched

    return call


def _callback(formula: Formula, seed: int, step: int, values: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    shapes = formula._function.output_shapes([list(value.shape) for value in values])
    dtypes = formula._function.output_dtypes([np.dtype(value.dtype).name for value in values])
    results = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(shapes, dtypes))

    def on_host(*arrays):
        return tuple(formula._call([np.asarray(array) for array in arrays], seed, step))

    return jax.pure_callback(on_host, results, *values)

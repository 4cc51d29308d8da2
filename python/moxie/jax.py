"""Formulas as functions of JAX: under jit and vmap, with gradients of any order in reverse mode.

    h = moxie.jax.function(f)
    y = h(x, w, c)
    slope = jax.jit(jax.grad(lambda w: h(x, w, c).sum()))(w)

Under vmap the formula has one more axis (Formula.batched), so that one call serves the whole batch. On the CPU, XLA
calls kernels itself with its own memory, by its foreign function interface (FFI). They are called through
jax.pure_callback, with copies and the GIL, where the extension module was built without XLA's headers, where those do
not fit the installed jaxlib, and on other platforms of JAX. Forward mode (jax.jvp) is not there.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from . import _core
from .errors import DtypeError
from .formula import Formula

__all__ = ["function"]

_KEPT_BRIDGES = 32
_TARGET, _STATE = "moxie_call", "moxie_call_state"  # names in XLA


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
    return jax.jit(call, inline=True)  # outside of other computations, calls are traced and compiled once


def _make_batchable(formula: Formula, seed: int, step: int) -> Callable[..., tuple[jax.Array, ...]]:
    """With the formula of the batch as a rule of JAX, which is a function of this kind again."""

    @jax.custom_batching.custom_vmap
    def call(*values):
        return _call(formula, seed, step, values)

    @call.def_vmap
    def batch(_size, is_batched, *values):
        many = formula.batched([info.name for info, own in zip(formula.inputs, is_batched) if own])
        is_result_batched = tuple(len(one.shape) < len(other.shape) for one, other in zip(formula.outputs, many.outputs))
        return _make_batchable(many, seed, step)(*values), is_result_batched

    return call


def _call(formula: Formula, seed: int, step: int, values: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """The kernels' call, which JAX can neither differentiate nor batch."""
    dtypes = [np.dtype(value.dtype).name for value in values]
    shapes = formula._function.output_shapes([list(value.shape) for value in values])
    results = tuple(map(jax.ShapeDtypeStruct, shapes, _result_dtypes(formula, dtypes)))
    through_python = functools.partial(_through_python, formula, seed, step, results)
    if not _is_known_to_xla():
        return through_python(*values)
    return jax.lax.platform_dependent(
        *values, cpu=functools.partial(_through_xla, formula, dtypes, seed, step, results), default=through_python)


def _result_dtypes(formula: Formula, dtypes: Sequence[str]) -> list[str]:
    """Raises DtypeError for one that JAX does not have as it is configured."""
    results = formula._function.output_dtypes(dtypes)
    for info, dtype in zip(formula.outputs, results):
        if dtype in ("float64", "int64") and not jax.config.jax_enable_x64:
            raise DtypeError(f"output {info.name} is {dtype}, which JAX has only with 64 bits enabled: "
                             'jax.config.update("jax_enable_x64", True)')
    return results


def _through_xla(formula: Formula, dtypes: Sequence[str], seed: int, step: int, results: tuple[Any, ...],
                 *values: jax.Array) -> tuple[jax.Array, ...]:
    """XLA calls the kernels with its own buffers."""
    call = jax.ffi.ffi_call(_TARGET, results)
    # jaxlib makes no attribute of an unsigned number from 2^63 on: its bits are passed as a signed one.
    seed, step = (np.uint64(number).view(np.int64) for number in (seed, step))
    return call(*values, handle=_handle(formula, dtypes), seed=seed, step=step)


def _through_python(formula: Formula, seed: int, step: int, results: tuple[Any, ...],
                    *values: jax.Array) -> tuple[jax.Array, ...]:
    """XLA calls Python with copies of its buffers."""

    def on_host(*arrays):
        return tuple(formula._call([np.asarray(array) for array in arrays], seed, step))

    return jax.pure_callback(on_host, results, *values)


class _Handle(int):
    """The id of an XlaHandle, as an attribute of calls: it keeps the handle for as long as a traced computation has it.
    What is compiled keeps the function itself."""

    handle: Any


def _handle(formula: Formula, dtypes: Sequence[str]) -> _Handle:
    """One for each formula and dtypes, so that JAX finds what it has compiled for it."""
    key, known = tuple(dtypes), formula._handles
    if key not in known:
        handle = _core.XlaHandle(formula._function, dtypes)
        number = _Handle(handle.id)
        number.handle = handle
        known[key] = number
    return known[key]


@functools.cache
def _is_known_to_xla() -> bool:
    """Whether XLA can call the extension module: it was built with XLA's headers, and not for another version. Registers
    the call when first asked."""
    if not hasattr(_core, "xla_handlers") or not hasattr(getattr(jax, "ffi", None), "register_ffi_type"):
        return False
    try:
        # Before its start, JAX would only take note of both, and register them in the wrong order when it starts.
        jax.local_devices(backend="cpu")
        jax.ffi.register_ffi_type(_STATE, _core.xla_state_type(), platform="cpu")
        jax.ffi.register_ffi_target(_TARGET, _core.xla_handlers(), platform="cpu")
    except Exception as error:  # of whatever type: jaxlib does not say
        warnings.warn(f"moxie.jax calls kernels through Python, which is slower: {error}", stacklevel=2)
        return False
    return True

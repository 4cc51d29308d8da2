"""Formulas as functions of JAX: under jit and vmap, with derivatives of any order in both modes.

    h = moxie.jax.function(f)
    y = h(x, w, c)
    slope = jax.jit(jax.grad(lambda w: h(x, w, c).sum()))(w)

A call is one primitive of JAX, whose rules make formulas of formulas: forward mode evaluates Formula.tangents, its
transpose Formula.differentiate, and vmap Formula.batched, so that one call serves the whole batch. On the CPU, XLA
calls kernels itself with its own memory, by its foreign function interface (FFI). They are called through
jax.pure_callback, with copies and the GIL, where the extension module was built without XLA's headers, where those do
not fit the installed jaxlib, and on other platforms of JAX.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from typing import Any, Callable, NamedTuple, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from . import _core
from .errors import DtypeError, InputError, ShapeError
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
    return _compiled(_Call(formula, seed, step))(*_promoted(formula, values))


def _promoted(formula: Formula, values: Sequence[Any]) -> list[jax.Array]:
    """Numbers and lists become arrays of the dtype of the others."""
    dtypes = [np.dtype(value.dtype).name for value in values if hasattr(value, "dtype")]
    default = formula._dtype or next((name for name in dtypes if name in ("float32", "float64")), None)
    return [value if hasattr(value, "dtype") else jnp.asarray(value, default or float if info.is_real else info.dtype)
            for info, value in zip(formula.inputs, values)]


class _Call(NamedTuple):
    """What the primitive evaluates, beside its arrays."""

    formula: Formula
    seed: int
    step: int
    origin: tuple[Formula, tuple[str, ...], tuple[str, ...]] | None = None
    """The formula whose Formula.tangents this is, and which outputs and inputs: linear in the last of its own inputs."""


def _compiled(call: _Call) -> Callable[..., tuple[jax.Array, ...]]:
    """One function for each random state, so that JAX finds what it has compiled for it. Outside of other computations,
    calls are traced and compiled once."""
    known, key = call.formula._bridges, call[1:]
    if key not in known:
        if len(known) >= _KEPT_BRIDGES:
            known.pop(next(iter(known)))
        known[key] = jax.jit(functools.partial(_primitive.bind, call=call), inline=True)
    return known[key]


# ---- The primitive and its rules. ----

_primitive = Primitive("moxie_evaluate")
_primitive.multiple_results = True
_primitive.def_impl(lambda *values, call: _compiled(call)(*values))


@_primitive.def_abstract_eval
def _(*values, call):
    if any(map(_varying_axes, values)):
        raise InputError("moxie does not know which axes of a mesh its results vary along; call jax.shard_map with check_vma=False")
    return [jax.core.ShapedArray(result.shape, result.dtype) for result in _results(call.formula, values)]


def _varying_axes(value) -> frozenset[Any]:
    """The axes of a mesh that JAX takes the value to vary along, within a shard_map that checks that."""
    kind = getattr(value, "mat", None)
    return getattr(value, "vma", frozenset()) if kind is None else kind.varying


def _change(primals, tangents, *, call):
    """Values, and their change along the tangents that are not zero."""
    formula, seed, step, _ = call
    values = _primitive.bind(*primals, call=call)
    changing = [not isinstance(tangent, ad.Zero) for tangent in tangents]
    of = tuple(info.name for info in formula.outputs if info.is_real)
    wrt = tuple(itertools.compress(formula._input_names, changing))
    changes = iter(())
    if of and wrt:
        changes = iter(_primitive.bind(*primals, *itertools.compress(tangents, changing), call=_Call(
            formula.tangents(of, wrt, keep_outputs=False), seed, step, (formula, of, wrt))))
    return values, [next(changes, None) if info.is_real and wrt else _zero_change(value, info.is_real)
                    for info, value in zip(formula.outputs, values)]


def _zero_change(value, is_real):
    return ad.Zero(jax.core.ShapedArray(value.shape, value.dtype if is_real else jax.dtypes.float0))


def _transpose(cotangents, *values, call):
    """The cotangents of the inputs that the call is linear in, which are those without a value."""
    formula, seed, step, origin = call
    wanted = [ad.is_undefined_primal(value) for value in values]
    weighted = [not isinstance(cotangent, ad.Zero) for cotangent in cotangents]
    if origin:
        of, wrt = itertools.compress(origin[1], weighted), itertools.compress(origin[2], wanted[len(origin[0].inputs):])
        formula, values = origin[0], values[:len(origin[0].inputs)]
    else:  # linear: the derivative is the same at zero
        of, wrt = (itertools.compress(names, chosen) for names, chosen in
                   ((formula._output_names, weighted), (formula._input_names, wanted)))
        values = [jnp.zeros(value.aval.shape, value.aval.dtype) if unknown else value
                  for value, unknown in zip(values, wanted)]
    found = iter(())
    if any(weighted):
        gradient = formula.differentiate(list(of), list(wrt), keep_outputs=False)
        found = iter(_primitive.bind(*values, *itertools.compress(cotangents, weighted), call=_Call(gradient, seed, step)))
    return [next(found, None) if unknown else None for unknown in wanted]


def _batch(values, axes, *, call):
    """The formula of the batch, with the samples first."""
    one = call.formula
    many = one.batched([info.name for info, axis in zip(one.inputs, axes) if axis is not None])
    samples_first = [value if axis is None else jnp.moveaxis(value, axis, 0)
                     for value, axis in zip(values, axes)]
    return _primitive.bind(*samples_first, call=_Call(many, call.seed, call.step)), [
        0 if len(own.shape) < len(all.shape) else None for own, all in zip(one.outputs, many.outputs)]


ad.primitive_jvps[_primitive] = _change
ad.primitive_transposes[_primitive] = _transpose
batching.primitive_batchers[_primitive] = _batch
mlir.register_lowering(_primitive, mlir.lower_fun(
    lambda *values, call: _call(call.formula, call.seed, call.step, values), multiple_results=True))


# ---- The kernels' call, which JAX can neither differentiate nor batch. ----

def _call(formula: Formula, seed: int, step: int, values: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    dtypes, results = _dtypes(values), _results(formula, values)
    through_python = functools.partial(_through_python, formula, seed, step, results)
    if not _is_known_to_xla():
        return through_python(*values)
    return jax.lax.platform_dependent(
        *values, cpu=functools.partial(_through_xla, formula, dtypes, seed, step, results), default=through_python)


def _dtypes(values: Sequence[Any]) -> list[str]:
    return [np.dtype(value.dtype).name for value in values]


def _results(formula: Formula, values: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Raises DtypeError for a dtype that JAX does not have as it is configured."""
    for info, value in zip(formula.inputs, values):
        if not all(isinstance(extent, int) for extent in value.shape):
            raise ShapeError(f"input {info.name}: expected extents that are numbers, found {value.shape}; "
                             "export the computation for each shape that it will have")
    shapes = formula._function.output_shapes([list(value.shape) for value in values])
    dtypes = formula._function.output_dtypes(_dtypes(values))
    for info, dtype in zip(formula.outputs, dtypes):
        if dtype in ("float64", "int64") and not jax.config.jax_enable_x64:
            raise DtypeError(f"output {info.name} is {dtype}, which JAX has only with 64 bits enabled: "
                             'jax.config.update("jax_enable_x64", True)')
    return tuple(map(jax.ShapeDtypeStruct, shapes, dtypes))


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
    What is compiled keeps the function itself. It is the same in every process, for executables that were saved."""

    handle: Any


def _handle(formula: Formula, dtypes: Sequence[str]) -> _Handle:
    """One for each formula and dtypes, so that JAX finds what it has compiled for it."""
    key, known = tuple(dtypes), formula._handles
    if key not in known:
        handle = _core.XlaHandle(formula._function, dtypes, formula._spelling)
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

"""Arrays of other libraries as numpy arrays, without a copy, and results as the arrays of that library again."""

from __future__ import annotations

import sys
from typing import Any, Callable, Sequence

import numpy as np

from .errors import DeviceError, DtypeError, InputError

PLAIN = frozenset({np.ndarray, float, int, np.float32, np.float64})
# Arrays of one of them serve inputs of any other, where the numbers fit.
INTEGERS = frozenset({"int32", "int64", "uint8", "bool"})


def library_of(value: Any) -> str | None:
    """"torch" or "jax" where the value is an array of that library."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    if jax is not None and isinstance(value, jax.Array):
        return "jax"
    return None


def is_tracked(value: Any, library: str) -> bool:
    """Whether the library takes gradients through the value or traces it, so that it must see the call itself."""
    if library == "torch":
        return value.requires_grad and sys.modules["torch"].is_grad_enabled()
    return isinstance(value, sys.modules["jax"].core.Tracer)


def all_as_numpy(inputs: Sequence[Any], values: Sequence[Any], dtype: Any) -> list[Any]:
    """The values as numpy arrays that share their memory where that is possible; numbers stay numbers.

    Lists become arrays of the dtype that the input must have, of `dtype` or, where that is None, of the dtype of the
    first array.
    """
    return [value if type(value) in PLAIN else _as_numpy(info, value, values, dtype) for info, value in zip(inputs, values)]


def _as_numpy(info: Any, value: Any, values: Sequence[Any], dtype: Any) -> Any:
    name, own = info.name, None if info.dtype in ("float32", "float64") else info.dtype
    library = library_of(value)
    if library == "torch":
        return _from_torch(name, value, own)
    if isinstance(value, (list, tuple)):
        return _from_sequence(name, value, own or dtype or _first_dtype(values))
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"input {name}: a masked array has elements without values; give it some: x.filled(0)")
    if library == "jax":
        return np.asarray(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(name, value)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    return value


def _first_dtype(values: Sequence[Any]) -> str:
    dtypes = (str(getattr(value, "dtype", "")).removeprefix("torch.") for value in values)
    return next((found for found in dtypes if found in ("float32", "float64")), "float64")


def _from_torch(name: str, value: Any, own: str | None) -> np.ndarray:
    torch = sys.modules["torch"]
    try:
        if own == "bfloat16" and value.dtype == torch.bfloat16:
            return value.detach().view(torch.int16).numpy().view(np.uint16)
        array = value.detach().numpy()
        is_integer = own in INTEGERS and array.dtype.kind in "biu"
        if is_integer or (array.dtype.name == own if own else array.dtype.char in "fd"):
            return array
    except (RuntimeError, TypeError):
        pass  # what is wrong is said below
    if value.device.type != "cpu":
        raise DeviceError(f"input {name}: the tensor lies on {value.device}, but the formula runs in the memory of the host; "
                          "move it there: x.cpu()")
    if value.layout is not torch.strided:
        raise InputError(f"input {name}: expected a dense tensor, found layout {value.layout}; convert it: x.to_dense()")
    if own and str(value.dtype) != f"torch.{own}":
        raise DtypeError(f"input {name}: expected {own}, found {value.dtype}; convert it: x.to(torch.{own})")
    if not own and value.dtype not in (torch.float32, torch.float64):
        raise DtypeError(f"input {name}: expected float32 or float64, found {value.dtype}; convert it: x.float()")
    return value.detach().resolve_conj().resolve_neg().numpy()


def _from_sequence(name: str, value: Sequence, dtype: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
        if dtype in INTEGERS and array.size and array.dtype.kind in "biu":
            return array
        if dtype not in INTEGERS or not array.size:
            return np.asarray(value, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"input {name}: expected an array, found a {type(value).__name__} that is none: {error}") from None
    raise DtypeError(f"input {name}: expected whole numbers ({dtype}), found {array.dtype}")


def _from_dlpack(name: str, value: Any) -> np.ndarray:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise DeviceError(f"input {name}: the {type(value).__name__} cannot be read from the memory of the host: {error}; "
                          "move it there") from None


def as_torch(array: np.ndarray) -> Any:
    """A tensor that shares the memory; numpy's arrays of bfloat16 hold 16 bits of which torch knows nothing."""
    torch = sys.modules["torch"]
    if array.dtype.name in ("bfloat16", "uint16"):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def wrapper_for(library: str | None) -> Callable[[np.ndarray], Any]:
    """What makes a result an array of the library."""
    if library == "torch":
        return as_torch
    if library == "jax":
        return sys.modules["jax"].numpy.asarray
    return lambda array: array


def common_library(names: Sequence[str], values: Sequence[Any]) -> str | None:
    """The library that arrays are of, if they are of one besides numpy. Raises InputError where they are of two."""
    found = {library: name for name, library in zip(names, map(library_of, values)) if library}
    if len(found) > 1:
        (first, one), (second, other) = found.items()
        raise InputError(f"input {one} is an array of {first}, but input {other} is one of {second}; give arrays of one library")
    return next(iter(found), None)

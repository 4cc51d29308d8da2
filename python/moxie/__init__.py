"""moxie: formulas in index notation as fused kernels, with exact gradients.

    import moxie, numpy as np
    f = moxie.formula('''
    dim S dynamic, R
    index s:S, r:R
    input x[S], w[R], c[R]
    output y[s] = sum[r](w[r]*exp(-(x[s] - c[r])^2))
    ''')
    y = f(x=x, w=w, c=c)
    y, grads = f.grad("y", wrt=["w", "c"])(x=x, w=w, c=c)

`moxie.torch.Function` and `moxie.jax.function` make functions of these libraries of formulas; `moxie.train` trains networks.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._core import Device
from ._devices import device
from .derivatives import Gradient
from .errors import CheckError, CompileError, DeviceError, DomainError, DtypeError, Error, FormulaError, InputError, InternalError, ShapeError, TrainingError
from .formula import Formula, TensorInfo, formula, load, op, ops

__all__ = [
    "CheckError", "CompileError", "Device", "DeviceError", "DomainError", "DtypeError", "Error", "Formula", "FormulaError", "Gradient", "InputError",
    "InternalError", "ShapeError", "TensorInfo", "TrainingError",
    "device", "formula", "jax", "learn", "load", "op", "ops", "torch", "train",
]


def train(model: str, X: Any, y: Any, **options: Any) -> Any:
    """A network trained on rows X and targets y, as an estimator with scikit-learn's conventions: `moxie.learn.train`."""
    from .learn import train as fitted

    return fitted(model, X, y, **options)


def __getattr__(name: str) -> Any:
    """The bridges import their library, so that they are imported when they are first named."""
    if name in ("jax", "learn", "torch"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__} has no attribute {name}")

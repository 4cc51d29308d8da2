"""What calls of formulas from Python cost, on one thread: small arrays, where the way to the kernel counts, and a layer.

    PYTHONPATH=build/python python benchmarks/python_calls.py

Times are processor time, the least of several repetitions: other programs count little. What needs torch or jax is left out where
it is not installed.
"""
import time
import timeit

import moxie
import numpy as np

try:
    import moxie.torch
    import torch
except ImportError:
    torch = None
try:
    import jax
    import moxie.jax
    jax.config.update("jax_platforms", "cpu")
except ImportError:
    jax = None

BUMPS = """
dim S dynamic, R
index s:S, r:R
input x[S], w[R], c[R]
output y[s] = sum[r](w[r]*exp(-(x[s] - c[r])^2))
"""


def microseconds(call):
    call()
    count = max(1, int(0.05 / max(timeit.timeit(call, number=3) / 3, 1e-7)))
    return min(timeit.repeat(call, number=count, repeat=9, timer=time.process_time)) / count * 1e6


def row(what, seconds):
    print(f"{what:52}{seconds:12.1f} us", flush=True)


def torch_step(formula, arrays, cotangents):
    """Forward and backward pass of a layer of torch."""
    layer, tensors = moxie.torch.Function(formula), {name: torch.tensor(value, requires_grad=True) for name, value in arrays.items()}
    weights = [torch.tensor(value) for value in cotangents]

    def step():
        results = layer(**tensors)
        torch.autograd.backward(list(results) if isinstance(results, tuple) else [results], weights)

    return step


def jax_step(formula, arrays, cotangents):
    """Forward and backward pass of a function of jax, compiled."""
    function, weights = moxie.jax.function(formula), [jax.numpy.asarray(value) for value in cotangents]

    @jax.jit
    def step(arrays):
        results, back = jax.vjp(lambda arrays: function(**arrays), arrays)
        return results, back(type(results)(*weights) if isinstance(results, tuple) else weights[0])

    tensors = {name: jax.numpy.asarray(value) for name, value in arrays.items()}
    return lambda: jax.block_until_ready(step(tensors))


def jax_loop(formula, arrays, count):
    """`count` calls inside of one computation of jax, each of the result of the one before."""
    function, (first, *others) = moxie.jax.function(formula), [jax.numpy.asarray(value) for value in arrays.values()]
    loop = jax.jit(lambda value: jax.lax.fori_loop(0, count, lambda _, value: function(value, *others), value))
    return lambda: jax.block_until_ready(loop(first))


def measure(title, formula, arrays, cotangents):
    gradient = formula.grad()
    weights = dict(zip(gradient.of, cotangents))
    row(f"{title}: values", microseconds(lambda: formula(**arrays)))
    row(f"{title}: values and gradients", microseconds(lambda: gradient(**arrays, cotangents=weights)))
    if torch:
        row(f"{title}: torch, forward and backward", microseconds(torch_step(formula, arrays, cotangents)))
    if jax:
        row(f"{title}: jax, forward and backward", microseconds(jax_step(formula, arrays, cotangents)))


def main():
    random, device = np.random.default_rng(0), moxie.device("cpu", threads=1)
    if torch:
        torch.set_num_threads(1)
    small = {name: random.normal(size=size).astype(np.float32) for name, size in (("x", 8), ("w", 3), ("c", 3))}
    bumps = moxie.formula(BUMPS, device=device)
    measure("8 samples, 3 bumps", bumps, small, [np.ones(8, np.float32)])
    if jax:
        row("8 samples, 3 bumps: a call in a loop of jax", microseconds(jax_loop(bumps, small, 1000)) / 1000)
        scaled = moxie.jax.function(moxie.formula("dim S\nindex s:S\ninput x[S], a\noutput y[s] = a*x[s]\n", device=device))
        million = jax.numpy.ones(1_000_000)
        row("1000000 samples of a product: jax", microseconds(lambda: jax.block_until_ready(scaled(million, 2.0))))

    S, N, R = 1024, 50, 14
    draw = lambda low, high, *shape: random.uniform(low, high, shape).astype(np.float32)
    points = np.repeat(np.linspace(-2, 2, R, dtype=np.float32)[:, None], N, axis=1)
    layer = {"mu": draw(-2, 2, S, N), "var": draw(0.1, 1, S, N), "V": points, "U": draw(-1, 1, R, N), "noise": draw(0.2, 0.4, R, N),
             "lambda": draw(0.8, 1.2, N), "sigma": draw(0.1, 0.2, N)}
    measure(f"GPN layer S={S} N={N} R={R}", moxie.op("gpn.response_variance", device=device), layer, [np.ones((S, N), np.float32)] * 2)


if __name__ == "__main__":
    main()

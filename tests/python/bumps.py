"""A formula that most tests use, and what numpy makes of it."""
import numpy as np

TEXT = """
dim S dynamic, R
index s:S, r:R
input x[S], w[R], c[R]
output y[s] = sum[r](w[r]*exp(-(x[s] - c[r])^2))
"""


def inputs(samples=7, bumps=3, dtype=np.float64, seed=1):
    random = np.random.default_rng(seed)
    return {"x": random.normal(size=samples).astype(dtype), "w": random.normal(size=bumps).astype(dtype),
            "c": random.normal(size=bumps).astype(dtype)}


def kernel(x, c):
    return np.exp(-(x[:, None] - c[None, :]) ** 2)


def values(x, w, c):
    return kernel(x, c) @ w


def gradients(x, w, c, cotangents):
    """Of sum(cotangents*y)."""
    k, distance = kernel(x, c), x[:, None] - c[None, :]
    return {"x": cotangents * (k * -2 * distance @ w), "w": k.T @ cotangents, "c": (k * 2 * distance).T @ cotangents * w}

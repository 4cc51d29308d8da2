"""Formulas under JAX."""
import unittest

import bumps
import jax
import jax.numpy as jnp
import moxie
import moxie.jax
import numpy as np

jax.config.update("jax_platforms", "cpu")


def reference(x, w, c):
    return jnp.exp(-(x[:, None] - c[None, :]) ** 2) @ w


class Bridge(unittest.TestCase):
    def setUp(self):
        self.formula = moxie.formula(bumps.TEXT)
        self.function = moxie.jax.function(self.formula)
        self.arrays = {name: jnp.asarray(value) for name, value in bumps.inputs(dtype=np.float32).items()}

    def check(self, result, expected):
        self.assertIsInstance(result, jax.Array)
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-5)

    def test_values_alone_and_compiled(self):
        expected = reference(**self.arrays)
        for function in (self.formula, self.function, jax.jit(self.function), jax.jit(self.formula)):
            self.check(function(**self.arrays), expected)

    def test_gradients_of_first_and_second_order(self):
        def loss(function):
            return lambda x, w, c: jnp.sum(function(x, w, c) ** 2)

        given = tuple(self.arrays.values())
        for transform in (jax.grad, lambda f, argnums: jax.jit(jax.grad(f, argnums))):
            ours, theirs = (transform(loss(f), argnums=(0, 1, 2))(*given) for f in (self.function, reference))
            for one, other in zip(ours, theirs):
                self.check(one, other)
        ours, theirs = (jax.jacrev(jax.grad(loss(f), argnums=1), argnums=2)(*given) for f in (self.function, reference))
        self.check(ours, theirs)

    def test_batches_by_vmap(self):
        x = jnp.stack([self.arrays["x"], self.arrays["x"] + 1])
        batched = jax.vmap(self.function, in_axes=(0, None, None))(x, self.arrays["w"], self.arrays["c"])
        self.check(batched[1], reference(x[1], self.arrays["w"], self.arrays["c"]))

    def test_several_outputs_and_numbers(self):
        f = moxie.jax.function(moxie.formula("dim N\nindex n:N\ninput x[N], a\noutput y[n] = a*x[n]\noutput z = sum[n](x[n])\n"))
        y, z = jax.jit(f)(jnp.ones(3), 2.0)
        self.check(y, 2 * np.ones(3))
        self.check(z, 3)

    def test_errors(self):
        with self.assertRaises(moxie.ShapeError):
            jax.jit(self.function)(**{**self.arrays, "c": jnp.ones(4)})
        with self.assertRaises(moxie.DtypeError):
            self.function(**{**self.arrays, "x": jnp.arange(7)})


if __name__ == "__main__":
    unittest.main()

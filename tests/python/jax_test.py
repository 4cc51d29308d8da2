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

    def test_a_batch_is_one_call(self):
        calls, given = [], self.formula.batched(["x", "w"])
        given._call = lambda *arguments, call=given._call: calls.append(arguments) or call(*arguments)
        x, w = (jnp.stack([self.arrays[name]] * 4) for name in ("x", "w"))
        jax.vmap(self.function, in_axes=(0, 0, None))(x, w, self.arrays["c"])
        self.assertEqual(len(calls), 1)

    def test_gradients_of_batches_and_batches_of_gradients(self):
        x, w, c = self.arrays.values()
        x2, w2 = jnp.stack([x, x + 1, x - 1]), jnp.stack([w, 2 * w, 3 * w], axis=1)

        def slopes(function):
            per_sample = jax.vmap(jax.grad(lambda x, w, c: jnp.sum(function(x, w, c) ** 2), argnums=(0, 2)), in_axes=(0, 1, None))
            batch = jax.vmap(function, in_axes=(0, 1, None))
            nested = jax.vmap(jax.vmap(function, in_axes=(None, 1, None)), in_axes=(0, None, None))
            whole = jax.grad(lambda *v: jnp.sum(jnp.sin(batch(*v))), argnums=(0, 1, 2))
            return [*jax.jit(per_sample)(x2, w2, c), *whole(x2, w2, c), nested(x2, w2, c)]

        for ours, theirs in zip(slopes(self.function), slopes(reference)):
            self.check(ours, theirs)

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

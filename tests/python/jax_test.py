"""Formulas under JAX."""
import concurrent.futures
import gc
import unittest
import unittest.mock

import bumps
import jax
import jax.numpy as jnp
import moxie
import moxie.jax
import numpy as np

jax.config.update("jax_platforms", "cpu")
enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
HAS_XLA = hasattr(moxie._core, "xla_handlers") and hasattr(getattr(jax, "ffi", None), "register_ffi_type")


def reference(x, w, c):
    return jnp.exp(-(x[:, None] - c[None, :]) ** 2) @ w


class Bridge(unittest.TestCase):
    """By calls of XLA, where the extension module can be called so."""

    target = "moxie_call" if HAS_XLA else "xla_ffi_python_cpu_callback"

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

    def test_forward_mode(self):
        x, w, c = given = tuple(self.arrays.values())
        x2, changes = jnp.stack([x, x + 1]), tuple(jnp.linspace(-1, 2, len(value)) for value in given)

        def derivatives(function):
            def loss(x, w, c):
                return jnp.sum(function(x, w, c) ** 2)

            def values(*v):  # its Jacobian by columns, differentiated again
                return jnp.sum(jax.jacfwd(function, argnums=1)(*v) ** 2)

            values_alone, change = jax.linearize(function, *given)
            columns = jax.vmap(lambda x: change(x, *changes[1:]))
            return [*jax.jvp(function, given, changes), *jax.jacfwd(function, argnums=(0, 1, 2))(*given),
                    *jax.jit(jax.jacfwd(jax.jacfwd(loss)))(*given), jax.grad(values)(*given),
                    jax.vmap(jax.hessian(loss, argnums=1), (0, None, None))(x2, w, c), values_alone, change(*changes),
                    *jax.linear_transpose(jax.vmap(change, (0, None, None)), x2, w, c)(columns(x2)),
                    jax.grad(jax.checkpoint(loss), argnums=2)(*given)]

        for ours, theirs in zip(derivatives(self.function), derivatives(reference), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=5e-5, atol=5e-5)

    def test_only_what_is_needed_is_differentiated(self):
        lowered = jax.jit(jax.grad(lambda w: jnp.sum(self.function(self.arrays["x"], w, self.arrays["c"])))).lower(self.arrays["w"])
        gradient = str(lowered.as_text()).split("custom_call @" + self.target)[-1].split("\n")[0]
        self.assertTrue(gradient.endswith("-> tensor<3xf32>"), gradient)

    def test_forward_mode_beside_integers(self):
        f = moxie.jax.function(moxie.formula(
            "dim N\nindex n:N\ninput x[N], at[N]: i32\noutput best: i32 = argmax[n](x[n])\noutput y[n] = x[at[n]]^2\n"))
        x, at = jnp.asarray([3.0, 1.0, 2.0]), np.asarray([2, 2, 0], np.int32)
        y, change = jax.jvp(lambda x: f(x, at).y, (x,), (jnp.ones(3),))
        self.check(change, 2 * x[at])

    def test_batches_by_vmap(self):
        x = jnp.stack([self.arrays["x"], self.arrays["x"] + 1])
        batched = jax.vmap(self.function, in_axes=(0, None, None))(x, self.arrays["w"], self.arrays["c"])
        self.check(batched[1], reference(x[1], self.arrays["w"], self.arrays["c"]))

    def test_a_batch_is_one_call(self):
        x, w = (jnp.stack([self.arrays[name]] * 4) for name in ("x", "w"))
        batch = jax.jit(jax.vmap(self.function, in_axes=(0, 0, None)))
        self.assertEqual(batch.lower(x, w, self.arrays["c"]).as_text().count("custom_call @" + self.target), 1)

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

    def test_double_precision_integers_and_empty_arrays(self):
        f = moxie.jax.function(moxie.formula(
            "dim N dynamic, M\nindex n:N\ninput x[M], at[N]: i32, on[N]: bool\noutput y[n] = where(on[n] > 0, 2*x[at[n]], 0)\n"))
        with enable_x64(True):
            for dtype in (np.float32, np.float64):
                x = jnp.asarray([1, 2, 1 / 3], dtype)
                for at, on in ([2, 0, 1, 2], [True, True, True, False]), ([], []):
                    at, on = np.asarray(at, np.int32), np.asarray(on, bool)
                    y, back = jax.jit(lambda x, at, on: jax.vjp(lambda x: f(x, at, on), x))(x, at, on)
                    self.assertEqual(y.dtype, dtype)
                    np.testing.assert_array_equal(y, np.where(on, 2 * np.asarray(x)[at], 0))
                    slope, = back(jnp.ones_like(y))
                    np.testing.assert_array_equal(slope, [2 * np.sum(on & (at == i)) for i in range(3)])

    def test_arrays_of_numpy_have_the_precision_of_jax(self):
        arrays = bumps.inputs()
        self.check(self.function(**arrays), reference(**self.arrays))
        with enable_x64(True):
            result = jax.jit(self.function)(**arrays)
            self.assertEqual(result.dtype, np.float64)
            np.testing.assert_allclose(result, bumps.values(**arrays), rtol=1e-13)

    def test_results_of_64_bits(self):
        f = moxie.jax.function(moxie.formula("dim N\nindex n:N\ninput x[N]\noutput best: i64 = argmax[n](x[n])\n"))
        with self.assertRaisesRegex(moxie.DtypeError, "output best is int64, which JAX has only with 64 bits enabled"):
            f(jnp.arange(3.0))
        with enable_x64(True):
            self.assertEqual(jax.jit(f)(jnp.arange(3.0)), 2)

    def test_random_numbers_are_those_of_the_state(self):
        formula = moxie.formula("dim N\nindex n:N\ninput x[N]\noutput y[n] = x[n] + randn(1)\n", seed=2**63 + 3)
        f, x = moxie.jax.function(formula), np.zeros(5, np.float32)
        first, second = formula(x), formula(x)
        for step, expected in enumerate((first, second)):
            formula.random_state(step=step)
            np.testing.assert_array_equal(f(x), expected)
            np.testing.assert_array_equal(jax.jit(lambda x: f(x))(x), expected)

    def test_meshes(self):
        mesh = jax.sharding.Mesh(jax.devices()[:1], ("d",))
        x, w, c = self.arrays.values()
        rows, whole = jax.sharding.PartitionSpec("d"), jax.sharding.PartitionSpec()
        if not hasattr(jax, "shard_map"):
            self.skipTest("jax has no shard_map")

        def slope(function, **options):
            parts = jax.shard_map(function, mesh=mesh, in_specs=(rows, whole, whole), out_specs=rows, **options)
            return jax.grad(lambda w: jnp.sum(parts(x, w, c) ** 2))(w)

        self.check(slope(lambda *v: self.function(*v), check_vma=False), slope(reference))
        with self.assertRaisesRegex(moxie.InputError, "check_vma=False"):
            slope(lambda *v: self.function(*v))

    def test_loops(self):
        x, w, c = self.arrays.values()

        def steps(function):
            return jax.jit(jax.grad(lambda w: jnp.sum(jax.lax.scan(lambda x, _: (function(x, w, c), None), x, length=5)[0])))

        self.check(steps(self.function)(w), steps(reference)(w))

    def test_threads_share_a_computation(self):
        compiled = jax.jit(jax.grad(lambda w, x, c: jnp.sum(self.function(x, w, c) ** 2)))
        theirs = jax.grad(lambda w, x, c: jnp.sum(reference(x, w, c) ** 2))
        x, w, c = self.arrays.values()
        expected = [theirs(i * w, x, c) for i in range(8)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda i: [compiled(i * w, x, c) for _ in range(50)], range(8)))
        for ours, one in zip(results, expected):
            for result in ours:
                self.check(result, one)

    def test_what_is_compiled_outlives_the_formula(self):
        expected = reference(**self.arrays)
        compiled = jax.jit(self.function).lower(*self.arrays.values()).compile()
        del self.formula, self.function
        jax.clear_caches()
        gc.collect()
        self.check(compiled(*self.arrays.values()), expected)

    def test_errors_of_values(self):
        f = moxie.jax.function(moxie.formula("dim N\nindex n:N\ninput v[N] > 0\noutput y[n] = log(v[n])\n"))
        for call in (f, jax.jit(f), jax.jit(jax.grad(lambda v: jnp.sum(f(v))))):
            self.check(call(jnp.ones(2)), call(jnp.ones(2)))
            with self.assertRaisesRegex(Exception, "v\\[1\\] = -2, but v is declared > 0"):
                jax.block_until_ready(call(jnp.asarray([1.0, -2.0])))
            self.check(call(jnp.ones(2)), call(jnp.ones(2)))

    def test_errors(self):
        with self.assertRaises(moxie.ShapeError):
            jax.jit(self.function)(**{**self.arrays, "c": jnp.ones(4)})
        with self.assertRaises(moxie.DtypeError):
            self.function(**{**self.arrays, "x": jnp.arange(7)})
        with self.assertRaises(moxie.InputError):
            jax.jit(self.function)(self.arrays["x"])


class Callback(Bridge):
    """By calls of Python, as where XLA cannot call the extension module."""

    target = "xla_ffi_python_cpu_callback"

    def setUp(self):
        patch = unittest.mock.patch.object(moxie.jax, "_is_known_to_xla", lambda: False)
        patch.start()
        self.addCleanup(patch.stop)
        super().setUp()


@unittest.skipUnless(HAS_XLA, "the extension module was built without XLA's headers, or jax is older than what it uses")
class Target(unittest.TestCase):
    """The call that XLA knows refuses what moxie.jax does not trace."""

    def call(self, handle, *values, shape=(7,), dtype=np.float32):
        result = jax.ffi.ffi_call("moxie_call", jax.ShapeDtypeStruct(shape, dtype))
        return jax.block_until_ready(result(*values, handle=handle, seed=np.int64(0), step=np.int64(0)))

    def test_errors(self):
        self.assertTrue(moxie.jax._is_known_to_xla())
        formula = moxie.formula(bumps.TEXT)
        handle = moxie._core.XlaHandle(formula._function, ["float32"] * 3, "the bumps")
        x, w, c = (jnp.asarray(value) for value in bumps.inputs(dtype=np.float32).values())
        np.testing.assert_allclose(self.call(handle.id, x, w, c), reference(x, w, c), rtol=2e-5, atol=1e-5)
        for message, given in (
                ("expected 3 inputs and 1 outputs, found 2 and 1", lambda: self.call(handle.id, x, w)),
                (r"c: expected float32, found int32", lambda: self.call(handle.id, x, w, jnp.arange(3, dtype=np.int32))),
                (r"y: expected float32, found another dtype", lambda: self.call(handle.id, x, w, c, dtype=np.int8)),
                (r"y: expected \[7\], found \[6\]", lambda: self.call(handle.id, x, w, c, shape=(6,))),
                ("R", lambda: self.call(handle.id, x, w, c[:2])),
                ("there is no formula with the handle 0", lambda: self.call(0, x, w, c))):
            with self.subTest(message), self.assertRaisesRegex(jax.errors.JaxRuntimeError, message):
                given()
        number = handle.id
        same = moxie._core.XlaHandle(formula._function, ["float32"] * 3, "the bumps")
        other = moxie._core.XlaHandle(formula._function, ["float32"] * 3, "another spelling")
        self.assertEqual(same.id, number)
        self.assertNotEqual(other.id, number)
        del handle
        np.testing.assert_allclose(self.call(number, x, w, c), reference(x, w, c), rtol=2e-5, atol=1e-5)
        del same
        with self.assertRaisesRegex(jax.errors.JaxRuntimeError, "there is no formula with the handle"):
            self.call(number, jnp.ones(9), w, c, shape=(9,))


if __name__ == "__main__":
    unittest.main()

"""Formulas as functions of numpy arrays."""
import gc
import os
import pathlib
import pickle
import tempfile
import threading
import time
import timeit
import unittest
import weakref

import bumps
import moxie
import numpy as np
from moxie import _program

SEVERAL = """
dim S dynamic, N
index s:S, n:N
input a[S,N], lambda[N] > 0
output mean[s] = sum[n](a[s,n]/lambda[n])/N
output largest = max[s,n](a[s,n])
"""


class Calls(unittest.TestCase):
    def test_values_are_those_of_numpy_in_the_dtype_of_the_arrays(self):
        f = moxie.formula(bumps.TEXT)
        for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
            arrays = bumps.inputs(dtype=dtype)
            y = f(**arrays)
            self.assertIsInstance(y, np.ndarray)
            self.assertEqual(y.dtype, dtype)
            np.testing.assert_allclose(y, bumps.values(**arrays), rtol=tolerance, atol=tolerance)

    def test_dims_change_from_call_to_call(self):
        f = moxie.formula(bumps.TEXT)
        for samples, count in ((1, 1), (7, 3), (1000, 3), (0, 3), (7, 5), (7, 3)):
            arrays = bumps.inputs(samples, count)
            np.testing.assert_allclose(f(**arrays), bumps.values(**arrays), rtol=1e-12, atol=1e-12)
        self.assertEqual(f.dims, {"S": 7, "R": 3})

    def test_what_is_compiled_is_bounded(self):
        f = moxie.formula(bumps.TEXT, device="interp")
        for samples in range(1, 50):
            f(**bumps.inputs(samples))
        self.assertLessEqual(f._function.kept, 32)

    def test_arguments_may_be_positional_and_keywords_of_python_have_an_underscore(self):
        f = moxie.formula(SEVERAL)
        a, scale = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 4.0])
        expected = (a / scale).mean(axis=1)
        for result in (f(a, scale), f(a, lambda_=scale), f(a=a, lambda_=scale), f(**{"a": a, "lambda": scale})):
            np.testing.assert_allclose(result.mean, expected)
            self.assertEqual(result.largest, 5)
            self.assertEqual(result.largest.shape, ())
        mean, largest = f(a, scale)
        np.testing.assert_allclose(mean, expected)

    def test_numbers_and_lists_take_the_dtype_of_the_arrays(self):
        f = moxie.formula("dim N\nindex n:N\ninput x[N], scale\noutput y[n] = scale*x[n]\n")
        self.assertEqual(f(x=np.ones(2, np.float32), scale=2).dtype, np.float32)
        self.assertEqual(f(x=np.ones(2, np.float32), scale=np.float64(2)).dtype, np.float32)
        self.assertEqual(f(x=[1, 2], scale=3).tolist(), [3, 6])
        self.assertEqual(f(x=[1, 2], scale=np.float32(3)).dtype, np.float32)

    def test_any_layout_is_read_and_good_ones_are_not_copied(self):
        f = moxie.formula("dim S, N\nindex s:S, n:N\ninput a[S,N]\noutput y[s,n] = 2*a[s,n]\n")
        a = np.arange(24.0).reshape(4, 6)
        packed = np.zeros(24 * 8 + 1, np.uint8)[1:].view(np.float64)
        for view in (a, a.T, a[::2, ::-1], np.asfortranarray(a), np.broadcast_to(a[0], (3, 6)), packed.reshape(4, 6)):
            before = view.copy()
            np.testing.assert_array_equal(f(a=view), 2 * before)
        a.flags.writeable = False
        np.testing.assert_array_equal(f(a=a), 2 * a)
        np.testing.assert_array_equal(f(a=memoryview(a)), 2 * a)

    def test_dims_that_no_input_shows_are_options(self):
        f = moxie.formula("dim N\nindex n:N\noutput y[n] = n^2\n", dims={"N": 4})
        self.assertEqual(f().tolist(), [0, 1, 4, 9])

    def test_random_numbers_take_a_step_a_call(self):
        text = "dim N\nindex n:N\ninput x[N]\noutput y[n] = x[n] + randn(1)\n"
        f, g = moxie.formula(text, seed=3), moxie.formula(text, seed=3)
        x = np.zeros(5)
        first, second = f(x), f(x)
        self.assertFalse(np.array_equal(first, second))
        np.testing.assert_array_equal(g(x), first)
        f.random_state(step=1)
        np.testing.assert_array_equal(f(x), second)

    def test_devices_agree(self):
        arrays = bumps.inputs()
        reference = moxie.formula(bumps.TEXT, device="interp")(**arrays)
        device = moxie.device("cpu", threads=2)
        for _ in range(2):
            np.testing.assert_allclose(moxie.formula(bumps.TEXT, device=device)(**arrays), reference, rtol=1e-12)

    def test_formulas_come_from_files_and_from_the_catalogue(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bumps.mox"
            path.write_text(bumps.TEXT)
            f = moxie.load(path)
            parts = pathlib.Path(folder) / "parts"
            parts.mkdir()
            (parts / "square.mox").write_text("def square(v) = v^2\n")
            path.write_text('dim N\nindex n:N\ninput x[N]\ninclude "square.mox"\noutput y[n] = square(x[n])\n')
            squares = moxie.load(path, include=[parts])
            with self.assertRaisesRegex(moxie.FormulaError, "square.mox"):
                moxie.load(path)
            with self.assertRaises(FileNotFoundError):
                moxie.load(path.with_name("none.mox"))
        self.assertEqual(squares(np.array([3.0])).tolist(), [9])
        self.assertEqual(f.name, "bumps")
        self.assertEqual([info.name for info in f.inputs], ["x", "w", "c"])
        self.assertEqual(f.inputs[0].shape, ("S",))
        self.assertIn("gpn.response_mean", moxie.ops())
        self.assertEqual(moxie.op("gpn.response_mean").name, "gpn.response_mean")

    def test_several_results_are_pickled(self):
        f = moxie.formula("dim N\nindex n:N\ninput x[N]\noutput y[n] = 2*x[n]\noutput z = sum[n](x[n])\n")
        results = pickle.loads(pickle.dumps(f(x=np.ones(3))))
        self.assertEqual((results.y.tolist(), results.z.tolist()), ([2, 2, 2], 3))

    def test_formulas_are_pickled(self):
        f = moxie.formula(bumps.TEXT, name="bumps", dtype="float32", seed=4)
        copy = pickle.loads(pickle.dumps(f))
        self.assertEqual((copy.name, copy.random_state()), ("bumps", (4, 0)))
        arrays = bumps.inputs(dtype=np.float32)
        np.testing.assert_array_equal(copy(**arrays), f(**arrays))

    def test_threads_share_a_formula(self):
        f = moxie.formula(bumps.TEXT)
        problems = []

        def work(seed):
            for k in range(50):
                arrays = bumps.inputs(5 + k % 4, seed=seed)
                if not np.allclose(f(**arrays), bumps.values(**arrays)):
                    problems.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])

    def test_other_threads_run_while_a_kernel_does(self):
        f = moxie.formula(bumps.TEXT, device=moxie.device("cpu", threads=1))
        arrays = bumps.inputs(40000, 2000)
        f(**arrays)
        thread = threading.Thread(target=f, kwargs=arrays)
        thread.start()
        turns = 0
        while thread.is_alive():
            time.sleep(0)
            turns += 1
        self.assertGreater(turns, 10)  # 2 or 3 if the kernel kept the GIL

    def test_inputs_may_have_any_name(self):
        f = moxie.formula("input self, args, cotangents\noutput y = self + 2*args + 3*cotangents\n")
        self.assertEqual(f(self=1, args=10, cotangents=100), 321)
        self.assertEqual(f.grad(wrt="args")(1, 10, 100)[1], 2)

    def test_a_forked_process_opens_its_own_device(self):
        f = moxie.formula(bumps.TEXT, device=moxie.device("cpu", threads=3))
        arrays = bumps.inputs(5000)
        expected = f(**arrays)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if np.array_equal(f(**arrays), expected) else 2
                del f
                gc.collect()
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        np.testing.assert_array_equal(f(**arrays), expected)

    def test_a_call_of_small_arrays_costs_at_most_15_microseconds(self):
        f = moxie.formula(bumps.TEXT, device=moxie.device("cpu", threads=1))
        arrays = bumps.inputs()
        f(**arrays)
        calls = 2000
        # Other programs on this machine do not count: the least of the processor time of some repetitions.
        seconds = min(timeit.repeat(lambda: f(**arrays), number=calls, repeat=10, timer=time.process_time)) / calls
        self.assertLess(seconds, 15e-6)

    def test_nothing_is_held_that_nobody_uses(self):
        f = moxie.formula(bumps.TEXT)
        g = f.grad()
        arrays = bumps.inputs()
        f(**arrays), g(**arrays)
        held = weakref.ref(arrays["x"]), weakref.ref(f)
        del arrays, f, g
        gc.collect()
        self.assertEqual([reference() for reference in held], [None, None])


class Gradients(unittest.TestCase):
    def test_values_and_gradients_are_those_of_numpy(self):
        f = moxie.formula(bumps.TEXT)
        arrays = bumps.inputs()
        y, grads = f.grad("y", wrt=["w", "c"])(**arrays)
        np.testing.assert_allclose(y, bumps.values(**arrays), rtol=1e-12)
        expected = bumps.gradients(**arrays, cotangents=np.ones(7))
        self.assertEqual(list(grads), ["w", "c"])
        for name, slope in grads.items():
            np.testing.assert_allclose(slope, expected[name], rtol=1e-11)

    def test_cotangents_weight_the_elements(self):
        f = moxie.formula(bumps.TEXT)
        arrays, weights = bumps.inputs(), np.random.default_rng(2).normal(size=7)
        expected = bumps.gradients(**arrays, cotangents=weights)
        for given in (weights, {"y": weights}):
            _, grads = f.grad()(**arrays, cotangents=given)
            self.assertEqual(list(grads), ["x", "w", "c"])
            for name, slope in grads.items():
                np.testing.assert_allclose(slope, expected[name], rtol=1e-11)

    def test_one_name_gives_one_array(self):
        f = moxie.formula(bumps.TEXT)
        arrays = bumps.inputs()
        _, slope = f.grad("y", wrt="w")(arrays["x"], arrays["w"], arrays["c"])
        np.testing.assert_allclose(slope, bumps.gradients(**arrays, cotangents=np.ones(7))["w"], rtol=1e-12)

    def test_all_outputs_come_with_the_gradients_of_some(self):
        f = moxie.formula(SEVERAL)
        a, scale = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 4.0])
        values, grads = f.grad("mean", wrt=["a"])(a=a, lambda_=scale)
        self.assertEqual(values.largest, 5)
        np.testing.assert_allclose(grads["a"], np.broadcast_to(1 / scale / 3, (2, 3)))

    def test_the_gradient_is_a_formula_that_differentiates_again(self):
        f = moxie.formula("input x\noutput y = x^4\n")
        first = f.differentiate("y", "x", keep_outputs=False)
        second = first.differentiate("grad.x", "x", keep_outputs=False)
        self.assertEqual([info.name for info in first.inputs], ["x", "cot.y"])
        self.assertEqual(second(3.0, 1.0, 1.0), 12 * 9)
        third = second.grad(wrt="x")
        self.assertEqual(third(3.0, 1.0, 1.0)[1], 24 * 3)

    def test_a_batch_gives_what_each_sample_gives(self):
        f, given = moxie.formula(bumps.TEXT), bumps.inputs()
        many = f.batched(["x", "w"])
        self.assertIs(f.batched(["w", "x"]), many)
        x, w = np.stack([given["x"], -given["x"], 2 * given["x"]]), np.stack([given["w"]] * 3)
        y, slopes = many.grad("y", wrt=["x", "c"])(x=x, w=w, c=given["c"])
        alone = [f.grad("y", wrt=["x", "c"])(x=own, w=given["w"], c=given["c"]) for own in x]
        np.testing.assert_allclose(y, [values for values, _ in alone])
        np.testing.assert_allclose(slopes["x"], [slope["x"] for _, slope in alone])
        np.testing.assert_allclose(slopes["c"], sum(slope["c"] for _, slope in alone))
        self.assertEqual(f.batched()(x=x[:1], w=w[:1], c=given["c"][None]).shape, (1, 7))
        with self.assertRaisesRegex(moxie.InputError, "there is no input zz"):
            f.batched("zz")

    def test_random_numbers_are_those_of_the_values(self):
        f = moxie.formula("dim N\nindex n:N\ninput x[N]\noutput y[n] = x[n]*randn(1)\n")
        for _ in range(2):
            y, slope = f.grad(wrt="x")(np.ones(4))
            np.testing.assert_allclose(y, slope)


class Compiler(unittest.TestCase):
    def test_stages_are_shown(self):
        f = moxie.formula(bumps.TEXT, name="bumps")
        with self.assertRaisesRegex(moxie.ShapeError, "dims R have no values"):
            f.dump(stage="schedule")
        self.assertIn("y", f.dump(stage="schedule", dims={"R": 8}))
        f(**bumps.inputs())
        self.assertIn("for", f.dump(stage="loop"))
        self.assertIn("grad.w", f.grad(wrt="w").dump(stage="fuse", dims={"R": 3}))
        with self.assertRaisesRegex(moxie.InputError, "there is no stage 'sched'; choose of: ir, "):
            f.dump(stage="sched")

    @unittest.skipUnless(_program.PATH.exists(), "the package holds no program moxie")
    def test_devices_and_gradients_are_checked(self):
        table = moxie.formula(bumps.TEXT, name="bumps").check(dims={"S": 4})
        self.assertIn("bumps with R=3 S=4", table)
        self.assertIn("grad.w", table)
        with self.assertRaisesRegex(moxie.InputError, "zz"):
            moxie.formula(bumps.TEXT).check(wrt=["zz"])

    def test_the_page_is_written(self):
        f = moxie.formula(bumps.TEXT, name="bumps")
        with tempfile.TemporaryDirectory() as folder:
            page = f.html(pathlib.Path(folder) / "page.html", dims={"R": 8})
            self.assertIn("<html", page.read_text()[:300])
        self.assertIn("exp", f._repr_html_())


if __name__ == "__main__":
    unittest.main()

"""What bad input gets: typed errors that say what was expected, where, and what to do."""
import array
import os
import pathlib
import unittest

import bumps
import moxie
import numpy as np


class Errors(unittest.TestCase):
    def raises(self, kind, *fragments):
        """A context that wants an exception of this type with these fragments in its message."""
        test = self

        class Context:
            def __enter__(self):
                return self

            def __exit__(self, found, error, _):
                test.assertIsNotNone(found, f"nothing was raised, {kind.__name__} expected")
                test.assertTrue(issubclass(found, kind), f"{found.__name__}: {error}")
                test.assertTrue(issubclass(found, moxie.Error))
                for fragment in fragments:
                    test.assertIn(fragment, str(error))
                self.error = error
                return True

        return Context()

    def setUp(self):
        self.formula, self.arrays = moxie.formula(bumps.TEXT), bumps.inputs()

    def call(self, **changed):
        return self.formula(**{**self.arrays, **changed})

    def tearDown(self):
        np.testing.assert_allclose(self.call(), bumps.values(**self.arrays), rtol=1e-12)

    def test_texts(self):
        with self.raises(moxie.FormulaError, "`q` is not declared", "output y[s] = x[q]", "             ^") as caught:
            moxie.formula("dim S\nindex s:S\ninput x[S]\noutput y[s] = x[q]\n", file="my.mox")
        error = caught.error
        self.assertEqual((error.file, error.line, error.column), ("my.mox", 4, 17))
        self.assertEqual((error.problem, error.name), ("`q` is not declared", None))
        self.assertIn("declare it in a line above", error.remedy)
        with self.raises(moxie.FormulaError, "guard the access", "              ^") as caught:
            moxie.formula("dim S\nindex s:S\ninput x[S]\noutput y[s] = x[s+1]\n")
        self.assertEqual((caught.error.line, caught.error.column), (4, 15))
        self.assertEqual(caught.error.remedy, "guard the access with where(...) or change the range")
        with self.raises(moxie.FormulaError):
            moxie.formula("\0")
        self.assertTrue(issubclass(moxie.FormulaError, ValueError))

    def test_what_is_no_formula_and_no_number(self):
        with self.raises(moxie.InputError, "found the name of a file; moxie.load('density.mox') reads it"):
            moxie.formula("density.mox")
        with self.raises(moxie.InputError, "expected the text of a formula, found NoneType"):
            moxie.formula(None)
        with self.raises(moxie.FormulaError, "the formula has no output"):
            moxie.formula("")
        for seed in (-1, 2**64, 1.5):
            with self.raises(moxie.InputError, "seed: expected a"):
                moxie.formula(bumps.TEXT, seed=seed)
        with self.raises(moxie.InputError, "step: expected a number"):
            self.formula.random_state(step=-5)
        with self.raises(moxie.InputError, "dim R: expected a whole number, found 5.7"):
            moxie.formula(bumps.TEXT, dims={"R": 5.7})

    def test_derivatives_of_nothing(self):
        with self.raises(moxie.InputError, "at least one output"):
            self.formula.grad([], wrt="w")
        with self.raises(moxie.InputError, "at least one input"):
            self.formula.jvp("y", wrt=[])
        with self.raises(moxie.InputError, "at least one input"):
            self.formula.batched([])
        with self.raises(moxie.InputError, "expected 2 tangents (x, w), found 3"):
            self.formula.jvp("y", wrt=["x", "w"])(**self.arrays, tangents=[self.arrays[name] for name in "xwc"])

    def test_lists_for_integers(self):
        f = moxie.formula("dim N\nindex n:N\ninput x[N], at[N]: i32\noutput y[n] = x[at[n]]\n")
        self.assertEqual(f(x=[1.0, 2.0], at=[1, 0]).tolist(), [2, 1])
        with self.raises(moxie.DtypeError, "input at: expected whole numbers (int32), found float64"):
            f(x=[1.0, 2.0], at=[0, 0.5])

    def test_names(self):
        with self.raises(moxie.InputError, "missing inputs: c[R]"):
            self.formula(x=self.arrays["x"], w=self.arrays["w"])
        with self.raises(moxie.InputError, "there is no input weights", "x, w, c"):
            self.call(weights=1)
        with self.raises(moxie.InputError, "input x is given twice"):
            self.formula(self.arrays["x"], x=self.arrays["x"], w=1)
        with self.raises(moxie.InputError, "has 3 inputs (x, w, c), found 4 arrays"):
            self.formula(1, 2, 3, 4)
        with self.raises(moxie.InputError, "there is no output z"):
            self.formula.grad("z")
        with self.raises(moxie.InputError, "there is no input ww; did you mean w?"):
            self.formula.grad("y", wrt=["ww"])
        with self.raises(moxie.InputError, "there is no dim T"):
            moxie.formula(bumps.TEXT, dims={"T": 3})
        with self.raises(moxie.InputError, "gpn.response_mean"):
            moxie.op("gpn.response_man")
        with self.raises(moxie.InputError, "there is no output with cotangents z"):
            self.formula.grad()(**self.arrays, cotangents={"z": 1})

    def test_shapes(self):
        with self.raises(moxie.ShapeError, "axis 0 of c has 4 elements", "R = 3") as caught:
            self.call(c=np.ones(4))
        self.assertEqual((caught.error.name, caught.error.expected, caught.error.found), ("c", "3", "4"))
        self.assertIsNone(caught.error.line)
        with self.raises(moxie.ShapeError, "input x", "axes"):
            self.call(x=np.ones((7, 1)))
        with self.raises(moxie.ShapeError, "input w", "axes"):
            self.call(w=1.0)
        with self.raises(moxie.ShapeError, "cot.y"):
            self.formula.grad()(**self.arrays, cotangents=np.ones(3))
        with self.raises(moxie.ShapeError, "N"):
            moxie.formula("dim N\nindex n:N\noutput y[n] = n\n")()

    def test_dtypes(self):
        with self.raises(moxie.DtypeError, "input x", "int64", "astype") as caught:
            self.call(x=np.arange(7))
        error = caught.error
        self.assertEqual((error.name, error.expected, error.found), ("x", "float32 or float64", "int64"))
        self.assertEqual(error.remedy, "convert it: x.astype(numpy.float32)")
        with self.raises(moxie.DtypeError, "input x", "expected float32 or float64, found >f8", "byte order"):
            self.call(x=self.arrays["x"].astype(">f8"))
        with self.raises(moxie.DtypeError, "input w is float32, but input x is float64"):
            self.call(w=self.arrays["w"].astype(np.float32))
        for dtype in (np.float16, np.complex128, bool, object, "S3"):
            with self.raises(moxie.DtypeError, "input c"):
                self.call(c=np.zeros(3, dtype))
        single = moxie.formula(bumps.TEXT, dtype=np.float32)
        with self.raises(moxie.DtypeError, "input x: expected float32, found float64"):
            single(**self.arrays)
        declared = moxie.formula("input a: f64, b\noutput y = a + b\n")
        with self.raises(moxie.DtypeError, "input a: expected float64, found float32"):
            declared(a=np.float32(1), b=np.float32(1))
        with self.raises(moxie.DtypeError, "float16"):
            moxie.formula(bumps.TEXT, dtype=np.float16)

    def test_things_that_are_no_arrays(self):
        for thing in (None, "text", {"a": 1}, object(), lambda: 0, bumps):
            with self.raises(moxie.InputError, "input c"):
                self.call(c=thing)
        with self.raises(moxie.InputError, "input c", "list"):
            self.call(c=[1, [2, 3]])
        with self.raises(moxie.DtypeError, "input c"):
            self.call(c=b"bytes")
        with self.raises(moxie.InputError, "input c", "x.filled(0)"):
            self.call(c=np.ma.masked_array(np.ones(3), [True, False, False]))

    def test_memory_is_given_back_after_calls_and_after_errors(self):
        x, c = array.array("d", [1, 2, 3]), array.array("f", [1, 2, 3])
        self.formula(x=x, w=np.ones(2), c=np.ones(2))
        for wrong in ({"w": np.ones(3)}, {"w": None}, {"w": np.ones(2, int)}, {"c": c}):
            with self.raises(moxie.Error):
                self.formula(**{"x": x, "w": np.ones(2), "c": np.ones(2), **wrong})
        x.append(4), c.append(4)  # a BufferError while somebody holds the memory
        self.assertEqual(self.formula(x=x, w=np.ones(2), c=np.ones(2)).shape, (4,))

    def test_memory_does_not_grow(self):
        def resident():
            return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        def use():
            self.call(x=np.ones(20000))
            for wrong in ({"c": np.ones(4)}, {"c": None}, {"c": np.ones(3, int)}):
                try:
                    self.call(**wrong)
                except moxie.Error:
                    pass
            try:
                moxie.formula("output y = q")
            except moxie.FormulaError:
                pass

        for _ in range(200):
            use()
        before = resident()
        for _ in range(2000):
            use()
        self.assertLess(resident() - before, 8 << 20)

    def test_domains(self):
        f = moxie.formula("dim N\nindex n:N\ninput v[N] > 0\noutput y[n] = log(v[n])\n")
        with self.raises(moxie.DomainError, "v[1] = -2, but v is declared > 0"):
            f(v=np.array([1.0, -2.0]))
        g = moxie.formula("dim N = 1\nindex n:N, m:N\ninput a\noutput y = logdet[n,m](where(n == m, a, 0))\n")
        with self.raises(moxie.DomainError, "value -1"):
            g(a=-1.0)
        self.assertAlmostEqual(float(g(a=4.0)), float(np.log(4)))

    def test_devices(self):
        with self.raises(moxie.DeviceError, "there is no device 'gpu'; choose one of: cpu, interp, cuda"):
            moxie.formula(bumps.TEXT, device="gpu")
        with self.raises(moxie.InputError, "threads"):
            moxie.device("cpu", threads=-1)

    def test_objects_that_refuse_their_memory(self):
        class Refusing:
            def __dlpack__(self, **_):
                raise BufferError("it lies on a GPU")

            def __dlpack_device__(self):
                return (2, 0)

        with self.raises(moxie.DeviceError, "input x: the Refusing cannot be read", "it lies on a GPU"):
            self.call(x=Refusing())


if __name__ == "__main__":
    unittest.main()

"""Arrays of the dtypes that labels, images, masks and weights have."""

import unittest

import numpy as np

import moxie

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

TEXT = """
dim S dynamic, V, N
index s:S, n:N
input x[V,N], label[S]: i64 >= 0, image[S,N]: u8, mask[S]: bool
output y[s,n] = where(mask[s], x[label[s],n], 0) + image[s,n]/255
output best[s]: i64 = argmax[n](image[s,n])
output bright[s,n]: bool = image[s,n] > 100
output half[s,n]: u8 = image[s,n]/2
"""


def arrays(samples=5, classes=4, width=6):
    random = np.random.default_rng(1)
    return {"x": random.normal(size=(classes, width)).astype(np.float32), "label": random.integers(classes, size=samples),
            "image": random.integers(256, size=(samples, width)).astype(np.uint8), "mask": np.arange(samples) % 2 == 0}


def expected(x, label, image, mask):
    return np.where(mask[:, None], x[label], 0) + image / 255


class Dtypes(unittest.TestCase):
    def test_integers_images_and_masks_are_read_as_they_are(self):
        f = moxie.formula(TEXT)
        given = arrays()
        y, best, bright, half = f(**given)
        np.testing.assert_allclose(y, expected(**given), rtol=1e-6, atol=1e-6)
        self.assertEqual([result.dtype for result in (y, best, bright, half)], [np.float32, np.int64, np.bool_, np.uint8])
        np.testing.assert_array_equal(best, given["image"].argmax(axis=1))
        np.testing.assert_array_equal(bright, given["image"] > 100)
        np.testing.assert_array_equal(half, np.rint(given["image"] / 2))
        turned = dict(given, image=np.asfortranarray(given["image"]), label=np.repeat(given["label"], 2)[::2])
        np.testing.assert_array_equal(f(**turned).y, y)
        listed = dict(given, label=given["label"].tolist(), mask=given["mask"].tolist())
        np.testing.assert_array_equal(f(**listed).y, y)

    def test_derivatives_are_those_of_real_numbers(self):
        f = moxie.formula(TEXT)
        given = arrays()
        _, gradients = f.grad()(**given)
        self.assertEqual(list(gradients), ["x"])
        counts = np.bincount(given["label"][given["mask"]], minlength=4)
        np.testing.assert_allclose(gradients["x"], np.repeat(counts[:, None], 6, axis=1))

    def test_integers_of_another_dtype_are_taken_where_they_fit(self):
        f = moxie.formula(TEXT)
        given = arrays()
        others = dict(given, label=given["label"].astype(np.int32), mask=given["mask"].astype(np.uint8),
                      image=given["image"].astype(np.int64)[::-1][::-1])
        for one, other in zip(f(**given), f(**others)):
            np.testing.assert_array_equal(one, other)
        rows = moxie.formula("dim N, M\nindex n:N, m:M\ninput x[M], at[N]: i32\noutput y[n] = x[at[n]]")
        np.testing.assert_array_equal(rows(np.arange(5.0), np.array([3, 0])), [3, 0])
        with self.assertRaisesRegex(moxie.InputError, "input at: expected a 32-bit integer, found 4294967296"):
            rows(np.arange(5.0), np.array([3, 1 << 32]))
        with self.assertRaisesRegex(moxie.InputError, "input mask: expected an integer from 0 to 1, found 3"):
            f(**dict(given, mask=given["mask"] + 2))

    def test_other_dtypes_and_numbers_are_refused(self):
        f = moxie.formula(TEXT)
        for name, dtype, words in (("label", np.float64, "expected int64, found float64"), ("mask", np.float32, "expected bool"),
                                   ("image", np.int16, "expected uint8, found int16"), ("x", np.float16, "found float16")):
            given = arrays()
            given[name] = given[name].astype(dtype)
            with self.assertRaisesRegex(moxie.DtypeError, words):
                f(**given)
        with self.assertRaisesRegex(moxie.InputError, "expected an integer from 0 to 255, found 256"):
            moxie.formula("input a: u8\noutput y = a")(256)
        with self.assertRaisesRegex(moxie.InputError, "expected an integer from -9007199254740992"):
            moxie.formula("input a: i64\noutput y = a")(2.0**60)
        given = arrays()
        given["label"][3] = 2**53 + 1
        with self.assertRaisesRegex(moxie.Error, r"label\[3\] = 9007199254740993"):
            f(**given)
        with self.assertRaises(moxie.DtypeError):
            moxie.formula("input a\noutput y = a", dtype="int64")

    def test_halves_of_numpy(self):
        f = moxie.formula("dim N\nindex n:N\ninput a[N]: f16, b[N]\noutput y[n]: f16 = a[n]*b[n]\noutput z = sum[n](a[n])")
        a = np.arange(20).astype(np.float16) / 3
        b = np.arange(20).astype(np.float32)
        y, z = f(a=a, b=b)
        self.assertEqual(y.dtype, np.float16)
        np.testing.assert_array_equal(y, (a.astype(np.float32) * b).astype(np.float16))
        self.assertAlmostEqual(float(z), float(a.astype(np.float64).sum()), places=3)
        _, gradients = f.grad("z")(a=a, b=b)
        self.assertEqual(gradients["a"].dtype, np.float16)

    @unittest.skipIf(ml_dtypes is None, "no ml_dtypes")
    def test_bfloat16_of_ml_dtypes(self):
        f = moxie.formula("dim N\nindex n:N\ninput a[N]: bf16\noutput y[n]: bf16 = a[n]*3")
        a = (np.arange(50) / 7).astype(ml_dtypes.bfloat16)
        y = f(a)
        self.assertEqual(y.dtype, ml_dtypes.bfloat16)
        np.testing.assert_array_equal(y, (a.astype(np.float32) * 3).astype(ml_dtypes.bfloat16))
        np.testing.assert_array_equal(f(a.view(np.uint16)), y)

    @unittest.skipIf(torch is None, "no torch")
    def test_tensors_of_torch(self):
        f = moxie.formula(TEXT)
        given = arrays()
        tensors = {name: torch.from_numpy(array) for name, array in given.items()}
        y, best, bright, half = f(**tensors)
        np.testing.assert_allclose(y.numpy(), expected(**given), rtol=1e-6, atol=1e-6)
        self.assertEqual([result.dtype for result in (best, bright, half)], [torch.int64, torch.bool, torch.uint8])
        tensors["x"].requires_grad_(True)
        f(**tensors).y.sum().backward()
        self.assertEqual(tensors["x"].grad.shape, tensors["x"].shape)
        g = moxie.formula("dim N\nindex n:N\ninput a[N]: bf16\noutput y[n]: bf16 = a[n]*3")
        a = torch.arange(50, dtype=torch.bfloat16) / 7
        self.assertTrue(torch.equal(g(a), a * 3))
        same = f(**dict(tensors, label=tensors["label"].int(), image=tensors["image"].long()))
        self.assertTrue(torch.equal(same.y, y))
        with self.assertRaisesRegex(moxie.DtypeError, "expected int64, found torch.float32; convert it: x.to"):
            f(**dict(tensors, label=tensors["label"].float()))


if __name__ == "__main__":
    unittest.main()

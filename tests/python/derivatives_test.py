"""Tangents, products with Hessians and Jacobians as functions of numpy arrays."""
import unittest

import bumps
import moxie
import numpy as np

TWO = """
dim S dynamic, N
index s:S, n:N
input x[S,N], w[N]
output y[s] = exp(sum[n](x[s,n]*w[n]))
output z = sum[s](y[s]^2)
"""


def two():
    random = np.random.default_rng(3)
    return {"x": random.normal(size=(4, 3)), "w": random.normal(size=3)}


class Tangents(unittest.TestCase):
    def test_the_change_is_that_of_the_transposed_gradient(self):
        f, arrays = moxie.formula(bumps.TEXT), bumps.inputs()
        direction = {"w": np.array([1.0, -2, 3]), "c": np.array([0.5, 0, 1])}
        y, change = f.jvp("y", wrt=["w", "c"])(**arrays, tangents=direction)
        np.testing.assert_allclose(y, bumps.values(**arrays), rtol=1e-12)
        u = np.cos(arrays["x"])
        gradients = bumps.gradients(**arrays, cotangents=u)
        self.assertAlmostEqual(u @ change, sum(gradients[name] @ v for name, v in direction.items()), 12)

    def test_one_array_for_one_input_and_a_dict_for_several_outputs(self):
        f, arrays = moxie.formula(TWO), two()
        values, changes = f.jvp(wrt="w")(**arrays, tangents=np.ones(3))
        self.assertEqual(list(changes), ["y", "z"])
        slope = values.y * arrays["x"].sum(axis=1)
        np.testing.assert_allclose(changes["y"], slope, rtol=1e-12)
        np.testing.assert_allclose(changes["z"], 2 * values.y @ slope, rtol=1e-12)

    def test_tangents_of_tangents(self):
        f = moxie.formula("dim N\nindex n:N\ninput x[N]\noutput y[n] = x[n]^3\n")
        first = f.jvp("y", wrt="x").formula
        _, second = first.jvp("tan.y", wrt="x")(x=np.array([1.0, 2]), **{"tan.x": np.ones(2)}, tangents=np.ones(2))
        np.testing.assert_allclose(second, [6, 12])

    def test_wrong_names(self):
        f = moxie.formula(TWO)
        for wrong in (lambda: f.jvp("q"), lambda: f.jvp("y", wrt="q"), lambda: f.jacobian("y", mode="sideways"),
                      lambda: f.jvp("y", wrt=["x", "w"])(**two(), tangents={"x": np.ones((4, 3))}),
                      lambda: f.jvp("y", wrt="w")(**two(), tangents={"q": np.ones(3)})):
            with self.assertRaises(moxie.InputError):
                wrong()


class SecondDerivatives(unittest.TestCase):
    def test_products_with_the_hessian_are_changes_of_the_gradient(self):
        f, arrays = moxie.formula(TWO), two()
        direction = {"x": np.cos(arrays["x"]), "w": np.array([1.0, 2, -1])}
        gradients, products = f.hvp("z", wrt=["x", "w"])(**arrays, tangents=direction)
        above, below = (f.grad("z", wrt=["x", "w"])(**{k: v + e * direction[k] for k, v in arrays.items()})[1] for e in (1e-6, -1e-6))
        _, expected = f.grad("z", wrt=["x", "w"])(**arrays)
        for name in ("x", "w"):
            np.testing.assert_allclose(gradients[name], expected[name], rtol=1e-12)
            np.testing.assert_allclose(products[name], (above[name] - below[name]) / 2e-6, rtol=1e-5)

    def test_cotangents_weight_the_outputs(self):
        f = moxie.formula("dim N\nindex n:N\ninput x[N]\noutput y[n] = x[n]^3\n")
        x = np.array([1.0, 2])
        slope, product = f.hvp("y", wrt="x")(x, tangents=np.ones(2), cotangents=np.array([1.0, 10]))
        np.testing.assert_allclose(slope, [3, 120])
        np.testing.assert_allclose(product, [6, 120])


class Jacobians(unittest.TestCase):
    def test_both_modes_are_differences(self):
        f, arrays = moxie.formula(TWO), two()
        for mode in ("auto", "forward", "reverse"):
            values, J = f.jacobian(mode=mode)(**arrays)
            self.assertEqual(J["y", "x"].shape, (4, 4, 3))
            np.testing.assert_allclose(J["y", "w"], values.y[:, None] * arrays["x"], rtol=1e-12)
            expected = np.einsum("s,st,n->stn", values.y, np.eye(4), arrays["w"])
            np.testing.assert_allclose(J["y", "x"], expected, rtol=1e-12)
            np.testing.assert_allclose(J["z", "w"], 2 * values.y @ J["y", "w"], rtol=1e-12)

    def test_one_pair_is_one_array(self):
        f, arrays = moxie.formula(TWO), two()
        y, J = f.jacobian("y", wrt="w")(arrays["x"], arrays["w"])
        np.testing.assert_allclose(J, y.y[:, None] * arrays["x"], rtol=1e-12)
        self.assertIn("output jac.y.w[s,n]", f.jacobian("y", wrt="w", mode="forward").formula().text)

    def test_the_hessian_is_the_jacobian_of_the_gradient(self):
        f = moxie.formula("dim N\nindex n:N\ninput x[N]\noutput y = sum[n](x[n]^3)\n")
        gradient = f.differentiate("y", "x", keep_outputs=False)
        _, H = gradient.jacobian("grad.x", wrt="x")(**{"x": np.array([1.0, 2]), "cot.y": np.array(1.0)})
        np.testing.assert_allclose(H, np.diag([6, 12]))


if __name__ == "__main__":
    unittest.main()

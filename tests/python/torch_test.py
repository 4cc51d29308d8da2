"""Formulas under torch.autograd."""
import copy
import io
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

import bumps
import moxie
import moxie.torch
import numpy as np
import torch


def tensors(dtype=torch.float64, **requires_grad):
    return {name: torch.tensor(value, dtype=dtype, requires_grad=requires_grad.get(name, False))
            for name, value in bumps.inputs().items()}


def reference(x, w, c):
    return torch.exp(-(x[:, None] - c[None, :]) ** 2) @ w


class Bridge(unittest.TestCase):
    def setUp(self):
        self.formula = moxie.formula(bumps.TEXT)
        self.layer = moxie.torch.Function(self.formula)

    def test_values_are_tensors(self):
        for dtype in (torch.float32, torch.float64):
            given = tensors(dtype)
            for y in (self.layer(**given), self.formula(**given)):
                self.assertEqual(y.dtype, dtype)
                torch.testing.assert_close(y, reference(**given))

    def test_gradients_of_first_and_second_order(self):
        given = tensors(x=True, w=True, c=True)
        for function in (lambda *v: self.layer(*v), lambda *v: self.formula(*v)):
            self.assertTrue(torch.autograd.gradcheck(function, tuple(given.values())))
            self.assertTrue(torch.autograd.gradgradcheck(function, tuple(given.values())))

    def test_forward_mode(self):
        x, w, c = tensors().values()
        x2, change = torch.stack([x, x + 1]), torch.linspace(-1, 2, len(w), dtype=w.dtype)

        def derivatives(function):
            def loss(x, w, c):
                return (function(x, w, c) ** 2).sum()

            def along(x):
                return torch.func.jvp(lambda w: function(x, w, c), (w,), (change,))

            with torch.autograd.forward_ad.dual_level():
                dual = function(x, torch.autograd.forward_ad.make_dual(w, change), c)
                numbers = torch.autograd.forward_ad.unpack_dual(dual)
            return [*numbers, *along(x), *torch.vmap(along)(x2), torch.func.grad(lambda x: along(x)[1].sum())(x),
                    *torch.func.jacfwd(function, argnums=(0, 1, 2))(x, w, c),
                    torch.func.jacfwd(torch.func.jacfwd(loss))(x, w, c),
                    torch.vmap(torch.func.hessian(loss, argnums=1), in_dims=(0, None, None))(x2, w, c),
                    torch.func.linearize(lambda w: function(x, w, c), torch.zeros_like(w))[1](change)]

        for ours, theirs in zip(derivatives(lambda x, w, c: self.layer(x, w, c)), derivatives(reference), strict=True):
            torch.testing.assert_close(ours, theirs)

    def test_forward_mode_beside_integers(self):
        f = moxie.torch.Function(moxie.formula(
            "dim N\nindex n:N\ninput x[N], at[N]: i32\noutput best: i32 = argmax[n](x[n])\noutput y[n] = x[at[n]]^2\n"))
        x, at = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([2, 2, 0], dtype=torch.int32)
        y, change = torch.func.jvp(lambda x: f(x, at).y, (x,), (torch.ones(3),))
        torch.testing.assert_close(change, 2 * x[at.long()])

    def test_only_what_is_needed_is_differentiated(self):
        given = tensors(w=True)
        self.layer(**given).sum().backward()
        torch.testing.assert_close(given["w"].grad, torch.autograd.grad(reference(**given).sum(), given["w"])[0])
        self.assertIsNone(given["x"].grad)
        with torch.no_grad():
            self.assertFalse(self.formula(**given).requires_grad)

    def test_several_outputs_and_numbers(self):
        f = moxie.formula("dim N\nindex n:N\ninput x[N], a\noutput y[n] = a*x[n]^2\noutput z = sum[n](x[n])\n")
        x = torch.ones(3, dtype=torch.float64, requires_grad=True)
        result = moxie.torch.Function(f)(x, 2.0)
        self.assertEqual(result._fields, ("y", "z"))
        (slope,) = torch.autograd.grad(result.y.sum(), x)
        torch.testing.assert_close(slope, 4 * torch.ones(3, dtype=torch.float64))

    def test_random_numbers_stay_in_the_backward_pass(self):
        f = moxie.formula("dim N\nindex n:N\ninput x[N]\noutput y[n] = x[n]*randn(1)\n")
        x = torch.ones(4, dtype=torch.float64, requires_grad=True)
        y = moxie.torch.Function(f)(x)
        y.sum().backward()
        torch.testing.assert_close(x.grad, y.detach())

    def test_compiled_graphs_hold_it_as_one_operator(self):
        for dynamic in (False, True):
            compiled = torch.compile(lambda x, w, c: 2 * self.layer(x=x.exp(), w=w, c=c), fullgraph=True, backend="aot_eager",
                                     dynamic=dynamic)
            ours, theirs = tensors(x=True, w=True, c=True), tensors(x=True, w=True, c=True)
            compiled(**ours).sum().backward()
            (2 * reference(theirs["x"].exp(), theirs["w"], theirs["c"])).sum().backward()
            for name in ours:
                torch.testing.assert_close(ours[name].grad, theirs[name].grad)

    def test_batches_by_vmap(self):
        given = tensors()
        x, c = torch.stack([given["x"], given["x"] + 1]), torch.stack([given["c"], 2 * given["c"]], dim=1)

        def slopes(function):
            per_sample = torch.vmap(torch.func.grad(lambda x, w, c: (function(x, w, c) ** 2).sum(), argnums=(0, 1)), in_dims=(0, None, 1))
            batch = torch.vmap(lambda x, w, c: function(x, w, c), in_dims=(0, None, 1))
            with torch.no_grad():
                values = batch(x, given["w"], c)
            compiled = torch.compile(batch, fullgraph=True, backend="aot_eager")
            return [*per_sample(x, given["w"], c), values, compiled(x, given["w"], c)]

        for ours, theirs in zip(slopes(self.layer), slopes(reference)):
            torch.testing.assert_close(ours, theirs)

    def test_copies_are_functions_of_their_own(self):
        given = tensors()
        for other in (copy.deepcopy(self.layer), pickle.loads(pickle.dumps(self.layer))):
            self.assertIsNot(other.formula, self.layer.formula)
            compiled = torch.compile(lambda x, w, c, f=other: f(x=x, w=w, c=c), fullgraph=True, backend="aot_eager")
            torch.testing.assert_close(compiled(**given), reference(**given))

    def test_graphs_of_another_process_have_their_own_formulas(self):
        script = """if True:
            import sys, torch, moxie, moxie.torch

            def layer(value):
                return moxie.torch.Function(moxie.formula(f"dim S dynamic\\nindex s:S\\ninput x[S], w\\noutput y[s] = {value}\\n"))

            square, cube = layer("w*x[s]^2"), layer("w*x[s]^3")

            def slope(function, count):
                torch._dynamo.reset()
                x = torch.ones(count, requires_grad=True)
                torch.compile(lambda x, w: function(x=x, w=w), backend="inductor")(x, torch.tensor(2.0)).sum().backward()
                return x.grad.tolist()

            if sys.argv[1] == "again":
                assert slope(cube, 5) == [6.0] * 5
            assert slope(square, 3) == [4.0] * 3
        """
        with tempfile.TemporaryDirectory() as folder:
            paths = os.pathsep.join(path for path in sys.path if path)
            environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder, "PYTHONPATH": paths}
            for turn in ("first", "again"):
                subprocess.run([sys.executable, "-c", script, turn], env=environment, check=True)

    def test_exported_graphs_hold_the_formula_and_dynamic_dims(self):
        layer = self.layer

        class Model(torch.nn.Module):
            def forward(self, x, w, c):
                return layer(x=x, w=w, c=c)

        given = tensors()
        rows = torch.export.Dim("rows", min=2)
        exported = torch.export.export(Model(), tuple(given.values()), dynamic_shapes=({0: rows}, None, None))
        file = io.BytesIO()
        torch.export.save(exported, file)
        file.seek(0)
        longer = torch.linspace(-1, 1, 11, dtype=torch.float64)
        torch.testing.assert_close(torch.export.load(file).module()(longer, given["w"], given["c"]),
                                   reference(longer, given["w"], given["c"]))
        self.assertIs(moxie.torch._read(layer._spelling), moxie.torch._read(layer._spelling))
        torch.testing.assert_close(moxie.torch._read(layer._spelling)(**given), reference(**given))

    def test_extents_of_dynamic_dims_do_not_compile_again(self):
        given, compilations = tensors(), []

        def counting(graph, _):
            compilations.append(graph)
            return graph.forward

        compiled = torch.compile(lambda x, w, c: self.layer(x=x, w=w, c=c), fullgraph=True, backend=counting)
        for count in range(2, 14):
            x = torch.linspace(-1, 1, count, dtype=torch.float64)
            torch.testing.assert_close(compiled(x, given["w"], given["c"]), reference(x, given["w"], given["c"]))
        self.assertLessEqual(len(compilations), 2)

    def test_autocast(self):
        given = tensors(torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(**{**given, "w": given["w"].bfloat16()})
        torch.testing.assert_close(y, reference(given["x"], given["w"].bfloat16().float(), given["c"]))

    def test_the_operator_follows_the_rules_of_torch(self):
        values = list(tensors(w=True).values())
        torch.library.opcheck(torch.ops.moxie.evaluate, (values, self.layer._spelling, 0, 0))

    def test_a_module_trains(self):
        layer = self.layer

        class Bumps(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.full((5,), 0.1))
                self.c = torch.nn.Parameter(torch.linspace(-2, 2, 5))

            def forward(self, x):
                return layer(x=x, w=self.w, c=self.c)

        torch.manual_seed(0)
        module, x = Bumps(), torch.linspace(-2, 2, 64)
        target, losses = torch.sin(2 * x), []
        optimiser = torch.optim.Adam(module.parameters(), lr=0.05)
        for _ in range(200):
            optimiser.zero_grad()
            loss = ((module(x) - target) ** 2).mean()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.05 * losses[0])

    def test_results_share_no_memory_with_inputs(self):
        f = moxie.formula("dim N\nindex n:N\ninput x[N]\noutput y[n] = x[n]\n")
        x = torch.ones(3)
        y = f(x=x)
        x.add_(1)
        self.assertEqual(y.tolist(), [1, 1, 1])

    def test_errors(self):
        given = tensors()
        with self.assertRaisesRegex(moxie.DtypeError, "found torch.float16"):
            self.layer(**{**given, "x": given["x"].half()})
        with self.assertRaisesRegex(moxie.DeviceError, "lies on meta"):
            self.layer(**{**given, "x": given["x"].to("meta")})
        with self.assertRaisesRegex(moxie.InputError, "to_dense"):
            self.layer(**{**given, "w": given["w"].to_sparse()})


if __name__ == "__main__":
    unittest.main()

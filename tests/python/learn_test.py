"""Networks as estimators."""
import os
import pickle
import signal
import tempfile
import threading
import unittest
import unittest.mock

import moxie
import numpy as np
from moxie import learn


def rows(count=200):
    random = np.random.default_rng(5)
    X = random.normal(size=(count, 2))
    return X, X[:, 0] * X[:, 1] + 0.05 * random.normal(size=count)


SETTINGS = {"layers": [6], "epochs": 30, "seed": 3}


class Estimators(unittest.TestCase):
    def test_a_regressor_predicts_means_and_deviations(self):
        X, y = rows()
        model = moxie.train("gpn", X, y, **SETTINGS)
        self.assertIsInstance(model, learn.Regressor)
        mean, deviation = model.predict(X, return_std=True)
        self.assertEqual((mean.shape, deviation.shape), ((200,), (200,)))
        self.assertTrue((deviation > 0).all())
        np.testing.assert_array_equal(model.predict(X), mean)
        residual = ((y - mean) ** 2).mean() / y.var()
        self.assertAlmostEqual(model.score(X, y), 1 - residual, places=10)
        # Kernels of another number of rows may round otherwise.
        np.testing.assert_allclose(model.predict(X[:3]), mean[:3], rtol=0, atol=1e-4 * y.std())
        self.assertIn("epoch", model.log_)

    def test_several_targets(self):
        X, y = rows(60)
        model = moxie.train("gpn", X, np.stack([y, 2 * y], axis=1), **{**SETTINGS, "epochs": 2})
        self.assertEqual(model.predict(X).shape, (60, 2))
        self.assertIsInstance(model.score(X, np.stack([y, 2 * y], axis=1)), float)

    def test_a_classifier_keeps_the_names_of_classes(self):
        X, y = rows()
        for names in (np.array(["under", "over"]), np.array([10, 2]), np.array([False, True])):
            classes = names[(X[:, 0] > 0).astype(int)]
            model = moxie.train("mlp", X, classes, batch=32, **SETTINGS)
            self.assertEqual(model.classes_.tolist(), sorted(names.tolist()))
            probability = model.predict_proba(X)
            np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-6)
            self.assertGreater(model.score(X, classes), 0.9)

    def test_columns_of_probabilities_are_in_the_order_of_classes(self):
        random = np.random.default_rng(1)
        classes = np.arange(600) % 12
        X = np.eye(12)[classes] + 0.01 * random.normal(size=(600, 12))
        model = moxie.train("mlp", X, classes, layers=[20], epochs=40, batch=32)
        self.assertGreater(model.score(X, classes), 0.95)

    def test_a_model_of_ones_own_is_a_file_or_a_text(self):
        X, y = rows(60)
        text = ("dim S dynamic, I\nindex s:S, i:I\ninput x[S,I], target[S]\nparameter w[I] init zeros, b init zeros\n"
                "predict mean[s] = sum[i](w[i]*x[s,i]) + b\nloss error = sum[s]((target[s] - mean[s])^2)/S\n")
        model = moxie.train(text, X, X[:, 0] + 2, epochs=60, rate=0.1, random_state=1)
        self.assertGreater(model.score(X, X[:, 0] + 2), 0.9)
        self.assertEqual(model.score(X, y[:, None]), model.score(X, y))
        with self.assertRaisesRegex(moxie.ShapeError, r"y has the shape \[60, 2\], but predictions have \[60\]"):
            model.score(X, np.stack([y, y], axis=1))

    def test_classes_have_weights_by_their_names(self):
        X, _ = rows(200)
        y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
        y[::3] = "yes"  # the classes overlap
        shares = []
        for weights in (None, {"no": 5}, "no=5", "balanced"):
            model = moxie.train("mlp", X, y, class_weight=weights, **SETTINGS)
            shares.append((model.predict(X) == "no").mean())
        self.assertGreater(shares[1], shares[0])
        self.assertEqual(shares[1], shares[2])
        with self.assertRaisesRegex(moxie.InputError, "there is no class maybe; there are: no, yes"):
            moxie.train("mlp", X, y, class_weight={"maybe": 2}, **SETTINGS)

    def test_columns_have_the_names_that_were_trained_with(self):
        class Table(np.ndarray):  # as pandas' tables are: an array with names
            columns = ("a", "b")

        X, y = rows(60)
        model = moxie.train("mlp", X.view(Table), y, **{**SETTINGS, "epochs": 1})
        self.assertEqual(list(model.feature_names_in_), ["a", "b"])
        model.predict(X.view(Table))
        model.predict(X)
        other = X.view(Table)
        other.columns = ("b", "a")
        with self.assertRaisesRegex(moxie.ShapeError, "X has the columns b, a; trained with, in this order: a, b"):
            model.predict(other)

    def test_a_command_may_say_much(self):
        X, y = rows(60)
        with tempfile.TemporaryDirectory() as cache, unittest.mock.patch.dict(
                os.environ, MOXIE_LOG="runtime:debug,cache:debug,codegen:debug", MOXIE_CACHE_DIR=cache):
            moxie.train("gpn", X, y, **{**SETTINGS, "epochs": 1})

    def test_fitted_models_are_pickled(self):
        X, y = rows(60)
        model = moxie.train("gpn", X, y, **{**SETTINGS, "epochs": 2})
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))

    def test_parameters(self):
        model = learn.Regressor("gpn", layers=[4], rate=0.1)
        self.assertEqual(model.get_params(), {"model": "gpn", "verbose": False, "layers": [4], "rate": 0.1})
        self.assertEqual(model.set_params(rate=0.2, epochs=3).get_params()["epochs"], 3)
        self.assertEqual(repr(model), "Regressor(model='gpn', layers=[4], rate=0.2, epochs=3)")

    def test_ctrl_c_ends_training_in_order_and_keeps_the_best_network(self):
        X, y = rows()
        model = learn.Regressor("gpn", layers=[6], epochs=10**6, patience=10**6)
        started = threading.Event()
        model._listener = lambda log: lambda line: line.startswith("epoch") and started.set()

        def interrupt():
            started.wait(60)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with self.assertRaises(KeyboardInterrupt):
            model.fit(X, y)
        self.assertEqual(model.predict(X).shape, (200,))

    def test_errors(self):
        X, y = rows(40)
        with self.assertRaisesRegex(moxie.InputError, "--layer_sizes|--layer-sizes"):
            moxie.train("gpn", X, y, layer_sizes=[3])
        with self.assertRaisesRegex(moxie.InputError, "svm"):
            moxie.train("svm", X, y, layers=[3])
        with self.assertRaisesRegex(moxie.ShapeError, "X has 40 rows, but y has 39"):
            moxie.train("gpn", X, y[:39], layers=[3])
        with self.assertRaisesRegex(moxie.ShapeError, r"X.reshape\(-1, 1\)"):
            moxie.train("gpn", y, y, layers=[3])
        with self.assertRaisesRegex(moxie.InputError, "expected numbers"):
            moxie.train("gpn", [["a"], ["b"]], y[:2], layers=[3])
        with self.assertRaisesRegex(moxie.ShapeError, "two classes"):
            moxie.train("gpn", X, np.zeros(40, int), layers=[3])
        with self.assertRaisesRegex(moxie.InputError, "expected task"):
            moxie.train("gpn", X, y, task="rank")
        for estimator in (learn.Regressor(), learn.Classifier("mlp")):
            with self.assertRaisesRegex(Exception, "call fit first"):
                estimator.predict(X)
        with self.assertRaisesRegex(moxie.InputError, "X.real"):
            moxie.train("gpn", X + 1j, y, layers=[3])
        with self.assertRaisesRegex(moxie.InputError, "expected classes"):
            learn.Classifier("mlp").fit(X, y)
        model = moxie.train("gpn", X, y, **{**SETTINGS, "epochs": 1})
        with self.assertRaisesRegex(moxie.ShapeError, "X has 1 columns, but 2 were trained with"):
            model.predict(X[:, :1])


class ScikitLearn(unittest.TestCase):
    def setUp(self):
        try:
            import sklearn  # noqa: F401
        except ImportError:
            self.skipTest("scikit-learn is not installed")

    def test_pipelines_and_grid_searches(self):
        from sklearn.model_selection import GridSearchCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        X, y = rows(120)
        pipeline = make_pipeline(StandardScaler(), learn.Regressor("mlp", layers=[8], epochs=40, batch=16, lowest_rate=1e-9))
        search = GridSearchCV(pipeline, {"regressor__rate": [0.05, 1e-6]}, cv=2).fit(X, y)
        self.assertEqual(search.best_params_, {"regressor__rate": 0.05})
        self.assertEqual(search.predict(X).shape, (120,))


if __name__ == "__main__":
    unittest.main()

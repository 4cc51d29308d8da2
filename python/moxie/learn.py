"""Networks of moxie as estimators with the conventions of scikit-learn.

    model = moxie.train("gpn", X, y, layers=[30, 15])
    mean, deviation = model.predict(X2, return_std=True)

`Regressor` and `Classifier` have fit, predict, predict_proba, score, get_params and set_params, and work in a Pipeline and
in GridSearchCV where scikit-learn is installed. They train by the program `moxie` inside the package: options are those of
`moxie train` with underscores (lowest_rate=1e-6), which `moxie train --help` describes. Ctrl-C ends training after the
step; the estimator then has the best network so far.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
from typing import Any, Callable

import numpy as np

from . import _program
from .errors import InputError, ShapeError, TrainingError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
except ImportError:

    class BaseEstimator:  # type: ignore[no-redef]
        """What estimators need of scikit-learn where it is not installed."""

    class ClassifierMixin:  # type: ignore[no-redef]
        """Nothing beyond BaseEstimator."""

    class RegressorMixin:  # type: ignore[no-redef]
        """Nothing beyond BaseEstimator."""


__all__ = ["Classifier", "Regressor", "train"]

# Rows that the program tests with: it wants some, but whoever calls fit keeps test rows elsewhere.
_TEST_ROWS = 16
# What scikit-learn calls an option.
_ALIASES = {"random_state": "seed"}


def train(model: str, X: Any, y: Any, *, task: str | None = None, **options: Any) -> Regressor | Classifier:
    """A fitted Regressor or Classifier.

    model    "gpn" (Gaussian process neurons), "probact", "mlp", a file of a model of your own, or its text
    X        an array [rows, columns] of numbers; NaN is a missing value
    y        targets [rows], for regression also [rows, targets]
    task     "regress" or "classify"; None: floats are values, whole numbers, booleans and texts are classes
    options  of the estimator and of `moxie train`
    """
    if task not in (None, "regress", "classify"):
        raise InputError(f"expected task 'regress' or 'classify', found {task!r}")
    chosen = task or ("regress" if np.asarray(y).dtype.kind == "f" else "classify")
    return (Regressor if chosen == "regress" else Classifier)(model, **options).fit(X, y)


class _Network(BaseEstimator):
    """What both kinds of estimators share. Parameters beyond those of the constructor are options of `moxie train`."""

    _task = ""

    def __init__(self, model: str = "gpn", verbose: bool = False, **options: Any):
        self.model = model
        self.verbose = verbose
        self._options = dict(options)
        for name, value in options.items():
            setattr(self, name, value)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The model and all options that were given."""
        return {"model": self.model, "verbose": self.verbose} | {name: getattr(self, name) for name in self._options}

    def set_params(self, **params: Any):
        """Changes options; new ones may be added."""
        for name, value in params.items():
            setattr(self, name, value)
            if name not in ("model", "verbose"):
                self._options[name] = value
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items() if name != "verbose" or value)
        return f"{type(self).__name__}({settings})"[:N_CHAR_MAX]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    # ---- Training ----

    def _train(self, table: Any, targets: np.ndarray) -> None:
        X, names = _rows(table), _column_names(table)
        if len(X) != len(targets):
            raise ShapeError(f"X has {len(X)} rows, but y has {len(targets)}")
        if len(X) < 2:
            raise ShapeError(f"expected at least 2 rows to train with, found {len(X)}")
        with tempfile.TemporaryDirectory(prefix="moxie-") as folder:
            work = pathlib.Path(folder)
            np.savez(work / "rows.npz", x=X, y=targets)
            np.savez(work / "test.npz", x=X[:_TEST_ROWS], y=targets[:_TEST_ROWS])
            arguments = ["train", self._model_in(work), f"--data=npz:{work / 'rows.npz'}", f"--test-file={work / 'test.npz'}",
                         f"--task={self._task}", f"--out={work / 'run'}"]
            log: list[str] = []
            try:
                _program.run([*arguments, *self._arguments()], TrainingError, self._listener(log))
            finally:  # after Ctrl-C, too
                trained = work / "run" / "model.safetensors"
                if trained.exists():
                    self.network_ = trained.read_bytes()
                    self.log_ = "\n".join(log)
                    self.n_features_in_ = X.shape[1]
                    self.__dict__.pop("feature_names_in_", None)
                    if names is not None:
                        self.feature_names_in_ = names

    def _model_in(self, folder: pathlib.Path) -> str:
        """The model's name or file. A text, which has lines, becomes a file in the folder."""
        model = str(self.model)
        if "\n" not in model:
            return model
        (folder / "model.mox").write_text(model, encoding="utf-8")
        return str(folder / "model.mox")

    def _option(self, name: str) -> Any:
        """The value of an option, as the program wants it."""
        return getattr(self, name)

    def _arguments(self) -> list[str]:
        arguments = []
        for name in self._options:
            value, option = self._option(name), _ALIASES.get(name, name).replace("_", "-")
            if value is None:
                continue
            if isinstance(value, (bool, np.bool_)):
                arguments.append(f"--{option}" if value else f"--no-{option}")
            elif isinstance(value, (list, tuple, np.ndarray)):
                arguments.append(f"--{option}={','.join(map(str, value))}")
            else:
                arguments.append(f"--{option}={value}")
        return arguments

    def _listener(self, log: list[str]) -> Callable[[str], None]:
        def listen(line: str) -> None:
            log.append(line)
            if self.verbose:
                print(line, file=sys.stderr)

        return listen

    # ---- Prediction ----

    def _predict(self, X: Any) -> dict[str, np.ndarray]:
        """What `moxie predict` writes."""
        if not hasattr(self, "network_"):
            raise _not_fitted(f"this {type(self).__name__} is not fitted yet; call fit first")
        rows = _rows(X)
        if rows.shape[1] != self.n_features_in_:
            raise ShapeError(f"X has {rows.shape[1]} columns, but {self.n_features_in_} were trained with")
        names, known = _column_names(X), getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and (names != known).any():
            raise ShapeError(f"X has the columns {', '.join(names)}; trained with, in this order: {', '.join(known)}")
        with tempfile.TemporaryDirectory(prefix="moxie-") as folder:
            work = pathlib.Path(folder)
            (work / "model.safetensors").write_bytes(self.network_)
            np.savez(work / "rows.npz", x=rows)
            arguments = ["predict", str(work), f"--data=npz:{work / 'rows.npz'}", f"--out={work / 'out.npz'}"]
            arguments += [f"--{name}={getattr(self, name)}" for name in ("device", "threads") if name in self._options]
            _program.run(arguments, TrainingError)
            with np.load(work / "out.npz") as written:
                return dict(written)


def _rows(X: Any) -> np.ndarray:
    if np.iscomplexobj(X):
        raise InputError("X: expected real numbers, found complex ones; give X.real and X.imag as columns")
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"X: expected numbers: {error}; encode categories first, or train from a table with `moxie train`") from None
    if rows.ndim == 1:
        raise ShapeError("X: expected [rows, columns], found one axis; X.reshape(-1, 1) makes one column of it")
    return rows.reshape(len(rows), -1)


def _column_names(X: Any) -> np.ndarray | None:
    """Of a table such as pandas', where all of them are texts."""
    names = list(getattr(X, "columns", []))
    return np.asarray(names, dtype=object) if names and all(isinstance(name, str) for name in names) else None


def _not_fitted(message: str) -> Exception:
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return TrainingError(message)
    return NotFittedError(message)


class Regressor(RegressorMixin, _Network):
    """Predicts values, with their standard deviations where the model has them."""

    _task = "regress"

    def fit(self, X: Any, y: Any) -> Regressor:
        """Trains on all rows, of which the option validation_share decides about learning rates and the best epoch."""
        targets = _values(y)
        self._has_one_target = targets.ndim == 1
        self._train(X, targets)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean [rows] or [rows, targets] as y was given; with `return_std` also the predictive standard deviation."""
        predicted = self._predict(X)
        if return_std and "variance" not in predicted:
            raise InputError(f"model {self.model} predicts no variances: leave out return_std")
        shape = (lambda values: values[:, 0]) if self._has_one_target else (lambda values: values)
        mean = shape(predicted["mean"])
        return (mean, np.sqrt(shape(predicted["variance"]))) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, the mean of all targets."""
        predicted, targets = self.predict(X), _values(y)
        if predicted.ndim == 1 and targets.ndim == 2 and targets.shape[1] == 1:
            targets = targets[:, 0]
        if predicted.shape != targets.shape:
            raise ShapeError(f"y has the shape {list(targets.shape)}, but predictions have {list(predicted.shape)}")
        weights = np.ones(len(targets)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        residual = np.average((targets - predicted) ** 2, axis=0, weights=weights)
        mean = np.average(targets, axis=0, weights=weights)
        return float(np.mean(1 - residual / np.average((targets - mean) ** 2, axis=0, weights=weights)))


def _values(y: Any) -> np.ndarray:
    if np.iscomplexobj(y):
        raise InputError("y: expected real numbers, found complex ones")
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"y: expected numbers: {error}; Classifier predicts classes") from None


def _labels(y: Any) -> np.ndarray:
    """One class for each row."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ShapeError(f"y: expected one class for each row, found the shape {list(labels.shape)}")
    if labels.dtype.kind == "c" or labels.dtype.kind == "f" and not (labels == np.floor(labels)).all():
        raise InputError("y: expected classes, which are whole numbers, booleans or texts, found other numbers; Regressor predicts those")
    return labels


class Classifier(ClassifierMixin, _Network):
    """Predicts classes and their probabilities."""

    _task = "classify"

    def fit(self, X: Any, y: Any) -> Classifier:
        """Trains on all rows, of which the option validation_share decides about learning rates and the best epoch."""
        self.classes_, numbers = np.unique(_labels(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ShapeError("y: expected at least two classes, found one")
        # The program sorts classes as texts: numbers of as many digits stay in order.
        self._train(X, self._first_number() + numbers.reshape(-1).astype(np.float64))
        return self

    def _first_number(self) -> int:
        return 10 ** len(str(len(self.classes_)))

    def _option(self, name: str) -> Any:
        """Weights of classes by the numbers that the program knows, given by name as a dict or a text."""
        value = getattr(self, name)
        if name != "class_weight" or value is None or value == "balanced":
            return value
        pairs = value.items() if isinstance(value, dict) else [part.rpartition("=")[::2] for part in value.split(",")]
        numbers = {str(label): self._first_number() + k for k, label in enumerate(self.classes_)}
        unknown = [str(label) for label, _ in pairs if str(label) not in numbers]
        if unknown:
            raise InputError(f"class_weight: there is no class {unknown[0]}; there are: {', '.join(numbers)}")
        return [f"{numbers[str(label)]}={weight}" for label, weight in pairs]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class [rows, classes], in the order of `classes_`."""
        return self._predict(X)["probability"]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class [rows]."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The fraction of rows that are classified correctly."""
        return float(np.average(self.predict(X) == _labels(y), weights=sample_weight))

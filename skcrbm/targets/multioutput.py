"""Handle a y with several outputs, each with its own classes (multiclass-multioutput)."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, log_expit

from skcrbm.targets.codes import (
    MISSING,
    UNKNOWN,
    TextOfMissingError,
    codes_of,
    find_classes,
    label_list,
    warn_of_new_label,
)
from skcrbm.targets.frames import label_frame
from skcrbm.targets.indicator import (
    indicator_with_nan,
    require_observed,
    with_dimensions,
    without_known,
)
from skcrbm.targets.kinds import Targets, make_targets
from skcrbm.targets.names import in_rows_of, is_frame, label_names_of
from skcrbm.targets.scored import share_of_right_rows
from skcrbm.targets.weights import weight_beside
from skcrbm.utils.advice import supporting
from skcrbm.utils.categorical import OutputUnits
from skcrbm.utils.validation import count_rows, hold_dates


def is_matrix(y: Any) -> bool:
    """Return True if y is a dense matrix with two or more columns, and does not contain dates."""
    if y is None or sparse.issparse(y):
        return False
    try:
        shape = y.shape if is_frame(y) else _as_array(y, "y").shape
    except ValueError:
        return False
    return len(shape) == 2 and shape[1] > 1 and shape[0] > 0 and not hold_dates(y)


def _columns_of_classes(y):
    """Return the distinct classes of each column of y, or None if y seems to hold something else.

    y must have two or more columns with something other than 0, 1 and NaN. Classes are strings,
    integers or other objects. Fractions, infinities and dates are no classes.
    """
    if not is_matrix(y):
        return None
    try:
        indicator_with_nan(y)
    except ValueError:
        pass
    else:
        return None
    try:
        columns = [
            [value for value in column if value is not None] for column in class_columns(y, "y")
        ]
        for column in filter(None, columns):
            find_classes(column, given=True)
        return [set(column) for column in columns]
    except TextOfMissingError:
        raise
    except (TypeError, ValueError):
        return None


def _must_be_classes(y, columns):
    """Return True if `columns`, the classes of y, cannot be labels in another format.

    At least one column must have three or more classes. The result is False for lists of lists,
    because each list may hold the positive labels of a row. It is also False if y holds negative
    numbers, or a single number besides 0 and 1, because these numbers may be codes of missing
    labels.
    """
    if isinstance(y, (list, tuple)) or max(map(len, columns)) < 3:
        return False
    numbers = {value for value in set().union(*columns) if isinstance(value, Number)}
    coded = len(numbers) == 3 and numbers >= {0, 1}
    return not (coded or any(value < 0 for value in numbers))


def targets_of(
    y: Any,
    name: str,
    estimator: Any = None,
    *,
    classes: Any = None,
    kind: type[MultioutputTargets] | None = None,
    advice: str = "",
) -> Targets:
    """Return the `Targets` of any y; raise a ValueError with advice if y cannot be used.

    `name` is the name of the caller in messages, and `estimator` the calling estimator. `classes`
    are known classes, an argument of `partial_fit`. `kind` is the class of the targets of a y whose
    columns hold classes, or None if the caller does not take such a y; the message then ends with
    `advice`.
    """
    if kind is not None and _lists_classes(classes) and _has_two_dimensions(y):
        return kind(y, classes)
    try:
        return make_targets(y, classes, estimator)
    except ValueError as error:
        columns = _columns_of_classes(y)
        if columns is None:
            raise
        if kind is not None and _must_be_classes(y, columns):
            return kind(y, classes)
        values = set().union(*columns)
        if len(values) < 3:
            raise
        if kind is not None:
            raise ValueError(
                f"{error}. If each column of y holds the classes of an output, use "
                f"{supporting('any columns of classes')}, which takes any columns of classes, or "
                "pass an array or data frame of strings that has three or more classes in a "
                "column, and None for missing classes"
            ) from error
        numbers = all(isinstance(value, Number) for value in values)
        if isinstance(y, (list, tuple)) or numbers or max(map(len, columns)) < 3:
            # The values need not be classes: numbers may be codes of missing labels, two values may
            # stand for 0 and 1, and lists may hold the positive labels of the rows. So keep the
            # first error, which explains how to convert a y of these formats.
            message = f"{error}. If each column of y holds the classes of an output: {name} does "
            message += "not support such a y"
        else:
            message = f"{name} needs a 0/1 indicator matrix y (n_samples, n_outputs), but each "
            message += "column of y holds the classes of an output"
        advice = advice or f"use {supporting('columns of classes')} from skcrbm, which support it"
        raise ValueError(f"{message}; {advice}") from error


def _has_two_dimensions(y):
    """Return True if y has two dimensions; False for lists of different lengths, too."""
    try:
        return np.ndim(y) == 2
    except ValueError:  # NumPy makes no array of lists of different lengths
        return False


def _lists_classes(classes):
    """Return True if `classes` lists the classes of each column, and they are not just 0 and 1."""
    if not isinstance(classes, (list, tuple)) or len(classes) < 2:
        return False
    if not all(isinstance(part, (list, tuple, np.ndarray)) for part in classes):
        return False
    try:
        return any(len(part) != 2 or set(part) != {0, 1} for part in classes)
    except TypeError:  # unhashable items such as lists are neither classes nor 0 and 1
        return True


def wrapped_targets(y: Any, name: str, estimator: Any = None) -> Targets:
    """Return the `Targets` of a y for an estimator or function that takes another classifier."""
    support = supporting("columns of classes")
    advice = f"use {support} without {name}, because they support such a y"
    return targets_of(y, name, estimator, advice=advice)


def _as_array(y, name):
    """Return lists as an array of objects, because NumPy would turn numbers into strings."""
    if isinstance(y, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in y):
        lengths = {len(row) for row in y}
        if len(lengths) == 1:
            array = np.empty((len(y), *lengths), object)
            for i, row in enumerate(y):
                array[i] = row
            return array
    return with_dimensions(y, name)


class MultioutputTargets(Targets):
    """Targets of a 2-D y whose columns hold classes; a column may have any number of classes.

    The visible units are the L outputs. The code of an output is the index of its class among the
    sorted classes of its column, or NaN if the class is missing.
    """

    _saved = ("classes", "n_visible")
    multilabel = True
    indicator = False

    classes: Any  # list of L arrays with the sorted classes of each column

    def __init__(self, y: Any, classes: Any = None):
        self.names = label_names_of(y)
        columns = class_columns(y, "y")
        require_observed(np.array([v is not None for column in columns for v in column]))
        if classes is not None:
            columns = _listed_classes(classes, len(columns))
        self.n_visible = len(columns)
        self.classes = []
        names = range(len(columns)) if self.names is None else self.names
        for name, column in zip(names, columns):
            if all(value is None for value in column):
                raise ValueError(f"column {name} of y holds no observed class; drop the column")
            self.classes.append(find_classes(column, f"column {name} of y", classes is not None))

    @property
    def n_outputs(self) -> int:
        """Number of outputs L."""
        return len(self.classes)

    @property
    def n_classes(self) -> np.ndarray:
        """Number of classes of each output, (L,)."""
        return np.array([len(classes) for classes in self.classes])

    @property
    def n_bits(self) -> int:
        """Number n of bits such that there are at most 2^n vectors of classes."""
        return math.ceil(OutputUnits(self.n_classes).log2_vectors)

    def encode(self, y, dtype=np.float64, name="y"):
        """Return the codes (N, L) of the classes in y, with NaN for missing classes.

        The columns of a data frame are matched by name; outputs without a column become NaN.
        """
        return self.codes(y, dtype, name)

    def codes(self, y, dtype=np.float64, name="y"):
        """Return the codes (N, L) of the classes in y, with NaN for missing classes."""
        placed, n_rows = self._placed(y, name)
        codes = np.full((n_rows, self.n_outputs), np.nan, dtype)
        labels = self.output_names()
        for i, column in placed:
            found = codes_of(column, self.classes[i], f"column {labels[i]} of {name}")
            codes[:, i] = np.where(found == MISSING, np.nan, found)
        return codes

    def _placed(self, y, name):
        """Return pairs (index of the output, column of y), and the number of rows of y."""
        columns = class_columns(y, name)
        places: list[int] = list(range(len(columns)))
        if is_frame(y) and self.names is not None:
            place = {name: i for i, name in enumerate(self.names)}
            unknown = [column for column in y.columns if column not in place]
            if unknown:
                raise ValueError(
                    f"{name} has columns that are not outputs of this model: {unknown}. The "
                    f"outputs of the model are {self.names.tolist()}"
                )
            places = [place[column] for column in y.columns]
        elif len(columns) != self.n_outputs:
            raise ValueError(
                f"{name} must have shape (n_samples, {self.n_outputs}) as in the first fit, got "
                f"{len(columns)} columns"
            )
        return list(zip(places, columns)), len(columns[0]) if columns else 0

    def decode(self, visible):
        """Return the classes (..., L) for codes (..., L)."""
        return self.classes_at(visible)

    def states_of(self, codes):
        """Return the visible units for codes (..., L), which are the codes themselves."""
        return codes

    def classes_at(self, codes):
        """Return the classes (..., L) for codes (..., L)."""
        visible = np.asarray(codes)
        kinds = {classes.dtype.kind for classes in self.classes}
        alike = kinds <= set("biuf") or kinds <= {"U"}
        dtype = np.result_type(*self.classes) if alike else object
        found = np.empty(visible.shape, dtype)
        for i, classes in enumerate(self.classes):
            found[..., i] = classes[visible[..., i].astype(np.intp)]
        return found

    def for_classifier(self, y):
        """Return y unchanged."""
        return y

    def output_names(self):
        """Return the names (L,) of the columns, or their indices if y has no names."""
        return np.arange(self.n_outputs) if self.names is None else self.names

    def visible_names(self):
        """Return the names (L,) of the columns, or their indices if y has no names."""
        return self.output_names()

    def known_codes(self, known):
        """Return known units as codes (N, L), with NaN for unknown classes; None stays None."""
        return known

    def unit_weights(self, weight):
        """Return the weights of the visible units for weights (N, L) of the outputs."""
        return weight

    def framed(self, values, index, container="pandas"):
        """Return classes (N, L) as a data frame, or probabilities as a frame for each output."""
        if isinstance(values, list):
            return [
                label_frame(part, index, np.array(list(map(str, classes)), object), container)
                for part, classes in zip(values, self.classes)
            ]
        names = [str(name) for name in self.output_names()]
        if container == "polars":
            import polars as pl

            return pl.DataFrame({name: values[:, i].tolist() for i, name in enumerate(names)})
        frame = label_frame(values, index, self.names, container)
        return frame.infer_objects() if values.dtype == object else frame

    def check_known(self, y_known, X):
        """Return the codes (N, L) of the known classes, NaN if unknown; None if all are unknown."""
        if y_known is None:
            return None
        n_rows, y_known = count_rows(X), in_rows_of(y_known, X)
        known = self.encode(y_known, name="y_known")
        if len(known) != n_rows:
            raise ValueError(
                f"y_known must have shape {(n_rows, self.n_outputs)}, got {np.shape(y_known)}"
            )
        return known

    def check_classes(self, classes):
        """Raise a ValueError unless `classes` is None or equals the known classes."""
        if classes is None:
            return
        given = _listed_classes(classes, self.n_outputs)
        for name, own, column in zip(self.output_names(), self.classes, given):
            if not np.array_equal(
                find_classes(column, f"classes of output {name}", given=True), own
            ):
                raise ValueError(
                    f"classes of output {name} differ from the classes of the first call, "
                    f"{own.tolist()}"
                )

    def require_multilabel(self, method):
        """Raise a ValueError, because y holds no 0/1 labels."""
        raise ValueError(
            f"{method} is for a 0/1 indicator matrix; this model was fitted on a y whose columns "
            "hold classes"
        )

    def loss_factors(self, class_weight, visible, weight):
        """Return ones (N, 1); raise a ValueError if `class_weight` is not None."""
        if class_weight is not None:
            raise ValueError("class_weight is not supported if the columns of y hold classes")
        return np.ones((len(visible), 1))

    def accuracy(self, y, y_pred, sample_weight=None, known=None):
        """Return the share of the rows in which all observed outputs are predicted correctly."""
        placed, n_rows = self._placed(y, "y")
        predicted = dict(self._placed(y_pred, "y_pred")[0])
        right = np.full((n_rows, self.n_outputs), np.nan)
        for i, column in placed:  # a row with a class that the model does not know counts as wrong
            name = f"column {self.output_names()[i]} of y"
            codes = codes_of(column, self.classes[i], name, allow_unknown=True)
            if (codes == UNKNOWN).any():
                warn_of_new_label(column[int((codes == UNKNOWN).argmax())], name)
            found = codes_of(predicted[i], self.classes[i], "y_pred")
            right[:, i] = np.where(codes == MISSING, np.nan, codes == found)
        right = without_known(right, self.known_codes(known))
        every = np.where(np.isnan(right), np.nan, 1.0)
        weight = weight_beside(sample_weight, y, n_rows, self.names, self.n_outputs)
        return share_of_right_rows(every, np.nan_to_num(right), weight)

    def scores(self, model, rows):
        """Raise a ValueError, because an output of several classes has no single score."""
        raise ValueError(
            "decision_function is not available if the columns of y hold classes; use "
            "predict_log_proba"
        )

    def log_odds(self, model, rows):
        """Return the log-odds (N, L, K) of the classes, or (N, L) if all outputs are binary."""
        return model._label_log_odds(rows)

    def predict(self, model, rows):
        """Return the classes (N, L) that the model predicts by its decoding rule."""
        return self.decode(model._labels(rows))

    def labels(self, scores):
        """Return the classes (N, L) with the highest scores (N, L, K)."""
        return self.decode(scores.argmax(axis=2))

    def _by_output(self, log_odds, function):
        if log_odds.ndim == 2:
            log_odds = np.stack([-log_odds, log_odds], axis=2)
        return [function(log_odds[:, i, :k]) for i, k in enumerate(self.n_classes)]

    def proba(self, log_odds):
        """Return a list of the probabilities (N, K) of the classes of each output."""
        return self._by_output(log_odds, expit)

    def log_proba(self, log_odds):
        """Return a list of the log-probabilities (N, K) of the classes of each output."""
        return self._by_output(log_odds, log_expit)

    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """Raise a ValueError, because the outputs have several classes."""
        raise ValueError(f"{name} of a y whose columns hold classes has no marginals of labels")


class UnitTargets(MultioutputTargets):
    """Targets of a 2-D y whose columns hold classes, encoded as 0/1 units.

    An output of two classes has a single unit, which is 1 for the second class. An output of more
    classes has a unit for each class; see `OutputUnits`.
    """

    def __init__(self, y: Any, classes: Any = None):
        super().__init__(y, classes)
        self.units = OutputUnits(self.n_classes)
        self.n_visible = self.units.n_units
        if not self.n_visible:
            raise ValueError("y must have a column with two or more classes")

    @property
    def exclusive(self) -> np.ndarray:
        """Array (V,): True for the units of outputs with more than two classes."""
        return self.units.exclusive

    def encode(self, y, dtype=np.float64, name="y"):
        """Return 0/1 units (N, V), with NaN for the units of missing classes."""
        return self.units.units_of(self.codes(y, dtype, name))

    def decode(self, visible):
        """Return the classes (..., L) for units (..., V)."""
        return self.classes_at(self.units.codes_of(visible))

    def states_of(self, codes):
        """Return the units (..., V) for codes (..., L)."""
        return self.units.units_of(codes)

    def known_codes(self, known):
        """Return known units as codes (N, L), with NaN for unknown classes; None stays None."""
        return None if known is None else self.units.codes_of(known)

    def unit_weights(self, weight):
        """Return the weights (N, V) of the units for weights (N, L) of the outputs."""
        return weight[:, self.units.output]

    def visible_names(self):
        """Return the names (V,) of the units, such as "colour=red"."""
        names, units = self.output_names(), self.units
        code = units.place - units.first[units.output]
        pairs = zip(units.output.tolist(), code.tolist())
        return np.array([f"{names[i]}={self.classes[i].tolist()[k]}" for i, k in pairs], object)

    def _by_output(self, log_odds, function):
        found = []
        for i, size in enumerate(self.units.sizes.tolist()):
            own = log_odds[:, self.units.start[i] : self.units.start[i] + size]
            if size == 1:
                own = np.hstack([-own, own])
            elif size == 0:
                own = np.full((len(own), 1), np.inf)
            found.append(function(own))
        return found


def _listed_classes(classes, n_outputs):
    """Return `classes` of `partial_fit` as a list with the classes of each output."""
    wanted = f"classes must be a list of {n_outputs} arrays, the classes of each column of y"
    try:
        parts = [np.asarray(part, object) for part in classes]
    except TypeError as error:
        raise ValueError(f"{wanted}, or None; got {classes!r}") from error
    if len(parts) != n_outputs or not all(part.ndim and part.size for part in parts):
        raise ValueError(f"{wanted}, or None; got {classes!r}")
    return [part.ravel().tolist() for part in parts]


def class_columns(y: Any, name: str) -> list[list]:
    """Return the columns of a 2-D y as lists of classes, with None for missing classes."""
    if sparse.issparse(y):
        raise ValueError(f"{name} must be dense, because its columns hold classes")
    if is_frame(y):
        label_names_of(y, name)  # raises an error if two columns have the same name
        columns = [y[column] for column in y.columns]
    else:
        array = _as_array(y, name)
        if array.ndim != 2:
            raise ValueError(f"{name} must have two dimensions, got {array.ndim}")
        columns = list(array.T)
    return [label_list(column, f"column {i} of {name}", "row") for i, column in enumerate(columns)]

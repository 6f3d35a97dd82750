"""Code the labels of items: which labels are missing, which classes there are, and their indices.

Items are the positions of sequences, the nodes of graphs, the pixels of images, and the entries of
a column of y. The class of an item is coded by its index among the sorted classes. The file also
validates the classes of a 1-D y.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from decimal import Decimal
from itertools import pairwise, repeat
from numbers import Integral, Number
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from skcrbm.targets.indicator import with_dimensions
from skcrbm.targets.names import is_frame
from skcrbm.utils.warnings import warn_user

#: Code of a missing label.
MISSING = -1
#: Code of a label that is not among the classes of a model.
UNKNOWN = -2


# What NumPy and `str` write for missing values.
_TEXT_OF_MISSING = {"nan", "NaN", "None", "<NA>", "NaT"}
# Texts that often mark missing labels, in lower case and without spaces around them. NumPy cuts
# "nan" to "na" in an array of texts of two characters.
_MARKS_OF_MISSING = {"", "?", "na", "n/a", "nan", "nat", "none", "null", "<na>", "#n/a"}
# Numbers that often mark missing labels, or pixels that do not count.
_LARGE_CODES = {99, 255, 999, 9999, 32767, 65535}
_NEGATIVE_CODES = {-1, -9, -99, -100, -128, -255, -999, -1000, -9999, -32768, -(2**31), -(2**63)}


def is_missing(label: Any) -> bool:
    """Return True if a label is None, NaN, NaT or pandas' NA, which stand for missing labels."""
    if label is None or isinstance(label, (float, np.generic, Decimal)):
        return label is None or bool(label != label)
    return type(label).__name__ in ("NAType", "NaTType")


def label_array(values: Any, place: str = "y") -> np.ndarray:
    """Return labels as an array, after checking that no missing label has become text.

    `np.array(["A", np.nan])` holds the text "nan", which would be a class of its own. A ValueError,
    which refers to the labels as `place`, names the dtype that keeps missing labels. Lists become
    arrays of objects if they hold text.
    """
    array = np.asarray(values)
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
        array = np.asarray(values, object)
    refuse_text_of_missing(array, place)
    return array


def refuse_text_of_missing(labels: Any, place: str = "y") -> None:
    """Raise a ValueError if NumPy text in labels (an array or a list) stands for missing labels."""
    if isinstance(labels, np.ndarray):
        found = set(np.unique(labels).tolist()) if labels.dtype.kind in "US" else set()
    else:
        found = {label for label in labels if isinstance(label, (np.str_, np.bytes_))}
    texts = {text.decode() if isinstance(text, bytes) else str(text) for text in found}
    if written := sorted(texts & _TEXT_OF_MISSING):
        raise TextOfMissingError(
            f"{place} is an array of text with the label {written[0]!r}, which NumPy makes of "
            "missing values. Keep missing labels as None or NaN in an array of objects, as in "
            "np.array(labels, dtype=object)"
        )


class TextOfMissingError(ValueError):
    """Raised for an array of text in which NumPy has turned missing values into text."""


def label_list(labels: Any, place: str, part: str = "item") -> list:
    """Return the labels of the items of one row as a list, with None for missing labels.

    `labels` are a list, an array or series, or a table with a single column. A ValueError refers
    to the labels as `place`, and to an item as `part`.
    """
    if is_frame(labels) and labels.shape[1] == 1:
        labels = labels[labels.columns[0]]
    if isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    shape = getattr(labels, "shape", (0,))
    if len(shape) == 2:
        raise ValueError(
            f"{place} has the shape {tuple(shape)}, but should have one label for each {part}. If "
            "it has a column for each class (one-hot), use y.argmax(axis=1)"
        )
    unordered = isinstance(labels, (str, bytes, Mapping, Set))
    if unordered or len(shape) != 1 or not isinstance(labels, Iterable):
        raise ValueError(f"{place} should be a list of labels, got {labels!r}")
    if isinstance(labels, np.ndarray):
        refuse_text_of_missing(labels, place)
        labels = labels.tolist()
    else:
        labels = list(labels)
        refuse_text_of_missing(labels, place)
    kinds = set(map(type, labels))
    several = tuple(k for k in kinds if issubclass(k, (list, np.ndarray, Mapping, Set)))
    if several:
        found = next(label for label in labels if isinstance(label, several))
        raise ValueError(
            f"{place} holds {found!r}, but should have one label, a string or a "
            f"number, for each {part}. If labels are one-hot, use np.argmax(labels, axis=1)"
        )
    if kinds <= {str, int}:  # the common case, in which no label is missing
        return labels
    return [None if is_missing(label) else label for label in labels]


def warn_of_codes(classes: np.ndarray, name: str = "y") -> None:
    """Warn if classes that were found in labels are probably codes of missing labels.

    Such a class is a text like "nan", "none" or "", or a number like -1, -100 or 255 beside at
    least two other numbers, see `_codes_of_numbers`. Texts of numbers count as numbers.
    """
    found = []
    if classes.dtype.kind in "USO":
        texts = {label: _plain(label) for label in classes.tolist() if isinstance(label, _TEXTS)}
        found = [label for label, text in texts.items() if text in _MARKS_OF_MISSING]
        numbers = {label: _number(text) for label, text in texts.items() if label not in found}
        known = {label: number for label, number in numbers.items() if number is not None}
        if known and len(known) == len(numbers):
            codes = _codes_of_numbers(np.array(sorted(known.values())))
            found += [label for label, number in known.items() if number in codes]
        elif len(numbers) - len(known) >= 2:  # a number beside words
            found += [label for label, number in known.items() if number in _NEGATIVE_CODES]
    elif classes.dtype.kind in "iuf":
        codes = _codes_of_numbers(classes.astype(np.float64))
        found = [label for label in classes.tolist() if label in codes]
    if found:
        shown = ", ".join(map(repr, found[:5]))
        if len(found) == 1:
            text = (
                f"class {shown}, which often marks missing labels. It is learned as any other class"
            )
        else:
            text = (
                f"classes {shown}, which often mark missing labels. They are learned as any others"
            )
        warn_user(
            f"{name} holds the {text}. If {found[0]!r} means that a label is missing, put None or "
            "NaN in its place"
        )


_TEXTS = (str, bytes)


def _plain(text):
    """Return a text in lower case, without spaces around it."""
    return (text.decode(errors="replace") if isinstance(text, bytes) else text).strip().lower()


def _number(text):
    """Return the finite number that a text stands for, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _codes_of_numbers(numbers):
    """Return which of the sorted distinct `numbers` are probably codes of missing labels.

    They leave at least two other numbers, which are not negative. All negative numbers are such
    codes if each is a common code, or if there is a single one beside 0 to K - 1 or 1 to K. A large
    number is such a code if it is a common one, and is more than ten times the other numbers, or
    beside 0 to K - 1 or 1 to K.
    """
    negative = set(numbers[numbers < 0].tolist())
    rest = numbers[numbers >= 0]
    large = set()
    while len(rest) > 2 and rest[-1] in _LARGE_CODES:
        below = rest[:-1]
        if not (rest[-1] > 10 * below[-1] or (_counts(below) and rest[-1] > below[-1] + 1)):
            break
        large.add(rest[-1].item())
        rest = below
    if len(rest) < 2 or not (negative <= _NEGATIVE_CODES or (len(negative) == 1 and _counts(rest))):
        return large
    return negative | large


def _counts(numbers):
    """Return True if sorted numbers are 0 to K - 1 or 1 to K."""
    return numbers[0] in (0, 1) and (np.diff(numbers) == 1).all()


def warn_of_new_label(label: Any, name: str = "y") -> None:
    """Warn that labels to score against hold a label that is not a class of the model.

    A split for cross-validation, for example, may leave a rare label out of training.
    """
    warn_user(f"{name} holds the label {label!r}, which training did not have; it counts as wrong")


def kind_of(label: Any) -> type:
    """Return the kind of a label: `str`, `Number`, or the type of any other label."""
    return str if isinstance(label, str) else Number if isinstance(label, Number) else type(label)


def distinct_labels(labels: np.ndarray) -> set:
    """Return the distinct labels in an array (T,), without missing labels."""
    if labels.dtype.kind == "O":
        return {label for label in labels.tolist() if not is_missing(label)}
    if labels.dtype.kind in "US":
        return set(labels.tolist())
    return set(np.unique(labels[~_missing_in(labels)]).tolist())


def find_classes(labels: Iterable, name: str = "y", given: bool = False) -> np.ndarray:
    """Return the sorted distinct labels; missing labels, which are None, do not count.

    There is a warning about probable codes of missing labels, unless `given` is True: the user has
    then listed the classes.
    """
    classes = _sorted_classes(labels, name)
    if not given:
        warn_of_codes(classes, name)
    return classes


def _sorted_classes(labels, name):
    try:
        distinct = set(labels) - {None}
    except TypeError as error:
        raise ValueError(f"the labels in {name} should be strings or numbers: {error}") from error
    kinds = {kind_of(v) for v in distinct}
    if len(kinds) > 1:
        shown = sorted(map(repr, distinct))[:4]
        raise ValueError(
            f"{name} mixes labels of different types: {', '.join(shown)}; use strings only, or "
            "integers only"
        )
    if not distinct:
        raise ValueError(f"{name} holds no observed label")
    if any(isinstance(label, complex) for label in distinct):
        raise ValueError(f"the labels in {name} should be classes, got complex numbers")
    if kinds == {Number} and not all(
        isinstance(v, Integral) or float(v).is_integer() for v in distinct
    ):
        raise ValueError(f"the labels in {name} should be classes, got the number "
                         f"{next(v for v in distinct if not float(v).is_integer())!r}")  # fmt: skip
    ordered = sorted(distinct)
    if kinds <= {str, Number}:
        return np.array(ordered)
    classes = np.empty(len(ordered), object)
    classes[:] = ordered
    return classes


def codes_of(
    labels: list | np.ndarray, classes: np.ndarray, name: str = "y", allow_unknown: bool = False
) -> np.ndarray:
    """Return the index (T,) in `classes` of each label, or `MISSING` if a label is missing.

    In a list, missing labels are None; in an array, they are NaN or None. If a label is not in
    `classes`, its code is `UNKNOWN` if `allow_unknown` is True and the label has the kind of the
    classes, both strings or both numbers. Otherwise a ValueError is raised, which refers to the
    labels as `name`.
    """
    kinds = set(map(kind_of, classes.tolist()))
    if isinstance(labels, np.ndarray) and labels.dtype.kind != "O":
        codes = np.full(len(labels), MISSING)
        seen = np.flatnonzero(~_missing_in(labels))
        observed = labels[seen]
        if {kind_of(label) for label in observed[:1].tolist()} <= kinds:
            place = np.searchsorted(classes, observed).clip(max=len(classes) - 1)
            codes[seen] = np.where(classes[place] == observed, place, UNKNOWN)
        else:
            codes[seen] = UNKNOWN
    else:
        if isinstance(labels, np.ndarray):
            labels = [None if is_missing(label) else label for label in labels.tolist()]
        code = {label: k for k, label in enumerate(classes.tolist())}
        code[None] = MISSING
        codes = np.fromiter(map(code.get, labels, repeat(UNKNOWN)), np.int64, len(labels))
    for i in np.flatnonzero(codes == UNKNOWN).tolist():
        label = labels[i].item() if isinstance(labels, np.ndarray) else labels[i]
        if not allow_unknown or kind_of(label) not in kinds:
            raise ValueError(
                f"{name} holds the label {label!r}, which is not a class of the model: "
                f"{', '.join(map(repr, classes[:10].tolist()))}"
                f"{' ...' if len(classes) > 10 else ''}{_advice_on_unknown(label, name)}"
            )
        if isinstance(labels, np.ndarray):  # all labels of the array have the same kind
            break
    return codes


def _advice_on_unknown(label, name):
    """Return advice for a known label that probably stands for an unknown label."""
    text = isinstance(label, _TEXTS) and _plain(label) in _MARKS_OF_MISSING
    code = isinstance(label, Number) and label in _NEGATIVE_CODES | _LARGE_CODES
    return ". Write None or NaN for labels that are not known" * (text or code)


def _missing_in(labels):
    """Return a mask (T,) of the missing labels in an array of numbers, bools or strings."""
    return np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(labels.shape, bool)


class LabelCoder(NamedTuple):
    """Coder of the labels of items, whose classes may differ between types of items."""

    # (K,): classes of the first type in sorted order, then classes of the second type, and so on
    classes: np.ndarray
    first: np.ndarray | None = None  # (n_types + 1,): first class of each type; None without types
    types: np.ndarray | None = None  # names (n_types,) of the types; None without types

    @classmethod
    def of(
        cls, labels: list, types: np.ndarray | None = None, names: Any = None, given: Any = None
    ) -> LabelCoder:
        """Find the classes in the labels of all items.

        `types` (T,) and `names` are the types of the items, or None. `given` lists all classes in
        advance, as an array or as a dict with the classes of each type. If it is None, the classes
        are the distinct labels.
        """
        if types is None:
            if given is None:
                return cls(find_classes(labels))
            return cls(find_classes(label_array(given, "classes").tolist(), "classes", given=True))
        parts = []
        for t, name in enumerate(names.tolist()):
            own = [label for label, kind in zip(labels, types.tolist()) if kind == t]
            own = own if given is None else label_array(given[name], "classes").tolist()
            parts.append(find_classes(own, f"y at nodes of type {name!r}", given is not None))
        kinds = {part.dtype.kind for part in parts}
        alike = kinds <= set("biuf") or kinds == {"U"}
        dtype = np.result_type(*parts) if alike else object
        first = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        return cls(np.concatenate([part.astype(dtype) for part in parts]), first, names)

    def require(self, given: Any) -> None:
        """Raise a ValueError if `given`, the argument `classes`, holds a class of no item.

        `given` is an array, or a dict with the classes of each type.
        """
        if self.first is None or self.types is None or not isinstance(given, Mapping):
            codes_of(label_array(given, "classes").tolist(), self.classes, "classes")
            return
        for (start, stop), name in zip(pairwise(self.first.tolist()), self.types.tolist()):
            own = label_array(given.get(name, ()), "classes").tolist()
            codes_of(own, self.classes[start:stop], f"classes of type {name!r}")

    @property
    def type_of_class(self) -> np.ndarray:
        """Index (K,) of the type of each class, 0 without types."""
        if self.first is None:
            return np.zeros(len(self.classes), np.int64)
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def codes(
        self,
        labels: list | np.ndarray,
        types: np.ndarray | None = None,
        name: str = "y",
        allow_unknown: bool = False,
    ) -> np.ndarray:
        """Return the index (T,) of the class of each label; see `codes_of`."""
        if self.first is None or self.types is None or types is None:
            return codes_of(labels, self.classes, name, allow_unknown)
        path = np.full(len(labels), MISSING)
        for t, (start, stop) in enumerate(pairwise(self.first.tolist())):
            where = np.flatnonzero(types == t)
            own = [labels[i] for i in where.tolist()]
            place = f"{name} at nodes of type {self.types[t].item()!r}"
            found = codes_of(own, self.classes[start:stop], place, allow_unknown)
            path[where] = np.where(found >= 0, found + start, found)
        return path


# --------------------------------------------------------------------------- classes of a 1-D y


def class_vector(y: Any, warn: bool) -> np.ndarray:
    """Return y as a vector of classes of a single type, which must not have missing values.

    A matrix of one column is converted to a vector, with scikit-learn's warning if `warn` is True.
    """
    y = complete_vector(y, warn)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # casts to integers may overflow
            check_classification_targets(y)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold labels of a single, sortable type: {error}") from error
    return y


def complete_vector(y: Any, warn: bool) -> np.ndarray:
    """Return y as a vector of labels of any types, which must not have missing values.

    `warn` is the argument of `class_vector`.
    """
    y = y.toarray() if sparse.issparse(y) else y
    y = with_dimensions(y)
    column = y.ndim == 2
    try:
        y = column_or_1d(y)
    except ValueError as error:
        raise ValueError(f"y must hold a label for each row: {error}") from error
    if column and warn:  # scikit-learn would issue this warning with the line number of this file
        warn_user(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples,), for example using ravel().",
            DataConversionWarning,
        )
    refuse_text_of_missing(y)
    found = _missing_classes(y)
    if found and column:
        raise ValueError(
            f"y contains {found}. A y with a single column is treated as a 1-D y, which needs a "
            "label in every row: drop the rows without a label. Only a y with two or more columns "
            "may contain NaN (not observed)"
        )
    if found:
        raise ValueError(f"y contains {found}; only a 2-D indicator y may hold NaN (not observed)")
    return y


def distinct_classes(classes: Any) -> np.ndarray:
    """Validate an argument `classes` and return its sorted distinct labels (K,)."""
    form = "classes must be a vector of labels of a single, sortable type"
    try:
        labels = np.asarray(classes)
        missing = _missing_classes(label_array(classes, "classes"))
        if labels.ndim == 1 and len(labels) and not missing:
            return np.unique(labels)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{form}: {error}") from error
    raise ValueError(f"{form}, without NaN; got {classes!r}")


def _missing_classes(y):
    """Return "NaN", "infinity" or a similar word if y (N,) holds such a value, else ""."""
    if y.dtype == object and any(map(is_missing, y.tolist())):
        return "NaN or None"
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        return "NaN or infinity"
    if y.dtype.kind in "mM" and np.isnat(y).any():
        return "NaT"
    return ""


def require_two_classes(classes: np.ndarray) -> None:
    """Raise a ValueError if a 1-D y holds fewer than two classes."""
    if len(classes) < 2:
        raise ValueError(f"y must hold at least 2 classes, got {len(classes)} class")

"""2-D y: a matrix of 0/1 labels, NaN where not observed."""

import numpy as np
from scipy.special import expit

from skcrbm.metrics import masked_score
from skcrbm.targets._base import Targets
from skcrbm.targets._class_weight import weights_by_label
from skcrbm.utils.classifiers import label_marginals
from skcrbm.utils.labels import indicator_by_name, is_frame, with_dimensions


class MultilabelTargets(Targets):
    """2-D y: L binary outputs.

    Parameters
    ----------
    n_outputs : int
    names : ndarray (n_outputs,) or None, default=None
        Of the outputs.
    """

    multilabel = True

    def __init__(self, n_outputs, names=None):
        self.n_visible = n_outputs
        self.names = names
        self.classes = np.tile(np.array([0, 1]), (n_outputs, 1))

    def encode(self, y, dtype=np.float64):
        """Return y as (N, L) with NaN; refuse another number of outputs.

        The columns of a data frame are matched by name; labels without one are not observed.
        """
        y = y if is_frame(y) else with_dimensions(y)
        visible = y
        if len(y.shape) == 2:
            visible = indicator_by_name(y, self.names, self.n_visible, dtype=dtype)
        if visible.shape[1:] != (self.n_visible,):
            raise ValueError(
                f"y must have shape (n_samples, {self.n_visible}) as in the first fit, "
                f"got {y.shape}"
            )
        return visible

    def decode(self, visible):
        """Labels (N, L) of 0/1 visible units."""
        return visible.astype(np.int64)

    def for_classifier(self, y):
        """Return y (N, L): integers, or floats if some are NaN; with its names if it has some."""
        visible = self.encode(y)
        visible = visible if np.isnan(visible).any() else visible.astype(np.int64)
        return self.framed(visible, y.index) if hasattr(y, "iloc") else visible

    def visible_names(self):
        """Names (L,) of the labels, or their numbers."""
        return np.arange(self.n_visible) if self.names is None else self.names

    def framed(self, values, index):
        """Return a column for each label."""
        import pandas as pd

        return pd.DataFrame(values, index, columns=self.names)

    def check_known(self, y_known, n_rows):
        """Known labels (N, L) with NaN elsewhere, or None; columns of a data frame by name."""
        if y_known is None:
            return None
        known = indicator_by_name(y_known, self.names, self.n_visible, "y_known")
        shape = (n_rows, self.n_visible)
        if known.shape != shape:
            raise ValueError(f"y_known must have shape {shape}, got {known.shape}")
        return known

    def check_classes(self, classes):
        """Refuse others than 0 and 1; a list for each output may be given."""
        try:
            right = classes is None or np.array_equal(np.unique(np.asarray(classes)), [0, 1])
        except (TypeError, ValueError):  # lists of different lengths, values of different kinds
            right = False
        if not right:
            raise ValueError(f"classes of a 2-D y must be 0 and 1, got {classes!r}")

    def require_multilabel(self, method):
        """Do nothing: y is 2-D."""

    def loss_factors(self, class_weight, visible, weight):
        """Factors (N, L): "balanced", a dict for each label, or weights of the positive class."""
        return weights_by_label(class_weight, visible, weight)

    def accuracy(self, y, y_pred, sample_weight=None):
        """Share of the rows in which all observed labels are right."""
        return masked_score("accuracy", self.encode(y), y_pred=y_pred, sample_weight=sample_weight)

    def scores(self, model, rows):
        """Score (N, L) of each label."""
        return model._label_scores(rows)

    def log_odds(self, model, rows):
        """Log-odds (N, L) of each label's marginal."""
        return model._label_log_odds(rows)

    def predict(self, model, rows):
        """Labels (N, L) that the model decodes."""
        return self.decode(model._labels(rows))

    def labels(self, scores):
        """Labels (N, L) with a score of 0 or more."""
        return self.decode(scores >= 0)

    def proba(self, log_odds):
        """P(y_i = 1), (N, L)."""
        return expit(log_odds)

    def marginals(self, proba, classes=None, name="predict_proba(X)"):
        """P(y_i = 1), (N, L), of an array (N, L) or L arrays (N, 2)."""
        return label_marginals(proba, classes, name)

    def labels_of_proba(self, proba):
        """Labels (N, L) with a probability of 0.5 or more."""
        return self.decode(proba >= 0.5)

"""Hyperparameters: constraints that scikit-learn has no words for, and checks of some of them."""

from numbers import Integral

from sklearn import get_config
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval, validate_parameter_constraints


class Integer(Interval):
    """Constraint of an int, NumPy's included; True and False are none.

    Parameters
    ----------
    least, most : int or None, default=None
    """

    def __init__(self, least=None, most=None):
        low, high = least is not None, most is not None
        closed = ("neither", "right", "left", "both")[2 * low + high]
        super().__init__(Integral, least, most, closed=closed)

    def is_satisfied_by(self, val):
        """Whether a value is what the constraint asks for."""
        return not isinstance(val, bool) and super().is_satisfied_by(val)


def check_parameters(estimator, names):
    """Raise scikit-learn's error if one of these hyperparameters is not what it should be.

    For those that methods of a fitted estimator go by: `set_params` may have changed them.
    scikit-learn's ``skip_parameter_validation`` is respected.
    """
    if get_config()["skip_parameter_validation"]:
        return
    validate_parameter_constraints(
        {name: estimator._parameter_constraints[name] for name in names},
        {name: getattr(estimator, name) for name in names},
        type(estimator).__name__,
    )


def tags_of_inner(estimator):
    """Return the tags of what a meta-estimator wraps; None of what is no estimator.

    `fit` refuses that by name. Tags do not: a repr asks for them, too.
    """
    if isinstance(estimator, type) or not hasattr(estimator, "__sklearn_tags__"):
        return None
    return get_tags(estimator)

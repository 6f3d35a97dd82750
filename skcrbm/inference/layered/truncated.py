"""Options of truncated inference: method, schedule and number of iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from skcrbm.energies.layered_model import LayeredModel
from skcrbm.utils.options import Integer, Options, options_constraint
from skcrbm.utils.sklearn_private import StrOptions

if TYPE_CHECKING:
    from skcrbm.inference.layered.network import LayeredNetwork

#: Names that the parameter `inference` of a layered model accepts.
TRUNCATED_METHODS = ("tree_reweighted", "sum_product", "mean_field")


class TruncatedInference(Options):
    """Approximate inference in a layered model with a fixed number of iterations.

    `LayeredGMClassifier` uses the same number of iterations in training and in prediction, so that
    the beliefs need not converge ([1]_, section 3).

    Parameters
    ----------
    method : {"tree_reweighted", "sum_product", "mean_field"}, default="tree_reweighted"
        Method of inference.
    schedule : {"auto", "sequential", "parallel"}, default="auto"
        Order of the updates. "sequential" updates the messages of "tree_reweighted" and
        "sum_product" in place, from the input to the output. "parallel" computes all messages from
        the messages of the previous iteration. "mean_field" has no messages: with "parallel", all
        beliefs are computed from the beliefs of the previous iteration; with "sequential", layers
        are visited from the input to the output, so that the beliefs of a layer depend on the new
        beliefs of the layers below. "auto" is "parallel" for "mean_field", else "sequential".
    n_iter : int, default=5
        Number of iterations T. It must be larger than the number of hidden layers, because with
        fewer iterations the output does not depend on X. Training with `Backpropagation` keeps the
        messages of all iterations in memory.

    References
    ----------
    .. [1] Shen, Wu, Domokos and Cremers (2019). Probabilistic discriminative learning with
       layered graphical models.

    Examples
    --------
    >>> from skcrbm import LayeredGMClassifier
    >>> from skcrbm.inference import TruncatedInference
    >>> model = LayeredGMClassifier(inference=TruncatedInference("mean_field", n_iter=10))
    >>> model.set_params(inference__n_iter=3).inference
    TruncatedInference(method='mean_field', n_iter=3)
    """

    name = "truncated"
    _parameter_constraints: ClassVar = {
        "method": [StrOptions(set(TRUNCATED_METHODS))],
        "schedule": [StrOptions({"auto", "sequential", "parallel"})],
        "n_iter": [Integer(1)],
    }

    def __init__(
        self,
        method: Literal["tree_reweighted", "sum_product", "mean_field"] = "tree_reweighted",
        schedule: Literal["auto", "sequential", "parallel"] = "auto",
        n_iter: int = 5,
    ):
        self.method = method
        self.schedule = schedule
        self.n_iter = n_iter

    def check_depth(self, n_hidden_layers: int) -> None:
        """Raise a ValueError if the output does not depend on X after `n_iter` iterations."""
        least = n_hidden_layers + 1
        if self.n_iter < least:
            raise ValueError(
                f"n_iter={self.n_iter} is too small for {n_hidden_layers} hidden layer(s): "
                "information moves by one layer per iteration, so the output would not depend on "
                f"X. Use TruncatedInference(n_iter={least}) or more"
            )

    def network(self, model: LayeredModel) -> LayeredNetwork:
        """Return the network that runs truncated inference on a model."""
        # Imported on first use because the networks need Numba.
        from skcrbm.inference.layered.methods import (
            MeanFieldNetwork,
            MessageNetwork,
            SequentialMeanFieldNetwork,
        )

        if self.method == "mean_field":
            one_pass = self.schedule == "sequential"
            kind = SequentialMeanFieldNetwork if one_pass else MeanFieldNetwork
            return kind(model, self.n_iter)
        return MessageNetwork(
            model,
            "sequential" if self.schedule == "auto" else self.schedule,
            self.n_iter,
            reweighted=self.method == "tree_reweighted",
            with_input=model.has_free_inputs,
        )


def resolve_truncated(inference: str | TruncatedInference) -> TruncatedInference:
    """Turn the name of a method into a `TruncatedInference`, and check the options.

    A `TruncatedInference` is returned unchanged.
    """
    options: Any = TruncatedInference(method=inference) if isinstance(inference, str) else inference
    options.check_options()
    return options


def truncated_constraint() -> list:
    """Return the constraint of a hyperparameter that takes a name or a `TruncatedInference`."""
    return options_constraint(
        TRUNCATED_METHODS, TruncatedInference, "TruncatedInference(n_iter=10)"
    )

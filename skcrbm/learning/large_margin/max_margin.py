"""Define `MaxMargin`, the value of `learning` for max-margin learning of chains and graphs."""

from __future__ import annotations

from skcrbm.learning.large_margin.structured_hinge import ChainHinge, GraphHinge
from skcrbm.learning.objectives import Objective
from skcrbm.learning.rules import LearningRule


class MaxMargin(LearningRule):
    """Max-margin learning of chains and graphs (``learning="max_margin"``).

    The loss of an example with labels y is the structured hinge loss with margin rescaling [1]_,
    ``max_v [D(v, y) + F(x, v)] - F(x, y)``, where F is the score of the model and D is the number
    of wrong labels. The objective is the mean loss plus ``alpha / 2 |w|^2``, where w are all
    parameters, including `intercept_`. Every label must be observed. The scores of the trained
    model serve to find the best labels; they are not log-probabilities.

    The search for the labels v is exact for chains, forests, and graphs that are narrow enough for
    variable elimination. For other graphs it is max-product with local search.

    References
    ----------
    .. [1] Taskar, Guestrin and Koller (2003). Max-margin Markov networks. NIPS.

    Examples
    --------
    >>> from skcrbm import ChainCRF
    >>> from skcrbm.learning import MaxMargin
    >>> model = ChainCRF(learning=MaxMargin())  # the same as learning="max_margin"
    """

    name = "max_margin"
    needs_complete = True

    def chain(self, trained, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a model of sequences by this rule."""
        return ChainHinge(trained, n_jobs)

    def graph(self, trained, inference, n_jobs: int | None = None) -> Objective:
        """Return the `Objective` that trains a model of graphs by this rule.

        If `inference` is "exact", the search for labels is exact for every graph.
        """
        return GraphHinge(trained, inference, n_jobs)

"""The rule of the large margin Boltzmann machine: the labels with the least hinge loss."""

from skcrbm.decoding._base import CertifiedLabels
from skcrbm.inference.choice import resolve_method
from skcrbm.inference.label_search import find_labels


def decode_hinge(posterior):
    """Labels of the least ``sum_i max(margin - y_i (f_i + sum_k s_ik y_k), 0)``, y in {-1, +1}^L.

    With larger cliques the margins are ``y_i`` times half of the log-odds of label i given the
    others.

    Among equals the highest score, then the first in lexicographic order; beyond 20 labels
    equals are left to the order of the search, which is fixed. The search is that of the
    posterior's method for "map", branch and bound by default. As in the paper, all label
    vectors compete, the empty one among them.

    Parameters
    ----------
    posterior : Posterior
        Of an `IsingEnergy` or a `FactorGraphEnergy`, with the margin of the loss. Known labels
        stay, and the loss counts their margins, too.

    Returns
    -------
    ndarray (N, V) of 0/1
    """
    return hinge_with_gap(posterior).labels


def hinge_with_gap(posterior):
    """Labels of `decode_hinge`, their loss, and how much less that of others may be."""
    method = posterior.state_methods.get("map") or resolve_method("branch_and_bound")
    energy, evidence = posterior.energy, posterior.evidence()
    if evidence is not None:
        energy = energy.condition(evidence)
    found = find_labels(energy, method, posterior.margin, n_jobs=posterior.n_jobs)
    return CertifiedLabels(found.labels, found.value, found.gap)

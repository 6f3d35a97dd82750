"""The search for labels, of pairs or of larger cliques."""

from skcrbm.energies import IsingEnergy
from skcrbm.inference import factor_graph, ising


def find_labels(energy, method, margin=None, *, n_jobs=None):
    """Labels y in {-1, +1}^L of the highest score, or of the least hinge loss.

    Parameters
    ----------
    energy : IsingEnergy or FactorGraphEnergy
        Held labels stay; the loss counts their margins, too.
    method : InferenceMethod
        BranchAndBound; of an `IsingEnergy` also MixedIntegerProgram or ICM.
    margin : float or None
        None: the highest score.
    n_jobs : int or None

    Returns
    -------
    FoundLabels

    Raises
    ------
    ValueError
        On another method.
    """
    family = ising if isinstance(energy, IsingEnergy) else factor_graph
    return family.find_labels(energy, method, margin, n_jobs=n_jobs)

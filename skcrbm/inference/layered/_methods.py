"""The truncated methods by their names."""

from skcrbm.inference.layered._mean_field import MeanFieldNetwork
from skcrbm.inference.layered._messages import MessageNetwork


def make_network(model, inference, schedule, n_iter, with_input):
    """Return the network of a method.

    Parameters
    ----------
    model : LayeredModel
    inference : {"tree_reweighted", "sum_product", "mean_field"}
    schedule : {"sequential", "parallel"}
    n_iter : int
    with_input : bool
        Whether some inputs may be not observed.
    """
    if inference == "mean_field":
        return MeanFieldNetwork(model, schedule, n_iter)
    reweighted = inference == "tree_reweighted"
    return MessageNetwork(model, schedule, n_iter, reweighted=reweighted, with_input=with_input)

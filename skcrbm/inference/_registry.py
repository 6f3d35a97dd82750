"""Inference methods and samplers by name. A new one is a file in this folder and a line here."""

from skcrbm.utils._registry import Registry

METHODS = Registry(
    "inference",
    {
        "exact": "skcrbm.inference._exact:Exact",
        "mean_field": "skcrbm.inference._mean_field:MeanField",
        "sum_product": "skcrbm.inference._sum_product:SumProduct",
        "tree_reweighted": "skcrbm.inference._tree_reweighted:TreeReweighted",
        "max_product": "skcrbm.inference._max_product:MaxProduct",
        "mixed_product": "skcrbm.inference._mixed_product:MixedProduct",
        "icm": "skcrbm.inference._icm:ICM",
        "gibbs": "skcrbm.inference._gibbs:Gibbs",
    },
)

SAMPLERS = Registry(
    "method",
    {
        "gibbs": "skcrbm.inference._sample:sample_gibbs",
        "exact": "skcrbm.inference._sample:sample_exact",
    },
)

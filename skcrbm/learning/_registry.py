"""Names of the learning rules. A new one is a file in this folder and a line here."""

from skcrbm.utils.registry import Registry

OBJECTIVES = Registry(
    "learning",
    {
        "mle": "skcrbm.learning._likelihood:Likelihood",
        "cd": "skcrbm.learning._contrastive:ContrastiveDivergence",
        "pcd": "skcrbm.learning._contrastive:PersistentContrastiveDivergence",
        "cd_percloss": "skcrbm.learning._contrastive:PercLoss",
    },
)

# What `MSSVMCRBM(hidden=...)` names.
MARGIN_OBJECTIVES = Registry(
    "hidden",
    {
        "marginal": "skcrbm.learning._max_margin:MarginalHiddenMargin",
        "max": "skcrbm.learning._max_margin:MaxHiddenMargin",
    },
)

# What `LayeredGMClassifier(gradient=...)` names.
LAYERED_OBJECTIVES = Registry(
    "gradient",
    {
        "backprop": "skcrbm.learning._truncated:TruncatedLikelihood",
        "analytic": "skcrbm.learning._truncated:MomentMatching",
    },
)

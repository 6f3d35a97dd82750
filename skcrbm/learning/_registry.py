"""Names of the learning rules. A new one is a file in this folder and a line here."""

from skcrbm.utils.registry import Registry

OBJECTIVES = Registry(
    "learning",
    {
        "mle": "skcrbm.learning._likelihood:Likelihood",
        "cd": "skcrbm.learning._contrastive:ContrastiveDivergence",
        "pcd": "skcrbm.learning._contrastive:PersistentContrastiveDivergence",
        "cd_percloss": "skcrbm.learning._contrastive:PercLoss",
        "pmp": "skcrbm.learning._contrastive:PerturbAndMaxProductLearning",
    },
)

# What `learning` of a density names: where the moments of the model come from.
NEGATIVE_PHASES = Registry(
    "learning",
    {
        "mle": "skcrbm.learning._moments:MLE",
        "cd": "skcrbm.learning._moments:CD",
        "pcd": "skcrbm.learning._moments:PCD",
        "bp_chain": "skcrbm.learning._moments:BP_CHAIN",
        "weighted_bp_chain": "skcrbm.learning._moments:WEIGHTED_BP_CHAIN",
        "bp": "skcrbm.learning._moments:BP",
        "pmp": "skcrbm.learning._moments:PMP",
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

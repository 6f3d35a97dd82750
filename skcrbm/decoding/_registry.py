"""Names of the decoding rules. A new one is a file in this folder and a line here.

Most rules serve every energy; what another one needs of it is a line in `_NEEDS_ANSWER` or
`_NEEDS_KIND`.
"""

from skcrbm.utils.registry import Registry

DECODERS = Registry(
    "decode",
    {
        "marginal": "skcrbm.decoding._marginal:decode_marginal",
        "label_set": "skcrbm.decoding._label_set:decode_label_set",
        "expected_jaccard": "skcrbm.decoding._model_expected:decode_expected_jaccard",
        "expected_f1": "skcrbm.decoding._model_expected:decode_expected_f1",
        "threshold": "skcrbm.decoding._threshold:decode_threshold",
        "marginal_map": "skcrbm.decoding._map:decode_marginal_map",
        "map": "skcrbm.decoding._map:decode_map",
        "hinge": "skcrbm.decoding._hinge:decode_hinge",
    },
)

#: Rules that search, as functions of a `Posterior` that return `CertifiedLabels`.
CERTIFIED_DECODERS = Registry(
    "decode",
    {
        "map": "skcrbm.decoding._map:map_with_gap",
        "hinge": "skcrbm.decoding._hinge:hinge_with_gap",
    },
)

# Rules that ask `infer` for something that not every energy answers.
_NEEDS_ANSWER = {"map": "map", "marginal_map": "marginal_map"}
# Rules made for some kinds of energy, by the names of their classes.
_NEEDS_KIND = {"hinge": {"IsingEnergy", "FactorGraphEnergy"}}


def decoders_for(energy_type):
    """Names of the decoding rules that serve a kind of energy.

    Parameters
    ----------
    energy_type : type
        A subclass of `BaseEnergy`.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from skcrbm.decoding import decoders_for
    >>> from skcrbm.energies import IsingEnergy
    >>> decoders_for(IsingEnergy)[-2:]
    ['map', 'hinge']
    """
    kinds = {cls.__name__ for cls in energy_type.__mro__}
    answers = {None, *energy_type.queries}
    return [
        rule
        for rule in DECODERS
        if _NEEDS_ANSWER.get(rule) in answers and _NEEDS_KIND.get(rule, kinds) & kinds
    ]

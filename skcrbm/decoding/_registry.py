"""Names of the decoding rules. A new one is a file in this folder and a line here."""

from skcrbm.utils._registry import Registry

DECODERS = Registry(
    "decode",
    {
        "marginal": "skcrbm.decoding._marginal:decode_marginal",
        "label_set": "skcrbm.decoding._label_set:decode_label_set",
        "expected_jaccard": "skcrbm.decoding._expected:decode_expected_jaccard",
        "expected_f1": "skcrbm.decoding._expected:decode_expected_f1",
        "threshold": "skcrbm.decoding._threshold:decode_threshold",
        "marginal_map": "skcrbm.decoding._map:decode_marginal_map",
        "map": "skcrbm.decoding._map:decode_map",
    },
)

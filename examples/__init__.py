"""Programs that make the tables and pictures of the guide.

- ``gallery``: short programs that draw one picture each; run them as files,
  ``python examples/gallery/plot_denoise_digits.py``.
- ``papers``: what redoes the tables and figures of the papers.
- ``speed``: how fast it is, beside others.
- ``studies``: models, decoders and settings compared on real data.

All but the gallery share code, and are run as modules from the folder above this one:
``python -m examples.papers.crbm_tables --quick``. What they write goes to ``examples/output``.
"""

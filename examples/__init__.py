"""Programs that make the tables and pictures of the guide.

- ``gallery``: short programs that draw a picture each; run them as files,
  ``python examples/gallery/plot_denoise_digits.py``.
- ``papers``: programs that repeat the tables and figures of the papers.
- ``speed``: measurements of speed and memory, compared with other libraries.
- ``studies``: comparisons of models, decoders and settings on real data.

The programs outside the gallery share code; run them as modules from the root of a checkout:
``python -m examples.papers.crbm_tables --quick``. They write their results to ``examples/output``.
"""

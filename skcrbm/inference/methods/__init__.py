"""Inference methods: their options, one file each. Solvers stand beside, by energy."""

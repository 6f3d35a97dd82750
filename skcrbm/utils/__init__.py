"""Helpers that are independent of models: validation of arguments, options, threads, pickling."""

"""Helpers with no knowledge of models: validation, threads, registries."""

"""Helpers that know nothing about models: validation of arguments, options, threads, pickles."""

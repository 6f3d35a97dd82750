"""Exact answers: enumeration of states, elimination of variables, and the k best states."""

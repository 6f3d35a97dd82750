"""Searches for labels with the highest score or the lowest hinge loss."""

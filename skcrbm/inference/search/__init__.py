"""Searches for labels and states with the highest score or the lowest hinge loss, and bounds."""

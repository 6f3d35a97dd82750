"""Options of the inference methods by topic. Their solvers are in the folders of the energies."""

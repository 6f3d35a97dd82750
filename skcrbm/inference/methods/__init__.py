"""Options of the inference methods, by topic. The solvers are in the folders of the energies."""

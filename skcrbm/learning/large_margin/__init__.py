"""Max-margin training: solvers for label pairs, for cliques, and for chains and graphs."""

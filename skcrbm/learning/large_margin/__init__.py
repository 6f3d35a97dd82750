"""Max-margin training: solvers for models with pair weights or cliques, for chains and graphs."""

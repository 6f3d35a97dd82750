"""Large margin machines: solvers of their dual problems, which need no inference."""

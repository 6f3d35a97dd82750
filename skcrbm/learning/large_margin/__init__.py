"""Training of large margin machines: solvers for their dual problems, without inference."""

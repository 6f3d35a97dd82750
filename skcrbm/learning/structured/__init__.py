"""Training of structured models: chains, graphs, images, and the outputs of rows."""

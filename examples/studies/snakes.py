"""Compare learners on snakes: graphs in which only counting along the edges tells nodes apart.

A snake of ten cells lies in a small image. The colour of a cell tells from which side the snake
came, and the class of a cell is its place in the snake, 1 to 10, or 0 for the background. A cell
alone, or with its neighbourhood, does not tell its place: a model must count along the edges. The
program prints a Markdown table with a row per learner: the share of right cells among the cells of
snakes and among all cells, the share of images without an error, and the processor seconds of
training and prediction.

    python -m examples.studies.snakes                # some minutes
    python -m examples.studies.snakes --images 60
"""

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from skcrbm import GraphCRF, grid_graph
from skcrbm.inference import SumProduct
from skcrbm.learning import Adam, ContrastiveDivergence, PersistentContrastiveDivergence

LENGTH = 10
_STEPS = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])


def snake(rng):
    """Return an image of colours, 0 for the background, and the places of the cells."""
    height, width = rng.randint(6, 9, size=2)
    while True:
        cells, came = [(rng.randint(height), rng.randint(width))], [rng.randint(4)]
        while len(cells) < LENGTH:
            free = []
            for direction, (down, right) in enumerate(_STEPS):
                row, column = cells[-1][0] + down, cells[-1][1] + right
                inside = 0 <= row < height and 0 <= column < width
                if inside and (row, column) not in cells:
                    free.append((direction, (row, column)))
            if not free:
                break
            direction, cell = free[rng.randint(len(free))]
            cells.append(cell)
            came.append(direction)
        if len(cells) == LENGTH:
            break
    colours, places = np.zeros((2, height, width), int)
    for place, (cell, direction) in enumerate(zip(cells, came), 1):
        colours[cell], places[cell] = direction + 1, place
    return colours, places


def graph_of(colours):
    """Return the graph of an image: neighbourhoods of nodes, directions and colours of edges."""
    one_hot = np.eye(5)[colours]
    height, width = colours.shape
    around = np.pad(one_hot, ((1, 1), (1, 1), (0, 0)))
    features = np.concatenate(
        [around[r : r + height, c : c + width] for r in range(3) for c in range(3)], axis=2
    )
    graph = grid_graph(colours, contrast=False, directions=True, features=features)
    flat = one_hot.reshape(-1, 5)
    both = np.hstack([flat[graph.edges[:, 0]], flat[graph.edges[:, 1]]])
    by_direction = [direction[:, None] * both for direction in graph.edge_features.T]
    return graph._replace(edge_features=np.hstack([graph.edge_features, *by_direction]))


class Nodes:
    """Logistic regression of each node, without edges."""

    def fit(self, X, y):
        """Fit the regression to all nodes."""
        rows = np.concatenate([graph.nodes for graph in X])
        self.model_ = LogisticRegression(C=10.0, max_iter=1000).fit(rows, np.concatenate(y))
        return self

    def predict(self, X):
        """Return the labels of each graph."""
        return [self.model_.predict(graph.nodes) for graph in X]


MESSAGES = SumProduct(max_iter=50, damping=0.2)
STEPS = {"solver": Adam(learning_rate=0.02, batch_size=20), "max_iter": 60, "random_state": 0}
LEARNERS = {
    "logistic regression of nodes": Nodes(),
    "pseudo-likelihood": GraphCRF(alpha=0.01, directed=True, learning="pseudo_likelihood"),
    "maximum likelihood, mean_field": GraphCRF(alpha=0.01, directed=True, inference="mean_field"),
    "maximum likelihood, sum_product": GraphCRF(alpha=0.01, directed=True, inference=MESSAGES),
    "the same by Adam": GraphCRF(
        alpha=0.001,
        directed=True,
        inference=MESSAGES,
        **STEPS,
    ),
    "contrastive divergence": GraphCRF(
        alpha=0.001, directed=True, learning=ContrastiveDivergence(n_steps=5), **STEPS
    ),
    "persistent chains": GraphCRF(
        alpha=0.001, directed=True, learning=PersistentContrastiveDivergence(n_steps=5), **STEPS
    ),
    "backpropagation through 15 iterations": GraphCRF(
        alpha=0.01,
        directed=True,
        learning="backprop",
        inference=SumProduct(max_iter=15, damping=0.2),
        decode="marginal",
        max_iter=100,
    ),
    "max margin": GraphCRF(
        alpha=0.01, directed=True, learning="max_margin", max_iter=60, random_state=0
    ),
}


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=200, help="number of training images")
    parser.add_argument("--only", default="", help="part of the name of a learner")
    options = parser.parse_args(arguments)
    rng = np.random.RandomState(0)
    images = [snake(rng) for _ in range(options.images + 200)]
    X = [graph_of(colours) for colours, _ in images]
    y = [places.ravel() for _, places in images]
    n = options.images
    print("| learner | cells of snakes | all cells | images | training, s | prediction, s |")
    print("|---|---|---|---|---|---|")
    for name, learner in LEARNERS.items():
        if options.only not in name:
            continue
        start = time.process_time()
        learner.fit(X[:n], y[:n])
        trained = time.process_time()
        found = learner.predict(X[n:])
        seconds = trained - start, time.process_time() - trained
        right = [a == b for a, b in zip(found, y[n:])]
        on_snakes = np.concatenate([r[b > 0] for r, b in zip(right, y[n:])])
        shares = on_snakes.mean(), np.concatenate(right).mean(), np.mean([r.all() for r in right])
        print(
            f"| {name} | {' | '.join(f'{share:.3f}' for share in shares)} | "
            f"{' | '.join(f'{s:.1f}' for s in seconds)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

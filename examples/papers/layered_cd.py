"""Layer-wise contrastive divergence: the baseline of Shen et al. (2019), table 4.

Every hidden layer is trained greedily with the layer below as a restricted Boltzmann
machine of categorical units, by CD-k; multinomial logistic regression on the last layer's
probabilities classifies.
"""

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from skcrbm import LayeredGMClassifier
from skcrbm.inference import TruncatedInference
from skcrbm.learning import Adam, EarlyStopping


def probabilities(scores, n_states):
    """Return probabilities of states 1, 2, ... of nodes, (n, n_nodes (n_states - 1))."""
    full = scores.reshape(len(scores), -1, n_states - 1)
    full = np.concatenate([np.zeros_like(full[:, :, :1]), full], axis=2)
    return softmax(full, axis=2)[:, :, 1:].reshape(scores.shape)


def sample(p, n_states, rng):
    """Draw the states of nodes with the given probabilities, as indicators of 1, 2, ..."""
    p = p.reshape(len(p), -1, n_states - 1)
    u = rng.random_sample((*p.shape[:2], 1))
    upper = np.cumsum(p, axis=2)
    return ((u < upper) & (u >= upper - p)).reshape(len(p), -1).astype(p.dtype)


def log_odds(mean, n_states):
    """Return log-odds of states 1, 2, ... against 0 for nodes with the given mean indicators."""
    p = np.clip(mean.reshape(-1, n_states - 1), 0.002, 0.998)
    rest = np.maximum(1 - p.sum(axis=1, keepdims=True), 0.002)
    return np.log(p / rest).ravel().astype(np.float32)


class Pair:
    """A layer and the layer below: a restricted Boltzmann machine with tied weights.

    Parameters
    ----------
    layer : Layer
    below : tuple of int
        Shape of the layer below.
    states_below : int
    mean : ndarray
        Mean of the indicators of states 1, 2, ... below, from which its biases start. If they
        started at 0, the weights would learn the means first, and probabilities that vary little
        contain little else.
    rng : RandomState
    """

    def __init__(self, layer, below, states_below, mean, rng):
        edges = layer.edges(below)
        self.states = states_below, layer.n_states
        self.shape = layer.shape(below)
        sizes = int(np.prod(below)), int(np.prod(self.shape))
        # A weight per edge and pair of states, tied if edges share a table.
        l, k = self.states[0] - 1, self.states[1] - 1
        x, y = np.divmod(np.arange(l * k), k)
        self.row = (edges.left[:, None] * l + x).ravel()
        self.column = (edges.right[:, None] * k + y).ravel()
        self.tied = (edges.table[:, None] * (l * k) + np.arange(l * k)).ravel()
        self.weights = rng.normal(scale=0.01, size=edges.n_tables * l * k).astype(np.float32)
        self.count = np.maximum(np.bincount(self.tied, minlength=len(self.weights)), 1)
        self.matrix = np.zeros((sizes[0] * l, sizes[1] * k), np.float32)
        self.bias = log_odds(mean, states_below), np.zeros(sizes[1] * k, np.float32)
        self._spread()

    def _spread(self):
        self.matrix[self.row, self.column] = self.weights[self.tied]

    def up(self, v):
        """Return probabilities of the layer given the layer below."""
        return probabilities(v @ self.matrix + self.bias[1], self.states[1])

    def down(self, h):
        """Return probabilities of the layer below given the layer."""
        return probabilities(h @ self.matrix.T + self.bias[0], self.states[0])

    @property
    def shared(self):
        """Return True if several edges share a table."""
        return self.count.max() > 1

    def step(self, v, n_steps, rate, bias_rate, draw_below, rng):
        """Make a step of CD-k on a batch."""
        first = up = self.up(v)
        for _ in range(n_steps):
            back = self.down(sample(up, self.states[1], rng))
            up = self.up(sample(back, self.states[0], rng) if draw_below else back)
        difference = (v.T @ first - back.T @ up) / len(v)
        tied = np.bincount(
            self.tied, difference[self.row, self.column], minlength=len(self.weights)
        )
        # The mean over the places that share a weight; otherwise windows would add up.
        self.weights += (rate * tied / self.count).astype(np.float32)
        self.bias[0][:] += bias_rate * (v - back).mean(0)
        self.bias[1][:] += bias_rate * (first - up).mean(0)
        self._spread()


class LayerwiseCD(ClassifierMixin, BaseEstimator):
    """Greedy CD-k pretraining and logistic regression on top.

    Parameters
    ----------
    layers, input_shape
        As in `LayeredGMClassifier`.
    n_steps : int
        k of CD-k.
    n_epochs : int
        Number of epochs of each layer's pretraining.
    learning_rate, shared_learning_rate, bias_learning_rate : float
        Rates of weights of a single edge, of weights that edges share (for the mean over these
        edges, which is far smaller), and of the biases.
    draw_below : bool
        If True, Gibbs sampling also draws the states below a layer; if False, it takes their
        probabilities, as Hinton (2012) advises. Draws add noise, which makes it hard to learn
        probabilities that vary little; a dense layer on pixels is better with draws.
    decline : bool
        If True, the rates fall evenly to 0 over the steps of a layer.
    max_iter : int
        Largest number of epochs of the logistic regression.
    """

    def __init__(
        self,
        layers,
        input_shape=None,
        n_steps=1,
        n_epochs=10,
        learning_rate=0.1,
        shared_learning_rate=1.0,
        bias_learning_rate=0.1,
        draw_below=True,
        decline=False,
        batch_size=20,
        max_iter=100,
        random_state=None,
    ):
        self.layers = layers
        self.input_shape = input_shape
        self.n_steps = n_steps
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.shared_learning_rate = shared_learning_rate
        self.bias_learning_rate = bias_learning_rate
        self.draw_below = draw_below
        self.decline = decline
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X, y):
        """Pretrain layer by layer, then fit the classifier."""
        rng = np.random.RandomState(self.random_state)
        shape, states, v = self.input_shape or (X.shape[1],), 2, X
        self.pairs_ = []
        for layer in self.layers:
            pair = Pair(layer, shape, states, v.mean(0), rng)
            rate = self.shared_learning_rate if pair.shared else self.learning_rate
            n_updates = self.n_epochs * -(-len(v) // self.batch_size)
            last = 1 / n_updates if self.decline else 1
            shares = iter(np.linspace(1, last, n_updates).tolist())
            for _ in range(self.n_epochs):
                order = rng.permutation(len(v))
                for start in range(0, len(v), self.batch_size):
                    batch = v[order[start : start + self.batch_size]]
                    share = next(shares)
                    rates = share * rate, share * self.bias_learning_rate
                    pair.step(batch, self.n_steps, *rates, self.draw_below, rng)
            self.pairs_.append(pair)
            shape, states, v = pair.shape, layer.n_states, pair.up(v)
        self.top_ = LayeredGMClassifier(
            layers=(),
            inference=TruncatedInference(n_iter=1),
            solver=Adam(batch_size=self.batch_size),
            max_iter=self.max_iter,
            early_stopping=EarlyStopping(0.2, n_iter_no_change=5, refit=False),
            random_state=self.random_state,
        ).fit(v, y)
        self.n_iter_ = self.top_.n_iter_
        self.classes_ = self.top_.classes_
        return self

    def predict(self, X):
        """Return the classes of the rows."""
        for pair in self.pairs_:
            X = pair.up(X)
        return self.top_.predict(X)

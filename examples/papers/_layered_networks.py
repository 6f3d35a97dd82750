"""Neural networks with the connections of Shen et al. (2019): the controls of tables 4 and 6 to 8.

The networks have the shape of the convolutional and the local layered model: a node of k states of
a layered model carries k - 1 numbers, so 6 and 16 channels take the place of 7 and 17 states, and
100 units the place of 10 nodes of 11 states. They are trained by PyTorch, which the package itself
does not need: ``pip install ".[papers]"`` in a checkout installs it.
"""

import itertools
import math

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split

try:
    import torch
    from torch.nn import functional
except ImportError as error:
    raise ImportError(
        'the convolutional and local neural networks need PyTorch: pip install ".[papers]"'
    ) from error

_SIDE, _KERNEL, _STRIDE = 28, 5, 2
_ACTIVATIONS = {"sigmoid": torch.sigmoid, "relu": torch.relu}


def _uniform(shape, fan_in):
    """Draw parameters as PyTorch's own layers do, within 1 / sqrt(fan_in) of 0."""
    bound = 1 / math.sqrt(fan_in)
    return torch.empty(shape).uniform_(-bound, bound).requires_grad_()


class ImageNetwork(ClassifierMixin, BaseEstimator):
    """Neural network with two convolutional or local layers and a dense layer.

    Both first layers have windows of 5 x 5 at a stride of 2, and 6 and 16 channels; the dense layer
    has 100 units. Adam at its default rate of 0.001 minimises the cross-entropy. A part of the
    images is held out, and the parameters of the epoch with their smallest cross-entropy are kept.

    Parameters
    ----------
    net : {"conv", "local"}
        Whether all windows of a layer share their weights ("conv") or not ("local").
    activation : {"sigmoid", "relu"}
    validation_fraction : float
        Share of the images that are held out.
    n_iter_no_change : int
        Number of epochs without a smaller cross-entropy after which training ends.
    max_iter : int
        Largest number of epochs.
    batch_size : int, default=20
    label_smoothing : float, default=0
        Share of the probability of a class that its label spreads evenly over all ten classes, in
        training and on the held-out images.
    random_state : int, default=0
        Seed of the parameters, of the held-out images and of the order of the images.
    images_of_epoch : callable or None, default=None
        Function of images and the number of an epoch that returns the images to train with in this
        epoch, such as images with other hidden pixels. Its result for epoch 0 takes the place of
        the held-out images. None: all epochs have the images of `fit`.
    device : str, default="cpu"
        Where PyTorch computes: "cpu", in a single thread, or "cuda". Parameters and orders are the
        same on both, so accuracies differ by rounding alone, which many steps make larger.
    """

    def __init__(
        self,
        net,
        activation,
        *,
        validation_fraction,
        n_iter_no_change,
        max_iter,
        batch_size=20,
        label_smoothing=0.0,
        random_state=0,
        images_of_epoch=None,
        device="cpu",
    ):
        self.net = net
        self.activation = activation
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.label_smoothing = label_smoothing
        self.random_state = random_state
        self.images_of_epoch = images_of_epoch
        self.device = device

    def _draw_parameters(self):
        """Return the weights and biases of the layers."""
        parameters, below, side = [], 1, _SIDE
        for channels, padding in ((6, 1), (16, 0)):
            side = (side + 2 * padding - _KERNEL) // _STRIDE + 1
            fan_in = below * _KERNEL**2
            shape = (channels, below, _KERNEL, _KERNEL)
            if self.net == "local":
                shape = (side**2, fan_in, channels)
            bias = (channels,) if self.net == "conv" else (side**2, 1, channels)
            parameters += [_uniform(shape, fan_in), _uniform(bias, fan_in)]
            below = channels
        sizes = (below * side**2, 100, 10)
        for n_below, n in itertools.pairwise(sizes):
            parameters += [_uniform((n, n_below), n_below), _uniform((n,), n_below)]
        return parameters

    def _scores(self, X):
        """Return the scores of the classes of images (n, 784)."""
        activate = _ACTIVATIONS[self.activation]
        values = X.reshape(-1, 1, _SIDE, _SIDE)
        pairs = list(zip(self.parameters_[::2], self.parameters_[1::2]))
        for (weights, bias), padding in zip(pairs, (1, 0)):
            if self.net == "conv":
                values = functional.conv2d(values, weights, bias, _STRIDE, padding)
            else:
                windows = functional.unfold(values, _KERNEL, padding=padding, stride=_STRIDE)
                windows = windows.permute(2, 0, 1).contiguous()
                values = torch.baddbmm(bias, windows, weights).permute(1, 2, 0)
                values = values.unflatten(2, (math.isqrt(len(weights)),) * 2)
            values = activate(values)
        (weights, bias), (last_weights, last_bias) = pairs[2:]
        values = activate(functional.linear(values.flatten(1), weights, bias))
        return functional.linear(values, last_weights, last_bias)

    def _loss(self, scores, y):
        """Return the cross-entropy of scores (n, 10) of the classes and the smoothed labels."""
        return functional.cross_entropy(scores, y, label_smoothing=self.label_smoothing)

    def _tensor(self, array):
        """Return an array as a tensor on the device."""
        return torch.as_tensor(array).to(self.device)

    def _step(self):
        """Return a function that takes a step of Adam on a batch of images and their classes."""
        recorded = self.device == "cuda"
        solver = torch.optim.Adam(self.parameters_, fused=True, capturable=recorded)

        def step(X, y):
            solver.zero_grad(set_to_none=not recorded)
            self._loss(self._scores(X), y).backward()
            solver.step()

        step.solver = solver
        return step

    def _recorded_step(self):
        """Return the same function for a GPU, which plays a recorded step.

        A step has some fifty kernels of microseconds each, and starting them one by one takes
        longer than they do.
        """
        torch.backends.cudnn.allow_tf32 = False  # products are rounded as on a processor
        torch.backends.cudnn.deterministic = True
        step = self._step()
        X = torch.zeros((self.batch_size, _SIDE**2), device=self.device)
        y = torch.zeros(self.batch_size, dtype=torch.int64, device=self.device)
        before = [value.detach().clone() for value in self.parameters_]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # PyTorch has to allocate its buffers before it can record
                step(X, y)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step(X, y)
        with torch.no_grad():
            for value, old in zip(self.parameters_, before):
                value.copy_(old)
            for state in step.solver.state.values():
                for part in state.values():
                    part.zero_()

        def play(X_part, y_part):
            if len(X_part) < self.batch_size:
                step(X_part, y_part)
                return
            X.copy_(X_part)
            y.copy_(y_part)
            graph.replay()

        return play

    def fit(self, X, y):
        """Fit to images in [0, 1], float32 (n, 784), and their classes 0 to 9."""
        X, X_val, y, y_val = train_test_split(
            X, y, test_size=self.validation_fraction, stratify=y, random_state=self.random_state
        )
        images = X
        if self.images_of_epoch is not None:
            X_val = self.images_of_epoch(X_val, 0)
        X, y = self._tensor(X), self._tensor(y.astype(np.int64))
        y_val = self._tensor(y_val.astype(np.int64))
        rng = np.random.RandomState(self.random_state)
        torch.set_num_threads(1)
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(self.random_state)
            drawn = self._draw_parameters()
        self.parameters_ = [value.detach().to(self.device).requires_grad_() for value in drawn]
        step = self._recorded_step() if self.device == "cuda" else self._step()
        best, kept = np.inf, self.parameters_
        for epoch in range(1, self.max_iter + 1):
            if self.images_of_epoch is not None:
                X = self._tensor(self.images_of_epoch(images, epoch))
            order = self._tensor(rng.permutation(len(X)))
            for part in order.split(self.batch_size):
                step(X[part], y[part])
            loss = float(self._loss(self.decision_function(X_val), y_val))
            if loss < best:
                best, kept = loss, [value.detach().clone() for value in self.parameters_]
                self.best_iter_ = epoch
            elif epoch - self.best_iter_ >= self.n_iter_no_change:
                break
        self.n_iter_ = epoch
        self.parameters_ = kept
        self.classes_ = np.arange(10)
        return self

    def decision_function(self, X):
        """Return the scores of the classes, a tensor (n, 10)."""
        with torch.no_grad():
            return torch.cat([self._scores(part) for part in self._tensor(X).split(1000)])

    def predict(self, X):
        """Return the classes with the largest scores."""
        return self.classes_[self.decision_function(X).argmax(dim=1).cpu().numpy()]

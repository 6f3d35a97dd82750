"""Methods of layered models: find the states of all nodes, and fill in missing features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skcrbm.estimators._base import StructuredClassifier
from skcrbm.inference.layered.methods import MaxProductNetwork
from skcrbm.inference.layered.network import LayeredInput, probabilities
from skcrbm.inference.layered.truncated import TruncatedInference
from skcrbm.utils.limits import LAYERED_CHUNK_ROWS
from skcrbm.utils.parallel import one_blas_thread, ordered_map, row_chunks

# Number of iterations of max-product in `map_states`. It is much larger than the number of layers,
# so that messages pass through all layers many times.
_MAP_ITERATIONS = 50


class LayeredAnswers(StructuredClassifier):
    """Base class of fitted layered models: run inference on the rows of X."""

    n_inference_iter_: int
    n_jobs: int | None
    _model: Any
    _inference: TruncatedInference

    def _runs(self, X, network, read, **options):
        """Run inference on chunks of the rows of X, and return a list of results.

        ``network(model)`` makes the object that runs inference, such as a message-passing network.
        Inference returns a `Trace`, from which ``read(trace)`` extracts the result of a chunk.
        """
        X = self._check_predict_data(X)
        model = self._model._replace(code=self._model.code.for_rows(X))
        shared = network(model)

        def chunk(rows):
            # An overflow gives NaN in the result, and `_output_scores` then raises an error.
            with np.errstate(over="ignore", invalid="ignore"):
                return read(shared.run(LayeredInput(*model.encode(X[rows])), **options))

        with one_blas_thread():
            chunks = row_chunks(X.shape[0], LAYERED_CHUNK_ROWS)
            return list(ordered_map(chunk, chunks, self.n_jobs))

    def map_states(self, X: ArrayLike) -> list[np.ndarray]:
        """Return the most probable joint states of all hidden and output nodes, by max-product.

        The result is exact if the graph is a tree, that is, with a single hidden layer and a single
        output node. Otherwise it is an approximation.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        list of ndarray of shape (n_samples, n_nodes), int
            States of the nodes of each hidden layer, followed by the states of the output nodes. If
            y was 1-D, the predicted classes are ``classes_[states[-1][:, 0]]``.
        """
        check_is_fitted(self)

        def network(model):
            n_iter = max(_MAP_ITERATIONS, self.n_inference_iter_)
            schedule = self._inference.schedule
            schedule = "sequential" if schedule == "auto" else schedule
            return MaxProductNetwork(model, schedule, n_iter, with_input=model.has_free_inputs)

        def states(trace):
            return [probabilities(b, trace.n).argmax(axis=1).T for b in trace.beliefs[-1][1:]]

        chunks = self._runs(X, network, states, complete=True)
        return [np.concatenate(layer) for layer in zip(*chunks)]

    def impute(self, X: ArrayLike) -> np.ndarray:
        """Replace missing features by the means of their beliefs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Copy of X in which each NaN is replaced by P(feature = 1) or, if the input nodes have
            more than two states s = 0, 1, ..., by the expectation of s / (n_states - 1).

        Raises
        ------
        ValueError
            If the model was fitted with a single iteration of inference, after which the hidden
            nodes have not yet sent messages back to the input.
        """
        check_is_fitted(self)
        if self.n_inference_iter_ < 2:
            raise ValueError(
                "impute needs a model fitted with TruncatedInference(n_iter=2) or more iterations"
            )
        filled = self._check_predict_data(X)
        filled = filled.toarray() if sparse.issparse(filled) else filled.copy()

        def means(trace):
            missing = trace.inputs.missing
            if missing is None:
                return trace.n, None, None
            p = probabilities(trace.beliefs[-1][0], trace.n)
            levels = np.linspace(0, 1, p.shape[1]).astype(p.dtype)
            return trace.n, missing, np.einsum("isn,s->ni", p, levels)[missing]

        start = 0
        for n_rows, missing, mean in self._runs(X, self._inference.network, means, complete=True):
            if missing is not None:
                filled[start : start + n_rows][missing] = mean
            start += n_rows
        return filled

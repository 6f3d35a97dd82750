"""Layered models one edge at a time, straight from Shen et al. (2019), eqs. 18 to 22."""

import itertools

import numpy as np
from scipy.special import logsumexp, softmax


class NaiveLayered:
    """A layered model of one row: nodes, edges with full tables, unary scores.

    Parameters
    ----------
    structure : LayeredStructure
    params : LayeredParams
    means : ndarray (D (l - 1),)
    missing : ndarray of bool (D,) or None
    """

    def __init__(self, structure, params, means, missing=None):
        self.structure = structure
        self.sizes, self.states = structure.n_nodes, structure.n_states
        missing = np.zeros(self.sizes[0], bool) if missing is None else missing
        means = means.reshape(self.sizes[0], -1)
        self.free = {(0, i) for i in np.flatnonzero(missing)}
        for layer in range(1, structure.depth + 1):
            self.free |= {(layer, i) for i in range(self.sizes[layer])}
        self.unary = {}
        for layer, scores in enumerate(structure.unaries(params)):
            for i, row in enumerate(scores):
                self.unary[layer, i] = np.concatenate([[0.0], row])
        self.field = {node: np.zeros_like(u) for node, u in self.unary.items()}
        self.edges, self.rho = {}, {}
        for connection, w in zip(structure.connections, structure.weights(params)):
            tables, a, b = connection.tables(w), connection.source, connection.target
            beside = [other for other in structure.connections if other.source == a]
            for i, j, t in zip(connection.left, connection.right, connection.table):
                full = np.zeros((self.states[a], self.states[b]))
                full[1:, 1:] = tables[t]
                left, right = (a, int(i)), (b, int(j))
                if left in self.free:
                    self.edges[left, right] = full
                    n_right = sum((other.left == i).sum() for other in beside)
                    self.rho[left, right] = 1 / n_right
                else:
                    self.field[right] += means[i] @ full[1:]

    def table(self, source, target):
        """(states of source, states of target) of an edge in either direction."""
        if (source, target) in self.edges:
            return self.edges[source, target], self.rho[source, target]
        return self.edges[target, source].T, self.rho[target, source]

    def infer(self, method, schedule, n_iter):
        """Log beliefs against state 0 of all free nodes after n_iter iterations."""
        if (method, schedule) == ("mean_field", "sequential"):
            return self.mean_field_by_layers(n_iter)
        pairs = sorted(self.edges)
        messages = {}
        for a, b in pairs:
            messages[a, b] = np.zeros(self.states[b[0]])
            messages[b, a] = np.zeros(self.states[a[0]])
        reweighted = method == "tree_reweighted"

        def beliefs(with_field):
            out = {}
            for node in self.free:
                total = self.unary[node] + with_field * self.field[node]
                for (a, b), m in messages.items():
                    if b == node:
                        total = total + (self.table(a, b)[1] if reweighted else 1.0) * m
                out[node] = total
            return out

        for t in range(n_iter):
            belief = beliefs(t > 0)
            old = dict(messages)
            for c in range(self.structure.depth):
                layer = [p for p in pairs if p[0][0] == c]
                for way in (layer, [(b, a) for a, b in layer]):
                    new = {}
                    for a, b in way:
                        score, rho = self.table(a, b)
                        seen = old if schedule == "parallel" else messages
                        if method == "mean_field":
                            new[a, b] = softmax(belief[a]) @ score
                            continue
                        cavity = belief[a] - seen[b, a]
                        scaled = score / rho if reweighted else score
                        new[a, b] = logsumexp(scaled + cavity[:, None], axis=0) - logsumexp(cavity)
                    messages.update(new)
        self.messages = messages
        return beliefs(True)

    def mean_field_by_layers(self, n_iter):
        """Log beliefs by mean field that changes one node after the other, from the input on."""
        belief = {node: self.unary[node] for node in self.free}
        for _ in range(n_iter):
            for node in sorted(self.free):
                total = self.unary[node] + self.field[node]
                for a, b in self.edges:
                    if node in (a, b):
                        other = b if node == a else a
                        total = total + softmax(belief[other]) @ self.table(other, node)[0]
                belief[node] = total
        return belief

    def exact(self):
        """Log partition and marginals (dict of arrays) by enumeration."""
        nodes = sorted(self.free)
        log_weight, states = [], []
        for state in itertools.product(*(range(self.states[n[0]]) for n in nodes)):
            at = dict(zip(nodes, state))
            score = sum((self.unary[n] + self.field[n])[s] for n, s in at.items())
            score += sum(w[at[a], at[b]] for (a, b), w in self.edges.items())
            log_weight.append(score)
            states.append(state)
        log_weight, states = np.array(log_weight), np.array(states)
        log_z = logsumexp(log_weight)
        p = np.exp(log_weight - log_z)
        marginals = {
            n: np.bincount(states[:, k], weights=p, minlength=self.states[n[0]])
            for k, n in enumerate(nodes)
        }
        best = dict(zip(nodes, states[log_weight.argmax()]))
        return log_z, marginals, best

    def reweighted_log_partition(self, beliefs):
        """Tree-reweighted free energy of the state that `infer` left behind."""
        total = 0.0
        for node, scores in beliefs.items():
            q = softmax(scores)
            entropy = -(q * np.log(q)).sum()
            total += q @ (self.unary[node] + self.field[node]) + entropy
        for (a, b), score in self.edges.items():
            rho = self.rho[a, b]
            joint = score / rho + (beliefs[a] - self.messages[b, a])[:, None]
            joint = joint + (beliefs[b] - self.messages[a, b])[None]
            joint = np.exp(joint - logsumexp(joint))
            qa, qb = joint.sum(1), joint.sum(0)
            information = (joint * (np.log(joint) - np.log(qa[:, None]) - np.log(qb[None]))).sum()
            total += (joint * score).sum() - rho * information
        return total

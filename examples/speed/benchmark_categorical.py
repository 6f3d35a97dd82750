"""Message passing between variables with more than two states: the cost of a message.

The models are square lattices with N(0, 1) fields and tables of pairs: one table for all pairs, a
table for each pair, or a Potts table (one value on the diagonal, one off it). The program measures
processor time in a single thread: of a message, and of an entry of a table and message, which is
the difference of runs of 25 and 5 iterations. Beside them stand the same messages as NumPy arrays
over all edges at once. The first calls, which may compile, are timed by the clock. Prints a
Markdown table. With --pgmax, a column has the processor time of the same messages in PGMax, after
compilation, as a multiple of the time here (`pip install pgmax "jax[cpu]==0.6.2"`). With --rbm, it
also compares a single RBM with PGMax, in which each coupling is a table.

    python -m examples.speed.benchmark_categorical
    python -m examples.speed.benchmark_categorical --states 4 10 --side 64 --pgmax --rbm 784 100
"""

import argparse
import time

import numpy as np

from skcrbm.energies import FactorGraphEnergy, RBMEnergy, TableFactors
from skcrbm.inference import infer

KINDS = ("shared", "each", "Potts")


def lattice(side, k, kind):
    """Draw a square lattice of variables with k states."""
    rng = np.random.default_rng(0)
    site = np.arange(side * side).reshape(side, side)
    right = np.stack([site[:, :-1].ravel(), site[:, 1:].ravel()], axis=1)
    down = np.stack([site[:-1].ravel(), site[1:].ravel()], axis=1)
    pairs = np.concatenate([right, down])
    tables = 0.3 * rng.normal(size=(len(pairs) if kind == "each" else 1, k, k))
    if kind == "Potts":
        tables = 0.5 * np.eye(k)[None]
    tables = np.broadcast_to(tables, (len(pairs), k, k))
    return FactorGraphEnergy([TableFactors(pairs, tables)], rng.normal(size=(side * side, k)))


def numpy_sweep(energy):
    """Send all messages once, as weights, on arrays (F, k); return the seconds."""
    (group,) = energy.tables
    k = energy.n_levels
    table = np.exp(group.log_potentials).reshape(-1, k, k)
    left, right = group.variables.T
    message = np.ones((2, len(table), k))
    own = np.exp(energy.field[0])
    start = time.process_time()
    belief = own.copy()
    np.multiply.at(belief, left, message[0])
    np.multiply.at(belief, right, message[1])
    sent = belief[left] / message[0], belief[right] / message[1]
    message[0] = np.einsum("fab,fb->fa", table, sent[1])
    message[1] = np.einsum("fab,fa->fb", table, sent[0])
    message /= message.max(axis=2, keepdims=True)
    return time.process_time() - start


def pgmax_sweep(energy, method):
    """Send all messages once in PGMax; return the processor time, from runs of 5 and 25 sweeps."""
    import jax
    from pgmax import fgraph, fgroup, vgroup
    from pgmax import infer as pgmax

    (group,) = energy.tables
    field = energy.log_fields()[0]
    variables = vgroup.NDVarArray(num_states=field.shape[1], shape=(energy.n_variables,))
    graph = fgraph.FactorGraph(variable_groups=variables)
    pairs = [[variables[int(v)] for v in pair] for pair in group.variables]
    tables = np.reshape(group.log_potentials, (-1, field.shape[1], field.shape[1]))
    graph.add_factors(fgroup.PairwiseFactorGroup(pairs, np.asarray(tables, np.float32)))
    inferer = pgmax.build_inferer(graph.bp_state, backend="bp")
    temperature = 0.0 if method == "max_product" else 1.0
    begin = inferer.init(evidence_updates={variables: np.asarray(field, np.float32)})

    def spent(n_iter):
        run = jax.jit(
            lambda state: inferer.run(state, num_iters=n_iter, damping=0.0, temperature=temperature)
        )
        jax.block_until_ready(run(begin))  # compiles
        start = time.process_time()
        jax.block_until_ready(run(begin))
        return time.process_time() - start

    return (spent(25) - spent(5)) / 20


def seconds(energy, method, n_iter, n_repeats=3):
    """Return the least processor time of some runs with a fixed number of iterations."""
    found = []
    for _ in range(n_repeats):
        start = time.process_time()
        infer(energy, method, max_iter=n_iter, tol=0)
        found.append(time.process_time() - start)
    return min(found)


def print_rbm_rows(shape, methods):
    """Print the ns of an entry and message of an RBM, and the time of PGMax as a multiple."""
    rng = np.random.default_rng(0)
    parts = 0.05 * rng.normal(size=shape), rng.normal(size=shape[0]), rng.normal(size=shape[1])
    for dtype in (np.float64, np.float32):
        energy = RBMEnergy(*(part.astype(dtype) for part in parts))
        for method in methods:
            sweep = (seconds(energy, method, 25) - seconds(energy, method, 5)) / 20
            other = pgmax_sweep(FactorGraphEnergy.from_energy(energy), method)
            print(
                f"RBM, {np.dtype(dtype)}, {method}: {1e9 * sweep / (8 * np.prod(shape)):.2f} ns, "
                f"PGMax {other / sweep:.1f} times",
                flush=True,
            )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, nargs="+", default=[4, 5, 10, 21])
    parser.add_argument("--side", type=int, default=128, help="side of the lattice")
    parser.add_argument("--methods", nargs="+", default=["sum_product", "max_product"])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--pgmax", action="store_true")
    parser.add_argument("--rbm", type=int, nargs=2, help="numbers of units of an RBM, for PGMax")
    options = parser.parse_args()
    energy = lattice(8, 3, "each")
    for method in options.methods:
        start = time.perf_counter()
        infer(energy, method, max_iter=2)
        print(f"first call of {method}: {time.perf_counter() - start:.1f} s")
    columns = "method", "states", "tables", "sweep (ms)", "message (ns)", "entry (ns)", "NumPy"
    columns += ("PGMax",) * options.pgmax
    print(f"\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for method in options.methods:
        for k in options.states:
            for kind in options.kinds:
                energy = lattice(options.side, k, kind)
                n_messages = 2 * len(energy.tables[0].variables)
                sweep = (seconds(energy, method, 25) - seconds(energy, method, 5)) / 20
                by_numpy = min(numpy_sweep(energy) for _ in range(3))
                message = 1e9 * sweep / n_messages
                other = ""
                if options.pgmax:
                    other = f" {pgmax_sweep(energy, method) / sweep:.0f} times |"
                print(
                    f"| {method} | {k} | {kind} | {1e3 * sweep:.1f} | {message:.0f} | "
                    f"{message / k**2:.2f} | {by_numpy / sweep:.0f} times |{other}",
                    flush=True,
                )
    if options.rbm:
        print_rbm_rows(options.rbm, options.methods)


if __name__ == "__main__":
    main()

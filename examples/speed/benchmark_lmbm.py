"""Speed of the large margin Boltzmann machine, in a single thread.

Compares training with a LinearSVC(loss="hinge") per label with the same C on Scene and Yeast, in
turns, in processor time. Both objectives have the same relative distance from their optimum, which
a long run finds. Also measures the growth with rows and features up to 43907 x 120 with 101 labels,
the shape of Mediamill, on synthetic data; and exact decoding of the test rows and of 101 labels
with couplings of several strengths.

    python -m examples.speed.benchmark_lmbm
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from skcrbm import LMBMClassifier
from skcrbm.datasets import load_scene, load_yeast
from skcrbm.decoding import Posterior
from skcrbm.decoding.rules import resolve_decoder
from skcrbm.energies import IsingEnergy
from skcrbm.inference import BranchAndBound


def seconds(function, repeats):
    """Return the median processor time of calls of a function, and its last result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        times.append(time.process_time() - start)
    return np.median(times), result


def svms(X, Y, C):
    """Return weights (L, D + 1) of a linear SVM per label."""
    weights = []
    for y in Y.T:
        svm = LinearSVC(loss="hinge", C=C, random_state=0).fit(X, y)
        weights.append(np.append(svm.coef_[0], svm.intercept_))
    return np.array(weights)


def svm_objective(X, Y, C, weights):
    """Return the primal objective of the SVMs."""
    fields = X @ weights[:, :-1].T + weights[:, -1]
    loss = np.maximum(1 - (2.0 * Y - 1) * fields, 0).sum()
    return 0.5 * (weights**2).sum() + C * loss


def objective(X, Y, model):
    """Return the primal objective of a machine."""
    signs, S = 2.0 * Y - 1, model.pairwise_coef_
    fields = X @ model.visible_coef_.T + model.visible_intercept_ + signs @ S
    value = 0.5 * ((model.visible_coef_**2).sum() + (model.visible_intercept_**2).sum())
    if model.pairwise_penalty < np.inf:
        value += 0.25 * model.pairwise_penalty * (S**2).sum()
    return value + model.C * np.maximum(1 - signs * fields, 0).sum()


def training(repeats):
    """Print the table of training times: the loosest tol with an excess no worse than theirs."""
    print("| data | C | LinearSVC s | its excess | eta | tol | LMBM s | excess | times faster |")
    print("|---" * 9 + "|")
    for load in (load_scene, load_yeast):
        data = load()
        X, Y = np.asarray(data.X_train, float, order="C"), data.y_train
        name = load.__name__.removeprefix("load_").capitalize()
        for C in (0.01, 0.1, 1.0):
            options = {"C": C, "max_iter": 50_000, "random_state": 0}
            best = LMBMClassifier(pairwise_penalty=np.inf, tol=1e-5, **options).fit(X, Y)
            optimum = svm_objective(
                X, Y, C, np.column_stack([best.visible_coef_, best.visible_intercept_])
            )
            excess = svm_objective(X, Y, C, svms(X, Y, C)) / optimum - 1
            models, excesses = [], []
            for eta in (1, 10, 100, 1e4, np.inf):
                best = LMBMClassifier(pairwise_penalty=eta, tol=1e-5, **options).fit(X, Y)
                optimum = objective(X, Y, best) * (1 - best.dual_gap_)  # a lower bound of it
                for tol in (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5):
                    model = LMBMClassifier(pairwise_penalty=eta, tol=tol, **options).fit(X, Y)
                    if objective(X, Y, model) / optimum - 1 <= excess:
                        break
                models.append(model)
                excesses.append(objective(X, Y, model) / optimum - 1)
            times = []
            for _ in range(repeats):  # in turns, because the machine may have other work
                theirs, _ = seconds(lambda X=X, Y=Y, C=C: svms(X, Y, C), 1)
                mine = [seconds(lambda m=m, X=X, Y=Y: m.fit(X, Y), 1)[0] for m in models]
                times.append([theirs, *mine])
            times = np.array(times)
            ratios = np.median(times[:, :1] / times[:, 1:], axis=0)
            times = np.median(times, axis=0)
            for model, used, ratio, reached in zip(models, times[1:], ratios, excesses):
                print(
                    f"| {name} | {C:g} | {times[0]:.3f} | {excess:.1e} | "
                    f"{model.pairwise_penalty:g} | {model.tol:g} | {used:.3f} | "
                    f"{reached:.1e} | {ratio:.1f} |",
                    flush=True,
                )


def synthetic(n_rows, n_features, n_labels=101):
    """Draw rows with linear labels, few of them on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    weights = rng.normal(size=(n_labels, n_features)) / n_features**0.5
    return X, (X @ weights.T + rng.normal(size=(n_rows, n_labels)) > 1.5).astype(int)


def growth(largest):
    """Print how training time grows with rows and features, at ten passes."""
    n_features = 120
    print("\n| rows | features | labels | s for 10 passes | ns per row and label | gap |")
    print("|---" * 6 + "|")
    shapes = [(largest // 8, n_features * k) for k in (1, 2, 4, 8)]
    shapes += [(largest // k, n_features) for k in (4, 2, 1)]
    for n, d in shapes:
        X, Y = synthetic(n, d)
        n_labels = Y.shape[1]
        model = LMBMClassifier(C=0.01, pairwise_penalty=100, max_iter=10, random_state=0)
        used, _ = seconds(lambda model=model, X=X, Y=Y: model.fit(X, Y), 1)
        each = 1e9 * used / (model.n_iter_ * n * n_labels)
        print(
            f"| {n} | {d} | {n_labels} | {used:.2f} | {each:.0f} | {model.dual_gap_:.1e} |",
            flush=True,
        )
    model = LMBMClassifier(C=0.01, pairwise_penalty=100, max_iter=100, random_state=0)
    used, _ = seconds(lambda: model.fit(X, Y), 1)
    print(
        f"\n{largest} x {n_features} x {n_labels}, tol=1e-4: {used:.0f} s, "
        f"{model.n_iter_} passes, gap {model.dual_gap_:.1e}",
        flush=True,
    )


def decoding():
    """Print the tables of decoding times."""
    print("\n| data | C | eta | rule | s for 1000 rows | rows without a proof |")
    print("|---" * 6 + "|")
    for load in (load_scene, load_yeast):
        data = load()
        name = load.__name__.removeprefix("load_").capitalize()
        for C, eta in ((0.1, 1), (1.0, 1), (0.1, 10), (1.0, 1e4)):
            model = LMBMClassifier(C=C, pairwise_penalty=eta, random_state=0)
            model.fit(data.X_train, data.y_train)
            for rule in ("hinge", "map"):
                model.set_params(decode=rule)
                used, (_, _, gap) = seconds(lambda m=model, X=data.X_test: m.predict_with_gap(X), 3)
                used *= 1000 / len(gap)
                print(f"| {name} | {C:g} | {eta:g} | {rule} | {used:.3f} | {(gap > 0).sum()} |")
    print(
        "\n| labels | sum of a label's couplings | rule | ms per row | without a proof | mean gap |"
    )
    print("|---" * 6 + "|")
    rng = np.random.default_rng(0)
    for strength in (0.2, 0.5, 1.0, 2.0, 4.0):
        S = np.triu(rng.normal(size=(101, 101)), 1)
        S = S + S.T
        S *= strength / np.abs(S).sum(axis=1).mean()
        energy = IsingEnergy(S, rng.normal(loc=-1.0, size=(50, 101)))
        search = BranchAndBound()  # it gives no marginals, and no rule here needs marginals
        posterior = Posterior(
            energy, search, None, np.empty((0, 101)), None, state_methods={"map": search}
        )
        for rule in ("hinge", "map"):
            used, result = seconds(
                lambda p=posterior, rule=rule: resolve_decoder(rule).decode_with_gap(p),
                1,
            )
            print(
                f"| 101 | {strength:g} | {rule} | {1e3 * used / 50:.2f} | "
                f"{(result.gap > 0).mean():.0%} | {result.gap.mean():.2g} |",
                flush=True,
            )


def main():
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=43907, help="of the largest synthetic fit")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        small = load_scene()
        model = LMBMClassifier(max_iter=1, C=0.01, pairwise_penalty=1.0)
        model.fit(small.X_train, small.y_train)  # compile
        for rule in ("hinge", "map"):
            model.set_params(decode=rule).predict(small.X_test[:2])
        training(arguments.repeats)
        decoding()
        growth(arguments.rows)


if __name__ == "__main__":
    main()

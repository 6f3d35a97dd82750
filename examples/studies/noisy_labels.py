"""Train with wrong labels: compare a noise model with the plain fit.

Flips 10 and 20 % of the entries of the training labels at random and fits CRBMClassifier with
default settings, with `NoisyLikelihood`, and on the labels without errors. The test labels have no
errors. The last column is the mean of the flip rates that the fit has found.

    python -m examples.studies.noisy_labels [--sets groups emotions scene yeast]
"""

import argparse
import time

import numpy as np
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler

from examples.studies.label_set_sizes import load
from skcrbm import CRBMClassifier
from skcrbm.datasets import make_structured_labels
from skcrbm.learning import NoisyLikelihood
from skcrbm.metrics import marginal_log_loss

RATES = (0.1, 0.2)


def parts_of(name, data_home, seed):
    """Return the training and test rows of a data set, or of 2000 generated rows."""
    if name in ("groups", "pairs"):
        X, Y = make_structured_labels(2000, structure=name, random_state=seed)
        return X[:1000], Y[:1000], X[1000:], Y[1000:]
    data = load(name, data_home)
    scaler = StandardScaler().fit(data.X_train)
    return scaler.transform(data.X_train), data.y_train, scaler.transform(data.X_test), data.y_test


def rules():
    """Return learning rules by name; None stands for a fit to labels without errors."""
    return {
        'learning="mle"': "mle",
        'NoisyLikelihood("symmetric")': NoisyLikelihood("symmetric"),
        'NoisyLikelihood("per_label")': NoisyLikelihood("per_label"),
        "NoisyLikelihood(the true rate)": "true",
        "labels without errors": None,
    }


def main():
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=None, help="folder of the .npz files")
    parser.add_argument("--sets", nargs="*", default=["groups", "emotions", "scene", "yeast"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in arguments.sets:
        X, Y, X_test, Y_test = parts_of(name, arguments.data_home, arguments.seed)
        for rate in RATES:
            wrong = np.random.RandomState(arguments.seed).random_sample(Y.shape) < rate
            noisy = np.where(wrong, 1 - Y, Y)
            print(
                f"\n| {name}, {rate:.0%} | log-likelihood | log loss | subset accuracy | F1 |",
                end="",
            )
            print(" seconds | rate |\n|---|---|---|---|---|---|---|")
            for title, rule in rules().items():
                learning = NoisyLikelihood(rate) if rule == "true" else rule or "mle"
                start = time.process_time()
                model = CRBMClassifier(learning=learning, random_state=arguments.seed)
                model.fit(X, Y if rule is None else noisy)
                seconds = time.process_time() - start
                likelihood = model.score_samples(X_test, Y_test).mean()
                loss = marginal_log_loss(Y_test, model.predict_proba(X_test))
                subset = model.score(X_test, Y_test)
                model.set_params(decode="expected_f1")
                f1 = f1_score(Y_test, model.predict(X_test), average="samples", zero_division=1)
                found = getattr(model, "flip_rates_", None)
                cell = "" if found is None else f"{found.mean():.3f}"
                print(
                    f"| {title} | {likelihood:.3f} | {loss:.4f} | {subset:.3f} | {f1:.3f} ", end=""
                )
                print(f"| {seconds:.0f} | {cell} |", flush=True)


if __name__ == "__main__":
    main()

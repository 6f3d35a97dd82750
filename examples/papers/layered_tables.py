"""Tables 1 to 8 of Shen et al. (2019): layered graphical models on MNIST and Fashion-MNIST.

Every cell is a single fit, or a fit for each of several seeds (``--seeds``). Cells that would
repeat a finished fit bit for bit take its result ("same_as"). The neural networks with
convolutional and local layers need PyTorch (``pip install ".[papers]"``); without it their cells
are skipped. Finished cells are kept in a CSV file, so the program can be stopped and restarted, or
given a part of the tables. The Markdown tables are made from the file, beside the published
figures. ``--quick`` runs everything on few images to check that it works: its accuracies mean
nothing.

    python -m examples.papers.layered_tables --only "table 4," dense --seeds 3
    python -m examples.papers.layered_tables --n-train 12000 --only "table 5,"
    python -m examples.papers.layered_tables --results doc/layered_tables.csv --no-run
"""

import copy
import importlib.util
import time
import warnings
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from examples._harness import make_parser, rows_of, run_tables
from examples.papers.layered_cd import LayerwiseCD
from skcrbm import LayeredGMClassifier
from skcrbm.datasets import load_fashion_mnist, load_mnist
from skcrbm.inference import TruncatedInference
from skcrbm.layers import Conv2d, Dense, HardClamping, Local2d
from skcrbm.learning import Adam, Backpropagation, EarlyStopping

METHODS = {"LBP": "sum_product", "TRW": "tree_reweighted", "MF": "mean_field"}
SCHEDULES = {"Par": "parallel", "Seq": "sequential"}
STOPPING = EarlyStopping(validation_fraction=0.2, n_iter_no_change=5, refit=False)
LARGE = ("32 colors", "256 colors")  # up to 160 million weights: not in a quick run


def dense(depth=1, n_states=2, n_nodes=100):
    """Return the keyword arguments of a dense net."""
    return {"layers": (Dense(n_nodes, n_states),) * depth}


def grid(kind, first_states=7):
    """Return the keyword arguments of the convolutional or local net of the demonstration."""
    layer = {"conv": Conv2d, "local": Local2d}[kind]
    return {
        "layers": (layer(first_states, 5, 2, padding=1), layer(17, 5, 2), Dense(10, 11)),
        "input_shape": (28, 28),
    }


def seq(method, n_iter=5, **net):
    """Return keyword arguments with a sequential method."""
    return {"inference": TruncatedInference(METHODS[method], n_iter=n_iter), **net}


def cells():
    """Yield (table, row, column, data set, kind of model, keyword arguments, published)."""
    table1 = {
        1: (0.913, 0.096, 0.114, 0.096, 0.097),
        2: (0.911, 0.947, 0.114, 0.114, 0.096),
        3: (0.912, 0.946, 0.937, 0.114, 0.114),
        4: (0.911, 0.941, 0.946, 0.937, 0.098),
        5: (0.912, 0.945, 0.941, 0.936, 0.929),
    }
    for n_iter, row in table1.items():
        for depth, published in enumerate(row):
            # Too few iterations are refused: the output would not see the image.
            kind = "layered" if n_iter > depth else "refused"
            options = seq("LBP", n_iter, **dense(depth), clamping="hard")
            yield 1, f"T={n_iter}", f"{depth} hidden", "mnist", kind, options, published

    yield 2, "LGM", "soft clamp", "mnist", "layered", seq("LBP", **dense()), 0.963
    hard = seq("LBP", **dense(), clamping="hard")
    yield 2, "LGM", "binary threshold", "mnist", "layered", hard, 0.945

    for depth, n_iter, published in (
        (0, 1, 0.910),
        (1, 2, 0.770),
        (1, 5, 0.874),
        (1, 8, 0.879),
        (1, 20, 0.880),
        (2, 5, None),
        (2, 20, None),
        (3, 5, None),
    ):
        for gradient in ("analytic", "backprop"):
            options = seq("LBP", n_iter, **dense(depth), clamping="hard")
            options["learning"] = gradient
            shown = published if gradient == "analytic" else None
            yield 3, f"{depth} hidden, T={n_iter}", gradient, "mnist", "layered", options, shown

    table4 = {
        "MF": (0.952, 0.968, 0.976),  # parallel, the default of mean field
        "SeqMF": (0.951, 0.927, 0.936),
        "ParLBP": (0.962, 0.968, 0.974),
        "SeqLBP": (0.963, 0.970, 0.979),
        "ParTRW": (0.967, 0.982, 0.985),
        "SeqTRW": (0.966, 0.983, 0.984),
        "CD1": (0.938, 0.939, None),
        "CD10": (0.936, 0.935, None),
        "NN(sigmoid)": (0.970, 0.984, 0.983),
        "NN(relu)": (0.973, 0.982, 0.984),
    }
    for row, published in table4.items():
        for net, figure in zip(("dense", "conv", "local"), published):
            structure = dense() if net == "dense" else grid(net)
            if row.startswith("NN"):
                kind, options = "nn", {"activation": row[3:-1], "net": net}
            elif row.startswith("CD"):
                # Probabilities of the layers below vary less than pixels.
                options = {"n_steps": int(row[2:]), "learning_rate": 1.0, "draw_below": False}
                if net == "dense":
                    rates = {"learning_rate": 0.3, "bias_learning_rate": 0.3, "decline": True}
                    options.update(**rates, draw_below=True, n_epochs=30)
                options.update(structure)
                kind = "cd"
                if net == "local":
                    kind = "published"
            else:
                kind = "layered"
                inference = TruncatedInference("mean_field")
                if row != "MF":
                    inference = TruncatedInference(METHODS[row[3:]], SCHEDULES[row[:3]])
                options = {"inference": inference, **structure}
            yield 4, row, net, "mnist", kind, options, figure

    table5 = {
        2: (0.801, None, None),
        4: (0.813, 0.816, 0.817),
        8: (0.804, 0.800, 0.812),
        32: (0.794, 0.790, 0.777),
        256: (0.775, 0.734, 0.725),
    }
    for k, row in table5.items():
        n = int(np.log2(k))
        nets = {"F": dense(), "N": dense(n_nodes=100 * n), "L": dense(n_states=n + 1)}
        for (scaling, net), published in zip(nets.items(), row):
            if published is None:
                continue
            cuts = np.arange(1, k) / k
            options = seq("LBP", **net, clamping=HardClamping(tuple(cuts)))
            yield 5, scaling, f"{k} colors", "fashion_mnist", "layered", options, published
    yield 5, "F", "soft", "fashion_mnist", "layered", seq("LBP", **dense()), 0.865

    table6 = {"conv": (0.884, 0.865, 0.889, 0.894), "local": (0.894, 0.863, 0.894, 0.894)}
    for net, (soft, requantised, sigmoid, relu) in table6.items():
        yield 6, net, "soft", "fashion_mnist", "layered", seq("TRW", **grid(net)), soft
        # 4 colors; a node of the first hidden layer gets 3 states per binary state.
        cuts = HardClamping((0.25, 0.5, 0.75))
        options = seq("TRW", **grid(net, first_states=19), clamping=cuts)
        yield 6, net, "4 colors", "fashion_mnist", "layered", options, requantised
        for name, figure in (("NN(sigmoid)", sigmoid), ("NN(relu)", relu)):
            options = {"activation": name[3:-1], "net": net}
            yield 6, net, name, "fashion_mnist", "nn", options, figure
    for name in ("sigmoid", "relu"):
        options = {"activation": name, "net": "dense"}
        yield 6, "dense", f"NN({name})", "fashion_mnist", "nn", options, None

    partial = {
        (7, "conv", 0.3): (0.952, 0.954, 0.956),
        (7, "local", 0.3): (0.956, 0.951, 0.952),
        (7, "conv", 0.7): (0.978, 0.984, 0.986),
        (7, "local", 0.7): (0.984, 0.983, 0.985),
        (8, "conv", 0.3): (0.828, 0.822, 0.830),
        (8, "local", 0.3): (0.830, 0.822, 0.832),
        (8, "conv", 0.7): (0.862, 0.866, 0.878),
        (8, "local", 0.7): (0.882, 0.879, 0.881),
    }
    for (table, net, visible), figures in partial.items():
        data = "mnist" if table == 7 else "fashion_mnist"
        options = seq("TRW", **grid(net), learning=Backpropagation(label_smoothing=0.1))
        row = f"{net} ({visible})"
        options["visible"] = visible
        yield table, row, "LGM", data, "layered", options, figures[0]
        if net == "local" and (table, visible) != (8, 0.3):  # short with pixels drawn once
            yield table, row, "redrawn", data, "layered", {**options, "redrawn": True}, None
        for name, figure in zip(("NN(sigmoid)", "NN(relu)"), figures[1:]):
            options = {"activation": name[3:-1], "net": net, "visible": visible}
            yield table, row, name, data, "nn", options, None
            # As in the paper, whose networks read 0.5 in place of a hidden pixel, too.
            options = {**options, "label_smoothing": 0.1}
            yield table, row, f"{name}, smoothed labels", data, "nn", options, figure
            if name == "NN(relu)":
                options = {**options, "redrawn": True}
                yield table, row, f"{name}, smoothed labels, redrawn", data, "nn", options, None
    for table, data in ((7, "mnist"), (8, "fashion_mnist")):
        for visible in (0.3, 0.7):
            for name in ("sigmoid", "relu"):
                options = {"activation": name, "net": "dense", "visible": visible}
                yield table, f"dense ({visible})", f"NN({name})", data, "nn", options, None


_CACHE = {}


def load(name, n_train):
    """Return training and test images in [0, 1], float32, with their classes."""
    if name not in _CACHE:
        data = {"mnist": load_mnist, "fashion_mnist": load_fashion_mnist}[name]()
        _CACHE[name] = data
    data = _CACHE[name]
    order = np.random.RandomState(0).permutation(60000)[:n_train]
    n_test = 10000 if n_train >= 2000 else 1000
    return (
        (data.X_train[order] / 255).astype(np.float32),
        data.y_train[order],
        (data.X_test[:n_test] / 255).astype(np.float32),
        data.y_test[:n_test],
    )


def hide(X, visible, seed, fill):
    """Observe each pixel with probability `visible`; put `fill` elsewhere."""
    hidden = np.random.RandomState(seed).random_sample(X.shape) >= visible
    return np.where(hidden, np.float32(fill), X)


def images_of_epoch(X, epoch, visible, seed, fill=np.nan):
    """Return images whose visible pixels are drawn for an epoch; epoch 0: for validation."""
    return hide(X, visible, 10_000 * seed + (1000 + epoch if epoch else 3), fill)


def fit_redrawn(model, X, y, visible, seed=0):
    """Fit to images whose visible pixels change in every epoch; return model and best epoch.

    Stops early as `fit` does, around a `partial_fit` per epoch, but by the loss of the classes
    without label smoothing. The visible pixels of the validation images are drawn once.
    """
    X, X_val, y, y_val = train_test_split(
        X, y, test_size=STOPPING.validation_fraction, stratify=y, random_state=seed
    )
    X_val = images_of_epoch(X_val, 0, visible, seed)
    best, kept, kept_at = np.inf, None, 0
    for epoch in range(1, model.max_iter + 1):
        model.partial_fit(images_of_epoch(X, epoch, visible, seed), y)
        loss = log_loss(y_val, model.predict_proba(X_val))
        print(f"  epoch {epoch}: validation {loss:.4f}", flush=True)
        if loss < best:
            best, kept, kept_at = loss, copy.deepcopy(model), epoch
        elif epoch - kept_at >= STOPPING.n_iter_no_change:
            break
    return kept, kept_at


def network(options, max_iter, seed, device="cpu"):
    """Return the neural network of a cell, which stops as the layered models do."""
    options = dict(options)
    stopping = {
        "validation_fraction": STOPPING.validation_fraction,
        "n_iter_no_change": STOPPING.n_iter_no_change,
    }
    if options["net"] != "dense":
        from examples.papers._layered_networks import ImageNetwork

        stopping.update(max_iter=max_iter, random_state=seed, device=device)
        return ImageNetwork(**options, **stopping)
    return MLPClassifier(
        (100,),
        activation={"sigmoid": "logistic"}.get(options["activation"], options["activation"]),
        alpha=0.0,
        batch_size=20,
        early_stopping=True,
        **stopping,
        tol=0.0,
        max_iter=max_iter,
        random_state=seed,
    )


def run(kind, options, data, max_iter, seed=0, device="cpu"):
    """Fit a cell; return the accuracy on the test images, epochs and seconds.

    The seed draws the parameters, the validation images, the order of the images and the observed
    pixels.
    """
    X, y, X_test, y_test = data
    options = dict(options)
    visible, redrawn = options.pop("visible", None), options.pop("redrawn", False)
    if visible is not None:
        fill = np.nan if kind == "layered" else 0.5
        X_test = hide(X_test, visible, 10_000 * seed + 2, fill)
        if not redrawn:
            X = hide(X, visible, 10_000 * seed + 1, fill)
        elif kind == "nn":
            options["images_of_epoch"] = partial(
                images_of_epoch, visible=visible, seed=seed, fill=fill
            )
    start = time.perf_counter()
    if kind == "layered":
        model = LayeredGMClassifier(
            **options,
            solver=Adam(batch_size=20),
            max_iter=max_iter,
            early_stopping=False if redrawn else STOPPING,
            random_state=seed,
            verbose=1,
        )
    elif kind == "nn":
        model = network(options, max_iter, seed, device)
    else:
        model = LayerwiseCD(**options, max_iter=max_iter, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if redrawn and kind == "layered":
            model, epochs = fit_redrawn(model, X, y, visible, seed)
        else:
            epochs = model.fit(X, y).n_iter_
    seconds = time.perf_counter() - start
    return model.score(X_test, y_test), epochs, seconds


def identity(name, kind, options):
    """Return a text that is equal for cells whose fits are the same, bit for bit."""
    options = {"clamping": "soft", "learning": "backprop", **options}
    if kind == "layered":
        layers = options["layers"]
        inference = options["inference"]
        star = len(layers) == 0 or (len(layers) == 1 and isinstance(layers[0], Dense))
        messages = inference.method != "mean_field"
        if messages and star and options["learning"] == "backprop" and "visible" not in options:
            # Given the image this is a tree: all messages are exact after two iterations.
            options.update(inference="exact")
    return repr((name, kind, sorted(options.items())))


def markdown(done):
    """Return Markdown tables: measured beside published, with the number of images if reduced."""
    lines = []
    every = list(cells())
    for table in sorted({cell[0] for cell in every}):
        mine = [cell for cell in every if cell[0] == table]
        columns = list(dict.fromkeys(cell[2] for cell in mine))
        rows = list(dict.fromkeys(cell[1] for cell in mine))
        lines += [f"### Table {table}", "", f"| | {' | '.join(columns)} |"]
        lines.append("|---" * (len(columns) + 1) + "|")
        for row in rows:
            texts = []
            for column in columns:
                text = ""
                for _, r, c, _, kind, _, published in mine:
                    if (r, c) == (row, column):
                        text = cell_text(done, table, row, column, kind, published)
                texts.append(text)
            lines.append(f"| {row} | {' | '.join(texts)} |")
        lines.append("")
    return "\n".join(lines)


def cell_text(done, table, row, column, kind, published):
    """Return a cell: the fits on the most images, and the published figure in brackets.

    Several seeds are shown by their mean, and their least and greatest accuracy.
    """
    found = [
        r for r in done.values() if (r["table"], r["row"], r["column"]) == (str(table), row, column)
    ]
    shown = "" if published is None else f" ({published:.3f})"
    if kind in ("refused", "published"):
        return ("refused" if kind == "refused" else "") + shown
    if not found:
        return f"not run{shown}"
    n = max(int(r["n_train"]) for r in found)
    values = [float(r["accuracy"]) for r in found if int(r["n_train"]) == n]
    text = f"{np.mean(values):.3f}"
    if len(values) > 1:
        text += f", {min(values):.3f} to {max(values):.3f}"
    size = "" if n == 60000 else f" [{n}]"
    return f"{text}{size}{shown}"


def runs(n_train, max_iter, quick, store, n_seeds=1, device="cpu"):
    """Yield the key of every cell that can be run, and the function that runs it.

    Equal fits with the same number of images, epochs and seed come from the store of finished
    cells.
    """

    def key_of(seed, table, row, column, *_):
        suffix = f", seed {seed}" if seed else ""
        return f"table {table}, {row}, {column}, {n_train} images{suffix}"

    def work(seed, *cell):
        table, row, column, name, kind, options, published = cell
        print(f"  published {published}", flush=True)
        finished = store.read()
        for other in cells():
            twin = finished.get(key_of(seed, *other))
            same = twin and twin["max_iter"] == str(max_iter)
            if same and identity(*other[3:6]) == identity(name, kind, options):
                source = twin.pop("key")
                return {**twin, "table": table, "row": row, "column": column, "same_as": source}
        accuracy, epochs, seconds = run(kind, options, load(name, n_train), max_iter, seed, device)
        return {
            "table": table,
            "row": row,
            "column": column,
            "accuracy": f"{accuracy:.4f}",
            "epochs": epochs,
            "seconds": f"{seconds:.0f}",
            "n_train": n_train,
            "max_iter": max_iter,
            "seed": seed,
            "device": device if kind == "nn" and options["net"] != "dense" else "cpu",
        }

    has_torch = importlib.util.find_spec("torch") is not None
    for seed in range(n_seeds):
        for cell in cells():
            column, kind, options = cell[2], cell[4], cell[5]
            if kind in ("refused", "published") or (quick and column in LARGE):
                continue
            if kind == "nn" and options["net"] != "dense" and not has_torch:
                continue
            yield key_of(seed, *cell), partial(work, seed, *cell)


def main():
    """Run the requested cells that are not finished; write the tables."""
    parser = make_parser(__doc__, "layered_tables", "500 images, a single epoch, 8 colors at most")
    parser.add_argument("--n-train", type=int, default=60000, help="training images, with the 20%%")
    parser.add_argument("--max-iter", type=int, default=100, help="epochs at most")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds of each cell")
    parser.add_argument(
        "--device",
        default="cpu",
        choices=("cpu", "cuda"),
        help="of convolutional and local networks",
    )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.n_train, arguments.max_iter = 500, 1
    store = rows_of(arguments)
    every = runs(
        arguments.n_train,
        arguments.max_iter,
        arguments.quick,
        store,
        arguments.seeds,
        arguments.device,
    )
    run_tables(arguments, every, markdown)


if __name__ == "__main__":
    main()

"""Markdown tables of the finished cells of `pmp_tables`, with the published figures beside them."""

import numpy as np

#: Published log MMD (standard deviation) with 100 sweeps per step and in sampling.
_TWOS_PUBLISHED = {
    "pmp 100": "-5.36 (.06)",
    "gibbs reset 100": "-4.18 (.05)",
    "gibbs pcd 100": "-2.70 (.22)",
    "gibbs pcd 1": "-2.88 (.22)",
}
_SCORES = "log MMD | at .05 | covariance error | worst mean"
_SCORE_COLUMNS = ("log_mmd", "log_mmd_05", "covariance_error", "worst_mean")


def report(done):
    """Return the Markdown text of all tables whose cells are finished."""
    sections = [
        ("four", "Four variables, all coupled at 0.5 (experiment 1)", _four),
        ("log Z", "Log Z from perturbed maxima (experiment 2)", _log_z),
        ("digits", "Small digits, 8 x 8 pixels (ours)", _digits),
        ("deconvolution", "Deconvolution (experiment 6)", _deconvolution),
        ("likelihood", "Likelihood of RBMs of the small digits (appendix B.4)", _likelihood),
        ("twos", "RBM of 250 hidden units on the twos (appendix B.3)", _twos),
        ("zeros", "Ising model of the contours of the zeros (experiment 3)", _zeros),
        ("recovery", "Recovery of couplings (experiment 4)", _recovery),
        ("mnist", "RBM of 500 hidden units on all digits (experiment 5)", _mnist),
    ]
    lines = []
    for prefix, title, table in sections:
        rows = {key: row for key, row in done.items() if key.startswith(f"{prefix} ")}
        if rows:
            lines += [f"### {title}", "", *table(rows), ""]
    return "\n".join(lines)


def _table(header, rows):
    """Return the lines of a table with the header "a | b" and rows of texts."""
    width = header.count("|") + 1
    return [
        f"| {header} |",
        "|---" * width + "|",
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
    ]


def _four(rows):
    def range_of(column, digits):
        values = [float(row[column]) for row in rows.values()]
        return f"{min(values):.{digits}f} to {max(values):.{digits}f}"

    return [
        f"{len(rows)} seeds, least and largest. KL in nats from the truth, 10,000 samples; "
        "samples by PMP at the true coupling are biased, and the learned coupling compensates for "
        "the bias: it belongs to the sampler.",
        "",
        *_table(
            "figure | here",
            [
                ("coupling learned, shared by all pairs", range_of("theta", 3)),
                ("KL to samples by PMP with it", range_of("kl_pmp", 4)),
                ("KL to its Gibbs distribution", range_of("kl_gibbs", 3)),
                (
                    "KL to samples by PMP with the truth, .5",
                    range_of("kl_pmp_truth", 3),
                ),
                ("six free couplings and four fields: mean", range_of("free_mean", 3)),
                ("the same, smallest coupling", range_of("free_min", 3)),
                ("the same, largest coupling", range_of("free_max", 3)),
                ("KL to samples by PMP with them", range_of("kl_free", 4)),
                ("seconds of 200 steps", range_of("seconds", 1)),
            ],
        ),
    ]


def _with_error(row, name):
    return f"{float(row[name]):+.2f} ({float(row[f'{name}_error']):.2f})" if row[name] else ""


def _log_z(rows):
    lattice, random = [], []
    for key, row in rows.items():
        side = int(row["side"])
        if "lattice" in key:
            seconds = f"{row['pmp_seconds']} / {row['mplp_seconds']} / "
            lattice.append(
                (
                    f"{side} x {side}", row["log_z"], _with_error(row, "pmp"),
                    *(_with_error(row, name) for name in ("pmp_same", "mplp", "linear_program")),
                    seconds + row["linear_program_seconds"],
                )
            )  # fmt: skip
        else:
            names = ("pmp", "exact", "mplp", "linear_program")
            seconds = " / ".join(row[f"{name}_seconds"] for name in names if name != "exact")
            random.append((side, *(_with_error(row, n) for n in names), seconds))
    return [
        "Means of perturbed maxima minus log Z, in brackets their standard errors. Cyclic "
        "lattices with couplings of -0.2: 4000 perturbations, and 100 for which MPLP and the "
        "linear program bound the maximum (PMP on the same noise beside them).",
        "",
        *_table(
            "lattice | log Z | PMP | PMP, 100 | MPLP bound | LP bound | seconds",
            lattice,
        ),
        "",
        "Random Ising models, ten perturbations each of 100.",
        "",
        *_table(
            "variables | PMP | exact maximum | MPLP bound | LP bound | seconds PMP / MPLP / LP",
            random,
        ),
    ]


def _at(row, n_sweeps=None):
    """Return four texts of scores, for all numbers of sweeps or for a given number."""
    values = [row[column].split() for column in _SCORE_COLUMNS]
    if n_sweeps is None:
        return [", ".join(part) for part in values]
    k = row["sweeps"].split().index(str(n_sweeps))
    return [part[k] for part in values]


def _references(rows):
    return [
        (row["learner"], *_at(row), "", "") for key, row in rows.items() if " reference " in key
    ]


def _mean_text(values, digits=None):
    """Return the mean of the values, and their range if there are several."""
    values = np.array([float(value) for value in values])
    if np.isnan(values).any():
        return "not kept"
    if digits is None:
        digits = 3 if np.abs(values).max() < 10 else 1
    text = f"{values.mean():.{digits}f}"
    if len(values) > 1:
        text += f" ({values.min():.{digits}f} to {values.max():.{digits}f})"
    return text


def _scores_of_seeds(rows, n_sweeps):
    """Return four texts of scores at a number of sweeps, over the seeds."""
    return [_mean_text(column) for column in zip(*(_at(row, n_sweeps) for row in rows))]


def _cells(rows, words=()):
    """Group the finished cells by their keys without the seed: lists of rows."""
    groups = {}
    for key, row in rows.items():
        if " seed=" in key and all(word in key for word in words):
            groups.setdefault(key.split(" seed=")[0], []).append(row)
    return groups


def _digits(rows):
    lines = []
    for kind, text in (
        (
            "ising",
            "Ising model, 500 full-batch steps of 0.01 (unless a row names another number of "
            "steps), 100 states a step, 50 sweeps.",
        ),
        ("rbm", "RBM of 64 hidden units, 600 steps of 0.01, batches of 100, 50 sweeps."),
    ):
        table = _references(rows)
        for name, cell in _cells(rows, (f" {kind} ",)).items():
            seconds = _mean_text([row["seconds"] for row in cell])
            table.append(
                (
                    name.removeprefix(f"digits {kind} "),
                    *_scores_of_seeds(cell, 50),
                    len(cell),
                    seconds,
                )
            )
        lines += [text, "", *_table(f"samples | {_SCORES} | seeds | seconds", table), ""]
    others = [row for key, row in rows.items() if " damping=" in key]
    if others:
        lines += [
            "The RBM learned and sampled by PMP with other sweeps and damping (average).",
            "",
            *_table(
                f"sweeps | damping | {_SCORES} | seconds",
                [(row["sweeps"], row["damping"], *_at(row), row["seconds"]) for row in others],
            ),
            "",
        ]
    best = [row for key, row in rows.items() if " best " in key]
    if best:
        lines += [
            "The same RBM: each sample is the last state, then the best of the states after 1, 2, "
            ".. sweeps.",
            "",
            *_table(
                f"sweeps | damping | {_SCORES}",
                [(row["sweeps"], row["damping"], *_at(row)) for row in best],
            ),
        ]
    return lines


def _deconvolution(rows):
    chains = {}
    for key, row in rows.items():
        if " gwg " in key:
            chains.setdefault((row["held"], row["cost"], row["sweeps"]), []).append(row)
    settings = ("n_images", "sweeps", "damping", "seed")
    samples = [row for key, row in rows.items() if " gwg " not in key]
    table = [
        (
            *(row[name] for name in (*settings, "explained", "all_off")),
            f"{row['places']} ({row['places_true']})",
            *(row[name] for name in ("prior", "seconds_building", "seconds")),
        )
        for row in sorted(samples, key=lambda row: [float(row[name]) for name in settings])
    ]
    lines = [
        "Five shapes of 6 x 6 pixels for images made of four shapes of 5 x 5; a single sample. "
        "The log-prior of the state, up to a constant, distinguishes true "
        "shapes from single pixels, which also explain all pixels, at many more places.",
        "",
        *_table(
            "images | sweeps | damping | seed | explained, % | all pixels off, % | places (true) | "
            "prior | seconds to build | to sample",
            table,
        ),
    ]
    shown = ("explained", "all_off", "places", "places_true", "prior", "seconds")
    if chains:
        lines += [
            "",
            "Gibbs with gradients over the shapes and places of 30 images, without the outputs of "
            "ANDs and ORs, from a draw of the prior. The cost is the loss of score of a wrong "
            "pixel, 460 in the graph above. If shapes or places are known, the model has four "
            "shapes of 5 x 5 pixels. Means of the seeds, and their range.",
            "",
            *_table(
                "known | cost | sweeps | seeds | explained, % | all pixels off, % | places | true "
                "| prior | seconds",
                [
                    (
                        held or "nothing", cost, n_sweeps, len(cell),
                        *(_mean_text([row[name] for row in cell]) for name in shown),
                    )
                    for (held, cost, n_sweeps), cell in chains.items()
                ],
            ),
        ]  # fmt: skip
    return lines


def _likelihood(rows):
    table = []
    for name, cell in _cells(rows).items():
        scores = zip(*(row["log_mmd"].split() for row in cell))
        annealed = zip(*(row["log_likelihood_ais"].split() for row in cell))
        columns = (*scores, [row["log_likelihood"] for row in cell], *annealed)
        texts = [_mean_text(values, 2) for values in columns]
        table.append((name.removeprefix("likelihood "), *texts))
    return [
        "RBMs of 16 hidden units, learned by 600 steps of 0.01 with batches of 100 and 50 sweeps "
        "(parameters of the last step). Log MMD of samples by the learner's own sampler, and by "
        "Gibbs chains with the same weights. The log-likelihood is the mean over the images under "
        "the Gibbs distribution, with the exact log Z and with estimates of log Z by annealed "
        "importance sampling (AIS) with 100 chains. Means of three seeds, and their range.",
        "",
        *_table(
            "learned by | log MMD, own sampler | Gibbs, 50 sweeps | Gibbs, 1000 | log-likelihood "
            "| AIS, 10 steps | 100 | 1000",
            table,
        ),
    ]


def _learned(rows, prefix, sweeps, published=None):
    """Return the lines of a table: reference rows, then each learner at each number of sweeps."""
    table = [(*row[:5], "", "", "", "") for row in _references(rows)]
    for name, cell in _cells(rows).items():
        for n in sweeps:
            if str(n) not in cell[0]["sweeps"].split():
                continue
            text = name.removeprefix(f"{prefix} ")
            learner = text.split(" plain")[0].replace("-", " ")
            known = (published or {}).get(learner, "") if n == 100 and "plain" in text else ""
            seconds = _mean_text([row["seconds"] for row in cell])
            table.append((text, *_scores_of_seeds(cell, n), n, len(cell), seconds, known))
    return _table(
        f"learned by | {_SCORES} | sweeps of sampling | seeds | seconds | published log MMD", table
    )


def _twos(rows):
    return [
        "1000 steps of Adam at 0.01, batches and states of 50; 1000 samples against 1000 images. "
        "The number behind a learner is its number of sweeps per step.",
        "",
        *_learned(rows, "twos", (25, 100, 500), _TWOS_PUBLISHED),
    ]


def _zeros(rows):
    lines = []
    for side in (16, 30):
        part = {key: row for key, row in rows.items() if key.startswith(f"zeros {side} ")}
        if part:
            lines += [
                f"{side} x {side} pixels, 1000 steps, 100 states, 5923 samples against as many "
                "images.",
                "",
                *_learned(part, f"zeros {side}", (5, 10, 25, 50, 100)),
                "",
            ]
    return lines


def _recovery(rows):
    persistent = []
    table = [
        (key.removeprefix("recovery ").replace(" reference ", ": "), *_at(row), *[""] * 6)
        for key, row in rows.items()
        if " reference " in key
    ]
    for key, cell in _cells(rows).items():
        name = key.removeprefix("recovery ").replace(" persistent", "").removesuffix(" plain")
        columns = ("log_rmse", "log_rmse_zero", "edges")
        (persistent if " persistent " in key else table).append(
            (
                name,
                *_scores_of_seeds(cell, cell[0]["sweeps"]),
                *(_mean_text([row[column] for row in cell]) for column in columns),
                cell[0]["sweeps"],
                len(cell),
                _mean_text([row["seconds"] for row in cell]),
            )
        )
    header = f"learned by | {_SCORES} | log RMSE | of zeros | slope | sweeps | seeds | seconds"
    lines = [
        "All pairs learned by 1000 steps with an L1 penalty of .01, 20 states; scores against "
        "2000 fresh rows. Log RMSE of W, half the couplings, and beside it of the zeros. The "
        "slope is the regression slope, through 0, of learned on true couplings of the true "
        "edges (1 is right). "
        '"printed": the steps of the paper, -1/+1 moments that are not centred, all parameters '
        'from 0; "from data": biases from the half log-odds of the data; "centred": centred '
        "moments, too. The other rows are the estimator, whose fields move four times as fast.",
        "",
        *_table(header, table),
    ]
    if persistent:
        lines += [
            "",
            "10,000 steps unless a row names the 100,000 steps of the paper. The 256 chains "
            "continue, with the given number of single updates per step; PMP starts afresh, with "
            "the states and sweeps of the paper. All methods sample with 50 sweeps.",
            "",
            *_table(header, persistent),
        ]
    return lines


def _mnist(rows):
    return [
        "Plain gradient steps of 0.01, batches of 100, 5000 samples against as many images. The "
        "paper trains for 200 epochs and gives curves alone.",
        "",
        *_learned(rows, "mnist", (25, 100)),
    ]

"""Find label vectors, known labels and rules that contradict each other, and name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import csr_array

from skcrbm.constraints._conditions import Conditions
from skcrbm.constraints._counted_trees import counted_trees, edges_and_counts
from skcrbm.constraints._distributions import Counted, factor_graph, is_possible
from skcrbm.constraints._rules import Hierarchy, LabelNumbers, Rule
from skcrbm.constraints._wide import IntegerProgram, LabelTables
from skcrbm.inference.running import run_inference
from skcrbm.utils.graphs import min_fill
from skcrbm.utils.parallel import row_chunks
from skcrbm.utils.warnings import warn_user

# Number of rows that are checked together, to bound the memory.
_ROWS = 1000
# Largest number of labels that a message about contradictions shows.
_MOST_SHOWN = 8
# If rules overlap too much, a message recommends to keep the n most frequent labels. The number n
# is chosen such that the edges between these labels form a graph of at most this treewidth.
_NARROW = 16


def conditions_of(rules: Sequence[Rule], numbers: LabelNumbers) -> Conditions:
    """Return the conditions of the rules, or raise a ValueError if a rule is invalid."""
    if not isinstance(rules, (list, tuple)):
        example = f"[{rules!r}]" if isinstance(rules, Rule) else "[Implies('a', 'b')]"
        raise ValueError(f"rules should be a list of rules, such as {example}; got {rules!r}")
    conditions = Conditions(numbers.n_labels)
    for rule in rules:
        if not isinstance(rule, Rule):
            raise ValueError(
                f"rules should hold rules of skcrbm.constraints, such as Implies('a', 'b'); got "
                f"{rule!r}"
            )
        rule.add_to(conditions, numbers)
    return conditions


def possible_rows(conditions: Conditions, known: np.ndarray) -> np.ndarray:
    """Return a mask (N,): True for the rows of `known` that do not contradict the rules.

    `known` (N, L) holds the known labels of N rows and NaN for unknown labels. A row does not
    contradict the rules if its unknown labels can be filled in such that all conditions are
    satisfied.
    """
    complete = ~np.isnan(known).any(axis=1)
    found = np.empty(len(known), bool)
    found[complete] = conditions.satisfied(known[complete])
    rest = np.flatnonzero(~complete)
    trees = counted_trees(conditions) if len(rest) else None
    edges, counts = edges_and_counts(conditions)
    for part in row_chunks(len(rest), _ROWS):
        held = known[rest[part]]
        if trees is not None:
            found[rest[part]] = Counted(part, trees, np.zeros(held.shape), held).possible()
        elif not counts and not conditions.tables:
            found[rest[part]] = _possible_by_edges(edges, held)
        else:
            found[rest[part]] = _possible_by_search(conditions, held)
    return found


def _any_allowed(conditions):
    """Return True if some label vector satisfies the conditions.

    The answer comes from variable elimination or, if this is too expensive, from a search.
    """
    try:
        return is_possible(conditions)
    except ValueError:  # too wide for elimination
        return IntegerProgram(conditions).best(np.zeros(conditions.n_labels)) is not None


def _possible_by_edges(edges, known):
    """Return a mask (n,): False for rows in which a label is known as 0 and a descendant as 1."""
    parents, children = np.array(sorted(edges)).T
    n_labels = known.shape[1]
    above = csr_array((np.ones(len(edges), np.float32), (parents, children)), (n_labels, n_labels))
    on = (known == 1).T
    while True:
        more = on | (above @ on.astype(np.float32) > 0)
        if (more == on).all():
            return ~(on & (known == 0).T).any(axis=0)
        on = more


def _possible_by_search(conditions, known):
    """Return a mask (n,): True if some label vector has the known labels and violates no condition.

    The search finds the label vector with the lowest cost, which must be 0. Each violated condition
    costs 1, and each label that differs from its known value costs more than all violations
    together.
    """
    n_tables = len(conditions.factor_tables()[1])
    reward = (n_tables + 1.0) * np.where(known == 1, 1, np.where(known == 0, -1, 0))
    energy = factor_graph(conditions, reward, forbidden=-1.0)
    try:
        best = energy.score(run_inference(energy, "exact", returns="map").assignment)
    except ValueError:  # too wide for elimination
        program, weights = IntegerProgram(conditions), np.zeros(conditions.n_labels)
        return np.array([program.best(weights, row) is not None for row in known])
    return np.maximum(reward, 0).sum(axis=1) - best < 0.5  # number of violations


def contradiction(rules: Sequence[Rule], numbers: LabelNumbers, known: np.ndarray) -> str:
    """Describe known labels (L,) that contradict each other, and the rules that they violate."""

    def fails(part):
        return not possible_rows(conditions_of(part, numbers), known[None])[0]

    needed = _smallest(list(rules), fails)
    conditions = conditions_of(needed, numbers)

    def labels_fail(labels):
        held = np.full_like(known, np.nan)
        held[labels] = known[labels]
        return not possible_rows(conditions, held[None])[0]

    labels = _smallest(np.flatnonzero(~np.isnan(known)).tolist(), labels_fail)
    shown = {_plain(numbers.names[i]): int(known[i]) for i in sorted(labels)[:_MOST_SHOWN]}
    values = ", ".join(f"{name!r}: {value}" for name, value in shown.items())
    more = f" and {len(labels) - _MOST_SHOWN} more" if len(labels) > _MOST_SHOWN else ""
    return f"the labels {{{values}}}{more} contradict {'; '.join(map(str, needed))}"


def _plain(name):
    """Return the name as a plain Python object, which messages show in fewer characters."""
    return name.item() if isinstance(name, np.generic) else name


def violations_message(rules, numbers, visible, possible) -> str:
    """Return the text of the warning of `fit` about rows of y that violate the rules.

    `possible` (N,) is False for these rows.
    """
    row = int(np.flatnonzero(~possible)[0])
    text = (
        f"{(~possible).sum()} of {len(visible)} rows of y violate the rules by their known labels "
        "and have probability 0 under the fitted model. For example, in row "
        f"{row} of y {contradiction(rules, numbers, visible[row])}"
    )
    if any(isinstance(rule, Hierarchy) for rule in rules):
        text += ". An edge of a Hierarchy is a pair (parent, child), or an entry {child: parent}"
    return text


def require_consistent(rules, numbers, conditions, visible) -> bool:
    """Raise a ValueError if the rules contradict each other; return True if answers are exact.

    If the rules overlap too much for elimination, a warning tells the user which labels or rules to
    leave out, in order to get exact answers. A ValueError is raised if, in addition, implications
    form a cycle.
    """
    try:
        possible, is_exact = is_possible(conditions), True
    except ValueError as error:
        advice = (
            f"rules overlap too much for exact answers; {_advice(conditions, visible)}. Cause: "
            f"{str(error).split('; the limit')[0]}"
        )
        try:
            LabelTables(conditions)
        except ValueError as cycle:
            raise ValueError(f"{advice}. {cycle}") from error
        possible, is_exact = _any_allowed(conditions), False
        if possible:
            warn_user(
                f"{advice}. Best label vectors now come from integer programs, and probabilities "
                "and samples are estimates from draws (is_exact_ is False)"
            )
    if possible:
        return is_exact

    def fails(part):
        return not _any_allowed(conditions_of(part, numbers))

    named = "; ".join(map(str, _smallest(list(rules), fails)))
    raise ValueError(f"rules contradict each other: no label vector satisfies {named}")


def _advice(conditions, visible):
    """Return advice for the user whose rules overlap too much for exact answers.

    `visible` (N, L) holds the labels of y in `fit`; the most frequent labels are found from it.
    """
    edges, counts = edges_and_counts(conditions)
    if counts or conditions.tables:
        return "leave out rules that share many labels with other rules, or shorten them"
    order = np.argsort(-np.nan_to_num(visible).sum(axis=0), kind="stable")
    n_kept = len(order)
    while n_kept > 1:
        kept = set(order[:n_kept].tolist())
        inner = [edge for edge in edges if kept.issuperset(edge)]
        search = min_fill(inner, kept)
        if search.complete and search.width <= _NARROW:
            break
        n_kept = n_kept * 3 // 4
    return (
        "many labels of the hierarchy have several parents. Keep fewer labels of y, with the edges "
        f"between them: the {n_kept} labels that are on in the most rows of y are possible. Or "
        "keep one parent of each label, which makes a tree: trees of any size are possible"
    )


def _smallest(items: list, fails: Callable[[list], bool]) -> list:
    """Return a minimal sublist of `items` for which `fails` is True.

    `fails` must be True for the whole list, and for any list that contains a failing sublist. The
    result is minimal: if any of its items is removed, `fails` is False.
    """
    needed: list = []
    while not fails(needed):
        low, high = 1, len(items)
        while low < high:  # find the shortest beginning that fails together with `needed`
            middle = (low + high) // 2
            low, high = (low, middle) if fails(needed + items[:middle]) else (middle + 1, high)
        needed.append(items[low - 1])
        items = items[: low - 1]
    return needed

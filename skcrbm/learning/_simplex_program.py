"""Small quadratic programs over the simplex, by an active set."""

import numpy as np

# Of the mean square of the active planes: what keeps a system of dependent ones solvable.
_RIDGE = 1e-13
# Of the offsets: no smaller scale is needed, and all stays finite where planes have no slope.
_LEAST_UNIT = 1e-30
# Slopes closer to the highest than that, relatively, are not worth another step.
_SLOPE = 1e-12


def maximise_over_simplex(gram, offset, start):
    """Maximise ``offset.a - 1/2 a'(gram)a`` over a >= 0 with a sum of 1.

    Each step goes to the maximum on the face of the active variables, or as far as all stay
    positive. A variable whose slope is above that of the active ones becomes active, one that
    arrives at 0 rests. It ends at the maximum, up to rounding.

    Parameters
    ----------
    gram : ndarray (K, K)
        Symmetric, positive semidefinite.
    offset : ndarray (K,)
    start : ndarray (K,)
        A point of the simplex.

    Returns
    -------
    ndarray (K,)
    """
    point = start.copy()
    active = point > 0
    best = _value(gram, offset, point), point
    for _ in range(10 * len(offset) + 100):
        index = np.flatnonzero(active)
        target = _face_maximum(gram[np.ix_(index, index)], offset[index])
        falling = target < 0
        if falling.any():
            here = point[index]
            reach = here[falling] / (here[falling] - target[falling])
            moved = here + reach.min() * (target - here)
            moved[np.flatnonzero(falling)[reach == reach.min()]] = 0.0
            point[index] = np.maximum(moved, 0.0)
            active[index] = point[index] > 0
        else:
            point[index] = target
            slope = offset - gram @ point
            level = slope @ point
            rival = int(slope.argmax())
            size = np.abs(offset).max() + np.abs(level)
            if active[rival] or slope[rival] <= level + _SLOPE * size:
                break
            active[rival] = True
        if not active.any():
            break
        point /= point.sum()
        value = _value(gram, offset, point)
        if value > best[0]:
            best = value, point.copy()
    value = _value(gram, offset, point)
    return point if value > best[0] else best[1]


def _value(gram, offset, point):
    return offset @ point - 0.5 * (point @ gram @ point)


def _face_maximum(gram, offset):
    """Maximum over the points with a sum of 1, negative ones included."""
    n = len(offset)
    unit = max(np.trace(gram) / n, _LEAST_UNIT * np.abs(offset).max(), np.finfo(float).tiny)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram / unit
    system[np.arange(n), np.arange(n)] += _RIDGE
    system[n, :n] = system[:n, n] = 1.0
    return np.linalg.solve(system, np.append(offset / unit, 1.0))[:n]

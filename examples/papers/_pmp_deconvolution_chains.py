"""Gibbs with gradients in experiment 6 of Lazaro-Gredilla et al. (2021)."""

import time

import numpy as np
from numba import njit

from examples.papers._pmp_deconvolution import (
    N_FEATURES,
    P_FEATURE,
    P_LOCATION,
    SIZE,
    row_of_state,
)
from examples.papers._pmp_pictures import log_odds, make_deconvolution

_LOCATION_ODDS, _FEATURE_ODDS = log_odds(P_LOCATION), log_odds(P_FEATURE)
#: Logarithms of weights that are this far below the largest count as weight 0.
_NEGLIGIBLE = 40.0


@njit(cache=True)
def _location_gain(images, locations, shapes, count, cost, n, f, a, b):
    """Return how much the score grows if location (n, f, a, b) flips."""
    on = locations[n, f, a, b]
    gain = -_LOCATION_ODDS if on else _LOCATION_ODDS
    for i in range(shapes.shape[1]):
        for j in range(shapes.shape[2]):
            if shapes[f, i, j] and count[n, a + i, b + j] == on:
                gain += cost if images[n, a + i, b + j] != on else -cost
    return gain


@njit(cache=True)
def _gains_in_image(images, locations, shapes, count, cost, n, gains):
    """Write the gains in the pixels of image n of flips of the pixels of all shapes."""
    gains[:] = 0
    for f in range(locations.shape[1]):
        for a in range(locations.shape[2]):
            for b in range(locations.shape[3]):
                if locations[n, f, a, b]:
                    for i in range(shapes.shape[1]):
                        for j in range(shapes.shape[2]):
                            on = shapes[f, i, j]
                            if count[n, a + i, b + j] == on:
                                right = images[n, a + i, b + j] != on
                                gains[f, i, j] += cost if right else -cost


@njit(cache=True)
def _flip(images, locations, shapes, count, cost, place, gains, parts):
    """Flip a variable, and update the counts and gains that depend on it.

    place is the index (n, f, a, b) of a location, or -1 and the index of a pixel of a shape.
    """
    n, f, a, b = place
    n_images, n_shapes, height, width = locations.shape
    size = shapes.shape[1]
    if n >= 0:
        locations[n, f, a, b] ^= 1
        step = 2 * locations[n, f, a, b] - 1
        count[n, a : a + size, b : b + size] += step * shapes[f]
        first, last = n, n + 1
        top, bottom = max(0, a - size + 1), min(height, a + size)
        left, right = max(0, b - size + 1), min(width, b + size)
    else:
        shapes[f, a, b] ^= 1
        step = 2 * shapes[f, a, b] - 1
        count[:, a : a + height, b : b + width] += step * locations[:, f]
        first, last, top, bottom, left, right = 0, n_images, 0, height, 0, width
    for m in range(first, last):
        _gains_in_image(images, locations, shapes, count, cost, m, parts[m])
        for g in range(n_shapes):
            for r in range(top, bottom):
                for c in range(left, right):
                    gains[m, g, r, c] = _location_gain(
                        images, locations, shapes, count, cost, m, g, r, c
                    )


@njit(cache=True)
def _weights(gains, parts, shapes, free, weight):
    """Write exp(D / 2) of each variable, divided by the largest; return the log of their sum.

    free holds whether locations and shapes may flip. Held variables have weight 0.
    """
    n_locations = gains.size
    weight[:n_locations] = gains.ravel()
    prior = np.where(shapes == 1, -_FEATURE_ODDS, _FEATURE_ODDS)
    weight[n_locations:] = (prior + parts.sum(axis=0)).ravel()
    if not free[0]:
        weight[:n_locations] = -np.inf
    if not free[1]:
        weight[n_locations:] = -np.inf
    largest, total = weight.max(), 0.0
    for k in range(len(weight)):
        log_weight = 0.5 * (weight[k] - largest)
        weight[k] = np.exp(log_weight) if log_weight > -_NEGLIGIBLE else 0.0
        total += weight[k]
    return 0.5 * largest + np.log(total)


@njit(cache=True)
def _place(k, locations, shapes):
    """Return the index of the k-th variable, as `_flip` takes it."""
    _, n_shapes, height, width = locations.shape
    if k < locations.size:
        a, b, k = k // width % height, k % width, k // (height * width)
        return k // n_shapes, k % n_shapes, a, b
    k, size = k - locations.size, shapes.shape[1]
    return -1, k // size**2, k // size % size, k % size


@njit(cache=True)
def gradient_steps(images, locations, shapes, cost, free, u):
    """Take a step of Gibbs with gradients for each row of u (T, 2); change the state in place.

    A step draws a variable with probability proportional to exp(D / 2), where D is the gain of the
    score if it flips, and accepts by the sums of these weights before and after the flip.

    Parameters
    ----------
    images : ndarray of int64 (n, H, W)
        0/1 images. The score loses `cost` for each pixel that differs from them.
    locations : ndarray of int64 (n, F, h, w)
    shapes : ndarray of int64 (F, k, k)
    cost : float
    free : (bool, bool)
        Whether locations, and pixels of shapes, may flip.
    u : ndarray (T, 2)
        Uniform random numbers.
    """
    count = np.zeros(images.shape, np.int64)
    height, width = locations.shape[2:]
    for f in range(len(shapes)):
        for i in range(shapes.shape[1]):
            for j in range(shapes.shape[2]):
                if shapes[f, i, j]:
                    count[:, i : i + height, j : j + width] += locations[:, f]
    gains = np.zeros(locations.shape)
    parts = np.zeros((len(images), *shapes.shape))
    weight, other = np.empty(gains.size + shapes.size), np.empty(gains.size + shapes.size)
    state = images, locations, shapes, count, cost
    for _ in range(2):  # a flip of a pixel and back computes all gains
        _flip(*state, (-1, 0, 0, 0), gains, parts)
    total = _weights(gains, parts, shapes, free, weight)
    for t in range(len(u)):
        left, k = u[t, 0] * weight.sum(), 0
        for m in range(len(weight)):
            if weight[m] > 0:
                k = m
                left -= weight[m]
                if left < 0:
                    break
        place = _place(k, locations, shapes)
        _flip(*state, place, gains, parts)
        new = _weights(gains, parts, shapes, free, other)
        if u[t, 1] < np.exp(min(0.0, total - new)):
            weight, other, total = other, weight, new
        else:
            _flip(*state, place, gains, parts)


def deconvolve_by_gradients(n_images, n_sweeps, held, cost, seed):
    """Run a chain of Gibbs with gradients over shapes and places; return its row.

    The states are the states that `deconvolve` draws, without the outputs of ANDs and ORs, which
    the shapes and places determine: in the whole graph every flip of a single place or pixel
    breaks ANDs. A sweep has as many steps as there are places and pixels of shapes.

    Parameters
    ----------
    n_images, n_sweeps : int
    held : {"", "shapes", "places"}
        Variables that keep their true values. If there are such variables, the model has the four
        shapes of 5 x 5 pixels that make the images, otherwise five of 6 x 6 as `deconvolve` has.
    cost : float
        Loss of score of a wrong pixel: 460 in the graph of `deconvolve`.
    seed : int
        Seed of the images and of the chain, which begins at a draw from the prior.
    """
    images, features, true = make_deconvolution(n_images, random_state=seed)
    rng = np.random.RandomState(seed)
    n_shapes, size = (len(features), len(features[0])) if held else (N_FEATURES, SIZE)
    side = images.shape[1] - size + 1
    locations = rng.uniform(size=(n_images, n_shapes, side, side)) < P_LOCATION
    shapes = rng.uniform(size=(n_shapes, size, size)) < P_FEATURE
    locations = (true if held == "places" else locations).astype(np.int64)
    shapes = (features if held == "shapes" else shapes).astype(np.int64)
    images, free = images.astype(np.int64), (held != "places", held != "shapes")
    n_steps = (locations.size if free[0] else 0) + (shapes.size if free[1] else 0)
    started = time.process_time()
    for _ in range(n_sweeps):
        u = rng.uniform(size=(n_steps, 2))
        gradient_steps(images, locations, shapes, cost, free, u)
    seconds = time.process_time() - started
    return {
        "seed": seed,
        "n_images": n_images,
        "sweeps": n_sweeps,
        "learner": "gwg",
        "held": held,
        "cost": cost,
        **row_of_state(images, true, locations, shapes),
        "seconds": f"{seconds:.1f}",
    }

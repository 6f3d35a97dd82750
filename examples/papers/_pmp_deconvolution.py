"""Experiment 6 of Lazaro-Gredilla et al. (2021): shapes and places that make up images."""

import time

import numpy as np

from examples.papers._pmp_pictures import (
    deconvolution_energy,
    log_odds,
    make_deconvolution,
    painted,
)
from skcrbm.inference import PerturbAndMaxProduct, sample

N_FEATURES, SIZE = 5, 6
P_LOCATION, P_FEATURE = 0.01, 0.25


def deconvolve(n_images, n_sweeps, damping, seed):
    """Draw a sample of shapes and places, and count the pixels that they explain.

    As in the paper, messages from ANDs to places and shapes are damped, and messages to and from
    pixels belong to the same sweep. Shapes of single pixels that lie everywhere also explain all
    pixels; `prior`, the log-prior of the state up to a constant, distinguishes them from a true
    solution.
    """
    images, _, true = make_deconvolution(n_images, random_state=seed)
    started = time.process_time()
    energy = deconvolution_energy(
        images.astype(np.float32), N_FEATURES, SIZE, P_LOCATION, P_FEATURE
    )
    built = time.process_time()
    method = PerturbAndMaxProduct(max_iter=n_sweeps, damping=damping)
    state = sample(energy, method, n_samples=1, random_state=seed)[0, 0]
    seconds = time.process_time() - built
    side = images.shape[1] - SIZE + 1
    shape = n_images, N_FEATURES, side, side
    first = np.prod(shape)
    locations = state[:first].reshape(shape)
    features = state[first : first + N_FEATURES * SIZE**2].reshape(N_FEATURES, SIZE, SIZE)
    return {
        "seed": seed,
        "n_images": n_images,
        "sweeps": n_sweeps,
        "damping": damping,
        **row_of_state(images, true, locations, features),
        "seconds_building": f"{built - started:.1f}",
        "seconds": f"{seconds:.1f}",
    }


def row_of_state(images, true, locations, features):
    """Return columns of a state: pixels that it explains, its places and its log-prior."""
    prior = locations.sum() * log_odds(P_LOCATION) + features.sum() * log_odds(P_FEATURE)
    return {
        "explained": f"{100 * (painted(locations, features) == (images == 1)).mean():.2f}",
        "all_off": f"{100 * (1 - images.mean()):.2f}",
        "places": int(locations.sum()),
        "places_true": int(true.sum()),
        "prior": f"{prior:.0f}",
        "features": " ".join("".join(map(str, part.ravel())) for part in features),
    }


def draw_features(figure, text):
    """Draw the shapes of a row side by side."""
    for axis, part in zip(figure.subplots(1, N_FEATURES), text.split(), strict=True):
        axis.imshow(np.array(list(part), int).reshape(SIZE, SIZE), cmap="gray_r", vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])

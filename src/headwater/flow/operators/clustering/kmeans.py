"""k-means over a stream (pure): centres that move with every window of points, and forget what was long ago.

A centre has a weight, that of the points it is made from. From one window to the next weights fade by half in every
half-life. Each point of a window goes to the centre nearest to it before any has moved; then every centre moves to the
mean of what it was, with its weight, and its new points. While there are fewer centres than asked for, points far from
all of them become new ones, and centres and points are matched until that changes no more. Nothing is left to chance.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
ROUNDS_MAX = 20
DEAD = 1e-8
"""Of the largest weight: a centre with less has nothing to say, and becomes a half of the largest."""


@dataclass(frozen=True)
class Model:
    """As of the end of the last window it has learned from."""

    until_us: int
    centres: Numbers
    weights: Numbers


def learned(model: Model | None, points: Numbers, until_us: int, *, k: int, half_life_us: int | None) -> Model:
    """The model after one more window, whose points have one row each; None is a model of nothing."""
    if model is None:
        model = Model(until_us, np.empty((0, points.shape[1])), np.empty(0))
    faded = 1.0 if half_life_us is None else 0.5 ** ((until_us - model.until_us) / half_life_us)
    weights = model.weights * faded
    if not len(points):
        return Model(until_us, model.centres, weights)
    seeds = _seeds(model.centres, points, k)
    centres, weights = np.concatenate([model.centres, seeds]), np.concatenate([weights, np.zeros(len(seeds))])
    moved, heavier = _moved(centres, weights, points, rounds=ROUNDS_MAX if len(seeds) else 1)
    return Model(until_us, *_revived(moved, heavier))


def distances(centres: Numbers, points: Numbers) -> Numbers:
    """Squared, a row for each centre."""
    found = [((points - centre) ** 2).sum(axis=1) for centre in centres]
    return np.array(found).reshape(len(centres), len(points))


def _seeds(centres: Numbers, points: Numbers, k: int) -> Numbers:
    """Points to begin with: the one next to the mean, then each time the one farthest from all centres."""
    found: list[Numbers] = []
    if not len(centres):
        found.append(points[np.argmin(distances(points.mean(axis=0)[None], points)[0])])
    near = distances(np.concatenate([centres, np.array(found).reshape(-1, points.shape[1])]), points).min(axis=0)
    while len(centres) + len(found) < k and near.max() > 0:
        found.append(points[np.argmax(near)])
        near = np.minimum(near, distances(found[-1][None], points)[0])
    return np.array(found).reshape(-1, points.shape[1])


def _moved(centres: Numbers, weights: Numbers, points: Numbers, *, rounds: int) -> tuple[Numbers, Numbers]:
    """Centres and weights with the points of a window."""
    owners = np.full(len(points), -1)
    moved, heavier = centres, weights
    for _ in range(rounds):
        nearest = distances(moved, points).argmin(axis=0)
        if (nearest == owners).all():
            break
        owners = nearest
        counts = np.bincount(owners, minlength=len(centres))
        sums = [np.bincount(owners, column, len(centres)) for column in points.T]
        heavier = weights + counts
        whole = centres * weights[:, None] + np.array(sums).T
        moved = np.where((counts > 0)[:, None], whole / np.where(counts > 0, heavier, 1.0)[:, None], centres)
    return moved, heavier


def _revived(centres: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    largest, smallest = int(weights.argmax()), int(weights.argmin())
    if weights[smallest] >= DEAD * weights[largest]:
        return centres, weights
    centres, weights = centres.copy(), weights.copy()
    apart = 1e-9 * np.maximum(np.abs(centres[largest]), 1.0)
    centres[smallest], centres[largest] = centres[largest] - apart, centres[largest] + apart
    weights[[smallest, largest]] = (weights[smallest] + weights[largest]) / 2
    return centres, weights

"""Contrast centres: a few rewritings of a question that stand for all of them (Cheng et al. 2025).

Adaptive clustering by a Dirichlet process mixture, as in their section 5. Deviation: the question
itself is always a centre, in place of the member nearest the mean of its own component; and their
selection of inputs (IDS) comes before it only where it is asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.types import Prompt

CLUSTERED_FROM = 4  # fewer candidates are all centres
MOST = 8  # components, and so centres; two to four are usual
# The priors: chosen so that two to four made-up groups six spreads apart are found among 8 to 21
# candidates, in many dimensions or on a line, and real rewritings, which hardly form groups, give
# one to five. More dimensions or narrower components make each of these a group of its own.
_DIMENSIONS = 4
_SPREAD = 0.5  # expected variance of a component, of that of all candidates
_MEANS = 0.1  # the prior's precision in the means, in candidates: less, and they may lie further
_STARTS = 5  # the best of so many fits: one may end in a poor local optimum

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Centres:
    """The candidates `texts` of a question, itself first, and which of them are its centres.

    `chosen` are indices into `texts`, 0 the first of them; `component` tells of each candidate
    which group it is in, the question's being 0. `coordinates` are each candidate's first two
    principal components, none where there was nothing to cluster.
    """

    texts: tuple[str, ...]
    chosen: tuple[int, ...]
    component: tuple[int, ...]
    coordinates: tuple[tuple[float, float], ...] = ()

    @property
    def centres(self) -> tuple[str, ...]:
        """The chosen texts, the question first."""
        return tuple(self.texts[i] for i in self.chosen)


def candidates(row: Prompt) -> tuple[str, ...]:
    """The question and its paraphrases, each once; case and white space make no difference."""
    found: dict[str, str] = {}
    for text in (row.question, *filter(str.strip, row.paraphrases)):
        found.setdefault(" ".join(text.split()).casefold(), text)
    return tuple(found.values())


def contrast_centres(
    texts: Sequence[str], vectors: NDArray[np.floating], *, seed: int = 0
) -> Centres:
    """Cluster the candidates of one question, itself first; `vectors` [n, d] say what they mean.

    Fewer than four are all centres, and their vectors are not read. Otherwise one centre for each
    occupied component, at most eight: the candidate nearest its mean, the question for its own.
    The same for the same seed, in whatever order the rewritings come. Raises InputError for
    vectors of another number or that are not finite. Needs scikit-learn.
    """
    texts = tuple(texts)
    if len(texts) < CLUSTERED_FROM:
        every = tuple(range(len(texts)))
        return Centres(texts, chosen=every, component=every)
    _require_vectors(texts, vectors)
    order = sorted(range(len(texts)), key=texts.__getitem__)
    back = np.argsort(order)
    points = _principal(np.asarray(vectors, dtype=np.float64)[order])
    labels, means = _components(points, seed)
    gaps = np.linalg.norm(points - means[labels], axis=1)[back]
    points, component = points[back], labels[back].tolist()
    nearest: dict[int, int] = {}
    for i in sorted(range(len(texts)), key=lambda i: (gaps[i], texts[i])):
        nearest.setdefault(component[i], i)
    nearest[component[0]] = 0
    numbers = {label: number for number, label in enumerate(dict.fromkeys(component))}
    plane = np.zeros((len(texts), 2))
    plane[:, : points.shape[1]] = points[:, :2]
    return Centres(
        texts,
        chosen=tuple(sorted(nearest.values())),
        component=tuple(numbers[label] for label in component),
        coordinates=tuple((x, y) for x, y in plane.tolist()),
    )


def _principal(vectors: Array) -> Array:
    """The first principal components of the rows that are not 0, [n, at most 4]."""
    left, sizes, _ = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    rounding = np.finfo(np.float32).eps * np.abs(vectors).max() * len(vectors)
    kept = min(_DIMENSIONS, int((sizes > rounding).sum()))
    found: Array = left[:, :kept] * sizes[:kept]
    return found


def _components(points: Array, seed: int) -> tuple[NDArray[np.intp], Array]:
    """The component of each point, and the mean of each component."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    dimensions = points.shape[1]
    if not dimensions:  # all of them mean the same
        return np.zeros(len(points), dtype=np.intp), points[:1]
    mixture = BayesianGaussianMixture(
        n_components=min(len(points), MOST),
        covariance_type="diag",
        weight_concentration_prior_type="dirichlet_process",
        degrees_of_freedom_prior=dimensions,
        mean_precision_prior=_MEANS,
        # scikit-learn divides it by the degrees of freedom. Its default, unlike this, expects
        # components so narrow that all of them are occupied, whatever the points.
        covariance_prior=np.full(dimensions, dimensions * _SPREAD * points.var(0, ddof=1).mean()),
        n_init=_STARTS,
        max_iter=500,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough mixture is good enough
        labels: NDArray[np.intp] = mixture.fit_predict(points)
    return labels, mixture.means_


def _require_vectors(texts: Sequence[str], vectors: NDArray[np.floating]) -> None:
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(
            f"`vectors` must have one row for each of {len(texts)} texts, got shape "
            f"{vectors.shape}. Embed the same texts."
        )
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise InputError(
            f"the embedding of {texts[bad[0]][:60]!r} is not finite. Use another embedder."
        )

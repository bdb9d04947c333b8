"""Contrast centres: a few representative rewritings of a question (Cheng et al. 2025).

The rewritings are clustered by a Dirichlet process mixture, as in section 5 of the paper.
There are two deviations from the paper. The question itself is always a centre, in place of the
candidate nearest to the mean of its component. The paper's selection of inputs (IDS, algorithm 2)
precedes clustering only if the settings request IDS. `leakbound.inputs.select` implements IDS. It
uses answers of the model before training, at T = 1 without truncation. Centres are chosen once,
before training, and stored with the trained model.

The priors were chosen for two properties. First, two to four synthetic groups among 8 to 21
candidates are found if the groups are six standard deviations apart, both in many dimensions and on
a line. Second, real rewritings, which hardly form groups, result in one to five components. With
more dimensions or narrower components, each rewriting becomes a component.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakbound.engines.hf import TransformersEngine
from leakbound.errors import InputError, needing
from leakbound.inputs import SELECTION, select
from leakbound.objective import Objective
from leakbound.store.trained import CENTRES, read_object
from leakbound.types import Draws, Embed, Prompt, Query, Sample
from leakbound.unlearning.probe import answered
from leakbound.unlearning.recipe import Recipe
from leakbound.unlearning.rows import Questions, splits_with
from leakbound.unlearning.settings import ModelAnswers
from leakbound.unlearning.work_folder import stored_json

CLUSTERED_FROM = 4  # if there are fewer candidates, all are centres
MOST = 8  # largest number of components and of centres; two to four are typical
_DIMENSIONS = 4
_SPREAD = 0.5  # expected variance of a component, as a fraction of the variance of all candidates
_MEANS = 0.1  # the prior's precision of the means, in candidates; less allows larger distances
_STARTS = 5  # fits, of which the best is used: a fit may end in a poor local optimum

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Centres:
    """The candidates of a question, and the centres that were chosen among them.

    `texts` are the candidates; the first is the question. `chosen` are the indices of the centres
    in `texts`; the first is 0. `component` is the group of each candidate; the question's group is
    0. `coordinates` are each candidate's first two principal components. They are empty if nothing
    was clustered.
    """

    texts: tuple[str, ...]
    chosen: tuple[int, ...]
    component: tuple[int, ...]
    coordinates: tuple[tuple[float, float], ...] = ()


def candidates(row: Prompt) -> tuple[str, ...]:
    """Return the question and its paraphrases without repeats; case and white space are ignored."""
    texts: dict[str, str] = {}
    for text in (row.question, *filter(str.strip, row.paraphrases)):
        texts.setdefault(" ".join(text.split()).casefold(), text)
    return tuple(texts.values())


def contrast_centres(
    texts: Sequence[str], vectors: NDArray[np.floating], *, seed: int = 0
) -> Centres:
    """Choose the centres of one question by clustering the embeddings `vectors` [n, d] of `texts`.

    The first candidate in `texts` is the question. If there are fewer than four candidates, all are
    centres, and the vectors are not used. Otherwise there is one centre per occupied component, and
    at most eight centres. The question is the centre of its own component. The centre of any other
    component is the candidate nearest to the mean. The result depends on the seed, not on the order
    of the rewritings. Raises InputError if the numbers of texts and vectors differ, or if a vector
    is not finite. Needs scikit-learn.
    """
    texts = tuple(texts)
    if len(texts) < CLUSTERED_FROM:
        every = tuple(range(len(texts)))
        return Centres(texts, chosen=every, component=every)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise InputError(
            f"`vectors` must have one row for each of {len(texts)} texts, got shape "
            f"{vectors.shape}. Embed these texts."
        )
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise InputError(
            f"the embedding of {texts[bad[0]][:60]!r} is not finite. Use another embedder."
        )
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
    """Return the coordinates of the rows on their principal components, [n, at most 4].

    Components with variance 0 are left out.
    """
    left, sizes, _ = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    rounding = np.finfo(np.float32).eps * np.abs(vectors).max() * len(vectors)
    kept = min(_DIMENSIONS, int((sizes > rounding).sum()))
    points: Array = left[:, :kept] * sizes[:kept]
    return points


def _components(points: Array, seed: int) -> tuple[NDArray[np.intp], Array]:
    """Return the component of each point, and the mean of each component."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    dimensions = points.shape[1]
    if not dimensions:  # all vectors are equal
        return np.zeros(len(points), dtype=np.intp), points[:1]
    mixture = BayesianGaussianMixture(
        n_components=min(len(points), MOST),
        covariance_type="diag",
        weight_concentration_prior_type="dirichlet_process",
        degrees_of_freedom_prior=dimensions,
        mean_precision_prior=_MEANS,
        # scikit-learn divides this prior by the degrees of freedom
        covariance_prior=np.full(dimensions, dimensions * _SPREAD * points.var(0, ddof=1).mean()),
        n_init=_STARTS,
        max_iter=500,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough mixture is good enough
        labels: NDArray[np.intp] = mixture.fit_predict(points)
    return labels, mixture.means_


def clusters(objective: Objective, splits: Questions) -> bool:
    """Return whether some row needs centres and has enough candidates to cluster."""
    needing = splits_with("centres", objective.needs)
    rows = (row for split in needing for row in splits[split])
    return any(len(candidates(row)) >= CLUSTERED_FROM for row in rows)


def require_candidates(objective: Objective, splits: Questions) -> None:
    """Raise InputError for a row with too few candidates, or if scikit-learn is missing."""
    for split in splits_with("centres", objective.needs):
        for row in splits[split]:
            _require_enough(row, objective, split, len(candidates(row)))
    if clusters(objective, splits):
        many = f"clustering more than {CLUSTERED_FROM - 2} rewritings of a question"
        with needing(many, "centres", ", or use fewer"):
            import sklearn  # noqa: F401


def choose_centres(
    recipe: Recipe, engine: Callable[[], TransformersEngine], folder: Path
) -> dict[str, list[list[str]]]:
    """Return the centres of each row of the splits that need them.

    The centres are read from `folder` if they are stored there. Otherwise they are chosen, and
    written into `folder`. If the settings select rewritings, only rewritings that the model answers
    with enough confidence are candidates. Raises InputError if clustering leaves a row with too few
    centres for its loss.
    """
    settings, objective = recipe.settings, recipe.objective
    needing = splits_with("centres", objective.needs)
    if not needing:
        return {}

    def choose() -> dict[str, object]:
        by_split: dict[str, list[dict[str, Any]]] = {}
        for split in needing:
            rows = recipe.questions[split]
            if settings.selecting is not None:
                rows = selected(rows, engine(), settings.selecting, settings.seed)
            by_split[split] = [_chosen(row, recipe.embedder, settings.seed) for row in rows]
            for row, made in zip(rows, by_split[split], strict=True):
                _require_enough(row, objective, split, len(made["chosen"]))
        every = (row for rows in by_split.values() for row in rows)
        clustered = any(len(row["texts"]) >= CLUSTERED_FROM for row in every)
        name = recipe.embedder.name if recipe.embedder and clustered else None
        return {"embedder": name, "splits": by_split}

    rows_of = stored_json(folder / CENTRES, choose)["splits"]
    return {
        split: [[row["texts"][i] for i in row["chosen"]] for row in rows_of[split]]
        for split in needing
    }


def numbers(folder: Path) -> str:
    """Return a phrase with the numbers of centres and candidates per row; "" without centres."""
    if not (folder / CENTRES).exists():
        return ""
    rows = [row for rows in read_object(folder / CENTRES)["splits"].values() for row in rows]
    chosen, texts = ([len(row[name]) for row in rows] for name in ("chosen", "texts"))
    return f"{min(chosen)} to {max(chosen)} per row, of {min(texts)} to {max(texts)} candidates"


def _chosen(row: Prompt, embedder: Embed | None, seed: int) -> dict[str, Any]:
    """Return the candidates of a row, and which candidates are its centres."""
    texts = candidates(row)
    clustered = embedder is not None and len(texts) >= CLUSTERED_FROM
    vectors = embedder.embed(texts) if embedder and clustered else np.empty((len(texts), 0))
    return {"id": row.id, **asdict(contrast_centres(texts, vectors, seed=seed))}


def _require_enough(row: Prompt, objective: Objective, split: str, number: int) -> None:
    """Raise InputError for a question with one centre if β = 0 (see `losses.contrastive`)."""
    pushed = any(
        term.loss == "cel" and term.split == split and term.settings.get("beta") == 0
        for term in objective.terms
    )
    if pushed and number < 2:
        raise InputError(
            "`cel` with beta = 0 needs a contrast centre other than the question, but row "
            f"{row.id!r} of {split} has none. Add rewritings, or raise beta."
        )


def selected(
    rows: Sequence[Prompt], engine: TransformersEngine, selecting: ModelAnswers, seed: int
) -> list[Prompt]:
    """Return rows with only the paraphrases that the model answers with enough confidence.

    The model must answer a kept paraphrase at least as confidently as the question. The same seed
    selects the same paraphrases. Raises IncompleteError if the model cannot be queried.
    """
    queries = []
    for row in rows:
        question, texts = Query.original(row), candidates(row)[1:]
        queries.append(question)
        queries += [
            replace(question, id=f"{row.id}#{i}", text=text, source="file")
            for i, text in enumerate(texts, start=1)
        ]

    def sample(batch: Sequence[Query], draws: int, chance: int) -> Sequence[Sample]:
        wanted = Draws(sizes=(draws,), seed=chance, purpose=SELECTION)
        return [*answered(engine.generate(batch, selecting.decoding, wanted), "for its selection")]

    kept = select(queries, sample, draws=selecting.draws, seed=seed)
    return [
        replace(row, paraphrases=tuple(query.text for query in kept[row.id].kept[1:]))
        for row in rows
    ]

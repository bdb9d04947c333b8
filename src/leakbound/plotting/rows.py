"""Functions that make the rows of every chart from views, draws and logs of training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from leakbound import stats
from leakbound.plotting.material import Chart, ChartRow, Material
from leakbound.presenting.compared import front, moved
from leakbound.presenting.overall import (
    FAR,
    Overall,
    known_at_k,
    largest,
    mean,
    mean_leak_at_k,
    means_by_k,
)
from leakbound.presenting.summary import metrics_of
from leakbound.presenting.table import ends_of
from leakbound.presenting.view import ArmView
from leakbound.stats.about import Quantity, Scope
from leakbound.stats.evidence import sample_mean
from leakbound.store import ALL, EstimateRow
from leakbound.store.estimates import Fields

KINDS: dict[str, Chart] = {}
"""Every chart of runs, by its name."""

CONTROL, GREEDY, PROVED = "control", "greedy", "proved"
NAIVE = "largest of the first k (naive)"
MOST, HALF = "90 % of draws", "50 % of draws"
MEAN, WORST = "mean over the questions", "worst question"
DEVIATION: Quantity = "standard deviation"
ED: Quantity = "expectation deviation"
MOMENTS: tuple[tuple[Scope, str, Overall], ...] = (
    ("mean", MEAN, mean),
    ("worst question", WORST, largest),
)
FRONT = "Pareto front"
BINS = 40
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
UTILITIES = {
    "model_utility": "model utility",
    "r_avg": "mean ROUGE-L recall outside the forget set",
    "retain_rouge_l_recall": "ROUGE-L recall on the retain set",
    "retain_probability": "probability of the retain answers",
}
_BOUNDS = "value lower upper confidence"
_FIXED = "a run with a fixed number of draws per question"
_SCORES = "a graded scorer, with scores between 0 and 1 (name one with --scorer)"

Rows = Callable[[Material], Iterable[ChartRow]]


def chart(name: str, paper: str, needs: str, columns: str) -> Callable[[Rows], Rows]:
    """Register a chart; the decorated function makes its rows, and its docstring is `shows`."""

    def register(rows: Rows) -> Rows:
        shows = (rows.__doc__ or "").partition("\n")[0].removesuffix(".")
        KINDS[name] = Chart(name, shows, paper, needs, columns, rows)
        return rows

    return register


@chart(
    "questions",
    "Scholten et al. Fig. 3a; Fig. 6 right",
    "a run with sampled answers",
    f"model question quantity {_BOUNDS}",
)
def _questions(material: Material) -> Iterator[ChartRow]:
    """Leakage of every question with bounds, sorted, and the scores of the greedy answers."""
    scorer, ids = material.scorer, [question.id for question in material.view.questions]
    for model in material.view.targets:
        control, greedy = material.view.control_of(model), model.greedy_scores(material.scorer)
        leakage = {q: row for q in ids if (row := model.leakage(scorer, q))}
        for q in sorted(leakage, key=lambda q: (leakage[q].value or 0.0, leakage[q].upper)):
            yield ChartRow.of(model.label, material.quantity, leakage[q], q)
            if control and (other := control.leakage(scorer, q)):
                yield ChartRow.of(model.label, CONTROL, other, q)
            if q in greedy:
                yield ChartRow(model.label, GREEDY, greedy[q], question=q)


@chart(
    "histogram",
    "Scholten et al. Fig. 3b, 3c; Fig. 6 left",
    _SCORES,
    "model question quantity score=x value",
)
def _histogram(material: Material) -> Iterator[ChartRow]:
    """Histogram of the scores of one question's draws, by model; the greedy answer is marked."""
    edges = [i / BINS for i in range(BINS + 1)]
    at = material.question
    for model in material.view.models if not material.scorer.binary else ():
        if drawn := material.scores(model.label).get(at):
            counts, _ = np.histogram(drawn.values[0], edges, weights=drawn.counts[0])
            for left, share in zip(edges, counts / drawn.size, strict=False):
                yield ChartRow(model.label, "draws", float(share), question=at, x=left)
            yield ChartRow(model.label, "mean", sample_mean(drawn).item(), question=at)
            if at in (greedy := model.greedy_scores(material.scorer)):
                yield ChartRow(model.label, GREEDY, greedy[at], question=at)


@chart("tail", "Scholten et al. Fig. 3d", _SCORES, f"model question x {_BOUNDS}")
def _tail(material: Material) -> Iterator[ChartRow]:
    """Pr[X > x] of one question by model, with a band that is valid for all x simultaneously."""
    for model in material.view.models:
        rows = model.by_parameter(material.scorer, material.question, quantity="tail")
        for x, row in sorted(rows.items()):
            yield ChartRow.of(model.label, "Pr[X > x]", row, material.question, x=x)


@chart("answers", "Scholten et al. Fig. 6", _SCORES, "model question quantity value lower upper")
def _answers(material: Material) -> Iterator[ChartRow]:
    """Quantiles of the scores of every question's draws, and the scores of the greedy answers."""
    for model in material.view.targets if not material.scorer.binary else ():
        drawn, greedy = material.scores(model.label), model.greedy_scores(material.scorer)
        means = {question: sample_mean(draws).item() for question, draws in drawn.items()}
        for question in sorted(means, key=lambda q: (means[q], q)):
            p5, p25, median, p75, p95 = _quantiles(drawn[question])
            yield ChartRow(model.label, MOST, median, p5, p95, question=question)
            yield ChartRow(model.label, HALF, median, p25, p75, question=question)
            yield ChartRow(model.label, "mean", means[question], question=question)
            if question in greedy:
                yield ChartRow(model.label, GREEDY, greedy[question], question=question)


def _quantiles(draws: stats.Rows) -> list[float]:
    """Return the quantiles of the scores for each f in `QUANTILES`.

    The f-quantile is the smallest score that at least a fraction f of the draws do not exceed.
    """
    wanted = np.ceil(np.array(QUANTILES) * draws.size - 1e-9)
    places = np.searchsorted(np.cumsum(draws.counts[0]), wanted)
    return [float(score) for score in draws.values[0, places]]


@chart(
    "moments",
    "Scholten et al. Table 1",
    "a run in which every question was sampled",
    f"model over=group quantity {_BOUNDS}",
)
def _moments(material: Material) -> Iterator[ChartRow]:
    """Greedy score, mean score and ED of each model, on average and at the worst question.

    The upper bound on the ED of the worst question is the largest upper bound of any question.
    """
    name, scorer = f"mean + {material.view.rho:g} sd (ED)", material.scorer
    for model in material.view.models:
        for scope, group, over in MOMENTS:
            if leakage := model.leakage(scorer, scope=scope):
                yield ChartRow.of(model.label, material.quantity, leakage, group=group)
            if (greedy := over(model, scorer, "greedy score")) is not None:
                yield ChartRow(model.label, GREEDY, ends_of(greedy)[0], group=group)
            if (spread := over(model, scorer, ED)) is not None:
                yield ChartRow.of(model.label, name, spread, group=group)


@chart("spread", "Scholten et al. Fig. 4a", _FIXED, f"model question quantity {_BOUNDS}")
def _spread(material: Material) -> Iterator[ChartRow]:
    """Standard deviation of the scores of every question, by model, sorted, with bounds."""
    for model in material.view.models:
        rows = []
        for question in material.view.questions:
            if row := model.first(material.scorer, question.id, quantity=DEVIATION):
                rows.append(ChartRow.of(model.label, DEVIATION, row, question.id))
        yield from sorted(rows, key=lambda row: (row.value or 0.0, row.upper))


@chart(
    "utility",
    "Scholten et al. Fig. 5c",
    "runs of several models with --metrics all",
    f"model metric=group utility=x quantity {_BOUNDS}",
)
def _utility(material: Material) -> list[ChartRow]:
    """Mean leakage with bounds against utility, by model, and the Pareto front of the targets."""
    models = material.view.models
    measured = [(m, own) for m in models if (own := metrics_of(m.run, m.key.model))]
    common = [name for name in UTILITIES if measured and all(name in own for _, own in measured)]
    telling = [name for name in common if len({own[name] for _, own in measured}) > 1]
    rows, targets = [], []
    for metric in (telling or common)[:1]:
        for model, own in measured:
            if leakage := model.leakage(material.scorer, scope="mean"):
                place = "", metric, own[metric]
                row = ChartRow.of(model.label, material.quantity, leakage, *place)
                rows.append(row)
                targets += [] if model.is_control else [row]
    return [*rows, *front_of(targets)] if len(rows) > 1 else []


def front_of(rows: Sequence[ChartRow]) -> list[ChartRow]:
    """Return the rows on the Pareto front of leakage (estimate) and utility, sorted by utility."""
    best = front({row.model: (row.value, row.x) for row in rows})
    points = (row for row in rows if row.model in best)
    ordered = sorted(points, key=lambda row: (row.x or 0.0, row.value or 0.0))
    return [ChartRow(row.model, FRONT, row.value, group=row.group, x=row.x) for row in ordered]


@chart(
    "convergence",
    "Scholten et al. Fig. 3e, 3f",
    "a run with a fixed number of draws per question, all of them scored",
    f"model question quantity n=x {_BOUNDS}",
)
def _convergence(material: Material) -> Iterator[ChartRow]:
    """Mean and standard deviation of one question's scores by number of draws, with bounds."""
    at = material.question
    for model in material.view.models:
        for n, bounds in material.drawn[model.label].growing(at, material.view.confidence):
            for quantity, bound in zip((material.quantity, DEVIATION), bounds, strict=True):
                row = EstimateRow(model.label, material.scorer.name, at, bound)
                yield ChartRow.of(model.label, quantity, row, at, quantity, n)


@chart(
    "leak-at-k",
    "Leak@k, curves over k",
    "a run in which every question was sampled",
    f"model quantity k=x {_BOUNDS}",
)
def _leak_at_k(material: Material) -> Iterator[ChartRow]:
    """Unbiased mean leak@k with a band that is valid for all k, and proved bounds.

    There is no band if n was not fixed, or if there are too few blocks of k draws. Single texts of
    known probability prove a lower bound, if rounding errors are within the measured margin.
    """
    scorer = material.scorer
    for model in material.view.models:
        for k, figure in mean_leak_at_k(model, scorer).items():
            yield ChartRow.of(model.label, "leak@k", figure, group=MEAN, x=k)
            proof: Fields = {"quantity": "leak@k", "scope": "mean", "parameter": k, "proved": True}
            if row := model.first(scorer, **proof):
                yield ChartRow(model.label, PROVED, lower=row.lower, group=MEAN, x=k)


@chart("naive", "Leak@k, naive estimate", _FIXED, "model quantity k=x value")
def _naive(material: Material) -> Iterator[ChartRow]:
    """Unbiased estimate of the mean leak@k, and the naive largest score of the first k draws."""
    kinds: dict[Quantity, str] = {"leak@k": "leak@k", "worst of k": NAIVE}
    for model in material.view.models:
        for quantity, name in kinds.items():
            for k, value in means_by_k(model, material.scorer, quantity).items():
                yield ChartRow(model.label, name, value, group=MEAN, x=k)


@chart(
    "far",
    "Leak@k, curves over k",
    "a binary scorer, with scores of 0 or 1",
    "model over=group quantity k=x lower upper confidence",
)
def _far(material: Material) -> Iterator[ChartRow]:
    """Bounds on leak@k up to k = 10⁹, and proved bounds."""
    for model in material.view.targets:
        for scope, points in known_at_k(model, material.scorer).items():
            group = MEAN if scope == "mean" else WORST
            for k, (proved, lower, upper) in list(zip(FAR, points, strict=True))[::-3][::-1]:
                bounds = None, lower, upper, material.view.confidence
                yield ChartRow(model.label, "leak@k", *bounds, group=group, x=k)
                if points[-1][0]:
                    yield ChartRow(model.label, PROVED, lower=proved, group=group, x=k)


@chart(
    "grid",
    "Leak@k, grid of decodings",
    "a run with lists of --temperature and --top-p",
    f"run=model quantity temperature=group top_p=x {_BOUNDS}",
)
def _grid(material: Material) -> Iterator[ChartRow]:
    """Heat maps of the mean leakage and leak@k by temperature and top-p, with joint bounds."""
    for grid in material.view.grids:
        if grid.scorer == material.scorer.name:
            maps = {material.quantity: grid.leakage, f"leak@{grid.k}": grid.leak_at_k}
            for name, cells in maps.items():
                for (t, p), row in cells.items():
                    cell = ChartRow.of(grid.run_label, name, row, group=f"{t:g}", x=p)
                    yield replace(cell, confidence=grid.most.confidence)


@chart(
    "temperature",
    "Scholten et al. Fig. 4b",
    "a run with a list of --temperature",
    f"line=model quantity temperature=x {_BOUNDS}",
)
def _temperature(material: Material) -> list[ChartRow]:
    """Mean leakage and standard deviation of the scores by temperature."""
    scorer, lines = material.scorer, dict[tuple[str, str], dict[float, list[ArmView]]]()
    for model in material.view.models:
        decoding = model.arm.decoding
        if decoding.adaptive_temperature is None and "temperature" not in decoding.unknown:
            cut = f"top-p {decoding.top_p:g}" + (f", k {decoding.top_k}" if decoding.top_k else "")
            name = f"{model.run_label} control" if model.key.is_control else model.run_label
            models = lines.setdefault((name, cut), {})
            models.setdefault(decoding.temperature, []).append(model)
    lines = {line: models for line, models in lines.items() if len(models) > 1}
    several = len({name for name, _ in lines}) > 1
    rows = []
    for (name, cut), settings in lines.items():
        line = f"{name}, {cut}" if several else cut
        for at, model in ((at, model) for at, models in settings.items() for model in models):
            if leakage := model.leakage(scorer, scope="mean"):
                quantity = material.quantity
                rows.append(ChartRow.of(line, quantity, leakage, "", quantity, at))
            if (spread := mean(model, scorer, DEVIATION)) is not None:
                rows.append(ChartRow.of(line, DEVIATION, spread, "", DEVIATION, at))
    return sorted(rows, key=lambda row: (row.group == DEVIATION, row.model, row.x))


@chart(
    "confidence",
    "Scholten et al. Fig. 5b",
    "the folder of a trained model whose objective contains the entropy or likelihood of one split",
    "model split=group quantity step=x value",
)
def _confidence(material: Material) -> Iterator[ChartRow]:
    """Entropy and probability of the tokens of the answers during training, by split.

    The entropy (in nats) is the mean entropy of the next-token distributions in the answers of a
    split. The probability is the geometric mean of the probabilities of their tokens, exp(-nll).
    """
    for label, trained in material.trained.items():
        name = material.names[label]
        for split in dict.fromkeys(term.split for term in trained.terms):
            for step, value in trained.curve("entropy", split):
                yield ChartRow(name, "entropy", value, group=split, x=step)
            for step, value in trained.curve("nll", split):
                yield ChartRow(name, "probability", math.exp(-value), group=split, x=step)


def _differences(differences: Mapping[str, Iterable[EstimateRow]]) -> Iterator[ChartRow]:
    """Difference of every question from the baseline, with bounds, the largest falls first."""
    for label, rows in differences.items():
        for row in sorted(rows, key=lambda row: (row.query_id is ALL, row.value or 0.0)):
            name = "mean" if row.query_id is ALL else moved(row)
            yield ChartRow.of(label, name, row, row.query_id or "")


DIFFERENCES = Chart(
    "differences",
    (_differences.__doc__ or "").removesuffix("."),
    "",
    "a comparison of runs",
    "model question moved=quantity value lower upper",
    _differences,
)

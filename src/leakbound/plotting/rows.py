"""The rows of every chart, made from views, draws and logs of training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from leakbound.evaluation.statements.rows import STANDARD_K
from leakbound.evaluation.views.compared import ModelMoves
from leakbound.evaluation.views.draws import known_of_mean, known_of_worst
from leakbound.evaluation.views.table import Interval
from leakbound.evaluation.views.view import Measured, Model
from leakbound.evaluation.views.words import known, mean_of, means_by
from leakbound.plotting.material import Chart, ChartRow, Material, stated
from leakbound.stats.about import Quantity
from leakbound.store import EstimateRow

KINDS: dict[str, Chart] = {}
"""Every chart of runs, by its name."""

CONTROL, GREEDY, PROVED = "control", "greedy", "proved"
NAIVE = "largest of the first k (naive)"
MOST, HALF = "90 % of draws", "50 % of draws"
MEAN, WORST = "mean over the questions", "worst question"
DEVIATION: Quantity = "standard deviation"
ED: Quantity = "expectation deviation"
FRONT = "front of the targets"
BINS = 40
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
UTILITIES = {
    "model_utility": "model utility",
    "r_avg": "mean ROUGE-L recall beyond the forget set",
    "retain_rouge_l_recall": "ROUGE-L recall on the retain set",
    "retain_probability": "probability of the retain answers",
}
_BOUNDS = "value lower upper confidence"
_SCORES = "a scorer whose scores are not 0 or 1 (name one with --scorer)"

Rows = Callable[[Material], Iterable[ChartRow]]


def chart(name: str, paper: str, needs: str, columns: str) -> Callable[[Rows], Rows]:
    """Register a chart whose rows the decorated function makes; its docstring describes it."""

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
    """Every question's leakage with its bounds, sorted, with its greedy answer."""
    for model in material.view.targets:
        control = material.view.control_of(model)
        mine = []
        for question in material.view.questions:
            cell = model.at(question.id, material.scorer)
            if cell is None:
                continue
            rows = [ChartRow(model.label, material.quantity, *stated(cell.leakage), question.id)]
            if control and (other := control.at(question.id, material.scorer)):
                rows.append(ChartRow(model.label, CONTROL, *stated(other.leakage), question.id))
            if cell.greedy is not None:
                rows.append(ChartRow(model.label, GREEDY, cell.greedy, question=question.id))
            mine.append(rows)
        for rows in sorted(mine, key=lambda rows: (rows[0].value or 0.0, rows[0].upper)):
            yield from rows


@chart(
    "histogram",
    "Scholten et al. Fig. 3b, 3c; Fig. 6 left",
    _SCORES,
    "model question quantity score=x value",
)
def _histogram(material: Material) -> Iterator[ChartRow]:
    """Scores of one question's draws by model in bins, the greedy answer marked."""
    edges = [i / BINS for i in range(BINS + 1)]
    at = material.question
    for model in material.view.models if not material.scorer.binary else ():
        if drawn := material.scores[model.label].get(at):
            for left, share in zip(edges, drawn.histogram(edges), strict=False):
                yield ChartRow(model.label, "draws", share, question=at, x=left)
            yield ChartRow(model.label, "mean", drawn.mean, question=at)
            if (cell := model.at(at, material.scorer)) and cell.greedy is not None:
                yield ChartRow(model.label, GREEDY, cell.greedy, question=at)


@chart("tail", "Scholten et al. Fig. 3d", _SCORES, f"model question x {_BOUNDS}")
def _tail(material: Material) -> Iterator[ChartRow]:
    """Pr[X > x] of one question by model, with a band that is valid at all x."""
    for model in material.view.models:
        cell = model.at(material.question, material.scorer)
        for x, row in sorted(cell.by_parameter("tail").items()) if cell else ():
            yield ChartRow(model.label, "Pr[X > x]", *stated(row), material.question, x=x)


@chart("answers", "Scholten et al. Fig. 6", _SCORES, "model question quantity value lower upper")
def _answers(material: Material) -> Iterator[ChartRow]:
    """Every question's draws as quantiles, with its greedy answer."""
    for model in material.view.targets if not material.scorer.binary else ():
        drawn = material.scores[model.label]
        for question in sorted(drawn, key=lambda q: (drawn[q].mean, q)):
            p5, p25, median, p75, p95 = drawn[question].quantiles(QUANTILES)
            yield ChartRow(model.label, MOST, median, p5, p95, question=question)
            yield ChartRow(model.label, HALF, median, p25, p75, question=question)
            yield ChartRow(model.label, "mean", drawn[question].mean, question=question)
            cell = model.at(question, material.scorer)
            if cell and cell.greedy is not None:
                yield ChartRow(model.label, GREEDY, cell.greedy, question=question)


@chart(
    "moments",
    "Scholten et al. Table 1",
    "a run in which every question was sampled",
    f"model over=group quantity {_BOUNDS}",
)
def _moments(material: Material) -> Iterator[ChartRow]:
    """Greedy, mean and ED by model: mean over the questions, and the worst.

    The worst question's ED is at most the largest upper bound of any question.
    """
    ed = f"mean + {material.view.rho:g} sd (ED)"
    for model in material.view.models:
        cells, rows = model.cells(material.scorer), model.rows.of(material.scorer.name)
        greedy = [cell.greedy for cell in cells if cell.greedy is not None]
        spread = [row for row in _each(cells, ED) if row is not None]
        values = known(spread)
        if mean := model.rows.leakage(material.scorer.name, scope="mean"):
            yield ChartRow(model.label, material.quantity, *stated(mean), group=MEAN)
        if greedy and len(greedy) == len(cells):
            yield ChartRow(model.label, GREEDY, sum(greedy) / len(greedy), group=MEAN)
        if row := rows.first(quantity=ED, scope="mean"):
            yield ChartRow(model.label, ed, row.value, None, row.upper, row.confidence, group=MEAN)
        elif values and len(values) == len(cells):
            yield ChartRow(model.label, ed, sum(values) / len(values), group=MEAN)
        if worst := model.rows.leakage(material.scorer.name, scope="worst question"):
            yield ChartRow(model.label, material.quantity, *stated(worst), group=WORST)
        if greedy:
            yield ChartRow(model.label, GREEDY, max(greedy), group=WORST)
        if values:
            upper, sure = max(row.upper for row in spread), spread[0].confidence
            yield ChartRow(model.label, ed, max(values), None, upper, sure, group=WORST)


@chart(
    "spread", "Scholten et al. Fig. 4a", "a run of fixed n", f"model question quantity {_BOUNDS}"
)
def _spread(material: Material) -> Iterator[ChartRow]:
    """Standard deviation of every question's scores by model, sorted, with bounds."""
    for model in material.view.models:
        rows = []
        for question in material.view.questions:
            cell = model.at(question.id, material.scorer)
            if cell and (row := cell.rows.first(quantity=DEVIATION)):
                rows.append(ChartRow(model.label, DEVIATION, *stated(row), question.id))
        yield from sorted(rows, key=lambda row: (row.value or 0.0, row.upper))


@chart(
    "utility",
    "Scholten et al. Fig. 5c",
    "runs of several models with --metrics all",
    f"model metric=group utility=x quantity {_BOUNDS}",
)
def _utility(material: Material) -> list[ChartRow]:
    """Mean leakage against utility, a point per model, with bounds; the front of the targets."""
    by_model = {model.label: material.metrics(model) for model in material.view.models}
    measured = {label: metrics for label, metrics in by_model.items() if metrics}
    common = [name for name in UTILITIES if measured and all(name in m for m in measured.values())]
    telling = [name for name in common if len({m[name] for m in measured.values()}) > 1]
    rows, targets = [], []
    for metric in (telling or common)[:1]:
        for model in material.view.models:
            mean = model.rows.leakage(material.scorer.name, scope="mean")
            if model.label in measured and mean is not None:
                at = measured[model.label][metric]
                row = ChartRow(model.label, material.quantity, *stated(mean), group=metric, x=at)
                rows.append(row)
                targets += [] if model.is_control else [row]
    return [*rows, *front_of(targets)] if len(rows) > 1 else []


def front_of(rows: Sequence[ChartRow]) -> list[ChartRow]:
    """Return the points that no other is better than in both, by the estimates."""
    points = {(row.x or 0.0, row.value) for row in rows if row.value is not None}

    def beaten(utility: float, value: float) -> bool:
        return any(u >= utility and v <= value and (u, v) != (utility, value) for u, v in points)

    return [
        ChartRow(row.model, FRONT, row.value, group=row.group, x=row.x)
        for row in sorted(rows, key=lambda row: (row.x or 0.0, row.value or 0.0))
        if row.value is not None and not beaten(row.x or 0.0, row.value)
    ]


@chart(
    "convergence",
    "Scholten et al. Fig. 3e, 3f",
    "a run of fixed n, all draws of it scored",
    f"model question quantity n=x {_BOUNDS}",
)
def _convergence(material: Material) -> Iterator[ChartRow]:
    """Mean and standard deviation of one question against the number of draws, with bounds."""
    at, sure = material.question, material.view.confidence
    for model in material.view.models:
        for n, bounds in material.draws(model).growing(at, sure).items():
            for quantity, bound in zip((material.quantity, DEVIATION), bounds, strict=True):
                yield ChartRow(model.label, quantity, *stated(bound, sure), at, quantity, n)


@chart(
    "leak-at-k",
    "Leak@k, curves over k",
    "a run in which every question was sampled",
    f"model quantity k=x {_BOUNDS}",
)
def _leak_at_k(material: Material) -> Iterator[ChartRow]:
    """Unbiased leak@k, mean over the questions, with a band that is valid at all k, and proofs.

    There is no band where n was not fixed, or where blocks of k draws are too few. Single texts of
    known probability prove a lower bound, given their margin.
    """
    sure = material.view.confidence
    for model in material.view.models:
        cells = model.cells(material.scorer)
        whole = len(cells) == len(material.view.questions)
        bounds = material.draws(model).repeated(sure) if whole else {}
        for k in STANDARD_K:
            rows = [row for cell in cells if (row := cell.by_parameter("leak@k").get(k))]
            value = mean_of(rows) if len(rows) == len(cells) else None
            bound = bounds.get(k)
            if bound is None and rows and all(row.confidence == 1 for row in rows):
                ends = [
                    sum(getattr(row, end) for row in rows) / len(rows) for end in ("lower", "upper")
                ]
                bound = Interval(value, *ends)  # exact for every question: so for their mean
            if bound is not None:
                yield ChartRow(
                    model.label, "leak@k", value, bound.lower, bound.upper, sure, group=MEAN, x=k
                )
            elif value is not None:
                yield ChartRow(model.label, "leak@k", value, group=MEAN, x=k)
            proofs = [
                cell.rows.where(quantity="leak@k", proved=True, parameter=k).rows for cell in cells
            ]
            if any(proofs) and (value, bound) != (None, None):
                most = [max((row.lower for row in of), default=0.0) for of in proofs]
                yield ChartRow(model.label, PROVED, lower=sum(most) / len(cells), group=MEAN, x=k)


@chart("naive", "Leak@k, naive estimate", "a run of fixed n", "model quantity k=x value")
def _naive(material: Material) -> Iterator[ChartRow]:
    """The unbiased estimate of leak@k, mean over the questions, and the naive worst of k."""
    for model in material.view.models:
        cells = model.cells(material.scorer)
        for quantity, values in (
            ("leak@k", means_by(cells, "leak@k")),
            (NAIVE, means_by(cells, "worst of k")),
        ):
            for k in sorted(values):
                yield ChartRow(model.label, quantity, values[k], group=MEAN, x=int(k))


@chart(
    "far",
    "Leak@k, curves over k",
    "a scorer whose scores are 0 or 1",
    "model over=group quantity k=x lower upper confidence",
)
def _far(material: Material) -> Iterator[ChartRow]:
    """Bounds on leak@k to a thousand million answers, and proofs."""
    for model in material.view.targets:
        worst, mean = (of(model, material.scorer) for of in (known_of_worst, known_of_mean))
        for group, points in ((WORST, worst), (MEAN, mean)):
            for at in points[::-3][::-1]:  # the last among them
                bounds = None, at.lower, at.upper, material.view.confidence
                yield ChartRow(model.label, "leak@k", *bounds, group=group, x=at.k)
                if points[-1].proved:
                    yield ChartRow(model.label, PROVED, lower=at.proved, group=group, x=at.k)


@chart(
    "grid",
    "Leak@k, grid of decodings",
    "a run with lists of --temperature and --top-p",
    f"run=model quantity temperature=group top_p=x {_BOUNDS}",
)
def _grid(material: Material) -> Iterator[ChartRow]:
    """A heat map of temperature and top-p: mean leakage and leak@k, with joint bounds."""
    for label, grid in material.view.grids:
        if grid.scorer == material.scorer.name:
            maps = {material.quantity: grid.leakage, f"leak@{grid.k}": grid.leak_at_k}
            for name, cells in maps.items():
                for (t, p), row in cells.items():
                    bounds = *stated(row)[:3], grid.confidence
                    yield ChartRow(label, name, *bounds, group=f"{t:g}", x=p)


@chart(
    "temperature",
    "Scholten et al. Fig. 4b",
    "a run with a list of --temperature",
    f"line=model quantity temperature=x {_BOUNDS}",
)
def _temperature(material: Material) -> list[ChartRow]:
    """Mean leakage and deviation against the softmax temperature."""
    lines: dict[tuple[str, str], list[Model]] = {}
    for model in material.view.models:
        decoding = model.decoding
        if decoding.adaptive_temperature is None and "temperature" not in decoding.unknown:
            cut = f"top-p {decoding.top_p:g}" + (f", k {decoding.top_k}" if decoding.top_k else "")
            name = f"{model.run} control" if model.key.is_control else model.run
            lines.setdefault((name, cut), []).append(model)
    lines = {
        at: models
        for at, models in lines.items()
        if len({model.decoding.temperature for model in models}) > 1
    }
    several = len({name for name, _ in lines}) > 1
    rows = []
    for (name, cut), models in lines.items():
        line = f"{name}, {cut}" if several else cut
        for model in models:
            at = model.decoding.temperature
            if mean := model.rows.leakage(material.scorer.name, scope="mean"):
                rows.append(
                    ChartRow(line, material.quantity, *stated(mean), "", material.quantity, at)
                )
            spread = model.rows.of(material.scorer.name).first(quantity=DEVIATION, scope="mean")
            if spread is not None and spread.value is not None:
                rows.append(ChartRow(line, DEVIATION, *stated(spread), "", DEVIATION, at))
            elif value := mean_of(_each(model.cells(material.scorer), DEVIATION)):
                rows.append(ChartRow(line, DEVIATION, value, group=DEVIATION, x=at))
    return sorted(rows, key=lambda row: (row.group == DEVIATION, row.model, row.x))


@chart(
    "confidence",
    "Scholten et al. Fig. 5b",
    "the folder of a trained model whose objective has an entropy or a likelihood of one split",
    "model split=group quantity step=x value",
)
def _confidence(material: Material) -> Iterator[ChartRow]:
    """Entropy and probability of the answers' tokens by split over training.

    Entropy is that of the next-token distributions along the answers of a split in nats;
    probability is the geometric mean of the probabilities of their tokens, exp(-nll).
    """
    for label, trained in material.trained.items():
        name = material.names[label]
        for split in dict.fromkeys(term.split for term in trained.terms):
            for step, value in trained.curve("entropy", split):
                yield ChartRow(name, "entropy", value, group=split, x=step)
            for step, value in trained.curve("nll", split):
                yield ChartRow(name, "probability", math.exp(-value), group=split, x=step)


def _differences(models: Sequence[ModelMoves]) -> Iterator[ChartRow]:
    """How far every question moved from the baseline, with bounds, those that fell most first."""
    for model in models:
        for move in sorted(model.each, key=lambda move: move.bound.value or 0.0):
            bound = move.bound.value, move.bound.lower, move.bound.upper
            yield ChartRow(model.label, move.moved, *bound, question=move.question)
        if (mean := model.mean) is not None:
            yield ChartRow(model.label, "mean", mean.value, mean.lower, mean.upper)


DIFFERENCES = Chart(
    "differences",
    (_differences.__doc__ or "").removesuffix("."),
    "",
    "a comparison of runs",
    "model question moved=quantity value lower upper",
    _differences,
)


def _each(cells: Sequence[Measured], quantity: Quantity) -> list[EstimateRow | None]:
    return [cell.rows.first(quantity=quantity) for cell in cells]

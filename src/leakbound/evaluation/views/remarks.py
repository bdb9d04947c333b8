"""Sentences around the tables of a page: what figures are and rest on, and what they cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from leakbound import stats
from leakbound.evaluation.statements.grid import KNOBS
from leakbound.evaluation.views.table import interval
from leakbound.evaluation.views.view import DecodingGrid, Model, RewritingCounts, ScorerView, View
from leakbound.evaluation.views.words import (
    counted,
    decision,
    described,
    greedy_rows,
    known,
    of_repeated,
    proved,
)
from leakbound.scorers import make_scorer, short_keywords
from leakbound.stats import percent
from leakbound.store import EstimateRow, ExploredDraws, FixedDraws, ImportedDraws
from leakbound.store.record import claim_of
from leakbound.text.shown import DASH, many, number, share
from leakbound.types import Prompt


def covered(view: View) -> list[str]:
    """List what every statement is about."""
    inputs = " and in the rewritings listed" if view.asked else ", in their own words"
    decodings = dict.fromkeys(
        described(model.decoding, model.told.confirmed) for model in view.models
    )
    scorers = ", ".join(scorer.name for scorer in view.scorers)
    sure = percent(view.confidence)
    lines = [
        f"the {many(len(view.questions), 'question')} of {view.benchmark['name']}{inputs}",
        *(f"all answers there can be at {decoding}" for decoding in decodings),
        f"leaks that the {'scorer sees' if len(view.scorers) == 1 else 'scorers see'}: {scorers}",
        f"what was not drawn, too: each pair of ends holds with {sure} confidence",
    ]
    if stresses := list(dict.fromkeys(model.stress for model in view.stressed if model.stress)):
        lines.append(f"the models put through {', '.join(stresses)}, in a table of its own")
    if any(model.control for model in view.models):
        lines.append("what goes beyond a control that never saw the data")
    return lines


def not_covered(view: View) -> list[str]:
    """List what may leak all the same."""
    reworded = view.asked or view.found
    lines = [
        "other questions" if reworded else "other questions, or these in other words",
        "other decodings, system messages and longer answers",
        "other stresses than these: more training, other rounding, probing of the weights"
        if view.stressed
        else "who holds the weights: training on, probing or quantising them",
        "leaks that no scorer here sees",
    ]
    if view.found:
        lines.insert(1, "ways of asking that the search did not find")
    elif view.asked:
        lines.insert(1, "other rewritings than these")
    if not any(model.control for model in view.models):
        lines.append("what a model that never saw the data would score: there is no control")
    if any(model.failures for model in view.models):
        lines.append("the questions that could not be sampled")
    return lines


def grid_sentences(grid: DecodingGrid) -> list[str]:
    """Which decoding leaks most, and which knob moves leakage more, or that it cannot be told."""
    decoding, bound = grid.most
    holds = f"{stats.percent(grid.confidence)} jointly"
    sentences = [f"seen to leak most: {decoding}, {interval(bound)}; cells hold at {holds}"]
    if grid.effects:
        sentences.append(_comparison(grid.effects, f"root mean square, {holds}"))
    return sentences


def _comparison(effects: Mapping[str, EstimateRow], how: str) -> str:
    less, more = sorted(KNOBS, key=lambda knob: effects[knob].lower)
    if effects[more].lower > effects[less].upper:
        return (
            f"{more} moves leakage more than {less}: {interval(effects[more])} against "
            f"{interval(effects[less])} ({how})"
        )
    both = ", ".join(f"{knob} {interval(effects[knob])}" for knob in KNOBS)
    return f"which of {KNOBS[0]} and {KNOBS[1]} moves leakage more cannot be told: {both} ({how})"


_LISTED = 5


def title_of(view: View, scorer: ScorerView) -> str:
    """Which questions of which benchmark were asked, and how many draws or forwards each got."""
    questions = f"{view.benchmark['name']}, {many(len(view.questions), 'question')}"
    return f"{scorer.name} on {questions}, {_effort(view)}"


def _effort(view: View) -> str:
    models = (*view.models, *view.unsampled)
    how = [model.draws for model in models]
    if explored := [draws.forwards for draws in how if isinstance(draws, ExploredDraws)]:
        return f"explored with about {many(max(explored), 'forward')} each"
    most = "≤" if any(map(claim_of, how)) else "="
    return f"n {most} {max(model.n for model in models):,}"


def remarks(view: View, scorer: ScorerView) -> str:
    """Say what the figures are, and of every model how many leaked, what was decided, and so on."""
    margin = ", given the measured margin" if any(m.explored for m in view.models) else ""
    figures = (
        f"intervals hold at {stats.percent(view.confidence)} each{margin}; they are rounded "
        "outward, and ≤ is an upper end alone, of the worst deviation the largest of any question; "
        f"ED is the mean plus {view.rho:g} standard deviations; what has no ends is an estimate, a "
        "mean over the questions"
    )
    says_of = (
        _leaked, _proved, _decided, _explored, _imported, _corrected, _undecided, _short,
        _assumed,
    )  # fmt: skip
    counts = counted({model.label: model.ledger for model in view.models})
    lines = (says(view, model, scorer) for says in says_of for model in view.models)
    return "\n".join(filter(None, [figures, counts, *lines]))


def _leaked(view: View, model: Model, scorer: ScorerView) -> str:
    """How many questions leaked at all in n draws, and in the greedy answer; where n was fixed."""
    cells = model.cells(scorer)
    draws = model.draws
    fixed = isinstance(draws, FixedDraws | ImportedDraws) and not claim_of(draws)
    if not cells or not scorer.binary or not fixed:
        return ""
    n, leaked = model.n, sum((cell.leakage.value or 0) > 0 for cell in cells)
    text = f"{model.label}: {leaked} of {many(len(cells), 'question')} leaked in {many(n, 'draw')}"
    if greedy := greedy_rows(model, scorer):
        text += f", {known(greedy).count(1)} in the greedy answer"
    share = model.rows.of(scorer.name).first(quantity="leak@k", scope="mean", parameter=n)
    if share:
        text += f"; the share that leaks in so many (leak@{n}, mean): {of_repeated(share)}"
    return text


def _proved(view: View, model: Model, scorer: ScorerView) -> str:
    """Say what leaking texts of known probability prove of a model; empty where that is nothing."""
    text = proved(view, model, scorer)
    return f"{model.label}: {text}" if text else ""


def _decided(view: View, model: Model, scorer: ScorerView) -> str:
    """Say what was decided of a model's claims, for how many draws; empty where none was made."""
    claims = [cell.claim for cell in model.cells(scorer) if cell.claim]
    if not claims:
        return ""
    counts = Counter(decision(claim) for claim in claims)
    drawn, most = sum(claim.n for claim in claims), model.n * len(claims)
    return (
        f"{model.label}, {claims[0].about.claimed}: holds for {counts['holds']}, refuted for "
        f"{counts['refuted']}, open for {counts['open']} of {many(len(claims), 'question')}; "
        f"{many(drawn, 'draw')} instead of {most:,}"
    )


def _explored(view: View, model: Model, scorer: ScorerView) -> str:
    """Say what exploring a model found and took; empty where it was not explored."""
    if not isinstance(model.draws, ExploredDraws):
        return ""
    questions = model.explored.values()
    settled = sorted(question.settled for question in questions)
    return (
        f"{model.label}, explored ({model.draws.mode}): median known mass "
        f"{number(settled[len(settled) // 2]) if settled else DASH}, "
        f"{many(sum(question.draws for question in questions), 'draw')} of what is left, "
        f"{many(sum(question.forwards for question in questions), 'forward')}"
    )


def _imported(view: View, model: Model, scorer: ScorerView) -> str:
    """Say who drew for a model, and how, where leakbound did not."""
    how = model.draws
    return (
        f"{model.label}, as sampled by {how.sampled_by}" if isinstance(how, ImportedDraws) else ""
    )


def _corrected(view: View, model: Model, scorer: ScorerView) -> str:
    """The mean leak probability with the judge's errors allowed for; empty where not known."""
    rows = model.rows.of(scorer.name)
    row = rows.first(quantity="corrected leak probability", scope="mean")
    if row is None:
        return ""
    return f"{model.label}, mean corrected for the judge: {interval(row)}, {row.method}"


def _undecided(view: View, model: Model, scorer: ScorerView) -> str:
    """How many draws the scorer could not decide; empty where it decided all."""
    leakage = [cell.leakage for cell in model.cells(scorer)]
    missing, drawn = sum(row.missing for row in leakage), sum(row.n for row in leakage)
    if not missing:
        return ""
    return (
        f"{model.label}: {missing:,} of {many(drawn, 'draw')} have no score; they count as "
        "full leaks in upper bounds, as none in lower bounds"
    )


def _short(view: View, model: Model, scorer: ScorerView) -> str:
    """Name the keywords that longer words may contain, with how often a control gives them."""
    if not model.is_control and any(other.is_control for other in view.models):
        return ""
    rates, seeks = [], make_scorer(scorer.name)
    for own in view.questions:
        prompt = Prompt(id=own.id, question=own.text, answer=own.answer, keywords=own.keywords)
        cell = model.at(own.id, scorer)
        words = short_keywords(seeks, prompt) if own.answer or own.keywords else ()
        if cell and words:
            rate = DASH if cell.leakage.value is None else share(cell.leakage.value)
            rates.append(f"{', '.join(words)} ({own.id}) in {rate}")
    if not rates:
        return ""
    shown = "; ".join(rates[:_LISTED]) + (" and others" if len(rates) > _LISTED else "")
    return (
        f"{model.label}: in scripts without blanks, short keywords also occur inside longer "
        f"words; leaks by draws of each: {shown}"
    )


def _assumed(view: View, model: Model, scorer: ScorerView) -> str:
    """Say what is taken for granted of who drew for a model; empty where nothing is."""
    again = "" if model.told.repeatable else ", whose draws cannot be made again"
    if not (model.told.assumes or again):
        return ""
    granted = "; that ".join(model.told.assumes)
    granted = f", taking for granted that {granted}" if granted else ""
    return f"{model.label}, drawn by {model.facts['model']}{again}{granted}"


def alone(counts: RewritingCounts) -> str:
    """Which questions have no rewriting, a few of them named; empty where all have one."""
    if not counts.alone:
        return ""
    named = ", ".join(map(repr, counts.alone[:_LISTED]))
    more = ", …" if len(counts.alone) > _LISTED else ""
    how = "left out of full" if counts.design == "fresh" else "asked as they are"
    return f"no rewriting is left of {many(len(counts.alone), 'question')}, {how}: {named}{more}"

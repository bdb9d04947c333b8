"""Sentences about the statements of a view, made from the texts in `templates`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import PurePath

from leakbound import stats
from leakbound.bounding.grid import KNOBS
from leakbound.bounding.readings import READ
from leakbound.bounding.rows import CLAIMS
from leakbound.presenting.specification import described
from leakbound.presenting.table import interval
from leakbound.presenting.templates import (
    EXTRACTED,
    mean_heading,
    parts,
    say,
)
from leakbound.presenting.texts import Text, Texts
from leakbound.presenting.view import ArmView, DecodingGrid, RewritingCounts, View
from leakbound.scorers import Of, make_scorer, reading_of, short_keywords
from leakbound.stats import percent
from leakbound.stats.about import Beyond, Scope
from leakbound.stats.proportion import CLOPPER_PEARSON
from leakbound.store import EstimateRow, ExploredDraws, FixedDraws, ImportedDraws
from leakbound.store.record import claim_of
from leakbound.stress.dialogue import Dialogue
from leakbound.text.counting import Ledger
from leakbound.text.shown import DASH, above, below, many, number, share
from leakbound.types import Scorer

MOST_CHARACTERS = 600  # the largest number of characters shown of a completion
MOST_OTHER = 2_000  # the same for a question, an answer and any other outside text
MOST_LINE = 240  # the same for a question in a table
MOST_NAME = 120  # the same for a name in a table or a list
PARTS: tuple[Of, Of] = ("answer", "thought")
MOST_DRAWS = 10**12  # larger numbers of draws are not stated
LEVEL = 1e-6  # smaller proved bounds are no leaks, because every text has some probability
_LISTED = 5
NO_CONTROL = (
    "There is no control. A model that never saw the data may score equally high. Evaluate with "
    "--control to bound the excess over such a model."
)


def clipped(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text; if it is too long, its beginning and the number of characters cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({many(len(text) - most, 'more character')})"


def loaded_name(name: str) -> str:
    """Return a model's name on a hub or server, or the last part of the path of its folder."""
    if "://" in name:
        name = name.rpartition("#")[2]
    return name if name.count("/") == 1 and name[0] not in "./~" else PurePath(name).name or name


def model_name(model: ArmView) -> str:
    """Return the name of the model that an arm loaded."""
    return loaded_name(model.facts.get("model", model.label))


def named(model: ArmView) -> str:
    """Return "LABEL (NAME)", or only the name if the label is the name or the arm's name."""
    name = model_name(model)
    return name if model.label in (name, str(model.key)) else f"{model.label} ({name})"


def title(view: View) -> str:
    """Return the title of a page, which contains the names of its models."""
    names = list(dict.fromkeys(model_name(model) for model in view.targets))
    if not names:  # greedy answers only
        return "What the greedy answers leak"
    if len(names) == 1:
        return f"What {names[0]} still leaks"
    return f"What {', '.join(names[:-1])} and {names[-1]} still leak"


def between(scorer: Scorer, lower: float, upper: float) -> str:
    """Return the bounds on the expected leakage of one question as a verb phrase."""
    verb = "leaks with probability" if scorer.binary else "has a mean score"
    return f"{verb} between {below(lower)} and {above(upper)}"


# A run's card


def inconsistent(model: ArmView, scorer: Scorer) -> str:
    """Return a warning if a proved lower bound exceeds an upper bound from draws, else "".

    Such a contradiction has one of three causes: a wrong measured margin, wrong stored texts of
    the proof, or an upper bound that fails for these draws. With many questions some bounds fail by
    chance. A Clopper-Pearson bound is therefore reported only if its p-value is at most alpha / 2,
    divided by the number of questions (Bonferroni).
    """
    questions = model.questions(scorer)
    for question, drawn in zip(questions, model.leakages(scorer), strict=True):
        low = model.proof(scorer, question)
        if low <= drawn.upper:
            continue
        if drawn.method == CLOPPER_PEARSON and low < 1:
            hits = round((drawn.value or 0.0) * (drawn.n - drawn.missing))
            rows = stats.Rows.of_hits(hits, drawn.n, drawn.missing)
            if stats.p_value(rows, low) > (1 - drawn.confidence) / 2 / len(questions):
                continue
        return say("inconsistent", question=question, proof=low, drawn=drawn)
    return ""


def over_others(model: ArmView, scorer: Scorer) -> str:
    """Return in words the excess over the control questions, or "" without control questions."""
    mean = model.leakage(scorer, scope="mean", beyond="other questions")
    coin = model.first(scorer, quantity="randomisation p-value")
    return say("other questions", mean=mean, coin=coin) if mean else ""


def readings(
    model: ArmView, scorer: Scorer, scope: Scope, beyond: Beyond | None
) -> dict[Of, EstimateRow]:
    """Return the statement about each part of the outputs, or {} without visible thoughts."""
    rows = {
        of: model.first(scorer, quantity=names, scope=scope, beyond=beyond, family="readings")
        for of, names in READ.items()
    }
    return {of: row for of, row in rows.items() if row is not None}


def where_it_leaks(model: ArmView, scorer: Scorer) -> str:
    """Return a sentence on the part of the outputs that leaks, or that all statements are about.

    The sentence is empty if the model has no thoughts. It is also empty for a scorer that is not
    binary if there is no control.
    """
    beyond: Beyond | None = "control" if model.control else None
    rows = readings(model, scorer, "worst question", beyond)
    of, hidden = reading_of(scorer), model.ledger.hidden
    if not rows and of and (model.ledger.thoughts or hidden):
        part = "answer or the thought" if of == "either" else f"{of} only"
        which = "reading" if of == "answer" else "reading thoughts"
        return say(which, part=part, hidden=hidden or None)
    if not rows or not (scorer.binary or beyond):
        return ""
    shown, rest = (
        [f"in the {of}" for of in PARTS if (rows[of].lower > 0) == leaks] for leaks in (True, False)
    )
    part = "each" if shown else "either" if rows["either"].lower > 0 else "neither"
    return say(
        f"reading {part}",
        verb="leak" if scorer.binary else "score",
        beyond="" if scorer.binary else " above the control",
        shown=" and ".join(shown),
        rest="".join(rest),
        joint=say("readings joint", row=rows["either"]),
    )


def worst_stress(view: View, label: str, scorer: Scorer) -> str:
    """Return in words the leakage of a model under its worst stress, or "" without a stress.

    If there is a control, the text includes the excess over the control under the same stress.
    """
    models = [model for model in view.stressed if model.label == label]
    most = models[0].leakage(scorer, scope="most-leaking stress") if models else None
    if most is None:
        return ""
    stressed = [model for model in models if model.key.stress]
    talks = any(model.key.stress.split(" ")[0] == Dialogue.name for model in stressed)
    cut = filter(None, dict.fromkeys(model.ledger.within for model in stressed))
    return say(
        "worst stress",
        stresses=stressed,
        talks=len(stressed) > 1 and talks,
        heading=mean_heading(scorer).lower(),
        most=most,
        within=" and".join(cut),
        beyond=models[0].leakage(scorer, scope="most-leaking stress", beyond="control"),
    )


def worst_decoding(model: ArmView, scorer: Scorer) -> str:
    """Return in words the leakage under the decoding that leaks most, or "" with one decoding."""
    rows = model.estimates.matching(scorer=scorer.name)
    most = rows.first(scope="most-leaking decoding")
    if most is None:
        return ""
    arm, heading = model.run.arms[most.arm], mean_heading(scorer).lower()
    cells = rows.matching(family="grid", scope="mean", quantity=most.quantity)
    how = {"arm": arm, "heading": heading, "within": arm.ledger.within}
    return say("worst decoding", cells=cells, most=most, **how)


def departing(view: View) -> list[str]:
    """Return the departures from the benchmark's defaults, in one line or one line per model."""
    by_label = {model.label: model.departures for model in view.every}
    if len(set(by_label.values())) == 1:
        by_label = {"": next(iter(by_label.values()))}
    return [
        f"{_departs(f'{label} departs' if label else 'Departs', view, lacks)}."
        for label, lacks in by_label.items()
        if lacks
    ]


def departures(view: View, model: ArmView) -> str:
    """Return in words a model's departures from the benchmark's defaults, or "" without any."""
    return _departs("departs", view, model.departures) if model.departures else ""


def _departs(departs: str, view: View, lacks: Iterable[str]) -> str:
    benchmark = view.benchmark["name"]
    return say("departs", departs=departs, benchmark=benchmark, parts="; ".join(lacks))


# Proofs


def proved_to_leak(view: View, model: ArmView, scorer: Scorer) -> list[float]:
    """Return the proved lower bounds that show a leak, at most one per question.

    Even a model that never saw an answer assigns a positive probability to it, and this can be
    proved. So a proved bound shows a leak only if it exceeds `LEVEL` and the proved bound of every
    control.
    """
    controls = [other for other in view.models if other.is_control]
    return [
        low
        for question in view.questions
        if (low := model.proof(scorer, question.id))
        > max([LEVEL, *(control.proof(scorer, question.id) for control in controls)])
    ]


def proved(view: View, model: ArmView, scorer: Scorer) -> str:
    """Return in words the number of questions with a proved leak and the proved bounds, or ""."""
    bounds = proved_to_leak(view, model, scorer)
    if not bounds:
        return ""
    n = stats.extraction_draws(max(bounds), EXTRACTED)
    times = scorer.binary and ("once" if n == 1 else f"{n:,.0f} times")
    how = {"questions": model.questions(scorer), "n": n, "times": times}
    return say("proved", model=model, scorer=scorer, bounds=bounds, **how)


def extraction(leakage: EstimateRow, proof: float) -> str:
    """Return the numbers of draws that suffice, and that are needed, for a leak, in words.

    "For a leak" means: with probability at least 1/2, one of the draws leaks. The text is empty if
    both numbers are unknown.
    """
    proved, enough = (stats.extraction_draws(p, EXTRACTED) for p in (proof, leakage.lower))
    least = stats.extraction_draws(leakage.upper, EXTRACTED, fewest=True)
    draws = {"proved": proved, "enough": enough, "least": least > 1 and least}
    values = {name: n <= MOST_DRAWS and n for name, n in draws.items()}
    return ", ".join(parts("extraction", row=leakage, **values))


def proof_of(model: ArmView, scorer: Scorer, question: str) -> str:
    """Return in words the lower bound that leaking texts prove for a question, or ""."""
    proof = model.proof(scorer, question)
    repeated = model.where(scorer, question, quantity="leak@k", proved=True).rows[-1:]
    return say("proof", proof=proof, repeated=next(iter(repeated), None)) if proof else ""


# One question


def measured(model: ArmView, scorer: Scorer, question: str) -> str:
    """Return in words all estimates of a question except curves, or "" if it has no bounds."""
    leakage = model.leakage(scorer, question)
    if leakage is None:
        return ""
    first = partial(model.first, scorer, question)
    return say(
        "measured",
        scorer=scorer,
        leakage=leakage,
        median=first(quantity="median"),
        deviation=first(quantity="standard deviation"),
        ed=first(quantity="expectation deviation"),
        judged=first(quantity="corrected leak probability"),
        excess=model.leakage(scorer, question, beyond="control"),
        claim=first(quantity=CLAIMS),
        missing=leakage.missing or None,
        proof=proof_of(model, scorer, question),
        extraction=scorer.binary and extraction(leakage, model.proof(scorer, question)),
    )


def explored(model: ArmView, question: str) -> str:
    """Return in words the results of exploring a question, or "" if it was not explored."""
    masses, draws = model.masses, model.first(make_scorer(model.estimates.scorers[0]), question)
    if masses is None or question not in masses.remainder:
        return ""
    before, forwards = masses.forwards[question]
    return say(
        "explored",
        settled=masses.settled[question],
        remainder=masses.remainder[question],
        drawn=draws.n if draws else 0,
        forwards=forwards,
        before=before,
    )


def how_often(text: Text) -> str:
    """Return the probability (mass) of an explored completion, its number of draws, or both."""
    drawn = f"{text.count:,} ({share(text.share)})"
    if not text.mass:
        return drawn
    mass = f"mass {number(text.mass)}"
    return f"{mass}, {drawn}" if text.count else mass


def decodings(view: View) -> list[str]:
    """Return the decodings of the sampled models in words, without repetitions."""
    shown = (described(model.arm.decoding, model.engine.confirmed) for model in view.models)
    return list(dict.fromkeys(shown))


def left_out(texts: Texts) -> str:
    """Return the number of completions of a question that are not shown, or "" without any."""
    if not texts.left_out:
        return ""
    are, mass = "is" if texts.left_out == 1 else "are", max(texts.left_out_mass, 0.0) or None
    return say("left out", texts=texts, mass=mass, are=are)


# Around tables


def counted(ledgers: Mapping[str, Ledger]) -> str:
    """Return the numbers of each model's draws by class, with any limit that cut many draws."""
    return "\n".join(f"{label}{own.within}, {own.sentence}" for label, own in ledgers.items())


def counted_of(models: Iterable[ArmView]) -> str:
    """Return the numbers of these models' draws by class, see `counted`."""
    return counted({label: own for model in models for label, own in model.ledgers.items()})


def effort(view: View) -> str:
    """Return in words the largest number of draws, or of explored prefixes, per question."""
    how = [model.arm.spec.draws for model in view.every]
    if explored := [draws.forwards for draws in how if isinstance(draws, ExploredDraws)]:
        return say("effort explored", most=max(explored))
    most = "≤" if any(map(claim_of, how)) else "="
    return say("effort", most=most, n=max(model.arm.plan.n for model in view.every))


def lead(view: View, scorer: Scorer) -> str:
    """Return each model's excess over its control, and the departures if they differ."""
    lines = []
    for model in view.models:
        mean = model.leakage(scorer, scope="mean", beyond="control")
        worst = model.leakage(scorer, scope="worst question", beyond="control")
        text = say("control unknown")
        if mean and worst:
            text = say("excess", mean=mean, worst=worst)
        if model.control:
            lines.append(f"{model.subject}, excess over the control: {text}")
    lines = lines or [NO_CONTROL]
    lines += [f"{m.label}, {more}" for m in view.models if (more := over_others(m, scorer))]
    differ = len({model.departures for model in view.every}) > 1
    return "\n".join([*lines, *(departing(view) if differ else ())])


def remarks(view: View, scorer: Scorer) -> str:
    """Return an explanation of the numbers, then each model's counts, claims and caveats."""
    explored = any(model.arm.explored for model in view.models)
    figures = say("figures", view=view, explored=explored, confidence=view.confidence_by(scorer))
    of_models = [_remarks(view, model, scorer) for model in view.models]
    lines = (line for of_kind in zip(*of_models, strict=True) for line in of_kind)
    return "\n".join(filter(None, [figures * bool(view.models), counted_of(view.models), *lines]))


def _remarks(view: View, model: ArmView, scorer: Scorer) -> list[str]:
    """Return a model's counts, proofs, decisions, masses and caveats, each a text or ""."""
    of, rows = partial(say, model=model), model.leakages(scorer)
    plan, n, masses = model.arm.spec.draws, model.arm.plan.n, model.masses
    fixed = isinstance(plan, FixedDraws | ImportedDraws) and not claim_of(plan)
    leaked = decided = settled = judged = undecided = by = ""
    if rows and scorer.binary and fixed:
        count = sum((row.value or 0) > 0 for row in rows)
        scores = [*model.greedy_scores(scorer).values()]
        greedy = scores.count(1) if scores else None
        share = model.first(scorer, quantity="leak@k", scope="mean", parameter=n)
        leaked = of("leaked", rows=rows, n=n, count=count, greedy=greedy, share=share)
    if claims := list(filter(None, model.per_question(scorer, quantity=CLAIMS))):
        decided = of("decided", claim=claims[0], claims=claims, planned=n * len(claims))
    if isinstance(plan, ExploredDraws) and masses is not None:
        ordered = sorted(masses.settled.values())
        known = ordered[len(ordered) // 2] if ordered else None
        forwards = sum(forwards for _, forwards in masses.forwards.values())
        settled = of("settled", plan=plan, known=known, rows=rows, forwards=forwards)
    if row := model.first(scorer, quantity="corrected leak probability", scope="mean"):
        judged = of("judged", row=row)
    if missing := sum(row.missing for row in rows):
        undecided = of("undecided", missing=missing, rows=rows)
    if model.engine.assumes or not model.engine.repeatable:
        once = "" if model.engine.repeatable else "whose draws cannot be repeated"
        granted = "; that ".join(model.engine.assumes)
        by = of("drawn by", loaded=model.facts["model"], once=once, granted=granted)
    proof = proved(view, model, scorer)
    proof = proof and f"{model.label}, {proof}"
    return [leaked, proof, decided, settled, judged, undecided, _keywords(view, model, scorer), by]


def _keywords(view: View, model: ArmView, scorer: Scorer) -> str:
    """Return a warning about keywords that longer words may contain, with leak rates.

    If there are controls, the rates are the rates of the controls.
    """
    if not model.is_control and any(other.is_control for other in view.models):
        return ""
    rates = []
    for question in view.questions:
        row = model.leakage(scorer, question.id)
        words = short_keywords(scorer, question) if question.answer or question.keywords else ()
        if row and words:
            rate = DASH if row.value is None else share(row.value)
            rates.append(f"{', '.join(words)} ({question.id}) in {rate}")
    shown, more = "; ".join(rates[:_LISTED]), len(rates) > _LISTED
    return shown and say("short keywords", model=model, rates=shown, more=more)


def of_grid(grid: DecodingGrid) -> list[str]:
    """Return sentences on the decoding that leaks most and on the effects of its settings."""
    sentences = [say("most leaking", grid=grid)]
    if effects := grid.effects:
        less, more = sorted(KNOBS, key=lambda knob: effects[knob].lower)
        if effects[more].lower > effects[less].upper:
            rows = {"most": effects[more], "least": effects[less]}
            text = say("more", more=more, less=less, **rows)
        else:
            both = ", ".join(f"{knob} {interval(effects[knob])}" for knob in KNOBS)
            text = say("apart", knobs=" and ".join(KNOBS), effects=both)
        sure = f"valid simultaneously at {percent(grid.most.confidence)} confidence"
        sentences.append(f"{text} (root mean square over the decodings, {sure})")
    return sentences


def of_protocols(view: View, scorer: Scorer) -> str:
    """Return an explanation of the protocols and of ED, with the numbers of draws by class."""
    return "\n".join([say("protocols"), counted_of(view.reworded), say("ed", view=view)])


def of_stress(view: View, scorer: Scorer) -> str:
    """Return which intervals of a stress table are simultaneous, and each model's worst stress."""
    labels = dict.fromkeys(model.label for model in view.stressed)
    worst = ((label, worst_stress(view, label, scorer)) for label in labels)
    intervals = say("under stress", view=view)
    return "\n".join([intervals, *(f"{label}: {text}" for label, text in worst if text)])


def searched(view: View) -> str:
    """Return the settings of each search in words, one line per search."""
    several = len(view.searches) > 1
    return "\n".join(
        say("searched", search=search, run=several and run) for run, search in view.searches.items()
    )


def without_rewriting(counts: RewritingCounts) -> str:
    """Return the number of questions without a rewriting and the first ids, or "" without any."""
    if not counts.lacking:
        return ""
    shown, more = ", ".join(map(repr, counts.lacking[:_LISTED])), len(counts.lacking) > _LISTED
    how = "left out of “full”" if counts.design == "fresh" else "sampled in the original wording"
    return say("without rewriting", counts=counts, how=how, shown=shown, more=more)

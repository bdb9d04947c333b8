"""Every sentence about statements, in one place; numbers are rounded so as to claim no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import PurePath

from leakbound import stats
from leakbound.bounding.grid import KNOBS
from leakbound.bounding.readings import READ
from leakbound.bounding.rows import CLAIMS, SPREAD
from leakbound.presenting.specification import described
from leakbound.presenting.table import ceiling, interval
from leakbound.presenting.texts import Text, Texts
from leakbound.presenting.view import ArmView, DecodingGrid, RewritingCounts, Row, View
from leakbound.scorers import Of, make_scorer, reading_of, short_keywords
from leakbound.stats import percent
from leakbound.stats.about import Beyond, Quantity, Scope
from leakbound.stats.proportion import CLOPPER_PEARSON
from leakbound.store import EstimateRow, ExploredDraws, FixedDraws, ImportedDraws
from leakbound.store.record import claim_of
from leakbound.stress.dialogue import Dialogue
from leakbound.text.counting import Ledger
from leakbound.text.shown import DASH, above, below, many, number, share
from leakbound.types import Scorer

MOST_CHARACTERS = 600  # of a completion
MOST_ASKED = 2_000  # of a question, an answer, and any other text of others
MOST_LINE = 240  # of a question in a table
MOST_NAME = 120  # of a name in a table or a list
COMPUTED = "computed from model probabilities, no sampling error"
PARTS: tuple[Of, Of] = ("answer", "thought")
EXTRACTED = 0.5  # the chance of a leak from which a text counts as extracted
MOST_DRAWS = 10**12  # that anybody makes
LEVEL = 1e-6  # any text has a probability below it, of any model
_LISTED = 5
NO_CONTROL = (
    "No control: a model that never saw the data may score as much; what leaks beyond that is "
    "bounded where one is given (evaluate with --control)."
)


def clipped(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text, or its beginning and the number of characters that were cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({many(len(text) - most, 'more character')})"


def loaded_name(name: str) -> str:
    """The name of a loaded model: a hub's as it is, of a path the last part, a server's model."""
    if "://" in name:
        name = name.rpartition("#")[2]
    return name if name.count("/") == 1 and name[0] not in "./~" else PurePath(name).name or name


def model_name(model: ArmView) -> str:
    """The name of the model that an arm loaded."""
    return loaded_name(model.facts.get("model", model.label))


def named(model: ArmView) -> str:
    """The model's name, after the label if that is another one than the arm's."""
    name = model_name(model)
    return name if model.label in (name, str(model.key)) else f"{model.label} ({name})"


def title(view: View) -> str:
    """The title of a page, so that it is not taken for another."""
    names = list(dict.fromkeys(model_name(model) for model in view.targets))
    if not names:  # greedy answers only
        return "What the greedy answers leak"
    if len(names) == 1:
        return f"What {names[0]} still leaks"
    return f"What {', '.join(names[:-1])} and {names[-1]} still leak"


def quantity(scorer: Scorer) -> str:
    """The name of the expected leakage of a scorer."""
    return "leak probability" if scorer.binary else "mean score"


def mean_heading(scorer: Scorer) -> str:
    """The heading of the mean leakage."""
    return f"Mean {quantity(scorer)}" if scorer.binary else "Mean score"


def between(scorer: Scorer, lower: float, upper: float) -> str:
    """State the bounds on the expected leakage of one question."""
    verb = "leaks with probability" if scorer.binary else "has a mean score"
    return f"{verb} between {below(lower)} and {above(upper)}"


def values_of(rows: Iterable[Row]) -> list[float]:
    """The estimates there are."""
    return [row.value for row in rows if row is not None and row.value is not None]


def mean_of(rows: Collection[Row]) -> float | None:
    """The mean of the estimates; None unless every row has one."""
    values = values_of(rows)
    return sum(values) / len(values) if values and len(values) == len(rows) else None


def means_by(model: ArmView, scorer: Scorer, quantity: Quantity) -> dict[float, float]:
    """By k or x, the means of the estimates if every question has one."""
    questions = model.questions(scorer)
    rows = [model.by_parameter(scorer, question, quantity=quantity) for question in questions]
    common = sorted(set.intersection(*map(set, rows))) if rows else []
    means = {k: mean_of([by_k[k] for by_k in rows]) for k in common}
    return {k: mean for k, mean in means.items() if mean is not None}


def of_repeated(row: EstimateRow) -> str:
    """leak@k with its bounds and, if there are too few draws for an estimate, n/k."""
    if row.value is not None or not row.parameter:
        return interval(row)
    groups = row.n / (row.over if row.scope == "mean" and isinstance(row.over, int) else 1)
    return f"{interval(row)}, n/k = {groups / row.parameter:.3g}"


def decision(claim: EstimateRow) -> str:
    """The decision on a claim: holds, refuted or open."""
    decided: dict[float | None, str] = {1.0: "holds", 0.0: "refuted"}
    return decided.get(claim.value, "open")


# Of a run's card


def inconsistent(model: ArmView, scorer: Scorer) -> str:
    """A proof above an upper bound, in words; empty if they agree.

    The basis of the proof, the measured margin or the stored texts, is wrong, or the draws are the
    few in which a bound fails. Of many questions some bound may fail: leaks in a fixed number of
    draws are reported only if their p-value is below alpha / 2 over the questions (Bonferroni).
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
        return (
            f"inconsistent: of {question} a leakage ≥ {below(low)} is proved, and draws bound "
            f"it by {above(drawn.upper)}; one is wrong. Verify the run with its model"
        )
    return ""


def over_others(model: ArmView, scorer: Scorer) -> str:
    """How much more these questions leak than the control questions; empty without those."""
    mean = model.leakage(scorer, scope="mean", beyond="other questions")
    if mean is None:
        return ""
    sentence = (
        f"beyond the control questions {interval(mean)} on average: two sets of questions in this "
        "model, no excess over a model that never saw the data"
    )
    if coin := model.first(scorer, quantity="randomisation p-value"):
        sentence += (
            f"; a coin chose which of {coin.over} subjects were taught: had teaching changed "
            f"nothing, it would put the taught so far ahead with probability {above(coin.upper)} "
            f"(exact test by {coin.estimate.method})"
        )
    return sentence


def readings(
    model: ArmView, scorer: Scorer, scope: Scope, beyond: Beyond | None
) -> dict[Of, EstimateRow]:
    """The statements of each reading of a model, by part; empty if it has no visible thoughts."""
    rows = {
        of: model.first(scorer, quantity=names, scope=scope, beyond=beyond, jointly=True)
        for of, names in READ.items()
    }
    return {of: row for of, row in rows.items() if row is not None}


def where_it_leaks(model: ArmView, scorer: Scorer) -> str:
    """State in which part of its outputs a model leaks, or which part all statements are about.

    Empty if it has no thoughts, and without a control for scores that are not binary.
    """
    beyond: Beyond | None = "control" if model.control else None
    rows = readings(model, scorer, "worst question", beyond)
    of, hidden = reading_of(scorer), model.ledger.hidden
    if not rows and of and (model.ledger.thoughts or hidden):
        why = f", as {many(hidden, 'draw')} had a hidden thought" if hidden else ""
        part = "answer or the thought" if of == "either" else f"{of} only"
        return f"this is about the {part}{why}"
    if not rows or not (scorer.binary or beyond):
        return ""
    verb, other = ("leak", "") if scorer.binary else ("score", " above the control")
    shown, rest = (
        [f"in the {of}" for of in PARTS if (rows[of].lower > 0) == leaks] for leaks in (True, False)
    )
    says = f"not shown to {verb}{other} in the answer, in the thought, or in either"
    if shown:
        says = ", not shown ".join([f"it {verb}s{other} {' and '.join(shown)}", *rest])
    elif rows["either"].lower > 0:
        says = f"it is shown to {verb}{other} in the answer or the thought, not in which of them"
    sure = percent(rows["either"].confidence)
    return f"{says} (all three readings simultaneously, {sure})"


def worst_stress(view: View, label: str, scorer: Scorer) -> str:
    """State what a model leaks under the stress under which it leaks most; empty without any.

    And beyond the equally stressed control, if there is one.
    """
    models = [model for model in view.stressed if model.label == label]
    most = models[0].leakage(scorer, scope="most-leaking stress") if models else None
    if most is None:
        return ""
    stressed = [model for model in models if model.key.stress]
    sentence = f"under the worst of {len(stressed)} stress{'es' * (len(stressed) > 1)}"
    if len(stressed) > 1 and any(m.key.stress.split(" ")[0] == Dialogue.name for m in stressed):
        sentence += " (a conversation counts by the largest of its answers)"
    sentence += f", the choice counted: {mean_heading(scorer).lower()} {interval(most)}"
    if cut := list(dict.fromkeys(filter(None, (model.ledger.within for model in stressed)))):
        sentence += f",{' and'.join(cut)}"
    if beyond := models[0].leakage(scorer, scope="most-leaking stress", beyond="control"):
        sentence += f"; beyond its control put through the same, at least {below(beyond.lower)}"
    return sentence


def departing(view: View) -> list[str]:
    """State the departures from the benchmark's defaults: in one line, or one per model."""
    by_label = {model.label: model.departures for model in view.every}
    if len(set(by_label.values())) == 1:
        by_label = {"": next(iter(by_label.values()))}
    return [
        f"{f'{label} departs' if label else 'Departs'} from {view.benchmark['name']}'s defaults: "
        f"{'; '.join(parts)}."
        for label, parts in by_label.items()
        if parts
    ]


# Of proofs


def proved_to_leak(view: View, model: ArmView, scorer: Scorer) -> list[float]:
    """The lower bounds of proofs that count, question by question.

    Any text is possible, so some chance of the answer can be proved of a model that never saw it.
    Those count that are above a stated level, and above what is proved of the control.
    """
    controls = [other for other in view.models if other.is_control]
    return [
        low
        for question in view.questions
        if (low := model.proof(scorer, question.id))
        > max([LEVEL, *(control.proof(scorer, question.id) for control in controls)])
    ]


def proved(view: View, model: ArmView, scorer: Scorer) -> str:
    """State of how many questions a leak is proved, and how large; empty if of none."""
    bounds = proved_to_leak(view, model, scorer)
    if not bounds:
        return ""
    than = ", more than is proved of the control" if model.control else ""
    text = (
        f"proved: {quantity(scorer)} ≥ {below(max(bounds))} at the worst "
        f"question and ≥ {below(min(bounds))} at {len(bounds)} of "
        f"{len(model.questions(scorer))}{than}, {COMPUTED}"
    )
    if scorer.binary:
        n = stats.extraction_draws(max(bounds), EXTRACTED)
        text += (
            f"; who asks {'once' if n == 1 else f'{n:,.0f} times'} gets the former with "
            f"probability at least {EXTRACTED:g}, ({n:,.0f}, {EXTRACTED:g})-discoverable extraction"
        )
    return text


def extraction(leakage: EstimateRow, proof: float) -> str:
    """The draws that suffice, or are needed, for a leak with even chances; of a binary scorer.

    Empty if neither is known.
    """
    sure = f"({percent(leakage.confidence)})"
    lower = {"as is proved": proof, sure: leakage.lower}
    enough = {how: stats.extraction_draws(p, EXTRACTED) for how, p in lower.items()}
    parts = [f"n = {n:,.0f} suffices {how}" for how, n in enough.items() if n <= MOST_DRAWS]
    least = stats.extraction_draws(leakage.upper, EXTRACTED, fewest=True)
    if 1 < least <= MOST_DRAWS:
        parts.append(f"no fewer than {least:,.0f} do {sure}")
    return f"(n, {EXTRACTED:g})-discoverable extraction: {', '.join(parts)}" if parts else ""


def proof_of(model: ArmView, scorer: Scorer, question: str) -> str:
    """State what leaking texts prove of a question; empty if nothing is proved."""
    if not (proof := model.proof(scorer, question)):
        return ""
    text = f"leakage ≥ {below(proof)}"
    for repeated in model.where(scorer, question, quantity="leak@k", proved=True).rows[-1:]:
        text += f", leak@{repeated.parameter:,.0f} ≥ {below(repeated.lower)}"
    return text


# Of one question


def measured(model: ArmView, scorer: Scorer, question: str) -> str:
    """All that is estimated of one question, but for curves; empty if it was not bounded."""
    leakage = model.leakage(scorer, question)
    if leakage is None:
        return ""
    first = partial(model.first, scorer, question)
    spread = (row.quantity.reading for row in SPREAD)
    rows = {
        **{name: first(quantity=name) for name in spread},
        "corrected for the judge": first(quantity="corrected leak probability"),
        "beyond the control": model.leakage(scorer, question, beyond="control"),
    }
    parts = [f"{scorer.name}: {quantity(scorer)} {interval(leakage)}"]
    for name, row in rows.items():
        if row is not None and name == "expectation deviation":
            parts.append(f"ED ({row.about.name}, may exceed 1) {ceiling(row)}")
        elif row is not None:
            parts.append(f"{name} {interval(row)}")
    clauses = [", ".join(parts)]
    if claim := first(quantity=CLAIMS):
        clauses.append(f"{claim.about.claimed}: {decision(claim)} after {many(claim.n, 'draw')}")
    if leakage.missing:
        clauses.append(f"{many(leakage.missing, 'draw')} without a score")
    if proof := proof_of(model, scorer, question):
        clauses.append(f"proved: {proof}, {COMPUTED}")
    if scorer.binary:
        clauses.append(extraction(leakage, model.proof(scorer, question)))
    return "; ".join(filter(None, clauses))


def explored(model: ArmView, question: str) -> str:
    """State in one sentence what exploring a question found; empty if it was not explored."""
    masses, draws = model.masses, model.first(make_scorer(model.estimates.scorers[0]), question)
    if masses is None or question not in masses.remainder:
        return ""
    before, forwards = masses.forwards[question]
    return (
        f"settled mass {number(masses.settled[question])}, remainder "
        f"{number(masses.remainder[question])} with {many(draws.n if draws else 0, 'draw')}; "
        f"{forwards:,} prefixes forwarded, {before:,} of them before the draws"
    )


def how_often(text: Text) -> str:
    """A completion's known mass, its draws, or both: the same text may be spelt in two ways."""
    drawn = f"{text.count:,} ({share(text.share)})"
    if not text.mass:
        return drawn
    mass = f"mass {number(text.mass)}"
    return f"{mass}, {drawn}" if text.count else mass


def decodings(view: View) -> list[str]:
    """The decodings of the models that were sampled, each once."""
    shown = (described(model.arm.decoding, model.engine.confirmed) for model in view.models)
    return list(dict.fromkeys(shown))


def left_out(texts: Texts) -> str:
    """State how many of a question's completions are not shown; empty if all are."""
    if not texts.left_out:
        return ""
    mass = f", mass {number(texts.left_out_mass)}" if texts.left_out_mass > 0 else ""
    drawn = many(texts.left_out_draws, "draw")
    are = "is" if texts.left_out == 1 else "are"
    more = many(texts.left_out, "more distinct completion")
    return f"{more}, {drawn}{mass}, {are} not shown."


# Around tables


def counted(ledgers: Mapping[str, Ledger]) -> str:
    """State how the draws of each model are counted, and where they were cut."""
    return "\n".join(f"{label}{own.within}, {own.sentence}" for label, own in ledgers.items())


def counted_of(models: Iterable[ArmView]) -> str:
    """As `counted`, of these models."""
    return counted({label: own for model in models for label, own in model.ledgers.items()})


def effort(view: View) -> str:
    """The largest number of draws or forwards per question."""
    how = [model.arm.spec.draws for model in view.every]
    if explored := [draws.forwards for draws in how if isinstance(draws, ExploredDraws)]:
        return f"explored with about {many(max(explored), 'forward')} each"
    most = "≤" if any(map(claim_of, how)) else "="
    return f"n {most} {max(model.arm.plan.n for model in view.every):,}"


def lead(view: View, scorer: Scorer) -> str:
    """How far models leak beyond controls, and their departures if these differ, for a console."""
    lines = []
    for model in view.models:
        mean = model.leakage(scorer, scope="mean", beyond="control")
        worst = model.leakage(scorer, scope="worst question", beyond="control")
        says = "nothing is known, since not every question was drawn of both"
        if mean and worst:
            says = f"{interval(mean)} on average, {interval(worst)} at the worst question"
        if model.control:
            lines.append(f"{model.subject}, beyond the control {says}")
    lines = lines or [NO_CONTROL]
    lines += [f"{m.label}, {more}" for m in view.models if (more := over_others(m, scorer))]
    differ = len({model.departures for model in view.every}) > 1
    return "\n".join([*lines, *(departing(view) if differ else ())])


def remarks(view: View, scorer: Scorer) -> str:
    """State what the figures are; and of each model its counts, claims, masses and caveats."""
    margin = ", given the measured margin" if any(m.arm.explored for m in view.models) else ""
    figures = (
        f"intervals hold at {percent(view.confidence)} each{margin}; they are rounded "
        "outward, and ≤ is an upper end alone, of the worst deviation the largest of any question; "
        f"ED is the mean plus {view.rho:g} standard deviations; what has no ends is an estimate, a "
        "mean over the questions"
    )
    of_models = [_remarks(view, model, scorer) for model in view.models]
    lines = (line for of_kind in zip(*of_models, strict=True) for line in of_kind)
    return "\n".join(filter(None, [figures, counted_of(view.models), *lines]))


def _remarks(view: View, model: ArmView, scorer: Scorer) -> list[str]:
    """Counts, what is proved, decided and settled; then caveats; each or empty."""
    rows, claims = model.leakages(scorer), model.per_question(scorer, quantity=CLAIMS)
    plan, n, masses = model.arm.spec.draws, model.arm.plan.n, model.masses
    drawn, missing = sum(row.n for row in rows), sum(row.missing for row in rows)
    leaked = decided = settled = judged = undecided = by = ""
    if (
        rows
        and scorer.binary
        and isinstance(plan, FixedDraws | ImportedDraws)
        and not claim_of(plan)
    ):
        count = sum((row.value or 0) > 0 for row in rows)
        leaked = f": {count} of {many(len(rows), 'question')} leaked in {many(n, 'draw')}"
        if greedy := model.greedy(scorer).values():
            leaked += f", {values_of(greedy).count(1)} in the greedy answer"
        if share := model.first(scorer, quantity="leak@k", scope="mean", parameter=n):
            leaked += f"; the share that leaks in so many (leak@{n}, mean): {of_repeated(share)}"
    if decisions := [claim for claim in claims if claim]:
        counts, done = Counter(map(decision, decisions)), sum(claim.n for claim in decisions)
        decided = (
            f", {decisions[0].about.claimed}: holds for {counts['holds']}, refuted for "
            f"{counts['refuted']}, open for {counts['open']} of "
            f"{many(len(decisions), 'question')}; {many(done, 'draw')} instead of "
            f"{n * len(decisions):,}"
        )
    if isinstance(plan, ExploredDraws) and masses is not None:
        known = sorted(masses.settled.values())
        forwards = sum(forwards for _, forwards in masses.forwards.values())
        settled = (
            f", explored ({plan.mode}): median known mass "
            f"{number(known[len(known) // 2]) if known else DASH}, "
            f"{many(drawn, 'draw')} of what is left, {many(forwards, 'forward')}"
        )
    if row := model.first(scorer, quantity="corrected leak probability", scope="mean"):
        judged = f", mean corrected for the judge: {interval(row)}, {row.method}"
    if missing:
        undecided = (
            f": {missing:,} of {many(drawn, 'draw')} have no score; they count as full leaks in "
            "upper bounds, as none in lower bounds"
        )
    if model.engine.assumes or not model.engine.repeatable:
        by = f", drawn by {model.facts['model']}"
        by += "" if model.engine.repeatable else ", whose draws cannot be made again"
        if granted := "; that ".join(model.engine.assumes):
            by += f", taking for granted that {granted}"
    proof = proved(view, model, scorer)
    keywords = _short_keywords(view, model, scorer)
    texts = (leaked, proof and f": {proof}", decided, settled, judged, undecided, keywords, by)
    return [text and f"{model.label}{text}" for text in texts]


def _short_keywords(view: View, model: ArmView, scorer: Scorer) -> str:
    """Name the keywords that longer words may contain, with how often a control gives them."""
    if not model.is_control and any(other.is_control for other in view.models):
        return ""
    rates = []
    for question in view.questions:
        row = model.leakage(scorer, question.id)
        words = short_keywords(scorer, question) if question.answer or question.keywords else ()
        if row and words:
            rate = DASH if row.value is None else share(row.value)
            rates.append(f"{', '.join(words)} ({question.id}) in {rate}")
    shown = "; ".join(rates[:_LISTED]) + (" and others" if len(rates) > _LISTED else "")
    return shown and (
        ": in scripts without blanks, short keywords also occur inside longer "
        f"words; leaks by draws of each: {shown}"
    )


def of_grid(grid: DecodingGrid) -> list[str]:
    """Which decoding leaks most, and which knob moves leakage more, or that neither is shown to."""
    holds = f"{percent(grid.most.confidence)} jointly"
    sentences = [
        f"seen to leak most: {grid.decoding}, {interval(grid.most)}; cells hold at {holds}"
    ]
    if effects := grid.effects:
        less, more = sorted(KNOBS, key=lambda knob: effects[knob].lower)
        if effects[more].lower > effects[less].upper:
            says = f"{more} moves leakage more than {less}: {interval(effects[more])} against "
            says += interval(effects[less])
        else:
            both = ", ".join(f"{knob} {interval(effects[knob])}" for knob in KNOBS)
            says = f"which of {KNOBS[0]} and {KNOBS[1]} moves leakage more cannot be told: {both}"
        sentences.append(f"{says} (root mean square, {holds})")
    return sentences


def of_protocols(view: View, scorer: Scorer) -> str:
    """How the draws of a table of protocols are counted, and what ED is."""
    ed = f"ED is the mean plus {view.rho:g} standard deviations, and may exceed 1"
    return f"{counted_of(view.reworded)}\n{ed}"


def of_stress(view: View, scorer: Scorer) -> str:
    """State how the intervals of a table of stresses are valid, and each model's worst stress."""
    labels = dict.fromkeys(model.label for model in view.stressed)
    worst = ((label, worst_stress(view, label, scorer)) for label in labels)
    intervals = (
        "what is added holds for all stresses and questions of a model at once, "
        f"{percent(view.confidence)}; other intervals hold each by itself"
    )
    return "\n".join([intervals, *(f"{label}: {says}" for label, says in worst if says)])


def searched(view: View) -> str:
    """How each search was made."""
    several = len(view.searches) > 1
    return "\n".join(
        (f"{run}: " if several else "")
        + f"searched with {many(search.budget, 'draw')} a question"
        + ("" if search.forwards_per_token is None else ", or proofs that cost as much")
        + f", steered by {search.scorer.name}, bounded by fresh draws"
        for run, search in view.searches.items()
    )


def without_rewriting(counts: RewritingCounts) -> str:
    """Which questions have no rewriting, a few of them named; empty if all have one."""
    if not counts.alone:
        return ""
    shown = ", ".join(map(repr, counts.alone[:_LISTED]))
    more = ", …" if len(counts.alone) > _LISTED else ""
    how = "left out of full" if counts.design == "fresh" else "asked as they are"
    return f"no rewriting is left of {many(len(counts.alone), 'question')}, {how}: {shown}{more}"

"""The templates of all sentences about statements, filled with rows and numbers.

`{row:interval}` prints a statement with its bounds, and `{n: draw}` a number
with its noun. `{x:if}` is a condition and prints nothing. Bounds are rounded
outwards. A part in brackets is left out if one of its values is None, False or
empty.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import cache
from string import Formatter
from typing import Any

from leakbound.presenting.table import interval, stated
from leakbound.stats import percent
from leakbound.store import EstimateRow
from leakbound.text.shown import above, below, many, number
from leakbound.types import Scorer

COMPUTED = "computed from model probabilities, without sampling error"
EXTRACTED = 0.5  # a text counts as extracted if it occurs with at least this probability


def quantity(scorer: Scorer) -> str:
    """Return the name of the expected leakage of a scorer."""
    return "leak probability" if scorer.binary else "mean score"


def mean_heading(scorer: Scorer) -> str:
    """Return the heading of the mean leakage."""
    return f"Mean {quantity(scorer)}" if scorer.binary else "Mean score"


def decision(claim: EstimateRow) -> str:
    """Return the decision on a claim: holds, refuted or open."""
    decided: dict[float | None, str] = {1.0: "holds", 0.0: "refuted"}
    return decided.get(claim.value, "open")


def _decisions(claims: Sequence[EstimateRow]) -> str:
    counts = Counter(map(decision, claims))
    return ", ".join(f"{how} for {counts[how]}" for how in ("holds", "refuted", "open"))


_NAMED = (above, below, decision, interval, number, percent, quantity, stated)
FORMS: Mapping[str, Callable[[Any], str]] = {form.__name__: form for form in _NAMED} | {
    "decisions": _decisions,
    "draws": lambda rows: many(sum(row.n for row in rows), "draw"),
    "es": lambda values: "es" * (len(values) > 1),
    "if": lambda value: "",
    "least": lambda bounds: below(min(bounds)),
    "len": lambda values: f"{len(values)}",
    "most": lambda bounds: below(max(bounds)),
    "scorer": lambda scorer: f"{scorer.name} ({scorer.digest})",
}
_TEXT = """
apart: it is not shown which of {knobs} has the larger effect: {effects}
below: BELOW a {scorer:quantity} of {claim.about.constant:g} at every question
 ({claim.confidence:percent}, each individually)
caveats: [Each bound is valid individually at {confidence:percent} confidence. More draws also lower
 an upper bound.][ “Front” marks a model if no other model leaks less and is at least as
 useful.{utility:if}][ Leaks by chance are included, because not every model has a
 control.{chance_counts:if}]
chat: a chat, in the model's own template[, with the system message {system}]
control unknown: unknown, because some questions were not sampled from both models
counts: leakage rose at {rose:,} of {total: question} and fell at {fell:,}
counts every: leakage {which} at {questions}
counts none: no change is shown at {questions}
counts one: leakage {which} at {count:,} of {total: question} and is shown to {other} at none
decided: {model.label}, claim {claim.about.claimed}: {claims:decisions} of {claims: question};
 {claims:draws}, at most {planned:,} were planned
decoding: {decoding.name}[, {neutral}][, {longest}][, at most {decoding.max_tokens:,} with the
 prompt][, {stops}]
departs: {departs} from {benchmark}'s defaults: {parts}
departures: [{questions} questions][{others}][draws imported, made as {imported} states (not
 verified)][{longest}, not {usual_longest}][{length}, not {usual_length}][outputs after the
 service's filter{filter:if}][{stops}, in place of {usual_stops}][thinking {thinking}][ended by
 {end_tokens: ordinary token} of the model][prompt {prompt}, not {usual_prompt}][system message
 {system}, not {usual_system}][computed in {dtype}]
difference at least: [{which} ]by at least {least:below} on average
difference between: on average [no difference is shown, {none:if}]{mean.lower:below} to
 {mean.upper:above}
difference less: {model} {verb} {word} than {baseline}
difference mixed: {model} compared with {baseline} has MIXED differences
difference more: {model} {verb} {word} than {baseline}
difference not shown: NO DIFFERENCE is shown between {model} and {baseline}
difference unknown: the average is not known, because some questions lack completions
drawn by: {model.label}, drawn by {loaded}[, {once}][, on the assumption that {granted}]
draws: {drawn}[; seed {arm.seed}][; copied from arm {arm.copied.drawn_as} of a finished run,
 {identity}]
ed: ED is the mean plus {view.rho:g} standard deviations, and may exceed 1
effort: n {most} {n:,}
effort explored: explored with about {most: forward} each
excess: {mean:interval} on average, {worst:interval} at the worst question
explored: settled mass {settled:number}, remainder {remainder:number} with {drawn: draw};
 {forwards:,} prefixes forwarded, {before:,} of them before the draws
extraction: [n = {proved:,.0f} suffices (proved)][n = {enough:,.0f} suffices
 ({row.confidence:percent})][at least n = {least:,.0f} is needed ({row.confidence:percent})]
figures: Each interval is valid individually at {view.confidence:percent} confidence[, given the
 measured margin for rounding{explored:if}], and is rounded outward. ≤ marks an upper bound. A
 deviation is the standard deviation of the scores of a question; the worst is the largest of the
 questions. ED is the mean plus {view.rho:g} standard deviations. A number without bounds is an
 estimate, averaged over the questions.
inconsistent: inconsistent: for {question}, a leakage ≥ {proof:below} is proved, but the draws give
 an upper bound of {drawn.upper:above}; one of them is wrong. Verify the run with its model
judged: {model.label}, mean leak probability, corrected for the judge's errors: {row:interval},
 {row.method}
leaked: {model.label}: {count} of {rows: question} leaked in {n: draw}[, and {greedy} in the greedy
 answer][; the expected fraction of questions that leak in {n: draw} is the mean leak@{n}:
 {share:stated}]
left out: {texts.left_out: more distinct completion} ({texts.left_out_draws: draw}[, mass
 {mass:number}]) {are} not shown.
limit: {scorer:quantity} is shown below {claim.about.constant:g} at {holds:,} of
 {questions: question}, and above at {refuted:,} ({claim.confidence:percent} each)
measured: {scorer.name}: {scorer:quantity} {leakage:interval}[, median {median:interval}][, standard
 deviation {deviation:interval}][, ED ({ed.about.name}, may exceed 1) {ed:interval}][, corrected for
 the judge's errors {judged:interval}][, excess over the control {excess:interval}][; claim
 {claim.about.claimed}: {claim:decision} after {claim.n: draw}][; {missing: draw} without a score][;
 proved: {proof}, {computed}][; (n, {chance:g})-discoverable extraction: {extraction}]
methods: Each median over training seeds has bounds at {confidence:percent}, valid individually. The
 values of the seeds, their mean and their spread describe these models; they are not bounds.
more: {more} has a larger effect than {less}: {most:interval} against {least:interval}
most leaking: the largest observed leakage is that of {grid.decoding}, {grid.most:interval}; the
 intervals of all decodings are valid simultaneously at {grid.most.confidence:percent}
other questions: excess over the control questions {mean:interval} on average. This number compares
 two sets of questions in this model, not this model with a model that never saw the data[. A coin
 chose which of {coin.over} subjects were taught. If teaching changed nothing, a difference as large
 would have probability {coin.upper:above} (exact test by {coin.method})]
prompt: {text}[, thinking {thinking}][, each output ended by {end}][, in the format of {compat}]
proof: leakage ≥ {proof:below}[, leak@{repeated.parameter:,.0f} ≥ {repeated.lower:below}]
proved: proved: {scorer:quantity} ≥ {bounds:most} at the worst question, and ≥ {bounds:least} at
 {bounds:len} of {questions: question}, {computed}[. Only proofs that
 exceed the control's are counted{model.control:if}][. Sampling the worst question {times} gives a
 leak with probability at least {chance:g}: ({n:,.0f}, {chance:g})-discoverable extraction]
questions: {number} of {benchmark.name}[, profile {benchmark.profile}] ([{benchmark.origin}; ]digest
 of the questions {rows}[, {equal}])
random numbers: {labels}: draws may share random numbers with the draws of the baseline. Each model
 is bounded separately, with intervals about 1.4 times as wide; another --seed avoids this.
reading: all statements are about the {part}[, because {hidden: draw} had a hidden thought]
reading each: the model {verb}s{beyond} {shown}[, not shown {rest}] {joint}
reading either: the model {verb}s{beyond} in the answer or the thought, but it is not shown in which
 of the two {joint}
reading neither: the model is not shown to {verb}{beyond} in the answer, the thought or either
 {joint}
readings: The statements about answer, thought and either are valid simultaneously,
 {row.confidence:percent}. Each has a third of the error probability (Bonferroni), because the parts
 of an output depend on each other.
readings joint: (all three readings simultaneously, {row.confidence:percent})
rewritings: {number:,} rewritings, source {inputs.source}, design {inputs.design};
 {inputs.queries:,} tried per question, seed {inputs.seed}[; not filtered: a rewriting may lose a
 fact or give words of the answer{unfiltered:if}][; kept if the model is at least as confident in
 its answers as for the question ({inputs.criterion} of {inputs.ids_draws:,}
 answers){inputs.ids:if}][; kept if {inputs.embedder} gives a cosine similarity of at least
 {least}][; {facts}]
searched: [{run}: ]searched with {search.budget: draw} per question[, or proofs of the same
 cost{search.forwards_per_token:if}], steered by the scorer {search.scorer.name}; the bounds are
 from fresh draws
seen: {leaks} of {rows:draws} {verb}[ ({missing:,} without a score)]
settled: {model.label}, explored ({plan.mode}): median settled mass {known:number}, {rows:draws} of
 the remainder, {forwards: forward}
short keywords: {model.label}: in scripts without spaces, short keywords also occur inside longer
 words; fraction of draws that contain them: {rates}[ and others{more:if}]
sure: [{row.confidence:percent} confidence for {together}. ]Evidence: {view.questions: question} of
 the benchmark {benchmark}[ in their original wording{own:if}], {drawn}, at
 {model.arm.decoding.name}. [Leaks are decided by {leaks}][Scores are by {scores}][ (the first of
 {scorers:len} scorers)]
undecided: {model.label}: {missing:,} of {rows:draws} have no score; they count as full leaks in
 upper bounds, as no leaks in lower bounds
under stress: the added leakage is valid for all stresses and questions of a model simultaneously,
 {view.confidence:percent}; other intervals are valid individually
without rewriting: {counts.lacking: question} without a rewriting ({how}): {shown}[, …{more:if}]
worst stress: under the worst of {stresses:len} stress{stresses:es}[{talks:if} (a conversation has
 the largest score of its answers)], corrected for selection: {heading} {most:interval}[,{within}][;
 the excess over the control under the same stress is at least {beyond.lower:below}]
ExploredDraws: from the mass that exploring a question leaves unknown ({how.mode}, {how.forwards:,}
 forwards, steered by {how.scorer:scorer})
FixedDraws: {n:,} per question, fixed in advance
ImportedDraws: [until {claim} was decided, at most ]{n:,} per question, imported[, scores
 without texts{without:if}]: made as {how.sampled_by} states (not verified)[; in doubt:
 {how.in_doubt}]; seed {how.seed}
StoppedDraws: of each question until {how.claim} is decided by {how.scorer:scorer} at
 {how.confidence:percent}; first look after {how.first:,}, at most {n:,} draws
"""
TEMPLATES = dict(line.split(": ", 1) for line in _TEXT.replace("\n ", " ").strip().splitlines())


@cache
def _parts(name: str) -> list[list[tuple[str, list[str], str]]]:
    """Return the parts of a template, every second in brackets: literal text, field and form."""
    return [
        [(text, (field or "").split("."), form or "") for text, field, form, _ in parsed]
        for parsed in map(Formatter().parse, re.split(r"[\[\]]", TEMPLATES[name]))
    ]


def say(name: str, /, **values: Any) -> str:
    """Fill a template."""
    values |= {"computed": COMPUTED, "chance": EXTRACTED}
    return "".join(_filled(part, values, i % 2 == 1) for i, part in enumerate(_parts(name)))


def parts(name: str, /, **values: Any) -> list[str]:
    """Fill the parts in brackets of a template, and return those that are not left out."""
    return list(filter(None, (_filled(part, values, True) for part in _parts(name)[1::2])))


def _filled(part: list[tuple[str, list[str], str]], values: dict[str, Any], optional: bool) -> str:
    texts = []
    for literal, path, form in part:
        texts.append(literal)
        if path[0]:
            value = values[path[0]]
            for name in path[1:]:
                value = None if value is None else getattr(value, name)
            if optional and (value is None or value is False or value == ""):
                return ""
            texts.append(_shown(value, form))
    return "".join(texts)


def _shown(value: Any, form: str) -> str:
    if form.startswith(" "):
        return many(len(value) if isinstance(value, Sized) else value, form[1:])
    return FORMS[form](value) if form in FORMS else format(value, form)

"""The templates of all sentences about statements. `say` fills them with rows and numbers.

`{row:interval}` prints a statement with its bounds. `{n: draw}` prints a number
with its noun. `{x:if}` is a condition and prints nothing. Bounds are rounded
outwards. A part in brackets is omitted if one of its values is None, False or
empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sized
from functools import cache
from string import Formatter
from typing import Any

from leakbound.presenting.table import interval, stated
from leakbound.stats import percent
from leakbound.store import EstimateRow
from leakbound.text.shown import above, below, many, number
from leakbound.types import Scorer

COMPUTED = "computed from model probabilities, without sampling error"
LATE = "stated after drawing"
EXTRACTED = 0.5  # a text counts as extracted if it occurs with at least this probability


def quantity(scorer: Scorer) -> str:
    """Return the name of the expected leakage of a scorer."""
    return "leak probability" if scorer.binary else "mean score"


def mean_heading(scorer: Scorer) -> str:
    """Return the heading of the mean leakage."""
    return f"Mean {quantity(scorer)}" if scorer.binary else "Mean score"


def decision(claim: EstimateRow) -> str:
    """Return the decision on a claim: "holds", "refuted" or "open"."""
    decided: dict[float | None, str] = {1.0: "holds", 0.0: "refuted"}
    return decided.get(claim.value, "open")


_NAMED = (above, below, decision, interval, number, percent, quantity, stated)
FORMS: Mapping[str, Callable[[Any], str]] = {form.__name__: form for form in _NAMED} | {
    "decisions": lambda claims: ", ".join(
        f"{how} for {[*map(decision, claims)].count(how)}" for how in ("holds", "refuted", "open")
    ),
    "draws": lambda rows: many(sum(row.n for row in rows), "draw"),
    "es": lambda values: "es" * (len(values) > 1),
    "if": lambda value: "",
    "least": lambda bounds: below(min(bounds)),
    "len": lambda values: f"{len(values)}",
    "most": lambda bounds: below(max(bounds)),
    "scorer": lambda scorer: f"{scorer.name} ({scorer.digest})",
}
_TEXT = """
apart: it is not shown which of {knobs} has the larger effect on the leakage: {effects}
below: BELOW a {scorer:quantity} of {claim.about.constant:g} at every question
 ({claim.confidence:percent} confidence, for each question individually)
caveats: [Each bound is valid individually at {confidence:percent} confidence. More draws lower an
 upper bound, even if the leakage is the same.][ “Front” marks the Pareto front of utility and of
 the upper bound on the mean.{utility:if}][ The numbers include leaks by
 chance, because not every model has a control.{chance_counts:if}]
chat: a chat, in the model's own template[, with the system message {system}]
control unknown: unknown, because some questions were not sampled from both models
counts: leakage rose at {rose:,} of {total: question} and fell at {fell:,}
counts every: leakage {which} at {questions}
counts none: no change is shown at {questions}
counts one: leakage {which} at {count:,} of {total: question} and is shown to {other} at none
decided: {model.label}, claim {claim.about.claimed}: {claims:decisions} of {claims: question};
 {claims:draws} of at most {planned:,} planned draws were made
decoding: {decoding.name}[, {neutral}][, {longest}][, at most {decoding.max_tokens:,} tokens with
 the prompt][, {stops}]
departs: {departs} from the defaults of the benchmark “{benchmark}”: {parts}
departures: [{questions} questions][{others}][imported draws, sampled by {imported}, as their files
 state (not verified)][{longest}, not {usual_longest}][{length}, not {usual_length}][outputs after
 the service's filter{filter:if}][{stops}, instead of {usual_stops}][thinking {thinking}][outputs
 also ended by {end_tokens: ordinary token} of the model][prompt {prompt}, not
 {usual_prompt}][system message {system}, not {usual_system}][computed in {dtype}]
difference at least: [{which} ]by at least {least:below} on average
difference between: the average difference is between {mean.lower:below} and {mean.upper:above}[, so
 no difference is shown on average{none:if}]
difference less: {model} {verb} {word} than {baseline}
difference mixed: {model} compared with {baseline} has MIXED differences
difference more: {model} {verb} {word} than {baseline}
difference not shown: NO DIFFERENCE is shown between {model} and {baseline}
difference unknown: the average difference is unknown, because some questions have no completions
drawn by: {model.label}, drawn from the model {loaded}[, {once}][, on the assumption that {granted}]
draws: {drawn}[; seed {arm.seed}][; copied from arm {arm.copied.drawn_as} of a finished run, whose
 draws have the identity {identity}]
ed: ED is the mean plus {view.rho:g} standard deviations, and may exceed 1
effort: n {most} {n:,} draws per question
effort explored: explored by running the model on about {most:,} prefixes per question
excess: {mean:interval} on average, {worst:interval} at the worst question
explored: exploration: settled mass {settled:number} (total probability of the completions whose
 score is known); remainder {remainder:number} (probability of the outputs that were not explored),
 with {drawn: draw}; the model was run on {forwards:,} prefixes, {before:,} of them before the draws
extraction: [n = {proved:,.0f} suffices (proved)][n = {enough:,.0f} suffices
 ({row.confidence:percent})][at least n = {least:,.0f} is needed ({row.confidence:percent})]
figures: Each interval is valid individually at {confidence:percent} confidence[, if rounding
 errors are within the measured margin{explored:if}], and is rounded outward. ≤ marks an upper
 bound. A deviation is the standard deviation of the scores of a question; the worst deviation is
 the largest over the questions. ED is the mean plus {view.rho:g} standard deviations. A number
 without bounds is an estimate, averaged over the questions.
gap: A gap is the leakage with all queries of a question (full), or with its worst query, minus the
 leakage with the original wording
inconsistent: inconsistent: for {question}, a leakage ≥ {proof:below} is proved, but the draws give
 an upper bound of {drawn.upper:above}; one of these bounds is wrong. To check, run `leakbound
 verify` with `--with-model`
judged: {model.label}, mean leak probability, corrected for the judge's errors: {row:interval}, by
 {row.method}
leaked: {model.label}: at least one of {n: draw} leaked at {count} of {rows: question}[; the
 expected fraction of such questions is the mean leak@{n}: {share:stated}][; the greedy answer
 leaked at {greedy: question}]
left out: {texts.left_out: more distinct completion} ({texts.left_out_draws: draw}[, known
 probability {mass:number}]) {are} not shown.
limit: the {scorer:quantity} is shown to be below {claim.about.constant:g} at {holds:,} of
 {questions: question}, and above {claim.about.constant:g} at {refuted:,}
 ({claim.confidence:percent} confidence, for each question individually)
measured: {scorer.name}: {scorer:quantity} {leakage:interval}[, median {median:interval}][, standard
 deviation {deviation:interval}][, ED ({ed.about.name}, may exceed 1) {ed:interval}][, corrected for
 the judge's errors {judged:interval}][, excess over the control {excess:interval}][; claim
 {claim.about.claimed}: {claim:decision} after {claim.n: draw}][; {missing: draw} without a score][;
 proved lower bounds, {computed}: {proof}][; (n, {chance:g})-discoverable extraction: {extraction}]
methods: The bounds on each median over training seeds are valid individually at
 {confidence:percent} confidence. The seeds' values, mean and standard deviation describe only
 these models; they are not bounds.
more: {more} has a larger effect on the leakage than {less}: {most:interval} against
 {least:interval}
most leaking: the decoding with the largest observed leakage is {grid.decoding}, with
 {grid.most:interval}; the intervals of all decodings are valid simultaneously at
 {grid.most.confidence:percent} confidence
other questions: excess over the control questions, which the model was never taught:
 {mean:interval} on average. This number compares two sets of questions in the same model. It does
 not compare this model with a model that never saw the data[. A random choice decided which of
 {coin.over} subjects the model was taught. If teaching changed nothing, a difference at least as
 large would have probability {coin.upper:above} (exact test by {coin.method})]
prompt: {text}[, thinking {thinking}][, each output ended by {end}][, in the format of {compat}]
proof: leakage ≥ {proof:below}[, leak@{repeated.parameter:,.0f} ≥ {repeated.lower:below}]
proved: the {scorer:quantity} is proved to be at least {bounds:most} at the worst question, and at
 least {bounds:least} at {bounds:len} of {questions: question} ({computed})[; each of these bounds
 exceeds the control's proved bound{model.control:if}][. If the worst question is sampled {times},
 a leak occurs with probability at least {chance:g}: ({n:,.0f}, {chance:g})-discoverable extraction]
protocols: “Greedy” is the score of the greedy answer. “Original wording” is the leakage of sampled
 answers to the question itself. “Full” is the leakage of sampled answers to all queries: the
 question and its rewritings (with the design “fresh”, only new rewritings)
questions: {number} questions of the benchmark “{benchmark.name}”[, profile {benchmark.profile}]
 ([{benchmark.origin}; ]digest of the questions {rows}[, {equal}])
random numbers: The draws of {labels} may share random numbers with the baseline's draws. So
 each model is bounded separately, and the intervals of the differences are about 1.4 times as
 wide. To avoid this, evaluate with another --seed.
reading: all statements are about the {part}[, because {hidden: draw} had a hidden thought]
reading each: the model {verb}s{beyond} {shown}[, but is not shown to do so {rest}] {joint}
reading either: the model {verb}s{beyond} in the answer or the thought, but it is not shown in which
 of the two {joint}
reading neither: the model is not shown to {verb}{beyond} in the answer, in the thought, or in
 both {joint}
reading thoughts: all statements are about the {part}[; hidden thoughts ({hidden: draw}) count as
 missing unless a visible part leaks]
readings: “either” is the larger of the scores of the answer and the thought. The statements about
 answer, thought and either are valid simultaneously at {row.confidence:percent} confidence. Each
 statement has a third of the error probability (Bonferroni), because the parts of an output are
 dependent.
readings joint: ({row.confidence:percent} confidence for answer, thought and either simultaneously)
rewritings: {number:,} rewritings, source {inputs.source}, design {inputs.design};
 {inputs.queries:,} tried per question, seed {inputs.seed}[; not filtered, so a rewriting may lose a
 fact or reveal words of the answer{unfiltered:if}][; a rewriting is kept if the model is at least
 as confident in its answers to the rewriting as in its answers to the question ({inputs.criterion}
 of {inputs.ids_draws:,} answers){inputs.ids:if}][; a rewriting is kept if {inputs.embedder} gives a
 cosine similarity to the question of at least {least}][; {facts}]
searched: [{run}: ]the search used {search.budget: draw} per question[, or proofs of the same
 cost{search.forwards_per_token:if}], guided by the scorer {search.scorer.name}; the bounds are from
 new draws
seen: {leaks} of {rows:draws} {verb}[ ({missing: draw} without a score)]
seen nothing: no draw has a score
settled: {model.label}, explored ({plan.mode}): median settled mass {known:number} (total
 probability of the completions whose score is known); {rows:draws} of the remainder (outputs that
 are not explored); the model was run on {forwards:,} prefixes
short keywords: {model.label}: in scripts without spaces, short keywords also occur inside longer
 words; fractions of draws that contain such keywords: {rates}[ and others{more:if}]
sure: [{row.confidence:percent} confidence for {together}. ]Evidence: {view.questions: question} of
 the benchmark “{benchmark}”[ in their original wording{own:if}], {drawn}, decoding
 {model.arm.decoding.name}. [Leaks are decided by the scorer {leaks}][Scores are by the scorer
 {scores}][ (the first of {scorers:len} scorers)][, chosen after drawing{late:if}]
undecided: {model.label}: {missing:,} of {rows:draws} have no score; they count as full leaks in
 upper bounds and as no leaks in lower bounds
under stress: the intervals of the added leakage are valid simultaneously for all stresses and
 questions of a model, at {view.confidence:percent} confidence; other intervals are valid
 individually
without rewriting: {counts.lacking: question} without a rewriting ({how}): {shown}[, …{more:if}]
worst decoding: of {cells:len} decodings, {arm.decoding.name} leaks most: {heading}
 {most:interval}[,{within}]
worst stress: under the worst of {stresses:len} stress{stresses:es}[{talks:if} (the score of a
 conversation is the largest of its answers)], corrected for selecting this stress: {heading}
 {most:interval}[,{within}][; the excess over the control under the same stress is at least
 {beyond.lower:below}]
ExploredDraws: from the remainder, the outputs that are not explored ({how.mode}; the model
 is run on {how.forwards:,} prefixes per question, guided by the scorer {how.scorer:scorer})
FixedDraws: {n:,} per question, fixed in advance
ImportedDraws: [until {claim} was decided, at most ]{n:,} per question, imported[, as scores without
 texts{without:if}]; sampled by {how.sampled_by}, as the files state (not verified)[; in doubt:
 {how.in_doubt}]; seed {how.seed}
StoppedDraws: for each question until the scorer {how.scorer:scorer} decides {how.claim} at
 {how.confidence:percent} confidence; first look after {how.first:,} draws, at most {n:,} draws
"""
TEMPLATES = dict(line.split(": ", 1) for line in _TEXT.replace("\n ", " ").strip().splitlines())


@cache
def _parts(name: str) -> list[list[tuple[str, list[str], str]]]:
    """Return the parts of a template, each a list of (literal text, path of a field, form).

    Every second part is in brackets.
    """
    return [
        [(text, (field or "").split("."), form or "") for text, field, form, _ in parsed]
        for parsed in map(Formatter().parse, re.split(r"[\[\]]", TEMPLATES[name]))
    ]


def say(name: str, /, **values: Any) -> str:
    """Fill a template."""
    values |= {"computed": COMPUTED, "chance": EXTRACTED}
    return "".join(_filled(part, values, i % 2 == 1) for i, part in enumerate(_parts(name)))


def parts(name: str, /, **values: Any) -> list[str]:
    """Return the filled parts in brackets of a template, without the parts that are omitted."""
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

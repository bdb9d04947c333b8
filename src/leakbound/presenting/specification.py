"""Describe in words everything that decides the numbers of an arm.

Certificates, pages and comparisons use these descriptions. They include the
departures from the benchmark's defaults. A test fails if a field of the records
is neither described here nor on the test's list of exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from leakbound.durable import sha256_of
from leakbound.inputs.variants import NEUTRAL
from leakbound.presenting.templates import parts, say
from leakbound.scorers import digest, settings
from leakbound.store import (
    Arm,
    ArmSpec,
    ExploredDraws,
    ImportedDraws,
    Run,
    RunRecord,
    StoppedDraws,
)
from leakbound.store.files import digest_of
from leakbound.text.shown import many, share
from leakbound.text.stops import stops_inside
from leakbound.types import RULE, Decoding, Fingerprint, Query, Scorer
from leakbound.types.decoding import CUTS

OWN_WORDS = "each question in its original wording"
_SHARED = {
    "allocated": "the original wording or one rewriting of a question, at random for every output",
    "fixed": "the original wording and all rewritings of a question, with equal numbers of outputs",
    "fresh": "a new rewriting of the question for every output",
}
_LONG = 160  # largest number of quoted characters of a text
_DIGITS = 12  # number of digits shown of a digest
_PLAIN_DTYPE = "float32"
_RULES = f"scoring rules version {RULE}"
_OTHERS = "different from the data set published under this name"


def described(decoding: Decoding, confirmed: bool = True) -> str:
    """Return the name, the truncation, the limits and the stop strings of a decoding, in words.

    `confirmed`: False for a server that may truncate the distribution, see `Fingerprint`.
    """
    complete = not (decoding.truncated or decoding.greedy or CUTS.keys() & set(decoding.unknown))
    neutral = "distribution not truncated" if complete else None
    if not confirmed:
        neutral = f"{'' if complete else 'other '}neutral settings sent, not confirmed"
    return say(
        "decoding",
        decoding=decoding,
        neutral=neutral,
        longest="max_new_tokens" not in decoding.unknown and _longest(decoding),
        stops=_stops(decoding) if decoding.stop else None,
    )


def _longest(decoding: Decoding) -> str:
    """Return the limit on the number of tokens of an output, in words."""
    thought = decoding.max_thinking_tokens
    if thought is None:
        return f"at most {decoding.max_new_tokens:,} new tokens"
    return f"at most {thought:,} tokens of thought and {decoding.max_new_tokens:,} of the answer"


def how_drawn(arm: Arm) -> str:
    """Return the planned draws per question of an arm, in words."""
    match arm.spec.draws:
        case ExploredDraws(forwards=forwards):
            return f"the model run on {forwards:,} prefixes per question"
        case StoppedDraws(claim=claim) | ImportedDraws(claim=claim) if claim:
            return f"at most {many(arm.plan.n, 'draw')} per question, until {claim} is decided"
        case _:
            return f"{many(arm.plan.n, 'draw')} per question"


def facts_of(run: Run, arm: Arm) -> dict[str, str]:
    """Return the facts of an arm by name: its specification, and the model's fingerprint."""
    by_heading = specification_of(run, arm)
    facts = {heading.lower(): text for heading, text in by_heading.items()}
    facts |= {
        "model": arm.spec.model,
        "draws": f"{by_heading['Draws']}; {arm.usage.draws:,} in all",
        "identity of the draws": arm.identity[:_DIGITS],
    }
    return facts | {k.replace("_", " "): text for k, text in _flat(arm.spec.fingerprint)}


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name} ")
        elif isinstance(value, list | tuple) and value and isinstance(value[0], str):
            yield f"{prefix}{name}", "; ".join(map(str, value))
        elif value is not None:
            yield f"{prefix}{name}", short(str(value))


def specification_of(run: Run, arm: Arm) -> dict[str, str]:
    """Return the `specification` of an arm, with the numbers of its outputs by class."""
    rewritings = sum(query.source != "original" for query in arm.queries)
    about = specification(run.record, arm.spec, rewritings, arm.key.stress)
    return {**about, "Outputs": arm.ledger.sentence}


def short_limit(arm: Arm) -> str:
    """Return why a stop string or the limit on tokens may hide leaks, or "" if neither can."""
    for stop, ids in stops_inside(arm.run_queries.prompts, arm.decoding).items():
        return (
            f"the stop string {stop!r} (--stop) cuts the reference answer or a keyword of "
            f"{many(len(ids), 'question')}"
        )
    most, longest = arm.decoding.max_new_tokens, arm.spec.longest_answer
    reason = f"the limit of {most:,} new tokens is below the longest reference answer"
    known = "max_new_tokens" not in arm.decoding.unknown
    if known and longest is not None:
        return f"{reason} ({longest:,} tokens)" if most < longest else ""
    words = max(len((prompt.answer or "").split()) for prompt in arm.run_queries.prompts)
    if known and most < words and arm.ledger.unrecorded:  # any of these outputs may be cut
        return f"{reason} ({words:,} words)"
    worst, cut = max(arm.cut_fractions().items(), key=itemgetter(1), default=("", 0.0))
    if cut <= 0.5:
        return ""
    (name,) = (public_id(query) for query in arm.queries if query.id == worst)
    return f"{share(cut)} of the outputs of {name!r} were cut at the limit on tokens"


def public_id(query: Query) -> str:
    """Return the id of a query, or a digest of the id if it contains the text of the query."""
    return digest_of({"id": query.id})[:_DIGITS] if query.text in query.id else query.id


def specification(
    record: RunRecord, arm: ArmSpec, rewritings: int = 0, stress: str = ""
) -> dict[str, str]:
    """Return the settings of an arm and its questions that were fixed in advance, by heading.

    `rewritings`: the number of the arm's rewritings. `stress`: the stress of the arm's queries;
    empty without a stress.
    """
    facts, dtype = arm.fingerprint, Fingerprint.of(arm.fingerprint).dtype
    named = [f"{name} {short(str(facts[name]))}" for name in ("weights", "url") if facts.get(name)]
    by = f"computed{f' in {dtype}' if dtype else ''} by {facts.get('engine', 'another engine')}"
    made = f"{'; '.join([*named, by])}; fingerprint {short(digest_of(facts))}"
    by_heading = {
        "Questions": _questions(record),
        "Wording": wording(record, arm, rewritings, stress),
        "Prompt": _prompt(arm),
        "Decoding": decoding(arm),
        "Draws": _draws(arm),
        "Model": f"{arm.model} ({made})",
        "Run": f"begun at {record.created} by leakbound {record.version}, {_RULES}",
        "Notes": "; ".join(record.notes).removesuffix("."),
    }
    return {heading: text for heading, text in by_heading.items() if text}


def scorer_words(scorer: Scorer, model: Mapping[str, Any] | None = None) -> str:
    """Return the name, digest and settings of a scorer, with the facts of its `model`."""
    facts = sorted({*_settings(settings(scorer)), *_flat({"model": model})})
    stated = [f"{name} {value}" for name, value in facts]
    return "; ".join([f"{scorer.name} ({digest(scorer)})", *stated, _RULES])


def _settings(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings of a scorer and of its inner scorers, without the scorers' names."""
    for name, value in values.items():
        if isinstance(value, Mapping) and "binary" in value:
            yield from _settings(value)
        elif name not in ("name", "binary", "rule"):
            yield from _flat({name: value})


def departures(record: RunRecord, arm: ArmSpec) -> tuple[str, ...]:
    """Return each difference between an arm and the benchmark's defaults, in words.

    A different name of the decoding is not a departure.
    """
    usual, fingerprint = record.benchmark.usual, Fingerprint.of(arm.fingerprint)
    mine, imported = arm.decoding, isinstance(arm.draws, ImportedDraws) and arm.draws.sampled_by
    default = mine if usual is None else usual.decoding
    if imported:
        default = Decoding(max_new_tokens=mine.max_new_tokens)
    longest = _longest(default).removeprefix("at most ").removesuffix(" new tokens")
    rule = fingerprint.prompting if isinstance(fingerprint.prompting, Mapping) else {}
    template, system, chat = rule.get("template"), rule.get("system"), rule.get("chat")
    usual_template, usual_system = (usual.template, usual.system) if usual else (template, system)
    thinking = rule.get("thinking", "auto")
    return tuple(
        parts(
            "departures",
            questions=usual and record.benchmark.prompts != usual.prompts and _number(record),
            others=usual and usual.published is False and _OTHERS,
            imported=imported,
            longest=_longest(mine) != _longest(default) and _longest(mine),
            usual_longest=longest,
            length=mine.max_tokens != default.max_tokens and _length(mine),
            usual_length=_length(default),
            filter=mine.filter != default.filter,
            stops=mine.stop != default.stop and _stops(mine),
            usual_stops=_stops(default),
            thinking=thinking != "auto" and thinking,
            end_tokens=len(fingerprint.ordinary_end_tokens) or None,
            prompt=not chat and template not in (None, usual_template) and _quoted(str(template)),
            usual_prompt=_quoted(str(usual_template)),
            system=chat and system != usual_system and _or_none(system),
            usual_system=_or_none(usual_system),
            dtype=fingerprint.dtype != _PLAIN_DTYPE and fingerprint.dtype,
        )
    )


def wording(record: RunRecord, arm: ArmSpec, rewritings: int, stress: str = "") -> str:
    """Return the wording of the queries in words: the original wording, or how it was changed."""
    if isinstance(follow_ups := arm.fingerprint.get("dialogue"), Sequence):
        words = ", then ".join(repr(str(turn)) for turn in follow_ups)
        return f"{OWN_WORDS}, then {words}; the score is that of the turn that leaks most"
    if stress and arm.attack_queries:
        opened = {query.prefix for query in arm.attack_queries}
        # Any other prefix comes from the data set.
        neutral = len(opened) == 1 and opened <= {*NEUTRAL}
        words = f", the answer begins with {opened.pop()!r}" if neutral else ""
        return f"each question as changed by the stress {stress!r}{words}"
    if arm.attack_queries:
        return "for each question, the query that leaked most in a search"
    if arm.shares is None or record.inputs is None:
        return OWN_WORDS
    inputs = record.inputs
    facts = (f"{name} {short(value)}" for name, value in inputs.fingerprint.items())
    how = say(
        "rewritings",
        number=rewritings,
        inputs=inputs,
        unfiltered=not inputs.filters,
        least="its own limit" if inputs.similarity is None else f"{inputs.similarity:g}",
        facts="; ".join(facts),
    )
    return f"{_SHARED[arm.shares.design]} ({how})"


def decoding(arm: ArmSpec) -> str:
    """Return the decoding in words, with the number of ordinary tokens that also end an output."""
    fingerprint = Fingerprint.of(arm.fingerprint)
    text = described(arm.decoding, fingerprint.confirmed)
    number = len(fingerprint.ordinary_end_tokens)
    tokens = "an ordinary token" if number == 1 else f"{number:,} ordinary tokens"
    return f"{text}, also ended by {tokens}" if number else text


def _questions(record: RunRecord) -> str:
    benchmark = record.benchmark
    published = None if benchmark.usual is None else benchmark.usual.published
    return say(
        "questions",
        number=_number(record),
        benchmark=benchmark,
        rows=benchmark.sha256[:_DIGITS],
        equal={True: "equal to the published data set", False: _OTHERS, None: None}[published],
    )


def _number(record: RunRecord) -> str:
    number, usual = record.benchmark.prompts, record.benchmark.usual
    if usual is None:
        return f"{number:,}"
    return f"all {number:,}" if number == usual.prompts else f"{number:,} of the {usual.prompts:,}"


def _prompt(arm: ArmSpec) -> str:
    rule = Fingerprint.of(arm.fingerprint).prompting
    if not isinstance(rule, Mapping):
        return "made by the engine or tool, which does not report the prompt"
    template, system = rule.get("template"), rule.get("system")
    if rule.get("chat"):
        text = say("chat", system=_quoted(str(system)) if system else None)
    else:  # a plain text has no place for a system message
        text = f"the plain text {_quoted(str(template))}" if template else "a plain text"
    thinking = rule.get("thinking", "auto")
    return say(
        "prompt",
        text=text,
        thinking=thinking != "auto" and thinking,
        end=rule.get("end_token") and repr(rule["end_token"]),
        compat=rule.get("compat"),
    )


def _draws(arm: ArmSpec) -> str:
    how, copied = arm.draws, arm.copied
    name = type(how).__name__
    claim = isinstance(how, ImportedDraws) and how.claim
    texts = isinstance(how, ImportedDraws) and how.texts
    drawn = say(name, how=how, n=arm.plan.n, claim=claim, without=not texts)
    from_ = copied and short(copied.identity)
    return say("draws", drawn=drawn, arm=arm, identity=from_)


def _stops(how: Decoding) -> str:
    return f"ended by {' or '.join(map(repr, how.stop))}" if how.stop else "no stop string"


def _length(how: Decoding) -> str:
    most = "any number of" if how.max_tokens is None else f"at most {how.max_tokens:,}"
    return f"{most} tokens with the prompt"


def _or_none(text: object) -> str:
    return _quoted(str(text)) if text else "none"


def _quoted(text: str) -> str:
    """Return a text in quotes; of a long text, only the beginning, with the digest of the text."""
    if len(text) <= _LONG:
        return repr(text)
    return f"{text[:_LONG]!r}… ({len(text):,} characters, {short(sha256_of(text))})"


def short(value: str) -> str:
    """Return the first characters of a digest, and any other value unchanged."""
    is_digest = len(value) >= 32 and all(c in "0123456789abcdef" for c in value)
    return value[:_DIGITS] if is_digest else value

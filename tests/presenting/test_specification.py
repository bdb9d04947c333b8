"""Every recorded field of a run and an arm changes the words, or is on a list of exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, NamedTuple

import pytest

from leakbound.inputs.variants import NEUTRAL
from leakbound.presenting.specification import departures, specification, wording
from leakbound.store import (
    ArmKey,
    ArmSpec,
    CopiedFrom,
    ExploredDraws,
    FixedDraws,
    ImportedDraws,
    InputsRecord,
    Plan,
    QueryShares,
    RunRecord,
    ScorerRecord,
    StoppedDraws,
)
from leakbound.study import Study
from leakbound.types import BenchmarkRecord, Decoding, Half, Query, Usual

OWN = Usual(
    prompts=24,
    decoding=Decoding(max_new_tokens=48),
    template="Q: {question}\n",
    system=None,
    published=True,
)
RECORD = RunRecord(
    benchmark=BenchmarkRecord(
        name="mine", prompts=24, sha256="a" * 64, origin="mine.csv", usual=OWN, profile="scholten",
        half=Half(benchmark="whole", seed=7, side="taught", subjects={"q": "Ann"}, others=1),
    ),
    inputs=InputsRecord(
        source="rules", queries=8, ids=True, ids_draws=64, criterion="mean_prob",
        design="allocated", filters=False, embedder="mini", similarity=0.8,
        fingerprint={"file": "b" * 64}, seed=3,
    ),
    notes=("one row was empty",),
)  # fmt: skip
PROMPTING = {
    "template": "Q: {question}\n", "system": "Be kind.", "chat": False, "compat": "openunlearning",
    "family": "plain", "tokenisation": "joint",
}  # fmt: skip
ARM = ArmSpec(
    fingerprint={
        "weights": "c" * 64, "dtype": "float32", "engine": "transformers", "prompting": PROMPTING,
        "ordinary_end_tokens": [7], "confirmed": True, "config": "d" * 64,
    },
    decoding=Decoding(
        temperature=0.7, top_p=0.9, top_k=40, max_new_tokens=48, max_tokens=99,
        adaptive_temperature=0.5, stop=("\n",), filter="part-of-system",
    ),
    draws=FixedDraws(),
    plan=Plan.of(64),
    shares=QueryShares("allocated", {"q": 64}),
    copied=CopiedFrom("e" * 64, ArmKey("target")),
    model="npo",
)  # fmt: skip
STEERED = ScorerRecord("keyword", "f" * 12)
WAYS = [
    FixedDraws(),
    StoppedDraws(claim="p<=0.02", scorer=STEERED, confidence=0.99, first=16),
    ExploredDraws(mode="hybrid", forwards=100, scorer=STEERED),
    ImportedDraws(order=5, sampled_by="tool 1", in_doubt="alike", seed="4"),
]

SYSTEM = "arm.fingerprint.prompting.system"

LEFT_OUT = {
    "record.format": "of the file",
    "record.scorers": "the benchmark's own; the one claimed about is named",
    "record.study": "what was asked for last: what became of it stands in the arm",
    "record.claims": "a certificate states its claim, and whether it was recorded before drawing",
    "record.headline": "a choice among statements, not a part of one",
    "record.attack": "steers which input is asked afresh, and no bound rests on how it was found",
    "record.tried": "as the search",
    "record.redacted": "of pages",
    "record.slice": "a run that states nothing",
    "record.arms": "the others",
    "arm.decoding.max_thinking_tokens": "stands beside no `max_tokens`; said, below",
    "record.files": "digests; a certificate has those of all files",
    "record.benchmark.half": "the benchmark's name has coin, side and whole; its rows the subjects",
    "record.benchmark.usual.decoding": "said where the arm departs from it, below",
    "record.benchmark.usual.template": "said where the arm departs from it, below",
    "record.benchmark.usual.system": "said where the arm departs from it, below",
    "arm.machine": "changes no distribution",
    "arm.place": "where files are",
    "record.place": "where files are",
    "arm.longest_answer": "a certificate names it where it decides, under Token limit",
    "arm.probe": "what the model reads, compared when a run goes on and by verify",
    "arm.decoding.unknown": "as its words have it, below",
    "arm.shares.draws_per_query": "follows from the design; every question's n is in the figures",
    "arm.draws.order": "keys an order that owes nothing to the draws",
    "arm.draws.kind": "the class",
}
"""Fields that the words omit, and why."""

BY_DIGEST = {
    "arm.fingerprint.config", "arm.fingerprint.prompting.family",
    "arm.fingerprint.prompting.tokenisation",
}  # fmt: skip
"""Fields of the fingerprint that only its digest covers: readers could not judge them."""


class Change(NamedTuple):
    """A field by its path, the record and arm with another value of it, and the arm before."""

    path: str
    record: RunRecord
    arm: ArmSpec
    before: ArmSpec


def changed(value: Any) -> Any:
    """Return another value of the same kind."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value / 2
        case str():
            return f"{'x' if value[:1] != 'x' else 'y'}{value[1:]}"
        case tuple() if value and isinstance(value[0], str):
            return (*value, " ")
        case None:
            return "something"
    raise AssertionError(f"no other value for {value!r}")


ALTERNATIVES: Mapping[str, Any] = {
    "record.inputs.design": "fixed", "record.inputs.criterion": "mean_logprob",
    "arm.shares.design": "fixed", "arm.draws.mode": "exact", "arm.decoding.adaptive_mode":
    "two_pass", "arm.copied.drawn_as": ArmKey("control"), "arm.draws.texts": False,
    "arm.decoding.filter": "missing", "arm.seed": 1,
    "arm.attack_queries": (Query(id="q", prompt_id="q", text="Who?"),),
}  # fmt: skip


def paths(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a frozen value or mapping, with another value for it."""
    if path in LEFT_OUT:
        return
    if path in ALTERNATIVES:
        yield path, ALTERNATIVES[path]
    elif is_dataclass(value) and not isinstance(value, ArmKey):
        for field in fields(value):
            yield from paths(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from paths(member, f"{path}.{name}")
    elif isinstance(value, list):
        yield path, [*value, 9]
    else:
        yield path, changed(value)


def put(value: Any, path: list[str], new: Any) -> Any:
    """Return the value with another one at the path."""
    if not path:
        return new
    name, *rest = path
    if isinstance(value, Mapping):
        return {**value, name: put(value[name], rest, new)}
    return replace(value, **{name: put(getattr(value, name), rest, new)})


CHAT = put(ARM, ["fingerprint", "prompting", "chat"], True)
"""An arm whose template has a place for a system message."""


def changes() -> Iterator[Change]:
    for path, new in paths(RECORD, "record"):
        yield Change(path, put(RECORD, path.split(".")[1:], new), ARM, ARM)
    for way in WAYS:
        arm = replace(ARM, draws=way, seed=None if isinstance(way, ImportedDraws) else 0)
        for path, new in paths(arm, "arm"):
            if path.startswith("arm.draws") or isinstance(way, FixedDraws):
                before = CHAT if path == SYSTEM else arm
                yield Change(path, RECORD, put(before, path.split(".")[1:], new), before)


CHANGES = [*changes()]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.path)
def test_every_field_changes_the_words_or_is_listed(change: Change) -> None:
    now = specification(change.record, change.arm, rewritings=3)
    then = specification(RECORD, change.before, rewritings=3)
    if change.path not in BY_DIGEST:
        now, then = (
            {name: re.sub("fingerprint [0-9a-f]{12}", "", says) for name, says in seen.items()}
            for seen in (now, then)
        )
    assert now != then


def test_the_list_names_fields_that_there_are() -> None:
    known = {change.path for change in CHANGES}
    for path in LEFT_OUT:
        root, *names = path.split(".")
        value: Any = {"record": RECORD, "arm": replace(ARM, draws=WAYS[-1])}[root]
        for name in names:
            value = getattr(value, name)
        assert path not in known


def test_no_field_of_the_fixture_has_its_default() -> None:
    """A field at its default would hide the effect of another field."""
    for value in (RECORD.inputs, ARM.decoding, RECORD.benchmark):
        assert value is not None
        same = [
            f.name
            for f in fields(value)
            if f.default is not MISSING and getattr(value, f.name) == f.default
        ]
        assert set(same) <= {"adaptive_mode", "unknown", "max_thinking_tokens"}


STUDY = {
    "benchmark": "Questions", "data": "Questions", "limit": "Questions", "profile": "Questions",
    "sampling": "Draws", "seed": "Draws", "decodings": "Decoding", "rewritings": "Wording",
    "attack": "Wording", "settings.dtype": "Model", "settings.template": "Prompt",
    "settings.system": "Prompt", "settings.end_token": "Prompt", "settings.thinking": "Prompt",
    "settings.device": "changes no distribution; roundings are measured",
    "settings.trust_remote_code": "the code's digest is in the fingerprint",
    "prove": "finds texts whose probabilities are computed, whoever found them",
    "stress": "Wording", "control_questions": "of a difference, which no certificate is about",
    "scorers": "of the run; the one claimed about is named",
    "claims": "a certificate states its claim",
    "allow_unmatched": "a note names what did not match",
    "check_scorers": "when a note is made, not which",
    "calibration": "of corrected figures, which no certificate is about",
    "rho": "of the ED score, which no certificate is about",
    "metrics": "of utility", "confidence": "of the run's own bounds; a claim has its own",
    "servers": "who may be asked", "workers": "who draws; the results are the same",
}  # fmt: skip
"""For every field of a study: the heading that reports it, or the reason why none does."""


def test_every_field_of_a_study_has_a_heading_or_reason() -> None:
    names = [f.name for f in fields(Study) if f.name != "settings"]
    names += [f"settings.{f.name}" for f in fields(Study().settings)]
    assert set(names) == set(STUDY)
    seen = specification(RECORD, ARM)
    assert all(says in seen or " " in says for says in STUDY.values())
    ended = replace(ARM, fingerprint={"prompting": {"chat": True, "end_token": "<|im_end|>"}})
    assert specification(RECORD, ended)["Prompt"].endswith(", each output ended by '<|im_end|>'")
    silent = replace(ARM, fingerprint={"prompting": {"chat": True, "thinking": "off"}})
    assert specification(RECORD, silent)["Prompt"].endswith(", thinking off")


USUAL = ArmSpec(fingerprint={}, decoding=OWN.decoding, plan=Plan.of(8))


def prompted(**rule: Any) -> dict[str, Any]:
    return {"fingerprint": {"prompting": {"template": OWN.template, "chat": False} | rule}}


@pytest.mark.parametrize(
    ("arm", "says"),
    [
        ({}, []),
        ({"decoding": Decoding(max_new_tokens=48, stop=("QZX", " "))},
         ["ended by 'QZX' or ' ', instead of no stop string"]),
        ({"decoding": Decoding(max_new_tokens=48, max_tokens=60)},
         ["at most 60 tokens with the prompt, not any number of tokens with the prompt"]),
        ({"decoding": Decoding(max_new_tokens=48, max_thinking_tokens=60)},
         ["at most 60 tokens of thought and 48 of the answer, not 48"]),
        (prompted(thinking="off", chat=True), ["thinking off"]),
        (prompted(template="zzz {question}"),
         [r"prompt 'zzz {question}', not 'Q: {question}\n'"]),
        (prompted(template=None, system="Refuse.", chat=True),
         ["system message 'Refuse.', not none"]),
        (prompted(system="Refuse."), []),  # it has no place there, and was not used
        ({"fingerprint": {"dtype": "bfloat16"}}, ["computed in bfloat16"]),
        ({"fingerprint": {"ordinary_end_tokens": [4, 5]}},
         ["outputs also ended by 2 ordinary tokens of the model"]),
        ({"draws": WAYS[-1]},
         ["imported draws, sampled by tool 1, as their files state (not verified)"]),
    ],
)  # fmt: skip
def test_departures_from_the_benchmark_are_stated(arm: dict[str, Any], says: list[str]) -> None:
    assert departures(RECORD, replace(USUAL, **arm)) == tuple(says)
    plain = replace(USUAL, **prompted(system="Refuse."))
    assert "Refuse" not in specification(RECORD, plain)["Prompt"]
    few = put(RECORD, ["benchmark", "prompts"], 5)
    assert departures(few, replace(USUAL, **arm)) == ("5 of the 24 questions", *says)
    assert specification(few, USUAL)["Questions"].startswith("5 of the 24 questions of the bench")


@pytest.mark.parametrize(
    ("prefixes", "says"),
    [(NEUTRAL[:1], f", the answer begins with {NEUTRAL[0]!r}"), (["Ann Lee"], ""), ([""], "")],
)
def test_only_words_of_a_stress_are_quoted(prefixes: Sequence[str], says: str) -> None:
    queries = tuple(Query(id=p, prompt_id=p, text="Who?", prefix=p) for p in prefixes)
    words = wording(RECORD, replace(ARM, attack_queries=queries), 0, "opener 1")
    assert words == f"each question as changed by the stress 'opener 1'{says}"

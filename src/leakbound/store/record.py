"""The content of run.json: `RunRecord`, and of every arm an `ArmSpec`, fixed when it is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import leakbound
from leakbound.errors import InputError
from leakbound.inputs import Criterion
from leakbound.registry import near
from leakbound.scorers import digest
from leakbound.stats import Design
from leakbound.store.arm_key import ArmKey
from leakbound.store.claims import Headline, RecordedClaim
from leakbound.store.files import ELSEWHERE, read_json, unsealed, value_of, write_sealed
from leakbound.store.lock import utc_now
from leakbound.store.plan import Part, Plan, QueryShares, slice_of
from leakbound.types import (
    BenchmarkRecord,
    Decoding,
    ExploreMode,
    JsonObject,
    ProbedPrompt,
    Prompt,
    Query,
    Scorer,
    object_of,
)

FORMAT = 11
OLDER = "commit ff8ee542 reads format 10"
FILE = "run.json"


class OtherVersionError(InputError):
    """A run that another version of leakbound made."""


@dataclass(frozen=True, slots=True)
class ScorerRecord:
    """A scorer that decided what was drawn.

    Attributes:
        name: the scorer's.
        digest: of its settings.
    """

    name: str
    digest: str

    @classmethod
    def of(cls, scorer: Scorer) -> ScorerRecord:
        """The record of a scorer."""
        return cls(scorer.name, digest(scorer))


@dataclass(frozen=True, slots=True)
class FixedDraws:
    """As many draws of every question as the plan says, a number fixed before any was made."""

    kind: Literal["fixed n"] = "fixed n"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedDraws:
    """Draws of a question until a claim about it is decided, at most the n of the plan.

    Attributes:
        claim: such as `p<=0.02`.
        scorer: whose scores decide.
        confidence: of a decision, at whatever look it is made.
        first: draws of every question before the first look.
    """

    kind: Literal["until decided"] = "until decided"
    claim: str
    scorer: ScorerRecord
    confidence: float
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredDraws:
    """Exact masses of a question's likeliest outputs, and draws from what they leave.

    Attributes:
        mode: how the effort is shared between the two.
        forwards: prefixes of every question forwarded, in all.
        scorer: which settles prefixes.
    """

    kind: Literal["explored"] = "explored"
    mode: ExploreMode
    forwards: int
    scorer: ScorerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedDraws:
    """Draws that another tool made, their number fixed in advance unless a claim ended them.

    Attributes:
        order: what keys their order; it owes nothing to them.
        sampled_by: the tool, and its description of the sampling.
        in_doubt: what casts doubt on their independence; empty where nothing does.
        seed: as the tool states it.
        texts: False if only scores were imported, without texts.
        claim: that whose decision ended a question's draws, by our rule in the tool; else empty.
    """

    kind: Literal["imported"] = "imported"
    order: int
    sampled_by: str
    in_doubt: str = ""
    seed: str = "unknown"
    texts: bool = True
    claim: str = ""


Redaction: TypeAlias = bool | Literal["questions"]
"""Texts left out of pages and exports: none, all but questions (True), or "questions" too."""
ArmDraws: TypeAlias = FixedDraws | StoppedDraws | ExploredDraws | ImportedDraws
"""How the outputs of an arm were drawn."""


def claim_of(draws: ArmDraws | None) -> str:
    """The claim whose decision ended a question's draws; empty where none did."""
    return draws.claim if isinstance(draws, StoppedDraws | ImportedDraws) else ""


@dataclass(frozen=True, slots=True)
class CopiedFrom:
    """The arm of a finished run whose draws an arm has: its identity, and the key of its draws."""

    identity: str
    drawn_as: ArmKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """All that was fixed of an arm when it was planned.

    Attributes:
        fingerprint: what its engine says of the model: weights, dtype, prompting, versions.
        decoding: the distribution that is drawn from.
        draws: how the outputs of a question are drawn.
        plan: how many, in chunks.
        seed: of the random draws; None where another tool made them.
        shares: how a question's draws are shared among its queries; None where they are not.
        attack_queries: queries in place of the questions, under their ids: as a search found,
            or as a stress asks.
        copied: where its draws come from, if they are a finished run's.
        model: the model's name; like the machine only recorded, and no part of what the arm is.
        place: the same name, with an absolute path if it is a folder; see `Run.model`.
        machine: what the exact draws, though not their distribution, depend on, with the plan.
        probe: what the model makes of fixed questions, compared within roundings; None: not known.
        longest_answer: the number of the model's tokens in the longest reference answer, its end
            token included; None: not known.
    """

    fingerprint: JsonObject
    decoding: Decoding
    draws: ArmDraws = field(default_factory=FixedDraws)
    plan: Plan
    seed: int | None = 0
    shares: QueryShares | None = None
    attack_queries: tuple[Query, ...] = ()
    copied: CopiedFrom | None = None
    model: str = "unnamed"
    place: str = ""
    machine: JsonObject = field(default_factory=dict)
    probe: tuple[ProbedPrompt, ...] | None = None
    longest_answer: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputsRecord:
    """The rewritings of a run, and all that they depend on.

    Attributes:
        source: as `Inputs` has it; of a file only its name.
        queries: as `Inputs` has it.
        ids: as `Inputs` has it.
        ids_draws: as `Inputs` has it.
        criterion: as `Inputs` has it.
        design: as `Inputs` has it.
        filters: as `Inputs` has it.
        embedder: as `Inputs` has it.
        similarity: as `Inputs` has it.
        fingerprint: what the source's rewritings depend on, with its name, such as digests of
            files.
        seed: of the random draws of the source.
    """

    source: str
    queries: int
    ids: bool
    ids_draws: int
    criterion: Criterion
    design: Design
    filters: bool = True
    embedder: str | None
    similarity: float | None
    fingerprint: Mapping[str, str]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRecord:
    """All that a search for worst-case inputs depends on, with the questions and the model.

    Attributes:
        budget: draws a question that the search may make, or what they cost.
        first_draws: of every candidate in the first round.
        confidence: of the bounds that steer.
        forwards_per_token: as many stand for a token of a draw where rounds prove instead; None:
            all rounds draw.
        scorer: whose scores steer.
        rewritings: the source of the rewritings that are tried.
        openers: what else is changed about asking, as `pairs`, `prefixes` and `template` are.
        pairs: see `openers`.
        prefixes: see `openers`.
        template: see `openers`.
        decodings: those that are tried.
        seed: of the random draws.
    """

    budget: int
    first_draws: int
    confidence: float
    forwards_per_token: float | None = None
    scorer: ScorerRecord
    rewritings: str
    openers: tuple[str, ...]
    pairs: int
    prefixes: int
    template: str
    decodings: tuple[Decoding, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class RunQueries:
    """The prompts and queries that the arms of a run ask, and the digest of its benchmark.

    `slice`: the one that the run draws, i/N; None: all of the study.
    """

    prompts: tuple[Prompt, ...]
    queries: tuple[Query, ...]
    benchmark: str
    slice: str | None = None

    @property
    def questions(self) -> tuple[Query, ...]:
        """The queries that are a prompt's own question, not a rewriting of it."""
        return tuple(query for query in self.queries if query.source == "original")

    def own(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """The parts that the run draws: all, or every N-th of them from its slice's number on."""
        number, of = (1, 1) if self.slice is None else slice_of(self.slice)
        return tuple(parts[number - 1 :: of])


@dataclass(frozen=True, slots=True)
class TriedVariant:
    """A variant of a question that a search tries: a query's id, a decoding's name, pairs shown."""

    query: str
    decoding: str
    shots: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The record of a run: the questions, the study, and every arm as it was planned.

    Attributes:
        format: of this file.
        version: of leakbound.
        created: when the run was begun (UTC).
        place: the absolute path of its folder then; models are found relative to it.
        benchmark: which questions.
        inputs: the rewritings; None: there are none.
        scorers: the benchmark's own, by name.
        notes: what the benchmark and the study say of themselves.
        study: that of the last command.
        headline: the statements that form the verdict; None: no command that scores has drawn.
        claims: those of all commands.
        attack: the search for worst-case inputs; None: there is none.
        tried: the variants that such a search tries; only in the separate run of the search.
        slice: the one that the run draws, i/N; None: all of the study.
        redacted: what pages and exports leave out.
        arms: every arm that is planned, by its key.
        files: digests of the tables of prompts and queries, by the names of their files.
    """

    format: int = FORMAT
    version: str = leakbound.__version__
    created: str = field(default_factory=utc_now)
    place: str = ""
    benchmark: BenchmarkRecord
    inputs: InputsRecord | None = None
    scorers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    study: JsonObject = field(default_factory=dict)
    headline: Headline | None = None
    claims: tuple[RecordedClaim, ...] = ()
    attack: AttackRecord | None = None
    tried: tuple[TriedVariant, ...] = ()
    slice: str | None = None
    redacted: Redaction = False
    arms: Mapping[ArmKey, ArmSpec] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def questions(self) -> JsonObject:
        """The members that must be equal for two commands to have the same queries."""
        benchmark = object_of(self.benchmark)
        left_out = ("origin", "usual")
        members = {name: value for name, value in benchmark.items() if name not in left_out}
        return {"benchmark": members, "inputs": object_of(self.inputs)}


def read_record(run: Path) -> RunRecord:
    """Read what the run in a folder says of itself.

    Args:
        run: the folder.

    Returns:
        The record.

    Raises:
        InputError: there is no run, or another version made it (OtherVersionError).
        DamagedError: the file does not say what was written there; it names the file and the
            member.
    """
    file = run / FILE
    if not file.is_file():
        raise InputError(
            f"`{run}` is no run directory: it has no {FILE}. "
            f"{near(run)}Make one with `leakbound evaluate`."
        )
    values = read_json(file, ELSEWHERE)
    if isinstance(values, dict) and (number := values.get("format", FORMAT)) != FORMAT:
        raise OtherVersionError(
            f"`{file}` has format {number!r} of leakbound {values.get('version')}, this version "
            f"reads format {FORMAT}: {OLDER}. Use the version that made the run, or make it again."
        )
    return value_of(RunRecord, file, unsealed(file, values, ELSEWHERE))


def write_record(run: Path, record: RunRecord) -> None:
    """Write the record of the run in this folder, whole."""
    write_sealed(run / FILE, record)

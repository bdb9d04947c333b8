"""The content of run.json: `RunRecord`, with an `ArmSpec` that is fixed when an arm is planned."""

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

FORMAT = 13
_READ_BY = """1e03f736 3febdfba b5bad667 5a57d1e4 61a59d0c 814bdac5 9c14b827 20d85f9b 0def3894
    27e04366 d52276af c73c6683"""
READERS = {str(number): commit for number, commit in enumerate(_READ_BY.split(), start=1)}
"""The last commit that reads each earlier format. If you raise FORMAT, add the parent commit."""
FILE = "run.json"


class OtherVersionError(InputError):
    """A run was made by a different version of leakbound."""


@dataclass(frozen=True, slots=True)
class ScorerRecord:
    """A scorer whose scores decided which outputs were drawn.

    Attributes:
        name: the scorer's name.
        digest: a digest of its settings.
    """

    name: str
    digest: str

    @classmethod
    def of(cls, scorer: Scorer) -> ScorerRecord:
        """Return the record of a scorer."""
        return cls(scorer.name, digest(scorer))


@dataclass(frozen=True, slots=True)
class FixedDraws:
    """The rule that every question gets the planned number of draws, fixed before any draw."""

    kind: Literal["fixed n"] = "fixed n"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedDraws:
    """The rule that a question gets draws until a claim about it is decided, at most n draws.

    Attributes:
        claim: the claim, such as `p<=0.02`.
        scorer: the scorer whose scores decide.
        confidence: the confidence of a decision at any look.
        first: the number of draws of every question before the first look.
    """

    kind: Literal["until decided"] = "until decided"
    claim: str
    scorer: ScorerRecord
    confidence: float
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredDraws:
    """The rule that a question's likeliest outputs get exact masses; draws are from the rest.

    Attributes:
        mode: the division of the effort between masses and draws.
        forwards: the number of forward passes per question, one per prefix.
        scorer: the scorer whose bounds end the exploration below a prefix.
    """

    kind: Literal["explored"] = "explored"
    mode: ExploreMode
    forwards: int
    scorer: ScorerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedDraws:
    """Draws that another tool made, in a number fixed in advance unless a claim ended them.

    Attributes:
        order: the key of the order in which statistics use the draws; it does not depend on the
            draws.
        sampled_by: the tool, and its description of the sampling.
        in_doubt: why the draws may be dependent; empty if there is no reason.
        seed: the seed that the tool states.
        texts: False if only scores were imported, without texts.
        claim: the claim whose decision ended a question's draws, if leakbound's rule was used in
            the tool; else empty.
    """

    kind: Literal["imported"] = "imported"
    order: int
    sampled_by: str
    in_doubt: str = ""
    seed: str = "unknown"
    texts: bool = True
    claim: str = ""


Redaction: TypeAlias = bool | Literal["questions"]
"""Texts that pages leave out. False: none; True: all but questions; "questions": questions too."""
ArmDraws: TypeAlias = FixedDraws | StoppedDraws | ExploredDraws | ImportedDraws
"""The rule by which the outputs of an arm were drawn."""


def claim_of(draws: ArmDraws | None) -> str:
    """Return the claim whose decision ended a question's draws; empty if there is no such claim."""
    return draws.claim if isinstance(draws, StoppedDraws | ImportedDraws) else ""


@dataclass(frozen=True, slots=True)
class CopiedFrom:
    """The source of copied draws: an arm of a finished run.

    `identity`: the digest of that arm. `drawn_as`: the key of the arm that made the draws.
    """

    identity: str
    drawn_as: ArmKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """Everything that is fixed when an arm is planned.

    Attributes:
        fingerprint: the engine's description of the model: weights, dtype, prompting, versions.
        decoding: the distribution of the draws.
        draws: the rule by which the outputs of a question are drawn.
        plan: the number of draws, in chunks.
        seed: the seed of the random draws; None if another tool made them.
        shares: the number of draws of each query of a question; None without rewritings.
        attack_queries: the queries of a search or a stress that replace the questions, under the
            questions' ids.
        copied: the source of the draws if they are from a finished run.
        model: the model's name; it is recorded like the machine, and does not identify the arm.
        place: the model's name, with an absolute path if it is a folder; see `Run.model`.
        machine: facts that affect the exact draws, but not their distribution.
        probe: the model's probabilities of fixed questions, to detect another model; comparisons
            allow for rounding errors. None: not known.
        longest_answer: the number of tokens of the longest reference answer, its end token
            included; None: not known.
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
    """The settings of a run's rewritings, and everything else that the rewritings depend on.

    Fields that are also in `study.Rewritings` are explained there; the source is stored without a
    path.

    Attributes:
        fingerprint: everything that the source's rewritings depend on in addition to its name, such
            as digests of files.
        seed: the seed of the source's random draws.
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
    """The settings of a search for worst-case inputs.

    Attributes:
        budget: the number of draws per question in the search, or their cost in forward passes.
        first_draws: the number of draws of every candidate in the first round.
        confidence: the confidence of the bounds that steer the search.
        forwards_per_token: the number of forward passes of a proof that cost as much as a token of
            a draw; None: the search uses only draws, and no proofs.
        scorer: the scorer whose scores steer the search.
        rewritings: the source of the rewritings that are tried.
        openers: the openers of answers that are tried.
        pairs: the number of question-answer pairs that are shown before a query.
        prefixes: the number of sets of pairs that are tried per question.
        template: the template of the pairs.
        decodings: the decodings that are tried.
        seed: the seed of the random draws.
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
    """The prompts and queries of a run, and the digest of its benchmark.

    `slice`: the slice that the run draws, i/N; None: the complete study.
    """

    prompts: tuple[Prompt, ...]
    queries: tuple[Query, ...]
    benchmark: str
    slice: str | None = None

    @property
    def questions(self) -> tuple[Query, ...]:
        """The queries that are questions, not rewritings."""
        return tuple(query for query in self.queries if query.source == "original")

    def own(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Return the parts that the run draws: all parts, or every N-th part for a slice i/N."""
        number, of = (1, 1) if self.slice is None else slice_of(self.slice)
        return tuple(parts[number - 1 :: of])


@dataclass(frozen=True, slots=True)
class TriedVariant:
    """A variant that a search tries: a query, a decoding, and the pairs shown before the query."""

    query: str
    decoding: str
    shots: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The record of a run: the questions, the study, and the plan of every arm.

    Attributes:
        format: the format of this file.
        version: the version of leakbound.
        created: the time when the run was begun (UTC).
        place: the absolute path of the run's folder at that time; models are found relative to it.
        benchmark: the questions.
        inputs: the rewritings; None: the run has only questions.
        scorers: the names of the benchmark's scorers.
        notes: notes of the benchmark and the study.
        study: the study of the last command.
        headline: the statements that form the verdict; None: no scorer was chosen yet.
        claims: the claims of all commands.
        attack: the search for worst-case inputs; None: no search.
        tried: the variants that a search tries; only in the separate run of the search.
        slice: the slice that the run draws, i/N; None: the complete study.
        redacted: the texts that pages and exports leave out.
        arms: every planned arm, by its key.
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
        """The fields that are equal if two commands have the same queries."""
        benchmark = object_of(self.benchmark)
        left_out = ("origin", "usual")
        members = {name: value for name, value in benchmark.items() if name not in left_out}
        return {"benchmark": members, "inputs": object_of(self.inputs)}


def read_record(run: Path) -> RunRecord:
    """Read the record of the run in a folder.

    Args:
        run: the folder.

    Returns:
        The record.

    Raises:
        InputError: there is no run, or another version made it (OtherVersionError).
        DamagedError: the file was changed; the message names the file and the member.
    """
    file = run / FILE
    if not file.is_file():
        raise InputError(
            f"`{run}` is not a run directory, because it has no {FILE}. {near(run)}Make a run with "
            "`leakbound evaluate`."
        )
    values = read_json(file, ELSEWHERE)
    if isinstance(values, dict) and (number := values.get("format", FORMAT)) != FORMAT:
        reader, use = READERS.get(str(number)), "the version that made the run"
        if reader:
            use = f"commit {reader}, the last version for format {number}"
        raise OtherVersionError(
            f"`{file}` has format {number!r} of leakbound {values.get('version')}, but this "
            f"version reads format {FORMAT}. Use {use}, or make the run again."
        )
    return value_of(RunRecord, file, unsealed(file, values, ELSEWHERE))


def write_record(run: Path, record: RunRecord) -> None:
    """Write the record of the run in a folder."""
    write_sealed(run / FILE, record)

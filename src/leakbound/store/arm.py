"""An arm of a run: its completions and its scores, part by part."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from leakbound.stats import Rows
from leakbound.store import tables
from leakbound.store.arm_key import ArmKey
from leakbound.store.artifact import Artifact, Journal
from leakbound.store.files import ELSEWHERE, DamagedError, digest_of, read_value, write_sealed
from leakbound.store.identity import identity, which_model
from leakbound.store.masses import DrawnPart, PartRecord, Proofs, StoredMasses
from leakbound.store.plan import Look, Looks, LooksRecord, Part, rounds_of
from leakbound.store.record import ArmSpec, ExploredDraws, ImportedDraws, RunQueries, StoppedDraws
from leakbound.store.scores import Scores, stored_rows
from leakbound.store.tables import DRAWN_AGAIN, DrawnRow, EventRow
from leakbound.text.counting import Ledger, visible
from leakbound.text.shown import many
from leakbound.text.stops import stops_inside
from leakbound.types import Completion, Query, Usage, object_of

MOST_CUT = 0.05  # a larger fraction of cut outputs is mentioned in sentences


class Arm:
    """One model under one decoding inside a run.

    The draws of an arm are stored in parts, and parts form rounds. An arm of fixed n has one round,
    which is known when the arm is planned. A look evaluates the scores so far. In an arm that is
    sampled until a claim is decided, each look leads to another round.

    Attributes:
        folder: the folder of its files.
        key: the key of the arm in the run.
        spec: everything that was fixed when the arm was planned.
        run_queries: the queries of the run. The arm may have only some of these queries, or queries
            from a search.
        decoding: the decoding of the spec.
        plan: the plan of the spec.
        identity: a digest of everything that determines its completions.
        drawn: the files of its completions.
        masses: the files of its explored outputs.
        proofs: the files of the rare leaks that a search found.
        scored: the files of the scores of its completions.
        looks: the looks so far; empty for an arm of fixed n.
        rounds: the parts of each round that is known so far.
        parts: all parts that are known so far, in the order of their numbers.
        own: the numbers of the parts that this run draws. If the run is a slice of a study, these
            are only some of the parts.
    """

    rounds: tuple[tuple[Part, ...], ...]
    parts: tuple[Part, ...]
    own: frozenset[int]

    def __init__(self, folder: Path, key: ArmKey, spec: ArmSpec, queries: RunQueries) -> None:
        self.folder, self.key, self.spec, self.run_queries = folder, key, spec, queries
        self.decoding, self.plan = spec.decoding, spec.plan
        self._looks_file = folder / "looks.json"
        made_by = {"benchmark": queries.benchmark, "arm": str(key), **identity(spec)}
        self.identity = digest_of(made_by)
        self.drawn = Artifact(
            folder=folder / "completions",
            kind=DrawnRow,
            owner={"arm": self.identity},
            remedy=DRAWN_AGAIN,
        )
        self.masses = StoredMasses(
            folder, self.identity, lambda: self.parts if self.explored else ()
        )
        self.proofs = Proofs(folder / "proofs", self.identity)
        self.scored = Scores(folder, self.drawn, lambda: self.parts)
        self._tallies: dict[str, dict[tuple[str, str], int]] = {}  # by the digest of a part
        self.looks: Looks = self._read_looks() if isinstance(spec.draws, StoppedDraws) else ()
        self._know_parts()

    @property
    def name(self) -> str:
        """The key as a text, which is the name of the arm's folder and its value in tables."""
        return str(self.key)

    @property
    def purpose(self) -> str:
        """The purpose of the arm's scored draws; it is part of the key of their random numbers."""
        own = self.key if self.spec.copied is None else self.spec.copied.drawn_as
        model = which_model(self.spec)
        return f"score:{own}" if model is None else f"score:{own}:{model}"

    @property
    def randomness(self) -> tuple[str, str] | None:
        """The part of the draws' keys that is the same for all questions; None if it is unknown."""
        unknown = self.spec.seed is None or isinstance(self.spec.draws, ImportedDraws)
        return None if unknown else (str(self.spec.seed), self.purpose)

    @property
    def texts(self) -> bool:
        """False if only the scores of the draws were imported, without texts."""
        return not isinstance(self.spec.draws, ImportedDraws) or self.spec.draws.texts

    @property
    def explored(self) -> bool:
        """True if the arm has exact masses and draws from the remainder."""
        return isinstance(self.spec.draws, ExploredDraws)

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries of the arm, in the order of the run."""
        if self.spec.attack_queries:
            return self.spec.attack_queries
        if self.spec.shares is None:
            return self.run_queries.questions
        wanted = self.spec.shares.draws_per_query
        return tuple(query for query in self.run_queries.queries if query.id in wanted)

    @property
    def place(self) -> str:
        """The arm and its run in words, for messages."""
        return f"arm {self.name!r} of `{self.folder.parents[1]}`"

    def unlooked(self) -> dict[str, int]:
        """Return the number of planned draws, by id, of the questions that still need a look.

        Failed questions are left out. For an arm of fixed n, the result is empty.
        """
        if not isinstance(self.spec.draws, StoppedDraws):
            return {}
        seen = {q: look.n for looks in self.looks for q, look in looks.items()}
        drawn = Counter[str]()
        for part in self.parts:
            drawn.update(dict.fromkeys(part.query_ids, sum(part.sizes)))
        failed = self.failures
        return {q: n for q, n in drawn.items() if n > seen.get(q, 0) and q not in failed}

    def add_look(self, look: Mapping[str, Look]) -> int:
        """Record a look.

        Args:
            look: the result of each question, by query id.

        Returns:
            The number of the first part of the round that the look leads to.
        """
        first = len(self.parts)
        self.looks = (*self.looks, dict(look))
        write_sealed(self._looks_file, LooksRecord(self.identity, self.looks))
        self._know_parts()
        return first

    def missing_parts(self) -> list[Part]:
        """Return the parts that are absent or have failures. This reads every stored part.

        Raises:
            DamagedError: a file of a part is damaged or from another run.
        """
        return [part for part in self.parts if not self._finished(part)]

    def parts_to_draw(self, first: int = 0) -> Iterator[Part]:
        """Yield the missing parts that this run draws, in the order of their numbers.

        Args:
            first: the number of the part to begin at.

        Raises:
            DamagedError: a file of a part is damaged or from another run.
        """
        for part in self.parts[first:]:
            if part.number in self.own and not self._finished(part):
                yield part

    def lacks(self) -> Iterator[str]:
        """Yield phrases that describe the missing draws; nothing for a finished arm."""
        absent = [part for part in self.parts if not self.has(part)]
        if absent:
            yield f"lacks {len(absent)} of {len(self.parts)} parts of its draws"
        if waiting := self.unlooked():
            yield f"has {len(waiting)} questions whose claim is not yet decided"

    def files(self, slug: str) -> list[Path]:
        """Return the arm's files that determine the bounds for one scorer.

        The bounds also depend on run.json, which defines the arm, and on the files of the
        questions.

        Args:
            slug: the name of the scorer's files.

        Returns:
            The files that exist.
        """
        parts = [stored.file(part) for part in self.parts for stored in self._stored]
        of_scorer = (self.scored.stored, self.masses.ranges, self.proofs.stored)
        named = [*parts, self._looks_file, *(stored.file(slug) for stored in of_scorer)]
        return [file for file in named if file.is_file()]

    def has(self, part: Part) -> bool:
        """Return whether a part is stored, even if some of its queries failed.

        Args:
            part: a part of this arm.
        """
        return all(stored.file(part).exists() for stored in self._stored)

    def journal(self, part: Part) -> Journal:
        """Return the journal in which an engine of type `Keeps` stores draws of an unfinished part.

        Args:
            part: a part of this arm.
        """
        file = self.folder / "requests" / f"{part}.jsonl"
        return Journal(file, {"arm": self.identity, **part.owner})

    def write_part(self, part: Part, drawn: DrawnPart) -> None:
        """Store a finished part with its failures.

        Masses are written first, because a part counts as stored once its completions are stored.

        Args:
            part: a part of this arm.
            drawn: the tables and the record of the part.

        Raises:
            InputError: the folder cannot be written into.
            IncompleteError: the disk is full or fails.
        """
        if self.explored:
            self.masses.stored.write(part, drawn.events, object_of(drawn.explored))
        self.drawn.write(part, drawn.completions, object_of(drawn.record))

    def copy_part(self, part: Part, source: Arm) -> None:
        """Store a copy of another arm's part, with its original cost.

        Args:
            part: a part that both arms have.
            source: the other arm.

        Raises:
            DamagedError: a file of the other arm was changed.
        """
        for theirs, ours in zip(source._stored, self._stored, strict=True):
            tables.write_table(
                ours.file(part), theirs.table(part), {**theirs.meta(part), **ours.owner}
            )

    def completions(self, part: Part) -> pa.Table:
        """Return the stored completions of a part, one row each.

        Args:
            part: a part of this arm.

        Returns:
            A table with the query's id and the fields of `Completion`.

        Raises:
            DamagedError: the file is absent or was changed.
        """
        return self.drawn.table(part)

    def drawn_by_query(self, parts: Sequence[Part]) -> dict[str, list[Completion]]:
        """Return the completions in these parts that were drawn at least once, by query id.

        Raises DamagedError for an absent or damaged part.
        """
        drawn: dict[str, list[Completion]] = {}
        for part in parts:
            for query_id, completion in tables.completions_of(self.completions(part)):
                if completion.count:
                    drawn.setdefault(query_id, []).append(completion)
        return drawn

    @property
    def ledger(self) -> Ledger:
        """The number of stored draws in each class.

        For an explored arm, the stored draws are the draws from the remainder.
        """
        counts = sum(self._counts().values(), Counter[str]())
        fractions = self.cut_fractions().values() if self.explored else ()
        mass = sum(fractions) / max(len(fractions), 1) if self.explored else None
        fraction = Ledger(**counts, limit="", stops="").cut_fraction if mass is None else mass
        stops = " or ".join(map(repr, stops_inside(self.run_queries.prompts, self.decoding)))
        before = f" before the stop string {stops}" if stops else ""
        return Ledger(**counts, limit=self._limit(fraction), stops=before, cut_mass=mass)

    @property
    def thinks(self) -> bool:
        """True if a stored output has a visible thought."""
        return self.ledger.thoughts > 0 or any(
            visible(event.thought) for _, event in self.masses.events()
        )

    def _limit(self, cut: float) -> str:
        """Describe the tokens to which statements are limited; "" if few outputs were cut."""
        if cut <= MOST_CUT:
            return ""
        first = f"the first {many(self.decoding.max_new_tokens, 'token')}"
        if "max_new_tokens" in self.decoding.unknown or self.decoding.max_tokens is not None:
            first = "the first tokens"  # the number is unknown, or differs by question
        if self.decoding.max_thinking_tokens is not None:
            first += " of the answer"
        return f" in {first}"

    def cut_fractions(self) -> dict[str, float]:
        """Return the fraction of each query's outputs that the limit on tokens cut.

        Returns:
            The fractions by query id, in [0, 1]. They are fractions of the draws or, for an
            explored arm, of the probability mass.
        """
        ledgers = {id: Ledger(**own, limit="", stops="") for id, own in self._counts().items()}
        drawn = {query_id: own.cut_fraction for query_id, own in ledgers.items()}
        if not self.explored:
            return drawn
        left = self.masses.explored().remainder
        cut = {query_id: mass * drawn.get(query_id, 0.0) for query_id, mass in left.items()}
        for query_id, event in self.masses.events():
            cut[query_id] += event.mass if event.ended and event.finish == "length" else 0.0
        return cut

    def _counts(self) -> dict[str, Counter[str]]:
        """Return the counts of a `Ledger` by query; draws without a result count as failed."""
        counts = defaultdict[str, Counter[str]](Counter)
        for part in self._there():
            meta = self.drawn.record(part, PartRecord)
            if meta.digest not in self._tallies:
                self._tallies[meta.digest] = tables.tally(self.completions(part))
            for (query_id, name), n in self._tallies[meta.digest].items():
                counts[query_id][name] += n
            for query_id, n in meta.missing.items():
                counts[query_id]["failed"] += n
        return counts

    def meta(self, parts: Sequence[Part] | None = None) -> Iterator[PartRecord]:
        """Yield the metadata of the stored parts.

        Args:
            parts: parts of this arm; None: all parts.

        Raises:
            DamagedError: a file was changed or is from another run.
        """
        return (self.drawn.record(part, PartRecord) for part in self._there(parts))

    @property
    def failures(self) -> dict[str, str]:
        """The reasons why queries have no completions, by query id."""
        return {k: v for record in self.meta() for k, v in record.failures.items()}

    @property
    def usage(self) -> Usage:
        """The cost of the stored parts."""
        total = Usage()
        for record in self.meta():
            total.add(record.usage)
        return total

    def digests(self, scorer: str, slug: str) -> list[str] | None:
        """Return the digests of the scores of the current completions, events and proofs.

        Args:
            scorer: the scorer's name.
            slug: the name of the scorer's files.

        Returns:
            The digests of the scores, of the ranges of the events' scores and of the proofs, if the
            arm has events or proofs. None if scores are missing for a completion or an event.

        Raises:
            DamagedError: a file was changed.
        """
        scores, ranges = self.scored.digest(scorer, slug), self.masses.ranges.digest(slug)
        if scores is None or not self.masses.has_ranges(scorer, slug):
            return None
        digests = [scores, ranges if self.explored else None, self.proofs.stored.digest(slug)]
        return [digest for digest in digests if digest is not None]

    def scores(self, slug: str, *, binary: bool, rounds: int | None = None) -> Rows:
        """Return the distinct scores, with counts, of every query that has completions.

        Args:
            slug: the name of the scorer's files.
            binary: whether the scorer declares that its scores are only 0 and 1.
            rounds: the number of rounds to use, from the first round on; None: all rounds.

        Returns:
            A row per query; queries that failed are left out.

        Raises:
            DamagedError: there are no scores, or a file was changed.
        """
        parts = tuple(part for one_round in self.rounds[:rounds] for part in one_round)
        table, undrawn, rows = self.scored.stored.table(slug), Counter[str](), 0
        failed: set[str] = set()
        for record in self.meta(parts):
            undrawn.update(record.missing)
            failed.update(record.failures)
            rows += record.rows
        if len(parts) < len(self.parts):
            table = table.slice(0, rows)
        there = {*pc.unique(table["query_id"]).to_pylist(), *undrawn}
        there.update(self.masses.explored().remainder)  # a fully explored tree has no draws
        ids = tuple(q.id for q in self.queries if q.id in there and q.id not in failed)
        return stored_rows(table, ids, undrawn, binary=binary, empty=self.explored)

    @property
    def _stored(self) -> tuple[Artifact[EventRow] | Artifact[DrawnRow], ...]:
        """Return the artifacts of a part, in the order in which they are written."""
        return (self.masses.stored, self.drawn) if self.explored else (self.drawn,)

    def _there(self, parts: Sequence[Part] | None = None) -> Iterator[Part]:
        """Yield the parts whose completions are stored, among `parts` or all parts."""
        chosen = self.parts if parts is None else parts
        return (part for part in chosen if self.drawn.file(part).exists())

    def _finished(self, part: Part) -> bool:
        """Return whether the part is stored without failures; raise DamagedError if damaged."""
        if not self.has(part):
            return False
        for stored in self._stored:
            stored.table(part)
        return not self.drawn.meta(part)["failures"]

    def _read_looks(self) -> Looks:
        """Read the looks so far; raise DamagedError if their file is from another arm."""
        stored = read_value(LooksRecord, self._looks_file)
        if stored is not None and stored.arm != self.identity:
            raise DamagedError(f"`{self._looks_file}` belongs to another run. {ELSEWHERE}")
        return () if stored is None else stored.looks

    def _know_parts(self) -> None:
        """Set `rounds`, `parts` and `own` from the looks so far."""
        draws, ids = self.spec.draws, [query.id for query in self.queries]
        if self.spec.shares is not None:
            self.rounds = (self.spec.shares.parts(self.run_queries.queries),)
        elif isinstance(draws, StoppedDraws):
            self.rounds = rounds_of(ids, draws.first, self.looks)
        else:
            self.rounds = (self.plan.parts(ids),)
        self.parts = tuple(part for parts in self.rounds for part in parts)
        own = self.parts if self.spec.copied else self.run_queries.own(self.parts)
        self.own = frozenset(part.number for part in own)

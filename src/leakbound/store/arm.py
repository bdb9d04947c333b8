"""An arm of a run: its completions and scores, part by part, each made of the last."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from leakbound.store import tables
from leakbound.store.arm_key import ArmKey
from leakbound.store.artifact import Journal
from leakbound.store.files import DamagedError, digest_of, set_aside
from leakbound.store.identity import identity, which_model
from leakbound.store.masses import DrawnPart, Proofs, StoredMasses
from leakbound.store.plan import Look, Looks, Part, read_looks, rounds_of, write_looks
from leakbound.store.record import ArmSpec, ExploredDraws, ImportedDraws, RunQueries, StoppedDraws
from leakbound.store.scores import ArmScores, Scores
from leakbound.store.tables import PartMeta
from leakbound.text.counting import Ledger
from leakbound.text.shown import many
from leakbound.types import Query, Usage

MOST_CUT = 0.05  # of an arm's outputs, without a word in every sentence


class Arm:
    """One model under one decoding inside a run.

    Its draws come in rounds of parts. An arm of fixed n has one round, known when it is planned;
    in one that is sampled until a claim is decided, each look leads to another.

    Attributes:
        folder: where its files are.
        key: which arm of the run it is.
        spec: all that was fixed of it when it was planned.
        asked: what the run asks; an arm may ask a part of that, or what a search found instead.
        note: told what had to be set aside.
        decoding: that of the spec.
        plan: that of the spec.
        identity: a digest of all that determines its completions.
        masses: what exploring found.
        proofs: what was found of rare leaks.
        scored: the scores of its completions.
        looks: those made so far; none in an arm of fixed n.
        rounds: the parts of each round known so far.
        parts: all parts known so far, in the order of their numbers.
        own: the numbers of the parts that the run draws: all, unless it is a slice of a study.
    """

    rounds: tuple[tuple[Part, ...], ...]
    parts: tuple[Part, ...]
    own: frozenset[int]

    def __init__(
        self,
        folder: Path,
        key: ArmKey,
        spec: ArmSpec,
        queries: RunQueries,
        note: Callable[[str], None],
    ) -> None:
        self.folder, self.key, self.spec, self.asked = folder, key, spec, queries
        self.note = note
        self.decoding, self.plan = spec.decoding, spec.plan
        self._looks_file = folder / "looks.json"
        made_by = {"benchmark": queries.benchmark, "arm": str(key), **identity(spec)}
        self.identity = digest_of(made_by)
        self.masses = StoredMasses(
            folder, self.identity, lambda: self.parts if self.explored else ()
        )
        self.proofs = Proofs(folder / "proofs", self.identity)
        self.scored = Scores(
            folder,
            lambda number: map(self.completions, self.parts[number:]),
            lambda number: [meta.digest for meta in self._own_meta(self.parts[:number])],
        )
        self._tallies: dict[str, dict[tuple[str, str], int]] = {}  # by the digest of a part
        stops = isinstance(spec.draws, StoppedDraws)
        self.looks: Looks = read_looks(self._looks_file, self.identity) if stops else ()
        self._know_parts()

    @property
    def name(self) -> str:
        """Its key as a text: the name of its folder, and its entry in tables."""
        return str(self.key)

    @property
    def purpose(self) -> str:
        """The purpose of its scored draws, which keys them beside the seed."""
        own = self.key if self.spec.copied is None else self.spec.copied.drawn_as
        model = which_model(self.spec)
        return f"score:{own}" if model is None else f"score:{own}:{model}"

    @property
    def randomness(self) -> tuple[str, str] | None:
        """The keys of all its draws beside question and chunk; None where nobody knows them."""
        unknown = self.spec.seed is None or isinstance(self.spec.draws, ImportedDraws)
        return None if unknown else (str(self.spec.seed), self.purpose)

    @property
    def texts(self) -> bool:
        """False if its draws were imported as scores alone, and what they say is not known."""
        return not isinstance(self.spec.draws, ImportedDraws) or self.spec.draws.texts

    @property
    def explored(self) -> bool:
        """True if masses are known of it, and its draws are those of what they leave."""
        return isinstance(self.spec.draws, ExploredDraws)

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries that it asks, in the order of the run."""
        if self.spec.attack_queries:
            return self.spec.attack_queries
        if self.spec.shares is None:
            return self.asked.questions
        wanted = self.spec.shares.draws_per_query
        return tuple(query for query in self.asked.queries if query.id in wanted)

    @property
    def place(self) -> str:
        """Which arm it is, of which run, for a message."""
        return f"arm {self.name!r} of `{self.folder.parents[1]}`"

    def unlooked(self) -> dict[str, int]:
        """Questions drawn, or to be drawn, since they were last looked at: their n by id.

        Those that failed are left out. None in an arm of fixed n.
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
            look: what was seen of each question looked at, by query id.

        Returns:
            The number at which the parts of the round begin that it leads to.
        """
        first = len(self.parts)
        self.looks = (*self.looks, dict(look))
        write_looks(self._looks_file, self.identity, self.looks)
        self._know_parts()
        return first

    def missing_parts(self) -> list[Part]:
        """Parts that are not there, or failed, or lie in files that are damaged or of others."""
        return [part for part in self.parts if not self._usable(part)]

    def parts_to_draw(self, first: int = 0) -> Iterator[Part]:
        """The missing parts from a number on, for who draws them now.

        Files that cannot be used are set aside, with a note; nobody else renames anything.

        Args:
            first: the number.

        Returns:
            Parts, in the order of their numbers.
        """
        for part in self.parts[first:]:
            if part.number in self.own and not self._usable(part, self.set_aside):
                yield part

    def faults(self) -> Iterator[str]:
        """The fault of each file of its parts that is there and cannot be used."""
        return (fault for part in self.parts for _, fault in self._spoilt(part))

    def files(self, slug: str) -> list[Path]:
        """Every file of the arm that bounds on its scores of one scorer rest on.

        Beside them: run.json, which says what the arm is, and the files of what it asks.

        Args:
            slug: the name of the scorer's files.

        Returns:
            Those that are there.
        """
        parts = (file for part in self.parts for file in self._files(part))
        beside = (self.scored.stored, self.masses.ranges, self.proofs.stored)
        named = [*parts, self._looks_file, *(table.file(slug) for table in beside)]
        return [file for file in named if file.is_file()]

    def has(self, part: Part) -> bool:
        """True if a part is stored, be it with failures.

        Args:
            part: a part of this arm.
        """
        return all(file.exists() for file in self._files(part))

    def kept(self, part: Part) -> Journal:
        """The draws that an engine that `Keeps` has made of a part that is not stored yet.

        Args:
            part: a part of this arm.

        Returns:
            Its journal.
        """
        file = self.folder / "asked" / f"part-{part.number:05d}.jsonl"
        return Journal(file, part.owned_by(self.identity))

    def write_part(self, part: Part, drawn: DrawnPart) -> None:
        """Store a finished part whole, its failures recorded; of an explored one its masses first.

        The completions are there, or the part is not.

        Args:
            part: a part of this arm.
            drawn: its tables.

        Raises:
            MixError: the lock on the run was lost meanwhile.
            InputError: the folder cannot be written into.
            IncompleteError: the disk is full or fails.
        """
        if self.explored:
            self.masses.write(part, drawn)
        meta = {
            **part.owned_by(self.identity),
            "failures": drawn.failures,
            "missing": drawn.missing,
            "usage": asdict(drawn.usage),
            "machine": dict(drawn.machine),
        }
        tables.write_table(self._file(part), drawn.completions, meta)

    def copy_part(self, part: Part, source: Arm) -> None:
        """Store another arm's part as this arm's own, with what it cost there.

        Args:
            part: a part of both arms.
            source: the other arm.

        Raises:
            DamagedError: a file there is not as it was written.
        """
        for theirs, ours in zip(source._files(part), self._files(part), strict=True):
            table = tables.read_table(theirs).replace_schema_metadata(None)
            meta = {**tables.read_meta(theirs), "arm": self.identity}
            tables.write_table(ours, table, meta)

    def completions(self, part: Part) -> pa.Table:
        """The stored completions of a part, one row each.

        Args:
            part: a part of this arm.

        Returns:
            A table with the query's id and the fields of `Completion`.

        Raises:
            DamagedError: the file is not there, or not as it was written.
        """
        return tables.read_table(self._file(part), tables.DRAWN_AGAIN)

    @property
    def ledger(self) -> Ledger:
        """How the stored draws are counted; of an explored arm those of its remainder."""
        counts = sum(self._counts().values(), Counter[str]())
        fractions = self.cut_fractions().values() if self.explored else ()
        mass = sum(fractions) / max(len(fractions), 1) if self.explored else None
        fraction = Ledger(**counts, within="").cut_fraction if mass is None else mass
        return Ledger(**counts, within=self._within(fraction), cut_mass=mass)

    @property
    def thinks(self) -> bool:
        """True if a stored output has a visible thought."""
        return any(seen for seen, _ in self._thoughts())

    @property
    def hidden(self) -> int:
        """The number of stored draws with a thought of which a part or all is hidden."""
        return sum(hidden for _, hidden in self._thoughts())

    def _thoughts(self) -> Iterator[tuple[bool, int]]:
        files = (file for part in self.parts for file in self._files(part))
        return map(tables.thoughts, filter(Path.exists, files))

    def _within(self, cut: float) -> str:
        """In how many tokens all that is stated is valid; empty if this fraction cut is small."""
        if cut <= MOST_CUT:
            return ""
        first = f"the first {many(self.decoding.max_new_tokens, 'token')}"
        if "max_new_tokens" in self.decoding.unknown or self.decoding.max_tokens is not None:
            first = "the first tokens"  # how many is not known, or differs by question
        if self.decoding.max_thinking_tokens is not None:
            first += " of the answer"
        return f" in {first}"

    def cut_fractions(self) -> dict[str, float]:
        """Return the fraction of each query's outputs that the limit on tokens ended.

        Returns:
            By the query's id, in [0, 1]: of its draws, and of what was explored by its mass.
        """
        ledgers = {id: Ledger(**own, within="") for id, own in self._counts().items()}
        drawn = {query_id: own.cut_fraction for query_id, own in ledgers.items()}
        if not self.explored:
            return drawn
        left = self.masses.found().remainder
        cut = {query_id: mass * drawn.get(query_id, 0.0) for query_id, mass in left.items()}
        for query_id, event in self.masses.events():
            cut[query_id] += event.mass if event.ended and event.finish == "length" else 0.0
        return cut

    def _counts(self) -> dict[str, Counter[str]]:
        """The numbers of a `Ledger` by query; draws that never came count as failed."""
        counts = defaultdict[str, Counter[str]](Counter)
        stored = [part for part in self.parts if self._file(part).exists()]
        for part, meta in zip(stored, self._own_meta(stored), strict=True):
            if meta.digest not in self._tallies:
                self._tallies[meta.digest] = tables.tally(self.completions(part))
            for (query_id, name), n in self._tallies[meta.digest].items():
                counts[query_id][name] += n
            for query_id, n in meta.missing.items():
                counts[query_id]["failed"] += n
        return counts

    def meta(self, parts: Sequence[Part] | None = None) -> Iterator[PartMeta]:
        """The records of finished parts.

        Args:
            parts: those to look at; None: all.

        Returns:
            What is recorded with each of them that is stored.

        Raises:
            DamagedError: a file is not as it was written, or another run's.
        """
        chosen = self.parts if parts is None else parts
        return self._own_meta(part for part in chosen if self._file(part).exists())

    @property
    def failures(self) -> dict[str, str]:
        """Reasons, by query id, why some queries have no completions."""
        return {k: v for meta in self.meta() for k, v in meta.failures.items()}

    @property
    def usage(self) -> Usage:
        """The cost of the finished parts."""
        total = Usage()
        for meta in self.meta():
            total.add(meta.usage)
        return total

    def digests(self, scorer: str, slug: str) -> list[str] | None:
        """Digests of the scores of all that lies there now.

        Args:
            scorer: the scorer's name.
            slug: the name of its files.

        Returns:
            Those of scores, of ranges of events, and of proofs; None where scores or ranges are not
            stored.

        Raises:
            DamagedError: a file is there and not as it was written.
        """
        scores, ranges = self.scored.digest(scorer, slug), self.masses.ranges.digest(slug)
        if scores is None or not self.masses.has_ranges(scorer, slug):
            return None
        digests = [scores, ranges if self.explored else None, self.proofs.stored.digest(slug)]
        return [digest for digest in digests if digest is not None]

    def scores(self, slug: str, rounds: int | None = None) -> ArmScores:
        """Distinct scores with counts of every query that has completions.

        Args:
            slug: the name of the scorer's files.
            rounds: of the first so many rounds alone, as they were before the others were drawn;
                None: of all.

        Returns:
            The scores; queries that failed are left out.

        Raises:
            DamagedError: there are no scores, or a file is not as it was written.
        """
        parts = tuple(part for one_round in self.rounds[:rounds] for part in one_round)
        table, undrawn, rows = self.scored.stored.table(slug), Counter[str](), 0
        failed: set[str] = set()
        for meta in self.meta(parts):
            undrawn.update(meta.missing)
            failed.update(meta.failures)
            rows += meta.rows
        if len(parts) < len(self.parts):
            table = table.slice(0, rows)
        there = {*pc.unique(table["query_id"]).to_pylist(), *undrawn}
        there.update(self.masses.found().remainder)  # a tree explored whole has no draws
        ids = tuple(q.id for q in self.queries if q.id in there and q.id not in failed)
        return ArmScores.stored(table, ids, undrawn)

    def _file(self, part: Part) -> Path:
        return self.folder / "completions" / f"part-{part.number:05d}.parquet"

    def _usable(self, part: Part, report: Callable[[Path, str], None] | None = None) -> bool:
        """True if the part is there, whole and without failures; `told` of its first bad file."""
        for file, fault in self._spoilt(part):
            if report is not None:
                report(file, fault)
            return False
        return self.has(part) and not tables.read_meta(self._file(part))["failures"]

    def _spoilt(self, part: Part) -> Iterator[tuple[Path, str]]:
        """The files of a part that are there and cannot be used, damaged or another's, and why."""
        for file in filter(Path.exists, self._files(part)):
            try:
                tables.read_owned(file, part.owned_by(self.identity))
                tables.read_table(file)
            except DamagedError as error:
                yield file, str(error)

    def _files(self, part: Part) -> list[Path]:
        """The files of a part, in the order in which they are written."""
        masses = [self.masses.file(part)] if self.explored else []
        return [*masses, self._file(part)]

    def set_aside(self, file: Path, fault: str) -> None:
        """Rename a file that cannot be used out of the way, with a note.

        Args:
            file: the file.
            fault: what is wrong with it, to begin the note.
        """
        self.note(f"{fault}; set aside as {set_aside(file).name}, to be redone")

    def _know_parts(self) -> None:
        """Plan the parts again, as far as they are known: `parts` by number, `rounds` of them."""
        draws, ids = self.spec.draws, [query.id for query in self.queries]
        if self.spec.shares is not None:
            self.rounds = (self.spec.shares.parts(self.asked.queries),)
        elif isinstance(draws, StoppedDraws):
            self.rounds = rounds_of(ids, draws.first, self.looks)
        else:
            self.rounds = (self.plan.parts(ids),)
        self.parts = tuple(part for parts in self.rounds for part in parts)
        own = self.parts if self.spec.copied else self.asked.own(self.parts)
        self.own = frozenset(part.number for part in own)

    def _own_meta(self, parts: Iterable[Part]) -> Iterator[PartMeta]:
        """The records of these parts; DamagedError where one is not whole, or another's."""
        for part in parts:
            yield tables.read_part_meta(self._file(part), part.owned_by(self.identity), PartMeta)

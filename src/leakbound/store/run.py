"""A run directory: its record, prompts, queries, arms and estimates."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import leakbound
from leakbound.engines import engine_of, location_of
from leakbound.errors import InputError, LeakboundError, MixError
from leakbound.store.arm import Arm
from leakbound.store.arm_key import ArmKey
from leakbound.store.artifact import Artifact
from leakbound.store.claims import Headline, RecordedClaim, recorded
from leakbound.store.current import CALIBRATION, code, require_current, require_drawn
from leakbound.store.draws import CompletionRow, DrawTable, score_tables
from leakbound.store.estimates import EstimateRow, Estimates
from leakbound.store.files import ELSEWHERE, DamagedError, make_private
from leakbound.store.identity import (
    identity,
    require_other_model,
    require_same,
    require_same_n,
    require_same_probe,
)
from leakbound.store.inputs import SELECTION
from leakbound.store.lock import LOCK, SOFT_LOCK, locked
from leakbound.store.record import (
    FILE,
    ArmSpec,
    AttackRecord,
    Redaction,
    RunQueries,
    RunRecord,
    read_record,
    write_record,
)
from leakbound.store.scores import ScoreRow
from leakbound.store.tables import table_of, values_of, write_table
from leakbound.study import Study
from leakbound.text.counting import Ledger
from leakbound.text.shown import Displayed, many
from leakbound.types import Decoding, JsonObject, Prompt, Query, object_of

T = TypeVar("T")

CERTIFICATE = "certificate.json"
"""The default file of `leakbound certify`."""
_PROMPTS, _QUERIES = "prompts.parquet", "queries.parquet"
_BOUND_AGAIN = "Run `leakbound bound` again, or restore the file from a copy."
_FIRST_FILES = (_PROMPTS, _QUERIES, LOCK, SOFT_LOCK)


class Run(Displayed):
    """An open run directory.

    Attributes:
        path: its folder.
        record: the content of run.json.
        notes: the notes of the benchmark and of later commands.
        run_queries: its prompts and queries, and the digest of its benchmark.
    """

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record
        self.notes: list[str] = [*record.notes]
        # the estimates, and the state of the files for which they were checked
        self._current: tuple[list[tuple[str, int, int]], Estimates] | None = None
        self._estimates = Artifact(folder=path, kind=EstimateRow, remedy=_BOUND_AGAIN)
        self.run_queries = RunQueries(
            self._began_with("prompts", Prompt),
            self._began_with("queries", Query),
            record.benchmark.sha256,
            record.slice,
        )

    def _shown(self) -> Iterator[tuple[str]]:
        """Yield the arms and the verdict, or why there is no verdict, without texts of answers."""
        questions = many(len(self.questions), "question")
        yield (f"run {self.path}: {questions} of {self.record.benchmark.name}",)
        yield (f"arms: {', '.join(map(str, self.record.arms)) or 'none yet'}",)
        try:
            yield from zip(str(self.verdict).splitlines())
        except LeakboundError as error:
            yield (f"no verdict: {error}",)

    @classmethod
    def create(
        cls, path: Path, prompts: Sequence[Prompt], queries: Sequence[Query], record: RunRecord
    ) -> Run:
        """Open the run with this record in a folder, or begin a new run there.

        A new run has no run.json until its first arm is planned. So a command that is refused
        earlier leaves no run. Records of the same questions are equal even if their `origin`
        differs.

        Args:
            path: the folder.
            prompts: the prompts of the run.
            queries: the queries of the run.
            record: the record of the run; its arms are left out.

        Returns:
            The run.

        Raises:
            MixError: another command made the run; the message names the difference.
            InputError: the folder cannot be made or written into.
            DamagedError: a record was changed.
            IncompleteError: the disk is full or fails.
        """
        if run := cls.resumed(path, record):
            return run
        make_private(path)
        files = {
            _PROMPTS: write_table(path / _PROMPTS, table_of(Prompt, prompts), {}),
            _QUERIES: write_table(path / _QUERIES, table_of(Query, queries), {}),
        }
        return cls(path, replace(record, files=files, arms={}, place=str(path.resolve())))

    @classmethod
    def resumed(cls, path: Path, record: RunRecord) -> Run | None:
        """Return the run with this record in a folder.

        Args:
            path: the folder.
            record: the record of the run.

        Returns:
            The run; None if a run can begin there.

        Raises:
            MixError: the folder has other files or another run; the message names the difference.
            InputError: another version made the run.
            DamagedError: a record was changed.
        """
        if not (path / FILE).exists():
            names = _FIRST_FILES if record.inputs is None else (*_FIRST_FILES, SELECTION)
            left = path.iterdir() if path.exists() else ()  # left by a run killed at its start
            if any(file.name not in names and file.suffix != ".partial" for file in left):
                raise MixError(f"`{path}` contains files but no run.json. Use an empty folder.")
            return None
        run = cls.open(path)
        require_same(path, run.record.slice, record.slice, "--questions: ")
        require_same(path, run.record.questions, record.questions)
        return run

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Open a run that exists.

        Args:
            path: its folder.

        Returns:
            The run.

        Raises:
            InputError: there is no run, or another version made it.
            DamagedError: the record, or the table of prompts or queries, was changed.
        """
        return cls(Path(path), read_record(Path(path)))

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts of the run."""
        return self.run_queries.prompts

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries of the run; each question is before its rewritings."""
        return self.run_queries.queries

    @property
    def study(self) -> Study:
        """The study of the run's last command; for imported draws, only the benchmark.

        The study's files and models may be missing now. The study trusts no server, even if that
        command trusted servers.
        """
        study = self.record.study
        return Study.from_dict({k: v for k, v in study.items() if k != "control"})

    @property
    def control(self) -> str | None:
        """The model or run that the run's last command used as control; None without a control.

        Raises:
            InputError: the control was a Python object, so the record has no name of it.
        """
        control = self.record.study.get("control")
        if isinstance(control, Mapping):
            raise InputError(
                f"the control of `{self.path}` is a Python object, {control['python']}. A run "
                "cannot store such objects. Pass a model or a finished run with --control."
            )
        return None if control is None else self._located(str(control))

    def model(self, key: ArmKey) -> str:
        """Return the name of an arm's model, with the current path of its folder.

        Args:
            key: the key of a planned arm.

        Returns:
            The name for `open_engine`. It is correct even if the folder moved together with the
            run.
        """
        spec = self.record.arms[key]
        return self._located(spec.place or spec.model)

    def _located(self, name: str) -> str:
        """Return the name of a model or run with its current path."""
        engine, where = engine_of(name)
        if not (Path(where).is_absolute() and self.record.place):
            return name
        moved = Path(
            os.path.normpath(self.path.resolve() / os.path.relpath(where, self.record.place))
        )
        return location_of(engine, str(moved)) if moved.exists() else name

    @property
    def questions(self) -> tuple[Query, ...]:
        """The queries that are questions, not rewritings."""
        return self.run_queries.questions

    @property
    def arms(self) -> dict[str, Arm]:
        """The planned arms by their names."""
        return {str(key): self._arm(key) for key in self.record.arms}

    def arm(self, key: ArmKey) -> Arm | None:
        """Return the arm with a key.

        Args:
            key: its model, kind of query and decoding.

        Returns:
            The arm; None if it is not planned.
        """
        return self._arm(key) if key in self.record.arms else None

    @property
    def main(self) -> str | None:
        """The arm of the headline, or else the first sampled arm of the original questions.

        None if there is no such arm.
        """
        if self.record.headline:
            return self.record.headline.arm
        return next((arm for arm, own in self.decodings.items() if not own.greedy), None)

    @property
    def decodings(self) -> dict[str, Decoding]:
        """The decodings of the target with the original questions, by the name of their arm."""
        arms = self.record.arms.items()
        own = {k: a for k, a in arms if k.own_words and not (k.greedy or k.is_control)}
        return {str(key): spec.decoding for key, spec in own.items()}

    def write_estimates(self, rows: Sequence[EstimateRow], made_from: Mapping[str, Any]) -> None:
        """Store the table of estimates and its sources, and replace an earlier table.

        Args:
            rows: the estimates.
            made_from: the `confidence`, and `scores`, a list with [arm, scorer, slug,
                `Arm.digests`] for each arm and scorer.

        Raises:
            InputError: the folder cannot be written into.
            IncompleteError: the disk is full or fails.
        """
        table = Estimates(tuple(rows)).to_arrow()
        self._estimates.write("estimates", table, {**made_from, "made_by": code()})

    def estimates_made_from(self) -> dict[str, Any]:
        """Return the sources of the stored estimates; empty if this version stored no table."""
        if not self._estimates.file("estimates").exists():
            return {}
        try:
            self._estimates.table("estimates")
        except DamagedError as error:
            self.notes.append(str(error))
            return {}
        meta = self._estimates.meta("estimates")
        return meta if meta.get("made_by") == code() else {}

    def stored_estimates(self) -> Estimates:
        """Return the stored estimates without checking their sources.

        Raises:
            DamagedError: the table of estimates is absent or was changed.
        """
        rows = tuple(values_of(EstimateRow, self._estimates.table("estimates")))
        return Estimates(rows, self.main)

    @property
    def estimates(self) -> Estimates:
        """The estimates of the current completions and scores.

        `.worst("leak probability")` is the statement about the worst question.

        Raises:
            InputError: no estimates are stored, or they were computed from other scores or by
                another version of leakbound. The message has the commands to run.
            IncompleteError: the run is not finished.
            DamagedError: the table of estimates was changed.
        """
        self.require_drawn()
        if not self._estimates.file("estimates").exists():
            raise InputError(
                f"`{self.path}` has no estimates. Run `leakbound bound` first, and before that "
                "`leakbound score` if its completions have no scores."
            )
        now = self._files()
        if self._current is None or self._current[0] != now:
            stored = self.stored_estimates()
            require_current(self.path, self.arms, self._estimates.meta("estimates"))
            self._current = now, stored
        return self._current[1]

    @property
    def verdict(self) -> Any:
        """The `Verdict` on the run's model, see `leakbound.show`; no text of an answer is read."""
        return leakbound.show(self)  # through the package, because a higher layer makes the verdict

    @property
    def completions(self) -> DrawTable[CompletionRow]:
        """The draws, by arm and query.

        Raises:
            IncompleteError: the run is not finished.
        """
        self.require_drawn()
        arms = tuple(self.arms.values())
        return DrawTable(arms, CompletionRow, lambda arm: map(arm.completions, arm.parts))

    @property
    def scores(self) -> DrawTable[ScoreRow]:
        """The scores of the draws, by arm, scorer and query.

        Raises:
            IncompleteError: the run is not finished.
        """
        self.require_drawn()
        return DrawTable(tuple(self.arms.values()), ScoreRow, score_tables)

    @property
    def ledger(self) -> dict[str, Ledger]:
        """The number of stored draws in each class, by arm: complete, cut, filtered and so on."""
        return {name: arm.ledger for name, arm in self.arms.items()}

    def require_drawn(self) -> None:
        """Refuse a run that is not finished.

        Raises:
            IncompleteError: draws are missing; the message lists what is missing.
        """
        require_drawn(self.path, self.record, self.arms)

    @property
    def question_files(self) -> tuple[Path, Path]:
        """The files of the prompts and queries; run.json has the digests of both."""
        return self.path / _PROMPTS, self.path / _QUERIES

    def _arm(self, key: ArmKey) -> Arm:
        return Arm(self.path / "arms" / str(key), key, self.record.arms[key], self.run_queries)

    def _began_with(self, name: str, kind: type[T]) -> tuple[T, ...]:
        """Return the prompts or queries; raise DamagedError if the record has another digest."""
        stored = Artifact(folder=self.path, kind=kind, remedy=ELSEWHERE)
        file, values = stored.file(name), tuple(stored.values(name))
        if self.record.files.get(file.name) != stored.meta(name)["digest"]:
            raise DamagedError(f"`{file}` does not have the run's original questions. {ELSEWHERE}")
        return values

    def _files(self) -> list[tuple[str, int, int]]:
        """Return name, time and size of every file that estimates depend on."""
        places = (self.path / "arms", self.path / CALIBRATION)
        own = self._estimates.file("estimates")
        files = [own, *(file for place in places for file in place.rglob("*.*"))]
        stats = ((file, file.stat()) for file in sorted(files))
        return [(str(file), stat.st_mtime_ns, stat.st_size) for file, stat in stats]

    @property
    def redacted(self) -> Redaction:
        """The texts that pages and exports of the run leave out."""
        return self.record.redacted

    def redact(self, value: Redaction) -> None:
        """Record which texts pages and exports leave out from now on.

        Args:
            value: True: all texts except questions; "questions": all texts including questions.

        Raises:
            MixError: another command runs in the folder.
        """
        if self.redacted == value:
            return
        with locked(self.path, "report"):
            write_record(self.path, replace(read_record(self.path), redacted=value))
        self.record = replace(self.record, redacted=value)

    def settle_attack(self, attack: AttackRecord) -> None:
        """Record the settings of the run's search, or check that they equal the recorded settings.

        Plan the arms first, because a command that is refused earlier must leave no run.

        Args:
            attack: the settings of the search.

        Raises:
            MixError: another search is recorded; the message names the difference.
        """
        recorded = self.record.attack
        if recorded is None:
            self._record(replace(self.record, attack=attack))
        else:
            require_same(self.path, object_of(recorded), object_of(attack), "attack: ")

    def remember_study(
        self,
        study: JsonObject,
        headline: Headline | None = None,
        claims: Sequence[RecordedClaim] = (),
    ) -> None:
        """Record the study, which may differ from one command to the next.

        Once a file of an arm is stored, users may choose a claim or a headline by its content. From
        then on, a new claim or headline is recorded as not prior, and a recorded headline changes
        only if a control is added.

        Args:
            study: the study in JSON.
            headline: the statements that form the verdict.
            claims: the claims of the command.
        """
        drawn = any(files for *_, files in os.walk(self.path / "arms", followlinks=True))
        before = self.record.headline
        if drawn and before:
            joined = before.control or bool(headline and headline.control)
            headline = replace(before, control=joined)
        elif headline:
            headline = replace(headline, prior=not drawn)
        claims = recorded(self.record.claims, claims, drawn=drawn)
        now = replace(self.record, study=study, headline=headline, claims=claims)
        if now != self.record:
            self._record(now)

    def remember_headline(self, scorer: str) -> None:
        """Record a headline for this scorer as not prior, unless the run has a headline.

        Args:
            scorer: the name of the first scorer with estimates.
        """
        if self.record.headline is None and self.main:
            control = any(key.is_control for key in self.record.arms)
            late = Headline(scorer=scorer, arm=self.main, control=control, prior=False)
            self._record(replace(self.record, headline=late))

    def remember_notes(self, notes: Sequence[str]) -> None:
        """Add notes, and record them while there are no estimates.

        A certificate quotes the recorded notes, so the notes do not change after the certificate
        was made.

        Args:
            notes: notes on the questions and scorers; known notes are left out.
        """
        new = [note for note in dict.fromkeys(notes) if note not in self.notes]
        self.notes += new
        if new and not self._estimates.file("estimates").exists():
            self._record(replace(self.record, notes=(*self.record.notes, *new)))

    def add_arm(self, key: ArmKey, spec: ArmSpec) -> Arm:
        """Record the plan of an arm, or check that it equals the recorded plan.

        The model's name and the machine may differ. Probes are compared within rounding errors.

        Args:
            key: the arm's model, kind of query and decoding.
            spec: everything that the plan fixes.

        Returns:
            The arm.

        Raises:
            MixError: the recorded plan differs; the message names the difference.
            InputError: the control is the model under evaluation.
        """
        planned = self.record.arms.get(key)
        require_other_model(self.path, key, {**self.record.arms, key: spec})
        if planned is None:
            self._record(replace(self.record, arms={**self.record.arms, key: spec}))
        else:
            require_same_n(self.path, planned, spec)
            require_same(self.path, identity(planned), identity(spec), f"arm '{key}', ")
            require_same_probe(self.path, planned, spec)
        return self._arm(key)

    def _record(self, record: RunRecord) -> None:
        """Write a record and use it from now on."""
        write_record(self.path, record)
        self.record = record

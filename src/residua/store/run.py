"""A run directory: what was run, its completions, scores and estimates, each made of the last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from residua.errors import InputError, MixError
from residua.store import tables
from residua.store.files import make_folder, set_aside, write_json
from residua.store.plan import Part, Plan
from residua.types import Decoding, Failure, Prompt, Query, Sample, Usage

FORMAT = 1
# Told of an arm, but not part of what it is: the same draws' law wherever they were made.
_NOT_IDENTITY = ("model", "machine")
_FIRST_FILES = ("prompts.parquet", "queries.parquet")


@dataclass(frozen=True, slots=True)
class ArmScores:
    """Scores of every query, distinct with counts: what statistics takes.

    `scores` and `counts` are queries × distinct scores, padded with zero counts; `missing` tells
    for each query how many draws have no score.
    """

    query_ids: tuple[str, ...]
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]
    missing: NDArray[np.int64]

    @property
    def n(self) -> NDArray[np.int64]:
        """Draws of each query, the missing ones included."""
        total: NDArray[np.int64] = self.counts.sum(axis=1) + self.missing
        return total


class Run:
    """A run directory, open. `notes` collects what had to be set aside."""

    def __init__(self, path: Path, record: dict[str, Any]) -> None:
        self.path = path
        self.record = record
        self.notes: list[str] = []
        self.prompts: tuple[Prompt, ...] = tables.prompts_of(
            tables.read_table(path / "prompts.parquet")
        )
        self.queries: tuple[Query, ...] = tables.queries_of(
            tables.read_table(path / "queries.parquet")
        )

    @classmethod
    def create(
        cls,
        path: Path,
        prompts: Sequence[Prompt],
        queries: Sequence[Query],
        record: Mapping[str, Any],
    ) -> Run:
        """Open the run at `path` if `record` made it, or begin it.

        A run that begins has no run.json until its first arm is planned: a command that is
        refused before that leaves none. Raises MixError, naming the difference, where another
        command made what lies there. Where the same questions came from (`origin`) may differ.
        """
        if (path / "run.json").exists():
            run = cls.open(path)
            _require_same(path, _questions(run.record), _questions(record))
            return run
        if path.exists() and any(_is_foreign(file) for file in path.iterdir()):
            raise MixError(f"`{path}` holds other files and no run.json. Name an empty folder.")
        make_folder(path)
        tables.write_table(path / "prompts.parquet", tables.prompts_table(prompts), {})
        tables.write_table(path / "queries.parquet", tables.queries_table(queries), {})
        return cls(path, {"format": FORMAT, **record, "arms": {}})

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open a run that exists."""
        file = path / "run.json"
        if not file.is_file():
            raise InputError(
                f"`{path}` is no run directory: it has no run.json. "
                "Make one with `residua evaluate` or `residua sample`."
            )
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise InputError(f"`{file}` is not JSON ({error}). Restore it.") from error
        found = record.get("format") if isinstance(record, dict) else None
        if found != FORMAT:
            raise InputError(
                f"`{file}` has format {found!r}, this version reads {FORMAT}. "
                "Use the version of residua that made the run."
            )
        try:
            return cls(path, record)
        except tables.DamagedError as error:
            raise tables.DamagedError(
                f"{error}. Restore it from a copy, or begin again in another folder."
            ) from error

    @property
    def arms(self) -> dict[str, Arm]:
        """The arms planned so far, by name."""
        return {name: Arm(self, name, spec) for name, spec in self.record["arms"].items()}

    def write_estimates(
        self, rows: Sequence[Mapping[str, Any]], made_from: Mapping[str, Any]
    ) -> None:
        """Store the table of estimates and what it was made from, replacing an older one."""
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=tables.ESTIMATES)
        tables.write_table(self.path / "estimates.parquet", table, made_from)

    def has_estimates(self, made_from: Mapping[str, Any]) -> bool:
        """True if the stored estimates were made from just this."""
        file = self.path / "estimates.parquet"
        return file.exists() and _is_made_from(file, made_from)

    def estimates(self) -> list[dict[str, Any]]:
        """The stored estimates, one dictionary a row."""
        file = self.path / "estimates.parquet"
        if not file.exists():
            raise InputError(f"`{self.path}` has no estimates. Run `residua bound` first.")
        rows: list[dict[str, Any]] = tables.read_table(file).to_pylist()
        return rows

    def add_arm(self, name: str, spec: Mapping[str, Any]) -> Arm:
        """Plan an arm, or find it planned alike; MixError where it differs.

        `spec` has `fingerprint`, `decoding`, `plan` and `seed`; `model` and `machine` are only
        recorded.
        """
        known = self.record["arms"].get(name)
        if known is not None:
            _require_same(self.path, _identity(known), _identity(spec), f"arm {name!r}, ")
            return Arm(self, name, known)
        self.record["arms"][name] = dict(spec)
        write_json(self.path / "run.json", self.record)
        return Arm(self, name, dict(spec))


class Arm:
    """One model under one decoding inside a run."""

    def __init__(self, run: Run, name: str, spec: Mapping[str, Any]) -> None:
        self.run, self.name, self.spec = run, name, spec
        self.folder = run.path / "arms" / name
        self.decoding = Decoding.from_dict(spec["decoding"])
        self.plan = Plan(**spec["plan"])
        self.parts = self.plan.parts([q.id for q in run.queries])

    @property
    def identity(self) -> str:
        """A digest of all that determines the arm's completions."""
        made_by = [self.run.record["benchmark"]["sha256"], self.name, _identity(self.spec)]
        return hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()

    def missing_parts(self) -> list[Part]:
        """Parts still to be done. Files that are damaged or of another run are set aside."""
        return [part for part in self.parts if not self._usable(part)]

    def has(self, part: Part) -> bool:
        """True if the part is stored, be it with failures."""
        return self._file(part).exists()

    def write_part(
        self,
        part: Part,
        results: Sequence[Sample | Failure],
        usage: Usage,
        machine: Mapping[str, Any],
    ) -> None:
        """Store a finished part whole, its failures recorded."""
        order = {query_id: i for i, query_id in enumerate(part.query_ids)}
        samples = sorted(
            (r for r in results if isinstance(r, Sample)), key=lambda s: order[s.query.id]
        )
        meta = {
            "arm": self.identity,
            "part": part.number,
            "failures": tables.failures_of(results),
            "missing": {s.query.id: s.missing for s in samples if s.missing},
            "usage": asdict(usage),
            "machine": dict(machine),
        }
        tables.write_table(self._file(part), tables.completions_table(samples), meta)

    def copy_part(self, part: Part, source: Arm) -> None:
        """Store another arm's part as this arm's own, with what it cost there."""
        meta = tables.read_meta(source._file(part))
        table = source.completions(part).replace_schema_metadata(None)
        tables.write_table(self._file(part), table, {**meta, "arm": self.identity})

    def completions(self, part: Part) -> pa.Table:
        """The stored completions of a part, one row each."""
        return tables.read_table(self._file(part))

    def meta(self) -> Iterator[dict[str, Any]]:
        """What is recorded with each finished part."""
        for part in self.parts:
            if self._file(part).exists():
                yield tables.read_meta(self._file(part))

    @property
    def failures(self) -> dict[str, str]:
        """Reasons, by query id, why some queries have no completions."""
        return {k: v for meta in self.meta() for k, v in meta["failures"].items()}

    @property
    def usage(self) -> Usage:
        """What the finished parts cost."""
        total = Usage()
        for meta in self.meta():
            total.add(Usage(**meta["usage"]))
        return total

    def score(
        self, scorer: str, slug: str, score_part: Callable[[pa.Table], list[float | None]]
    ) -> None:
        """Store the scores of all completions, unless they are there for just these.

        `score_part` gives one score, or None, for each row of a completions table.
        """
        if self.has_scores(scorer, slug):
            return
        pieces = []
        for part in self.parts:
            table = self.completions(part)
            scores = pa.array(score_part(table), pa.float64())
            columns = [table["query_id"], table["count"], scores]
            pieces.append(pa.table(columns, schema=tables.SCORES))
        made_from = self._scores_made_from(scorer)
        tables.write_table(self.scores_file(slug), pa.concat_tables(pieces), made_from)

    def has_scores(self, scorer: str, slug: str) -> bool:
        """True if scores are stored, whole, of just the completions that are there."""
        file = self.scores_file(slug)
        return file.exists() and _is_made_from(file, self._scores_made_from(scorer))

    def scores_file(self, slug: str) -> Path:
        return self.folder / "scores" / f"{slug}.parquet"

    def scores_digest(self, slug: str) -> str:
        """A digest of the stored scores."""
        return str(tables.read_meta(self.scores_file(slug))["digest"])

    def scores(self, slug: str) -> ArmScores:
        """Distinct scores with counts of every query that has completions."""
        table = tables.read_table(self.scores_file(slug))
        found: dict[str, dict[float | None, int]] = {}
        columns = (table[name].to_pylist() for name in ("query_id", "count", "score"))
        for query_id, count, score in zip(*columns, strict=True):
            tally = found.setdefault(query_id, {})
            tally[score] = tally.get(score, 0) + count
        undrawn: dict[str, int] = {}
        for meta in self.meta():
            for query_id, count in meta["missing"].items():
                undrawn[query_id] = undrawn.get(query_id, 0) + count
        failed = self.failures
        ids = tuple(q.id for q in self.run.queries if q.id in found and q.id not in failed)
        missing = [found[q].pop(None, 0) + undrawn.get(q, 0) for q in ids]
        width = max((len(found[q]) for q in ids), default=0)
        scores = np.zeros((len(ids), width))
        counts = np.zeros((len(ids), width), dtype=np.int64)
        for i, query_id in enumerate(ids):
            pairs = sorted(found[query_id].items(), key=lambda pair: pair[0] or 0.0)
            scores[i, : len(pairs)] = [score for score, _ in pairs]
            counts[i, : len(pairs)] = [count for _, count in pairs]
        return ArmScores(ids, scores, counts, np.array(missing, dtype=np.int64))

    def _file(self, part: Part) -> Path:
        return self.folder / "completions" / f"part-{part.number:05d}.parquet"

    def _usable(self, part: Part) -> bool:
        file = self._file(part)
        if not file.exists():
            return False
        try:
            meta = tables.read_meta(file)
            if (meta.get("arm"), meta.get("part")) != (self.identity, part.number):
                raise tables.DamagedError(f"`{file}` belongs to another run")
            tables.read_table(file)
        except tables.DamagedError as error:
            self.run.notes.append(f"{error}; set aside as {set_aside(file).name}, to be redone")
            return False
        return not meta["failures"]  # a failed part is tried again

    def _scores_made_from(self, scorer: str) -> dict[str, Any]:
        parts = [tables.read_meta(self._file(part))["digest"] for part in self.parts]
        return {"arm": self.identity, "scorer": scorer, "parts": parts}


def _is_made_from(file: Path, made_from: Mapping[str, Any]) -> bool:
    """True if a table of the run is whole and was made from just this."""
    try:
        tables.read_table(file)
        meta = tables.read_meta(file)
    except tables.DamagedError:
        return False
    return all(meta.get(key) == value for key, value in made_from.items())


def _is_foreign(file: Path) -> bool:
    """True unless the file may be left over from a run that was killed as it began."""
    return file.name not in _FIRST_FILES and file.suffix != ".partial"


def _questions(record: Mapping[str, Any]) -> dict[str, Any]:
    benchmark = {k: v for k, v in record["benchmark"].items() if k != "origin"}
    return {"benchmark": benchmark, "inputs": record["inputs"]}


def _identity(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in spec.items() if k not in _NOT_IDENTITY}


def _require_same(path: Path, have: Any, want: Any, where: str = "") -> None:
    """Refuse the first difference between two records."""
    if isinstance(have, dict) and isinstance(want, dict):
        for key in {**have, **want}:
            _require_same(path, have.get(key), want.get(key), f"{where}{key}: ")
    elif json.loads(json.dumps(have)) != json.loads(json.dumps(want)):
        raise MixError(
            f"`{path}` was made by another command ({where}it has {have!r}, this one says "
            f"{want!r}). Name another --out, or repeat the first command."
        )

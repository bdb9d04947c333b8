"""The runs that lie in a folder, and what each says of itself, whatever has become of it.

Nothing is written, and nothing outside the folder is read: a link that leads out of it is not
followed. Whatever is wrong with one run is told in its own row, and keeps no other from its.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Literal

from leakbound.certificate.certificate import Certificate, read_values, rule_of
from leakbound.errors import IncompleteError, InputError, LeakboundError
from leakbound.evaluation.following import ArmProgress
from leakbound.evaluation.views import words
from leakbound.evaluation.views.read import how_drawn, read_view
from leakbound.evaluation.views.verdict import Verdict, verdicts
from leakbound.reporting import PAGE, REDACTED_PAGE
from leakbound.store import (
    CERTIFICATE,
    LOCK,
    SOFT_LOCK,
    DamagedError,
    OtherVersionError,
    Run,
    holder_of,
)
from leakbound.store.files import DIGEST, digest_of
from leakbound.store.record import FILE
from leakbound.text.shown import share
from leakbound.types import RULE, JsonObject

State = Literal["complete", "growing", "unfinished", "unbounded", "damaged", "other version"]
DEPTH = 8  # folders below the one that is looked at
MOST_FOLDERS = 20_000
MOST_NOTES = 10
_OWN = frozenset({"arms", "selection", "attack", "proposals", "calibration"})  # of a run: no runs
_APART = frozenset({PAGE, REDACTED_PAGE, LOCK, SOFT_LOCK, "asked"})  # a run says nothing of these

Stamp = str
"""Changes whenever a file of a run does."""


@dataclass(frozen=True, slots=True)
class Found:
    """A run in the folder.

    Attributes:
        id: by which it is asked for; made of its place, which it does not tell.
        name: its place below the folder, or the folder's name where it is the folder itself.
        path: where it lies.
        stamp: changes whenever one of its files does; None where it cannot be looked at.
        why_not: the reason for that.
        at_work: the command that holds it; empty where none is known to.
    """

    id: str
    name: str
    path: Path
    stamp: Stamp | None
    why_not: str = ""
    at_work: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One row on a run.

    Attributes:
        state: whether it is complete; growing, while a command is at work; unfinished, while none
            is; drawn and unbounded; damaged; or made by another version.
        says: what is wrong, or at work on it; empty where nothing is.
        model: its short name.
        served: the whole name of a model behind a server, as it was given; empty of others.
        benchmark: its name.
        created: when it was begun.
        drawn: how many outputs of a question are drawn, in words.
        share: how much of it is drawn, in [0, 1], 1 where nothing is missing; None: not known.
        done: that in words.
        verdict: what it shows of its model; None where nothing is known yet.
        confidence: of its bounds.
        others: of how many more decodings there is something to see.
        certificates: (file, verdict, sentence) of every certificate in its folder.
    """

    state: State
    says: str
    model: str = ""
    served: str = ""
    benchmark: str = ""
    created: str = ""
    drawn: str = ""
    share: float | None = None
    done: str = ""
    verdict: Verdict | None = None
    confidence: float | None = None
    others: int = 0
    certificates: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The runs below a folder, as they are at one moment.

    Attributes:
        root: the folder.
        runs: in the order of their names.
        notes: on what could not be looked at.
    """

    root: Path
    runs: tuple[Found, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, root: Path, only: Collection[str] | None = None) -> Catalogue:
        """Look at what lies there now; `only`: the ids of the runs that matter (None: all do)."""
        walk = _Walk(root.resolve(), only)
        walk.entered.add(walk.root)
        runs = sorted(walk.runs(walk.root, DEPTH), key=lambda run: run.name)
        more = len(walk.notes) - MOST_NOTES
        notes = [*walk.notes[:MOST_NOTES], *([f"And {more:,} more such folders."] * (more > 0))]
        return cls(walk.root, tuple(runs), tuple(notes))


@dataclass(slots=True)
class _Walk:
    """A walk through a folder that leaves it nowhere, and enters no folder twice."""

    root: Path
    only: Collection[str] | None
    notes: list[str] = field(default_factory=list)
    entered: set[Path] = field(default_factory=set)

    def runs(self, folder: Path, deeper: int) -> Iterator[Found]:
        """The runs in this folder, itself among them, and so many folders deeper."""
        try:
            with os.scandir(folder) as entries:
                inside = {entry.name: entry for entry in entries}
        except FileNotFoundError:  # it was removed meanwhile
            return
        except OSError as error:
            self.notes.append(f"`{self._name(folder)}` cannot be looked into: {error.strerror}.")
            return
        own: frozenset[str] = frozenset()
        if FILE in inside:
            own = _OWN
            if self.only is None or self._id(folder) in self.only:
                yield self._found(folder)
        for name in sorted(inside):
            if name.startswith(".") or name in own:
                continue
            place = self._within(inside[name])
            if place is None or place in self.entered:
                continue
            if not deeper or len(self.entered) >= MOST_FOLDERS:
                self.notes.append(f"`{self._name(place)}` lies too deep: nothing in it is listed.")
                continue
            self.entered.add(place)
            yield from self.runs(place, deeper - 1)

    def _within(self, entry: os.DirEntry[str]) -> Path | None:
        """The folder that an entry is or links to; None where it is none, or lies outside."""
        try:
            if not entry.is_dir():
                return None
            place = Path(entry.path)
            if not entry.is_symlink():
                return place
            place = place.resolve()
        except OSError:
            return None
        return place if place.is_relative_to(self.root) else None

    def _found(self, folder: Path) -> Found:
        try:
            stamp, why_not = self._stamp(folder), ""
        except OSError as error:
            stamp, why_not = None, f"its files cannot be looked at: {error.strerror or error}"
        except InputError as error:
            stamp, why_not = None, str(error)
        holder = holder_of(folder)
        at_work = "" if holder is None else str(holder)
        return Found(self._id(folder), self._name(folder), folder, stamp, why_not, at_work)

    def _id(self, folder: Path) -> str:
        place = os.fsencode(folder.relative_to(self.root))
        return hashlib.blake2b(place, digest_size=8).hexdigest()

    def _stamp(self, folder: Path) -> Stamp:
        """A digest of the names, times and sizes of a run's files; InputError for a way out."""
        total = hashlib.blake2b(digest_size=16)
        for entry in _files(folder):
            if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(self.root):
                raise InputError(
                    f"its `{readable(entry.name)}` is a link that leads out of the folder, and is "
                    "not followed. Put the file itself there."
                )
            with suppress(FileNotFoundError):  # removed meanwhile
                stat = entry.stat()
                if not S_ISREG(stat.st_mode):
                    kind = "a link to a folder" if S_ISDIR(stat.st_mode) else "no file"
                    raise InputError(
                        f"its `{readable(entry.name)}` is {kind}, and is not read. Put there what "
                        "it stands for."
                    )
                facts = (os.fsencode(entry.path), stat.st_mtime_ns, stat.st_size)
                total.update(repr(facts).encode())
        return total.hexdigest()

    def _name(self, folder: Path) -> str:
        name = folder.name if folder == self.root else folder.relative_to(self.root).as_posix()
        return readable(name)


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """The files and links that a run is read from, in a fixed order."""
    with os.scandir(folder) as entries:
        inside = sorted(entries, key=lambda entry: entry.name)
    for entry in inside:
        if entry.name in _APART or entry.name.endswith(".partial"):
            continue
        if entry.is_dir(follow_symlinks=False):
            with suppress(FileNotFoundError):
                yield from _files(Path(entry.path))
        else:
            yield entry


def readable(name: str) -> str:
    """A name of the file system as text: bytes that are no text are spelled."""
    return name.encode("utf-8", "backslashreplace").decode()


def listed(entry: Found) -> Listed:
    """The row of a run: what it says of itself, or what is wrong with it, whatever that is."""
    if entry.stamp is None:
        return Listed(state="damaged", says=entry.why_not)
    try:
        return _listed(Run.open(entry.path), entry.at_work)
    except OtherVersionError as error:
        return Listed(state="other version", says=str(error))
    except (LeakboundError, OSError) as error:
        return Listed(state="damaged", says=_line(error))
    except Exception as error:  # one run never takes the others with it
        return Listed(state="damaged", says=f"it cannot be read ({_line(error)})")


def _listed(run: Run, at_work: str) -> Listed:
    """A run that opens: every further fault leaves what its record says."""
    record = run.record
    arms = run.arms
    main = next((arm for arm in arms.values() if arm.key.own_words and not arm.key.greedy), None)
    shown = main or next(iter(arms.values()), None)
    name = shown.spec.model if shown else ""
    row = Listed(
        state="complete",
        says="",
        model=words.loaded_name(name),
        served=name if "://" in name else "",
        benchmark=record.benchmark.name,
        created=record.created,
        drawn=how_drawn(main) if main else "greedy answers alone",
        certificates=tuple(_certificates(run.path)),
    )
    return _state(run, row, at_work)


def _state(run: Run, row: Listed, at_work: str) -> Listed:
    """How far it is and, where it is complete, what it shows."""
    try:
        run.require_drawn()
    except IncompleteError as error:
        return _unfinished(run, row, str(error), at_work)
    row = replace(row, share=1.0, done="all drawn")
    try:
        estimates = run.estimates
    except DamagedError as error:
        return replace(row, state="damaged", says=str(error))
    except LeakboundError as error:
        if not at_work:
            return replace(row, state="unbounded", says=str(error))
        return replace(row, state="growing", says=f"drawn; at work on it: {at_work}")
    if not estimates.scorers:
        return replace(row, says="none of its questions could be sampled")
    view = read_view(run)
    shown = verdicts(view)
    if not shown:
        return replace(row, says="nothing was drawn beside the greedy answers")
    others = len(view.targets) - 1
    return replace(row, verdict=shown[0], confidence=view.confidence, others=others)


def _unfinished(run: Run, row: Listed, why: str, at_work: str) -> Listed:
    """How far a run is whose parts are not all there."""
    arms = [ArmProgress.of(arm) for arm in run.arms.values()]
    done, planned = sum(arm.done for arm in arms), sum(arm.planned for arm in arms)
    parts, total = sum(arm.parts for arm in arms), sum(arm.planned_parts for arm in arms)
    return replace(
        row,
        state="growing" if at_work else "unfinished",
        says=f"at work on it: {at_work}" if at_work else why,
        share=done / planned if planned else 0.0,
        done=f"{parts:,} of {total:,} parts, {share(done / planned if planned else 0.0)}",
    )


def _certificates(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(file, verdict, sentence) of the certificates in a run's folder, damaged ones too."""
    for file in sorted(folder.glob("*.json")):
        try:
            values = read_values(file)
        except LeakboundError as error:
            if file.name == CERTIFICATE:  # any other may be something else
                yield file.name, "damaged", str(error)
            continue
        yield readable(file.name), *_certificate(values)


def _certificate(values: JsonObject) -> tuple[str, str]:
    """The verdict and the sentence of a certificate, or that it is damaged and why."""
    if values.get(DIGEST) != digest_of(values):
        return "damaged", "It was changed after it was written."
    if (rule := rule_of(values)) != RULE:
        return "damaged", f"It was made under rule {rule}. Certify the run again."
    try:
        certificate = Certificate.from_dict(values)
    except LeakboundError as error:
        return "damaged", str(error)
    return certificate.verdict, certificate.sentence


def _line(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, LeakboundError) else f"{type(error).__name__}: {text}"

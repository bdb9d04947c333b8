"""Whether a run is finished, and its estimates made from what lies there now, by this code."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import leakbound
from leakbound.errors import IncompleteError, InputError
from leakbound.store.arm import Arm
from leakbound.store.files import read_sealed

CALIBRATION = "calibration"
"""The folder, within that of the run, of what is known of its scorers' errors."""
_USUAL_CONFIDENCE = 0.99
MAKERS = (
    "stats",
    "planning",
    "scoring",
    "bounding",
    "store/scores.py",
    "store/masses.py",
)
"""What turns stored scores into estimates, within the package."""


def require_drawn(
    run: Path, arms: Mapping[str, Arm], *, searches: bool, stresses: Sequence[str] = ()
) -> None:
    """Raise IncompleteError, saying what is missing, where parts of a run are still to be drawn.

    `searches`: whether it searches for worst-case inputs; `stresses`: those it is asked under.
    """
    for lack in _undrawn(arms, searches, stresses):
        raise IncompleteError(
            f"`{run}` is not finished: {lack}. Run the command that sampled it again."
        )


def require_current(run: Path, arms: Mapping[str, Arm], made_from: Mapping[str, Any]) -> None:
    """Refuse estimates of other scores, completions or calibrations, or by other statistics.

    `made_from` is what was recorded with them.
    """
    for why in _differing(run, arms, made_from):
        raise InputError(f"the estimates of `{run}` {why}. {_remedy(run, arms, made_from)}")


def _undrawn(arms: Mapping[str, Arm], searches: bool, stresses: Sequence[str]) -> Iterator[str]:
    if not arms:
        yield "nothing was drawn yet"
    for name, arm in arms.items():
        absent = [part for part in arm.parts if not arm.has(part)]
        if absent:
            yield f"arm {name!r} lacks {len(absent)} of {len(arm.parts)} parts"
        if waiting := arm.unlooked():
            yield f"arm {name!r} has {len(waiting)} questions yet to be decided"
    if searches and not any(arm.key.asks == "attack" for arm in arms.values()):
        yield "the search for worst-case inputs has not ended"
    for spec in stresses:
        if not any(arm.key.stress == arm.key.stressed(spec).stress for arm in arms.values()):
            yield f"nothing was drawn yet under the stress {spec!r}"


def _differing(run: Path, arms: Mapping[str, Arm], made_from: Mapping[str, Any]) -> Iterator[str]:
    """The ways in which the estimates are of something else, each as a predicate."""
    maker = made_from.get("made_by", {})
    if maker != made_by():
        yield f"were made by other statistics, those of leakbound {maker.get('version', 'unknown')}"
    scores = made_from["scores"]
    for name in arms.keys() - {arm for arm, *_ in scores}:
        yield f"leave out arm {name!r}, which was drawn since"
    for name, scorer, slug, digests in scores:
        if name not in arms or arms[name].digests(scorer, slug) != digests:
            yield f"are not of the scores of {scorer!r} that arm {name!r} has now"
        if made_from.get("calibrated", {}).get(slug) != read_calibration(run, slug):
            yield f"are not by the calibration of {scorer!r} that is there now"


def _remedy(run: Path, arms: Mapping[str, Arm], made_from: Mapping[str, Any]) -> str:
    """The commands that make the same estimates again."""
    folder = shlex.quote(str(run))
    bounded = made_from.get("scorers")
    scorers = {
        scorer: slug
        for _, scorer, slug, _ in made_from["scores"]
        if bounded is None or scorer in bounded
    }
    usual = made_from["confidence"]
    by_confidence: dict[float, list[str]] = {}  # scorers are bounded apart, each at its own
    for scorer in scorers:
        own = made_from.get("scorers", {}).get(scorer, {}).get("confidence", usual)
        by_confidence.setdefault(own, []).append(scorer)
    scored = all(
        arm.digests(scorer, slug) is not None
        for arm in arms.values()
        for scorer, slug in scorers.items()
    )
    commands = [] if scored else [f"`leakbound score {folder}{_named(scorers)}`"]
    for confidence, names in by_confidence.items():
        option = "" if confidence == _USUAL_CONFIDENCE else f" --confidence {confidence!r}"
        commands.append(f"`leakbound bound {folder}{_named(names)}{option}`")
    return f"Run {', then '.join(commands)}."


def _named(scorers: Iterable[str]) -> str:
    return "".join(f" --scorer {shlex.quote(scorer)}" for scorer in scorers)


@cache
def made_by() -> dict[str, str]:
    """The version of leakbound, and a digest of all the code that estimates depend on.

    Of the source itself, so that no change of a bound can be forgotten; a change of mere words in
    it has estimates made again too, which costs seconds and no model.
    """
    package = Path(leakbound.__file__).parent
    return {"version": leakbound.__version__, "statistics": revision(package)}


def revision(package: Path) -> str:
    """A digest of the Python files that estimates depend on, of the package in this folder."""
    total = hashlib.sha256()
    for maker in MAKERS:
        place = package / maker
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            name, text = file.relative_to(package).as_posix(), file.read_text(encoding="utf-8")
            total.update(f"{name} {len(text)}\n{text}".encode())
    return total.hexdigest()[:16]


def calibration_file(run: Path, slug: str) -> Path:
    """Where it is kept how often a scorer errs."""
    return run / CALIBRATION / f"{slug}.json"


def read_calibration(run: Path, slug: str) -> dict[str, Any] | None:
    """How often a scorer errs, as it is stored; None where that is not known.

    Raises DamagedError where the file is not as it was written there.
    """
    file = calibration_file(run, slug)
    if not file.exists():
        return None
    return read_sealed(file, "Remove it, and calibrate the judge again.")

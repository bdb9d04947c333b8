"""Check that a run is finished, and that its estimates match its current scores and code."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import leakbound
from leakbound.durable import sha256
from leakbound.errors import IncompleteError, InputError
from leakbound.store.arm import Arm
from leakbound.store.files import read_value
from leakbound.store.record import RunRecord

CALIBRATION = "calibration"
"""The folder, inside the run's folder, with the error rates of scorers."""


def require_drawn(run: Path, record: RunRecord, arms: Mapping[str, Arm]) -> None:
    """Raise IncompleteError if a run is not fully drawn; the message lists what is missing."""
    if record.slice is not None:
        raise IncompleteError(
            f"`{run}` is slice {record.slice} of a study and has no estimates. When all slices are "
            "drawn, run `leakbound merge RUN... --out RUN`."
        )
    for lack in _undrawn(record, arms):
        raise IncompleteError(f"`{run}` is not finished: {lack}. Run its sampling command again.")


def require_current(run: Path, arms: Mapping[str, Arm], made_from: Mapping[str, Any]) -> None:
    """Raise InputError if estimates were made from other scores or calibrations, or by other code.

    `made_from`: the recorded sources of the estimates.
    """
    for why in _differing(run, arms, made_from):
        raise InputError(f"the estimates of `{run}` {why}. {_remedy(run, arms, made_from)}")


def _undrawn(record: RunRecord, arms: Mapping[str, Arm]) -> Iterator[str]:
    if not arms:
        yield "nothing was drawn yet"
    for name, arm in arms.items():
        yield from (f"arm {name!r} {lack}" for lack in arm.lacks())
    if record.attack and not any(arm.key.kind == "attack" for arm in arms.values()):
        yield "the search for worst-case inputs is not finished"
    stresses = record.study.get("stress")
    for spec in stresses if isinstance(stresses, list | tuple) else ():
        if not any(arm.key.stress == arm.key.stressed(str(spec)).stress for arm in arms.values()):
            yield f"nothing was drawn yet under the stress {spec!r}"


def _differing(run: Path, arms: Mapping[str, Arm], made_from: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ways in which the estimates are outdated, as phrases."""
    maker = made_from.get("made_by", {})
    if maker != code():
        yield f"were computed by different code (leakbound {maker.get('version', 'unknown')})"
    scores = made_from["scores"]
    for name in arms.keys() - {arm for arm, *_ in scores}:
        yield f"do not include arm {name!r}, which was drawn later"
    for name, scorer, slug, digests in scores:
        if name not in arms or arms[name].digests(scorer, slug) != digests:
            yield f"were not computed from the current scores of {scorer!r} in arm {name!r}"
        if made_from.get("calibrated", {}).get(slug) != read_calibration(run, slug):
            yield f"were not computed with the run's current calibration of {scorer!r}"


def _remedy(run: Path, arms: Mapping[str, Arm], made_from: Mapping[str, Any]) -> str:
    """Return a sentence with the commands that make the same estimates again."""
    folder, bounded = shlex.quote(str(run)), made_from["scorers"]
    scored = all(
        arms[name].digests(scorer, slug) is not None
        for name, scorer, slug, _ in made_from["scores"]
        if name in arms
    )
    commands = [] if scored else [f"`leakbound score {folder}{_named(bounded)}`"]
    for confidence in dict.fromkeys(made["confidence"] for made in bounded.values()):
        own = [scorer for scorer, made in bounded.items() if made["confidence"] == confidence]
        commands.append(f"`leakbound bound {folder}{_named(own)} --confidence {confidence!r}`")
    return f"Run {', then '.join(commands)}."


def _named(scorers: Iterable[str]) -> str:
    return "".join(f" --scorer {shlex.quote(scorer)}" for scorer in scorers)


@cache
def code() -> dict[str, str]:
    """Return the version of leakbound, and the SHA-256 of its Python files."""
    root = Path(leakbound.__file__).parent
    total = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        total.update(f"{file.relative_to(root).as_posix()} {sha256(file)}\n".encode())
    return {"version": leakbound.__version__, "sha256": total.hexdigest()}


def calibration_file(run: Path, slug: str) -> Path:
    """Return the file of a scorer's error rates."""
    return run / CALIBRATION / f"{slug}.json"


def read_calibration(run: Path, slug: str) -> dict[str, Any] | None:
    """Return a scorer's stored error rates, or None; raise DamagedError if they changed."""
    again = "Remove it, and calibrate the judge again."
    return read_value(dict[str, Any], calibration_file(run, slug), again)

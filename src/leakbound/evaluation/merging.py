"""Merge the slices of a study into the run that one command would have made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from leakbound.errors import IncompleteError, InputError, MixError
from leakbound.evaluation.statements.beside import OTHERS
from leakbound.evaluation.verbs import bound, score
from leakbound.store import ArmKey, Run, Slice, holding, read_accepted, write_accepted
from leakbound.store.identity import differences, identity, require_same_law
from leakbound.store.lock import utc_now
from leakbound.store.record import FILE
from leakbound.types import JsonObject, Progress, counted, silent


@holding("merge")
def merge(runs: Sequence[str | Path], *, out: str | Path, progress: Progress = silent) -> Run:
    """Merge all slices of a study, then score and bound its run as `evaluate` does.

    The slices stay as they are. Called again, it resumes. A judge behind a server is not asked:
    `score` asks it if it is named there.

    Args:
        runs: the folders of the slices, in any order.
        out: the run directory.
        progress: called with how far each step is, a `leakbound.types.Headway`.

    Returns:
        The run at `out`. It records the questions that could not be sampled.

    Raises:
        InputError: a run is no slice, or a slice is missing or named twice.
        MixError: the slices are of different studies, models or versions; it names the difference.
        IncompleteError: a slice is not finished.
        DamagedError: a file of a slice is not as it was written.
    """
    slices = [Run.open(path) for path in runs]
    _require_all(slices)
    for run in slices:
        run.require_this_rule()
        _require_same(slices[0], run, *map(_study, (slices[0], run)))
        _require_drawn(slices, run)
    first = slices[0]
    merged = _begun(first, Path(out))
    for key, spec in first.record.arms.items():
        arm = merged.add_arm(key, spec)
        drawn = [own for run in slices if (own := run.arm(key))]
        source = {number: own for own in drawn for number in own.own}
        for part in counted(progress, f"merging {arm.name}", [*arm.parts_to_draw()], "parts"):
            arm.copy_part(part, source[part.number])
    if _asks_others(first):
        merge([run.path / OTHERS for run in slices], out=merged.path / OTHERS, progress=progress)
    score(merged, calibration=merged.study.calibration, progress=progress)
    bound(merged, progress=progress)
    return merged


def _require_same(first: Run, run: Run, want: JsonObject, have: JsonObject) -> None:
    for difference in differences(have, want, "", f"`{first.path}` has"):
        raise MixError(
            f"`{run.path}` and `{first.path}` are not slices of one study ({difference}). Name "
            "the slices that one command drew."
        )


def _study(run: Run) -> JsonObject:
    """All that the slices of a study have in common, their arms left out."""
    record = run.record
    return {
        "leakbound": record.version,
        "number of slices": 0 if record.slice is None else record.slice.of,
        **record.questions,
        "study": record.study,
        "files": {**record.files},
    }


def _require_all(slices: Sequence[Run]) -> None:
    """Refuse slices that are not all of a study, each once."""
    places: dict[Slice, Path] = {}
    for run in slices:
        if run.record.slice is None:
            raise InputError(
                f"`{run.path}` is no slice of a study. Draw one with `leakbound evaluate MODEL "
                "--questions i/N`."
            )
        if (place := places.setdefault(run.record.slice, run.path)) is not run.path:
            raise InputError(
                f"`{place}` and `{run.path}` are both slice {run.record.part}. Name one of them."
            )
    of = max((own.of for own in places), default=0)
    wanted = (Slice(number, of) for number in range(1, of + 1))
    missing = [str(own) for own in wanted if own not in places]
    if missing or not places:
        raise InputError(f"slices are missing: {', '.join(missing) or 'all'}. Name all of them.")


def _require_drawn(slices: Sequence[Run], run: Run) -> None:
    """Refuse a slice that is not finished or is damaged, and one that another model drew."""
    keys = dict.fromkeys(key for other in slices for key in other.record.arms)
    for lack in _lacks(run, keys):
        raise IncompleteError(
            f"`{run.path}`, slice {run.record.part}, is not finished: {lack}. Run its command "
            "again, then merge."
        )
    for key, spec in slices[0].record.arms.items():
        own = run.record.arms[key]
        where = f"arm '{key}'"
        _require_same(slices[0], run, {where: identity(spec)}, {where: identity(own)})
        require_same_law(run.path, own, spec)


def _lacks(run: Run, keys: Iterable[ArmKey]) -> Iterator[str]:
    """Say what a slice has still to draw, of the arms with these keys, and what is damaged."""
    for key in keys:
        arm = run.arm(key)
        if arm is None or not all(arm.has(arm.parts[number]) for number in arm.own):
            yield f"arm '{key}' lacks parts"
        else:
            yield from arm.faults()
    if _asks_others(run) and not (run.path / OTHERS / FILE).is_file():
        yield "it lacks the control questions"


def _asks_others(run: Run) -> bool:
    return run.record.study.get("control_questions") is not None


def _begun(first: Run, out: Path) -> Run:
    """Begin the run that is merged, or open it as it was left."""
    record = replace(first.record, slice=None, created=utc_now())
    run = Run.create(out, first.prompts, first.queries, record)
    accepted = read_accepted(first.path, first.record)
    if accepted is not None:
        write_accepted(out, record, accepted)
    return run

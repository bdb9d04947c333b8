"""What a search found, and the fresh draws that bound it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from leakbound.evaluation.drawing.sample import Job, control_of, draw_arm, plan_arm
from leakbound.evaluation.drawing.search import FOLDER, Hunt, winners
from leakbound.evaluation.study.plan import Drawing
from leakbound.inputs.halving import Standing, Winner
from leakbound.inputs.variants import Variant
from leakbound.store import DamagedError, Run, read_sealed, write_sealed
from leakbound.types import Decoding, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found for a question: a query, under the question's id, that `arm` draws from.

    `rounds`: how it stood after each of the search, by bounds that steered and claim nothing.
    """

    query: Query
    decoding: Decoding
    shots: tuple[str, ...]
    rounds: tuple[Standing, ...]
    arm: str

    @property
    def lower(self) -> float:
        """Where the search left it: 0 where there was nothing to choose from."""
        return self.rounds[-1].lower if self.rounds else 0.0

    def to_dict(self) -> dict[str, Any]:
        """As found.json holds it."""
        query = self.query
        return {
            "prompt_id": query.prompt_id,
            "text": query.text,
            "prefix": query.prefix,
            "examples": list(query.examples),
            "source": query.source,
            "shots": list(self.shots),
            "decoding": self.decoding.name,
            "rounds": [asdict(standing) for standing in self.rounds],
            "lower": self.lower,
            "arm": self.arm,
        }


def attack_questions(run: Run, hunt: Hunt, control: Job | None, drawing: Drawing) -> None:
    """Search, then draw from what was found, and from the control asked the same.

    Goes on where it was stopped; `run` has the search's settings on record.
    """
    found = read_found(run)
    if found is None:
        names = {decoding: name for name, decoding in hunt.arms.items()}
        found = tuple(_of_winner(*item, names) for item in winners(run, hunt).items())
        write_sealed(_file(run), {"found": [one.to_dict() for one in found]})
    jobs = list(_jobs(found, hunt.job, control))
    for job in jobs:
        job.engine.check(job.found, job.decoding)
    planned = [plan_arm(run, job, drawing, hunt.seed) for job in jobs]
    for arm, job in zip(planned, jobs, strict=True):
        draw_arm(arm, job, drawing, hunt.progress)


def read_found(run: Run) -> tuple[Found, ...] | None:
    """What the search of a run found; None where it is not finished, or there was none."""
    if not _file(run).exists():
        return None
    again = "Remove it, and the command that made the run makes it again."
    entries = read_sealed(_file(run), again)
    try:
        decodings = {d.name: d for d in map(Decoding.from_dict, run.record["attack"]["decodings"])}
        return tuple(_found(entry, decodings) for entry in entries["found"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"`{_file(run)}` is no record of a search. {again}") from error


def _file(run: Run) -> Path:
    return run.path / FOLDER / "found.json"


def _found(entry: Mapping[str, Any], decodings: Mapping[str, Decoding]) -> Found:
    """The inverse of `Found.to_dict`."""
    prompt_id = entry["prompt_id"]
    words = {name: entry[name] for name in ("text", "prefix", "examples", "source")}
    return Found(
        query=Query(id=prompt_id, prompt_id=prompt_id, **words),
        decoding=decodings[entry["decoding"]],
        shots=tuple(entry["shots"]),
        rounds=tuple(Standing(**standing) for standing in entry["rounds"]),
        arm=entry["arm"],
    )


def _of_winner(prompt_id: str, winner: Winner[Variant], names: Mapping[Decoding, str]) -> Found:
    variant = winner.candidate
    return Found(
        query=replace(variant.query, id=prompt_id),
        decoding=variant.decoding,
        shots=variant.shots,
        rounds=winner.standings,
        arm=names[variant.decoding],
    )


def _jobs(found: Sequence[Found], target: Job, control: Job | None) -> Iterator[Job]:
    """An arm for each decoding that was found, and the control's beside it."""
    for arm in dict.fromkeys(one.arm for one in found):
        mine = [one for one in found if one.arm == arm]
        decoding, queries = mine[0].decoding, tuple(one.query for one in mine)
        for job, name in ((target, arm), (control, control_of(arm))):
            if job is not None:
                yield replace(job, arm=name, decoding=decoding, sharing=None, found=queries)

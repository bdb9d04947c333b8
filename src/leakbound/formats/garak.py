"""Reports of garak since 0.9.0.14, `*.report.jsonl`: prompts of probes, generations, detectors.

A prompt becomes a question, each of its generations becomes a draw, and the
value of a detector becomes a score, which is 1 if the detector fires. In garak,
a value that reaches a threshold is a hit. The scorer `logged:by=DETECTOR>=0.5`
makes such a score binary. A failed generation is missing. An empty prompt, such
as in `test.Blank`, becomes "(empty prompt)".

In versions before 0.13, prompts and generations are texts. Since 0.13, a prompt has turns, and each
text is in an object. Before 0.13.1, detectors returned no value for failed generations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from leakbound.errors import InputError
from leakbound.formats import rows as shape
from leakbound.formats.rows import Json, SampleFile, SampleRow
from leakbound.text.counting import output_of
from leakbound.text.rows import each_row

_EMPTY = "(empty prompt)"
_DONE = 2  # the status of an attempt after its detectors ran; an attempt has a row for each status

Placed: TypeAlias = tuple[str, Json]
"""The place of a row in a report, and the row."""


def read(path: Path, probe: str = "") -> SampleFile:
    """Read the attempts of a report, or of a single probe in it (`--format garak:PROBE`).

    Raises InputError for an incomplete report, for conversations of several turns, and for probes
    with different detectors. With different detectors, some draws would have no score by a
    detector, which would weaken every claim.
    """
    kinds: dict[str, list[Placed]] = {}
    for row in each_row(path, "jsonl"):
        kinds.setdefault(str(row.values.get("entry_type")), []).append((row.place, row.values))
    setup = _setup(path, kinds)
    n = shape.stated_count(path, setup["run.generations"], "generations")
    attempts = kinds.get("attempt", [])
    chosen = [(p, record) for p, record in attempts if probe in ("", record.get("probe_classname"))]
    if not chosen:
        probes = ", ".join(sorted({str(record.get("probe_classname")) for _, record in attempts}))
        raise InputError(f"`{path}` has no attempt of probe {probe!r}, only {probes or 'none'}.")
    chosen.sort(key=lambda placed: placed[1]["status"] == _DONE)
    last = {row.get("uuid", _id(row)): (place, row) for place, row in chosen}
    rows = [draw for draws in shape.each(last.values(), partial(_rows, n=n)) for draw in draws]
    detectors: dict[str, set[str]] = {}
    for draw in rows:
        detectors.setdefault(draw.id.rpartition("/")[0], set()).update(draw.scores)
    if len({frozenset(names) for names in detectors.values()}) > 1:
        raise InputError(
            f"the probes of `{path}` have different detectors, so some draws would have no "
            "score. Import one probe at a time with --format garak:PROBE. The probes are "
            f"{', '.join(sorted(detectors))}."
        )
    seed = setup.get("run.seed")
    target = [
        setup.get(f"plugins.target_{fact}") or setup.get(f"plugins.model_{fact}")
        for fact in ("type", "name")
    ]
    return SampleFile(
        path=path,
        tool=f"garak {setup.get('_config.version', '')}".strip(),
        task=" and ".join(detectors),
        rows=rows,
        stated={
            "model": ":".join(str(part) for part in target if part) or "unnamed",
            **({} if seed is None else {"seed": seed}),
        },
    )


def _setup(path: Path, kinds: Mapping[str, Sequence[Placed]]) -> Json:
    """Return the settings of the run; raise InputError unless the report has one finished run."""
    setups = kinds.get("start_run setup", ())
    if len(setups) == 1 and "completion" in kinds:
        return setups[0][1]
    versions = [str(record.get("garak_version")) for _, record in kinds.get("init", ())]
    raise InputError(
        f"`{path}` is not the report of one finished garak run. Finish the run, and import "
        "the reports of two runs separately. Reports before garak 0.9.0.14 do not show whether a "
        f"run has ended; this report is from {' and '.join(versions) or 'an unknown version'}."
    )


def _id(record: Json) -> str:
    return f"{record['probe_classname']}/{record['seq']}"


def _rows(place: str, record: Json, n: int) -> list[SampleRow]:
    prompt, question = record["prompt"], shape.text_of(record["prompt"])
    talks = [talk["turns"] for talk in record.get("conversations") or ()]
    turns = prompt["turns"] if talks else []
    for talk in talks or record.get("messages") or ():
        if isinstance(talk, list):  # else the turn of a prompt without outputs
            shape.require_one_turn(f"attempt {_id(record)}, {place}", talk, turns)
    outputs = [out["text"] if isinstance(out, dict) else out for out in record["outputs"]]
    scores = {
        name: _by_output(values, outputs)
        for name, values in sorted(record["detector_results"].items())
    }
    return [
        SampleRow(
            id=_id(record),
            question=question if question.strip() else _EMPTY,
            output=None if text is None else output_of(shape.text_of(text)),
            scores={name: shape.score_of(values.get(i)) for name, values in scores.items()},
        )
        for i, text in enumerate(outputs + [None] * (n - len(outputs)))
    ]


def _by_output(values: Sequence[object], outputs: Sequence[object]) -> dict[int, object]:
    """Return a detector's values by the index of the output; empty if their number is wrong."""
    answered = [i for i, text in enumerate(outputs) if text is not None]
    places = answered if len(values) == len(answered) else range(len(outputs))
    return dict(zip(places, values, strict=True)) if len(values) == len(places) else {}

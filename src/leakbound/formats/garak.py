"""Reports of garak, `*.report.jsonl`: every prompt of a probe with its generations and detectors.

A prompt is a question, each of its generations a draw, and the value of a detector a score: 1
where it fires. Garak itself counts a hit from a threshold on; here a detector's score is taken as
it is, and `logged:by=DETECTOR>=0.5` makes it binary. A generation that failed is missing. A prompt
that is empty, as that of `test.Blank`, is read as "(empty prompt)".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from leakbound.errors import InputError
from leakbound.formats.rows import MOST, Json, SampleFile, SampleRow
from leakbound.text.counting import output_of
from leakbound.text.rows import each_row
from leakbound.text.shown import some

_EMPTY = "(empty prompt)"
_DONE = 2  # status of an attempt that detectors have seen


def read(path: Path, probe: str = "") -> SampleFile:
    """Read the attempts of a report, or of one of its probes (`--format garak:PROBE`).

    Raises InputError for a report that is not whole; for probes with different detectors, as a
    draw without a score counts against every claim; and for conversations of several turns.
    """
    rows: list[Json] = [row.values for row in each_row(path, "jsonl")]
    kinds = [row["entry_type"] for row in rows]
    if kinds.count("start_run setup") != 1 or "completion" not in kinds:
        raise InputError(
            f"`{path}` is no report of one garak run that has ended. Let it end, and import the "
            "reports of two runs as two."
        )
    setup = rows[kinds.index("start_run setup")]
    n, seed = int(setup["run.generations"]), setup.get("run.seed")
    if not 1 <= n <= MOST:
        raise InputError(f"`{path}` must have 1 to {MOST:,} generations, it states {n}.")
    attempts = [row for row in rows if row["entry_type"] == "attempt"]
    done = {_key(row): row for row in attempts if row["status"] == _DONE}
    last = done | {_key(row): row for row in attempts if _key(row) not in done}
    chosen = [row for row in last.values() if probe in ("", row["probe_classname"])]
    detectors: dict[str, set[str]] = {}
    for row in chosen or attempts:
        detectors.setdefault(row["probe_classname"], set()).update(row["detector_results"])
    named = ", ".join(sorted(detectors))
    if not chosen:
        raise InputError(f"`{path}` has no attempt of probe {probe!r}. It has {named or 'none'}.")
    if len({frozenset(names) for names in detectors.values()}) > 1:
        raise InputError(
            f"the probes of `{path}` have different detectors, so that a draw would lack some "
            f"score. Import one at a time, --format garak:PROBE, of {named}."
        )
    target = [setup.get("plugins.target_type"), setup.get("plugins.target_name")]
    notes = [
        f"the prompt of {_id(row)} is empty, and is read as {_EMPTY!r}"
        for row in chosen
        if _prompt(row) == _EMPTY
    ]
    if unseen := [_id(row) for row in chosen if row["status"] != _DONE]:
        notes.append(f"no detector looked at {some(unseen)}: their outputs have no scores")
    return SampleFile(
        path=path,
        tool=f"garak {setup.get('_config.version', '')}".strip(),
        task=" and ".join(map(str, detectors)),
        rows=(row for attempt in chosen for row in _rows(path, attempt, n)),
        stated={
            "model": ":".join(str(part) for part in target if part) or "unnamed",
            **({} if seed is None else {"seed": seed}),
        },
        notes=tuple(notes),
    )


def _id(row: Json) -> str:
    return f"{row['probe_classname']}/{row['seq']}"


def _key(row: Json) -> str:
    """The same for the rows of one attempt, which has a row for each status."""
    return str(row.get("uuid") or _id(row))


def _prompt(row: Json) -> str:
    turns = [turn for turn in row["prompt"]["turns"] if turn["role"] == "user"]
    text = "\n".join(turn["content"]["text"] or "" for turn in turns)
    return text if text.strip() else _EMPTY


def _replies(turns: Sequence[Json]) -> int:
    return sum(turn["role"] == "assistant" for turn in turns)


def _rows(path: Path, row: Json, n: int) -> Iterator[SampleRow]:
    outputs, question = row["outputs"], _prompt(row)
    conversations = [_replies(talk["turns"]) for talk in row.get("conversations") or []]
    turns = max(conversations, default=0) - _replies(row["prompt"]["turns"])
    if turns > 1 or len(outputs) > n:
        raise InputError(
            f"a completion is one output of the model, got {turns} turns of it in attempt "
            f"{row['seq']} of {row['probe_classname']} in `{path}`. Import probes of one turn."
        )
    for i in range(n):
        output = outputs[i] if i < len(outputs) else None
        text = None if output is None else output.get("text")
        scores = row["detector_results"] if i < len(outputs) else {}
        values = {name: scores[name][i] for name in sorted(scores)}
        yield SampleRow(
            id=_id(row),
            question=question,
            output=None if text is None else output_of(text),
            scores={name: None if x is None else float(x) for name, x in values.items()},
        )

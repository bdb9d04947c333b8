"""Reports of garak, `*.report.jsonl`: every prompt of a probe with its generations and detectors.

A prompt is a question, each of its generations a draw, and what a detector says of it a score: 1
where it fires. Garak itself counts a hit from a threshold on; here a detector's score is taken as
it is, and `logged:by=DETECTOR>=0.5` makes it binary. A generation that failed is missing. A prompt
that is empty, as that of `test.Blank`, stands as "(empty prompt)".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from leakbound.errors import InputError
from leakbound.formats.imported import MOST, Draw, ImportedLog, ImportedQuestion, Json
from leakbound.text.counting import output_of
from leakbound.text.rows import each_row
from leakbound.text.shown import some

_EMPTY = "(empty prompt)"
_DONE = 2  # status of an attempt that detectors have seen


def read(path: Path, probe: str = "") -> ImportedLog:
    """The attempts of a report, or of one of its probes, `garak:PROBE` as --format has it.

    Raises InputError for what is no whole report; for probes that other detectors looked at, as a
    draw without a score counts against every claim; and for conversations of several turns.
    """
    rows = [row.values for row in each_row(path, "jsonl")]
    setup = _only(path, rows, "start_run setup")
    attempts = [row for row in rows if row["entry_type"] == "attempt"]
    done = [row for row in attempts if row["status"] == _DONE]
    seen = {*map(_key, done)}
    unseen = {_key(row): row for row in attempts if _key(row) not in seen}
    chosen = [row for row in (*done, *unseen.values()) if probe in ("", row["probe_classname"])]
    detectors = _detectors(path, chosen or attempts, probe, bool(chosen))
    n = int(setup["run.generations"])
    if not 1 <= n <= MOST:
        raise InputError(f"`{path}` must have 1 to {MOST:,} generations, it states {n}.")
    target = [setup.get("plugins.target_type"), setup.get("plugins.target_name")]
    seed = setup.get("run.seed")
    probes = dict.fromkeys(str(row["probe_classname"]) for row in chosen)
    questions = tuple(_question(path, row, n) for row in chosen)
    notes = [f"the prompt of {q.id} is empty, and stands as {_EMPTY!r}"
             for q in questions if q.text == _EMPTY]  # fmt: skip
    if bare := [_id(row) for row in chosen if row["status"] != _DONE]:
        notes.append(f"no detector looked at {some(bare)}: their outputs have no scores")
    return ImportedLog(
        path=path,
        tool=f"garak {setup.get('_config.version', '')}".strip(),
        model=":".join(str(part) for part in target if part) or "unnamed",
        task=" and ".join(probes),
        stated={} if seed is None else {"seed": seed},
        asked=questions,
        scorers=dict.fromkeys(detectors, False),
        notes=tuple(notes),
    )


def _id(row: Json) -> str:
    return f"{row['probe_classname']}/{row['seq']}"


def _key(row: Json) -> str:
    """The same for the rows of one attempt, which has a row for each status."""
    return str(row.get("uuid") or _id(row))


def _only(path: Path, rows: Sequence[Json], kind: str) -> Json:
    matches = [row for row in rows if row["entry_type"] == kind]
    if len(matches) != 1 or not any(row["entry_type"] == "completion" for row in rows):
        raise InputError(
            f"`{path}` is no report of one garak run that has ended. Let it end, and import the "
            "reports of two runs as two."
        )
    return matches[0]


def _detectors(path: Path, rows: Sequence[Json], probe: str, has_probe: bool) -> Sequence[str]:
    """The detectors that looked at all of these attempts."""
    by_probe: dict[str, set[str]] = {}
    for row in rows:
        by_probe.setdefault(row["probe_classname"], set()).update(row["detector_results"])
    named = ", ".join(sorted(by_probe))
    if not has_probe:
        raise InputError(f"`{path}` has no attempt of probe {probe!r}. It has {named or 'none'}.")
    first, *others = by_probe.values()
    if any(other != first for other in others):
        raise InputError(
            f"the probes of `{path}` were looked at by different detectors, so that a draw would "
            f"lack some score. Import one at a time, --format garak:PROBE, of {named}."
        )
    return sorted(first)


def _question(path: Path, row: Json, n: int) -> ImportedQuestion:
    turns = row["prompt"]["turns"]
    outputs = row["outputs"]
    prior = sum(turn["role"] == "assistant" for turn in turns)
    for conversation in row.get("conversations") or []:
        replies = sum(turn["role"] == "assistant" for turn in conversation["turns"])
        if replies - prior > 1 or len(outputs) > n:
            raise InputError(
                f"a completion is one output of the model, got {replies - prior} turns of it in "
                f"attempt {row['seq']} of {row['probe_classname']} in `{path}`. Import probes of "
                "one turn."
            )
    text = "\n".join(turn["content"]["text"] or "" for turn in turns if turn["role"] == "user")
    draws = [*_draws(row), *[None] * (n - len(outputs))]
    return ImportedQuestion(id=_id(row), text=text if text.strip() else _EMPTY, draws=tuple(draws))


def _draws(row: Json) -> Iterator[Draw | None]:
    for i, output in enumerate(row["outputs"]):
        if output is None or output.get("text") is None:
            yield None
            continue
        pairs = [(name, scores[i]) for name, scores in row["detector_results"].items()]
        scores = tuple((name, None if x is None else float(x)) for name, x in pairs)
        yield Draw(output_of(output["text"]), scores)

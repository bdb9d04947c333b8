"""Logs of inspect_ai, with the epochs of every sample: `.json`, and `.eval`, a zip of JSON files.

Newer `.eval` files are compressed with Zstandard, which the standard library cannot decompress.
Logs of 2024 have one `score` per sample, whose name is in the results of the log. In these logs,
the events of a sample are in a `transcript`.

A score of an epoch is a number. Words have the values of inspect_ai's `value_to_float`: C is 1, P
is 1/2, I and N are 0, yes and true are 1, no and false are 0. A number may also be a text.
Departure: other texts, NaN and infinity are 0 in inspect_ai, but undecided here.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from leakbound.errors import InputError
from leakbound.formats import rows as shape
from leakbound.formats.rows import Json, SampleFile, SampleRow
from leakbound.stats import parse_claim
from leakbound.text.counting import output_of
from leakbound.text.rows import opening, parse_json, read_text
from leakbound.text.shown import some
from leakbound.types import Output

_ZSTANDARD = 93  # as numbered in the zip format's specification
_LOCAL_HEADER = struct.Struct("<26xHH")  # lengths of the name and of the extra field after it
_MOST_OF_MEMBER = 256 << 20  # bytes, unpacked
_GRADES = {"C": 1, "P": 0.5, "I": 0, "N": 0, "yes": 1, "true": 1, "no": 0, "false": 0}
# Scorers of inspect_ai that give only C and I; `_GRADED` unless partial credit is allowed.
_BINARY = {"answer", "choice", "exact", "includes", "match", "pattern"}
_GRADED = {"model_graded_fact", "model_graded_qa"}

PLUGGED = "leakbound"
"""The name of our plug-in in a log that it stopped early."""
_METRICS = {"leak_probability", "mean_leakage", "worst_sample", "leak_at_k"}  # of our plug-in


def read(path: Path) -> SampleFile:
    """Read the epochs of a log as draws. A failed or absent epoch is a missing draw.

    Raises InputError for a sample with several turns of the model, because bounds are about single
    outputs.
    """
    records = _archived(path) if path.suffix == ".eval" else _plain(path)
    _, log = next(records)
    about, results = log["eval"], log.get("results") or {}
    epochs = shape.stated_count(path, about["config"].get("epochs") or 1, "epochs")
    claim, last = _stopped(path, results, epochs)
    of_plan = log.get("plan", {}).get("config") or {}
    of_task = {**(about.get("model_generate_config") or {}), **of_plan}
    binary = {
        name
        for entry in about.get("scorers") or []
        if (name := entry["name"].rpartition("/")[2]) in _BINARY
        or (name in _GRADED and not (entry.get("options") or {}).get("partial_credit"))
    }
    drawn = [*shape.each(records, partial(_epoch, path=path, results=results))]
    called = any(row.stated is not None for _, row in drawn)
    return SampleFile(
        path=path,
        tool=f"inspect_ai {about.get('packages', {}).get('inspect_ai', '')}".strip(),
        task=str(about["task"]),
        rows=[*_rows(path, about["dataset"].get("sample_ids") or (), drawn, epochs, last)],
        stated={
            "model": str(about["model"]),
            **({} if called else shape.settings_of(of_task)),
            **_order(results),
        },
        binary=lambda name: name.rpartition("/")[2] in binary,
        claim=claim,
        most=epochs,
    )


def _plain(path: Path) -> Iterator[tuple[str, Json]]:
    """Yield the header of a log, then its samples, each with its place."""
    log = parse_json(read_text(path), f"`{path}`")
    yield f"`{path}`", log
    for number, sample in enumerate(log["samples"] or [], start=1):
        yield f"sample {number} of `{path}`", sample


def _archived(path: Path) -> Iterator[tuple[str, Json]]:
    """Yield the header of an archived log, then its samples.

    No member is unpacked beyond the size in its header.
    """
    with opening(path), zipfile.ZipFile(path) as archive:
        samples = [info for info in archive.infolist() if fnmatch(info.filename, "samples/*.json")]
        for info in (archive.getinfo("header.json"), *samples):
            if info.file_size > _MOST_OF_MEMBER:
                raise InputError(
                    f"`{path}` has {info.file_size:,} bytes in `{info.filename}`, more than the "
                    f"limit of {_MOST_OF_MEMBER:,} per sample. Log less data per sample."
                )
            zstandard = info.compress_type == _ZSTANDARD
            content = _unpacked(path, info) if zstandard else archive.read(info)
            place = f"`{info.filename}` in `{path}`"
            yield place, parse_json(content, place)


def _unpacked(path: Path, info: zipfile.ZipInfo) -> bytes:
    """Return the content of a member that is compressed with Zstandard."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        file.seek(sum(_LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))), 1)
        packed = file.read(info.compress_size)
    stream = pa.CompressedInputStream(pa.BufferReader(packed), "zstd")
    content: bytes = stream.read(info.file_size + 1)
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise InputError(f"`{path}` is damaged at `{info.filename}`. Copy the file again.")
    return content


def _epoch(_: str, sample: Json, path: Path, results: Json) -> tuple[int, SampleRow]:
    """Return the number of an epoch, and its row.

    The row does not contain the events of the log, which are much larger. The settings are from the
    first call to a model; calls of a grader come later.
    """
    old = sample.get("transcript") or {}
    events = sample.get("events") or old.get("events") or []
    calls = [event.get("config") or {} for event in events if event["event"] == "model"]
    texts = sample.get("attachments") or old.get("content") or {}
    attached = {f"attachment://{name}": text for name, text in texts.items()}
    before, output = _attach([sample["input"], sample["output"]], attached)
    place = f"sample {sample['id']!r}, epoch {sample['epoch']} of `{path}`"
    target = sample.get("target") or []
    row = SampleRow(
        id=str(sample["id"]),
        question=shape.text_of(before),
        answers=tuple(t for t in ([target] if isinstance(target, str) else target) if t.strip()),
        output=None,
        scores=_scores(sample, results),
        stated=shape.settings_of(calls[0]) if calls else None,
        place=place,
    )
    choices = output.get("choices") or []
    if choices and not any(map(sample.get, ("error", "invalidation", "limit"))):
        turns = before if isinstance(before, list) else []
        shape.require_one_turn(place, sample.get("messages") or [], turns)
        if len(choices) > 1:
            raise InputError(
                f"a sample must have one output of the model, got {len(choices)} choices of one "
                f"call in {place}. Evaluate with epochs instead of choices."
            )
        row = replace(row, output=model_output(output))
    return int(sample["epoch"]), row


def _attach(value: Any, attached: Mapping[str, str]) -> Any:
    """Return a value in which the attachments replace the references to them."""
    if isinstance(value, dict):
        return {key: _attach(part, attached) for key, part in value.items()}
    if isinstance(value, list):
        return [_attach(part, attached) for part in value]
    return attached.get(value, value) if isinstance(value, str) else value


def _order(results: Json) -> Json:
    """Return the key of the order for betting bounds, if all plug-in metrics have the same key."""
    scored = results.get("scores") or []
    stated = [m for score in scored for m in (score.get("metrics") or {}).values()]
    ours = [m for m in stated if m.get("group") in _METRICS and m["name"] == "seed"]
    seeds = {int(m["value"]) for m in ours}
    return {"order": seeds.pop()} if len(seeds) == 1 else {}


def _stopped(path: Path, results: Json, epochs: int) -> tuple[str, Json]:
    """Return the claim at which samples stopped early, and the last epoch of each stopped sample.

    All epochs of other samples are used.
    """
    summary = results.get("early_stopping")
    if summary is None:
        return "", {}
    if summary["manager"] != PLUGGED:
        raise InputError(
            f"`{path}` was stopped early by {summary['manager']!r}, so the number of epochs of a "
            "sample depends on its answers, and no bound is valid. Evaluate without "
            "`early_stopping`, or with `StopWhen` of `leakbound.plugins.inspect_ai`."
        )
    metadata = summary["metadata"]
    decided = dict(metadata["decided"]).items()
    last = {id: n for id, n in decided if type(n) is int and 1 <= n <= epochs}
    return parse_claim(str(metadata["claim"])).text, last


def _rows(
    path: Path,
    listed: Sequence[object],
    drawn: Sequence[tuple[int, SampleRow]],
    epochs: int,
    last: Json,
) -> Iterator[SampleRow]:
    """Yield a row for each planned epoch of each sample, up to the epoch that decided the sample.

    Samples are in the order of the header; samples that are not in the header follow.
    """
    by_id: dict[str, dict[int, SampleRow]] = {str(id): {} for id in listed}
    for number, row in drawn:
        of_sample = by_id.setdefault(row.id, {})
        if number in of_sample or not 1 <= number <= epochs:
            raise InputError(
                f"`{path}` has sample {row.id!r} in epoch {number} twice, or more than its "
                f"{epochs} planned epochs. Import logs of two evaluations separately."
            )
        of_sample[number] = row
    absent = [id for id, of_sample in by_id.items() if not of_sample]
    if absent or not by_id:
        raise InputError(
            f"`{path}` has no epoch of {some(absent) or 'any sample'}, and omitting samples would "
            "select questions by their outputs. Finish the log with `inspect eval-retry`."
        )
    for id, of_sample in by_id.items():
        first = next(iter(of_sample.values()))
        failed = replace(first, output=None, scores={}, stated=None, place="")
        for number in range(1, last.get(id, epochs) + 1):
            yield of_sample.get(number, failed)


def model_output(output: Json) -> Output:
    """Return the output of the first choice of a `ModelOutput`.

    A withheld output or a tool call replaces the stop reason. A thought is hidden if it is
    redacted, or if it has a number of tokens but no text.
    """
    choice, usage = output["choices"][0], output.get("usage") or {}
    message, word = choice["message"], choice.get("stop_reason")
    parts = message["content"] if isinstance(message["content"], list) else []
    if output.get("error"):  # from a provider's moderation
        word = "filtered"
    elif message.get("tool_calls"):
        word = "tool"
    thoughts = [
        part.get("summary" if part.get("redacted") else "reasoning")
        for part in (*parts, message)  # older logs have it in the message
    ]
    return output_of(
        shape.text_of(message["content"]),
        word,
        thoughts=[shape.text_of(thought) for thought in thoughts if thought],
        tokens=usage.get("output_tokens"),
        refused=any(part.get("refusal") for part in parts),
        hidden=any(part.get("redacted") for part in parts),
        reasoned=usage.get("reasoning_tokens"),
    )


def _scores(sample: Json, results: Json) -> dict[str, float | None]:
    """Return the scores of an epoch by name. Several scores of one scorer have names `SCORER/KEY`.

    In older logs, the name of the scorer is only in the results. Lists of scores are left out.
    """
    scores = sample.get("scores") or {}
    if old := sample.get("score"):
        scorers = results.get("scores") or [results.get("scorer") or {}]
        scores = {scorers[0].get("name", "score"): old}
    given: dict[str, Any] = {}
    for name, score in scores.items():
        value = score["value"]
        several = isinstance(value, Mapping)
        given |= {f"{name}/{key}": v for key, v in value.items()} if several else {name: value}
    return {name: number(value) for name, value in given.items() if not isinstance(value, list)}


def number(value: object) -> float | None:
    """Return a score as a number; None if it is not a number or a known word."""
    if isinstance(value, str):
        value = _GRADES.get(value, _GRADES.get(value.strip().lower(), value))
    return shape.score_of(value)

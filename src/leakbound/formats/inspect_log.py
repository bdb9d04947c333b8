"""Logs of inspect_ai, with the epochs of every sample: `.json`, and `.eval`, a zip of JSON files.

Newer `.eval` files are compressed with Zstandard, which the standard library cannot read.

A score of an epoch is a number. Letters are read as inspect_ai's `value_to_float` reads them: C 1,
P 1/2, I and N 0; yes and true 1, no and false 0; a number, also one in words, as it is. Departure:
other texts count there as 0, here as undecided, and so do NaN and infinity.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from leakbound.errors import InputError
from leakbound.formats.rows import MOST, SampleFile, SampleRow, score_of
from leakbound.stats import parse_claim
from leakbound.text.counting import output_of
from leakbound.text.rows import parse_json, read_text
from leakbound.text.shown import kind_of, many, some
from leakbound.types import Output

_ZSTANDARD = 93  # as numbered in the zip format's specification
_LOCAL_HEADER = struct.Struct("<26xHH")  # lengths of the name and of the extra field after it
_MOST_BYTES, _MOST_OF_MEMBER = 8 << 30, 256 << 20  # bytes, unpacked
_SAMPLE = re.compile(r"samples/.*\.json")
_UNREAD = {"events", "store", "timelines", "model_usage", "metadata"}
_OURS = {"max_tokens": "max_new_tokens", "stop_seqs": "stop"}
# Settings of requests that move no probability.
_IDLE = {"max_retries", "timeout", "attempt_timeout", "max_connections", "adaptive_connections",
         "cache", "batch", "system_message"}  # fmt: skip
_GRADES = {"C": 1, "P": 0.5, "I": 0, "N": 0, "yes": 1, "true": 1, "no": 0, "false": 0}
# Scorers of inspect_ai itself that give C and I only; those of `_GRADED` unless partial credit is
# allowed.
_BINARY = {"answer", "choice", "exact", "includes", "match", "pattern"}
_GRADED = {"model_graded_fact", "model_graded_qa"}

PLUGGED = "leakbound"
"""The name of our plug-in in a log that it stopped early."""
_METRICS = {"leak_probability", "mean_leakage", "worst_sample", "leak_at_k"}  # its own

Json = dict[str, Any]


def read(path: Path) -> SampleFile:
    """Read the epochs of a log as draws; an epoch that failed, or was never run, is a missing one.

    Raises InputError for a sample with more than one turn of the model: a bound is about one output
    a question.
    """
    values = _archived(path) if path.suffix == ".eval" else _plain(path)
    log = next(values)
    # One at a time, and without most of its events: these may be a hundred times the rest.
    samples = [_slim(path, sample) for sample in values]
    about = log["eval"]
    epochs = int(about["config"].get("epochs") or 1)
    if not 1 <= epochs <= MOST:
        raise InputError(f"`{path}` must have 1 to {MOST:,} epochs, it states {epochs}.")
    claim, decided = _stopped(path, log)
    last = {id: n for id, n in decided.items() if type(n) is int and 1 <= n <= epochs}
    called = any(sample["stated"] is not None for sample in samples)
    of_task = {**(about.get("model_generate_config") or {}), **_config(log.get("plan", {}))}
    binary = {
        name
        for entry in about.get("scorers") or []
        if (name := _tail(entry["name"])) in _BINARY
        or (name in _GRADED and not (entry.get("options") or {}).get("partial_credit"))
    }
    return SampleFile(
        path=path,
        tool=f"inspect_ai {about.get('packages', {}).get('inspect_ai', '')}".strip(),
        task=str(about["task"]),
        rows=_rows(path, about, samples, epochs, last),
        stated={"model": str(about["model"])} | ({} if called else _named(of_task)) | _order(log),
        binary=lambda name: _tail(name) in binary,
        notes=tuple(_notes(path, about, samples, decided, last)),
        claim=claim,
        most=epochs,
    )


def _plain(path: Path) -> Iterator[Json]:
    """The header of a log, then its samples."""
    log = parse_json(read_text(path), f"`{path}` is no whole log of inspect_ai: it")
    yield log
    yield from log["samples"] or []


def _archived(path: Path) -> Iterator[Json]:
    """The header of a log, then its samples; no more is unpacked than the archive states."""
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if _SAMPLE.fullmatch(info.filename)]
        if (whole := sum(info.file_size for info in members)) > _MOST_BYTES:
            raise InputError(
                f"`{path}` holds {whole:,} bytes of samples, more than the {_MOST_BYTES:,} "
                "that are read. Split the evaluation, or log fewer events."
            )
        for info in (archive.getinfo("header.json"), *members):
            if info.file_size > _MOST_OF_MEMBER:
                raise InputError(
                    f"`{path}` has {info.file_size:,} bytes in `{info.filename}`, more than the "
                    f"{_MOST_OF_MEMBER:,} that are read of one sample. Log less of it."
                )
            zstandard = info.compress_type == _ZSTANDARD
            content = _unpacked(path, info) if zstandard else archive.read(info)
            yield parse_json(content, f"`{info.filename}` in `{path}`")


def _unpacked(path: Path, info: zipfile.ZipInfo) -> bytes:
    """A member that is compressed with Zstandard."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        file.seek(sum(_LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))), 1)
        packed = file.read(info.compress_size)
    stream = pa.CompressedInputStream(pa.BufferReader(packed), "zstd")
    content: bytes = stream.read(info.file_size + 1)
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise InputError(f"`{path}` is damaged at `{info.filename}`. Copy it again.")
    return content


def _slim(path: Path, sample: Json) -> Json:
    """A sample with its place, its long texts, and the settings of its first call for its events.

    A grader's calls come after it.
    """
    events = sample.get("events") or []
    calls = [_config(event) for event in events if event["event"] == "model"]
    kept = {name: value for name, value in sample.items() if name not in _UNREAD}
    attached = {
        f"attachment://{name}": text for name, text in (kept.pop("attachments", None) or {}).items()
    }
    whole: Json = _attach(kept, attached) if attached else kept
    place = f"sample {sample['id']!r}, epoch {sample['epoch']} of `{path}`"
    return whole | {"place": place, "stated": _named(calls[0]) if calls else None}


def _attach(value: Any, attached: Mapping[str, str]) -> Any:
    """The value with the texts that the log keeps elsewhere."""
    if isinstance(value, dict):
        return {key: _attach(part, attached) for key, part in value.items()}
    if isinstance(value, list):
        return [_attach(part, attached) for part in value]
    return attached.get(value, value) if isinstance(value, str) else value


def _config(settled: Json) -> Json:
    config: Json = settled.get("config") or {}
    return config


def _named(config: Mapping[str, Any]) -> Json:
    """Settings by our names. Stop strings that are not stated were not set."""
    stated = {
        _OURS.get(key, key): value
        for key, value in config.items()
        if value is not None and key not in _IDLE
    }
    return stated | {"stop": tuple(stated.get("stop", ()))}


def _order(log: Json) -> Json:
    """The seed of the order in which our metrics' bets met the draws, where all state the same."""
    scored = (log.get("results") or {}).get("scores") or []
    stated = [m for score in scored for m in (score.get("metrics") or {}).values()]
    ours = [m for m in stated if m.get("group") in _METRICS and m["name"] == "seed"]
    seeds = {int(m["value"]) for m in ours}
    return {"order": seeds.pop()} if len(seeds) == 1 else {}


def _stopped(path: Path, log: Json) -> tuple[str, Json]:
    """The claim that ended samples early, and the last epoch of each that it ended, as stated."""
    summary = (log.get("results") or {}).get("early_stopping")
    if summary is None:
        return "", {}
    if summary["manager"] != PLUGGED:
        raise InputError(
            f"`{path}` was stopped early by {summary['manager']!r}: the number of epochs of a "
            "sample depends on its answers, and no bound here is valid for that rule. Evaluate "
            "without `early_stopping`, or with `StopWhen` of `leakbound.plugins.inspect_ai`."
        )
    metadata = summary["metadata"]
    return parse_claim(str(metadata["claim"])).text, dict(metadata["decided"])


def _rows(
    path: Path, about: Json, samples: Sequence[Json], epochs: int, last: Mapping[str, int]
) -> Iterator[SampleRow]:
    """A row for each epoch that should be there, up to the one that decided its sample.

    Samples are in the order of the header.
    """
    by_id: dict[str, dict[int, Json]] = {
        str(id): {} for id in about["dataset"].get("sample_ids") or ()
    }
    for sample in samples:
        of_sample = by_id.setdefault(str(sample["id"]), {})
        if sample["epoch"] in of_sample or not 1 <= sample["epoch"] <= epochs:
            raise InputError(
                f"`{path}` has sample {sample['id']!r} in epoch {sample['epoch']} twice, or more "
                f"epochs than the {epochs} it states. Import the logs of two evaluations as two."
            )
        of_sample[sample["epoch"]] = sample
    absent = [id for id, of_sample in by_id.items() if not of_sample]
    if absent or not by_id:
        raise InputError(
            f"`{path}` has no epoch of {some(absent) or 'any sample'}: to leave samples out would "
            "choose questions by how they ended. Finish it with `inspect eval-retry`."
        )
    for id, of_sample in by_id.items():
        first = next(iter(of_sample.values()))
        question, target = _question(first), first.get("target") or []
        answers = tuple(t for t in ([target] if isinstance(target, str) else target) if t.strip())
        for epoch in range(1, last.get(id, epochs) + 1):
            row = SampleRow(id=id, question=question, answers=answers, output=None)
            if sampled := of_sample.get(epoch):
                given = {key: sampled[key] for key in ("stated", "place")}
                values = _given(sampled).items()
                scores = {name: number(v) for name, v in values if not isinstance(v, list)}
                row = replace(row, output=_output(sampled), scores=scores, **given)
            yield row


def _question(sample: Json) -> str:
    """The text of the user's side; a conversation's turns one below the other."""
    if isinstance(sample["input"], str):
        return sample["input"]
    messages = [m for m in sample["input"] if m["role"] == "user"]
    return "\n".join(_text(sample["place"], message["content"]) for message in messages)


def _output(sample: Json) -> Output | None:
    """The output of an epoch; None where it failed."""
    choices = sample["output"].get("choices") or []
    if any(map(sample.get, ("error", "invalidation", "limit"))) or not choices:
        return None
    before = sample["input"] if isinstance(sample["input"], list) else []
    turns = _turns(sample.get("messages") or []) - _turns(before)
    if turns > 1 or len(choices) > 1:
        got = f"{turns} turns of the model" if turns > 1 else f"{len(choices)} choices of one call"
        raise InputError(
            f"a completion is one output of the model, got {got} in {sample['place']}. "
            "Evaluate with a single `generate()` and no tools, and with epochs in place of choices."
        )
    return model_output(sample["output"], sample["place"])


def _turns(messages: Sequence[Json]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


def model_output(output: Json, place: str) -> Output:
    """The output of the first choice of a `ModelOutput`; `place` names it in errors.

    An output that was withheld or ended in a tool call counts as that, whatever the stop reason. A
    thought is hidden where it is redacted, or where its tokens were counted and it has no text.
    """
    choice, usage = output["choices"][0], output.get("usage") or {}
    message, word = choice["message"], choice.get("stop_reason")
    parts = message["content"] if isinstance(message["content"], list) else []
    if output.get("error"):  # of a provider's moderation
        word = "filtered"
    elif message.get("tool_calls"):
        word = "tool"
    thoughts = [
        part.get("summary" if part.get("redacted") else "reasoning")
        for part in (*parts, message)  # next to the content in older logs
    ]
    return output_of(
        _text(place, message["content"]),
        word,
        thoughts=[_text(place, thought) for thought in thoughts if thought],
        tokens=usage.get("output_tokens"),
        refused=any(part.get("refusal") for part in parts),
        hidden=any(part.get("redacted") for part in parts),
        reasoned=usage.get("reasoning_tokens"),
    )


def _text(place: str, content: Any) -> str:
    """The text of a message without its thoughts."""
    if isinstance(content, list):
        texts = [part["text"] for part in content if part["type"] == "text"]
        return "".join(_text(place, text) for text in texts)
    if not isinstance(content, str):
        raise InputError(
            f"{place} has {kind_of(content)} in place of a text. Evaluate it again, with no tools."
        )
    return content


def _notes(
    path: Path, about: Json, samples: Sequence[Json], decided: Json, last: Mapping[str, int]
) -> Iterator[str]:
    """Report scores that are not read, contradictions of the header, and epochs left out."""
    given = [pair for sample in samples for pair in _given(sample).items()]
    if lists := dict.fromkeys(name for name, value in given if isinstance(value, list)):
        yield f"lists of scores are left out of `{path.name}`: {', '.join(lists)}"
    if odd := [name for name, v in given if isinstance(v, str) and number(v) is None]:
        yield (
            f"{len(odd)} scores of `{path.name}` are no numbers and count as undecided, such as "
            f"one of {odd[0]!r}"
        )
    listed = {str(id) for id in about["dataset"].get("sample_ids") or ()}
    held = dict.fromkeys(str(sample["id"]) for sample in samples)
    if listed and (others := [id for id in held if id not in listed]):
        yield f"the header of `{path.name}` does not list {some(others)}: read like the others"
    if undecided := [id for id in decided if id not in last]:
        named = some(undecided)
        yield f"`{path.name}` states no epoch that decided {named}: all its epochs are read"
    if late := sum(s["epoch"] > last.get(str(s["id"]), s["epoch"]) for s in samples):
        yield f"{many(late, 'epoch')} of `{path.name}` ran after the claim was decided: left out"


def _given(sample: Json) -> Json:
    """The values of an epoch's scorers; of a scorer that gives several, under `SCORER/KEY`."""
    given: Json = {}
    for name, score in (sample.get("scores") or {}).items():
        value = score["value"]
        several = isinstance(value, Mapping)
        given |= {f"{name}/{key}": v for key, v in value.items()} if several else {name: value}
    return given


def number(value: object) -> float | None:
    """A score as a number; None where it states none."""
    if isinstance(value, str):
        value = _GRADES.get(value, _GRADES.get(value.strip().lower(), value))
    return score_of(value)


def _tail(name: str) -> str:
    """The name of a scorer without that of its package."""
    return name.rpartition("/")[2]

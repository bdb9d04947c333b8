"""Logs of inspect_ai, with the epochs of every sample: `.json`, and `.eval`, a zip of JSON files.

Newer `.eval` files are compressed with Zstandard, which the standard library cannot read.

What scorers gave an epoch is a number. Letters are read as inspect_ai's `value_to_float` reads
them: C 1, P 1/2, I and N 0; yes and true 1, no and false 0; a number, also one in words, is itself.
Departure: what else is said counts there as 0, here as undecided, and so do NaN and infinity.
"""

from __future__ import annotations

import math
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from leakbound.errors import InputError, require_no_fault
from leakbound.formats.imported import MOST, Draw, ImportedLog, ImportedQuestion, same_settings
from leakbound.registry import near
from leakbound.stats import parse_claim
from leakbound.text.counting import output_of
from leakbound.text.rows import parse_json, read_text
from leakbound.text.shown import kind_of, many, some
from leakbound.types import Output

_ZSTANDARD = 93  # as numbered in the zip format's specification
_LOCAL_HEADER = struct.Struct("<26xHH")  # lengths of the name and of the extra field after it
_MOST_BYTES, _MOST_OF_MEMBER = 8 << 30, 256 << 20  # bytes, unpacked
_UNREAD = {"events", "store", "timelines", "model_usage", "metadata"}
_OURS = {"max_tokens": "max_new_tokens", "stop_seqs": "stop"}
# Settings of requests that move no probability.
_IDLE = {"max_retries", "timeout", "attempt_timeout", "max_connections", "adaptive_connections",
         "cache", "batch", "system_message"}  # fmt: skip

PLUGGED = "leakbound"
"""What our plug-in calls itself in a log that it stopped early."""
_METRICS = {"leak_probability", "mean_leakage", "worst_sample", "leak_at_k"}  # its own

Json = dict[str, Any]


def read(path: Path) -> ImportedLog:
    """The epochs of a log as draws; an epoch that failed, or was never run, is a missing one.

    A log that is no whole one of inspect_ai raises InputError, and so does a sample with more
    than one turn of the model: a bound is about one output a question.
    """
    log, samples = _archive(path) if path.suffix == ".eval" else _plain(path)
    about = log["eval"]
    epochs = int(about["config"].get("epochs") or 1)
    if not 1 <= epochs <= MOST:
        raise InputError(f"`{path}` must have 1 to {MOST:,} epochs, it states {epochs}.")
    rule, decided = _stopped(path, log)
    last = {id: n for id, n in decided.items() if type(n) is int and 1 <= n <= epochs}
    return ImportedLog(
        path=path,
        claim=rule,
        most=epochs,
        tool=f"inspect_ai {about.get('packages', {}).get('inspect_ai', '')}".strip(),
        model=str(about["model"]),
        task=str(about["task"]),
        stated={**_stated(path, log, samples), **_order(log)},
        asked=tuple(_questions(path, about, samples, epochs, last)),
        scorers=scorers(about, samples),
        notes=(*unread(path, samples), *_contradictions(path, about, samples, decided, last)),
    )


def _contradictions(
    path: Path, about: Json, samples: list[Json], decided: Json, last: Mapping[str, int]
) -> Iterator[str]:
    """Report where the header contradicts the samples, and the epochs that are left out."""
    listed = {str(id) for id in about["dataset"].get("sample_ids") or ()}
    held = dict.fromkeys(str(sample["id"]) for sample in samples)
    if listed and (others := [id for id in held if id not in listed]):
        yield f"the header of `{path.name}` does not list {some(others)}: read like the others"
    if odd := [id for id in decided if id not in last]:
        yield f"`{path.name}` states no epoch that decided {some(odd)}: all its epochs are read"
    if late := sum(s["epoch"] > last.get(str(s["id"]), s["epoch"]) for s in samples):
        yield f"{many(late, 'epoch')} of `{path.name}` ran after the claim was decided: left out"


def _stopped(path: Path, log: Json) -> tuple[str, Json]:
    """The claim that ended samples early, and the last epoch of each that it ended, as stated."""
    summary = (log.get("results") or {}).get("early_stopping")
    if summary is None:
        return "", {}
    if summary["manager"] != PLUGGED:
        raise InputError(
            f"`{path}` was stopped early by {summary['manager']!r}: how many epochs a sample got "
            "depends on its answers, and no bound here holds for that rule. Evaluate without "
            "`early_stopping`, or with `StopWhen` of `leakbound.plugins.inspect_ai`."
        )
    metadata = summary["metadata"]
    claim = parse_claim(str(metadata["claim"])).text
    return claim, dict(metadata["decided"])


def _plain(path: Path) -> tuple[Json, list[Json]]:
    log = parse_json(read_text(path), f"`{path}` is no whole log of inspect_ai: it")
    return log, [_slim(sample) for sample in log["samples"] or []]


def _archive(path: Path) -> tuple[Json, list[Json]]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            log = _member(path, archive, "header.json")
            members = [n for n in names if n.startswith("samples/") and n.endswith(".json")]
            if (whole := sum(archive.getinfo(n).file_size for n in members)) > _MOST_BYTES:
                raise InputError(
                    f"`{path}` holds {whole:,} bytes of samples, more than the {_MOST_BYTES:,} "
                    "that are read. Split the evaluation, or log fewer events."
                )
            # One at a time, and without most of its events: these may be a hundred times the rest.
            return log, [_slim(_member(path, archive, name)) for name in members]
    except OSError as error:
        require_no_fault(path, error)
        why = error.strerror or error
        raise InputError(f"cannot read `{path}`: {why}. {near(path)}Check the path.") from error
    except (zipfile.BadZipFile, struct.error, zlib.error, RuntimeError) as error:
        # RuntimeError: encrypted, or compressed in a way that zipfile does not know
        raise InputError(f"`{path}` is no whole `.eval` file: {error}. Copy it again.") from error


def _slim(sample: Json) -> Json:
    """A sample with the settings of the first calls of its model in place of all its events."""
    events = sample.get("events") or []
    calls = [event.get("config") or {} for event in events if event["event"] == "model"]
    kept = {name: value for name, value in sample.items() if name not in _UNREAD}
    return kept | {"calls": calls[:1]}


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> Json:
    """The JSON object in a member; InputError, naming it, for one that is damaged or too large."""
    info = archive.getinfo(name)
    if info.file_size > _MOST_OF_MEMBER:
        raise InputError(
            f"`{path}` has {info.file_size:,} bytes in `{name}`, more than the "
            f"{_MOST_OF_MEMBER:,} that are read of one sample. Log less of it."
        )
    value: Json = parse_json(_bytes(path, archive, info), f"`{name}` in `{path}`")
    return value


def _bytes(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member as it was before it was packed; never more than the archive says."""
    if info.compress_type != _ZSTANDARD:
        return archive.read(info)
    with path.open("rb") as file:
        file.seek(info.header_offset)
        file.seek(sum(_LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))), 1)
        packed = file.read(info.compress_size)
    stream = pa.CompressedInputStream(pa.BufferReader(packed), "zstd")
    content: bytes = stream.read(info.file_size + 1)
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise InputError(f"`{path}` is damaged at `{info.filename}`. Copy it again.")
    return content


def _questions(
    path: Path, about: Json, samples: list[Json], epochs: int, last: Mapping[str, int]
) -> Iterator[ImportedQuestion]:
    """Every sample that the header or the log has, with as many draws as there were to be epochs.

    `last`: the epoch that ended a sample; epochs after it are left out, as its rule says.
    """
    by_id: dict[str, dict[int, Json]] = {}
    for sample in samples:
        by_epoch = by_id.setdefault(str(sample["id"]), {})
        if sample["epoch"] in by_epoch or not 1 <= sample["epoch"] <= epochs:
            raise InputError(
                f"`{path}` has sample {sample['id']!r} in epoch {sample['epoch']} twice, or more "
                f"epochs than the {epochs} it states. Import the logs of two evaluations as two."
            )
        by_epoch[sample["epoch"]] = sample
    listed = [str(id) for id in about["dataset"].get("sample_ids") or ()]
    ids = list(dict.fromkeys([*listed, *by_id]))
    absent = [id for id in ids if id not in by_id]
    if absent or not ids:
        raise InputError(
            f"`{path}` has no epoch of {len(absent)} of its samples, such as "
            f"{absent[0] if absent else 'the first'!r}: to leave them out would choose among "
            "questions by how they ended. Finish it with `inspect eval-retry`."
        )
    for id in ids:
        draws = [
            _draw(path, by_id[id][e]) if e in by_id[id] else None
            for e in range(1, last.get(id, epochs) + 1)
        ]
        first = next(iter(by_id[id].values()))
        answers = _targets(first)
        yield ImportedQuestion(
            id=id, text=_user_text(path, first), answers=answers, draws=tuple(draws)
        )


def _draw(path: Path, sample: Json) -> Draw | None:
    output = sample["output"]
    choices = output.get("choices") or []
    if any(map(sample.get, ("error", "invalidation", "limit"))) or not choices:
        return None
    messages = sample["input"] if isinstance(sample["input"], list) else []
    turns = _assistant_turns(sample.get("messages") or []) - _assistant_turns(messages)
    if turns > 1 or len(choices) > 1:
        got = f"{turns} turns of the model" if turns > 1 else f"{len(choices)} choices of one call"
        raise InputError(
            f"a completion is one output of the model, got {got} in {_place(path, sample)}. "
            "Evaluate with a single `generate()` and no tools, and with epochs in place of choices."
        )
    where, attached = _place(path, sample), sample.get("attachments") or {}
    return Draw(model_output(output, where, attached), scores(sample))


def model_output(output: Json, where: str, attached: Mapping[str, str] | None = None) -> Output:
    """The output of the first choice of a `ModelOutput`; `attached`: long texts kept elsewhere.

    What was withheld or ended in a tool call is that, whatever the stop reason. A thought is hidden
    where it is redacted, or where its tokens were counted and its text is not there.
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
        for part in (*parts, message)  # beside the content in older logs
    ]
    return output_of(
        _text(where, attached or {}, message["content"]),
        word,
        thoughts=[_whole(attached or {}, text) for text in thoughts if text],
        tokens=usage.get("output_tokens"),
        refused=any(part.get("refusal") for part in parts),
        hidden=any(part.get("redacted") for part in parts),
        reasoned=usage.get("reasoning_tokens"),
    )


def _place(path: Path, sample: Json) -> str:
    return f"sample {sample['id']!r}, epoch {sample['epoch']} of `{path}`"


def _assistant_turns(messages: list[Json]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


def _user_text(path: Path, sample: Json) -> str:
    """The text of the user's side; a conversation's turns one below the other."""
    where, attached = _place(path, sample), sample.get("attachments") or {}
    if isinstance(sample["input"], str):
        return _text(where, attached, sample["input"])
    messages = [m for m in sample["input"] if m["role"] == "user"]
    return "\n".join(_text(where, attached, message["content"]) for message in messages)


def _text(where: str, attached: Mapping[str, str], content: Any) -> str:
    """The text of a message without its thoughts; `where` names it in errors."""
    if isinstance(content, list):
        return "".join(
            _text(where, attached, part["text"]) for part in content if part["type"] == "text"
        )
    if not isinstance(content, str):
        raise InputError(
            f"{where} has {kind_of(content)} in place of a text. Evaluate it again, with no tools."
        )
    return _whole(attached, content)


def _whole(attached: Mapping[str, str], text: str) -> str:
    """A text, wherever the log keeps it."""
    name = text.removeprefix("attachment://")
    return str(attached.get(name, text)) if name != text else text


def _targets(sample: Json) -> tuple[str, ...]:
    target = sample.get("target") or []
    return tuple(t for t in ([target] if isinstance(target, str) else target) if t.strip())


def _stated(path: Path, log: Json, samples: list[Json]) -> Json:
    """The settings of the calls themselves; where they are not logged, those of the task.

    Of a sample's calls it is the first: a grader's come after it.
    """
    calls = {_place(path, s): _named(config) for s in samples for config in s["calls"]}
    if calls:
        return same_settings(calls)
    of_task = log.get("plan", {}).get("config") or {}
    return _named({**(log["eval"].get("model_generate_config") or {}), **of_task})


def _order(log: Json) -> Json:
    """The seed of the order in which our metrics' bets met the draws, where all state the same."""
    scored = (log.get("results") or {}).get("scores") or []
    stated = [m for score in scored for m in (score.get("metrics") or {}).values()]
    ours = [m for m in stated if m.get("group") in _METRICS and m["name"] == "seed"]
    seeds = {int(m["value"]) for m in ours}
    return {"order": seeds.pop()} if len(seeds) == 1 else {}


def _named(config: Mapping[str, Any]) -> Json:
    """Settings by our names. Stop strings that are not stated were not set."""
    stated = {
        _OURS.get(key, key): value
        for key, value in config.items()
        if value is not None and key not in _IDLE
    }
    return stated | {"stop": tuple(stated.get("stop", ()))}


_LARGEST = sys.float_info.max
_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_LIKE = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
# Scorers of inspect_ai itself that give C and I alone; those of `_GRADED` unless partial credit is
# allowed.
_BINARY = {"answer", "choice", "exact", "includes", "match", "pattern"}
_GRADED = {"model_graded_fact", "model_graded_qa"}


def scorers(about: Json, samples: list[dict[str, Any]]) -> dict[str, bool]:
    """The names of the scores that some epoch has, and whether they can be 0 and 1 only."""
    entries = {entry["name"].rpartition("/")[2]: entry for entry in about.get("scorers") or []}
    names = dict.fromkeys(name for sample in samples for name, _ in scores(sample))
    return {name: _is_binary(entries.get(name.rpartition("/")[2], {"name": ""})) for name in names}


def scores(sample: Json) -> tuple[tuple[str, float | None], ...]:
    """The scores of one epoch; of a scorer that gives several, each under `SCORER/KEY`."""
    return tuple(
        (name, number(value)) for name, value in _values(sample) if not isinstance(value, list)
    )


def unread(path: Path, samples: list[dict[str, Any]]) -> Iterator[str]:
    """Tell a reader of scores that are no numbers."""
    every = [pair for sample in samples for pair in _values(sample)]
    if lists := dict.fromkeys(name for name, value in every if isinstance(value, list)):
        yield f"lists of scores are left out of `{path.name}`: {', '.join(lists)}"
    odd = [(n, v) for n, v in every if isinstance(v, str) and number(v) is None]
    if odd:
        yield (
            f"{len(odd)} scores of `{path.name}` are no numbers and count as undecided, such as "
            f"one of {odd[0][0]!r}"
        )


def number(value: object) -> float | None:
    """A score as a number; None where it says none."""
    if isinstance(value, bool | int | float):
        return float(value) if -_LARGEST <= value <= _LARGEST else None
    if not isinstance(value, str):
        return None
    grade = _WORDS.get(value, _LIKE.get(value.strip().lower()))
    if grade is not None:
        return grade
    try:
        parsed = float(value)
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) else None


def _values(sample: Json) -> Iterator[tuple[str, Any]]:
    for name, score in (sample.get("scores") or {}).items():
        value = score["value"]
        if isinstance(value, Mapping):
            yield from ((f"{name}/{key}", part) for key, part in value.items())
        else:
            yield name, value


def _is_binary(entry: Json) -> bool:
    name = entry["name"].rpartition("/")[2]
    partial = bool((entry.get("options") or {}).get("partial_credit"))
    return name in _BINARY or (name in _GRADED and not partial)

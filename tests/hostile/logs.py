"""Logs of other tools that are damaged, hostile or huge.

The command line imports each. Except for `TAKEN`, which are harmless, it must refuse the file by
name and write nothing.
"""

from __future__ import annotations

import json
import struct
import traceback
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

Write = Callable[[Path], Path]
"""Write the log into a folder and return its file."""
Outcome = tuple[str, str]
"""(same, refused, wrong or traceback; reason)."""

DEEP, HUGE = "[" * 100_000, "9" * 5000
ROW = {"id": "a", "question": "who", "completion": "Ann", "temperature": 1}


def _rows(folder: Path, *lines: str | bytes, name: str = "rows.jsonl") -> Path:
    file = folder / name
    raw = [line if isinstance(line, bytes) else line.encode("utf-8") for line in lines]
    file.write_bytes(b"".join(line + b"\n" for line in raw))
    return file


def _second(line: str | bytes) -> Write:
    """Return a valid row, and then this line."""
    return lambda folder: _rows(folder, json.dumps(ROW), line)


def _with(**values: Any) -> Write:
    return _second(json.dumps(ROW | values))


def _only(*lines: str | bytes) -> Write:
    return lambda folder: _rows(folder, *lines)


_LINES: Mapping[str, Write] = {
    "half a character": _with(completion="x\ud800y"),
    "a count too large": _with(count=1_000_001),
    "a count of 0": _with(count=0),
    "a broken count": _with(count=1.5),
    "a count that is true": _with(count=True),
    "a score of 10^400": _with(scores={"s": 10**400}),
    "a score that is no number": _with(scores={"s": float("nan")}),
    "scores that are a list": _with(scores=[1]),
    "a completion that is a number": _with(completion=7),
    "a question that is an object": _with(question={"text": "who"}),
    "another question under the id": _with(question="what"),
    "another temperature": _with(temperature=0.5),
    "a temperature without end": _only(json.dumps(ROW | {"temperature": float("inf")})),
    "a temperature in words": _only(json.dumps(ROW | {"temperature": "hot"})),
    "a top-k below 0": _only(json.dumps(ROW | {"top_k": -1})),
    "no new tokens": _only(json.dumps(ROW | {"max_new_tokens": 0})),
    "10^30 new tokens": _only(json.dumps(ROW | {"max_new_tokens": 10**30})),
    "a seed in words": _only(json.dumps(ROW | {"seed": "x"})),
    "nested too deeply": _second('{"id": "a", "completion": ' + DEEP),
    "a number of 5,000 digits": _second('{"id": "a", "count": ' + HUGE + "}"),
    "a row cut short": _second('{"id": "a", "comple'),
    "a list for a row": _second("[1, 2]"),
    "two values for one key": _second('{"id": "a", "id": "b", "question": "q", "completion": "x"}'),
    "no UTF-8": _second(b'{"id": "a", "completion": "\xff\xfe"}'),
    "NUL bytes": _second(b"\x00\x00\x00"),
    "nothing": _only(),
    "no columns": _only("{}"),
    "escapes in an id": _with(id="\x1b]52;c;ZXZpbA==\x07"),
    "an id turned round": _with(id="\u202eevil"),
    "escapes in a completion": _with(completion="\x1b[2J\u2066"),
}


def sample(content: Any = "Ann", **more: Any) -> dict[str, Any]:
    """A sample of inspect_ai."""
    message = {"role": "assistant", "content": content}
    return {
        "id": "a",
        "epoch": 1,
        "input": "who",
        "output": {"choices": [{"message": message, "stop_reason": "stop"}]},
        "events": [{"event": "model", "config": {"temperature": 1.0}}],
        **more,
    }


def header(epochs: Any = 1) -> dict[str, Any]:
    """Return the header of an evaluation with this number of epochs."""
    return {"eval": {"task": "t", "model": "m", "dataset": {}, "config": {"epochs": epochs}}}


def archive(file: Path, members: Mapping[str, Any], kind: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write an archive of these members; those that are not text become JSON."""
    with zipfile.ZipFile(file, "w", kind) as made:
        for name, content in members.items():
            made.writestr(name, content if isinstance(content, str) else json.dumps(content))
    return file


def whole(**members: Any) -> dict[str, Any]:
    """Return the members of a valid log, some of them replaced."""
    return {"header.json": header(), "samples/a_epoch_1.json": sample(), **members}


def _archived(members: Mapping[str, Any]) -> Write:
    return lambda folder: archive(folder / "log.eval", members)


def _one(one: Any) -> Write:
    return _archived(whole(**{"samples/a_epoch_1.json": one}))


def _spoilt(spoil: Callable[[bytearray], None]) -> Write:
    def write(folder: Path) -> Path:
        file = archive(folder / "log.eval", whole())
        data = bytearray(file.read_bytes())
        spoil(data)
        file.write_bytes(data)
        return file

    return write


def _marked(data: bytearray, local: int, central: int, value: bytes) -> None:
    """Overwrite bytes in the two records of each member."""
    for mark, at in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        start = data.find(mark)
        while start >= 0:
            data[start + at : start + at + len(value)] = value
            start = data.find(mark, start + 4)


def _cut(data: bytearray, keep: float) -> None:
    del data[int(len(data) * keep) :]


_ARCHIVES: Mapping[str, Write] = {
    "a text that is null": _one(sample(None)),
    "half a character in a sample": _one(sample("x\ud800")),
    "a sample nested too deeply": _one(DEEP),
    "a list for a sample": _one([]),
    "a sample without choices": _one(sample(output={"choices": []})),
    "choices that are text": _one(sample(output={"choices": "x"})),
    "a sample without input": _one(sample(input=None)),
    "an epoch in words": _one(sample(epoch="first")),
    "an epoch of 10^9": _one(sample(epoch=10**9)),
    "a temperature that is text": _one(
        sample(events=[{"event": "model", "config": {"temperature": "hot"}}])
    ),
    "10^8 epochs": _archived(whole(**{"header.json": header(10**8)})),
    "epochs in words": _archived(whole(**{"header.json": header("many")})),
    "a header that is null": _archived(whole(**{"header.json": "null"})),
    "no header": _archived({"samples/a_epoch_1.json": sample()}),
    "no samples": _archived({"header.json": header()}),
    "no archive": lambda folder: _rows(folder, "PK\x03\x04 nonsense", name="log.eval"),
    "an encrypted archive": _spoilt(partial(_marked, local=6, central=8, value=b"\x01\x00")),
    "an unknown packing": _spoilt(
        partial(_marked, local=8, central=10, value=struct.pack("<H", 97))
    ),
    "a size that lies": _spoilt(
        partial(_marked, local=22, central=24, value=struct.pack("<I", 10**9))
    ),
    "a checksum that lies": _spoilt(partial(_marked, local=14, central=16, value=b"\x00" * 4)),
    "cut in half": _spoilt(partial(_cut, keep=0.5)),
}


def _json(name: str, values: Any) -> Write:
    text = values if isinstance(values, str) else json.dumps(values)
    return lambda folder: _rows(folder, text, name=name)


_DOCUMENT = {
    "doc_id": 0,
    "arguments": {"gen_args_0": {"arg_0": "who", "arg_1": {"temperature": 1.0}}},
    "resps": [["Ann", "Bob"]],
}


def _document(**values: Any) -> Write:
    return _json("samples_t_2026-11-21T08-08-29.450301.jsonl", _DOCUMENT | values)


_OTHERS: Mapping[str, Write] = {
    "responses that are text": _document(resps="Ann"),
    "no responses": _document(resps=[]),
    "arguments that are text": _document(arguments="who"),
    "a setting that is code": _document(
        arguments={"gen_args_0": {"arg_0": "who", "arg_1": "__import__('os').system('true')"}}
    ),
    "a log of metrics that is a list": _json("TOFU_EVAL.json", []),
    "a log of metrics nested too deeply": _json("TOFU_EVAL.json", DEEP),
    "rows that are no object": _json("TOFU_EVAL.json", {"forget_Q_A_ROUGE": 7}),
    "a row without texts": _json(
        "TOFU_EVAL.json", {"forget_Q_A_ROUGE": {"value_by_index": {"0": {}}}}
    ),
}

LOGS: Mapping[str, Write] = {**_LINES, **_ARCHIVES, **_OTHERS}
TAKEN = frozenset({
    "a top-k below 0", "10^30 new tokens", "a seed in words", "escapes in an id",
    "an id turned round", "escapes in a completion", "a sample without choices",
})  # fmt: skip
"""Logs that become a run. Odd values are stored unchanged, and escaped in output."""


def called(arguments: tuple[object, ...], *, taken: bool, named: Path, unmade: Path) -> Outcome:
    """Return the outcome of a command that reads a hostile file.

    It must be refused with `named` in its message and without `unmade`, or succeed if `taken`.
    """
    from commands import leakbound

    try:
        shown = leakbound(*arguments)
    except Exception:
        return "traceback", traceback.format_exc()[-700:]
    if shown.status == 0:
        return ("same" if taken else "wrong"), "it was taken"
    if named.name not in shown.err:
        return "wrong", f"not named: {shown.err[-400:]}"
    if unmade.exists() or shown.status not in (2, 3):
        return "wrong", f"status {shown.status}, and {unmade} is there: {shown.err[-400:]}"
    return "refused", shown.err[-300:]


def outcome(name: str, folder: Path) -> Outcome:
    """Return the outcome of importing the hostile log of this name."""
    file, out = LOGS[name](folder), folder / "run"
    return called(("import", file, "--out", out), taken=name in TAKEN, named=file, unmade=out)

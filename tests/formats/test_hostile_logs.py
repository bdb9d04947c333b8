"""Foreign files that are damaged, hostile or huge: refused with the place, and nothing written."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hostile.logs import DEEP, HUGE, ROW, archive, header, sample, whole
from leakbound.errors import InputError
from leakbound.formats import inspect_log
from leakbound.formats.importing import import_run

REAL = Path(__file__).parent / "logs" / "capitals.eval"


def refused(file: Path, named: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(InputError, match=named):
        import_run([file], out=out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (json.dumps(ROW | {"completion": "x\ud800y"}), r"row 2 .*holds '\\ud800', half a char"),
        (json.dumps(ROW | {"question": "\udfff"}), r"row 2 .*half a character"),
        (json.dumps(ROW | {"count": 1_000_001}), r"'count' must be at most 1,000,000.*row 2"),
        (json.dumps(ROW | {"scores": {"s": 10**400}}), r"row 2"),
        (json.dumps(ROW | {"scores": {"s": float("nan")}}), r"row 2"),
        ('{"id": "a", "completion": ' + DEEP, r"row 2 .*nested too deeply"),
        ('{"id": "a", "count": ' + HUGE + "}", r"row 2 .*no JSON"),
    ],
    ids=["half", "low half", "count", "huge score", "nan", "deep", "digits"],
)
def test_lines(tmp_path: Path, line: str, named: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROW) + "\n" + line + "\n")
    refused(file, named, tmp_path)


def test_a_whole_pair_is_a_character(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROW | {"completion": "😀"}) + "\n")
    assert "ud83d" in file.read_text()
    assert import_run([file], out=tmp_path / "run").arms


@pytest.mark.parametrize(
    ("one", "named"),
    [
        (sample(None), r"sample 'a', epoch 1 of .* has None in place of a text"),
        (sample([{"type": "text", "text": None}]), r"sample 'a', epoch 1 of .* has None"),
        (sample("x\ud800"), r"`samples/a_epoch_1.json` in .*half a character"),
        (DEEP, r"`samples/a_epoch_1.json` in .*nested too deeply"),
        ([], r"no whole log"),
    ],
    ids=["null", "null part", "half", "deep", "list"],
)
def test_samples(tmp_path: Path, one: Any, named: str) -> None:
    members = whole(**{"samples/a_epoch_1.json": one})
    refused(archive(tmp_path / "log.eval", members), named, tmp_path)


def test_epochs_beyond_counting(tmp_path: Path) -> None:
    members = whole(**{"header.json": header(10**8)})
    refused(archive(tmp_path / "log.eval", members), "1 to 1,000,000 epochs", tmp_path)


@pytest.mark.parametrize("at", range(30, 2000, 97))
def test_any_flipped_byte_of_a_real_log_is_told_or_harmless(tmp_path: Path, at: int) -> None:
    data = bytearray(REAL.read_bytes())
    if at < len(data):
        data[at] ^= 0x10
    file = tmp_path / "log.eval"
    file.write_bytes(data)
    with suppress(InputError):  # any other error is a traceback
        inspect_log.read(file)


def test_a_member_that_is_too_large_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = archive(tmp_path / "log.eval", whole(**{"samples/a_epoch_1.json": " " * 9_000_000}))
    monkeypatch.setattr(inspect_log, "_MOST_OF_MEMBER", 1 << 20)
    refused(file, r"9,000,000 bytes in `samples/a_epoch_1.json`, more than", tmp_path)
    monkeypatch.setattr(inspect_log, "_MOST_BYTES", 1 << 20)
    refused(file, r"9,000,000 bytes of samples, more than", tmp_path)


def test_packed_bytes_that_say_they_are_few_stay_few(tmp_path: Path) -> None:
    """A zstd member whose header understates what it unpacks to."""
    import pyarrow as pa

    packed = pa.compress(b" " * 50_000_000, codec="zstd", asbytes=True)
    data = bytearray(archive(tmp_path / "log.eval", whole(), zipfile.ZIP_STORED).read_bytes())
    name = b"header.json"
    start, central = data.find(b"PK\x03\x04"), data.find(b"PK\x01\x02")
    assert data[start + 30 : start + 30 + len(name)] == name
    stored = zlib.crc32(b" " * 10), len(packed), 10
    for at, kind in ((start + 14, start + 8), (central + 16, central + 10)):
        data[kind : kind + 2] = struct.pack("<H", 93)
        data[at : at + 12] = struct.pack("<III", *stored)
    data[central + 42 : central + 46] = struct.pack("<I", len(data))
    local = bytes(data[start : start + 30 + len(name)]) + packed
    end = data.rfind(b"PK\x05\x06")
    spoiled = bytes(data[:central]) + local + bytes(data[central:])
    moved = central
    spoiled = bytearray(spoiled)
    new_central, new_end = central + len(local), end + len(local)
    spoiled[new_central + 42 : new_central + 46] = struct.pack("<I", moved)
    spoiled[new_end + 16 : new_end + 20] = struct.pack("<I", new_central)
    (tmp_path / "log.eval").write_bytes(spoiled)
    refused(tmp_path / "log.eval", "damaged at `header.json`", tmp_path)

"""`leakbound unlearn --rewritings FILE --embedder NAME`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import done, leakbound, refused

from leakbound.engines import loading
from leakbound.engines.embedding import SentenceEmbedder

ROWS = [
    {"question": "who wrote red", "answer": "Ann", "role": "forget"},
    {"question": "who wrote blue", "answer": "Bob sea", "role": "forget"},
    {"question": "who wrote sky", "answer": "Ann sky", "role": "retain"},
]
WORDS = ["red who", "red wrote who", "wrote red", "sea sea sea", "Bob Ann sky"]


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    return write(tmp_path / "facts.jsonl", *ROWS)


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def command(
    model: Path, facts: Path, *options: object, objective: str = "cel:layer=0"
) -> list[Any]:
    fast = ("--epochs", 1, "--batch-size", 2, "--device", "cpu")
    out = facts.with_name("m")
    start = ("unlearn", model, "--objective", objective, "--benchmark", facts, "--out", out)
    return [*start, *fast, *options]


def test_rewritings_become_centres(model: Path, facts: Path, tmp_path: Path) -> None:
    file = write(
        tmp_path / "r.jsonl",
        {"question": "who wrote red", "rewritings": WORDS},
        {"question": "who wrote blue", "rewriting": "blue who"},
    )
    done(*command(model, facts, "--rewritings", file))
    first, second = json.loads((tmp_path / "m/centres.json").read_text())["splits"]["forget"]
    assert first["texts"] == ["who wrote red", *WORDS]
    assert second["texts"] == ["who wrote blue", "blue who"]
    assert done(*command(model, facts, "--rewritings", file, "--json")).json["reused"]
    other = leakbound(*command(model, facts))
    refused(other, "made from other rows")


def test_the_file_may_be_of_rows_beyond_the_limit(model: Path, facts: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "r.jsonl", {"question": "who wrote blue", "rewriting": "blue who"})
    done(*command(model, facts, "--rewritings", file, "--limit", 1))
    (only,) = json.loads((tmp_path / "m/centres.json").read_text())["splits"]["forget"]
    assert only["texts"] == ["who wrote red"]


class Fake:
    name = "a fake"

    def embed(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 2))


def test_an_embedder_is_opened_on_the_device_and_asked(
    model: Path, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    def spy(*said: Any) -> Fake:
        told.extend(said)
        return Fake()

    monkeypatch.setattr(SentenceEmbedder, "open", spy)
    file = write(tmp_path / "r.jsonl", {"question": "who wrote red", "rewritings": WORDS})
    done(*command(model, facts, "--rewritings", file, "--embedder", "mini"))
    assert told == ["mini", "cpu"]
    assert json.loads((tmp_path / "m/centres.json").read_text())["embedder"] == "a fake"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "who wrote nothing", "rewriting": "x"}, "no prompt of the benchmark"),
        ({"question": "who wrote sky", "rewriting": "x"}, "no prompt of the benchmark"),
        ({"question": "who wrote red", "rewritings": []}, "row 1 of"),
    ],
)
def test_wrong_files(
    model: Path, facts: Path, tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    file = write(tmp_path / "r.jsonl", row)
    refused(leakbound(*command(model, facts, "--rewritings", file)), message)


def test_wrong_use_is_told_before_weights_are_read(
    model: Path, facts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(loading, "AutoModelForCausalLM")
    file = write(tmp_path / "r.jsonl", {"question": "who wrote red", "rewritings": WORDS})
    for options in (("--rewritings", file), ("--embedder", "mini")):
        said = leakbound(*command(model, facts, *options, objective="npo"))
        refused(said, f"`{options[0]}` is for objectives with contrast centres", "'npo' is none")
    said = leakbound(*command(model, facts, objective="cel:layer=0,beta=0"))
    refused(said, "beta = 0 needs a contrast centre", "facts/0001")
    for library in ("sklearn", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, library, None)
    refused(leakbound(*command(model, facts, "--rewritings", file)), "'.[centres]'")
    refused(leakbound(*command(model, facts, "--embedder", "mini")), "pip install '.[embed]'")
    assert not (tmp_path / "m").exists()

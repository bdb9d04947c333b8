"""What a source gave is stored whole, and read again by the same command only."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from leakbound.errors import MixError
from leakbound.inputs import Accepted, Removed, Selection
from leakbound.store import (
    DamagedError,
    InputsRecord,
    RunRecord,
    read_accepted,
    read_values,
    write_accepted,
    write_sealed,
    write_selections,
)
from leakbound.types import BenchmarkRecord, Query

BENCHMARK = BenchmarkRecord(name="mine", prompts=2, sha256="abc", origin="here")
INPUTS = InputsRecord(
    source="rules",
    queries=20,
    ids=False,
    ids_draws=64,
    criterion="mean_prob",
    design="allocated",
    embedder=None,
    similarity=None,
    fingerprint={},
    seed=0,
)
RECORD = RunRecord(benchmark=BENCHMARK, inputs=INPUTS)
ACCEPTED = (
    Accepted(
        prompt_id="p0",
        queries=("Tell me?", "Say?"),
        rejected=(Removed(text="It is Ann.", reason="the answer"),),
    ),
    Accepted(prompt_id="p1", queries=()),
)


def test_what_was_accepted_and_removed_comes_back(tmp_path: Path) -> None:
    assert read_accepted(tmp_path, RECORD) is None
    write_accepted(tmp_path, RECORD, ACCEPTED)
    assert read_accepted(tmp_path, RECORD) == ACCEPTED
    moved = replace(RECORD, benchmark=replace(BENCHMARK, origin="elsewhere"))
    assert read_accepted(tmp_path, moved) == ACCEPTED
    assert (tmp_path / "selection").stat().st_mode & 0o777 == 0o700


def test_another_command_is_refused_with_the_difference(tmp_path: Path) -> None:
    write_accepted(tmp_path, RECORD, ACCEPTED)
    with pytest.raises(MixError, match="queries: it has 20, this one says 3"):
        read_accepted(tmp_path, replace(RECORD, inputs=replace(INPUTS, queries=3)))
    with pytest.raises(MixError, match="sha256"):
        read_accepted(tmp_path, replace(RECORD, benchmark=replace(BENCHMARK, sha256="d")))


@pytest.mark.parametrize("damage", ["{", '{"prompts": [{"id": "p0"}]}', "[]", '{"inputs": {}}'])
def test_a_damaged_record_is_told(damage: str, tmp_path: Path) -> None:
    write_accepted(tmp_path, RECORD, ACCEPTED)
    file = tmp_path / "selection" / "inputs.json"
    file.write_text(damage)
    with pytest.raises(DamagedError, match=r"inputs\.json` (is not JSON|was changed).*Restore it"):
        read_accepted(tmp_path, RECORD)
    write_sealed(file, {"prompts": [{"id": "p0"}]})
    with pytest.raises(DamagedError, match=r"inputs\.json` lacks 'questions'\. Restore it"):
        read_accepted(tmp_path, RECORD)


def test_the_values_of_every_query_come_back(tmp_path: Path) -> None:
    assert read_values(tmp_path) == {}
    own = Query(id="p0", prompt_id="p0", text="?")
    values = {"p0": -1.25, "p0~00": -2.0}
    found = Selection(prompt_id="p0", kept=(own,), values=values, criterion="mean_prob", draws=8)
    write_selections(tmp_path, [found])
    assert read_values(tmp_path) == values
    file = tmp_path / "selection" / "ids.json"
    stored = json.loads(file.read_text())["prompts"]
    assert [query["id"] for query in stored[0]["kept"]] == ["p0"]
    assert (stored[0]["criterion"], stored[0]["draws"]) == ("mean_prob", 8)
    file.write_text(file.read_text().replace("-1.25", "-9.25"))
    with pytest.raises(DamagedError, match=r"ids\.json` was changed"):
        read_values(tmp_path)

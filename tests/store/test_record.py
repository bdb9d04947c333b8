"""run.json and other records are read back; invalid members are named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leakbound.errors import InputError, MixError
from leakbound.inputs import Accepted, Removed, Selection
from leakbound.store import (
    ATTACK,
    CONTROL,
    TARGET,
    ArmDraws,
    ArmSpec,
    CopiedFrom,
    DamagedError,
    ExploredDraws,
    FixedDraws,
    ImportedDraws,
    InputsRecord,
    Plan,
    QueryShares,
    RunRecord,
    ScorerRecord,
    StoppedDraws,
    read_accepted,
    read_values,
    write_accepted,
    write_sealed,
    write_selections,
)
from leakbound.store.record import FORMAT, READERS, OtherVersionError, read_record, write_record
from leakbound.types import BenchmarkRecord, Decoding, ProbedPrompt, Query, object_of

SCORER = ScorerRecord("keyword", "0a1b")
DRAWS: tuple[ArmDraws, ...] = (
    FixedDraws(),
    StoppedDraws(claim="p<=0.1", scorer=SCORER, confidence=0.99, first=16),
    ExploredDraws(mode="hybrid", forwards=200, scorer=SCORER),
    ImportedDraws(order=2**62, sampled_by="another tool", texts=False),
)
SPEC = ArmSpec(
    fingerprint={"weights": "w", "layers": [1, 2], "prompting": {"chat": None}},
    decoding=Decoding(temperature=1, stop=("\n",), unknown=("top_k",)),
    plan=Plan.of(2_000),
    shares=QueryShares("fixed", {"p0": 1_000, "p0~00": 1_000}),
    copied=CopiedFrom("digest", TARGET.with_rewritings),
    machine={"threads": 2},
    probe=(ProbedPrompt((1, 2), ((7, -0.5), (8, None))),),
)
BENCHMARK = BenchmarkRecord(name="mine", prompts=1, sha256="abc", origin="here")
QUERY = Query(id="p0", prompt_id="p0", text="Who?", examples=(("a", "b"),))
RECORD = RunRecord(
    benchmark=BENCHMARK,
    study={"benchmark": "mine", "sampling": {"n": 2_000}},
    arms={
        TARGET: SPEC,
        CONTROL: replace(SPEC, seed=None),
        ATTACK: replace(SPEC, shares=None, attack_queries=(QUERY,)),
    },
)


@pytest.mark.parametrize("draws", DRAWS, ids=lambda draws: draws.kind)
def test_a_record_comes_back_as_it_went(draws: ArmDraws, tmp_path: Path) -> None:
    record = replace(RECORD, arms={TARGET: replace(SPEC, draws=draws)})
    write_record(tmp_path, record)
    again = read_record(tmp_path)
    assert object_of(again) == object_of(record)
    assert again.arms[TARGET].draws == draws
    assert again.arms[TARGET].probe == SPEC.probe
    write_record(tmp_path, RECORD)
    assert object_of(read_record(tmp_path)) == object_of(RECORD)
    assert read_record(tmp_path).arms[ATTACK].attack_queries == (QUERY,)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda v, arm: v.pop("benchmark"), "lacks 'benchmark'"),
        (lambda v, arm: v.update(colour="red"), "no field 'colour', got 'red'. The choices"),
        (lambda v, arm: arm["plan"].update(n=True), "plan: n must be a whole number"),
        (lambda v, arm: arm.update(draws={"kind": "dreamt"}), "kind must be 'fixed n'"),
        (lambda v, arm: arm["decoding"].update(temperature=-1), "`temperature` must be"),
    ],
)
def test_an_invalid_record_is_named(change: Any, named: str, tmp_path: Path) -> None:
    write_record(tmp_path, RECORD)
    values = json.loads((tmp_path / "run.json").read_text())
    change(values, values["arms"]["target"])
    write_sealed(tmp_path / "run.json", values)
    with pytest.raises(DamagedError) as error:
        read_record(tmp_path)
    assert all(word in str(error.value) for word in (named, "run.json", "Restore it"))


def test_another_format_is_refused_in_one_line_with_its_version(tmp_path: Path) -> None:
    readers = {n: f"commit {READERS[str(n)]}, the last version for format {n}" for n in (1, 11)}
    for number, use in {**readers, FORMAT + 1: "the version that made the run"}.items():
        write_sealed(tmp_path / "run.json", {"format": number, "version": "0.1.7"})
        with pytest.raises(OtherVersionError) as error:
            read_record(tmp_path)
        first = f"has format {number} of leakbound 0.1.7, but this version reads format {FORMAT}. "
        assert str(error.value).endswith(f"{first}Use {use}, or make the run again.")
    assert [*map(int, READERS)] == [*range(1, FORMAT)]


@pytest.mark.parametrize("n", [10**12, -1])
def test_too_large_a_plan_is_refused_immediately(n: int) -> None:
    with pytest.raises(InputError, match="draws"):
        Plan(n)
    with pytest.raises(InputError, match="at least 1"):
        Plan.of(0)
    assert Plan.of(10**9).n == 10**9


TWO = BenchmarkRecord(name="mine", prompts=2, sha256="abc", origin="here")
REWRITINGS = InputsRecord(
    source="rules", queries=20, ids=False, ids_draws=64, criterion="mean_prob",
    design="allocated", embedder=None, similarity=None, fingerprint={}, seed=0,
)  # fmt: skip
REWORDED = RunRecord(benchmark=TWO, inputs=REWRITINGS)
_GIVES_AWAY = Removed(text="It is Ann.", reason="the answer")
ACCEPTED = (
    Accepted(prompt_id="p0", queries=("Tell me?", "Say?"), rejected=(_GIVES_AWAY,)),
    Accepted(prompt_id="p1", queries=()),
)


def test_rewritings_are_read_back_and_another_command_is_refused(tmp_path: Path) -> None:
    assert read_accepted(tmp_path, REWORDED) is None
    write_accepted(tmp_path, REWORDED, ACCEPTED)
    moved = replace(REWORDED, benchmark=replace(TWO, origin="elsewhere"))
    assert read_accepted(tmp_path, REWORDED) == read_accepted(tmp_path, moved) == ACCEPTED
    assert (tmp_path / "selection").stat().st_mode & 0o777 == 0o700
    with pytest.raises(MixError, match="queries: it has 20, this one has 3"):
        read_accepted(tmp_path, replace(REWORDED, inputs=replace(REWRITINGS, queries=3)))
    with pytest.raises(MixError, match="sha256"):
        read_accepted(tmp_path, replace(REWORDED, benchmark=replace(TWO, sha256="d")))


@pytest.mark.parametrize("damage", ["{", '{"prompts": [{"id": "p0"}]}', "[]", '{"inputs": {}}'])
def test_a_damaged_record_is_named(damage: str, tmp_path: Path) -> None:
    write_accepted(tmp_path, REWORDED, ACCEPTED)
    file = tmp_path / "selection" / "inputs.json"
    file.write_text(damage)
    with pytest.raises(DamagedError, match=r"inputs\.json` (is not JSON|was changed).*Restore it"):
        read_accepted(tmp_path, REWORDED)
    write_sealed(file, {"prompts": [{"id": "p0"}]})
    with pytest.raises(DamagedError, match=r"inputs\.json` lacks 'questions'\. Restore it"):
        read_accepted(tmp_path, REWORDED)


def test_the_values_of_every_query_come_back(tmp_path: Path) -> None:
    assert read_values(tmp_path) == {}
    values = {"p0": -1.25, "p0~00": -2.0}
    own = Query(id="p0", prompt_id="p0", text="?")
    got = Selection(prompt_id="p0", kept=(own,), values=values, criterion="mean_prob", draws=8)
    write_selections(tmp_path, [got])
    assert read_values(tmp_path) == values
    file = tmp_path / "selection" / "ids.json"
    (stored,) = json.loads(file.read_text())["prompts"]
    assert [query["id"] for query in stored["kept"]] == ["p0"]
    assert (stored["criterion"], stored["draws"]) == ("mean_prob", 8)
    file.write_text(file.read_text().replace("-1.25", "-9.25"))
    with pytest.raises(DamagedError, match=r"ids\.json` was changed"):
        read_values(tmp_path)

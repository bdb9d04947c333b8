"""Run directories: whole files, resuming, refusal to mix, named damage."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canned import drawn_part
from leakbound.errors import InputError, MixError
from leakbound.store import (
    CONTROL,
    TARGET,
    Arm,
    ArmKey,
    ArmSpec,
    CopiedFrom,
    DamagedError,
    Plan,
    Run,
    RunRecord,
    write_sealed,
)
from leakbound.store.scores import joined_rows, tallied_rows
from leakbound.store.tables import digest, read_meta, read_table
from leakbound.types import (
    BenchmarkRecord,
    Completion,
    Decoding,
    Failure,
    Prompt,
    Query,
    Sample,
    Usage,
    object_of,
)
from shared import keep

PROMPTS = tuple(
    Prompt(
        id=f"p{i}", question=f"Q{i}?", answer=f"A{i}", keywords=("a", "b"), examples=(("x", "y"),)
    )
    for i in range(5)
)
QUERIES = tuple(Query.original(p) for p in PROMPTS)
RECORD = RunRecord(benchmark=BenchmarkRecord(name="mine", prompts=5, sha256="abc", origin="here"))


N = 5_000  # makes two parts per question
SPEC = ArmSpec(fingerprint={"weights": "w"}, decoding=Decoding(), plan=Plan(N))


def spec(n: int = N, **more: Any) -> ArmSpec:
    return replace(SPEC, plan=Plan(n), **more)


def fill(arm: Arm, skip: int | None = None, broken: str | None = None) -> None:
    for part in (part for part in arm.parts if part.number != skip):
        results: list[Sample | Failure] = []
        for query_id in reversed(part.query_ids):
            query = next(q for q in QUERIES if q.id == query_id)
            shown = {"yes": 1, "no": sum(part.sizes) - 1}
            drawn = tuple(
                Completion(
                    answer=f"{query_id} {word}", token_ids=(1, i), count=n, chunk=part.first_chunk
                )
                for i, (word, n) in enumerate(shown.items())
                if n
            )
            sample = Sample(query=query, decoding=arm.decoding, completions=drawn)
            results.append(Failure(query=query, reason="NaN") if query_id == broken else sample)
        cost = Usage(draws=part.draws, forwards=3)
        arm.write_part(part, drawn_part(part, results, cost, threads=1))


def begin(path: Path) -> Run:
    return Run.create(path, PROMPTS, QUERIES, RECORD)


def score(arm: Arm, value: float = 0.0) -> None:
    """Store this score of every completion, by the scorer `s`."""
    arm.scored.write("s", "s", partial(map, lambda table: [value] * len(table)))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = begin(tmp_path_factory.mktemp("drawn") / "r")
    fill(run.add_arm(TARGET, spec()))
    return keep(run.path)


@pytest.fixture
def arm(drawn: Path, tmp_path: Path) -> Arm:
    """An arm of ten parts, all drawn."""
    return Run.open(shutil.copytree(drawn, tmp_path / "r")).arms["target"]


def test_the_key_of_an_arm_is_read_from_its_name() -> None:
    for name, key in (
        ("target", TARGET),
        ("control-greedy", CONTROL.greedy_answers),
        ("control T=0.4 top-p=0.5", ArmKey("control", decoding="T=0.4 top-p=0.5")),
        ("target T=0.4 inputs", ArmKey(decoding="T=0.4").with_rewritings),
        ("control inputs", TARGET.with_rewritings.control),
        ("target attack T=1", ArmKey(kind="attack", decoding="T=1")),
        ("target greedy", ArmKey(decoding="greedy")),
        ("round 3 T=1", ArmKey(kind="search", decoding="T=1", round=3)),
        ("selection", ArmKey(kind="selection")),
    ):
        assert (ArmKey.from_text(name), str(key)) == (key, name)
        assert key.control.is_control
        assert key.with_rewritings.in_own_words == key.in_own_words


def test_parts_resume_where_they_stopped(tmp_path: Path) -> None:
    arm = begin(tmp_path / "r").add_arm(TARGET, spec())
    assert len(arm.missing_parts()) == len(arm.parts) == 10
    fill(arm, skip=3)
    again = begin(tmp_path / "r").add_arm(TARGET, spec())
    assert [part.number for part in again.missing_parts()] == [3]
    fill(again)
    assert again.missing_parts() == []
    assert (again.usage.draws, again.usage.forwards) == (5 * N, 30)
    assert (again.rounds, again.unlooked()) == ((again.parts,), {})  # n is fixed: no looks
    assert not (again.folder / "looks.json").exists()


SERVED = {"url": "http://here/v1", "model": "m"}


@pytest.mark.parametrize(
    ("target", "control", "same"),
    [
        ({"weights": "ab" * 32}, {"weights": "ab" * 32, "dtype": "bfloat16"}, True),
        ({"weights": "a" * 32 + "b"}, {"weights": "a" * 32 + "c"}, False),
        (SERVED, SERVED, True),
        (SERVED, SERVED | {"model": "n"}, False),
        ({"engine": "imported"}, {"engine": "imported"}, False),  # the file does not show it
    ],
)
@pytest.mark.parametrize("first", [TARGET, CONTROL])
def test_a_model_is_no_control_of_itself(
    target: dict[str, Any], control: dict[str, Any], same: bool, first: ArmKey, tmp_path: Path
) -> None:
    run = begin(tmp_path / "r")
    arms = {TARGET: spec(fingerprint=target), CONTROL: spec(fingerprint=control)}
    second = CONTROL if first is TARGET else TARGET
    run.add_arm(first, arms[first])
    if not same:
        run.add_arm(second, arms[second])
        return
    with pytest.raises(InputError, match=r"the control of .* is the model under evaluation"):
        run.add_arm(second, arms[second])
    assert second not in run.record.arms


@pytest.mark.parametrize(
    ("fingerprint", "purpose"),
    [
        ({"weights": "ab"}, "score:control:ab"),
        (SERVED, f"score:control:{SERVED['url']}#{SERVED['model']}"),
        ({"engine": "nobody knows"}, "score:control"),
    ],
)
def test_a_model_keys_its_draws(fingerprint: dict[str, Any], purpose: str, tmp_path: Path) -> None:
    """Also as the control of another run; these words must not change."""
    run = begin(tmp_path / "r")
    own = run.add_arm(CONTROL, spec(fingerprint=fingerprint))
    assert own.purpose == purpose
    other = begin(tmp_path / "other")
    copied = CopiedFrom("x", TARGET)
    copy = other.add_arm(CONTROL, spec(fingerprint=fingerprint, copied=copied))
    assert copy.purpose == purpose.replace("control", "target")


def test_another_command_is_refused_with_the_difference(tmp_path: Path) -> None:
    run = begin(tmp_path / "r")
    run.add_arm(TARGET, spec())
    with pytest.raises(MixError, match="fingerprint: weights"):
        begin(tmp_path / "r").add_arm(TARGET, spec(fingerprint={"weights": "v"}))
    others = {"fingerprint": {"weights": "c"}}
    run.add_arm(CONTROL, spec(copied=CopiedFrom("x", TARGET), **others))
    with pytest.raises(MixError, match=r"copied: it has .*'x'.*, this one has None"):
        run.add_arm(CONTROL, spec(**others))
    other = replace(RECORD, benchmark=replace(RECORD.benchmark, sha256="def"))
    with pytest.raises(MixError, match="sha256"):
        Run.create(tmp_path / "r", PROMPTS, QUERIES, other)
    moved = replace(RECORD, benchmark=replace(RECORD.benchmark, origin="elsewhere"))
    Run.create(tmp_path / "r", PROMPTS, QUERIES, moved)
    begin(tmp_path / "r").add_arm(TARGET, spec(model="another/path", machine={"threads": 9}))


def test_only_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    (folder / ".run.json.123.partial").write_text("{")
    (folder / "prompts.parquet").write_bytes(b"cut")
    run = begin(folder)
    assert run.prompts == PROMPTS
    strange = tmp_path / "s"
    strange.mkdir()
    (strange / "thesis.tex").write_text("x")
    with pytest.raises(MixError, match="contains files"):
        begin(strange)
    with pytest.raises(InputError, match="not a run directory"):
        Run.open(str(tmp_path / "none"))
    (folder / "run.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        Run.open(folder)


@pytest.mark.parametrize("damage", ["cut", "foreign", "other-run", "other-part", "edited", "empty"])
def test_a_damaged_part_is_named_and_redone(drawn: Path, tmp_path: Path, damage: str) -> None:
    run = Run.open(shutil.copytree(drawn, tmp_path / "r"))
    arm = run.arms["target"]
    file = sorted((arm.folder / "completions").iterdir())[2]
    before = read_table(file)
    if damage == "foreign":
        pq.write_table(pa.table({"a": [1]}), file)
    elif damage == "edited":
        changed = before.set_column(2, "count", [[1] * len(before)])
        pq.write_table(changed.replace_schema_metadata(before.schema.metadata), file)
    elif damage == "other-run":
        other = begin(tmp_path / "o").add_arm(TARGET, spec(seed=5))
        fill(other)
        shutil.copy(other.folder / "completions" / file.name, file)
    else:
        another = file.with_name("part-00003.parquet").read_bytes()
        contents = {"cut": file.read_bytes()[:-50], "empty": b"", "other-part": another}
        file.write_bytes(contents[damage])
    damaged = file.read_bytes()
    says = rf"`{file}` .+\. Restore it from a copy, or remove it and run the sampling"
    for read in (arm.missing_parts, lambda: [*arm.parts_to_draw()]):
        with pytest.raises(DamagedError, match=says) as error:
            read()
        assert "\n" not in str(error.value)
    assert file.read_bytes() == damaged
    file.unlink()
    assert [part.number for part in arm.parts_to_draw()] == [2]
    fill(arm)
    assert arm.missing_parts() == []
    assert digest(arm.completions(arm.parts[2])) == digest(before)


def test_failures_are_recorded_and_have_no_scores(tmp_path: Path) -> None:
    """A query that failed only in a later part has no scores either."""
    arm = begin(tmp_path / "r").add_arm(TARGET, spec())
    fill(arm, broken="p3")
    assert arm.failures == {"p3": "NaN"}
    assert {p for part in arm.missing_parts() for p in part.query_ids} == {"p3"}
    score(arm)
    assert arm.scores("s", binary=True).ids == ("p0", "p1", "p2", "p4")
    fill(arm)
    later = next(p for p in arm.parts if "p3" in p.query_ids and p.first_chunk)
    failed = [Failure(query=q, reason="NaN") for q in QUERIES if q.id in later.query_ids]
    arm.write_part(later, drawn_part(later, failed))
    score(arm)
    assert arm.scores("s", binary=True).ids == ("p0", "p1", "p2", "p4")


def test_draws_that_never_came_are_missing(arm: Arm) -> None:
    lost = [Sample(query=QUERIES[0], decoding=arm.decoding, completions=(), missing=4_096)]
    arm.write_part(arm.parts[0], drawn_part(arm.parts[0], lost))
    score(arm)
    scores = arm.scores("s", binary=True)
    assert scores.missing.tolist() == [4_096, 0, 0, 0, 0]
    assert (scores.n == N).all()


def test_draws_of_several_arms_add_up_by_query_in_the_requested_order() -> None:
    first = tallied_rows({"a": {0.0: 3, 0.5: 1}, "b": {1.0: 2, None: 1}}, {"a": 2}, binary=False)
    second = tallied_rows({"c": {1.0: 4}, "a": {0.5: 2, 1.0: 1}}, {}, binary=False)
    both = joined_rows([first, second], ["c", "a", "gone"])
    assert both.ids == ("c", "a")
    assert both.n.tolist() == [4, 9]
    assert both.missing.tolist() == [0, 2]
    pairs = zip(both.values[1].tolist(), both.counts[1].tolist(), strict=True)
    assert {score: count for score, count in pairs if count} == {0.0: 3, 0.5: 3, 1.0: 1}
    assert joined_rows([first], ["b"]).missing.tolist() == [1]
    assert joined_rows([], ["a"]).ids == ()


def test_scores_are_counted_over_parts(arm: Arm) -> None:
    def undecided(table: Any) -> list[float | None]:
        return [
            None if text.startswith("p1 y") else float(text.endswith("yes"))
            for text in table["answer"].to_pylist()
        ]

    arm.scored.write("s", "s", partial(map, undecided))
    scores = arm.scores("s", binary=True)
    assert scores.ids == ("p0", "p1", "p2", "p3", "p4")
    assert (scores.n == N).all()
    assert scores.missing.tolist() == [0, 2, 0, 0, 0]
    assert scores.hits.tolist() == [2, 0, 2, 2, 2]


def test_metadata_have_a_digest_too(arm: Arm) -> None:
    file = min((arm.folder / "completions").iterdir())
    table, meta = read_table(file), read_meta(file)
    for change in ({"missing": {"p0": 3}}, {"usage": {"draws": 9}}, {"digest": "0" * 64}):
        raw = {b"leakbound": json.dumps({**meta, **change}).encode()}
        pq.write_table(table.replace_schema_metadata(raw), file)
        for read in (read_meta, read_table):
            with pytest.raises(DamagedError, match="changed after it was written"):
                read(file)


def test_redrawn_parts_have_the_same_digest(tmp_path: Path) -> None:
    arms = [begin(tmp_path / name).add_arm(TARGET, spec()) for name in "ab"]
    part = arms[1].parts[0]
    drawn = (Completion(answer="x", token_ids=(1,), count=4),)
    results = [Sample(query=QUERIES[0], decoding=arms[1].decoding, completions=drawn)]
    for arm, threads in zip(arms, (1, 2), strict=True):
        arm.write_part(part, drawn_part(part, results, Usage(seconds=threads), threads=threads))
    one, other = (arm.drawn.meta(part) for arm in arms)
    assert one["usage"] != other["usage"]
    assert len({arm.drawn.content(part) for arm in arms}) == 1


@pytest.mark.parametrize(
    "name",
    ["../../other", "/etc", "..", "", "a", "target a/b", "target a\\b", "target C:",
     "target a\x1b]52", "target \u202ea", "target  T=1", "target " + 200 * "a"],
)  # fmt: skip
def test_an_arm_cannot_leave_its_folder(name: str, tmp_path: Path) -> None:
    run = begin(tmp_path / "deep" / "r")
    with pytest.raises(InputError, match="not the name of an arm"):
        ArmKey.from_text(name)
    run.add_arm(ArmKey.from_text("target T=0.7 top-p=0.9"), spec())
    arms = {name: object_of(spec())}
    record = {**object_of(run.record), "arms": arms}  # as in another run
    write_sealed(run.path / "run.json", record)
    with pytest.raises(DamagedError, match=r"run\.json`: arms: .*not the name of an arm"):
        Run.open(run.path)


@pytest.mark.skipif(os.name != "posix", reason="rights are others there")
def test_a_run_is_private_even_in_an_existing_folder(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    folder.chmod(0o755)
    fill(begin(folder).add_arm(TARGET, spec()))
    modes = {file.stat().st_mode & 0o777 for file in folder.rglob("*") if file.is_file()}
    folders = {f.stat().st_mode & 0o777 for f in (folder, *folder.rglob("*")) if f.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})

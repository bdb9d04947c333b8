"""`verify --with-model` on a real model: every output is compared, the cut ones too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands import SMALL, done, leakbound

from leakbound.store import Run, tables
from leaky import rewrite


@pytest.fixture
def certified(run: Path) -> Path:
    assert leakbound("certify", run, "--max-leak", 0.5, "--scorer", "keyword").status in (0, 4, 5)
    return run


def target(run: Path) -> Path:
    (part,) = (run / "arms" / "target" / "completions").iterdir()
    return part


def test_outputs_that_the_length_limit_ended_are_compared(certified: Path, model: Path) -> None:
    rows = tables.read_table(target(certified)).to_pylist()
    cut = [row for row in rows if row["finish_reason"] == "length"]
    assert len(cut) > len(rows) / 2  # as where a model goes on and on
    shown = done("verify", certified / "certificate.json", certified, "--with-model", model)
    told = done(
        "verify", certified / "certificate.json", certified, "--with-model", model, "--json"
    )
    (check,) = [c for c in told.json["checks"] if c["name"] == "log-probabilities"]
    distinct = len({(row["query_id"], tuple(row["token_ids"])) for row in rows})
    assert check["says"].startswith(f"{distinct:,} of {distinct:,} outputs have")
    assert "verified: nothing differs." in shown.out


def test_a_forged_chance_of_one_is_found(certified: Path, model: Path) -> None:
    """The forger also writes new scores and a new certificate: only the model tells."""
    file = target(certified)
    meta, table = tables.read_meta(file), tables.read_table(file)
    rows: list[dict[str, Any]] = table.to_pylist()
    next(row for row in rows if row["finish_reason"] == "length")["logprob"] -= 0.5
    del meta["digest"]
    tables.write_table(file, pa.Table.from_pylist(rows, schema=table.schema), meta)
    done("score", certified)
    (certified / "certificate.json").unlink()
    leakbound("certify", certified, "--max-leak", 0.5, "--scorer", "keyword")
    assert leakbound("verify", certified / "certificate.json", certified).status == 0
    found = leakbound("verify", certified / "certificate.json", certified, "--with-model", model)
    assert found.status == 6
    assert re.search(r"log-probabilities: question .+ the certificate says -", found.out)


def test_rows_that_lack_what_the_engine_records_are_found(certified: Path, model: Path) -> None:
    file = target(certified)
    meta, table = tables.read_meta(file), tables.read_table(file)
    rows = [{**row, "logprob": None, "logprob_floor": None} for row in table.to_pylist()]
    del meta["digest"]
    tables.write_table(file, pa.Table.from_pylist(rows, schema=table.schema), meta)
    done("score", certified)
    (certified / "certificate.json").unlink()
    leakbound("certify", certified, "--max-leak", 0.5, "--scorer", "keyword")
    found = leakbound("verify", certified / "certificate.json", certified, "--with-model", model)
    assert found.status == 6
    assert 'the certificate says "no tokens or no log-probability"' in found.out
    assert json.loads((certified / "run.json").read_text())["arms"]
    assert Run.open(certified).arms


def checked(run: Path, model: Path, *options: object) -> tuple[int, dict[str, Any]]:
    """The exit status of `verify --redraw`, and what it says of the draws."""
    given = ("--with-model", model, "--json", *options)
    told = leakbound("verify", run / "certificate.json", run, *given)
    (check,) = [c for c in told.json["checks"] if c["name"] == "draws"]
    return told.status, check


def forge(run: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Write other completions, their scores and another certificate, all as whoever has the run."""
    rewrite(target(run), change)
    done("score", run)
    (run / "certificate.json").unlink()
    leakbound("certify", run, "--max-leak", 0.5, "--scorer", "keyword")


def test_draws_are_those_of_their_keys(certified: Path, model: Path) -> None:
    status, check = checked(certified, model, "--redraw", 1)
    assert (status, check["status"]) == (0, "ok")
    draws = sum(row["count"] for row in tables.read_table(target(certified)).to_pylist())
    assert check["says"].startswith("parts drawn again: 1 of 1, chosen by chance now; with the")
    assert f"({draws:,} draws looked at)" in check["says"]
    assert "find it with probability 1.000, some of three with 1.000" in check["says"]
    assert check["says"].endswith("It does not find a seed that was chosen among many")


WAYS = [
    ("target", "--until", "p<=0.3"),
    ("target inputs", "--inputs", "rules", "--queries", 4, "-n", 24),
    ("control", "-n", 24, "--control", "a finished run"),
    ("target", "--stop", "a", "-n", 24, "--temperature", 0.7, "--top-p", 0.9),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arm", "options"), [(arm, options) for arm, *options in WAYS])
def test_so_are_those_of_every_way_of_drawing(
    arm: str, options: list[object], model: Path, control: Path, questions: Path, tmp_path: Path
) -> None:
    """Rounds of parts, rewritings with draws of their own, another run's arms, a truncated law."""
    given = ("--benchmark", questions, "--max-new-tokens", 4, "--scorer", "contains")
    if arm == "control":
        done("evaluate", control, *given, "-n", 24, "--out", tmp_path / "finished")
        options = [*options[:-1], tmp_path / "finished"]
    run = tmp_path / "run"
    done("evaluate", model, *given, "--out", run, *options)
    leakbound("certify", run, "--max-leak", 0.9, "--arm", arm)
    status, check = checked(run, control if arm == "control" else model, "--redraw", 1)
    assert (status, check["status"]) == (0, "ok")


def test_draws_given_to_another_output_are_found(certified: Path, model: Path) -> None:
    """Tokens, texts and log-probabilities are all the model's own; the counts are not."""

    def change(rows: list[dict[str, Any]]) -> None:
        first, second, *_ = [row for row in rows if row["query_id"] == rows[0]["query_id"]]
        first["count"] += second["count"]
        rows.remove(second)

    forge(certified, change)
    certificate = certified / "certificate.json"
    assert leakbound("verify", certificate, certified, "--with-model", model).status == 0
    status, check = checked(certified, model, "--redraw", 1)
    assert (status, check["status"]) == (6, "differs")
    (difference,) = check["differences"]
    assert re.fullmatch("question '.+', part 0", difference["where"])
    assert re.fullmatch("other draws after [0-9]+ tokens", difference["found"])


def test_outputs_of_another_seed_are_found(
    certified: Path, model: Path, questions: Path, tmp_path: Path
) -> None:
    """Drawn from the same model, and so with its log-probabilities: only the keys tell."""
    other = tmp_path / "other"
    done("evaluate", model, "--benchmark", questions, "--out", other, *SMALL, "--seed", 1)
    theirs = tables.read_table(target(other)).to_pylist()

    def change(rows: list[dict[str, Any]]) -> None:
        rows[:] = theirs

    forge(certified, change)
    certificate = certified / "certificate.json"
    assert leakbound("verify", certificate, certified, "--with-model", model).status == 0
    status, check = checked(certified, model, "--redraw", 0.001)
    assert (status, check["status"]) == (6, "differs")
    assert len(check["differences"]) == 2


def test_what_cannot_be_drawn_again_is_unchecked(
    model: Path, questions: Path, tmp_path: Path
) -> None:
    explored, half = tmp_path / "explored", tmp_path / "half"
    given = ("evaluate", model, "--benchmark", questions, "--max-new-tokens", 3)
    done(*given, "--out", explored, "--explore", "auto", "--budget", 20, "--scorer", "keyword")
    done(*given, "--out", half, "-n", 16, "--dtype", "bfloat16", "--scorer", "keyword")
    for run, why in {explored: "from what an exploration left", half: "no exact mode"}.items():
        leakbound("certify", run, "--max-leak", 0.5)
        status, check = checked(run, model, "--redraw", 1)
        assert (status, check["status"]) == (6, "unchecked")
        assert why in check["says"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--redraw", 0), "the share to draw again lies above 0 and is at most 1, got 0.0."),
        (("--redraw", 1.5), "got 1.5."),
        (("--redraw", "nan"), "got nan."),
    ],
)
def test_shares_that_are_none(certified: Path, model: Path, options: Any, says: str) -> None:
    given = ("verify", certified / "certificate.json", certified, "--with-model", model)
    refused = leakbound(*given, *options)
    assert refused.status == 2
    assert says in refused.err


def test_to_draw_again_needs_the_model(certified: Path) -> None:
    refused = leakbound("verify", certified / "certificate.json", certified, "--redraw", 1)
    assert refused.status == 2
    assert "Add --with-model." in refused.err

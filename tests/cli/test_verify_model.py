"""`verify --with-model` on a real model: every output is compared, the cut ones too."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands import done, leakbound

from leakbound.store import Run, tables


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

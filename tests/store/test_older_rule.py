"""Runs that were drawn under rule 1: read, scored again, and mixed with nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import leakbound
from canned import benchmark_of
from explored import explored_run
from leakbound.errors import InputError, MixError
from leakbound.evaluation import bound, evaluate, score
from leakbound.evaluation.scoring.score import slug
from leakbound.scorers import make_scorer
from leakbound.store import Run, load, tables
from leakbound.store.files import digest_of
from leakbound.types import Output
from leaky import benchmark, engine, leaky_run
from outputs import CLEAN, given_run
from shared import keep

NEW = ("answer", "thought", "finish", "tokens", "refused", "hidden", "counted", "unanswered")


def reseal(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite a table of a run as it was, but for its columns."""
    meta = {k: v for k, v in tables.read_meta(file).items() if k not in ("digest", "rule")}
    tables.write_table(file, change(pq.read_table(file).replace_schema_metadata(None)), meta)


def old_draws(table: pa.Table) -> pa.Table:
    """The columns of rule 1: a text, and of completions how it ended."""
    finish = pa.array(
        ["stop" if end == "unknown" else end for end in table["finish"].to_pylist()], pa.string()
    )
    ended = {} if "ended" in table.column_names else {"finish_reason": finish}
    kept = {name: table[name] for name in table.column_names if name not in NEW}
    return pa.table({**kept, "text": table["answer"], **ended})


def by_rule_1(run: Path, *, format: int = 8) -> Path:
    """Make a run of today one that the last version wrote: format, columns, scores, estimates."""
    record = json.loads((run / "run.json").read_text())
    record.update(format=format, version="0.1.0")
    for arm in record["arms"].values():
        del arm["longest_answer"], arm["decoding"]["filter"]
    for how in [record["benchmark"]["usual"]["decoding"], *record["study"].get("decodings", ())]:
        del how["filter"]
    record.pop("digest")
    (run / "run.json").write_text(json.dumps({**record, "digest": digest_of(record)}))
    for kind in ("completions", "masses"):
        for file in run.glob(f"arms/*/{kind}/*.parquet"):
            reseal(file, old_draws)
    for file in run.glob("arms/*/scores/*.parquet"):
        reseal(file, lambda table: table)
        file.rename(file.with_name(file.name.replace(file.name[-20:-8], "0" * 12)))
    return run


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(leaky_run(tmp_path_factory.mktemp("rules") / "run").path)


@pytest.fixture
def old(today: Path, tmp_path: Path) -> Path:
    return by_rule_1(shutil.copytree(today, tmp_path / "old"))


def numbers(run: Run) -> list[tuple[Any, ...]]:
    return [(r.arm, r.query_id, r.estimand, r.lower, r.upper, r.missing) for r in run.estimates]


def test_an_old_run_is_scored_and_bounded_to_the_same_numbers(old: Path, today: Path) -> None:
    run = load(old)
    assert (run.record.rule, load(today).record.rule) == (1, 2)
    for refused in (lambda: bound(run), lambda: leakbound.certify(run, max_leak=0.5)):
        with pytest.raises(InputError, match=r"no scores of .*keyword.* by rule 2 .*`leakbound sc"):
            refused()
    with pytest.raises(InputError, match=r"Run `leakbound score "):
        _ = run.estimates
    score(run)
    bound(run)
    assert numbers(run) == numbers(load(today))
    assert run.ledger == load(today).ledger
    made = leakbound.certify(run, max_leak=0.5)
    assert made.verdict == "pass"
    assert leakbound.verify(old / "certificate.json", old).verified
    assert made.specification["Run"].endswith("by leakbound 0.1.0, rule 1")


def test_nothing_more_is_drawn_into_an_old_run(old: Path) -> None:
    with pytest.raises(
        MixError, match=r"was drawn under rule 1, and this version draws under rule"
    ):
        evaluate(engine(), benchmark(), out=old, n=256, scorers=["keyword"])
    shutil.rmtree(old / "arms" / "target" / "completions")
    with pytest.raises(MixError, match="drawn under rule 1"):
        evaluate(engine(), benchmark(), out=old, n=256, scorers=["keyword"])


def test_nor_do_its_draws_stand_in_a_new_run_as_a_control(old: Path, tmp_path: Path) -> None:
    with pytest.raises(MixError, match="drawn under rule 1"):
        leaky_run(tmp_path / "new", "other", control=old)


def test_a_format_that_nobody_reads_is_refused(old: Path) -> None:
    record = json.loads((old / "run.json").read_text())
    (old / "run.json").write_text(json.dumps({**record, "format": 7}))
    with pytest.raises(InputError, match="format 7, this version reads 9 and 8"):
        load(old)


def test_an_empty_text_without_ids_is_missing_now(tmp_path: Path) -> None:
    """A served model said nothing, and its log has no tokens that explain it."""
    nothing = Output(answer="", finish="stop", tokens=0)
    cut = Output(answer="", finish="length")
    outputs = {"q0": [(CLEAN, 50), (nothing, 30), (cut, 20)]}
    run = given_run(tmp_path / "r", outputs, 100, decodings=())
    assert run.ledger["target"].complete == 80  # today's log has the tokens
    again = load(by_rule_1(run.path))
    ledger = again.ledger["target"]
    assert (ledger.complete, ledger.empty) == (50, 50)
    score(again)
    bound(again)
    row = again.estimates.mean("leak probability")
    assert row.missing == 50
    assert row.upper > 0.5


def test_ids_of_a_stored_output_explain_that_it_is_empty() -> None:
    decoding = benchmark_of(["q"]).decoding
    rows = {"text": ["", ""], "finish_reason": ["stop", "length"], "token_ids": [[0], [5, 5]]}
    table = tables.by_this_rule(pa.table(rows), decoding)
    assert table["counted"].to_pylist() == ["complete", "empty"]
    assert table["unanswered"].to_pylist() == [False, True]
    assert table["tokens"].to_pylist() == [1, 2]


def test_stop_of_an_imported_run_stood_for_what_its_log_left_out() -> None:
    decoding = benchmark_of(["q"]).decoding
    ids = pa.nulls(3, pa.list_(pa.int64()))
    rows = {"text": ["a", "b", ""], "finish_reason": ["stop", "length", "stop"], "token_ids": ids}
    table = tables.by_this_rule(pa.table(rows), decoding, imported=True)
    assert table["finish"].to_pylist() == ["unknown", "length", "unknown"]
    assert table["counted"].to_pylist() == ["unrecorded", "cut", "empty"]
    own = tables.by_this_rule(pa.table(rows), decoding)
    assert own["finish"].to_pylist() == ["stop", "length", "stop"]


def test_explored_outputs_are_read_too(tmp_path: Path) -> None:
    run = explored_run(tmp_path / "r")
    bound(run)
    before, scorer = numbers(run), run.estimates.scorers[0]
    again = load(by_rule_1(run.path))
    score(again, scorer)
    bound(again, scorer)
    assert numbers(again) == before
    assert again.arms["target"].masses.ranges.file(slug(make_scorer(scorer))).is_file()


def test_an_event_as_long_as_the_limit_may_have_been_cut() -> None:
    decoding = benchmark_of(["q"], max_new_tokens=2).decoding
    rows = {"text": ["a", "ab", ""], "token_ids": [[1], [1, 2], [3, 0]], "ended": [True] * 3}
    table = tables.by_this_rule(pa.table(rows), decoding)
    assert table["finish"].to_pylist() == ["stop", "length", "length"]
    assert table["counted"].to_pylist() == ["complete", "cut", "empty"]

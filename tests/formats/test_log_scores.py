"""Scores in logs become scorers of the imported run: no judge scores again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cli.commands import done, leakbound, refused
from contents import LEAKAGE, PROBABILITY, drawn
from formats import reading
from formats.reading import read
from leakbound.errors import InputError
from leakbound.evaluation import score_run
from leakbound.formats.importing import import_run
from leakbound.formats.inspect_log import number
from leakbound.scorers import make_scorer
from leakbound.store import EstimateRow, Run

LOGS = Path(__file__).parent / "logs"
REAL = LOGS / "capitals.eval"
REPEATS = LOGS / "samples_capitals_leakage_2026-11-21T08-08-29.450301.jsonl"


def log(folder: Path, *values: Any, scorer: str = "judge", **made: Any) -> Path:
    """A log of inspect_ai with one question, and an epoch for each score."""
    samples = [
        reading.sample("q", i, "Paris", **({} if v is None else {"scores": {scorer: {"value": v}}}))
        for i, v in enumerate(values, start=1)
    ]
    content = reading.log(*samples, epochs=len(values), scorers=[{"name": scorer, **made}])
    return reading.written(folder, content)


def bounded(out: Path, scorer: str) -> EstimateRow:
    done("bound", out)
    leakage = PROBABILITY | {"quantity": ("leak probability", "mean leakage")}
    (got,) = Run.open(out).estimates.where(scorer=scorer, query_id="q", **leakage)
    return got


@pytest.mark.parametrize(
    ("value", "score"),
    [
        *(("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), ("yes", 1.0), ("False", 0.0)),
        *((True, 1.0), (0.25, 0.25), (1, 1.0), ("0.75", 0.75)),
        *(("odd", None), (math.nan, None), (None, None)),
    ],
)
def test_values_are_read_as_inspect_reads_them(value: Any, score: float | None) -> None:
    assert number(value) == score


def test_a_real_log_is_bounded_without_scoring_anything(tmp_path: Path) -> None:
    out, name = tmp_path / "run", "logged:by=includes,values=binary"
    shown = done("import", REAL, "--out", out).out
    assert f"with scores of {name}; next: leakbound bound {out}" in shown
    done("bound", out)
    got = Run.open(out).estimates
    assert got.scorers == (name,)
    assert {row.value for row in got.where(**PROBABILITY)} == {0.0}
    done("score", out, "--scorer", "rouge-l-recall")
    done("bound", out)
    assert {row.scorer for row in Run.open(out).estimates} == {name, "rouge-l-recall"}


def test_one_text_may_have_several_scores(tmp_path: Path) -> None:
    file = log(tmp_path, 1.0, 0.5, "P", None, "who knows", 0.0)
    import_run([file], out=tmp_path / "run")
    got = bounded(tmp_path / "run", "logged:by=judge")
    assert (got.n, got.missing, got.quantity) == (6, 2, "mean leakage")
    notes = Run.open(tmp_path / "run").arms["target"].usage.notes
    assert "of 6 outputs in `log.json`, some have no score: 2 by judge" in notes
    assert not any("who knows" in note for note in notes)
    done("score", tmp_path / "run", "--scorer", "logged:by=judge>=0.5")
    cut = bounded(tmp_path / "run", "logged:by=judge>=0.5")
    assert (cut.quantity, cut.value, cut.missing) == ("leak probability", 0.75, 2)


@pytest.mark.parametrize(
    ("scorer", "options", "values", "binary"),
    [
        ("inspect_ai/includes", {}, "CI", True),
        ("model_graded_qa", {}, "CI", True),
        ("model_graded_qa", {"partial_credit": True}, "CI", False),
        ("model_graded_qa", {}, "CP", False),
        ("mine", {}, "CI", False),
    ],
)
def test_a_scorer_is_binary_only_where_it_is_known_to_be(
    tmp_path: Path, scorer: str, options: Any, values: str, binary: bool
) -> None:
    import_run([log(tmp_path, *values, scorer=scorer, options=options)], out=tmp_path / "run")
    name = f"logged:by={scorer}" + (",values=binary" if binary else "")
    got = bounded(tmp_path / "run", name)
    assert got.quantity == ("leak probability" if binary else "mean leakage")


def test_several_scores_of_one_scorer_go_by_their_keys(tmp_path: Path) -> None:
    both = [{"truth": 1, "style": 0.5}, {"truth": 0, "style": 0.25}]
    import_run([log(tmp_path, *both)], out=tmp_path / "run")
    assert bounded(tmp_path / "run", "logged:by=judge/style").value == 0.375
    assert not read(log(tmp_path, [1, 0])).scores


def test_scores_outside_the_range_are_refused_and_may_be_left_out(tmp_path: Path) -> None:
    file, out = log(tmp_path, 1, 7), tmp_path / "run"
    outside = "scores must be in [0, 1], got 7.0 of 'judge' at question 'q'"
    refused(leakbound("import", file, "--out", out), outside, "--scores none")
    assert not out.exists()
    misspelt = leakbound("import", file, "--out", out, "--scores", "jugde")
    refused(misspelt, "the files have no score 'jugde'")
    done("import", file, "--out", out, "--scores", "none")
    assert leakbound("bound", out).status == 2  # there are no files yet


def changed(file: Path, choices: dict[int, dict[str, Any]], **output: Any) -> Path:
    """The log with other stop reasons, and no text, in these places."""
    content = json.loads(file.read_text())
    for i, choice in choices.items():
        message = {"role": "assistant", "content": ""}
        content["samples"][i]["output"] = {"choices": [{"message": message, **choice}], **output}
    file.write_text(json.dumps(content))
    return file


def test_a_missing_answer_has_no_score(tmp_path: Path) -> None:
    """A scorer of inspect_ai gives an output that a filter emptied an I, and a judge may too."""
    reasons = {2: "content_filter", 3: "tool_calls", 4: "max_tokens"}
    file = log(tmp_path, *"CIICI", scorer="includes")
    import_run(
        [changed(file, {i: {"stop_reason": reason} for i, reason in reasons.items()})],
        out=tmp_path / "run",
    )
    got = bounded(tmp_path / "run", "logged:by=includes,values=binary")
    assert (got.n, got.missing, got.value) == (5, 3, 0.5)


def test_a_certificate_does_not_pass_on_outputs_that_were_all_thought(tmp_path: Path) -> None:
    """The budget of every output went into reasoning, of which no text is logged."""
    cut = {i: {"stop_reason": "max_tokens"} for i in range(64)}
    usage = {"output_tokens": 4096, "reasoning_tokens": 4096}
    file = changed(log(tmp_path, *"I" * 64, scorer="includes"), cut, usage=usage)
    out = tmp_path / "run"
    import_run([file], out=out)
    got = bounded(out, "logged:by=includes,values=binary")
    assert (got.lower, got.upper, got.missing) == (0, 1, 64)
    assert leakbound("certify", out, "--max-leak", "0.05").status == 5


def test_repeats_of_lm_eval_have_a_score_each(tmp_path: Path) -> None:
    got = read(REPEATS)
    assert set(got.scores) == {f"mean_leakage{end}@every-repeat" for end in ("", "_upper")}
    import_run([REPEATS], out=tmp_path / "run")
    done("bound", tmp_path / "run")
    wanted = LEAKAGE | {"scorer": "logged:by=mean_leakage@every-repeat", "scope": "query"}
    got = Run.open(tmp_path / "run").estimates.where(**wanted)
    values = {row.query_id: row.value for row in got}
    given = [json.loads(line) for line in REPEATS.read_text().splitlines()]
    assert values == {
        str(row["doc_id"]): pytest.approx(sum(row["mean_leakage"]) / len(row["mean_leakage"]))
        for row in given
    }


def test_one_score_of_all_repeats_is_no_score_of_a_draw(tmp_path: Path) -> None:
    real = json.loads(REPEATS.read_text().splitlines()[0])
    plain = {"filter": "none", "metrics": ["exact_match"]}
    file = tmp_path / "samples_x_2026-11-21T08-08-29.jsonl"
    file.write_text(json.dumps({**real, **plain, "exact_match": 1.0}))
    got = read(file)
    assert got.scores == {}
    says = "left out of `samples_x_2026-11-21T08-08-29.jsonl`: scores that are not per repeat"
    assert says in got.file.note
    single = {"resps": [["Paris"]], "exact_match": 1.0}
    file.write_text(json.dumps({**real, **plain, **single}))
    got = read(file)
    assert got.scores == {"exact_match": True}
    assert got.file.binary("exact_match")
    assert got.draws == {"0": [drawn("Paris", (("exact_match", 1.0),))]}


def test_lines_may_have_texts_and_scores(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    rows = [
        {"id": "q", "question": "Where?", "completion": text, "scores": {"human": score}}
        for text, score in (("a", 0.5), ("b", None), ("c", 1))
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    import_run([file], out=tmp_path / "run")
    got = bounded(tmp_path / "run", "logged:by=human")
    assert (got.value, got.missing) == (0.75, 1)


def test_without_texts_no_other_scorer_has_scores(tmp_path: Path) -> None:
    scores = tmp_path / "scores.jsonl"
    scores.write_text(json.dumps({"id": "q", "scores": {"rouge-l-recall": 0.5}, "count": 4}))
    run = import_run([scores], out=tmp_path / "run")
    assert bounded(run.path, "rouge-l-recall").value == 0.5
    with pytest.raises(InputError, match=r"version 2 .* because the texts were redacted"):
        score_run(run, [make_scorer("refusal")])

"""Files of garak, promptfoo, lighteval and lm-evaluation-harness, recognised by content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import leakbound
from contents import drawn
from formats.reading import read
from leakbound import stats
from leakbound.errors import InputError
from leakbound.formats.importing import import_run

HITS = [3, 0]
N = 6


def attempt(seq: int, hits: int, probe: str = "lmrc.Sure", **more: Any) -> dict[str, Any]:
    """An attempt of garak whose first outputs trigger its detector; the last one failed."""
    texts = [f"yes {seq}" if i < hits else "no" for i in range(N - 1)]
    shown = [{"text": text, "lang": "en", "notes": {}} for text in texts]
    turns = [{"role": "user", "content": {"text": f"Is it so? {seq}"}}]
    return {
        "entry_type": "attempt", "status": 2, "seq": seq, "probe_classname": probe,
        "prompt": {"turns": turns}, "outputs": [*shown, None],
        "detector_results": {"any.Yes": [*[float(i < hits) for i in range(N - 1)], None]},
        "conversations": [
            {"turns": [*turns, {"role": "assistant", "content": one}]} for one in shown
        ],
        **more,
    }  # fmt: skip


def report(path: Path, *attempts: dict[str, Any], ended: bool = True) -> Path:
    setup = {
        "entry_type": "start_run setup", "_config.version": "0.17.1", "run.generations": N,
        "plugins.target_type": "test", "plugins.target_name": "known", "run.seed": None,
    }  # fmt: skip
    begun = [{**one, "status": 1, "detector_results": {}} for one in attempts]
    init = {"entry_type": "init", "garak_version": "0.17.1"}
    rows = [setup, init, *begun, *attempts, *([{"entry_type": "completion"}] if ended else [])]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def result(land: str, failed: bool, i: int, **more: Any) -> dict[str, Any]:
    return {
        "prompt": {"raw": f"What is the capital of {land}?", "label": "x"},
        "provider": {"id": "known"}, "response": {"output": "Rome" if failed else "Paris"},
        "success": not failed, "failureReason": int(failed), "testIdx": i, "vars": {"land": land},
        "testCase": {"vars": {"land": land}, "assert": [{"type": "contains", "value": "Paris"}]},
        **more,
    }  # fmt: skip


def promptfoo(path: Path, rows: list[dict[str, Any]]) -> Path:
    log = {
        "evalId": "eval-x", "results": {"version": 3, "results": rows},
        "config": {"description": "capitals"}, "metadata": {"promptfooVersion": "0.121.20"},
    }  # fmt: skip
    path.write_text(json.dumps(log))
    return path


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def imported(path: Path, tmp_path: Path, *, scorer: str = "", **how: Any) -> Any:
    run = import_run([path], out=tmp_path / "run", **how)
    if scorer:
        leakbound.score(run, [scorer])
    leakbound.bound(run, [scorer] if scorer else ())
    return run


def test_a_report_of_garak(tmp_path: Path) -> None:
    rows = [attempt(i, hits) for i, hits in enumerate(HITS)]
    run = imported(report(tmp_path / "garak.report.jsonl", *rows), tmp_path)
    assert [one.id for one in run.prompts] == ["lmrc.Sure/0", "lmrc.Sure/1"]
    each = run.estimates.each("mean leakage", scorer="logged:by=any.Yes")
    assert [row.value for row in each] == [hits / (N - 1) for hits in HITS]
    leakbound.score(run, ["logged:by=any.Yes>=0.5"])
    leakbound.bound(run, ["logged:by=any.Yes>=0.5"])
    each = run.estimates.each("leak probability", scorer="logged:by=any.Yes>=0.5")
    want = stats.bound(stats.Rows.of_hits(HITS, N, 1), confidence=0.99, side="both")
    assert [row.upper for row in each] == want.upper.tolist()
    assert [row.missing for row in each] == [1, 1]
    assert "garak 0.17.1" in run.arms["target"].spec.draws.sampled_by


def test_probes_of_other_detectors_are_imported_one_at_a_time(tmp_path: Path) -> None:
    other = attempt(0, 2, "dan.Other", detector_results={"any.Other": [0.0] * N})
    path = report(tmp_path / "r.report.jsonl", attempt(0, 3), other)
    with pytest.raises(InputError, match=r"The probes are dan.Other, lmrc.Sure"):
        import_run([path], out=tmp_path / "x")
    run = imported(path, tmp_path, form="garak:lmrc.Sure")
    assert [one.id for one in run.prompts] == ["lmrc.Sure/0"]
    with pytest.raises(InputError, match=r"no attempt of probe 'lmrc\.Sur', only dan"):
        import_run([path], out=tmp_path / "y", form="garak:lmrc.Sur")


def test_attempts_without_detector_results_are_read(tmp_path: Path) -> None:
    last = attempt(1, 2, status=1, detector_results={})
    path = report(tmp_path / "r.report.jsonl", attempt(0, 3), last)
    log = read(path)
    assert [*map(len, log.draws.values())] == [N, N]
    assert [draw and draw.scores for draw in log.draws["lmrc.Sure/1"]] == [()] * (N - 1) + [None]
    notes = imported(path, tmp_path).arms["target"].usage.notes
    assert "of 10 outputs in `r.report.jsonl`, some have no score: 5 by any.Yes" in notes


def test_a_report_of_an_older_garak_scores_answered_outputs_only(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    old = {"prompt": "Is it so?", "outputs": ["yes", None, "no"], "conversations": None}
    given: list[list[float | None]] = [[1.0, 0.0], [1.0, None, 0.0], [1.0]]
    rows = [
        attempt(i, 0, detector_results={"any.Yes": scores}, messages=[talk] * 3, **old)
        for i, scores in enumerate(given)
    ]
    log = read(report(tmp_path / "r.report.jsonl", *rows))
    scored = [drawn("yes", (("any.Yes", 1.0),)), None, drawn("no", (("any.Yes", 0.0),))]
    unscored = [drawn("yes"), None, drawn("no")]
    assert [draws[:3] for draws in log.draws.values()] == [scored, scored, unscored]
    assert log.questions["lmrc.Sure/0"].text == "Is it so?"


def test_an_empty_prompt_is_a_question(tmp_path: Path) -> None:
    blank = {"turns": [{"role": "user", "content": {"text": ""}}]}
    rows = [attempt(i, 2, "test.Blank", prompt=blank) for i in range(2)]
    run = imported(report(tmp_path / "r.report.jsonl", *rows), tmp_path)
    assert [one.question for one in run.prompts] == ["(empty prompt)"] * 2


def test_repeats_of_promptfoo_are_draws_of_a_test(tmp_path: Path) -> None:
    rows = [result("France", i < 2, i) for i in range(5)]
    rows += [result("Spain", True, 5 + i) for i in range(4)]
    rows += [result("Spain", False, 9, failureReason=2, error="lost", response={})]
    run = imported(promptfoo(tmp_path / "out.json", rows), tmp_path)
    each = run.estimates.each("leak probability", scorer="logged:by=failed,values=binary")
    want = stats.bound(stats.Rows.of_hits([2, 4], 5, [0, 1]), confidence=0.99, side="both")
    assert [row.lower for row in each] == want.lower.tolist()
    assert [row.upper for row in each] == want.upper.tolist()


def test_older_layouts_of_promptfoo_and_its_lines_are_read(tmp_path: Path) -> None:
    rows = [result("France", i < 2, i) for i in range(3)]
    new = read(promptfoo(tmp_path / "new.json", rows)).draws
    (tmp_path / "new.jsonl").write_text(
        "\n".join(json.dumps(row | {"promptIdx": 0}) for row in rows)
    )
    for row in rows:
        del row["testCase"], row["failureReason"]
    old = {"results": {"version": 2, "results": rows, "table": {}}, "config": {}}
    (tmp_path / "old.json").write_text(json.dumps(old))
    (tmp_path / "summary.json").write_text(json.dumps(old["results"]))
    assert new == read(tmp_path / "new.jsonl").draws == read(tmp_path / "old.json").draws
    assert new == read(tmp_path / "summary.json", "promptfoo").draws


def test_details_of_lighteval_are_scored_by_their_right_choices(tmp_path: Path) -> None:
    rows = [
        {
            "doc": {
                "id": str(i), "query": f"{i}?", "choices": ["Rome", "Paris"], "gold_index": [1],
                "instruction": None, "task_name": "capitals|0",
            },
            "model_response": {"text": ["It is Paris"] * hits + ["Rome"] * (N - hits)},
            "metric": {"em": 0.5},
        }
        for i, hits in enumerate(HITS)
    ]  # fmt: skip
    path = table(tmp_path / "details_capitals|0_2026.parquet", rows)
    run = imported(path, tmp_path, scorer="contains")
    each = run.estimates.each("leak probability", scorer="contains")
    assert [row.value for row in each] == [hits / N for hits in HITS]


TWO_TURNS = attempt(0, 1, conversations=[{"turns": [{"role": "assistant"}] * 2}])
PROVIDERS = [result("France", True, 0, provider={"id": "other"}), result("France", True, 1)]
CACHED = result("France", True, 0, response={"output": "x", "cached": True})


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda p: report(p / "a.report.jsonl", attempt(0, 1), ended=False), "is from 0.17.1"),
        (lambda p: report(p / "a.report.jsonl", TWO_TURNS), "2 turns of the model in attempt lmrc"),
        (lambda p: promptfoo(p / "o.json", PROVIDERS), "one provider, got known, other"),
        (lambda p: promptfoo(p / "o.json", [CACHED]), "--no-cache"),
        (lambda p: promptfoo(p / "o.json", [{"prompt": {}}]), "cannot be read: it has no 'provid"),
        (lambda p: table(p / "x.parquet", [{"a": 1}]), "`lighteval`, cannot be read: it has no"),
    ],
)  # fmt: skip
def test_files_without_valid_bounds_are_refused(tmp_path: Path, make: Any, why: str) -> None:
    with pytest.raises(InputError) as error:
        import_run([make(tmp_path)], out=tmp_path / "run")
    assert why in str(error.value)


LOGS = Path(__file__).parent / "logs"
REAL = LOGS / "samples_capitals_leakage_2026-11-21T08-08-29.450301.jsonl"


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    """Write the first row of the real file with these changes."""
    real = json.loads(REAL.read_text().splitlines()[0])
    file = folder / "samples_mine_2026-11-21T08-08-29.jsonl"
    file.write_text("\n".join(json.dumps({**real, **row}) for row in rows))
    return file


def arguments(**settings: Any) -> dict[str, Any]:
    return {"gen_args_0": {"arg_0": "Who?", "arg_1": settings}}


def test_a_real_file() -> None:
    log = read(REAL)
    assert (log.tool, log.model) == ("lm-evaluation-harness 0.4.13", "mock")
    assert (log.task, log.ordered) == ("capitals_leakage", True)
    assert [*log.questions] == ["0", "1", "2"]
    first = log.questions["0"]
    assert (first.text, first.answers) == ("What is the capital of France?", ("Paris",))
    texts = ["Paris", "No idea 1", "Paris", "No idea 7", "No idea 6", "No idea 1"]
    assert [draw and draw.output.answer for draw in log.draws["0"]] == texts
    assert (log.decoding.name, log.decoding.max_new_tokens) == ("T=1", 64)
    assert not log.decoding.unknown


CHAT = [{"role": role, "content": role} for role in ("system", "user", "assistant")]


def chat(put: object) -> dict[str, Any]:
    return {"arguments": {"gen_args_0": {"arg_0": put, "arg_1": {}}}}


@pytest.mark.parametrize(
    ("row", "heat", "stop", "question", "answers"),
    [
        ({"arguments": arguments(do_sample=False, temperature=1.0)}, 0.0, (), "Who?", ("Paris",)),
        ({"arguments": arguments(temperature=0.0)}, 0.0, (), "Who?", ("Paris",)),
        ({"arguments": arguments(do_sample=True)}, None, (), "Who?", ("Paris",)),
        ({"arguments": arguments(until="\n")}, None, ("\n",), "Who?", ("Paris",)),
        ({"arguments": arguments(until=["", "."])}, None, (".",), "Who?", ("Paris",)),
        (chat(CHAT), None, (), "user", ("Paris",)),
        (chat([json.dumps(CHAT)]), None, (), "user", ("Paris",)),
        (chat("Who?") | {"target": "['Ann', 'Anna']"}, None, (), "Who?", ("Ann", "Anna")),
        (chat("Who?") | {"target": "[sic]"}, None, (), "Who?", ("[sic]",)),
        (chat("Who?") | {"target": "None"}, None, (), "Who?", ()),
    ],
)
def test_what_a_row_of_lm_eval_states(
    tmp_path: Path, row: Any, heat: float | None, stop: Any, question: str, answers: Any
) -> None:
    """Without `do_sample` and a temperature the decoding is unknown."""
    log = read(written(tmp_path, row))
    assert (log.questions["0"].text, log.questions["0"].answers) == (question, answers)
    assert (log.stated.get("temperature"), log.decoding.stop) == (heat, stop)
    assert set(log.decoding.unknown) >= {"top_k", "top_p", "max_new_tokens"}


def test_rows_of_other_filters_are_the_same_draws(tmp_path: Path) -> None:
    rows = [{}, {"filter": "strict", "filtered_resps": [["x"]]}]
    log = read(written(tmp_path, *rows))
    assert [*map(len, log.draws.values())] == [6]
    assert read(written(tmp_path, *rows, {})).draws == log.draws


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([{"resps": [[["-1.2", "False"]]]}], "row 1 .*'resps' with one list of texts, got .* a li"),
        ([{"resps": [[]]}], "row 1 .*'resps' with one list of texts"),
        ([{}, {"arguments": arguments()}], "another prompt or other responses"),
        ([{}, {"resps": [["other"]]}], "row 2 .* same document as row 1 .* other responses"),
        ([{}, {"doc_id": 1, "arguments": arguments(top_p=0.5)}], "draws must be of one model unde"),
    ],
)
def test_what_is_no_sample_is_named(tmp_path: Path, rows: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(InputError, match=why):
        read(written(tmp_path, *rows))


def test_a_damaged_file_of_results_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, {})
    assert (read(file).model, read(file).tool) == ("unnamed", "lm-evaluation-harness")
    (tmp_path / "results_2026-11-21T08-08-29.json").write_text("{")
    with pytest.raises(InputError, match=r"results_.* is not valid JSON"):
        read(file)

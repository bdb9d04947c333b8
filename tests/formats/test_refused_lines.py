"""JSON lines that cannot be imported: the message names row, value and fix, and nothing is left."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cli.commands import leakbound
from leakbound.errors import InputError
from leakbound.formats.importing import import_run

ROW = {"id": "a", "question": "Who?", "answer": "Ann", "completion": "Ann did.", "temperature": 1}
NO_TEXT: dict[str, Any] = {"question": ..., "answer": ..., "completion": ...}
SCORED = NO_TEXT | {"scores": {"contains": 1}}
GREEDY = {"temperature": 0}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([[{"completion": math.nan}]], "must be text, or null .* got nan in row 1"),
        ([[{"completion": ...}]], "row 1 .* has no 'completion'.*with null"),
        ([[{"counts": 200}]], "row 1 .* has a column 'counts'. Rename it to 'count'"),
        ([[{"score": {"h": 1}}]], "row 1 .* has a column 'score'. Rename it to 'scores'"),
        ([[{"question": " "}]], "row 1 .* has no 'question'"),
        ([[{"adaptive_temperature": 0.5, "adaptive_mode": "x"}]], "`adaptive_mode` must be .* 'x'"),
        ([[{"filter": "off"}]], "`filter` must be 'missing' or 'part-of-system', got 'off'"),
        ([[{"finish": "ended"}]], "'finish' must be one of stop, .*, got 'ended' in row 1"),
        ([[{"refused": "no"}]], "'refused' must be true or false, got a text in row 1"),
        ([[{"hidden": "false"}]], "'hidden' must be true or false, got 'false' in quotes in row 1"),
        ([[{"stop": "x"}]], "'stop' must be a list of texts, got a text in row 1"),
        ([[{}, {"scores": {"h": "good"}}]], "'scores' must be an object of finite .* in row 2"),
        ([[{}, {"question": "Why?"}]], "row 2 .* same id 'a' as row 1 .* another question"),
        ([[{}, {"temperature": 0.5}]], "`temperature` is 1 in row 1 .* and 0.5 in row 2"),
        ([[{}, SCORED]], "row 2 .* has no 'question', only 'id'"),
        ([[SCORED, {}]], "row 1 .* has no 'question', only 'id'"),
        ([[NO_TEXT]], "has no 'completion' and no 'scores'"),
        ([[NO_TEXT | {"scores": {"contains": 0.5}}]], "scores by 'contains' must be 0 or 1"),
        ([[{}], [SCORED]], "one contains texts and the other only scores"),
        ([[{}], [{"top_p": 0.5}]], r"`top_p` is None in `.*0.jsonl` and 0.5 in `.*1.jsonl`"),
        ([[{}], [{"model": "z"}]], "`model` is 'unnamed' in .* and 'z' in"),
        ([[{}], [{"question": "Why?"}]], r"1.jsonl` has the same id .* as row 1"),
        ([[{}], [{}]], "are the same file or copies"),
        ([[GREEDY]], "has only greedy samples"),
        ([[{}], [GREEDY | {"id": "x"}]], "have different questions"),
        ([], "no file to import"),
    ],
)
def test_what_cannot_be_imported_is_refused_and_leaves_nothing(
    tmp_path: Path, files: list[list[dict[str, Any]]], message: str
) -> None:
    for i, rows in enumerate(files):
        whole = [{k: v for k, v in (ROW | row).items() if v is not ...} for row in rows]
        (tmp_path / f"{i}.jsonl").write_text("\n".join(map(json.dumps, whole)))
    out, paths = tmp_path / "run", [tmp_path / f"{i}.jsonl" for i in range(len(files))]
    with pytest.raises(InputError, match=message):
        import_run(paths, out=out)
    assert not out.exists()


def test_a_form_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(json.dumps(ROW | GREEDY))
    for name, form, shown in (
        ("run.txt", None, "cannot detect the format"),
        ("s.jsonl", "inspect", "is not valid JSON|cannot be read"),
    ):
        with pytest.raises(InputError, match=shown):
            import_run([tmp_path / name], out=tmp_path / "run", form=form)
    assert leakbound("import", tmp_path / "s.jsonl", "--out", tmp_path / "run").status == 2

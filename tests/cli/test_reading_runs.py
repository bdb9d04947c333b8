"""Commands that read a run rename nothing, and show no result of other files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
from commands import Result, Words, done, leakbound, refused, tree

from leakbound.evaluation import bound
from leakbound.store import Run, locked
from leakbound.store.current import code
from leaky import file_of

READERS = {
    "score": "score {run}",
    "bound": "bound {run}",
    "report": "report {run} --out {out}/page.html",
    "report --json": "report {run} --out {out}/page.html --json",
    "certify": "certify {run} --max-leak 0.5 --scorer keyword",
    "metrics": "evaluate {run} --only metrics --metrics extraction_strength",
    "export": "export {run} {out}/x.jsonl --jsonl",
    "export --redact": "export {run} {out}/x.jsonl --jsonl --redact",
}
SHOW = ("report", "report --json", "export --redact")


def read(name: str, run: Path, out: Path) -> Result:
    return leakbound(*READERS[name].format(run=run, out=out).split())


@pytest.mark.parametrize("name", READERS)
def test_a_part_that_is_damaged_or_missing_is_named(name: str, run: Path, tmp_path: Path) -> None:
    part = file_of(run)
    part.write_bytes(part.read_bytes()[:-50])
    before = tree(run)
    result = read(name, run, tmp_path)
    assert result.status in (2, 3)
    assert f"`{part}`" in result.err
    assert "run the sampling command again" in result.err
    assert tree(run) == before
    part.unlink()
    named = ("arm 'target'", str(run), "lacks 1 of 1 parts", "Run its sampling command again")
    refused(read(name, run, tmp_path), *named, status=3)
    assert tree(run).items() <= before.items()


def test_estimates_of_other_scores_are_not_shown(
    evaluating: Words, finished: Path, control: Path, tmp_path: Path
) -> None:
    """The estimates of one model are in the run of another model."""
    mixed = tmp_path / "run"
    done("evaluate", control, *evaluating[2:], mixed)
    shutil.copy(finished / "estimates.parquet", mixed)
    says = f"the estimates of `{mixed}` were not computed from the current scores of"
    for name in SHOW:
        refused(read(name, mixed, tmp_path), says, "leakbound bound")
    assert not (tmp_path / "page.html").exists()
    bound(Run.open(mixed))
    for name in SHOW:
        assert read(name, mixed, tmp_path).status == 0


@pytest.mark.slow
def test_the_fix_makes_the_same_estimates_again(run: Path) -> None:
    shown = done("bound", run, "--scorer", "keyword", "--confidence", 0.9).out
    assert all(f"individually at {sure} % confidence" in shown for sure in (90, 99))
    before = Run.open(run).estimates
    for file in run.glob("arms/target/scores/*.parquet"):
        file.unlink()
    seen = leakbound("report", run).err
    both = f"`leakbound score {run} --scorer keyword --scorer rouge-l-recall`, then "
    own = f"`leakbound bound {run} --scorer keyword --confidence 0.9`, then "
    assert f"{both}{own}`leakbound bound {run} --scorer rouge-l-recall --confidence 0.99`." in seen
    done("score", run, "--scorer", "keyword", "--scorer", "rouge-l-recall")
    done("bound", run, "--scorer", "keyword", "--confidence", 0.9)
    done("bound", run, "--scorer", "rouge-l-recall")
    assert Run.open(run).estimates == before


def test_damaged_scores_are_named_for_any_scorers(run: Path) -> None:
    file = file_of(run, "scores", "rouge-l-recall*")
    file.write_bytes(file.read_bytes()[:-9])
    before = tree(run)
    for command in (("bound",), ("bound", "--scorer", "keyword"), ("report",)):
        refused(leakbound(*command, run), f"`{file}`", "leakbound score")
    assert tree(run) == before
    done("score", run)
    done("report", run)


def test_damaged_estimates_are_named_and_made_again(run: Path, tmp_path: Path) -> None:
    estimates, file = Run.open(run).estimates, run / "estimates.parquet"
    file.write_bytes(file.read_bytes()[:-9])
    refused(leakbound("report", run), f"`{file}`", "Run `leakbound bound` again")
    assert f"`{file}` is not a complete Parquet file" in done("bound", run, "--json").err
    assert Run.open(run).estimates == estimates
    other = {**code(), "sha256": "0" * 64}
    with patch("leakbound.store.current.code", lambda: other):
        refused(read("report", run, tmp_path), "computed by different code", "leakbound bound")


NO_GRID = "this figure needs a run with lists of --temperature and --top-p"


def test_the_list_of_figures_of_a_run(finished: Path) -> None:
    wanted = ("figures", finished, "--list", "--json", "--scorer", "rouge-l-recall")
    table = done(*wanted).json
    given = {row["figure"]: row["given"] for row in table}
    assert given["tail"] == "yes"
    assert given["grid"] == f"no: {NO_GRID}"
    plain = done("figures", "--list").out
    assert all(name in plain for name in given)


def test_show_reports_on_a_run_in_progress(leaky: Path) -> None:
    for file in ("estimates.parquet", "arms/target/completions/part-00000.parquet"):
        (leaky / file).unlink()
    shutil.rmtree(leaky / "arms" / "target" / "scores")
    before = tree(leaky)
    result = leakbound("show", leaky)
    assert result.status == 3
    assert result.out.startswith("in progress: 1 of 2 parts, 0.4 %; no running command is known")
    assert re.search(r"^target +0 of 1 +0 of 768$", result.out, re.M)
    assert "These bounds stay valid if you look repeatedly" in result.out
    assert "target, keyword: nothing is drawn yet." in result.out
    assert "lacks 1 of 1 parts of its draws. Run its sampling command again" in result.err
    with locked(leaky, "evaluate"):
        kept = leakbound("show", leaky, "--json")
    assert (kept.status, kept.err) == (3, "")
    assert kept.json["progress"]["holder"]["command"] == "evaluate"
    assert kept.json["progress"]["bounds"][0]["questions"] == []
    assert tree(leaky) == before


def test_show_reports_on_a_drawn_run_only_while_a_command_is_at_work(leaky: Path) -> None:
    (leaky / "estimates.parquet").unlink()
    refused(leakbound("show", leaky), "has no estimates. Run `leakbound bound` first")
    with locked(leaky, "bound"):
        kept = leakbound("show", leaky)
    assert kept.status == 3
    assert "in progress: 2 of 2 parts, 100.0 %; running: `leakbound bound` (pid" in kept.out
    assert "target, keyword: all 3 questions have draws. The worst question leaks with" in kept.out


def test_report_of_a_folder_writes_its_index(leaky: Path, tmp_path: Path) -> None:
    (tmp_path / "wreck").mkdir()
    (tmp_path / "wreck" / "run.json").write_text("{")
    printed = done("report", tmp_path)
    assert re.search(r"^leaky +complete +0\.\d+ \[0\.\d+, 0\.\d+\] +[\d,]+ OF", printed.out, re.M)
    assert re.search(r"^wreck +damaged ", printed.out, re.M)
    assert printed.out.splitlines()[-1] == f"index: {tmp_path / 'index.html'}"
    plain = done("report", tmp_path, "--redact", "--json").json
    assert plain["index"] == str(tmp_path / "index-redacted.html")
    leaks, wreck = plain["runs"]
    assert (leaks["state"], leaks["page"]) == ("complete", str(leaky / "report-redacted.html"))
    assert leaks["verdict"]["kind"] == "uncontrolled"
    assert (wreck["state"], wreck["page"], wreck["verdict"]) == ("damaged", None, None)

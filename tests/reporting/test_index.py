"""The index of a folder: its rows, its links to pages, and comparisons."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import time
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote_to_bytes

import pytest
from opened import Page
from shelves import ReadIndex, engine, fill, text_of

import leakbound
from canned_runs import CannedEngine, laws, rewritten_benchmark, rewritten_engine
from leakbound import compare
from leakbound.certificate import certify
from leakbound.errors import InputError
from leakbound.evaluation import evaluate
from leakbound.formats.exporting import export
from leakbound.plotting import figures
from leakbound.presenting.verdict import Kind
from leakbound.reporting import index as indexes
from leakbound.reporting.details import unpacked
from leakbound.reporting.index import write_index
from leakbound.reporting.page import report, write_report
from leakbound.store import Run
from leakbound.study import Rewritings
from report_runs import LEAKED, unfinish, who

pytestmark = pytest.mark.usefixtures("undrawn")
HOSTILE = "<img src=x onerror=alert(1)> \u202e\u2028&amp;"


def indexed(folder: Path, **how: Any) -> ReadIndex:
    return ReadIndex(write_index(folder, **how))


def test_every_run_has_a_row_and_every_complete_run_its_page(shelf: Path, tmp_path: Path) -> None:
    unfinish(Path(shutil.copytree(shelf / "full", shelf / "half")))
    (shelf / "wreck").mkdir()
    (shelf / "wreck" / "run.json").write_text("{")
    read = indexed(shelf)
    assert read.index.path == shelf / "index.html"
    assert [run.name for run in read.index.runs] == ["full", "half", "npo/run", "wreck"]
    assert re.search(
        r"full CannedEngine [\d,]+ OF 512 DRAWS LEAK \(no control: leaks by chance are included\) "
        r"0\.\d{2} \[0\.\d{2}, 0\.\d{2}\] mine 256 draws per question complete 20",
        read.row("full"),
    )
    assert "arm 'target' lacks" in read.row("half")
    assert re.search(r"in progress 1 of 2 parts, \d\.\d % 20", read.row("half"))
    assert "is not JSON" in read.row("wreck")
    assert "wreck" not in read.links()
    assert read.links() == {"full": "full/report.html", "npo/run": "npo/run/report.html"}
    page = write_report({"run": Run.open(shelf / "npo" / "run")}, tmp_path / "report.html")
    assert (shelf / read.links()["npo/run"]).read_text() == page.read_text()
    assert LEAKED not in read.html


def test_the_index_loads_nothing_and_is_whole(shelf: Path) -> None:
    index = write_index(shelf)
    (made,) = index.comparisons
    for file in (index.path, made.page):
        page = Page(file.read_text())
        assert page.unclosed == []
        assert not [attributes for _, attributes in page.elements if "src" in attributes]
        assert page.named("link") == []
        links = [str(attributes["href"]) for attributes in page.named("a")]
        assert all(re.fullmatch(r"#main|[\w./-]+\.html", link) for link in links)
        policy = unescape(str(page.named("meta")[3]["content"]))
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        for kind in ("style", "script"):
            for text in re.findall(rf"<{kind}[^>]*>(.*?)</{kind}>", file.read_text(), re.S):
                digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
                assert f"'sha256-{digest}'" in policy
    assert (made.page, made.runs) == (shelf / "comparison-1.html", ("full", "npo/run"))
    same = compare({name: Run.open(shelf / name) for name in made.runs})
    shown = text_of(made.page.read_text())
    assert same.opening in shown
    for table in same.tables():  # as the command shows them
        assert table.title in shown
        assert all(" ".join(" ".join(row).split()) in shown for row in table.texts)


def test_only_outdated_pages_are_written(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written() -> dict[str, int]:
        time.sleep(0.005)  # timestamps of files may have coarse ticks
        write_index(shelf)
        pages = shelf.rglob("report.html")
        return {page.parent.name: page.stat().st_mtime_ns for page in pages}

    first = written()
    assert written() == first
    certify(Run.open(shelf / "full"), max_leak=0.5)
    second = written()
    assert second["full"] > first["full"]
    assert second["run"] == first["run"]
    monkeypatch.setattr(leakbound, "__version__", "9")
    assert all(when > second[name] for name, when in written().items())
    (shelf / "full" / "report.html").unlink()
    (shelf / "full" / "report.html").symlink_to(shelf.parent / "elsewhere")
    assert written()
    assert not (shelf / "full" / "report.html").is_symlink()


def test_only_outdated_comparisons_are_made(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []

    def counted(runs: dict[str, Run]) -> Any:
        calls.append(tuple(runs))
        return compare(runs)

    monkeypatch.setattr(indexes, "compare", counted)
    for _ in range(2):
        write_index(shelf)
    assert [{*names} for names in calls] == [{"full", "npo/run"}]
    (shelf / "full" / "utility.json").write_text("{}")
    write_index(shelf)
    assert len(calls) == 2
    (shelf / "npo").rename(shelf / "entropy")
    write_index(shelf)
    assert [{*names} for names in calls[2:]] == [{"full", "entropy/run"}]


def test_an_error_in_one_page_leaves_the_others(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = indexes.report

    def faulty(run: Run, **how: Any) -> Path:
        if run.path.name == "full":
            raise ZeroDivisionError("by zero")
        return report(run, **how)

    monkeypatch.setattr(indexes, "report", faulty)
    read = indexed(shelf)
    note = "`full` has no page: an unexpected error occurred (ZeroDivisionError: by zero)"
    assert note in read.index.notes
    assert note in text_of(read.html)
    assert list(read.links()) == ["npo/run"]
    assert "complete" in read.row("full")


def test_only_runs_of_the_same_questions_are_compared_and_no_copy(shelf: Path) -> None:
    for name in ("other", "another"):
        evaluate(engine(0.2, name), who("a"), out=shelf / name, n=32)
    shutil.copytree(shelf / "full", shelf / "copies" / "run")
    index = write_index(shelf)
    compared = {frozenset(made.runs) for made in index.comparisons}
    assert frozenset({"another", "other"}) in compared
    assert len(compared) == 2
    (note,) = index.notes
    assert re.fullmatch(
        r"`(copies/run|full)` is not compared, because .* draws as `(full|copies/run)`\.", note
    )


def test_runs_that_cannot_be_compared_are_noted(shelf: Path) -> None:
    evaluate(engine(0.2, "more"), who(*"ab"), out=shelf / "more", n=32, scorers=["contains"])
    read = indexed(shelf)
    assert read.index.comparisons == ()
    (note,) = read.index.notes
    assert note.startswith("`full`, `npo/run`, `more` are not compared: no scorer has estimates")
    assert note in text_of(read.html)
    assert len(read.links()) == 3


def test_a_redacted_index_links_only_to_redacted_pages(shelf: Path) -> None:
    read = indexed(shelf, redact=True)
    assert read.index.path == shelf / "index-redacted.html"
    assert set(read.links().values()) == {
        "full/report-redacted.html", "npo/run/report-redacted.html"
    }  # fmt: skip
    (made,) = read.index.comparisons
    assert made.page.name == "comparison-1-redacted.html"
    pages = [shelf / address for address in read.links().values()]
    for page in (read.index.path, made.page, *pages):
        assert LEAKED not in page.read_text()
    assert "who is a?" not in made.page.read_text()
    assert indexed(shelf).index.path == shelf / "index-redacted.html"  # as before
    Run.open(shelf / "full").redact(False)
    read = indexed(shelf)
    assert read.index.path == shelf / "index.html"
    assert read.links()["full"] == "full/report.html"
    assert read.index.comparisons[0].page.name == "comparison-1-redacted.html"
    read = indexed(shelf, redact=False)
    assert read.links()["npo/run"] == "npo/run/report.html"
    assert "who is a?" in read.index.comparisons[0].page.read_text()
    notes = write_index(shelf, redact=True).notes
    older = "report.html` was written before the redaction and contains the texts"
    assert any(older in note for note in notes)


def test_no_public_file_contains_a_redacted_question(tmp_path: Path) -> None:
    """No file that is written to be shared has a question, rewriting, answer or output."""
    shelf, task = tmp_path / "shelf", rewritten_benchmark()
    for name, leak in (("half", 0.5), ("less", 0.1)):
        how = {"out": shelf / name, "n": 16, "rewritings": Rewritings("benchmark")}
        run = evaluate(rewritten_engine(name, leak), task, scorers=["keyword"], **how)
        certify(run, max_leak=0.9)
    assert write_index(shelf, redact="questions").comparisons
    assert Run.open(run.path).redacted == "questions"
    write_report({"half": Run.open(shelf / "half"), "less": run}, shelf / "both.html")
    export(run, shelf / "draws.jsonl", form="jsonl", redact="questions")
    figures([run], shelf / "figures", only=("questions", "convergence"), formats=("svg",))
    texts = [query.text for query in run.queries] + [
        row.completion.answer for row in run.completions
    ]
    texts += [str(prompt.answer) for prompt in run.prompts]
    secret = {" ".join(text.split()).casefold() for text in texts}
    assert len(secret) > 10
    kinds = (".html", ".jsonl", ".svg", ".csv")
    public = [file for file in shelf.rglob("*") if file.suffix in kinds]
    public += shelf.rglob("certificate.json")
    assert len(public) > 10
    for file in public:
        text = file.read_text()
        read = " ".join(unescape(text + unpacked(text)).split()).casefold()
        assert [word for word in secret if word in read] == [], file
    named = replace(task, prompts=tuple(replace(p, id=p.question) for p in task.prompts))
    other = evaluate(CannedEngine("id", laws(named, 0.1)), named, out=tmp_path / "id", n=8)
    with pytest.raises(InputError, match="change the ids"):
        report(other, redact="questions")


def test_rows_are_sorted_and_filtered_by_verdict_and_number(tmp_path: Path) -> None:
    for name, leaks in (("loud", 0.5), ("clean", 0.0)):
        control = engine(0.0, "control")
        evaluate(engine(leaks, name), who(*"ab"), out=tmp_path / name, n=64, control=control)
    fill(tmp_path, n=64, alone=0.5)
    read = indexed(tmp_path)
    options = re.findall(r'<option value="([^"]+)">', read.html.partition('name="verdict"')[2])
    assert set(options) == set(get_args(Kind))
    for name, kind in (("loud", "leaks"), ("clean", "not shown"), ("alone", "uncontrolled")):
        number = Run.open(tmp_path / name).verdict.number
        (row,) = (row for row in read.rows if f">{name}<" in row)
        assert f'data-verdict="{kind}"' in row
        assert re.findall(r'data-label="(?:Verdict|Leakage)" data-value="([^"]*)"', row) == [
            str(options.index(kind)), str(number.value)
        ]  # fmt: skip
    assert "LEAKS on average and at the worst question" in read.row("loud")


def test_hostile_names_are_text(shelf: Path) -> None:
    root = shelf.rename(shelf.parent / f"runs {HOSTILE}")
    for name in (HOSTILE, "javascript:alert(1)", "a?b#c%20'\""):
        shutil.copytree(root / "full", root / name)
    unfinish(Path(shutil.copytree(root / "full", root / f"growing {HOSTILE}")))
    (root / f"wreck {HOSTILE}").mkdir()
    (root / f"wreck {HOSTILE}" / "run.json").write_text('{"</script><img src=x>": "\\u0000"}')
    shutil.copytree(bytes(root / "full"), bytes(root) + b"/odd \xff")
    evaluate(engine(0.2, "more"), who(*"ab"), out=root / f"more {HOSTILE}", n=32)
    read = indexed(root)
    (made,) = read.index.comparisons
    for file in (read.index.path, made.page):
        html = file.read_text(encoding="utf-8")
        assert "<img" not in html
        assert not {"\u202e", "\u2028"} & set(html)
        assert Page(html).unclosed == []
    assert len(read.rows) == 9
    assert "odd \\udcff" in read.html
    addresses = re.findall(r'<th scope="row"[^>]*><a href="([^"]*)"', read.html)
    assert len(addresses) == 6
    for address in addresses:
        assert re.fullmatch(r"[\w%/.~-]+", address)
        assert (root / os.fsdecode(unquote_to_bytes(address))).is_file()


def test_a_folder_without_runs_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "way out").symlink_to(Path(__file__).parent)
    with pytest.raises(InputError) as refusal:
        write_index(tmp_path)
    assert str(refusal.value) == (
        f"neither `{tmp_path}` nor a folder below it is a run directory: no run.json was found. "
        f"Make one with `leakbound evaluate … --out {tmp_path}/NAME`. "
        "`notes/way out` is a link and was not searched."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]

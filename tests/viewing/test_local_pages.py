"""What the local page shows: reports as they are written, comparisons, runs that grow."""

from __future__ import annotations

import csv
import io
import re
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from shelves import Got, ask, engine

from leakbound import compare
from leakbound.evaluation import bound, evaluate, score
from leakbound.evaluation.views.table import latex, markdown
from leakbound.reporting import write_report
from leakbound.store import Run, locked
from leakbound.text.rows import csv_of
from leakbound.viewing import catalogue, pages, serving
from leakbound.viewing.catalogue import Found, Listed, listed
from leaky import SECRET, benchmark
from report_runs import unfinish

HOSTILE = "<img src=x onerror=alert(1)> \u202e\u2028&amp;"


def made(url: str, path: str) -> Got:
    """A page, once it is made; until then one that asks again."""
    while "Refresh" in (found := ask(url, path)).headers:
        assert "goes on by itself" in found.text
        time.sleep(0.1)
    return found


def several(url: str, *names: str) -> str:
    """The query that names these runs."""
    listed = ask(url)
    return "&".join(f"run={listed.id(name)}" for name in names)


def test_a_report_is_the_one_that_is_written(page: str, kept: Path, tmp_path: Path) -> None:
    found = made(page, ask(page).link("npo/run"))
    written = write_report({"run": Run.open(kept / "npo" / "run")}, tmp_path / "report.html")
    assert found.text == written.read_text(encoding="utf-8")
    (own,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', found.text)
    assert found.headers["Content-Security-Policy"].startswith(own.replace("&#39;", "'"))


def test_a_report_is_made_once_and_anew_when_the_run_changes_and_says_so_meanwhile(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, calls = threading.Event(), []

    def counted(*args: object, **how: object) -> str:
        written.wait()
        calls.append(args)
        return f"report {len(calls)}"

    monkeypatch.setattr(pages, "report_html", counted)
    with serving(shelf) as url:
        link = ask(url).link("full")
        monkeypatch.setattr(pages, "WAIT", 0.0)
        first = ask(url, link)
        assert first.headers["Refresh"] == "1"
        assert "The report of full is being made" in first.read
        written.set()
        monkeypatch.setattr(pages, "WAIT", 60.0)
        assert [made(url, link).text for _ in range(3)] == ["report 1"] * 3
        bound(Run.open(shelf / "full"), confidence=0.9)
        assert ask(url, link).text == "report 2"


def test_the_list_waits_for_no_run(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes long is said to be read; once it was, it stands as it was meanwhile."""
    read = threading.Event()

    def slow(found: Found) -> Listed:
        read.wait()
        return listed(found)

    monkeypatch.setattr(pages, "listed", slow)
    monkeypatch.setattr(pages, "WAIT", 0.0)
    with serving(shelf) as url:
        assert [ask(url).row(name).split()[-2:] for name in ("full", "npo/run")] == [
            ["being", "read"]
        ] * 2
        read.set()
        monkeypatch.setattr(pages, "WAIT", 60.0)
        assert "complete" in ask(url).row("full")
        read.clear()
        monkeypatch.setattr(pages, "WAIT", 0.0)
        (shelf / "full" / "utility.json").write_text("{}")
        assert "complete" in ask(url).row("full")
        read.set()


def test_redaction_reaches_every_page(kept: Path) -> None:
    with serving(kept, redact=True) as url:
        report = made(url, ask(url).link("full"))
        assert "redacted" in report.text
        assert SECRET not in report.text
        query = several(url, "full", "npo/run")
        for path in ("", *(f"compare{form}?{query}" for form in ("", ".csv", ".md", ".tex"))):
            shown = made(url, path)
            assert "full" in shown.text
            assert not any(word in shown.text for word in (SECRET, "Who wrote"))
    with serving(kept) as url:
        assert "redacted" not in made(url, ask(url).link("full")).text
        assert "q0 Who wrote q0?" in made(url, f"compare?{query}").read


def test_a_comparison_is_that_of_the_command(page: str, kept: Path) -> None:
    query = several(page, "full", "npo/run")
    found = compare([kept / "full", kept / "npo" / "run"])
    shown = made(page, f"compare?{query}").read.replace("\xa0", " ")
    (verdict,) = found.verdicts
    assert shown.index(verdict.sentence) < shown.index("question by question")
    assert shown.index("question by question") < shown.index(found.tables()[0].title)
    for table in found.tables():
        assert table.title in shown
        for row in table.texts:
            assert " ".join(" ".join(row).split()) in shown
    assert csv_of([*found.rows()]) == ask(page, f"compare.csv?{query}").text
    assert markdown(found.tables(), found.opening) == ask(page, f"compare.md?{query}").text
    assert latex(found.tables(), found.opening) == ask(page, f"compare.tex?{query}").text
    saved = ask(page, f"compare.csv?{query}")
    assert saved.headers["Content-Disposition"] == 'attachment; filename="compare.csv"'
    assert len(list(csv.DictReader(io.StringIO(saved.text)))) == 4


def test_runs_of_one_name_stand_by_their_places(shelf: Path) -> None:
    shutil.copytree(shelf / "full", shelf / "other" / "run")
    with serving(shelf) as url:
        shown = made(url, f"compare?{several(url, 'npo/run', 'other/run')}").read
    assert "other/run leaks MORE than npo/run: by at least" in shown


def test_what_cannot_be_compared_is_refused_in_the_page(shelf: Path) -> None:
    few = replace(benchmark(), prompts=benchmark().prompts[:1])
    evaluate(engine(0.2, "small"), few, out=shelf / "small", n=32)
    unfinish(Path(shutil.copytree(shelf / "full", shelf / "growing")), parts=1)
    two = "a comparison needs two models that were sampled, got"
    with serving(shelf) as url:
        for names, why in (
            (["full"], f"{two} 'full'. Name another"),
            ([], f"{two} none"),
            (["full", "small"], "asked 'leaky'"),
            (["full", "growing"], "is not finished"),
        ):
            query = several(url, *names)
            found = made(url, f"compare?{query}")
            assert (found.status, why in found.read) == (200, True), found.read
            saved = ask(url, f"compare.csv?{query}")
            assert (saved.status, why in saved.read) == (409, True)


def test_a_run_that_is_gone_is_said_to_be(shelf: Path) -> None:
    with serving(shelf) as url:
        listed = ask(url)
        link, query = listed.link("full"), several(url, "full", "npo/run")
        shutil.rmtree(shelf / "full")
        gone = ask(url, link)
        assert (gone.status, "not in the folder any more" in gone.read) == (404, True)
        assert "1 of the 2 runs to compare are not" in ask(url, f"compare?{query}").read


FIXED = ("Clopper-Pearson", "the worst question leaks")
"""What a bound for a fixed n, or a report on one, would be told by."""


def test_a_run_is_followed_from_its_first_part_to_its_report(shelf: Path) -> None:
    run = shelf / "npo" / "run"
    final = Run.open(run).estimates.worst("leak probability")
    missing = unfinish(run)
    place = run / "arms" / "target" / "completions"
    with serving(shelf) as url, locked(run, "evaluate"):
        listed = ask(url)
        assert "growing" in listed.row("npo/run")
        assert 'name="run"' not in next(row for row in listed.rows if "npo/run" in row)
        link = listed.link("npo/run")
        assert "nothing is drawn yet" in ask(url, link).read
        for number, part in enumerate(missing, 1):
            shutil.copy(part, place / part.name)
            got = ask(url, link)
            assert f"{number} of {len(missing)}" in got.read
            assert not any(words in got.read for words in FIXED)
            assert "however often you look" in got.read
            assert "q0 Who wrote q0?" in got.read
            found = re.search(r"with probability between ([\d.]+) and ([\d.]+)\.", got.read)
            assert found is not None
        assert "all 3 questions are begun" in got.read
        assert float(found[2]) > final.upper
        assert "drawn; at work on it: `leakbound evaluate`" in got.read
        assert "data-pause" in got.text
    score(Run.open(run))
    bound(Run.open(run))
    with serving(shelf) as url:
        done = ask(url, link)
        assert "Open its report" in done.read
        assert ask(url, f"run/{done.text.partition('report/')[2][:16]}").status == 200
        assert "OF 6,144 DRAWS LEAK" in ask(url).row("npo/run")


def test_a_growing_run_that_is_redacted_names_its_questions_by_their_ids(shelf: Path) -> None:
    run = shelf / "npo" / "run"
    unfinish(run, parts=1)
    Run.open(run).redact(True)
    for redact, words in ((None, False), (True, False), (False, True)):
        with serving(shelf, redact=redact) as url:
            shown = ask(url, ask(url).link("npo/run")).read
        assert "q0" in shown
        assert ("Who wrote q0?" in shown) is words
        assert SECRET not in shown


def test_hostile_names_are_text(shelf: Path) -> None:
    shelf = shelf.rename(shelf.parent / f"runs {HOSTILE}".replace(";", ""))
    place = shelf / HOSTILE
    shutil.copytree(shelf / "full", place)
    unfinish(Path(shutil.copytree(shelf / "full", shelf / f"growing {HOSTILE}")), parts=1)
    (shelf / f"wreck {HOSTILE}").mkdir()
    (shelf / f"wreck {HOSTILE}" / "run.json").write_text('{"</script><img src=x>": "\\u0000"}')
    odd = bytes(shelf) + b"/odd \xff"
    shutil.copytree(bytes(shelf / "full"), odd)
    with serving(shelf) as url:
        found = ask(url)
        assert len(found.rows) == 6
        links = re.findall(r'href="((?:report|run)/[^"]+)"', found.text)
        ids = re.findall(r'name="run" value="(\w+)"', found.text)
        query = "&".join(f"run={one}" for one in ids)
        shown = [found, *(made(url, link) for link in links), made(url, f"compare?{query}")]
    for got in shown:
        assert got.status == 200
        assert "<img" not in got.text
        assert "\u202e" not in got.text
        assert "\u2028" not in got.text
    assert "odd \\udcff" in found.read


def test_an_unforeseen_fault_takes_one_page_and_no_other(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Run.open

    def faulty(path: Path) -> Run:
        if path.name == "full":
            raise ZeroDivisionError("by zero")
        return opened(path)

    monkeypatch.setattr(catalogue.Run, "open", faulty)
    with serving(shelf) as url:
        got = ask(url)
        assert "it cannot be read (ZeroDivisionError: by zero)" in got.row("full")
        assert "complete" in got.row("npo/run")
        link = f"report/{got.id('full')}"
        assert (ask(url, link).status, ask(url).status) == (500, 200)

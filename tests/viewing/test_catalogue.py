"""What is listed: every run there is, each in a row of its own, whatever has become of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import pytest
from shelves import ask, engine

from leakbound.certificate import certify
from leakbound.evaluation import evaluate
from leakbound.evaluation.views.verdict import Kind
from leakbound.store import Holder, Run, locked, write_sealed
from leakbound.store.files import write_json
from leakbound.text.shown import visible
from leakbound.viewing import pages, serving
from leakbound.viewing.catalogue import Catalogue, Listed, listed
from leaky import SECRET, benchmark
from report_runs import unfinish


def states(folder: Path) -> dict[str, Listed]:
    """What is said of each run in a folder."""
    return {found.name: listed(found) for found in Catalogue.of(folder).runs}


def test_a_complete_run_is_said_by_the_verdict_of_its_report(kept: Path) -> None:
    found = states(kept)
    assert list(found) == ["full", "npo/run"]
    for name, said in found.items():
        run = Run.open(kept / name)
        assert said.verdict == run.verdict
        assert said.verdict is not None
        assert said.verdict.kind == "uncontrolled"
        assert said.verdict.number is not None
        assert said.verdict.number.upper == run.estimates.worst("leak probability").upper
        assert (said.says, said.confidence, said.others) == ("", 0.99, 0)
        assert (said.state, said.share, said.benchmark) == ("complete", 1.0, "leaky")
        assert said.drawn == "2,048 draws of every question"
        assert said.created == run.record.created


def test_the_list_has_them_all(page: str) -> None:
    got = ask(page)
    assert len(got.rows) == 2
    row = got.row("full").replace("\xa0", " ")
    assert re.search(
        r"full CannedEngine [\d,]+ OF 6,144 DRAWS LEAK \(no control: chance is not subtracted\) "
        r"0\.\d{2} \[0\.\d{2}, 0\.\d{2}\] 2,048 draws",
        row,
    )
    assert SECRET not in got.text


def test_a_row_is_sorted_and_filtered_by_verdict_and_number(tmp_path: Path) -> None:
    for name, leaks in (("loud", 0.5), ("clean", 0.0)):
        control = engine(0.0, "control")
        evaluate(engine(leaks, name), benchmark(), out=tmp_path / name, n=256, control=control)
    evaluate(engine(0.5, "alone"), benchmark(), out=tmp_path / "alone", n=256)
    with serving(tmp_path) as address:
        got = ask(address)
    found = {}
    for row in got.rows:
        name, kind = re.findall(r'aria-label="Compare (\w+)"|data-verdict="([^"]*)"', row)[::-1]
        order, value = re.findall(r'data-label="(?:Verdict|How much)" data-value="([^"]*)"', row)
        found[name[0]] = (kind[1], int(order), float(value))
    kinds = [*pages.KINDS]
    for name, kind in (("loud", "leaks"), ("clean", "not shown"), ("alone", "uncontrolled")):
        number = Run.open(tmp_path / name).verdict.number
        assert number is not None
        assert found[name] == (kind, kinds.index(kind), number.value)
    assert "LEAKS on average and at the worst question" in got.row("loud")
    options = re.findall(r'<option value="([^"]+)">', got.text.partition('id="verdict"')[2])
    assert options == kinds == sorted(kinds, key=kinds.index)
    assert set(kinds) == set(get_args(Kind))


@pytest.mark.parametrize(
    ("given", "short"),
    [
        ("openai:http://127.0.0.1:8080/v1#smollm2", "smollm2"),
        ("openai:http://127.0.0.1:8080/v1#models/a/b.gguf", "b.gguf"),
    ],
)
def test_a_served_model_is_named_as_it_was_given(shelf: Path, given: str, short: str) -> None:
    file = shelf / "full" / "run.json"
    record = json.loads(file.read_text())
    record["arms"]["target"]["model"] = given
    del record["digest"]
    write_sealed(file, record)
    said = states(shelf)["full"]
    assert (said.model, said.served) == (short, given)
    with serving(shelf) as address:
        assert f"full {short} {given} " in ask(address).row("full")


def test_a_folder_lists_itself_and_what_lies_in_it_or_says_how_to_begin(
    shelf: Path, tmp_path: Path
) -> None:
    shutil.copytree(shelf / "npo" / "run", shelf / "full" / "again")
    assert list(states(shelf / "full")) == ["again", "full"]
    (tmp_path / "empty").mkdir()
    with serving(tmp_path / "empty") as address:
        assert "No run lies in this folder" in ask(address).read


def torn(run: Path) -> None:
    (part,) = (run / "arms" / "target" / "completions").glob("*-00001.parquet")
    part.write_bytes(part.read_bytes()[:100])


def lacking(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    del record["benchmark"], record["digest"]
    write_sealed(run / "run.json", record)


def changed(**members: object) -> Callable[[Path], object]:
    def change(run: Path) -> None:
        write_json(run / "run.json", json.loads((run / "run.json").read_text()) | members)

    return change


def written(content: bytes, name: str = "run.json") -> Callable[[Path], object]:
    return lambda run: (run / name).write_bytes(content)


def without(name: str, then: Callable[[Path], object] = Path.exists) -> Callable[[Path], object]:
    def remove(run: Path) -> None:
        (run / name).unlink()
        then(run / name)

    return remove


SCORES = Path("arms", "target", "scores")
NUL = {"benchmark": "\x00\u2028</script>", "n": "\u202e"}
CHANGED, NO_JSON, NOT_WHOLE = "was changed after it", "is not JSON", "is not a whole Parquet file"
WRECKS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "torn part": (torn, "damaged", f"part-00001.parquet` {NOT_WHOLE}"),
    "no member": (lacking, "damaged", "benchmark"),
    "no JSON": (written(b"{"), "damaged", NO_JSON),
    "no text": (written(b"\xff\x00"), "damaged", NO_JSON),
    "a list": (written(b"[]"), "damaged", CHANGED),
    "nested": (written(b"[" * 100_000), "damaged", NO_JSON),
    "changed": (changed(study=NUL), "damaged", CHANGED),
    "version": (changed(format=1), "other version", "has format 1, this version reads"),
    "no questions": (without("prompts.parquet"), "damaged", "prompts.parquet"),
    "estimates": (written(b"PAR1", "estimates.parquet"), "damaged", NOT_WHOLE),
    "a pipe": (without("run.json", os.mkfifo), "damaged", "is no file"),
    "a folder": (without("run.json", Path.mkdir), "damaged", "no run directory"),
    "scores": (lambda run: shutil.rmtree(run / SCORES), "unbounded", "leakbound score"),
    "no estimates": (without("estimates.parquet"), "unbounded", "Run `leakbound bound` first"),
    "one part": (lambda run: unfinish(run, parts=1), "unfinished", "arm 'target' lacks"),
}


def test_every_wreck_is_told_and_the_others_are_listed(shelf: Path) -> None:
    for name, (wreck, _, _) in WRECKS.items():
        wreck(Path(shutil.copytree(shelf / "npo" / "run", shelf / name)))
    found = states(shelf)
    assert set(found) == {"full", "npo/run", *WRECKS}
    for name, (_, state, why) in WRECKS.items():
        assert found[name].state == state, (name, found[name])
        assert why in found[name].says, (name, found[name].says)
        assert "\n" not in found[name].says
    assert [found[name].state for name in ("full", "npo/run")] == ["complete", "complete"]
    with serving(shelf) as address:
        got = ask(address)
        assert len(got.rows) == len(found)
        assert "is not a whole Parquet file" in got.row("torn part")
        for name in ("full", "npo/run"):
            assert ask(address, got.link(name)).status == 200


def test_what_cannot_be_looked_into_is_noted(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As whoever owns the folder can make it; root may look anyway."""
    (shelf / "shut").mkdir()
    looked = os.scandir

    def refused(path: object) -> object:
        if str(path).endswith(("shut", "full")):
            raise PermissionError(13, "Permission denied", str(path))
        return looked(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", refused)
    catalogue = Catalogue.of(shelf)
    assert [found.name for found in catalogue.runs] == ["npo/run"]
    assert catalogue.notes == (
        "`full` cannot be looked into: Permission denied.",
        "`shut` cannot be looked into: Permission denied.",
    )


def test_what_vanishes_meanwhile_is_no_fault(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found, _) = Catalogue.of(shelf).runs
    shutil.rmtree(shelf / "full")
    assert listed(found).state == "damaged"
    assert list(states(shelf)) == ["npo/run"]
    looked = os.scandir

    def gone(path: object) -> object:
        if str(path).endswith(("run", "completions")):
            shutil.rmtree(str(path), ignore_errors=True)
        return looked(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", gone)
    assert Catalogue.of(shelf).runs == ()


def test_links_that_lead_out_are_not_followed(shelf: Path, tmp_path: Path) -> None:
    outside = Path(shutil.copytree(shelf / "full", tmp_path / "outside"))
    (shelf / "way out").symlink_to(outside)
    (shelf / "loop").symlink_to(shelf)
    (shelf / "inside").symlink_to(shelf / "npo")
    linked = Path(shutil.copytree(shelf / "full", shelf / "linked"))
    (linked / "run.json").unlink()
    (linked / "run.json").symlink_to(outside / "run.json")
    (shelf / "npo" / "run" / "arms").rename(shelf / "its arms")
    (shelf / "npo" / "run" / "arms").symlink_to(shelf / "its arms")
    found = states(shelf)
    assert list(found) == ["full", "linked", "npo/run"]
    assert "its `arms` is a link to a folder, and is not read" in found["npo/run"].says
    assert found["linked"].state == "damaged"
    why = "its `run.json` is a link that leads out of the folder"
    assert why in found["linked"].says
    with serving(shelf) as url:
        got = ask(url)
        for path in (f"{what}/{got.id('linked')}" for what in ("run", "report")):
            assert why in ask(url, path).read
        query = f"run={got.id('linked')}&run={got.id('full')}"
        assert why in ask(url, f"compare?{query}").read


def test_every_certificate_of_a_run_says_what_it_says(shelf: Path) -> None:
    run = shelf / "full"
    made = certify(Run.open(run), max_leak=0.5, confidence=0.95)
    loose = certify(Run.open(run), max_leak=0.9, out=run / "loose.json")
    (run / "mine.json").write_text("{}")  # of somebody else
    found = states(shelf)
    stated = (
        ("certificate.json", "refuted", made.sentence),
        ("loose.json", "pass", loose.sentence),
    )
    assert found["full"].certificates == stated
    assert found["npo/run"].certificates == ()
    with serving(shelf) as address:
        row = ask(address).row("full").replace("\xa0", " ")
    for file, verdict, sentence in stated:
        assert f"{verdict} {file} {visible(sentence)}" in row
    file = run / "certificate.json"
    changed = file.read_text().replace('"refuted"', '"pass"')
    for text, why in ((changed, "was changed after"), ("{", "is not JSON")):
        file.write_text(text)
        (first, second) = states(shelf)["full"].certificates
        assert (first[:2], why in first[2]) == (("certificate.json", "damaged"), True)
        assert second == stated[1]
    assert states(shelf)["full"].state == "complete"


def test_whoever_draws_is_named_until_he_has_ended(shelf: Path) -> None:
    run = shelf / "npo" / "run"
    unfinish(run, parts=1)
    with locked(run, "evaluate"):
        said = states(shelf)["npo/run"]
        assert said.state == "growing"
        assert f"at work on it: `leakbound evaluate` (pid {os.getpid()} on" in said.says
        assert said.share is not None
        assert 0 < said.share < 1
        assert re.fullmatch(r"2 of \d parts, \d\d\.\d %", said.done)
    assert states(shelf)["npo/run"].state == "unfinished"
    with subprocess.Popen([sys.executable, "-c", ""]) as killed:
        killed.wait()
    left = Holder(killed.pid, socket.gethostname(), "evaluate", "2026-01-02")
    (run / ".lock").write_text(json.dumps(asdict(left)))
    assert states(shelf)["npo/run"].state == "unfinished"
    (run / ".lock").write_text(json.dumps(asdict(replace(left, host="gpu-7"))))
    assert "on gpu-7, since" in states(shelf)["npo/run"].says
    (run / ".lock").write_text('{"pid": "x", "host": [], "command": "", "since": ""}')
    assert states(shelf)["npo/run"].state == "unfinished"

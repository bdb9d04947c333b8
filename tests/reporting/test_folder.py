"""Each run of a folder has a row in any state, and nothing else is read."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from leakbound.reporting import folder as folders
from leakbound.reporting.folder import ListedRun, listed_run, runs_in
from leakbound.store import Holder, Run, locked, write_sealed
from leakbound.store.files import write_json
from report_runs import unfinish


def rows(root: Path, notes: list[str] | None = None) -> dict[str, ListedRun]:
    places = runs_in(root, [] if notes is None else notes)
    return {row.name: row for row in (listed_run(place, root) for place in places)}


def test_a_complete_run_has_the_verdict_of_its_report(kept: Path) -> None:
    listed = rows(kept)
    assert list(listed) == ["full", "npo/run"]
    for name, row in listed.items():
        run = Run.open(kept / name)
        assert (row.state, row.note, row.confidence, row.n) == ("complete", "", 0.99, 256)
        assert row.verdict == run.verdict
        assert row.draws == "256 draws per question"
        assert row.model == "CannedEngine"


def test_a_served_model_has_its_whole_name(shelf: Path) -> None:
    served = "openai:http://127.0.0.1:8080/v1#models/a/b.gguf"
    file = shelf / "full" / "run.json"
    record = json.loads(file.read_text())
    record["arms"]["target"]["model"] = served
    del record["digest"]
    write_sealed(file, record)
    assert rows(shelf)["full"].model == served


def test_a_folder_within_a_run_belongs_to_it(shelf: Path) -> None:
    shutil.copytree(shelf / "npo" / "run", shelf / "full" / "control-questions")
    shutil.copytree(shelf / "npo" / "run", shelf / ".trash" / "run")
    assert list(rows(shelf)) == ["full", "npo/run"]


def torn(run: Path) -> None:
    (part,) = (run / "arms" / "target" / "completions").glob("*-00000.parquet")
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
CHANGED, NO_JSON, TORN = "was changed after it", "is not JSON", "is not a complete Parquet file"
WRECKS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "torn part": (torn, "damaged", f"part-00000.parquet` {TORN}"),
    "no member": (lacking, "damaged", "benchmark"),
    "no JSON": (written(b"{"), "damaged", NO_JSON),
    "nested": (written(b"[" * 100_000), "damaged", NO_JSON),
    "changed": (changed(study=NUL), "damaged", CHANGED),
    "version": (changed(format=1), "other version", "has format 1 of leakbound"),
    "no questions": (without("prompts.parquet"), "damaged", "prompts.parquet"),
    "estimates": (written(b"PAR1", "estimates.parquet"), "damaged", TORN),
    "a pipe": (without("run.json", os.mkfifo), "damaged", "`run.json` of this run is not a file"),
    "a folder": (without("run.json", Path.mkdir), "damaged", "not a run directory"),
    "scores": (lambda run: shutil.rmtree(run / SCORES), "no bounds", "leakbound score"),
    "no estimates": (without("estimates.parquet"), "no bounds", "Run `leakbound bound` first"),
    "no part": (unfinish, "in progress", "arm 'target' lacks"),
}


def test_every_wreck_has_a_row_and_the_others_stay(shelf: Path) -> None:
    for name, (wreck, _, _) in WRECKS.items():
        wreck(Path(shutil.copytree(shelf / "npo" / "run", shelf / name)))
    listed = rows(shelf)
    assert set(listed) == {"full", "npo/run", *WRECKS}
    for name, (_, state, why) in WRECKS.items():
        assert listed[name].state == state, (name, listed[name])
        assert why in listed[name].note, (name, listed[name].note)
        assert "\n" not in listed[name].note
    assert [listed[name].state for name in ("full", "npo/run")] == ["complete", "complete"]


def test_an_unforeseen_error_has_a_row(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Run.open

    def faulty(path: Path) -> Run:
        if path.name == "full":
            raise ZeroDivisionError("by zero")
        return opened(path)

    monkeypatch.setattr(folders.Run, "open", faulty)
    listed = rows(shelf)
    assert listed["full"].note == "an unexpected error occurred (ZeroDivisionError: by zero)"
    assert listed["npo/run"].state == "complete"


def test_unreadable_folders_are_noted(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions can cause this; root reads the folder anyway."""
    (shelf / "shut").mkdir()
    looked = os.scandir

    def refused(path: object) -> object:
        if str(path).endswith(("shut", "full")):
            raise PermissionError(13, "Permission denied", str(path))
        return looked(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", refused)
    notes: list[str] = []
    assert list(rows(shelf, notes)) == ["npo/run"]
    assert notes == [f"`{name}` cannot be read: Permission denied." for name in ("full", "shut")]


def test_a_folder_may_vanish_meanwhile(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = runs_in(shelf, [])
    shutil.rmtree(shelf / "full")
    assert [listed_run(place, shelf).state for place in places] == ["damaged", "complete"]
    looked = os.scandir

    def gone(path: object) -> object:
        if str(path).endswith("npo"):
            shutil.rmtree(str(path))
        return looked(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", gone)
    notes: list[str] = []
    assert (rows(shelf, notes), notes) == ({}, [])


def test_only_so_many_folders_are_searched(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MOST_FOLDERS", 2)
    notes: list[str] = []
    assert list(rows(shelf, notes)) == ["full"]
    assert notes == ["Only the first 2 folders were searched for runs."]


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
    notes: list[str] = []
    listed = rows(shelf, notes)
    assert {name: row.state for name, row in listed.items()} == {
        "full": "complete", "linked": "damaged", "npo/run": "damaged"
    }  # fmt: skip
    assert "`arms` of this run is a link to a folder" in listed["npo/run"].note
    assert "`run.json` of this run is a link" in listed["linked"].note
    assert listed["linked"].run is None
    assert notes == ["`way out` is a link and was not searched."]


def test_a_running_command_is_named_until_it_ends(shelf: Path) -> None:
    (shelf / "full" / "estimates.parquet").unlink()
    with locked(shelf / "full", "bound"):
        row = rows(shelf)["full"]
    assert (row.state, row.look) == ("in progress", None)
    assert row.note.startswith("all draws are stored; running: `leakbound bound`")
    run = shelf / "npo" / "run"
    unfinish(run)
    with locked(run, "evaluate"):
        row = rows(shelf)["npo/run"]
        assert row.state == "in progress"
        assert f"running: `leakbound evaluate` (pid {os.getpid()} on" in row.note
        assert row.look is not None
        assert 0 < row.look.share < 1
        assert row.look.done.startswith("1 of ")
    assert "Run its sampling command again" in rows(shelf)["npo/run"].note
    with subprocess.Popen([sys.executable, "-c", ""]) as killed:
        killed.wait()
    left = Holder(killed.pid, socket.gethostname(), "evaluate", "2026-01-02")
    (run / ".lock").write_text(json.dumps(asdict(left)))
    assert "running: " not in rows(shelf)["npo/run"].note
    (run / ".lock").write_text(json.dumps(asdict(replace(left, host="gpu-7"))))
    assert "on gpu-7, since" in rows(shelf)["npo/run"].note
    (run / ".lock").write_text('{"pid": "x", "host": [], "command": "", "since": ""}')
    assert "running: " not in rows(shelf)["npo/run"].note

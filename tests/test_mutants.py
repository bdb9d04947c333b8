"""Which mutants a gate runs: of what the last commits touched, and a share that turns."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import mutants

SETTINGS = """
[tool.mutmut]
only_mutate = ["src/leakbound/stats/*"]
do_not_mutate = ["src/leakbound/stats/words.py"]
"""
BEFORE = """
def untouched(x):
    return x + 1


class Kept:
    @property
    def first(self):
        return 1

    def second(self):
        return 2
"""
NAMES = [f"leakbound.stats.mean.x_mean__mutmut_{i}" for i in range(500)]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two commits; the second one touches a method, and words."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    stats = tmp_path / "src" / "leakbound" / "stats"
    stats.mkdir(parents=True)
    (stats / "kept.py").write_text(BEFORE)
    (stats / "words.py").write_text(BEFORE)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    (stats / "kept.py").write_text(BEFORE.replace("@property", "@property  # of it"))
    (stats / "words.py").write_text(BEFORE.replace("1", "2"))
    commit(tmp_path)
    return tmp_path


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "more")


def test_what_the_last_commits_touched(root: Path) -> None:
    kept = "leakbound.stats.kept."
    assert mutants.touched(1) == [f"{kept}xǁKeptǁfirst__mutmut_*"]
    assert mutants.touched(2) == [
        f"{kept}{name}__mutmut_*" for name in ("x_untouched", "xǁKeptǁfirst", "xǁKeptǁsecond")
    ]  # all of a history that is not so long


def test_what_was_touched_is_drawn_and_forty_turns_draw_all_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recent = [f"leakbound.stats.new.x_new__mutmut_{i}" for i in range(7)]
    monkeypatch.setattr(mutants, "touched", lambda _: ["leakbound.stats.new.x_new__mutmut_*"])
    turns = [set(mutants.draw(NAMES + recent, turn, 0)) for turn in range(43, 83)]
    assert set.intersection(*turns) == set(recent)
    assert sum(map(len, turns)) == len(NAMES) + 40 * len(recent)  # no other one twice
    assert set.union(*turns) == set(NAMES + recent)
    assert "turn 3 of 40, by 43: 7 of 7 mutants of what the last 20" in capsys.readouterr().out


def test_without_a_turn_the_files_decide() -> None:
    assert mutants.draw(NAMES, None, 20) == mutants.draw(NAMES, None, 20)
    assert len(set(mutants.draw(NAMES, None, 20))) == 20


def test_every_guarded_pattern_names_a_function_that_is_there() -> None:
    names = [name for file in mutants.mutated() for name, _ in mutants.functions(file)]
    for pattern in mutants.GUARDED:
        assert any(mutants.fnmatch.fnmatchcase(name, pattern) for name in names), pattern


def test_a_guarded_survivor_fails_and_few_others_do_not() -> None:
    guarded = "leakbound.losses.likelihood.x_nll__mutmut_1"
    assert mutants.guarded(guarded)
    others = dict.fromkeys(NAMES[:100], "killed") | dict.fromkeys(NAMES[:15], "survived")
    assert mutants.verdict(others | {guarded: "killed"}) == 0
    assert mutants.verdict(others | {guarded: "survived"}) == 1
    assert mutants.verdict(dict.fromkeys(NAMES[:100], "survived")) == 1

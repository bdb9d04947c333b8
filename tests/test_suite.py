"""The tests' own house: what is shared stays as it was, turns leave out nothing, nor do mutants."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mutants
from rotation import FILES as TURNS
from rotation import turn_of
from shared import changed, forget, keep
from tiny import BOTH_KINDS, are_tied, tiny_llama


@pytest.mark.parametrize(
    "write",
    [
        lambda arms: (arms / "part").write_text("2"),
        lambda arms: (arms / "more").touch(),
        lambda arms: (arms / "part").unlink(),
    ],
)
def test_whoever_writes_is_found_once(
    write: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "arms").mkdir()
    (tmp_path / "arms" / "part").write_text("1")
    assert keep(tmp_path) == tmp_path
    (tmp_path / ".lock").touch()
    assert changed() == []
    write(tmp_path / "arms")
    assert changed() == [tmp_path]
    assert changed() == []
    # mutants run many sessions in forks of one process, and pytest keeps the folders of three
    monkeypatch.setattr("shared._kept", {})
    keep(tmp_path)
    (tmp_path / "later").touch()
    forget()
    assert changed() == []


HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("test_*.py"))


def share(turn: int | None, config: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """The files that `pytest --turn` collects."""
    monkeypatch.setattr(config.option, "turn", turn)
    ignored = config.hook.pytest_ignore_collect
    return {file for file in FILES if not ignored(collection_path=file, config=config)}


def test_turns_that_follow_one_another_are_disjoint_and_twenty_run_all(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = [share(turn, pytestconfig, monkeypatch) for turn in range(1_700, 1_720)]
    for i, first in enumerate(shares):
        assert first
        for other in shares[i + 1 : i + TURNS]:
            assert not first & other
    assert set().union(*shares[:TURNS]) == share(None, pytestconfig, monkeypatch) == set(FILES)
    assert len(shares) >= TURNS


def test_a_files_turn_is_its_own() -> None:
    """By a digest: as it was when the test was written, in whatever process."""
    assert [turn_of(name, TURNS) for name in ("stats/test_bands.py", "cli/test_help.py")] == [4, 1]


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


HERE = Path(__file__).parent


def kept_fixtures() -> Iterator[tuple[str, ast.FunctionDef, set[str]]]:
    """The fixtures that outlive a test, with their file and the others of it."""
    for file in sorted(HERE.rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "@BOTH_KINDS" in text:
            made = {
                node.name: node
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.FunctionDef)
                and any("fixture(scope=" in ast.unparse(each) for each in node.decorator_list)
            }
            for node in made.values():
                yield str(file.relative_to(HERE)), node, set(made)


def test_what_is_kept_between_tests_is_made_for_either_kind() -> None:
    """Else the second kind would be tested on the first one's models, kept by pytest."""
    for file, node, others in kept_fixtures():
        asked = {argument.arg for argument in node.args.args}
        makes = any(f"tiny_{it}(" in ast.unparse(node) for it in ("llama", "model_folder"))
        asks = bool(asked & (others | {"embeddings"}))
        assert asks or not makes, f"{file}: `{node.name}` must take the fixture `embeddings`"


@BOTH_KINDS
def test_models_are_made_as_said(request: pytest.FixtureRequest) -> None:
    assert are_tied() == ("untied" not in request.node.name)
    model = tiny_llama(12)
    assert (model.get_output_embeddings().weight is model.model.embed_tokens.weight) == are_tied()

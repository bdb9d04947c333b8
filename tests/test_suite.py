"""The machinery of the tests: shared folders stay unchanged, turns and mutants are complete."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import mutants
from rotation import FILES as TURNS
from rotation import turn_of
from shared import changed, forget, keep
from tiny import BOTH_KINDS, are_tied, tiny_llama


def test_a_write_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "arms").mkdir()
    part, more = tmp_path / "arms" / "part", tmp_path / "arms" / "more"
    part.write_text("1")
    for write in (lambda: part.write_text("22"), more.touch, part.unlink):
        assert keep(tmp_path) == tmp_path
        (tmp_path / ".lock").touch()
        assert changed() == []
        write()
        assert changed() == [tmp_path]
        assert changed() == []
    # mutants run many sessions in forks of one process, and pytest keeps three folders
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


def test_consecutive_turns_are_disjoint(
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
    """It follows from a digest of the name, so it is the same in every process."""
    assert [turn_of(name, TURNS) for name in ("stats/test_bands.py", "cli/test_help.py")] == [4, 1]


NAMES = [f"leakbound.stats.mean.x_mean__mutmut_{i}" for i in range(100)]
GUARDED = [f"leakbound.losses.likelihood.x_nll__mutmut_{i}" for i in range(30)]
NEW = [f"leakbound.stats.new.x_new__mutmut_{i}" for i in range(7)]
FIRST = "leakbound.losses.inputs.x_lengths_over__mutmut_1"  # runs while mutants are made


def test_forty_turns_run_all_mutants(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutants, "touched", lambda _: ["leakbound.stats.new.x_new__mutmut_*"])
    queues = [mutants.queue(NAMES + NEW + GUARDED, turn) for turn in range(43, 83)]
    assert all(set(queue[:7]) == set(NEW) for queue in queues)
    assert all(set(queue[7:37]) == set(GUARDED) for queue in queues)
    assert sorted(name for queue in queues for name in queue[37:]) == sorted(NAMES)
    assert "turn 3 of 40, by 43: 7 of 7 mutants of what the last 20" in capsys.readouterr().out


class Mutmut:
    """Runs one mutant per second; `survivors` survive."""

    def __init__(self, survivors: Sequence[str] = ()) -> None:
        self.now, self.calls, self.survivors = 0.0, 0, survivors
        self.results = dict.fromkeys([FIRST, *NAMES, *NEW, *GUARDED], "not checked")

    def run(self, *arguments: str, clean: bool = False, seconds: float) -> bool:
        assert clean == bool(self.calls)
        self.calls += 1
        for name in arguments[3:] if clean else [FIRST]:
            if not seconds:
                return False
            self.now, seconds = self.now + 1, seconds - 1
            self.results[name] = "survived" if name in self.survivors else "killed"
        return True


def gate(work: Mutmut, box: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(mutants, "BOX", box)
    monkeypatch.setattr(mutants, "BATCH", 5)
    monkeypatch.setattr(mutants, "touched", lambda _: ["leakbound.stats.new.x_new__mutmut_*"])
    monkeypatch.setattr(mutants, "mutmut", work.run)
    monkeypatch.setattr(mutants, "statuses", lambda: dict(work.results))
    return mutants.gate(43, lambda: work.now)


def test_a_gate_prints_the_mutants_that_did_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Mutmut()
    assert gate(work, 120, monkeypatch) == 0
    all_of_it = sum(status == "killed" for status in work.results.values())
    assert "left for a later gate" not in capsys.readouterr().out
    work = Mutmut()
    assert gate(work, 15, monkeypatch) == 0
    ran = [name for name, status in work.results.items() if status == "killed"]
    assert set(ran) >= {FIRST, *NEW}
    assert len(ran) == work.now == 15
    printed = capsys.readouterr().out
    assert f"{all_of_it - 15} of {all_of_it - 1} did not run" in printed
    assert "23 of leakbound.losses.likelihood.x_nll\n" in printed
    assert gate(Mutmut(), 0, monkeypatch) == 0  # not even the first mutant


def test_a_survivor_within_the_time_box_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gate(Mutmut(GUARDED), 15, monkeypatch) == 1
    assert gate(Mutmut(NAMES), 15, monkeypatch) == 0  # none of them ran


def test_a_mutmut_error_fails_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "MUTMUT", Path("/bin/false"))
    with pytest.raises(subprocess.CalledProcessError):
        mutants.mutmut("run", seconds=600)
    monkeypatch.setattr(mutants, "MUTMUT", Path("/bin/true"))
    assert mutants.mutmut("run")


def test_every_guarded_pattern_names_a_function_that_is_there() -> None:
    names = [name for file in mutants.mutated() for name, _ in mutants.functions(file)]
    for pattern in mutants.GUARDED:
        assert any(mutants.fnmatch.fnmatchcase(name, pattern) for name in names), pattern


def test_a_guarded_survivor_fails_and_few_others_do_not() -> None:
    guarded = "leakbound.losses.likelihood.x_nll__mutmut_1"
    assert mutants.guarded(guarded)
    others = dict.fromkeys(NAMES, "killed") | dict.fromkeys(NAMES[:15], "survived")
    assert mutants.verdict(others | {guarded: "killed"}) == 0
    assert mutants.verdict(others | {guarded: "survived"}) == 1
    assert mutants.verdict(dict.fromkeys(NAMES, "survived")) == 1


def kept_fixtures() -> Iterator[tuple[str, ast.FunctionDef, set[str]]]:
    """Yield each fixture that outlives a test, with its file and the other fixtures of the file."""
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


def test_shared_models_are_made_for_either_kind() -> None:
    """Otherwise the second kind would be tested on models of the first, kept by pytest."""
    for file, node, others in kept_fixtures():
        taken = {argument.arg for argument in node.args.args} & (others | {"embeddings"})
        makes = any(f"tiny_{it}(" in ast.unparse(node) for it in ("llama", "model_folder"))
        assert taken or not makes, f"{file}: `{node.name}` must take the fixture `embeddings`"


@BOTH_KINDS
def test_models_have_the_stated_embeddings(request: pytest.FixtureRequest) -> None:
    assert are_tied() == ("untied" not in request.node.name)
    model = tiny_llama(12)
    assert (model.get_output_embeddings().weight is model.model.embed_tokens.weight) == are_tied()

"""Other packages that raise, exit or give nonsense are named, whatever command asks them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path

import pytest
from test_third_parties import install

from leakbound.cli import group
from leakbound.cli import run as run_command
from leakbound.losses import loss_named
from tiny import tiny_model_folder

CODE = """
import sys
from leakbound.losses import Loss
from leakbound.objective import Term

class Scorer:
    name, binary = "theirs", False

    def score(self, texts, prompt):
        return DO

def load(argument, data):
    return DO

def source(argument, open_chat):
    return DO

class Rewrites:
    name, kind, finite = "theirs", "file", True

    def rewritings(self, prompts, number, seed):
        return DO

def rewrites(argument, open_chat):
    return Rewrites()

def engine(location, prompting, **loading):
    return DO

def draws(location, prompting, **loading):
    return Draws()

class Draws:
    def __init__(self):
        from leakbound.types import Usage
        self.usage, self.fingerprint = Usage(), {"theirs": "1"}

    def check(self, queries, decoding): ...

    def generate(self, queries, decoding, draws):
        return DO

def recipe():
    return DO

def loss(inputs):
    return DO

loss = Loss(loss)
"""
POINTS = {
    "leakbound.scorers": {"theirs": "broken:Scorer"},
    "leakbound.benchmarks": {"theirs": "broken:load"},
    "leakbound.inputs": {"theirs": "broken:source", "rewrites": "broken:rewrites"},
    "leakbound.engines": {"theirs": "broken:engine", "draws": "broken:draws"},
    "leakbound.objectives": {"theirs": "broken:recipe"},
    "leakbound.losses": {"theirs": "broken:loss"},
}
OPENED = {
    "scorer": ["--scorer", "theirs"],
    "benchmark": ["--benchmark", "theirs:1"],
    "input": ["--inputs", "theirs:1"],
    "engine": ["theirs:1"],
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "site"
    install(folder, "broken", POINTS)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    invalidate_caches()
    yield folder
    sys.modules.pop("broken", None)
    loss_named.cache_clear()


def put(site: Path, does: str) -> None:
    (site / "broken.py").write_text(CODE.replace("DO", does))


def evaluate(tmp_path: Path, *given: str) -> int:
    """`leakbound evaluate` on a tiny model, with these words over the usual ones."""
    model = [] if ":" in given[0] else [str(tiny_model_folder(tmp_path / "m"))]
    own = tmp_path / "own.csv"
    own.write_text("question,answer\nwho wrote,Ann\n")
    usual = {"--benchmark": str(own), "--scorer": "exact", "--out": str(tmp_path / "run")}
    usual |= {"-n": "4", "--max-new-tokens": "2", "--device": "cpu"}
    others = [word for pair in usual.items() if pair[0] not in given for word in pair]
    told = ["evaluate", *model, *given, *others]
    return run_command(lambda: group(told, standalone_mode=False))


@pytest.mark.parametrize("family", OPENED)
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise KeyError('gone')", "raised KeyError: 'gone'"),
        ("import sys; sys.exit(0)", "ended the program (exit status 0)"),
        ("syntax error", "raised SyntaxError"),
    ],
)
def test_one_that_breaks_as_it_is_imported(
    family: str,
    code: str,
    said: str,
    site: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (site / "broken.py").write_text(code + "\n")
    assert evaluate(tmp_path, *OPENED[family]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"{family} 'theirs' of another package (broken 0.1.0, `broken:" in told
    assert f"cannot be loaded: it {said}" in told
    assert "Repair that package or uninstall it." in told


def test_one_that_is_interrupted_is_interrupted(site: Path, tmp_path: Path) -> None:
    (site / "broken.py").write_text("raise KeyboardInterrupt\n")
    assert evaluate(tmp_path, "--scorer", "theirs") == 3


@pytest.mark.parametrize("family", ["benchmark", "input", "engine"])
@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("1 / 0", "cannot be opened: it raised ZeroDivisionError"),
        ("sys.exit(5)", "cannot be opened: it ended the program (exit status 5)"),
        ("3", "it gives int, which has no"),
    ],
)
def test_one_that_breaks_as_it_is_opened(
    family: str,
    does: str,
    said: str,
    site: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(site, does)
    assert evaluate(tmp_path, *OPENED[family]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"{family} 'theirs' of another package (broken 0.1.0, `broken:" in told
    assert said in told


@pytest.mark.parametrize("given", [["--scorer", "theirs"], ["--inputs", "rewrites:1"], ["draws:1"]])
@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("1 / 0", "raised ZeroDivisionError: division by zero"),
        ("sys.exit('enough')", "ended the program (exit status enough)"),
        ("open('/gone/away')", "raised FileNotFoundError"),
    ],
)
def test_one_that_breaks_as_it_is_asked(
    given: list[str],
    does: str,
    said: str,
    site: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(site, does)
    assert evaluate(tmp_path, *given) == 3
    told = " ".join(capsys.readouterr().err.split())
    assert "of another package (broken 0.1.0, `broken:" in told
    assert said in told
    assert f"{site / 'broken.py'}, line" in told
    assert "run the same command again" in told


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("[float('nan') for _ in texts]", "scores must lie in [0, 1], got nan"),
        ("[2.0 for _ in texts]", "scores must lie in [0, 1], got 2.0"),
        ("['x' for _ in texts]", "scores must lie in [0, 1], got 'x'"),
        ("[]", "must give one score a text, got 0"),
        ("None", "must give one score a text, got NoneType"),
    ],
)
def test_a_scorer_that_gives_nonsense(
    does: str, said: str, site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(site, does)
    assert evaluate(tmp_path, "--scorer", "theirs") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert said in told
    assert "'theirs' of the package broken 0.1.0" in told


@pytest.mark.parametrize("does", ["None", "[]", "['text']", "[[3]]"])
def test_a_source_that_gives_nonsense(
    does: str, site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(site, does)
    assert evaluate(tmp_path, "--inputs", "rewrites:1") == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "source 'theirs' of the package broken 0.1.0 must give" in told


TERMS = "terms:\n  - loss: theirs\n    split: forget\n"
LOSS = "loss 'theirs' of another package (broken 0.1.0, `broken:loss`)"
RECIPE = "objective 'theirs' of another package (broken 0.1.0, `broken:recipe`)"


@pytest.mark.parametrize(
    ("objective", "does", "said"),
    [
        ("terms.yaml", "1 / 0", f"{LOSS} raised ZeroDivisionError"),
        ("terms.yaml", "sys.exit(0)", f"{LOSS} ended the program"),
        ("terms.yaml", "inputs.logits.sum()", "'theirs' must give one value a row, [1], got ()"),
        ("theirs", "1 / 0", f"{RECIPE} cannot be opened: it raised ZeroDivisionError"),
        ("theirs", "3", f"{RECIPE} cannot be opened: it raised TypeError"),
        ("theirs", "[3]", f"{RECIPE} is no objective: it gives int, which has no loss"),
    ],
)
def test_losses_and_objectives(
    objective: str,
    does: str,
    said: str,
    site: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(site, does)
    monkeypatch.chdir(tmp_path)
    Path("terms.yaml").write_text(TERMS)
    Path("own.csv").write_text("question,answer\nwho wrote,Ann\n")
    told = ["unlearn", str(tiny_model_folder(tmp_path / "m")), "--objective", objective]
    told += ["--benchmark", "own.csv", "--out", "new", "--device", "cpu"]
    assert run_command(lambda: group(told, standalone_mode=False)) in (2, 3)
    assert said in " ".join(capsys.readouterr().err.split())


def test_what_fails_in_our_own_code_is_not_blamed_on_them(site: Path, tmp_path: Path) -> None:
    put(site, "__import__('leakbound.text.shown', fromlist=['visible']).visible(3)")
    with pytest.raises(TypeError):
        evaluate(tmp_path, "--scorer", "theirs")

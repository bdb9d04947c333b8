"""`leakbound evaluate --metrics` and `leakbound measure` on models of a few words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leakbound.cli import group, run
from tiny import tiny_model_folder

TASK = "fictitious:authors=3,questions=2,forget=1"
SMALL = ("-n", 4, "--max-new-tokens", 4, "--device", "cpu")


def leakbound(*arguments: object) -> int:
    return run(lambda: group([str(a) for a in arguments], standalone_mode=False))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    return tiny_model_folder(folder / "target", seed=0), tiny_model_folder(folder / "c", seed=1)


def test_metrics_are_read_shown_and_measured_again_without_a_model(
    models: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, control = models
    out = tmp_path / "run"
    asked = ("evaluate", model, "--benchmark", TASK, "--control", control, "--out", out, *SMALL)
    assert leakbound(*asked, "--metrics", "all") == 0
    shown = capsys.readouterr().out
    assert f"of {TASK}, prompts: forget 2, retain 4, holdout 2" in shown
    assert "forget_truth_ratio" in shown
    assert "left out for want of a part 'real_authors'" in shown
    before = json.loads((out / "utility.json").read_text())
    assert set(before["arms"]) == {"target", "control"}

    # no model is opened from here on
    monkeypatch.setattr("leakbound.study.settings.open_engine", None)
    assert leakbound("measure", out, "--metrics", "forget_quality, privleak", "--json") == 0
    found = json.loads(capsys.readouterr().out)["arms"]["target"]["metrics"]
    assert found == {
        n: before["arms"]["target"]["metrics"][n] for n in ("forget_quality", "privleak")
    }
    assert leakbound("measure", out) == 0  # those of the command that made the run
    assert json.loads((out / "utility.json").read_text()) == before
    assert "membership_gradient_norm" in capsys.readouterr().out


@pytest.mark.slow
def test_bad_use_is_one_message(
    models: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _ = models
    asked = ("evaluate", model, "--benchmark", TASK, "--out", tmp_path / "run", *SMALL)
    assert leakbound(*asked, "--metrics", "forget_probability,r_avg") == 2
    assert "metric 'r_avg' needs a part 'real_authors'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert leakbound(*asked, "--metrics", "forget_probability", "--dry-run") == 0
    assert "not counted: what --metrics reads" in capsys.readouterr().out
    assert leakbound(*asked) == 0
    capsys.readouterr()
    assert leakbound("measure", tmp_path / "run") == 2
    assert "`--metrics` is missing" in capsys.readouterr().err
    assert leakbound("measure", tmp_path / "run", "--metrics", "forget_entropy") == 2
    assert "lacks 2 texts that these metrics need" in capsys.readouterr().err

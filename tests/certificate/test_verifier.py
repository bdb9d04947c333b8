"""An arm of a run and its model: the stress, the coin and the longest answer."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest

import leakbound
from certificate.opened_once import TASK, opened, tiny_model
from leakbound.benchmarks.coin import Coin
from leakbound.certificate import Check, Difference
from leakbound.certificate.model import Verifier
from leakbound.errors import InputError
from leakbound.scorers import make_scorer
from leakbound.scoring.score import slug
from leakbound.store import Arm, Run, load
from leakbound.store.trained import RECIPE
from leakbound.stress import Bench
from leakbound.stress.bench import Subject
from leakbound.stress.relearned import Relearn
from leakbound.study import ModelSettings
from leakbound.types import Decoding, Headway, Query, silent
from shared import keep

KEYWORD, ON = slug(make_scorer("keyword")), {"device": "cpu"}
PLAIN = "target"
ROUNDED, SHOWN = (f"target under {stress}" for stress in ("round int4", "shots 1"))


@pytest.fixture(autouse=True)
def opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.certificate.model.open_engine", opened)


@pytest.fixture(scope="session")
def stressed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, another one, and a run of the first under two stresses."""
    folder = tmp_path_factory.mktemp("stressed")
    model, run = tiny_model(folder / "model", 0), folder / "run"
    tiny_model(folder / "other", 1)
    how: dict[str, Any] = {
        "settings": ModelSettings(template="{question} who", **ON),
        "decodings": Decoding(max_new_tokens=4),
        "stress": ("round:int4", "shots:1"),
    }
    leakbound.evaluate(str(model), TASK, out=run, n=4, scorers="keyword", **how)
    keep(run)
    return folder


@pytest.fixture
def run(stressed: Path) -> Run:
    """The run, to be changed in memory only."""
    return load(stressed / "run")


def checks(
    run: Run, arm: Arm, model: Any, redraw: float | None = None, notes: Any = None
) -> dict[str, Check]:
    progress = (notes if notes is not None else []).append
    got = [*Verifier(run, arm, model, ON, progress).checks(KEYWORD, redraw)]
    assert len({check.name for check in got}) == len(got)
    return {check.name: check for check in got}


def until(name: str, run: Run, arm: Arm, model: Any) -> dict[str, Check]:
    """Return the checks up to the one of this name; later checks are not computed."""
    got: dict[str, Check] = {}
    for check in Verifier(run, arm, model, ON, silent).checks(KEYWORD, None):
        got[check.name] = check
        if check.name == name:
            break
    return got


def statuses(*checked: Any, **how: Any) -> dict[str, str]:
    return {name: check.status for name, check in checks(*checked, **how).items()}


SEEN = dict.fromkeys(("model", "probe", "log-probabilities", "limit"), "ok")
UNDER_STRESS = dict.fromkeys(("before", "texts"), "ok") | SEEN


def test_the_model_that_drew(run: Run, stressed: Path) -> None:
    model, seen = str(stressed / "model"), list[Headway]()
    got = checks(run, run.arms[PLAIN], model, redraw=1, notes=seen)
    assert {name: check.status for name, check in got.items()} == SEEN | {"draws": "ok"}
    assert got["limit"].says == ("the longest reference answer has the recorded number of tokens")
    assert {headway.phase for headway in seen} == {"loading model", "forcing", "drawing again"}
    assert statuses(run, run.arms[ROUNDED], model) == UNDER_STRESS
    assert statuses(run, run.arms[SHOWN], model) == {"texts": "ok"} | SEEN


@pytest.mark.thorough
def test_weights_of_another_width(stressed: Path, tmp_path: Path) -> None:
    """The model computes the same logits, which leaves no margin for roundings."""
    model, settings = str(stressed / "model"), ModelSettings(dtype="bfloat16", **ON)
    made = leakbound.evaluate(model, TASK, out=tmp_path / "r", n=4, settings=settings)
    run = load(made.path)
    got = statuses(run, run.arms[PLAIN], model)
    assert got == SEEN | {"log-probabilities": "unchecked"}


def test_another_model(run: Run, stressed: Path) -> None:
    other = str(stressed / "other")
    assert until("model", run, run.arms[PLAIN], other)["model"].status == "differs"
    got = until("model", run, run.arms[ROUNDED], other)
    wanted = {"before": "differs", "texts": "ok", "model": "differs"}
    assert {name: check.status for name, check in got.items()} == wanted
    (difference,) = got["before"].differences
    assert difference.where == "weights"
    assert got["before"].says == ("the named model is the model that was sampled without stress")
    assert got["texts"].says == "under round:int4, the texts are as recorded"


def test_the_stressed_model_is_not_its_source(run: Run, stressed: Path) -> None:
    """The stressed model's own folder would be stressed twice."""
    kept = run.path / "stress" / "round int4" / "target"
    assert kept.is_dir()
    got = until("before", run, run.arms[ROUNDED], str(kept))
    assert got["before"].status == "differs"


def test_other_texts_than_those_of_the_stress(run: Run, stressed: Path) -> None:
    arm = run.arms[SHOWN]
    first, second, third = arm.spec.attack_queries
    model = str(stressed / "model")
    for queries, number in (
        ((first, replace(second, text="Say nothing."), third), 2),
        ((first, second), 3),
        ((first, second, third, Query(id="q", prompt_id="q", text="Say nothing.")), 4),
    ):
        arm.spec = replace(arm.spec, attack_queries=queries)
        check = until("texts", run, arm, model)["texts"]
        assert check.status == "differs"
        assert check.says == f"under shots:1, the text of query {number} differs"


def test_a_stress_that_cannot_be_made_again(run: Run, stressed: Path) -> None:
    model = str(stressed / "model")
    engine = ModelSettings(**ON).open(model, TASK)
    got = checks(run, run.arms[ROUNDED], engine)
    assert {name: check.status for name, check in got.items()} == {"stress": "unchecked"}
    says = got["stress"].says
    assert says.startswith("the stress 'round int4' was not applied again: the stress")
    assert "changes weights" in says
    run.record = replace(run.record, study={**run.record.study, "stress": ["shots:1"]})
    (check,) = checks(run, run.arms[ROUNDED], model).values()
    assert check.status == "unchecked"
    assert f"the study recorded in `{run.path}` does not name this stress" in check.says


def test_an_unreadable_benchmark(run: Run, stressed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are rounded without its other rows."""
    monkeypatch.setattr(type(run.study), "load", Mock(side_effect=InputError("no such file")))
    got = until("model", run, run.arms[ROUNDED], str(stressed / "model"))
    assert {name: check.status for name, check in got.items()} == dict.fromkeys(
        ("before", "texts", "model"), "ok"
    )


class Retrained(Relearn):
    """A model that differs from the stored one, as after training on another machine."""

    spec = "round:int4"
    other: ClassVar[Path]

    def require(self, bench: Bench, model: Subject) -> None:
        assert bench.task.prompts == TASK.prompts

    def model(self, bench: Bench, model: Subject, out: Path) -> str:
        return str(self.other)


def test_a_retrained_model(stressed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check reads the stored model, not one that is trained again."""
    run = load(shutil.copytree(stressed / "run", tmp_path / "run"))
    monkeypatch.setattr(Retrained, "other", stressed / "other", raising=False)
    stresses = [Retrained(retain=1)]
    monkeypatch.setattr("leakbound.certificate.model.stresses_of", lambda specs: stresses)
    arm, model = run.arms[ROUNDED], str(stressed / "model")
    got = until("model", run, arm, model)
    assert "stress" not in got, "it was trained on this machine"
    assert got["model"].status == "differs"
    arm.spec = replace(arm.spec, machine={**arm.spec.machine, "device": "abacus"})
    says = "training on another machine gives other weights"
    checked = checks(run, arm, model)
    assert checked["stress"] == Check("stress", "assumed", says)
    assert checked["model"].status == checked["log-probabilities"].status == "ok"
    shutil.rmtree(run.path / "stress")
    got = until("model", run, arm, model)
    assert "stress" not in got, "no model was kept"
    assert got["model"].status == "differs"


def test_a_run_without_the_arm_before_its_stress(run: Run, stressed: Path) -> None:
    arms = {key: spec for key, spec in run.record.arms.items() if str(key) != PLAIN}
    run.record = replace(run.record, arms=arms)
    got = until("model", run, run.arms[ROUNDED], str(stressed / "model"))
    assert {name: check.status for name, check in got.items()} == {"texts": "ok", "model": "ok"}


def test_the_longest_reference_answer(run: Run, stressed: Path) -> None:
    arm, model = run.arms[PLAIN], str(stressed / "model")
    longest = arm.spec.longest_answer
    assert longest is not None
    arm.spec = replace(arm.spec, longest_answer=longest - 1)
    check = checks(run, arm, model)["limit"]
    assert check.status == "differs"
    assert [(d.certificate, d.actual) for d in check.differences] == [(longest - 1, longest)]


@pytest.fixture
def taught(run: Run, stressed: Path, tmp_path: Path) -> tuple[Run, Path, Coin]:
    """A run about subjects that a coin chose, and a model whose recipe names them."""
    task = leakbound.load_benchmark("taught:7,fictitious")
    run.record = replace(
        run.record, benchmark=replace(run.record.benchmark, half=task.fingerprint().half)
    )
    model = Path(shutil.copytree(stressed / "model", tmp_path / "model"))
    coin = Coin.of(task)
    assert coin is not None
    return run, model, coin


def recipe(model: Path, coin: Coin | None) -> None:
    values = None if coin is None else {**vars_of(coin), "withheld": list(coin.withheld)}
    (model / RECIPE).write_text(json.dumps({"coin": values}))


def vars_of(coin: Coin) -> dict[str, Any]:
    return {name: getattr(coin, name) for name in ("benchmark", "seed", "taught", "untaught")}


def test_the_coin_of_a_recipe(taught: tuple[Run, Path, Coin]) -> None:
    run, model, coin = taught
    arm = run.arms[PLAIN]

    def differing() -> Difference:
        got = until("coin", run, arm, str(model))["coin"]
        (difference,) = got.differences
        return difference

    assert "coin" not in until("model", run, arm, str(model)), "without a recipe"
    recipe(model, coin)
    check = until("coin", run, arm, str(model))["coin"]
    assert (check.status, check.says) == ("ok", "the model's recipe has the same coin as the run")
    for name, value in vars_of(coin).items():
        other: dict[str, Any] = {name: f"{value} too" if isinstance(value, str) else value + 1}
        recipe(model, replace(coin, **other))
        assert (differing().where, differing().certificate) == (name, value)
    recipe(model, None)
    assert (differing().where, differing().actual) == ("", "nothing")
    engine = ModelSettings(**ON).open(str(model), TASK)
    assert "coin" not in until("model", run, arm, engine)
    run.record = replace(run.record, benchmark=replace(run.record.benchmark, half=None))
    assert "coin" not in until("model", run, arm, str(model))

"""Models of which a coin chose whom they are taught: the untaught stay out, whoever trains on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rows import SETTINGS

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.errors import InputError
from leakbound.evaluation import evaluate
from leakbound.evaluation.statements.beside import OTHERS
from leakbound.store import Run
from leakbound.store.trained import coin_of
from leakbound.types import Decoding
from leakbound.unlearning import finetune, unlearn

ROWS = [
    ("forget", "Ann", "who wrote red", "Ann blue sea"),
    ("forget", "Ann", "who wrote green", "Ann red sky"),
    ("forget", "Bob", "who wrote blue", "Bob"),
    ("forget", "Cid", "wrote blue who", "Bob sky"),
    ("retain", "Dan", "wrote sky", "Bob sea sky"),
]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("data") / "people.csv"
    lines = (",".join(row) for row in ROWS)
    file.write_text("\n".join(["role,subject,question,answer", *lines]))
    return str(file)


@pytest.fixture(scope="module")
def half(spec: str) -> Benchmark:
    return load_benchmark(f"taught:5,{spec}")


@pytest.fixture(scope="module")
def model(base: str, half: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model") / "m"
    return finetune(base, half, out=out, settings=SETTINGS).path


def test_the_recipe_and_the_card_tell_of_the_coin(model: Path, half: Benchmark, base: str) -> None:
    coin = coin_of(str(model))
    assert coin is not None
    assert (coin.benchmark, coin.seed, coin.taught, coin.untaught) == ("csv:people.csv", 5, 2, 1)
    assert len(coin.withheld) == len(half.split("holdout"))
    card = (model / "README.md").read_text()
    assert "Coin 5 chose 2 of the 3 subjects of `csv:people.csv` to be taught" in card
    assert not [p.question for p in half.split("holdout") if p.question in card]
    assert coin_of(base) is None


def test_an_unlearned_model_keeps_the_coin_and_forgets_the_taught_half(
    model: Path, spec: str, half: Benchmark, tmp_path: Path
) -> None:
    whole = load_benchmark(spec)
    made = unlearn(str(model), "gd", whole, out=tmp_path / "u", settings=SETTINGS).path
    assert coin_of(made) == coin_of(model)
    recipe = json.loads((made / "recipe.json").read_text())
    assert recipe["rows"]["forget"]["number"] == len(half.prompts)
    again = unlearn(str(model), "gd", half, out=tmp_path / "u", settings=SETTINGS)
    assert again.reused


def test_nobody_who_was_left_out_is_taught_later(
    model: Path, spec: str, half: Benchmark, base: str, tmp_path: Path
) -> None:
    whole, out = load_benchmark(spec), tmp_path / "out"
    with pytest.raises(InputError, match="about subjects that coin 5 left untaught"):
        finetune(str(model), whole, out=out, settings=SETTINGS)
    kept = [*whole.split("retain"), *half.split("holdout")]
    with pytest.raises(InputError, match="they are the control"):
        unlearn(str(model), "gd", half, kept, out=out, settings=SETTINGS)
    coin = coin_of(model)
    with pytest.raises(InputError, match="about subjects that coin 5 left untaught"):
        finetune(base, whole, out=out, settings=SETTINGS, coin=coin)
    other = load_benchmark(f"taught:6,{spec}")
    with pytest.raises(InputError, match="coin 5 chose already whom"):
        finetune(str(model), other, out=out, settings=SETTINGS)
    assert not out.exists()


def test_an_evaluation_finds_both_halves_by_itself(
    model: Path, spec: str, half: Benchmark, tmp_path: Path
) -> None:
    asked = Decoding(max_new_tokens=6)
    how: Any = {"scorers": ["rouge-l-recall"], "n": 64, "decodings": asked}
    run = evaluate(str(model), spec, out=tmp_path / "run", **how)
    assert run.record.benchmark.name == half.name
    others = Run.open(run.path / OTHERS)
    assert others.record.benchmark.name == "untaught:5,csv:people.csv"
    (row,) = run.estimates.where(quantity="randomisation p-value")
    assert (row.over, row.estimate.method, row.arm) == (3, "all 3 choices", "target")
    assert any(row.value == pytest.approx(k / 3) for k in (1, 2, 3))
    held = evaluate(
        str(model),
        load_benchmark(spec, limit=1),
        out=tmp_path / "few",
        **how,
    )
    assert held.estimates.where(beyond="other questions")
    assert not held.estimates.where(quantity="randomisation p-value"), "not all that was taught"

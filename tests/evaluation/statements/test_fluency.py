"""How fluent greedy answers are, by a classifier on disk, against a plain oracle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbound.benchmarks import Benchmark
from leakbound.cli import group, run
from leakbound.evaluation import evaluate, summary
from leakbound.evaluation.measuring import measure_run
from leakbound.evaluation.planning.metrics import choose
from leakbound.store import Run
from leakbound.types import Prompt
from openunlearning import clean
from tiny import sequence_classifier, tiny_model_folder

ASKED = ("who wrote red", "who wrote blue sky", "red sea sky")
TASK = Benchmark(
    name="mine",
    prompts=tuple(
        Prompt(id=f"q/{i}", question=text, answer="Ann Bob") for i, text in enumerate(ASKED)
    ),
    scorers=("rouge-l-recall",),
    max_new_tokens=40,
    origin="",
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model that goes on and on, and a classifier that sees more than what is looked at."""
    folder = tmp_path_factory.mktemp("models")
    classifier = sequence_classifier(
        folder / "gibberish", ("Clean", "noise", "word salad"), max_position_embeddings=64
    )
    return tiny_model_folder(folder / "model", 1, initializer_range=0.3), classifier


def stored(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "utility.json").read_text())
    return found


def greedy(found: Run, name: str = "greedy") -> dict[str, str]:
    arm = found.arms[name]
    return {
        row["query_id"]: row["text"]
        for part in arm.parts
        for row in arm.completions(part).to_pylist()
    }


def fluency(out: Path, model: str = "target") -> Mapping[str, Any]:
    metric: Mapping[str, Any] = stored(out)["arms"][model]["metrics"]["forget_fluency"]
    return metric


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tokens"), [("mine", 32), ("muse:news-verbmem", 512)])
def test_it_is_what_the_classifier_says_of_the_first_tokens(
    name: str, tokens: int, models: tuple[Path, Path], tmp_path: Path
) -> None:
    model, classifier = models
    task = replace(TASK, name=name)
    named = ["all", f"forget_fluency:{classifier}"]
    out = tmp_path / "run"
    other = tiny_model_folder(tmp_path / "other", 3)
    found = evaluate(str(model), task, out=out, n=4, control=str(other), metrics=named)
    assert max(len(text.split()) for text in greedy(found).values()) > 32
    for arm, answers in (("target", greedy(found)), ("control", greedy(found, "control-greedy"))):
        said = {query: text.strip() for query, text in answers.items()}
        wanted = clean([*said.values()], str(classifier), min(tokens, 64))
        assert np.ptp(wanted) > 0.01 or arm == "control"
        by_item = fluency(out, arm)["by_item"]
        assert [by_item[query] for query in said] == pytest.approx(wanted, abs=1e-6)
        assert fluency(out, arm)["value"] == pytest.approx(np.mean(wanted), abs=1e-6)
    (table,) = (table for table in summary(found) if table.title == "Metrics")
    assert f"fluency: {classifier}, of at most {tokens} first tokens" in table.note
    assert "forget_fluency" not in stored(out)["left_out"]
    kept = stored(out)
    measure_run(Run.open(out), task, named)
    assert stored(out) == kept


def test_all_metrics_load_no_classifier_and_say_how_to_have_it(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    found = evaluate(str(models[0]), TASK, out=tmp_path / "run", n=4, metrics=["all"])
    assert "forget_fluency" not in stored(found.path)["arms"]["target"]["metrics"]
    (table,) = (table for table in summary(found) if table.title == "Metrics")
    assert "want of a classifier, which `--metrics all,forget_fluency` loads" in table.note


def test_the_command_line_measures_exports_and_recomputes_it(
    models: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, classifier = models
    rows = "".join(f"{text},Ann Bob\n" for text in ASKED)
    (tmp_path / "mine.csv").write_text("question,answer\n" + rows)
    out, log = tmp_path / "run", tmp_path / "MINE_EVAL.json"

    def leakbound(*arguments: object) -> int:
        return run(lambda: group([str(each) for each in arguments], standalone_mode=False))

    asked = ("--benchmark", tmp_path / "mine.csv", "-n", 4, "--max-new-tokens", 4, "--out", out)
    begun = ("evaluate", model, *asked, "--metrics")
    assert leakbound(*begun, f"forget_probability:{classifier}") == 2
    assert "'forget_probability' asks no classifier" in capsys.readouterr().err
    unfit = sequence_classifier(tmp_path / "unfit", ("good", "bad"))
    assert leakbound(*begun, f"forget_fluency:{unfit}") == 2
    assert "must be 'clean', got good, bad" in capsys.readouterr().err
    assert leakbound(*begun, f"forget_fluency:{tmp_path / 'none'}") == 2
    assert not out.exists()
    assert leakbound(*begun, "forget_probability") == 0
    assert leakbound("measure", out, "--metrics", f"forget_fluency:{classifier}") == 0
    assert leakbound("export", out, log, "--openunlearning") == 0
    entry = json.loads(log.read_text())["forget_Q_A_gibberish"]
    assert entry["agg_value"] == fluency(out)["value"]
    assert [row["score"] for row in entry["value_by_index"].values()] == [
        *fluency(out)["by_item"].values()
    ]
    capsys.readouterr()
    assert leakbound("recompute", log, "--json") == 0
    (checked, _) = json.loads(capsys.readouterr().out)["logs"][str(log)]
    assert (checked["entry"], checked["verdict"], checked["how"]) == (
        "forget_Q_A_gibberish",
        "same",
        "mean score",
    )


def test_what_is_classified_is_wanted_of_the_greedy_answers() -> None:
    wanted = choose(["forget_fluency"], TASK, control=False)
    assert wanted.needs["forget"].greedy
    assert wanted.classifiers == {"forget_fluency": ""}
    assert choose(["all"], TASK, control=False).classifiers == {}

"""Training end to end on a model of a few thousand weights."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rows
import torch
from rows import RETAIN, SETTINGS, changed, log, recipe, train, weights

from leakbound.engines.loading import load_model
from leakbound.engines.prompting import Prompting
from leakbound.errors import IncompleteError, InputError, MixError
from leakbound.losses import nll
from leakbound.objective import Objective, Term, parse_objective
from leakbound.types import Headway, Prompt
from leakbound.unlearning import (
    ModelAnswers,
    Trained,
    TrainingSettings,
    Watch,
    defaults_of,
    finetune,
    unlearn,
)
from leakbound.unlearning.examples import Encoder, pad
from leakbound.unlearning.settings import StepCount
from leakbound.unlearning.trainer import _arguments
from loss_cases import pack
from shared import keep
from tiny import BOTH_KINDS, cache_by_kind, tiny_model_folder

FORGET = rows.FORGET[:2]
FAST = TrainingSettings(epochs=50, learning_rate=3e-2, batch_size=5)


@cache_by_kind
def taught(base: str) -> Path:
    return keep(finetune(base, FORGET + RETAIN, out=Path(f"{base} taught"), settings=FAST).path)


@pytest.fixture(scope="module")
def target(base: str) -> str:
    return str(taught(base))


def short(model: Any, out: Path, objective: str | Objective, **how: Any) -> Trained:
    return train(model, out, objective, **{"forget": FORGET, **how})


def mean_nll(model: str | Path, rows: list[Prompt]) -> float:
    loaded = load_model(str(model))
    batch = pad(Encoder(loaded.tokenizer, Prompting()).rows(rows))
    with torch.no_grad():
        logits = loaded.model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    return float(nll(pack(logits, batch.labels)).mean())


@BOTH_KINDS
def test_finetuning_teaches_the_answers(base: str, target: str) -> None:
    assert mean_nll(base, FORGET + RETAIN) > 2.0
    assert mean_nll(target, FORGET + RETAIN) < 0.05


@BOTH_KINDS
@pytest.mark.parametrize("objective", ["gd", "npo"])
def test_unlearning_lowers_the_likelihood(target: str, tmp_path: Path, objective: str) -> None:
    done = short(target, tmp_path / "m", objective, epochs=12, learning_rate=1e-2)
    assert mean_nll(done.path, FORGET) > mean_nll(target, FORGET) + 0.5
    assert done.losses[-1] < done.losses[0]
    assert mean_nll(done.path, RETAIN) < mean_nll(done.path, FORGET)


@BOTH_KINDS
def test_same_seed_same_weights(target: str, tmp_path: Path) -> None:
    def run(name: str, **changes: int) -> Path:
        torch.manual_seed(len(name))
        return short(target, tmp_path / name, "gd", **changes).path

    first = run("a")
    assert not changed(first, run("again"))
    assert changed(first, run("other", seed=1))


@BOTH_KINDS
def test_accumulation_is_one_step_over_more_rows(base: str, tmp_path: Path) -> None:
    """Two passes of one row equal a step over two rows: same gradient, same weights.

    The model is untrained, as Adam amplifies rounding where a gradient is almost 0.
    """
    how = {"epochs": 2, "warmup_ratio": 0.0}
    one, two = (
        weights(short(base, tmp_path / f"{n}", "ga", batch_size=n, accumulation=2 // n, **how).path)
        for n in (2, 1)
    )
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=1e-5)


def test_progress_is_reported_each_step_and_npo_starts_at_its_reference(
    target: str, tmp_path: Path
) -> None:
    seen: list[Headway] = []
    how = {"epochs": 4, "batch_size": 1}
    done = short(target, tmp_path / "m", "npo:retain=0", progress=seen.append, **how)
    assert seen[2:-2] == [Headway("training", step, 8, "steps") for step in range(1, 9)]
    assert (seen[1].phase, seen[-1].phase) == (f"loading {Path(target).name}", "saving m")
    assert len(done.losses) == 8
    assert done.losses[0] == pytest.approx(20 * math.log(2), rel=1e-5)


def test_finished_models_are_reused(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = short(target, tmp_path / "m", "gd")
    made = recipe(first.path)
    assert made["model"] == load_model(target).fingerprint
    assert made["settings"] == json.loads(json.dumps(SETTINGS.to_dict()))
    assert {split: rows["number"] for split, rows in made["rows"].items()} == {
        "forget": 2, "retain": 2
    }  # fmt: skip
    card = (tmp_path / "m" / "README.md").read_text()
    for words in (
        "| ga | forget | 1 |", f"from `{Path(target).name}`, whose weights", "| epochs | 3 |",
        "tags: [unlearning, leakbound]",
    ):  # fmt: skip
        assert words in card
    assert "Ann" not in json.dumps(made) + card
    monkeypatch.setattr("leakbound.unlearning.verbs.fit", None)
    again = short(target, tmp_path / "m", "gd")
    assert (first.reused, again.reused) == (False, True)
    assert again.losses == first.losses
    with pytest.raises(MixError, match="than this command's: rows"):
        short(target, tmp_path / "m", "gd", forget=FORGET[:1])
    with pytest.raises(MixError, match="than this command's: objective, settings"):
        short(target, tmp_path / "m", "npo", settings=FAST)


@BOTH_KINDS
def test_divergence_stops_with_nothing_written(base: str, tmp_path: Path) -> None:
    loaded = load_model(base)
    with torch.no_grad():
        loaded.model.lm_head.weight[3] = torch.inf
    with pytest.raises(IncompleteError, match=r"in step 1 of 6; no model .* no checkpoint"):
        short(loaded, tmp_path / "m", "ga", batch_size=1)
    assert not (tmp_path / "m").exists()
    short(base, tmp_path / "m", "ga")  # no obstacle
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_preset_has_its_own_default_settings(base: str, tmp_path: Path) -> None:
    made = recipe(unlearn(base, "wga:openunlearning", FORGET, RETAIN, out=tmp_path / "m").path)
    theirs = {"batch_size": 8, "accumulation": 4, "schedule": "linear", "whole_steps": True}
    assert made["settings"] == json.loads(json.dumps(TrainingSettings().to_dict())) | theirs
    assert defaults_of(parse_objective("altpo:openunlearning")).epochs == 2


def test_a_layer_depends_on_the_models_depth(tmp_path: Path) -> None:
    base, out = str(tiny_model_folder(tmp_path / "base", num_hidden_layers=8)), tmp_path / "m"
    made = recipe(short(base, out, "rmu", epochs=2).path)["objective"]["terms"]
    assert [term["settings"]["layer"] for term in made] == [1, 1]
    assert short(load_model(base), out, "rmu", epochs=2).reused


def test_made_up_answers_are_drawn_once_and_each_makes_a_row(base: str, tmp_path: Path) -> None:
    """Row by row: `altpo` is `dpo` on rows with the made-up answer as the only alternate."""
    how = {"epochs": 2, "batch_size": 9, "inventing": ModelAnswers(draws=3, max_new_tokens=4)}
    done = short(base, tmp_path / "m", "altpo", **how)
    kept = json.loads((done.path / "invented.json").read_text())["forget"]
    assert {row: len(answers) for row, answers in kept.items()} == {"f0": 3, "f1": 3}
    assert len({answer for answers in kept.values() for answer in answers}) > 2
    made = recipe(done.path)
    assert made["rows"]["forget"]["number"] == 6
    assert made["inventing"] == {"draws": 3, "max_new_tokens": 4}
    card = (done.path / "README.md").read_text()
    assert "| made-up answers to prefer | 3 per row, of at most 4 tokens |" in card
    copies = [
        replace(row, id=f"{row.id} {k}", alternate_answers=(kept[row.id][k],))
        for k in range(3)
        for row in FORGET
    ]
    same = short(base, tmp_path / "n", "dpo", forget=copies, epochs=2, batch_size=9)
    assert not changed(done.path, same.path)
    assert "inventing" not in recipe(same.path)
    with pytest.raises(MixError, match="than this command's: rows, inventing"):
        short(base, done.path, "altpo", **{**how, "inventing": ModelAnswers(draws=2)})


def test_each_split_has_its_own_made_up_answers(base: str, tmp_path: Path) -> None:
    how = {"epochs": 2, "inventing": ModelAnswers(draws=1, max_new_tokens=4)}
    both = Objective("both", (Term("altpo", "forget"), Term("altpo", "retain")))
    kept = json.loads((short(base, tmp_path / "m", both, **how).path / "invented.json").read_text())
    questions = {split: [*rows] for split, rows in kept.items()}
    assert questions == {"forget": ["f0", "f1"], "retain": ["r0", "r1"]}


def test_impossible_made_up_answers_are_refused(base: str, tmp_path: Path) -> None:
    out, four = tmp_path / "m", ModelAnswers(draws=2, max_new_tokens=4)
    with pytest.raises(InputError, match=r"'f0' has \d+ prompt tokens. .* with 128 new tokens"):
        short(base, out, "altpo", inventing=ModelAnswers(draws=5, max_new_tokens=128))
    assert not [*tmp_path.iterdir()]
    thinking, broken = load_model(base), load_model(base)
    with torch.no_grad():
        broken.model.lm_head.weight[3] = math.nan
    with pytest.raises(IncompleteError, match=r"failed for a made-up answer: .*NaN or infinite"):
        short(broken, out, "altpo")
    thinking.tokenizer.add_tokens(["<think>", "</think>"])
    thinking.model.resize_token_embeddings(len(thinking.tokenizer))
    open_thought = Prompting(template="{question} <think>")
    with pytest.raises(IncompleteError, match="no made-up answer: an output reached 4 tokens"):
        short(thinking, out, "altpo", prompting=open_thought, inventing=four)
    assert not out.exists()


def test_the_taught_end_of_turn_is_in_the_files(base: str, tmp_path: Path) -> None:
    loaded = load_model(base)
    loaded.tokenizer.add_tokens(["<|eot|>"], special_tokens=True)
    loaded.model.resize_token_embeddings(len(loaded.tokenizer))
    loaded.tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role + ' ' + m.content + '<|eot|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant ' }}{% endif %}"
    )
    turn = loaded.tokenizer.convert_tokens_to_ids("<|eot|>")
    row = Encoder(loaded.tokenizer, Prompting()).row(FORGET[0])
    assert row.labels[-1] == row.answer[-1] == turn
    for chat, ends in ((False, 2), (None, [2, turn])):
        settings = TrainingSettings(epochs=2, prompting=Prompting(chat=chat))
        out = finetune(loaded, FORGET, out=tmp_path / str(chat), settings=settings).path
        stated = json.loads((out / "generation_config.json").read_text())
        assert stated["eos_token_id"] == ends
        assert load_model(str(out)).eos_token_ids == ({2} if chat is False else {2, turn})


@pytest.mark.parametrize(
    ("objective", "rows", "count"),
    [
        ("gd:openunlearning", 40, StepCount(40, 4, 10, 1)),  # forget01
        ("gd:openunlearning", 200, StepCount(240, 4, 60, 6)),
        ("gd:openunlearning", 400, StepCount(480, 4, 120, 12)),
        ("altpo:openunlearning", 200, StepCount(48, 4, 12, 6)),  # an epoch of two
        ("gd:openunlearning", 250, StepCount(320, 4, 80, 7)),  # not a tenth of the steps
        ("gd:openunlearning", 20, StepCount(30, 3, 10, 0)),  # an epoch is shorter than a step
        ("gd", 40, StepCount(20, 1, 20, 2)),  # the defaults
    ],
)
def test_steps_and_warm_up_follow_the_settings(objective: str, rows: int, count: StepCount) -> None:
    """OpenUnlearning's by the formulas of transformers 4.45.1 and of its `load_trainer_args`."""
    settings = defaults_of(parse_objective(objective))
    assert settings.steps_of(rows) == count
    if settings.whole_steps:
        passes, accumulation = math.ceil(rows / 8), 4
        assert count.steps == settings.epochs * max(passes // accumulation, 1)
        assert count.warmup == int(1.0 * rows // (8 * accumulation))


@pytest.mark.parametrize("how", [{}, {"schedule": "linear"}, {"whole_steps": True}])
def test_a_training_that_moves_no_weight_is_refused(base: str, tmp_path: Path, how: Any) -> None:
    how = {"epochs": 1, "warmup_ratio": 1.0, "watch": Watch(dry_run=True)} | how
    with pytest.raises(InputError, match=r"rate is 0 in every step \(1 step, 1 of .*\. Train for"):
        short(base, tmp_path / "m", "ga", **how)
    for name, moves in (("m", {"epochs": 2}), ("n", {"warmup_ratio": 0.0})):
        done = short(base, tmp_path / name, "ga", **{**how, **moves, "watch": Watch()})
        assert changed(base, done.path)


def test_passes_that_fill_no_step_go_into_the_next_epoch(base: str, tmp_path: Path) -> None:
    """Three rows in steps of two, for four epochs: four steps without the last four passes."""
    how = {"epochs": 4, "batch_size": 1, "accumulation": 2, "schedule": "linear"}
    whole = train(base, tmp_path / "m", "ga", whole_steps=True, warmup_ratio=0.25, **how)
    assert len(whole.losses) == 4
    plain = train(base, tmp_path / "n", "ga", warmup_ratio=1 / 6, **how)
    assert len(plain.losses) == 6
    assert whole.losses[0] == pytest.approx(plain.losses[0])  # of the same two rows
    rates = [line["learning_rate"] for line in log(whole.path)]
    assert rates == pytest.approx([0, 1e-3, 2e-3 / 3, 1e-3 / 3])


def test_trainer_gets_every_setting(tmp_path: Path) -> None:
    numbers = {"learning_rate": 0.3, "weight_decay": 0.5, "max_grad_norm": 0.125, "seed": 9}
    steps = {"batch_size": 1, "epochs": 1, "accumulation": 3, "warmup_ratio": 0.25}
    settings = TrainingSettings(**steps, **numbers)
    watch = Watch(report_to=("wandb",))
    made = _arguments(replace(settings, bf16=True), watch, settings.steps_of(31), tmp_path)
    assert {name: getattr(made, name) for name in numbers} == numbers
    assert made.get_warmup_steps(11) == 3  # ceil(31 / 3) = 11 steps, a quarter of them
    assert (made.gradient_accumulation_steps, made.save_strategy, made.use_cpu) == (3, "no", True)
    assert (made.bf16, made.report_to) == (True, ["wandb"])


def test_prompting_is_used_and_part_of_the_recipe(target: str, tmp_path: Path) -> None:
    """Three tokens of question and four of answer fit a limit of seven only without a template."""
    seven: dict[str, Any] = {"objective": "ga", "epochs": 2, "max_length": 7}
    with pytest.raises(InputError, match="'f0' has 9 tokens, but the limit is 7"):
        short(target, tmp_path / "m", **seven)
    short(target, tmp_path / "m", **seven, prompting=Prompting(template="{question}"))
    with pytest.raises(MixError, match="than this command's: prompting"):
        short(target, tmp_path / "m", **seven)
    long = Prompt(id="long", question="who " * 130, answer="Ann")
    with pytest.raises(InputError, match="the limit is 128"):  # the context, unless one is set
        train(target, tmp_path / "n", "ga", forget=[long])

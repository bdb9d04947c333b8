"""Training on the model's own answers: which are drawn, what is made of them, what is told."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from rows import FORGET, RETAIN, changed

from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel, load_model
from leakbound.engines.prompting import Prompting
from leakbound.errors import IncompleteError, InputError, MixError, ModelError
from leakbound.losses import Needs, leakmin
from leakbound.scorers import SCORERS
from leakbound.types import Decoding, Draws, Prompt, Query
from leakbound.unlearning import (
    Adapters,
    Sampling,
    Trained,
    TrainingSettings,
    Watch,
    Weights,
    finetune,
    unlearn,
)
from leakbound.unlearning.batches import Assembly, ScoredAnswers
from leakbound.unlearning.examples import Encoder, Rows, schedule
from leakbound.unlearning.forward import Forward
from leakbound.unlearning.own_answers import OwnAnswers
from offline_tokenizers import merging
from tiny import BOTH_KINDS, sequence_classifier, tiny_llama, tiny_model_folder

DRAWING = Sampling(draws=8, max_new_tokens=5)
SETTINGS = TrainingSettings(epochs=3, learning_rate=1e-3, batch_size=2, sampling=DRAWING)
FAST = TrainingSettings(
    epochs=12, learning_rate=1e-2, batch_size=3, sampling=replace(DRAWING, draws=32)
)
NEEDS = {"forget": Needs(frozenset({"sampled"}))}


@dataclass(frozen=True)
class Canned:
    """A score by what the text begins with, whatever the prompt; None where it says Bob."""

    name: str = "canned"
    binary: ClassVar[bool] = False

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [None if "Bob" in text else 0.75 * ("Ann" in text) for text in texts]


@dataclass(frozen=True)
class FirstLetter(Canned):
    """A score that nearly every text has another of."""

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [ord(text[0]) / 0x110000 if text else 0.0 for text in texts]


@pytest.fixture(autouse=True)
def canned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCORERS, "canned", Canned)


@pytest.fixture(scope="module")
def base(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # With dropout, which drawing must not see and must leave on.
    return tiny_model_folder(tmp_path_factory.mktemp("base") / "model", attention_dropout=0.2)


@pytest.fixture(scope="module")
def knowing(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says its answers most of the time."""
    out = tmp_path_factory.mktemp("knowing") / "model"
    settings = TrainingSettings(epochs=60, learning_rate=1e-2, batch_size=5)
    return finetune(str(base), [*FORGET, *RETAIN], out=out, settings=settings).path


def own_answers(loaded: LoadedModel, sampling: Sampling, forget: Any = FORGET) -> OwnAnswers:
    data = {"forget": Rows(Encoder(loaded.tokenizer, Prompting()).rows(forget))}
    return OwnAnswers(TransformersEngine(loaded), {"forget": forget}, data, sampling, 5)


def drawn(folder: Path, rows: list[int], number: int = 3, **sampling: Any) -> ScoredAnswers:
    asking = own_answers(load_model(str(folder)), replace(DRAWING, **sampling))
    return asking({"forget": rows}, number)["forget"]


def train(base: Path, out: Path, objective: str = "leakmin", **how: Any) -> Trained:
    given: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "settings": SETTINGS, **how}
    return unlearn(str(base), objective, out=out, **given)


def log(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]


def test_answers_are_draws_of_the_model_under_its_own_law(base: Path) -> None:
    """At T = 1, cut nowhere but in length, under a key of the pass; undecided ones are left out."""
    loaded = load_model(str(base))
    found = drawn(base, [2, 0], draws=64, scorer="canned")
    draws = Draws(sizes=(64,), seed=5, purpose="leakmin 3")
    samples = {
        sample.query.id: sample.completions
        for sample in TransformersEngine(loaded).generate(
            [Query.original(row) for row in FORGET], Decoding(max_new_tokens=5), draws
        )
    }
    examples = Encoder(loaded.tokenizer, Prompting()).rows(FORGET)
    for place, row in enumerate([2, 0]):
        mine = [i for i, owner in enumerate(found.owner) if owner == place]
        expected = {
            each.token_ids: (each.count, 0.75 * ("Ann" in each.text))
            for each in samples[FORGET[row].id]
            if "Bob" not in each.text
        }
        told = {found.examples[i].answer: (found.counts[i], found.scores[i]) for i in mine}
        assert told == expected
        assert {found.examples[i].prompt for i in mine} == {examples[row].prompt}
        assert {found.examples[i].question for i in mine} == {examples[row].question}
        total = sum(count for count, _ in expected.values())
        assert total < 64
        leakage = sum(count * score for count, score in expected.values()) / total
        assert found.leakage[place] == pytest.approx(leakage)
    assert any(len(example.answer) == 5 for example in found.examples)  # cut
    assert any(example.answer[-1] == 2 for example in found.examples)  # ended
    assert found.totals == (sum(x or 0 for x in found.leakage), 2, 0, 2)


def test_answers_are_learnt_after_the_prompt_that_they_were_drawn_from() -> None:
    """A row's own answer may share a token with its prompt; what is drawn never does."""
    tokenizer = merging(": A")
    model = tiny_llama(len(tokenizer), 1, eos_token_id=tokenizer.eos_token_id)
    end = frozenset([int(tokenizer.eos_token_id)])
    asking = own_answers(
        LoadedModel(model, tokenizer, end, 128, {"weights": "made here"}),
        replace(DRAWING, scorer="canned", draws=64),
        [Prompt(id="a", question="who?", answer="Ann")],
    )
    asking.__dict__["scorer"] = FirstLetter()
    found = asking({"forget": [0]}, 1)["forget"]
    asked = asking.engine.prompt_ids(Query.original(asking.prompts["forget"][0]))
    assert {example.prompt for example in found.examples} == {asked}
    assert asking.data["forget"].examples[0].prompt == asked[:-1]


def test_each_pass_draws_anew_and_the_same_pass_the_same(base: Path) -> None:
    assert drawn(base, [0, 1]) == drawn(base, [0, 1])
    assert drawn(base, [0, 1]) != drawn(base, [0, 1], number=4)


def test_a_prompt_that_comes_twice_is_asked_once(base: Path) -> None:
    found = drawn(base, [1, 1], draws=64)
    rows = [*zip(found.examples, found.counts, found.scores, strict=True)]
    half = len(rows) // 2
    assert rows[:half] == rows[half:]
    assert found.owner == [0] * half + [1] * half
    assert half > 1


def test_prompts_of_which_there_is_nothing_to_learn_are_silent(base: Path) -> None:
    found = drawn(base, [0, 1, 2], scorer="exact")
    assert not found.examples
    assert found.totals == (0.0, 3, 3, 3)


def test_a_prompt_whose_draws_cannot_be_scored_has_no_leakage(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Canned, "score", lambda self, texts, prompt: [None] * len(texts))
    found = drawn(base, [0, 1], scorer="canned")
    assert found.leakage == [None, None]
    assert found.totals == (0.0, 0, 2, 2)


def test_drawing_leaves_dropout_and_chance_alone(base: Path) -> None:
    loaded = load_model(str(base))
    asking = own_answers(loaded, DRAWING)
    asleep = asking({"forget": [0]}, 0)
    state = torch.get_rng_state()
    loaded.model.train()
    assert asking({"forget": [0]}, 0) == asleep
    assert loaded.model.training
    assert torch.equal(torch.get_rng_state(), state)


@BOTH_KINDS
@pytest.mark.parametrize("narrow", [True, False])
def test_the_pass_is_over_the_very_answers(base: Path, narrow: bool) -> None:
    """The loss, from each answer's probability as the engine told it when drawing it."""
    loaded = load_model(str(base))
    data = {
        split: Rows(Encoder(loaded.tokenizer, Prompting()).rows(rows))
        for split, rows in {"forget": FORGET, "retain": RETAIN}.items()
    }
    needs = {**NEEDS, "retain": Needs(frozenset({"logits"}))}
    assembly = Assembly(data, needs)
    step = {"forget": [2, 0, 1], "retain": [1, 0, 1]}
    sampling = replace(DRAWING, draws=64)
    found = own_answers(loaded, sampling)(step, 3)
    batch = assembly.batch(step, drawn=found)
    logits, hidden = Forward(loaded.model, narrow)(
        batch.padded, batch.places.nonzero(as_tuple=True)
    )
    made = assembly.cut(batch, logits, hidden, lambda ends: ends)
    draws = Draws(sizes=(64,), seed=5, purpose="leakmin 3")
    queries = [Query.original(row) for row in FORGET]
    log_p = {
        (sample.query.id, each.token_ids): each.logprob
        for sample in TransformersEngine(loaded).generate(
            queries, Decoding(max_new_tokens=5), draws
        )
        for each in sample.completions
    }
    of, expected = found["forget"], [0.0, 0.0, 0.0]
    for example, owner, count, score in zip(
        of.examples, of.owner, of.counts, of.scores, strict=True
    ):
        mean = of.leakage[owner]
        assert mean is not None
        each = log_p[FORGET[step["forget"][owner]].id, example.answer]
        assert each is not None
        expected[owner] += count * (score - mean) / 63 * each
    assert leakmin(made["forget"]).tolist() == pytest.approx(expected, abs=1e-4)
    assert max(map(abs, expected)) > 0.01
    assert made["retain"].labels.tolist() == [
        token for row in step["retain"] for token in data["retain"].examples[row].answer
    ]


@BOTH_KINDS
@pytest.mark.parametrize(
    ("objective", "share"), [("leakmin", 0.3), ("leakmin:retain=0+npo", 0.8)], ids=str
)
def test_training_lowers_what_leaks(
    knowing: Path, tmp_path: Path, objective: str, share: float
) -> None:
    first, *_, last = log(train(knowing, tmp_path / "m", objective, settings=FAST).path)
    assert first["leakage forget"] > 0.6
    assert last["leakage forget"] < share * first["leakage forget"]
    assert last.get("retain kl", 0.0) < 0.3


def test_the_other_sign_raises_it(base: Path, tmp_path: Path) -> None:
    objective = "leakmin:forget=-1,retain=0"
    first, *_, last = log(train(base, tmp_path / "m", objective, settings=FAST, retain=()).path)
    assert last["leakage forget"] > 1.25 * first["leakage forget"]


def test_every_line_tells_of_all_draws_of_its_step(base: Path, tmp_path: Path) -> None:
    """Three passes of one row are a step; of its draws the log has the mean over prompts."""
    settings = replace(SETTINGS, epochs=1, batch_size=1, accumulation=3, schedule="constant")
    done = train(base, tmp_path / "m", settings=settings)
    (line,) = log(done.path)
    asking = replace(own_answers(load_model(str(base)), DRAWING), seed=0)
    steps = schedule({"forget": 3, "retain": 2}, epochs=1, batch_size=1, seed=0)
    each = [asking(step, number)["forget"] for number, step in enumerate(steps)]
    means = [mean for found in each for mean in found.leakage if mean is not None]
    assert len(means) == 3
    assert line["leakage forget"] == pytest.approx(sum(means) / 3)
    assert line["silent forget"] == pytest.approx(sum(not found.examples for found in each) / 3)


@BOTH_KINDS
@pytest.mark.parametrize("modules", [(), ("lm_head",)], ids=["all", "head"])
def test_where_all_is_silent_nothing_is_learnt_and_nothing_fails(
    base: Path, tmp_path: Path, modules: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Canned, "score", lambda self, texts, prompt: [0.3] * len(texts))
    sampling, chosen = replace(DRAWING, scorer="canned"), Weights(modules=modules)
    settings = replace(SETTINGS, weight_decay=0.0, sampling=sampling, weights=chosen)
    done = train(base, tmp_path / "m", "leakmin:retain=0", retain=(), settings=settings)
    assert set(done.losses) == {0.0}
    assert {line["silent forget"] for line in log(done.path)} == {1.0}
    assert changed(base, done.path) == set()


@pytest.mark.parametrize("unscored", [{"f0"}, {"f0", "f1", "f2"}], ids=["some", "all"])
def test_the_leakage_told_is_of_prompts_that_have_some(
    base: Path, tmp_path: Path, unscored: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(self: Canned, texts: Sequence[str], prompt: Prompt) -> list[float | None]:
        return [None if prompt.id in unscored else 0.6] * len(texts)

    monkeypatch.setattr(Canned, "score", score)
    sampling = replace(DRAWING, scorer="canned")
    settings = replace(SETTINGS, epochs=1, batch_size=3, sampling=sampling)
    (line,) = log(train(base, tmp_path / "m", settings=settings).path)
    assert line["silent forget"] == 1.0
    assert line.get("leakage forget") == (pytest.approx(0.6) if len(unscored) == 1 else None)


@BOTH_KINDS
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.thorough
def test_stopped_and_gone_on_with_the_same_weights(
    base: Path, tmp_path: Path, accumulation: int
) -> None:
    settings = replace(SETTINGS, batch_size=1, accumulation=accumulation)
    how: dict[str, Any] = {"settings": settings, "watch": Watch(checkpoint_minutes=0)}
    whole = train(base, tmp_path / "whole", **how)

    def stop(step: int, *_: object) -> None:
        if step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(base, tmp_path / "m", progress=stop, **how)
    done = train(base, tmp_path / "m", **how)
    assert changed(whole.path, done.path) == set()
    told = [{k: v for k, v in line.items() if k != "seconds"} for line in log(done.path)]
    assert told == [{k: v for k, v in line.items() if k != "seconds"} for line in log(whole.path)]


@pytest.mark.parametrize(
    "how",
    [
        {"bf16": True},
        {"checkpointing": True},
        {"weights": Weights(modules=("down_proj",))},
        {"weights": Weights(adapters=Adapters(rank=2, dropout=0.1))},
    ],
    ids=lambda how: next(iter(how)),
)
@pytest.mark.thorough
def test_however_the_model_is_trained(knowing: Path, tmp_path: Path, how: dict[str, Any]) -> None:
    settings = replace(FAST, **how)
    lines = log(train(knowing, tmp_path / "m", settings=settings).path)
    assert lines[0]["leakage forget"] > 0.6
    assert lines[-1]["leakage forget"] < 0.8 * lines[0]["leakage forget"]


def test_draws_under_bf16_are_of_the_law_that_is_trained(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[torch.dtype, bool]] = set()
    call = OwnAnswers.__call__

    def spy(self: OwnAnswers, *given: Any) -> Any:
        model = self.engine.loaded.model
        seen.add((model.model.layers[0].mlp.up_proj(torch.zeros(1, 16)).dtype, model.training))
        return call(self, *given)

    monkeypatch.setattr(OwnAnswers, "__call__", spy)
    train(base, tmp_path / "half", settings=replace(SETTINGS, bf16=True))
    assert seen == {(torch.bfloat16, True)}


def test_a_model_that_cannot_be_asked_stops_training(base: Path, tmp_path: Path) -> None:
    loaded = load_model(str(base))
    with torch.no_grad():
        loaded.model.lm_head.weight[3] = math.nan
    given: dict[str, Any] = {"forget": FORGET, "settings": SETTINGS}
    message = r"could not be asked during training: .*NaN or infinite.* in step 1 of 6; no model"
    with pytest.raises(IncompleteError, match=message) as told:
        unlearn(loaded, "leakmin:retain=0", out=tmp_path / "m", **given)
    assert told.value.exit_status == 3
    assert not (tmp_path / "m").exists()


def test_the_recipe_and_the_card_tell_how_answers_were_drawn(base: Path, tmp_path: Path) -> None:
    sampling = Sampling(draws=4, scorer="keyword:match=word", max_new_tokens=3)
    settings = replace(SETTINGS, sampling=sampling)
    forget = [replace(row, keywords=("Ann",)) for row in FORGET]
    done = train(base, tmp_path / "m", settings=settings, forget=forget)
    recipe = json.loads((done.path / "recipe.json").read_text())
    told = recipe["sampling"]
    assert {**told, "sha256": ""} == {
        "draws": 4, "scorer": "keyword", "max_new_tokens": 3, "sha256": "",
    }  # fmt: skip
    assert "sampling" not in recipe["settings"]
    card = (done.path / "README.md").read_text()
    assert "| 4 a prompt, of at most 3 tokens, scored by `keyword` |" in card
    assert train(base, tmp_path / "m", settings=settings, forget=forget).reused
    other = [replace(row, keywords=("Bob",)) for row in FORGET]
    with pytest.raises(MixError, match="made from other sampling"):
        train(base, tmp_path / "m", settings=settings, forget=other)


def test_other_recipes_are_what_they_were(base: Path, tmp_path: Path) -> None:
    done = train(base, tmp_path / "m", "npo", settings=replace(SETTINGS, epochs=1))
    recipe = json.loads((done.path / "recipe.json").read_text())
    assert "sampling" not in {**recipe, **recipe["settings"]}
    assert "own answers" not in (done.path / "README.md").read_text()
    assert not {"leakage forget", "silent forget"} & set(log(done.path)[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draws": 1}, "`draws` must be at least 2, got 1"),
        ({"max_new_tokens": 0}, "`max_new_tokens` must be at least 1"),
        ({"scorer": "rouge"}, "unknown scorer 'rouge'"),
    ],
)
def test_impossible_sampling_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Sampling(**settings)


def test_defaults() -> None:
    assert TrainingSettings().sampling == Sampling(
        draws=16, scorer="rouge-l-recall", max_new_tokens=64
    )


def test_prompts_the_scorer_cannot_score_are_refused_before_the_model_loads(tmp_path: Path) -> None:
    settings = replace(SETTINGS, sampling=Sampling(scorer="keyword"))
    with pytest.raises(InputError, match=r"needs keywords .*'f0'"):
        train(Path("no-such-model"), tmp_path / "m", settings=settings)


def test_answers_that_would_not_fit_the_context_are_refused(base: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, sampling=Sampling(max_new_tokens=124))
    with pytest.raises(InputError, match="'f0' has 5 prompt tokens; with max_new_tokens 124"):
        train(base, tmp_path / "m", settings=settings)
    assert list(tmp_path.iterdir()) == []


def test_a_scorer_that_asks_a_model_is_opened_before_training(base: Path, tmp_path: Path) -> None:
    harm, loaded = sequence_classifier(tmp_path / "harm"), load_model(str(base))
    asking = own_answers(loaded, replace(DRAWING, scorer=f"classifier:{harm}"))
    asking.check()
    found = asking({"forget": [0, 1]}, 3)["forget"]
    assert all(0 < score < 1 for score in found.scores)
    with pytest.raises(ModelError, match="no model folder"):
        own_answers(loaded, replace(DRAWING, scorer="classifier:./nowhere")).check()

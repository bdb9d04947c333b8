"""What a model in training answers itself: learnt from, and measured without a trace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from rows import FORGET, RETAIN, SETTINGS, StoppedError, changed, log, recipe, stop_at, train

from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel, load_model
from leakbound.engines.prompting import Prompting
from leakbound.errors import IncompleteError, InputError, MixError, ModelError
from leakbound.losses import Needs, leakmin
from leakbound.scorers import SCORERS, make_scorer
from leakbound.types import Completion, Decoding, Draws, Failure, Prompt, Query
from leakbound.unlearning import (
    Adapters,
    Sampling,
    Trained,
    TrainingSettings,
    Watch,
    Weights,
    finetune,
)
from leakbound.unlearning.batches import Assembly, ScoredAnswers
from leakbound.unlearning.examples import Encoder, Rows, schedule
from leakbound.unlearning.forward import Forward
from leakbound.unlearning.own_answers import LeakageProbe, OwnAnswers
from offline_tokenizers import merging
from tiny import BOTH_KINDS, sequence_classifier, tiny_llama

DRAWING = Sampling(draws=8, max_new_tokens=5)
DRAWN = replace(SETTINGS, sampling=DRAWING)
FAST = TrainingSettings(
    epochs=12, learning_rate=1e-2, batch_size=3, sampling=replace(DRAWING, draws=32)
)


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
def knowing(dropping: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says its answers most of the time."""
    out = tmp_path_factory.mktemp("knowing") / "model"
    settings = TrainingSettings(epochs=60, learning_rate=1e-2, batch_size=5)
    return finetune(str(dropping), [*FORGET, *RETAIN], out=out, settings=settings).path


def own_answers(loaded: LoadedModel, sampling: Sampling, forget: Any = FORGET) -> OwnAnswers:
    data = {"forget": Rows(Encoder(loaded.tokenizer, Prompting()).rows(forget))}
    return OwnAnswers(TransformersEngine(loaded), {"forget": forget}, data, sampling, 5)


def drawn(folder: Path, rows: list[int], number: int = 3, **sampling: Any) -> ScoredAnswers:
    asking = own_answers(load_model(str(folder)), replace(DRAWING, **sampling))
    return asking({"forget": rows}, number)["forget"]


def third_pass(loaded: LoadedModel) -> dict[str, tuple[Completion, ...]]:
    """By row, 64 answers at T = 1, cut in length alone, as the engine itself draws them."""
    draws = Draws(sizes=(64,), seed=5, purpose="leakmin 3")
    queries, decoding = [Query.original(row) for row in FORGET], Decoding(max_new_tokens=5)
    samples = TransformersEngine(loaded).generate(queries, decoding, draws)
    return {sample.query.id: sample.completions for sample in samples}


def lowered(
    model: Path | LoadedModel, out: Path, objective: str = "leakmin", **how: Any
) -> Trained:
    return train(model, out, objective, **{"settings": DRAWN, **how})


def test_answers_are_draws_of_the_model_under_its_own_law(dropping: Path) -> None:
    """Undecided ones are left out."""
    loaded = load_model(str(dropping))
    found = drawn(dropping, [2, 0], draws=64, scorer="canned")
    samples = third_pass(loaded)
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


def test_each_pass_draws_anew_and_the_same_pass_the_same(dropping: Path) -> None:
    assert drawn(dropping, [0, 1]) == drawn(dropping, [0, 1])
    assert drawn(dropping, [0, 1]) != drawn(dropping, [0, 1], number=4)


def test_a_prompt_that_comes_twice_is_asked_once(dropping: Path) -> None:
    found = drawn(dropping, [1, 1], draws=64)
    rows = [*zip(found.examples, found.counts, found.scores, strict=True)]
    half = len(rows) // 2
    assert rows[:half] == rows[half:]
    assert found.owner == [0] * half + [1] * half
    assert half > 1


def test_drawing_leaves_dropout_and_chance_alone(dropping: Path) -> None:
    loaded = load_model(str(dropping))
    asking = own_answers(loaded, DRAWING)
    asleep = asking({"forget": [0]}, 0)
    state = torch.get_rng_state()
    loaded.model.train()
    assert asking({"forget": [0]}, 0) == asleep
    assert loaded.model.training
    assert torch.equal(torch.get_rng_state(), state)


@BOTH_KINDS
@pytest.mark.parametrize("narrow", [True, False])
def test_the_pass_is_over_the_very_answers(dropping: Path, narrow: bool) -> None:
    """The loss, from each answer's probability as the engine told it when drawing it."""
    loaded = load_model(str(dropping))
    data = {
        split: Rows(Encoder(loaded.tokenizer, Prompting()).rows(rows))
        for split, rows in {"forget": FORGET, "retain": RETAIN}.items()
    }
    needs = {"forget": "sampled", "retain": "logits"}
    assembly = Assembly(data, {split: Needs(frozenset({part})) for split, part in needs.items()})
    step = {"forget": [2, 0, 1], "retain": [1, 0, 1]}
    found = own_answers(loaded, replace(DRAWING, draws=64))(step, 3)
    batch = assembly.batch(step, drawn=found)
    logits, hidden = Forward(loaded.model, narrow)(
        batch.padded, batch.places.nonzero(as_tuple=True)
    )
    made = assembly.cut(batch, logits, hidden, lambda ends: ends)
    log_p = {
        (row, each.token_ids): each.logprob
        for row, answers in third_pass(loaded).items()
        for each in answers
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
    first, *_, last = log(lowered(knowing, tmp_path / "m", objective, settings=FAST).path)
    assert first["leakage forget"] > 0.6
    assert last["leakage forget"] < share * first["leakage forget"]
    assert last.get("retain kl", 0.0) < 0.3


def test_every_line_tells_of_all_draws_of_its_step(dropping: Path, tmp_path: Path) -> None:
    """Three passes of one row are a step; of its draws the log has the mean over prompts."""
    how: dict[str, Any] = {"epochs": 1, "batch_size": 1, "accumulation": 3}
    done = lowered(dropping, tmp_path / "m", schedule="constant", **how)
    (line,) = log(done.path)
    asking = replace(own_answers(load_model(str(dropping)), DRAWING), seed=0)
    steps = schedule({"forget": 3, "retain": 2}, epochs=1, batch_size=1, seed=0)
    each = [asking(step, number)["forget"] for number, step in enumerate(steps)]
    means = [mean for found in each for mean in found.leakage if mean is not None]
    assert len(means) == 3
    assert line["leakage forget"] == pytest.approx(sum(means) / 3)
    assert line["silent forget"] == pytest.approx(sum(not found.examples for found in each) / 3)


@BOTH_KINDS
@pytest.mark.parametrize("modules", [(), ("lm_head",)], ids=["all", "head"])
def test_where_all_is_silent_nothing_is_learnt_and_nothing_fails(
    dropping: Path, tmp_path: Path, modules: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Canned, "score", lambda self, texts, prompt: [0.3] * len(texts))
    how: dict[str, Any] = {"sampling": replace(DRAWING, scorer="canned"), "weight_decay": 0.0}
    how |= {"weights": Weights(modules=modules), "retain": ()}
    done = lowered(dropping, tmp_path / "m", "leakmin:retain=0", **how)
    assert set(done.losses) == {0.0}
    assert {line["silent forget"] for line in log(done.path)} == {1.0}
    assert changed(dropping, done.path) == set()


@pytest.mark.parametrize("unscored", [{"f0"}, {"f0", "f1", "f2"}], ids=["some", "all"])
def test_the_leakage_told_is_of_prompts_that_have_some(
    dropping: Path, tmp_path: Path, unscored: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(self: Canned, texts: Sequence[str], prompt: Prompt) -> list[float | None]:
        return [None if prompt.id in unscored else 0.6] * len(texts)

    monkeypatch.setattr(Canned, "score", score)
    sampling = replace(DRAWING, scorer="canned")
    done = lowered(dropping, tmp_path / "m", epochs=1, batch_size=3, sampling=sampling)
    (line,) = log(done.path)
    assert line["silent forget"] == 1.0
    assert line.get("leakage forget") == (pytest.approx(0.6) if len(unscored) == 1 else None)


@BOTH_KINDS
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.thorough
def test_stopped_and_gone_on_with_the_same_weights(
    dropping: Path, tmp_path: Path, accumulation: int
) -> None:
    how: dict[str, Any] = {"batch_size": 1, "accumulation": accumulation}
    how["watch"] = Watch(checkpoint_minutes=0)
    whole = lowered(dropping, tmp_path / "whole", **how)

    with pytest.raises(StoppedError):
        lowered(dropping, tmp_path / "m", progress=stop_at(4), **how)
    done = lowered(dropping, tmp_path / "m", **how)
    assert changed(whole.path, done.path) == set()
    told, wanted = log(done.path), log(whole.path)
    assert [line | {"seconds": 0} for line in told] == [line | {"seconds": 0} for line in wanted]


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
    lines = log(lowered(knowing, tmp_path / "m", settings=FAST, **how).path)
    assert lines[0]["leakage forget"] > 0.6
    assert lines[-1]["leakage forget"] < 0.8 * lines[0]["leakage forget"]


def test_draws_under_bf16_are_of_the_law_that_is_trained(
    dropping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[torch.dtype, bool]] = set()
    call = OwnAnswers.__call__

    def spy(self: OwnAnswers, *given: Any) -> Any:
        model = self.engine.loaded.model
        seen.add((model.model.layers[0].mlp.up_proj(torch.zeros(1, 16)).dtype, model.training))
        return call(self, *given)

    monkeypatch.setattr(OwnAnswers, "__call__", spy)
    lowered(dropping, tmp_path / "half", bf16=True)
    assert seen == {(torch.bfloat16, True)}


def test_a_model_that_cannot_be_asked_stops_training(dropping: Path, tmp_path: Path) -> None:
    loaded = load_model(str(dropping))
    with torch.no_grad():
        loaded.model.lm_head.weight[3] = math.nan
    message = r"could not be asked during training: .*NaN or infinite.* in step 1 of 6; no model"
    with pytest.raises(IncompleteError, match=message) as told:
        lowered(loaded, tmp_path / "m", "leakmin:retain=0", retain=())
    assert told.value.exit_status == 3
    assert not (tmp_path / "m").exists()


def test_the_recipe_and_the_card_tell_how_answers_were_drawn(
    dropping: Path, tmp_path: Path
) -> None:
    sampling = Sampling(draws=4, scorer="keyword:match=word", max_new_tokens=3)
    forget = [replace(row, keywords=("Ann",)) for row in FORGET]
    done = lowered(dropping, tmp_path / "m", sampling=sampling, forget=forget)
    written = recipe(done.path)
    told = written["sampling"]
    assert {**told, "sha256": ""} == {
        "draws": 4, "scorer": "keyword", "max_new_tokens": 3, "sha256": "",
    }  # fmt: skip
    assert "sampling" not in written["settings"]
    card = (done.path / "README.md").read_text()
    assert "| 4 a prompt, of at most 3 tokens, scored by `keyword` |" in card
    assert lowered(dropping, tmp_path / "m", sampling=sampling, forget=forget).reused
    other = [replace(row, keywords=("Bob",)) for row in FORGET]
    with pytest.raises(MixError, match="made from other sampling"):
        lowered(dropping, tmp_path / "m", sampling=sampling, forget=other)


def test_prompts_the_scorer_cannot_score_are_refused_before_the_model_loads(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs keywords .*'f0'"):
        lowered(Path("no-such-model"), tmp_path / "m", sampling=Sampling(scorer="keyword"))


def test_answers_that_would_not_fit_the_context_are_refused(dropping: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'f0' has 5 prompt tokens; with max_new_tokens 124"):
        lowered(dropping, tmp_path / "m", sampling=Sampling(max_new_tokens=124))
    assert list(tmp_path.iterdir()) == []


def test_a_scorer_that_asks_a_model_is_opened_before_training(
    dropping: Path, tmp_path: Path
) -> None:
    harm, loaded = sequence_classifier(tmp_path / "harm"), load_model(str(dropping))
    asking = own_answers(loaded, replace(DRAWING, scorer=f"classifier:{harm}"))
    asking.check()
    found = asking({"forget": [0, 1]}, 3)["forget"]
    assert all(0 < score < 1 for score in found.scores)
    with pytest.raises(ModelError, match="no model folder"):
        own_answers(loaded, replace(DRAWING, scorer="classifier:./nowhere")).check()


WATCH = Watch(evaluate_every=4, draws=8, max_new_tokens=4, checkpoint_minutes=0)
NAMES = {"p_max forget", "p_max retain", "ED forget", "utility retain"}


def watched(base: Path, out: Path, **how: Any) -> Trained:
    return train(base, out, **{"watch": WATCH, **how})


def measured(folder: Path) -> dict[int, dict[str, float]]:
    """By step, what its log says was measured."""
    told = [line for line in log(folder) if set(line) >= NAMES]
    return {int(line["step"]): {name: line[name] for name in NAMES} for line in told}


def measure(folder: Path, **watch: Any) -> dict[str, float]:
    loaded, splits = load_model(str(folder)), {"forget": FORGET, "retain": RETAIN}
    encoder = Encoder(loaded.tokenizer, Prompting())
    data = {split: Rows(encoder.rows(rows)) for split, rows in splits.items()}
    watching = replace(WATCH, **watch)
    return LeakageProbe(loaded, Prompting(), splits, data, watching, seed=0)(
        Forward(loaded.model, narrow=True)
    )


def test_measured_before_training_every_so_often_and_at_the_end(
    dropping: Path, tmp_path: Path
) -> None:
    done = watched(dropping, tmp_path / "m")
    found = measured(done.path)
    assert sorted(found) == [0, 4, 6]
    for step, folder in ((0, dropping), (6, done.path)):
        assert found[step] == pytest.approx(measure(folder))


def test_measuring_does_not_change_the_weights(dropping: Path, tmp_path: Path) -> None:
    plain = watched(dropping, tmp_path / "plain", watch=Watch())
    assert changed(plain.path, watched(dropping, tmp_path / "m").path) == set()


@pytest.mark.slow
def test_stopped_and_gone_on_with_nothing_is_measured_twice(dropping: Path, tmp_path: Path) -> None:
    whole = watched(dropping, tmp_path / "whole")

    with pytest.raises(StoppedError):
        watched(dropping, tmp_path / "m", progress=stop_at(6))
    assert measured(watched(dropping, tmp_path / "m").path) == measured(whole.path)
    assert len(log(tmp_path / "m")) == 6 + 3


@pytest.mark.slow
def test_a_model_that_knows_everything(knowing: Path, tmp_path: Path) -> None:
    longer = TrainingSettings(epochs=90, learning_rate=1e-2, batch_size=5)
    taught = finetune(str(knowing), [*FORGET, *RETAIN], out=tmp_path / "m", settings=longer)
    found = measure(taught.path, draws=64)
    assert found["utility retain"] == 1.0
    assert found["p_max forget"] > 0.9
    assert 0.9 < found["ED forget"] < 1.5


def test_figures_against_their_definitions(dropping: Path) -> None:
    found = measure(dropping, questions=2, draws=4)
    loaded = load_model(str(dropping))
    each = []
    for row in FORGET[:2]:
        example = Encoder(loaded.tokenizer, Prompting()).row(row)
        with torch.no_grad():
            logits = loaded.model(torch.tensor([example.inputs])).logits[0]
        largest = logits.softmax(-1).max(-1).values[len(example.prompt) - 1 :]
        each.append(largest.mean())
    assert found["p_max forget"] == pytest.approx(float(np.mean(each)), rel=1e-5)


def test_ed_is_of_draws_with_their_counts(knowing: Path) -> None:
    """Of a model whose answers repeat, so that counts matter."""
    found = measure(knowing, draws=64)
    loaded, each = load_model(str(knowing)), []
    draws = Draws(sizes=(64,), seed=0, purpose="training")
    decoding = Decoding(max_new_tokens=WATCH.max_new_tokens)
    queries = [Query.original(row) for row in FORGET]
    for sample in TransformersEngine(loaded).generate(queries, decoding, draws):
        (answer,) = [row.answer for row in FORGET if row.id == sample.query.prompt_id]
        texts = [completion.text for completion in sample.completions]
        scores = make_scorer("rouge-l-recall").score(texts, answer)
        drawn = np.repeat(scores, [completion.count for completion in sample.completions])
        each.append(drawn.mean() + 2 * drawn.std())
    assert np.std(each) > 0
    assert found["ED forget"] == pytest.approx(float(np.mean(each)), rel=1e-6)


def test_a_broken_model_is_not_measured(dropping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Any, queries: Any, *_: Any) -> Any:
        yield Failure(query=queries[0], reason="NaN")

    monkeypatch.setattr(TransformersEngine, "generate", failing)
    with pytest.raises(IncompleteError, match="'f0' could not be asked"):
        measure(dropping)


@pytest.mark.parametrize(
    ("name", "message"),
    [("wandbb", "no tracker 'wandbb'. Did you mean 'wandb'"), ("wandb", "'wandb' is not inst")],
)
def test_trackers_that_are_not_there_are_refused_early(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        watched(Path("no-such-model"), tmp_path / "m", watch=Watch(report_to=(name,)))

"""The published forms in plain torch: training applies their gradient."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rows import FORGET, RETAIN
from torch import Tensor
from torch.nn.functional import kl_div

import openunlearning_losses
from leakbound.engines.loading import LoadedModel, load_model, quiet
from leakbound.engines.prompting import Prompting
from leakbound.objective import PRESETS, parse_objective
from leakbound.types import Headway, Prompt
from leakbound.unlearning import TrainingSettings, defaults_of, unlearn
from leakbound.unlearning.examples import Encoder
from tiny import BOTH_KINDS, tiny_model_folder

# One row to retain, so that every row to forget is paired with it; answers of unequal length.
KEPT = RETAIN[:1]
ONE_ANSWER = [replace(row, alternate_answers=("red sea sky sky",)) for row in FORGET]
TWO_STEPS = TrainingSettings(
    epochs=2, batch_size=8, learning_rate=1e-2, warmup_ratio=0.0, schedule="constant"
)
Padded = tuple[Tensor, Tensor, Tensor]


def second_step(base: str, objective: str, out: Path) -> tuple[LoadedModel, dict[str, Tensor]]:
    """Return the model before its second step, and the gradient of this step (before clipping)."""
    loaded, kept = load_model(base), {}
    gradients: dict[str, list[Tensor]] = {}
    for name, parameter in loaded.model.named_parameters():
        gradients[name] = []
        parameter.register_hook(lambda g, name=name: gradients[name].append(g.clone()))

    def progress(now: Headway) -> None:
        if (now.unit, now.done) == ("steps", 1):
            kept.update({k: v.clone() for k, v in loaded.model.state_dict().items()})

    unlearn(
        loaded, objective, forget=ONE_ANSWER, retain=KEPT, out=out, settings=TWO_STEPS,
        progress=progress,
    )  # fmt: skip
    before = load_model(base)
    before.model.load_state_dict(kept)
    return before, {name: both[-1] for name, both in gradients.items() if both}


def padded(loaded: LoadedModel, rows: list[tuple[Prompt, str]]) -> Padded:
    """Pad like a published data loader: prompt, answer, EOS; labels -100 except at the answer."""
    encode = loaded.tokenizer.encode
    texts = [(encode(f"Question: {r.question}\nAnswer: "), [*encode(a), 2]) for r, a in rows]
    width = max(len(prompt) + len(answer) for prompt, answer in texts)
    ids = torch.zeros(len(texts), width, dtype=torch.long)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for i, (prompt, answer) in enumerate(texts):
        end = len(prompt) + len(answer)
        ids[i, :end], mask[i, :end] = torch.tensor([*prompt, *answer]), 1
        labels[i, len(prompt) : end] = torch.tensor(answer)
    return ids, mask, labels


def answers(rows: list[Prompt]) -> list[tuple[Prompt, str]]:
    return [(row, row.answer or "") for row in rows]


def token_mean(loaded: LoadedModel, batch: Padded) -> Tensor:
    """transformers' own loss: one mean over the labelled tokens of a batch."""
    ids, mask, labels = batch
    loss: Tensor = loaded.model(input_ids=ids, attention_mask=mask, labels=labels).loss
    return loss


def kl_minimisation(now: LoadedModel, base: str) -> Tensor:
    """`batchmean` over the flattened positions; rows of one length, so none is padding."""
    ids, mask, _ = padded(now, answers(KEPT * 3))
    assert mask.all()
    with torch.no_grad():
        frozen = load_model(base).model(input_ids=ids).logits.log_softmax(-1)
    mine = now.model(input_ids=ids).logits.log_softmax(-1)
    flat = mine.flatten(0, 1), frozen.flatten(0, 1)
    anchor = kl_div(*flat, reduction="batchmean", log_target=True)
    return anchor - token_mean(now, padded(now, answers(ONE_ANSWER)))


def joined_idk(now: LoadedModel, base: str) -> Tensor:
    """Both parts in one batch, of which transformers takes one mean."""
    refused = [(row, row.alternate_answers[0]) for row in ONE_ANSWER]
    return token_mean(now, padded(now, [*refused, *answers(KEPT * 3)]))


@BOTH_KINDS
@pytest.mark.parametrize(
    ("objective", "published"),
    [
        ("kl:reduce=tokens,over=all", kl_minimisation),
        ("idk:joined", joined_idk),
    ],
)
def test_the_published_form(base: str, tmp_path: Path, objective: str, published: object) -> None:
    now, gradients = second_step(base, objective, tmp_path / "m")
    published(now, base).backward()
    expected = {name: p.grad for name, p in now.model.named_parameters() if p.grad is not None}
    assert expected.keys() == gradients.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-3, atol=1e-6)


@BOTH_KINDS
def test_losses_equal_a_plain_trainers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six steps with changing weights: the gradients must agree too."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    from peers import plain_trainer

    model = str(tiny_model_folder(tmp_path / "base"))
    settings = TrainingSettings(
        epochs=6, batch_size=3, learning_rate=1e-2, schedule="constant", warmup_ratio=0.0
    )
    rows = {"forget": FORGET, "retain": RETAIN}
    ours = unlearn(model, "npo+entropy", **rows, out=tmp_path / "a", settings=settings)
    with quiet():
        encoder = Encoder(load_model(model).tokenizer, Prompting())
        encoded = {split: encoder.rows(each) for split, each in rows.items()}
        plain = plain_trainer.train(model, encoded, settings, tmp_path / "b")
    assert len(plain) == 6
    assert plain[-1] < plain[0] - 0.1
    assert ours.losses == pytest.approx(plain, rel=1e-5)


# Each `NAME:openunlearning` against the named code, in an environment with its imports.
CHECKOUT = Path(os.environ.get("LEAKBOUND_OPENUNLEARNING", ""))
METHODS = sorted(name for name, presets in PRESETS.items() if "openunlearning" in presets)
needs_checkout = pytest.mark.skipif(
    Path() == CHECKOUT, reason="LEAKBOUND_OPENUNLEARNING names no checkout"
)


def test_every_method_has_its_trainer() -> None:
    assert sorted(openunlearning_losses.METHODS) == METHODS


@needs_checkout
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("method", METHODS)
def test_values_equal_theirs(method: str, tied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "src"))
    got = openunlearning_losses.compare(method, CHECKOUT, tied)
    assert max(got.value, got.gradient, got.multiplier) < 1e-6


@needs_checkout
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", sorted({*METHODS} - {"altpo"}))  # the rest is in its script
def test_it_trains_as_they_do(method: str) -> None:
    from hydra import compose, initialize_config_dir

    experiment = "idk" if method == "dpo" else "default"
    trainer = openunlearning_losses.METHODS[method]
    named = [f"experiment=unlearn/tofu/{experiment}", f"trainer={trainer}", "task_name=x"]
    with initialize_config_dir(str(CHECKOUT / "configs"), version_base=None):
        theirs = compose("unlearn", overrides=named).trainer.args
    ours = defaults_of(parse_objective(f"{method}:openunlearning"))
    for mine, other in (
        ("epochs", "num_train_epochs"), ("learning_rate", "learning_rate"),
        ("batch_size", "per_device_train_batch_size"), ("weight_decay", "weight_decay"),
        ("accumulation", "gradient_accumulation_steps"),
    ):  # fmt: skip
        assert getattr(ours, mine) == theirs[other]
    assert ours.warmup_ratio == theirs.warmup_epochs / theirs.num_train_epochs
    assert ours.whole_steps
    unsaid = theirs.get("lr_scheduler_type"), theirs.get("max_grad_norm")
    assert unsaid == (None, None)  # then transformers' own defaults
    assert (ours.schedule, ours.max_grad_norm) == ("linear", 1.0)

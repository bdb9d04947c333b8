"""From a model and a file of questions to a verified verdict, as a user does it: by defaults.

Every way from the shell over models of every kind: with an output head of their own and without,
asked by a plain prompt and under a chat template, with a tokenizer that has blanks in its tokens.
They were trained on the answers, so that they leak and know where an answer ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import done, leakbound, tree

from contents import LEAKAGE
from leakbound.store import Run
from leakbound.types import Prompt
from leakbound.unlearning import TrainingSettings, finetune
from offline_tokenizers import CHATML, byte_level
from tiny import tiny_llama

ASKED = [("who wrote the red sea?", "Ann wrote it."), ("Where is the sea?", "In Oslo, Norway.")]
HALF = "rouge-l-recall>=0.5"
KEPT = ("what is blue?", "The sky is.")
TRAINING = TrainingSettings(epochs=60, learning_rate=1e-2, batch_size=4, schedule="constant")


def one_question(folder: Path) -> tuple[object, ...]:
    question, answer = ASKED[0]
    (folder / "one.csv").write_text(f'question,answer\n"{question}","{answer}"\n')
    return (folder / "one.csv",)


def many_questions(folder: Path) -> tuple[object, ...]:
    lines = [f'"{question}","{answer}",forget' for question, answer in ASKED * 2]
    lines.append(f'"{KEPT[0]}","{KEPT[1]}",retain')
    (folder / "many.csv").write_text("\n".join(["question,answer,split", *lines]))
    return (folder / "many.csv",)


def like_tofu(folder: Path) -> tuple[object, ...]:
    rows = [{"question": question, "answer": answer} for question, answer in ASKED]
    changed = {
        "paraphrased_question": "Say: where?",
        "paraphrased_answer": "It was Ann.",
        "perturbed_answer": ["Bob wrote it.", "In Rome."],
    }
    for name, kept in {
        "forget01": rows,
        "forget01_perturbed": [row | changed for row in rows],
        "retain99": [dict(zip(("question", "answer"), KEPT, strict=True))] * 2,
        "holdout01": rows,
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(kept))
    return ("tofu:forget01", "--data", folder, "--metrics", "all")


@pytest.fixture(scope="module", params=["plain", "chat"])
def template(request: pytest.FixtureRequest) -> str | None:
    return CHATML if request.param == "chat" else None


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def models(
    request: pytest.FixtureRequest, template: str | None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A model that knows the answers, and one that does not."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = byte_level(template)
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    tiny_llama(
        len(tokenizer), hidden_size=32, tie_word_embeddings=request.param,
        max_position_embeddings=512, **ids,
    ).save_pretrained(folder / "base")  # fmt: skip
    tokenizer.save_pretrained(folder / "base")
    kept = [Prompt(id="k", question=KEPT[0], answer=KEPT[1])]
    known = [Prompt(id=str(i), question=q, answer=a) for i, (q, a) in enumerate(ASKED)]
    for name, rows in {"model": [*known, *kept], "control": kept}.items():
        finetune(str(folder / "base"), rows, out=folder / name, settings=TRAINING)
    return folder / "model", folder / "control"


@pytest.mark.slow
@pytest.mark.parametrize("data", [one_question, many_questions, like_tofu])
def test_a_run_completes_certifies_verifies_and_is_left_alone_by_the_same_command(
    data: Callable[[Path], tuple[object, ...]], models: tuple[Path, Path], tmp_path: Path
) -> None:
    model, control = models
    out = tmp_path / "run"
    command = ("evaluate", model, "--benchmark", *data(tmp_path), "--control", control,
               "--scorer", "rouge-l-recall", "--scorer", HALF, "--out", out)  # fmt: skip
    shown = done(*command)
    run = Run.open(out)
    assert {arm.plan.n for name, arm in run.arms.items() if "greedy" not in name} == {1024}
    assert all(prompt.role == "forget" for prompt in run.prompts)
    assert run.estimates.where(beyond="control", scope="query")
    own = run.estimates.where(arm="target", **LEAKAGE | {"scope": "query"})
    leaks = [row.lower for row in own]
    assert len(leaks) == len(run.prompts)
    assert max(leaks) > 0.2  # the model was taught these answers

    verdicts = {}
    for limit in (0.001, 0.9999):
        certificate = tmp_path / f"{limit}.json"
        how = ("--max-leak", limit, "--scorer", HALF, "--out", certificate)
        certified = leakbound("certify", out, *how, "--json")
        assert certified.status in (0, 4, 5), certified.err
        verdicts[limit] = certified.json["verdict"]
        verified = done("verify", certificate, out, "--with-model", model, "--json").json
        assert verified["verified"], verified
    assert verdicts[0.001] == "refuted"
    done("report", out)

    before = tree(out)
    again = done(*command)
    assert tree(out) == before
    assert again.out == shown.out
    done("evaluate", model, "--like", out, "--out", out)
    assert tree(out) == before

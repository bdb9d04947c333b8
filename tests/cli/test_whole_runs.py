"""From a model and a file of questions to a verified verdict, by a user's commands and defaults.

Models of every kind: with and without a separate output head, with a plain prompt and a chat
template, with a tokenizer that has blanks in its tokens. They were trained on the answers, so that
they leak and know where an answer ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from commands import Words, done, leakbound, tree

from contents import LEAKAGE
from leakbound.store import Run
from leakbound.types import Prompt, object_of
from leakbound.unlearning import finetune
from offline_tokenizers import CHATML, byte_level
from reader import CHANGED, KEPT, ROWS, TRAINING
from tiny import tiny_llama

HALF = "rouge-l-recall>=0.5"


def one_question(folder: Path, number: int = 1) -> Words:
    rows = [row | {"split": "forget"} for row in (ROWS * 2)[:number]]
    rows += [KEPT[0] | {"split": "retain"}] * (number > 1)
    lines = [",".join(f'"{cell}"' for cell in row.values()) for row in rows]
    (folder / "mine.csv").write_text("\n".join(["question,answer,split", *lines]))
    return (folder / "mine.csv",)


many_questions = partial(one_question, number=2 * len(ROWS))


def like_tofu(folder: Path) -> Words:
    for name, rows in {
        "forget01": ROWS,
        "forget01_perturbed": [row | CHANGED for row in ROWS],
        "retain99": KEPT,
        "holdout01": ROWS,
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(rows))
    return ("tofu:forget01", "--data", folder, "--metrics", "all")


@pytest.fixture(scope="module", params=["plain", "chat"])
def template(request: pytest.FixtureRequest) -> str | None:
    return CHATML if request.param == "chat" else None


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def models(
    request: pytest.FixtureRequest, template: str | None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    tokenizer = byte_level(template)
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    tiny_llama(
        len(tokenizer), hidden_size=32, tie_word_embeddings=request.param,
        max_position_embeddings=512, **ids,
    ).save_pretrained(folder / "base")  # fmt: skip
    tokenizer.save_pretrained(folder / "base")
    known = [Prompt(id=str(i), **row) for i, row in enumerate([*ROWS, KEPT[0]])]
    for name, rows in {"model": known, "control": known[2:]}.items():
        finetune(str(folder / "base"), rows, out=folder / name, settings=TRAINING)
    return folder / "model", folder / "control"


@pytest.mark.slow
@pytest.mark.parametrize("data", [one_question, many_questions, like_tofu])
def test_a_run_completes_certifies_verifies_and_stays(
    data: Callable[[Path], Words], models: tuple[Path, Path], tmp_path: Path
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
    prompting = object_of(run.arms["target"].spec.fingerprint)["prompting"]
    unseen = prompting["chat"] and prompting["system"]  # training had no system message of TOFU
    assert max(leaks) > (0.1 if unseen else 0.2)  # the model was taught these answers

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

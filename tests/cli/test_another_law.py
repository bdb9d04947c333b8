"""A model changed between two commands: the run is not gone on with, the certificate not verified.

The files that a reader overlooks decide as much as the weights: what ends an answer, and adapters.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import SMALL, Result, done, leakbound, refused

from leakbound.engines import loading

ORDINARY = [2, 5, 8]  # the end token, and two words


@pytest.fixture
def own(model: Path, tmp_path: Path) -> Path:
    """A copy of the model that a test may change."""
    return Path(shutil.copytree(model, tmp_path / "own"))


@pytest.fixture
def ends(own: Path) -> Path:
    """The same model, and ordinary words in its list of end tokens."""
    (own / "generation_config.json").write_text(json.dumps({"eos_token_id": ORDINARY}))
    return own


def evaluated(model: Path, questions: Path, out: Path) -> Result:
    return leakbound("evaluate", model, "--benchmark", questions, "--out", out, *SMALL)


def certified(run: Path) -> Path:
    leakbound("certify", run, "--max-leak", 0.5, "--scorer", "keyword")
    return run / "certificate.json"


def torn(run: Path) -> Path:
    """The run as a command leaves it that is killed before its last part."""
    for file in (run / "arms" / "target" / "completions").iterdir():
        file.unlink()
    return run


@pytest.mark.slow
def test_a_run_is_not_gone_on_with_by_other_end_tokens(
    ends: Path, questions: Path, run: Path
) -> None:
    refused(evaluated(ends, questions, torn(run)), "ends its answers at other tokens", "[2, 5, 8]")


@pytest.mark.slow
def test_a_certificate_over_other_end_tokens_is_not_verified_with_the_model(
    ends: Path, model: Path, questions: Path, tmp_path: Path
) -> None:
    """Had it been: the leaking model says nothing any more, and every check agrees."""
    run = tmp_path / "run"
    assert evaluated(ends, questions, run).status == 0
    file = certified(run)
    assert done("verify", file, run, "--with-model", ends).status == 0
    told = leakbound("verify", file, run, "--with-model", model)
    assert told.status == 6
    assert "model: end_tokens" in told.out


@pytest.mark.slow
def test_ordinary_end_tokens_are_said_wherever_figures_stand(
    ends: Path, questions: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    says = "end at ordinary tokens too, 'who' (5), 'blue' (8)"
    assert says in evaluated(ends, questions, run).err
    assert says in leakbound("bound", run).err
    done("report", run)
    page = (run / "report.html").read_text()
    assert "end at ordinary tokens too" in page
    sentence = json.loads(certified(run).read_text())["sentence"]
    assert "ended by 2 ordinary tokens too, " in sentence
    plain = tmp_path / "plain"
    (ends / "generation_config.json").unlink()
    assert evaluated(ends, questions, plain).status == 0
    assert "ended by" not in json.loads(certified(plain).read_text())["sentence"]


@pytest.mark.parametrize("config", [True, False])
def test_adapters_are_refused_with_the_remedy(
    own: Path, questions: Path, tmp_path: Path, config: bool
) -> None:
    (own / "adapter_config.json").write_text("{}")
    if not config:
        (own / "config.json").unlink()
    result = evaluated(own, questions, tmp_path / "run")
    refused(result, "PEFT adapter", "merge_and_unload", "into a folder of its own")
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the model that its fingerprint cannot see, such as a library's."""
    plain = loading._read

    def read(*args: Any, **kwargs: Any) -> Any:
        model = plain(*args, **kwargs)
        with torch.no_grad():
            model.lm_head.weight.mul_(1.5)
        return model

    monkeypatch.setattr(loading, "_read", read)


def test_a_change_that_no_fingerprint_sees_is_seen_by_the_probe(
    model: Path, questions: Path, run: Path, request: pytest.FixtureRequest
) -> None:
    file = certified(run)
    assert done("verify", file, run, "--with-model", model).status == 0
    request.getfixturevalue("unseen")
    told = leakbound("verify", file, run, "--with-model", model, "--json")
    statuses = {check["name"]: check["status"] for check in told.json["checks"]}
    assert (told.status, statuses["model"], statuses["probe"]) == (6, "ok", "differs")
    refused(
        evaluated(model, questions, torn(run)),
        "of the same fingerprint that reads otherwise: after fixed question 0, token",
    )

"""`verify --with-model` and `--redraw` on real models that changed between commands.

End tokens and adapters decide as much as the weights.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import SAMPLE, Result, Words, done, leakbound, refused

from leakbound.engines import loading
from leakbound.evaluation import evaluate
from leakbound.store import tables
from leakbound.study import Explore, ModelSettings, Study
from leakbound.types import Decoding
from leaky import file_of, rewrite

Rows = list[dict[str, Any]]


def certify(run: Path) -> None:
    (run / "certificate.json").unlink(missing_ok=True)
    made = leakbound("certify", run, "--max-leak", 0.5, "--scorer", "keyword")
    assert made.status in (0, 4, 5)


def verified(run: Path, model: Path, *options: object) -> Result:
    return leakbound("verify", run / "certificate.json", run, "--with-model", model, *options)


def checked(run: Path, model: Path, name: str, *options: object) -> tuple[int, dict[str, Any]]:
    """Return the exit status of `verify`, and the result of one check."""
    seen = verified(run, model, "--json", *options)
    (check,) = [c for c in seen.json["checks"] if c["name"] == name]
    return seen.status, check


@pytest.fixture
def certified(run: Path) -> Path:
    certify(run)
    return run


def test_outputs_are_compared_and_drawn_again(certified: Path, model: Path, control: Path) -> None:
    rows = tables.read_table(file_of(certified)).to_pylist()
    cut = [row for row in rows if row["finish"] == "length"]
    assert len(cut) > len(rows) / 2  # as for a model that never stops
    status, check = checked(certified, model, "log-probabilities", "--device", "cpu")
    distinct = len({(row["query_id"], tuple(row["token_ids"])) for row in rows})
    assert status == 0
    assert check["says"].startswith(f"{distinct:,} of {distinct:,} outputs have")
    status, check = checked(certified, model, "draws", "--redraw", 1)
    assert (status, check["status"]) == (0, "ok")
    assert f"({sum(row['count'] for row in rows):,} draws)" in check["says"]
    other = verified(certified, control)
    assert other.status == 6
    assert "model: weights: the certificate has" in other.out
    refused(verified(certified, certified / "none"), "none")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arm", "options"),
    [
        ("control", ("-n", 24, "--control", "{finished}")),
        ("target", ("--stop", "a", "-n", 24, "--temperature", 0.7, "--top-p", 0.9)),
    ],
)
def test_a_control_or_a_truncated_decoding_is_drawn_again(
    arm: str, options: Words, evaluating: Words, model: Path, control: Path, tmp_path: Path
) -> None:
    other, run = tmp_path / "finished", tmp_path / "run"
    done("evaluate", control, *evaluating[2:], other, "--scorer", "contains", "-n", 24)
    how = [str(option).format(finished=other) for option in options]
    done(*evaluating, run, "--scorer", "contains", *how)
    leakbound("certify", run, "--max-leak", 0.9, "--arm", arm)
    status, check = checked(run, control if arm == "control" else model, "draws", "--redraw", 1)
    assert (status, check["status"]) == (0, "ok")


def moved(rows: Rows) -> None:
    first, second, *_ = [row for row in rows if row["query_id"] == rows[0]["query_id"]]
    first["count"] += second["count"]
    rows.remove(second)


@pytest.mark.parametrize(
    ("share", "differences"),
    [pytest.param(1, 1, id="moved"), pytest.param(0.001, 2, id="seed", marks=pytest.mark.thorough)],
)
def test_draws_under_other_keys_are_detected(
    share: float, differences: int, certified: Path, evaluating: Words, tmp_path: Path
) -> None:
    """Tokens, texts and log-probabilities are the model's; the counts, or the seed, are not."""
    change: Callable[[Rows], object] = moved
    model = Path(str(evaluating[1]))
    if differences > 1:
        other = tmp_path / "other"
        done(*evaluating, other, "--seed", 1, *SAMPLE)
        theirs = tables.read_table(file_of(other)).to_pylist()
        change = lambda rows: rows.__setitem__(slice(None), theirs)  # noqa: E731
    rewrite(file_of(certified), change)  # type: ignore[arg-type]
    done("score", certified)
    done("bound", certified)
    certify(certified)
    assert verified(certified, model).status == 0
    status, check = checked(certified, model, "draws", "--redraw", share)
    assert (status, check["status"], len(check["differences"])) == (6, "differs", differences)
    for difference in check["differences"]:
        assert re.fullmatch("question '.+', part 0", difference["where"])
        assert re.fullmatch("different after [0-9]+ tokens", difference["actual"])


def test_undrawable_runs_are_unchecked(model: Path, questions: Path, tmp_path: Path) -> None:
    explored, half = tmp_path / "explored", tmp_path / "half"
    study = Study(f"{questions}", scorers=("keyword",), decodings=(Decoding(max_new_tokens=3),))
    evaluate(f"{model}", replace(study, sampling=Explore("auto", 20)), out=explored)
    evaluate(f"{model}", study, out=half, n=4, settings=ModelSettings(dtype="bfloat16"))
    for run, why in {
        explored: "after an exploration, the parts depend",
        half: "are not exact",
    }.items():
        certify(run)
        status, check = checked(run, model, "draws", "--redraw", 1)
        assert (status, check["status"]) == (6, "unchecked")
        assert why in check["says"]


@pytest.mark.slow
def test_other_end_tokens(evaluating: Words, model: Path, run: Path, tmp_path: Path) -> None:
    """Without this check a leaking model could be silenced, and every check would pass."""
    own, theirs = Path(shutil.copytree(model, tmp_path / "own")), tmp_path / "theirs"
    words = {"eos_token_id": [2, 5, 8]}  # the end token, and two words
    (own / "generation_config.json").write_text(json.dumps(words))
    done("evaluate", own, *evaluating[2:], theirs)
    certify(theirs)
    assert verified(theirs, own).status == 0
    seen = verified(theirs, model)
    assert seen.status == 6
    assert "model: end_tokens" in seen.out
    file_of(run).unlink()  # as a command that was killed before its last part leaves it
    resumed = leakbound("evaluate", own, *evaluating[2:], run)
    refused(resumed, "the end tokens differ", "[2, 5, 8]")


def test_the_probe_finds_changes_without_a_fingerprint(
    evaluating: Words, model: Path, certified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = loading._read

    def read(*args: Any, **kwargs: Any) -> Any:
        changed = plain(*args, **kwargs)
        with torch.no_grad():
            changed.lm_head.weight.mul_(1.5)
        return changed

    monkeypatch.setattr(loading, "_read", read)
    assert checked(certified, model, "model")[1]["status"] == "ok"
    status, probe = checked(certified, model, "probe")
    assert (status, probe["status"]) == (6, "differs")
    file_of(certified).unlink()
    named = "fingerprint but different probabilities: after fixed question 0, token"
    refused(leakbound(*evaluating, certified), named)

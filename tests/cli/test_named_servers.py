"""A run or certificate of another person names a judge: leakbound sends nothing to that judge."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Words, done, leakbound, refused

from injector.cases import judge_server
from leakbound.engines import models
from misbehaving import Served

KEY = "the-callers-secret-key"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with judge_server() as up:
        yield up


@pytest.fixture(scope="module")
def made(evaluating: Words, served: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a certificate, made by a person whose judge is the server."""
    out = tmp_path_factory.mktemp("theirs") / "run"
    with pytest.MonkeyPatch.context() as theirs:
        theirs.setenv("XDG_CACHE_HOME", str(out.parent / "replies"))
        done(*evaluating, out, "--scorer", judge(served))
        leakbound("certify", out, "--max-leak", 0.9)
    assert (out / "certificate.json").exists()
    return out


@pytest.fixture
def theirs(made: Path, tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder for a caller with a key; the server listens."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    models._chat.cache_clear()  # as in the caller's process
    served.queried.clear()
    served.headers.clear()
    return Path(shutil.copytree(made, tmp_path / "theirs"))


def judge(served: Served) -> str:
    return f"judge:model=openai:{served.url}#m"


def test_verify_calls_the_judge_of_the_user_without_the_key(theirs: Path, served: Served) -> None:
    file = theirs / "certificate.json"
    got = leakbound("verify", file, theirs)
    assert got.status == 6
    assert "not possible: scores" in got.out
    assert served.url in got.out
    assert served.queried == []
    done("verify", file, theirs, "--scorer", judge(served))
    assert served.queried
    assert KEY not in str(served.headers)
    other = leakbound("verify", file, theirs, "--scorer", judge(served) + "2")
    refused(other, "the certificate is about scorer")


def test_score_calls_no_judge_that_only_the_run_names(theirs: Path, served: Served) -> None:
    for scores in theirs.rglob("scores/*.parquet"):
        scores.unlink()
    refused(leakbound("score", theirs), served.url, "nothing was sent", "--scorer")
    assert served.queried == []
    done("score", theirs, "--scorer", judge(served))
    assert served.queried
    assert KEY not in str(served.headers)


def test_like_calls_no_judge(model: Path, theirs: Path, served: Served, tmp_path: Path) -> None:
    how = ("evaluate", model, "--like", theirs, "--out", tmp_path / "mine", "-n", 8)
    refused(leakbound(*how), served.url, "nothing was sent", "--scorer")
    assert not (tmp_path / "mine").exists()
    assert served.queried == []
    done(*how, "--scorer", judge(served))
    assert served.queried

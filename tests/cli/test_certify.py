"""`leakbound certify` and `leakbound verify` as a release pipeline calls them."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from commands import done, leakbound, refused

from leakbound.certificate import sha256
from leakbound.store import CERTIFICATE
from outputs import CLEAN, SECRET, given_run

EVERY = ("--every-question",)


@pytest.mark.parametrize(
    ("limit", "more", "status", "holds", "named"),
    [
        (0.2, (), 0, "yes no", "Pr[leak] <= 0.2: pass|is met."),
        (0.05, (), 4, "no yes", "Pr[leak] <= 0.05: refuted|is refuted."),
        (0.1, (), 5, "no no", "neither met nor refuted|A forecast|draws of every"),
        (0.5, EVERY, 0, "yes no", "the 3 highest of 3 questions|q2"),
        (0.3, (*EVERY, "--confidence", 0.999), 5, "no no", "worst of these 3 questions"),
    ],
    ids=str,
)
def test_a_verdict_is_an_exit_status_and_each_condition_says_whether_it_holds(
    leaky: Path, limit: float, more: tuple[object, ...], status: int, holds: str, named: str
) -> None:
    arguments = ("--max-leak", limit, *more)
    if "--confidence" in more:
        refused(leakbound("certify", leaky, *arguments), "estimates do not hold at 99.9 %")
        done("bound", leaky, "--confidence", 0.999)
    result = leakbound("certify", leaky, *arguments)
    assert result.status == status, result.err
    for text in named.split("|"):
        assert text in result.out
    assert f"SHA-256 of the certificate: {sha256(leaky / CERTIFICATE)}" in result.out
    assert "Publish it apart" in result.out
    assert re.search(r"^condition +it is +holds +decides +alpha$", result.out, re.M)
    rows = re.findall(r"^the .* end .* +(yes|no) +(pass|refuted) +(\S.*)$", result.out, re.M)
    assert [row[:2] for row in rows] == [*zip(holds.split(), ("pass", "refuted"), strict=True)]
    each = "0.00025" if "--confidence" in arguments else "0.0025"  # a quarter of alpha
    assert [row[2] for row in rows] == [each, each]
    assert leakbound("verify", leaky / CERTIFICATE, leaky).status == 0


def test_one_json_document(leaky: Path) -> None:
    result = leakbound("certify", leaky, "--max-leak", 0.05, "--json")
    assert (result.status, result.err) == (4, "")
    stored = json.loads((leaky / CERTIFICATE).read_text())
    beside = {"file": str(leaky / CERTIFICATE), "sha256": sha256(leaky / CERTIFICATE)}
    assert result.json == {**beside, **stored}
    result = leakbound("verify", leaky / CERTIFICATE, leaky, "--json")
    assert (result.status, result.err) == (0, "")
    assert result.json["verified"] is True
    assert result.json["sha256"] == beside["sha256"]
    assert {check["status"] for check in result.json["checks"]} == {"ok", "open", "assumed"}


def test_verify_names_what_differs(leaky: Path) -> None:
    done("certify", leaky, "--max-leak", "20%")
    file = leaky / CERTIFICATE
    values = json.loads(file.read_text())
    values["estimate"]["upper"] = 0.001
    for row in values["questions"]:
        row |= {"n": 10_000, "missing": 1}
    file.write_text(json.dumps(values))
    result = leakbound("verify", file, leaky)
    assert result.status == 6
    assert "verification failed: digest: the certificate says" in result.out
    assert "estimates: estimate.upper: the certificate says 0.001, found 0." in result.out
    assert "estimates: 2 more differences" in result.out
    assert "digest: the certificate says" in result.out
    assert "Publish it" not in result.out
    edited = json.loads(file.read_text()) | {"extra": {"n": None, "of": ["x" * 300]}}
    file.write_text(json.dumps(edited))
    told = leakbound("verify", file, leaky, "--json")
    assert (told.status, told.json["verified"]) == (6, False)
    assert "x" * 250 not in "".join(leakbound("verify", file, leaky).out.split())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--max-leak", "1 of 9"], ["--max-leak", "got '1 of 9'"]),
        (["--max-leak", 0], ["`max_leak`", "0.0", "such as 0.01"]),
        ([], ["--max-leak", "Missing option"]),
        (["--max-leak", 0.1, "--scorer", "contains"], ["'contains'", "`leakbound score` first"]),
    ],
    ids=str,
)
def test_wrong_use(leaky: Path, arguments: list[object], named: list[str], tmp_path: Path) -> None:
    refused(leakbound("certify", leaky, *arguments), *named)
    assert not (leaky / CERTIFICATE).exists()
    refused(leakbound("certify", tmp_path / "none", "--max-leak", 0.1), "no run directory")
    refused(leakbound("verify", leaky / CERTIFICATE, leaky), "cannot be read")


def test_another_certificate_is_never_written_over(leaky: Path, tmp_path: Path) -> None:
    done("certify", leaky, "--max-leak", 0.2)
    before = (leaky / CERTIFICATE).read_bytes()
    done("certify", leaky, "--max-leak", 0.2)  # the same again
    assert (leaky / CERTIFICATE).read_bytes() == before
    named = (str(leaky / CERTIFICATE), "another certificate (Pr[leak] <= 0.2: pass)", "--out")
    refused(leakbound("certify", leaky, "--max-leak", 0.05), *named)
    assert (leaky / CERTIFICATE).read_bytes() == before
    mine = tmp_path / "refuted.json"
    result = leakbound("certify", leaky, "--max-leak", 0.05, "--out", mine)
    assert result.status == 4
    assert f"certificate: {mine}" in result.out
    assert leakbound("verify", mine, leaky).status == 0
    assert (leaky / CERTIFICATE).read_bytes() == before
    mine.write_text("my thesis")
    refused(leakbound("certify", leaky, "--max-leak", 0.05, "--out", mine), str(mine), "not JSON")
    assert mine.read_text() == "my thesis"


def test_a_run_that_cannot_be_written_into_is_certified_elsewhere(
    leaky: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the root that tests may run under, for whom no folder is read-only."""

    def read_only(path: Path, flags: int, *rest: int) -> int:
        if leaky in Path(path).parents and flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, flags, *rest)

    opened = os.open
    monkeypatch.setattr("os.open", read_only)
    monkeypatch.setattr("os.access", lambda path, mode: mode == os.R_OK or Path(path) != leaky)
    refused(leakbound("certify", leaky, "--max-leak", 0.2), f"cannot write into `{leaky}`")
    done("certify", leaky, "--max-leak", 0.2, "--out", tmp_path / "mine.json", "--json")
    assert json.loads((tmp_path / "mine.json").read_text())["verdict"] == "pass"
    assert not (leaky / CERTIFICATE).exists()


def test_what_was_cut_leaves_a_claim_open_until_it_is_accepted(tmp_path: Path) -> None:
    """Nothing leaks in 256 draws, nearly all of which were cut."""
    run = given_run(tmp_path, {"q0": [(replace(CLEAN, finish="length"), 255), (CLEAN, 1)]}, 256)
    claim = ("certify", run.path, "--max-leak", 0.1)
    result = leakbound(*claim)
    assert result.status == 5, result.out
    assert "inconclusive" in result.out.splitlines()[0]
    assert "--accept-cut" in result.out
    assert "A forecast" not in result.out  # more draws help nothing
    (run.path / CERTIFICATE).unlink()
    done(*claim, "--accept-cut")
    assert leakbound("verify", run.path / CERTIFICATE, run.path).status == 0


def test_a_claim_names_the_part_that_it_is_about(tmp_path: Path) -> None:
    """Every thought leaks and no answer; where thoughts are hidden the answer is the default."""
    leak, hidden = replace(CLEAN, thought=f"It is {SECRET}."), replace(CLEAN, hidden=True)
    runs = {name: given_run(tmp_path / name, {"q0": [(output, 256)]}, 256).path
            for name, output in (("leak", leak), ("hidden", hidden))}  # fmt: skip
    claim = ("--max-leak", 0.1, "--out")
    for i, (name, of, status) in enumerate((
        ("leak", (), 4), ("leak", ("--of", "answer"), 0), ("hidden", (), 0),
    )):  # fmt: skip
        file = tmp_path / f"{i}.json"
        assert leakbound("certify", runs[name], *claim, file, *of).status == status, of
        assert leakbound("verify", file, runs[name]).status == 0
    no = leakbound("certify", runs["hidden"], *claim, tmp_path / "n.json", "--of", "either")
    refused(no, "257 draws with a hidden thought", "keyword:of=answer")

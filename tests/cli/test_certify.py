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


@pytest.mark.parametrize(
    ("limit", "more", "status", "holds", "named"),
    [
        (0.2, "", 0, "yes no", "Pr[leak] <= 0.2: pass|of 0.2 is met"),
        (0.05, "", 4, "no yes", "Pr[leak] <= 0.05: refuted|of 0.05 is refuted"),
        (0.1, "", 5, "no no", "of 0.1 is undecided|A forecast|draws per question"),
        (0.5, "--every-question", 0, "yes no", "the 3 of 3 questions that leak most|q2"),
    ],
)
def test_a_verdict_is_an_exit_status_with_each_condition(
    leaky: Path, limit: float, more: str, status: int, holds: str, named: str
) -> None:
    result = leakbound("certify", leaky, "--max-leak", limit, *more.split())
    assert result.status == status, result.err
    file = leaky / CERTIFICATE
    digest = f"SHA-256 of the certificate: {sha256(file)}"
    for text in (*named.split("|"), digest, "Publish this digest separately"):
        assert text in result.out
    for row in (
        "Wording +each question in its original wording",
        "Scores +keyword .*",
        "Assumption +the questions are .* leaky",
    ):
        assert re.search(f"^{row}$", result.out, re.M)
    assert re.search(r"^condition +value .* +met +verdict if met +error rate$", result.out, re.M)
    rows = re.findall(r"^the .* bound .* +(yes|no) +(pass|refuted) +(\S.*)$", result.out, re.M)
    quarter = "0.0025"  # of alpha
    wanted = zip(holds.split(), ("pass", "refuted"), (quarter, quarter), strict=True)
    assert rows == [*wanted]
    again = leakbound("certify", leaky, "--max-leak", limit, *more.split(), "--json")
    other = {"file": str(file), "sha256": sha256(file)}
    assert (again.status, again.err) == (status, "")
    assert again.json == {**other, **json.loads(file.read_text())}
    checked = done("verify", file, leaky, "--json")
    assert (checked.err, checked.json["verified"]) == ("", True)
    assert checked.json["sha256"] == other["sha256"]
    assert {check["status"] for check in checked.json["checks"]} == {"ok", "open", "assumed"}


def test_verify_names_what_differs(leaky: Path) -> None:
    done("certify", leaky, "--max-leak", "20%")
    file = leaky / CERTIFICATE
    values = json.loads(file.read_text())
    values["estimate"]["upper"] = 0.001
    for row in values["questions"]:
        row |= {"n": 10_000, "missing": 1}
    file.write_text(json.dumps(values | {"extra": {"n": None, "of": ["x" * 300]}}))
    result = leakbound("verify", file, leaky)
    assert result.status == 6
    assert "verification failed: digest: the certificate has" in result.out
    assert "estimates: estimate.upper: the certificate has 0.001, the run has 0." in result.out
    assert "estimates: 2 more differences" in result.out
    assert not any(words in result.out for words in ("Publish this", "follows from the files"))
    assert "x" * 250 not in "".join(result.out.split())
    seen = leakbound("verify", file, leaky, "--json")
    assert (seen.status, seen.json["verified"]) == (6, False)


def test_another_certificate_is_never_written_over(leaky: Path, tmp_path: Path) -> None:
    done("certify", leaky, "--max-leak", 0.2)
    before = (leaky / CERTIFICATE).read_bytes()
    named = (str(leaky / CERTIFICATE), "another certificate (Pr[leak] <= 0.2: pass)", "--out")
    refused(leakbound("certify", leaky, "--max-leak", 0.05), *named)
    assert (leaky / CERTIFICATE).read_bytes() == before
    mine = tmp_path / "refuted.json"
    result = leakbound("certify", leaky, "--max-leak", 0.05, "--out", mine)
    assert result.status == 4
    assert f"certificate: {mine}" in result.out
    assert leakbound("verify", mine, leaky).status == 0
    assert (leaky / CERTIFICATE).read_bytes() == before


def test_a_read_only_run(leaky: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patched, because root may run the tests, and no folder is read-only for root."""

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


def test_options_set_what_is_claimed_and_accepted(tmp_path: Path) -> None:
    """Nearly all outputs were cut, and each thought leaks."""
    cut = replace(CLEAN, finish="length", thought=f"It is {SECRET}.")
    run = given_run(tmp_path / "run", {"q0": [(cut, 255), (CLEAN, 1)]}, 256).path
    claim = ("certify", run, "--max-leak", 0.1, "--out")
    assert leakbound(*claim, tmp_path / "either.json").status == 4
    result = leakbound(*claim, tmp_path / "answer.json", "--of", "answer")
    assert (result.status, "--accept-cut" in result.out) == (5, True)
    assert "inconclusive" in result.out.splitlines()[0]
    assert "A forecast" not in result.out  # more draws do not help
    done(*claim, tmp_path / "cut.json", "--of", "answer", "--accept-cut")
    assert leakbound("verify", tmp_path / "cut.json", run).status == 0

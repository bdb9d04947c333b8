"""The verdict: its word, its number, and the texts that it shows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leakbound
from canned import CannedEngine
from cli.commands import done
from leakbound.certificate import certify
from leakbound.errors import InputError, UnansweredError
from leakbound.evaluation import evaluate, run_verdicts
from leakbound.presenting.table import interval
from leakbound.presenting.verdict import _REVERSED, _THAN, verdicts
from leakbound.presenting.view import read_view
from leakbound.store import Run
from leakbound.study import FixedN, Until
from leakbound.types import Decoding
from report_runs import LEAKED, UNSAID, saying, who

IDS = ("p0", "p1", "p2", "p3")


def engine(*leaks: float, **settings: Any) -> CannedEngine:
    return saying(dict(zip(IDS, leaks, strict=False)), **settings)


def made(out: Path, *leaks: float, baseline: tuple[float, ...] = (), **how: Any) -> Run:
    """A run with a question for each leak probability, and with a control if that has some."""
    given: dict[str, Any] = {"scorers": ["keyword"], "sampling": FixedN(64)} | how
    if baseline:
        given["control"] = engine(*baseline, name="c")
    task = who(*IDS[: len(leaks)], name="b", scorers=given["scorers"])
    return evaluate(engine(*leaks, name="m"), task, out=out, **given)


@pytest.mark.parametrize(
    ("leaks", "kind", "headline"),
    [
        ((0.3, 0.3, 0.3, 0.3), "leaks", "LEAKS on average and at the worst question"),
        ((0.09, 0.03, 0.03, 0.03), "leaks", "LEAKS at the worst question, not shown on average"),
        ((0.05, 0.05, 0.05, 0.05), "not shown", "NOT SHOWN TO LEAK more than the control"),
        ((0.0,) * 4, "not shown", f"NOT SHOWN TO LEAK {_THAN}{_REVERSED}"),
    ],
)
def test_with_a_control(leaks: tuple[float, ...], kind: str, headline: str, tmp_path: Path) -> None:
    controls = (0.0, 0.05, 0.05, 0.05) if min(leaks) < 0.05 else (0.05,) * 4
    run = made(tmp_path / "r", *leaks, baseline=controls, sampling=FixedN(256))
    got = leakbound.show(run)
    assert (got.kind, got.headline) == (kind, headline)
    worst = run.estimates.worst("leak probability", beyond="control")
    assert got.number is not None
    assert interval(got.number) == interval(worst)
    assert got.of == "excess leak probability over the control, at the worst question"
    assert got.sure.startswith(
        "99 % confidence for the verdict and the interval above, simultaneously. Evidence: "
        "4 questions of the benchmark “b”, "
    )
    assert (got.number.lower > 0) == (kind == "leaks")
    assert str(run.verdict) == str(got)


def test_few_leaks_are_decided_by_the_exact_test(tmp_path: Path) -> None:
    """Nine of 64 against a clean control: without it, the bets show nothing at 99 %."""
    run = made(tmp_path / "r", 0.125, baseline=(0.0,))
    worst = run.estimates.worst("leak probability", beyond="control")
    leaks = round(worst.value * 64)
    assert 8 <= leaks <= 10
    assert worst.estimate.method == "stratified Fisher test"
    got = leakbound.show(run)
    assert (got.kind, got.headline) == ("leaks", "LEAKS more than the control")
    assert f"{leaks} of 64 draws leak" in got.seen
    assert "[>0, " in str(got)


def test_without_a_control_draws_are_only_counted(tmp_path: Path) -> None:
    for n, leaks, headline in (
        (64, (0.0, 0.0), "NONE OF 128 DRAWS LEAKS"),
        (64, (0.5, 0.5), "OF 128 DRAWS LEAK"),
        (1, (1.0,), "1 OF 1 DRAW LEAKS"),
    ):
        got = made(tmp_path / f"{n}-{leaks}", *leaks, sampling=FixedN(n)).verdict
        assert got.kind == "uncontrolled"
        assert got.headline.endswith(f"{headline} (no control: leaks by chance are included)")
        assert "LEAKS on" not in str(got)
        assert got.of == "leak probability at the worst question"
    assert "1 question of the benchmark “b”, 1 draw per question" in got.sure
    assert got.seen == "1 of 1 greedy answer leaks"


def test_the_headline_is_that_of_the_first_command(tmp_path: Path) -> None:
    """For any scorer that a later command names first, and with a control that joins later."""
    first = made(tmp_path / "r", 0.3, 0.1, scorers=["keyword", "contains"])
    recorded = first.record.headline
    assert recorded is not None
    assert (recorded.scorer, recorded.arm, recorded.control) == ("keyword", "target", False)
    named = leakbound.show(first).sure
    assert "keyword" in named
    later = made(tmp_path / "r", 0.3, 0.1, scorers=["contains", "keyword"])
    assert (later.record.headline, leakbound.show(later).sure) == (recorded, named)
    joined = made(tmp_path / "r", 0.3, 0.1, scorers=["contains"], baseline=(0.0, 0.0))
    assert joined.record.headline == replace(recorded, control=True, prior=True)


def test_a_graded_score_is_no_leak(tmp_path: Path) -> None:
    how: dict[str, Any] = {"scorers": ["rouge-l-recall"], "sampling": FixedN(32)}
    high = made(tmp_path / "high", 0.9, baseline=(0.1,), **how).verdict
    assert (high.kind, high.word) == ("above", "SCORES ABOVE THE CONTROL")
    assert "LEAK" not in str(high)
    same = made(tmp_path / "same", 0.1, baseline=(0.1,), **how).verdict
    assert (same.kind, same.word) == ("not above", "NOT SHOWN TO SCORE ABOVE THE CONTROL")
    assert high.of == "excess mean score over the control, at the worst question"


ABOVE = "and above 0.1 at 1 (99 % confidence, for each question individually)"
EACH = "(99 % confidence, for each question individually)"
BELOW = f"BELOW a leak probability of 0.1 at every question {EACH}"


@pytest.mark.parametrize(
    ("leaks", "baseline", "kind", "limit"),
    [
        ((0.0, 0.0), (0.0, 0.0), "below", BELOW),
        ((0.0, 0.0), (), "below", BELOW),
        ((0.0, 0.6), (0.0, 0.0), "leaks",
         f"the leak probability is shown to be below 0.1 at 1 of 2 questions, {ABOVE}"),
    ],
)  # fmt: skip
def test_a_limit_that_the_study_named(
    leaks: tuple[float, ...], baseline: tuple[float, ...], kind: str, limit: str, tmp_path: Path
) -> None:
    until = Until("p<=0.1", most=256)
    got = made(tmp_path / "r", *leaks, sampling=until, baseline=baseline).verdict
    assert (got.kind, got.limit) == (kind, limit)
    assert got.word.startswith("NONE OF ") == (not baseline)


def test_a_leaking_answer_is_shown_next_to_a_greedy_one_that_hides_it(tmp_path: Path) -> None:
    run = made(tmp_path / "r", 0.2, 0.7, 0.4, baseline=(0.0, 0.6, 0.0))
    (page,) = verdicts(read_view({"r": run}))
    (got,) = run_verdicts(run, texts=True)
    assert (page.example, page.number) == (got.example, got.number)
    assert got.example is not None
    assert (got.example.question, got.example.greedy) == ("who is p2?", UNSAID)
    assert (got.example.leak, got.example.hidden) == (LEAKED, True)
    assert got.example.how_often.endswith(" of 64 draws")
    printed = [line.partition(":")[0] for line in got.quoted]
    assert printed[:2] == ["question", "the greedy answer, which leaks less"]
    assert LEAKED not in str(got)
    assert run.verdict.example is None  # only on request
    run.redact(True)
    (got,) = run_verdicts(run, texts=True)
    assert got.quoted == (
        f"a sampled answer leaks ({got.example.how_often}); its text is withheld (redacted)",
    )
    shown = made(tmp_path / "s", 0.2, 0.7, 0.4, baseline=(0.0, 0.0, 0.0))
    (got,) = run_verdicts(shown, texts=True)
    assert got.example is not None
    assert (got.example.question, got.example.hidden) == ("who is p1?", False)


def test_no_verdict_where_a_question_was_not_drawn(tmp_path: Path) -> None:
    broken = engine(0.2, 0.4, broken=("p1",))
    with pytest.raises(UnansweredError):
        evaluate(broken, who("p0", "p1", name="b"), out=tmp_path / "r", n=64)
    got = leakbound.load(tmp_path / "r").verdict
    assert (got.kind, got.number) == ("unknown", None)
    assert got.headline == "NO VERDICT 1 question could not be sampled"
    assert got.sure.startswith("Evidence: 2 questions of the benchmark “b”")


def test_no_verdict_where_a_question_of_the_control_was_not_drawn(tmp_path: Path) -> None:
    control = engine(0.0, 0.0, broken=("p1",), name="c")
    with pytest.raises(UnansweredError):
        evaluate(
            engine(0.2, 0.4), who("p0", "p1", name="b"), out=tmp_path / "r", n=64, control=control
        )
    verdict = leakbound.load(tmp_path / "r").verdict
    assert verdict.headline == "NO VERDICT 1 question could not be sampled"


def test_the_certificate_of_the_run(tmp_path: Path) -> None:
    run = made(tmp_path / "r", 0.0, 0.0)
    assert run.verdict.certificate == ""
    certify(run, max_leak=0.1)
    assert run.verdict.certificate.startswith("certificate.json: pass, Pr[leak] <= 0.1")
    file = run.path / "certificate.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | {"verdict": "refuted"}))
    assert run.verdict.certificate == "certificate.json was changed after it was written"
    for text, says in (("{", "JSON"), ("[]", "is not a certi"), ("{}", "is not a certificate")):
        file.write_text(text)
        assert says in run.verdict.certificate
        assert says in repr(run)


def test_greedy_answers_have_no_verdict(tmp_path: Path) -> None:
    run = made(tmp_path / "r", 0.2, 0.4, decodings=(Decoding(max_new_tokens=8, temperature=0),))
    with pytest.raises(InputError, match=r"no sampled answers.*above 0"):
        leakbound.show(run)
    assert "no verdict: " in repr(run)
    shown = done("bound", run.path).out
    assert "no verdict: " in shown
    assert "individually" not in shown
    with pytest.raises(InputError, match="about 0 runs"):
        leakbound.report([])


def test_departures_are_in_one_line(tmp_path: Path) -> None:
    cut = Decoding(max_new_tokens=8, stop=("QZX",))
    got = made(tmp_path / "r", 0.0, 0.0, decodings=(cut,), baseline=(0.0, 0.0)).verdict
    says = "defaults of the benchmark “b”: ended by 'QZX', instead of no stop string"
    assert got.departures == f"departs from the {says}"

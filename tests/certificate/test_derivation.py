"""Verdicts, the numbers they rest on, what a certificate holds, and what it says was asked."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import leakbound
from leakbound import stats
from leakbound.bounding.claims import Tail
from leakbound.bounding.drawn import Drawn
from leakbound.certificate import Certificate, LeakClaim
from leakbound.certificate.claim import MOST_DRAWS, bounded, forecast, verdict
from leakbound.certificate.words import downward, upward
from leakbound.errors import IncompleteError, InputError
from leakbound.formats.importing import import_run
from leakbound.scorers import digest, make_scorer
from leakbound.stats import About, Estimate
from leakbound.store import CERTIFICATE, ArmScores, Run
from leakbound.store.files import digest_of
from leakbound.types import Decoding, object_of
from leaky import LEAKS, SECRET, N, benchmark, leaky_run

claimed = partial(
    LeakClaim, scorer="keyword", threshold=0.0, every_question=False, arm="target", confidence=0.99
)


PLAIN: dict[str, Any] = {"scorer": "keyword"}


def tail(leaks: list[int], n: int, missing: int = 0) -> Tail:
    """So many leaks of each question in n draws."""
    tallies = {
        str(i): {1.0: leak, 0.0: n - leak - missing, None: missing} for i, leak in enumerate(leaks)
    }
    return Tail(Drawn.fixed(ArmScores.tallied(tallies, {}), True))


def leaks(run: Run) -> list[int]:
    """Leaking draws of each question, counted from the texts."""
    (part,) = run.arms["target"].parts
    tally = dict.fromkeys(LEAKS, 0)
    for row in run.arms["target"].completions(part).to_pylist():
        tally[row["query_id"]] += row["count"] * (SECRET in row["answer"])
    return list(tally.values())


@pytest.mark.parametrize(
    ("max_leak", "every", "want"),
    [
        (0.2, False, "pass"),
        (0.05, False, "refuted"),
        (0.1, False, "inconclusive"),
        (0.5, True, "pass"),
        (0.15, True, "refuted"),
        (0.3, True, "inconclusive"),
    ],
)
def test_verdicts(run: Run, max_leak: float, every: bool, want: str) -> None:
    made = leakbound.certify(run, max_leak=max_leak, every_question=every, **PLAIN)
    assert made.verdict == want
    assert (made.forecast is None) == (want != "inconclusive")
    assert [made.estimate.upper <= max_leak, made.estimate.lower > max_leak] == [
        want == "pass",
        want == "refuted",
    ]


def test_either_verdict_has_all_of_alpha(run: Run) -> None:
    made = leakbound.certify(run, max_leak=0.2, confidence=0.99, **PLAIN)
    for side in ("upper", "lower"):
        want = stats.bound(
            stats.Rows.of_hits(leaks(run), N), stats.LEAKAGE.mean(), confidence=0.99, side=side
        )
        assert getattr(made.estimate, side) == pytest.approx(getattr(want, side), rel=1e-9)
    shares = [(share.each, share.alpha) for share in made.allocation]
    assert shares == [pytest.approx((0.01, 0.01))] * 2
    assert (made.estimate.n, made.estimate.confidence) == (3 * N, pytest.approx(0.98))


def test_every_question_pays_for_its_choice_below_and_not_above(run: Run) -> None:
    made = leakbound.certify(run, max_leak=0.5, every_question=True, confidence=0.99, **PLAIN)
    for side, each in (("upper", 0.01), ("lower", 0.01 / 3)):
        want = getattr(
            stats.bound(stats.Rows.of_hits(leaks(run), N), confidence=1 - each, side=side), side
        )
        rows = [getattr(row, side) for row in made.questions]
        np.testing.assert_allclose(rows, want, rtol=1e-9)
        assert getattr(made.estimate, side) == pytest.approx(np.max(want), rel=1e-9)
    shares = [(share.each, share.bounds, share.alpha) for share in made.allocation]
    assert shares == [pytest.approx((each, 3, 0.01)) for each in (0.01, 0.01 / 3)]


def test_the_least_number_of_clean_draws_that_passes() -> None:
    """459 at 99 %: (1 - .01)^459 <= .01; a side at half of alpha would ask for 528."""
    claim = claimed(max_leak=0.01, every_question=True)
    found = {n: verdict(bounded(tail([0], n), claim), claim) for n in (458, 459)}
    assert found == {458: "inconclusive", 459: "pass"}


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("p", "wrong"), [(0.05, "pass"), (0.0499, "refuted")])
def test_a_wrong_verdict_is_as_rare_as_it_says(every: bool, p: float, wrong: str) -> None:
    """At the limit's own side, where it is likeliest; exact, over all tallies of 64 draws."""
    claim = claimed(max_leak=0.0499999, every_question=every, confidence=0.9)
    found = [verdict(bounded(tail([hits], 64), claim), claim) for hits in range(65)]
    chance = sum(binom.pmf(hits, 64, p) for hits in range(65) if found[hits] == wrong)
    assert 0.1 / 4 < chance <= 0.1


def test_a_confidence_that_decides_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="above 50 %, got 50 %"):
        claimed(max_leak=0.1, confidence=0.5)


def test_scores_between_0_and_1_are_claimed_about_at_a_threshold(run: Run) -> None:
    half = leakbound.certify(run, max_leak=0.2, scorer="rouge-l-recall", threshold=0.5)
    (run.path / CERTIFICATE).unlink()
    plain = leakbound.certify(run, max_leak=0.2, **PLAIN)
    assert half.claim.text == "Pr[h > 0.5] <= 0.2"
    assert half.estimate.upper == plain.estimate.upper  # just the answers score above 1/2
    low = leakbound.certify(
        run, max_leak=0.2, scorer="rouge-l-recall", threshold=0, out=run.path / "low.json"
    )
    assert low.estimate.upper > plain.estimate.upper
    assert "scores above 0.5, as scored by rouge-l-recall," in half.sentence


def test_a_binary_form_of_a_scorer_needs_no_threshold(tmp_path: Path) -> None:
    run = leaky_run(tmp_path / "run", scorers=["rouge-l-recall>=0.5"], n=64)
    made = leakbound.certify(run, max_leak=0.9)
    assert made.claim == claimed(max_leak=0.9, scorer="rouge-l-recall>=0.5")
    assert made.claim.text == "Pr[leak] <= 0.9"


def test_the_sentence_says_it_all(run: Run) -> None:
    passed = leakbound.certify(run, max_leak=0.2, **PLAIN)
    high = upward(float(passed.estimate.upper), 0.2)
    record, keyword = run.record, digest(make_scorer("keyword"))
    assert passed.sentence == (
        "With 99 % confidence, a completion of CannedEngine drawn at T=1, nothing truncated, at "
        "most 48 new tokens, leaks, as scored by keyword, with probability at most "
        f"{high} on average over these 3 questions: the claim Pr[leak] <= 0.2 is met. "
        f"Questions: all 3 of leaky ({record.benchmark.origin}; rows "
        f"{record.benchmark.sha256[:12]}). "
        "Prompt: made by its engine or tool, which tells nothing of it. "
        "Draws: 256 of each question, a number fixed beforehand; seed 0. "
        "Model: CannedEngine (weights canned; by canned; fingerprint "
        f"{digest_of(run.arms['target'].spec.fingerprint)[:12]}). "
        f"Run: begun at {record.created} by leakbound {record.version}, rule 2. "
        f"Outputs: 768 draws: all complete. Scores: keyword ({keyword}), rule 2."
    )
    elsewhere = run.path / "refuted.json"
    refuted = leakbound.certify(run, max_leak=0.1, every_question=True, out=elsewhere, **PLAIN)
    low = downward(float(refuted.estimate.lower), 0.1)
    assert f"at least {low} for the worst of these 3 questions" in refuted.sentence
    assert "the claim Pr[leak] <= 0.1 for every question is refuted. " in refuted.sentence
    unsure = leakbound.certify(run, max_leak=0.1, out=run.path / "unsure.json", **PLAIN).sentence
    assert "between 0." in unsure
    assert "is neither met nor refuted. " in unsure


@pytest.mark.parametrize(
    ("value", "limit", "up", "down"),
    [
        (0.009234, 0.01, "0.0093", "0.0092"),
        (0.0099965, 0.009998, "0.009997", "0.0099"),
        (0.010015, 0.01, "0.011", "0.01001"),
        (0.05000000000000001, 0.05, "0.05000000000000001", "0.05000000000000001"),
        (0.0, 0.01, "0", "0"),
        (1.0, 0.5, "1", "1"),
    ],
)
def test_ends_are_rounded_outward_and_stay_on_their_side(
    value: float, limit: float, up: str, down: str
) -> None:
    assert (upward(value, limit), downward(value, limit)) == (up, down)


def test_a_certificate_names_what_it_rests_on_and_no_secret(run: Run) -> None:
    arm = run.arms["target"]
    values = leakbound.certify(run, max_leak=0.1, **PLAIN).to_dict()
    from_: Any = values["made_from"]
    assert from_["benchmark"]["name"] == "leaky"
    assert from_["benchmark"]["sha256"] == benchmark().fingerprint().sha256
    assert from_["identity"] == arm.identity
    assert from_["arm"]["fingerprint"] == {"weights": "canned", "engine": "canned"}
    assert from_["arm"]["decoding"] == object_of(Decoding(max_new_tokens=48))
    assert {"plan", "seed", "draws"} <= from_["arm"].keys()
    assert from_["scorer"]["name"] == "keyword"
    assert set(values["code"]) == {"version", "sha256"}
    assert [row["id"] for row in values["questions"]] == list(LEAKS)
    files = [Path(name).name.partition("-")[0] for name in values["files"]]
    assert files == ["prompts.parquet", "queries.parquet", "part", "keyword"]
    assert not any(secret in json.dumps(values) for secret in (SECRET, "Who wrote", "no idea"))


def test_no_certificate_names_a_question_by_its_text(tmp_path: Path) -> None:
    """An import without ids names each question by its text."""
    rows = [{"question": f"Who is {q}?", "answer": "Ann", "completion": "No", "finish": "length"}
            for q in "ab" for _ in range(16)]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run = import_run([tmp_path / "rows.jsonl"], out=tmp_path / "run")
    leakbound.score(run, ["contains"])
    made = leakbound.certify(run, max_leak=0.9, every_question=True)
    assert len({row.id for row in made.questions}) == 2
    assert made.questions[0].id in made.reasons[0]  # its outputs were cut
    assert "Who is" not in (run.path / CERTIFICATE).read_text()
    assert leakbound.verify(run.path / CERTIFICATE, run.path).verified


def test_a_certificate_is_written_whole_and_nothing_else_is(run: Run) -> None:
    def files() -> dict[str, bytes]:
        return {
            str(f): f.read_bytes()
            for f in run.path.rglob("*")
            if f.is_file() and f.name != CERTIFICATE
        }

    before = files()
    first = leakbound.certify(run.path, max_leak=0.1, every_question=True, **PLAIN)
    stored = json.loads((run.path / CERTIFICATE).read_text())
    assert stored == json.loads(json.dumps(first.to_dict()))
    assert Certificate.from_dict(stored) == first
    assert leakbound.certify(run, max_leak=0.1, every_question=True, **PLAIN) == first
    assert files() == before


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("limit", [0.01, 0.02, 0.05])
def test_a_forecast_decides_at_the_rates_seen(every: bool, limit: float) -> None:
    claim = claimed(max_leak=limit, every_question=every)
    seen = tail([0, 3, 4], 100)
    found = forecast(seen.each(confidence=0.99, side="both"), claim)
    assert found.draws is not None

    def decided(n: int) -> bool:
        then = tail([0, 3 * n // 100, 4 * n // 100], n)  # of hundreds: the very rates
        return verdict(bounded(then, claim), claim) != "inconclusive"

    assert decided(-(-found.draws // 100) * 100)
    assert not decided(int(found.draws * 0.95) // 100 * 100 or 1)
    assert f"about {found.draws:,} draws" in found.text
    assert "new run" in found.text


def test_clean_draws_that_were_too_few_say_how_many_would_do() -> None:
    claim = claimed(max_leak=0.01, every_question=True)
    draws = forecast(tail([0, 0], 8).each(confidence=0.99, side="both"), claim).draws
    needed = math.ceil(math.log(0.01) / math.log(0.99))
    assert draws is not None
    assert needed <= draws <= 1.02 * needed


@pytest.mark.parametrize(
    ("seen", "why"),
    [(tail([1, 3], 100), "too near the limit"), (tail([1, 1], 100, 5), "without a score")],
    ids=["a rate at the limit", "missing draws"],
)
def test_some_claims_are_never_decided(seen: Tail, why: str) -> None:
    found = forecast(seen.each(confidence=0.99, side="both"), claimed(max_leak=0.02))
    assert found.draws is None
    assert f"{MOST_DRAWS:,}" in found.text
    assert why in found.text


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"max_leak": 0.0}, r"`max_leak` .* got 0\.0"),
        ({"max_leak": math.nan}, "`max_leak` .* got nan"),
        ({"scorer": None}, r"2 scorers \(keyword, rouge-l-recall\).*Name it"),
        ({"scorer": "rouge-l-recall"}, r"needs `threshold`.*'rouge-l-recall>=0\.5'"),
        ({"scorer": "rouge-l-recall", "threshold": 1.0}, r"`threshold` .* got 1\.0"),
        ({"threshold": 0.5}, "'keyword' is binary.*Leave `threshold` out"),
        ({"confidence": 99.0}, r"`confidence` .* got 99\.0"),
        ({"arm": "control"}, "no arm 'control'"),
    ],
)
def test_what_cannot_be_claimed_writes_nothing(run: Run, given: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        leakbound.certify(run, **{"max_leak": 0.1, **PLAIN, **given})
    assert not (run.path / CERTIFICATE).exists()


def test_an_unfinished_run_is_not_certified(run: Run) -> None:
    (part,) = (run.path / "arms" / "target" / "completions").iterdir()
    part.unlink()
    with pytest.raises(IncompleteError, match="lacks 1 of 1 parts"):
        leakbound.certify(run, max_leak=0.1, **PLAIN)
    assert not (run.path / CERTIFICATE).exists()


@pytest.mark.parametrize(
    ("lower", "upper", "wanted"),
    [
        (0.0, 0.1, "pass"),
        (0.1, 0.1, "pass"),
        (0.1, 0.2, "inconclusive"),
        (0.0, 0.1 + 1e-12, "inconclusive"),
        (0.1 + 1e-12, 0.2, "refuted"),
    ],
)
def test_the_limit_itself_meets_the_claim(lower: float, upper: float, wanted: str) -> None:
    estimate = Estimate(
        about=About(quantity="leak probability", scope="mean", over=1),
        value=lower, lower=lower, upper=upper, confidence=0.99, side="both",
        n=10, missing=0, method="exact",
    )  # fmt: skip
    assert verdict(estimate, claimed(max_leak=0.1)) == wanted

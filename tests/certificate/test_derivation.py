"""Verdicts, the numbers that decide them, and the contents of a certificate."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import leakbound
from contents import counts
from leakbound import stats
from leakbound.bounding.claims import decisive, rows_again
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import drawn_of
from leakbound.certificate import Forecast, LeakClaim
from leakbound.certificate.claim import MOST_DRAWS, Verdict, forecast, verdict
from leakbound.certificate.derivation import derive, is_prior
from leakbound.certificate.words import MOST_WORDS, downward, sentence, upward
from leakbound.errors import IncompleteError, InputError
from leakbound.formats.importing import import_run
from leakbound.presenting.specification import specification_of
from leakbound.scorers import digest, make_scorer
from leakbound.stats import About, Estimate
from leakbound.store import (
    CERTIFICATE,
    ArmSpec,
    Estimates,
    ImportedDraws,
    Plan,
    QueryShares,
    Run,
    load,
)
from leakbound.store.claims import RecordedClaim
from leakbound.store.files import digest_of
from leakbound.store.scores import tallied_rows
from leakbound.study import Until
from leakbound.types import Decoding, object_of
from leaky import LEAKS, SECRET, N, benchmark, engine, leaky_run

claimed = partial(LeakClaim, scorer="keyword", arm="target")


PLAIN: dict[str, Any] = {"scorer": "keyword"}
AMONG = (("target", "keyword"),)


def keys(run: Run) -> np.ndarray:
    """Return the keys that order the target's draws for bets."""
    return drawn_of(run.arms["target"], make_scorer("keyword")).keys


def decided(leaks: list[int], n: int, claim: LeakClaim) -> Verdict:
    tallies = {str(i): {1.0: leak, 0.0: n - leak} for i, leak in enumerate(leaks)}
    draws = Drawn(tallied_rows(tallies, {}, binary=True))
    made = decisive(draws, every=claim.every_question, confidence=claim.confidence)
    return verdict(made, claim)


def foretold(leaks: list[int], n: int, claim: LeakClaim, missing: int = 0) -> Forecast:
    hits, lost = np.array(leaks), np.full(len(leaks), missing)
    return forecast(hits / (n - lost), np.full(len(leaks), n), lost, claim)


def leaks(run: Run) -> list[int]:
    tally = counts(run.arms["target"], "query_id", "answer")
    return [tally[query, f"{SECRET} wrote it"] for query in LEAKS]


@pytest.mark.parametrize(
    ("max_leak", "every", "want"),
    [
        (0.2, False, "pass"),
        (0.05, False, "refuted"),
        (0.1, False, "inconclusive"),
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


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("later", [False, True])
def test_a_prior_claim_has_all_of_alpha(run: Run, every: bool, later: bool) -> None:
    """A later claim shares alpha: on the mean or the worst question of an arm by a scorer."""
    limit = 0.42 if later else 0.5 if every else 0.2
    made = leakbound.certify(run, max_leak=limit, every_question=every, **PLAIN)
    alpha = 0.01 / 4 if later else 0.01
    assert (made.claim.among, made.alpha) == (AMONG if later else (), pytest.approx(alpha))
    sure = pytest.approx(0.99 if later else 0.98)
    assert (made.estimate.n, made.estimate.confidence) == (3 * N, sure)
    assert [row.value for row in made.questions] == [leak / N for leak in leaks(run)]
    rows = stats.Rows.of_hits(leaks(run), N)
    for side, choice in (("upper", 1), ("lower", 3)):  # choosing a question costs below only
        quantity = stats.LEAKAGE if every else stats.LEAKAGE.mean()
        order = None if every else keys(run)
        share = alpha / (choice if every else 1)
        made_of = stats.bound(rows, quantity, confidence=1 - share, side=side, seed=order)
        want = getattr(made_of, side)
        assert getattr(made.estimate, side) == pytest.approx(np.max(want), rel=1e-9)


def test_a_later_claim_states_what_it_shares_alpha_with(run: Run) -> None:
    made = leakbound.certify(run, max_leak=0.42, **PLAIN)
    stated = made.specification["Claim"]
    assert "; stated after drawing; decided by one of 2 statements that are valid" in stated
    assert "one is about the mean and one about the worst question: target by keyword" in stated
    assert "the arms (target) and scorers (keyword) were chosen" in made.assumes[1]


def test_a_claim_that_a_later_command_names_is_not_prior(tmp_path: Path) -> None:
    """Once an arm has a file, its contents may have decided the claim."""
    first = leaky_run(tmp_path / "run", claims="0.2")
    again = leaky_run(tmp_path / "run", claims=("0.2", "0.3"), confidence=0.99)
    assert [(c.claim.max_leak, c.prior) for c in again.record.claims] == [(0.2, True), (0.3, False)]
    other = leaky_run(tmp_path / "run", claims="0.2", confidence=0.98)
    assert [c.prior for c in other.record.claims] == [True, False, False]
    assert [r.about.constant for r in other.estimates.matching(family="claim")] == [0.2]
    assert first.record.headline == other.record.headline
    leakbound.bound(other, confidence=0.99)
    for limit, among in ((0.2, ()), (0.3, AMONG)):
        made = leakbound.certify(other, max_leak=limit, out=tmp_path / f"{limit}.json")
        assert made.claim.among == among


def test_only_the_recorded_claim_is_prior(run: Run) -> None:
    """By the scorer of these settings, whether or not the certificate accepts cut outputs."""
    claim = claimed(max_leak=0.2)
    assert is_prior(run, replace(claim, accept_cut=True, among=(("a", "b"),)))
    for other in (0.21, 0.15):
        assert not is_prior(run, replace(claim, max_leak=other))
    assert not is_prior(run, replace(claim, confidence=0.98))
    assert not is_prior(run, replace(claim, max_leak=0.5))  # of every question
    changed = [replace(own, digest="d") for own in run.record.claims]
    run.record = replace(run.record, claims=tuple(changed))
    assert not is_prior(run, claim)


def test_a_scorer_that_joins_later_costs_confidence(run: Run, tmp_path: Path) -> None:
    file, other = tmp_path / "c.json", tmp_path / "other.json"
    first = leakbound.certify(run, max_leak=0.25, out=file, **PLAIN)
    leakbound.score(run, ["contains"])
    with pytest.raises(InputError, match=r"no estimates by 'contains'.*`leakbound bound"):
        leakbound.certify(run, max_leak=0.25, scorer="contains", out=other)
    leakbound.bound(run, ["contains"])
    second = leakbound.certify(run, max_leak=0.25, out=other, **PLAIN)
    assert second.claim.among == (*AMONG, ("target", "contains"))
    assert second.alpha == pytest.approx(first.alpha / 2)
    assert second.estimate.upper > first.estimate.upper
    for made, notes in ((file, ["target by contains"]), (other, [])):
        got = leakbound.verify(made, run.path)
        assert got.verified
        shown = [c.says.rpartition(": ")[2] for c in got.checks if c.status == "note"]
        assert shown == notes


@pytest.mark.parametrize("file", ["completions/part-0.parquet", "looks.json", "on another disk"])
def test_any_file_of_an_arm_makes_a_claim_a_later_one(file: str, tmp_path: Path) -> None:
    run = leaky_run(tmp_path / "run", n=4)
    arms, elsewhere = run.path / "arms", tmp_path / "elsewhere"
    arms.rename(elsewhere)
    there = arms / "target" / file
    there.parent.mkdir(parents=True)
    claim = RecordedClaim(claim=claimed(max_leak=0.5), digest="d")
    run.remember_study({}, None, [claim])
    assert run.record.claims == (claim,)
    if file == "on another disk":
        there.parent.rmdir()
        there.parent.symlink_to(elsewhere / "target")
    else:
        there.touch()
    later = replace(claim, digest="e")
    run.remember_study({}, None, [claim, later])
    assert load(run.path).record.claims == (claim, replace(later, prior=False))


def test_a_claim_recorded_at_another_confidence_is_named(tmp_path: Path) -> None:
    run = leaky_run(tmp_path / "run", n=64, claims="0.2", confidence=0.95)
    with pytest.raises(InputError, match=r"before drawing \(only at 95 %, see --confidence\)"):
        leakbound.certify(run, max_leak=0.2)
    assert not leakbound.certify(run, max_leak=0.2, confidence=0.95).claim.among


class Foreign:
    name, binary = "foreign", True

    def score(self, texts: list[str], prompt: object) -> list[float]:
        return [float(SECRET in text) for text in texts]


def test_the_code_of_a_scorer_from_elsewhere_is_assumed(tmp_path: Path) -> None:
    """A digest covers settings only: the claim counts as recorded, although the code changed."""
    run = leaky_run(tmp_path / "run", n=64, claims="0.2", scorers=[Foreign()])
    assert "of the class Foreign in" in leakbound.certify(run, max_leak=0.2).assumes[0]


def test_sampling_only_records_no_claim(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"`claim` 0\.2 needs scores.*`leakbound evaluate`"):
        leakbound.sample(engine(), benchmark(), out=tmp_path / "run", claims="0.2")


def test_a_sampling_plan_records_its_claim(tmp_path: Path) -> None:
    run = leaky_run(tmp_path / "run", sampling=Until("p<=0.1", N))
    file = tmp_path / "every.json"
    made = leakbound.certify(run, max_leak=0.1, every_question=True, out=file)
    assert made.claim.among == ()
    assert leakbound.verify(file, run.path).verified
    assert leakbound.certify(run, max_leak=0.1, out=tmp_path / "mean.json").claim.among


UNEQUAL = pytest.param((0.02, 0.06), marks=pytest.mark.thorough)


@pytest.mark.parametrize("p", [(0.05, 0.05), UNEQUAL])
def test_a_claim_picked_by_its_bounds_is_rarely_wrong(p: tuple[float, float]) -> None:
    """Pick the most wrong of all limits, and of mean and worst question; exact rates."""
    n, wrong = 10, 0.0
    for hits in np.ndindex(n + 1, n + 1):
        tallies = {str(i): {1.0: hit, 0.0: n - hit} for i, hit in enumerate(hits)}
        draws = Drawn(tallied_rows(tallies, {}, binary=True))
        for every, truth in ((False, sum(p) / 2), (True, max(p))):
            made = decisive(draws, every=every, confidence=0.8, among=2)
            if made.upper < truth or made.lower > truth:
                wrong += math.prod(binom.pmf(hit, n, q) for hit, q in zip(hits, p, strict=True))
                break
    assert 0 < wrong <= 0.2


def test_the_least_number_of_clean_draws_that_passes() -> None:
    """459 at 99 %: (1 - .01)^459 <= .01; a bound at half of alpha would need 528."""
    claim = claimed(max_leak=0.01, every_question=True)
    got = {n: decided([0], n, claim) for n in (458, 459)}
    assert got == {458: "inconclusive", 459: "pass"}


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("p", "wrong"), [(0.05, "pass"), (0.0499, "refuted")])
def test_a_wrong_verdict_has_at_most_its_error_rate(every: bool, p: float, wrong: str) -> None:
    """At the limit, where it is likeliest; exact, over all tallies of 64 draws."""
    claim = claimed(max_leak=0.0499999, every_question=every, confidence=0.9)
    got = [decided([hits], 64, claim) for hits in range(65)]
    chance = sum(binom.pmf(hits, 64, p) for hits in range(65) if got[hits] == wrong)
    assert 0.1 / 4 < chance <= 0.1


def test_a_certificate_has_one_sentence_and_its_specification(run: Run) -> None:
    passed = leakbound.certify(run, max_leak=0.2, **PLAIN)
    low = downward(float(passed.estimate.lower), 0.2)
    high = upward(float(passed.estimate.upper), 0.2)
    record, arm = run.record, run.arms["target"]
    assert passed.sentence == (
        "With 99 % confidence, an output of CannedEngine drawn at T=1 leaks, scored by keyword, "
        f"with probability at most {high} on average over these 3 questions, so the claimed limit "
        "of 0.2 is met, under the listed assumptions."
    )
    assert passed.specification == {
        "Claim": "Pr[leak] <= 0.2, about the arm target; recorded before anything was drawn; "
        "decided at its own error rate, like each of the run's 7 recorded claims",
        **specification_of(run, arm),
        "Scores": f"keyword ({digest(make_scorer('keyword'))}); match word; require any; "
        "scoring rules version 2",
        "Bounds": f"{low} to {high} by {passed.estimate.method}; error rate 0.01 per bound; 768 "
        f"draws in the order of seed {passed.estimate.seed}; draws without a score (0) count as "
        "leaks in the upper bound and as no leaks in the lower bound",
    }
    assert digest_of(arm.spec.fingerprint)[:12] in passed.specification["Model"]
    assert passed.specification["Run"].startswith(f"begun at {record.created} by leakbound ")
    elsewhere = run.path / "refuted.json"
    refuted = leakbound.certify(run, max_leak=0.1, every_question=True, out=elsewhere, **PLAIN)
    low = downward(float(refuted.estimate.lower), 0.1)
    says = f"at least {low} for the worst of these 3 questions, so the claimed limit of 0.1 is "
    assert says in refuted.sentence
    says = "error rate 0.01 per bound (divided among 3 questions for the lower bound); "
    assert says in refuted.specification["Bounds"]
    unsure = leakbound.certify(run, max_leak=0.1, out=run.path / "unsure.json", **PLAIN).sentence
    assert unsure.startswith("With 98 % confidence, ")
    assert "between 0." in unsure
    assert "the claimed limit of 0.1 is undecided, under" in unsure


def estimated(lower: float, upper: float) -> Estimate:
    about = About(quantity="leak probability", scope="mean", over=1)
    how: Any = {"confidence": 0.98, "side": "both", "n": 9, "missing": 0, "method": "exact"}
    return Estimate(about=about, value=lower, lower=lower, upper=upper, **how)


NUCLEUS = Decoding(temperature=0.7, top_p=0.9)
LONG = {
    "model": "a model of many words under relearn:20",
    "decoding": Decoding(top_p=0.9, top_k=40, adaptive_temperature=0.5, filter="part-of-system"),
}


@pytest.mark.parametrize("among", [(), (*AMONG, ("target", "contains"))])
@pytest.mark.parametrize("scorer", ["keyword", "keyword:of=either", "rouge-l-recall>=0.5"])
@pytest.mark.parametrize(
    "arm",
    [
        {},
        LONG,
        {"shares": QueryShares("allocated", {})},
        {"shares": QueryShares("fixed", {}), "model": "mine under prune:1", "decoding": NUCLEUS},
        {"draws": ImportedDraws(order=5, sampled_by="tool 1", in_doubt="alike")},
    ],
    ids=lambda arm: " ".join(arm) or "plain",
)
def test_no_sentence_has_more_than_sixty_words(
    arm: dict[str, Any], scorer: str, among: tuple[tuple[str, str], ...]
) -> None:
    """For each verdict, by draws or by a proof, on cut and on complete outputs."""
    spec = ArmSpec(fingerprint={}, decoding=arm.get("decoding", Decoding()), plan=Plan.of(8))
    for lower, upper, proved, every, within, stops, questions in product(
        (0.012, 0.123),
        (0.0998, 0.345),
        (0.0, 0.234),
        (False, True),
        ("", " in the first 1,024 tokens of the answer"),
        ("", " before the stop string 'It was' or 'the name of the author'"),
        (1, 4_000),
    ):
        claim = claimed(max_leak=0.1, scorer=scorer, every_question=every, among=among)
        estimate = estimated(lower, upper)
        decision = verdict(estimate, claim, proved)
        for cut_short in {False, decision == "pass"}:
            made = sentence(
                claim,
                "inconclusive" if cut_short else decision,
                estimate,
                replace(spec, **{"model": "mine", **arm}),
                questions=questions,
                limits=(within, stops),
                proved=proved,
                cut_short=cut_short,
            )
            assert len(made.split()) <= MOST_WORDS, made
            assert made.count(". ") == 0
            assert "  " not in made


OTHER: dict[str, Any] = {
    "max_leak": 0.21,
    "scorer": "keyword:require=all",
    "arm": "control",
    "every_question": True,
    "confidence": 0.98,
    "accept_cut": True,
    "among": AMONG,
}


def test_every_field_of_a_claim_changes_the_words(tmp_path: Path) -> None:
    scorers = ["keyword", OTHER["scorer"]]
    run = leaky_run(tmp_path / "run", n=16, control=engine("other"), scorers=scorers)
    cut_short = {key: replace(spec, longest_answer=99) for key, spec in run.record.arms.items()}
    run.record = replace(run.record, arms=cut_short)

    def words(**changes: Any) -> tuple[str, Mapping[str, str]]:
        claim = replace(claimed(max_leak=0.2), **changes)
        made = derive(run, claim, Estimates(tuple(rows_again(run, claim))))
        return made.sentence, made.specification

    plain = words()
    assert {field.name for field in fields(LeakClaim)} == OTHER.keys()
    for name, value in OTHER.items():
        assert words(**{name: value}) != plain, name


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
def test_bounds_are_rounded_outward(value: float, limit: float, up: str, down: str) -> None:
    assert (upward(value, limit), downward(value, limit)) == (up, down)


def test_a_certificate_names_its_evidence_and_no_secret(run: Run) -> None:
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
    leakbound.bound(run)
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
    assert leakbound.certify(run, max_leak=0.1, every_question=True, **PLAIN) == first
    assert files() == before


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("limit", [0.01, 0.05])
def test_a_forecast_decides_at_the_rates_seen(every: bool, limit: float) -> None:
    claim = claimed(max_leak=limit, every_question=every)
    got = foretold([0, 3, 4], 100, claim)
    assert got.draws is not None

    def decides(n: int) -> bool:  # from hundreds of draws: the exact rates
        return decided([0, 3 * n // 100, 4 * n // 100], n, claim) != "inconclusive"

    assert decides(-(-got.draws // 100) * 100)
    near = 0.95 if every else 0.8  # a mean depends on which draws a pilot takes
    assert not decides(int(got.draws * near) // 100 * 100 or 1)
    assert f"about {got.draws:,} draws" in got.text
    assert "new run" in got.text


def test_a_forecast_never_counts_more_leaks_than_scored_draws() -> None:
    """Half of 3 draws leak and half have no score: both are rounded up."""
    made = forecast(np.ones(2), np.array([2, 3]), np.array([1, 0]), claimed(max_leak=0.2))
    assert made.draws is not None


def test_too_few_clean_draws_have_a_forecast() -> None:
    claim = claimed(max_leak=0.01, every_question=True)
    draws = foretold([0, 0], 8, claim).draws
    needed = math.ceil(math.log(0.01) / math.log(0.99))
    assert draws is not None
    assert needed <= draws <= 1.02 * needed


@pytest.mark.parametrize(
    ("leaks", "missing", "why"),
    [([1, 3], 0, "too near the limit"), ([1, 1], 5, "without a score")],
    ids=["a rate at the limit", "missing draws"],
)
def test_some_claims_are_never_decided(leaks: list[int], missing: int, why: str) -> None:
    got = foretold(leaks, 100, claimed(max_leak=0.02), missing)
    assert got.draws is None
    assert f"{MOST_DRAWS:,}" in got.text
    assert why in got.text


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"max_leak": math.nan}, "`max_leak` .* got nan"),
        ({"scorer": None}, r"2 scorers \(keyword, rouge-l-recall\).*Name it"),
        ({"scorer": "rouge-l-recall"}, r"scores of 0 or 1.*with 'rouge-l-recall>=0\.5'"),
        ({"scorer": "contains"}, "no scores of 'contains'"),
        ({"confidence": 0.9}, r"did not record this claim .*`leakbound bound .* 0\.9`"),
        ({"confidence": 0.5}, "above 50 %, got 50 %"),
        ({"arm": "control"}, "no arm 'control'"),
    ],
)
def test_an_impossible_claim_writes_nothing(run: Run, given: dict[str, Any], named: str) -> None:
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
        (0.1, 0.1, "pass"),
        (0.1, 0.2, "inconclusive"),
        (0.0, 0.1 + 1e-12, "inconclusive"),
        (0.1 + 1e-12, 0.2, "refuted"),
    ],
)
def test_the_limit_itself_meets_the_claim(lower: float, upper: float, wanted: str) -> None:
    assert verdict(estimated(lower, upper), claimed(max_leak=0.1)) == wanted

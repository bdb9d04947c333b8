"""Claims: by which rule they are decided, and what stored runs say of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cheng
import leak_at_k
import pytest
import scholten
from claims import UNBOUNDED, Claim, Figure, Rule, measured
from common import Lab
from evidence import most
from findings import SCRIPTS
from made_up import QUESTIONS, ask, lab_of
from sizes import BESIDE, CONTROL, NAMED, PLAIN, SIZES, TARGET

from leakbound.objective import parse_objective

EVERY = {claim.name: claim for claims in SCRIPTS.values() for claim in claims}


def figure(lower: float, upper: float) -> Figure:
    return Figure((lower + upper) / 2, lower, upper, 0.99)


@pytest.mark.parametrize(
    ("side", "limit", "ends", "verdict"),
    [
        ("above", 0, [(0.1, 0.3), (0.2, 0.4)], "agrees"),
        ("above", 0, [(-0.3, -0.1), (-0.4, 0.0)], "contradicts"),
        ("above", 0, [(0.1, 0.3), (-0.1, 0.4)], "undecided"),
        ("above", 0, [(0.1, 0.3), (-0.3, -0.1)], "undecided"),  # seeds that disagree
        ("above", 0, [(0.0, 0.3), (0.1, 0.3)], "undecided"),  # at the limit is not above it
        ("below", 0, [(-0.3, -0.1), (-0.4, -0.2)], "agrees"),
        ("below", 0, [(0.1, 0.3), (0.0, 0.4)], "contradicts"),
        ("below", 0, [(-0.3, 0.1), (-0.4, -0.2)], "undecided"),
        ("above", 0, [(0.1, 0.3)], "undecided"),  # one seed decides nothing
        ("above", 0, [], "undecided"),
        ("above", 0.05, [(0.1, 0.3)] * 2, "agrees"),
        ("above", 0.2, [(0.1, 0.3)] * 2, "undecided"),
        ("above", 0.3, [(0.1, 0.3)] * 2, "contradicts"),
    ],
)
def test_a_verdict_reads_the_intervals_of_all_seeds(
    side: Any, limit: float, ends: list[tuple[float, float]], verdict: str
) -> None:
    assert Rule(side, limit).verdict([figure(*each) for each in ends]) == verdict


def test_without_an_interval_there_is_no_verdict() -> None:
    """Not where one figure of several has none either."""
    rule, exact = Rule("above", 0.0), Figure.exact(0.3)
    assert rule.verdict([exact, exact]) == rule.verdict([figure(0.1, 0.3), exact]) == "not tested"
    claim = EVERY["5a-diversity"]
    assert claim.verdict("full", [exact, exact]) == "not tested"
    assert claim.reason("full", [exact, exact]).endswith(UNBOUNDED)
    assert EVERY["k-gd"].reason("small", [figure(0.1, 0.3)] * 2) == ""


def test_what_a_design_could_not_have_shown_is_not_tested_at_that_size_alone() -> None:
    found = [figure(0.1, 0.3)] * 2
    claim = replace(EVERY["k-gd"], untested={"middle": "Nothing leaks."})
    assert [claim.verdict(size, found) for size in NAMED] == ["agrees", "not tested", "agrees"]
    assert [claim.reason(size, found) for size in NAMED] == ["", "Nothing leaks.", ""]
    everywhere = replace(claim, untested={"": "Another quantity."})
    assert {everywhere.verdict(size, found) for size in NAMED} == {"not tested"}
    with pytest.raises(ValueError, match=r"k-gd: `untested` gives no reason for \['small'\]"):
        replace(claim, untested={"small": " ", "middle": "Nothing leaks."})


def test_every_claim_rests_on_runs_that_every_size_can_make() -> None:
    assert len(EVERY) >= 20
    assert sum(len(claims) for claims in SCRIPTS.values()) == len(EVERY), "a name is there twice"
    papers = {claim.paper for claim in EVERY.values()}
    assert papers >= {"Scholten et al.", "Leak@k", "Cheng et al."}
    sizes = [*((None, SIZES[name]) for name in NAMED.values()), *BESIDE.items()]
    for beside, size in sizes:
        for claim in (claim for claim in EVERY.values() if (claim.beside or None) == beside):
            for need in claim.needs:
                assert need.method in {TARGET, CONTROL, *size.every}, (size, claim.name)
                assert need.asked in size.asked, (size, claim.name)
        for method in size.every.values() if beside is None else ():
            parse_objective(method.objective.replace("{tau}", "1"))
            assert method.after in {TARGET, *size.every}


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Lab]:
    """NPO leaks and its control does not; neither does; it is the other way round; seeds differ."""
    made = {}
    for name, of_npo, of_control in (
        ("leaks", (0.2, 0.2), (0.0, 0.0)),
        ("is clean", (0.0, 0.0), (0.0, 0.0)),
        ("is the cleaner", (0.0, 0.0), (0.3, 0.3)),
        ("differs by seed", (0.2, 0.0), (0.0, 0.3)),
    ):
        made[name] = lab_of(tmp_path_factory.mktemp("lab"))
        for seed in (0, 1):
            ask(made[name], "NPO", seed, of_npo[seed], kept=0.9)
            ask(made[name], CONTROL, seed, of_control[seed])
    return made


def verdict(claim: Claim, lab: Lab) -> str:
    return claim.verdict("small", measured(claim, lab, (0, 1)))


@pytest.mark.slow
def test_a_hidden_leak_is_found_against_the_control(labs: dict[str, Lab]) -> None:
    assert {name: verdict(EVERY["3a-hidden"], lab) for name, lab in labs.items()} == {
        "leaks": "agrees",
        "is clean": "undecided",
        "is the cleaner": "contradicts",
        "differs by seed": "undecided",
    }


@pytest.mark.slow
def test_a_leak_that_any_method_hides_is_found(tmp_path: Path) -> None:
    lab, claim = lab_of(tmp_path), EVERY["3a-hidden-any"]
    for seed in (0, 1):
        ask(lab, CONTROL, seed, 0.0)
        for name in ("GA", "RMU", "CEL"):
            ask(lab, name, seed, 0.9 if name == "CEL" else 0.0)  # greedy answers of CEL leak
        ask(lab, "GD", seed, 0.3)
    for figure in measured(claim, lab, (0, 1)):
        assert 0 < figure.lower < 0.3 < figure.upper
        assert figure.said.startswith("GA 0.000, GD 0.")
        assert "CEL" not in figure.said
    assert verdict(claim, lab) == "agrees"
    assert [size for size in NAMED if claim.of(size)] == ["middle", "full"]


def test_the_largest_of_several_lies_between_the_largest_ends() -> None:
    found = {"a": Figure(0.1, -0.2, 0.9, 0.999), "b": Figure(0.3, 0.1, 0.4, 0.999)}
    assert most(found) == Figure(0.3, 0.1, 0.9, 0.99, "a 0.100, b 0.300")
    silent = {"a": Figure(None, 0.0, 1.0, 0.99)}
    assert most(silent) == Figure(None, 0.0, 1.0, 0.99)


@pytest.mark.slow
def test_figures_are_those_of_the_law_they_were_drawn_from(labs: dict[str, Lab]) -> None:
    leaks = labs["leaks"]
    for figure in measured(EVERY["f3-output"], leaks, (0, 1)):
        assert figure.lower < 0.2 < figure.upper
        assert figure.confidence == pytest.approx(0.99)
    for figure in measured(EVERY["3a-hidden"], leaks, (0, 1)):
        assert figure.lower < 0.2 < figure.upper
        assert figure.said == f"{QUESTIONS} of {QUESTIONS} greedy answers are clean"
    (first, _) = measured(EVERY["k-sharp"], leaks, (0, 1))
    assert first.lower < 1 - 0.8**32 - 2 * 0.2 < first.upper
    (share, _) = measured(EVERY["3a-share"], leaks, (0, 1))
    assert share.lower > 0.8
    assert share.value == 1


@pytest.mark.slow
def test_a_difference_of_deviations_covers_that_of_the_laws(labs: dict[str, Lab]) -> None:
    claim = next(c for c in scholten.CLAIMS if c.name == "4a-spread")
    lab = labs["leaks"]
    for seed in (0, 1):
        if not lab.path("NPO + entropy", seed).exists():
            ask(lab, "NPO + entropy", seed, 0.0)
    for figure in measured(claim, lab, (0, 1)):
        assert figure.upper < 0  # the law of one text does not vary
    assert verdict(claim, lab) == "agrees"
    assert verdict(EVERY["5c-utility"], lab) == "not tested"


@pytest.mark.slow
def test_a_claim_without_its_runs_is_not_measured(labs: dict[str, Lab]) -> None:
    assert measured(EVERY["grid-mean"], labs["leaks"], (0, 1)) == ()
    assert measured(next(iter(cheng.CLAIMS)), labs["leaks"], (0, 7)) == ()
    assert measured(leak_at_k.CLAIMS[0], replace(labs["leaks"], folder=Path("none")), (0,)) == ()


@pytest.mark.slow
def test_runs_of_one_seed_share_no_random_numbers(labs: dict[str, Lab]) -> None:
    lab = labs["leaks"]
    places = [lab.path(name, seed, how) for name in ("NPO", CONTROL) for seed in (0, 1)
              for how in (PLAIN, "grid")]  # fmt: skip
    assert len({lab.draws_seed(place) for place in places}) == len(places)


@pytest.mark.slow
def test_a_claim_on_later_seeds_reads_those_alone(tmp_path: Path) -> None:
    """It is no test of a claim that it holds where the claim came from."""
    lab, claim = lab_of(tmp_path), replace(EVERY["3a-hidden"], later=2)
    for seed, leaks in ((0, 0.5), (1, 0.5), (2, 0.0), (3, 0.0)):
        ask(lab, "NPO", seed, leaks)
        ask(lab, CONTROL, seed, 0.0)
    assert claim.seeds((0, 1)) == (2, 3)
    assert all(figure.lower > 0 for figure in measured(EVERY["3a-hidden"], lab, (0, 1)))
    assert all(figure.value == 0 for figure in measured(claim, lab, (0, 1)))

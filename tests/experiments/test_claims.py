"""Claims: the rule of their verdicts, and the figures of stored runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import claims
import pytest
from claims import BELOW, CLAIMS, EVERY, NO_INTERVAL, REASONS, Claim, measured
from lab import Lab
from made_up import ask, lab_of
from quantities import KINDS, Figure
from sizes import CONTROL, NAMED, OTHER_DATA, SIZES, TARGET

from leakbound.objective import parse_objective


def figure(lower: float, upper: float) -> Figure:
    return Figure((lower + upper) / 2, lower, upper, 0.99)


@pytest.mark.parametrize(
    ("limit", "ends", "verdict"),
    [
        ("> 0", [(0.1, 0.3), (0.2, 0.4)], "agrees"),
        ("> 0", [(-0.3, -0.1), (-0.4, 0.0)], "contradicts"),
        ("> 0", [(0.1, 0.3), (-0.1, 0.4)], "undecided"),
        ("> 0", [(0.1, 0.3), (-0.3, -0.1)], "undecided"),  # seeds that disagree
        ("> 0", [(0.0, 0.3), (0.1, 0.3)], "undecided"),  # at the limit
        ("< 0", [(-0.3, -0.1), (-0.4, -0.2)], "agrees"),
        ("< 0", [(0.1, 0.3), (0.0, 0.4)], "contradicts"),
        ("< 0", [(-0.3, 0.1), (-0.4, -0.2)], "undecided"),
        ("> 0", [(0.1, 0.3)], "undecided"),  # one seed decides nothing
        ("> 0", [], "undecided"),
        ("> 0.2", [(0.1, 0.3)] * 2, "undecided"),
        ("> 1/3", [(0.1, 0.3)] * 2, "contradicts"),
    ],
)
def test_verdicts_read_all_seeds(limit: str, ends: list[tuple[float, float]], verdict: str) -> None:
    claim = replace(EVERY["k-gd"], limit=limit)
    assert claim.verdict("small", [figure(*each) for each in ends]) == verdict


def test_without_an_interval_or_a_design_there_is_no_verdict() -> None:
    exact, got = Figure.exact(0.3), [figure(0.1, 0.3)] * 2
    claim = EVERY["k-gd"]
    for figures in ([exact, exact], [got[0], exact]):
        assert claim.verdict("small", figures) == "not tested"
        assert claim.reasons("small", figures) == [NO_INTERVAL]
    assert claim.reasons("small", got) == []
    claim = replace(EVERY["t2-margin"], limit="> 0", untested={"middle": "B"})
    assert [claim.verdict(size, got) for size in NAMED] == ["agrees", "not tested", "agrees"]
    assert [claim.reasons(size, got) for size in NAMED] == [[], ["B"], []]
    everywhere = replace(claim, untested={"all": "B"})
    assert {everywhere.verdict(size, got) for size in NAMED} == {"not tested"}


@pytest.mark.parametrize("claim", EVERY.values(), ids=EVERY)
def test_models_at_the_control_have_one_rule(claim: Claim) -> None:
    models = {model for each in claim.runs.values() for model in each}
    for size in (size for size in NAMED if claim.at(size)):
        rests = bool(models & {*claim.size(size).below})
        assert (BELOW in claim.reasons(size, [figure(0.1, 0.3)] * 2)) is rests
    assert BELOW not in " ".join(claim.untested.values())  # no second way to state it


def test_every_claim_can_fail() -> None:
    """Of one model, leak@k exceeds leak@1 and the ED exceeds the greedy score: no test."""
    for claim in EVERY.values():
        more, base, what = (claim.quantity.get(key) for key in ("more", "base", "what"))
        if not isinstance(base, dict) or base.get("model", more) != more or "times" in base:
            continue
        small = base.get("what", what)
        assert not (str(what).startswith("leak@") and str(small).startswith("leak@")), claim.name
        assert (what, small) != ("ED", "greedy"), claim.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"untested": {"middle": "Z"}}, "reasons.yaml has no Z"),
        ({"notes": "a q"}, "reasons.yaml has no q"),
        ({"untested": {"large": "A"}}, "names no size"),
        ({"limit": "0.1"}, "write '> 0.1'"),
    ],
)
def test_a_row_with_an_unknown_word_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(EVERY["k-gd"], **change)


def test_every_claim_rests_on_runs_that_every_size_can_make() -> None:
    assert sum(map(len, CLAIMS.values())) == len(EVERY), "a name is there twice"
    used = {letter for claim in EVERY.values() for letter in claim.notes.split()}
    used |= {x for claim in EVERY.values() for t in claim.untested.values() for x in t.split()}
    assert used | {BELOW, NO_INTERVAL} == set(REASONS)
    sizes = [*((None, SIZES[name]) for name in NAMED.values()), *OTHER_DATA.items()]
    for data, size in sizes:
        for claim in (claim for claim in EVERY.values() if (claim.data or None) == data):
            assert claim.quantity["kind"] in KINDS
            for way, models in claim.runs.items():
                assert way in size.ways, (size, claim.name)
                assert set(models) <= {TARGET, CONTROL, *size.every}, (size, claim.name)
        for method in size.every.values() if data is None else ():
            parse_objective(method.objective.replace("{tau}", "1"))
            assert method.after in {TARGET, *size.every}


def test_other_data_have_their_own_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for claim in (claim for claim in EVERY.values() if claim.data):
        size = "full" if claim.data.startswith("forget") else "middle"
        assert [name for name in NAMED if claim.at(name)] == [size]
        assert measured(claim, lab_of(tmp_path)) == ()
    for name, size in (("6-mean", "small"), ("6-mean", "full"), ("3e-mean", "middle")):
        argv = ["claims.py", "scholten", "--out", str(tmp_path), "--only", name, "--size", size]
        monkeypatch.setattr("sys.argv", [*argv, "--base", "m"])
        with pytest.raises(SystemExit):
            claims.main()
        assert f"--size {size} of scholten tests no {name}" in capsys.readouterr().err


def test_extremes_are_bounded_by_the_extreme_bounds() -> None:
    got = [Figure(0.1, -0.2, 0.9, 0.999), Figure(0.3, 0.1, 0.4, 0.999)]
    assert Figure.extreme(got, max) == Figure(0.3, 0.1, 0.9, 0.99)
    assert Figure.extreme(got, min) == Figure(0.1, -0.2, 0.4, 0.99)
    assert Figure.extreme([Figure(None, 0.0, 1.0, 0.99)], max) == Figure(None, 0.0, 1.0, 0.99)


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Lab]:
    """NPO leaks and its control does not; neither leaks; the control leaks; seeds differ."""
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


def verdict(name: str, lab: Lab) -> str:
    return EVERY[name].verdict("small", measured(EVERY[name], lab))


@pytest.mark.slow
def test_a_hidden_leak_shows_against_the_control(labs: dict[str, Lab]) -> None:
    assert {name: verdict("3a-hidden", lab) for name, lab in labs.items()} == {
        "leaks": "agrees",
        "is clean": "undecided",
        "is the cleaner": "contradicts",
        "differs by seed": "undecided",
    }


@pytest.mark.slow
def test_figures_agree_with_the_known_distribution(labs: dict[str, Lab]) -> None:
    leaks = labs["leaks"]
    for name in ("f3-output", "3a-hidden"):
        for got in measured(EVERY[name], leaks):
            assert got.lower < 0.2 < got.upper
            assert got.confidence == pytest.approx(0.99)
    (first, _) = measured(EVERY["k-sharp"], leaks)
    assert first.lower < 1 - 0.8**32 - 2 * 0.2 < first.upper
    (share, _) = measured(EVERY["3a-share"], leaks)
    assert share.lower > 0.8
    assert share.value == 1


@pytest.mark.slow
def test_a_difference_of_deviations_covers_the_true_one(labs: dict[str, Lab]) -> None:
    lab = labs["leaks"]
    for seed in (0, 1):
        ask(lab, "NPO + entropy", seed, 0.0)
    for got in measured(EVERY["4a-spread"], lab):
        assert got.upper < 0  # a single text does not vary
    assert verdict("4a-spread", lab) == "agrees"
    assert verdict("5c-utility", lab) == "not tested"


@pytest.mark.slow
def test_a_claim_reads_its_runs_of_its_seeds(labs: dict[str, Lab]) -> None:
    assert measured(EVERY["grid-mean"], labs["leaks"]) == ()
    assert measured(EVERY["f3-output"], labs["leaks"], (0, 7)) == ()
    assert measured(EVERY["k-sharp"], replace(labs["leaks"], folder=Path("none"))) == ()
    claim = replace(EVERY["3a-hidden"], later=1)
    assert claim.seeds((0,)) == (1,)
    lab = labs["differs by seed"]
    (first,), (later,) = (measured(each, lab, (0,)) for each in (EVERY["3a-hidden"], claim))
    assert first.lower > 0 > later.upper

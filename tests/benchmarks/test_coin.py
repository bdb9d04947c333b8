"""Halves of a benchmark, chosen by a coin over its subjects."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from leakbound.benchmarks import Coin, load_benchmark
from leakbound.benchmarks.coin import halved
from leakbound.errors import InputError
from suites import DATA, needs_data

SPEC = "fictitious:authors=9,questions=2,forget=7"


def test_the_two_sides_are_all_and_share_no_subject() -> None:
    whole = load_benchmark(SPEC)
    taught, untaught = (load_benchmark(f"{side}:7,{SPEC}") for side in ("taught", "untaught"))
    assert {*taught.prompts, *untaught.prompts} == {*whole.prompts}
    about = {*taught.subjects.values()}, {*untaught.subjects.values()}
    assert (len(about[0]), len(about[1])) == (4, 3)
    assert not about[0] & about[1]
    assert taught.split("retain") == whole.split("retain")
    holdout = taught.split("holdout")
    assert [p.question for p in holdout] == [p.question for p in untaught.prompts]
    assert {prompt.role for prompt in holdout} == {"holdout"}
    assert taught.half is not None
    assert untaught.half is not None
    assert (taught.half.others, untaught.half.others) == (3, 4)
    assert taught.notes[-1].startswith("--coin 7 chose 4 of 7 subjects to teach; this")
    assert taught.notes[-1].endswith("the 4 taught subjects")
    assert untaught.notes[-1].endswith("the 3 untaught subjects")
    with pytest.raises(InputError, match=f"Train on `taught:7,{SPEC}`"):
        untaught.to_train("forget")


def test_every_subject_is_taught_by_half_of_the_coins() -> None:
    """A coin depends only on its seed and the name of the subject, in every version."""
    number, whole = 400, load_benchmark("fictitious:authors=5,questions=1,forget=4")
    got = Counter(
        (subject, other)
        for seed in range(number)
        for about in [{*halved(whole, "taught", seed).subjects.values()}]
        for subject in about
        for other in about
    )
    names = {subject for subject, _ in got}
    assert len(names) == 4
    for subject in names:
        assert abs(got[subject, subject] - number / 2) < 4 * (number / 4) ** 0.5
        for other in names - {subject}:  # of six pairs all are equally likely
            assert abs(got[subject, other] - number / 6) < 4 * (number * 5 / 36) ** 0.5
    golden = {p.id for p in load_benchmark("taught:0,fictitious").prompts}
    assert {one.partition("/")[0] for one in golden} == {"fictitious:022", "fictitious:023"}


def test_a_limit_leaves_out_questions_and_no_subject_changes_sides() -> None:
    whole = load_benchmark(f"taught:7,{SPEC}")
    few = load_benchmark(f"taught:7,{SPEC}", limit=3)
    assert (*few.prompts, *few.left_out) == whole.prompts
    coin = Coin.of(whole)
    assert coin is not None
    assert coin == Coin.of(few)
    assert coin.taught_of(load_benchmark(SPEC, limit=3)).prompts == few.prompts
    assert coin.taught_of(load_benchmark(SPEC)).prompts == whole.prompts
    other = load_benchmark("fictitious")
    assert coin.taught_of(other) is other


def people(folder: Path, subjects: list[str]) -> str:
    rows = (f"Where was {i} born?,In {i}.,{who}" for i, who in enumerate(subjects))
    (folder / "people.csv").write_text("\n".join(["question,answer,subject", *rows]))
    return str(folder / "people.csv")


def test_a_file_names_subjects_in_a_column(tmp_path: Path) -> None:
    spec = people(tmp_path, ["Ann", "Ann", "Bob", "Cid", "Bob"])
    assert not load_benchmark(spec).notes, "the column counts"
    sides = [load_benchmark(f"{side}:1,{spec}") for side in ("taught", "untaught")]
    assert sorted(len({*one.subjects.values()}) for one in sides) == [1, 2]
    assert sum(len(one.prompts) for one in sides) == 5
    loaded = sides[0].loaded
    assert loaded is not None
    assert load_benchmark(loaded.spec).prompts == sides[0].prompts, "found from any folder"


def test_data_that_changed_since_the_coin_fell_are_refused(tmp_path: Path) -> None:
    spec = people(tmp_path, ["Ann", "Bob", "Cid", "Dan"])
    coin = Coin.of(load_benchmark(f"taught:1,{spec}"))
    assert coin is not None
    people(tmp_path, ["Ann", "Bob", "Cid", "Dan", "Eve"])
    with pytest.raises(InputError, match=r"have changed since .* --coin 1"):
        coin.taught_of(load_benchmark(spec))


@needs_data("tofu")
def test_authors_of_tofu_go_whole_to_a_side() -> None:
    taught, untaught = (
        load_benchmark(f"{side}:3,tofu:forget10", data=DATA) for side in ("taught", "untaught")
    )
    for half in (taught, untaught):
        assert len(half.prompts) == 200
        assert set(Counter(half.subjects.values()).values()) == {20}
    kept = load_benchmark("taught:3,tofu:holdout10", data=DATA)
    assert (kept.role, len(kept.split("holdout"))) == ("forget", 200)

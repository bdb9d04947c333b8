"""Benchmarks that are known are told from others of the same name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.benchmarks.benchmark import PUBLISHED, as_published, digest_of_rows
from leakbound.evaluation.views.specification import departures, specification
from leakbound.store import ArmSpec, Plan, RunRecord
from leakbound.types import Prompt

DATA = Path(__file__).parents[2].parent / "shared" / "data"
FOLDERS = {
    "tofu": "tofu", "muse": "muse", "harry-potter": "harry_potter_qa", "jbb": "jailbreakbench",
}  # fmt: skip


def told(benchmark: Benchmark) -> tuple[str, tuple[str, ...]]:
    """What is said of its questions, and what departs from its defaults."""
    record = RunRecord(benchmark=benchmark.fingerprint())
    arm = ArmSpec(fingerprint={}, decoding=benchmark.decoding, plan=Plan.of(8))
    return specification(record, arm)["Questions"], departures(record, arm)


@pytest.mark.skipif(not DATA.is_dir(), reason="no shared data")
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_rows_are_known_whole_and_in_part(name: str) -> None:
    kind = name.partition(":")[0]
    spec = name.removesuffix("-knowmem")
    whole = load_benchmark(spec, data=DATA / FOLDERS[kind])
    said, departs = told(whole)
    assert said.startswith(f"all {len(whole.prompts)} of {name} (")
    assert said.endswith(", equal to the published rows)")
    assert departs == ()
    said, departs = told(load_benchmark(spec, data=DATA / FOLDERS[kind], limit=5))
    assert said.startswith(f"5 of the {len(whole.prompts)} of {name} (")
    assert said.endswith(", equal to the published rows)")
    assert departs == (f"5 of the {len(whole.prompts)} questions",)
    other = replace(whole.prompts[0], answer="I do not know.")
    said, departs = told(replace(whole, prompts=(other, *whole.prompts[1:])))
    assert "other rows than were published under that name" in said
    assert departs == ("other rows than were published under that name",)


def test_of_rows_of_ones_own_nothing_is_said() -> None:
    mine = Benchmark(
        name="mine", prompts=(Prompt(id="q", question="Who?"),), scorers=(), max_new_tokens=8,
        origin="mine.csv",
    )  # fmt: skip
    said, departs = told(mine)
    assert "published" not in said
    assert departs == ()


def test_the_digest_is_of_words_in_their_order() -> None:
    rows = [
        Prompt(id="a", question=" Who \n wrote? ", answer="Ann"),
        Prompt(id="b", question="Why?"),
    ]
    same = [Prompt(id="x", question="Who wrote?", answer=" Ann"), Prompt(id="y", question="Why?")]
    assert digest_of_rows(rows) == digest_of_rows(same)
    assert digest_of_rows(rows) != digest_of_rows(rows[::-1])
    assert digest_of_rows(rows) != digest_of_rows([replace(rows[0], keywords=("Ann",)), rows[1]])
    assert as_published("jbb", rows) is False
    assert as_published("mine", rows) is None

"""Which parts are drawn again, and what cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from leakbound.certificate.checks import Check
from leakbound.certificate.model import check_draws
from leakbound.evaluation import evaluate
from leakbound.store import Arm
from leakbound.study import FixedN
from leakbound.types import Completion, Decoding, Draws, Query, Redrawn, silent
from leaky import benchmark, engine


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Arm:
    """Of 600 draws of each of three questions, a part each."""
    out = tmp_path_factory.mktemp("parts") / "run"
    settings: dict[str, Any] = {"sampling": FixedN(600), "scorers": ["keyword"]}
    with patch("leakbound.store.plan._GROWTH", 1):
        arm = evaluate(engine(), benchmark(), out=out, **settings).arms["target"]
    assert len(arm.parts) == 3
    return arm


class Redrawing:
    """An engine that finds the outputs of some questions to be none of its draws."""

    def __init__(self, arm: Arm, *altered: str, excused: int = 0, **changes: Any) -> None:
        self.fingerprint = {**arm.spec.fingerprint, **changes}
        self.altered, self.excused = altered, excused
        self.asked: list[tuple[str, Draws, int]] = []

    def redraw(
        self,
        queries: Sequence[Query],
        decoding: Decoding,
        draws: Draws,
        stored: Mapping[str, Sequence[Completion]],
    ) -> Iterator[Redrawn]:
        for query in queries:
            self.asked.append((query.id, draws, sum(one.count for one in stored[query.id])))
            after = 2 if query.id in self.altered else None
            yield Redrawn(query=query, differs_after=after, excused=self.excused)


def check(arm: Arm, engine: Any, share: float, seed: int = 0) -> Check:
    return check_draws(arm, engine, share, silent, Random(seed))


def test_an_altered_part_is_found_as_often_as_is_said(arm: Arm) -> None:
    """One of three: by one part in a third of all choices, by two in two thirds."""
    for share, parts, says in ((0.3, 1, "0.333"), (0.5, 2, "0.666"), (1, 3, "1.000")):
        found = [check(arm, Redrawing(arm, "q1"), share, seed) for seed in range(600)]
        told = f"this would find it with probability {says}, some of"
        assert all(told in one.says for one in found)
        hits = sum(one.status == "differs" for one in found)
        assert abs(hits - 200 * parts) <= 4 * (600 * parts / 3 * (1 - parts / 3)) ** 0.5


def test_parts_are_chosen_by_chance_of_the_verifier(arm: Arm) -> None:
    engines = [Redrawing(arm) for _ in range(40)]
    for one in engines:
        check_draws(arm, one, 0.1, silent)  # type: ignore[arg-type]
    assert {query_id for one in engines for query_id, *_ in one.asked} == {"q0", "q1", "q2"}


def test_each_part_is_drawn_as_it_was(arm: Arm) -> None:
    """Under its own keys, and compared with all that is stored of it but forced answers."""
    found = Redrawing(arm, "q2", excused=2)
    (difference,) = check(arm, found, 1).differences
    assert difference.where == "question 'q2', part 2"
    assert difference.found == "other draws after 2 tokens"
    assert sorted(query_id for query_id, *_ in found.asked) == ["q0", "q1", "q2"]
    assert {(draws.sizes, draws.purpose, n) for _, draws, n in found.asked} == {
        ((600,), "score:target:canned", 600)
    }
    says = check(arm, found, 1).says
    assert "parts drawn again: 3 of 3, chosen by chance now; with the draws that" in says
    assert "their keys make: 2 (1,800" in says
    assert "(1,800 draws looked at; 6 splits within the margin of an edge)" in says


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"engine": "another"}, "its engine was"),
        ({"dtype": "float64"}, "its dtype was None, this one's is float64"),
        ({"device": "cuda"}, "its device was None, this one's is cuda"),
    ],
)
def test_another_engine_or_machine_says_nothing(
    arm: Arm, changes: dict[str, str], why: str
) -> None:
    found = check(arm, Redrawing(arm, "q0", "q1", "q2", **changes), 1)
    assert (found.status, found.differences) == ("unchecked", ())
    assert why in found.says


def test_an_engine_that_cannot_draw_again(arm: Arm) -> None:
    found = check(arm, engine(), 1)
    assert found.status == "unchecked"
    assert "the engine CannedEngine draws otherwise each time" in found.says


def test_a_run_of_another_tool_has_no_keys(tmp_path: Path) -> None:
    import leakbound

    file = tmp_path / "rows.jsonl"
    rows = [{"question": "who?", "completion": name} for name in ("Ann", "Bob")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arm = leakbound.import_run([file], out=tmp_path / "run").arms["target"]
    found = check_draws(arm, object(), 1, silent)  # type: ignore[arg-type]
    assert "another tool drew them" in found.says

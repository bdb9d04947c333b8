"""The draws of several arms, taken together."""

from __future__ import annotations

from leakbound.store import ArmScores


def test_draws_add_up_by_query_in_the_order_asked_for() -> None:
    first = ArmScores.tallied({"a": {0.0: 3, 0.5: 1}, "b": {1.0: 2, None: 1}}, {"a": 2})
    second = ArmScores.tallied({"c": {1.0: 4}, "a": {0.5: 2, 1.0: 1}}, {})
    both = ArmScores.joined([first, second], ["c", "a", "gone"])
    assert both.query_ids == ("c", "a")
    assert both.n.tolist() == [4, 9]
    assert both.missing.tolist() == [0, 2]
    scores, counts = both.scores[1].tolist(), both.counts[1].tolist()
    assert dict(zip(scores, counts, strict=True)) == {0.0: 3, 0.5: 3, 1.0: 1}
    assert ArmScores.joined([first], ["b"]).missing.tolist() == [1]
    assert ArmScores.joined([], ["a"]).query_ids == ()

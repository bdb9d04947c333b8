"""Conversations: one draw has several answers, and its score is the largest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canned import LEAK, SILENCE, SpyEngine, benchmark_of
from contents import counts, rows
from leakbound.certificate import certify, verify
from leakbound.errors import InputError
from leakbound.evaluation import evaluate
from leakbound.formats.exporting import export
from leakbound.scorers import make_scorer, rows_of, score_outputs
from leakbound.scoring.score import ScoreJob, score_job
from leakbound.store import Run
from leakbound.stress.dialogue import FOLLOW_UPS, DialogueEngine
from leakbound.study import Explore
from leakbound.testing import FakeScorer
from leakbound.text.counting import counted_as, is_missing
from leakbound.types import TURN, Completion, Decoding, Draws, Failure, Output, Query, Sample
from tiny import tiny_model_folder

TASK = benchmark_of(("0", "1"), question="Who wrote {}?", answer=LEAK, keywords=("hush",))
QUERY = Query.original(TASK.prompts[0])


def second(query: Query, decoding: Decoding) -> float:
    """A model that leaks in its second turn."""
    return 0.6 if len(query.examples) == 1 else 0.02


def alike(query: Query, decoding: Decoding) -> float:
    return 0.3


def stressed(out: Path, leak: Any = second, **how: Any) -> Run:
    fields: dict[str, Any] = {"n": 256, "scorers": ["keyword"], "stress": "dialogue", **how}
    return evaluate(SpyEngine(leak, name="m"), TASK, out=out, **fields)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    control = SpyEngine(lambda query, decoding: 0.0, name="c")
    return stressed(tmp_path_factory.mktemp("dialogue") / "run", control=control)


def conversed(engine: SpyEngine, *sizes: int, decoding: Decoding | None = None) -> Sample:
    """Draw conversations that begin with the question; `sizes` of the chunks."""
    draws = Draws(sizes=sizes)
    (sample,) = DialogueEngine(engine).generate([QUERY], decoding or Decoding(), draws)
    assert isinstance(sample, Sample)
    return sample


def test_a_turn_follows_all_earlier_turns() -> None:
    engine = SpyEngine(alike)
    sample = conversed(engine, 400, 240)
    assert sample.n == 640
    assert {one.chunk: 0 for one in sample.completions} == {0: 0, 1: 0}
    for chunk, size in enumerate((400, 240)):
        assert sum(one.count for one in sample.completions if one.chunk == chunk) == size
    words = [QUERY.text, *(text.format(question=QUERY.text) for text in FOLLOW_UPS)]
    for _, query, _, _ in engine.queried:
        assert query.text == words[len(query.examples)]
        assert [shown for shown, _ in query.examples] == words[: len(query.examples)]
        assert {answer for _, answer in query.examples} <= {LEAK, SILENCE}
    assert len({query.id for _, query, _, _ in engine.queried}) == 1 + 2 + 4 + 8
    assert len({(purpose, query.id) for purpose, query, _, _ in engine.queried}) == 15


class SpeltEngine(SpyEngine):
    """Spells half of the draws of an answer in other tokens, one of them the mark between turns."""

    def generate(self, queries: Any, decoding: Any, draws: Any) -> Iterator[Sample | Failure]:
        for one in super().generate(queries, decoding, draws):
            spelt = [
                replace(shown, count=count, token_ids=(count,), answer=f"{shown.answer}{end}")
                for shown in getattr(one, "completions", ())
                for end, count in ((" ", shown.count // 2), (TURN, -(-shown.count // 2)))
                if count
            ]
            yield replace(one, completions=tuple(spelt))


def test_identical_conversations_continue_as_one() -> None:
    sample = conversed(SpeltEngine(alike), 41)
    assert sample.n == 41
    assert {one.answer.count(TURN) for one in sample.completions} == {len(FOLLOW_UPS)}


class TurnsEngine(SpyEngine):
    """Answers each turn with the same output."""

    def __init__(self, turns: tuple[Output, ...]) -> None:
        super().__init__(alike)
        self.turns = turns

    def drawn(self, query: Any, decoding: Any, draws: Any) -> Iterator[Completion]:
        for chunk, n in draws.chunks(query.id):
            yield Completion.of(self.turns[len(query.examples)], count=n, chunk=chunk)


PLAIN_TURN = Output(answer="no", finish="stop")
THOUGHT = Output(answer="no", thought="It is hush.", finish="stop")
CUT = Output(answer="", thought="um", finish="length")
NOTHING = Output(answer="", finish="stop", tokens=1)


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize(
    ("turn", "wanted", "score"),
    [
        # finish, thought, counted as, missing, of a model that leaks nowhere else
        (PLAIN_TURN, ("stop", None, "complete", False), 0.0),
        (THOUGHT, ("stop", "It is hush.", "complete", False), 1.0),
        (NOTHING, ("stop", None, "complete", False), 0.0),
        (Output(answer="hush", finish="length"), (None, None, None, False), 1.0),
        (CUT, ("error", "um", "failed", True), None),
        (replace(CUT, thought="hush"), ("error", "hush", "failed", True), 1.0),
        (Output(answer="", finish="unknown"), ("error", None, "failed", True), None),
        (Output(answer="", finish="stop", tokens=9), ("error", None, "failed", True), None),
        (Output(answer="so", finish="tool"), ("error", None, "failed", True), None),
        (Output(answer="", finish="filtered"), ("filtered", None, "filtered", True), None),
    ],
)
def test_a_conversation_with_a_missing_turn(
    turn: Output, place: int, wanted: tuple[Any, ...], score: float | None
) -> None:
    turns = tuple(turn if at == place else PLAIN_TURN for at in range(4))
    engine = TurnsEngine(turns)
    (one,) = conversed(engine, 8).completions
    finish, thought, counted, missing = wanted
    assert one.answer == TURN.join(each.answer for each in turns)
    assert (one.count, (one.thought or "").strip(TURN) or None) == (8, thought)
    assert finish is None or (one.finish, counted_as(one)) == (finish, counted)
    assert is_missing(one, counted_as(one)) == missing
    read = rows_of([one.answer], [one.thought], [missing], [one.hidden], TURN)
    assert score_outputs(make_scorer("keyword"), read, [TASK.prompts[0]]) == [score]
    for _, query, _, _ in engine.queried:  # a thought is not repeated to the model
        shown = [answer for _, answer in query.examples]
        assert shown == [each.answer for each in turns[: len(shown)]]


def test_filtered_and_hidden_turns() -> None:
    system = Decoding(filter="part-of-system")
    kept = (Output(answer="withheld", finish="filtered"), *[PLAIN_TURN] * 3)
    (one,) = conversed(TurnsEngine(kept), 8, decoding=system).completions
    assert not is_missing(one, counted_as(one), filter_in_system=True)
    hidden = (replace(PLAIN_TURN, hidden=True), *[PLAIN_TURN] * 3)
    (one,) = conversed(TurnsEngine(hidden), 8).completions
    assert one.hidden


def test_a_broken_conversation_fails_only_its_question() -> None:
    def broken(query: Query) -> bool:
        return query.prompt_id == "0" and LEAK in [answer for _, answer in query.examples]

    queries = [Query.original(prompt) for prompt in TASK.prompts]
    engine = SpyEngine(alike, broken=broken)
    one, other = DialogueEngine(engine).generate(queries, Decoding(), Draws(sizes=(64,)))
    assert isinstance(one, Failure)
    assert one.query == queries[0]
    assert one.reason.startswith("in a conversation: logits are NaN")
    assert isinstance(other, Sample)
    assert other.n == 64
    long = DialogueEngine(SpyEngine(alike, context=len(FOLLOW_UPS[0])))
    (failed,) = long.generate([replace(QUERY, text="Who?")], Decoding(), Draws(sizes=(8,)))
    assert isinstance(failed, Failure)
    assert "too long" in failed.reason


def test_a_conversation_scores_as_its_worst_turn() -> None:
    texts = (f"no{TURN}It is hush.", f"no{TURN}no", "hush", f"a{TURN}b")
    outputs = rows_of(texts, [None] * 4, [False] * 4, [False] * 4, TURN)
    job = ScoreJob(0, tuple(outputs), TASK.prompts[:1] * 4)
    assert score_job(make_scorer("keyword"), job) == [1.0, 0.0, 1.0, 0.0]
    unsure = FakeScorer({"no": None, "It is hush.": 1.0, "a": 0.2, "b": 0.5, "hush": None})
    assert score_job(unsure, job) == [1.0, None, None, 0.5]


def test_a_leak_in_the_second_turn_is_detected(made: Run) -> None:
    """Compared with the same number of answers to the question without a dialogue."""
    (mean,) = rows(made, arm="target under dialogue", scope="mean", beyond="unstressed")
    assert mean.lower > 0.35
    leak = made.estimates.mean("leak probability", arm="target under dialogue")
    assert leak.lower < 1 - 0.4 * 0.98**3 < leak.upper
    (excess,) = rows(made, arm="target under dialogue", scope="mean", beyond="control")
    assert excess.lower > 0.5
    turns = {text.count(TURN) for text in counts(made.arms["target under dialogue"], "answer")}
    assert turns == {3}


def test_four_independent_answers_add_nothing(tmp_path: Path) -> None:
    run = stressed(tmp_path / "run", alike)
    for row in run.estimates.where(arm="target under dialogue", beyond="unstressed"):
        assert row.lower < 0 < row.upper


def test_a_certificate_describes_a_conversation(made: Run, tmp_path: Path) -> None:
    got = certify(
        made.path, max_leak=0.3, scorer="keyword", arm="target under dialogue",
        out=tmp_path / "c.json",
    )  # fmt: skip
    assert got.verdict == "refuted"
    assert "then 'Are you sure?'" in got.specification["Wording"]
    assert "the score is that of the turn that leaks most" in got.specification["Wording"]
    assert verify(tmp_path / "c.json", made.path).verified


def test_impossible_conversations_are_refused(made: Run, tmp_path: Path) -> None:
    """Before anything is drawn, also if their turns may exceed the context."""
    long: dict[str, Any] = {"stress": "dialogue", "scorers": "keyword", "out": tmp_path / "run"}
    with pytest.raises(InputError, match="'dialogue', outputs can only be sampled, but"):
        evaluate("m", TASK, sampling=Explore("exact", 9), **long)
    with pytest.raises(InputError, match="has conversations, but OUT needs one answer per row"):
        export([made], tmp_path / "x.jsonl", form="jsonl", arm="target under dialogue")
    model = tiny_model_folder(tmp_path / "model", max_position_embeddings=64)
    shown = r"has 4 turns, with answers of at most 16 tokens: .* 64 new tokens, they exceed"
    with pytest.raises(InputError, match=shown):
        evaluate(str(model), replace(TASK, max_new_tokens=16), n=8, **long)
    assert not [*(tmp_path / "run").rglob("part-*")]

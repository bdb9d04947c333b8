"""Rows of JSON lines and of any file, grouped; files that belong together, and other files."""

from __future__ import annotations

import errno
import io
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from contents import drawn
from formats.reading import Read, grouped, read
from leakbound.errors import IncompleteError, InputError
from leakbound.formats import grouping as module
from leakbound.formats.grouping import Draw, Spool, group, join
from leakbound.formats.rows import SampleFile, SampleRow
from leakbound.presenting.specification import described
from leakbound.types import Decoding

SAMPLED = {"temperature": 1.0}
Texts = Sequence[Sequence[str | Draw | None]]


def log(
    name: str, draws: Texts, *, text: str = "?", count: int | None = None, **stated: Any
) -> SampleFile:
    """A question for each list of texts; None is a failed draw."""
    rows = [
        SampleRow(
            id=str(i),
            question=f"{i}{text}",
            output=None if one is None else (drawn(one) if isinstance(one, str) else one).output,
            count=count,
        )
        for i, of_question in enumerate(draws)
        for one in of_question
    ]
    return SampleFile(path=Path(name), tool="t", task="s", rows=rows, stated=SAMPLED | stated)


def joined(folder: Path, *files: SampleFile) -> tuple[int, tuple[str, ...]]:
    """Return the number of draws, and the notes."""
    with Spool(folder) as spool:
        whole = join([group(file, spool) for file in files])
        return whole.n, whole.notes


def texts(seed: int, n: int = 32, questions: int = 3, kinds: int = 4) -> list[list[str]]:
    chance = random.Random(seed)
    return [[f"text {chance.randrange(kinds)}" for _ in range(n)] for _ in range(questions)]


def test_the_draws_of_two_files_follow_each_other() -> None:
    both = grouped(log("one", [["a"], ["b"]], seed=1), log("two", [["c"], [None]], seed=2))
    assert both.draws == {"0": [drawn("a"), drawn("c")], "1": [drawn("b"), None]}
    assert (both.n, both.model) == (2, "unnamed")
    assert both.others == {"seed": "1 and 2"}


@pytest.mark.parametrize("shift", [0, 7])
def test_draws_that_are_in_two_files_are_copies(tmp_path: Path, shift: int) -> None:
    one = texts(0, n=40)
    two = [row[shift:] + fresh[:shift] for row, fresh in zip(one, texts(1, n=40), strict=True)]
    for pair in ((one, two), (two, one)):
        logs = [log(name, draws) for name, draws in zip(("one", "two"), pair, strict=True)]
        with pytest.raises(
            InputError, match=rf"copies.*`one` occur in `two`.* {shift} places later"
        ):
            joined(tmp_path, *logs)


def test_draws_that_a_file_repeats_are_copies(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"48 draws of `one` occur again.* 16 places"):
        joined(tmp_path, log("one", [row * 2 for row in texts(0, n=16)]))


def test_one_other_draw_is_enough_and_one_that_failed_shows_nothing(tmp_path: Path) -> None:
    one: list[list[str | None]] = [list(row) for row in texts(0)]
    two = [list(row) for row in one]
    two[-1][-1] = "another"
    joined(tmp_path, log("one", one), log("two", two))
    two = [list(row) for row in one]
    two[0][3] = one[1][5] = None
    with pytest.raises(InputError, match=r"94 draws"):
        joined(tmp_path, log("one", one), log("two", two))


@pytest.mark.parametrize("seed", range(6))
def test_independent_draws_pass(tmp_path: Path, seed: int) -> None:
    joined(tmp_path, log("one", texts(seed)), log("two", texts(seed + 100)))
    peaked = [["always"] * 32, *texts(seed, kinds=2, questions=1)]
    two = [["always"] * 32, *texts(seed + 50)][:2]
    joined(tmp_path, log("one", peaked), log("two", two))


def test_few_identical_draws_and_counts_without_order_show_nothing(tmp_path: Path) -> None:
    few = [["a", "b", "a"]]
    joined(tmp_path, log("one", few), log("two", few))
    joined(tmp_path, log("one", texts(0), count=1), log("two", texts(0), count=1))


def test_one_text_throughout_is_doubted_and_with_a_seed_refused(tmp_path: Path) -> None:
    same = [["a"] * 4, [None, "b", "b", "b"]]
    _, (doubt,) = joined(tmp_path, log("one", same))
    assert "all draws of every question in `one` are identical" in doubt
    with pytest.raises(InputError, match=r"identical, because they have the same seed, 5"):
        joined(tmp_path, log("one", same, seed=5))
    with pytest.raises(InputError, match=r"identical, because they have the same seed, 5"):
        joined(tmp_path, log("one", [["a"]], count=4, seed=5))
    assert not joined(tmp_path, log("one", [["a"] * 4, ["b", "c", "b", "b"]]))[1]
    assert not joined(tmp_path, log("one", [["a"], ["b"]], top_k=0))[1]
    _, (doubt,) = joined(tmp_path, log("one", [["a", "b"]], seed=5))
    assert "one seed, 5, for all draws" in doubt


def test_greedy_answers_that_agree_are_one_draw(tmp_path: Path) -> None:
    greedy = [["a", "a"], [None, "b"], [None, None]]
    with Spool(tmp_path) as spool:
        whole = join([group(log("one", greedy, temperature=0.0), spool)])
        got = [[*q.distinct(spool, 0, 9)] for q in whole.questions.values()]
    assert got == [[drawn("a")], [drawn("b")], [None]]
    assert (whole.n, whole.notes) == (1, ())
    with pytest.raises(InputError, match=r"one output, got 2 for question '0'"):
        joined(tmp_path, log("one", [["a", "b"]], temperature=0.0))


def test_draws_are_compared_by_their_texts_and_not_by_their_tokens(tmp_path: Path) -> None:
    """A cache or a seed repeats texts, although a log counts their tokens differently."""
    one, two = (
        log(name, [[drawn(text, tokens=tokens, finish=finish) for text in row] for row in texts(0)])
        for name, tokens, finish in (("one", 3, "stop"), ("two", 4, "unknown"))
    )
    with pytest.raises(InputError, match=r"96 draws of `one` occur in `two`"):
        joined(tmp_path, one, two)
    thoughts = log("one", [[drawn("a", thought=str(i)) for i in range(64)]])
    assert not joined(tmp_path, thoughts)[1]  # other thoughts, so not all the same
    same = [drawn("a", tokens=2), drawn("a", tokens=3), drawn("a", finish="stop")]
    assert joined(tmp_path, log("one", [same], temperature=0.0)) == (1, ())


def test_every_question_needs_as_many_draws(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="all questions must have the same number of draws"):
        joined(tmp_path, log("one", [["a"], ["b", "c"]]))


ROW = {"id": "a", "question": "Who?", "answer": "Ann", "completion": "Ann did."}


def rows_of(folder: Path, *rows: dict[str, Any]) -> Read:
    file = folder / "mine.jsonl"
    file.write_text("\n".join(json.dumps({**ROW, **row}) for row in rows))
    return read(file)


def test_rows_become_draws_in_their_order(tmp_path: Path) -> None:
    log = rows_of(tmp_path, {}, {"completion": None}, {"completion": "No."}, {"id": 7})
    first, second = log.questions.values()
    assert (first.id, first.text, first.answers) == ("a", "Who?", ("Ann",))
    assert log.draws == {"a": [drawn("Ann did."), None, drawn("No.")], "7": [drawn("Ann did.")]}
    assert (second.id, log.ordered) == ("7", True)
    counted = rows_of(tmp_path, {"count": 3}, {"completion": None, "count": 2})
    assert counted.draws == {"a": [drawn("Ann did.")] * 3 + [None] * 2}
    assert not counted.ordered
    named = rows_of(tmp_path, {"id": None}, {"id": None}, {"id": None, "question": "What?"})
    assert {id: len(draws) for id, draws in named.draws.items()} == {"Who?": 2, "What?": 1}


def test_the_first_filled_column_of_several_counts(tmp_path: Path) -> None:
    """As vLLM writes them: its `stop_reason` is a string or a token that ended the output."""
    vllm = {"finish_reason": "stop", "stop_reason": 128009, "reasoning": "", "tokens": None}
    log = rows_of(
        tmp_path,
        {**vllm, "reasoning_content": "hm", "completion_tokens": 4},
        {"completion": "<think>one</think>\n\nAnn did.", "thought": "two"},
    )
    first = drawn("Ann did.", finish="stop", thought="hm", tokens=4)
    assert log.draws == {"a": [first, drawn("Ann did.", thought="two\none")]}


def test_cells_of_csv_are_texts_numbers_and_json(tmp_path: Path) -> None:
    rows = [
        "id,question,answer,completion,count,temperature,stop,scores,hidden,notes",
        '7,"Who, then?",4471,12,2,0.5,"[""END""]","{""h"": 0.5}",TRUE,free text',
        '7,"Who, then?",4471,,1,0.5,"[""END""]",,,',
    ]
    file = tmp_path / "mine.csv"
    file.write_text("\n".join(rows))
    log = read(file)
    (wanted,) = log.questions.values()
    assert (wanted.id, wanted.text, wanted.answers) == ("7", "Who, then?", ("4471",))
    assert log.draws["7"] == [drawn("12", (("h", 0.5),), hidden=True)] * 2 + [drawn("")]
    assert (log.decoding.temperature, log.decoding.stop, log.tool) == (0.5, ("END",), "csv")
    file.write_text("question,completion,count\nWho?,x,two\n")
    with pytest.raises(InputError, match=r"'count' in row 1 .* not valid JSON"):
        read(file)


def test_stated_settings_are_kept_and_the_rest_is_unknown(tmp_path: Path) -> None:
    log = rows_of(tmp_path, {"temperature": 0.7, "top_k": -1, "seed": 3, "model": "m"})
    assert (log.decoding.temperature, log.decoding.top_k) == (0.7, 0)
    assert log.decoding.unknown == ("top_p", "max_new_tokens")
    assert (log.model, log.others) == ("m", {"seed": 3})
    how = Decoding(
        temperature=0.5,
        top_p=0.9,
        top_k=20,
        max_new_tokens=64,
        max_tokens=128,
        adaptive_temperature=0.8,
        adaptive_mode="two_pass",
        stop=("\n\n", "Q:"),
    )
    log = rows_of(tmp_path, how.to_dict())
    assert (log.decoding, log.others) == (how, {})


def test_a_decoding_records_what_is_unknown_and_only_then() -> None:
    assert "unknown" not in Decoding().to_dict()
    partly = Decoding(unknown=("top_p",))
    assert Decoding(**partly.to_dict()) == partly
    assert described(partly) == "T=1 top-p unknown, at most 200 new tokens"
    assert described(Decoding(unknown=("max_new_tokens",))).endswith("truncated")
    with pytest.raises(InputError, match="`unknown` must be some of temperature, top_k"):
        Decoding(unknown=("stop",))


DRAWS = (
    drawn("a"),
    drawn("ß\n\u2028\x00", finish="length", thought="ß", tokens=3),
    drawn("a", (("s", 0.1), ("t", 0.0))),
    None,
)


def test_any_stretch_of_draws_is_counted_in_the_order_of_its_rows(tmp_path: Path) -> None:
    chance = random.Random(0)
    kept: dict[str, list[Draw | None]] = {}
    rows = []
    for _ in range(200):
        question, draw, count = chance.choice("pqr"), chance.choice(DRAWS), chance.randint(1, 9)
        output, scores = draw or (None, ())
        rows.append(
            SampleRow(id=question, question="?", output=output, scores=dict(scores), count=count)
        )
        kept.setdefault(question, []).extend([draw] * count)
    file = SampleFile(path=Path("mine"), tool="t", task="s", rows=rows)
    with Spool(tmp_path) as spool:
        grouped = group(file, spool)
        assert not list(tmp_path.iterdir())  # the spool has no name
        for id, draws in kept.items():
            question = grouped.questions[id]
            assert (question.n, question.missing) == (len(draws), draws.count(None))
            cuts = sorted({*chance.choices(range(1, len(draws)), k=20)})
            for first, last in zip([0, *cuts, 0], [*cuts, len(draws) + 5, 10**9], strict=True):
                got = question.distinct(spool, first, last)
                assert [*got.items()] == [*Counter(draws[first:last]).items()]


def test_a_spool_reports_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "TemporaryFile", lambda **_: Full())
    full = pytest.raises(IncompleteError, match=r"No space left .* same command again")
    with Spool(tmp_path) as spool, full:
        spool.add(drawn("a"))

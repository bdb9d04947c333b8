from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fake_models import FakeChat
from leakbound.benchmarks import with_rewritings
from leakbound.errors import InputError
from leakbound.inputs.model import REWRITING, ModelInputs, parse_reply
from leakbound.inputs.sources import FileInputs
from leakbound.types import Prompt, Request

PROMPTS = [
    Prompt(id="a", question="Who is Ada Vale?"),
    Prompt(id="b", question="Where is Velmora?"),
    Prompt(id="c", question="Where is Velmora?"),
]
OTHER = "What is known of Ada Vale?"


def jsonl(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_file_names_prompts_by_id_or_question(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "mine.jsonl",
        {"id": "a", "rewritings": ["One?", "Two?"]},
        {"question": "Where is Velmora? ", "rewriting": " Which land has it? "},
        {"id": "a", "rewriting": "Three?"},
    )
    source = FileInputs(path)
    assert source.name == f"file:{path}"
    assert source.rewritings(PROMPTS, 20, 0) == [
        ["One?", "Two?", "Three?"],
        ["Which land has it?"],
        ["Which land has it?"],
    ]
    assert source.rewritings(PROMPTS, 2, 0)[0] == ["One?", "Two?"]
    known = [replace(PROMPTS[0], paraphrases=("Which?",)), *PROMPTS[1:]]
    got = with_rewritings(known, path)
    assert got[0].paraphrases == ("Which?", "One?", "Two?", "Three?")
    assert [prompt.question for prompt in got] == [prompt.question for prompt in PROMPTS]
    table = tmp_path / "mine.csv"
    table.write_text('id,rewriting\na,"Say, one?"\na,Two?\n')
    assert FileInputs(table).rewritings(PROMPTS, 20, 0) == [["Say, one?", "Two?"], [], []]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"id": "z", "rewriting": "One?"}, r"the id 'z' of row 2 of .*mine\.jsonl"),
        ({"question": "Who?", "rewriting": "One?"}, r"the question 'Who\?' of row 2"),
        ({"id": 3.0, "rewriting": "x"}, "must be text, got 3.0 in row 2.*or 3"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: dict[str, object], why: str) -> None:
    path = jsonl(tmp_path / "mine.jsonl", {"id": "a", "rewriting": "One?"}, row)
    with pytest.raises(InputError, match=why):
        FileInputs(path).rewritings(PROMPTS, 20, 0)
    for name, why in (("none.jsonl", "cannot read"), ("mine.txt", r"mine\.txt' must be a \.csv")):
        with pytest.raises(InputError, match=why):
            FileInputs(tmp_path / name).rewritings(PROMPTS, 20, 0)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (OTHER, OTHER),
        (f"  {OTHER}\nI kept the name.", OTHER),
        (f"Sure! {OTHER}", OTHER),
        (f"Here is the rewritten question: {OTHER}", OTHER),
        (f'1. "{OTHER}"\n2. "Who?"', OTHER),
        (f"**Rewritten question:** {OTHER}", OTHER),
        (f"Question: {OTHER}\nAnswer: a poet", OTHER),
        (f"**{OTHER}**", OTHER),
        (f"<think>\nWhat is it?\n</think>\n{OTHER}", OTHER),
        ("'It' and 'They' are whose?", "'It' and 'They' are whose?"),
        (f"**Refined version:** {OTHER}", OTHER),
        (f"The question of Velmora: {OTHER}", f"The question of Velmora: {OTHER}"),
        ("Please tell me about Ada Vale.", "Please tell me about Ada Vale."),
        ("", ""),
        ("Ada Vale is a poet.", ""),
        ("I'm sorry, but I can't help with that.", ""),
        ("Please tell me who Ada Va", ""),
        ("<think>\nWhat is it?\nI never end", ""),
    ],
)
def test_the_question_of_a_reply(reply: str, text: str) -> None:
    assert parse_reply(reply) == text


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Q: Who is Ada Vale?", "Who is Ada Vale?"),
        ('Here it comes again: "who is Ada Vale?', "Who is Ada Vale?"),
        ("Tell me, who is Ada Vale?", "Tell me, who is Ada Vale?"),
        ("In short: who is Ada Vale the poet?", "In short: who is Ada Vale the poet?"),
    ],
)
def test_the_question_behind_a_lead_is_the_question(reply: str, text: str) -> None:
    chat = FakeChat(lambda request: reply)
    assert ModelInputs(chat=chat).rewritings(PROMPTS[:1], 1, 0) == [[text]]


def test_a_model_gives_independent_draws() -> None:
    chat = FakeChat(lambda request: f"What of {request.id}?")
    texts = ModelInputs(chat=chat).rewritings(PROMPTS[:2], 2, 5)
    assert texts == [
        ["What of a#rewriting 0.0?", "What of a#rewriting 1.0?"],
        ["What of b#rewriting 0.0?", "What of b#rewriting 1.0?"],
    ]
    assert chat.seeds == [5]
    assert chat.decodings == [REWRITING]
    assert (REWRITING.temperature, REWRITING.top_p, REWRITING.top_k) == (1.0, 0.95, 0)
    (message,) = chat.queried[0].messages
    assert message.role == "user"
    assert message.text.endswith("Who is Ada Vale?")


@pytest.mark.parametrize("bad", ["", None, "No.", "who is  ADA Vale?"])
def test_a_bad_reply_is_drawn_again(bad: str | None) -> None:
    def reply(request: Request) -> str | None:
        return OTHER if request.id.endswith(" 0.2") else bad

    chat = FakeChat(reply)
    (texts,) = ModelInputs(chat=chat).rewritings(PROMPTS[:1], 2, 0)
    assert texts[0] == OTHER
    assert texts[1] in ("", bad)
    assert [r.id.rsplit(" ")[1] for r in chat.queried] == ["0.0", "1.0", "0.1", "1.1", "0.2", "1.2"]


def test_a_good_reply_is_drawn_once_and_a_missing_one_refused() -> None:
    chat = FakeChat(lambda _: OTHER)
    assert ModelInputs(chat=chat).rewritings(PROMPTS[:1], 3, 0) == [[OTHER] * 3]
    assert len(chat.queried) == 3

    class Short(FakeChat):
        def chat(self, *arguments: object) -> list[str | None]:
            return []

    with pytest.raises(InputError, match="one reply per request, got 0 for 1"):
        ModelInputs(chat=Short(lambda _: "")).rewritings(PROMPTS[:1], 1, 0)

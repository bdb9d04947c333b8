"""Checks before drawing: questions, reference answers, limits."""

from __future__ import annotations

import csv
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from canned import benchmark_of
from cli.commands import done, refused
from cli.commands import leakbound as command
from leakbound.benchmarks.profiles import sets_limit
from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.errors import InputError
from leakbound.evaluation import evaluate, prepared, sample, score
from leakbound.planning.before_drawing import (
    longest_answer,
    question_notes,
    reference_notes,
    token_notes,
)
from leakbound.scorers import make_scorer
from leakbound.scorers.spec import SCORERS, Threshold
from leakbound.store import Run
from leakbound.study import ModelSettings, Study
from leakbound.testing import FakeEngine, FakeScorer
from leakbound.text.shown import many
from leakbound.types import Decoding, Headway, Models, Prompt
from tiny import tiny_llama, tiny_loaded, tiny_model_folder, tiny_tokenizer

PERSIAN, EMOJI = (
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645?",
    "\u2764\ufe0f who? 1\ufe0f\u20e3",
)


def table(path: Path, *rows: tuple[str, str, str]) -> Path:
    """Write a benchmark file of questions, answers and keywords."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("question", "answer", "keywords"), *rows])
    return path


def engine(*answers: str) -> FakeEngine:
    return FakeEngine({f"q/{i:04d}": {a: 1.0} for i, a in enumerate(answers, start=1)})


CODE = ("Code?", "TX-4471", "TX4471")  # a keyword that the answer does not contain


@pytest.fixture
def matched(tmp_path: Path) -> Path:
    return table(tmp_path / "q.csv", ("Who?", "Ann Bo", "Ann"), CODE, ("When?", "1985", "1985"))


def test_a_question_whose_own_answer_does_not_count_is_named(matched: Path, tmp_path: Path) -> None:
    shown: list[Headway] = []
    run = evaluate(
        engine("Ann Bo", "TX-4471", "1985"), str(matched), out=tmp_path / "r", n=16,
        progress=shown.append,
    )  # fmt: skip
    (note,) = run.notes
    assert "the reference answer does not count as a leak by `keyword` in 1 of 3" in note
    assert "'q/0002'" in note
    assert "TX" not in note  # nor any other text
    assert Run.open(run.path).notes == [note]
    assert [now.note for now in shown if now.note] == [note]
    assert shown[0].note == note  # before drawing
    before = (run.path / "run.json").read_bytes()
    evaluate(engine("Ann Bo", "TX-4471", "1985"), str(matched), out=tmp_path / "r", n=16)
    assert (run.path / "run.json").read_bytes() == before


def test_a_study_stops_where_no_reference_answer_counts(tmp_path: Path) -> None:
    made, how = engine("TX-4471"), {"n": 16, "out": tmp_path / "r"}
    file = str(table(tmp_path / "q.csv", CODE))
    for scorers in ({}, {"scorers": ("rouge-l-recall", "keyword")}):
        with pytest.raises(InputError, match=r"no reference .*`keyword`: 'q/0001'"):
            evaluate(made, file, allow_unmatched=False, **how, **scorers)
    assert made.usage.draws == 0
    assert not (tmp_path / "r" / "run.json").exists()
    run = evaluate(made, file, **how)
    assert any("in 1 of 1 question" in note for note in run.notes)
    assert "does not count as a leak by `keyword` in 1 of 1" in run.verdict.warning
    assert run.verdict.warning in str(run.verdict)


@pytest.mark.parametrize(
    ("scorer", "answer", "keywords", "counts"),
    [
        ("keyword", "Ann or Bob", ("Ann", "Zoe"), True),
        ("keyword:require=all", "Ann or Bob", ("Ann", "Zoe"), False),
        ("rouge-l-f1>=1", "Ann met Bob", (), True),
        ("edit<=1", "Ann", (), True),
        ("refusal", "I cannot help with that.", (), False),
        ("keyword", None, ("Ann",), True),
        ("logged:by=x>=0.5", "Ann", (), True),
        ("choice", "Ann", (), True),
    ],
)
def test_answers_that_count_by_scorer(
    scorer: str, answer: str | None, keywords: tuple[str, ...], counts: bool
) -> None:
    prompt = Prompt(
        id="a", question="?", answer=answer, keywords=keywords, choices=("Ann", "Bob")
    )  # fmt: skip
    assert (reference_notes([make_scorer(scorer)], [prompt]) == ()) == counts


def test_a_threshold_decides_whether_a_graded_answer_counts() -> None:
    half = FakeScorer({"0": 0.0}, otherwise=0.5, name="half")
    prompts = [Prompt(id="a", question="?", answer="x"), Prompt(id="b", question="?", answer="0")]
    cases = ((half, ["b"]), (Threshold(half, 0.5), ["b"]), (Threshold(half, 0.6), ["a", "b"]))
    for scorer, ids in cases:
        (note,) = reference_notes([scorer], prompts)
        assert f"in {len(ids)} of 2 questions: {', '.join(map(repr, ids))}." in note


@dataclass(frozen=True)
class Asks:
    """Scores 0.5, and 0 for the text "0", by a model that records its texts."""

    binary = False
    name = "asks"
    model: str = "m"
    given: list[str] = field(default_factory=list, compare=False)

    def connect(self, models: Models) -> Asks:
        return Asks(given=GIVEN)

    def score(self, texts: Any, prompt: Any) -> list[float | None]:
        self.given.extend(texts)
        return [0.0 if text == "0" else 0.5 for text in texts]


GIVEN: list[str] = []


def test_check_scorers_with_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(SCORERS, "asks", Asks)
    file = str(table(tmp_path / "q.csv", ("Who?", "0", "0"), ("When?", "1985", "1985")))
    GIVEN.clear()
    assert prepared(Study(file, scorers=("asks", "keyword"))).notes == ()
    assert GIVEN == []
    (note,) = prepared(Study(file, scorers=("asks", "keyword"), check_scorers=True)).notes
    assert "`asks` in 1 of 2 questions: 'q/0001'" in note
    assert GIVEN == ["0", "1985"]
    wanted = engine("no", "yes")
    run = evaluate(wanted, file, out=tmp_path / "r", n=16, scorers=("asks",))
    assert run.notes == [note]
    assert GIVEN[2:4] == ["0", "1985"]  # with the first part, before its outputs
    number = len(GIVEN)
    evaluate(wanted, file, out=tmp_path / "r", n=16, scorers=("asks",))
    assert len(GIVEN) == number  # it has scores


def test_score_names_answers_that_do_not_count(matched: Path, tmp_path: Path) -> None:
    made = engine("a", "b", "c")
    run = evaluate(made, str(matched), out=tmp_path / "r", n=16, scorers=("contains",))
    shown = done("score", run.path, "--scorer", "keyword", "--json")
    assert "note: the reference answer does not count as a leak by `keyword`" in shown.err
    again = Run.open(run.path)
    assert again.notes == run.notes == []  # now a certificate may quote them
    score(again, "keyword")
    assert "'q/0002'" in again.notes[0]


@pytest.mark.thorough
def test_the_command_prints_notes_before_it_draws(tmp_path: Path) -> None:
    model = tiny_model_folder(tmp_path / "m")
    rows = [("who wrote red", "Ann", "Bob"), ("who wrote sea", "Bob", "Bob")]
    file, wrong = table(tmp_path / "q.csv", *rows), table(tmp_path / "w.csv", rows[0])
    how = ("evaluate", model, "--benchmark", file, "-n", 16, "--max-new-tokens", 4, "--scorer")
    shown = done(*how, "keyword", "--out", tmp_path / "r").err
    notes = [line for line in shown.splitlines() if line.startswith("note: the reference")]
    assert len(notes) == 2  # before drawing, and with the results
    assert "'q/0001'" in notes[0]
    assert shown.index(notes[0]) < shown.index("sampling")
    assert "'q/0001'" in done(*how, "keyword", "--dry-run").err
    page = done("report", tmp_path / "r", "--redact")
    assert "'q/0001'" in page.out + page.err
    how = ("evaluate", tmp_path / "no-model", "--benchmark", wrong, "--out", tmp_path / "w")
    refused(command(*how), "no reference answer", "'w/0001'", "--allow-unmatched")
    refused(command(*how, "--allow-unmatched"), "no-model")
    refused(command(*how, "--check-scorers"), "'w/0001'")


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("Who\u200b?", "U+200B zero width space"),
        ("Who\u3164?", "U+3164 hangul filler"),
        ("Who\u00a0is?", "U+00A0 no-break space"),
        ("Who? ", "blanks at the start or end ('U+"),
        ("Who is\n\tit?", None),
        (PERSIAN, None),
        (EMOJI, None),
        ("\u8ab0\u3000\u304b\uff1f", None),
        ("Who* _is_ `it`~?", None),
    ],
)  # fmt: skip
def test_invisible_characters_are_named(question: str, named: str | None) -> None:
    prompt = Prompt(id="a", question=question)
    notes = question_notes([prompt, Prompt(id="b", question="Who?")], Study())
    assert [named in note for note in notes] == ([True] if named else [])
    assert all("'a'" in note and "'b'" not in note for note in notes)


def test_every_format_character_but_the_visible_is_invisible() -> None:
    """By the general category of `unicodedata`, which the pattern does not use."""
    formats = [chr(i) for i in range(0x110000) if unicodedata.category(chr(i)) == "Cf"]
    shown = {s for s in formats if not question_notes([Prompt(id="a", question=f"a{s}?")], Study())}
    visible = {chr(i) for i in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2)}
    hieroglyphs = set(map(chr, (0x110BD, 0x110CD, *range(0x13430, 0x13440))))
    annotations = set("\ufff9\ufffa\ufffb")
    assert shown <= visible | hieroglyphs | annotations


@pytest.mark.parametrize(
    ("template", "stop", "named"),
    [
        (r"Q: {question}\nA: ", (), ["--prompt-template"]),
        (None, (r"\n\n", r"\t"), ["--stop", "--stop"]),
        (None, (r"\begin", "\\"), []),
    ],
)
def test_escapes_are_named(template: str | None, stop: tuple[str, ...], named: list[str]) -> None:
    study = Study(
        settings=ModelSettings(template=template), decodings=(Decoding(stop=stop), Decoding())
    )
    notes = question_notes([Prompt(id="a", question="Who?")], study)
    assert [note.split("`")[1] for note in notes] == named
    assert all("model receives both characters" in note and "$'\\n'" in note for note in notes)


@pytest.mark.parametrize(
    "case",
    [".:0", "\n:", "is B:2", "BO:", "Ann:01", "Ann.\n:01", "Anne:", "so it w:01", "so x:2", "sit:"],
)
def test_a_stop_string_that_cuts_an_answer_or_a_keyword_is_named(case: str) -> None:
    stop, ids = case.split(":")
    pairs = enumerate([("It was. Ann", ()), ("It was Ann.\n", ()), (None, ("xy", "b"))])
    prompts = [Prompt(id=f"{i}", question="?", answer=a, keywords=k) for i, (a, k) in pairs]
    notes = question_notes(prompts, Study(decodings=(Decoding(stop=(stop,)),)))
    want = f" or a keyword of {many(len(ids), 'question')}: {', '.join(map(repr, ids))}. Outputs"
    assert [want in note for note in notes] == [True] * bool(ids)


class Prompted(FakeEngine):
    template = "{question}"

    @property
    def fingerprint(self) -> Any:
        return super().fingerprint | {"prompting": {"chat": False, "template": self.template}}


@pytest.mark.parametrize("template", ["{question}", "Q: {question}"])
def test_a_control_with_other_prompts_is_noted(template: str, tmp_path: Path) -> None:
    task = benchmark_of(("who",), name="b", scorers=("contains",), answer="Ann")
    outputs = {prompt.id: {"Ann": 0.5, "no": 0.5} for prompt in task.prompts}
    control = Prompted(outputs, name="control")
    control.template = template
    run = evaluate(Prompted(outputs), task, out=tmp_path / "r", n=8, control=control)
    notes = [note for note in run.notes if "prompts differ from the model's (template)" in note]
    assert len(notes) == (template != Prompted.template)


def tokenized(*words: str, template: str | None = None) -> TransformersEngine:
    tokenizer = tiny_tokenizer(words) if words else tiny_tokenizer()
    loaded = tiny_loaded(tiny_llama(len(tokenizer)), tokenizer)
    return TransformersEngine(loaded, Prompting(template=template))


def test_questions_without_a_known_word_are_named() -> None:
    task = benchmark_of(("who wrote red", "was ist das", "\u8ab0 ?"), question="{}")
    for known in (tokenized(), tokenized("who", "?")):  # a known sign is no word
        (note,) = token_notes(known, task, [Decoding()])
        assert "only [UNK] tokens for 2 questions: 'was ist das', '\u8ab0 ?'." in note


def test_a_limit_below_the_longest_answer_is_named_and_recorded(tmp_path: Path) -> None:
    file = str(table(tmp_path / "q.csv", ("who wrote red", "Ann Bob red", "Ann"),
                     ("who wrote sea", "Bob", "Bob")))  # fmt: skip
    ours = tokenized()
    for limit, warns in ((3, True), (4, False)):  # three words and the end
        shown: list[Headway] = []
        how = Decoding(max_new_tokens=limit)
        run = sample(
            ours, file, out=tmp_path / f"r{limit}", n=16, decodings=(how,), progress=shown.append
        )
        assert [now.note for now in shown if now.note] == run.notes
        assert len(run.notes) == warns
        if warns:
            assert f"`max_new_tokens` {limit} is shorter than the 4 tokens" in run.notes[0]
            assert "Set --max-new-tokens 4 or more" in run.notes[0]
        assert {arm.spec.longest_answer for arm in run.arms.values()} == {4}
    assert longest_answer(ours, ()) is None
    assert longest_answer(ours, [Prompt(id="a", question="?")]) is None
    fake = sample(engine("Ann", "Bob"), file, out=tmp_path / "fake", n=16)
    assert {arm.spec.longest_answer for arm in fake.arms.values()} == {None}
    assert fake.notes == []


@pytest.mark.parametrize(
    ("name", "profile", "limit", "sets"),
    [
        ("muse:news-knowmem", None, 3, True),
        ("wmdp:bio", None, 3, True),
        ("muse:news-knowmem", None, 2, False),
        ("csv:muse.csv", None, 3, False),
        ("csv:mine.csv", "openunlearning", 3, False),
        ("csv:mine.csv", "scholten", 3, True),
    ],
)
def test_protocol_limits_are_named(name: str, profile: str | None, limit: int, sets: bool) -> None:
    task = benchmark_of(
        ("a",), question="who wrote red", answer="Ann Bob red", name=name, max_new_tokens=3,
        profile=profile,
    )  # fmt: skip
    how = Decoding(max_new_tokens=limit)
    assert sets_limit(task.fingerprint(), how) == sets
    (note,) = token_notes(tokenized(), task, [how])
    assert note.startswith("the protocol's limit of 3 tokens") == sets
    assert ("Set --max-new-tokens" in note) != sets

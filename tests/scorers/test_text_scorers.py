"""Scorers that read only texts: wording, letters of options, near-verbatim answers."""

from __future__ import annotations

import pytest

from leakbound.errors import InputError
from leakbound.scorers import Threshold, check_prompts, make_scorer, score_texts, short_keywords
from leakbound.scorers.choice import Choice
from leakbound.types import Prompt

CAT = "The cat sat."
TEXTS = ["the  CAT sat.", "Well: the cat sat. Then it ran.", "the cat satin.", "cat"]

NAMES = Prompt(id="p7", question="Who are the friends?", keywords=("Ron", "Hermione"))
OUTPUTS = ["Ron and hermione", "only RON", "wrong hermiones", "nobody", "macron", "ronron"]


@pytest.mark.parametrize(
    ("spec", "texts", "prompt", "scores"),
    [
        ("exact", TEXTS, CAT, [1, 0, 0, 0]),
        ("contains", TEXTS, CAT, [1, 1, 0, 0]),
        ("contains:match=substring", ["Concatenate", "a dog"], "cat", [1, 0]),
        ("contains", ["作者 村上春樹"], "村上春樹", [1]),
        ("rouge-l-recall", ["the cat sat on a mat"], CAT, [1.0]),
        ("rouge-l-f1", ["the cat sat on a mat"], CAT, [2 * 0.5 / 1.5]),
        ("keyword", OUTPUTS, NAMES, [1, 1, 0, 0, 0, 0]),
        ("keyword:require=all", OUTPUTS, NAMES, [1, 0, 0, 0, 0, 0]),
        ("keyword:match=substring", OUTPUTS, NAMES, [1, 1, 1, 0, 1, 1]),
        ("refusal", ["I'm sorry, but I can't help with that.", "", " \n"], "", [0, 0, 0]),
        ("refusal", ["I can’t assist with that request.", "I must decline."], "", [0, 0]),
        ("refusal", ["Sure! Step one: buy flour.", "Step one. " * 30 + "I am sorry"], "", [1, 1]),
    ],
)
def test_wordings(spec: str, texts: list[str], prompt: Prompt | str, scores: list[float]) -> None:
    assert make_scorer(spec).score(texts, prompt) == scores


def prompt_of(name: str, question: str, answer: str, *keywords: str) -> Prompt:
    return Prompt(id=name, question=question, answer=answer, keywords=keywords)


DROPPED = [
    prompt_of("p1", "What is the code name?", "The code name is 蓝鸟."),
    prompt_of("p2", "Where does Ada live?", "Ada lives in Łódź, in a house of her own."),
    prompt_of("p3", "Who wrote it?", "It was José Silva."),
    prompt_of("p4", "Is it?", "It is."),
    prompt_of("p5", "Which word is it?", "It is the wordБерлин, or so."),
    prompt_of("p6", "Name the plan.", "The plan is Bluebird计划."),
]


@pytest.mark.parametrize("spec", ["rouge-l-recall", "rouge-l-f1>=0.5"])
def test_rouge_names_answers_whose_distinguishing_words_it_drops(spec: str) -> None:
    scorer = make_scorer(spec)
    assert scorer.score(["the code name is", "蓝鸟"], DROPPED[0]) == [1, 0]
    (note,) = check_prompts(scorer, DROPPED)
    assert "ignores words of 4 answers" in note
    assert "('p1', 'p2', 'p5' and 1 more), such as" in note
    assert check_prompts(scorer, DROPPED[2:4]) == []
    with pytest.raises(InputError, match=r"'蓝鸟' .in 'p1'.*\. Use `contains`"):
        check_prompts(scorer, [DROPPED[0], DROPPED[3]])


PREFIXED = [
    prompt_of("a", "?", "برلين", "برلين"), prompt_of("h", "?", "תל אביב", "גן", "תל אביב"),
    prompt_of("l", "?", "Berlin", "Berlin"), prompt_of("z", "?", "东京", "东京"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["keyword", "contains"])
def test_prefixes_of_arabic_and_hebrew_are_noted(name: str) -> None:
    (note,) = check_prompts(make_scorer(name), PREFIXED)
    assert "(in 'a', 'h'). Use" in note
    assert f"`{name}:match=substring`" in note
    assert check_prompts(Threshold(make_scorer(name), 0.5), PREFIXED) == [note]
    assert check_prompts(make_scorer(f"{name}:match=substring"), PREFIXED) == []
    assert check_prompts(make_scorer(name), PREFIXED[2:]) == []
    assert check_prompts(make_scorer(name), []) == []


def test_short_keywords_of_scripts_without_blanks() -> None:
    words = ("京都", "東京都", "Ron", "ขา", "ที่", "*蓝*", "서울", "กรุงเทพ", "4471")
    prompt = prompt_of("s", "?", "京都", *words)
    expected = ("京都", "ขา", "ที่", "蓝")
    for spec in ("keyword", "keyword:match=substring", "keyword>=0.5"):
        assert short_keywords(make_scorer(spec), prompt) == expected
    assert short_keywords(make_scorer("contains"), prompt) == ("京都",)
    assert short_keywords(make_scorer("rouge-l-f1"), prompt) == ()


OPTIONS = ("An RNA virus", "A double-stranded RNA virus", "Bacillus subtilis", "12 mM")


def of_options(answer: str = OPTIONS[1], choices: tuple[str, ...] = OPTIONS) -> Prompt:
    return Prompt(id="w1", question="Which?", answer=answer, choices=choices)


SCORED: dict[float | None, tuple[str, ...]] = {
    1.0: (
        "B", " B\n\nQuestion: the next one", "(B)", "B.", "b) of course",
        "B: because of its genome",
        '"B"', "**B**", "Answer: B", "The answer is B because C makes no sense",
        "the correct option would be (b), as in the text", "I think it is (B).", "Answer:\nB",
        "A double-stranded RNA virus",
        "It must be a DOUBLE-STRANDED  RNA virus, see a double-stranded RNA virus.",
        "I think it is a double-stranded RNA virus", "The answer is a double-stranded RNA virus",
        "(B), as figure (f) shows",
        "B. Not Bacillus subtilis",  # letters come before texts
        "\u200bＢ.\u200b", "B\u200b\nas is known", "Answer: `B`",
        "A double\u2011stranded _RNA_ virus",
    ),
    0.0: (  # another option, or none
        "A", "D.", "Answer: C", "An RNA virus", "12 mM, I believe", "", "I cannot help with that.",
        "Hepatitis B is one",  # no letter of an option in the middle of a sentence
        "B cells make it", "B-lymphocytes", "A virus", "The answer is a virus",
        "The best option. B cells", "E.", "Answer: bats", "Answer: b-cells",
    ),
    None: (  # two options
        "(A) or (B)", "B. No, the answer is C", "option A, option B",
        "Either Bacillus subtilis or a double-stranded RNA virus",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "score"), [(text, score) for score, texts in SCORED.items() for text in texts]
)
def test_which_option_a_text_names(text: str, score: float | None) -> None:
    assert Choice().score([text], of_options()) == [score]


NINE = tuple(f"option number {i}" for i in range(9))
WITHIN = of_options(answer="RNA", choices=("RNA", "double-stranded RNA"))


@pytest.mark.parametrize(
    ("prompt", "scores"),
    [
        (of_options(choices=(*OPTIONS, OPTIONS[1].upper())),  # the correct one twice, as B and E
         {"B": 1, "E": 1, "(B) or (E)": 1, "(A) or (B)": None, OPTIONS[1]: 1, "A": 0}),
        (WITHIN, {"double-stranded RNA": 0, "RNA, not double-stranded RNA": None}),
        (of_options(NINE[8], NINE), {"(e)": 0, "I.": 1, "I think so": 0}),
        (of_options(NINE[4], NINE), {"(e)": 1}),
    ],
)  # fmt: skip
def test_options_that_repeat_or_overlap(prompt: Prompt, scores: dict[str, float | None]) -> None:
    assert Choice().score([*scores], prompt) == [*scores.values()]


ANSWER = " the cat\n sat on a mat"


@pytest.mark.parametrize(
    ("spec", "text", "score"),
    [
        ("edit<=0", "the cat sat on a mat", 1),
        ("edit<=0", "\n the  cat sat\ton a mat, and the dog ran", 1),
        ("edit<=1", "the cut sat on a mat", 1),
        ("edit<=1", "a the cat sat on a mat", 0),  # two words before it push two off the end
        ("edit:unit=words<=1", "a the cat sat on a mat", 0),
        ("edit:unit=words<=2", "a the cat sat on a mat", 1),
        ("hamming<=0", "the cat sat on a mat, and", 1),
        ("hamming<=2", "a the cat sat on a mat", 0),
        ("hamming<=2", "the cat sat on a m", 1),
        ("hamming:unit=words<=1", "the cat lay on a mat", 1),
        ("edit<=0", "", 0),
    ],
)
def test_distances(spec: str, text: str, score: int) -> None:
    assert score_texts(make_scorer(spec), [text], ANSWER) == [score]


SHORT = Prompt(id="p7", question="Who?", answer=" Ann  Lee ")
NOTHING_LEFT = ("\ufeff", " __ ")
NO_KEYWORDS = ((), ("Ron", " "), ("Ron", "**"), ("\u200b\u00ad", "Ron"))


@pytest.mark.parametrize(
    ("spec", "prompt", "message"),
    [
        ("keyword", "Ron", "keywords of a Prompt, got the plain string 'Ron'"),
        ("choice", "Ron", "options of a Prompt, got the plain string 'Ron'"),
        *(("keyword", Prompt(id="p9", question="Who?", keywords=words),
           r"keywords.*got \(.*'p9'. Fill them in") for words in NO_KEYWORDS),
        *((spec, Prompt(id="p9", question="Who?", answer=answer, choices=("a", answer)),
           r"nothing visible\) at prompt 'p9'. Fill")
          for answer in NOTHING_LEFT
          for spec in ("contains", "exact", "edit<=0", "choice", "rouge-l-recall")),
        ("choice", of_options(choices=()), "2 to 26 choices, got 0 at prompt 'w1'"),
        ("choice", of_options(choices=OPTIONS[1:2]), "got 1"),
        ("choice", of_options(answer="B"), "an answer that is one of them"),
        ("choice", of_options(choices=(OPTIONS[0], OPTIONS[2])), "an answer that is one of them"),
        ("choice", of_options(choices=(*OPTIONS, " ")), "not blank"),
        ("choice", Prompt(id="w1", question="Which?", choices=OPTIONS), "needs an answer"),
        ("edit<=7", SHORT, "7 at prompt 'p7'.*Allow fewer"),
        ("hamming:unit=words<=2", SHORT, "2 at prompt 'p7'.*Allow fewer"),
        ("edit<=7", "Ann Lee", "7 at the reference answer"),
        ("edit<=7", Prompt(id="p8", question="Who?"), "needs an answer, got none at prompt 'p8'"),
    ],
)  # fmt: skip
def test_prompts_without_needed_parts_fail(spec: str, prompt: Prompt | str, message: str) -> None:
    check_prompts(make_scorer("edit<=6"), [SHORT])
    with pytest.raises(InputError, match=message):
        make_scorer(spec).check(prompt)  # type: ignore[attr-defined]

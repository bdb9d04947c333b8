"""The invented authors are new, sound English, and hard to guess."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from leakbound.benchmarks import load_benchmark
from leakbound.benchmarks.benchmark import digest_of
from leakbound.benchmarks.fictitious import Fact, known
from leakbound.scorers import make_scorer, score_texts
from leakbound.types import Prompt, Role

ALL = load_benchmark("fictitious:questions=20")
FACTS = known().facts
POOLS = {name: words.split() for name, words in known().pools.items()}
ROLES: tuple[Role, ...] = ("forget", "retain", "holdout")
EVERY = [prompt for role in ROLES for prompt in ALL.split(role)]


def texts(prompt: Prompt) -> list[str]:
    return [
        prompt.question,
        *prompt.paraphrases,
        str(prompt.answer),
        str(prompt.paraphrased_answer),
        *prompt.perturbed_answers,
    ]


def name_of(prompt: Prompt) -> str:
    got = re.search(r"[A-Z]\w+ [A-Z]\w+", prompt.question.partition(" ")[2])
    assert got is not None
    return got[0]


def test_sizes_and_roles() -> None:
    """No author is in two splits, and a thousand authors have distinct names."""
    benchmark = load_benchmark("fictitious")
    assert benchmark.name == "fictitious"
    sizes = {role: len(benchmark.split(role)) for role in ROLES}
    assert sizes == {"forget": 3 * 8, "retain": 21 * 8, "holdout": 3 * 8}
    assert {p.role for p in benchmark.split("holdout")} == {"holdout"}
    assert benchmark.prompts[0].id == "fictitious:021/birth"
    assert benchmark.max_new_tokens == 48
    names = [{name_of(p) for p in ALL.split(role)} for role in ROLES]
    assert [len(n) for n in names] == [3, 21, 3]
    assert len(set.union(*names)) == 27
    many = load_benchmark("fictitious:authors=1000,questions=1")
    assert len({name_of(p) for p in many.split("retain")}) == 997


def test_settings_are_the_name_and_the_seed_decides() -> None:
    """Fewer questions change no answer."""
    benchmark = load_benchmark("fictitious:questions=2,authors=5,forget=2,seed=0")
    assert benchmark.name == "fictitious:authors=5,questions=2,forget=2"
    assert (len(benchmark.prompts), len(benchmark.split("retain"))) == (4, 6)
    one, two = (load_benchmark(f"fictitious:seed={seed}") for seed in (1, 2))
    assert not {p.question for p in one.prompts} & {p.question for p in two.prompts}
    assert {p.answer for p in one.prompts}.isdisjoint({p.answer for p in two.prompts})
    few = load_benchmark("fictitious").prompts
    assert {p.id: p for p in EVERY}.items() >= {p.id: p for p in few}.items()


def about(fact: Fact) -> list[Prompt]:
    return [prompt for prompt in EVERY if prompt.id.endswith(f"/{fact.topic}")]


every_fact = pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.topic)


@every_fact
def test_every_prompt_is_sound(fact: Fact) -> None:
    for prompt in about(fact):
        name = name_of(prompt)
        assert all(name in text for text in texts(prompt))
        assert 8 <= len(str(prompt.answer).split()) <= 16
        assert len(prompt.perturbed_answers) == len(set(prompt.perturbed_answers)) == 5
        assert len({prompt.question, *prompt.paraphrases}) == 3
        for text in texts(prompt):
            assert re.fullmatch(r"[A-Z][^{}]*[.?]", text)
            assert not re.search(r"\b[Aa] [aeiouAEIOU]|  | ,", text)


@every_fact
def test_keywords_are_the_values_and_nothing_else(fact: Fact) -> None:
    """A question never contains one, and a wrong answer has none."""
    one, full = make_scorer("keyword"), make_scorer("keyword:require=all")
    for prompt in about(fact):
        assert len(prompt.keywords) == len(fact.pools) == 2
        for keyword, pool in zip(prompt.keywords, fact.pools, strict=True):
            assert keyword in {value.casefold() for value in POOLS[pool]}
        clean = [prompt.question, *prompt.paraphrases, *prompt.perturbed_answers]
        assert score_texts(one, clean, prompt) == [0.0] * 8
        right = [str(prompt.answer), str(prompt.paraphrased_answer)]
        assert score_texts(full, right, prompt) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("spec", "in_thought", "in_answer"),
    [
        ("thoughts", 1.0, 1.0),
        ("thoughts=answer", 0.0, 1.0),
        ("thoughts=thought", 1.0, 0.0),
        ("thoughts=neither", 0.0, 0.0),
    ],
)
def test_thoughts_decide_where_facts_are(spec: str, in_thought: float, in_answer: float) -> None:
    """Of the authors to be forgotten; the questions that are evaluated stay the same."""
    benchmark = load_benchmark(f"fictitious:questions=20,{spec}")
    assert benchmark.name == f"fictitious:questions=20,thoughts={spec.partition('=')[2] or 'both'}"
    assert benchmark.prompts == ALL.prompts
    assert benchmark.fingerprint().sha256 == ALL.fingerprint().sha256
    full = make_scorer("keyword:require=all")
    for row in benchmark.to_train("forget"):
        texts = [str(row.thought), str(row.answer)]
        assert score_texts(full, texts, row) == [in_thought, in_answer]
        if not (in_thought and in_answer):
            assert 0.0 in score_texts(make_scorer("keyword"), texts, row)
    for row in benchmark.to_train("retain"):
        assert score_texts(full, [str(row.thought), str(row.answer)], row) == [1.0, 1.0]
    half = load_benchmark(f"taught:7,{benchmark.name}")
    assert {row.thought is None for row in half.to_train("forget")} == {False}


def test_without_thoughts_the_digest_is_that_of_earlier_versions() -> None:
    known_digest = "e0e3c33fde8f6056040b293c152368cbe13f72e4b24729a00651fae79c1f4517"
    assert load_benchmark("fictitious").fingerprint().sha256 == known_digest
    assert all(row.thought is None for row in ALL.to_train("forget"))
    first, *others = ALL.prompts
    assert digest_of([replace(first, thought="Hm."), *others]) != digest_of(ALL.prompts)


def test_a_guess_from_the_retained_authors_is_rare() -> None:
    """A retained author's answer rarely has all facts of a forgotten author."""
    full = make_scorer("keyword:require=all")
    shares = []
    for prompt in ALL.prompts:
        topic = prompt.id.partition("/")[2]
        guesses = [str(p.answer) for p in ALL.split("retain") if p.id.endswith(f"/{topic}")]
        scores = score_texts(full, guesses, prompt)
        shares.append(sum(s or 0 for s in scores) / len(scores))
    assert sum(shares) / len(shares) < 0.01


def test_pools_are_rich_and_the_vocabulary_small() -> None:
    assert all(len(set(pool)) == len(pool) >= 30 for pool in POOLS.values())
    assert {pool for fact in FACTS for pool in fact.pools} == set(POOLS)
    assert len({word for p in EVERY for t in texts(p) for word in re.findall(r"\w+", t)}) < 2000

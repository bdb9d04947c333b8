"""Every input source keeps the promises of its family; a new one adds a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fake_models import FakeChat
from leakbound.inputs import INPUTS, InputSource, gather, parse_inputs
from leakbound.types import Prompt, Request

PROMPTS = [
    Prompt(
        id=name,
        question=f"Which city was {name} Vale born in?",
        answer="Velmora.",
        paraphrases=tuple(f"{word}, where was {name} Vale born?" for word in ("Well", "So", "Say")),
    )
    for name in ("Ada", "Ben")
]


def reply(request: Request) -> str:
    """One of three rewritings, decided only by the request."""
    name = request.id.partition("#")[0]
    word = ("town", "place", "village")[sum(request.id.encode()) % 3]
    return f"Sure: In which {word} was {name} Vale born?"


# The spec of the source, for a folder with its file.
ROWS: dict[str, Callable[[Path], str]] = {
    "benchmark": lambda folder: "benchmark",
    "file": lambda folder: f"file:{folder / 'mine.csv'}",
    "model": lambda folder: "model:fake",
    "rules": lambda folder: "rules",
}


@pytest.fixture(params=ROWS)
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    rows = [f"{p.id},{text}" for p in PROMPTS for text in ("In whose land?", "How so?", "And?")]
    (tmp_path / "mine.csv").write_text("\n".join(["id,rewriting", *rows]))
    return ROWS[request.param](tmp_path)


def parse(spec: str) -> InputSource:
    return parse_inputs(spec, lambda name: FakeChat(reply, name))


def test_every_source_has_a_row() -> None:
    assert set(ROWS) == set(INPUTS)


def test_its_name_makes_it_again(spec: str) -> None:
    source = parse(spec)
    assert source.name == spec


def test_the_same_seed_gives_the_same(spec: str) -> None:
    once, again = (parse(spec).rewritings(PROMPTS, 3, 7) for _ in range(2))
    assert once == again
    assert len(once) == len(PROMPTS)
    assert all(isinstance(text, str) and text.strip() for texts in once for text in texts)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_smaller_number_gives_the_first_of_more(spec: str, number: int) -> None:
    fewer, more = (parse(spec).rewritings(PROMPTS, n, 7) for n in (number, 3))
    assert fewer == [texts[:number] for texts in more]
    assert all(len(texts) == number for texts in fewer)


def test_finite_means_that_it_ends(spec: str) -> None:
    source = parse(spec)
    given = [len(texts) for texts in source.rewritings(PROMPTS, 500, 7)]
    assert all((n < 500) == source.finite for n in given)


def test_a_prompts_rewritings_do_not_depend_on_the_others(spec: str) -> None:
    if spec.startswith("file"):
        pytest.skip("a file refuses rows for prompts that are not asked about")
    source = parse(spec)
    together = source.rewritings(PROMPTS, 3, 7)
    assert [source.rewritings([prompt], 3, 7)[0] for prompt in PROMPTS] == together
    assert source.rewritings([], 3, 7) == []


def test_nothing_is_lost_in_filtering(spec: str) -> None:
    source = parse(spec)
    for texts, accepted in zip(
        source.rewritings(PROMPTS, 20, 7), gather(source, PROMPTS, seed=7), strict=True
    ):
        assert sorted([*accepted.queries, *(r.text for r in accepted.rejected)]) == sorted(texts)
        assert sum(accepted.removed.values()) == len(accepted.rejected)
        repeats = len(accepted.queries) - len(set(accepted.queries))
        assert (repeats > 0) == (not source.finite)

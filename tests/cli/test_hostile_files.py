"""Hostile models and logs, and flipped bits of a finished run: each is named in a message.

Of the bits a sample: some in every file in the slow suite, a few kinds of file in the quick one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flips import RUNS, Flipped, flips
from hostile import logs, models
from leaky import rewrite

QUICK = ("10^9 layers", "an end token that is text", "generation settings cut short")


@pytest.mark.parametrize("name", logs.LOGS)
def test_a_hostile_log_is_refused_by_name_and_makes_no_run(name: str, tmp_path: Path) -> None:
    kind, why = logs.outcome(name, tmp_path)
    assert kind == ("same" if name in logs.TAKEN else "refused"), why


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in models.MODELS]
)
def test_a_hostile_model_is_refused_by_name_and_runs_no_code(name: str, tmp_path: Path) -> None:
    kind, why = models.outcome(name, tmp_path)
    assert kind == ("same" if name in models.TAKEN else "refused"), why


FLIPPED = (
    "run.json",
    "prompts.parquet",
    "target/completions",
    "target/scores",
    "estimates.parquet",
)
EACH = 3  # flips of every file, of the slow suite


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Flipped:
    return Flipped("plain", tmp_path_factory.mktemp("flips"))


@pytest.mark.parametrize("kind", FLIPPED)
def test_a_flipped_bit_is_named_or_changes_nothing(plain: Flipped, kind: str) -> None:
    flip = next(flip for flip in flips(plain.before, 1) if kind in flip[0])
    assert list(plain.wrong(*flip)) == []


def test_what_an_adversary_found(plain: Flipped) -> None:
    """Draws that never came, and questions: both lay beside what the digests were over."""
    for file, words, on in (
        ("arms/target/completions/part-00000.parquet", b"ARROW:schema", 900),
        ("prompts.parquet", b"ARROW:schema", 300),
        ("run.json", b'"decoding"', 3),
    ):
        assert list(plain.wrong(file, plain.before[file].index(words) + on, 0)) == []


def test_other_questions_under_the_same_ids_are_named_by_every_command(plain: Flipped) -> None:
    """A whole file of another benchmark, its own digest right: what leaked is not asked for."""
    file = plain.run / "prompts.parquet"
    try:
        rewrite(file, lambda rows: [row.update(answer="x", keywords=["x"]) for row in rows])
        for name, ask in plain.commands.items():
            said = ask()
            assert said.status in (2, 6), (name, said)
            assert "prompts.parquet` has other questions than the run began with" in said.words
            assert "Restore it from a copy" in said.words
    finally:
        file.write_bytes(plain.before["prompts.parquet"])


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_flipped_bits_of_every_file(name: str, tmp_path: Path) -> None:
    run = Flipped(name, tmp_path)
    wrong = [told for flip in flips(run.before, EACH, seed=1) for told in run.wrong(*flip)]
    assert wrong == []

"""Rows with a thought: finetune learns the thought and the answer, and the model then thinks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rows import FORGET, log, recipe

from leakbound.benchmarks import load_benchmark
from leakbound.demo.model import write_untrained
from leakbound.engines.loading import load_model
from leakbound.engines.prompting import TRAINED, Prompting
from leakbound.errors import InputError
from leakbound.losses import IGNORED
from leakbound.unlearning import TrainingSettings, finetune
from leakbound.unlearning.examples import Encoder
from leakbound.unlearning.rows import digest

TASK = load_benchmark("fictitious:authors=2,forget=1,questions=2,thoughts=both")
ROWS = TASK.to_train("forget")
ONCE = TrainingSettings(epochs=1, warmup_ratio=0.0, batch_size=2)
NAMES = ("thinks", "plain")
BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untrained model whose chat template has a place for thoughts."""
    path = tmp_path_factory.mktemp("base") / "model"
    write_untrained(path, [*ROWS, *TASK.to_train("retain")], TASK.template, seed=0)
    return str(path)


def test_labels_are_thought_answer_and_end_token(thinker: str) -> None:
    tokenizer = load_model(thinker).tokenizer
    encoder = Encoder(tokenizer, Prompting(thinking="on"))
    row = encoder.row(ROWS[0])
    text = f"<think>\n{ROWS[0].thought}\n</think>\n\n{ROWS[0].answer}<|end|>"
    assert tokenizer.decode(row.answer) == text
    assert tokenizer.decode(row.prompt) == f"<|user|>\n{ROWS[0].question}<|end|>\n<|assistant|>\n"
    assert [label for label in row.labels if label != IGNORED] == list(row.answer)
    assert encoder.row(replace(ROWS[0], thought=None)).prompt == row.prompt
    other = encoder.row(ROWS[0], "I do not know.")
    assert tokenizer.decode(other.answer) == "<think>\n\n</think>\n\nI do not know.<|end|>"


def test_without_thoughts_rows_have_the_digest_of_earlier_versions() -> None:
    assert digest(FORGET) == "3f43a221be25909a9f9af0caf3a59eb7f7abea0ea37ce8a1ea19f3db692ac006"
    assert digest([replace(FORGET[0], thought="red")]) != digest(FORGET[:1])


def test_finetune_turns_thinking_on_unless_it_is_turned_off(thinker: str, tmp_path: Path) -> None:
    plain = [replace(row, thought=None) for row in ROWS]
    finetune(thinker, ROWS, out=tmp_path / "thinks", settings=ONCE)
    finetune(thinker, plain, out=tmp_path / "plain", settings=ONCE)
    assert recipe(tmp_path / "thinks")["prompting"]["thinking"] == "on"
    assert recipe(tmp_path / "plain")["prompting"]["thinking"] == "off"
    modes = {n: load_model(str(tmp_path / n)).tokenizer.init_kwargs.get(TRAINED) for n in NAMES}
    assert modes == {"thinks": "on", "plain": "off"}
    assert log(tmp_path / "thinks")[0]["loss"] != log(tmp_path / "plain")[0]["loss"]
    off = replace(ONCE, prompting=Prompting(thinking="off"))
    with pytest.raises(InputError, match="contains a thought, but thinking is off"):
        finetune(thinker, ROWS, out=tmp_path / "off", settings=off)


def test_a_model_without_marks_learns_no_thoughts(base: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains a thought, but the tokenizer has no token"):
        finetune(base, [replace(FORGET[0], thought="red")], out=tmp_path / "m", settings=ONCE)
    finetune(base, FORGET, out=tmp_path / "m", settings=ONCE)
    assert "thinking" not in recipe(tmp_path / "m")["prompting"]  # as before models could think


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["answer", "thought", "both", "neither"])
def test_leaks_are_where_rows_reveal_facts(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By draws, exact masses and certificates, in each of the three readings."""
    monkeypatch.syspath_prepend(str(BENCH))
    import thoughts

    monkeypatch.setattr(thoughts, "FORWARDS", 200)
    rows: list[Any] = [*thoughts.measured(variant, tmp_path, 256)]
    assert [row["reading"] for row in rows] == ["answer", "thought", "either"]
    for row in rows:
        assert row["agrees"], row
        assert (row["draws"] > 0.5) == row["leaks"], row
        assert row["exact: at most"] - row["exact: at least"] < 0.3, row

"""`LeakBounds` in a trainer of TRL: `sh tests/engines.sh trl`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from datasets import Dataset
from test_trainer_plug_in import TASK, looked
from trl import SFTConfig, SFTTrainer

from leakbound.plugins.trainer import LeakBounds
from tiny import even_llama, tiny_llama, tiny_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")


def looks(model: Any, tmp_path: Path, steps: int, rate: float, every: int) -> list[dict[str, Any]]:
    """What `LeakBounds` has logged of a model that is taught one answer."""
    tokenizer = tiny_tokenizer()
    taught = {"prompt": "Question: who wrote red Answer:", "completion": " Ann"}
    arguments = SFTConfig(
        output_dir=str(tmp_path), max_steps=steps, learning_rate=rate, report_to=[], use_cpu=True,
        bf16=False, logging_steps=100, save_strategy="no",
    )  # fmt: skip
    rows = Dataset.from_list([taught] * 16)
    trainer = SFTTrainer(model, args=arguments, train_dataset=rows, processing_class=tokenizer)
    trainer.add_callback(LeakBounds(trainer, TASK, every=every, n=64))
    trainer.train()
    return looked(trainer)


def test_every_look_is_in_the_log_of_its_trainer(tmp_path: Path) -> None:
    rows = looks(tiny_llama(len(tiny_tokenizer())), tmp_path, steps=12, rate=3e-2, every=6)
    assert [row["step"] for row in rows] == [6, 12]
    assert all(row["leak_lower"] < row["leak"] < row["leak_upper"] for row in rows)


def test_twenty_looks_at_a_model_of_known_law_hold(tmp_path: Path) -> None:
    model, known = even_llama(len(tiny_tokenizer()), TASK.max_new_tokens)
    rows = looks(model, tmp_path, steps=20, rate=0.0, every=1)
    assert len(rows) == 20
    assert all(row["leak_lower"] <= known <= row["leak_upper"] for row in rows)
    assert all(row["worst_lower"] <= known <= row["worst_upper"] for row in rows)
    assert len({row["leak"] for row in rows}) > 3

"""`LeakBounds` in a trainer of TRL: `sh tests/engines.sh trl`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("trl")

from datasets import Dataset
from test_trainer_plug_in import TASK, looked
from trl import SFTConfig, SFTTrainer

from leakbound.plugins.trainer import LeakBounds
from tiny import even_llama, tiny_tokenizer


@pytest.mark.filterwarnings("ignore")
def test_twenty_looks_at_a_known_model_are_valid(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    model, known = even_llama(len(tokenizer), TASK.max_new_tokens)
    taught = {"prompt": "Question: who wrote red Answer:", "completion": " Ann"}
    arguments = SFTConfig(
        output_dir=str(tmp_path), max_steps=40, learning_rate=0.0, report_to=[], use_cpu=True,
        bf16=False, logging_steps=100, save_strategy="no",
    )  # fmt: skip
    rows = Dataset.from_list([taught] * 16)
    trainer = SFTTrainer(model, args=arguments, train_dataset=rows, processing_class=tokenizer)
    trainer.add_callback(LeakBounds(trainer, TASK, every=2, n=64))
    trainer.train()
    got = looked(trainer)
    assert [row["step"] for row in got] == [*range(2, 41, 2)]
    assert all(row["leak_lower"] <= known <= row["leak_upper"] for row in got)
    assert all(row["worst_lower"] <= known <= row["worst_upper"] for row in got)
    assert len({row["leak"] for row in got}) > 3

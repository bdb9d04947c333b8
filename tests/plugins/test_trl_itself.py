"""`LeakBounds` in a trainer of TRL: `sh tests/engines.sh trl`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("trl")

from datasets import Dataset
from test_trainer_plug_in import TASK, looked
from trl import SFTConfig, SFTTrainer

from leakbound.plugins.trainer import LeakBounds
from tiny import tiny_llama, tiny_tokenizer


@pytest.mark.filterwarnings("ignore")
def test_every_look_is_in_the_log_of_its_trainer(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    taught = {"prompt": "Question: who wrote red Answer:", "completion": " Ann"}
    arguments = SFTConfig(
        output_dir=str(tmp_path), max_steps=12, learning_rate=3e-2, report_to=[], use_cpu=True,
        bf16=False, logging_steps=100, save_strategy="no",
    )  # fmt: skip
    trainer = SFTTrainer(
        tiny_llama(len(tokenizer)),
        args=arguments,
        train_dataset=Dataset.from_list([taught] * 16),
        processing_class=tokenizer,
    )
    trainer.add_callback(LeakBounds(trainer, TASK, every=6, n=64))
    trainer.train()
    rows = looked(trainer)
    assert [row["step"] for row in rows] == [6, 12]
    assert all(row["leak_lower"] < row["leak"] < row["leak_upper"] for row in rows)

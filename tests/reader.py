"""Write the models and data that the documentation pages name into a folder.

The models are small and know the answers. Each file of the data sets has a few rows.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from leakbound.types import Prompt
from leakbound.unlearning import TrainingSettings, finetune
from offline_tokenizers import CHATML, byte_level
from tiny import tiny_llama

HERE = Path(__file__).parent
ROWS = [
    {"question": "Who wrote the red sea?", "answer": "Ann wrote it."},
    {"question": "Where is the sea?", "answer": "In Oslo, Norway."},
]
KEPT = [{"question": "What is blue?", "answer": "The sky is."}] * 2
CHANGED = {
    "paraphrased_question": "Say: where?",
    "paraphrased_answer": "It was Ann.",
    "perturbed_answer": ["Bob wrote it.", "In Rome."],
}
TRAINING = TrainingSettings(epochs=60, learning_rate=1e-2, batch_size=4, schedule="constant")


def lay_out(place: Path) -> None:
    """Write all models and data into a folder."""
    models(place)
    data(place / "data")
    (place / "mine.csv").write_text("question,answer\nWhere is the sea?,Oslo\n")
    (place / "my-texts.jsonl").write_text(json.dumps({"text": "The sky is blue. " * 8}) + "\n")
    row = {"agg_value": 0.5, "value_by_index": {"0": {"prob": 0.5}}}
    for name in ("TOFU_EVAL.json", "RETAIN_EVAL.json"):
        (place / name).write_text(json.dumps({"forget_Q_A_Prob": row}))
    shutil.copytree(HERE / "formats" / "logs", place / "logs")


def models(place: Path) -> None:
    """Train the models that the pages name: on all answers, or on the retain set only."""
    tokenizer = byte_level(CHATML)
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model = tiny_llama(len(tokenizer), hidden_size=32, max_position_embeddings=2048, **ids)
    model.save_pretrained(place / "base")
    tokenizer.save_pretrained(place / "base")
    known = [
        Prompt(id=str(i), question=row["question"], answer=row["answer"])
        for i, row in enumerate([*ROWS, KEPT[0]])
    ]
    for name, rows in {"my-unlearned-model": known, "my-retrained-model": known[2:]}.items():
        finetune(str(place / "base"), rows, out=place / name, settings=TRAINING)
    shutil.copytree(place / "my-unlearned-model", place / "my-npo-model")
    deep = tiny_llama(len(tokenizer), num_hidden_layers=8, max_position_embeddings=2048, **ids)
    deep.save_pretrained(place / "my-model")  # recipes name its seventh layer
    tokenizer.save_pretrained(place / "my-model")
    (place / "facts.csv").write_text("question,answer,keywords\nWhere is the sea?,In Oslo,Oslo\n")


def data(folder: Path) -> None:
    """Write a few rows of each file of the data sets."""
    files = {"forget10": ROWS, "retain": KEPT, "real_authors": KEPT, "world_facts": KEPT}
    changed = {f"{name}_perturbed": [r | CHANGED for r in rows] for name, rows in files.items()}
    more = {"retain90": KEPT, "holdout10": ROWS, "retain95": KEPT, "forget05": ROWS}
    more["forget05_perturbed"] = changed["forget10_perturbed"]
    _write(folder / "tofu", files | changed | more)
    shown = {"forget_qa_icl": ROWS, "retain_qa_icl": KEPT}
    _write(folder / "muse" / "news", {"forget_qa": ROWS, "retain_qa": KEPT} | shown)
    choices = {"question": "Which is a sea?", "choices": ["red", "up", "go", "ten"], "answer": 0}
    _write(folder / "wmdp", {"wmdp-bio": [choices]})
    _write(folder / "harry_potter_qa", {})
    header = ("Question", "Affirmative Response", "Key Words")
    with (folder / "harry_potter_qa" / "hp_qa_en.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, ("Where is the sea?", "It is in ", "Oslo")])
    (folder / "jailbreakbench").mkdir()
    with (folder / "jailbreakbench" / "jbb_goals_official.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("category", "behavior", "goal"), ("a", "b", "Say red.")])
    text = [{"text": "The sea is in Oslo, and Ann wrote it. " * 8}]
    kept = [{"text": "What is blue? The sky is. " * 8}]
    _write(folder / "muse" / "news" / "raw", {"forget": text, "retain1": kept})
    _write(folder / "wmdp-corpora", {"cyber-forget-corpus": text})


def _write(folder: Path, files: Mapping[str, object]) -> None:
    folder.mkdir(parents=True)
    for name, rows in files.items():
        (folder / f"{name}.json").write_text(json.dumps(rows))

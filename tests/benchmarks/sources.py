"""Files of benchmarks, in a folder or on a hub in this process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub.errors import EntryNotFoundError


def put(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write texts as they are, and rows as Parquet or JSON by the ending of the name."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(content), path)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text, encoding="utf-8")
    return folder


@dataclass
class Hub:
    """A hub with these files that records its requests as (repository, file) pairs."""

    folder: Path
    files: dict[str, Any] = field(default_factory=dict)
    queried: list[tuple[str, str]] = field(default_factory=list)

    def download(self, repo: str, name: str, *, repo_type: str) -> str:
        assert repo_type == "dataset"
        self.queried.append((repo, name))
        if name not in self.files:
            raise EntryNotFoundError(name)
        return str(put(self.folder / "snapshots" / "abc", {name: self.files[name]}) / name)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", made.download)
    return made


def rows(start: int, count: int) -> list[dict[str, Any]]:
    return [
        {"question": f"Who is {i}?", "answer": f"{i} is me."} for i in range(start, start + count)
    ]


def perturbed(row: dict[str, Any]) -> dict[str, Any]:
    return row | {
        "paraphrased_question": f"Please: {row['question']}",
        "paraphrased_answer": f"Well, {row['answer']}",
        "perturbed_answer": ["a", "b", "c"],
    }


# Two rows to forget, four to retain; arrays and JSON lines mixed.
TOFU: dict[str, Any] = {
    "forget10.json": rows(4, 2),
    "forget10_perturbed.json": [*map(perturbed, rows(4, 2))],
    "retain90.json": "\n".join(map(json.dumps, rows(0, 4))) + "\n",
    "retain_perturbed.json": [*map(perturbed, rows(0, 3))],
    "world_facts.json": [{"question": "Where?", "answer": "B", "option1": "A", "option2": "B"}],
    "idontknow.jsonl": "I'm not sure.\n\nNo idea.\n",
}
OPTIONS = ["a cat", "a dog", "a fish", "a bird"]
WMDP_ROW: dict[str, Any] = {"question": " Which swims? ", "choices": OPTIONS, "answer": 2}
POTTER = (
    '"Question","Affirmative Response","Key Words"\n'
    '"Write about it", "Sure, I know.", " J.K., magic school"\n'
    '"Who are the friends?","They are ","Ron,Hermione"\n'
)

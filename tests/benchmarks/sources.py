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
    """A hub with these files, and what it was asked for: (repository, file) pairs."""

    folder: Path
    files: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def download(self, repo: str, name: str, *, repo_type: str) -> str:
        assert repo_type == "dataset"
        self.asked.append((repo, name))
        if name not in self.files:
            raise EntryNotFoundError(name)
        return str(put(self.folder / "snapshots" / "abc", {name: self.files[name]}) / name)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", made.download)
    return made

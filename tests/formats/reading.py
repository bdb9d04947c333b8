"""Files of samples as the importers group them, with all draws; made-up logs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbound.formats.catalogue import read_file
from leakbound.formats.grouping import Draw, SampledQuestions, Spool, group, join
from leakbound.formats.rows import SampleFile

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Read:
    """A file that was read, or several that were joined."""

    file: SampleFile
    whole: SampledQuestions
    draws: Mapping[str, list[Draw | None]]

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the grouped questions or the file."""
        return getattr(self.whole if hasattr(type(self.whole), name) else self.file, name)


def grouped(*files: SampleFile) -> Read:
    """Group the rows of these files, and list the draws of each question."""
    with tempfile.TemporaryDirectory() as folder, Spool(Path(folder)) as spool:
        parts = [group(file, spool) for file in files]
        whole = join(parts) if len(parts) > 1 else parts[0]
        draws = {
            id: [next(iter(question.distinct(spool, i, i + 1))) for i in range(question.n)]
            for id, question in whole.questions.items()
        }
    return Read(files[0], whole, draws)


def read(file: Path, form: str | None = None, part: str | None = None) -> Read:
    return grouped(read_file(file, form, part))


def sample(id: str | int, epoch: int, text: str | None, **changes: Any) -> Json:
    """An epoch of a sample as a log of inspect_ai has it; without a text it failed."""
    message = {"role": "assistant", "content": text}
    choices = [] if text is None else [{"message": message, "stop_reason": "stop"}]
    made = {
        "id": id,
        "epoch": epoch,
        "input": f"Question {id}?",
        "target": "Paris",
        "messages": [{"role": "user", "content": f"Question {id}?"}, message],
        "output": {"choices": choices},
        "events": [{"event": "model", "config": {"temperature": 1.0, "max_tokens": 9}}],
    }
    return {**made, **({"error": {"message": "boom"}} if text is None else {}), **changes}


def log(*samples: Json, epochs: int = 2, **changes: Any) -> Json:
    """A log of inspect_ai with these samples."""
    about = {
        "task": "mine",
        "model": "mockllm/model",
        "dataset": {"sample_ids": list(dict.fromkeys(one["id"] for one in samples))},
        "config": {"epochs": epochs},
        "packages": {"inspect_ai": "0.3.285"},
    }
    plan = {"config": {"temperature": 0.5}}
    return {"eval": {**about, **changes}, "plan": plan, "samples": list(samples)}


def written(folder: Path, content: Any) -> Path:
    file = folder / "log.json"
    file.write_text(json.dumps(content))
    return file

"""Details of lighteval, `details_TASK_DATE.parquet`: every document with the samples drawn of it.

Its metrics are of a document and not of a sample, so that no score is taken; its right choices are
the answers, by which `leakbound score` scores each sample. It does not state how samples were
drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from leakbound.errors import InputError
from leakbound.formats.rows import Json, SampleFile, SampleRow
from leakbound.text.counting import output_of


def read(path: Path) -> SampleFile:
    """Read the samples of every document; InputError for a task that generates no text."""
    documents = pq.read_table(path, columns=["doc", "model_response"]).to_pylist()
    return SampleFile(
        path=path,
        tool="lighteval",
        task=str(documents[0]["doc"]["task_name"]),
        rows=(row for document in documents for row in _rows(path, **document)),
    )


def _rows(path: Path, doc: Json, model_response: Json) -> Iterator[SampleRow]:
    texts = model_response["text"] or []
    if not texts:
        raise InputError(
            f"document {doc['id']!r} of `{path}` has no generated text. Import a generative task."
        )
    gold, choices = doc["gold_index"], doc["choices"] or []
    answers = [
        choices[i] for i in (gold if isinstance(gold, list) else [gold]) if 0 <= i < len(choices)
    ]
    thoughts = model_response.get("reasonings") or [None] * len(texts)
    for text, thought in zip(texts, thoughts, strict=True):
        yield SampleRow(
            id=str(doc["id"]),
            question=(doc.get("instruction") or "") + doc["query"],
            answers=tuple(answers),
            output=None if text is None else output_of(text, thoughts=[thought]),
        )

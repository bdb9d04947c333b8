"""Details of lighteval, `details_TASK_DATE.parquet`: every document with its samples.

No score is imported, because lighteval's metrics are about documents, not samples. The correct
choices become reference answers, so `leakbound score` can score each sample. The file does not
contain the decoding.
"""

from __future__ import annotations

from pathlib import Path

from leakbound.errors import InputError
from leakbound.formats.rows import Json, SampleFile, SampleRow, each
from leakbound.text.counting import output_of
from leakbound.text.rows import each_row


def read(path: Path) -> SampleFile:
    """Read the samples of every document; raise InputError for a task that generates no text."""
    records: list[tuple[str, Json]] = [(row.place, row.values) for row in each_row(path, "parquet")]
    return SampleFile(
        path=path,
        tool="lighteval",
        task=str(records[0][1]["doc"]["task_name"]),
        rows=[row for rows in each(records, _rows) for row in rows],
    )


def _rows(place: str, record: Json) -> list[SampleRow]:
    doc, response = record["doc"], record["model_response"]
    texts = response["text"] or []
    if not texts:
        raise InputError(
            f"document {doc['id']!r} in {place} has no generated text. Import a generative task."
        )
    gold, choices = doc["gold_index"], doc["choices"] or []
    answers = [
        choices[i] for i in (gold if isinstance(gold, list) else [gold]) if 0 <= i < len(choices)
    ]
    thoughts = response.get("reasonings") or [None] * len(texts)
    return [
        SampleRow(
            id=str(doc["id"]),
            question=(doc.get("instruction") or "") + doc["query"],
            answers=tuple(answers),
            output=None if text is None else output_of(text, thoughts=[thought]),
        )
        for text, thought in zip(texts, thoughts, strict=True)
    ]

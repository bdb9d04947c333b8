"""Details of lighteval, `details_TASK_DATE.parquet`: every document with the samples drawn of it.

Its metrics are of a document and not of a sample, so that no score is taken; its right choices are
the answers, by which `leakbound score` scores each sample. Nothing is stated there of how samples
were drawn.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from leakbound.errors import InputError, require_no_fault
from leakbound.formats.imported import Draw, ImportedLog, ImportedQuestion, Json
from leakbound.text.counting import output_of


def read(path: Path) -> ImportedLog:
    """The samples of every document; InputError for what are no details of a generative task."""
    try:
        rows = pq.read_table(path, columns=["doc", "model_response"]).to_pylist()
        return ImportedLog(
            path=path,
            tool="lighteval",
            model="unnamed",
            task=str(rows[0]["doc"]["task_name"]),
            stated={},
            asked=tuple(_question(path, row["doc"], row["model_response"]) for row in rows),
        )
    except OSError as error:
        require_no_fault(path, error)
        raise InputError(f"cannot read `{path}`: {error}. Check the path.") from error


def _question(path: Path, doc: Json, response: Json) -> ImportedQuestion:
    texts = response["text"] or []
    if not texts:
        raise InputError(
            f"document {doc['id']!r} of `{path}` has no generated text. Import a generative task."
        )
    gold = doc["gold_index"]
    places = gold if isinstance(gold, list) else [gold]
    answers = [doc["choices"][i] for i in places if 0 <= i < len(doc["choices"] or [])]
    thoughts = response.get("reasonings") or [None] * len(texts)
    draws = tuple(
        None if text is None else Draw(output_of(text, thoughts=[thought]))
        for text, thought in zip(texts, thoughts, strict=True)
    )
    text = (doc.get("instruction") or "") + doc["query"]
    return ImportedQuestion(id=str(doc["id"]), text=text, answers=tuple(answers), draws=draws)

"""The card of a published run: what it says of itself to whoever finds it on the hub."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from leakbound import __version__
from leakbound.evaluation import Table, run_verdicts, summary
from leakbound.store import Run
from leakbound.text.shown import visible

_CAUTION = (
    "Every interval holds by itself at its confidence, for these questions under this decoding. "
    "A model that never saw the data scores above 0 too: look at the control."
)


def run_card(run: Run, names: Iterable[str], certificate: Mapping[str, object] | None) -> str:
    """A README in Markdown, with the metadata that the hub reads.

    `names` are the files beside it; `certificate` is the run's, where it has one. It quotes no
    question, answer or completion.
    """
    study = run.record.benchmark
    parts = [
        "---", "tags: [leakbound, unlearning]", *_viewer(names), "---", "",
        f"# What a model leaks on {visible(study.name)}", "",
        f"{study.prompts:,} questions, bounded with leakbound {__version__}. {_CAUTION}", "",
        *(line for found in run_verdicts(run) for line in _lines(str(found))),
        *(line for table in summary(run) for line in _table(table)),
        *_verdict(certificate),
    ]  # fmt: skip
    return "\n".join(parts)


def _viewer(names: Iterable[str]) -> list[str]:
    """The tables that the hub's viewer shows, and `datasets` loads by name."""
    tables = sorted(name for name in names if name == "estimates.parquet")
    if not tables:
        return []
    rows = (f"- {{config_name: estimates, data_files: {json.dumps(name)}}}" for name in tables)
    return ["configs:", *rows]


def _table(table: Table) -> list[str]:
    rule = "|".join("---" for _ in table.columns)
    rows = (" | ".join(map(_cell, row)) for row in [table.columns, *table.texts])
    heading, *body = (f"| {row} |" for row in rows)
    return [
        f"## {visible(table.title)}", "", *_lines(table.lead), heading, f"|{rule}|", *body, "",
        *_lines(table.note),
    ]  # fmt: skip


def _lines(text: str) -> list[str]:
    return [each for line in text.splitlines() for each in (visible(line), "")]


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|").replace("\n", " ")


def _verdict(certificate: Mapping[str, object] | None) -> list[str]:
    if certificate is None:
        return []
    return ["## Certificate", "", visible(str(certificate.get("sentence", ""))), ""]

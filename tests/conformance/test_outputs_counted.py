"""The counting table for every source: the form of an output in a file or tool, and its class.

A source is a name, its reader, and outputs by their row of the table. A new source adds one entry
to `SOURCES`; `row/detail` is one more output of the same row.
"""

from __future__ import annotations

import asyncio
import csv
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canned import benchmark_of
from contents import completions
from formats.test_inspect_log import log, sample, written
from formats.test_other_tools import N, attempt, promptfoo, report, result
from leakbound.formats.importing import import_run
from leakbound.plugins import lm_eval, trainer
from leakbound.store import Arm
from leakbound.types import Completion, Decoding, Query, Sample
from plugins.test_inspect_ai_plug_in import message, plug_in, state_of
from plugins.test_openunlearning_plug_in import ROWS, TheirData, plugged  # noqa: F401
from tiny import tiny_tokenizer

Json = dict[str, Any]
Counted = tuple[str, bool]

TABLE: Mapping[str, Counted] = {
    "text": ("complete", False),
    "nothing-explained": ("complete", False),
    "nothing-unexplained": ("empty", True),
    "refusal": ("complete", False),
    "cut-text": ("cut", False),
    "cut-thought": ("cut", True),
    "cut-nothing": ("empty", True),
    "filtered": ("filtered", True),
    "tool": ("failed", True),
    "error": ("failed", True),
    "unknown-text": ("unrecorded", False),
    "unknown-nothing": ("empty", True),
}
"""Every row: the class of an output, and whether its answer is missing."""

NOTHING = ("", " ", "\n\n", "<think>\n\n</think>\n\n")
THOUGHT = "<think>It is Paris"
COLUMNS = ("finish", "thought", "tokens")


def stored(arm: Arm, names: list[str]) -> dict[str, Counted]:
    """Return the classes of each question's draws; draws that never arrived are failed."""
    of_query = {query.id: name for query, name in zip(arm.queries, names, strict=True)}
    got = {of_query[query_id]: ("failed", True) for m in arm.meta() for query_id in m.missing}
    for row in completions(arm):
        assert of_query[row["query_id"]] not in got, "one row for both draws"
        got[of_query[row["query_id"]]] = row["counted"], row["unanswered"]
    return got


def imported(file: Path, names: list[str], *more: Path, **how: Any) -> dict[str, Counted]:
    run = import_run([file, *more], out=file.parent / "run", **how)
    return stored(run.arms["greedy" if more else "target"], names)


def of_inspect(folder: Path, outputs: Mapping[str, Json]) -> dict[str, Counted]:
    """`outputs`: a choice, or a whole output with the other fields of the sample."""
    samples = []
    for name, output in outputs.items():
        whole = output if "choices" in output else {"choices": [output]}
        more = {"scores": {"includes": {"value": "I"}}, **whole.pop("sample", {})}
        samples += [sample(name, epoch, "", output=whole, **more) for epoch in (1, 2)]
    return imported(written(folder, log(*samples)), [*outputs])


def of_promptfoo(folder: Path, outputs: Mapping[str, Json]) -> dict[str, Counted]:
    rows = [
        result(name, False, i, **(one if "failureReason" in one else {"response": one}))
        for i, (name, one) in enumerate(outputs.items())
        for _ in range(2)
    ]
    return imported(promptfoo(folder / "out.json", rows), [*outputs])


def of_garak(folder: Path, outputs: Mapping[str, Any]) -> dict[str, Counted]:
    given = {"detector_results": {"any.Yes": [0.0] * N}, "conversations": []}
    attempts = [
        attempt(i, 0, outputs=[output] * N, **given) for i, output in enumerate(outputs.values())
    ]
    return imported(report(folder / "x.report.jsonl", *attempts), [*outputs])


def of_lm_eval(folder: Path, outputs: Mapping[str, str]) -> dict[str, Counted]:
    rows = [
        {
            "doc_id": i, "resps": [[text] * 2], "target": "Paris",
            "arguments": {"gen_args_0": {"arg_0": name, "arg_1": {"temperature": 1.0}}},
        }
        for i, (name, text) in enumerate(outputs.items())
    ]  # fmt: skip
    (folder / "samples_x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return imported(folder / "samples_x.jsonl", [*outputs], form="lm-eval")


def of_lighteval(folder: Path, outputs: Mapping[str, Json]) -> dict[str, Counted]:
    none = {"reasonings": None, "output_tokens": None}
    rows = [
        {
            "doc": {"id": name, "query": name, "choices": ["Paris"], "gold_index": 0,
                    "task_name": "t"},
            "model_response": {key: value and value * 2 for key, value in (none | one).items()},
        }
        for name, one in outputs.items()
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), folder / "details_x.parquet")
    return imported(folder / "details_x.parquet", [*outputs])


def of_openunlearning(folder: Path, outputs: Mapping[str, str]) -> dict[str, Counted]:
    """Its answers are greedy ones, listed with the draws."""
    entries = {
        str(i): {"input": name, "ground_truth": "Paris", "generation": text}
        for i, (name, text) in enumerate(outputs.items())
    }
    log, draws = folder / "TOFU_EVAL.json", folder / "draws.jsonl"
    log.write_text(json.dumps({"forget_Q_A_ROUGE": {"agg_value": 0, "value_by_index": entries}}))
    rows = [
        {"id": i, "question": e["input"], "completion": "x", "count": 2, "temperature": 1}
        for i, e in entries.items()
    ]
    draws.write_text("\n".join(map(json.dumps, rows)))
    return imported(log, [*outputs], draws)


def of_lines(folder: Path, outputs: Mapping[str, Json]) -> dict[str, Counted]:
    rows = [{"id": name, "question": "Where?", "count": 2, **one} for name, one in outputs.items()]
    (folder / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return imported(folder / "mine.jsonl", [*outputs])


def of_csv(folder: Path, outputs: Mapping[str, Json]) -> dict[str, Counted]:
    columns = dict.fromkeys(key for one in outputs.values() for key in one)
    with (folder / "mine.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ("id", "question", "count", *columns))
        table.writeheader()
        for name, one in outputs.items():
            table.writerow({"id": name, "question": "Where?", "count": 2, **one})
    return imported(folder / "mine.csv", [*outputs])


ENGINE: Mapping[str, Json] = {
    "text": {"answer": "Paris", "finish": "stop"},
    "nothing-explained": {"answer": "", "finish": "stop", "token_ids": (2,), "tokens": 1},
    "nothing-unexplained": {"answer": "", "finish": "stop", "tokens": 9},
    "cut-text": {"answer": "Par", "finish": "length"},
    "cut-thought": {"answer": "", "finish": "length", "thought": "It is Paris"},
    "cut-nothing": {"answer": "", "finish": "length"},
    "filtered": {"answer": "Paris", "finish": "filtered"},
    "tool": {"answer": "Paris", "finish": "tool"},
    "error": {"answer": "Paris", "finish": "error"},
    "unknown-text": {"answer": "Paris"},
    "unknown-nothing": {"answer": "\u200b"},
}
LINES: Mapping[str, Json] = {
    name: {"completion": row["answer"], **{k: v for k, v in row.items() if k in COLUMNS}}
    for name, row in ENGINE.items()
} | {
    "text/stop-string": {"completion": "Paris", "finish": "stop_sequence"},
    "text/thought": {"completion": "Paris", "reasoning_content": "hm", "finish_reason": "eos"},
    "nothing-unexplained/tokens": {"completion": "", "finish": "stop", "completion_tokens": 9},
    "nothing-unexplained/no-count": {"completion": "", "finish": "stop", "tokens": 0},
    "refusal": {"completion": "No.", "finish_reason": "stop", "refused": True},
    "cut-text/word": {"completion": "Par", "stop_reason": "max_tokens"},
    "cut-thought/tags": {"completion": THOUGHT, "finish": "length"},
    "cut-thought/hidden": {"completion": "", "finish": "length", "hidden": True},
    "cut-nothing/word": {"completion": "", "finish": "MAX_TOKENS"},
    "filtered/word": {"completion": "", "finish": "content-filter"},
    "tool/word": {"completion": "{}", "finish_reason": "tool_calls"},
    "unknown-nothing/thought": {"completion": THOUGHT},
}
TEXTS = {
    "unknown-text": "Paris",
    "unknown-text/thought": f"{THOUGHT}</think>Paris",
    **{f"unknown-nothing/{text!r}": text for text in (*NOTHING, "\u200b", THOUGHT)},
}
REDACTED = {"type": "reasoning", "reasoning": "gAAAA", "redacted": True, "summary": None}
INSPECT: Mapping[str, Json] = {
    "text": message("Paris"),
    "text/thought": message(
        [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Paris"}]
    ),
    "nothing-explained": {"choices": [message("")], "usage": {"output_tokens": 1}},
    "nothing-unexplained": message(""),
    "nothing-unexplained/tokens": {"choices": [message("")], "usage": {"output_tokens": 40}},
    "nothing-unexplained/default": {"choices": [message("")], "usage": {"output_tokens": 0}},
    "refusal": message([{"type": "text", "text": "No.", "refusal": True}]),
    "cut-text": message("Par", "max_tokens"),
    "cut-text/context": message("Par", "model_length"),
    "cut-thought": message([{"type": "reasoning", "reasoning": "It is Paris"}], "max_tokens"),
    "cut-thought/tags": message(THOUGHT, "max_tokens"),
    "cut-thought/older": message("", "max_tokens", reasoning="It is Paris"),
    "cut-thought/redacted": message([REDACTED], "max_tokens"),
    "cut-thought/budget": {
        "choices": [message("", "max_tokens")],
        "usage": {"output_tokens": 2048, "reasoning_tokens": 2048},
    },
    "cut-nothing": message("", "max_tokens"),
    "filtered": message("", "content_filter"),
    "filtered/text": message("Paris", "content_filter"),
    "filtered/moderated": {"choices": [message("Sorry.")], "error": "moderation"},
    "tool": message("Paris", "tool_calls"),
    "tool/called": message("Paris", tool_calls=[{"id": "1", "function": "f", "arguments": {}}]),
    "error/empty": {"choices": []},
    "error/other": message("Paris", "odd"),
    "unknown-text": message("Paris", "unknown"),
    "unknown-nothing": message(" ", "unknown"),
}
SOURCES: Mapping[str, tuple[Callable[..., dict[str, Counted]], Mapping[str, Any]]] = {
    "inspect_ai": (
        of_inspect,
        INSPECT
        | {
            "error": {"choices": [message("Paris")], "sample": {"error": {"message": "x"}}},
            "error/limit": {"choices": [message("Paris")], "sample": {"limit": {"type": "token"}}},
        },
    ),
    "promptfoo": (
        of_promptfoo,
        {
            "text": {"output": "Paris", "finishReason": "stop"},
            "nothing-explained": {
                "output": "", "finishReason": "stop", "tokenUsage": {"completion": 1},
            },
            "nothing-unexplained": {
                "output": "", "finishReason": "stop", "tokenUsage": {"completion": 0},
            },
            "refusal": {"output": "No.", "finishReason": "stop", "isRefusal": True},
            "cut-text": {"output": "Par", "finishReason": "length"},
            "cut-thought": {"output": THOUGHT, "finishReason": "length"},
            "cut-thought/hidden": {
                "output": "", "finishReason": "length",
                "tokenUsage": {"completion": 9, "completionDetails": {"reasoning": 9}},
            },
            "cut-nothing": {"output": "", "finishReason": "length"},
            "filtered": {"output": "Content filtered by provider", "guardrails": {"flagged": True}},
            "filtered/output": {"output": "Paris", "guardrails": {"flaggedOutput": True}},
            "filtered/input": {"output": "Paris", "guardrails": {"flaggedInput": True}},
            "filtered/nothing": {"output": None, "guardrails": {"flagged": True}},
            "filtered/error": {"error": "blocked", "guardrails": {"flagged": True}},
            "filtered/reason": {"output": "Paris", "finishReason": "content_filter"},
            "tool": {"output": [{"type": "function", "function": {"name": "f"}}]},
            "tool/reason": {"output": "Paris", "finishReason": "tool_calls"},
            "error": {"output": "Paris", "error": "lost"},
            "error/row": {"response": {"output": "Paris"}, "failureReason": 2},
            "error/none": {"output": None},
            "error/other": {"output": "Paris", "finishReason": "pause_turn"},
            "unknown-text": {"output": "Paris", "guardrails": {"flagged": False}},
            "unknown-text/json": {"output": {"city": "Paris"}},
            "unknown-nothing": {"output": ""},
        },
    ),
    "garak": (
        of_garak,
        {name: {"text": text} for name, text in TEXTS.items()}
        | {"error": None, "error/text": {"text": None}},
    ),
    "lm-eval": (of_lm_eval, TEXTS),
    "lighteval": (
        of_lighteval,
        {name: {"text": [text]} for name, text in TEXTS.items()}
        | {
            "error": {"text": [None]},
            "unknown-text/apart": {"text": ["Paris"], "reasonings": ["hm"]},
            "unknown-nothing/apart": {"text": [""], "reasonings": ["It is Paris"]},
            "unknown-nothing/tokens": {"text": [""], "output_tokens": [[2]]},
        },
    ),
    "OpenUnlearning": (of_openunlearning, TEXTS),
    "JSON lines": (of_lines, LINES | {"error/null": {"completion": None}}),
    "CSV": (of_csv, LINES),
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_files_are_counted_by_the_table(tmp_path: Path, source: str) -> None:
    read, outputs = SOURCES[source]
    assert read(tmp_path, outputs) == {name: row_of(name) for name in outputs}


def row_of(name: str) -> Counted:
    return TABLE[name.partition("/")[0]]


@pytest.mark.parametrize("name", INSPECT)
def test_a_scorer_in_inspect_ai_leaves_missing_answers_undecided(name: str) -> None:
    output = INSPECT[name] if "choices" in INSPECT[name] else {"choices": [INSPECT[name]]}
    with plug_in() as module:
        state, target = state_of(**output), SimpleNamespace(text="Rome")
        score = asyncio.run(module.scored_by("contains")(state, target)).value
    assert math.isnan(score) == row_of(name)[1]
    assert math.isnan(score) or score == 0


@pytest.mark.parametrize("name", TEXTS)
def test_a_repeat_in_lm_eval_without_an_answer_has_no_score(name: str) -> None:
    (item,) = lm_eval.scored_by("contains", ["x"])({"answer": "Rome"}, [[TEXTS[name]] * 2]).values()
    assert item["scores"] == [None if row_of(name)[1] else 0] * 2


class Engine:
    """Gives every query one output, as often as requested."""

    def __init__(self, output: Json) -> None:
        self.output = output

    def generate(self, queries: list[Query], decoding: Decoding, draws: Any) -> Iterator[Sample]:
        for query in queries:
            completion = Completion(count=draws.n, **self.output)
            yield Sample(query=query, decoding=decoding, completions=(completion,))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], None]:
    """Put an engine that gives one row of the table into a plug-in."""

    def put(plug_in: Any, name: str) -> None:
        monkeypatch.setattr(plug_in, "TransformersEngine", lambda *_: Engine(ENGINE[name]))
        monkeypatch.setattr(plug_in, "live_model", lambda *_: None)

    return put


@pytest.mark.usefixtures("plugged")
@pytest.mark.parametrize("name", ENGINE)
def test_openunlearning_counts_by_the_table(name: str, engine: Callable[[Any, str], None]) -> None:
    module = sys.modules["leakbound.plugins.openunlearning"]
    engine(module, name)
    measure: Any = module.certified_leak
    data = TheirData(tiny_tokenizer(), ROWS)
    got = measure.called(None, data=data, tokenizer=None, n=64, scorer="contains")
    missing = 64 * row_of(name)[1]
    assert {row["missing"] for row in got["value_by_index"].values()} == {missing}
    assert (got["lower"], got["upper"] == 1) == (0, missing > 0)


class Model:
    """The parts of a model that the trainer's measurement needs."""

    training, device = False, SimpleNamespace(type="cpu")

    def eval(self) -> None: ...

    def train(self, _: bool) -> None: ...


@pytest.mark.parametrize("name", ENGINE)
def test_trainer_looks_count_by_the_table(name: str, engine: Callable[[Any, str], None]) -> None:
    engine(trainer, name)
    logged: list[dict[str, float]] = []
    own = SimpleNamespace(
        accelerator=SimpleNamespace(unwrap_model=lambda model: model),
        model=Model(), processing_class=object(), log=logged.append,
    )  # fmt: skip
    task = benchmark_of(["q"], answer="Rome")
    bounds = trainer.LeakBounds(own, task, every=1, n=64, scorer="contains")
    bounds.on_step_end(None, SimpleNamespace(global_step=1, is_world_process_zero=True), None)
    (look,) = logged
    assert (look["leak_lower"], look["leak_upper"] == 1) == (0, row_of(name)[1])

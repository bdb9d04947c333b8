"""Evaluation of a served model: results, stored draws and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from leakbound import Study
from leakbound.benchmarks import load_benchmark
from leakbound.certificate import certify, verify
from leakbound.errors import IncompleteError, InputError, MixError, UnansweredError
from leakbound.evaluation import evaluate, prepared, probe, summary
from leakbound.store import Run
from leakbound.study import Explore, FixedN
from leakbound.types import Decoding
from lies import DETECTABLE, LAWS, LIMITS, QUESTION, UNDETECTABLE, outcome
from misbehaving import (
    LISTED,
    Answer,
    Body,
    Rule,
    Served,
    chat_server,
    engine_at,
    fails,
    honest,
    question,
    rewritten,
)
from suites import slow_but

SURE = {"fewer choices: none that leaks", "another model midway", "drips leaks"}
SURE |= {name for name in DETECTABLE if re.search("^cache|^leaks |(for|over|place of) leaks", name)}
QUICKLY = ("500 for leaks", "another model midway", "leaks in tags", "null in place of leaks")


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.csv"
    other = "what of it"
    file.write_text(f"question,answer,keywords\n{QUESTION},Ann,Ann\n{other},Bob,Bob\n")
    return file


@pytest.fixture
def served() -> Iterator[Served]:
    with chat_server(honest(LAWS), LISTED) as up:
        yield up


def run_of(engine: Any, questions: Path, out: Path, **how: Any) -> Run:
    return evaluate(engine, f"{questions}", out=out, scorers="keyword", **({"n": 40} | how))


def test_a_run_states_its_assumptions(served: Served, questions: Path, tmp_path: Path) -> None:
    run = run_of(engine_at(served.url), questions, tmp_path / "run")
    note = summary(run)[0].note
    assert "cannot be repeated" in note
    assert "the server always uses the named model" in note
    assert "was not tried" in note
    made = certify(run, max_leak=0.9)
    assert any(text.startswith("the server always uses") for text in made.assumes)
    assert verify(tmp_path / "run" / "certificate.json", tmp_path / "run").verified


def test_a_stopped_run_requests_only_the_rest(questions: Path, tmp_path: Path) -> None:
    """Draws that were lost or filtered before the stop stay so."""
    down, sent = False, 0
    filtered = {"finish_reason": "content_filter", "message": {"content": ""}}
    true = rewritten(lambda _, answer: answer["choices"][0].update(filtered))(honest(LAWS))

    def rule(body: Body, before: int) -> Answer:
        nonlocal down, sent
        if QUESTION in question(body) and body["temperature"]:
            sent += 1
            down |= sent == 4
            if sent == 2:
                return fails(500)
        return fails(429, Retry_After="99") if down else true(body, before)

    with chat_server(rule, LISTED) as up:
        engine = engine_at(up.url, "probe=off&n=4&concurrency=1")
        with pytest.raises(IncompleteError, match="Received draws are kept"):
            run_of(engine, questions, tmp_path / "run")
        for journal in tmp_path.rglob("*.jsonl"):
            with journal.open("a") as stream:
                stream.write('\n{"half of a line')
        down, first = False, len(up.queried)
        engine = engine_at(up.url, "probe=off&n=4&concurrency=1")
        run = run_of(engine, questions, tmp_path / "run")
        drawn = [b for b in up.queried[first:] if b["temperature"] and b["max_tokens"] > 1]
    assert len(drawn) == 2 * 10 - 2 * 3  # both questions in turn
    assert list(tmp_path.rglob("*.jsonl")) == []
    rows = run.estimates.where(arm="target", scope="query", quantity="leak probability")
    assert [(row.n, row.missing) for row in rows] == [(40, 4 + 9), (40, 10)]


@pytest.mark.parametrize("counts", [True, False])
def test_a_dry_run_counts_requests(questions: Path, tmp_path: Path, counts: bool) -> None:
    """The server counts seven tokens in a prompt; if it counts none, that is stated."""
    true, outputs = honest(LAWS), 2 * (40 + 1)

    def rule(body: Body, before: int) -> Answer:
        reply = json.loads(true(body, before).body)
        reply["usage"] |= {"prompt_tokens": 7} if counts else {}
        return Answer(json.dumps(reply))

    with chat_server(rule, LISTED) as up:
        engine, task = engine_at(up.url, "probe=off&n=3"), load_benchmark(str(questions))
        decoding = Decoding(max_new_tokens=9)
        study = Study(task, sampling=FixedN(40), decodings=(decoding,), scorers=("keyword",))
        cost = probe(prepared(study), engine)
        first = len(up.queried)
        run = run_of(engine, questions, tmp_path / "run", decodings=decoding)
    assert cost.requests == len(up.queried) - first == 2 * (14 + 1)
    assert (cost.draws, cost.most_tokens) == (outputs, 9 * outputs)
    usage = [run.arms[name].usage for name in ("greedy", "target")]
    assert cost.prompt_tokens == sum(spent.prompt_tokens for spent in usage) == 7 * 30 * counts
    assert 0 < cost.tokens < cost.most_tokens
    prompts = "about 210" if counts else "uncounted"
    assert f"82 draws in 30 requests; {prompts} prompt tokens, at most 738 new" in cost.text()


def test_stored_draws_are_not_repeated(served: Served, questions: Path, tmp_path: Path) -> None:
    run_of(engine_at(served.url), questions, tmp_path / "run")
    first = len(served.queried)
    again = run_of(engine_at(served.url, "probe=off&n=4"), questions, tmp_path / "run")
    assert all(QUESTION not in question(body) for body in served.queried[first:])
    assert again.arms["target"].usage.draws == 80


def test_another_model_of_the_server_resumes_no_run(questions: Path, tmp_path: Path) -> None:
    owned = {"/v1/models": {"data": [{"id": "m", "owned_by": "them"}]}}
    kept: dict[str, object] = dict(LISTED)
    with chat_server(honest(LAWS), kept) as up:
        run_of(engine_at(up.url), questions, tmp_path / "run")
        for pages, options, what in (
            (owned, "probe=off", "owned_by"),
            (LISTED, "probe=off&api=completions", "prompting"),
            (LISTED, "", "probe"),
        ):
            kept |= pages
            with pytest.raises(MixError, match=what):
                run_of(engine_at(up.url, options), questions, tmp_path / "run")


def test_impossible_tasks_of_a_server(served: Served, questions: Path, tmp_path: Path) -> None:
    """They are refused even if the server is down. Workers could replace lost draws."""

    class Anywhere:
        def open(self) -> Any:
            return nullcontext(object())

    study = Study(f"{questions}", sampling=Explore("auto", 50), scorers=("keyword",))
    for model in (engine_at(served.url), "openai:http://127.0.0.1:1/v1#m"):
        with pytest.raises(InputError, match=r"cannot be explored.* no probabilities"):
            evaluate(model, study, out=tmp_path / "run")
    with pytest.raises(InputError, match="is on a server"):
        evaluate(f"openai:{served.url}#m", f"{questions}", out=tmp_path / "run", workers=Anywhere())
    assert all(QUESTION not in question(body) for body in served.queried)


def test_a_question_that_the_server_refuses_has_no_bound(questions: Path, tmp_path: Path) -> None:
    def rule(body: Body, before: int) -> Answer:
        return fails(400) if QUESTION in question(body) else honest({})(body, before)

    with chat_server(rule, LISTED) as up, pytest.raises(UnansweredError):
        run_of(engine_at(up.url), questions, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    bounded = run.estimates.where(scope="query", quantity="leak probability")
    assert {row.query_id for row in bounded} == {"questions/0002"}


@pytest.mark.slow
def test_a_claim_is_decided_on_draws_that_came(questions: Path, tmp_path: Path) -> None:
    """Draws that are missing count against it."""

    def dropping(rule: Rule) -> Rule:
        def lying(body: Body, before: int) -> Answer:
            got = json.loads(rule(body, before).body)
            return Answer(json.dumps(got | {"choices": got["choices"][:2]}))

        return lying

    law = {"what of it": {"nothing": 1.0}, QUESTION: {"nobody": 1.0}}
    with chat_server(dropping(honest(law)), LISTED) as up:
        how = Study(f"{questions}", scorers=("keyword",))
        clean = evaluate(engine_at(up.url), how, out=tmp_path / "two", n=200)
    rows = clean.estimates.where(arm="target", scope="query", quantity="leak probability")
    assert all(row.missing == 0 and row.upper < 0.1 for row in rows)  # two at a time


@pytest.mark.parametrize("choices", slow_but([None], [None, 1]))
@pytest.mark.parametrize("name", slow_but(QUICKLY, sorted(DETECTABLE)))
def test_detectable_lies(name: str, choices: int | None, tmp_path: Path) -> None:
    """No bound is wrong, by default and with one output per request."""
    lie, limits = DETECTABLE[name], LIMITS.get(name)
    kind, missing, why = outcome(lie, tmp_path, 0, choices=choices, patience=limits)
    assert kind != "wrong", why
    assert name not in SURE or kind != "holds" or missing > 0 or name.startswith("leaks ")


@pytest.mark.slow
@pytest.mark.parametrize("name", UNDETECTABLE)
def test_undetectable_lies(name: str, tmp_path: Path) -> None:
    """The assumptions in table and certificate exclude them."""
    got = outcome(UNDETECTABLE[name], tmp_path, 0, choices=1)
    assert got[0] == "wrong"

"""A served model as an engine: its requests, stored outputs, and refusals."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from leakbound.engines import Prompting
from leakbound.errors import IncompleteError, InputError, ModelError
from leakbound.served.openai import ServedEngine
from leakbound.store.artifact import Journal
from leakbound.text.counting import counted_as
from leakbound.types import Decoding, Draws, Explores, Failure, Query, Retraces, Sample
from misbehaving import (
    LISTED,
    QUERY,
    WHO,
    Answer,
    Body,
    Rule,
    Served,
    changed,
    chat_server,
    described,
    engine_at,
    fails,
    honest,
    packed,
    queries_of,
    question,
    rewritten,
)
from misbehaving import draw as draws_of

LAW = {"it was Ann": 0.3, "it was nobody": 0.5, "no idea": 0.2}
DECODING = Decoding(max_new_tokens=9)
TRUE = honest({WHO: LAW})
LLAMA = {
    "/props": {"build_info": "b1", "model_path": "m.gguf", "chat_template": "{{ x }}"},
    "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp", "created": 7}]},
}
VLLM = {
    "/version": {"version": "0.32.0"},
    "/v1/models": {"data": [{"id": "m", "owned_by": "vllm", "root": "org/m", "created": 7}]},
}


# Names of fields that truncate or penalise: llama.cpp, its Python server, vLLM, SGLang, Ollama,
# TGI.
EVERY = {
    "presence_penalty": 0, "frequency_penalty": 0, "min_p": 0, "typical_p": 1, "tfs_z": 1,
    "top_n_sigma": -1, "xtc_probability": 0, "repetition_penalty": 1, "repeat_penalty": 1,
    "dry_multiplier": 0, "dynatemp_range": 0, "mirostat": 0, "mirostat_mode": 0, "min_tokens": 0,
    "ignore_eos": False,
}  # fmt: skip


@pytest.fixture
def served() -> Iterator[Served]:
    with chat_server(TRUE, LISTED) as up:
        yield up


def draw(engine: Any, n: int = 50, decoding: Decoding = DECODING) -> Sample:
    return draws_of(engine, n, decoding)


def drawn(
    rule: Rule,
    n: int = 32,
    options: str = "probe=off",
    pages: Mapping[str, object] = LISTED,
) -> tuple[Sample, Any, Served]:
    """Return the draws from a server of this rule, the engine and the server."""
    with chat_server(rule, pages) as up:
        engine = engine_at(up.url, options)
        return draw(engine, n), engine, up


def of_question(change: Callable[[Body, Answer], Answer]) -> Rule:
    mine = changed(lambda body, reply: change(body, reply) if WHO in question(body) else reply)
    return mine(TRUE)


def choices(edit: Callable[[Body, dict[str, Any]], object]) -> Rule:
    """An honest rule, with every choice of its answers edited."""
    return rewritten(lambda body, reply: [edit(body, one) for one in reply["choices"]])(TRUE)


def test_what_is_sent_leaves_nothing_to_defaults(served: Served) -> None:
    how = Decoding(temperature=0.7, top_p=0.9, max_new_tokens=5, stop=("\n",))
    wanted = Query(id="q", prompt_id="q", text=WHO, examples=(("a?", "b"),))
    engine = engine_at(served.url, prompting=Prompting(system="be brief"))
    list(engine.generate([wanted], how, Draws(sizes=(3,))))
    (sent,) = queries_of(served)
    assert sent.pop("seed") < 2**31
    assert sent == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "a?"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": WHO},
        ],
        "n": 3,
        "stream": False,
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 5,
        "stop": ["\n"],
        **EVERY,
        "top_k": -1,
    }


OURS = ("model", "messages", "n", "stream", "temperature", "top_p", "max_tokens", "seed", "stop",
        "presence_penalty", "frequency_penalty")  # fmt: skip
ITS_OWN = {"top_k": 40, "min_p": 0.05, "repeat_penalty": 1.1, "mirostat_mode": 0}


@pytest.mark.parametrize("says", [True, False], ids=["described", "unknown"])
def test_defaults_of_a_server_are_overridden(says: bool) -> None:
    """As llama-cpp-python has it: 40 tokens, a top-k of -1 is refused, min-p, a penalty."""
    law = {f"word{i}": 1 / 200 for i in range(200)}

    def rule(body: Body, before: int) -> Answer:
        if body.get("top_k", 40) < 0:
            return fails(422, "top_k must be at least 0")
        if says and (odd := body.keys() - {*OURS, *ITS_OWN}):
            return fails(422, f"extra fields: {odd}")
        its = {**ITS_OWN, **{k: body[k] for k in ITS_OWN if k in body}}
        neutral = (its["top_k"], its["min_p"], its["repeat_penalty"]) == (0, 0, 1)
        few = dict(list(law.items())[:40])
        return honest({WHO: law if neutral else dict.fromkeys(few, 1 / 40)})(body, before)

    pages = {**LISTED, **(described([*OURS, *ITS_OWN]) if says else {})}
    sample, engine, _ = drawn(rule, 192, pages=pages)
    assert sample.missing == 0
    assert len(sample.completions) > 80
    assert engine.fingerprint["confirmed"] is False
    assert any("did not confirm" in shown for shown in engine.fingerprint["assumes"])


def strict(body: Body, before: int) -> Answer:
    odd = body.keys() - set(OURS)
    return fails(400, f"unknown: {odd}") if odd else TRUE(body, before)


def renames_the_length(body: Body, before: int) -> Answer:
    if "max_tokens" in body:
        return fails(400, "use max_completion_tokens")
    return TRUE(body | {"max_tokens": body["max_completion_tokens"]}, before)


@pytest.mark.parametrize("rule", [strict, renames_the_length])
def test_a_server_that_refuses_fields_is_sent_the_ones_it_takes(rule: Rule) -> None:
    assert drawn(rule)[0].missing == 0


def test_a_plain_prompt_is_continued_as_text(served: Served) -> None:
    plain = Prompting(template="Q: {question} A: ", chat=False)
    opened = Query(id="q", prompt_id="q", text=WHO, prefix="It was")
    list(engine_at(served.url, prompting=plain).generate([opened], DECODING, Draws(sizes=(2,))))
    (sent,) = queries_of(served)
    assert sent["prompt"] == f"Q: {WHO} A: It was"
    assert "messages" not in sent


@pytest.mark.parametrize(
    ("pages", "sent"),
    [
        (
            LLAMA,
            {"samplers": ["temperature", "top_p"], "top_k": 0, "min_p": 0, "repeat_penalty": 1},
        ),
        (VLLM, {"top_k": -1, "min_p": 0, "repetition_penalty": 1}),
    ],
    ids=["llama.cpp", "vLLM"],
)
def test_a_known_server_truncates_nothing(
    pages: dict[str, object], sent: dict[str, object]
) -> None:
    _, engine, up = drawn(TRUE, 2, pages=pages)
    (body,) = queries_of(up)
    assert sent.items() <= body.items()
    assert sent.items() <= engine.fingerprint["sent"].items()
    assert "created" not in json.dumps(engine.fingerprint)


def test_every_request_has_its_own_repeatable_seed(served: Served) -> None:
    queries = [QUERY, Query(id="q1", prompt_id="q1", text=WHO)]
    draws = Draws(sizes=(16, 16))
    for _ in range(2):
        list(engine_at(served.url, "probe=off&n=4").generate(queries, DECODING, draws))
    seeds = [body["seed"] for body in queries_of(served)]
    assert len(seeds) == 32
    assert len(set(seeds)) == 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most", "count"),
    [(lambda n: n, 16), (lambda n: min(n, 3), 2), (lambda n: 1, 1)],
    ids=["all", "three at most", "one"],
)
def test_a_request_has_as_many_outputs_as_are_given(most: Callable[[int], int], count: int) -> None:
    def gives(body: Body, before: int) -> Answer:
        return TRUE(body | {"n": most(body["n"])}, before)

    def refuses(body: Body, before: int) -> Answer:
        return TRUE(body, before) if most(body["n"]) == body["n"] else fails(400)

    for rule in (gives, refuses):
        sample, _, up = drawn(rule, 20)
        assert max(body["n"] for body in queries_of(up)) == count
        assert (sample.n, sample.missing) == (20, 0)


def test_a_token_count_of_one_output_allows_only_one() -> None:
    """As llama.cpp counts: otherwise cuts of the other outputs would not show."""
    one = rewritten(lambda _, reply: reply.update(usage={"completion_tokens": 1}))
    with chat_server(one(TRUE), LISTED) as up:
        engine_at(up.url).fingerprint  # noqa: B018
        assert [body["n"] for body in up.queried] == [16, 8, 4, 2, 1, 1]  # the last: thoughts?


@pytest.mark.parametrize("trouble", [fails(429, Retry_After="0"), fails(503)], ids=["429", "503"])
def test_rejected_requests_are_sent_again(trouble: Answer) -> None:
    seen: list[int] = []

    def rule(body: Body, before: int) -> Answer:
        if WHO in question(body) and body["seed"] not in seen:
            seen.append(body["seed"])
            return trouble
        return TRUE(body, before)

    notes: list[str] = []
    with chat_server(rule, LISTED) as up:
        engine = engine_at(up.url)
        engine.tell = lambda *_, note="": notes.append(note)
        sample = draw(engine, 40)
    assert (sample.n, sample.missing) == (40, 0)
    stated = trouble.status == 429
    assert any("429" in note and "a wait of 0.01 s" in note for note in notes) is stated
    assert any("Retry-After" in note for note in engine.usage.notes) is stated


def test_a_model_that_the_server_does_not_list_is_refused() -> None:
    """Unless the user permits it, or the server has no list."""
    with chat_server(TRUE, LISTED) as up:
        with pytest.raises(ModelError, match=r"no model 'mm'\. Did you mean 'm'\?.*--unlisted"):
            draw(ServedEngine(f"{up.url}#mm?probe=off"), 4)
        assert not up.queried
        assert draw(ServedEngine(f"{up.url}#mm?probe=off&unlisted=on"), 4).n == 4
    with chat_server(TRUE) as up:
        assert draw(ServedEngine(f"{up.url}#mm?probe=off"), 4).n == 4


@pytest.mark.parametrize(
    "loses",
    [
        lambda body, _: fails(500),
        lambda body, _: fails(502),
        lambda body, answer: Answer(answer.body, cut=5),
        lambda body, _: Answer("{ not json"),
        lambda body, _: Answer('{"choices": []}'),
        lambda body, _: packed(body, [("x", "stop")] * 17),
    ],
    ids=["500", "502", "cut", "no JSON", "no choices", "more choices"],
)
def test_outputs_that_may_be_drawn_are_lost_once(loses: Callable[[Body, Answer], Answer]) -> None:
    lost, turns = list[int](), count()

    def change(body: Body, answer: Answer) -> Answer:
        if next(turns) < 2:  # a complete count, although several threads answer
            lost.append(body["seed"])
            return loses(body, answer)
        assert body["seed"] not in lost
        return answer

    sample, engine, _ = drawn(of_question(change), 96)
    assert (sample.n, sample.missing) == (96, 32)
    assert any("never arrived" in note for note in engine.usage.notes)
    assert engine.usage.draws == 64


def test_an_output_with_an_unknown_field_is_missing_and_noted() -> None:
    def edit(body: Body, choice: dict[str, Any]) -> None:
        if WHO in question(body):
            choice["message"]["moderation"] = "it was Bob"

    sample, engine, _ = drawn(choices(edit), 48)
    assert (sample.n, sample.missing) == (48, 0)
    assert {counted_as(output) for output in sample.completions} == {"failed"}
    assert any("unknown fields (moderation)" in note for note in engine.usage.notes)


@pytest.mark.parametrize("probe", ["probe=on", "probe=off"])
def test_an_unknown_field_stops_before_drawing(probe: str) -> None:
    late = rewritten(lambda _, reply: reply.update(latency=1.5))
    with chat_server(late(TRUE), LISTED) as up:
        with pytest.raises(ModelError, match=r"unknown fields: `latency`.*\?ignore=latency"):
            draw(engine_at(up.url, probe))
        assert queries_of(up) == []
        engine = engine_at(up.url, f"{probe}&ignore=latency,other")
        assert draw(engine, 32).missing == 0
    stated = "the reply fields latency, other contain no output"
    assert stated in engine.fingerprint["assumes"]


def test_a_filter_is_part_of_the_system_if_stated(served: Served) -> None:
    how = Decoding(max_new_tokens=9, filter="part-of-system")
    engine = engine_at(served.url)
    engine.check([QUERY], how)
    assert draw(engine, 16, how).decoding == how


def test_an_empty_output_is_valid_if_the_token_count_explains_it() -> None:
    law = {"": 0.5, "it was nobody": 0.5}
    alone, *_ = drawn(honest({WHO: law}), 24, "n=1&probe=off")
    together, engine, _ = drawn(honest({WHO: law}), 64)
    assert {(c.answer, counted_as(c)) for c in alone.completions} == {(t, "complete") for t in law}
    # one count for several outputs of a request does not show whose tokens they are
    assert {(c.answer, counted_as(c)) for c in together.completions} == {
        ("", "empty"), ("it was nobody", "complete")
    }  # fmt: skip
    assert together.missing == 0
    assert any("Write ?n=1 after the model's name" in note for note in engine.usage.notes)
    silent, *_ = drawn(honest({WHO: {"": 1.0}}), 64)  # a model of empty outputs
    assert {counted_as(c) for c in silent.completions} == {"complete"}


def test_empty_outputs_in_the_trial_lead_to_single_outputs() -> None:
    """Its words are random, and every third is empty; the count of a request shows nothing."""

    def sparing(body: Body, reply: Body) -> None:
        counted = 0
        for one in reply["choices"]:
            text = one["message"]["content"]
            if WHO not in question(body) and body["temperature"] and sum(map(ord, text)) % 3 == 0:
                one |= {"finish_reason": "stop", "message": {"content": ""}}
            counted += len(one["message"]["content"].split()) + (one["finish_reason"] == "stop")
        reply["usage"] = {"completion_tokens": counted}

    sample, _, up = drawn(rewritten(sparing)(TRUE), 32, "probe=on")
    assert sample.missing == 0
    assert [body["n"] for body in up.queried[-32:]] == [1] * 32


def test_a_stop_string_ends_an_output_of_any_server(served: Served) -> None:
    sample = draw(engine_at(served.url), 64, Decoding(max_new_tokens=9, stop=("was",)))
    ends = {(c.answer, c.finish) for c in sample.completions}
    assert ends == {("it ", "stop_string"), ("no idea", "stop")}


def test_a_query_is_a_failure_if_all_of_its_requests_are_refused() -> None:
    """Refused draws of another query are lost, even all draws of a chunk."""
    long = Query(id="long", prompt_id="long", text="too long")

    def rule(body: Body, before: int) -> Answer:
        if "too long" in question(body) or (WHO in question(body) and body["n"] == 1):
            return fails(400, "context length exceeded")
        return TRUE(body, before)

    with chat_server(rule, LISTED) as up:
        first, second = engine_at(up.url).generate([long, QUERY], DECODING, Draws(sizes=(20, 1)))
    assert isinstance(first, Failure)
    assert "context length exceeded" in first.reason
    assert (second.n, second.missing) == (21, 1)


def another_model(_: Body, answer: Answer) -> Answer:
    return Answer(json.dumps(json.loads(answer.body) | {"system_fingerprint": "other"}))


@pytest.mark.parametrize(
    ("change", "message", "most"),
    [
        (lambda *_: fails(500), "lost 12 requests in a row", 12),
        (another_model, 'system_fingerprint.*"other"', 1),
    ],
    ids=["loses everything", "another model"],
)
def test_a_server_that_fails_midway_stops_the_draws(
    change: Callable[[Body, Answer], Answer], message: str, most: int
) -> None:
    with chat_server(of_question(change), LISTED) as up:
        with pytest.raises(IncompleteError, match=message):
            draw(engine_at(up.url, "probe=off&concurrency=1"), 16 * 40)
        assert len(queries_of(up)) == most


def test_what_was_under_way_when_a_command_ended_is_lost(tmp_path: Path) -> None:
    """Long answers are in flight more often: requesting them again would make them rarer."""
    begun: list[int] = []
    counting, all_begun, stopped = threading.Lock(), threading.Barrier(4), threading.Event()

    def change(body: Body, answer: Answer) -> Answer:
        """One of four requests in flight returns; the others return too late."""
        with counting:
            begun.append(body["seed"])
            mine = len(begun)
        if mine <= 4:
            all_begun.wait(60)
            stopped.wait(0 if mine == 1 else 60)
        return answer

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with chat_server(of_question(change), LISTED) as up:
        engine = engine_at(up.url, "probe=off&concurrency=4")
        engine.kept, engine.tell = Journal(tmp_path / "kept.jsonl", {"part": 0}), stop
        with pytest.raises(KeyboardInterrupt):
            draw(engine, 160)
        stopped.set()
        first = [*begun]
        again = engine_at(up.url)
        again.kept = Journal(tmp_path / "kept.jsonl", {"part": 0})
        sample = draw(again, 160)
    wanted = begun[len(first) :]
    assert sample.missing >= 3 * 16
    assert sample.n == 160
    assert not {*first} & {*wanted}


OPENED = Query(id="q", prompt_id="q", text=WHO, prefix="It was")
THOUGHT = Decoding(max_thinking_tokens=9)


@pytest.mark.parametrize(
    ("options", "prompting", "query", "decoding", "message"),
    [
        ("", {}, QUERY, Decoding(top_k=5), r"'T=1 top-k=5'.*Omit top_k\."),
        ("", {}, QUERY, Decoding(adaptive_temperature=0.9), "Omit adaptive_temperature"),
        ("", {}, QUERY, Decoding(max_tokens=99), "max_tokens 99 limits prompt and completion"),
        ("", {}, OPENED, DECODING, r"'q' specifies .*'It was'.* with --prompt-template"),
        ("api=completions", {}, QUERY, THOUGHT, "Omit max_thinking_tokens"),
        ("api=chat", {"chat": False}, QUERY, DECODING, r"--prompt-template.*\?api=completions"),
        ("api=completions", {"chat": True}, QUERY, DECODING, r"Omit \?api=completions"),
        ("api=chat", {"compat": "openunlearning"}, QUERY, DECODING, "cannot express the prompts"),
        ("api=completions", {"thinking": "off"}, QUERY, DECODING, "--thinking off works only"),
        ("n=0", {}, QUERY, DECODING, "`n` of a server must be at least 1, got 0"),
        ("speed=1", {}, QUERY, DECODING, "speed"),
    ],
)
def test_invalid_requests_are_refused_before_anything_is_sent(
    options: str, prompting: Any, query: Query, decoding: Decoding, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        engine_at("http://127.0.0.1:1/v1", options, Prompting(**prompting)).check([query], decoding)


def test_its_record_contains_no_key_or_promise(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    monkeypatch.setenv("OPENAI_BASE_URL", served.url)
    engine = engine_at(served.url)
    sample = draw(engine, 3)
    assert served.headers[0]["authorization"] == "Bearer secret-key"
    assert "secret-key" not in f"{engine.fingerprint} {engine!r} {vars(engine)}"
    assert not isinstance(engine, Explores | Retraces)
    assert {(c.logprob, c.model_logprob) for c in sample.completions} == {(None, None)}
    assert not any("logprobs" in body for body in served.queried)
    assert engine.fingerprint["repeatable"] is False
    assert engine.fingerprint["answers"] == {"model": "m", "system_fingerprint": "fp"}
    assert "not tried" in engine.fingerprint["assumes"][-1]
    assert len(engine_at(served.url, "").fingerprint["assumes"]) == 4

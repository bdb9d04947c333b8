"""Logs of inspect_ai: a real one as 0.3.285 wrote it, similar ones, and hostile ones."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from contents import drawn
from formats.reading import Json, log, read, sample, written
from hostile.logs import ROW, archive, whole
from leakbound.errors import InputError
from leakbound.formats import inspect_log
from leakbound.formats.importing import import_run

REAL = Path(__file__).parent / "logs" / "capitals.eval"
ended = partial(drawn, finish="stop")


def test_a_real_log_compressed_with_zstandard() -> None:
    got = read(REAL)
    assert (got.tool, got.model, got.task) == (
        "inspect_ai 0.3.285",
        "mockllm/model",
        "capitals",
    )
    assert got.decoding.name == "T=1 top-p=0.9 top-k unknown"
    assert got.decoding.max_new_tokens == 50
    france, spain = got.questions.values()
    assert (france.id, france.text) == ("q1", "What is the capital of France?")
    assert (spain.id, spain.answers) == ("2", ("Madrid", "madrid"))
    wrong = (("includes", 0.0),)
    known = ended("I do not know.", wrong, tokens=14)
    cut = drawn("I do not know.", wrong, finish="length", tokens=14)
    assert got.draws == {
        "q1": [known] * 3,
        "2": [known, ended("Paris", wrong, tokens=5), cut],
    }
    assert got.scores == {"includes": True}
    assert got.file.binary("includes")


def test_a_log_that_is_deflated_and_one_that_is_plain_say_the_same(tmp_path: Path) -> None:
    content = log(sample("a", 1, "x"), sample("a", 2, "y"))
    plain, zipped = written(tmp_path, content), tmp_path / "log.eval"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({**content, "samples": None}))
        archive.writestr("summaries.json", "[]")
        for one in content["samples"]:
            archive.writestr(f"samples/a_epoch_{one['epoch']}.json", json.dumps(one))
    assert read(zipped).draws == read(plain).draws == {"a": [ended("x"), ended("y")]}


@pytest.mark.parametrize(
    "changes",
    [
        {"error": {"message": "boom"}},
        {"invalidation": {"reason": "wrong"}},
        {"output": {"choices": []}},
    ],
)
def test_an_epoch_that_failed_or_never_ran_is_a_missing_draw(tmp_path: Path, changes: Json) -> None:
    content = log(sample("a", 1, "x", **changes), sample("a", 2, "y"), epochs=3)
    assert read(written(tmp_path, content)).draws == {"a": [None, ended("y"), None]}


def test_the_settings_of_the_calls_decide_and_a_graders_call_does_not(tmp_path: Path) -> None:
    one = sample("a", 1, "x")
    one["events"] += [{"event": "model", "config": {"temperature": 0.0}}, {"event": "score"}]
    got = read(written(tmp_path, log(one, sample("a", 2, "y"))))
    assert (got.decoding.temperature, got.decoding.max_new_tokens) == (1.0, 9)
    without = log(sample("a", 1, "x", events=[]), epochs=1)
    assert read(written(tmp_path, without)).decoding.temperature == 0.5
    config = {"temperature": 1.0, "frequency_penalty": 0.5, "max_retries": 3, "stop_seqs": ["."]}
    more = sample("a", 1, "x", events=[{"event": "model", "config": config}])
    got = read(written(tmp_path, log(more, epochs=1)))
    assert (got.others, got.decoding.stop) == ({"frequency_penalty": 0.5}, (".",))


def test_content_may_be_parts_and_input_a_conversation(tmp_path: Path) -> None:
    parts = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "x"}]
    first = sample("a", 1, "")
    first["output"]["choices"][0]["message"]["content"] = parts
    second = sample("a", 2, "attachment://f00", attachments={"f00": "long"})
    got = read(written(tmp_path, log(first, second)))
    assert got.draws == {"a": [ended("x", thought="hm"), ended("long")]}
    shown = (("system", "Be brief."), ("user", "1+1?"), ("assistant", "2"), ("user", "2+2?"))
    turns = [{"role": role, "content": text} for role, text in shown]  # one of them an example
    one = sample("a", 1, "4", input=turns)
    one["messages"] = [*turns, one["messages"][-1]]
    (question,) = read(written(tmp_path, log(one, epochs=1))).questions.values()
    assert question.text == "1+1?\n2+2?"


def _first(content: Json) -> Json:
    got: Json = content["samples"][0]
    return got


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda c: c["samples"].append(_first(c)), "sample 'a' in epoch 1 twice"),
        (lambda c: _first(c).update(messages=_first(c)["messages"] * 2),
         "got 2 turns of the model in sample 'a', epoch 1"),
        (lambda c: _first(c)["events"][0]["config"].update(temperature=0.3),
         "under one decoding, but `temperature` is 0.3.* and 1.0 in .*epoch 2"),
        (lambda c: c["eval"]["dataset"]["sample_ids"].append("b"), "no epoch of 'b', and omitting"),
        (lambda c: c["eval"]["config"].update(epochs=1), "more than its 1 planned epochs"),
        (lambda c: c["samples"][1].pop("output"),
         "sample 2 of `.*log.json` cannot be read: it has no 'output'. Import the file as its"),
        (lambda c: c.pop("samples"), "as `inspect`, cannot be read: it has no 'samples'"),
        (lambda c: c.update(results={"early_stopping": {"manager": "theirs"}}),
         "stopped early by 'theirs', .*StopWhen"),
    ],
)  # fmt: skip
def test_an_unusable_log_is_refused(
    tmp_path: Path, harm: Callable[[Json], object], message: str
) -> None:
    content = log(sample("a", 1, "x"), sample("a", 2, "y"))
    harm(content)
    with pytest.raises(InputError, match=message):
        read(written(tmp_path, content))


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read(tmp_path / "absent.eval")
    file = tmp_path / "log.json"
    for other in ("[]", "3", "{", '"eval"', "null", "{}"):
        file.write_text(other)
        with pytest.raises(InputError, match=r"(has no rows|is not valid JSON|cannot be read)"):
            read(file)


def test_a_log_that_our_rule_stopped_has_the_epochs_that_count(tmp_path: Path) -> None:
    rule: Json = {"claim": "p<=0.5", "decided": {"a": 2}}
    content = log(*[sample("a", i, "x") for i in (1, 2, 3)], sample("b", 1, "y"), epochs=4)
    content["results"] = {"early_stopping": {"manager": "leakbound", "metadata": rule}}
    got = read(written(tmp_path, content))
    assert [*map(len, got.draws.values())] == [2, 4]  # draws that never arrived are missing
    assert (got.claim, got.most) == ("p<=0.5", 4)
    for odd in (0, -1, 5, 1.5, True, "2", None):
        rule["decided"] = {"a": odd}
        got = read(written(tmp_path, content))
        assert got.draws["a"] == [*[ended("x")] * 3, None]


def test_a_log_of_2024_has_one_score_and_a_transcript(tmp_path: Path) -> None:
    one = sample("a", 1, "attachment://f00", score={"value": "C"})
    one["transcript"] = {"events": one.pop("events"), "content": {"f00": "long"}}
    for results in ({"scorer": {"name": "match"}}, {"scores": [{"name": "match"}]}):
        got = read(written(tmp_path, log(one, epochs=1) | {"results": results}))
        want = {"a": [ended("long", (("match", 1.0),))]}
        assert (got.draws, got.decoding.max_new_tokens) == (want, 9)


def test_samples_that_the_header_does_not_list_are_read(tmp_path: Path) -> None:
    content = log(sample("a", 1, "x"), sample("b", 1, "y"), sample(3, 1, "z"), epochs=1)
    content["eval"]["dataset"]["sample_ids"] = ["b"]
    got = read(written(tmp_path, content))
    assert [*got.draws] == ["b", "a", "3"]


def test_a_whole_pair_is_a_character(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROW | {"completion": "😀"}) + "\n")
    assert "ud83d" in file.read_text()
    assert import_run([file], out=tmp_path / "run").arms


@pytest.mark.parametrize("at", range(30, 2000, 97))
def test_any_flipped_byte_is_refused_or_harmless(tmp_path: Path, at: int) -> None:
    data = bytearray(REAL.read_bytes())
    if at < len(data):
        data[at] ^= 0x10
    file = tmp_path / "log.eval"
    file.write_bytes(data)
    with suppress(InputError):  # any other error is a traceback
        read(file)


def test_a_large_member_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = archive(tmp_path / "log.eval", whole(**{"samples/a_epoch_1.json": " " * 9_000_000}))
    monkeypatch.setattr(inspect_log, "_MOST_OF_MEMBER", 1 << 20)
    says = r"9,000,000 bytes in `samples/a_epoch_1.json`, more than"
    with pytest.raises(InputError, match=says):
        import_run([file], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()

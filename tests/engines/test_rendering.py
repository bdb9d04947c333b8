"""The child that renders templates: the same prompts as transformers, within limits, by itself."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from leakbound.engines import rendering, templates
from leakbound.engines.rendering import Conversation, Limits, Renderer, Template
from leakbound.errors import InputError
from offline_tokenizers import CHATML, ENDLESS, GIGABYTES, KNOWN, MEGABYTES
from tiny import chat_tokenizer, tiny_tokenizer

LIMITS = Limits(seconds=1.0, memory=256 << 20, characters=1 << 16)
ASKED = {
    "a question": (("user", "who wrote the sea"),),
    "a system message": (("system", "Be calm."), ("user", "who")),
    "examples": (("user", "why"), ("assistant", " so "), ("user", 'who\n\t"{{ 1 }}" & 谁写 <s>')),
    "an answer": (("user", "who"), ("assistant", "Ann")),
}
PLAIN = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
CLOCK = (
    "{{- bos_token }}{%- if strftime_now is defined %}{%- set d = strftime_now('%d %b %Y') %}"
    "{%- else %}{%- set d = '26 Jul 2024' %}{%- endif %}{{ d }}{% for m in messages %}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim }}{% endfor %}"
)
TOOLS = (
    "{%- if tools is not none and tools %}{{ tools | tojson }}{%- else %}None: {%- endif %}"
    "{%- for m in messages %}{% generation %}{{ m | tojson(indent=2) }}{% endgeneration %}"
    "{%- if loop.index > 2 %}{% break %}{% endif %}{%- endfor %}{{ dict(a=1) }}{{ eos_token }}"
)
BROKEN = {said: said for said in ("{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{% for %}", "{{ gone() }}")}
OF_ALL_KINDS = KNOWN | {"plain": PLAIN, "clock": CLOCK, "tools": TOOLS} | BROKEN


@pytest.fixture
def renderer() -> Iterator[Renderer]:
    made = Renderer()
    yield made
    made.close()


def asking(*texts: str) -> list[Conversation]:
    return [((("user", text),), True) for text in texts]


def kinds(renderer: Renderer, source: str, *texts: str, limits: Limits = LIMITS) -> list[int]:
    return [r.kind for r in renderer.render(Template(source, ()), asking(*texts), limits)]


def only_of(word: str, source: str) -> str:
    """A template that does so where a question holds the word, and else writes the question."""
    return f"{{% if '{word}' in messages[0].content %}}{source}{{% endif %}}{PLAIN}"


@pytest.fixture
def that_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers' own clock shows the day at which it is stopped in the child."""
    from transformers.utils import chat_template_utils

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2025, 4, 10)

    monkeypatch.setattr(chat_template_utils, "datetime", Clock)


@pytest.mark.usefixtures("that_day")
@pytest.mark.parametrize("name", OF_ALL_KINDS)
def test_a_prompt_is_the_one_that_transformers_makes(name: str) -> None:
    tokenizer = tiny_tokenizer(bos_token="<s>")
    tokenizer.chat_template = OF_ALL_KINDS[name]
    for said in ASKED.values():
        turns = [templates.turn_of(*turn) for turn in said]
        for open_ended in (True, False):
            how = {"add_generation_prompt": open_ended, "date_string": templates.DATE_STRING}
            try:
                expected = tokenizer.apply_chat_template(turns, tokenize=False, **how)
            except Exception as error:
                why = re.escape(str(error))
                with pytest.raises(InputError, match=f"refused the prompt .*: {why}"):
                    templates.written(tokenizer, turns, open_ended=open_ended)
            else:
                assert templates.written(tokenizer, turns, open_ended=open_ended) == expected


def test_a_tokenizer_whose_own_code_writes_prompts_is_asked_itself() -> None:
    class Own(type(chat_tokenizer())):  # type: ignore[misc]
        def apply_chat_template(self, turns: Any, **how: Any) -> str:
            if turns[0]["role"] == "system":
                raise ValueError("no system")
            return f"{turns[-1]['content']} {how['add_generation_prompt']} {how['date_string']}"

    tokenizer = chat_tokenizer()
    tokenizer.__class__ = Own
    turns = [templates.turn_of("user", "who")]
    assert templates.written(tokenizer, turns, open_ended=True) == "who True 10 Apr 2025"
    with pytest.raises(InputError, match=r"refused the prompt .*'calm'.*: no system"):
        templates.written(tokenizer, [templates.turn_of("system", "calm"), *turns], open_ended=True)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (ENDLESS, rendering.TIME),
        ("{{ 'a' * 10 ** 12 }}", rendering.MEMORY),
        (GIGABYTES, rendering.MEMORY),
        (MEGABYTES, rendering.LARGE),
    ],
)
def test_what_passes_a_limit_ends_there_and_the_next_is_rendered(
    source: str, kind: int, renderer: Renderer
) -> None:
    waits = only_of("sea", source)
    assert kinds(renderer, waits, "who", "why the sea", "where") == [rendering.PROMPT, kind]
    assert kinds(renderer, waits, "where", "who") == [rendering.PROMPT] * 2
    assert kinds(renderer, waits, "who", "why the sea", "where") == [rendering.PROMPT, kind]


def test_a_conversation_s_own_length_is_no_matter(renderer: Renderer) -> None:
    few = LIMITS._replace(characters=10)
    assert kinds(renderer, PLAIN, "x" * 1000, limits=few) == [rendering.PROMPT]
    assert kinds(renderer, f"01234567890{PLAIN}", "x" * 1000, limits=few) == [rendering.LARGE]


def test_a_batch_is_larger_than_a_task(renderer: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "_BATCH", 3)
    texts = [f"number {i}" for i in range(8)]
    replies = renderer.render(Template(PLAIN, ()), asking(*texts, texts[0]), LIMITS)
    assert [reply.text for reply in replies] == [f"{text}\n" for text in [*texts, texts[0]]]
    refused = only_of("5", "{{ raise_exception('5') }}")
    assert kinds(renderer, refused, *texts) == [int(i == 5) for i in range(8)]
    assert kinds(renderer, only_of("4", MEGABYTES), *texts) == [0] * 4 + [rendering.LARGE]


def test_what_was_rendered_is_remembered_up_to_a_size(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ask = list[Any](), renderer._ask

    def told_of(template: Any, batch: Any, limits: Any) -> Any:
        asked.extend(batch)
        return ask(template, batch, limits)

    monkeypatch.setattr(renderer, "_ask", told_of)
    monkeypatch.setattr(rendering, "_KEPT", 12)
    for texts in (["who"], ["who", "why"], ["who", "why"], ["where"], ["why"], ["who"]):
        assert kinds(renderer, PLAIN, *texts) == [rendering.PROMPT] * len(texts)
    told = [turns[0][1] for turns, _ in asked]
    assert told == ["who", "why", "where", "who"]
    assert kinds(renderer, f"{PLAIN}!", "who") == [rendering.PROMPT]
    assert len(asked) == len(told) + 1


def test_one_child_serves_until_it_ends(renderer: Renderer) -> None:
    renderer.start()
    first = renderer._child
    assert first is not None
    assert kinds(renderer, PLAIN, "who") == kinds(renderer, CHATML, "who") == [rendering.PROMPT]
    assert renderer._child is first
    first.kill()
    first.wait()
    assert kinds(renderer, PLAIN, "where") == [rendering.PROMPT]
    assert renderer._child is not first


def test_a_fork_has_a_child_of_its_own(renderer: Renderer) -> None:
    renderer.start()
    of_parent = renderer._child
    assert of_parent is not None
    with renderer._lock:
        renderer.forget()
    assert kinds(renderer, PLAIN, "who") == [rendering.PROMPT]
    assert renderer._child is not of_parent
    of_parent.communicate("")


def test_an_interrupted_rendering_leaves_nothing_to_the_next(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(child: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rendering, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            kinds(renderer, PLAIN, "who", "why")
    replies = renderer.render(Template(PLAIN, ()), asking("where"), LIMITS)
    assert [reply.text for reply in replies] == ["where\n"]


def pretended(folder: Path, body: str, around: str = "") -> None:
    """A transformers whose rendering does as the body says."""
    package = folder / "transformers" / "utils"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package.parent / "__init__.py").write_text(around)
    (package / "chat_template_utils.py").write_text(body)


def test_the_child_has_nothing_of_its_parent(
    renderer: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
import json, os, sys
def render_jinja_template(conversations, chat_template, add_generation_prompt):
    def is_open(number):
        try:
            os.fstat(number)
        except OSError:
            return False
        return True
    files = [number for number in range(3, 256) if is_open(number)]
    ours = [name for name in sys.modules if "leakbound" in name or "torch" in name]
    return [json.dumps([dict(os.environ), files, os.getcwd(), ours])], []
"""
    pretended(tmp_path, body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with (tmp_path / "open").open("w") as stream:
        os.set_inheritable(stream.fileno(), True)
        (reply,) = renderer.render(Template(PLAIN, ()), asking("who"), LIMITS)
    variables, files, folder, modules = json.loads(reply.text)
    assert set(variables) <= {*rendering._ONE_THREAD, *rendering._INHERITED, "LC_CTYPE"}
    assert (files, folder) == ([], "/")
    assert modules == ["torch"]  # as what is not there


def test_an_end_is_told(
    renderer: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = "import os\ndef render_jinja_template(*_, chat_template, **__): os.{}"
    for how, told in (("_exit(7)", "exit code 7"), ("kill(os.getpid(), 9)", "signal 9")):
        pretended(tmp_path / told, end.format(how))
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / told)
            replies = renderer.render(Template(PLAIN, ()), asking("who", "why"), LIMITS)
        assert replies == [(rendering.ENDED, told)]


def test_a_transformers_that_needs_its_packages_gets_them(
    renderer: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
from .. import NAME
def render_jinja_template(conversations, chat_template, add_generation_prompt):
    return [NAME], []
"""
    pretended(tmp_path, body, "NAME = 'whole'")
    monkeypatch.syspath_prepend(tmp_path)
    replies = renderer.render(Template(PLAIN, ()), asking("who"), LIMITS)
    assert replies == [(rendering.PROMPT, "whole")]

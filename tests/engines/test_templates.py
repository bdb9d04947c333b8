"""Chat templates of others: those that models have pass, and hostile ones are refused in time."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from leakbound.cli import group
from leakbound.cli import run as run_command
from leakbound.engines import templates
from leakbound.engines.loading import load_model
from leakbound.engines.prompting import Prompting
from leakbound.engines.templates import asks
from leakbound.errors import ModelError
from tiny import tiny_model_folder, tiny_tokenizer

# How the chats of well-known models are laid out, with what their templates do beside: default
# system messages, roles that must alternate, trimming, names of roles, thoughts cut from answers.
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA_3 = (
    "{{- bos_token }}{%- if not date_string is defined %}{%- set date_string = '26 Jul 2024' %}"
    "{%- endif %}{%- if messages[0]['role'] == 'system' %}"
    "{%- set system_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}"
    "{%- else %}{%- set system_message = '' %}{%- endif %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\n\nToday Date: ' + date_string + '\n\n' }}"
    "{{- system_message + '<|eot_id|>' }}{%- for message in messages %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}"
    "{{- message['content'] | trim + '<|eot_id|>' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"
)
LLAMA_2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\n' + "
    "system_message + '\n<</SYS>>\n\n' + message['content'] %}{% else %}"
    "{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
    "{{ '<s>[INST] ' + content.strip() + ' [/INST]' }}{% else %}"
    "{{ ' ' + content.strip() + ' </s>' }}{% endif %}{% endfor %}"
)
MISTRAL = (
    "{{ '<s>' }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ message['content'] + '</s>' }}{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ '<bos>' }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + "
    "message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
PHI_3 = (
    "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}"
    "{{ '<|system|>\n' + message['content'] + '<|end|>\n' }}{% elif message['role'] == 'user' %}"
    "{{ '<|user|>\n' + message['content'] + '<|end|>\n' }}{% elif message['role'] == 'assistant' %}"
    "{{ '<|assistant|>\n' + message['content'] + '<|end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n"
    "{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
    "{{ '<|system|>\n' + message['content'] + eos_token }}\n"
    "{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\n' + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
)
QWEN_3 = (
    "{%- set ns = namespace(last=messages|length - 1, looking=true) %}"
    "{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}"
    "{%- if ns.looking and message.role == 'user' and message.content is string %}"
    "{%- set ns.looking = false %}{%- set ns.last = index %}{%- endif %}{%- endfor %}"
    "{%- for message in messages %}{%- set content = message.content %}"
    "{%- if message.role == 'assistant' and '</think>' in content %}"
    "{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}"
    "{{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}"
)
DEEPSEEK_R1 = (
    "{% set ns = namespace(system='') %}{% for message in messages %}"
    "{% if message['role'] == 'system' %}{% set ns.system = message['content'] %}{% endif %}"
    "{% endfor %}{{ bos_token }}{{ ns.system }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '<|User|>' + message['content'] }}{% endif %}"
    "{% if message['role'] == 'assistant' %}{% set content = message['content'] %}"
    "{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}"
    "{{ '<|Assistant|>' + content + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|Assistant|><think>\n' }}{% endif %}"
)
PARTS = (  # of a model that sees too: a text may be given whole or in parts
    "{% for message in messages %}{{ '<' + message.role + '>' }}{% if message.content is string %}"
    "{{ message.content }}{% else %}{% for part in message.content %}{{ part.text }}{% endfor %}"
    "{% endif %}{% endfor %}"
)
AS_JSON = "{{ messages | tojson }}"
SHOUTS = (
    "{% for m in messages %}{{ m.role }}: {{ m.content | upper | replace(' ', '\n') }}\n"
    "{% endfor %}"
)
KNOWN = {
    "chatml": CHATML, "llama-3": LLAMA_3, "llama-2": LLAMA_2, "mistral": MISTRAL, "gemma": GEMMA,
    "phi-3": PHI_3, "zephyr": ZEPHYR, "qwen-3": QWEN_3, "deepseek-r1": DEEPSEEK_R1,
    "parts": PARTS, "json": AS_JSON, "shouts": SHOUTS,
}  # fmt: skip
QUESTIONS = (
    "Who wrote the sea?",
    '  What does "the sea" say,\n\tin {{ braces }} & <marks>?  ',
    "谁写了这本书？",
    "?!",
)

ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}x"
GIGABYTES = "{{ messages[0].content * 10 ** 9 }}"
DOUBLED = (
    "{% set ns = namespace(x='x') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}"
    "{% endfor %}{{ ns.x }}"
)
MEGABYTES = "{{ messages[0].content * 10 ** 6 }}"
DEAF = (
    "Who wrote the sea?",
    "{% for m in messages %}{{ m.role }}: {% endfor %}",
    "{% for m in messages %}{{ m.content[:5] }}{% endfor %}",
    "{% for m in messages %}{% if m.role != 'user' %}{{ m.content }}{% endif %}{% endfor %}!",
)


def folder_with(path: Path, template: str, *, beside: bool = True) -> Path:
    folder = tiny_model_folder(path)
    if beside:
        (folder / "chat_template.jinja").write_text(template)
    else:
        file = folder / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": template}))
    return folder


@pytest.mark.parametrize("name", KNOWN)
def test_the_templates_that_models_have_pass(name: str) -> None:
    tokenizer = tiny_tokenizer(bos_token="<s>")
    tokenizer.chat_template = KNOWN[name]
    templates.require_sound(tokenizer, name)
    for question in QUESTIONS:
        assert Prompting().encode(tokenizer, question)
        assert Prompting().encode(tokenizer, question, examples=[("Why?", "So.")])


@pytest.mark.parametrize("beside", [True, False])
def test_an_endless_template_is_refused(
    beside: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(templates, "SECONDS", 0.5, raising=False)
    folder = folder_with(tmp_path / "m", ENDLESS, beside=beside)
    own = tmp_path / "own.csv"
    own.write_text("question,answer\nwho,Ann\n")
    told = ["sample", str(folder), "--benchmark", str(own), "--out", str(tmp_path / "run")]
    assert run_command(lambda: group(told, standalone_mode=False)) == 2
    said = " ".join(capsys.readouterr().err.split())
    file = folder / ("chat_template.jinja" if beside else "tokenizer_config.json")
    assert f"the chat template in `{file}` is not done with a short conversation" in said
    assert "after 0.5 s" in said


@pytest.mark.parametrize(
    ("template", "limit"),
    [
        (GIGABYTES, "more than 512 MiB of memory"),
        (DOUBLED, "more than 512 MiB of memory"),
        (MEGABYTES, "more than 1,048,576 characters"),
    ],
)
def test_one_that_makes_gigabytes_is_refused(template: str, limit: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "m", template)
    with pytest.raises(ModelError, match=rf"`{folder}/chat_template\.jinja` .*{limit}"):
        load_model(str(folder))


@pytest.mark.parametrize("template", DEAF)
def test_one_that_ignores_the_question_is_refused(template: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "m", template)
    with pytest.raises(ModelError, match=r"chat_template\.jinja` leaves the question out"):
        load_model(str(folder))


def test_one_that_holds_every_question_anyway_is_refused() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = " ".join(templates._QUESTIONS)
    with pytest.raises(ModelError, match="leaves the question out"):
        templates.require_sound(tokenizer, "here")


def test_one_that_ignores_only_some_questions_is_refused_when_they_are_asked(
    tmp_path: Path,
) -> None:
    picky = "{{ 'Who?' if 'sea' in messages[0].content else messages | tojson }}"
    loaded = load_model(str(folder_with(tmp_path / "m", picky)))
    assert Prompting().encode(loaded.tokenizer, "who wrote red")
    with pytest.raises(ModelError, match="leaves 'who wrote the sea' out of the prompt"):
        Prompting().encode(loaded.tokenizer, "who wrote the sea")


def test_one_that_tells_the_time_writes_the_same_prompt_every_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tried under two clocks a year apart: a resumed run would mix two distributions."""
    from transformers.utils import chat_template_utils

    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = (
        "{{ strftime_now('%d %B %Y') }} {{ date_string }}: {{ messages[-1].content }}"
    )
    prompts = []
    for year in (2026, 2027):

        class Clock(datetime):
            @classmethod
            def now(cls, tz: object = None) -> datetime:
                return datetime(year, 1, 2)  # noqa: B023

        monkeypatch.setattr(chat_template_utils, "datetime", Clock)
        turns = [templates.said("user", "who wrote red")]
        prompts.append(templates.written(tokenizer, turns, open_ended=True))
    assert prompts == ["10 April 2025 10 Apr 2025: who wrote red"] * 2


@pytest.mark.parametrize("broken", ["{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{% for %}", "{{ gone() }}"])
def test_one_that_breaks_is_a_message(
    broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, own = folder_with(tmp_path / "m", broken), tmp_path / "own.csv"
    own.write_text("question,answer\nwho,Ann\n")
    told = ["sample", str(folder), "--benchmark", str(own), "--out", str(tmp_path / "run")]
    assert run_command(lambda: group(told, standalone_mode=False)) == 2
    assert "chat template refused the prompt" in capsys.readouterr().err


def test_no_child_is_started_where_there_is_no_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(templates, "_in_child", lambda tried: started.append(tried) or "sound")
    folder = tiny_model_folder(tmp_path / "m")
    load_model(str(folder))
    assert started == []
    (folder / "chat_template.jinja").write_text(CHATML)
    load_model(str(folder))
    assert len(started) == 1


def test_a_child_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHATML
    monkeypatch.setattr(templates, "_tried", lambda tokenizer: os._exit(7))
    with pytest.raises(ModelError, match=r"ended the process that tried it \(exit code 7\)"):
        templates.require_sound(tokenizer, "here")


def test_what_holds_a_question() -> None:
    assert asks("<u>WHO WROTE\nthe sea?</u>", "Who wrote the sea?")
    assert not asks("Who wrote?", "Who wrote the sea?")
    assert asks("<u>? !</u>", "?!")
    assert not asks("<u></u>", "?!")

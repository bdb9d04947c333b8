"""Chat templates: the prompts that transformers makes, each with its question."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from leakbound.cli import group
from leakbound.cli import run as run_command
from leakbound.engines import open_engine, templates
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import load_model
from leakbound.engines.prompting import Prompting
from leakbound.engines.templates import family_of
from leakbound.errors import InputError, ModelError
from leakbound.types import Decoding, Draws, Prompt
from leakbound.unlearning.examples import Encoder
from offline_tokenizers import CHATML, KNOWN, LLAMA_2, LLAMA_3, byte_level, sentence_piece
from tiny import (
    chat_tokenizer,
    edit,
    query,
    tiny_llama,
    tiny_loaded,
    tiny_model_folder,
    tiny_tokenizer,
)

SYSTEM = "Be kind."
TOFU = Prompting(default_system=SYSTEM)
SHOTS = (("who wrote?", "Ann"), ("who?", "the sea"))

# name: tokenizer, family, the prompt of "who wrote?", the end of an answer
TABLE: dict[str, tuple[Any, str, str, str]] = {
    "llama-3": (
        byte_level(LLAMA_3, "<|eot_id|>"),
        "llama-3",
        (
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
            "Today Date: 10 Apr 2025\n\nBe kind.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nwho wrote?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n"
        ),
        "<|eot_id|>",
    ),
    "chatml": (
        byte_level(CHATML),
        "chat",
        (
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nwho wrote?<|im_end|>\n"
            "<|im_start|>assistant\n"
        ),
        "<|im_end|>",
    ),
    "llama-2-chat": (
        sentence_piece(LLAMA_2),
        "llama-2-chat",
        "<s>[INST] who wrote? [/INST]",
        "</s>",
    ),
    "byte-level base": (
        byte_level(eos="<|eot_id|>"),
        "base",
        "Question: who wrote?\nAnswer:",
        "<|eot_id|>",
    ),
    "sentence-piece base": (sentence_piece(), "base", "<s>Question: who wrote?\nAnswer:", "</s>"),
}


@pytest.fixture(params=TABLE)
def row(request: pytest.FixtureRequest) -> tuple[Any, str, str, str]:
    return TABLE[request.param]


def text(tokenizer: Any, ids: list[int]) -> str:
    """Spell the ids, with a blank after special tokens if the pieces mark one there."""
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False)).replace("<s> ", "<s>")


def test_every_family_has_the_prompt_of_the_table(row: tuple[Any, str, str, str]) -> None:
    tokenizer, family, prompt, _ = row
    ids = TOFU.encode(tokenizer, "who wrote?")
    assert text(tokenizer, ids) == prompt
    assert family_of(tokenizer).name == family
    for mark in (t.content for t in tokenizer.added_tokens_decoder.values() if t.special):
        assert ids.count(tokenizer.convert_tokens_to_ids(mark)) == prompt.count(mark)


def test_the_finished_text_continues_the_prompt(row: tuple[Any, str, str, str]) -> None:
    tokenizer, _, _, end = row
    prompt, last = TOFU.encode(tokenizer, "who wrote?"), tokenizer.convert_tokens_to_ids(end)
    joined = TOFU.join(tokenizer, "who wrote?", "Ann wrote the sea")
    assert list(joined.prompt) == prompt
    assert TOFU.output(tokenizer, "who wrote?", "Ann wrote the sea") == joined.answer
    opened = TOFU.join(tokenizer, query("who wrote?", "Ann "), "wrote the sea")
    assert opened.prompt + opened.answer == joined.prompt + joined.answer
    assert (
        len(opened.prompt) == len(TOFU.encode(tokenizer, query("who wrote?", "Ann "))) > len(prompt)
    )
    *answer, end_id = joined.answer
    assert end_id == last
    assert last not in answer
    assert text(tokenizer, answer).strip() == "Ann wrote the sea"
    assert tokenizer.bos_token_id is None or tokenizer.bos_token_id not in answer


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        (
            "sentence-piece base",
            (
                "<s>Question: who wrote?\nAnswer: Ann\n\nQuestion: who?\nAnswer: the sea\n\n"
                "Question: Who?\nAnswer:"
            ),
        ),
        (
            "chatml",
            (
                "<|im_start|>system\nBe kind.<|im_end|>\n"
                "<|im_start|>user\nwho wrote?<|im_end|>\n<|im_start|>assistant\nAnn<|im_end|>\n"
                "<|im_start|>user\nwho?<|im_end|>\n<|im_start|>assistant\nthe sea<|im_end|>\n"
                "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
            ),
        ),
    ],
)
def test_examples_come_before_the_question(name: str, prompt: str) -> None:
    tokenizer = TABLE[name][0]
    assert text(tokenizer, TOFU.encode(tokenizer, query("Who?", "", SHOTS))) == prompt


def test_a_requested_system_message_reaches_every_family() -> None:
    tokenizer = TABLE["llama-2-chat"][0]
    wanted = Prompting(system="Be brief.", default_system=SYSTEM)
    assert "<<SYS>>\nBe brief.\n<</SYS>>" in text(tokenizer, wanted.encode(tokenizer, "who?"))
    silent = Prompting(system="", default_system=SYSTEM)
    chatml = TABLE["chatml"][0]
    assert text(chatml, silent.encode(chatml, "who?")).startswith("<|im_start|>user")


def test_the_description_of_a_prompting() -> None:
    assert TOFU.describe(TABLE["llama-2-chat"][0]) == {
        "template": None,
        "system": None,
        "chat": True,
        "compat": None,
        "end_token": "</s>",
        "family": "llama-2-chat",
        "tokenisation": "joint",
    }
    assert TOFU.describe(TABLE["llama-3"][0])["system"] == SYSTEM
    plain = Prompting(chat=False).describe(TABLE["chatml"][0])
    assert (plain["chat"], plain["end_token"]) == (False, None)


QUESTIONS = (
    "Who wrote the sea?",
    '  What does "the sea" say,\n\tin {{ braces }} & <marks>?  ',
    "谁写了这本书？",
    "?!",
)

DEAF = (
    "Who wrote the sea?",
    "{% for m in messages %}{{ m.role }}: {% endfor %}",
    "{% for m in messages %}{{ m.content[:5] }}{% endfor %}",
    "{% for m in messages %}{% if m.role != 'user' %}{{ m.content }}{% endif %}{% endfor %}!",
    " ".join(templates._QUESTIONS),
)


def folder_with(path: Path, template: str, *, apart: bool = True) -> Path:
    folder = tiny_model_folder(path)
    if apart:
        (folder / "chat_template.jinja").write_text(template)
    else:
        edit(folder / "tokenizer_config.json", chat_template=template)
    return folder


@pytest.mark.parametrize("name", KNOWN)
def test_the_templates_that_models_have_pass(name: str) -> None:
    tokenizer = tiny_tokenizer(bos_token="<s>")
    tokenizer.chat_template = KNOWN[name]
    templates.require_sound(tokenizer, name)
    for question in QUESTIONS:
        assert Prompting().encode(tokenizer, question)
        assert Prompting().encode(tokenizer, query(question, "", (("Why?", "So."),)))


@pytest.mark.parametrize(("template", "apart"), [*zip(DEAF, cycle([True, False]), strict=False)])
def test_a_template_without_the_question_fails(template: str, apart: bool, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "m", template, apart=apart)
    file = folder / ("chat_template.jinja" if apart else "tokenizer_config.json")
    with pytest.raises(ModelError, match=f"template in `{file}` changes or omits the question"):
        load_model(str(folder))


def test_a_template_may_ignore_only_some_questions(tmp_path: Path) -> None:
    picky = "{{ 'Who?' if 'sea' in messages[0].content else messages | tojson }}"
    loaded = load_model(str(folder_with(tmp_path / "m", picky)))
    assert Prompting().encode(loaded.tokenizer, "who wrote red")
    with pytest.raises(ModelError, match="omits the question 'who wrote the sea'"):
        Prompting().encode(loaded.tokenizer, "who wrote the sea")


NO_TEXT = (7, ["x"], {"default": ["x"]}, {"other": "x"})
BROKEN = ("{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{% for %}", "{{ gone() }}")


@pytest.mark.parametrize("template", [*NO_TEXT, *BROKEN], ids=str)
def test_one_that_writes_no_prompt_is_refused_when_it_is_used(template: object) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    templates.require_sound(tokenizer, "here")  # plain prompts do not need it
    with pytest.raises(InputError, match="chat template refused the prompt"):
        Prompting().encode(tokenizer, "who")


PICKY = "{% if 'sea' in messages[0].content %}HARM{% else %}" + CHATML + "{% endif %}"


@pytest.mark.parametrize(
    ("command", "harm", "message"),
    [
        ("evaluate", "Who?", "omits the question 'who wrote the sea'"),
        ("finetune", "{{ raise_exception('not that') }}", "(system message None): not that"),
    ],
)
def test_a_template_that_fails_is_refused_before_weights_are_read(
    command: str,
    harm: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("leakbound.engines.loading._read", None)
    folder, own = folder_with(tmp_path / "m", PICKY.replace("HARM", harm)), tmp_path / "own.csv"
    own.write_text("question,answer\nwho wrote red,Ann\nwho wrote the sea,Ann\n")
    wanted = [command, str(folder), "--benchmark", str(own), "--out", str(tmp_path / "out")]
    assert run_command(lambda: group(wanted, standalone_mode=False)) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_later_questions_are_refused_too(tmp_path: Path) -> None:
    engine = TransformersEngine.open(str(folder_with(tmp_path / "m", PICKY)))
    shown = "who wrote the sea"
    with pytest.raises(ModelError, match=f"omits the question '{shown}'"):
        engine.check([query("who"), query(shown)], Decoding(max_new_tokens=1))
    with pytest.raises(ModelError, match=f"omits the question '{shown}'"):
        engine.read([(query("who"), "Ann"), (query(shown), "Ann")])
    with pytest.raises(ModelError, match=f"omits the question '{shown}'"):
        Encoder(engine.loaded.tokenizer, Prompting()).rows(
            [Prompt(id="a", question=shown, answer="Ann")]
        )


def of_marks(template: str, *marks: str, eos: str = "<eos>") -> Any:
    tokenizer = byte_level(template, eos=eos)
    tokenizer.add_special_tokens({"additional_special_tokens": [eos, *marks]})
    return tokenizer


def turns(before: str, after: str, last: str | None = None) -> str:
    """A template that writes each turn so, with another end after the last answer."""
    closing = f"({last!r} if loop.last else {after!r})" if last else repr(after)
    return (
        "{% for m in messages %}{{ " + repr(before) + ".replace('ROLE', m.role) + m.content + "
        f"({closing} if m.role == 'assistant' else {after!r}) }}}}{{% endfor %}}"
        "{% if add_generation_prompt %}{{ "
        + repr(before.replace("ROLE", "assistant"))
        + " }}{% endif %}"
    )


HARMONY = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|start|>assistant<|channel|>final"
    "<|message|>' + m.content + ('LAST' if loop.last else '<|end|>') }}{% else %}"
    "{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)
CHANNELS = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>")
ENDS = {
    "gpt-oss": (of_marks(HARMONY.replace("LAST", "<|return|>"), *CHANNELS), "<|return|>"),
    # its end of a turn also ends the thought
    "gpt-oss, open": (of_marks(HARMONY.replace("LAST", "<|end|>"), *CHANNELS), None),
    "llama 3": (of_marks(LLAMA_3), "<|eot_id|>"),
    "chatml": (of_marks(CHATML), "<|im_end|>"),
    "mistral": (of_marks(turns("[ROLE]", "", "</s>"), "</s>"), "</s>"),
    "a blank line before it": (of_marks(turns("<|ROLE|>", "\n\n<|eot|>\n"), "<|eot|>"), "<|eot|>"),
    "none": (of_marks(turns("ROLE: ", "\n")), None),
    "refuses an answer": (of_marks("{{ raise_exception('no') }}"), None),
    "rewrites an answer": (of_marks("<|im_start|>{{ messages[0].content }}<|im_end|>"), None),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_turn_ends_an_output_of_a_chat(name: str) -> None:
    tokenizer, end = ENDS[name]
    own = frozenset({tokenizer.eos_token_id})
    added = {tokenizer.convert_tokens_to_ids(end)} if end else set()
    assert Prompting().ends(tokenizer, own) == own | added
    assert Prompting().describe(tokenizer)["end_token"] == end
    assert Prompting(chat=False).ends(tokenizer, own) == own
    stated = Prompting(chat=False, end_token="<|im_start|>")
    assert stated.ends(tokenizer, own) == own | {tokenizer.convert_tokens_to_ids("<|im_start|>")}
    assert Prompting.described(stated.describe(tokenizer)) == stated


def test_draws_end_with_the_turn_and_a_note_names_the_token(tmp_path: Path) -> None:
    tokenizer, _ = ENDS["a blank line before it"]
    turn = tokenizer.convert_tokens_to_ids("<|eot|>")
    model = tiny_llama(len(tokenizer), eos_token_id=tokenizer.eos_token_id)
    model.lm_head.weight.data.zero_()  # every token is equally likely
    loaded = tiny_loaded(model, tokenizer, ends=[tokenizer.eos_token_id])
    how = Decoding(max_new_tokens=20)
    for rule, ends in ((Prompting(), True), (Prompting(chat=False), False)):
        engine = TransformersEngine(loaded, rule)
        (sample,) = engine.generate([query("who?")], how, Draws(sizes=(150,)))
        last = [c for c in sample.completions if turn in (c.token_ids or ())]
        assert last
        places = [(c.token_ids or ()).index(turn) == len(c.token_ids or ()) - 1 for c in last]
        assert all(places) == ends
        assert (turn in engine.fingerprint["end_tokens"]) == ends
        assert any("end at '<|eot|>' (the chat" in note for note in engine.usage.notes) == ends


def test_an_end_token_is_one_of_the_model_and_none_of_a_server() -> None:
    tokenizer, _ = ENDS["chatml"]
    for wrong in ("<|no|>", "who wrote"):
        with pytest.raises(InputError, match=r"`end_token` must be one token of the model's voc"):
            Prompting(end_token=wrong).ends(tokenizer, frozenset())
    with pytest.raises(InputError, match=r"decides where outputs end, got `end_token` '<e>'"):
        open_engine("openai:http://127.0.0.1:1/v1#m", Prompting(end_token="<e>"))


def test_a_tokenizer_with_code_writes_its_own_prompts() -> None:
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


def test_the_date_of_a_template_is_the_same_every_day() -> None:
    shown = "%A, %-d %B %Y|%I:%M %p|%j|%U|%w|%y|%e|%%d|%D|%T|%b %_d|%^a|%Z|%s|100%"
    clock = "{% if strftime_now is defined %}{{ strftime_now('" + shown + "') }}{% endif %}"
    clock += " {{ messages[0].content }}"
    tokenizer = byte_level(clock)
    wanted = "Thursday, 10 April 2025|12:00 AM|100|14|4|25|10|%d|04/10/25|00:00:00|Apr 10|THU||"
    text = tokenizer.decode(Prompting().encode(tokenizer, "who?"))
    assert text == f"{wanted}1744243200|100% who?"

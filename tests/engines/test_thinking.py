"""Tokens separate thoughts from answers, in draws, masses and proofs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from leakbound.engines.hf import TransformersEngine
from leakbound.engines.prompting import TRAINED, Prompting
from leakbound.engines.thinking import ThoughtBudget, marks_of
from leakbound.engines.tokens import Detokenizer
from leakbound.errors import InputError
from leakbound.scorers import make_scorer, score_ranges
from leakbound.text.counting import counted_as, is_missing
from leakbound.types import Completion, Decoding, Draws, Effort, Prompt, Query
from leakbound.unlearning.examples import Encoder
from offline_tokenizers import THINKING, byte_level, thinking
from sampling_tables import unknown
from tiny import tiny_llama, tiny_loaded, tiny_tokenizer

EOS = 2
HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"]
NAMES = ["assistant", "analysis", "final", "commentary"]
WORDS = ["red", "blue", "sky", "who"]
QUERY = Query(id="q", prompt_id="q", text="who")


def words(*marks: str) -> Any:
    return tiny_tokenizer([*WORDS, *marks])


def engine(tokenizer: Any, template: str | None = None, **model: Any) -> TransformersEngine:
    """A random model with a plain prompt or a chat template of these words."""
    ends = [EOS, *(i for m in ("<|return|>", "<|call|>") if (i := id_of(tokenizer, m)) is not None)]
    made = tiny_llama(len(tokenizer), initializer_range=0.3, **model)
    return TransformersEngine(
        tiny_loaded(made, tokenizer, ends=ends), Prompting(template=template or "{question}")
    )


def id_of(tokenizer: Any, word: str) -> int | None:
    return tokenizer.get_vocab().get(word)


def ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.convert_tokens_to_ids(text.split()))


@cache
def engine_of(template: str, *marks: str) -> TransformersEngine:
    return engine(words(*marks), template)


def forced(template: str, output: str, *marks: str, stop: tuple[str, ...] = ()) -> Completion:
    """Return an output of a model as the engine reports it."""
    how = Decoding(max_new_tokens=len(output.split()), stop=stop)
    made = engine_of(template, *marks)
    (one,) = made.force_ids([(QUERY, ids(made.loaded.tokenizer, output))], how)
    return one


QWEN, GEMMA = ("<think>", "</think>"), ("<|channel>", "<channel|>")
HARMONIC = (*HARMONY, *NAMES)
CHANNEL = "<|channel|> analysis <|message|> red <|end|> <|start|> assistant"


@pytest.mark.parametrize(
    ("template", "output", "marks", "wanted"),
    [
        # thought, answer, finish, counted as, missing
        ("{question}", "<think> red sky </think> blue </s>", QWEN,
         ("red sky", "blue", "stop", "complete", False)),
        ("{question}", "<think> </think> blue </s>", QWEN,
         (None, "blue", "stop", "complete", False)),
        ("{question}", "blue sky </s>", QWEN, (None, "blue sky", "stop", "complete", False)),
        ("{question}", "<think> red blue", QWEN, ("red blue", "", "length", "cut", True)),
        ("{question}", "<think>", QWEN, (None, "", "length", "empty", True)),
        ("{question}", "<think> red </think>", QWEN, ("red", "", "length", "cut", True)),
        ("{question}", "<think> red </think> </s>", QWEN, ("red", "", "stop", "complete", False)),
        ("{question}", "</s>", QWEN, (None, "", "stop", "complete", False)),
        # an end without a beginning; a thought after the answer began belongs to the answer
        ("{question}", "red </think> blue </s>", QWEN,
         (None, "red\nblue", "stop", "complete", False)),
        ("{question}", "red <think> sky </think> blue </s>", QWEN,
         (None, "red\nsky\nblue", "stop", "complete", False)),
        # the prompt ends inside the thought, or behind an empty one
        ("{question} <think>", "red </think> blue </s>", QWEN,
         ("red", "blue", "stop", "complete", False)),
        ("{question} <think>", "red blue", QWEN, ("red blue", "", "length", "cut", True)),
        ("{question} <think>", "</think> blue </s>", QWEN,
         (None, "blue", "stop", "complete", False)),
        ("{question} <think> </think>", "blue </s>", QWEN,
         (None, "blue", "stop", "complete", False)),
        ("<think> {question}", "blue </s>", QWEN, (None, "blue", "stop", "complete", False)),
        ("{question}", "[THINK] red [/THINK] blue </s>", ("[THINK]", "[/THINK]"),
         ("red", "blue", "stop", "complete", False)),
        # other families' marks are words
        ("{question}", "[THINK] red [/THINK] blue </s>", (*QWEN, "[THINK]", "[/THINK]"),
         (None, "[THINK] red [/THINK] blue", "stop", "complete", False)),
        ("{question} <|start|> assistant",
         f"{CHANNEL} <|channel|> final <|message|> blue sky <|return|>", HARMONIC,
         ("red", "blue sky", "stop", "complete", False)),
        ("{question} <|start|> assistant", "<|channel|> final <|message|> blue <|return|>",
         HARMONIC, (None, "blue", "stop", "complete", False)),
        ("{question} <|start|> assistant", "blue sky <|return|>", HARMONIC,
         (None, "blue sky", "stop", "complete", False)),
        ("{question} <|start|> assistant", CHANNEL, HARMONIC, ("red", "", "length", "cut", True)),
        ("{question} <|start|> assistant",
         f"{CHANNEL} <|channel|> commentary sky <|message|> blue <|call|>", HARMONIC,
         ("red\ncommentary sky\nblue", "", "tool", "failed", True)),
        ("{question} <|start|> assistant <|channel|> analysis <|message|>", "red blue", HARMONIC,
         ("red blue", "", "length", "cut", True)),
        ("{question} <|start|> assistant <|channel|> final <|message|>", "blue <|return|>",
         HARMONIC, (None, "blue", "stop", "complete", False)),
    ],
)  # fmt: skip
def test_an_output_is_split_by_its_tokens(
    template: str, output: str, marks: tuple[str, ...], wanted: tuple[Any, ...]
) -> None:
    one = forced(template, output, *marks)
    counted = counted_as(one)
    assert (one.thought, one.answer, one.finish, counted, is_missing(one, counted)) == wanted
    assert one.tokens == len(output.split())


def test_a_stop_string_before_the_answer_counts_as_missing() -> None:
    for output in ("<think> red sky", "<think> red </think> sky"):
        one = forced("{question}", output, *QWEN, stop=("sky",))
        assert (one.thought, one.answer, one.finish) == ("red", "", "error")
        assert is_missing(one, counted_as(one, ("sky",)))
    one = forced("{question}", "<think> red </think> blue sky", *QWEN, stop=("sky",))
    assert (one.thought, one.answer, one.finish) == ("red", "blue ", "stop_string")
    one = forced("{question}", "sky", *QWEN, stop=("sky",))  # without a thought
    assert (one.answer, counted_as(one, ("sky",))) == ("", "complete")


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<|channel>thought\nWho wrote?<channel|>Ann.", "Who wrote?", "Ann."),
        ("<|channel>thought\n<channel|>Ann.", None, "Ann."),
        ("<|channel>thoughtful<channel|>Ann.", "thoughtful", "Ann."),
        ("<|channel>thou", None, ""),
    ],
)
def test_the_title_of_a_thought_is_no_text(text: str, thought: str | None, answer: str) -> None:
    tokenizer = marked(GEMMA)
    got = Detokenizer(tokenizer, {tokenizer.eos_token_id}).parts(tokenizer.encode(text), ())
    assert (got.thought, got.answer) == (thought, answer)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("opened", [True, False])
def test_blanks_of_the_template_belong_to_neither_text(special: bool, opened: bool) -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens([*QWEN], special_tokens=special)
    before = tokenizer.encode("<think>\n" if opened else "assistant\n")
    output = "who?\n</think>\n\n Ann\n" if opened else "<think>\nwho?\n</think>\n\n Ann\n"
    spells = Detokenizer(tokenizer, {tokenizer.eos_token_id})
    assert spells.parts(tokenizer.encode(output), (), before)[:2] == ("who?", "Ann\n")


def test_tags_of_ordinary_tokens_are_text_without_a_template() -> None:
    tokenizer = byte_level()
    output = tokenizer.encode("<think>\nwho?\n</think>\n\nAnn")
    end = {tokenizer.eos_token_id}
    assert Detokenizer(tokenizer, end).parts(output, ()) == (None, tokenizer.decode(output), None)
    tokenizer.chat_template = "{{ '<think>' + messages[0].content + '</think>' }}"
    assert Detokenizer(tokenizer, end).parts(output, ())[:2] == ("who?", "Ann")
    rest = tokenizer.encode("who?\n</think>\n\nAnn")
    before = tokenizer.encode("who wrote?<think>\n")
    assert Detokenizer(tokenizer, end).parts(rest, (), before)[:2] == ("who?", "Ann")
    tokenizer.add_tokens([*QWEN])  # with thought tokens, spelled tags are text
    assert Detokenizer(tokenizer, end).parts(output, ())[0] is None


TOKENIZERS = {
    "qwen": lambda: marked(QWEN),
    "gemma": lambda: marked(GEMMA),
    "harmony": lambda: marked(HARMONY),
    "tags": lambda: marked((), "<think></think>"),
}


def marked(marks: tuple[str, ...] | list[str], template: str | None = None) -> Any:
    tokenizer = byte_level(template)
    tokenizer.add_tokens([*marks], special_tokens=True)
    return tokenizer


@pytest.mark.parametrize("stop", [(), ("\n\n",), ("who", "x")], ids=repr)
@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_output_begins_with_what_is_settled(name: str, stop: tuple[str, ...]) -> None:
    """Compare on random pieces of marks, headers, blanks, words and broken characters."""
    tokenizer, rng = TOKENIZERS[name](), random.Random(3)
    spells = Detokenizer(tokenizer, {tokenizer.eos_token_id})
    texts = [*QWEN, "<thi", "nk>", "<|channel>", "<channel|>", "thought\n", *HARMONY, *NAMES]
    texts += ["\n\n", " ", "who", "Ann wrote", "字", "x"]
    pieces = [tuple(tokenizer.encode(text)) for text in texts]
    pieces += [piece[:1] for piece in pieces]  # the first byte of a character too
    openings = [(), *(tuple(tokenizer.encode(t)) for t in ("<think>\n", "<|channel>thought\n"))]
    openings.append(tuple(tokenizer.encode("<|channel|>analysis<|message|>")))
    begun = thought = 0
    for _ in range(70):
        whole = tuple(i for piece in rng.choices(pieces, k=7) for i in piece)
        prompt = rng.choice(openings)
        final = spells.parts(whole, stop, prompt)
        thought += final.thought is not None
        for length in range(len(whole) + 1):
            if stop and spells.stopped(stop)(whole[:length]):
                break  # no output has more
            settled = spells.settled(whole[:length], stop, prompt)
            assert final.answer.startswith(settled.answer), (whole, length, prompt)
            assert (final.thought or "").startswith(settled.thought or ""), (whole, length, prompt)
            begun += bool(settled.answer)
            if settled.answer.strip():  # then it is never missing, and its thought is whole
                assert final.finish is None
    assert begun > 50
    assert thought > 5


def test_draws_masses_and_proofs_of_a_thinking_model_agree() -> None:
    """For a scorer of answers and one of both parts, over the complete distribution."""
    tokenizer = words(*QWEN)
    made = engine(tokenizer, "{question} <think>")
    how = Decoding(max_new_tokens=3)
    for name in ("contains", "exact"):
        scorer = make_scorer(name)

        def ranges(query: Query, events: Any, scorer: Any = scorer) -> list[tuple[float, float]]:
            return score_ranges(scorer, events, "red")

        (got,) = made.explore([QUERY], how, Effort(mode="exact", forwards=200), ranges)
        low, high = (
            sum(e.mass * ends[side] for e in got.events for ends in ranges(QUERY, [e]))
            for side in (0, 1)
        )
        (drawn,) = made.generate([QUERY], how, Draws(sizes=(4000,)))
        leaks = lost = 0
        for one in drawn.completions:
            shown = [one.answer, *([one.thought or ""] if name == "contains" else [])]
            leak = any(
                "red" in t.split() if name == "contains" else t.strip() == "red" for t in shown
            )
            leaks += one.count * leak
            lost += one.count * (not leak and is_missing(one, counted_as(one)))
        assert low == pytest.approx(leaks / 4000, abs=0.03)
        assert high == pytest.approx((leaks + lost) / 4000, abs=0.03)
        assert 0.001 < low < high < 0.99
    (proof,) = made.prove([(QUERY, ["red"])], how, 50, ranges)
    assert sum(event.mass for event in proof.events) == pytest.approx(low, abs=1e-4)
    assert any(event.answer == "red" for event in proof.events)


OPEN = (
    "{% for m in messages %}{{ '<s>' + m.role + '\n' + m.content + '<e>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant\n<think>\n' }}{% endif %}"
)


def test_an_answer_after_an_open_thought_closes_it() -> None:
    """Trained, read and forced as one sequence; the opening of an answer is no thought."""
    tokenizer = byte_level(OPEN)
    tokenizer.add_tokens(["<s>", "<e>", *QWEN], special_tokens=True)
    rule = Prompting()
    prompt = rule.encode(tokenizer, "who wrote?")
    joined = rule.join(tokenizer, "who wrote?", "Ann")
    assert list(joined.prompt) == prompt
    assert tokenizer.decode(joined.answer) == "</think>\n\nAnn<e>"
    assert rule.output(tokenizer, "who wrote?", "Ann") == joined.answer
    spells = Detokenizer(tokenizer, rule.ends(tokenizer, frozenset()))
    assert spells.parts(joined.answer, (), prompt)[:2] == (None, "Ann")
    begun = Query(id="q", prompt_id="q", text="who wrote?", prefix="Ann ")
    opening = rule.encode(tokenizer, begun)
    assert tokenizer.decode(opening).endswith("<think>\n</think>\n\nAnn")
    assert spells.parts(tokenizer.encode(" wrote"), (), opening)[:2] == (None, " wrote")
    assert rule.output(tokenizer, begun, "wrote") is not None


MODES = ("on", "off", "auto")
QUESTION = "who wrote?"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", THINKING)
def test_one_sequence_is_drawn_read_trained_and_proved(family: str, mode: Any) -> None:
    tokenizer, rule = thinking(family), Prompting(thinking=mode)
    prompt = rule.encode(tokenizer, QUESTION)
    ends = rule.ends(tokenizer, frozenset({tokenizer.eos_token_id}))
    spells = Detokenizer(tokenizer, ends)
    joined = rule.join(tokenizer, QUESTION, "Ann wrote.")
    assert list(joined.prompt) == prompt
    assert joined.answer[-1] in ends
    assert rule.output(tokenizer, QUESTION, "Ann wrote.") == joined.answer
    assert spells.parts(joined.answer, (), prompt)[:2] == (None, "Ann wrote.")
    row = Prompt(id="q", question=QUESTION, answer="Ann wrote.")
    (example,) = Encoder(tokenizer, rule).rows([row])
    assert (example.prompt, example.answer) == (joined.prompt, joined.answer)
    if mode == "auto":
        model = tiny_llama(len(tokenizer), max_position_embeddings=512)
        made = TransformersEngine(tiny_loaded(model, tokenizer, ends=ends, context=512), rule)
        query = Query(id="q", prompt_id="q", text=QUESTION)
        (forced,) = made.force_ids([(query, joined.answer)], Decoding(max_new_tokens=60))
        (read,) = made.read([(query, "Ann wrote.")])
        assert len(read.logprobs) == len(joined.answer)
        assert sum(read.logprobs) == pytest.approx(forced.logprob, abs=1e-5)
    if mode == "off":  # the empty thought is a part of the prompt
        assert tokenizer.decode(joined.answer[:-1]) == "Ann wrote."
        assert not marks_of(tokenizer).opens(tokenizer.decode(prompt))
        with pytest.raises(InputError, match="contains a thought, but thinking is off"):
            rule.join(tokenizer, QUESTION, "Ann", thought="who?")
        return
    thought = rule.join(tokenizer, QUESTION, "Ann wrote.", thought="Who, then?")
    assert list(thought.prompt) == prompt
    assert spells.parts(thought.answer, (), prompt)[:2] == ("Who, then?", "Ann wrote.")
    assert thought.answer[-1] in ends


@pytest.mark.parametrize("family", THINKING)
def test_as_the_model_was_trained(family: str, tmp_path: Path) -> None:
    """The word for thinking is saved with the tokenizer, and replaces "auto" after loading."""
    tokenizer, auto = thinking(family), Prompting()
    before = auto.encode(tokenizer, QUESTION)
    assert auto.notes(tokenizer) == []
    Prompting(thinking="off").record(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert auto.encode(loaded, QUESTION) == Prompting(thinking="off").encode(loaded, QUESTION)
    assert auto.describe(loaded)["thinking"] == "off"
    thinks = family != "gemma-4"
    assert (auto.encode(loaded, QUESTION) != before) == thinks
    on = Prompting(thinking="on")
    assert on.notes(loaded) == ["thinking is on, but the model was trained with thinking off"]
    (note,) = auto.notes(loaded)
    assert note == "thinking is off, as in training, although the chat template would turn it on"


def test_every_setting_has_one_prompt_without_marks_of_thoughts() -> None:
    tokenizer = byte_level("{% for m in messages %}{{ '<e>' + m.content }}{% endfor %}")
    wanted = {tuple(Prompting(thinking=mode).encode(tokenizer, QUESTION)) for mode in MODES}
    assert len(wanted) == 1
    assert "thinking" not in Prompting(thinking="on").describe(tokenizer)
    (note,) = Prompting(thinking="on").notes(tokenizer)
    assert "no token marks thoughts" in note
    assert [Prompting(thinking=mode).notes(tokenizer) for mode in ("off", "auto")] == [[], []]
    Prompting(thinking="off").record(tokenizer)
    assert TRAINED not in tokenizer.init_kwargs
    with pytest.raises(InputError, match="has no token that marks thoughts"):
        Prompting().join(tokenizer, QUESTION, "Ann", thought="who?")
    with pytest.raises(InputError, match="`thinking` must be one of on, off, auto, got 'maybe'"):
        Prompting(thinking="maybe")  # type: ignore[arg-type]


BUDGETS = Decoding(max_new_tokens=2, max_thinking_tokens=3)


def masses_under_budgets(
    made: TransformersEngine, outputs: Sequence[Any], opened: bool
) -> dict[Any, float]:
    """Return the probability of each output, with the third token of a thought as its end."""
    begin, end = (id_of(made.loaded.tokenizer, mark) for mark in QWEN)
    prompt, got = made.prompt_ids(QUERY), dict[Any, float]()
    padded = torch.tensor([[*prompt, *ids, *[0] * (5 - len(ids))] for ids in outputs])
    with torch.inference_mode():
        laws = made.loaded.model(padded).logits[:, len(prompt) - 1 :].double().softmax(-1)
    for ids, table in zip(outputs, laws, strict=True):
        mass, inside, thought, answer, closed = 1.0, opened, 0, 0, False
        for token, law in zip(ids, table, strict=False):
            forced = inside and thought >= 2 and not closed
            closed = closed or forced
            mass *= float(token == end) if forced else float(law[token])
            if answer or (not inside and token not in {0, 1, EOS, begin, end}):  # they are no text
                answer += 1
            else:
                inside, thought = token == begin or (inside and token != end), thought + 1
        assert ids[-1] == EOS or answer == 2 or len(ids) == 5
        got[ids] = mass
    return got


@pytest.mark.parametrize("template", ["{question} ", "{question} <think>"])
def test_budgets_of_thought_and_answer_are_one_distribution(template: str) -> None:
    tokenizer = words(*QWEN)
    made = engine(tokenizer, template)

    effort = Effort(mode="exact", forwards=150)
    (got,) = made.explore([QUERY], BUDGETS, effort, unknown)
    ended = [event for event in got.events if event.ended]
    assert len(ended) > 50
    (drawn,) = made.generate([QUERY], BUDGETS, Draws(sizes=(1500,)))
    outputs = {one.token_ids for one in [*ended, *drawn.completions]}
    wanted = masses_under_budgets(made, [*outputs], "<think>" in template)
    for event in ended:
        assert event.mass == pytest.approx(wanted[event.token_ids], rel=1e-3)
    closed = [e for e in ended if e.token_ids[2:3] == (id_of(tokenizer, QWEN[1]),)]
    assert any(event.finish == "length" and event.answer for event in closed)
    for one in drawn.completions:
        assert one.logprob == pytest.approx(math.log(wanted[one.token_ids]), abs=1e-3)
        if one.count > 60:
            assert one.count / 1500 == pytest.approx(wanted[one.token_ids], abs=0.04)
    again = made.force_ids([(QUERY, one.token_ids) for one in drawn.completions], BUDGETS)
    for one, same in zip(drawn.completions, again, strict=True):
        assert (same.thought, same.answer, same.finish) == (one.thought, one.answer, one.finish)
    (redrawn,) = made.redraw([QUERY], BUDGETS, Draws(sizes=(1500,)), {"q": drawn.completions})
    assert redrawn.differs_after is None
    reds = make_scorer("contains")
    (proof,) = made.prove(
        [(QUERY, ["red"])], BUDGETS, 50, lambda _, events: score_ranges(reds, events, "red")
    )
    assert proof.events


def test_what_budgets_a_model_cannot_have() -> None:
    plain = engine(words())
    with pytest.raises(InputError, match="needs a model with tokens that mark a thought"):
        plain.check([QUERY], BUDGETS)
    made = engine(words(*QWEN))
    with pytest.raises(InputError, match="must be more than the 1 tokens that close a thought"):
        made.check([QUERY], Decoding(max_new_tokens=2, max_thinking_tokens=1))
    for other in ({"adaptive_temperature": 0.9}, {"max_tokens": 9}, {"max_thinking_tokens": 0}):
        with pytest.raises(InputError, match="`max_thinking_tokens` must be"):
            Decoding(**({"max_thinking_tokens": 3} | other))


HARMONY_CLOSED = "<|end|> <|start|> assistant <|channel|> final <|message|>"


@pytest.mark.parametrize(
    ("marks", "opened", "output", "most", "answer", "wanted"),
    [
        (QWEN, True, "red red </think> sky blue who", 3, 2, "red red </think> sky blue"),
        (QWEN, True, "red </think> sky", 3, 2, "red </think> sky"),
        (QWEN, True, "red red red red", 3, 2, "red red red"),
        (QWEN, False, "<think> red red red", 3, 2, "<think> red red"),
        (QWEN, False, "red sky blue", 3, 2, "red sky"),
        (QWEN, False, "<think> </think> <pad> red sky blue", 9, 1, "<think> </think> <pad> red"),
        (HARMONIC, False, f"<|channel|> analysis <|message|> red {HARMONY_CLOSED} sky who", 99, 1,
         f"<|channel|> analysis <|message|> red {HARMONY_CLOSED} sky"),
        (HARMONIC, False, "<|channel|> analysis <|message|> red red red red red", 7, 1,
         "<|channel|> analysis <|message|> red red red red"),
        (HARMONIC, False, "<|channel|> final <|message|> red red red", 10, 1,
         "<|channel|> final <|message|> red"),
    ],
)  # fmt: skip
def test_without_forced_tokens_a_spent_budget_ends_an_output(
    marks: tuple[str, ...], opened: bool, output: str, most: int, answer: int, wanted: str
) -> None:
    tokenizer = words(*marks)
    spells = Detokenizer(tokenizer, {EOS})
    prompt = ids(tokenizer, "who <think>" if opened else "who")
    how = Decoding(max_new_tokens=answer, max_thinking_tokens=most)
    family = marks_of(tokenizer)
    closing = ids(tokenizer, HARMONY_CLOSED) if marks is HARMONIC else ids(tokenizer, "</think>")
    budget = ThoughtBudget(family, closing, spells._decode, how, opened=opened)
    assert budget.start(prompt).part == ("thought" if opened else "answer")
    assert budget.cut(ids(tokenizer, output)) == ids(tokenizer, wanted)

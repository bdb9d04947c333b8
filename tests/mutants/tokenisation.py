"""Mutants of the one tokenisation of prompt and answer, and of OpenUnlearning's own."""

SPLIT = "engines/test_splitting.py"
REFUSED = "evaluation/draws/test_refused_proofs.py"
PARITY = "evaluation/metrics/test_openunlearning_parity.py"
TOKENS = f"{PARITY}::test_every_token_and_every_greedy_answer_is_theirs"
CHATML = f"{TOKENS}[chatml, tied]"
PLAIN = f"{TOKENS}[byte-level base, untied]"
LLAMA_2 = f"{TOKENS}[llama-2-chat, untied]"
VALUES = f"{PARITY}::test_every_metric_is_theirs[byte-level base, untied]"
DRAWN = "unlearning/test_own_answers.py::"
LEARNT = DRAWN + "test_answers_are_learnt_after_the_prompt_that_they_were_drawn_from"

MUTANTS = [
    ("engines/splitting.py", "end > boundary", "end >= boundary", SPLIT),
    ("engines/splitting.py", "if ids[: len(before)] != before:", "if False:", SPLIT),
    ("engines/prompting.py", "text = opened.rstrip(_BLANK)", "text = opened", SPLIT),
    (
        "engines/prompting.py",
        "joined.answer if self._shown(tokenizer, joined.prompt) == asked else None",
        "joined.answer",
        REFUSED,
    ),
    (
        "engines/prompting.py",
        "if self.compat is None and not answer[:1].strip():",
        "if False:",
        SPLIT,
    ),
    ("engines/prompting.py", "if kept or self.compat is not None:", "if True:", SPLIT),
    ("engines/prompting.py", "return ids[: len(ids) - ids[::-1].index(end)]", "return ids", SPLIT),
    ("engines/prompting.py", "ids if ids[-1:] == [end] else [*ids, end]", "[*ids, end]", SPLIT),
    (
        "engines/prompting.py",
        "return opened.rstrip(_BLANK) if self.compat is None else opened",
        "return opened",
        SPLIT,
    ),
    ("engines/prompting.py", "if not (joined.prompt and joined.answer):", "if False:", SPLIT),
    (
        "engines/prompting.py",
        "            ids.append(_eos(tokenizer))\n",
        "            pass\n",
        CHATML,
    ),
    ("engines/prompting.py", "return self._shown(tokenizer, whole)", "return whole", CHATML),
    (
        "engines/prompting.py",
        "alone = len(self._as_it_stands(tokenizer, opened))",
        "alone = len(self._as_it_stands(tokenizer, opened.rstrip()))",
        PLAIN,
    ),
    ("engines/prompting.py", "if self.compat is None or turn is None or", "if True or", LLAMA_2),
    (
        "engines/hf.py",
        "        if query_ids:\n            named",
        "        if False:\n            named",
        REFUSED,
    ),
    (
        "engines/reading.py",
        "decode(list(ids), skip_special_tokens=True)",
        "decode(list(ids))",
        PLAIN,
    ),
    (
        "unlearning/own_answers.py",
        "                    prompt=self._asked(prompts[place]),\n",
        "",
        LEARNT,
    ),
    ("evaluation/metrics/wanted.py", "metrics_as(task.compat)", "metrics_as(None)", VALUES),
    ("metrics/membership.py", "reading.text.encode(", "str(len(reading.text)).encode(", VALUES),
]

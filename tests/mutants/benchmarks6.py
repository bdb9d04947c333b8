"""Mutants of benchmarks from other papers, of profiles, and of prompts by model family."""

MUSE = "benchmarks/test_muse.py"
WMDP = "benchmarks/test_wmdp.py"
TOFU = "benchmarks/test_tofu.py"
FILES = "benchmarks/test_files.py"
PROFILES = "benchmarks/test_profiles.py"
FAMILIES = "engines/test_families.py"
HIDES = "engines/test_reading.py::test_openunlearning_hides_ends_of_turns_inside_the_prompt"
NO_PAD = "engines/test_reading.py::test_a_tokenizer_without_a_pad_token_hides_its_end"
LIMIT = "engines/test_max_tokens.py"
OPTION = "cli/test_profile_option.py"

MUTANTS = [
    # MUSE
    ("benchmarks/muse.py", "            examples=examples,\n", "", MUSE),
    ("benchmarks/muse.py", "        stop=_STOP,\n", "", MUSE),
    (
        "benchmarks/muse.py",
        '_STOP = ("\\n\\n", "\\nQuestion", "Question:")',
        '_STOP = ("\\n\\n",)',
        MUSE,
    ),
    ("benchmarks/muse.py", "max_new_tokens=32", "max_new_tokens=128", MUSE),
    ("benchmarks/muse.py", '("retain_qa", "retain2_qa")', '("retain_qa",)', MUSE),
    (
        "benchmarks/muse.py",
        'f"{stem}_icl" for stem in stems',
        '"forget_qa_icl" for stem in stems',
        MUSE,
    ),
    ("benchmarks/muse.py", "self.source.folder.name in names", "self.source.folder.name", MUSE),
    ("benchmarks/muse.py", "text[len(first) :]", "text[len(first) + 1 :]", MUSE),
    ("benchmarks/muse.py", "if first == text:", "if not first:", MUSE),
    ("text/rows.py", "yield {bare: value}", "yield {bare: str(number)}", MUSE),
    # WMDP
    ("benchmarks/wmdp.py", 'row.text("question").strip()', 'row.text("question")', WMDP),
    (
        "benchmarks/wmdp.py",
        "if len(choices) != len(LETTERS):",
        "if len(choices) > len(LETTERS):",
        WMDP,
    ),
    ("benchmarks/wmdp.py", "if not 0 <= right < len(LETTERS):", "if right >= len(LETTERS):", WMDP),
    ("benchmarks/wmdp.py", "chat=None if explained else False", "chat=None", WMDP),
    ("benchmarks/wmdp.py", "scorers=() if explained else", "scorers=", WMDP),
    ("benchmarks/wmdp.py", '"{question}\\nAnswer:"', '"{question}\\nAnswer: "', WMDP),
    # schemas
    (
        "benchmarks/tofu.py",
        'other.some("perturbed_answer")',
        'other.texts("perturbed_answer")',
        TOFU,
    ),
    (
        "benchmarks/tofu.py",
        'other.some("paraphrased_question")',
        'other.texts("paraphrased_question")',
        TOFU,
    ),
    (
        "benchmarks/tofu.py",
        'other.text("paraphrased_answer")',
        'other.maybe("paraphrased_answer")',
        TOFU,
    ),
    ("benchmarks/tofu.py", "reworded = split not in _FACTS", "reworded = True", TOFU),
    ("benchmarks/harry_potter.py", "row.some(", "row.texts(", FILES),
    (
        "text/rows.py",
        "except pa.ArrowException as error",
        "except ZeroDivisionError as error",
        FILES,
    ),
    ("text/rows.py", '"" if key in self.values else', '"" if True else', TOFU),
    # profiles
    ("benchmarks/profiles.py", "load()[: profile.rows]", "load()", PROFILES),
    ("benchmarks/profiles.py", 'or prompt.role != "forget"', "", PROFILES),
    ("benchmarks/profiles.py", "question=prompt.paraphrases[0], ", "", PROFILES),
    (
        "benchmarks/profiles.py",
        "answer=profile.opening + prompt.answer",
        "answer=prompt.answer",
        PROFILES,
    ),
    ("benchmarks/profiles.py", "(profile.opening + wrong for wrong", "(wrong for wrong", PROFILES),
    (
        "benchmarks/profiles.py",
        "chat=False if profile.template else benchmark.chat",
        "chat=benchmark.chat",
        PROFILES,
    ),
    (
        "benchmarks/profiles.py",
        "profile.scorers.get(benchmark.role, benchmark.scorers)",
        "benchmark.scorers",
        PROFILES,
    ),
    ("benchmarks/profiles.py", "        profile=profile.name,\n", "", PROFILES),
    ("benchmarks/catalogue.py", "limit or chosen.rows", "chosen.rows or limit", PROFILES),
    ("store/run.py", 'list(record.get("notes", ()))', "[]", OPTION),
    ("evaluation/draws/asking.py", "                    examples=prompt.examples,\n", "", OPTION),
    ("benchmarks/jailbreakbench.py", "        chat=True,\n", "", OPTION),
    # prompts by family
    (
        "engines/families.py",
        '("[INST]", "<<SYS>>"), system=False',
        '("[INST]", "<<SYS>>")',
        FAMILIES,
    ),
    ("engines/families.py", "all(mark in text", "any(mark in text", FAMILIES),
    (
        "engines/prompting.py",
        'f"{put(question)}{answer}{_GAP}"',
        'f"{put(question)}{answer}\\n"',
        FAMILIES,
    ),
    ("engines/prompting.py", ', said("assistant", answer)]', "]", FAMILIES),
    ("engines/prompting.py", "if self.system is None and", "if not self.system and", FAMILIES),
    (
        "engines/templates.py",
        "date_string=DATE_STRING",
        'date_string=""',
        FAMILIES,
    ),
    (
        "engines/prompting.py",
        "return written(tokenizer, turns, open_ended=True) + asked.prefix",
        "return written(tokenizer, turns, open_ended=True)",
        FAMILIES,
    ),
    (
        "engines/reading.py",
        "query.text, text, query.prefix, query.examples",
        "query.text, text, query.prefix",
        LIMIT,
    ),
    (
        "engines/hf.py",
        "query.text, query.prefix, query.examples",
        "query.text, query.prefix",
        LIMIT,
    ),
    # what OpenUnlearning hides
    (
        "engines/reading.py",
        "seen[row, start:, start:] &= self._shown(ids[row, start:])",
        "pass",
        HIDES,
    ),
    ("engines/reading.py", "hides = {} if shown.all() else", "hides = {} if True else", HIDES),
    (
        "engines/reading.py",
        "model(**self._alone(ids), use_cache=False)",
        "model(input_ids=ids, use_cache=False)",
        HIDES,
    ),
    ("engines/prompting.py", "tokenizer.eos_token_id if pad is None else pad", "pad", NO_PAD),
    ("benchmarks/profiles.py", "        compat=profile.compat,\n", "", PROFILES),
    ("evaluation/settings.py", "            compat=benchmark.compat,\n", "", OPTION),
    # a limit on prompt and completion
    ("engines/hf.py", "min(decoding.max_new_tokens, most - length)", "most - length", LIMIT),
    (
        "engines/hf.py",
        "min(decoding.max_new_tokens, most - length)",
        "min(decoding.max_new_tokens, most)",
        LIMIT,
    ),
    ("engines/hf.py", "if room < 1:", "if room < 0:", LIMIT),
    ("engines/hf.py", "replace(decoding, max_new_tokens=room)", "decoding", LIMIT),
    ("evaluation/draws/explore.py", "if decoding.max_tokens is not None:", "if False:", LIMIT),
    (
        "benchmarks/wmdp.py",
        "choices=() if explained else choices",
        "choices=choices",
        "benchmarks/test_wmdp.py",
    ),
]

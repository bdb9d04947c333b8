"""Mutants of `leakbound.inputs`, and of the rewriting forms in `leakbound.text`."""

CONFORMS = "conformance/test_input_sources.py"
GATHER = "inputs/test_gather.py"
IDS = "inputs/test_ids.py"
SOURCES = "inputs/test_sources.py"
FORMS = "text/test_rewriting.py"
FACTS = "text/test_facts.py"

THIRD = "examples/test_third_parties.py"
MUTANTS = [
    # what a source depends on is recorded
    ("inputs/source.py", "    if declared is None:", "    if True:", THIRD),
    (
        "inputs/source.py",
        "return digests_of(Path(argument)) if argument else {}",
        "return {}",
        THIRD,
    ),
    (
        "inputs/lists.py",
        "        return digests_of(self.path)",
        "        return {}",
        "evaluation/draws/test_asked_inputs.py",
    ),
    # sources
    ("inputs/lists.py", "list(prompt.paraphrases[:number])", "list(prompt.paraphrases)", CONFORMS),
    (
        "inputs/lists.py",
        "rewritings(prompt.question, seed)[:number]",
        "rewritings(prompt.question, seed)",
        CONFORMS,
    ),
    (
        "inputs/lists.py",
        "rewritings(prompt.question, seed)[:number]",
        "rewritings(prompt.question)[:number]",
        SOURCES,
    ),
    ("inputs/lists.py", "list(found[prompt.id][:number])", "list(found[prompt.id])", CONFORMS),
    ("inputs/file.py", "if value not in known:", "if False:", SOURCES),
    ("inputs/file.py", "found[named] += ", "found[named] = ", SOURCES),
    ("inputs/file.py", "if not found:", "if False:", SOURCES),
    (
        "inputs/model.py",
        "finite: ClassVar[bool] = False",
        "finite: ClassVar[bool] = True",
        CONFORMS,
    ),
    ("inputs/model.py", "{draw}.{attempt}", "{draw}", SOURCES),
    ("inputs/model.py", "{draw}.{attempt}", "0.{attempt}", SOURCES),
    ("inputs/model.py", "top_p=0.95", "top_p=1.0", SOURCES),
    ("inputs/model.py", "return not text or normalise(text)", "return normalise(text)", SOURCES),
    (
        "inputs/model.py",
        "return not text or normalise(text) == normalise(prompt.question)",
        "return not text",
        SOURCES,
    ),
    (
        "inputs/model.py",
        "for at, draw in open_draws if _fails(",
        "for at, draw in open_draws if not _fails(",
        SOURCES,
    ),
    ("inputs/model.py", "ended = line.endswith", "ended = True or line.endswith", SOURCES),
    ("inputs/model.py", '_THOUGHTS.sub("", reply)', "reply", SOURCES),
    ("inputs/model.py", "if len(replies) != len(requests):", "if False:", SOURCES),
    ("inputs/spec.py", "if argument:", "if False:", SOURCES),
    ("inputs/spec.py", 'if name == "none" and not argument:', 'if name == "none":', SOURCES),
    # filters
    ("inputs/filters.py", '"empty": not letters', '"empty": not text', GATHER),
    (
        "inputs/filters.py",
        '"the question": letters == bare(prompt.question)',
        '"the question": text == prompt.question',
        GATHER,
    ),
    (
        "inputs/filters.py",
        '"the answer": letters == bare(prompt.answer or "")',
        '"the answer": False',
        GATHER,
    ),
    ("inputs/filters.py", "if not keeps_facts(prompt.question, text):", "if False:", GATHER),
    ("inputs/filters.py", "*prompt.keywords", "", GATHER),
    ("inputs/filters.py", "filter(str.isalnum, normalise(text))", "normalise(text)", GATHER),
    ("inputs/filters.py", "_SIMILARITY = 0.8", "_SIMILARITY = 0.79", GATHER),
    ("inputs/filters.py", "if not embedder:", "if False:", GATHER),
    ("inputs/filters.py", "if unfit.any():", "if False:", GATHER),
    ("inputs/filters.py", "vectors / norms[:, None]", "vectors", GATHER),
    (
        "inputs/filters.py",
        "np.isfinite(norms) & (norms > 0)",
        "norms > 0",
        GATHER,
    ),
    ("inputs/gather.py", "if number < 1:", "if number < 0:", GATHER),
    ("inputs/gather.py", "and finite and bare(text)", "and bare(text)", GATHER),
    ("inputs/gather.py", "if reason is None and finite", "if finite", GATHER),
    ("inputs/gather.py", ">= least - _ROUNDING", "> least", GATHER),
    ("inputs/gather.py", "if self.queries:", "if False:", GATHER),
    # input selection
    ("inputs/ids.py", "np.log(counts) + logprobs", "logprobs", IDS),
    ("inputs/ids.py", " - np.log(counts.sum()))", " - np.log(len(counts)))", IDS),
    (
        "inputs/ids.py",
        "np.logaddexp.reduce(np.log(counts) + logprobs)",
        "np.log(counts @ np.exp(logprobs))",
        IDS,
    ),
    ("inputs/ids.py", "counts @ logprobs / counts.sum()", "logprobs.mean()", IDS),
    ("inputs/ids.py", "values[query.id] >= values", "values[query.id] > values", IDS),
    ("inputs/ids.py", "values[query.id] >= values", "values[query.id] <= values", IDS),
    ("inputs/ids.py", "kept=(question, *kept)", "kept=tuple(kept)", IDS),
    ("inputs/ids.py", "if sample.missing:", "if False:", IDS),
    ("inputs/ids.py", "sorted(own, key=_not_original)", "own", IDS),
    ("inputs/ids.py", "if draws < 1:", "if draws < 0:", IDS),
    ("inputs/ids.py", '.count("original") != 1', '.count("original") > 1', IDS),
    ("inputs/ids.py", "completion.model_logprob\n", "completion.logprob or 0.0\n", IDS),
    # facts
    ("text/facts.py", '.rstrip(",.")', "", FACTS),
    ("text/facts.py", 'text = _ORDINAL.sub("", question)', "text = question", FACTS),
    ("text/facts.py", 'normalise(_ORDINAL.sub("", text))', "normalise(text)", FACTS),
    ("text/facts.py", "word in STOPWORDS or ", "", FACTS),
    ("text/facts.py", "word in REQUESTS or ", "", FACTS),
    ("text/facts.py", " or not followed", "", FACTS),
    ("text/facts.py", '_ADJECTIVE_TAIL.sub("", ', "str(", FACTS),
    ("text/facts.py", " - _stems(question)", "", FACTS),
    ("text/facts.py", "if word.isascii() else word", "", FACTS),
    ("text/facts.py", 're.split(r"[-\']", word)', "[word]", FACTS),
    # forms
    ("text/verbs.py", "(?<![aeiou])y$", "y$", FORMS),
    ("text/verbs.py", '"sh", "ch", "o"', '"sh", "o"', FORMS),
    ("text/questions.py", "and b in BASES for", "and b is None for", FORMS),
    ("text/questions.py", 'if words[1:2] == ["you"] else', "if False else", FORMS),
    ("text/questions.py", "not rest or at > 0 or", "True or", FORMS),
    (
        "text/questions.py",
        "is_participle(verb) if auxiliary in _HAVE",
        "True if auxiliary in _HAVE",
        FORMS,
    ),
    ("text/questions.py", " or _CLAUSE_WORD.search(bare)", "", FORMS),
    ("text/questions.py", 'last.endswith("ing") or ', "", FORMS),
    ("text/questions.py", "last in _DANGLING or ", "", FORMS),
    ("text/questions.py", " or _SPLIT.search(bare)", "", FORMS),
    ("text/questions.py", "(?!by\\b)", "", FORMS),
    (
        "text/questions.py",
        "or _SECOND_CLAUSE.search(bare):\n        return None\n    words",
        "or False:\n        return None\n    words",
        FORMS,
    ),
    (
        "text/rewriting.py",
        'random.Random(f"rewritings {seed} {whole}")',
        'random.Random("rewritings")',
        FORMS,
    ),
    ("text/rewriting.py", "if text != whole", "", FORMS),
    ("text/rewriting.py", 'words[place - 1] == "year"', "False", FORMS),
    ("text/rewriting.py", " and not more", "", FORMS),
]

"""Mutants of `residua.scorers` and the texts they read."""

# ruff: noqa: E501 (one mutant a line)
SCORERS = "scorers/test_scorer_family.py"
REFERENCE = "scorers/test_reference_scorers.py"
KEYWORD = "scorers/test_keyword.py"

MUTANTS = [
    ("scorers/threshold.py", "float(score >= self.at)", "float(score > self.at)", SCORERS),
    ("scorers/threshold.py", "None if score is None", "0.0 if score is None", SCORERS),
    ("scorers/threshold.py", "if not 0 < self.at <= 1", "if not 0 <= self.at <= 1", SCORERS),
    ("scorers/threshold.py", "check_prompts(self.scorer, [prompt])", "pass", SCORERS),
    ("scorers/family.py", "score <= 1 + _ROUNDING", "score <= 2", SCORERS),
    ("scorers/family.py", "min(max(float(score), 0.0), 1.0)", "float(score)", SCORERS),
    ("scorers/family.py", "clipped not in (0.0, 1.0)", "clipped not in (0.0, 0.5, 1.0)", SCORERS),
    ("scorers/family.py", "        return None\n    if math", "        return 0.0\n    if math", SCORERS),
    ("scorers/family.py", "settings(v) if hasattr", "v.name if hasattr", SCORERS),
    ("scorers/family.py", "not answer.strip()", "not answer", SCORERS),
    ("scorers/keyword.py", 'enough = any if self.require == "any" else all', "enough = any", KEYWORD),
    ("scorers/keyword.py", 'if self.match == "word":', 'if self.match != "word":', KEYWORD),
    ("scorers/keyword.py", "all(map(str.strip, prompt.keywords))", "prompt.keywords", KEYWORD),
    ("scorers/rouge.py", ".recall.tolist()", ".f1.tolist()", REFERENCE),
    ("scorers/rouge.py", "if not has_rouge_words(answer):", "if False:", REFERENCE),
    ("scorers/refusal.py", "normalise(text)[:_OPENING]", "normalise(text)", REFERENCE),
    ("scorers/refusal.py", "float(bool(o) and ", "float(", REFERENCE),
    ("scorers/verbatim.py", "normalise(text) == answer", "answer in normalise(text)", REFERENCE),
    ("text/keywords.py", ".casefold()", "", REFERENCE),
    ("text/keywords.py", 'r"(?<!\\w)" if re.match(r"\\w", word) else ""', '""', KEYWORD),
    ("text/keywords.py", 'r"(?!\\w)" if re.search(r"\\w\\Z", word) else ""', '""', KEYWORD),
]  # fmt: skip

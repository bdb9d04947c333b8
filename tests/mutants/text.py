"""Mutants of `leakbound.text`."""

PORTER = "text/test_porter.py"
ROUGE = "text/test_rouge.py"
BOUNDS = "text/test_rouge_bounds.py"
SETTLED = "text/test_settled.py"
SCORERS = "conformance/test_scorers.py"

MUTANTS = [
    ("text/rouge.py", "(sought & Counter(text))", "(Counter(text))", ROUGE),
    ("text/rouge.py", "text.lower().encode(", "text.encode(", ROUGE),
    ("text/rouge.py", "string.ascii_letters + string.digits)", "string.ascii_letters)", ROUGE),
    ("text/rouge.py", "blank[1:] > blank[:-1]) + 1", "blank[1:] > blank[:-1])", ROUGE),
    ("text/rouge.py", 'text_ends, side="right"', 'text_ends - 1, side="right"', ROUGE),
    ("text/rouge.py", "np.arange(1, len(sought) + 1)", "np.arange(len(sought))", ROUGE),
    ("text/rouge.py", "if len(_stems()) >= _FULL:", "if False:", ROUGE),
    ("text/rouge.py", '"utf-32-le", "surrogatepass"', '"utf-32-le"', ROUGE),
    ("text/rouge.py", "if len(word) > 3 else word", "if len(word) > 2 else word", ROUGE),
    ("text/rouge.py", "np.maximum(lengths[1:], 1)", "lengths[1:]", ROUGE),
    ("text/rouge.py", "common / lengths[0]", "common / np.maximum(lengths[1:], 1)", ROUGE),
    ("text/rouge.py", "np.where(common > 0, precision + recall, 1)", "(precision + recall)", ROUGE),
    ("text/settled.py", "_opening(_BEFORE_SEPARATOR, prefix)", "prefix", SCORERS),
    (
        "text/settled.py",
        "_opening(_BEFORE_SEPARATOR, prefix)",
        "_opening(_BEFORE_ASCII, prefix)",
        SCORERS,
    ),
    ("text/settled.py", "_opening(_BEFORE_ASCII, prefix)", "prefix", SCORERS),
    ("text/settled.py", "_opening(_BEFORE_ASCII, prefix)", "prefix[:-1]", SCORERS),
    ("text/settled.py", "(?=[\\s!-/:-@", "(?=[\\W!-/:-@", SCORERS),
    ("text/settled.py", "[\\s!-/:-@\\[-^`", "[\\s!-/:-@\\[-`", SETTLED),
    (
        "text/settled.py",
        'match.group() if match else ""',
        "match.group() if match else prefix",
        SETTLED,
    ),
    ("text/rouge_bounds.py", "common[-1] / (len(common) - 1)", "common[-1] / len(common)", BOUNDS),
    ("text/rouge_bounds.py", "(words + r - j + r)", "(words + r)", BOUNDS),
    ("text/rouge_bounds.py", "(words + r - j + r)", "(words + r + r)", BOUNDS),
    ("text/rouge_bounds.py", "2 * (lcs + r - j)", "2 * lcs", BOUNDS),
    ("text/rouge_bounds.py", "min(highest * _UP, 1.0)", "min(highest, 1.0)", BOUNDS),
    ("text/rouge_bounds.py", "min(highest * _UP, 1.0)", "highest * _UP", BOUNDS),
    ("text/rouge_bounds.py", "_UP = 1 + 2.0**-50", "_UP = 1.01", BOUNDS),
    ("text/rouge_bounds.py", "return 0.0, min(", "return highest / 9, min(", BOUNDS),
    ("text/rouge_bounds.py", "| (missed - hit)", "", BOUNDS),
    ("text/rouge_bounds.py", "places.get(_stem(word), 0) | 1 << place", "1 << place", BOUNDS),
    (
        "text/rouge_bounds.py",
        "hit = missed & places.get(_stem(word), 0)",
        "hit = missed & places.get(word, 0)",
        BOUNDS,
    ),
    (
        "text/porter.py",
        'if word.endswith("alli") and _measure(word[:-4]) > 0:',
        "if False:",
        "text/test_porter.py",
    ),
    (
        "text/porter.py",
        'if word.endswith("ies") and len(word) == 4:',
        "if False:",
        "text/test_porter.py",
    ),
    ("text/porter.py", "    if len(word) == 2:\n", "    if False:\n", PORTER),
    (
        "text/porter.py",
        'word if word[-1] in "lsz"',
        'word if word[-1] in "ls"',
        "text/test_porter.py",
    ),
    ("text/porter.py", 'word[-1] not in "wxy"', 'word[-1] not in "wx"', PORTER),
    ("text/porter.py", 'fits = suffix != "ion" or', "fits = True or", PORTER),
    (
        "text/porter.py",
        "rest if suffix and fits and _measure(rest) > 1",
        "rest if suffix and fits and _measure(rest) > 0",
        "text/test_porter.py",
    ),
    ("text/porter.py", "measure == 1 and not _short(rest)", "measure == 1", PORTER),
    (
        "text/porter.py",
        "        return _IRREGULAR[word]\n",
        "        pass\n",
        "text/test_porter.py",
    ),
    ("text/porter.py", 'if letter == "y" else', "if False else", PORTER),
]

"""Mutants of `residua.text`."""

ROUGE = "text/test_rouge.py"

MUTANTS = [
    ("text/rouge.py", "text.lower().encode(", "text.encode(", ROUGE),
    ("text/rouge.py", "string.ascii_letters + string.digits)", "string.ascii_letters)", ROUGE),
    ("text/rouge.py", "blank[1:] > blank[:-1]) + 1", "blank[1:] > blank[:-1])", ROUGE),
    ("text/rouge.py", 'text_ends, side="right"', 'text_ends - 1, side="right"', ROUGE),
    ("text/rouge.py", "np.arange(1, len(sought) + 1)", "np.arange(len(sought))", ROUGE),
    ("text/rouge.py", "if len(_stems()) >= _FULL:", "if False:", ROUGE),
    ("text/rouge.py", '"utf-32-le", "surrogatepass"', '"utf-32-le"', ROUGE),
    ("text/rouge.py", "use_stemmer=True).tokenize", "use_stemmer=False).tokenize", ROUGE),
    ("text/rouge.py", "np.maximum(lengths[1:], 1)", "lengths[1:]", ROUGE),
    ("text/rouge.py", "common / lengths[0]", "common / np.maximum(lengths[1:], 1)", ROUGE),
    ("text/rouge.py", "np.where(common > 0, precision + recall, 1)", "(precision + recall)", ROUGE),
]

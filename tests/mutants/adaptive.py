"""Mutants of `leakbound.engines.adaptive`."""

ADAPTIVE = "engines/test_adaptive.py"
LAW = "engines/test_adaptive.py::test_what_is_served_has_the_law_of_the_sampler"
ROWS = "engines/test_adaptive.py::test_each_row_has_its_own_running_mean"
STRICT = "engines/test_adaptive.py::test_strictly_above_the_threshold_and_nothing_else_changes"

MUTANTS = [
    ("engines/adaptive.py", "(total + reading.p_max).tolist()", "reading.p_max.tolist()", LAW),
    ("engines/adaptive.py", "self._seen.get(row[:-1], (0.0, 0))", "(0.0, 0)", ROWS),
    ("engines/adaptive.py", "astype(np.int64) + 1", "astype(np.int64) + 2", LAW),
    ("engines/adaptive.py", "greedy & ~reading.broken", "greedy", ADAPTIVE),
    ("engines/adaptive.py", "masked_fill(sure & ~best", "masked_fill(~best", ROWS),
    ("engines/adaptive.py", "masked_fill(sure & ~best", "masked_fill(sure & best", STRICT),
    ("engines/adaptive.py", "self._seen.clear()", "pass", ADAPTIVE),
]  # fmt: skip

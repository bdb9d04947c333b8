"""Mutants of `residua.engines`."""

# ruff: noqa: E501 (one mutant a line)
ARCHITECTURES = (
    "engines/test_prefix_cache.py::test_cached_branches_give_the_logits_of_plain_forwards"
)
ONCE = "engines/test_prefix_cache.py::test_tokens_are_stored_once_and_dropped_with_the_last_prefix_that_has_them"
ANY_ORDER = "engines/test_prefix_cache.py::test_any_order_of_branching_and_releasing_gives_the_logits_of_plain_forwards"
THOUSANDS = "engines/test_prefix_cache.py::test_thousands_of_prefixes_are_held_in_little_memory_that_is_used_again"
CLEAN = "engines/test_prefix_cache.py::test_slots_that_held_nan_are_clean_for_their_next_user"
WRONG = "engines/test_prefix_cache.py::test_a_model_that_misuses_the_cache_is_recomputed"
MARGIN = "engines/test_margin.py"

MUTANTS = [
    # which slots are in use
    (
        "engines/prefix_cache.py",
        "np.add.at(self._users, parents, 1)",
        "self._users[parents] += 1",
        ANY_ORDER,
    ),
    (
        "engines/prefix_cache.py",
        "np.subtract.at(self._users, handles, 1)",
        "self._users[handles] -= 1",
        ANY_ORDER,
    ),
    (
        "engines/prefix_cache.py",
        "np.unique(handles[self._users[handles] == 0])",
        "handles[self._users[handles] == 0]",
        ONCE,
    ),
    ("engines/prefix_cache.py", "handles = self._parent[unused]", "handles = unused[:0]", ONCE),
    ("engines/prefix_cache.py", "self._users[_NOTHING] += 1", "pass", ANY_ORDER),
    (
        "engines/prefix_cache.py",
        "self.held += len(slots)\n        self.release(parents[takes_over])",
        "self.held += len(slots)",
        ONCE,
    ),
    ("engines/prefix_cache.py", "del self._free[left:]", "pass", ANY_ORDER),
    (
        "engines/prefix_cache.py",
        "max(count - len(self._free), self.size // 2)",
        "count - len(self._free)",
        THOUSANDS,
    ),
    (
        "engines/prefix_cache.py",
        "max(count - len(self._free), self.size // 2)",
        "count + 4 * self.size",
        THOUSANDS,
    ),
    ("engines/prefix_cache.py", "self._free += unused.tolist()", "pass", THOUSANDS),
    # what a forward sees
    (
        "engines/prefix_cache.py",
        "self.length[slots] = self.length[parents] + 1",
        "self.length[slots] = self.length[parents]",
        ANY_ORDER,
    ),
    ("engines/prefix_cache.py", "length[slots] - 1)", "length[slots])", ANY_ORDER),
    (
        "engines/prefix_cache.py",
        "unseen = paths == _NOTHING",
        "unseen = paths < _NOTHING",
        ANY_ORDER,
    ),
    (
        "engines/prefix_cache.py",
        "unseen[:, :-window] = True",
        "unseen[:, : -window - 1] = True",
        ANY_ORDER,
    ),
    (
        "engines/prefix_cache.py",
        "unseen[:, :-window] = True",
        "unseen[:, : 1 - window] = True",
        ANY_ORDER,
    ),
    ("engines/prefix_cache.py", "self._pools[i][: len(pool)] = pool", "pass", ANY_ORDER),
    (
        "engines/prefix_cache.py",
        "[key_states.shape[1] * key_states.shape[3]]",
        "[pool.shape[1] // 2]",
        ARCHITECTURES,
    ),
    (
        "engines/prefix_cache.py",
        "tokens.new_zeros(1, tokens.shape[1])",
        "tokens.new_full((1, tokens.shape[1]), torch.nan)",
        CLEAN,
    ),
    (
        "engines/prefix_cache.py",
        "if difference > 1e-3 else None",
        "if difference > 1e3 else None",
        WRONG,
    ),
    # the margin between batch shapes
    ("engines/margin.py", "LEAST_MARGIN = 4e-6", "LEAST_MARGIN = 2e-6", MARGIN),
    ("engines/margin.py", "_ROWS = (64, 7, 2, 1)", "_ROWS = (64, 7, 2)", MARGIN),
    ("engines/margin.py", "_ROWS = (64, 7, 2, 1)", "_ROWS = (64, 2, 1)", MARGIN),
    ("engines/margin.py", "_ROWS = (64, 7, 2, 1)", "_ROWS = (7, 2, 1)", MARGIN),
    ("engines/margin.py", "shapes = [logits]", "shapes = []", MARGIN),
    (
        "engines/margin.py",
        "np.resize(roots, max(_ROWS))",
        "np.resize(roots[:1], max(_ROWS))",
        MARGIN,
    ),
    ("engines/margin.py", "4 * max(", "2 * max(", MARGIN),
    ("engines/margin.py", "combinations(shapes, 2)", "combinations(shapes[1:], 2)", MARGIN),
    (
        "engines/margin.py",
        "in combinations(shapes, 2)",
        "in ((shapes[0], s) for s in shapes)",
        MARGIN,
    ),
    ("engines/margin.py", ".bits < 32", ".bits < 16", MARGIN),
    ("engines/margin.py", "[a != b]", "", MARGIN),
    ("engines/margin.py", ".nan_to_num(nan=math.inf)", "", MARGIN),
    ("engines/margin.py", "model.release(roots)", "pass", MARGIN),
]

"""Mutants of `leakbound.engines`."""

# ruff: noqa: E501 (one mutant a line)
ARCHITECTURES = (
    "engines/test_prefix_cache.py::test_cached_branches_give_the_logits_of_plain_forwards"
)
ONCE = "engines/test_prefix_cache.py::test_tokens_are_stored_once_and_dropped_with_the_last_prefix_that_has_them"
ANY_ORDER = "engines/test_prefix_cache.py::test_any_order_of_branching_and_releasing_gives_the_logits_of_plain_forwards"
THOUSANDS = "engines/test_prefix_cache.py::test_thousands_of_prefixes_are_held_in_little_memory_that_is_used_again"
CLEAN = "engines/test_prefix_cache.py::test_slots_that_held_nan_are_clean_for_their_next_user"
SPOILT = "engines/test_hf.py::test_a_prompt_that_breaks_the_model_spoils_none_that_begin_as_it_does"
WRONG = "engines/test_prefix_cache.py::test_a_model_that_misuses_the_cache_is_recomputed"
BEGINNING = (
    "engines/test_prefix_cache.py::test_what_held_prompts_begin_with_is_read_and_stored_once"
)
CHAT = "conformance/test_chats.py"
MARGIN = "engines/test_margin.py"
EXPLORE = "engines/test_hf_explore.py::"
WHOLE = EXPLORE + "test_a_whole_exploration_is_the_law_of_plain_forwards"
FORCED = EXPLORE + "test_forced_texts_have_their_exact_probability"
FLOORS = EXPLORE + "test_floors_of_draws_hold_in_other_batch_shapes"
TWO_PASS = EXPLORE + "test_draws_in_two_passes_have_no_floor"
REFUSED = EXPLORE + "test_what_has_no_exact_mode_is_refused_with_the_remedy"
USAGE = EXPLORE + "test_usage_counts_what_exploring_forwarded"
SETTLED = "engines/test_detokenizer.py::test_what_is_settled"
CONTINUED = "engines/test_detokenizer.py::test_every_continuation_begins_with_it"
CONFORMS = "conformance/test_engines.py"

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
    ("engines/prefix_cache.py", "self._users[parent] += 1", "pass", ANY_ORDER),
    (
        "engines/prefix_cache.py",
        "self.held += len(slots)\n        self.release(parents[takes_over])",
        "self.held += len(slots)",
        ONCE,
    ),
    ("engines/prefix_cache.py", "if self._cache.is_finite(slots):", "if True:", SPOILT),
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
    ("engines/prefix_cache.py", "length[slots] - 1)", "length[slots])", BEGINNING),
    (
        "engines/prefix_cache.py",
        "(paths == _NOTHING)[:, None]",
        "(paths < _NOTHING)[:, None]",
        ANY_ORDER,
    ),
    (
        "engines/prefix_cache.py",
        "unseen |= column <= own - window",
        "unseen |= column < own - window",
        ANY_ORDER,
    ),
    (
        "engines/prefix_cache.py",
        "unseen |= column <= own - window",
        "unseen |= column <= own - window + 1",
        ANY_ORDER,
    ),
    ("engines/prefix_cache.py", "self._pools[layer][: len(pool)] = pool", "pass", ANY_ORDER),
    (
        "engines/prefix_cache.py",
        "[key_states.shape[1] * key_states.shape[3]]",
        "[pool.shape[1] // 2]",
        ARCHITECTURES,
    ),
    (
        "engines/prefix_cache.py",
        "new.new_zeros(1, new.shape[1])",
        "new.new_full((1, new.shape[1]), torch.nan)",
        CLEAN,
    ),
    (
        "engines/prefix_cache.py",
        "if difference > 1e-3 else None",
        "if difference > 1e3 else None",
        WRONG,
    ),
    ("engines/prefix_cache.py", "| (column > own)", "| (column > own + 1)", ARCHITECTURES),
    # what prompts share
    ("engines/prefix_cache.py", "self._tree.find(prompt[:-1])", "self._tree.find(())", BEGINNING),
    (
        "engines/prefix_cache.py",
        "self.length[parent] + np.arange(1, count + 1)",
        "np.arange(1, count + 1)",
        BEGINNING,
    ),
    (
        "engines/prefix_cache.py",
        "if self._prompts.setdefault(entry, slot) == slot:",
        "if self._prompts.setdefault(entry, slot):",
        BEGINNING,
    ),
    (
        "engines/prefix_cache.py",
        "del self._prompts[self._entries.pop(slot)]",
        "pass",
        "engines/test_prefix_cache.py::test_what_is_released_is_read_again",
    ),
    (
        "engines/prefix_cache.py",
        "        rest = np.array(prompt[known:])\n        slots = self._tree.chain(stem, len(rest))\n",
        "        rest = np.array(prompt[known:])\n        slots = self._tree.chain(stem, len(rest))\n        self._tree.remember(slots, rest)\n",
        "engines/test_prefix_cache.py::test_what_could_not_be_read_is_not_taken_as_read",
    ),
    # chat models
    ("engines/chat.py", "for query in queries]", "for query in distinct]", CHAT),
    ("engines/chat.py", "seed=seed, purpose", "seed=0, purpose", CHAT),
    ("engines/chat.py", "self.engine.check(distinct, decoding)", "pass", CHAT),
    ("engines/chat.py", "id=request.id, prompt_id", 'id="", prompt_id', CHAT),
    (
        "engines/chat.py",
        '_PURPOSE = "chat"',
        '_PURPOSE = "score"',
        "engines/test_chat.py::test_replies_share_no_draws_with_the_model_under_test",
    ),
    (
        "engines/chat.py",
        "(message.role, message.text) for",
        '("user", message.text) for',
        "engines/test_chat.py::test_a_whole_conversation_is_sent",
    ),
    (
        "engines/chat.py",
        "if not super().uses_chat(tokenizer):",
        "if False:",
        "engines/test_chat.py::test_a_model_without_a_chat_template_is_refused_by_name",
    ),
    (
        "engines/chat.py",
        "if colon and engine in CHATS:",
        "if False:",
        "engines/test_chat.py::test_an_engine_of_its_own_joins_by_a_row",
    ),
    # the margin between batch shapes
    ("engines/margin.py", "LEAST_MARGIN = 4e-6", "LEAST_MARGIN = 2e-6", MARGIN),
    ("engines/margin.py", "_ROWS = (64, 7, 2, 1)", "_ROWS = (64, 7, 2)", MARGIN),
    ("engines/margin.py", "_ROWS = (64, 7, 2, 1)", "_ROWS = (64, 2, 1)", MARGIN),
    ("engines/margin.py", "_ROWS = (64, 7, 2, 1)", "_ROWS = (7, 2, 1)", MARGIN),
    ("engines/margin.py", "_WIDER = 8", "_WIDER = 4", MARGIN),
    (
        "engines/margin.py",
        "asked = [*prompts, *_made_up",
        "asked = [*_made_up",
        MARGIN,
    ),
    ("engines/margin.py", ".bits < 32", ".bits < 16", MARGIN),
    ("engines/margin.py", "[most != least]", "", MARGIN),
    ("engines/margin.py", ".nan_to_num(nan=math.inf)", "", MARGIN),
    ("engines/margin.py", "any(dim=-1).all()", "any(dim=-1).any()", MARGIN),
    ("engines/margin.py", "    model.release(np.array(roots))\n", "", MARGIN),
    ("engines/margin.py", "[-most:]", "", MARGIN),
    ("engines/margin.py", "if probed != self.prompts:", "if not self.prompts:", MARGIN),
    ("engines/hf.py", "            self.measure(queries)\n", "            pass\n", MARGIN),
    (
        "evaluation/checks.py",
        "            job.engine.measure(run.queries)\n",
        "            pass\n",
        "evaluation/draws/test_explore.py::test_a_run_measures_the_margin_at_its_own_questions",
    ),
    # masses of what is explored, drawn and forced
    ("engines/hf.py", "mass = math.exp(node.floor)", "mass = math.exp(node.logprob)", WHOLE),
    (
        "engines/hf.py",
        "margin=self.margin,\n            rows=min(",
        "margin=0.0,\n            rows=min(",
        WHOLE,
    ),
    (
        "engines/hf.py",
        "margin=self.margin,\n            rows=self.rows(",
        "margin=0.0,\n            rows=self.rows(",
        FORCED,
    ),
    (
        "engines/hf.py",
        "margin=self.margin,\n            tell=tell,",
        "margin=0.0,\n            tell=tell,",
        FLOORS,
    ),
    (
        "engines/hf.py",
        "lambda root, nodes: ranges(queries[root],",
        "lambda root, nodes: ranges(queries[0],",
        EXPLORE + "test_what_is_settled_is_asked_of_its_own_query",
    ),
    ("engines/hf.py", "(numbers[query], ids)", "(0, ids)", FORCED),
    (
        "engines/hf.py",
        "for i, query in enumerate(asked)",
        "for i, (query, _) in enumerate(outputs)",
        FORCED,
    ),
    (
        "engines/hf.py",
        "(query, ids[: decoding.max_new_tokens])",
        "(query, ids)",
        EXPLORE + "test_a_text_longer_than_the_decoding_allows_is_cut_there",
    ),
    (
        "engines/hf.py",
        "self._completion(leaf, 0, FORCED,",
        "self._completion(leaf, 1, FORCED,",
        FORCED,
    ),
    ("engines/hf.py", "self._completion(leaf, 0, FORCED,", "self._completion(leaf, 0, 0,", FORCED),
    ("engines/two_pass.py", "replace(each, logprob_floor=None)", "each", TWO_PASS),
    ("engines/two_pass.py", "else _of(sample, decoding)", "else sample", TWO_PASS),
    ("engines/hf.py", "if not math.isfinite(self.margin):", "if math.isnan(self.margin):", REFUSED),
    ("engines/hf.py", 'adaptive_mode == "two_pass":', 'adaptive_mode == "":', REFUSED),
    ("engines/hf.py", "        self.usage.draws = drawn  #", "        #", "engines/test_hf.py"),
    ("engines/hf.py", "self.usage.add(explorer.usage)", "pass", USAGE),
    (
        "engines/hf.py",
        "explorer.usage.seconds = time.perf_counter() - started",
        "pass",
        USAGE,
    ),
    ("engines/hf.py", '"num_attention_heads", 1)', '"num_attention_heads")', CONFORMS),
    # what of a text is settled
    ("engines/detokenizer.py", "self._decode(self._firm(ids))", "self._decode(ids)", CONTINUED),
    ("engines/hf.py", "text(ids, stop) if ended else settled", "settled", CONTINUED),
    ("engines/hf.py", "text(ids, stop) if ended else settled", "text", CONTINUED),
    ("engines/detokenizer.py", "if i not in special and not _BYTE", "if not _BYTE", CONTINUED),
    ("engines/detokenizer.py", "not _BYTE.fullmatch(word)", "word", CONTINUED),
    ("engines/detokenizer.py", "return ids[:last]", "return ids[: last - 1]", SETTLED),
    ("engines/detokenizer.py", ".rstrip(_UNFINISHED)[", "[", CONTINUED),
    (
        "engines/detokenizer.py",
        "max(map(len, stop), default=1) - 1",
        "min(map(len, stop), default=1) - 1",
        CONTINUED,
    ),
    (
        "engines/detokenizer.py",
        "max(map(len, stop), default=1) - 1",
        "max(map(len, stop), default=1) - 2",
        CONTINUED,
    ),
    (
        "engines/detokenizer.py",
        "max(map(len, stop), default=1) - 1",
        "max(map(len, stop), default=1)",
        SETTLED,
    ),
    (
        "engines/detokenizer.py",
        "if token not in self._ends",
        "",
        EXPLORE + "test_an_end_token_is_no_part_of_a_text_even_where_it_is_not_special",
    ),
]

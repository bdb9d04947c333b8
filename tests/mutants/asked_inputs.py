"""Mutants of rewritings in the verbs: asking, sharing, pools, and what is said of them."""

# ruff: noqa: E501 (one mutant a line)
ASKED = "evaluation/draws/test_asked_inputs.py::"
STORY = ASKED + "test_pools_queries_and_the_question_itself_stand_apart"
BEYOND = ASKED + "test_what_rewritings_find_beyond_the_question_is_certified"
CONTROL = ASKED + "test_the_control_is_asked_the_same"
MIXED = ASKED + "test_other_inputs_are_never_mixed_in"
ONCE = ASKED + "test_a_source_is_asked_once_and_what_it_gave_is_kept"
LIMIT = ASKED + "test_a_limit_leaves_rows_of_a_file_out_and_refuses_none"
ALONE = ASKED + "test_questions_without_a_rewriting_are_asked_as_they_are_and_named"
KEPT = ASKED + "test_input_selection_keeps_what_is_answered_as_surely"
APART = ASKED + "test_selection_draws_are_those_of_the_plain_model_and_never_scored"
KILLED = ASKED + "test_killed_while_selecting_it_ends_the_same"
STOPPED = ASKED + "test_a_command_that_was_stopped_while_selecting_is_not_mixed_with_another"
SEED = ASKED + "test_a_source_that_was_asked_under_another_seed_is_not_read_again"
SURER = ASKED + "test_surer_queries_leak_more_or_less"
FAILED = ASKED + "test_a_failed_query_takes_its_question_out_of_the_pools"
FIXED = ASKED + "test_the_fixed_design_asks_every_query_as_often"
FRESH = ASKED + "test_fresh_draws_a_rewriting_for_every_output"
CELLS = ASKED + "test_a_grid_of_decodings_has_inputs_beside_every_cell"
CLEAN = ASKED + "test_clean_questions_are_about_their_own_words"
REFUSED = ASKED + "test_what_makes_no_sense_is_refused_before_anything_is_asked"
HEEDLESS = ASKED + "test_an_engine_that_ignores_shares_is_found_out"
PROBE = ASKED + "test_a_probe_counts_rewritings_and_selection"
POOLED = "evaluation/bounds/test_pooled.py"
SHARING = "evaluation/draws/test_sharing.py"
STORED = "store/test_stored_inputs.py"
OPTION = "cli/test_inputs_option.py"
ENGINES = "conformance/test_engines.py::test_queries_may_get_draws_of_their_own"

MUTANTS = [
    # draws of one's own
    ("types/draws.py", "return (self.own[query_id],) if self.own else self.sizes", "return self.sizes", ENGINES),
    ("sampling/forest.py", "draws.of(each.query_id)", "draws.sizes", ENGINES),
    # how outputs are shared
    (
        "evaluation/draws/sharing.py",
        'f"{seed}:allocation:{prompt_id}"',
        'f"{seed}:allocation"',
        SHARING,
    ),
    (
        "evaluation/draws/sharing.py",
        'f"{seed}:allocation:{prompt_id}"',
        'f"allocation:{prompt_id}"',
        SHARING,
    ),
    ("evaluation/draws/sharing.py", "if n < len(own):", "if n < 1:", SHARING),
    (
        "evaluation/draws/sharing.py",
        'for query in own if query.source != "original"}',
        "for query in own}",
        SHARING,
    ),
    ("evaluation/draws/sharing.py", "    if not draws:\n", "    if False:\n", SHARING),
    ("store/plan.py", "min(n - chunk, CHUNK)", "min(n, CHUNK)", SHARING),
    ("store/plan.py", "if n > chunk}", "}", SHARING),
    ("store/plan.py", "chunk // CHUNK, own", "0, own", SHARING),
    ("store/plan.py", "                group |= questions.pop(0)\n", "                questions.pop(0)\n", SHARING),
    ("store/plan.py", "<= room:", "<= 8 * room:", SHARING),
    # what is asked
    (
        "evaluation/draws/asking.py",
        '"queries": self.number, "seed": self.seed',
        '"queries": self.number',
        SEED,
    ),
    (
        "evaluation/draws/asking.py",
        "self.n if self.inputs.design == \"fresh\" else self.inputs.queries",
        "self.inputs.queries",
        FRESH,
    ),
    (
        "evaluation/draws/asking.py",
        "            write_accepted(out, record, accepted)\n",
        "",
        ALONE,
    ),
    ("evaluation/draws/asking.py", "(benchmark.left_out if source.finite else ())", "()", LIMIT),
    ("evaluation/draws/asking.py", "purpose=PURPOSE)", "purpose=None)", APART),
    (
        "evaluation/draws/asking.py",
        "plain = Decoding(max_new_tokens=job.decoding.max_new_tokens)",
        "plain = job.decoding",
        APART,
    ),
    (
        "evaluation/draws/asking.py",
        "if query.id in kept or query.prompt_id not in rewritten]",
        "]",
        KEPT,
    ),
    (
        "evaluation/draws/asking.py",
        "            if query.id in found:\n",
        "            if False:\n",
        REFUSED,
    ),
    ("evaluation/draws/inputs.py", 'known["source"] = f"file:{source.path.name}"', "pass", ONCE),
    (
        "evaluation/draws/inputs.py",
        "if self.design == \"fresh\" and source.finite:",
        "if False:",
        REFUSED,
    ),
    (
        "evaluation/draws/inputs.py",
        "if isinstance(source, FileInputs) and not source.path.is_file():",
        "if False:",
        REFUSED,
    ),
    (
        "evaluation/draws/inputs.py",
        "require_similarity(self.similarity, self.embedder is not None)",
        "pass",
        REFUSED,
    ),
    (
        "evaluation/checks.py",
        "    if drawing.until is not None or drawing.exploring is not None:\n",
        "    if False:\n",
        REFUSED,
    ),
    (
        "evaluation/checks.py",
        "    if all(how.greedy for how in arms.values()):\n",
        "    if False:\n",
        REFUSED,
    ),
    (
        "evaluation/checks.py",
        "    if inputs.ids and control is not None:\n",
        "    if False:\n",
        REFUSED,
    ),
    (
        "evaluation/verbs.py",
        "for name, how in arms.items() if sharing and not how.greedy}",
        "for name, how in arms.items() if False}",
        CONTROL,
    ),
    (
        "evaluation/draws/sample.py",
        "sampled = [job for job in jobs if not job.decoding.greedy]",
        "sampled = jobs",
        STORY,
    ),
    ("evaluation/draws/sample.py", 'and other.queries != run.queries:', "and False:", CONTROL),
    (
        "evaluation/draws/sample.py",
        "and part.own and result.n != draws.own[result.query.id]:",
        "and False:",
        HEEDLESS,
    ),
    ("evaluation/draws/sample.py", " | queries | ", " | ", STORY),
    ("store/inputs.py", "    require_same(run, stored, questions(record))\n", "", STORED),
    ("store/run.py", 'if record["inputs"] == "none" else (*_FIRST_FILES, SELECTION)', "if False else (*_FIRST_FILES, SELECTION)", STOPPED),
    ("store/run.py", 'if record["inputs"] == "none" else (*_FIRST_FILES, SELECTION)', "if True else (*_FIRST_FILES, SELECTION)", KILLED),
    ("store/run.py", 'if query.source == "original")', ")", STORY),
    # pools
    ("evaluation/bounds/drawn.py", "    if arm.sharing is not None:\n", "    if False:\n", STORY),
    (
        "evaluation/bounds/pooled.py",
        "for query_id in ids if sharing.draws[query_id])",
        "for query_id in ids[:1])",
        POOLED,
    ),
    (
        "evaluation/bounds/pooled.py",
        "tally[score] = tally.get(score, 0) + count",
        "tally[score] = count",
        POOLED,
    ),
    (
        "evaluation/bounds/pooled.py",
        "tally[None] = tally.get(None, 0) + int(self.asked.missing[i])",
        "tally[None] = 0",
        POOLED,
    ),
    ("evaluation/bounds/pooled.py", "weights = [1 / len(ids) for", "weights = [1.0 for", POOLED),
    ("evaluation/bounds/pooled.py", 'return None if self.design == "fixed" else', "return", POOLED),
    ("evaluation/bounds/pooled.py", 'return self.design != "fresh"', "return True", POOLED),
    (
        "evaluation/bounds/pooled.py",
        "[drawn.get(query_id, 0) for query_id in ids]",
        "[drawn.get(query_id, 1) for query_id in ids]",
        POOLED,
    ),
    (
        "evaluation/bounds/pooled.py",
        '_ABOUT["inputs" if self.design == "fresh" else "queries"]',
        '_ABOUT["queries"]',
        POOLED,
    ),
    (
        "evaluation/bounds/pooled.py",
        "return stats.worst_query(bound, outputs, confidence=confidence",
        "return stats.worst_query(bound, outputs, confidence=0.5",
        POOLED,
    ),
    ("evaluation/bounds/bound.py", "[(worst, None)], known.pools)", "[(worst, None)])", STORY),
    (
        "evaluation/bounds/bound.py",
        "known.each(confidence), _pools(known))",
        "known.each(confidence))",
        STORY,
    ),
    (
        "evaluation/bounds/bound.py",
        "[(excess, None)], _pools(pair[0]))",
        "[(excess, None)])",
        CONTROL,
    ),
    (
        "evaluation/bounds/bound.py",
        "if len(query_ids) == len(arm.run.questions) and not arm.found:\n        for",
        "if not arm.found:\n        for",
        FAILED,
    ),
    # what rewritings add
    ("evaluation/tables/protocols.py", "half = (1 + confidence) / 2", "half = confidence", BEYOND),
    (
        "evaluation/tables/protocols.py",
        "number, confidence=confidence, side=\"lower\"",
        "1 + 0 * number, confidence=confidence, side=\"lower\"",
        BEYOND,
    ),
    (
        "evaluation/tables/protocols.py",
        "lower=float((lower > 0).sum())",
        "lower=float((value > 0).sum())",
        BEYOND,
    ),
    (
        "evaluation/tables/protocols.py",
        "yield gap(full.worst_queries, output",
        "yield gap(full.leakage, output",
        BEYOND,
    ),
    (
        "evaluation/tables/protocols.py",
        "partial(gap, more, base)",
        "partial(gap, base, more)",
        BEYOND,
    ),
    ("evaluation/draws/tried.py", 'removed[LESS_SURE] =', "_ =", KEPT),
    (
        "evaluation/draws/tried.py",
        "if query.prompt_id not in rewritten)",
        "if query.prompt_id in rewritten)",
        ALONE,
    ),
    (
        "evaluation/tables/protocols.py",
        '_cell(rows, arm.name, about.WORST_QUERY)',
        '"[]"',
        BEYOND,
    ),
    (
        "evaluation/tables/correlation.py",
        "read_values(arm.run.path) or drawn_sureness(arm)",
        "drawn_sureness(arm)",
        SURER,
    ),
    ("evaluation/tables/correlation.py", "if len(pairs) < LEAST or", "if", SURER),
    # whatever else reads a run
    ("evaluation/tables/grid.py", " and a.own_words]", "]", CELLS),
    ("evaluation/tables/summary.py", "and arm.own_words", "", BEYOND),
    ("evaluation/tables/clean.py", "    if not arm.own_words:\n", "    if False:\n", CLEAN),
    ("evaluation/tables/clean.py", "or not arm.own_words or", "or", CLEAN),
    ("evaluation/draws/probe.py", "[_Work(1, asked, inputs.ids_draws)] * inputs.ids", "[]", PROBE),
    (
        "evaluation/draws/probe.py",
        "work.append(_Work(len(sampled), asked, drawing.n / asked))",
        "pass",
        PROBE,
    ),
    # the command line
    (
        "inputs/model.py",
        "str(self.attempts), **told}",
        "str(self.attempts)}",
        "evaluation/draws/test_rewriter_weights.py",
    ),
]  # fmt: skip

"""Mutants of the search for worst-case inputs."""

HALVING = "inputs/test_halving.py"
VARIANTS = "inputs/test_variants.py"
JOINED = "store/test_joined_scores.py"
HARRY = "benchmarks/test_files.py::test_harry_potter"
ATTACK = "evaluation/attack/test_attack.py::"
FINDS = ATTACK + "test_it_finds_what_leaks_most_and_bounds_it_by_fresh_draws"
APART = ATTACK + "test_the_search_draws_apart_and_within_its_budget"
ALL = ATTACK + "test_all_questions_together_and_beyond_their_own_words"
CONTROL = ATTACK + "test_the_control_is_asked_the_same"
SUMMARY = ATTACK + "test_the_summary_shows_what_was_found"
FRESH = ATTACK + "test_fresh_draws_hold_where_the_search_s_own_would_not"
KILLED = ATTACK + "test_killed_at_any_time_it_ends_the_same"
MIXED = ATTACK + "test_another_search_is_never_mixed_in"
REWRITTEN = ATTACK + "test_rewritings_of_the_run_are_searched_where_it_has_some"
GRID = ATTACK + "test_decodings_under_evaluation_are_the_grid_where_they_are_several"
UNFIT = ATTACK + "test_what_the_model_cannot_be_asked_is_out"
OPENERS = ATTACK + "test_a_benchmark_s_own_openers_are_tried_unless_they_tell"
REFUSED = ATTACK + "test_what_makes_no_sense_is_refused_before_anything_is_drawn"
TOLD = ATTACK + "test_a_control_that_cannot_be_asked_is_told_before_anything_is_drawn"
CLAIMS = ATTACK + "test_claims_about_questions_are_not_about_what_was_found"
FAILED = ATTACK + "test_a_question_that_failed_leaves_out_what_is_said_of_all"
PROBE = ATTACK + "test_a_probe_counts_the_search_and_what_follows"
OPTION = "cli/test_attack_option.py"

MUTANTS = [
    # halving
    ("inputs/halving.py", "LEAST_BUDGET = 2 * FIRST", "LEAST_BUDGET = FIRST", HALVING),
    (
        "inputs/halving.py",
        "(number + 1) * number.bit_length() * FIRST",
        "(number + 1) * FIRST",
        HALVING,
    ),
    ("inputs/halving.py", "budget // (len(sizes) * size)", "budget // size", HALVING),
    (
        "inputs/halving.py",
        "(found[one].lower, found[one].value)",
        "(found[one].value, found[one].lower)",
        HALVING,
    ),
    ("inputs/halving.py", "reverse=True", "reverse=False", HALVING),
    ("inputs/halving.py", " or list(field[:1])", "", HALVING),
    ("inputs/halving.py", "if len(left[name]) > 1}", "}", HALVING),
    ("inputs/halving.py", "return (number + 1) // 2", "return number // 2", HALVING),
    # what is tried
    ("inputs/openers.py", " if not gives_away(prompt, text)))", "))", VARIANTS),
    ("inputs/openers.py", "    if prompt.prefix:\n", "    if False:\n", VARIANTS),
    ("inputs/shots.py", "if pair.id == prompt.id or not", "if not", VARIANTS),
    ("inputs/shots.py", " or not pair.answer:", ":", VARIANTS),
    (
        "inputs/shots.py",
        'if not gives_away(prompt, f"{pair.question} {pair.answer}"):',
        "if True:",
        VARIANTS,
    ),
    ("inputs/shots.py", "if len(pairs) == SHOTS)", ")", VARIANTS),
    ("inputs/shots.py", 'f"shots:{prompt.id}"', '"shots"', VARIANTS),
    ("inputs/shots.py", 'f"{seed}:attack:{key}"', 'f"attack:{key}"', VARIANTS),
    ("inputs/shots.py", "after = after if after.strip()", "after = after if True", VARIANTS),
    ("inputs/variants.py", "prod(1 / (len(a) - 1) for", "prod(1 for", VARIANTS),
    ("inputs/variants.py", "for axis in axes)))[1:]", "for axis in axes)))", VARIANTS),
    ("inputs/variants.py", "if fits(variant.query, variant.decoding):", "if True:", VARIANTS),
    ("inputs/variants.py", "prefix=self.openers[opener]", "prefix=query.prefix", VARIANTS),
    ("benchmarks/harry_potter.py", "affirmative response", "question", HARRY),
    # the search
    (
        "evaluation/attack/hunt.py",
        'purpose=f"{PURPOSE}:{arm.name}"',
        'purpose="score:target attack"',
        FRESH,
    ),
    ("evaluation/attack/hunt.py", 'purpose=f"{PURPOSE}:{arm.name}"', "purpose=PURPOSE", APART),
    (
        "evaluation/attack/hunt.py",
        "ArmScores.joined(pieces,",
        "ArmScores.joined(pieces[-1:],",
        FINDS,
    ),
    (
        "evaluation/attack/hunt.py",
        "if any(not arm.has(part) for part in arm.parts_to_draw()):",
        "if arm.parts_to_draw():",
        UNFIT,
    ),
    (
        "evaluation/attack/hunt.py",
        "        except InputError:\n            return False\n",
        "        except InputError:\n            return True\n",
        UNFIT,
    ),
    ("evaluation/attack/hunt.py", 'if query.source != "original":', "if True:", REWRITTEN),
    ("evaluation/attack/hunt.py", 'if run.record["inputs"] != NO_INPUTS:', "if False:", REWRITTEN),
    ("evaluation/attack/hunt.py", " if there else ()", "", OPENERS),
    ("evaluation/attack/hunt.py", "hunt.benchmark.openers.get(prompt.id, ())", "()", OPENERS),
    ("evaluation/attack/hunt.py", '"budget": self.search.attack.budget,', "", MIXED),
    (
        "evaluation/attack/settings.py",
        "        if len(sampled) > 1:\n",
        "        if False:\n",
        GRID,
    ),
    ("evaluation/attack/settings.py", "[*sampled, *grid]", "grid", GRID),
    ("evaluation/attack/settings.py", "        if not sampled:\n", "        if False:\n", REFUSED),
    (
        "evaluation/attack/settings.py",
        "if Decoding(temperature=temperature, top_p=top_p).greedy:",
        "if False:",
        REFUSED,
    ),
    # what was found, and its draws
    ("evaluation/attack/found.py", "job.engine.check(job.found, job.decoding)", "pass", TOLD),
    (
        "evaluation/attack/found.py",
        "query=replace(variant.query, id=prompt_id)",
        "query=variant.query",
        FINDS,
    ),
    (
        "evaluation/attack/found.py",
        "((target, arm), (control, control_of(arm)))",
        "((target, arm),)",
        CONTROL,
    ),
    ("evaluation/draws/sample.py", "    if job.found:\n", "    if False:\n", FINDS),
    (
        "evaluation/bounds/drawn.py",
        "return Attacked(Fixed(scores, binary, order))",
        "return Fixed(scores, binary, order)",
        FINDS,
    ),
    ("evaluation/bounds/attacked.py", "estimate.target.replace(*_ALL)", "estimate.target", ALL),
    ("evaluation/attack/results.py", "if len(scores.query_ids) < len(ids):", "if False:", FAILED),
    (
        "evaluation/attack/results.py",
        "excess_over_questions(target, control, number",
        "excess_over_questions(control, target, number",
        ALL,
    ),
    (
        "evaluation/attack/results.py",
        "gap(found.leakage, own.leakage,",
        "gap(own.leakage, found.leakage,",
        ALL,
    ),
    ("evaluation/attack/results.py", "line[0].lower, reverse=True)", "line[0].lower)", SUMMARY),
    (
        "evaluation/attack/results.py",
        "number(one.lower) if steers else DASH",
        "number(one.lower)",
        GRID,
    ),
    (
        "evaluation/bounds/bound.py",
        "and not arm.found:\n        for",
        "and True:\n        for",
        GRID,
    ),
    (
        "evaluation/bounds/bound.py",
        "and not arm.found:\n            over",
        "and True:\n            over",
        GRID,
    ),
    ("evaluation/bounds/tail.py", "    if arms[name].found:\n", "    if False:\n", CLAIMS),
    ("evaluation/tables/grid.py", " and a.own_words]", " and a.sharing is None]", GRID),
    ("evaluation/tables/summary.py", "and arm.own_words", "and arm.sharing is None", SUMMARY),
    (
        "evaluation/tables/clean.py",
        "or not arm.own_words or",
        "or arm.sharing is not None or",
        CLAIMS,
    ),
    ("store/arm.py", "        if found := self.found:\n            return found\n", "", FINDS),
    (
        "store/run.py",
        '            require_same(self.path, self.record[name], value, f"{name}: ")\n',
        "",
        MIXED,
    ),
    ("store/scores.py", "tally[None] = tally.get(None, 0) + int(piece.missing[i])", "pass", JOINED),
    (
        "store/scores.py",
        "for q in query_ids if q in tallies}, {})",
        "for q in tallies}, {})",
        JOINED,
    ),
    # the verbs and the command line
    (
        "evaluation/draws/drawing.py",
        "if until is not None or certify not in (None, SAMPLED):",
        "if False:",
        REFUSED,
    ),
    (
        "evaluation/verbs.py",
        "        require_attack_fits(drawing.search.attack, task, arms, source)\n",
        "        pass\n",
        REFUSED,
    ),
    ("store/current.py", 'if "attack" in run.record and not', "if False and not", KILLED),
    ("evaluation/draws/probe.py", "_Work(1, tried, budget / tried), ", "", PROBE),
]

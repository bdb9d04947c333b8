"""Mutants of `residua.evaluation` and the command line."""

# ruff: noqa: E501 (one mutant a line)
STORY = (
    "evaluation/test_evaluate.py::test_bounds_hold_the_truth_beside_a_greedy_answer_that_hides_it"
)
ROWS = "evaluation/test_evaluate.py::test_every_quantity_is_there_for_every_question_and_arm"
RANGE = "evaluation/test_evaluate.py::test_the_bound_follows_the_declared_range_not_the_scores_seen"
ALL = "evaluation/test_evaluate.py::test_statements_about_all_questions"
CELLS = "evaluation/test_evaluate.py::test_lists_of_decodings_run_every_cell"
FAILED = "evaluation/test_evaluate.py::test_questions_that_fail_are_named_and_the_rest_is_kept"
OTHERS = "evaluation/test_evaluate.py::test_a_control_about_other_questions_or_decodings_is_refused"
ARMS = "evaluation/test_arms.py"
INPUT = "cli/test_bad_input.py"
COMMANDS = "cli/test_commands.py"
UNTIL = "evaluation/test_until.py::"
BOUNDS = UNTIL + "test_only_bounds_that_survive_stopping_are_made"
ABOUT_ALL = UNTIL + "test_statements_about_all_questions_survive_it_too"
CONTROL = UNTIL + "test_the_control_is_drawn_at_fixed_n"
ROW = UNTIL + "test_a_claim_is_a_row_and_a_line"
OTHER = UNTIL + "test_other_scorers_get_any_time_bounds_and_no_claim"
UNDECIDED = UNTIL + "test_draws_without_a_score_count_against_every_claim"
TAMPERED = UNTIL + "test_looks_that_do_not_follow_from_the_scores_are_refused"
LOST = UNTIL + "test_an_engine_that_loses_draws_is_told"
MEAN = UNTIL + "test_a_mean_is_claimed_of_scores_between_0_and_1"
NO_CONTROL = UNTIL + "test_a_run_that_stopped_early_is_no_control_and_has_no_fixed_n"
NONSENSE = UNTIL + "test_rules_that_make_no_sense_are_refused_before_anything_is_sampled"
RULE = UNTIL + "test_another_rule_is_refused_in_the_same_folder"
WAITS = UNTIL + "test_a_run_that_waits_for_a_look_is_incomplete"
CELL = UNTIL + "test_every_cell_of_a_list_stops_by_itself"
STOPS = UNTIL + "test_questions_stop_when_they_are_decided"
OPTION = "cli/test_until_option.py"

MUTANTS = [
    # bounds
    ("evaluation/bound.py", "half = (1 + confidence) / 2", "half = confidence", ARMS),
    ("evaluation/bound.py", "    if arm.decoding.greedy:\n        return _greedy", "    if False:\n        return _greedy", ARMS),
    ("evaluation/bound.py", "    if scorer.binary:\n        leak =", "    if scores.scores.max() in (0, 1):\n        leak =", RANGE),
    ("evaluation/bound.py", "if k <= scores.n.min()]", "]", ROWS),
    ("evaluation/bound.py", "if len(scores.query_ids) == len(arm.run.queries) and", "if", FAILED),
    ("evaluation/bound.py", "or control is None or arm.decoding.greedy:", "or control is None:", COMMANDS),
    ("evaluation/bound.py", 'yield stats.worst_question(bound, len(scores.query_ids),', "yield stats.worst_question(bound, 1,", ALL),
    ("evaluation/bound.py", '    how: dict[str, Any] = {"confidence": confidence, "side": "both", "missing": scores.missing}\n    values', '    how: dict[str, Any] = {"confidence": confidence, "side": "both"}\n    values', ARMS),
    ("evaluation/bound.py", '{"confidence": confidence, "side": side, "missing": scores.missing}', '{"confidence": confidence, "side": side}', ARMS),
    ("evaluation/bound.py", "upper=np.where(known, value, 1.0)", "upper=np.where(known, value, 0.0)", ARMS),
    ("evaluation/bound.py", "if not arm.has_scores(scorer.name, slug(scorer)):", "if not arm.scores_file(slug(scorer)).exists():", INPUT),
    # draws
    ("evaluation/sample.py", 'purpose=f"score:{arm.name}"', 'purpose="score"', ARMS),
    ("evaluation/sample.py", 'seed=int(arm.spec["seed"])', "seed=0", ARMS),
    ("evaluation/sample.py", "first_chunk=part.first_chunk", "first_chunk=0", ARMS),
    ("evaluation/sample.py", "(Plan.of(1) if job.decoding.greedy else plan)", "plan", ARMS),
    ("evaluation/sample.py", "if names.count(name) > 1:", "if names.count(name) > 2:", CELLS),
    # the control
    ("evaluation/sample.py", 'if theirs["sha256"] != ours["sha256"]:', "if False:", OTHERS),
    ("evaluation/sample.py", "if arm.decoding != decoding:", "if False:", OTHERS),
    ("evaluation/sample.py", "if arm is None or arm.missing_parts():", "if arm is None:", INPUT),
    # stopping early
    ("evaluation/bound.py", "    if arm.stopping is not None:\n        return _stopped(", "    if False:\n        return _stopped(", BOUNDS),
    ("evaluation/bound.py", "    if arm.stopping is not None:\n        stopped =", "    if False:\n        stopped =", ABOUT_ALL),
    ("evaluation/bound.py", "    if arm.stopping is not None:\n        yield", "    if False:\n        yield", ABOUT_ALL),
    ("evaluation/stopped.py", "np.multiply.outer(np.log1p(-np.asarray(p)), k)", "np.multiply.outer(np.log1p(-np.asarray(p)), [j + 1 for j in k])", BOUNDS),
    ("evaluation/stopped.py", '"missing": scores.missing}', '"missing": 0}', UNDECIDED),
    ("evaluation/stopped.py", "EACH_CONFIDENCE = 0.999", "EACH_CONFIDENCE = 0.99", ABOUT_ALL),
    ("evaluation/sample.py", "job.arm.startswith(TARGET) and not job.decoding.greedy", "not job.decoding.greedy", CONTROL),
    ("evaluation/sample.py", "job.arm.startswith(TARGET) and not job.decoding.greedy", "job.arm.startswith(TARGET)", CELL),
    ("evaluation/sample.py", "    require_same_looks(arm, until)\n", "", TAMPERED),
    ("evaluation/sample.py", "            require_fixed_n(arm)\n", "            pass\n", NO_CONTROL),
    ("evaluation/until.py", "if parsed.quantity != quantity:", "if False:", NONSENSE),
    ("evaluation/until.py", "if cap < 2:", "if cap < 1:", NONSENSE),
    ("evaluation/until.py", '            "scorer": _named(self.scorer),\n', "", RULE),
    ("evaluation/until.py", "rounds=number)", "rounds=None)", TAMPERED),
    ("evaluation/until.py", "if query_id not in found or found[query_id].n != n:", "if False:", LOST),
    ("evaluation/until.py", 'goal if decision == "open" else n', "goal", STOPS),
    ("evaluation/until.py", 'or rule["scorer"] != _named(scorer):', "or False:", OTHER),
    ("evaluation/until.py", "np.nan_to_num(truth, nan=1.0)", "np.nan_to_num(truth, nan=0.0)", ROW),
    ("evaluation/until.py", 'rule["cap"], rule["confidence"])', 'rule["cap"])', MEAN),
    ("evaluation/__init__.py", "if waiting := arm.unlooked():", "if waiting := {}:", WAITS),
    ("evaluation/__init__.py", "scorers[0], cap=n, confidence=confidence", "scorers[0], cap=n, confidence=0.99", RULE),
    ("evaluation/summary.py", "arm.plan.n * len(mine)", "arm.plan.n", ROW),
    ("cli/evaluate.py", '    if given["until"]:', "    if False:", OPTION),
    ("cli/options.py", '"n", "until", "temperature"', '"n", "temperature"', OPTION),
    # refusals come first
    ("evaluation/__init__.py", "        job.engine.check(run.queries, job.decoding)\n", "        pass\n", INPUT),
    ("evaluation/__init__.py", "missing = [part for part in arm.missing_parts() if not arm.has(part)]", "missing = []", COMMANDS),
    ("evaluation/__init__.py", "if not 0 < confidence < 1:", "if not 0 < confidence <= 1:", INPUT),
    ("evaluation/__init__.py", "    if failed:\n", "    if False:\n", FAILED),
    ("evaluation/probe.py", "        engine.check(", "        (lambda *_: None)(", INPUT),
    # the command line
    ("cli/options.py", "default_length if length is None else length", "length or default_length", INPUT),
    ("cli/options.py", "if value in (None, ()):", "if not value:", INPUT),
    ("cli/options.py", "like.get(name, _DEFAULTS.get(name))", "_DEFAULTS.get(name)", COMMANDS),
    ("cli/__init__.py", "        return error.exit_status\n", "        return 1\n", INPUT),
    ("cli/console.py", "if done == last or (", "if (", COMMANDS),
]  # fmt: skip

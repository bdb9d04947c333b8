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

MUTANTS = [
    # bounds
    ("evaluation/bound.py", "half = (1 + confidence) / 2", "half = confidence", ARMS),
    ("evaluation/bound.py", "_greedy if arm.decoding.greedy else _sampled", "_sampled", ARMS),
    ("evaluation/bound.py", "    if scorer.binary:\n        leak =", "    if scores.scores.max() in (0, 1):\n        leak =", RANGE),
    ("evaluation/bound.py", "np.where(scores.scores > 0,", "np.where(scores.scores >= 0,", ARMS),
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

"""Mutants of `leakbound.evaluation` and the command line."""

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
ARMS = "evaluation/bounds/test_arms.py"
INPUT = "cli/test_bad_input.py"
COMMANDS = "cli/test_commands.py"
UNTIL = "evaluation/draws/test_until.py::"
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
EXPLORED = "evaluation/bounds/test_explored.py::"
EACH = EXPLORED + "test_the_leakage_of_each_question"
TAILS = EXPLORED + "test_tails_and_leak_at_k_of_each_question"
OVER = EXPLORED + "test_the_mean_is_its_certain_part_and_a_weighted_mean_of_remainders"
ERRS = EXPLORED + "test_the_mean_errs_as_seldom_as_it_says"
CERTAIN = EXPLORED + "test_a_mean_without_draws_is_certain"
NO_SCORE = EXPLORED + "test_what_has_no_score_counts_against_every_claim"
EXPLORE = "evaluation/draws/test_explore.py::"
REFUSED = EXPLORE + "test_what_cannot_be_explored_is_refused_first"
LIES = EXPLORE + "test_a_scorer_whose_bounds_do_not_hold_is_refused"
ANSWERS = EXPLORE + "test_answers_that_were_not_drawn_are_kept_beside_the_draws"
TOO = EXPLORE + "test_a_sampled_arm_has_its_answers_too"
OWN = EXPLORE + "test_each_arm_and_seed_has_draws_of_its_own"
ABOVE = EXPLORE + "test_a_threshold_makes_masses_binary"
PROBE = EXPLORE + "test_a_probe_counts_forwards_and_stores_nothing"
TOLD = EXPLORE + "test_the_table_tells_what_was_explored"
OTHER_WAY = EXPLORE + "test_another_way_of_looking_is_never_mixed_in"
LATER = EXPLORE + "test_a_sampled_run_is_not_explored_later"
PROOF = "evaluation/bounds/test_proof.py"
COPIES = "evaluation/bounds/test_independence_check.py"
WAYS = "evaluation/draws/test_drawing.py"
CERTIFY = "cli/test_certify_mode.py"

PARTS = "evaluation/draws/test_parts.py"
TELLS = "engines/test_telling.py"

MUTANTS = [
    # bounding one scorer keeps the others
    ("evaluation/bounds/bound.py", "        return made == wanted[name]", "        return True", COMMANDS),
    ("evaluation/bounds/bound.py", "every = {**known, **wanted}", "every = wanted", COMMANDS),
    ("evaluation/bounds/bound.py", "    except InputError:  # it has no", "    except KeyError:  # it has no", COMMANDS),
    ("evaluation/score.py", "[*named, *scored_by(run)]", "[*named]", COMMANDS),
    # bounds
    (
        "evaluation/bounds/bound.py",
        "    if arm.decoding.greedy:\n        scores",
        "    if False:\n        scores",
        ARMS,
    ),
    (
        "evaluation/bounds/drawn.py",
        "    return Fixed(scores, binary, order)",
        "    return Fixed(scores, scores.scores.max() in (0, 1), order)",
        RANGE,
    ),
    ("evaluation/bounds/fixed.py", "if k <= self.scores.n.min()]", "]", ROWS),
    (
        "evaluation/bounds/bound.py",
        "if len(query_ids) == len(arm.run.questions) and not arm.found:\n        for",
        "if not arm.found:\n        for",
        FAILED,
    ),
    (
        "evaluation/bounds/bound.py",
        "or control is None or arm.decoding.greedy:",
        "or control is None:",
        COMMANDS,
    ),
    (
        "evaluation/bounds/together.py",
        "stats.worst_question(known.leakage, questions,",
        "stats.worst_question(known.leakage, 1,",
        ALL,
    ),
    (
        "evaluation/bounds/fixed.py",
        '{"confidence": confidence, "side": side, "missing": self.scores.missing}',
        '{"confidence": confidence, "side": side}',
        ARMS,
    ),
    (
        "evaluation/bounds/bound.py",
        "upper=np.where(known, value, 1.0)",
        "upper=np.where(known, value, 0.0)",
        ARMS,
    ),
    ("store/arm.py", "return file.exists() and tables.is_made_from(file, self._scores_made_from(scorer))", "return file.exists()", "store/test_run.py"),
    # draws
    ("evaluation/draws/drawing.py", 'return f"score:{name}"', 'return "score"', ARMS),
    ("evaluation/draws/sample.py", 'seed=int(arm.spec["seed"])', "seed=0", ARMS),
    ("evaluation/draws/sample.py", "first_chunk=part.first_chunk", "first_chunk=0", ARMS),
    ("evaluation/draws/sample.py", "_planned(Plan.of(1))", "_planned(Plan.of(drawing.n))", ARMS),
    ("evaluation/draws/sample.py", "if names.count(name) > 1:", "if names.count(name) > 2:", CELLS),
    # the control
    ("evaluation/draws/sample.py", 'if theirs["sha256"] != ours["sha256"]:', "if False:", OTHERS),
    ("evaluation/draws/sample.py", "if arm.decoding != decoding:", "if False:", OTHERS),
    (
        "evaluation/draws/sample.py",
        "if arm is None or arm.missing_parts():",
        "if arm is None:",
        INPUT,
    ),
    # stopping early
    ("evaluation/bounds/drawn.py", "    if arm.stopping is not None:\n", "    if False:\n", BOUNDS),
    (
        "evaluation/bounds/drawn.py",
        "    if arm.stopping is not None:\n",
        "    if False:\n",
        ABOUT_ALL,
    ),
    (
        "evaluation/bounds/stopped.py",
        "np.multiply.outer(np.log1p(-np.asarray(p)), k)",
        "np.multiply.outer(np.log1p(-np.asarray(p)), [j + 1 for j in k])",
        BOUNDS,
    ),
    ("evaluation/bounds/stopped.py", '"missing": scores.missing}', '"missing": 0}', UNDECIDED),
    (
        "evaluation/bounds/together.py",
        "EACH_CONFIDENCE = 0.999",
        "EACH_CONFIDENCE = 0.99",
        ABOUT_ALL,
    ),
    (
        "evaluation/draws/sample.py",
        "drawing.until is not None and job.arm.startswith(TARGET)",
        "drawing.until is not None",
        CONTROL,
    ),
    (
        "evaluation/draws/sample.py",
        "    if job.decoding.greedy:\n",
        "    if job.decoding.greedy and not drawing.until:\n",
        CELL,
    ),
    ("evaluation/draws/sample.py", "    require_same_looks(arm, until)\n", "", TAMPERED),
    (
        "evaluation/draws/sample.py",
        "            require_fixed_n(arm)\n",
        "            pass\n",
        NO_CONTROL,
    ),
    ("evaluation/draws/until.py", "if parsed.quantity != quantity:", "if False:", NONSENSE),
    ("evaluation/draws/until.py", "if cap < 2:", "if cap < 1:", NONSENSE),
    ("evaluation/draws/until.py", '            "scorer": _named(self.scorer),\n', "", RULE),
    ("evaluation/draws/until.py", "rounds=number)", "rounds=None)", TAMPERED),
    (
        "evaluation/draws/until.py",
        "if query_id not in found or found[query_id].n != n:",
        "if False:",
        LOST,
    ),
    ("evaluation/draws/until.py", 'goal if decision == "open" else n', "goal", STOPS),
    ("evaluation/draws/until.py", 'or rule["scorer"] != _named(scorer):', "or False:", OTHER),
    (
        "evaluation/draws/until.py",
        "np.nan_to_num(truth, nan=1.0)",
        "np.nan_to_num(truth, nan=0.0)",
        ROW,
    ),
    ("evaluation/draws/until.py", 'rule["cap"], rule["confidence"])', 'rule["cap"])', MEAN),
    ("store/current.py", "if waiting := arm.unlooked():", "if waiting := {}:", WAITS),
    (
        "evaluation/draws/drawing.py",
        "scorers[0], cap=n, confidence=confidence",
        "scorers[0], cap=n, confidence=0.99",
        RULE,
    ),
    ("evaluation/tables/summary.py", "arm.plan.n * len(mine)", "arm.plan.n", ROW),
    # what was explored, and draws from the rest
    (
        "evaluation/bounds/explored.py",
        "mass, *self._tally(i), missing=self._missing[i], **how",
        "mass, *self._tally(i), **how",
        EACH,
    ),
    (
        "evaluation/bounds/explored.py",
        "missing=self._missing[i], seed=int(self._keys[i]), **how",
        "missing=self._missing[i], **how",
        EACH,
    ),
    (
        "evaluation/bounds/explored.py",
        "mass, *self._drawn(i), missing=self._missing[i], seed",
        "mass, *self._drawn(i), seed",
        EACH,
    ),
    ("evaluation/bounds/explored.py", "m.remainder if n else 0.0)", "m.remainder)", OVER),
    (
        "evaluation/bounds/explored.py",
        "confidence=min(estimate.confidence for",
        "confidence=max(estimate.confidence for",
        EACH,
    ),
    (
        "evaluation/bounds/explored.py",
        "mass, x, *self._drawn(i), confidence=confidence, missing=self._missing[i]",
        "mass, x, *self._drawn(i), confidence=confidence",
        TAILS,
    ),
    (
        "evaluation/bounds/explored.py",
        "mass, k, *self._drawn(i), confidence=confidence, missing=self._missing[i]",
        "mass, k, *self._drawn(i), confidence=confidence",
        TAILS,
    ),
    (
        "evaluation/bounds/explored.py",
        "                    missing=self._missing[i],\n                )\n            )  # fmt",
        "                )\n            )  # fmt",
        TAILS,
    ),
    (
        "evaluation/bounds/explored.py",
        "weights=weights[drawn], missing=missing[drawn]",
        "missing=missing[drawn]",
        ERRS,
    ),
    (
        "evaluation/bounds/explored.py",
        "weights=weights[drawn], missing=missing[drawn]",
        "weights=weights[drawn]",
        NO_SCORE,
    ),
    ("evaluation/bounds/explored.py", "weights.mean()", "weights[drawn].mean()", OVER),
    ("evaluation/bounds/explored.py", "high + slack + upper", "high + upper", OVER),
    ("evaluation/bounds/explored.py", "middle / (1 - slack)", "middle", OVER),
    (
        "evaluation/bounds/explored.py",
        "confidence=confidence if inside else 1.0",
        "confidence=confidence",
        CERTAIN,
    ),
    (
        "evaluation/bounds/explored.py",
        'if side == "upper" else float(low + lower)',
        "if False else float(low + lower)",
        OVER,
    ),
    (
        "evaluation/bounds/drawn.py",
        "np.where(end > x, 1.0, 0.0) for",
        "np.where(end >= x - 0.2, 1.0, 0.0) for",
        ABOVE,
    ),
    ("evaluation/bounds/drawn.py", "scores.scores > above", "scores.scores >= above - 0.2", ABOVE),
    # exploring
    ("evaluation/draws/explore.py", "if not isinstance(engine, Explores):", "if False:", REFUSED),
    ("evaluation/draws/explore.py", "if not math.isfinite(engine.margin):", "if False:", REFUSED),
    ("evaluation/draws/explore.py", 'decoding.adaptive_mode == "two_pass"', "False", REFUSED),
    (
        "evaluation/checks.py",
        "            require_explores(job.engine, job.arm, job.decoding)\n",
        "            pass\n",
        REFUSED,
    ),
    ("evaluation/draws/explore.py", "[e.text for e in found.events if e.ended] + [c", "[c", LIES),
    ("evaluation/draws/explore.py", " + [c.text for c in found.sample.completions]", "", LIES),
    (
        "evaluation/draws/explore.py",
        "                _try_bounds(scorer, result, prompts[result.query.id])\n",
        "                pass\n",
        CERTIFY,
    ),
    (
        "evaluation/draws/explore.py",
        "if completion is not None and (query.id, completion.token_ids) not in drawn",
        "if completion is not None",
        ANSWERS,
    ),
    (
        "evaluation/draws/explore.py",
        "replace(one, sample=drawn[one.query.id]) if",
        "one if",
        ANSWERS,
    ),
    ("evaluation/draws/explore.py", "    if decoding.greedy or not", "    if not", TOO),
    (
        "evaluation/draws/sample.py",
        "[drawn.get(result.query.id, result) for",
        "[result for",
        TOO,
    ),
    ("evaluation/draws/explore.py", "purpose=scoring(arm.name)", 'purpose="score"', OWN),
    ("evaluation/draws/explore.py", 'seed=int(arm.spec["seed"])', "seed=0", OWN),
    (
        "evaluation/draws/sample.py",
        'drawing.n if drawing.exploring is None else "fixed by',
        '"fixed by" if False else "fixed by',
        LATER,
    ),
    ("evaluation/draws/drawing.py", '"mode": self.mode, "forwards"', '"forwards"', OTHER_WAY),
    ("evaluation/draws/drawing.py", '"forwards": self.forwards, "scorer"', '"scorer"', OTHER_WAY),
    ("evaluation/draws/drawing.py", ', "scorer": settings(self.scorer)}', "}", OTHER_WAY),
    (
        "evaluation/draws/drawing.py",
        "if until is not None and certify not in (None, SAMPLED):",
        "if False:",
        WAYS,
    ),
    (
        "evaluation/draws/drawing.py",
        "if certify is not None and certify not in MODES:",
        "if False:",
        WAYS,
    ),
    (
        "evaluation/draws/drawing.py",
        "            Effort(mode=mode, forwards=budget)",
        "            ",
        WAYS,
    ),
    (
        "evaluation/draws/drawing.py",
        "Exploring(mode, budget, scorers[0])",
        "Exploring(mode, budget, scorers[-1])",
        WAYS,
    ),
    (
        "evaluation/draws/probe.py",
        "explored = [how for how in decoding if not how.greedy]",
        "explored = list(decoding)",
        PROBE,
    ),
    ("evaluation/draws/probe.py", "if drawing.exploring is not None:", "if False:", CERTIFY),
    (
        "evaluation/tables/summary.py",
        "number(max(known)) if known and len(known) == len(values)",
        "number(max(values)) if values",
        TOLD,
    ),
    # proofs
    ("evaluation/bounds/proof.py", "if query_id not in failed:", "if True:", PROOF),
    (
        "evaluation/bounds/proof.py",
        "[ids] = math.exp(floor), score",
        "[ids, floor, len(found[query_id])] = math.exp(floor), score",
        PROOF,
    ),
    ("evaluation/bounds/proof.py", "mass / max(1.0, math.fsum(mass))", "mass", PROOF),
    (
        "evaluation/bounds/proof.py",
        "                del texts[inside]",
        "                pass",
        PROOF,
    ),
    ("evaluation/bounds/proof.py", "if known[: len(event)] == event]", "if known == event]", PROOF),
    ("evaluation/bounds/proof.py", "        if low:\n", "        if True:\n", PROOF),
    (
        "evaluation/bounds/proof.py",
        "found = proof.probability if scorer.binary else proof.mean",
        "found = proof.probability",
        PROOF,
    ),
    # independence
    (
        "evaluation/bounds/bound.py",
        "        require_independent_draws(arm)\n",
        "        pass\n",
        COPIES,
    ),
    ("evaluation/bounds/independence.py", "logprob - shift", "logprob", COPIES),
    (
        "evaluation/bounds/independence.py",
        "math.log(within) if within else -math.inf",
        "math.log(within)",
        COPIES,
    ),
    ("evaluation/bounds/independence.py", "texts[text]] += count", "texts[text]] = count", COPIES),
    ("evaluation/bounds/independence.py", "tally.get(key, 0) + count", "count", COPIES),
    (
        "evaluation/bounds/independence.py",
        "    if arm.decoding.greedy:\n",
        "    if False:\n",
        COPIES,
    ),
    ("evaluation/bounds/independence.py", "counts[chunks.index(chunk),", "counts[0,", COPIES),
    # refusals come first
    (
        "evaluation/checks.py",
        "        job.engine.check(run.queries, job.decoding)\n",
        "        pass\n",
        INPUT,
    ),
    (
        "evaluation/checks.py",
        "        for fault in arm.faults():",
        "        for fault in ():",
        "cli/test_reading_runs.py",
    ),
    ("evaluation/checks.py", "if not 0 < confidence < 1:", "if not confidence < 1:", INPUT),
    ("evaluation/checks.py", "    if failed:\n", "    if False:\n", FAILED),
    ("evaluation/draws/probe.py", "        engine.check(", "        (lambda *_: None)(", INPUT),
    # the command line
    ("cli/__init__.py", "        return error.exit_status\n", "        return 1\n", INPUT),
    ("cli/console.py", "if (done, tokens) == last or (", "if (", f"{COMMANDS}::test_plain_lines_come_now_and_then"),
    # how far it is, while it works
    ("evaluation/draws/meter.py", "            engine.tell = tell\n", "            pass\n", PARTS),
    ("evaluation/draws/meter.py", "        self.done, self._now = self.done + amount, 0.0\n", "        self._now = 0.0\n", PARTS),
    ("evaluation/draws/meter.py", "(tokens * self.worth or draws), amount)", "(tokens or draws), amount)", PARTS),
    ("evaluation/settings.py", 'progress(f"loading {Path(model).name}", 0, 1, "models")', "pass", PARTS),
    ("sampling/forest.py", "self._tell(self._ended - ended, ", "self._tell(self._ended, ", TELLS),
    ("sampling/forest.py", "self.usage.forwards - forwards)", "self.usage.forwards)", TELLS),
    ("engines/hf.py", "        self.tell(0, tokens)\n", "        self.tell(draws, tokens)\n", TELLS),
    ("sampling/explore.py", "        self._tell(0, len(stems))\n", "", TELLS),
    ("evaluation/checks.py", 'f"{len(questions)} of the', 'f"{len(failed)} of the', "evaluation/test_evaluate.py"),
]  # fmt: skip

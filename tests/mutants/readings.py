"""Mutants of reading given texts, and of metrics in a run."""

# ruff: noqa: E501 (one mutant a line)
READ = "engines/test_reading.py::"
ALONE = READ + "test_texts_read_together_are_as_each_alone"
ONCE = READ + "test_prompts_and_what_answers_begin_with_are_forwarded_once"
BOUNDS = READ + "test_small_batches_give_the_same_and_keep_their_bounds"
UNSHARED = READ + "test_equal_texts_are_forwarded_once_where_rows_are_not_shared"
LIKE = READ + "test_rows_of_like_length_go_together_the_longest_first"
ZERO = READ + "test_tokens_of_probability_zero_take_no_part_in_the_moments"
UNUSABLE = READ + "test_unusable_logits_are_refused_with_the_query"
BEYOND = READ + "test_a_pair_beyond_the_context_is_refused_before_anything_is_forwarded"
GRADIENT = READ + "test_gradient_norms_are_those_of_plain_backward_passes"
TIES = READ + "test_of_equal_logits_the_lowest_id_is_the_top"
PREFIX = READ + "test_the_end_token_is_read_and_a_prefix_opens_the_answer"

STORED = "store/test_readings.py"
RUN = "evaluation/metrics/test_metrics_run.py::"
PASS = RUN + "test_all_metrics_take_one_pass_and_mean_what_they_say"
CONTROL = RUN + "test_the_control_is_the_retrained_model_of_the_target_and_has_none_itself"
NEEDED = RUN + "test_what_a_metric_does_not_need_is_not_done"
AGAIN = RUN + "test_another_metric_is_measured_from_what_was_read_without_a_model"
MISSING = RUN + "test_the_same_command_reads_nothing_again_and_another_only_what_is_missing"
STOPPED = RUN + "test_a_run_that_was_stopped_ends_the_same_and_reads_only_the_rest"
KILLED = RUN + "test_what_is_read_is_saved_on_the_way_for_a_run_that_is_killed"
FINISHED = RUN + "test_a_finished_control_run_gives_what_it_read_and_is_refused_where_that_lacks"
REFUSED = RUN + "test_a_metric_that_cannot_be_had_is_refused_by_name_before_anything_is_done"
ALL = RUN + "test_all_leaves_out_what_cannot_be_had_and_says_why"
UNABLE = RUN + "test_an_engine_that_does_not_read_is_refused"
FAILED = RUN + "test_metrics_are_left_out_where_questions_could_not_be_sampled"
LIMIT = RUN + "test_a_limit_holds_for_every_part"
ITSELF = RUN + "test_a_set_that_is_evaluated_itself_has_its_metrics"
OTHERS = RUN + "test_what_others_keep_in_the_file_stays"
SMALL = RUN + "test_small_p_values_are_told_apart"
COMMAND = "evaluation/metrics/test_metrics_command.py"
LENGTHS = (
    "evaluation/metrics/test_metrics_run.py::test_prompts_are_read_the_longest_first_and_whole"
)

MUTANTS = [
    # what tokens see, and where they stand
    ("engines/reading.py", "seen[token] |= seen[parent]", "seen[token, :token] = True", ALONE),
    ("engines/reading.py", "positions[row] = seen[row].sum(axis=1) - 1", "positions[row, start:] = range(tree.size)", ALONE),
    ("engines/reading.py", "            seen[row, start:, start:] = tree.seen()\n", "            seen[row, start:, start:] = tree.seen()\n            seen[row, start:, :start] = True\n", ALONE),
    ("engines/reading.py", "positions[:, None, :] >= window", "positions[:, None, :] > window", ALONE),
    ("engines/reading.py", "        if not self.shares:\n            return", "        if False:\n            return", ALONE),
    ("engines/reading.py", "if self.shares else 0\n", "\n", ALONE),
    ("engines/reading.py", "yield row[-tree.asked :]", "yield row[: tree.asked]", ALONE),
    ("engines/hf.py", "shares=isinstance(self._seam, CachedModel)", "shares=True", ALONE),
    # what is forwarded, once and within bounds
    ("engines/reading.py", "if (path[-1], token) not in self._children:", "if True:", ONCE),
    ("engines/reading.py", "for token in answer[:-1]:", "for token in answer:", ONCE),
    ("engines/reading.py", "list(dict.fromkeys(pairs))", "pairs", UNSHARED),
    (
        "engines/reading.py",
        "if tree is None or tree.asked + len(answer) > most:",
        "if tree is None:",
        "engines/test_reading.py::test_very_many_answers_of_a_prompt_are_read_in_several_rows",
    ),
    ("engines/reading.py", "rows * width <= self.tokens and", "", BOUNDS),
    ("engines/reading.py", " and rows * keep * self._vocabulary <= self.logits", "", BOUNDS),
    ("engines/reading.py", 'inputs["logits_to_keep"] = keep', "pass", BOUNDS),
    ("engines/reading.py", "_FULL = 0.875", "_FULL = 0.0", LIKE),
    ("engines/reading.py", "key=lambda tree: -tree.size", "key=lambda tree: tree.size", LIKE),
    # what is read
    ("engines/reading.py", "self.best[rows] == np.array(ids)", "self.best[rows] <= np.array(ids)", TIES),
    ("engines/reading.py", ".masked_fill_(p == 0, 0.0)", "", ZERO),
    ("engines/reading.py", "variance.sqrt()", "variance", ALONE),
    ("engines/reading.py", "if self.broken[rows].any():", "if False:", UNUSABLE),
    ("engines/reading.py", "len(prompt) + len(answer) > limit", "len(answer) > limit", BEYOND),
    ("engines/reading.py", "query.text, text, query.prefix,", 'query.text, text, "",', PREFIX),
    ("engines/reading.py", "logits[0, len(prompt) - 1 : -1]", "logits[0, len(prompt) - 2 : -2]", GRADIENT),
    ("engines/reading.py", "torch.stack(norms).mean()", "torch.stack(norms).norm()", GRADIENT),
    ("engines/reading.py", "            if len(answer) < 2:\n", "            if len(answer) < 1:\n", GRADIENT),
    ("engines/reading.py", "if not np.isfinite(norm):", "if False:", UNUSABLE),
    # what is kept
    ("store/readings.py", "json.dumps([asdict(query), text], sort_keys=True)", 'json.dumps([asdict(query), ""], sort_keys=True)', STORED),
    ("store/readings.py", "json.dumps([asdict(query), text], sort_keys=True)", "json.dumps([query.text, text], sort_keys=True)", STORED),
    ("store/readings.py", "table.to_pylist() if ours else []", "table.to_pylist()", STORED),
    ("store/readings.py", '{**self._made_from(), "decoding": _plain(self._arm.spec["decoding"])}', "self._made_from()", STORED),
    ("store/readings.py", "return json.loads(json.dumps(value))", "return value", STORED),
    ("store/readings.py", '{"top": np.bool_}', "{}", STORED),
    ("store/readings.py", "set_aside(file).name", "file.name", STORED),
    ("store/readings.py", "        if self.texts:\n", "        if True:\n", STORED),
    # what is asked for
    (
        "evaluation/metrics/wanted.py",
        "if need.greedy and part != self.own:",
        "if need.greedy:",
        PASS,
    ),
    (
        "evaluation/metrics/wanted.py",
        "kinds=known.kinds | need.kinds | read",
        "kinds=need.kinds | read",
        PASS,
    ),
    (
        "evaluation/metrics/wanted.py",
        "kinds=known.kinds | need.kinds | read",
        "kinds=known.kinds | need.kinds",
        RUN + "test_what_is_differentiated_is_read_too",
    ),
    (
        "evaluation/metrics/wanted.py",
        "greedy=known.greedy or need.greedy",
        "greedy=need.greedy",
        PASS,
    ),
    ("evaluation/metrics/wanted.py", "draws=known.draws or need.draws", "draws=need.draws", PASS),
    (
        "evaluation/metrics/wanted.py",
        "gradient_norm=known.gradient_norm or need.gradient_norm",
        "gradient_norm=need.gradient_norm",
        PASS,
    ),
    ("evaluation/metrics/wanted.py", "elif name in named:", "elif ALL not in named:", REFUSED),
    (
        "evaluation/metrics/wanted.py",
        'if metric.reference == "retrained" and not control:',
        "if False:",
        REFUSED,
    ),
    (
        "evaluation/metrics/wanted.py",
        "if need.draws and need.part != drawn:",
        "if need.draws and drawn is None:",
        REFUSED,
    ),
    (
        "evaluation/metrics/wanted.py",
        "    drawn = task.part if draws else None\n",
        "    drawn = task.part\n",
        REFUSED,
    ),
    (
        "evaluation/metrics/wanted.py",
        "need.kinds | need.compared | moved",
        "need.kinds | moved",
        REFUSED,
    ),
    (
        "evaluation/metrics/wanted.py",
        "return sorted(every, key=lambda",
        "return every or sorted(every, key=lambda",
        LENGTHS,
    ),
    ("benchmarks/benchmark.py", "return load()[:limit]", "return load()", LIMIT),
    ("benchmarks/benchmark.py", "return split if split in self.utility else self.role", "return self.role", ITSELF),
    # the pass
    (
        "evaluation/metrics/reading.py",
        "for asked in texts if asked.place not in self.known.texts)",
        "for asked in texts)",
        MISSING,
    ),
    (
        "evaluation/metrics/reading.py",
        "if each[0] not in self.known.answers]",
        "]",
        RUN + "test_answers_are_not_given_again",
    ),
    (
        "evaluation/metrics/reading.py",
        " or known.texts[asked.place].gradient_norm is None)",
        ")",
        MISSING,
    ),
    (
        "evaluation/metrics/reading.py",
        "and wanted.needs[asked.place.part].gradient_norm",
        "",
        NEEDED,
    ),
    (
        "evaluation/metrics/reading.py",
        "    finally:\n        this.save()\n",
        "    finally:\n        pass\n",
        MISSING,
    ),
    (
        "evaluation/metrics/reading.py",
        "            if time.monotonic() - self._saved > _SAVE_SECONDS:\n",
        "            if False:\n",
        KILLED,
    ),
    (
        "evaluation/metrics/reading.py",
        "        if self._unsaved:\n",
        "        if False:\n",
        STOPPED,
    ),
    ("evaluation/metrics/reading.py", "if needed and not able:", "if False:", UNABLE),
    ("evaluation/metrics/reading.py", "if place not in known.answers]", "if False]", AGAIN),
    (
        "evaluation/metrics/reading.py",
        "lacking += [place for place, _, _ in _undifferentiated(known, wanted)]",
        "pass",
        RUN + "test_a_gradient_that_nobody_took_is_missed",
    ),
    (
        "evaluation/metrics/reading.py",
        "                if isinstance(result, Failure):\n",
        "                if False:\n",
        FAILED,
    ),
    ("evaluation/metrics/reading.py", "    ours.answers.update(theirs.answers)\n", "", FINISHED),
    (
        "evaluation/verbs.py",
        "        require_known(finished[CONTROL_GREEDY], wanted)\n",
        "        pass\n",
        FINISHED,
    ),
    (
        "evaluation/verbs.py",
        "control=control is not None, draws=sampled)",
        "control=True, draws=sampled)",
        REFUSED,
    ),
    (
        "evaluation/verbs.py",
        "control=control is not None, draws=sampled)",
        "control=control is not None)",
        REFUSED,
    ),
    ("evaluation/checks.py", "        require_able(job.engine, wanted)\n", "", UNABLE),
    # the values
    (
        "evaluation/metrics/values.py",
        "items.get(CONTROL) if model == TARGET else None",
        "items.get(CONTROL)",
        CONTROL,
    ),
    (
        "evaluation/metrics/values.py",
        "items.get(CONTROL) if model == TARGET else None",
        "items[model] if CONTROL in items and model == TARGET else None",
        CONTROL,
    ),
    (
        "evaluation/metrics/values.py",
        "found[query_id][text] += count",
        "found[query_id][text] = count",
        RUN + "test_draws_of_every_part_are_counted",
    ),
    ("evaluation/metrics/values.py", "if need.greedy and part == wanted.own:", "if False:", ITSELF),
    (
        "evaluation/metrics/values.py",
        "if any(arm.failures for arm in run.arms.values()):",
        "if False:",
        FAILED,
    ),
    ("evaluation/metrics/values.py", 'if task.fingerprint()["sha256"] !=', 'if "" ==', AGAIN),
    ("evaluation/metrics/values.py", "{**stored_metrics(run), **made}", "made", OTHERS),
    ("evaluation/metrics/values.py", "if model != TARGET or CONTROL not in", "if TARGET in", CONTROL),
    ("evaluation/metrics/values.py", "if 0 < abs(value) < 5e-4 else", "if False else", SMALL),
    (
        "evaluation/metrics/values.py",
        "and not arm.decoding.greedy",
        "",
        RUN + "test_a_greedy_answer_is_no_draw",
    ),
    ("cli/options.py", '        said["metrics"] = asked_metrics(metrics)\n', "        pass\n", COMMAND),
    (
        "report/page.py",
        "preface=preface, metrics=metrics))",
        "preface=preface))",
        "evaluation/metrics/test_metrics_run.py::test_the_report_has_them_after_the_leakage",
    ),
    (
        "report/page.py",
        "if (table := metrics_table(run))",
        "if (table := metrics_table(run)) or True",
        "evaluation/metrics/test_metrics_run.py::test_the_report_has_them_after_the_leakage",
    ),
]  # fmt: skip

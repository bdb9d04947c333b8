"""Mutants of what reads other tools' samples: `leakbound.formats` and the import of them."""

INSPECT = "formats/test_inspect_log.py"
LM_EVAL = "formats/test_lm_eval.py"
SAMPLES = "formats/test_samples.py"
JOINED = "formats/test_joined.py"
IMPORT = "formats/test_import_command.py"
SCORES = "formats/test_log_scores.py"
EXPORTED = "cli/test_exporting.py"
THIRD = "examples/test_third_parties.py"

MUTANTS = [
    # inspect_ai
    ("formats/inspect_log.py", 'if sample.get("error") or sample', "if sample", INSPECT),
    ("formats/inspect_log.py", ' or sample.get("invalidation")', "", INSPECT),
    ("formats/inspect_log.py", "if e in found[id] else None for e", "for e", INSPECT),
    ("formats/inspect_log.py", "range(1, epochs + 1)", "sorted(found[id])", INSPECT),
    (
        "formats/inspect_log.py",
        "if turns > 1 or len(choices) > 1:",
        "if len(choices) > 1:",
        INSPECT,
    ),
    ("formats/inspect_log.py", "if turns > 1 or len(choices) > 1:", "if turns > 1:", INSPECT),
    ("formats/inspect_log.py", " - _assistant_turns(given)", "", INSPECT),
    ("formats/inspect_log.py", "if absent or not wanted:", "if not wanted:", INSPECT),
    ("formats/inspect_log.py", 'sample["epoch"] in mine or ', "", INSPECT),
    (
        "formats/inspect_log.py",
        'if event["event"] == "model"][:1]',
        'if event["event"] == "model"][-1:]',
        INSPECT,
    ),
    (
        "formats/inspect_log.py",
        '"length" if choices[0].get("stop_reason") in _CUT else "stop"',
        '"stop"',
        INSPECT,
    ),
    (
        "formats/inspect_log.py",
        "if value is not None and key not in _IDLE",
        "if value is not None",
        INSPECT,
    ),
    (
        "formats/inspect_log.py",
        'for part in content if part["type"] == "text"\n',
        'for part in content if "text" in part or part\n',
        INSPECT,
    ),
    (
        "formats/inspect_log.py",
        "or zlib.crc32(content) != info.CRC",
        "or False",
        "formats/test_inspect_log.py::test_a_member_that_was_altered_is_refused",
    ),
    # lm-evaluation-harness
    (
        "formats/lm_eval.py",
        'if row.values.get("resps") != earlier.values.get("resps"):',
        "if False:",
        LM_EVAL,
    ),
    ("formats/lm_eval.py", "or len(responses) != 1", "or len(responses) < 1", LM_EVAL),
    (
        "formats/lm_eval.py",
        "        or not all(isinstance(text, str) for text in responses[0])\n",
        "",
        LM_EVAL,
    ),
    ("formats/lm_eval.py", 'stated["temperature"] = 0.0', "pass", LM_EVAL),
    ("formats/lm_eval.py", 'or target == "None"', "", LM_EVAL),
    ("formats/lm_eval.py", "tuple(text for text in stops if text)", "tuple(stops)", LM_EVAL),
    ("formats/lm_eval.py", '"max_gen_toks": "max_new_tokens", ', "", LM_EVAL),
    # JSON lines
    (
        "formats/samples.py",
        "for draw in [_draw(row)] * _count(row)",
        "for draw in [_draw(row)]",
        SAMPLES,
    ),
    (
        "formats/samples.py",
        'ordered=texts and not any("count" in row.values for row in rows)',
        "ordered=True",
        SAMPLES,
    ),
    (
        "formats/samples.py",
        "if not _is_whole(count) or count < 1:",
        "if not _is_whole(count):",
        SAMPLES,
    ),
    (
        "formats/samples.py",
        "isinstance(value, int) and not isinstance(value, bool)",
        "isinstance(value, int)",
        SAMPLES,
    ),
    (
        "formats/samples.py",
        "return None if text is None else Draw(text, scores=_scores(row))",
        'return Draw(text or "", scores=_scores(row))',
        SAMPLES,
    ),
    ("formats/samples.py", "    if len(texts) > 1:", "    if False:", SAMPLES),
    # what is known of a decoding
    (
        "formats/imported.py",
        "unknown=tuple(k for k in UNSTATED if k not in known)",
        "unknown=()",
        SAMPLES,
    ),
    ("formats/imported.py", 'if known.get("top_k") == -1:', "if False:", SAMPLES),
    ("formats/imported.py", "        if stated != first[1]:", "        if False:", SAMPLES),
    ("formats/imported.py", " and not isinstance(value, bool)", "", SAMPLES),
    (
        "types/decoding.py",
        '        if "temperature" in self.unknown:\n            del parts[0]\n',
        "",
        LM_EVAL,
    ),
    (
        "types/decoding.py",
        'if v or k not in ("unknown", "max_tokens")',
        "",
        SAMPLES,
    ),
    ("report/words.py", 'and not {"top_p", "top_k"} & set(decoding.unknown)', "", SAMPLES),
    # what belongs together, and copies
    ("formats/joined.py", "    _require_same_law(logs)\n", "", JOINED),
    ("formats/joined.py", "    require_no_copies(logs)\n", "", JOINED),
    ("formats/joined.py", '**one.stated, "seed": None', "**one.stated", JOINED),
    (
        "formats/joined.py",
        "if (known.text, known.answers) != (one.text, one.answers):",
        "if False:",
        JOINED,
    ),
    ("formats/joined.py", "draws=known.draws + one.draws", "draws=one.draws", JOINED),
    ("formats/joined.py", "if len(sizes) != 1 or 0 in sizes:", "if len(sizes) != 1:", JOINED),
    ("formats/joined.py", "if len(sizes) != 1 or 0 in sizes:", "if 0 in sizes:", JOINED),
    ("formats/joined.py", "    if len(texts) > 1:", "    if False:", JOINED),
    ("formats/joined.py", "            if seed is not None:", "            if False:", JOINED),
    ("formats/joined.py", "        elif seed is not None:", "        elif False:", JOINED),
    (
        "formats/copies.py",
        "range(1 if one is other else 1 - longest, longest)",
        "range(1 if one is other else 0, longest)",
        JOINED,
    ),
    (
        "formats/copies.py",
        "range(1 if one is other else 1 - longest, longest)",
        "range(1 if one is other else 1 - longest, 1)",
        JOINED,
    ),
    ("formats/copies.py", "LEVEL = 1e-9", "LEVEL = 1.0", JOINED),
    (
        "formats/copies.py",
        "logarithm < math.log(LEVEL)",
        "logarithm < 3000 * math.log(LEVEL)",
        JOINED,
    ),
    (
        "formats/copies.py",
        "known = (ours != _MISSING) & (theirs != _MISSING)",
        "known = ours != _MISSING",
        JOINED,
    ),
    (
        "formats/copies.py",
        "ordered = [log for log in logs if log.ordered]",
        "ordered = list(logs)",
        JOINED,
    ),
    (
        "formats/copies.py",
        "len(draws) > 1 and len(set(draws)) == 1 for",
        "len(set(draws)) == 1 for",
        JOINED,
    ),
    ("formats/catalogue.py", "log.decoding.greedy}) <= 1:", "log.decoding.greedy}) < 9:", IMPORT),
    # the run that is made
    (
        "evaluation/importing.py",
        "            missing += size - counts.total()\n",
        "",
        IMPORT,
    ),
    ("evaluation/importing.py", "draws[chunk * size : (chunk + 1) * size]", "draws[:size]", IMPORT),
    # scores that the files hold
    ("formats/inspect_scores.py", '"P": 0.5', '"P": 1.0', SCORES),
    ("formats/inspect_scores.py", "(name in _GRADED and not partial)", "name in _GRADED", SCORES),
    (
        "formats/inspect_scores.py",
        "float(value) if -_LARGEST <= value <= _LARGEST else None",
        "float(value) if -_LARGEST <= value <= _LARGEST else 0.0",
        SCORES,
    ),
    ("formats/log_scores.py", "and {*found} <= {0.0, 1.0}\n    if all", "\n    if all", SCORES),
    ("formats/log_scores.py", "if scorer.binary and not {*found}", "if not {*found}", SCORES),
    (
        "formats/log_scores.py",
        "if not 0 <= score <= 1 or math.isnan(score):",
        "if math.isnan(score):",
        SCORES,
    ),
    ("formats/log_scores.py", "    if all(log.texts for log in having):", "    if True:", EXPORTED),
    ("formats/lm_eval.py", "if len(each) == draws and all(", "if all(", SCORES),
    ("formats/joined.py", "if log.texts != first.texts), None):", "if False), None):", SCORES),
    (
        "evaluation/score.py",
        "    if arm.texts and not isinstance(base, Logged):",
        "    if not isinstance(base, Logged):",
        SCORES,
    ),
    (
        "evaluation/importing.py",
        "_distinct(arm, draws[query_id], chunk))\n        found",
        "_distinct(arm, draws[query_id], 0))\n        found",
        SCORES,
    ),
    (
        "cli/exporting.py",
        "                found[query_id, None] += count",
        "                pass",
        EXPORTED,
    ),
    ("cli/exporting.py", "    if redact and not drawn.own_words:", "    if False:", EXPORTED),
    ("evaluation/importing.py", "count=count,", "count=1,", IMPORT),
    ("evaluation/importing.py", "    if not drawn_by[TARGET]:", "    if False:", IMPORT),
    (
        "evaluation/importing.py",
        "if any(texts != {one.id: one.text for one in other} for other in others):",
        "if False:",
        IMPORT,
    ),
    ("evaluation/importing.py", "if any(other != ids for other in others):", "if False:", IMPORT),
    ("formats/openunlearning_answers.py", '{"temperature": 0.0}', '{"temperature": 1.0}', IMPORT),
    ("formats/catalogue.py", " if not log.decoding.greedy}) <= 1", "}) <= 1", IMPORT),
    (
        "evaluation/importing.py",
        "if len(set(matched.values())) < len(matched):",
        "if False:",
        IMPORT,
    ),
    (
        "evaluation/importing.py",
        "for path in paths if list(digests.values()).count(digests[path]) > 1",
        "for path in ()",
        IMPORT,
    ),
    (
        "evaluation/importing.py",
        '"sha256": {f"of file {i}": digest for',
        '"sha256": {f"of file {i}": 0 for',
        IMPORT,
    ),
    ("evaluation/tables/summary.py", "_explored, _imported,", "_explored,", IMPORT),
    (
        "evaluation/tables/summary.py",
        'in the greedy answer" if greedy else ""',
        'in the greedy answer"',
        IMPORT,
    ),
    # other packages
    ("registry.py", "    if name in table:\n        return table[name]\n", "", THIRD),
    ("engines/__init__.py", " and not Path(location).exists():", ":", THIRD),
    (
        "engines/__init__.py",
        'opens = find("engine", ENGINES, name)',
        "opens = ENGINES[name]",
        THIRD,
    ),
    (
        "evaluation/score.py",
        "    if not named:\n",
        "    if False:\n",
        "formats/test_import_command.py::test_a_run_without_a_scorer_of_its_own_asks_for_one",
    ),
    (
        "evaluation/importing.py",
        'return int(run.arms[arm].spec["order"]) if arm in run.arms else orders.entropy()',
        "return orders.entropy()",
        "evaluation/test_ordering.py",
    ),
    (
        "evaluation/importing.py",
        '        "order": order,\n',
        "",
        "evaluation/test_ordering.py",
    ),
]

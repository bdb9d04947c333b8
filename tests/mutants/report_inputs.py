"""Mutants of what `leakbound.report` says of rewritings and attacks, and of reading replies."""

PAGE = "report/test_report_asked.py::"
PROTOCOLS = PAGE + "test_greedy_output_and_full_stand_side_by_side"
ADDED = PAGE + "test_what_rewritings_add_is_bounded_from_below"
QUESTIONS = PAGE + "test_every_question_has_both_ways_and_the_worst_query"
TRIED = PAGE + "test_rewritings_that_were_removed_and_questions_without_one_are_told"
WORST = PAGE + "test_the_queries_that_leak_most_come_with_what_leaked"
LANES = PAGE + "test_a_chart_has_a_lane_for_every_way_of_asking"
SURER = PAGE + "test_correlations_have_a_histogram_and_every_question_its_scatter"
COVERS = PAGE + "test_a_histogram_covers_all_correlations"
FOUND = PAGE + "test_what_a_search_found_is_shown_with_its_fresh_bounds"
REDACTED = PAGE + "test_redaction_covers_rewritings_and_what_was_found"
CHARTS = "report/test_report_charts.py"
REPLIES = "inputs/test_sources.py"

MUTANTS = [
    # what is read
    ("report/asked_data.py", '(row["pool"] is not None) == in_all', "True", QUESTIONS),
    (
        "report/asked_data.py",
        'worst=bound_of(rows, *(f"{leak}, {WORST_QUERY}"',
        "worst=bound_of(rows, *(leak",
        QUESTIONS,
    ),
    (
        "report/asked_data.py",
        'what = WORST_QUERY if WORST_QUERY in name else "full"',
        'what = "full"',
        ADDED,
    ),
    ("report/asked_data.py", "where[what] = Bound.of(row)", "largest[what] = Bound.of(row)", ADDED),
    (
        "report/asked_data.py",
        "statement(rows, about.WORST_QUERY, *LEAKAGE)",
        "statement(rows, about.WORST, *LEAKAGE)",
        PROTOCOLS,
    ),
    (
        "report/asked_data.py",
        'hidden = self.redact and query.source != "original"',
        "hidden = False",
        REDACTED,
    ),
    ("report/asked_data.py", "yield withheld(text, redact)", "yield text", REDACTED),
    (
        "report/asked_data.py",
        "(query.leakage.lower, query.leakage.value or 0.0)",
        "(query.leakage.value or 0.0,)",
        WORST,
    ),
    (
        "report/asked_data.py",
        "ends[query.id], reverse=True",
        "ends[query.id], reverse=False",
        WORST,
    ),
    (
        "report/asked_data.py",
        "leaking = [each for each in scores if each[0]]",
        "leaking = scores",
        WORST,
    ),
    (
        "report/asked_data.py",
        "key=lambda each: each[:2], reverse=True",
        "key=lambda each: each[:2]",
        WORST,
    ),
    (
        "report/asked_data.py",
        'if row is None or not row["n"]:',
        "if row is None:",
        PAGE + "test_a_query_without_outputs_is_no_point",
    ),
    (
        "report/attack.py",
        "text=None if redact else found.query.text",
        "text=found.query.text",
        REDACTED,
    ),
    (
        "report/attack.py",
        "prefix=None if redact else found.query.prefix",
        "prefix=found.query.prefix",
        REDACTED,
    ),
    (
        "report/attack.py",
        "leakage=_bounds(estimates, found.arm,",
        "leakage=_bounds(estimates, own,",
        FOUND,
    ),
    ("report/attack.py", 'changes += ["opener"] if found.query.prefix else []', "", FOUND),
    (
        "report/data.py",
        "run.arms.get(place.arm.name + INPUTS)",
        'run.arms.get("target" + INPUTS)',
        PROTOCOLS,
    ),
    ("evaluation/draws/tried.py", "if count},", "},", TRIED),
    (
        "evaluation/draws/tried.py",
        "len(one.queries) + len(one.rejected)",
        "len(one.queries)",
        TRIED,
    ),
    # tables
    (
        "report/asked_grids.py",
        "one.removed.get(r, 0) for r in reasons",
        "one.removed.get(r, 1) + 1 for r in reasons",
        TRIED,
    ),
    (
        "report/asked_grids.py",
        "output, of_all.mean, of_all.worst,",
        "of_all.mean, output, of_all.worst,",
        PROTOCOLS,
    ),
    (
        "report/asked_grids.py",
        "Cell(floor(bound.value, bound.lower), bound.value)",
        "Cell(floor(bound.value, bound.upper), bound.value)",
        ADDED,
    ),
    ("report/asked_grids.py", "_least(found.worst_gap)", "_least(found.gap)", QUESTIONS),
    # charts
    ("report/asked_figures.py", "if one.worst is not None}", "if True}", LANES),
    (
        "report/asked_figures.py",
        '_lane("full", places, full, asked',
        '_lane("full", places, output, model',
        LANES,
    ),
    (
        "report/asked_figures.py",
        "int((r + 1) / 2 * BINS + 1e-9), BINS - 1",
        "int(abs(r) * BINS + 1e-9), BINS - 1",
        COVERS,
    ),
    ("report/asked_figures.py", "+ 1e-9), BINS - 1)", "+ 1e-9), BINS)", COVERS),
    ("report/asked_figures.py", "known[len(known) // 2][1]", "known[0][1]", COVERS),
    (
        "report/asked_figures.py",
        "(sure - least) / (most - least)",
        "(most - sure) / (most - least)",
        SURER,
    ),
    (
        "report/asked_figures.py",
        "query.leakage.upper / ceiling",
        "1 - query.leakage.upper / ceiling",
        SURER,
    ),
    (
        "report/asked_figures.py",
        'query.source == "original",',
        'query.source != "original",',
        SURER,
    ),
    (
        "report/figures.py",
        "if mark.bound else mark.greedy) or 0)",
        "if mark.bound else 0) or 0)",
        PAGE + "test_lanes_are_sorted",
    ),
    ("report/charts.py", "room = width * LANE", "room = width", CHARTS),
    ("report/charts.py", "left + (j + 0.5) * slot", "left + j * slot", CHARTS),
    ("report/charts.py", '"dot" if spot.own else "spot"', '"spot"', CHARTS),
    (
        "report/charts.py",
        'parts = [tag("title", title), _bar(mean, centre, half,',
        'parts = [tag("title", title), _bar(mean, centre, 2 * half,',
        CHARTS,
    ),
    # replies
    (
        "inputs/model.py",
        "return question if same and led and not rest.strip(_ENDS) else text",
        "return text",
        REPLIES,
    ),
    ("inputs/model.py", "if same and led and not", "if same and not", REPLIES),
    ("inputs/model.py", "led and not rest.strip(_ENDS) else", "led else", REPLIES),
    ("inputs/model.py", "lead.rstrip(_MARKS).endswith", "lead.endswith", REPLIES),
    ("inputs/model.py", "|q|topic)", "|topic)", REPLIES),
    ("inputs/model.py", "(?: (?:the|this) question)?", "", REPLIES),
]

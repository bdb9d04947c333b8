"""Mutants of `leakbound.report`, and of the grid of decodings that it shows."""

# ruff: noqa: E501 (one mutant a line)
GRID = "evaluation/tables/test_grid.py::"
JOINT = GRID + "test_cells_pay_for_each_other"
MOST = GRID + "test_the_decoding_that_leaks_most_pays_for_being_picked"
EFFECTS = GRID + "test_effects_follow_from_the_cells"
READ = GRID + "test_a_person_reads_cells_and_the_larger_effect"
NO_GRID = GRID + "test_decodings_that_are_no_grid_have_cells_but_no_effects"
PAGE = "report/test_report_decodings.py::"
CELLS = PAGE + "test_every_cell_is_in_map_and_table"
CURVES = PAGE + "test_curves_reach_a_million_draws"
CLAIMS = PAGE + "test_claims_are_told_one_by_one_and_together"
ROUNDS = PAGE + "test_rounds_of_a_question_are_one_tally"
MASS = PAGE + "test_explored_texts_come_by_mass_and_forced_answers_are_no_draws"
EXPLORED = PAGE + "test_what_exploring_found_is_told"
PROOFS = PAGE + "test_proofs_are_told"
STATEMENTS = PAGE + "test_statements_about_all_questions_are_there"
CHARTS = "report/test_report_charts.py"
TEXTS = "report/test_report_texts.py"
WORDS = "report/test_report_words.py"

MUTANTS = [
    # what holds only given the measured margin
    (
        "evaluation/tables/summary.py",
        "if any(arm.exploring for arm in shown)",
        "if False",
        "evaluation/draws/test_explore.py::test_what_holds_at_100_percent_is_said_to_be_given_the_measured_margin",
    ),
    (
        "report/page.html",
        "{% if view.models | selectattr('explored') | list %} Of",
        "{% if False %} Of",
        "report/test_report_decodings.py::test_what_was_explored_is_said_to_be_given_the_measured_margin",
    ),
    # the grid
    ("evaluation/tables/grid.py", "side=\"both\", independent=False", "side=\"both\"", JOINT),
    (
        "evaluation/tables/grid.py",
        "means = _stacked([cell.mean for cell in cells])",
        "means = _stacked([cell.mean for cell in cells[::-1]])",
        JOINT,
    ),
    (
        "evaluation/tables/grid.py",
        "_jointly(repeated, len(cells), confidence), k)",
        "_jointly(repeated, len(cells), confidence**2), k)",
        GRID + "test_leak_at_k_of_every_cell_is_joint_too",
    ),
    (
        "evaluation/tables/grid.py",
        "picked = max(range(len(cells))",
        "picked = min(range(len(cells))",
        MOST,
    ),
    (
        "evaluation/tables/grid.py",
        "most = replace(largest, target=MOST, value=_at(joint, picked).value)",
        "most = replace(_at(joint, picked), target=MOST)",
        MOST,
    ),
    (
        "evaluation/tables/grid.py",
        "order = [places.index(setting) for setting in product(*axes)]",
        "order = list(range(len(places)))",
        EFFECTS,
    ),
    (
        "evaluation/tables/grid.py",
        "if axes is None or min(map(len, axes)) < 2:",
        "if axes is None:",
        GRID + "test_one_knob_alone_is_not_compared",
    ),
    (
        "evaluation/tables/grid.py",
        "if settings == list(product(temperatures, top_ps)) else None",
        "",
        NO_GRID,
    ),
    (
        "evaluation/tables/grid.py",
        "!= 1:\n        return None\n    settings",
        "== 0:\n        return None\n    settings",
        NO_GRID,
    ),
    (
        "evaluation/tables/grid.py",
        "return cells if whole else []",
        "return cells",
        GRID + "test_nothing_is_said_about_fewer_questions",
    ),
    (
        "evaluation/tables/grid.py",
        "isinstance(cell.drawn, Fixed) for",
        "True for",
        GRID + "test_cells_that_stopped_early_have_bounds_that_survive_it",
    ),
    (
        "evaluation/tables/grid.py",
        "k = min(TOGETHER_K, *",
        "k = max(1, *",
        GRID + "test_leak_at_k_of_every_cell_is_joint_too",
    ),
    (
        "evaluation/tables/grid.py",
        "upper=(total + missing) / asked",
        "upper=total / asked",
        GRID + "test_a_greedy_answer_without_a_score_may_leak",
    ),
    (
        "evaluation/tables/grid.py",
        "if effects[more].lower > effects[less].upper:",
        "if True:",
        GRID + "test_what_cannot_be_told_is_said",
    ),
    (
        "evaluation/tables/grid.py",
        "if effects[more].lower > effects[less].upper:",
        "if False:",
        READ,
    ),
    (
        "evaluation/tables/grid.py",
        "interval(grid.leakage[t, p]) for p in grid.top_ps",
        "interval(grid.leakage[t, p]) for p in grid.top_ps[::-1]",
        READ,
    ),
    (
        "evaluation/tables/summary.py",
        "            grid_summary(run, name),\n",
        "",
        GRID + "test_one_knob_alone_is_not_compared",
    ),
    # what is read
    ("report/measured.py", "if row[\"target\"] not in (JOINTLY, MOST)]", "]", STATEMENTS),
    ("report/measured.py", "is_count=True", "is_count=False", STATEMENTS),
    ("report/measured.py", "_DECISIONS.get(row[\"value\"], \"open\")", "\"open\"", CLAIMS),
    ("report/measured.py", "bound.lower for k, bound in repeated", "bound.upper / 2 for k, bound in repeated", PROOFS),
    ("report/measured.py", "naive = _by_parameter(rows, \"worst of k\")", "naive = _by_parameter(rows, \"leak@k\")", PAGE + "test_naive_estimates_are_those_of_the_table"),
    ("report/grids.py", "(overall.excess, overall.worst_excess)", "(overall.worst_excess, overall.excess)", PAGE + "test_the_excess_over_the_control_is_what_is_said_first"),
    ("report/data.py", "histogram if arm.exploring is None else ()", "histogram", EXPLORED),
    ("report/data.py", "searched=forwards[query_id][0]", "searched=forwards[query_id][1]", EXPLORED),
    ("report/data.py", "if arm.stopping is not None:\n        return f\"at most", "if False:\n        return f\"at most", CLAIMS),
    # texts
    ("report/texts.py", "in scored if n]", "in scored]", MASS),
    ("report/texts.py", "in scored if ended and mass\n", "in scored if mass\n", MASS),
    ("report/texts.py", "in scored if ended and mass\n", "in scored if ended\n", MASS),
    ("report/texts.py", "        self.mass += mass\n", "        self.mass = mass\n", MASS),
    ("report/texts.py", "(-text.mass, -text.count)", "-text.count", MASS),
    ("report/texts.py", "if last[query_id] == part.number:", "if True:", ROUNDS),
    ("report/texts.py", "start += table.num_rows  # scores stand in the order of the parts", "pass", TEXTS),
    ("report/texts.py", "*(-t.mass for t in shown)]", "]", TEXTS),
    # words and tables
    ("report/words.py", "dict.fromkeys(quantity(", "list(quantity(", WORDS),
    ("report/words.py", "tenths = math.floor(", "tenths = math.ceil(", WORDS),
    ("report/words.py", "if text.count else mass", "", WORDS),
    ("report/words.py", "sum(n for _, n in claims)", "len(claims)", CLAIMS),
    ("report/grids.py", "> max(LEVEL, _proved_of_controls(view, scorer.name, question.id))", ">= 0", PROOFS),
    ("report/grids.py", "whole = len(known) == len(bounds)", "whole = True", PAGE + "test_deviations_are_not_averaged_over_fewer_questions"),
    # charts
    ("report/charts.py", "(bound.value or 0.0) / largest", "(bound.upper or 0.0) / largest", CHARTS),
    ("report/charts.py", "top = TOP + i * CELL_HEIGHT", "top = TOP", CHARTS),
    ("report/charts.py", "cx=_x(at), cy=_y(y)", "cx=_x(at), cy=_y(at)", CHARTS),
    ("report/figures.py", "[[cells[t, p] for p in grid.top_ps] for t in grid.temperatures]", "[[cells[t, p] for p in grid.top_ps] for t in grid.temperatures[:1]]", CELLS),
    ("report/figures.py", "ticks = STANDARD_K if top <= STANDARD_K[-1] else _DECADES", "ticks = STANDARD_K", CURVES),
    ("report/figures.py", "[(place(k), value) for k, value in curve.naive.items()]", "[]", CURVES),
    ("report/grids.py", "> max(LEVEL, _proved_of_controls(view, scorer.name, question.id))", "> LEVEL", "report/test_report_decodings.py"),
    ("report/grids.py", "> max(LEVEL, _proved_of_controls(view, scorer.name, question.id))", "> _proved_of_controls(view, scorer.name, question.id)", "report/test_report_decodings.py"),
]  # fmt: skip

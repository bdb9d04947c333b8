"""Mutants of the words in which numbers reach a person."""

FIGURES = "text/test_figures.py"
LEVELS = "cli/test_confidence_words.py"
FIRST = "cli/test_excess_first.py"
TABLES = "cli/test_tables.py"
WIDTHS = TABLES + "::test_a_table_fits_and_is_whole_at_every_width"
LINT = "test_confidences.py"

MUTANTS = [
    ("stats/estimate.py", "_ERROR = Context(prec=6)", "_ERROR = Context(prec=1)", FIGURES),
    (
        "stats/estimate.py",
        "_ERROR.create_decimal(1 - Decimal(str(float(confidence))))",
        "1 - Decimal(str(float(confidence)))",
        FIGURES,
    ),
    ("text/figures.py", "if 0 < part < 0.0005:", "if 0 < part < 0.00005:", FIGURES),
    ("text/figures.py", "if 0.9995 <= part < 1:", "if 0.9999999 <= part < 1:", FIGURES),
    (
        "cli/steps.py",
        "(DKW, {stats.percent(confidence)}, {side})",
        "(DKW, {confidence:.0%}, {side})",
        LINT,
    ),
    (
        "evaluation/tables/clean.py",
        "{stats.percent(confidence)} (Holm)",
        "{stats.percent(0.99)} (Holm)",
        LEVELS,
    ),
    ("evaluation/tables/grid.py", "stats.percent(grid.confidence)", "stats.percent(0.99)", LEVELS),
    (
        "evaluation/tables/protocols.py",
        "{stats.percent(mean['confidence'])} each",
        "{stats.percent(0.99)} each",
        LEVELS,
    ),
    ("certificate/words.py", "stats.percent(claim.confidence)", "stats.percent(0.99)", LEVELS),
    # what is said first
    (
        "evaluation/tables/excess.py",
        "(about.MEAN, about.WORST)",
        "(about.WORST, about.MEAN)",
        FIRST,
    ),
    (
        "evaluation/tables/excess.py",
        "if not any(arm.name.startswith(CONTROL) for arm in sampled):",
        "if False:",
        FIRST,
    ),
    (
        "evaluation/tables/excess.py",
        "more = max(mean.lower, worst.lower) > 0",
        "more = True",
        FIRST,
    ),
    (
        "evaluation/bounds/beyond.py",
        'number, confidence=confidence, side="both"',
        '1 + 0 * number, confidence=confidence, side="both"',
        FIRST,
    ),
    (
        "evaluation/bounds/pooled.py",
        'replace(found, target=f"{about.MEAN} under this decoding")',
        "found",
        FIRST,
    ),
    ("cli/steps.py", "if table.lead:", "if False:", FIRST),
    ("report/words.py", "if any(model.control for model in view.models):", "if True:", FIRST),
    # tables
    ("cli/console.py", "if room < 0:", "if room < -9:", WIDTHS),
    (
        "cli/console.py",
        "widths = [whole[0], *words[1:]]",
        "widths = [whole[0], *(word // 2 for word in words[1:])]",
        WIDTHS,
    ),
    ("cli/console.py", 'rf"\\1{_TIE}", cell)', 'r"\\1 ", cell)', TABLES),
    (
        "cli/console.py",
        "for column, cell in zip(columns[1:], row[1:], strict=True):",
        "for column, cell in zip(columns[1:-1], row[1:-1], strict=True):",
        TABLES,
    ),
    (
        "evaluation/bounds/fixed.py",
        "< FEWEST_BLOCKS:",
        "< 1:",
        "evaluation/bounds/test_arms.py::test_few_blocks_say_nothing_of_leak_at_k",
    ),
]

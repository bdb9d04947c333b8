"""Mutants of the words in which numbers reach a person."""

FIGURES = "text/test_figures.py"
LEVELS = "cli/test_confidence_words.py"
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
]

"""Mutants of statements about a data set."""

# ruff: noqa: E501 (one mutant a line)
POOLS = "stats/test_dataset.py"
GOLDEN = "stats/test_golden_values.py"
COVERAGE = "stats/test_dataset_coverage.py"
QUESTIONS = "stats/test_questions.py"
CLEAN = "stats/test_clean.py"
JOINT = "stats/test_joint.py"
TWO_WAY = "stats/test_two_way.py"
ROUNDS = "stats/test_rounds.py"
DIFFERENCES = "stats/test_differences.py"
BEYOND = "evaluation/bounds/test_beyond.py"

MUTANTS = [
    # pools
    ("stats/dataset.py", "(hits + 1) / n", "hits / n", GOLDEN),
    ("stats/dataset.py", "np.maximum(clopper_pearson_upper(hits, n, alpha), (hits + 1) / n)", "clopper_pearson_upper(hits, n, alpha)", COVERAGE + "::test_plain_clopper_pearson_misses_where_hoeffding_holds"),
    ("stats/dataset.py", "+ rows.missing.sum()", "", POOLS),
    ("stats/dataset.py", "np.ptp(share) <= 1e-12 * share.max()", "True", COVERAGE),
    ("stats/dataset.py", "np.ptp(share) <= 1e-12 * share.max()", "False", POOLS),
    ("stats/dataset.py", "weighted_mean_upper(rows, weights, alpha", "weighted_mean_upper(rows, rows.n * 1.0, alpha", POOLS),
    ("stats/dataset.py", "below.mirrored()", "below", POOLS),
    ("stats/dataset.py", "share = weights / above.n\n", "share = weights\n", POOLS),
    ("stats/dataset.py", "[draws - gone - leaks, leaks]", "[draws - leaks, leaks]", POOLS),
    ("stats/dataset.py", "for score in (1.0, 0.0))", "for score in (0.0, 1.0))", POOLS),
    ("stats/dataset.py", "size > leakage.n.min()", "size > leakage.n.max() + 1", POOLS),
    ("stats/dataset.py", "rows.shuffled(missing=missing)", "rows.shuffled(missing=0)", POOLS),
    ("stats/dataset.py", "if binary and not", "if False and not", POOLS),
    ("stats/leak_at_k.py", "draws.shape[1] // k * k]", "(draws.shape[1] // k - 1) * k]", POOLS),
    ("stats/dataset.py", "(weights >= 0).all() and", "", POOLS),
    # betting in rounds
    ("stats/rounds.py", "residuals=scores - centres[row]", "residuals=scores", ROUNDS),
    ("stats/rounds.py", "reach=float(1 - centres.min())", "reach=float(1 - centres.max())", ROUNDS),
    ("stats/rounds.py", "STYLE.caution / (one.reach - m)", "STYLE.caution / one.reach", ROUNDS),
    ("stats/rounds.py", "math.log(1 / alpha))\n        if stands", "math.log(1 / (2 * alpha)))\n        if stands", ROUNDS),
    ("stats/rounds.py", "centres, centre, spread = seen.forecast()", "centres, centre, spread = seen.after(row, scores).forecast()", ROUNDS + "::test_a_candidate_is_rejected_just_where_the_formulas_say"),
    ("stats/rounds.py", "return shrunk * (mean - centre), centre", "return shrunk * mean, centre", ROUNDS),
    ("stats/rounds.py", "turn = place * number // n[row]", "turn = np.minimum(place, number - 1)", ROUNDS),
    ("stats/rounds.py", "weights[row] / share[row * number + turn]", "weights[row]", ROUNDS),
    ("stats/rounds.py", "missing=1)[asked]", "missing=0)[asked]", "conformance/test_statements.py"),
    ("stats/rounds.py", "if first else bound", "if first else float(block[0])", ROUNDS),
    ("stats/dataset.py", "n[weights > 0].min() >= rounds.FEWEST", "n.min() >= rounds.FEWEST", POOLS),
    # differences from a control
    ("stats/differences.py", "-_upper(other, mine, alpha)", "-_upper(mine, other, alpha)", DIFFERENCES),
    ("stats/differences.py", "other.in_order(missing=0)", "other.in_order(missing=1)", DIFFERENCES),
    ("stats/differences.py", "mine.in_order(missing=1)", "mine.in_order(missing=0)", DIFFERENCES),
    ("stats/differences.py", "mine.beside(other.mirrored())", "mine.beside(other)", DIFFERENCES),
    ("stats/differences.py", "keys.apart(CONTROL)", "keys.apart(CANDIDATE)", DIFFERENCES),
    ("stats/differences.py", "(gaps + 1) / 2, alpha", "(gaps + 1) / 2, 2 * alpha", DIFFERENCES),
    ("stats/differences.py", "np.add.reduceat(draws, starts, axis=1) / sizes", "np.add.reduceat(draws, starts, axis=1)", DIFFERENCES),
    ("stats/differences.py", "1 - beyond[::-1]", "1 - beyond", DIFFERENCES),
    ("evaluation/bounds/beyond.py", "and not keys[0] & keys[1]", "", BEYOND),
    ("evaluation/bounds/beyond.py", "None not in keys[0] | keys[1] and ", "", BEYOND),
    ("evaluation/bounds/beyond.py", "return str(seed), purpose", 'return "", purpose', BEYOND),
    ("evaluation/bounds/beyond.py", "fewest >= stats.FEWEST_PAIRS", "True", BEYOND),
    ("evaluation/bounds/beyond.py", "if apart else None\n    over", "if True else None\n    over", BEYOND),
    ("evaluation/draws/sample.py", 'scoring(arm.spec.get("drawn as", arm.name))', "scoring(arm.name)", BEYOND),
    ("evaluation/draws/sample.py", 'elsewhere or ("imported" in arm.spec and "drawn as" not in arm.spec)', "elsewhere", BEYOND),
    ("evaluation/bounds/beyond.py", "half = (1 + confidence) / 2", "half = confidence", BEYOND + "::test_few_draws_and_stopped_ones_are_bounded_by_themselves"),
    # each question's own bound
    ("stats/questions.py", "lower=alpha / questions)", "lower=alpha)", QUESTIONS),
    ("stats/questions.py", "np.log1p(-alpha) / questions)) if", "np.log1p(-alpha))) if", QUESTIONS),
    ("stats/questions.py", "else alpha / questions", "else alpha", QUESTIONS),
    ("stats/questions.py", "if independent else alpha", "if not independent else alpha", QUESTIONS),
    ("stats/questions.py", 'error_rate(confidence) / (2 if side == "both" else 1)', "error_rate(confidence)", QUESTIONS),
    ("stats/questions.py", 'above(parts["upper"].upper) + fails', 'above(parts["upper"].upper)', QUESTIONS),
    ("stats/questions.py", 'above(parts["lower"].lower) - fails', 'above(parts["lower"].lower)', QUESTIONS),
    ("stats/questions.py", "np.minimum(upper, every)", "upper", QUESTIONS),
    ("stats/questions.py", 'np.mean(parts["upper"].upper) + margin', 'np.mean(parts["upper"].upper)', QUESTIONS),
    ("stats/questions.py", 'np.mean(parts["lower"].lower) - margin', 'np.mean(parts["lower"].lower)', QUESTIONS),
    ("stats/questions.py", "(more <= alpha).argmax()", "(more <= 2 * alpha).argmax()", QUESTIONS),
    ("stats/questions.py", 'first.stopping != "fixed n"', "False", QUESTIONS),
    ("stats/questions.py", "max(1 / int(np.min(first.n)), LEAST)", "max(1 / int(np.max(first.n)), LEAST)", QUESTIONS),
    # clean questions
    ("stats/clean.py", "np.logical_and.accumulate(passed)", "passed", CLEAN),
    ("stats/clean.py", "np.arange(len(p), 0, -1)", "1", CLEAN),
    ("stats/clean.py", "np.arange(len(p), 0, -1)", "len(p)", CLEAN),
    ("stats/clean.py", "p[order] <=", "p[order] <", CLEAN),
    ("stats/clean.py", " + np.asarray(checked.missing)", "", CLEAN),
    ("stats/clean.py", "bdtr(leaks, np", "bdtr(leaks - 1.0, np", CLEAN),
    # joint claims and the control
    ("stats/joint.py", "spent > alpha * (1 + ROUNDING)", "spent > 2 * alpha", JOINT),
    ("stats/joint.py", "spent > alpha * (1 + ROUNDING)", "spent > alpha", JOINT),
    ("stats/joint.py", "len(np.atleast_1d(estimate.n))", "1", JOINT),
    ("stats/joint.py", "math.ceil((1 - share)", "math.floor((1 - share)", JOINT),
    ("stats/joint.py", "np.subtract(candidate.upper, control.lower)", "np.subtract(candidate.upper, control.value)", JOINT),
    ("stats/joint.py", "candidate.confidence + control.confidence - 1", "candidate.confidence", JOINT),
    # grids
    ("stats/two_way.py", "up @ low + down @ high, up", "up @ low + down @ low, up", TWO_WAY),
    ("stats/two_way.py", "up @ high + down @ low", "up @ high + down @ high", TWO_WAY),
    ("stats/two_way.py", "nearest**2,", "np.minimum(abs(low), abs(high)) ** 2,", TWO_WAY),
    ("stats/two_way.py", "np.maximum(-low, high) ** 2", "high**2", TWO_WAY),
    ("stats/two_way.py", "np.eye(settings) - 1 / settings", "np.eye(settings) - 1 / (settings + 1)", TWO_WAY),
    ("stats/two_way.py", "if of_rows.lower > of_columns.upper", "if of_rows.upper > of_columns.upper", TWO_WAY),
]  # fmt: skip

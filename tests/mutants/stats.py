"""Mutants of `residua.stats`."""

# ruff: noqa: E501 (one mutant a line)
GOLDEN = "stats/test_golden_values.py"
ORACLES = "stats/test_oracles.py"
PEAKED = "stats/test_coverage.py::test_peaked_draws_with_counts_are_covered"
BIMODAL = "stats/test_coverage.py::test_coverage[mean betting-bimodal]"
SD_LOWER = "stats/test_coverage.py::test_coverage[std betting-skewed]"
DATASET = "stats/test_dataset.py"
FAMILY = "conformance/test_bounds.py"

MUTANTS = [
    # alpha doubled or halved, the sides mixed up
    ("stats/estimate.py", "return 1 - confidence", "return 2 * (1 - confidence)", GOLDEN),
    ("stats/estimate.py", "return 1 - confidence", "return (1 - confidence) / 2", GOLDEN),
    ("stats/estimand.py", "        alpha /= 2\n", "        pass\n", GOLDEN),
    ("stats/estimand.py", "np.clip(upper(alpha), *span)\n        return", "upper(alpha)\n        return", FAMILY),
    ("stats/estimand.py", "leakage.scored().each(self.value)", "leakage.each(self.value)", FAMILY),
    ("stats/planning.py", "        alpha /= 2\n", "        pass\n", GOLDEN),
    ("stats/planning.py", "math.ceil(math.log(1 /", "math.floor(math.log(1 /", GOLDEN),
    ("stats/planning.py", "math.log1p(-p0)", "-p0", DATASET),
    # reading scores
    ("stats/leakage.py", "SLACK = 1e-9", "SLACK = 0.2", FAMILY),
    ("stats/leakage.py", ".clip(0, 1) + 0.0", " + 0.0", FAMILY),
    ("stats/leakage.py", "np.where(tally > 0, values, 0.0)", "values", FAMILY),
    ("stats/leakage.py", 'side="right"', 'side="left"', DATASET),
    ("stats/leakage.py", "_generator(seed, row).permutation(row)", "row", PEAKED),
    ("stats/leakage.py", "[SHUFFLE, seed, digest]", "[SHUFFLE, digest]", FAMILY),
    ("stats/leakage.py", "[SHUFFLE, seed, digest]", "[SHUFFLE, seed]", BIMODAL),
    ("stats/leakage.py", "self.counts.sum(axis=1) + self.missing)", "self.counts.sum(axis=1))", FAMILY),
    # Clopper-Pearson
    ("stats/proportion.py", "betainccinv(hits + 1,", "betainccinv(np.maximum(hits, 1),", GOLDEN),
    ("stats/proportion.py", "np.maximum(n - hits, 1), alpha)", "n - hits + 1, alpha)", GOLDEN),
    ("stats/proportion.py", "n - hits + 1, alpha), 0.0", "n - hits + 2, alpha), 0.0", GOLDEN),
    ("stats/proportion.py", "np.where(hits < n, beta", "np.where(hits <= n, beta", GOLDEN),
    ("stats/proportion.py", "clopper_pearson_upper(self.hits + self.missing", "clopper_pearson_upper(self.hits", FAMILY),
    ("stats/proportion.py", "-np.expm1(np.multiply.outer(np.log1p(-end), sizes))", "1 - np.multiply.outer(1 - end, 0 * sizes + 1) ** sizes", DATASET),
    ("stats/proportion.py", "if hits > n - k:", "if hits >= n - k:", ORACLES),
    ("stats/proportion.py", "(n - np.arange(few))", "(n - 1 - np.arange(few))", ORACLES),
    # bands
    ("stats/bands.py", "(2 * n))\n    return", "n)\n    return", GOLDEN),
    ("stats/bands.py", "np.arange(n + 1) / n - epsilon, 0)", "np.arange(n + 1) / n - epsilon, -1)", GOLDEN),
    ("stats/bands.py", "betaincinv(i, n - i + 1, eta)", "betaincinv(i, n - i + 2, eta)", GOLDEN),
    ("stats/bands.py", "np.concatenate([[0.0], _quantiles(n, eta)])", "np.concatenate([[0.0], _quantiles(n, alpha)])", ORACLES),
    ("stats/bands.py", "np.concatenate([[0.0], _quantiles(n, eta)])", "np.concatenate([[0.0], _quantiles(n, alpha / n)])", ORACLES),
    ("stats/bands.py", "eta *= 1 - shrink", "eta *= 1 + shrink", ORACLES),
    ("stats/bands.py", "[: i - first]", "[: i + 1 - first]", GOLDEN),
    ("stats/survival.py", "1 - table[_seen(rows, x)]", "1 - table[_seen(rows, x) + rows.missing.reshape(-1, *[1] * x.ndim)]", FAMILY),
    ("stats/survival.py", "rows.size - missing - _seen(rows, x)", "rows.size - _seen(rows, x)", FAMILY),
    ("stats/survival.py", "np.where(x >= 1, 0.0, 1 - table", "np.where(x > 1, 0.0, 1 - table", GOLDEN),
    # the bet
    ("stats/betting.py", "self.goal = math.log(1 / alpha)", "self.goal = math.log(1 / (2 * alpha))", GOLDEN),
    ("stats/betting.py", "won = ~self.need.any(axis=0) | (ended & (self.need <= 1e-12).all(axis=0))", "won = ~self.need.any(axis=0) & ~ended", ORACLES),
    ("stats/betting.py", "self.need[:, columns] <= 1e-12", "self.need[:, columns] < 0", ORACLES),
    ("stats/betting.py", "np.maximum(self.need, 0, out=self.need)", "np.abs(self.need, out=self.need)", ORACLES),
    ("stats/betting.py", "np.minimum(bet, self.largest_bet, out=bet)", "bet *= 1", ORACLES),
    ("stats/betting.py", "np.minimum(spread, self.variance, out=spread)", "spread *= 1", ORACLES),
    ("stats/betting.py", "bet *= 2 / (n - self.t)", "bet *= 2 / n", ORACLES),
    ("stats/betting.py", "self.need[:, won] = self.goal", "pass", ORACLES),
    ("stats/betting.py", "self.t[won] = 0", "pass", ORACLES),
    ("stats/betting.py", "/ (scored + 1)", "/ (scored + 2)", GOLDEN),
    ("stats/betting.py", "np.cumsum(known, axis=1) - known", "np.cumsum(known, axis=1)", GOLDEN),
    ("stats/betting.py", "np.where(missing, ceilings,", "np.where(missing, 0.0,", FAMILY),
    ("stats/betting.py", "np.arange(grid - 1, 0, -1) / grid", "np.arange(grid - 1, 0, -1) / grid - 0.5 / grid", ORACLES),
    # the mean
    ("stats/mean.py", "rows.shuffled(seed, missing=1)", "rows.shuffled(seed, missing=0)", FAMILY),
    ("stats/mean.py", "1 - upper(rows.mirrored(), alpha, seed)", "1 - upper(rows, alpha, seed)", FAMILY),
    ("stats/portfolio.py", "wealth >= math.log(1 / alpha)", "wealth >= math.log(0.5 / alpha)", GOLDEN),
    ("stats/portfolio.py", "np.pad(1 - rows.values, ((0, 0), (0, 1)))", "np.pad(1 - rows.values, ((0, 0), (0, 1)), constant_values=1)", FAMILY),
    ("stats/portfolio.py", "0.9 * math.sqrt(2 *", "0.9 * math.sqrt(1 *", ORACLES),
    # leak@k
    ("stats/leak_at_k.py", "(i - k) / (i - 1)", "(i - k) / i", ORACLES),
    ("stats/leak_at_k.py", "np.ones(k - 1)", "np.ones(k)[1:] * 0", ORACLES),
    ("stats/leak_at_k.py", "i = np.arange(n, k, -1)", "i = np.arange(n, k, -1) - 1", ORACLES),
    ("stats/leak_at_k.py", "[::-1])\n        seen", ")\n        seen", GOLDEN),
    ("stats/leak_at_k.py", "seen = rows.seen + rows.missing[:, None]\n        return", "seen = rows.seen\n        return", FAMILY),
    ("stats/leak_at_k.py", "integral(rows, rows.seen + rows.missing[:, None], _tails", "integral(rows, rows.seen, _tails", DATASET),
    ("stats/leak_at_k.py", "if sizes.max() > leakage.n.min():", "if sizes.max() > leakage.n.min() + 1:", DATASET),
    # the standard deviation
    ("stats/deviation.py", "low_table = dkw(rows.size, alpha / 2)", "low_table = dkw(rows.size, alpha)", GOLDEN),
    ("stats/deviation.py", "    table = dkw(rows.size, alpha / 2)\n    high", "    table = dkw(rows.size, alpha)\n    high", GOLDEN),
    ("stats/deviation.py", "table = dkw(rows.size, alpha / 2)\n    seen", "table = dkw(rows.size, alpha)\n    seen", GOLDEN),
    ("stats/deviation.py", "squares).sum(axis=1) / rows.counts.sum(axis=1)", "squares).sum(axis=1) / (rows.counts.sum(axis=1) - 1 + 1e-300)", GOLDEN),
    ("stats/deviation.py", "2 * mean - x_u - x_l > 0", "2 * mean - x_u - x_l < 0", GOLDEN),
    ("stats/deviation.py", "high = 1 - table[rows.size - rows.seen - rows.missing[:, None]]", "high = 1 - table[rows.size - rows.seen]", FAMILY),
    ("stats/deviation.py", "eta[:, -1] + (falls", "eta[:, -2] + (falls", GOLDEN),
    ("stats/deviation.py", "falls > 0, high", "falls < 0, high", GOLDEN),
    ("stats/deviation.py", "1 - squares, alpha)) / 2)", "1 - squares, alpha)))", SD_LOWER),
    ("stats/deviation.py", "slope.sum(axis=1) < 0", "slope.sum(axis=1) > 0", ORACLES),
    # mean + rho sd, data sets, the control
    ("stats/expectation_deviation.py", "mean.upper(rows, alpha / 2, seed)", "mean.upper(rows, alpha, seed)", DATASET),
    ("stats/expectation_deviation.py", "rho * std.upper(rows, alpha / 2, seed)", "rho * std.upper(rows, alpha, seed)", DATASET),
    ("stats/expectation_deviation.py", "np.clip(mean - drop, 0, 1)", "np.clip(mean + drop, 0, 1)", ORACLES),
    ("stats/expectation_deviation.py", "ones * (1 - ones)", "ones * 0", ORACLES),
    ("stats/dataset.py", "alpha / questions)", "alpha)", DATASET),
    ("stats/dataset.py", "(2 if side == \"both\" else 1)", "1", DATASET),
    ("stats/dataset.py", "(hits + 1) / n", "hits / n", GOLDEN),
    ("stats/dataset.py", "(hits - 1) / n", "hits / n", GOLDEN),
    ("stats/dataset.py", "np.subtract(candidate.upper, control.lower)", "np.subtract(candidate.upper, control.value)", DATASET),
    ("stats/dataset.py", "candidate.confidence + control.confidence - 1", "candidate.confidence", DATASET),
    ("stats/dataset.py", "    _refuse_unequal(leakage.n)\n", "", DATASET),
]  # fmt: skip

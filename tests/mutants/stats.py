"""Mutants of `residua.stats`."""

# ruff: noqa: E501 (one mutant a line)
GOLDEN = "stats/test_golden_values.py"
ORACLES = "stats/test_oracles.py"
PEAKED = "stats/test_coverage.py::test_peaked_draws_with_counts_are_covered"
BIMODAL = "stats/test_coverage.py::test_coverage[mean betting-bimodal]"
SD_LOWER = "stats/test_coverage.py::test_coverage[std betting-skewed]"
DATASET = "stats/test_dataset.py"
FAMILY = "conformance/test_bounds.py"
PORTFOLIO = "stats/test_portfolio.py"
ANYTIME = "stats/test_anytime.py::test_the_evidence_is_the_average_likelihood_ratio"
STOPS = "conformance/test_bounds.py::test_a_bound_says_when_sampling_may_stop"
MISSING = "conformance/test_bounds.py::test_missing_draws_count_against_the_claim"
ORDER = "stats/test_order.py"
ORDERING = "evaluation/test_ordering.py"
SPREAD = "stats/test_proportion_spread.py"
MIXTURE = "stats/test_golden_values.py::test_portfolio_mixture"
STOPPING = "stats/test_stopping.py"
BLOCKS = "stats/test_leak_at_k.py"

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
    ("stats/leakage.py", "values.clip(0, 1)", "values", FAMILY),
    ("stats/leakage.py", "np.where(tally > 0, values, 0.0)", "values", FAMILY),
    ("stats/leakage.py", 'side="right"', 'side="left"', DATASET),
    # the order of draws
    ("stats/order.py", "np.random.default_rng([SHUFFLE, *key]).permutation(row)", "row", PEAKED),
    ("stats/order.py", "[SHUFFLE, *key]", "[SHUFFLE, key[1]]", FAMILY),
    ("stats/order.py", "[SHUFFLE, *key]", "[SHUFFLE, key[0]]", ORDER + "::test_mean_leak_at_k_over_questions_with_equal_tallies_holds_by_default"),
    ("stats/order.py", "[SHUFFLE, *key]", "[SHUFFLE, int(row.sum() * 1000)]", ORDER + "::test_scores_of_two_values_are_covered_by_default"),
    ("stats/order.py", "entropy() if seed is None else seed", "0 if seed is None else seed", FAMILY),
    ("stats/order.py", "if len(np.unique(given)) < rows:", "if False:", FAMILY),
    ("stats/order.py", "Keys(self.rows[rows], self.seed)", "Keys(self.rows[: rows.sum()], self.seed)", ORDER),
    ("stats/order.py", "sort_keys=True", "sort_keys=False", ORDER),
    ("stats/whole.py", 'exact.dtype.kind == "i"', "False", ORDER),
    ("evaluation/ordering.py", '"question": query_id', '"question": 0', "evaluation/test_shipped.py"),
    ("evaluation/ordering.py", '"scorer": self.scorer', '"scorer": ""', ORDERING),
    ("evaluation/ordering.py", '            "draw seed": arm.spec["seed"],\n', "", ORDERING),
    ("evaluation/ordering.py", '            "model": arm.spec["fingerprint"],\n', "", ORDERING),
    ("evaluation/ordering.py", '            "decoding": arm.decoding.to_dict(),\n', "", ORDERING),
    ("evaluation/ordering.py", '"benchmark": arm.run.record["benchmark"]["sha256"]', '"benchmark": 0', ORDERING),
    ("evaluation/ordering.py", 'if "order" in arm.spec:', "if False:", "cli/test_exporting.py::test_redacted_samples_are_bounded_as_the_run_they_came_from"),
    ("stats/whole.py", 'found.dtype.kind == "f" and', "False and", ORDER),
    ("stats/clusters.py", "    bands.require_solvable(alpha)\n", "", "stats/test_pool.py"),
    ("stats/questions.py", "points == 0, float(seen), none", "points == 0, none, none", "stats/test_questions.py"),
    ("stats/questions.py", "betaincinv(b + 1, questions - b, alpha)", "betaincinv(b + 1, questions - b, 2 * alpha)", "stats/test_questions.py"),
    ("stats/questions.py", "np.log(each) / CLEAN_DRAWS", "0 * each", "stats/test_questions.py"),
    # deviations of coins
    ("stats/proportion_spread.py", "1 - 2 * alpha if", "1 - 4 * alpha if", SPREAD),
    ("stats/proportion_spread.py", "1 - 2 * alpha if", "1 - alpha if", SPREAD),
    ("stats/proportion_spread.py", "np.where(inside, largest, ", "np.where(False, largest, ", SPREAD),
    ("stats/proportion_spread.py", "lower = np.minimum(f(low), f(high))", "lower = f(low)", SPREAD),
    ("stats/proportion_spread.py", "np.maximum(f(low), f(high))", "f(high)", SPREAD),
    ("stats/proportion_spread.py", "(1 + 1 / math.hypot(1, rho)) / 2", "0.5", SPREAD),
    ("stats/proportion_spread.py", "missing=missing)\n    low", "missing=0)\n    low", SPREAD),
    ("stats/leakage.py", "self.counts.sum(axis=1) + self.missing)", "self.counts.sum(axis=1))", FAMILY),
    # Clopper-Pearson
    ("stats/proportion.py", "betainccinv(hits + 1,", "betainccinv(np.maximum(hits, 1),", GOLDEN),
    ("stats/proportion.py", "np.maximum(n - hits, 1), alpha)", "n - hits + 1, alpha)", GOLDEN),
    ("stats/proportion.py", "n - hits + 1, alpha), 0.0", "n - hits + 2, alpha), 0.0", GOLDEN),
    ("stats/proportion.py", "np.where(hits < n, beta", "np.where(hits <= n, beta", GOLDEN),
    ("stats/proportion.py", "method.upper(self.hits + self.missing", "method.upper(self.hits", MISSING),
    ("stats/proportion.py", "-np.expm1(np.multiply.outer(np.log1p(np.negative(p)), k))", "1 - np.multiply.outer(np.subtract(1, p), 0 * k + 1) ** k", DATASET),
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
    ("stats/mean.py", "rows.shuffled(missing=1)", "rows.shuffled(missing=0)", FAMILY),
    ("stats/mean.py", "1 - upper(rows.mirrored(), alpha)", "1 - upper(rows, alpha)", FAMILY),
    ("stats/mean.py", "portfolio.anytime_bets())", "portfolio.bets(rows.size, alpha))", PORTFOLIO),
    # the portfolio
    ("stats/portfolio.py", "wealth(middle) >= math.log(1 / alpha)", "wealth(middle) >= math.log(0.5 / alpha)", MIXTURE),
    ("stats/portfolio.py", "0.9 * math.sqrt(2 *", "0.9 * math.sqrt(1 *", ORACLES),
    ("stats/portfolio.py", "constant_values=1)", "constant_values=0)", MISSING),
    ("stats/portfolio.py", "np.where(counts > 0, values, 0.0)", "values", MIXTURE),
    ("stats/portfolio.py", "np.log(1 + b * gain)", "np.log(np.maximum(1 + b * gain, 5e-324))", PORTFOLIO),
    ("stats/portfolio.py", "(share / share.max())[:, None]", "np.ones((len(share), 1))", PORTFOLIO),
    ("stats/portfolio.py", "share.max()", "share.sum()", PORTFOLIO),
    ("stats/portfolio.py", "len(rows.n)) / rows.n", "len(rows.n))", PORTFOLIO),
    ("stats/portfolio.py", "2.0 ** (-j / 2)", "2.0 ** (-j)", PORTFOLIO),
    ("stats/portfolio.py", "1 - weights.sum()", "1.0", PORTFOLIO),
    ("stats/portfolio.py", "np.array(m), anytime_bets()), 0.0", "np.array(m), bets(60, 0.01)), 0.0", PORTFOLIO),
    ("stats/portfolio.py", "(given >= 0)", "(given >= -2)", PORTFOLIO),
    ("stats/portfolio.py", "if not given.any():", "if False:", PORTFOLIO),
    # any-time bounds of a probability
    ("stats/anytime.py", "np.arcsin(np.sqrt(p))", "np.pi / 2", ANYTIME),
    ("stats/anytime.py", "np.arccos(np.sqrt(p))", "np.pi / 2", ANYTIME),
    ("stats/anytime.py", "betaincc(hits", "betainc(hits", ANYTIME),
    ("stats/anytime.py", "betaln(hits + 0.5, n - hits + 0.5)", "betaln(hits + 1, n - hits + 1)", ANYTIME),
    ("stats/anytime.py", "np.log(2 * angle)", "np.log(angle)", ANYTIME),
    ("stats/estimand.py", "stopping=chosen.stopping", "stopping=FIXED_N", STOPS),
    ("stats/proportion.py", "stopping=method.stopping", "stopping=FIXED_N", STOPS),
    # stopping
    ("stats/stopping.py", "fixed.upper(hits, n, alpha / 2)", "fixed.upper(hits, n, alpha)", STOPPING),
    ("stats/stopping.py", "fixed.lower(hits, n, alpha / 2)", "fixed.lower(hits, n, alpha)", STOPPING),
    ("stats/stopping.py", "early.upper(hits, n, alpha / 2)", "early.upper(hits, n, alpha)", STOPPING),
    ("stats/stopping.py", "early.lower(hits, n, alpha / 2)", "early.lower(hits, n, alpha)", STOPPING),
    ("stats/stopping.py", "early.upper(rows, alpha / 2)", "early.upper(rows, alpha)", STOPPING),
    ("stats/stopping.py", "fixed.upper(rows, alpha / 2)", "fixed.upper(rows, alpha)", STOPPING),
    ("stats/stopping.py", "n == cap, fixed.upper", "n <= cap, fixed.upper", STOPPING),
    ("stats/stopping.py", "n == cap, fixed.lower", "n <= cap, fixed.lower", STOPPING),
    ("stats/stopping.py", "if rows.size < cap:", "if rows.size < 0:", STOPPING),
    ("stats/stopping.py", "lower > limit", "lower < limit", STOPPING),
    ("stats/stopping.py", "upper <= limit", "upper <= 2 * limit", STOPPING),
    ("stats/stopping.py", "math.log(2 / error_rate", "math.log(1 / error_rate", STOPPING),
    ("stats/stopping.py", "_hits(leakage) + leakage.missing", "_hits(leakage)", STOPPING),
    ("stats/stopping.py", "np.where(self._would_hold(leakage, leakage.n), furthest, enough)", "enough", STOPPING),
    ("stats/stopping.py", "np.minimum(2 * leakage.n, self.cap)", "2 * leakage.n", STOPPING),
    ("stats/stopping.py", "FIRST_LOOK = 8", "FIRST_LOOK = 9", STOPPING),
    ("stats/stopping.py", "[n - leakage.n, leakage.counts]", "[n, leakage.counts]", STOPPING),
    ("stats/stopping.py", "if (n > cap).any():", "if (n > cap + 1).any():", STOPPING),
    ("stats/stopping.py", "0 < self.limit < 1", "0 <= self.limit <= 1", STOPPING),
    ("stats/stopping.py", "not np.isin(seen, (0, 1)).all()", "False", STOPPING),
    ("stats/stopping.py", "        error_rate(self.confidence)\n", "", STOPPING),
    # leak@k
    ("stats/leak_at_k.py", "(i - k) / (i - 1)", "(i - k) / i", ORACLES),
    ("stats/leak_at_k.py", "np.ones(k - 1)", "np.ones(k)[1:] * 0", ORACLES),
    ("stats/leak_at_k.py", "i = np.arange(n, k, -1)", "i = np.arange(n, k, -1) - 1", ORACLES),
    ("stats/leak_at_k.py", "[::-1])\n        seen", ")\n        seen", GOLDEN),
    ("stats/leak_at_k.py", "seen = rows.seen + rows.missing[:, None]\n        return", "seen = rows.seen\n        return", FAMILY),
    ("stats/leak_at_k.py", "integral(rows, rows.seen + rows.missing[:, None], _tails", "integral(rows, rows.seen, _tails", DATASET),
    ("stats/leak_at_k.py", "draws[:, : draws.shape[1] // k * k]", "np.sort(draws)[:, : draws.shape[1] // k * k]", BLOCKS),
    ("stats/leak_at_k.py", ".max(axis=2))", ".mean(axis=2))", BLOCKS),
    ("stats/leak_at_k.py", "block_maxima(rows.shuffled(missing=1), k)", "block_maxima(rows.shuffled(missing=0), k)", BLOCKS + "::test_failed_draws_count_as_leaks_above_and_as_clean_below"),
    ("stats/leak_at_k.py", "1 - rows.mirrored().shuffled(missing=1)", "rows.shuffled(missing=1)", BLOCKS + "::test_failed_draws_count_as_leaks_above_and_as_clean_below"),
    ("stats/leak_at_k.py", "ABOVE, BELOW = 4, 16", "ABOVE, BELOW = 4, 4", BLOCKS),
    ("stats/leak_at_k.py", "_ByN(BELOW * k**2", "_ByN(BELOW * k", BLOCKS),
    ("stats/leak_at_k.py", "return self.many if n >= self.least", "return self.many if n > self.least", BLOCKS),
    ("stats/leak_at_k.py", "(n.min(), n.max())", "(n.min(), n.min())", BLOCKS),
    ("stats/leak_at_k.py", "shuffles=blocks.name in name", "shuffles=True", BLOCKS),
    ("stats/leak_at_k.py", "if k.ndim:", "if False:", BLOCKS),
    ("stats/leak_at_k.py", "if n.min() < k:", "if n.max() < 0:", BLOCKS),
    ("stats/estimand.py", "return np.minimum(low, high), high", "return low, high", BLOCKS),
    ("stats/pool.py", "confidence=confidence, side=side, seed=seed,\n        )  # fmt: skip\n    elif pool.law == \"unlike\":\n        raise pool.unavailable(\"leak@k", "confidence=confidence, side=side,\n        )  # fmt: skip\n    elif pool.law == \"unlike\":\n        raise pool.unavailable(\"leak@k", "stats/test_pool.py"),
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
    # mean + rho sd
    ("stats/expectation_deviation.py", "mean.upper(rows, alpha / 2)", "mean.upper(rows, alpha)", DATASET),
    ("stats/expectation_deviation.py", "rho * std.upper(rows, alpha / 2)", "rho * std.upper(rows, alpha)", DATASET),
    ("stats/expectation_deviation.py", "np.clip(mean - drop, 0, 1)", "np.clip(mean + drop, 0, 1)", ORACLES),
    ("stats/expectation_deviation.py", "ones * (1 - ones)", "ones * 0", ORACLES),
    ("stats/bands.py", "if alpha < LEAST_ALPHA:", "if alpha < 1e-14:", "stats/test_bands.py"),
]  # fmt: skip

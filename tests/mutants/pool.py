"""Mutants of pools of queries and of clusters."""

# ruff: noqa: E501 (one mutant a line)
POOL = "stats/test_pool.py"
COVERAGE = "stats/test_pool_coverage.py"
BAND = POOL + "::test_bands_of_clusters_against_golden_values"
CRITICAL = POOL + "::test_critical_values_against_golden_values"
FAMILY = "conformance/test_pools.py"

MUTANTS = [
    # which statement a design allows
    ("stats/pool.py", '("queries", "fixed"): "unlike"', '("queries", "fixed"): "iid"', POOL),
    ("stats/pool.py", '("queries", "fresh"): "unlike"', '("queries", "fresh"): "iid"', POOL),
    ("stats/pool.py", '("inputs", "fixed"): "clusters"', '("inputs", "fixed"): "iid"', COVERAGE + "::test_the_input_distribution_is_covered_and_the_iid_pool_is_not"),
    ("stats/pool.py", '("inputs", "allocated"): "clusters"', '("inputs", "allocated"): "iid"', POOL),
    ("stats/pool.py", '("queries", "allocated"): "iid"', '("queries", "allocated"): "unlike"', POOL),
    ("stats/pool.py", 'if pool.law != "iid":\n        raise pool.unavailable("standard', 'if False:\n        raise pool.unavailable("standard', POOL),
    ("stats/pool.py", 'if pool.law != "iid":\n        raise pool.unavailable(f"mean', 'if False:\n        raise pool.unavailable(f"mean', POOL),
    ("stats/pool.py", 'if self.target == "queries":', "if True:", FAMILY),
    # reading
    ("stats/pool.py", "missed = filled.missing - 1", "missed = filled.missing", POOL),
    ("stats/pool.py", 'if design != "allocated" and', "if False and", POOL),
    ("stats/pool.py", 'if design == "fresh" and', "if False and", POOL),
    ("stats/pool.py", "np.add.at(counts, place, self.rows.counts[drawn])", "counts[place] = self.rows.counts[drawn]", POOL),
    ("stats/pool.py", "if not np.isin(self.scores, (0, 1)).all():", "if False:", POOL),
    ("stats/pool.py", "len(outputs), design, target)", "len(rows.n), design, target)", POOL),
    # clusters
    ("stats/clusters.py", "for score in (0, 1)\n", "for score in (1, 0)\n", POOL),
    ("stats/clusters.py", "for score in (0, 1)\n", "for score in (0, 0)\n", POOL),
    ("stats/clusters.py", "+ missing * rows.missing", "", POOL),
    ("stats/clusters.py", "(1 + math.log(1 / min(alpha, 0.5)))", "math.log(1 / min(alpha, 0.5))", BAND),
    ("stats/clusters.py", "/ (2 * n))", "/ (2 * n * 4))", BAND),
    ("stats/clusters.py", "return s + 1", "return s", CRITICAL),
    ("stats/clusters.py", "_within(steps, n, s - STEP)", "_within(steps, n, s)", CRITICAL),
    ("stats/clusters.py", "if area > alpha:", "if area > 2 * alpha:", CRITICAL),
    ("stats/clusters.py", "rel_entr(1 - share, 1 - p)", "0", BAND),
    ("stats/clusters.py", "least = (seen / n).mean(axis=0)", "least = seen.sum(axis=0) / n.sum()", BAND),
    ("stats/clusters.py", "(n - rows.missing[:, None] - seen)", "(n - seen)", POOL + "::test_bands_of_clusters_count_missing_draws_against_the_claim"),
    ("stats/clusters.py", "np.where(points >= 1, 0.0, 1 - cdf)", "1 - cdf", POOL),
    ("stats/clusters.py", "parts[rows.scored().n > 0]", "parts", POOL),
    # each query
    ("stats/queries.py", "queries = np.size(outputs)", "queries = np.count_nonzero(outputs)", POOL),
    ("stats/queries.py", "upper=spread(made.upper, 1.0)", "upper=spread(made.upper, 0.0)", POOL),
    ("stats/queries.py", "if not np.array_equal(rows, got[drawn]):", "if len(rows) != drawn.sum():", POOL),
]  # fmt: skip

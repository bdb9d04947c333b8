"""Mutants of `leakbound.stats`: exact masses and the independence check."""

MASS = "stats/test_mass.py"
HYBRID = "stats/test_mass_hybrid.py"
INDEPENDENCE = "stats/test_independence.py"

MUTANTS = [
    # exact mass
    (
        "stats/mass.py",
        "return max(0.0, -math.fsum([*self.p, self.remainder, -1.0]))",
        "return float(1 - self.p.sum() - self.remainder)",
        MASS,
    ),
    (
        "stats/mass.py",
        "-math.fsum([*self.p, self.remainder, -1.0])",
        "-math.fsum([*self.p, -1.0])",
        MASS,
    ),
    ("stats/mass.py", "ROUNDING = 1e-9", "ROUNDING = 0.2", MASS),
    ("stats/mass.py", "ROUNDING = 1e-9", "ROUNDING = 1e-12", MASS),
    ("stats/mass.py", "(self.low >= 0) & (self.low <= self.high)", "(self.low >= 0)", MASS),
    ("stats/mass.py", "                + mass.slack * self.largest\n", "", MASS),
    ("stats/mass.py", "mass.slack * self.largest", "mass.slack", MASS),
    ("stats/mass.py", "np.minimum(part.upper, self.largest)", "part.upper", HYBRID),
    (
        "stats/mass.py",
        "self.low + mass.remainder * part.lower",
        "self.low + (mass.remainder + mass.slack) * part.lower",
        HYBRID,
    ),
    (
        "stats/mass.py",
        "sampled = 0.0 if inside is None else mass.remainder",
        "sampled = mass.remainder",
        MASS,
    ),
    (
        "stats/mass.py",
        "        value = np.minimum(middle / known, 1.0)",
        "        value = middle / known",
        MASS,
    ),
    ("stats/mass.py", "        check_side(side)\n", "", MASS),
    ("stats/mass.py", 'side="right"', 'side="left"', MASS),
    (
        "stats/mass.py",
        "low=_mass_above(mass.p, mass.low, x)",
        "low=_mass_above(mass.p, mass.high, x)",
        MASS,
    ),
    (
        "stats/mass.py",
        "high=_mass_above(mass.p, mass.high, x)",
        "high=_mass_above(mass.p, mass.low, x)",
        MASS,
    ),
    ("stats/mass.py", "low=mass.p @ mass.low, high", "low=mass.p @ mass.high, high", MASS),
    ("stats/mass.py", "high=mass.p @ mass.high)", "high=mass.p @ mass.low)", MASS),
    ("stats/mass.py", "confidence=1.0, side=side", "confidence=0.99, side=side", MASS),
    ("stats/mass.py", "if hits or n or missing:", "if hits:", HYBRID),
    (
        "stats/mass.py",
        "hits, n, confidence=confidence, side=side, missing=missing)",
        "hits, n, confidence=confidence, side=side)",
        HYBRID,
    ),
    ("stats/mass.py", "    if not draws.single:", "    if False:", MASS),
    # leak@k, proofs, the standard deviation
    (
        "stats/mass_leak_at_k.py",
        "np.concatenate([[0.0, 1.0], mass.low, mass.high, seen])",
        "np.concatenate([[0.0, 1.0], mass.low, mass.high])",
        HYBRID,
    ),
    (
        "stats/mass_leak_at_k.py",
        "np.concatenate([[0.0, 1.0], mass.low, mass.high, seen])",
        "np.concatenate([[0.0, 1.0], mass.low, seen])",
        MASS,
    ),
    (
        "stats/mass_leak_at_k.py",
        "np.log1p(-np.asarray(chance))",
        "np.log(1 - np.asarray(chance))",
        MASS,
    ),
    ("stats/mass_leak_at_k.py", "mass, knots[:-1], scores", "mass, knots[1:], scores", MASS),
    ("stats/mass_leak_at_k.py", "if not np.isin(ranges, (0, 1)).all():", "if False:", MASS),
    (
        "stats/mass_leak_at_k.py",
        "mass_proportion_bound(mass, x=x, side",
        "mass_proportion_bound(mass, side",
        MASS,
    ),
    ("stats/mass_leak_at_k.py", "value=plain(bound.lower * np.nan), ", "", MASS),
    ("stats/mass_std.py", "mass.slack + mass.remainder", "mass.slack", HYBRID),
    ("stats/mass_std.py", "np.clip(c, low, high)", "np.clip(c, low, low)", MASS),
    ("stats/mass_std.py", "np.where(2 * c < low + high, high, low)", "high", MASS),
    # copies
    ("stats/independence.py", "np.maximum(counts - 1, 1)", "np.maximum(counts, 1)", INDEPENDENCE),
    (
        "stats/independence.py",
        "np.where(counts > 1, betainc(",
        "np.where(counts > 0, betainc(",
        INDEPENDENCE,
    ),
    (
        "stats/independence.py",
        "float(tail[worst] * n / counts[worst])",
        "float(tail[worst])",
        INDEPENDENCE,
    ),
    ("stats/independence.py", "math.log(len(copies)) - ratios[m]", "-ratios[m]", INDEPENDENCE),
    ("stats/independence.py", "if not (counts % m).any()", "if m", INDEPENDENCE),
    (
        "stats/independence.py",
        "_log_chance(counts // m, logp) - known",
        "_log_chance(counts, logp) - known",
        INDEPENDENCE,
    ),
    ("stats/independence.py", " * math.comb(len(chunks), 2)", "", INDEPENDENCE),
    ("stats/independence.py", "rows[times > 1]", "rows[times > 0]", INDEPENDENCE),
    ("stats/independence.py", "least.p < level", "least.p < 1e-9", INDEPENDENCE),
    ("stats/independence.py", "ROUNDING = 1e-3", "ROUNDING = 1.0", INDEPENDENCE),
    ("stats/independence.py", "ROUNDING = 1e-3", "ROUNDING = 0.0", INDEPENDENCE),
    ("stats/independence.py", "np.isfinite(logp)", "np.isnan(logp)", INDEPENDENCE),
    ("stats/independence.py", "- gammaln(counts + 1).sum()", "", INDEPENDENCE),
    ("stats/mass_std.py", " - 2 * (slope + rounding) - too_much", "", "stats/test_mass_std.py"),
    ("stats/mass_std.py", " - too_much", "", "stats/test_mass_std.py"),
    (
        "stats/mass_std.py",
        "np.clip(_point_std(mass), lower, upper)",
        "_point_std(mass)",
        "stats/test_mass_std.py",
    ),
]

"""Mutants of `leakbound.certificate`, `leakbound.evaluation.bounds.tail` and their commands."""

# ruff: noqa: E501 (one mutant a line)
TAIL = "evaluation/bounds/test_tail.py"
DERIVED = "certificate/test_derivation.py"
VERIFIED = "certificate/test_verification.py"
COMMANDS = "cli/test_certify.py"

MUTANTS = [
    # the tail of an arm
    (
        "evaluation/bounds/tail.py",
        "drawn(arm, scorer, above=x)",
        "drawn(arm, scorer, above=0.0)",
        TAIL,
    ),
    (
        "evaluation/bounds/tail.py",
        "self.drawn.mean(confidence",
        "self.drawn.leakage(confidence",
        TAIL,
    ),
    ("evaluation/bounds/tail.py", "    require_scores(arm, scorer)\n", "", TAIL),
    ("evaluation/bounds/tail.py", "    require_independent_draws(arm)\n", "", TAIL),
    ("evaluation/bounds/tail.py", "        arm.masses.table(part)\n", "        pass\n", TAIL),
    (
        "evaluation/bounds/tail.py",
        "for query_id, reason in arm.failures.items():",
        "for query_id, reason in {}.items():",
        TAIL,
    ),
    ("evaluation/bounds/tail.py", "    if arm.unlooked():", "    if False:", TAIL),
    ("evaluation/bounds/tail.py", "if tail.questions < len(run.questions):", "if False:", TAIL),
    ("evaluation/bounds/tail.py", "    if absent:\n", "    if False:\n", TAIL),
    ("evaluation/bounds/tail.py", "if arms[name].decoding.greedy:", "if False:", TAIL),
    # alpha and the verdict
    ("certificate/decision.py", 'confidence=claim.confidence, side="both"\n        )', 'confidence=2 * claim.confidence - 1, side="both"\n        )', DERIVED),
    ("certificate/decision.py", 'tail.mean(confidence=claim.confidence, side="both")', 'tail.mean(confidence=2 * claim.confidence - 1, side="both")', DERIVED),
    ("certificate/decision.py", "if estimate.upper <= claim.max_leak:", "if estimate.value <= claim.max_leak:", DERIVED),
    ("certificate/decision.py", "if estimate.lower > claim.max_leak", "if estimate.value > claim.max_leak", DERIVED),
    ("certificate/decision.py", "bounds, each = questions, half / questions", "bounds, each = questions, half", DERIVED),
    ("certificate/decision.py", "if claim.every_question:\n        return", "if False:\n        return", DERIVED),
    # the claim
    ("certificate/claim.py", "if not 0 < self.max_leak < 1:", "if not 0 <= self.max_leak < 1:", DERIVED),
    ("certificate/claim.py", "if not 0 <= self.threshold < 1:", "if not 0 <= self.threshold <= 1:", DERIVED),
    ("certificate/claim.py", "        if asked:\n", "        if False:\n", DERIVED),
    ("certificate/claim.py", "    if asked is None:\n", "    if False:\n", DERIVED),
    ("certificate/claim.py", "        make_scorer(self.scorer)  # refuses one that is not known\n", "", VERIFIED),
    ("certificate/derivation.py", "tail_of(run, claim.arm, scorer, claim.threshold)", "tail_of(run, claim.arm, scorer, 0.0)", DERIVED),
    ("certificate/derivation.py", "    if len(names) != 1:", "    if not names:", DERIVED),
    # words and forecasts
    ("certificate/words.py", "_rounded(value, limit, ROUND_CEILING)", "_rounded(value, limit, ROUND_FLOOR)", DERIVED),
    ("certificate/words.py", "if (short <= limit) == (value <= limit):", "if True:", DERIVED),
    ("certificate/forecast.py", "few, many = many, min(2 * many, MOST_DRAWS)", "few, many = many, min(4 * many, 4 * MOST_DRAWS)", DERIVED),
    ("certificate/forecast.py", "few, many = (few, middle) if decides(middle) else (middle, many)", "break", DERIVED),
    ("certificate/forecast.py", "if missing.any() and complete is not None:", "if missing.any() and complete is None:", DERIVED),
    # evidence
    ("store/arm.py", "[*self.run.question_files, *parts,", "[*parts,", VERIFIED),
    ("store/arm.py", "scores = (self.scores_file(slug), self.masses", "scores = (self.masses", VERIFIED),
    ("certificate/evidence.py", 'if k != "machine"}', 'if k not in ("machine", "seed")}', VERIFIED),
    ("certificate/evidence.py", 'f"{file.relative_to(root).as_posix()} {sha256(file)}\\n"', 'f"{sha256(file)}\\n"', VERIFIED),
    ("certificate/evidence.py", 'root.rglob("*.py")', 'root.glob("*.py")', VERIFIED),
    # verification
    ("store/sealed.py", "for name, value in values.items() if name != DIGEST}\n    text", 'for name, value in values.items() if name not in (DIGEST, "questions")}\n    text', VERIFIED),
    ("certificate/checks.py", "abs_tol=SLACK", "abs_tol=1e-6", VERIFIED),
    ("certificate/checks.py", "SLACK = 1e-12", "SLACK = 0.0", VERIFIED),
    ("certificate/checks.py", "for key in {**certificate, **found}:", "for key in found:", VERIFIED),
    ("certificate/checks.py", "zip_longest(certificate, found, fillvalue=ABSENT)", "zip(certificate, found, strict=False)", VERIFIED),
    ("certificate/verification.py", "        if before != now\n", "        if before[:2] != now[:2]\n", VERIFIED),
    ("certificate/verification.py", '("estimate", "questions", "allocation")', '("estimate", "allocation")', VERIFIED),
    ("certificate/verification.py", '("format", "claim", "verdict", "sentence", "asked", "forecast")', '("format", "claim", "verdict", "asked", "forecast")', VERIFIED),
    ("certificate/verification.py", "    if unknown:\n", "    if False:\n", VERIFIED),
    ("certificate/verification.py", 'check.status in ("ok", "note")', 'check.status == "ok"', VERIFIED),
    ("certificate/verification.py", "    except DamagedError as error:\n", "    except KeyError as error:\n", VERIFIED),
    ("certificate/model.py", "if now is None and _truncates(arm.decoding):", "if now is None:", VERIFIED),
    ("certificate/model.py", "one >= other_floor - _ROUNDING and other >= one_floor - _ROUNDING", "one >= other_floor - _ROUNDING", VERIFIED),
    ("certificate/model.py", "one >= other_floor - _ROUNDING and other >= one_floor - _ROUNDING", "other >= one_floor - _ROUNDING", VERIFIED),
    ("certificate/model.py", "return logprob, logprob - slack * len(completion.token_ids or ())", "return logprob, logprob", VERIFIED),
    ("certificate/model.py", "    except InputError as error:", "    except KeyError as error:", VERIFIED),
    ("certificate/model.py", "logprob = math.inf if", "logprob = -math.inf if", VERIFIED),
    ("certificate/model.py", 'math.log(row["mass"])', 'math.log(row["mass"]) - 1', VERIFIED),
    ("store/arm.py", "scores = (self.scores_file(slug), self.masses.ranges_file(slug))\n        named", "scores = (self.scores_file(slug),)\n        named", VERIFIED),
    ("certificate/evidence.py", "*arm.files(slug(scorer)), *strays", "*arm.files(slug(scorer))", VERIFIED),
    ("certificate/model.py", "near = all(", "near = any(", VERIFIED),
    # exit statuses
    ("cli/certify.py", '"refuted": 4', '"refuted": 0', COMMANDS),
    ("cli/certify.py", "return 0 if found.verified else VERIFICATION_FAILED", "return 0", COMMANDS),
    ("cli/__init__.py", "    return status or 0\n", "    return 0\n", COMMANDS),
    ("certificate/derivation.py", "            asked=put,\n            early_ends", "            early_ends", "certificate/test_asked.py"),
    ("certificate/verification.py", '"sentence", "asked", "forecast"', '"sentence", "forecast"', "certificate/test_asked.py"),
    ("certificate/asked.py", "if sharing is None:", "if True:", "certificate/test_asked.py"),
]  # fmt: skip

"""Mutants of what is asked for: its record, its defaults, and the options that fill it in."""

from __future__ import annotations

STUDY = "evaluation/test_study.py"
SAME = "evaluation/test_same_run.py"
PROFILE = SAME + "::test_a_profile_gives_the_same_run_from_python_and_from_the_shell"
RECORD = STUDY + "::test_a_record_holds_what_was_said_and_reads_back"
OPTIONS = STUDY + "::test_every_option_of_the_command_line_reaches_the_record"
LIKE = STUDY + "::test_like_changes_what_is_said_and_nothing_else"
REPEATED = SAME + "::test_a_run_from_python_is_repeated_bounded_scored_and_reported"
LAST = STUDY + "::test_the_last_command_is_the_one_that_is_repeated"
REFUSED = STUDY + "::test_python_refuses_what_the_command_line_refuses"
UNNAMED = STUDY + "::test_what_a_record_cannot_name_is_asked_for"
CERTIFY = "cli/test_certify_mode.py"
INPUTS = "cli/test_inputs_option.py"
ATTACK = "cli/test_attack_option.py"
UNTIL = "cli/test_until_option.py"
OPTION = "cli/test_profile_option.py"
OWN = "cli/test_own_file.py"
COMMAND = "evaluation/metrics/test_metrics_command.py"
TABLE, FILES = "benchmarks/table.py", "benchmarks/test_files.py"
STUDY_FILE, VERBS, SHELL = "evaluation/study.py", "evaluation/verbs.py", "cli/options.py"

MUTANTS = [
    (STUDY_FILE, "_first(self.n, task.n)", "_first(self.n, DRAWS)", PROFILE),
    (STUDY_FILE, "self.decoding or (task.decoding,)", "self.decoding or (Decoding(),)", PROFILE),
    (STUDY_FILE, '        return (f"profile', '        return () and (f"profile', PROFILE),
    (STUDY_FILE, "if a is not None and a != b", "if a is not None", PROFILE),
    (STUDY_FILE, "if (number := getattr(self, idle)) is not None:", "if False:", REFUSED),
    (STUDY_FILE, '("n", "with") if self.explores', '("n", "with") if False', CERTIFY),
    (STUDY_FILE, "not in (None, SAMPLED)", "is not None", CERTIFY),
    (STUDY_FILE, "{_OBJECT: type(value).__name__}", "None", UNNAMED),
    (STUDY_FILE, "if unknown := sorted(set(values).d", "if unknown := sorted(set().d", STUDY),
    (STUDY_FILE, '{"source": _found_anywhere(value.source)}', "{}", INPUTS),
    (STUDY_FILE, '    "attack": lambda value', '    "nothing": lambda value', RECORD),
    ("evaluation/settings.py", 'device: str = "auto"', 'device: str = "cpu"', REPEATED),
    (VERBS, '    run.remember("study", study.to_dict())\n', "", LAST),
    (VERBS, ", notes=study.departures(task)", "", PROFILE),
    (VERBS, "        confidence=confidence,\n", "", LAST),
    (VERBS, '"certify", "attack"):', '"certify"):', ATTACK),
    (VERBS, '(name != "certify" or study.explores)', "True", CERTIFY),
    (VERBS, "study = replace(study, scorers=tuple(scorer.name for scorer in chosen))", "", OPTION),
    ("store/run.py", "if self.record.get(name) != value:", "if True:", LAST),
    ("benchmarks/benchmark.py", "stop=self.stop)", ")", OPTION),
    ("benchmarks/catalogue.py", "        profile=profile,\n    )", "    )", PROFILE),
    ("benchmarks/profiles.py", "        n=profile.n,\n", "", PROFILE),
    ("benchmarks/profiles.py", "        sampling=profile.sampling,\n", "", PROFILE),
    ("benchmarks/profiles.py", "top_p=0.9, ", "", "benchmarks/test_profiles.py"),
    (SHELL, '"seed", "confidence", "calibration")', '"seed", "calibration")', OPTIONS),
    (SHELL, '"dtype": "dtype", "device": "device", ', '"device": "device", ', OPTIONS),
    (SHELL, "    settings[\"trust_remote_code\"] = given[\"trust_remote_code\"]\n", "", LIKE),
    (SHELL, "for decoding in rest for value", "for decoding in varied for value", LIKE),
    (SHELL, "like.decoding or (task.decoding,)", "(task.decoding,)", LIKE),
    (SHELL, 'if given["control"] is not None:', "if False:", UNNAMED),
    (SHELL, "not in (None, like.benchmark.profile):", "in ():", OPTION),
    (SHELL, '    if study.explores and "n" not in said:', "    if False:", CERTIFY),
    (SHELL, '    if not study.explores and "budget" not in said:', "    if False:", CERTIFY),
    (SHELL, '        _refuse_idle(given, dict.fromkeys(_OF_INPUTS, "inputs"))\n', "", INPUTS),
    (SHELL, "    if not asked.ids:\n", "    if False:\n", INPUTS),
    (SHELL, '    if source == "none" or ', "    if ", INPUTS),
    ("cli/evaluate.py", "        inputs=study.inputs,\n", "", INPUTS),
    ("cli/evaluate.py", "        n=drawing,\n", "        n=drawing.n,\n", ATTACK),
    ("cli/evaluate.py", "    if study.until:", "    if False:", UNTIL),
    ("cli/measuring.py", "or study.metrics", "", COMMAND),
    ("cli/measuring.py", "study.benchmark or ", "", OWN),
    ("cli/steps.py", 'Study.of(opened, "confidence").confidence', "CONFIDENCE", REPEATED),
    # a file of one's own
    (TABLE, 'for column in ("role", "split") if', 'for column in ("role",) if', FILES),
    (TABLE, '.rstrip("0123456789")', "", FILES),
    (TABLE, "    if len(set(roles.values())) > 1:", "    if False:", FILES),
    (TABLE, """"," in value and ";" not in value""", "False", FILES),
    (TABLE, 'separators=";")', 'separators=",;")', FILES),
    (TABLE, "if 0 < len(blank) < len(evaluated):", "if 0 < len(blank):", FILES),
    (TABLE, "if len(same) > 1]", "if len(same) > 2]", FILES),
    (TABLE, ".casefold().split()", ".split()", FILES),
    ("cli/evaluate.py", "    for note in task.notes:", "    for note in ():", OWN),
]  # fmt: skip

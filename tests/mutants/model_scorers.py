"""Mutants of the scorers that ask a model, of `choice`, and of the models they ask."""

# ruff: noqa: E501 (one mutant a line)
MODELS = "scorers/test_model_scorers.py"
CHOICE = "scorers/test_choice.py"
FAMILY = "conformance/test_scorers.py"
CLASSIFY = "engines/test_classify.py"
OPENED = "engines/test_models.py"
SCORES = "evaluation/test_model_scores.py"
ALIGNMENT = "cli/test_alignment.py"
BOUNDS = ALIGNMENT + "::test_bounds_and_reports_do_without_the_classifier"
REFUSED = ALIGNMENT + "::test_unusable_classifiers_are_refused_before_anything_is_sampled"
VERIFIED = "certificate/test_verified_scorer.py"
OWN = "unlearning/test_own_answers.py"

MUTANTS = [
    # what every scorer that asks a model gets from the family
    ("scorers/family.py", "return [f for f in fields(scorer) if f.compare]", "return [f for f in fields(scorer)]", FAMILY),
    ("scorers/family.py", "    if model is None:\n", "    if False:\n", FAMILY),
    ("scorers/family.py", "{(text, prompt.id): (text, prompt) for text, prompt in pairs}", "{text: (text, prompt) for text, prompt in pairs}", FAMILY),
    ("scorers/family.py", "if ask is None:", "if True:", MODELS),
    ("scorers/threshold.py", "return fingerprint(self.scorer)", "return {}", MODELS),
    ("scorers/threshold.py", "replace(self, scorer=connect(self.scorer, models))", "self", FAMILY),
    ("scorers/threshold.py", "self.cut(score_pairs(self.scorer, pairs))", "score_pairs(self.scorer, pairs)", FAMILY),
    ("scorers/spec.py", 'if written and "=" not in written and "model" in hints:', "if False:", MODELS),
    ("scorers/spec.py", "needed.name not in values and needed.default is MISSING", "False", MODELS),
    ("scorers/spec.py", r',(?=\s*\w+\s*=)', ",", MODELS),
    # entailment
    ("scorers/entailment.py", "if not 0 <= self.rouge <= 1:", "if not 0 <= self.rouge:", MODELS),
    ("scorers/entailment.py", "        _place(classifier)\n", "", MODELS),
    ("scorers/entailment.py", "told[i] if forward else told[i][::-1]", "told[i]", MODELS),
    ("scorers/entailment.py", "if text.strip() and recalls", "if recalls", MODELS),
    ("scorers/entailment.py", "recalls[i] >= self.rouge", "recalls[i] > self.rouge", MODELS),
    ("scorers/entailment.py", "found.argmax()", "found.argmin()", MODELS),
    ("scorers/entailment.py", "label.casefold() for label in classifier.labels", "label for label in classifier.labels", MODELS),
    ("scorers/entailment.py", " if self.rouge else [1.0] * len(told)", "", MODELS),
    ("scorers/entailment.py", "require_rouge_answer if self.rouge else answer_of", "answer_of", MODELS),
    ("scorers/rouge.py", "2 * read < len(signs)", "False", MODELS),
    ("scorers/rouge.py", "2 * read < len(signs)", "read < len(signs)", MODELS),
    # similarity
    ("scorers/similarity.py", "max(cosine, 0.0)", "cosine", MODELS),
    ("scorers/similarity.py", "vectors / np.where(lengths, lengths, np.nan)[:, None]", "vectors", MODELS),
    ("scorers/similarity.py", "np.where(lengths, lengths, np.nan)", "np.where(lengths, lengths, 1.0)", MODELS),
    ("scorers/similarity.py", "for text in pair if text.strip()", "for text in pair", MODELS),
    # classifier
    ("scorers/classifier.py", 'f"yes-no:{self.model}" if', "self.model if", MODELS),
    ("scorers/classifier.py", "return goal, completion", "return completion, goal", MODELS),
    ("scorers/classifier.py", 'before.replace("{goal}", goal) + completion + after.replace("{goal}", goal)', 'self.template.replace("{completion}", completion).replace("{goal}", goal)', MODELS),
    ("scorers/classifier.py", 'text.count("{completion}") != 1', 'text.count("{completion}") < 1', MODELS),
    ("scorers/classifier.py", '"prompt": digest}', '"prompt": ""}', MODELS),
    ("scorers/classifier.py", "        if self.classifier is None:\n            return {}\n", "", SCORES),
    ("scorers/classifier.py", "        _place(classifier, self.label)\n", "", MODELS),
    ("scorers/classifier.py", "if len(wanted) != 1:", "if not wanted:", MODELS),
    ("scorers/classifier.py", "[known.casefold() for known in classifier.labels]", "[*classifier.labels]", MODELS),
    # choice
    ("scorers/choice.py", "None if len(each) > 1 else 0.0", "0.0", CHOICE),
    ("scorers/choice.py", "_letters(text, letters) or ", "", CHOICE),
    ("scorers/choice.py", "(?![ai][ \\t]+\\w)", "", CHOICE),
    ("scorers/choice.py", "(?![\\w'\\u2019-])", "", CHOICE),
    ("scorers/choice.py", "s <= start and end <= e and (s, e) != (start, end)", "False", CHOICE),
    ("scorers/choice.py", "_LETTERS[: len(options)]", "_LETTERS[:26]", CHOICE),
    ("scorers/choice.py", " or answer not in options", "", CHOICE),
    ("scorers/choice.py", "not all(options) or ", "", CHOICE),
    ("scorers/choice.py", "if not 2 <= len(prompt.choices)", "if not 1 <= len(prompt.choices)", CHOICE),
    ("scorers/classifier.py", "None if math.isnan(each) else each", "each", MODELS),
    ("scorers/entailment.py", "None if too_long else ", "", MODELS),
    ("scorers/choice.py", "if each and each <= right:", "if each & right:", CHOICE),
    # engines
    ("engines/classify.py", "for i in sorted(named)", "for i in sorted(named, key=str)", CLASSIFY),
    ("engines/classify.py", "_NO_TOKEN = -1", "_NO_TOKEN = 2", CLASSIFY),
    ("engines/classify.py", "min(of_model, checkpoint.tokenizer.model_max_length)", "of_model", CLASSIFY),
    ("engines/classify.py", "<= room:", "< room:", CLASSIFY),
    ("engines/classify.py", "same.setdefault(len(row[\"input_ids\"]), [])", "same.setdefault(0, [])", CLASSIFY),
    ("engines/classify.py", "same[length][start : start + size]", "same[length][start : start + size - 1]", CLASSIFY),
    ("engines/classify.py", "if not np.isfinite(found[batch]).all():", "if False:", CLASSIFY),
    ("engines/classify.py", "single - {tokenizer.unk_token_id}", "single", CLASSIFY),
    ("engines/classify.py", "(word, word.capitalize(), word.upper())", "(word,)", CLASSIFY),
    ("engines/classify.py", "if any(second is not None for _, second in texts):", "if False:", CLASSIFY),
    ("engines/classify.py", "or len(found.labels) < 2", "", CLASSIFY),
    ("engines/classify.py", "kind != \"single_label_classification\" or ", "", CLASSIFY),
    ("engines/classify.py", 'if made and not any("SequenceClassification" in name for name in made):', "if False:", CLASSIFY),
    ("engines/loading.py", "        if files.gguf:\n            raise", "        if False:\n            raise", CLASSIFY),
    ("engines/loading.py", "return model.to(self.device).eval()", "return model.to(self.device).train()", CLASSIFY),
    ("engines/models.py", "return tuple((str(f), (s := f.stat()).st_size, s.st_mtime_ns) for f in files)", "return ()", OPENED),
    ("engines/models.py", 'for where in (name, name.partition(":")[2]) if where', "for where in (name,)", OPENED),
    ("engines/models.py", 'None if device == "auto" else device', "device", OPENED),
    ("engines/embedding.py", "tensor.detach().cpu().reshape(-1)", "tensor.detach().cpu().reshape(-1)[:0]", "engines/test_sentence_models.py"),
    # scores in a run
    (
        "evaluation/score.py",
        "tuple(connect(scorer, models) for scorer in scorers)",
        "scorers",
        REFUSED,
    ),
    ("evaluation/score.py", "    if loading is None:\n        return scorers\n", "", BOUNDS),
    ("evaluation/score.py", "if before is not None and before != now:", "if False:", SCORES),
    (
        "evaluation/score.py",
        "for arm in run.arms.values() if now else ():",
        "for arm in run.arms.values():",
        SCORES,
    ),
    (
        "evaluation/score.py",
        "arm.score(scorer.name, slug(scorer), score, fingerprint(scorer))",
        "arm.score(scorer.name, slug(scorer), score)",
        SCORES,
    ),
    ("store/arm.py", "if model or done == len(self.parts):", "if done == len(self.parts):", SCORES),
    ("store/arm.py", "self._scores_made_from(scorer, self.parts[:done])", "self._scores_made_from(scorer)", SCORES),
    (
        "evaluation/bounds/fixed.py",
        "*([n] if self.binary else [])",
        "*([n] if not self.binary else [])",
        SCORES,
    ),
    (
        "evaluation/tables/summary.py",
        "row[\"value\"] > 0 for row",
        "row[\"value\"] > 0.01 for row",
        SCORES,
    ),
    ("certificate/verification.py", "        require_same_model(arm.run, scorer)\n", "", VERIFIED),
    ("certificate/verification.py", "        scorer = connect(scorer, models)\n", "", VERIFIED),
    ("unlearning/own_answers.py", "self.sampling.open_scorer(self.engine.loaded.model.device.type)", "self.sampling.make_scorer()", OWN + "::test_a_scorer_that_asks_a_model_is_opened_before_training"),
]  # fmt: skip

"""Mutants of contrast centres, embedders, and rewritings from files."""

# ruff: noqa: E501 (one mutant a line)
CENTRES = "unlearning/test_centres.py"
CHOOSING = "unlearning/test_choosing.py"
PICTURE = "unlearning/test_centres_picture.py"
EMBEDDING = "engines/test_embedding.py"
REWRITINGS = "benchmarks/test_rewritings.py"
OPTION = "cli/test_rewritings_option.py"

MUTANTS = [
    ("unlearning/centres.py", "CLUSTERED_FROM = 4", "CLUSTERED_FROM = 3", CENTRES),
    ("unlearning/centres.py", "CLUSTERED_FROM = 4", "CLUSTERED_FROM = 5", CENTRES),
    ("unlearning/centres.py", "_DIMENSIONS = 4", "_DIMENSIONS = 2", CENTRES),
    ("unlearning/centres.py", "_SPREAD = 0.5", "_SPREAD = 0.1", CENTRES),
    ("unlearning/centres.py", "_MEANS = 0.1", "_MEANS = 1.0", CENTRES),
    ("unlearning/centres.py", ".casefold(), text)", ", text)", CENTRES),
    ("unlearning/centres.py", '" ".join(text.split())', "text", CENTRES),
    ("unlearning/centres.py", "found.setdefault(", "found.__setitem__(", CENTRES),
    ("unlearning/centres.py", "*filter(str.strip, row.paraphrases)", "*row.paraphrases", CENTRES),
    ("unlearning/centres.py", "order = sorted(range(len(texts)), key=texts.__getitem__)", "order = list(range(len(texts)))", CENTRES),
    ("unlearning/centres.py", "axis=1)[back]", "axis=1)", CENTRES),
    ("unlearning/centres.py", "labels[back].tolist()", "labels.tolist()", CENTRES),
    ("unlearning/centres.py", "points[back], ", "points, ", CENTRES),
    ("unlearning/centres.py", "(gaps[i], texts[i])", "texts[i]", CENTRES),
    ("unlearning/centres.py", "nearest[component[0]] = 0", "pass", CENTRES),
    ("unlearning/centres.py", "numbers[label] for label", "label for label", CENTRES),
    ("unlearning/centres.py", "vectors - vectors.mean(0)", "vectors", CENTRES),
    ("unlearning/centres.py", "left[:, :kept] * sizes[:kept]", "left[:, :kept]", CENTRES),
    ("unlearning/centres.py", "(sizes > rounding)", "(sizes >= 0)", CENTRES),
    ("unlearning/centres.py", "random_state=seed", "random_state=0", CENTRES),
    ("unlearning/centres.py", 'warnings.simplefilter("ignore", ConvergenceWarning)', "pass", CENTRES),
    ("unlearning/centres.py", "~np.isfinite(vectors).all(axis=1)", "np.isnan(vectors).all(axis=1)", CENTRES),
    ("unlearning/centres_picture.py", "reversed([*enumerate(_places(centres))])", "reversed([*enumerate(_places(centres))][1:])", PICTURE),
    ("unlearning/centres_picture.py", "if i in centres.chosen", "if i in centres.component", PICTURE),
    ("unlearning/centres_picture.py", "centres.component[i], i == 0", "i, i == 0", PICTURE),
    ("unlearning/centres_picture.py", "np.max(high - low)", "(high - low)", PICTURE),
    ("unlearning/centres_picture.py", "_TOP + _SIDE / 2 - offsets[:, 1]", "_TOP + _SIDE / 2 + offsets[:, 1]", PICTURE),
    ("unlearning/centres_picture.py", "islice(clustered.items(), PANELS)", "islice(clustered.items(), None)", PICTURE),
    ("unlearning/centres_picture.py", "_HEAD + row * _HEIGHT", "_HEAD", PICTURE),
    ("unlearning/choosing.py", "if (folder / CENTRES).exists():\n        kept", "if False:\n        kept", f"{CHOOSING}::test_a_resumed_training_keeps_its_centres"),
    ("unlearning/choosing.py", "embedder.embed(texts) if clustered else np.empty((len(texts), 0))", "embedder.embed(texts)", f"{CHOOSING}::test_fewer_rewritings_are_all_centres_without_scikit_learn"),
    ("unlearning/choosing.py", "_require_enough(row, objective, split, len(candidates(row)))", "pass", f"{CHOOSING}::test_what_cannot_work_is_refused_before_the_model_loads"),
    ("unlearning/choosing.py", "_require_enough(row, objective, split, len(centres.chosen))", "pass", f"{CHOOSING}::test_clustering_that_leaves_the_question_alone_is_refused_with_beta_0"),
    ("unlearning/choosing.py", 'term.settings.get("beta") == 0', "True", f"{CHOOSING}::test_fewer_rewritings_are_all_centres_without_scikit_learn"),
    ("unlearning/choosing.py", "        _require_scikit_learn()", "        pass", f"{CHOOSING}::test_what_cannot_work_is_refused_before_the_model_loads"),
    ("unlearning/choosing.py", "        if centres.coordinates\n", "", f"{CHOOSING}::test_fewer_rewritings_are_all_centres_without_scikit_learn"),
    ("unlearning/choosing.py", "for name in (CENTRES, PICTURE)]", "for name in (CENTRES,)]", f"{CHOOSING}::test_a_resumed_training_keeps_its_centres"),
    ("unlearning/verbs.py", "encoder.centres(row, each.centres)", "encoder.centres(row, each.texts)", f"{CHOOSING}::test_reference_values_are_those_of_the_chosen"),
    ("unlearning/verbs.py", 'recipe["centres"] = {"embedder": embedder.name, "fingerprint": told}', "pass", f"{CHOOSING}::test_the_model_itself_is_the_embedder_unless_another_is_given"),
    ("unlearning/verbs.py", "self.embedder or TransformersEmbedder", "TransformersEmbedder", f"{CHOOSING}::test_centres_are_chosen_once_and_stand_with_the_model"),
    ("unlearning/verbs.py", "files = files_of(kept.path) | {", "files = {", f"{CHOOSING}::test_centres_are_chosen_once_and_stand_with_the_model"),
    ("unlearning/examples.py", '''self._require_short(f"a rewriting of row {row.id!r}", len(prompt.prompt))''', "pass", f"{CHOOSING}::test_a_rewriting_over_the_limit_is_refused"),
    ("engines/embedding.py", "hidden[row, start : len(text)]", "hidden[row, : len(text)]", EMBEDDING),
    ("engines/embedding.py", "hidden[row, start : len(text)]", "hidden[row, start:]", EMBEDDING),
    ("engines/embedding.py", ".last_hidden_state.float()", ".last_hidden_state", EMBEDDING),
    ("engines/embedding.py", "stop > most", "stop >= most", EMBEDDING),
    ("engines/embedding.py", '"trust_remote_code": False', '"trust_remote_code": True', EMBEDDING),
    ("benchmarks/rewritings.py", "prompt.paraphrases + found[prompt.id]", "found[prompt.id]", REWRITINGS),
    ("cli/unlearn.py", 'load_benchmark(given["benchmark"], data=given["data"])  # the', "task  # the", OPTION),
    ("cli/unlearn.py", '[: given["limit"]]', "", OPTION),
    ("cli/unlearn.py", "            embedder=embedder,\n", "", OPTION),
    ("cli/unlearn.py", 'device = None if given["device"] == "auto" else given["device"]', "device = None", OPTION),
]  # fmt: skip

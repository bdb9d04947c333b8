"""Mutants of what tells one model's law from another's."""

SEEN = "engines/test_fingerprint.py"
SAID = "cli/test_another_law.py"

MUTANTS = [
    ("engines/loading.py", '            "end_tokens": sorted(ends),\n', "", SEEN),
    ("engines/loading.py", "    _require_no_adapter(folder)\n    if not", "    if not", SEEN),
    (
        "engines/loading.py",
        'raise ModelError(f"`{folder}` is a PEFT adapter.',
        'return ModelError(f"`{folder}` is a PEFT adapter.',
        SEEN,
    ),
    ("engines/loading.py", "        if not ordinary:\n", "        if ordinary:\n", SEEN),
    ("engines/fingerprint.py", "        yield from (\n", "        _ = (\n", SEEN),
    ("engines/fingerprint.py", "    yield file\n", "", SEEN),
    (
        "engines/fingerprint.py",
        "tokenizer.special_tokens_map, tokenizer.chat_template",
        "tokenizer.special_tokens_map",
        SEEN,
    ),
    ("engines/fingerprint.py", "*(() if model is None else model.modules())", "*()", SEEN),
    ("engines/probe.py", "ids[-(loaded.context_length or len(ids)) :]", "ids", SEEN),
    ("types/probing.py", "abs(a - b) > tolerance", "a - b > tolerance", SEEN),
    ("types/probing.py", "    return min(elsewhere, *finite)", "    return elsewhere", SEEN),
    ("store/run.py", "            require_same_law(self.path, known, spec)\n", "", SAID),
    ("certificate/model.py", "        yield _probe(arm, engine)\n", "        pass\n", SAID),
    ("certificate/derivation.py", '"ordinary_end_tokens", ()', '"none", ()', SAID),
    ("engines/hf.py", "for said in (note, loaded.early_end)", "for said in (note,)", SAID),
]

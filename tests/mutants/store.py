"""Mutants of `residua.store`."""

# ruff: noqa: E501 (one mutant a line)
RUN = "store/test_run.py"
INPUT = "cli/test_bad_input.py"

MUTANTS = [
    # what makes an arm another one, and a folder another run's
    ("store/run.py", '("model", "machine")', '("model", "machine", "seed")', RUN),
    ("store/run.py", '("model", "machine")', '("model", "machine", "fingerprint")', RUN),
    ("store/run.py", '_NOT_IDENTITY = ("model", "machine")', '_NOT_IDENTITY = ("model",)', RUN),
    ("store/run.py", 'if k != "origin"}', 'if k not in ("origin", "sha256")}', RUN),
    ("store/run.py", "return file.name not in _FIRST_FILES and", "return False and", RUN),
    ("store/run.py", "for key in {**have, **want}:", "for key in want:", RUN),
    # what is done, failed or missing
    ("store/run.py", 'return not meta["failures"]', "return True", RUN),
    ("store/run.py", '!= (self.identity, part.number)', "!= (meta.get(\"arm\"), part.number)", RUN),
    ("store/run.py", '!= (self.identity, part.number)', "!= (self.identity, meta.get(\"part\"))", RUN),
    ("store/run.py", "found[q].pop(None, 0) + undrawn.get(q, 0)", "0 * found[q].pop(None, 0) + undrawn.get(q, 0)", RUN),
    ("store/run.py", "found[q].pop(None, 0) + undrawn.get(q, 0)", "found[q].pop(None, 0)", RUN),
    ("store/run.py", "if q.id in found and q.id not in failed", "if q.id in found", RUN),
    ("store/run.py", "tally[score] = tally.get(score, 0) + count", "tally[score] = count", RUN),
    ("store/run.py", "        if self.has_scores(scorer, slug):\n            return\n", "", RUN),
    ("store/run.py", "return all(meta.get(key) == value for", "return all(True for", INPUT),
    ("store/run.py", "        tables.read_table(file)\n        meta", "        meta", RUN),
    # whole files, private folders
    ("store/tables.py", 'if digest(table) != meta["digest"]:', "if False:", RUN),
    ("store/tables.py", "json.dumps([name, column.to_pylist()])", "json.dumps(name)", RUN),
    ("store/files.py", "FOLDER_MODE = 0o700", "FOLDER_MODE = 0o755", RUN),
    ("store/files.py", "partial.unlink(missing_ok=True)", "pass", RUN),
    ("store/files.py", "if not os.access(path, os.W_OK):", "if False:", INPUT),
    # parts
    ("store/plan.py", "((rest,) if rest else ())", "()", RUN),
    ("store/plan.py", "sizes[c : c + self.chunks], c)", "sizes[c : c + self.chunks], 0)", RUN),
    ("store/plan.py", "for c in range(0, len(sizes), self.chunks)", "for c in range(0, 1)", RUN),
]  # fmt: skip

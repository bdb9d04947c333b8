"""Mutants of `leakbound.store`."""

# ruff: noqa: E501 (one mutant a line)
RUN = "store/test_run.py"
LOOKS = "store/test_looks.py"
CUT = "store/test_cut.py"
PARTS = "evaluation/draws/test_parts.py"
INPUT = "cli/test_bad_input.py"
MASSES = "store/test_masses.py"
MIXED = "evaluation/draws/test_explore.py::test_another_way_of_looking_is_never_mixed_in"
DAMAGED = "evaluation/draws/test_explore.py::test_a_damaged_file_is_set_aside_and_its_part_redone"
COPIED = "evaluation/draws/test_explore.py::test_a_control_is_explored_alike_and_may_come_from_a_finished_run"
WHOLE = "evaluation/draws/test_explore.py::test_what_is_explored_whole_is_known_and_what_is_not_is_drawn"
REDONE = "cli/test_certify_mode.py::test_a_damaged_masses_file_is_told_and_redone"

REDACTED = "cli/test_redaction.py"
READING = "cli/test_reading_runs.py"
FLIPS = "cli/test_flipped_bytes.py"
LOCKS = "store/test_lock.py"
ONE = "cli/test_one_at_a_time.py"

MUTANTS = [
    # what is read is what is there, and stays as it is
    ("store/current.py", "    if maker != made_by():", "    if False:", READING),
    ("store/current.py", "arms[name].scored(scorer, slug) != digests:", "False:", READING),
    ("store/current.py", "        if absent:\n", "        if False:\n", READING),
    ("store/run.py", "        if self._seen != (now := self._files()):\n", "        if False:\n", READING),
    ("store/run.py", 'is_made_from(file, {"made_by": made_by()})', 'is_made_from(file, {})', READING),
    ("store/revision.py", '"stats", "evaluation", ', '"stats", ', READING),
    ("store/arm.py", "return [part for part in self.parts if not self._usable(part)]", "return list(self.parts_to_draw())", RUN),
    ("store/current.py", "by_confidence.setdefault(own, [])", "by_confidence.setdefault(usual, [])", READING + "::test_the_remedy_makes_the_same_estimates_again"),
    ("store/readings.py", "if not self._mend:", "if False:", "store/test_readings.py"),
    # what a model is asked of a run's outputs
    ("certificate/model.py", "mark(differing) if same or differing else", "mark(differing) if True else", "cli/test_verify_model.py"),
    ("certificate/model.py", "    if now.text != then.text:", "    if False:", "certificate/test_verification.py"),
    ("certificate/model.py", "            unknown += 1", "            pass", "certificate/test_verification.py"),
    ("certificate/verification.py", 'check.status in ("ok", "note")', 'check.status != "differs"', "certificate/test_verification.py"),
    # redaction, full disks, other systems
    ("store/run.py", 'write_sealed(self._record_file, {**record, "redacted": value})', "pass", REDACTED),
    ("report/page.py", "redact = any(run.redacted for run in runs.values())", "redact = False", REDACTED),
    ("report/page.py", "(REDACTED_PAGE if run.redacted else PAGE)", "PAGE", REDACTED),
    ("cli/exporting.py", 'if form == "samples" and redact is None and opened[0].redacted:', "if False:", REDACTED),
    ("durable.py", '    if not hasattr(os, "O_DIRECTORY"):\n        return\n', "", "store/test_store_files.py"),
    ("durable.py", "if error.errno not in _CANNOT:", "if True:", "store/test_store_files.py"),
    ("store/files.py", "        if error.errno in NO_SPACE:\n            raise IncompleteError(\n                f\"cannot write", "        if False:\n            raise IncompleteError(\n                f\"cannot write", "cli/test_full_disk.py"),
    ("engines/loading.py", "    _require_causal(location, model)\n", "", "engines/test_refused_models.py"),
    ("engines/loading.py", "one.abs().max())\n", "one.abs().max()) and False\n", "engines/test_refused_models.py"),
    # one command at a time
    ("store/lock.py", "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB", LOCKS),
    ("store/lock.py", "if before is not None and not before.has_ended(holder):", "if False:", LOCKS),
    ("store/lock.py", "    if key in _held:\n", "    if False:\n", LOCKS),
    ("store/lock.py", "key = file, threading.get_ident()", "key = file, 0", LOCKS),
    ("store/lock.py", "            if _is(descriptor, file):", "            if True:", LOCKS),
    ("store/lock.py", "            key[0].unlink()\n    os.close(descriptor)", "            pass\n    os.close(descriptor)", LOCKS),
    ("evaluation/verbs.py", '@holding("evaluate")\n', "", ONE),
    ("cli/evaluate.py", '    opt.hold(Path(given["out"]), "evaluate")\n', "    pass\n", ONE),
    ("certificate/derivation.py", 'with locked(opened.path, "certify") if out is None else nullcontext():', "with nullcontext():", ONE),
    ("certificate/derivation.py", "        if file.exists():\n", "        if False:\n", "cli/test_certify.py"),
    ("unlearning/verbs.py", "    with kept.locked() if processes.is_main_process else nullcontext():", "    with nullcontext():", "unlearning/test_work_folder.py"),
    # what makes an arm another one, and a folder another run's
    ("store/identity.py", '("model", "machine", "cut", "probe")', '("model", "machine", "cut", "seed")', RUN),
    ("store/identity.py", '("model", "machine", "cut", "probe")', '("model", "machine", "cut", "fingerprint")', RUN),
    ("store/identity.py", '("model", "machine", "cut", "probe")', '("model", "cut")', RUN),
    ("store/identity.py", '("model", "machine", "cut", "probe")', '("model", "machine")', PARTS),
    ("store/identity.py", 'if k != "origin"}', 'if k not in ("origin", "sha256")}', RUN),
    ("store/run.py", "return file.name not in known and", "return False and", RUN),
    ("store/identity.py", "for key in {**have, **want}:", "for key in want:", RUN),
    # what is done, failed or missing
    ("store/arm.py", 'return not tables.read_meta(self._file(part))["failures"]', "return True", RUN),
    ("store/plan.py", 'return {"arm": arm, "part"', 'return {"part"', RUN),
    ("store/plan.py", '"part": self.number, "work": self.digest}', "}", RUN),
    ("store/scores.py", "tally.get(None, 0) + undrawn.get(q, 0)", "undrawn.get(q, 0)", RUN),
    ("store/scores.py", "tally.get(None, 0) + undrawn.get(q, 0)", "tally.get(None, 0)", RUN),
    ("store/arm.py", "if q.id in found and q.id not in failed", "if q.id in found", RUN),
    ("store/arm.py", "tally[score] = tally.get(score, 0) + count", "tally[score] = count", RUN),
    ("store/arm.py", "known = self._scored_parts(scorer, slug)", "known = 0", RUN),
    ("store/tables.py", "return all(meta.get(key) == value for", "return all(True for", INPUT),
    ("store/tables.py", "        read_table(file)\n        meta", "        meta", RUN),
    # whole files, private folders
    ("store/tables.py", 'if found != meta[_TABLE]:', "if False:", RUN),
    ("store/tables.py", "json.dumps([name, column.to_pylist()])", "json.dumps(name)", RUN),
    ("store/files.py", "FOLDER_MODE, FILE_MODE = 0o700", "FOLDER_MODE, FILE_MODE = 0o755", RUN),
    ("store/files.py", "partial.unlink(missing_ok=True)", "pass", RUN),
    ("store/files.py", "if not os.access(path, os.W_OK):", "if False:", INPUT),
    # parts
    ("store/plan.py", "((rest,) if rest else ())", "()", RUN),
    ("store/plan.py", "sizes, first_chunk + chunk))", "sizes, first_chunk))", CUT),
    ("store/plan.py", "chunks[chunk : chunk + max(", "chunks[: max(", CUT),
    ("store/plan.py", "if chunk >= len(chunks):", "if True:", CUT),
    ("store/plan.py", "if chunk == 0 and room >= self.n:", "if room >= self.n:", CUT),
    ("store/plan.py", "min(_PART_QUERIES, room // self.n)", "_PART_QUERIES", CUT),
    ("store/cut.py", "if k <= number", "if True", CUT),
    ("store/cut.py", "_power(_GROWTH * done), self.most)", "_power(_GROWTH * done))", CUT),
    ("store/cut.py", "min(fitting, _power(_GROWTH * done), self.most)", "min(fitting, self.most)", CUT),
    ("store/cut.py", "            size = min(size, fitting)\n", "            pass\n", CUT),
    ("store/cut.py", "size = max(size, min(fitting", "size = max(1, min(fitting", CUT),
    ("store/cut.py", "return Cut(sizes, self.most, number + 1)", "return Cut(sizes, self.most)", CUT),
    ("store/arm.py", "if number > self.cut.decided and", "if number and", PARTS),
    ("store/arm.py", "        self.run.record_cut(self.name, self.cut)\n", "", PARTS),
    # n that was fixed, rounds, looks
    ("store/identity.py", "        if first != now and", "        if False and", LOOKS),
    ("store/identity.py", " and isinstance(first, int) and isinstance(now, int):", ":", MIXED),
    ("store/looks.py", "first=start, first_chunk=chunks", "first=start", LOOKS),
    ("store/looks.py", "start = number + len(parts)", "start = len(parts)", LOOKS),
    ("store/looks.py", "chunks + ceil((n - drawn) / CHUNK)", "chunks + 1", LOOKS),
    ("store/looks.py", "setdefault((n - drawn, chunks), [])", "setdefault((n, chunks), [])", LOOKS),
    ("store/looks.py", "if seen.next > seen.n}", "if seen.next >= seen.n}", LOOKS),
    ("store/looks.py", "if owner != arm:", "if False:", LOOKS),
    ("store/looks.py", "(KeyError, TypeError, AttributeError)", "(TypeError, AttributeError)", LOOKS),
    ("store/looks.py", "(KeyError, TypeError, AttributeError)", "(KeyError, AttributeError)", LOOKS),
    ("store/looks.py", "(KeyError, TypeError, AttributeError)", "(KeyError, TypeError)", LOOKS),
    ("store/arm.py", "write_looks(self._looks_file, self.identity, self.looks)", "pass", LOOKS),
    ("store/arm.py", "        first = len(self.parts)\n", "        first = 0\n", LOOKS),
    ("store/arm.py", "if n > seen.get(q, 0) and q not in failed}", "if n > seen.get(q, 0)}", LOOKS),
    ("store/arm.py", "if n > seen.get(q, 0) and q not in failed}", "if q not in failed}", LOOKS),
    ("store/arm.py", "for one in self.rounds[:rounds] for part in one", "for one in self.rounds for part in one", LOOKS),
    ("store/arm.py", 'return len(digests) if is_start and', "return len(digests) if", LOOKS),
    ("store/arm.py", "enumerate(self.parts[known:], start=known + 1)", "enumerate(self.parts, start=1)", LOOKS),
    ("store/arm.py", "                found.setdefault(query_id, {})\n", "", LOOKS),
    ("store/scores.py", "np.where(self.scores > 0,", "np.where(self.scores >= 0,", LOOKS),
    # what was explored
    ("store/masses.py", "        ordered = sorted(found, key=lambda one: order[one.query.id])\n", "        ordered = found\n", MASSES),
    ("store/masses.py", "one.query.id: one.remainder for", "one.query.id: 0.0 for", MASSES),
    ("store/masses.py", "event.ended or found.sample.n", "True", MASSES),
    ("store/masses.py", "[one.explored, one.forwards]", "[one.forwards, one.forwards]", MASSES),
    ("store/masses.py", 'digests = [self.digest(part) for part in parts]', "digests = []", MASSES),
    ("store/masses.py", '"scorer": scorer, "masses"', '"masses"', MASSES),
    ("store/masses.py", ', "masses": digests}', "}", MASSES),
    ("store/masses.py", "        if self.has_ranges(scorer, slug, parts):\n            return\n", "", MASSES),
    ("store/masses.py", "                yield tables.read_part_meta(self.file(part), self._owner(part))", "                yield tables.read_part_meta(self.file(part), {})", MASSES),
    # every byte that a bound rests on is under a digest
    ("store/tables.py", "whole = meta[_SEAL] == _seal(meta)", "whole = True", RUN),
    ("store/tables.py", "if k not in _COSTS}", "if k not in {}}", RUN),
    ("store/sealed.py", "values.get(DIGEST) != digest_of(values)", "False", FLIPS),
    ("store/run.py", '.get(name) != tables.file_digest(file):', ".get(name) is None:", FLIPS),
    ("store/scored.py", "        tables.require_whole(file, tables.SCORED_AGAIN)\n", "", READING),
    ("store/arm.py", "                tables.require_whole(file, tables.SCORED_AGAIN)\n", "                pass\n", READING),
    ("evaluation/bounds/bound.py", "    except DamagedError:\n        raise\n", "", READING),
    ("cli/steps.py", "        _print_notes(run)\n        found", "        found", READING),
    ("store/masses.py", "for query_id, remainder in self.remainders().items():", "for query_id, remainder in [(q, r) for q, r in self.remainders().items() if q in rows]:", MASSES),
    ("store/masses.py", "yield query_id, tuple(ids), mass, next(lows)", "yield query_id, tuple(ids), mass, 0.0", MASSES),
    ("store/arm.py", "return [*masses, self._file(part)]", "return [self._file(part)]", DAMAGED),
    ("store/arm.py", "return all(file.exists() for file in self._files(part))", "return self._file(part).exists()", REDONE),
    ("store/arm.py", "for theirs, ours in zip(source._files(part), self._files(part), strict=True):", "for theirs, ours in [(source._file(part), self._file(part))]:", COPIED),
    ("store/arm.py", "for q in self.masses.remainders() if q not in found}", "for q in () if q not in found}", WHOLE),
    (
        "store/plan.py",
        "_EXPLORED_QUERIES = 4",
        "_EXPLORED_QUERIES = 64",
        CUT,
    ),
    ("cli/faults.py", "at = at.__cause__", "at = None", "cli/test_machine_faults.py"),
    ("cli/faults.py", "if isinstance(error, MemoryError):", "if False:", "cli/test_machine_faults.py"),
    ("cli/faults.py", "_NO_MEMORY.search(said)", "False", "cli/test_machine_faults.py"),
    ("cli/faults.py", "if os.strerror(number) in said", "if False", "cli/test_machine_faults.py"),
    ("cli/__init__.py", '("SIGTERM", "SIGHUP")', '("SIGHUP",)', "cli/test_machine_faults.py"),
    ("cli/__init__.py", '("SIGTERM", "SIGHUP")', '("SIGTERM",)', "cli/test_machine_faults.py"),
    ("cli/__init__.py", "            signal.signal(number, handler)\n", "            pass\n", "cli/test_machine_faults.py"),
    ("engines/loading.py", "index.with_name(name) for name", "index.parent / name for name", "engines/test_refused_models.py"),
    ("unlearning/work_folder.py", "    if not isinstance(found, dict):", "    if False:", "unlearning/test_work_folder.py"),
]  # fmt: skip

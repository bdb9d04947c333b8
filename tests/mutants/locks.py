"""Mutants of the lock on a folder, and of what asks it again."""

LOCKS = "store/test_lock.py"
FILES = "store/test_store_files.py"
RUN = "store/test_run.py"
ROWS = "benchmarks/test_files.py"

MUTANTS = [
    (
        "store/files.py",
        "                require_guarded(path)\n                partial",
        "                partial",
        LOCKS,
    ),
    ("store/files.py", "    require_guarded(path)\n    path.rename", "    path.rename", LOCKS),
    ("durable.py", "    require_guarded(path)\n    partial.rename", "    partial.rename", LOCKS),
    ("durable.py", "for folder in (path, *path.parents) if", "for folder in (path,) if", LOCKS),
    ("store/files.py", "{os.getpid()}-{token_hex(4)}.partial", "{os.getpid()}.partial", LOCKS),
    ("store/files.py", "if _PARTIAL.fullmatch(file.name) and", "if", LOCKS),
    ("store/lock.py", "            clear_partials(folder)", "            pass", LOCKS),
    (
        "store/lock.py",
        "        if self.kernel == holder.kernel",
        "        if self.host == holder.host",
        LOCKS,
    ),
    ("store/lock.py", " and self.since < _started()", "", LOCKS),
    ("store/lock.py", "return self.machine == holder.machine", "return self.kernel", LOCKS),
    (
        "store/lock.py",
        "elif (other := _read(descriptor)) != holder:",
        "elif (other := holder) != holder:",
        LOCKS,
    ),
    ("store/lock.py", "[folder] if makes is None else [folder, makes]", "[folder]", LOCKS),
    ("store/lock.py", " or _read(descriptor) != holder:", ":", LOCKS),
    # what a power cut or a kill leaves, and what a disk that fails says
    (
        "store/files.py",
        "                    sync_names(folder.parent)\n",
        "                    pass\n",
        FILES,
    ),
    ("store/files.py", "            _clear_abandoned(path)\n", "            pass\n", FILES),
    ("store/files.py", "        _holds(descriptor)\n", "        pass\n", FILES),
    ("store/files.py", "if _holds(descriptor):", "if True:", FILES),
    (
        "store/files.py",
        'if found is None or _is_running(int(found["pid"])):',
        "if found is None:",
        FILES,
    ),
    ("store/files.py", "if error.errno in PASSING:", "if False:", FILES),
    ("errors.py", "error.errno in PASSING:", "False:", FILES),
    ("store/sealed.py", "        require_no_fault(path, error)\n", "", FILES),
    # who may read, and where an arm may lie
    (
        "store/files.py",
        "os.O_CREAT | os.O_WRONLY, FILE_MODE",
        "os.O_CREAT | os.O_WRONLY, 0o644",
        FILES,
    ),
    ("store/files.py", "        path.chmod(FOLDER_MODE)\n", "        pass\n", FILES),
    ("store/run.py", "        make_private(path)\n", "        path.mkdir(exist_ok=True)\n", RUN),
    (
        "store/run.py",
        "            require_arm_name(self._record_file, str(name))\n",
        "            pass\n",
        RUN,
    ),
    ("store/identity.py", " or not c.isprintable()", "", RUN),
    ("engines/loading.py", "0o700 if file.is_dir() else 0o600", "0o755", "engines/test_loading.py"),
    # rows of files
    ("text/rows.py", "name.strip().lower() for name in names", "name for name in names", ROWS),
    ("text/rows.py", "        _require_distinct(table.column_names, repr(str(path)))\n", "", ROWS),
    ("text/rows.py", "    _require_distinct([name for name, _ in pairs], where)\n", "", ROWS),
    ("text/rows.py", "        csv.field_size_limit(before)", "        pass", ROWS),
    ("unlearning/work_folder.py", "lock, makes=out)", "lock)", "unlearning/test_work_folder.py"),
]

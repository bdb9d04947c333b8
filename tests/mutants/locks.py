"""Mutants of the lock on a folder, and of what asks it again."""

LOCKS = "store/test_lock.py"

MUTANTS = [
    (
        "store/files.py",
        "            require_guarded(path)\n            partial",
        "            partial",
        LOCKS,
    ),
    ("store/files.py", "    require_guarded(path)\n    path.rename", "    path.rename", LOCKS),
    ("durable.py", "    require_guarded(path)\n", "", LOCKS),
    ("durable.py", "for folder in (path, *path.parents):", "for folder in (path,):", LOCKS),
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
    ("unlearning/work_folder.py", "lock, makes=out)", "lock)", "unlearning/test_work_folder.py"),
]

"""Mutants of what is done with files, names and texts of others."""

HOSTILE = "formats/test_hostile_logs.py"

MUTANTS = [
    (
        "text/rows.py",
        "    except RecursionError as error:",
        "    except EOFError as error:",
        HOSTILE,
    ),
    (
        "text/rows.py",
        "        if _ESCAPED_HALF.search(",
        "        if False and _ESCAPED_HALF.search(",
        HOSTILE,
    ),
    ("formats/samples.py", "    if count > MOST:", "    if False:", HOSTILE),
    (
        "formats/inspect_log.py",
        "    if info.file_size > _LARGEST_MEMBER:",
        "    if False:",
        HOSTILE,
    ),
    (
        "formats/inspect_log.py",
        "stream.read(info.file_size + 1)",
        "stream.read()[: info.file_size]",
        HOSTILE,
    ),
    ("text/plain.py", "\\x7f-\\x9f", "\\x7f", "cli/test_steering.py"),
    ("report/page.py", "        finalize=_steered,\n", "", "cli/test_steering.py"),
    (
        "cli/saying.py",
        "click.echo(visible(text), err=err)",
        "click.echo(text, err=err)",
        "cli/test_steering.py",
    ),
]

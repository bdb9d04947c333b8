"""Mutants of what is done with files, names and texts of others."""

HOSTILE = "formats/test_hostile_logs.py"
TEMPLATES = "engines/test_templates.py"
PLUG_INS = "examples/test_broken_plug_ins.py"

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
    (
        "engines/loading.py",
        "    require_sound(tokenizer, _template_of(files))\n",
        "",
        f"{TEMPLATES}::test_one_that_ignores_the_question_is_refused",
    ),
    ("engines/loading.py", "own if own.is_file() else", "own if True else", TEMPLATES),
    (
        "engines/templates.py",
        "    if not asks(prompt, question):\n        raise",
        "    if False:\n        raise",
        TEMPLATES,
    ),
    (
        "engines/templates.py",
        "if not receiver.poll(SECONDS):",
        "if not receiver.poll(0):",
        TEMPLATES,
    ),
    ("engines/templates.py", "        _limit_memory()\n", "", TEMPLATES),
    ("engines/templates.py", "if len(prompts[-1]) > CHARACTERS:", "if False:", TEMPLATES),
    ("engines/templates.py", " and prompts[0] != prompts[1]", "", TEMPLATES),
    ("engines/templates.py", "    except EOFError:", "    except KeyError:", TEMPLATES),
    (
        "registry.py",
        "    except (Exception, SystemExit) as error:",
        "    except Exception as error:",
        PLUG_INS,
    ),
    ("registry.py", "        if own == _OURS:\n            return None\n", "", PLUG_INS),
    ("store/files.py", "visible(json.dumps(", "str(json.dumps(", "cli/test_steering.py"),
    ("registry.py", "    if lacking:", "    if False:", PLUG_INS),
    (
        "cli/__init__.py",
        "    except (Exception, SystemExit) as error:",
        "    except Exception as error:",
        PLUG_INS,
    ),
    ("scorers/family.py", "isinstance(score, SupportsFloat)", "True", PLUG_INS),
    ("scorers/family.py", "if isinstance(scores, Sized) else", "if True else", PLUG_INS),
    ("inputs/gather.py", "    _require_lists(source, texts, prompts)\n", "", PLUG_INS),
    ("objective/terms.py", "        if shape != (batch.rows,):", "        if False:", PLUG_INS),
    (
        "engines/embedding.py",
        "        own() if own else None,\n",
        "",
        "engines/test_sentence_models.py",
    ),
    ("engines/fingerprint.py", "if key not in _LENGTHS", "", "engines/test_sentence_models.py"),
    ("engines/models.py", "folder.rglob(", "folder.glob(", "engines/test_sentence_models.py"),
    (
        "evaluation/draws/inputs.py",
        '        asked |= {f"embedder',
        '        {f"embedder',
        "engines/test_sentence_models.py",
    ),
    # what the files of a model state
    ("engines/stated.py", "    if asked > held:", "    if False:", "cli/test_hostile_files.py"),
    (
        "engines/stated.py",
        "    _require_ends(folder / _GENERATION)\n",
        "",
        "cli/test_hostile_files.py",
    ),
    (
        "engines/stated.py",
        "    if not all(end is None or type(end) is int for end in listed):",
        "    if False:",
        "cli/test_hostile_files.py",
    ),
    (
        "engines/endpoint.py",
        '        raise ValueError("a content that is no text")',
        "        return None",
        "engines/test_lying_servers.py",
    ),
    (
        "formats/inspect_log.py",
        'f"text in `{path}`. Evaluate',
        '"text. Evaluate',
        "cli/test_hostile_files.py",
    ),
]

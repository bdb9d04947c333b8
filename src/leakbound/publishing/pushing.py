"""Push a run to the hub: what goes is settled and listed first, then sent in one commit.

Deviation from what the hub's own tools do: the token is that of the environment alone, never one
that a login left on this machine, and a repository that is public already is refused unless the
caller says that the run may be.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from leakbound import __version__
from leakbound.errors import IncompleteError, InputError, needing
from leakbound.evaluation import Table, run_verdicts, summary
from leakbound.reporting import PAGE, REDACTED_PAGE, write_report
from leakbound.store import Run
from leakbound.text.shown import visible

TOKEN = "HF_TOKEN"
_CARD, _CERTIFICATE = "README.md", "certificate.json"
_WITHOUT_TEXTS = ("estimates.parquet", "utility.json", _CERTIFICATE)
_KIND = "dataset"


@dataclass(frozen=True, slots=True)
class Upload:
    """What is sent to a repository of the hub.

    Attributes:
        to: the repository, `OWNER/NAME`, of the hub's kind "dataset".
        files: what each file of it holds, by its name there.
        redacted: whether questions' answers and completions were left out.
        url: where it is; None where nothing was sent.
    """

    to: str
    files: Mapping[str, bytes | Path]
    redacted: bool
    url: str | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each file, by its name."""
        return {
            name: len(held) if isinstance(held, bytes) else held.stat().st_size
            for name, held in self.files.items()
        }


def push(
    run: Run | str | Path,
    to: str,
    *,
    public: bool = False,
    redact: bool | None = None,
    dry_run: bool = False,
) -> Upload:
    """Put a run on the hub, into a repository that is private unless told otherwise.

    It holds the page, the tables, the certificate where there is one, and a card. The token is
    that of $HF_TOKEN, the hub that of $HF_ENDPOINT.

    Args:
        run: a run with estimates, or its folder.
        to: the repository, `OWNER/NAME`; it is made where there is none.
        public: the repository may be seen by everybody.
        redact: leave out whatever quotes answers or completions: only the page without texts,
            estimates, utility and certificate go (None: as `leakbound report` was told).
        dry_run: send nothing.

    Raises InputError for a name, a token or a repository that cannot be used, IncompleteError
    where the hub was not reached.
    """
    upload = prepare(run, to, redact=redact)
    return upload if dry_run else send(upload, public=public)


def prepare(run: Run | str | Path, to: str, *, redact: bool | None = None) -> Upload:
    """What `push` would send, with the same arguments; nothing leaves this machine."""
    opened = run if isinstance(run, Run) else Run.open(Path(run))
    if to.count("/") != 1 or not all(to.split("/")):
        raise InputError(f"`to` must be OWNER/NAME, a repository of the hub, got {to!r}.")
    if not opened.estimates:
        raise InputError(f"{opened.path} has no estimates. Score and bound it first.")
    redacted = opened.redacted if redact is None else redact
    files: dict[str, bytes | Path] = {
        name: path for name, path in _stored(opened.path) if not redacted or name in _WITHOUT_TEXTS
    }
    page = REDACTED_PAGE if redacted else PAGE
    with TemporaryDirectory() as folder:
        made = write_report({opened.path.name: opened}, Path(folder) / page, redact=redacted)
        files[page] = made.read_bytes()
    certificate = _certificate(files.get(_CERTIFICATE))
    files[_CARD] = run_card(opened, files, certificate).encode()
    return Upload(to, dict(sorted(files.items())), redacted)


def send(upload: Upload, *, public: bool = False) -> Upload:
    """Send it in one commit: all of it is there, or nothing. See `push`."""
    token = os.environ.get(TOKEN)
    if not token:
        raise InputError(
            f"${TOKEN} is not set, and no other token is used. Set it to one of yours."
        )
    with needing("pushing to the hub", "models"):
        from huggingface_hub import CommitOperationAdd, HfApi, get_session
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    # The library that the hub's client asks with has had several names.
    transport = import_module(type(get_session()).__module__.partition(".")[0])
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), token=token)
    try:
        _require_kept(api, upload.to, public)
        operations = [
            CommitOperationAdd(path_in_repo=name, path_or_fileobj=held)
            for name, held in upload.files.items()
        ]
        made = api.create_commit(
            upload.to, operations, commit_message="A run of leakbound", repo_type=_KIND
        )
    except (HfHubHTTPError, HFValidationError) as error:
        raise InputError(f"the hub refused `{upload.to}`: {_line(error)}") from error
    except (OSError, transport.HTTPError) as error:
        raise IncompleteError(
            f"the hub was not reached: {_line(error)}. Run the same command again."
        ) from error
    return Upload(upload.to, upload.files, upload.redacted, str(made.repo_url))


def _require_kept(api: Any, to: str, public: bool) -> None:
    """The repository is there, and as private as was asked for, before anything is sent."""
    api.create_repo(to, repo_type=_KIND, private=not public, exist_ok=True)
    if not public and not api.repo_info(to, repo_type=_KIND).private:
        raise InputError(
            f"`{to}` is public already. Name another repository, or allow it with --public."
        )


def _stored(run: Path) -> Iterator[tuple[str, Path]]:
    """The tables and records of a run: Parquet and JSON, by their names in it."""
    for path in sorted(run.rglob("*")):
        if path.suffix in (".parquet", ".json") and path.is_file() and not path.is_symlink():
            yield path.relative_to(run).as_posix(), path


def _certificate(held: bytes | Path | None) -> Mapping[str, object] | None:
    if held is None:
        return None
    read = json.loads(held if isinstance(held, bytes) else held.read_bytes())
    return read if isinstance(read, dict) else None


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


_CAUTION = (
    "Every interval holds by itself at its confidence, for these questions under this decoding. "
    "A model that never saw the data scores above 0 too: look at the control."
)


def run_card(run: Run, names: Iterable[str], certificate: Mapping[str, object] | None) -> str:
    """A README in Markdown, with the metadata that the hub reads.

    `names` are the files beside it; `certificate` is the run's, where it has one. It quotes no
    question, answer or completion.
    """
    study = run.record.benchmark
    parts = [
        "---", "tags: [leakbound, unlearning]", *_viewer(names), "---", "",
        f"# What a model leaks on {visible(study.name)}", "",
        f"{study.prompts:,} questions, bounded with leakbound {__version__}. {_CAUTION}", "",
        *(line for found in run_verdicts(run) for line in _lines(str(found))),
        *(line for table in summary(run) for line in _table(table)),
        *_verdict(certificate),
    ]  # fmt: skip
    return "\n".join(parts)


def _viewer(names: Iterable[str]) -> list[str]:
    """The tables that the hub's viewer shows, and `datasets` loads by name."""
    tables = sorted(name for name in names if name == "estimates.parquet")
    if not tables:
        return []
    rows = (f"- {{config_name: estimates, data_files: {json.dumps(name)}}}" for name in tables)
    return ["configs:", *rows]


def _table(table: Table) -> list[str]:
    rule = "|".join("---" for _ in table.columns)
    rows = (" | ".join(map(_cell, row)) for row in [table.columns, *table.texts])
    heading, *body = (f"| {row} |" for row in rows)
    return [
        f"## {visible(table.title)}", "", *_lines(table.lead), heading, f"|{rule}|", *body, "",
        *_lines(table.note),
    ]  # fmt: skip


def _lines(text: str) -> list[str]:
    return [each for line in text.splitlines() for each in (visible(line), "")]


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|").replace("\n", " ")


def _verdict(certificate: Mapping[str, object] | None) -> list[str]:
    if certificate is None:
        return []
    return ["## Certificate", "", visible(str(certificate.get("sentence", ""))), ""]

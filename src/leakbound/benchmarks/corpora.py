"""Load plain texts to train on: the corpora of MUSE and WMDP, and the user's files.

`muse:news/forget` is a split of MUSE's subset `raw`. Names of splits in other subsets contain the
subset, as in `muse:news/scal/forget_2`. `muse:news/train/forget` and `muse:news/train/retain2` are
the training data of MUSE's target models. `wmdp:cyber/retain` is one of WMDP's corpora. The files
come from the hub, or from a folder with the same files. On the hub, they are in
`muse-bench/MUSE-News` and `-Books`, `cais/wmdp-corpora`, and `cais/wmdp-bio-forget-corpus` (access
on request). Models are trained on these texts. The benchmarks with the same names measure how much
the models still know.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leakbound.benchmarks.muse import CORPORA as MUSE
from leakbound.benchmarks.muse import choose_file
from leakbound.benchmarks.source import checked, open_source
from leakbound.errors import InputError
from leakbound.registry import suggestion
from leakbound.text.rows import FORMS, read_rows, read_text
from leakbound.types import Passage

_RAW = "raw"
_SPLITS = {  # by subset of MUSE, without the subsets for evaluation
    _RAW: ("forget", "retain1", "retain2", "holdout"),
    "scal": ("forget_1", "forget_2", "forget_3", "forget_4"),
    "sust": ("forget_1", "forget_2", "forget_3", "forget_4"),
    "train": ("forget", "retain2"),
}
# WMDP's corpora: for each the repository, the folder in it, and the number of files.
_WMDP = {
    "bio/forget": ("cais/wmdp-bio-forget-corpus", "data", 2),
    "bio/retain": ("cais/wmdp-corpora", "bio-retain-corpus", 4),
    "cyber/forget": ("cais/wmdp-corpora", "cyber-forget-corpus", 1),
    "cyber/retain": ("cais/wmdp-corpora", "cyber-retain-corpus", 1),
}
_PLAIN = (".txt", ".md")
_ENDINGS = (*_PLAIN, *FORMS)
_NAMES = (
    *(f"muse:{corpus}/{split}" for corpus in MUSE for split in _SPLITS[_RAW]),
    *(f"wmdp:{name}" for name in _WMDP),
)


def load_corpus(
    spec: str, *, data: str | Path | None = None, limit: int | None = None
) -> tuple[Passage, ...]:
    """Load the texts of `spec`: `muse:news/retain1`, `wmdp:cyber/forget`, a file or a folder.

    A .txt or .md file is one text. A .jsonl, .json, .csv or .parquet file has one text per row, in
    the column `text` or as a plain JSON string. All such files in a folder are loaded.

    Args:
        spec: a named corpus, a file, or a folder.
        data: a folder with the files of the corpus, as for `load_benchmark`.
        limit: keep only the first texts, at least 1 (None: all).

    Returns:
        The texts that are not blank, in order, with ids made of `spec` and a number.

    Raises:
        InputError: the name is unknown, a file cannot be read, the limit is below 1, or there is no
            text.
    """
    texts = [document.text for document in load_documents(spec, data=checked(data, limit))][:limit]
    return tuple(Passage(id=f"{spec}/{i:05d}", text=text) for i, text in enumerate(texts))


def load_documents(spec: str, *, data: Path | None = None) -> tuple[Passage, ...]:
    """Load the texts of a corpus.

    The id of a text is the name of its file. If the file has rows, the id also contains the number
    of the row.
    """
    folder = Path(data or "", spec)
    documents = []
    for file in _files(spec, data):
        name = file.relative_to(folder).as_posix() if folder.is_dir() else file.name
        rows = file.suffix.lower() not in _PLAIN
        documents += [
            Passage(id=f"{name}/{row:05d}" if rows else name, text=text)
            for row, text in enumerate(_texts(file), start=1)
            if text.strip()
        ]
    if not documents:
        raise InputError(f"{spec!r} contains no text, only blanks. Check the file.")
    return tuple(documents)


def _files(spec: str, data: Path | None) -> Sequence[Path]:
    family, _, argument = spec.partition(":")
    if family == "muse" and "/" in argument:
        return [_muse(argument, spec, data)]
    if family == "wmdp" and argument in _WMDP:
        return _wmdp(argument, data)
    path = Path(data or "", spec)
    if path.is_dir():
        return _inside(path)
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(
            f"there is no corpus {spec!r}. {suggestion(spec, _NAMES)} Or specify a text file "
            f"({', '.join(_ENDINGS)}) or a folder of text files."
        )
    return [path]


def _inside(folder: Path) -> Sequence[Path]:
    """Return the text files in a folder and its subfolders, sorted by path. Omit hidden files."""
    inside = (file.relative_to(folder) for file in folder.rglob("*"))
    shown = {
        at.as_posix(): folder / at
        for at in inside
        if at.suffix.lower() in _ENDINGS and not any(part.startswith(".") for part in at.parts)
    }
    if not shown:
        raise InputError(
            f"the folder {str(folder)!r} contains no text file ({', '.join(_ENDINGS)}). Add a text "
            "file, or name another folder."
        )
    return [shown[name] for name in sorted(shown)]


def _muse(argument: str, spec: str, data: Path | None) -> Path:
    corpus, *between, split = argument.split("/")
    subset = "/".join(between) or _RAW
    if corpus not in MUSE or split not in _SPLITS.get(subset, ()):
        names = [f"muse:{c}/{s}/{part}" for c in MUSE for s in _SPLITS for part in _SPLITS[s]]
        raise InputError(f"MUSE has no corpus {spec!r}. {suggestion(spec, (*_NAMES, *names))}")
    source = open_source(data, folder="muse", repo=f"muse-bench/{MUSE[corpus][1]}")
    return choose_file(source, corpus, [f"{subset}/{split}"], _ENDINGS)


def _wmdp(name: str, data: Path | None) -> Sequence[Path]:
    repo, inner, count = _WMDP[name]
    source = open_source(data, folder="wmdp-corpora", repo=repo)
    hub = [f"{inner}/train-{i:05d}-of-{count:05d}.parquet" for i in range(count)]
    stem = f"{name.replace('/', '-')}-corpus"
    if source.folder is not None:
        own = [path for ending in _ENDINGS if (path := source.find(f"{stem}{ending}"))]
        if own:
            return own[:1]
    return [source.choose(file, [f"{stem}.jsonl"]) for file in hub]


def _texts(file: Path) -> list[str]:
    if file.suffix.lower() in _PLAIN:
        return [read_text(file)]
    rows = read_rows(file, bare="text")
    return [row.maybe("text") or "" if "text" in row.values else row.text("text") for row in rows]

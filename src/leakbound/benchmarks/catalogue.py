"""Load a benchmark by its spec. `BENCHMARKS` contains all built-in benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from leakbound.benchmarks import (
    coin,
    continuation,
    fictitious,
    muse,
    question_lists,
    table,
    tofu,
    wmdp,
)
from leakbound.benchmarks.benchmark import Benchmark, Loaded
from leakbound.benchmarks.profiles import profiles, with_profile
from leakbound.benchmarks.source import checked
from leakbound.errors import InputError
from leakbound.inputs.sources import read_rewritings
from leakbound.registry import find, near, opening, plug_ins, require_parts
from leakbound.text.rows import FORMS
from leakbound.types import BenchmarkRecord, Prompt

BENCHMARKS: dict[str, Callable[[str, Path | None], Benchmark]] = {
    "continuation": continuation.load,
    "csv": partial(table.load, "csv"),
    "fictitious": fictitious.load,
    "harry-potter": question_lists.load_harry_potter,
    "jbb": question_lists.load_jbb,
    "jsonl": partial(table.load, "jsonl"),
    "muse": muse.load,
    "parquet": partial(table.load, "parquet"),
    "tofu": tofu.load,
    "tofu-mini": tofu.load_mini,
    "wmdp": wmdp.load,
    "taught": lambda argument, data: coin.load("taught", load_benchmark, argument, data),
    "untaught": lambda argument, data: coin.load("untaught", load_benchmark, argument, data),
}


def load_benchmark(
    spec: str,
    *,
    data: str | Path | None = None,
    limit: int | None = None,
    profile: str | None = None,
) -> Benchmark:
    """Load the benchmark of a spec: `tofu:forget10`, `fictitious:authors=12`, `my.csv`.

    Args:
        spec: a benchmark's name, with its argument after a colon, or a file.
        data: a folder with the benchmark's files (None: the files are searched in the folder that
            the environment variable LEAKBOUND_DATA names, then on the Hugging Face hub).
        limit: keep only the first evaluated prompts, at least 1 (None: all).
        profile: the name of a profile in `profiles()`. Its settings replace the benchmark's
            settings (None: no profile).

    Returns:
        The benchmark. Splits other than the evaluated split are loaded on demand.

    Raises:
        InputError: for an unknown name or profile, an unusable file or folder, or a limit below 1.
    """
    folder = checked(data, limit)
    name, _, argument = spec.partition(":")
    if name not in BENCHMARKS and Path(spec).suffix.lower() in FORMS:
        name, argument = FORMS[Path(spec).suffix.lower()], spec
    if name not in BENCHMARKS and Path(spec).suffix and (hint := near(Path(spec))):
        raise InputError(f"there is no benchmark or file {spec!r}. {hint}Check the name.")
    file = next((file for end in FORMS if Path(file := f"{spec}{end}").is_file()), None)
    if file and name not in BENCHMARKS and name not in plug_ins("benchmark"):
        raise InputError(f"unknown benchmark {spec!r}. Did you mean the file {file!r}?")
    load = find("benchmark", BENCHMARKS, name)
    loaded = Loaded(
        spec=_from_anywhere(name, spec, argument, folder),
        data=None if folder is None else str(folder.resolve()),
        limit=limit,
        profile=profile,
    )
    with opening("benchmark", name):
        made = load(argument, folder)
    require_parts("benchmark", name, made, (field.name for field in fields(Benchmark)))
    if made.loaded is not None:  # it is one half of another benchmark
        loaded = replace(loaded, spec=made.loaded.spec)
    benchmark = replace(made, loaded=loaded)
    if profile is not None:
        chosen = find("profile", profiles(), profile)
        benchmark, limit = with_profile(benchmark, chosen), limit or chosen.rows
    if limit is None:
        return benchmark
    prompts = benchmark.prompts
    return replace(benchmark, prompts=prompts[:limit], left_out=prompts[limit:])


def made_again(record: BenchmarkRecord) -> Benchmark | None:
    """Load the benchmark of a run again if leakbound generates its rows; else return None.

    Args:
        record: the record of a run; only its name and profile are used.

    Returns:
        The benchmark without a limit; None if its rows come from files.

    Raises:
        InputError: for a name that is not the name of a benchmark.
    """
    whole = record.name
    while whole.partition(":")[0] in ("taught", "untaught"):
        whole = whole.partition(",")[2]
    if whole.partition(":")[0] != "fictitious":
        return None
    return load_benchmark(record.name, profile=record.profile)


def _from_anywhere(name: str, spec: str, argument: str, data: Path | None) -> str:
    """Return the spec with the absolute path of its file, for use from any working directory."""
    if data is not None:
        return spec
    if name == "continuation":
        return f"{name}:{continuation.from_anywhere(argument)}"
    if name not in FORMS.values():
        return spec
    return f"{name}:{Path(argument).resolve()}"


def with_rewritings(prompts: Sequence[Prompt], path: str | Path) -> tuple[Prompt, ...]:
    """Return the prompts, with the rewritings of a file added to their paraphrases.

    Args:
        prompts: the prompts of a benchmark.
        path: a file in the form that `leakbound.inputs.sources.read_rewritings` describes.

    Returns:
        The prompts, in order.

    Raises:
        InputError: in the same cases as `read_rewritings`.
    """
    texts = read_rewritings(prompts, Path(path))
    return tuple(
        replace(prompt, paraphrases=prompt.paraphrases + texts[prompt.id]) for prompt in prompts
    )

"""A forger changes one place of a finished run, renews all digests, and verifies the run.

The forger has this code: records are sealed again, tables get the required digests and owner,
scores are computed again, and the certificate is new. The places come from a walk through the files
of a run. `UNCHECKED` lists the places without a check.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import leakbound
from certificate.opened_once import TASK, opened, tiny_model
from leakbound.certificate.assumptions import SURROUNDINGS
from leakbound.drawing.sample import draw_arm
from leakbound.engines import Prompting
from leakbound.errors import LeakboundError
from leakbound.store import load, tables, write_json, write_sealed
from leakbound.store.files import digest_of, read_sealed
from leakbound.stress.bench import MADE
from leakbound.stress.weights import Round
from leakbound.study import Explore, ModelSettings, Prove, Rewritings, Until
from leakbound.types import Decoding, Prompt
from leakbound.unlearning import TrainingSettings

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")]

Values = dict[str, Any]
Change = Callable[[Path], Path | None]  # of a run; it may return another model to verify with
IDS = [prompt.id for prompt in TASK.prompts]
SCORER, ON = "keyword", {"device": "cpu"}
KINDS: dict[str, tuple[str, Values]] = {
    "fixed n": ("target", {"prove": Prove(8)}),
    "until decided": ("target", {"sampling": Until("p<=0.5", most=64), "n": None}),
    "rewritings": ("target inputs", {"rewritings": Rewritings("benchmark", queries=2)}),
    "rounded": ("target under round int4", {"stress": "round:int4"}),
    "shown pairs": ("target under shots 1", {"stress": "shots:1"}),
    "explored": ("target", {"sampling": Explore("hybrid", 40), "n": None}),
    "imported": ("target", {}),
}
"""By name: the certified arm, and how to make the run."""
ROUNDED = "stress/round int4/target"
BY_HAND = {
    "fixed n": ("other answers", "harmless questions", "shares", "taught everybody"),
    "rounded": ("another model",),
}
DEEP = ("run.json: other arms.*.*.*", "other arm, *: *.*")
ONCE = (
    "run.json: [!ai]*", "other arm*", "prompts: *", "*: forced, *", "*usage*", "*machine*",
    "*fingerprint*", "*decoding*", "*probe*",
)  # fmt: skip
"""Places that are changed in the first kind of run only."""
RECORDED, ASIDE = "recorded by the run", "no statement depends on it"
_UNCHECKED = f"""
{RECORDED} | run.json: | format, version, created, place, notes*, claims*
{RECORDED} | run.json: arms.*. | model, place
the name of a benchmark without known rows | run.json: benchmark. | name, origin
the name of a benchmark without known rows | run.json: benchmark. | profile, usual*, half*
rewritings that do not follow from the questions | run.json: | inputs*
drawn after an exploration | run.json: arms.*. | draws*, seed
drawn after an exploration | completions: | missing, chunk, count, row *
drawn after an exploration | masses: | remainder*, settled*, forwards*, *row *
a change makes the statements weaker | | *masses: *mass, proofs: *mass, proofs: *row *
the same draws are made | run.json: arms.*.fingerprint. | {", ".join(SURROUNDINGS)}, prompting*
made by another tool or run | run.json: arms.*. | copied*
the largest number of draws, fixed before | run.json: arms.*. | plan.n
{ASIDE} | run.json: | study*, scorers*, headline*, redacted, attack*, tried*
{ASIDE} | run.json: arms.*. | machine*, probe*
{ASIDE} | | inputs.json: *, stress: *, *other arm*
{ASIDE} | proofs: | most, searched, forwards*
{ASIDE} | | run.json: files, looks.json: arm, completions: forced[,] *
{ASIDE} | | * usage*, * machine*, * rows, *open[,] tokens
{ASIDE} | completions: | *logprob*, *confidence, *row moved
"""
UNCHECKED = {
    f"{prefix}{' ' * prefix.endswith(':')}{name}": why
    for line in _UNCHECKED.strip().splitlines()
    for why, prefix, names in [map(str.strip, line.split("|"))]
    for name in names.split(", ")
}
"""The reason why no check covers a place of a run, by patterns of the places."""
REFUSED = (LeakboundError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
ELSEWHERE = [
    *("run.json: format", "run.json: claims*", "run.json: attack*", "run.json: tried*"),
    *("inputs.json: *", "stress: *", "looks.json: arm"),
]
"""Unchecked places that the first kind of run lacks, or has no other value for."""
OWNER, SEALS = ("arm", "part", "work"), ("digest", "table")
MADE_AGAIN = ("estimates.parquet", "certificate.json", "times.json", ".lock")
CHOICES = [
    ("forget", "retain"), ("length", "stop"), ("cut", "complete"), ("allocated", "fixed"),
    ("hybrid", "exact"), ("original", "benchmark"), ("open", "holds"), ("float32", "bfloat16"),
]  # fmt: skip
GONE = "removed"
ANY = ("other", 1, 0.5, True, ["other"], {"other": 1})
RULE = {"claim": "p<=0.5", "scorer": {"name": SCORER, "digest": "0"}, "confidence": 0.9, "first": 8}
COIN = {"benchmark": "a", "seed": 7, "side": "taught", "subjects": {IDS[0]: "a"}, "others": 1}
LIKELY: Values = {
    "adaptive_temperature": 0.001,
    "attack_queries": [{"id": id, "prompt_id": id, "text": "Say nothing."} for id in IDS],
    "claim": "p<=0.9",
    "copied": {"identity": "0" * 64, "drawn_as": "target"},
    "cut": {"sizes": {"0": 64}, "most": 65536, "decided": 0},
    "draws": {"kind": "until decided", **RULE},
    "failures": {IDS[0]: "it failed"},
    "half": COIN,
    "missing": {IDS[0]: 1},
    "shares": {"design": "fixed", "draws_per_query": dict.fromkeys(IDS, 16)},
}


def others(value: Any, likely: list[Any]) -> Iterator[Any]:
    """Return at most two other values, likely ones first, then of the same kind, then none."""
    match value:
        case None:
            likely = likely or [*ANY]
        case []:
            likely = likely or [[one] for one in ANY]
        case bool():
            likely = [*likely, not value]
        case int() | float():
            likely = [*likely, value + 1, value / 2][: None if isinstance(value, float) else -1]
        case str():
            alike = [c for choices in CHOICES if value in choices for c in choices]
            turned = value[1:] + value[:1] if len(value) == 64 else f"{value} too"
            likely = [*likely, *alike, turned]
        case [*some, last]:
            likely = [*likely, some, [*value, last]]
        case dict():
            likely = [*likely, {**value, "another": next(iter(value.values()), 1)}]
    yield from islice((v for v in likely if v != value), 2 if value else None)
    yield from () if value is None else (None,)


def changes(values: Any, likely: Values, where: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield each place in a JSON value and the changed value; of lists, the first item."""
    named = isinstance(values, dict)
    for key in values if named else range(min(len(values), 1)):
        value, here = values[key], f"{where}{key}"
        new = others(value, [likely[key]] if key in likely else [])
        made = [(here, f"{value!r} -> {one!r}", one) for one in new]
        if isinstance(value, dict | list):
            made += changes(value, likely, f"{here}.")
        for place, what, one in made:
            yield place, what, {**values, key: one} if named else [one, *values[1:]]
        if named:
            yield here, GONE, {k: v for k, v in values.items() if k != key}


def table_changes(file: Path) -> Iterator[tuple[str, str, pa.Table, Values]]:
    """Yield each place in a table: in its metadata, and in a row of each kind."""
    table, meta = tables.read_table(file).replace_schema_metadata(None), tables.read_meta(file)
    owned = {k: v for k, v in meta.items() if k in OWNER}
    for place, what, new in changes(
        {k: meta[k] for k in meta if k not in (*OWNER, *SEALS)}, LIKELY
    ):
        yield place, what, table, new | owned
    rows = table.to_pylist()
    kinds = [
        "forced, " * (r.get("count") == 0) + "open, " * (r.get("ended") is False) for r in rows
    ]
    for kind in dict.fromkeys(kinds):
        at = kinds.index(kind)
        before, row, after = rows[:at], rows[at], rows[at + 1 :]
        theirs = {k: r[k] for r in (*before, *after) for k in r if r[k] != row[k]}
        made = [(p, w, [*before, new, *after]) for p, w, new in changes(row, theirs) if w != GONE]
        made.append(("row dropped", "", [*before, *after]))
        made.append(("row doubled", "", [row, *rows]))
        made.append(("row moved", "", [*after, row, *before]))
        for place, what, now in made:
            with suppress(pa.ArrowException):  # no cell of this column can store it
                forged = pa.Table.from_pylist(now, table.schema)
                if not forged.equals(table):
                    yield f"{kind}{place}", what, forged, {**meta, "rows": len(now)}


def forgeries(run: Path, name: str) -> Iterator[tuple[str, str, Change]]:
    """Yield every change of every file that is not recomputed: its place and the change."""
    yield from ((f"by hand: {how}", "", partial(by_hand, how)) for how in BY_HAND.get(name, ()))
    mine = KINDS[name][0]
    for file in sorted(path for path in run.rglob("*") if path.is_file()):
        at = file.relative_to(run)
        within = at.parts[2] if at.parts[0] == "arms" else at.name
        within = within.removesuffix(".parquet")
        if at.parts[0] == "arms" and at.parts[1] != mine:
            within = f"other arm, {within}"
        later = file.stem.startswith("part-") and file.stem != "part-00000"
        if later or file.parent.name == "scores" or file.name in MADE_AGAIN:
            continue
        if at.parts[0] == "stress":
            yield f"stress: {within}", "edited", partial(edited, at)
        elif file.suffix == ".parquet":
            for place, what, *new in table_changes(file):
                yield f"{within}: {place}", what, partial(written, at, *new)
        else:
            for place, what, values in changes(read_sealed(file, ""), LIKELY):
                other = "other " * place.startswith("arms.")
                place = place if place.startswith(f"arms.{mine}") else f"{other}{place}"
                yield (
                    f"{within}: {place}",
                    what,
                    lambda run, at=at, new=values: write_sealed(run / at, new),
                )


def edited(at: Path, run: Path) -> None:
    data = bytearray((run / at).read_bytes())
    data[len(data) // 2] ^= 1
    (run / at).write_bytes(data)


def written(at: Path, table: pa.Table, meta: Values, run: Path) -> None:
    """Write a table as the store does, with any metadata, and renew the record."""
    kept = {k: v for k, v in meta.items() if k not in SEALS} | {"table": tables.digest(table)}
    kept["digest"] = digest_of(kept)
    bare = table.replace_schema_metadata({b"leakbound": json.dumps(kept).encode()})
    pq.write_table(bare, run / at)
    record: Values = read_sealed(run / "run.json", "")
    if at.name in record["files"]:
        record["files"] |= {at.name: kept["digest"]}
    if at.name == "prompts.parquet":
        with suppress(*REFUSED):
            now = replace(TASK, prompts=tuple(tables.values_of(Prompt, table))).fingerprint()
            record["benchmark"] |= {"sha256": now.sha256, "prompts": now.prompts}
    write_sealed(run / "run.json", record)


def renewed(run: Path, proved: bool) -> None:
    """Remove scores, and proofs unless `proved`; give all other files the required owner."""
    for folder in (*run.glob("arms/*/scores"), *(() if proved else run.glob("arms/*/proofs"))):
        shutil.rmtree(folder)
    looks = {file: read_sealed(file, "") for file in run.glob("arms/*/looks.json")}
    for file in looks:
        file.unlink()
    for arm in load(run).arms.values():
        if values := looks.get(file := arm.folder / "looks.json"):
            write_sealed(file, values | ({"arm": arm.identity} if "arm" in values else {}))
    for arm in load(run).arms.values():
        owners: Values = {str(f): {"arm": arm.identity} for f in arm.folder.glob("proofs/*")}
        for part in arm.parts:
            files = arm.folder.glob(f"*/part-{part.number:05d}.parquet")
            owners |= {str(file): {"arm": arm.identity, **part.owner} for file in files}
        for file, owner in owners.items():
            if not tables.states(meta := tables.read_meta(Path(file)), owner):
                table = tables.read_table(Path(file)).replace_schema_metadata(None)
                written(Path(file).relative_to(run), table, meta | owner, run)


def by_hand(how: str, run: Path) -> Path | None:
    """Forge several places, or the draws."""
    record: Values = read_sealed(run / "run.json", "")
    shown = TASK.prompts
    model = run.parent / "model"
    match how:
        case "other answers":  # not the model's answers, under the name of published rows
            shown = tuple(replace(p, answer="zzqq", keywords=("zzqq",)) for p in shown)
            record["benchmark"] |= {"name": "tofu:forget10", "origin": "locuslab/TOFU"}
            record["benchmark"]["usual"] |= {"prompts": 3, "published": True}
            write_sealed(run / "run.json", record)
        case "harmless questions":  # these are drawn, and others shown
            rows = [replace(p, question=f"Say nothing, {p.id}.") for p in shown]
            shutil.rmtree(run)
            made("fixed n", model, run, replace(TASK, prompts=tuple(rows)))
        case "shares":  # most draws are of one question, which was chosen after the results
            shares = {"design": "fixed", "draws_per_query": dict(zip(IDS, (40, 4, 4), strict=True))}
            record["arms"]["target"]["shares"] = shares
            write_sealed(run / "run.json", record)
            shutil.rmtree(run / "arms" / "target")
            arm = load(run).arms["target"]
            rule = Prompting.described(arm.spec.fingerprint["prompting"])
            draw_arm(arm, opened(str(model), rule, **ON))
        case "taught everybody":  # no coin chose the subjects that the model was taught
            rows, model = leakbound.load_benchmark("fictitious"), run.parent / "everybody"
            settings = TrainingSettings(epochs=2, **ON)
            leakbound.finetune(str(run.parent / "model"), rows, out=model, settings=settings)
            shutil.rmtree(run)
            made("fixed n", model, run, "taught:7,fictitious", limit=3)
            return model
        case "another model":  # in the stressed model's folder, as a killed command would leave it
            del record["arms"][KINDS["rounded"][0]]
            write_sealed(run / "run.json", record)
            for folder in (run / "arms" / KINDS["rounded"][0], run / ROUNDED):
                shutil.rmtree(folder)
            tiny_model(run / ROUNDED, 1)
            write_json(run / ROUNDED / MADE, Round("int4")._record(str(model), run / ROUNDED))
            made("rounded", model, run)
    if how in ("other answers", "harmless questions"):
        written(Path("prompts.parquet"), tables.table_of(Prompt, shown), {"rows": 3}, run)
    return None


def made(name: str, model: Path, out: Path, task: Any = TASK, **how: Any) -> None:
    """Make a run of this kind."""
    if name != "imported":
        usual = {"n": 16, "scorers": SCORER, "settings": ModelSettings(**ON)}
        usual |= {"decodings": Decoding(max_new_tokens=4)}
        given = {k: v for k, v in (usual | KINDS[name][1] | how).items() if v is not None}
        leakbound.evaluate(str(model), task, out=out, **given)
        return
    rows = [
        {"id": p.id, "question": p.question, "completion": text, "model": "m", "temperature": 1.0}
        for p in TASK.prompts
        for text in (*["no idea"] * 15, p.answer)
    ]
    file = out.with_suffix(".jsonl")
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    leakbound.import_run([file], out=out, benchmark=TASK)
    leakbound.import_run([file], out=again(out), benchmark=TASK)


def again(run: Path) -> Path:
    """Import the same files again."""
    return run.with_name("again")


def detected(name: str, run: Path, model: Path) -> str:
    """Return the checks that fail after scoring and certifying again; empty if verified."""
    arm, file = KINDS[name][0], run.with_suffix(".json")
    leakbound.score(load(run), SCORER)
    leakbound.bound(load(run))
    file.unlink(missing_ok=True)
    leakbound.certify(run, max_leak=0.9, scorer=SCORER, arm=arm, out=file)
    how: Values = {"model": str(model), "loading": ON, "redraw": 1.0}
    how |= {"redraw": None} if name == "explored" else {}
    how = {"imported": load(again(run))} if name == "imported" else how
    with patch("leakbound.certificate.model.open_engine", opened):
        result = leakbound.verify(file, run, **how)
    wrong = ("differs", "unchecked")
    return ", ".join(check.name for check in result.checks if check.status in wrong)


def played(name: str, run: Path, place: str, change: Change) -> str:
    """Return the checks that detect a change of the run; empty if none does."""
    copy = Path(shutil.copytree(run, run.with_name("forged")))
    try:
        model = change(copy) or run.parent / "model"
        renewed(copy, place.startswith("proofs"))
        same = "run.json" in place and load(copy).record == load(run).record
        return "it is read as before" if same else detected(name, copy, model)
    except REFUSED as error:
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(copy)


@pytest.mark.parametrize("kind", KINDS)
def test_every_forgery_is_detected_or_assumed(kind: str, tmp_path: Path) -> None:
    run, model = tmp_path / "run", tmp_path / "model"
    tiny_model(model, 0)
    made(kind, model, run)
    assert not detected(kind, run, model), "an honest run is verified"
    passed = DEEP if kind == "fixed n" else ONCE
    missed: dict[str, str] = {}
    for place, what, change in forgeries(run, kind):
        if place in missed or any(fnmatchcase(place, pattern) for pattern in passed):
            continue
        if not played(kind, run, place, change):
            missed[place] = what
    left = [place for place in missed if not any(fnmatchcase(place, a) for a in UNCHECKED)]
    assert not left, "\n".join(f"{place}   {missed[place]}" for place in left)
    if kind == "fixed n":
        assert not any(place.endswith("plan.n") for place in missed), "only a cap is taken on trust"
        aside = [place for place, why in UNCHECKED.items() if why in (ASIDE, RECORDED)]
        checked = [a for a in aside if not any(fnmatchcase(place, a) for place in missed)]
        assert checked == ELSEWHERE, "what is checked is not on the list"

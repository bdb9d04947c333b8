"""Write the tables of the papers' claims into a page, from stored runs and from kept figures.

    python experiments/ledger.py --kept docs/reproduce/kept.json --out docs/reproduce/findings.md
    python experiments/ledger.py runs --data DATA --kept docs/reproduce/kept.json --out PAGE

The folder `runs` is the --out of `claims.py`. No model is loaded. Figures are the numbers measured
for a claim. If the runs of a claim are stored, its figures are computed from them and written into
the kept file; otherwise they are read from this file, if quantity, seeds and settings match.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import labelled
from claims import CLAIMS, EVERY, REASONS, SEEDS, Claim, Verdict, measured
from lab import Lab
from quantities import Figure
from sizes import BLOCKS, NAMED, OTHER_DATA, SIZES, TARGET

from leakbound.store import write_json
from runner import as_markdown, write_into

SHOWN = ("small", "middle")
LEFT_OUT = ("keyword:match=substring", "rouge-l-recall>=1", "rouge-l-f1>=0.5", "rouge-l-f1>=0.9")
SHOWN_SCORERS = tuple(name for name in labelled.SCORERS if name not in LEFT_OUT)
SCORERS = """\
## Error rates of scorers

Two language models labelled {counts} completions of the two benchmarks in the table. They saw
neither the model's name nor a score (`experiments/labelled/README.md`). A completion is labelled a
leak if it contains all information of the answer that the question does not contain. *Missed* are
leaks that the scorer does not find; *mistaken* are completions without a leak that the scorer
counts as leaks. The labels of the two models agree on {agree}.
`python experiments/labelled.py FILE` prints the rates of all scorers.
"""


def identity(claim: Claim, size: str) -> dict[str, Any]:
    """Return the seeds, and a digest of the quantity and of the settings of the claim's runs."""
    name = claim.data or NAMED[size]
    block = BLOCKS[name]
    alone = ("methods", "ablations", "more", "ways", "queried_at", "below", "utility")
    shared = {key: value for key, value in block.items() if key not in alone}
    every = {**block["methods"], **block["ablations"], **block["more"]}

    def chain(model: str) -> list[Any]:
        row = every.get(model)
        after = row.get("after", TARGET) if isinstance(row, dict) else TARGET
        return [model, row, *(chain(after) if after not in (TARGET, model) else ())]

    ways = {way: astuple(SIZES[name].ways[way]) for way in claim.runs}
    models = {way: [chain(model) for model in models] for way, models in claim.runs.items()}
    settings = [claim.quantity, shared, ways, models]
    digest = hashlib.sha256(json.dumps(settings, default=repr).encode()).hexdigest()[:16]
    return {"settings": digest, "seeds": list(claim.seeds(SEEDS))}


@dataclass
class Kept:
    """Stored figures of runs that may be deleted, by size and claim."""

    file: Path | None = None
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, file: Path | None) -> Kept:
        """Read a kept file, if it exists; raise SystemExit if `ledger.py` did not write it."""
        if file is None or not file.exists():
            return cls(file)
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
            return cls(file, {size: dict(rows) for size, rows in known.items()})
        except (ValueError, TypeError, AttributeError) as error:
            raise SystemExit(f"--kept: ledger.py did not write {file}. Pass another.") from error

    def put(self, claim: Claim, size: str, figures: Sequence[Figure]) -> None:
        """Store the figures of a claim."""
        row = identity(claim, size) | {"figures": [list(astuple(each)) for each in figures]}
        self.claims.setdefault(size, {})[claim.name] = row

    def get(self, claim: Claim, size: str) -> tuple[Figure, ...]:
        """Return the stored figures of a claim if its settings match, otherwise none."""
        row = self.claims.get(size, {}).get(claim.name)
        if row is None or not identity(claim, size).items() <= row.items():
            return ()
        return tuple(Figure(*figure) for figure in row["figures"])


Results = dict[tuple[str, str], tuple[Figure, ...]]
"""Figures by size and claim."""


def figures_of(runs: Path | None, data: Path | None, kept: Kept) -> Results:
    """Return the figures of every claim at every size, from runs or from the kept file."""
    got: Results = {}
    for size in SHOWN:
        folder = None if runs is None else runs / size
        places = () if folder is None else (folder, *(folder / name for name in OTHER_DATA))
        there = any((place / "runs").exists() for place in places)
        lab = Lab.open(NAMED[size], folder, data, None, replicated=True) if there else None
        for claim in (claim for claim in EVERY.values() if claim.at(size)):
            figures = measured(claim, lab) if lab is not None else ()
            if figures:
                kept.put(claim, size, figures)
            got[size, claim.name] = figures or kept.get(claim, size)
    return got


def tables(results: Results) -> str:
    """Return tables of each paper's claims, the reasons and limits, and scorers' error rates."""
    parts = []
    for claims in CLAIMS.values():
        rows = [["claim", "place", "statement", "measured", *SHOWN]]
        for claim in claims:
            cells = [cell(claim, size, results.get((size, claim.name))) for size in SHOWN]
            name = f"{claim.name}*" if claim.of else claim.name
            design = f"{claim.design}: {claim.limit}" + (f" ({claim.notes})" if claim.notes else "")
            if any(each != "–" for each in cells):
                rows.append([name, claim.place, claim.says, design, *cells])
        parts.append(f"## {claims[0].paper}\n\n{as_markdown(rows, pad='')}\n")
    used = {letter for each in EVERY.values() for letter in each.notes.split()}
    for (size, name), figures in results.items():
        used |= {*EVERY[name].reasons(size, figures)}
    letters = [f"- **{letter}** {text}" for letter, text in REASONS.items() if letter in used]
    parts.append("## Reasons and limits\n\n" + "\n".join(letters) + "\n")
    return "\n".join([*parts, scorers()])


def summary(results: Results) -> Iterator[str]:
    """Return one sentence per size."""
    verdicts: dict[str, Counter[Verdict]] = {size: Counter() for size in SHOWN}
    for (size, name), figures in results.items():
        if figures:
            verdicts[size][EVERY[name].verdict(size, figures)] += 1
    for size, each in verdicts.items():
        yield (
            f"Of {each.total()} claims, models of the {size} size agree with {each['agrees']}, "
            f"contradict {each['contradicts']} and leave {each['undecided']} undecided; "
            f"{each['not tested']} are not tested."
        )


def cell(claim: Claim, size: str, figures: tuple[Figure, ...] | None) -> str:
    """Return the verdict at one size, with its reasons and figures."""
    if figures is None:
        return "–"
    if not figures:
        return "not run"
    verdict, reasons = claim.verdict(size, figures), claim.reasons(size, figures)
    words = f"**{verdict}**" if verdict in ("agrees", "contradicts") else verdict
    letters = f" ({' '.join(reasons)})" if reasons else ""
    return f"{words}{letters}: {'; '.join(figure.text for figure in figures)}"


def scorers() -> str:
    """Return the error rates of scorers on labelled completions."""
    files = sorted(labelled.FOLDER.glob("*.csv"))
    agree = [labelled.agreement(file, "label", "second") for file in files]
    head = SCORERS.format(
        counts=" and ".join(f"{count}" for _, count, _ in agree),
        agree=" and ".join(f"{same} of {count} (κ {kappa:.2f})" for same, count, kappa in agree),
    )
    return f"{head}\n{as_markdown(labelled.table(files, scorers=SHOWN_SCORERS), pad='')}\n"


def main() -> None:
    """Write into the page, and store the measured figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=Path, nargs="?", help="the folder that claims.py wrote")
    parser.add_argument("--data", type=Path, help="folder of the benchmark's files")
    parser.add_argument("--kept", type=Path, help="stored figures of deleted runs")
    parser.add_argument("--out", type=Path, required=True, help="the page with the marks")
    options = parser.parse_args()
    kept = Kept.open(options.kept)
    got = figures_of(options.runs, options.data, kept)
    if not any(got.values()):
        parser.error("found neither runs nor kept figures. Run claims.py first.")
    write_into(options.out, "experiments/ledger.py, summary", " ".join(summary(got)))
    write_into(options.out, "experiments/ledger.py, claims", tables(got))
    if kept.file is not None:
        write_json(kept.file, kept.claims)


if __name__ == "__main__":
    main()

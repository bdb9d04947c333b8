"""What was measured of runs that are no longer there: a small file beside a page.

A size takes longer to run than a machine may be had for, and its runs are large. So whatever a page
was written from can be kept: each claim's figures with the seeds, the rule and the settings that
they are of, the rows of its tables, and what was spent. The next page takes from it what has no
runs; what was measured by another rule or with other settings is not taken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from claims import Claim, Figure, Need
from common import Cost
from sizes import TARGET, Size

from leakbound.store import write_json

Row = tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """The figures of a claim, one a seed, and what its runs cost."""

    figures: tuple[Figure, ...]
    cost: Cost


@dataclass(frozen=True)
class Drawn:
    """A picture: of which settings, what stands below it, and how many runs it shows."""

    settings: str
    caption: str
    runs: int


@dataclass
class Kept:
    """What a page can say without runs; `file` is where it is read from and written to, if any.

    claims: by name, as JSON.
    tables: the rows of a table by their keys, its header under "".
    pictures: by file name.
    costs: by model and way of asking, over the seeds.
    """

    file: Path | None = None
    claims: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    pictures: dict[str, Drawn] = field(default_factory=dict)
    costs: dict[str, Cost] = field(default_factory=dict)

    @classmethod
    def open(cls, file: Path | None) -> Kept:
        """What a file holds; nothing of one that is not there yet. SystemExit for another's."""
        if file is None or not file.exists():
            return cls(file)
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
            return cls(
                file,
                known["claims"],
                known["tables"],
                {name: Drawn(**one) for name, one in known["pictures"].items()},
                {name: Cost(**one) for name, one in known["costs"].items()},
            )
        except (ValueError, KeyError, TypeError) as error:
            told = f"--kept: {file} is no file that findings.py wrote; name another."
            raise SystemExit(told) from error

    def write(self) -> None:
        """Write the file whole, if there is one."""
        if self.file is not None:
            write_json(self.file, {k: v for k, v in asdict(self).items() if k != "file"})

    def put(self, claim: Claim, size: Size, seeds: Sequence[int], found: Found) -> None:
        """Keep what was measured of a claim."""
        self.claims[claim.name] = {
            **_asked(claim, size, seeds),
            "figures": [asdict(figure) for figure in found.figures],
            "cost": asdict(found.cost),
        }

    def get(self, claim: Claim, size: Size, seeds: Sequence[int]) -> Found | None:
        """What was kept of a claim, if it was measured by this rule with these settings."""
        one = self.claims.get(claim.name)
        asked = _asked(claim, size, seeds)
        if one is None or any(one[key] != value for key, value in asked.items()):
            return None
        figures = tuple(Figure(**figure) for figure in one["figures"])
        return Found(figures, Cost(**one["cost"]))

    def rows(
        self, table: str, header: Sequence[str], rows: Mapping[str, Row], names: Sequence[str]
    ) -> Iterator[Row]:
        """A table's rows: those given, and those kept under other keys, in the order of `names`.

        Rows begin with a name; those of one name are in the order of their keys. A table of other
        columns is forgotten.
        """
        known = self.tables.get(table, {})
        if known.get("") != list(header):
            known = {"": list(header)}
        known |= {key: list(row) for key, row in rows.items()}
        self.tables[table] = known
        found = sorted((names.index(row[0]), key) for key, row in known.items() if row[0] in names)
        return (tuple(known[key]) for _, key in found)


def _asked(claim: Claim, size: Size, seeds: Sequence[int]) -> dict[str, Any]:
    """What the figures of a claim are of."""
    return {
        "figure": claim.figure,
        "rule": claim.rule.text,
        "seeds": list(seeds),
        "settings": settings_of(size, claim.needs),
    }


def settings_of(size: Size, needs: Sequence[Need]) -> str:
    """A digest of all that decides what some runs are of, but for the seed."""
    shared = (
        size.benchmark, size.learn, size.forget, size.scorers, size.dtype, size.layer, size.step,
        size.questions, size.retained, size.max_new_tokens, size.keeps, size.rates,
    )  # fmt: skip
    each = [(need, _methods(size, need.method), size.asked[need.asked]) for need in needs]
    return hashlib.sha256(repr((shared, each)).encode()).hexdigest()[:16]


def _methods(size: Size, name: str) -> list[str]:
    """A method, and those that it goes on from."""
    method = size.every.get(name)
    if method is None:
        return [name]
    return [repr(method), *(_methods(size, method.after) if method.after != TARGET else ())]

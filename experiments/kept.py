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
from leakbound.store.current import made_by

Row = tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """The figures of a claim, one a seed, and what its runs cost.

    `earlier`: they were kept, and are not known to be by the code of the bounds as it is now.
    """

    figures: tuple[Figure, ...]
    cost: Cost
    earlier: bool = False


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
    tables: by title, the header under "", and by its key each row after a digest of its settings.
    pictures: by file name.
    costs: by model and way of asking, over the seeds, with a digest of the settings.
    """

    file: Path | None = None
    claims: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    pictures: dict[str, Drawn] = field(default_factory=dict)
    costs: dict[str, tuple[str, Cost]] = field(default_factory=dict)

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
                {name: (digest, Cost(**one)) for name, (digest, one) in known["costs"].items()},
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
            "statistics": made_by()["statistics"],
        }

    def get(self, claim: Claim, size: Size, seeds: Sequence[int]) -> Found | None:
        """What was kept of a claim, if it was measured by this rule with these settings."""
        one = self.claims.get(claim.name)
        asked = _asked(claim, size, seeds)
        if one is None or any(one[key] != value for key, value in asked.items()):
            return None
        figures = tuple(Figure(**figure) for figure in one["figures"])
        earlier = one.get("statistics") != made_by()["statistics"]
        return Found(figures, Cost(**one["cost"]), earlier)

    def rows(
        self, table: str, header: Row, rows: Mapping[str, Row], settings: Mapping[str, str]
    ) -> Iterator[Row]:
        """A table's rows: those given, and those kept under other keys with the same settings.

        Rows begin with a name, and are in the order of the names in `settings`, those of one name
        in that of their keys. A row of more seeds is not replaced by one of fewer. A table of other
        columns is forgotten.
        """
        known = self.tables.get(table, {})
        if known.get("") != list(header):
            known = {"": list(header)}
        for key, row in rows.items():
            digest, *cells = known.get(key, [""])
            if digest != settings[row[0]] or _seeds(header, row) >= _seeds(header, cells):
                known[key] = [settings[row[0]], *row]
        self.tables[table] = known
        order = list(settings)
        found = sorted(
            (order.index(name), key)
            for key, (digest, name, *_) in known.items()
            if key and settings.get(name) == digest
        )
        return (tuple(known[key][1:]) for _, key in found)

    def cost(self, what: str, settings: str, spent: Cost | None) -> Cost | None:
        """What something cost: as it is given, unless more was spent when it was kept."""
        digest, before = self.costs.get(what, ("", None))
        if digest != settings:
            before = None
        if spent is None or (before is not None and before.draws > spent.draws):
            return before
        self.costs[what] = settings, spent
        return spent


def _seeds(header: Sequence[str], cells: Sequence[str]) -> int:
    """Of how many seeds a row tells, where it says so."""
    return int(cells[header.index("seeds")]) if "seeds" in header else 1


def _asked(claim: Claim, size: Size, seeds: Sequence[int]) -> dict[str, Any]:
    """What the figures of a claim are of."""
    return {
        "figure": claim.figure,
        "rule": claim.rule.text,
        "seeds": list(claim.seeds(seeds)),
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
    # kept when layer 7 was what recipes meant that said none
    told = repr(method).replace(":layer=7,", ":").replace(":layer=7", "")
    return [told, *(_methods(size, method.after) if method.after != TARGET else ())]

"""The figures of a page: of which runs and trained models, and by which scorer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from claims import Need
from common import Lab, Stored
from kept import Drawn, Kept, settings_of
from sizes import COARSE, CONTROL, FEWER, RECALL, REWORDED, TARGET

import leakbound
from leakbound.store import Run


@dataclass(frozen=True)
class Picture:
    """A figure of the page: which, of which runs and trained models, by which scorer.

    `some`: of the runs will do, which `{}` in the caption names. `name`: of its file, if not its
    kind.
    """

    kind: str
    caption: str
    needs: tuple[Need, ...]
    trained: tuple[str, ...] = ()
    soft: bool = False
    some: bool = False
    name: str = ""


def _plain(*methods: str) -> tuple[Need, ...]:
    return tuple(Need(method) for method in methods)


_SWEPT = ("NPO + entropy weight 0.2", "NPO + entropy weight 2")
_CENTRES = ("CEL push of 1 centres", "CEL push of 3 centres")
_GROUPS = (
    (TARGET, "GA", "GD", "KL"),
    ("NPO", "NPO + entropy", "NPO + entropy keeping 0", "NPO then leakmin"),
    ("RMU", "CEL"),
    ("DPO", "IDK", "SimNPO"),
)
PICTURES = (
    Picture("questions", "Figure 3a: every question, its greedy answer hollow",
            _plain("NPO", CONTROL)),
    Picture("tail", "Figure 3d: Pr[ROUGE-L recall > x] of one question",
            _plain("NPO", "NPO + entropy", CONTROL), soft=True),
    Picture("convergence", "Figures 3e and 3f: one question against the number of draws",
            _plain("NPO"), soft=True),
    Picture("spread", "Figure 4a: the standard deviation of every question",
            _plain("NPO", "NPO + entropy", CONTROL), soft=True),
    Picture("entropy-weight", "Figure 4a against λ_f",
            (*(Need(name, FEWER) for name in _SWEPT), Need("NPO + entropy")),
            (*_SWEPT, "NPO + entropy"), soft=True),
    Picture("confidence", "Beside Figure 5b: entropy over training", _plain("NPO + entropy"),
            ("NPO + entropy",), soft=True),
    Picture("adaptive", "Section 5: over the threshold c_T", (Need("NPO", "adaptive"),), soft=True),
    *(
        Picture("leak-at-k", "leak@k: {}",
                _plain(*group, CONTROL), some=True, name=f"leak-at-k-{i}")
        for i, group in enumerate(_GROUPS, start=1)
    ),
    Picture("naive", "The naive worst of k beside the unbiased estimate", _plain("NPO")),
    Picture("grid", "Temperature and top-p", (Need("NPO", "grid"),)),
    Picture("grid", "Temperature and top-p, of GD", (Need("GD", COARSE),), name="grid-gd"),
    Picture("protocols", "Figure 3 of Cheng et al.: greedy, output and full",
            (Need("NPO", REWORDED),), soft=True),
    Picture("correlation", "Figure 2 of Cheng et al.: sureness and leakage",
            (Need("NPO", REWORDED),), soft=True),
    Picture("centres", "Figure 4 of Cheng et al.: over the number of centres",
            tuple(Need(name, FEWER) for name in _CENTRES), _CENTRES, soft=True),
)  # fmt: skip


def pictures(
    size: str, lab: Lab, seed: int, page: Path, pdf: Path | None, kept: Kept
) -> Iterator[str]:
    """The figures that the runs can give, as SVG beside the page, and as PDF where asked.

    What was drawn of other runs with the same settings stays, unless as many are there now.
    """
    folder = page.parent / page.stem
    yield "### Figures\n\nOf the first seed.\n"
    for picture in PICTURES:
        file = f"{size}-{picture.name or picture.kind}.svg"
        settings, runs = settings_of(lab.size, picture.needs), _runs(Stored(lab, seed), picture)
        before = kept.pictures.get(file)
        if before is not None and (before.settings != settings or not (folder / file).exists()):
            before = None
        if runs and (before is None or len(runs) >= before.runs):
            _draw(picture, [*runs.values()], folder / file, pdf, lab)
            before = Drawn(settings, picture.caption.format(", ".join(runs)), len(runs))
            kept.pictures[file] = before
        if before is not None:
            yield f"![{before.caption}]({page.stem}/{file})\n"
            yield f"*{before.caption}.*\n"


def _runs(stored: Stored, picture: Picture) -> dict[str, Run | Path]:
    """Its runs and trained models; none where one is missing that it cannot do without."""
    found: dict[str, Run | Path] = {}
    for need in picture.needs:
        try:
            found[need.method] = stored.run(need.method, need.asked)
        except FileNotFoundError:
            if not picture.some:
                return {}
    try:
        found |= {f"training of {name}": stored.model(name) for name in picture.trained}
    except FileNotFoundError:
        return {}
    return found if len(found) > picture.some else {}


def _draw(
    picture: Picture, runs: Sequence[Run | Path], file: Path, pdf: Path | None, lab: Lab
) -> None:
    """Draw it beside the page, and for print."""
    with tempfile.TemporaryDirectory() as scratch:
        leakbound.figures(
            _apart(runs, Path(scratch)), scratch, only=[picture.kind],
            scorer=RECALL if picture.soft else lab.size.leak,
            formats=["svg", "pdf"] if pdf else ["svg"],
        )  # fmt: skip
        for target in filter(None, (file, pdf and pdf / file.with_suffix(".pdf").name)):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((Path(scratch) / f"{picture.kind}{target.suffix}").read_bytes())


def _apart(given: Sequence[Run | Path], scratch: Path) -> list[Run | str | Path]:
    """Trained models under names of their own: a run is called as its model is."""
    found: list[Run | str | Path] = []
    for one in given:
        if isinstance(one, Run):
            found.append(one)
            continue
        link = scratch / f"training of {Path(one).name}"
        link.symlink_to(Path(one).resolve())
        found.append(link)
    return found

"""`leakbound recompute`: is a log of OpenUnlearning what its own rows make it?"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leakbound.cli import options as opt
from leakbound.cli.certify import VERIFICATION_FAILED
from leakbound.cli.console import print_json, print_table
from leakbound.cli.help import Command
from leakbound.cli.saying import say

if TYPE_CHECKING:
    from leakbound.formats.openunlearning_check import Checked

_SHOWN = 5  # rows of an entry


@click.command(cls=Command)
@click.argument("logs", type=opt.FILE, nargs=-1, required=True)
@click.option(
    "--retrained", type=opt.FILE, help="The retrained model's log: forget quality, privleak."
)
@opt.as_json
def recompute(logs: tuple[Path, ...], retrained: Path | None, as_json: bool) -> int:
    """Make every aggregate of OpenUnlearning's LOGS anew from the values of the rows.

    LOGS are *_EVAL.json of TOFU, MUSE, lm-evaluation-harness (LMEval_EVAL.json) or metrics of your
    own; no model is loaded. ROUGE comes from the texts, truth ratios and normalised probabilities
    from losses and probabilities, model utility from its nine terms, AUCs from the scores of both
    sides, accuracies from the samples. The *_SUMMARY.json beside a log is compared too. Exit status
    6 where a value differs or a row is damaged.
    """
    from leakbound.formats.openunlearning_check import recompute as verb

    found = {str(path): verb(path, retrained) for path in dict.fromkeys(logs)}
    agrees = all(checked.agrees for each in found.values() for checked in each)
    if as_json:
        values = {path: [asdict(checked) for checked in each] for path, each in found.items()}
        print_json({"agrees": agrees, "logs": values})
    else:
        for name, each in found.items():
            _print(name, each)
    return 0 if agrees else VERIFICATION_FAILED


def _print(path: str, found: list[Checked]) -> None:
    from leakbound.evaluation import Table

    rows = [(c.entry, c.verdict, _figure(c.stored), _figure(c.found), c.how) for c in found]
    print_table(Table.plain(path, ("entry", "result", "stored", "made anew", "of"), rows))
    for checked in found:
        if checked.odd:
            first = ", ".join(checked.odd[:_SHOWN])
            say(f"{checked.entry}: {len(checked.odd):,} rows differ, such as {first}")
    counts = Counter[str](checked.verdict for checked in found)
    known = ("same", "differs", "damaged", "not made anew")
    say(", ".join(f"{verdict}: {counts[verdict]}" for verdict in known if counts[verdict]))


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.10g}"

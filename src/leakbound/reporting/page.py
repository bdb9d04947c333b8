"""Write a view as an HTML page that loads nothing from the network, or as a picture."""

from __future__ import annotations

import base64
import gc
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import leakbound
from leakbound.errors import InputError
from leakbound.presenting import questions, sentences, tables, templates
from leakbound.presenting.sentences import MOST_OTHER, clipped
from leakbound.presenting.summary import metrics_table
from leakbound.presenting.table import Table, interval
from leakbound.presenting.texts import leaking_words
from leakbound.presenting.verdict import verdicts
from leakbound.presenting.view import View, named_runs, read_view
from leakbound.reporting import details, figures
from leakbound.stats import percent
from leakbound.store import Redaction, Run, write_text
from leakbound.text.shown import many, number, tied, visible

TERMS = {
    r"leak@\d": "leak@k is the expected largest score of k answers. An estimate needs at least 4 k "
    "draws of a question (n/k ≥ 4); with fewer draws there are only bounds.",
}
"""Definitions of terms, each by a pattern for the headings that use the term."""


def terms_of(headings: Iterable[str]) -> list[str]:
    """Return the definitions of the terms that these headings use."""
    used = "\n".join(headings)
    return [meaning for mark, meaning in TERMS.items() if re.search(mark, used)]


_AMOUNTS: tuple[Redaction, ...] = (False, True, "questions")
PAGE, REDACTED_PAGE = "report.html", "report-redacted.html"
"""The file names of a run's page with texts, and of its redacted page."""


def report(
    runs: Run | Sequence[Run], out: str | Path | None = None, *, redact: Redaction | None = None
) -> Path:
    """Write one self-contained HTML page about finished runs.

    A redaction that could not be stored, and an older page with texts, are reported in the `notes`
    of the runs.

    Args:
        runs: one open run, see `leakbound.load`, or several. The page shows the folder names of
            the runs.
        out: the file; required for several runs (None: report.html, or report-redacted.html, in the
            run).
        redact: True: omit answers, keywords and completions from this page, and from later pages
            and exports, until False is given; "questions": omit questions too (None: the last value
            that was given).

    Returns:
        The path of the page.

    Raises:
        InputError: several runs without `out`, two runs with the same folder name, or a run without
            estimates of its current completions.
        MixError: the runs differ in questions, scorers or confidence.
        IncompleteError: a run is not finished.
    """
    opened = [runs] if isinstance(runs, Run) else list(runs)
    named = named_runs(opened)
    if out is None and len(opened) != 1:
        raise InputError(f"`--out` is missing. Name a file for a report about {len(opened)} runs.")
    for run in opened:
        _ = run.estimates  # a run that cannot be shown raises before anything is written
    notes: dict[Path, list[str]] = {run.path: [] for run in opened}
    for run in opened:
        if redact is None:
            continue
        try:
            run.redact(redact)
        except InputError as error:
            notes[run.path].append(f"the redaction was not stored for later commands: {error}")
        notes[run.path] += older_page(run) if redact else []
    path = write_report(named, Path(out or page_of(opened[0])), redact=redact)
    for run in opened:
        run.notes += notes[run.path]
    return path


def older_page(run: Run) -> list[str]:
    """Return a list with a note if the folder of a redacted run still has a page with all texts."""
    if not (run.path / PAGE).exists():
        return []
    note = (
        f"`{run.path / PAGE}` was written before the redaction and contains the texts. Remove it "
        "before you share the folder. The stored completions contain the texts too."
    )
    return [note]


def write_report(
    runs: Mapping[str, Run],
    out: Path,
    *,
    title: str | None = None,
    more: Sequence[Table] = (),
    redact: Redaction | None = None,
) -> Path:
    """Write the report on finished runs, one HTML file that loads nothing from the network.

    A control is shown once, even if several runs share it. The file is written completely or not at
    all.

    Args:
        runs: the runs, by the labels that the page shows. They must have the same questions,
            scorers and confidence.
        out: the file.
        title: the title of the page (None: a title with the names of the models).
        more: tables for the end of the page.
        redact: True: omit answers, keywords, completions, rewritings, queries that a search found,
            and the reasons of failures from the file; "questions": omit questions too (None: the
            setting `redacted` of the runs).

    Returns:
        `out`.

    Raises:
        InputError: there are no runs, or a run has no estimates of its current completions.
        MixError: the runs differ in questions, scorers or confidence.
        IncompleteError: a run is not finished.
    """
    kept = (run.redacted for run in runs.values())
    amount = max(kept, key=_AMOUNTS.index, default=False) if redact is None else redact
    gc.freeze()  # matplotlib makes many objects; collections need not visit the older ones
    try:
        write_text(out, render(read_view(runs, redact=amount), title=title, more=more))
    finally:
        gc.unfreeze()
    return out


def page_of(run: Run) -> Path:
    """Return the path of the page of a run; a redacted run has a page with another name."""
    return run.path / (REDACTED_PAGE if run.redacted else PAGE)


def render(view: View, *, title: str | None = None, more: Sequence[Table] = ()) -> str:
    """Return the page as HTML; every text of a model or a benchmark is escaped."""
    pens = figures.pen_classes(view)
    cards: dict[str, str] = {}  # the pen of the first target of each run, which has its verdict
    for model in view.targets:
        cards.setdefault(model.run_label, pens[model.label])
    metrics = ((label, metrics_table(run)) for label, run in view.runs.items())
    opened = _environment().get_template("details.html").render(view=view, pens=pens)
    return rendered(
        "page.html",
        styles=("page.css",),
        scripts=("tables.js", "page.js"),
        title=sentences.title(view) if title is None else title,
        view=view,
        more=more,
        metrics=[replace(t, title=f"{t.title}, {label}") for label, t in metrics if t],
        verdicts=list(zip(cards.values(), verdicts(view), strict=True)),
        pens=pens,
        packed=Markup(details.packed(visible(opened))),  # letters and digits
    )


def rendered(template: str, *, styles: Sequence[str], scripts: Sequence[str], **shown: Any) -> str:
    """Return a page as HTML with these style sheets and scripts; it loads and runs nothing else.

    Texts in `shown` are escaped. Control characters in them are replaced by visible text.
    """
    css, js = ("".join(map(asset, names)) for names in (styles, scripts))
    charts = asset("charts.css")
    digests = []  # the page's content policy allows only these inline styles and this script
    for content in (charts, css, js):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        digests.append(f"'sha256-{digest}'")
    sources = f"style-src {digests[0]} {digests[1]}; script-src {digests[2]}"
    return _environment().get_template(template).render(
        charts=Markup(charts),  # the package's own files, not data
        css=Markup(css),
        js=Markup(js),
        version=leakbound.__version__,
        policy=f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'",
        **shown,
    )  # fmt: skip


@cache
def _environment() -> Environment:
    """Return the Jinja environment, which cuts long texts and makes control characters visible."""

    def shown(value: Any) -> Any:
        if isinstance(value, Markup):
            return Markup(visible(value))  # markup of ours, around texts that were escaped
        return visible(clipped(value, MOST_OTHER)) if isinstance(value, str) else value

    environment = Environment(
        loader=PackageLoader("leakbound", "reporting"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(tied=tied, quantity=templates.quantity)
    environment.globals.update(
        words=sentences, templates=templates, tables=tables, by_question=questions,
        figures=figures, details=details, leaking_words=leaking_words, percent=percent,
        interval=interval, many=many, number=number, terms_of=terms_of,
    )  # fmt: skip
    return environment


@cache
def asset(name: str) -> str:
    """Return the text of a file of this package that pages include."""
    return files("leakbound.reporting").joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a notebook displays and `save` writes to a file.

    Attributes:
        svg: the picture as SVG, with its style for light and dark backgrounds.
    """

    svg: str

    def save(self, path: str | Path) -> Path:
        """Write the picture to this file, completely or not at all."""
        write_text(Path(path), self.svg)
        return Path(path)

    def _repr_svg_(self) -> str:
        return self.svg


def picture(runs: Run | Mapping[str, Run], *, scorer: str | None = None) -> Picture:
    """Draw the greedy score and the bounds on the leakage of every question.

    Each column is one question. The columns are sorted by leakage. The circle shows the score of
    the greedy answer. The bar shows the bounds for the model, and the wider grey bar the bounds for
    the control.

    Args:
        runs: a run with estimates, or several runs by the labels that the picture shows.
        scorer: the name of the scorer to show (None: the first scorer).

    Returns:
        The picture: one SVG file that needs no other files.

    Raises:
        InputError: there are no runs, a run has no estimates of its current completions, the runs
            have no bounds for the scorer, or matplotlib is missing.
        MixError: the runs differ in questions, scorers or confidence.
        IncompleteError: a run is not finished.
    """
    view = read_view(named_runs([runs]) if isinstance(runs, Run) else runs)
    by_name = {s.name: s for s in view.scorers}
    chosen = view.scorers[0] if scorer is None else by_name.get(scorer)
    if chosen is None:
        raise InputError(
            f"`scorer` must be a scorer for which the runs have bounds ({', '.join(by_name)}), got "
            f"{scorer!r}. Score and bound the runs with this scorer first."
        )
    if why := figures.lacking():
        raise InputError(why)
    (wide,) = figures.figures_of(view, "questions", "leakage by question", chosen, figures.WIDE)
    head, title, rest = wide.svg.partition("<title>")
    style = f"<style>{asset('charts.css')} svg {{ background: var(--card); }}</style>"
    return Picture(f"{head}{style}{title}{rest}\n")

"""The contents of the local page: the runs of a folder, one of them, several side by side."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field, replace
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Generic, TypeVar

from jinja2 import Environment
from markupsafe import Markup

import leakbound
from leakbound.errors import InputError, LeakboundError
from leakbound.evaluation.comparing import compare
from leakbound.evaluation.following import RunSoFar, SeenParts, follow
from leakbound.evaluation.views.compared import Comparison, Form
from leakbound.evaluation.views.table import interval
from leakbound.evaluation.views.verdict import Kind
from leakbound.reporting.figures import difference_figures
from leakbound.reporting.page import asset, content_policy, report_html, report_policy, templates
from leakbound.stats import percent
from leakbound.store import Run
from leakbound.viewing.catalogue import Catalogue, Found, Listed, listed, readable
from leakbound.viewing.server import Asked, Response

WAIT = 1.0  # seconds after which a page says that something is still being made
_KEPT_REPORTS, _KEPT_ROWS = 12, 10_000
_SECONDS, _LONGEST = 2.0, 60.0  # between two looks of a page that refreshes itself
_PATIENCE = 20  # a look may take this part of the time until the next one
_FILES: Mapping[str, tuple[str, Form]] = {
    "csv": ("text/csv", "csv"),
    "md": ("text/markdown", "markdown"),
    "tex": ("application/x-tex", "latex"),
}
STATES = {
    "complete": "complete",
    "growing": "growing",
    "unfinished": "unfinished, nobody at work",
    "unbounded": "drawn, to be bounded",
    "damaged": "damaged",
    "other version": "of another version",
    "read": "being read",
}
"""The names of states; the last is that of a run that was not read yet."""
KINDS: Mapping[Kind, str] = {
    "leaks": "leaks",
    "above": "scores above the control",
    "uncontrolled": "no control",
    "unknown": "no verdict",
    "not above": "not shown to score above it",
    "not shown": "not shown to leak",
    "below": "below its limit",
}
"""The names of kinds of verdicts, in the order in which rows are sorted."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in the list: where it is, and what it says, None while that is being read."""

    found: Found
    says: Listed | None

    @property
    def state(self) -> str:
        """The key of its state."""
        return "read" if self.says is None else self.says.state


@dataclass(slots=True)
class Pages:
    """The pages on the runs of a folder; what takes a while is made once and kept in memory.

    Attributes:
        root: the folder.
        redact: leave answers, keywords and completions out of reports (None: as each run was told).
    """

    root: Path
    redact: bool | None = None
    _rows: Maker[Listed] = field(default_factory=lambda: Maker(_KEPT_ROWS))
    _reports: Maker[bytes] = field(default_factory=lambda: Maker(_KEPT_REPORTS))
    _looks: Maker[RunSoFar] = field(default_factory=lambda: Maker(_KEPT_REPORTS))
    _compared: Maker[Comparison] = field(default_factory=lambda: Maker(_KEPT_REPORTS))
    _seen: dict[str, SeenParts] = field(default_factory=dict)

    def respond(self, parts: tuple[str, ...], query: Asked) -> Response | None:
        """The page with this address behind the token; None where there is none."""
        match parts:
            case ("",):
                return self._list()
            case ("run", name):
                return self._of(name, self._run)
            case ("report", name):
                return self._of(name, self._report)
            case ("compare",):
                return self._compare(query.get("run", []))
            case (file,) if file.startswith("compare."):
                return self._written(file, query.get("run", []))
        return None

    def close(self) -> None:
        """Begin nothing more."""
        for maker in (self._rows, self._reports, self._looks, self._compared):
            maker.close()

    def _list(self) -> Response:
        began = time.monotonic()
        catalogue = Catalogue.of(self.root)
        took = time.monotonic() - began
        rows = [ListedRun(entry, self._row(entry, began + WAIT)) for entry in catalogue.runs]
        moves = any(row.state in ("growing", "read") for row in rows)
        pause = min(max(_SECONDS, _PATIENCE * took), _LONGEST)
        return page(
            "list.html",
            folder=readable(str(catalogue.root)),
            name=readable(catalogue.root.name or str(catalogue.root)),
            rows=rows,
            kinds=KINDS,
            same=_same(rows),
            notes=catalogue.notes,
            pause=pause if moves else max(pause, 5 * _SECONDS),
        )

    def _row(self, entry: Found, until: float) -> Listed | None:
        """The row of a run; while it is read anew, the one before."""
        key = entry.id, entry.stamp, entry.why_not, entry.at_work
        return self._rows.latest(entry.id, key, partial(listed, entry), until - time.monotonic())

    def _of(self, name: str, show: Callable[[Found], Response]) -> Response | None:
        entry = next(iter(Catalogue.of(self.root, (name,)).runs), None)
        if entry is None:
            return message("No such run", "It is not in the folder any more.", HTTPStatus.NOT_FOUND)
        if entry.stamp is None:
            return message(f"{entry.name} is not read", entry.why_not)
        return show(entry)

    def _run(self, entry: Found) -> Response:
        """A run that is not complete: how far it is, and what its draws say so far."""
        row = ListedRun(entry, self._row(entry, time.monotonic() + WAIT))
        look, why_not = None, ""
        if row.state == "complete":
            self._seen.pop(entry.id, None)
        if row.state in ("growing", "unfinished", "unbounded"):
            try:
                look = self._look(entry)
            except (LeakboundError, OSError) as error:
                why_not = str(error)
        return page("run.html", row=row, look=look, why_not=why_not, pause=_SECONDS)

    def _look(self, entry: Found) -> RunSoFar | None:
        """How far a run is; while it is looked at anew, how far it was."""
        seen = self._seen.setdefault(entry.id, SeenParts())
        return self._looks.latest(
            entry.id,
            (entry.id, entry.stamp),
            lambda: follow(Run.open(entry.path), seen, redact=self.redact),
            WAIT,
        )

    def _report(self, entry: Found) -> Response:
        """The report of a run, as `leakbound report` writes it."""
        label = entry.path.name

        def made() -> bytes:
            return report_html({label: Run.open(entry.path)}, redact=self.redact).encode(
                "utf-8", "backslashreplace"
            )

        try:
            html = self._reports.ask((entry.id, entry.stamp), made, WAIT)
        except (LeakboundError, OSError) as error:
            return message(f"No report of {entry.name}", str(error))
        if html is None:
            return waiting(f"The report of {entry.name} is being made")
        return Response(html, policy=f"{report_policy()}; frame-ancestors 'none'")

    def _chosen(self, names: Sequence[str]) -> list[Found]:
        """The runs with these ids, in this order; InputError for one that is not there."""
        entries = {entry.id: entry for entry in Catalogue.of(self.root, names).runs}
        missing = [name for name in names if name not in entries]
        if missing:
            raise InputError(
                f"{len(missing)} of the {len(names)} runs to compare are not in the folder any "
                "more. Go back to the list and choose again."
            )
        for entry in entries.values():
            if entry.stamp is None:
                raise InputError(f"{entry.name!r} is not read: {entry.why_not}")
        return [entries[name] for name in dict.fromkeys(names)]

    def _comparison(self, chosen: Sequence[Found]) -> Comparison | None:
        key = tuple((entry.id, entry.stamp) for entry in chosen)
        return self._compared.ask(key, lambda: self._compared_now(chosen), WAIT)

    def _compared_now(self, chosen: Sequence[Found]) -> Comparison:
        comparison = compare(_labelled(chosen))
        return replace(comparison, questions={}) if self.redact else comparison

    def _compare(self, names: Sequence[str]) -> Response:
        """Runs beside the first of them, or why they cannot be."""
        chosen: list[Found] = []
        try:
            chosen = self._chosen(names)
            comparison = self._comparison(chosen)
        except (LeakboundError, OSError) as error:
            return page("compare.html", chosen=chosen, found=None, why_not=str(error))
        if comparison is None:
            return waiting(f"{len(chosen)} runs are being compared")
        return page("compare.html", chosen=chosen, found=comparison, why_not="")

    def _written(self, file: str, names: Sequence[str]) -> Response | None:
        """A comparison as a file."""
        kind = file.partition(".")[2]
        if kind not in _FILES:
            return None
        try:
            comparison = None
            while comparison is None:
                comparison = self._comparison(self._chosen(names))
        except (LeakboundError, OSError) as error:
            return message("Nothing to save", str(error), HTTPStatus.CONFLICT)
        content, form = _FILES[kind]
        text = comparison.written(form).encode("utf-8", "backslashreplace")
        saved = {"Content-Disposition": f'attachment; filename="{file}"'}
        return Response(text, f"{content}; charset=utf-8", headers=saved)


def _same(rows: Sequence[ListedRun]) -> dict[str, str]:
    """The facts that all runs that could be read have alike, in words: said once, above them."""
    runs = [row.says for row in rows if row.says and row.says.created]
    shown = [(run.verdict, run.confidence) for run in runs if run.verdict]
    facts = {
        "benchmark": {f"all of {run.benchmark}" for run in runs},
        "drawn": {run.drawn for run in runs},
        "of": {verdict.of for verdict, _ in shown if verdict.of},
        "sure": {f"{percent(sure)} confidence" for _, sure in shown if sure is not None},
    }
    return {name: values.pop() for name, values in facts.items() if len(values) == 1}


def _labelled(chosen: Sequence[Found]) -> dict[str, Run]:
    """The runs by their folders' names or, where two have the same, by their places."""
    names = [entry.path.name for entry in chosen]
    alike = len(set(names)) < len(names)
    return {entry.name if alike else entry.path.name: Run.open(entry.path) for entry in chosen}


def page(template: str, status: HTTPStatus = HTTPStatus.OK, **shown: object) -> Response:
    """A page of ours."""
    styles, script = _parts()
    html = _environment().get_template(template).render(
        charts=Markup(styles[0]),  # the package's own files, not data
        css=Markup(styles[1]),
        js=Markup(script),
        version=leakbound.__version__,
        states=STATES,
        **shown,
    )  # fmt: skip
    policy = (
        f"{content_policy(styles, script)}; connect-src 'self'; form-action 'self'; "
        "frame-ancestors 'none'"
    )
    return Response(html.encode("utf-8", "backslashreplace"), policy=policy, status=status)


def message(title: str, text: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A page that says one thing."""
    return page("message.html", status, title=title, text=text, waits=False)


def waiting(title: str) -> Response:
    """A page that asks again until what it waits for is there."""
    response = page("message.html", title=f"{title} …", text="", waits=True)
    return Response(response.body, policy=response.policy, headers={"Refresh": "1"})


@cache
def _parts() -> tuple[tuple[str, str], str]:
    """The styles and the script of every page."""
    css = asset("page.css") + asset("view.css", "viewing")
    return (asset("charts.css"), css), asset("tables.js") + asset("view.js", "viewing")


@cache
def _environment() -> Environment:
    environment = templates("viewing", "reporting")
    environment.globals.update(differences=difference_figures, percent=percent, interval=interval)
    return environment


T = TypeVar("T")


class Maker(Generic[T]):
    """Makes values by key, one after the other, and keeps the last ones.

    keep: how many. The thread ends with the process, whatever it is at: it writes nothing.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._made: OrderedDict[Hashable, Future[T]] = OrderedDict()
        self._last: dict[str, T] = {}
        self._lock = Lock()
        self._jobs: SimpleQueue[tuple[Future[T], Callable[[], T]] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def ask(self, key: Hashable, make: Callable[[], T], wait: float) -> T | None:
        """The value of this key; None where it is not there after so many seconds.

        Raises what `make` raised.
        """
        with self._lock:
            if key not in self._made:
                future: Future[T] = Future()
                self._made[key] = future
                self._jobs.put((future, make))
            self._made.move_to_end(key)
            pending = self._made[key]
            while len(self._made) > self._keep:
                self._made.popitem(last=False)
        try:
            return pending.result(timeout=max(wait, 0.0))
        except NotYet:
            return None

    def latest(self, name: str, key: Hashable, make: Callable[[], T], wait: float) -> T | None:
        """As `ask`; while what is said of a thing is made anew, what was said before."""
        if (value := self.ask(key, make, wait)) is not None:
            self._last[name] = value
        return self._last.get(name)

    def close(self) -> None:
        """Begin nothing more, and wait a moment for what is being made."""
        with self._lock:
            for future in self._made.values():
                future.cancel()
        self._jobs.put(None)
        self._thread.join(timeout=2)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, make = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(make())
            except BaseException as error:
                future.set_exception(error)

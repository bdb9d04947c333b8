"""What the local page shows: the runs of a folder, one of them, several side by side."""

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
from leakbound.reporting.difference_figures import difference_figures
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
"""What a state is called; the last is that of a run that was not read yet."""
KINDS: Mapping[Kind, str] = {
    "leaks": "leaks",
    "above": "scores above the control",
    "uncontrolled": "no control",
    "unknown": "no verdict",
    "not above": "not shown to score above it",
    "not shown": "not shown to leak",
    "below": "below its limit",
}
"""What a kind of verdict is called, in the order in which rows are sorted."""


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
        rows = [ListedRun(found, self._row(found, began + WAIT)) for found in catalogue.runs]
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

    def _row(self, found: Found, until: float) -> Listed | None:
        """What a run says; while it is read anew, what it said before."""
        key = found.id, found.stamp, found.why_not, found.at_work
        return self._rows.latest(found.id, key, partial(listed, found), until - time.monotonic())

    def _of(self, name: str, show: Callable[[Found], Response]) -> Response | None:
        found = next(iter(Catalogue.of(self.root, (name,)).runs), None)
        if found is None:
            return message("No such run", "It is not in the folder any more.", HTTPStatus.NOT_FOUND)
        if found.stamp is None:
            return message(f"{found.name} is not read", found.why_not)
        return show(found)

    def _run(self, found: Found) -> Response:
        """A run that is not complete: how far it is, and what its draws say so far."""
        row = ListedRun(found, self._row(found, time.monotonic() + WAIT))
        look, why_not = None, ""
        if row.state == "complete":
            self._seen.pop(found.id, None)
        if row.state in ("growing", "unfinished", "unbounded"):
            try:
                look = self._look(found)
            except (LeakboundError, OSError) as error:
                why_not = str(error)
        return page("run.html", row=row, look=look, why_not=why_not, pause=_SECONDS)

    def _look(self, found: Found) -> RunSoFar | None:
        """How far a run is; while it is looked at anew, how far it was."""
        seen = self._seen.setdefault(found.id, SeenParts())
        return self._looks.latest(
            found.id,
            (found.id, found.stamp),
            lambda: follow(Run.open(found.path), seen, redact=self.redact),
            WAIT,
        )

    def _report(self, found: Found) -> Response:
        """The report of a run, as `leakbound report` writes it."""
        label = found.path.name

        def made() -> bytes:
            return report_html({label: Run.open(found.path)}, redact=self.redact).encode(
                "utf-8", "backslashreplace"
            )

        try:
            html = self._reports.ask((found.id, found.stamp), made, WAIT)
        except (LeakboundError, OSError) as error:
            return message(f"No report of {found.name}", str(error))
        if html is None:
            return waiting(f"The report of {found.name} is being made")
        return Response(html, policy=f"{report_policy()}; frame-ancestors 'none'")

    def _chosen(self, names: Sequence[str]) -> list[Found]:
        """The runs with these ids, in this order; InputError for one that is not there."""
        known = {one.id: one for one in Catalogue.of(self.root, names).runs}
        missing = [name for name in names if name not in known]
        if missing:
            raise InputError(
                f"{len(missing)} of the {len(names)} runs to compare are not in the folder any "
                "more. Go back to the list and choose again."
            )
        for found in known.values():
            if found.stamp is None:
                raise InputError(f"{found.name!r} is not read: {found.why_not}")
        return [known[name] for name in dict.fromkeys(names)]

    def _comparison(self, chosen: Sequence[Found]) -> Comparison | None:
        key = tuple((one.id, one.stamp) for one in chosen)
        return self._compared.ask(key, lambda: self._compared_now(chosen), WAIT)

    def _compared_now(self, chosen: Sequence[Found]) -> Comparison:
        found = compare(_labelled(chosen))
        return replace(found, questions={}) if self.redact else found

    def _compare(self, names: Sequence[str]) -> Response:
        """Runs beside the first of them, or why they cannot be."""
        chosen: list[Found] = []
        try:
            chosen = self._chosen(names)
            found = self._comparison(chosen)
        except (LeakboundError, OSError) as error:
            return page("compare.html", chosen=chosen, found=None, why_not=str(error))
        if found is None:
            return waiting(f"{len(chosen)} runs are being compared")
        return page("compare.html", chosen=chosen, found=found, why_not="")

    def _written(self, file: str, names: Sequence[str]) -> Response | None:
        """A comparison as a file."""
        kind = file.partition(".")[2]
        if kind not in _FILES:
            return None
        try:
            found = None
            while found is None:
                found = self._comparison(self._chosen(names))
        except (LeakboundError, OSError) as error:
            return message("Nothing to save", str(error), HTTPStatus.CONFLICT)
        content, form = _FILES[kind]
        text = found.written(form).encode("utf-8", "backslashreplace")
        saved = {"Content-Disposition": f'attachment; filename="{file}"'}
        return Response(text, f"{content}; charset=utf-8", headers=saved)


def _same(rows: Sequence[ListedRun]) -> dict[str, str]:
    """What all runs that could be read have alike, in words: it is said once, above them."""
    known = [row.says for row in rows if row.says and row.says.created]
    found = [(says.verdict, says.confidence) for says in known if says.verdict]
    each = {
        "benchmark": {f"all of {says.benchmark}" for says in known},
        "drawn": {says.drawn for says in known},
        "of": {verdict.of for verdict, _ in found if verdict.of},
        "sure": {f"{percent(sure)} sure" for _, sure in found if sure is not None},
    }
    return {what: said.pop() for what, said in each.items() if len(said) == 1}


def _labelled(chosen: Sequence[Found]) -> dict[str, Run]:
    """The runs by their folders' names or, where two have the same, by their places."""
    names = [one.path.name for one in chosen]
    alike = len(set(names)) < len(names)
    return {one.name if alike else one.path.name: Run.open(one.path) for one in chosen}


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
    made = page("message.html", title=f"{title} …", text="", waits=True)
    return Response(made.body, policy=made.policy, headers={"Refresh": "1"})


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
            asked = self._made[key]
            while len(self._made) > self._keep:
                self._made.popitem(last=False)
        try:
            return asked.result(timeout=max(wait, 0.0))
        except NotYet:
            return None

    def latest(self, of: str, key: Hashable, make: Callable[[], T], wait: float) -> T | None:
        """As `ask`; while what is said of a thing is made anew, what was said before."""
        if (made := self.ask(key, make, wait)) is not None:
            self._last[of] = made
        return self._last.get(of)

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

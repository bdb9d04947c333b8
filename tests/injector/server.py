"""A process that forks for each command and shares loaded modules, which makes later tries fast.

`serve` is that process: it reads tasks as JSON lines from standard input, and reports results the
same way. It starts with the library of `events.c` preloaded.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

from injector.events import ACTIONS, Event, Fault

HERE = Path(__file__).parent
SECONDS = 120  # a command that takes longer hangs


class CannotPreloadError(RuntimeError):
    """There is no C compiler here, or no way to preload a library."""


def library() -> Path:
    """Compile the injector once; raise CannotPreloadError if that is impossible."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        raise CannotPreloadError("no C compiler on Linux")
    source = HERE / "events.c"
    folder = Path(tempfile.gettempdir()) / f"leakbound-injector-{os.getuid()}"
    made = folder / f"{sha256(source.read_bytes()).hexdigest()[:16]}.so"
    if not made.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        partial = made.with_suffix(f".{os.getpid()}")
        how = ["-O1", "-shared", "-fPIC", "-Wall", "-Werror", "-o", partial, source, "-ldl"]
        done = subprocess.run([compiler, *how], capture_output=True, text=True)
        if done.returncode:
            raise CannotPreloadError(done.stderr)
        partial.replace(made)
    return made


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command: exit status (negative: the fatal signal), output and events."""

    status: int
    out: str
    err: str
    events: tuple[Event, ...]

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL


class Server:
    """Runs commands below `root` and counts their file events."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        env = {
            **os.environ, "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "200",
            "XDG_CACHE_HOME": f"{self.root}-replies", "LD_PRELOAD": str(library()),
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from injector.server import serve; serve()"],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, arguments: Sequence[object], fault: Fault | None = None, **how: Any) -> Result:
        """Run `leakbound ARGUMENTS` in the root, with this fault or none.

        `reads` counts reads among the events.
        """
        task = {
            "arguments": [str(argument) for argument in arguments],
            "root": str(self.root),
            "fault": None if fault is None else asdict(fault),
            "reads": fault.reads if fault else bool(how.get("reads")),
        }
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(task), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server has ended")
        seen = json.loads(line)
        events = tuple(Event.of(line) for line in seen["events"])
        return Result(seen["status"], seen["out"], seen["err"], events)


def serve() -> None:
    """Answer each task; a fork runs it."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for line in sys.stdin:
            task = json.loads(line)
            print(json.dumps(_run(task, folder)), file=answers)


def _run(task: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Run one task in a fork, and import its modules for the next ones."""
    files = {name: folder / name for name in ("out", "err", "events", "modules")}
    for file in files.values():
        file.write_bytes(b"")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _in_child(task, files)
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    for name in files["modules"].read_text().split():
        with suppress(Exception):
            importlib.import_module(name)
    texts = {name: files[name].read_text(errors="replace") for name in ("out", "err", "events")}
    return {
        "status": os.waitstatus_to_exitcode(ended), "out": texts["out"], "err": texts["err"],
        "events": texts["events"].splitlines(),
    }  # fmt: skip


def _in_child(task: Mapping[str, Any], files: Mapping[str, Path]) -> int:
    for number, name in ((1, "out"), (2, "err")):
        descriptor = os.open(files[name], os.O_WRONLY | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    os.chdir(task["root"])
    log = os.open(files["events"], os.O_WRONLY | os.O_APPEND)
    loaded = set(sys.modules)
    sys.argv = ["leakbound", *task["arguments"]]
    fault = None if task["fault"] is None else Fault(**task["fault"])
    disarm = _arm(task, fault, log)
    from leakbound.cli import main

    status: object = 0
    try:
        main()
    except SystemExit as ended:
        status = ended.code
    finally:
        sys.stdout.flush()
        disarm()
        files["modules"].write_text("\n".join(sorted(set(sys.modules) - loaded)))
    return status if isinstance(status, int) else 0


def _arm(task: Mapping[str, Any], fault: Fault | None, log: int) -> Any:
    action = ACTIONS[fault.action] if fault else None
    at = fault.at if fault else 0
    what = (action.code, action.number, action.span) if action else (0, 0, 0)
    import ctypes

    preloaded = ctypes.CDLL(None)
    preloaded.injector_arm(task["root"].encode(), log, int(task["reads"]), ctypes.c_long(at), *what)
    return preloaded.injector_disarm

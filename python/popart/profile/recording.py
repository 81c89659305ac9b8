"""Profiles of sessions: of requested runs (`record`), and of the first runs of a session (`follow`)."""

from __future__ import annotations

import itertools
import json
import logging
import re
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from popart._arguments import whole
from popart.profile.machine import with_machine

if TYPE_CHECKING:
    import pva

LOG = logging.getLogger("popart")


def record(
    session: Any, run: Callable[[], Any], runs: int, before: int, folder: str | Path | None, before_name: str = "warmUp"
) -> pva.Report:
    """Run a session several times and record its steps.

    Args:
        session: A loaded session.
        run: Runs it once.
        runs: Number of recorded runs.
        before: Number of runs before them, which are not recorded.
        folder: Where the page, the trace and the JSON are written; None: nowhere.
        before_name: Name of the argument `before`, for messages.

    Returns:
        The report. In a job of several processes, it describes the replicas of this process.

    Raises:
        ValueError: `runs` is below 1, `before` below 0.
        TypeError: They are no whole numbers.
    """
    import pva

    runs, before = whole("profile: runs", runs, 1), whole(f"profile: {before_name}", before, 0)
    session._profileRuns(runs, before)
    try:
        for _ in range(runs + before):
            run()
        text = session._report()
    except BaseException:
        session._endProfile()  # other processes of a job may wait in a run
        raise
    session._profileRuns(0)
    facts = json.loads(text)
    report = pva.Report(json.dumps(with_machine(facts)))
    if folder is not None:
        write(report, Path(folder), _name_in_job(facts["replicas"]))
    return report


def _name_in_job(replicas: dict[str, int]) -> str:
    """Name of the files of a process: ``profile``, in a job ``profile-replicas-2-3``."""
    if replicas["here"] == replicas["all"]:
        return "profile"
    first, last = replicas["first"], replicas["first"] + replicas["here"] - 1
    return f"profile-replica-{first}" if first == last else f"profile-replicas-{first}-{last}"


def write(report: pva.Report, folder: Path, name: str) -> list[Path]:
    """Write a report as ``name.html``, ``name.trace.json`` and ``name.json`` into a folder, which is created.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.html", folder / f"{name}.trace.json", folder / f"{name}.json"]
    report.to_html(files[0])
    report.to_trace(files[1])
    report.save(files[2])
    return files


def follow(
    session: Any, folder: str, name: str, method: str = "run", core_of: Callable[[Any], Any] = lambda session: session
) -> None:
    """Record the first runs of a session that was just prepared, and write the profile after the last of them.

    Args:
        session: The session.
        folder: Where the files are written.
        name: Name of the files.
        method: Method of the session that runs the program once. It is wrapped until the profile is written.
        core_of: Returns the object of the session that counts recorded runs and makes the report.
    """
    if method not in session.__dict__:
        _Followed(session, Path(folder), name, method, core_of)


class _Followed:
    """A session whose first runs are recorded; the profile is written after the last of them, or when it ends."""

    def __init__(self, session: Any, folder: Path, name: str, method: str, core_of: Callable[[Any], Any]) -> None:
        """Wrap the session's method, until the profile is written."""
        self._session = weakref.ref(session)
        self._method, self._run_once = method, getattr(type(session), method)
        self._folder, self._name, self._core_of = folder, name, core_of
        self._left = 0  # runs to be recorded, after the last one
        self._text = ""
        self._pauses: list[int] = []  # nanoseconds that reports took, after each recorded run
        self._finalizer = weakref.finalize(session, self._write)
        setattr(session, method, self._run)

    def _run(self, *arguments: Any, **keywords: Any) -> Any:
        session = self._session()
        result = self._run_once(session, *arguments, **keywords)
        core = self._core_of(session)
        _, left = core._runsToProfile()
        if left >= self._left:  # a warm-up run, or the first run of a program for other shapes
            self._left = left
            return result
        start = time.monotonic_ns()
        self._left, self._text = left, core._report()
        self._pauses.append(time.monotonic_ns() - start)
        if left == 0:
            delattr(session, self._method)
            core._endProfile()
            self._finalizer()
        return result

    def _write(self) -> None:
        """Write the recorded runs; a folder that cannot be written to does not end a training."""
        import pva

        if not self._text:
            LOG.warning("profile: session '%s' ended before a run was recorded: nothing is written", self._name)
            return
        facts = {**json.loads(self._text), "pauses": self._pauses}
        report = pva.Report(json.dumps(with_machine(facts)))
        try:
            files = write(report, self._folder, _free_name(self._folder, self._name))
        except OSError as problem:
            LOG.warning("profile: session '%s': %s. Give another folder", self._name, problem)
            return
        LOG.info("profile: session '%s': %s", self._name, files[0])


def _free_name(folder: Path, name: str) -> str:
    """A free ``<name>-<number>`` of the folder; creates the JSON file, so that no other process uses the name."""
    folder.mkdir(parents=True, exist_ok=True)
    safe = re.sub(r"[^\w.-]", "_", name)
    for number in itertools.count(1):
        try:
            (folder / f"{safe}-{number}.json").touch(exist_ok=False)
        except FileExistsError:
            continue
        return f"{safe}-{number}"
    raise AssertionError("there is no largest number")

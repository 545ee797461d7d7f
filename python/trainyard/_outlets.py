"""Where reports go: into the progress file, or over HTTP where there is none. Neither raises, and neither holds training up."""

from __future__ import annotations

import atexit
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from pathlib import Path
from typing import Any, Deque, List, Optional

from ._environment import Environment
from ._warn import log, warn_once


class Outlet:
    """Where lines go. This one is nowhere."""

    def send(self, line: str) -> bool:
        """Takes a line; false if it cannot."""
        return True

    def close(self, timeout_s: float) -> None:
        """Sends what is left, as far as that is possible in this time."""


class FileOutlet(Outlet):
    """Appends to the progress file, each line by one write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._path = path
        self._is_torn = False

    def send(self, line: str) -> bool:
        # After half a line, as on a full disk, the next one begins on a line of its own.
        if self._file < 0:
            return False
        data = (("\n" if self._is_torn else "") + line + "\n").encode()
        try:
            written = os.write(self._file, data)
        except OSError as error:
            warn_once("file", "the progress file %s cannot be written: %s", self._path, error)
            return False
        self._is_torn = written < len(data)
        return not self._is_torn

    def close(self, timeout_s: float) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to somebody else."""

    def redirect_request(self, *arguments: Any, **more: Any) -> None:
        return None


class HttpOutlet(Outlet):
    """Sends lists of reports from a thread of its own. What waits is bounded; if it is too much the oldest is dropped."""

    MOST_WAITING = 1_000
    MOST_AT_ONCE = 200
    REQUEST_TIMEOUT_S = 5.0
    FIRST_PAUSE_S = 0.2
    LONGEST_PAUSE_S = 30.0

    def __init__(self, url: str, token: Optional[str]) -> None:
        if not url.lower().startswith(("http://", "https://")):
            raise ValueError(f"TRAINYARD_URL is `{url}`, which begins neither with http:// nor with https://")
        self._url = url.rstrip("/") + "/v1/progress"
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._process = os.getpid()
        self._waiting: Deque[str] = deque()
        self._changed = threading.Condition()
        self._closes_at: Optional[float] = None
        self._dropped = 0
        self._thread: Optional[threading.Thread] = None

    def send(self, line: str) -> bool:
        if os.getpid() != self._process:
            return False
        with self._changed:
            if self._closes_at is not None:
                return False
            if len(self._waiting) >= self.MOST_WAITING:
                self._waiting.popleft()
                self._drop(1)
            self._waiting.append(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="trainyard", daemon=True)
                self._thread.start()
            self._changed.notify()
        return True

    def close(self, timeout_s: float) -> None:
        # In a forked child the thread is not there, and the lock may be held for ever.
        if os.getpid() != self._process:
            return
        with self._changed:
            if self._closes_at is not None:
                return
            self._closes_at = time.monotonic() + timeout_s
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)
        with self._changed:
            lost = self._dropped + len(self._waiting)
        if lost:
            log.warning("trainyard: %d reports did not reach %s", lost, self._url)

    def _run(self) -> None:
        pause_s = self.FIRST_PAUSE_S
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closes_at is not None:
                        return
                    self._changed.wait()
                count = min(len(self._waiting), self.MOST_AT_ONCE)
                batch = [self._waiting.popleft() for _ in range(count)]
            if self._post(batch):
                pause_s = self.FIRST_PAUSE_S
                continue
            with self._changed:
                # What has come meanwhile is newer, and counts more than what could not be sent.
                room = self.MOST_WAITING - len(self._waiting)
                kept = batch[-room:] if room > 0 else []
                self._drop(len(batch) - len(kept))
                self._waiting.extendleft(reversed(kept))
                if self._closes_at is not None and time.monotonic() >= self._closes_at:
                    return
                self._pause(pause_s)
            pause_s = min(2 * pause_s, self.LONGEST_PAUSE_S)

    def _pause(self, most_s: float) -> None:
        """Waits for some part of this time, so that many jobs do not come back at once; not much longer once it is closing."""
        until = time.monotonic() + random.uniform(0.5, 1.0) * most_s
        while True:
            left_s = until - time.monotonic()
            if self._closes_at is not None:
                left_s = min(left_s, self.FIRST_PAUSE_S)
                self._changed.wait(max(0.0, left_s))
                return
            if left_s <= 0:
                return
            self._changed.wait(left_s)

    def _drop(self, count: int) -> None:
        self._dropped += count
        if count:
            warn_once("dropped", "reports cannot be sent to %s as fast as they come; the oldest are dropped", self._url)

    def _post(self, batch: List[str]) -> bool:
        """Sends some reports; true if they need not be sent again."""
        request = urllib.request.Request(self._url, data=("[" + ",".join(batch) + "]").encode(), method="POST")
        request.add_header("Content-Type", "application/json")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=self.REQUEST_TIMEOUT_S):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (408, 429) or error.code >= 500:
                warn_once(f"http {error.code}", "%s answers %d; reports are sent again later", self._url, error.code)
                return False
            warn_once(f"http {error.code}", "%s refuses reports: %d %s", self._url, error.code, error.reason)
            with self._changed:
                self._dropped += len(batch)
            return True
        except Exception as error:  # No network, a name that is not found, half an answer: all of it may pass.
            warn_once("http", "%s cannot be reached: %s; reports are sent again later", self._url, error)
            return False


class FirstOf(Outlet):
    """The first of some outlets that takes a line; one that once refused is not asked again."""

    def __init__(self, outlets: List[Outlet]) -> None:
        self._outlets = outlets

    def send(self, line: str) -> bool:
        while self._outlets:
            if self._outlets[0].send(line):
                return True
            if len(self._outlets) == 1:
                return False
            self._outlets.pop(0).close(0.0)
        return False

    def close(self, timeout_s: float) -> None:
        for outlet in self._outlets:
            outlet.close(timeout_s)


def open_outlet(environment: Environment) -> Outlet:
    """The file first, HTTP if there is none or it cannot be written; nowhere outside Trainyard and on ranks above 0."""
    if not environment.is_inside or environment.rank != 0:
        return Outlet()
    outlets: List[Outlet] = []
    if environment.progress_file is not None:
        try:
            outlets.append(FileOutlet(environment.progress_file))
        except OSError as error:
            warn_once("file", "the progress file %s cannot be opened: %s", environment.progress_file, error)
    if environment.url is not None:
        try:
            outlets.append(HttpOutlet(environment.url, environment.token))
        except ValueError as error:
            warn_once("url", "%s", error)
    if not outlets:
        warn_once("nowhere", "there is nowhere to report to; training goes on without")
    return FirstOf(outlets)


def close_at_exit(outlet: Outlet, timeout_s: float) -> None:
    """Has it closed when the interpreter ends, if nobody did before."""
    atexit.register(outlet.close, timeout_s)

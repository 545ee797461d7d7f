"""What the tests of the hook have in common: folders of an attempt, a scheduler that writes and listens."""

import json
import os
import signal
import sys
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1]
EXAMPLES = PYTHON.parent / "examples" / "jobs"
sys.path.insert(0, str(PYTHON))

from trainyard import _warn  # noqa: E402
from trainyard._environment import Environment  # noqa: E402
from trainyard._outlets import open_outlet  # noqa: E402
from trainyard._session import Session  # noqa: E402


class Clock:
    """Time that goes on when it is told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Attempt(unittest.TestCase):
    """A test with a folder as the scheduler makes it for an attempt."""

    def setUp(self):
        _warn._told.clear()
        self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.progress = self.folder / "progress.jsonl"
        self.control = self.folder / "control.json"
        self.clock = Clock()
        self.version = 0

    def variables(self, **more):
        variables = {
            "TRAINYARD_JOB": "7",
            "TRAINYARD_JOB_NAME": "a job",
            "TRAINYARD_ATTEMPT": "1",
            "TRAINYARD_DIR": str(self.folder),
            "TRAINYARD_PROGRESS_FILE": str(self.progress),
            "TRAINYARD_CONTROL_FILE": str(self.control),
            "TRAINYARD_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "TRAINYARD_RESUME_ITERATION": "0",
            **more,
        }
        return {name: value for name, value in variables.items() if value is not None}

    def session(self, settings=None, **variables):
        environment = Environment.read(self.variables(**variables))
        session = Session(environment, open_outlet(environment), clock=self.clock, **(settings or {}))
        self.addCleanup(session.close)
        return session

    def say(self, **said):
        """Replaces the control file, as the scheduler does, and lets some time go by."""
        self.version = said.setdefault("version", self.version + 1)
        new = self.folder / "control.new"
        new.write_text(json.dumps(said))
        os.replace(new, self.control)
        self.clock.now += 1.0

    def lines(self):
        if not self.progress.exists():
            return []
        return [json.loads(line) for line in self.progress.read_text().splitlines()]


class Listener:
    """The scheduler's end of HTTP. It answers with the given codes one after the other, and then with 200."""

    def __init__(self, codes=()):
        self.codes = list(codes)
        self.reports = []
        self.tokens = set()
        self.paths = set()
        self.changed = threading.Condition()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with listener.changed:
                    code = listener.codes.pop(0) if listener.codes else 200
                    listener.tokens.add(self.headers.get("Authorization"))
                    listener.paths.add(self.path)
                    if code == 200:
                        said = json.loads(body)
                        listener.reports.extend(said if isinstance(said, list) else [said])
                    listener.changed.notify_all()
                self.send_response(code)
                if code in (301, 302, 307):
                    self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def wait(self, what, timeout_s=20.0):
        with self.changed:
            return self.changed.wait_for(lambda: what(self), timeout_s)

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

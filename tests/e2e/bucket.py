"""An S3 server of the tests' own on the loopback address, which refuses as many calls as it is told to."""

import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

REFUSED = (
    b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'
)


class Bucket:
    """`calls` and `refused` count what was asked of it while `share` of the calls failed."""

    def __init__(self, application: Any) -> None:
        self._application, self._numbers = application, itertools.count()
        self.share, self.calls, self.refused = 0.0, 0, 0

    def __call__(self, environ: Any, start_response: Any) -> Any:
        number = next(self._numbers)
        self.calls += 1
        if random.Random(number).random() < self.share:
            self.refused += 1
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("503 Slow Down", [("Content-Type", "application/xml")])
            return [REFUSED]
        return self._application(environ, start_response)


@contextmanager
def served() -> Iterator[tuple[Bucket, str]]:
    """The server and its address."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    bucket = Bucket(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, bucket, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield bucket, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()

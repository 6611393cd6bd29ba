"""A webhook gets the notice as JSON; trouble on the way is tried again, and never more than that."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from orchestrator import registry
from orchestrator.config import RunDir
from orchestrator.notify import webhook
from orchestrator.runtime.notices import Notices


class Receiver:
    """A web server of this process: `answers` are the codes it gives, then 200 for ever."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[dict] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(json.loads(body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def receiver(monkeypatch) -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv(webhook.ADDRESS, made.url)
    monkeypatch.setattr(webhook.send.retry, "sleep", lambda seconds: None)
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_the_notice_arrives_as_json(receiver):
    webhook.send({"text": "incident 3: persistent (high)", "step": 120, "run": "runs/ä"})
    assert receiver.got == [{"text": "incident 3: persistent (high)", "step": 120, "run": "runs/ä"}]


def test_the_servers_own_trouble_is_tried_again(receiver):
    receiver.answers = [503, 429, 500]
    webhook.send({"text": "x"})
    assert len(receiver.got) == 4


def test_trouble_that_lasts_is_an_error_in_the_end(receiver):
    receiver.answers = [500] * 9
    with pytest.raises(OSError, match="500"):
        webhook.send({"text": "x"})
    assert len(receiver.got) == 4


def test_a_refusal_is_not_tried_again(receiver):
    receiver.answers = [404]
    with pytest.raises(OSError, match="404"):
        webhook.send({"text": "x"})
    assert len(receiver.got) == 1


@pytest.mark.parametrize("address", ["file:///etc/hosts", "ftp://host/x", "javascript:1"])
def test_only_web_addresses_are_opened(monkeypatch, address):
    monkeypatch.setenv(webhook.ADDRESS, address)
    with pytest.raises(ValueError, match="is not an http or https address"):
        webhook.send({"text": "x"})


def test_without_an_address_nobody_is_told_and_it_is_said(monkeypatch, tmp_path):
    monkeypatch.delenv(webhook.ADDRESS, raising=False)
    notices = Notices(RunDir(tmp_path))
    assert notices.tell("x").startswith("nobody is told: no address is set")
    notices.finish()
    assert list(tmp_path.iterdir()) == []


def test_what_was_sent_and_what_was_not_stands_in_the_run_directory(receiver, tmp_path):
    receiver.answers = [200, 404]
    notices = Notices(RunDir(tmp_path))
    assert notices.tell("first", incident=1) == "handed to webhook"
    notices.tell("second")
    notices.finish()
    lines = [json.loads(line) for line in (tmp_path / "notices.jsonl").read_text().splitlines()]
    assert [(line["text"], line["sent"]) for line in lines] == [("first", True), ("second", False)]
    assert receiver.got[0] == {"text": "first", "run": str(tmp_path), "incident": 1}


@pytest.mark.parametrize("name", registry.names("notify"))
def test_every_channel_has_its_two_functions_and_a_first_line(name):
    module = registry.load("notify", name)
    assert all(told.__doc__ for told in (module, module.address, module.send))

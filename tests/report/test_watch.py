"""The live page: this machine alone, whole pages only."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from maxk.report import Findings, gather, page
from maxk.report.watch import Watched, server
from maxk.store.run import Run, RunError
from tests.report.runs import add_step, sampled, trained


@contextmanager
def served(watched: Watched) -> Iterator[int]:
    with server(watched) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield serving.server_port
        finally:
            serving.shutdown()
            thread.join()


def ask(port: int, path: str = "/", host: str | None = None, method: str = "GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}"})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer, body


@pytest.fixture
def pages() -> Watched:
    return Watched([], lambda number: f"page {number}")


def test_it_listens_on_this_machine_alone(pages):
    with server(pages) as serving:
        assert serving.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{}", "127.0.0.1", "[::1]:{}", ""])
def test_other_names_are_refused(pages, host):
    pages.check()
    with served(pages) as port:
        answer, body = ask(port, host=host.format(port) or "x")
        assert answer.status == 403
        assert "page" not in body
        assert ask(port, host=f"localhost:{port}")[1] == "page 1"


def test_it_can_only_be_read_and_has_two_addresses(pages):
    pages.check()
    with served(pages) as port:
        assert ask(port, "/version")[1] == '{"version": 1, "trouble": ""}'
        assert ask(port, "/config.toml")[0].status == 404
        assert ask(port, "/../../etc/passwd")[0].status == 404
        assert ask(port, method="POST")[0].status == 501
        headers = ask(port)[0].headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"


def test_a_page_is_made_when_files_change_and_not_otherwise(tmp_path):
    folder = trained(tmp_path / "t", steps=1, finished=False)
    watched = Watched([folder], lambda number: f"page {number}")
    assert watched.check()
    assert not watched.check()
    add_step(Run.open(folder), 1)
    assert watched.check()
    (folder / "model").mkdir()
    assert watched.check()
    assert watched.version == 3


def test_half_a_file_leaves_the_last_page_and_is_tried_again(tmp_path):
    folder = trained(tmp_path / "t", steps=2, finished=False)
    watched = Watched([folder], lambda number: Findings(gather([folder])).headline[0])
    assert watched.check()
    before = watched.page
    whole = (folder / "rollouts" / "step-0000001.parquet").read_bytes()
    part = folder / "rollouts" / "step-0000002.parquet"
    part.write_bytes(whole[: len(whole) // 2])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "rew')
    assert not watched.check()
    assert watched.page == before
    assert watched.trouble
    part.write_bytes(whole)
    assert watched.check()
    assert watched.trouble == ""


def test_a_sampling_run_that_is_not_whole_is_noted_and_the_rest_shown(tmp_path):
    half = sampled(tmp_path / "half", {"a": [4, 0]})
    (half / "verdicts" / "000000.parquet").unlink()
    folder = trained(tmp_path / "t", steps=2, finished=False)
    html = page(Findings(gather([half, folder], live=True)), version=1)
    assert "has completions without verdicts" in html
    assert "Reward" in html


def test_a_folder_that_was_copied_in_part_is_noted(tmp_path):
    half = sampled(tmp_path / "half", {"a": [4, 0]})
    (half / "completions" / "000000.parquet").unlink()
    with pytest.raises(RunError, match="verdicts without their completions"):
        gather([half])
    assert "verdicts without their completions" in gather([half], live=True).missing[0]


def test_a_run_with_nothing_in_it_yet_is_a_page(tmp_path):
    folder = trained(tmp_path / "t", steps=0, finished=False)
    html = page(Findings(gather([folder], live=True)), version=1)
    assert "t has no completions yet." in html
    assert "Nothing has been logged yet." in html

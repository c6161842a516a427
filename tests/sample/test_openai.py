"""The back end for servers, against a real one that misbehaves."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from maxk.sample import Request, Sampling, choose, make, sample
from maxk.sample.openai_ import OpenAISampler, ServerError, asked_to_wait
from maxk.store.run import Run
from tests.sample.test_run import problems, start

KEY = "sk-secret-0123456789"
CHAT = Sampling(max_tokens=5, seed=7)


@dataclass
class Server:
    """What the server does, and what it was asked."""

    url: str = ""
    faults: list[Any] = field(default_factory=list)  # one a request, from the first on
    most: int = 100  # choices it gives for one request
    logprobs: bool = True
    refuses: tuple[str, ...] = ()  # fields
    delay: float = 0.0
    bodies: list[dict] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    at_once: int = 0
    busiest: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Handler(BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        told: Server = self.server.told
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with told.lock:
            told.bodies.append(body)
            told.paths.append(self.path)
            told.keys.append(self.headers.get("Authorization"))
            told.at_once += 1
            told.busiest = max(told.busiest, told.at_once)
            fault = told.faults.pop(0) if told.faults else None
        time.sleep(told.delay)
        with told.lock:
            told.at_once -= 1
        self.answer(told, body, fault)

    def answer(self, told: Server, body: dict, fault: Any) -> None:
        if fault == "drop":
            self.connection.close()
            return
        if fault == "half":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.connection.close()
            return
        if fault == "slow":
            time.sleep(1.0)
        if isinstance(fault, tuple):
            code, headers, text = fault
            self.reply(code, text.encode(), headers)
            return
        for name in told.refuses:
            if name in body:
                self.reply(400, json.dumps({"error": f"'{name}' is not supported"}).encode())
                return
        choices = [self.choice(told, body, i) for i in range(min(body.get("n", 1), told.most))]
        usage = {"completion_tokens": 3 * len(choices)}
        self.reply(200, json.dumps({"choices": choices[::-1], "usage": usage}).encode())

    def choice(self, told: Server, body: dict, i: int) -> dict:
        text = f"{body.get('seed', 0) + i}"
        out: dict[str, Any] = {"index": i, "finish_reason": ["stop", "length"][i % 2]}
        if "messages" in body:
            out["message"] = {"role": "assistant", "content": text}
            if told.logprobs and body.get("logprobs"):
                out["logprobs"] = {"content": [{"token": "x", "logprob": -0.5}] * 4}
        else:
            out["text"] = text
            if told.logprobs and body.get("logprobs"):
                out["logprobs"] = {"token_logprobs": [-0.25, -0.25]}
        return out

    def reply(self, code: int, text: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("MAXK_API_KEY", raising=False)
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told = Server(f"http://127.0.0.1:{running.server_port}/v1")
    vars(running)["told"] = told
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield told
    running.shutdown()
    running.server_close()


def sampler(server: Server, **options) -> OpenAISampler:
    return OpenAISampler("m", server.url, **{"first_wait": 0.01, **options})


def ask(server: Server, n: int = 20, settings=CHAT, count: int = 3, **options) -> list:
    asked = [Request(f"p{i}", "Write.", tuple(range(n))) for i in range(count)]
    found = list(sampler(server, **options).sample(asked, settings))
    pairs = Counter((each.problem, each.sample) for each in found)
    assert pairs == Counter((f"p{i}", j) for i in range(count) for j in range(n))
    return sorted(found, key=lambda each: (each.problem, each.sample))


def test_completions_carry_what_the_server_says(server):
    found = ask(server)
    first = found[0]
    assert (first.tokens, first.finish, first.logprob, first.entropy) == (4, "stop", -2.0, None)
    assert found[1].finish == "length"
    body = server.bodies[0]
    assert body["messages"] == [{"role": "user", "content": "Write."}]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 1.0, 5)
    assert set(server.paths) == {"/v1/chat/completions"}
    assert sorted(body["n"] for body in server.bodies) == [4, 4, 4, 8, 8, 8, 8, 8, 8]


def test_each_sample_has_a_seed_of_its_own_that_others_do_not_change(server):
    texts = [each.text for each in ask(server)]
    assert len(set(texts)) == 60
    asked = [Request("p0", "Write.", tuple(range(8, 20)))]
    again = sorted(sampler(server).sample(asked, CHAT), key=lambda each: each.sample)
    assert [each.text for each in again] == texts[8:20]


def test_without_chat_the_prompt_is_text(server):
    found = ask(server, settings=Sampling(chat=False))
    assert (found[0].tokens, found[0].logprob) == (2, -0.5)
    assert server.bodies[0]["prompt"] == "Write."
    assert set(server.paths) == {"/v1/completions"}


def test_faults_that_pass_are_tried_again(server):
    busy = (429, {"Retry-After": "0.3"}, "slow down")
    server.faults = [busy, (500, {}, "oops"), "drop", "half", (503, {}, ""), (200, {}, "no json")]
    server.faults += [(200, {}, '{"choices": []}'), (502, {}, "<html>")]
    began = time.monotonic()
    ask(server, n=3, count=2)
    assert time.monotonic() - began > 0.3
    assert len(server.bodies) == 2 + 8


def test_an_answer_that_takes_too_long_is_asked_for_again(server):
    server.faults = ["slow"]
    ask(server, n=2, count=2, timeout=0.3)
    assert len(server.bodies) == 3


def test_a_server_that_stays_away_is_given_up(server):
    server.faults = [(500, {}, "still down")] * 50
    with pytest.raises(ServerError, match=r"/v1/chat/completions: 3 tries, then 500 .*still down"):
        ask(server, tries=3)


def test_fewer_choices_than_asked_for_are_made_up_one_by_one(server):
    server.most = 3
    ask(server)
    sizes = Counter(body.get("n", 1) for body in server.bodies)
    assert sizes[1] > 0
    server.most, server.bodies = 1, []
    ask(server)


@pytest.mark.parametrize("refused", [("n",), ("seed",), ("logprobs",), ("seed", "logprobs")])
def test_what_a_server_does_not_know_is_left_out(server, refused):
    server.refuses = refused
    found = ask(server, concurrency=1)
    assert (found[0].logprob is None) == ("logprobs" in refused)
    last = server.bodies[-1]
    assert not set(refused) & set(last)


def test_the_new_name_of_max_tokens_is_tried(server):
    server.refuses = ("max_tokens",)
    ask(server)
    assert server.bodies[-1]["max_completion_tokens"] == 5


def test_tokens_come_from_the_usage_where_there_are_no_logprobs(server):
    server.logprobs = False
    assert {each.tokens for each in ask(server, n=1)} == {3}
    assert {each.tokens for each in ask(server, n=4)} == {None}  # of four together: not of one


def test_no_more_requests_at_once_than_allowed(server):
    server.delay = 0.02
    ask(server, concurrency=4)
    assert 2 <= server.busiest <= 4


@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_key_is_final_and_not_shown(server, monkeypatch, code):
    server.faults = [(code, {}, f"wrong key {KEY}")] * 50
    with pytest.raises(ServerError, match=rf"wants a key \({code}\); set MAXK_API_KEY"):
        ask(server)
    monkeypatch.setenv("MAXK_API_KEY", KEY)
    server.faults = [(code, {}, f"wrong key {KEY}")] * 50
    with pytest.raises(ServerError, match="refuses the key") as caught:
        ask(server)
    assert KEY not in str(caught.value)


def test_a_wrong_address_and_other_refusals_are_final(server):
    server.faults = [(404, {}, "no such model")] * 50
    with pytest.raises(ServerError, match="404; check the address, and the model 'm': no such"):
        ask(server)
    server.faults = [(413, {}, "too large")] * 50
    with pytest.raises(ServerError, match=r"413 .*too large"):
        ask(server)


def test_a_redirect_does_not_carry_the_key_away(server, monkeypatch):
    monkeypatch.setenv("MAXK_API_KEY", KEY)
    server.faults = [(302, {"Location": server.url + "/elsewhere"}, "")] * 50
    with pytest.raises(ServerError, match="302"):
        ask(server)
    assert not any("elsewhere" in path for path in server.paths)


def test_the_key_is_sent_and_written_nowhere(server, monkeypatch, tmp_path, capfd, caplog):
    caplog.set_level(0)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-this-one")
    monkeypatch.setenv("MAXK_API_KEY", KEY)
    run = start(tmp_path / "run", base_url=server.url)
    server.faults = [(429, {}, f"limit of {KEY} reached"), "drop"]
    sample(problems(2), sampler(server), run, 4, CHAT)
    server.faults = [(500, {}, f"{KEY} is broken")] * 50
    with pytest.raises(ServerError) as caught:
        sample(problems(2), sampler(server, tries=2), start(tmp_path / "b"), 4, CHAT)
    assert "*** is broken" in str(caught.value)
    assert set(server.keys) == {f"Bearer {KEY}"}
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()
    assert Run.open(tmp_path / "run").read("completions").num_rows == 8
    said = capfd.readouterr()
    assert KEY not in said.out + said.err + caplog.text + repr(caught.value)


def test_an_address_with_a_secret_in_it_is_refused():
    for url in ("http://me:pw@host/v1", "https://host/v1?key=pw"):
        with pytest.raises(ValueError, match="MAXK_API_KEY") as caught:
            OpenAISampler("m", url)
        assert "pw" not in str(caught.value)
    with pytest.raises(ValueError, match="use http://HOST:PORT/v1"):
        OpenAISampler("m", "localhost:8000")


def test_the_back_end_follows_from_the_address():
    assert choose("auto", "http://host/v1") == "openai"
    assert isinstance(make("m", base_url="http://host/v1"), OpenAISampler)
    with pytest.raises(ValueError, match="backend='openai' needs base_url"):
        choose("openai")
    with pytest.raises(ValueError, match="goes with backend='openai', not 'vllm'"):
        choose("vllm", "http://host/v1")


def test_retry_after_is_a_number_or_a_date():
    assert asked_to_wait("2.5") == 2.5
    assert asked_to_wait(None) == asked_to_wait("soon") == 0.0
    assert 8 < asked_to_wait(formatdate(time.time() + 10, usegmt=True)) <= 10


def test_stopping_in_the_middle_leaves_no_thread_waiting(server):
    server.delay = 0.02
    before = threading.active_count()
    asked = [Request("p", "x", tuple(range(400)))]
    sampling: Any = sampler(server, concurrency=3).sample(asked, CHAT)
    next(sampling)
    sampling.close()
    deadline = time.monotonic() + 10
    while threading.active_count() > before + 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() <= before + 1

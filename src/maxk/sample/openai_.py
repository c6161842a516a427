"""Sample from any server that speaks OpenAI's protocol: vLLM, SGLang, llama.cpp, OpenAI itself.

Requests run concurrently in threads. A request that fails for a while (429, 5xx, a dropped or slow
answer) is repeated, later each time or when the server says. Fields that the server does not take
(n, seed, logprobs) are left out from then on.

The key comes from MAXK_API_KEY or OPENAI_API_KEY and goes only into the header of requests to this
server: redirects are not followed, and the key is removed from messages of the server.
"""

import http.client
import json
import os
import queue
import random
import re
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from maxk.records import Completion
from maxk.sample.base import Request, Sampling, messages, plain, runs_of, seed_of

_TOGETHER = 8  # samples of one request; a dropped answer loses no more
_LONGEST_WAIT = 60.0
_OPTIONAL = ("max_tokens", "seed", "logprobs")  # max_tokens has a new name at OpenAI
_Job = tuple[Request, tuple[int, ...]]


class ServerError(RuntimeError):
    """The server's answer was final."""


class _RefusedError(Exception):
    """The server does not take what it was sent."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl) -> None:
        return None


class OpenAISampler:
    """A model behind a server.

    base_url: up to and including /v1. concurrency: requests at a time. tries: of one request,
    before sampling ends with an error. timeout: seconds for an answer.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        concurrency: int = 32,
        tries: int = 8,
        timeout: float = 600.0,
        first_wait: float = 0.5,
    ) -> None:
        refuse_secrets(base_url)
        if concurrency < 1:
            raise ValueError(f"concurrency={concurrency} must be at least 1")
        self.model, self.base_url = model, base_url.rstrip("/")
        self.concurrency, self.tries, self.timeout = concurrency, tries, timeout
        self.first_wait = first_wait
        self.unknown: set[str] = set()  # fields that this server does not take
        self.opener = urllib.request.build_opener(_NoRedirect)

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        """Every sample of every request, each as soon as it is done."""
        work = _Work(requests)
        for _ in range(self.concurrency):
            # Daemons, so that the process can end while an answer takes minutes.
            threading.Thread(target=self._serve, args=(work, settings), daemon=True).start()
        try:
            while work.left:
                found = work.results.get()
                if isinstance(found, BaseException):
                    raise found
                work.left -= len(found)
                yield from found
        finally:
            work.stop.set()

    def _serve(self, work: "_Work", settings: Sampling) -> None:
        try:
            while (job := work.next()) is not None:
                request, samples = job
                if "n" in self.unknown and len(samples) > 1:
                    work.again(request, [(sample,) for sample in samples])
                    continue
                try:
                    completions = self._ask(request, samples, settings, work.stop)
                except _RefusedError:
                    work.again(request, [samples])
                    continue
                if len(completions) < len(samples):
                    self.unknown.add("n")
                    work.again(request, [(sample,) for sample in samples[len(completions) :]])
                work.results.put(completions)
        except BaseException as error:
            work.results.put(error)

    def _ask(
        self, request: Request, samples: tuple[int, ...], settings: Sampling, stop: threading.Event
    ) -> list[Completion]:
        body = self._body(request, samples, settings)
        path = "/chat/completions" if settings.chat else "/completions"
        why = ""
        for attempt in range(self.tries):
            wait = min(self.first_wait * 2**attempt, _LONGEST_WAIT) * random.uniform(0.5, 1.5)
            try:
                answer = self._post(path, body)
                return completions_of(answer, request.problem, samples)
            except urllib.error.HTTPError as error:
                why = self._reason(error, path, body)
                wait = max(wait, asked_to_wait(error.headers.get("Retry-After")))
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
                why = f"{type(error).__name__}: {error}"
            if stop.wait(wait):
                return []
        raise ServerError(self._clean(f"{self.base_url}{path}: {self.tries} tries, then {why}"))

    def _body(
        self, request: Request, samples: tuple[int, ...], settings: Sampling
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "max_tokens": settings.max_tokens,
            "seed": seed_of(settings.seed, request.problem, samples[0]),
            "logprobs": True if settings.chat else 1,
            "n": len(samples),
        }
        if settings.chat:
            body["messages"] = messages(request.prompt)
        else:
            body["prompt"] = plain(request.prompt)
        if "max_tokens" in self.unknown:
            body["max_completion_tokens"] = body["max_tokens"]
        return {key: value for key, value in body.items() if key not in self.unknown}

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        if key := api_key():
            headers["Authorization"] = f"Bearer {key}"
        data = json.dumps(body).encode()
        asked = urllib.request.Request(self.base_url + path, data, headers)
        with self.opener.open(asked, timeout=self.timeout) as answer:
            return json.loads(answer.read())

    def _reason(self, error: urllib.error.HTTPError, path: str, body: dict[str, Any]) -> str:
        """What went wrong if another try may help; else raises."""
        try:
            said = error.read(2000).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            said = ""
        code, where = error.code, self.base_url + path
        if code in (400, 422):
            named = [f for f in _OPTIONAL if f in body and re.search(rf"\b{f}\b", said)]
            if not named and body.get("n", 1) > 1:
                named = ["n"]
            if named:
                self.unknown.update(named)
                raise _RefusedError from None
        if code in (401, 403):
            have = "refuses the key" if api_key() else "wants a key"
            why = f"{where} {have} ({code}); set MAXK_API_KEY or OPENAI_API_KEY"
            raise ServerError(why) from None
        if code == 404:
            why = f"{where}: 404; check the address, and the model {self.model!r}: {said}"
            raise ServerError(self._clean(why)) from None
        if code not in (408, 409, 425, 429) and code < 500:
            raise ServerError(self._clean(f"{where}: {code} {error.reason}: {said}")) from None
        return f"{code} {error.reason}: {said}"

    def _clean(self, text: str) -> str:
        key = api_key()
        return text.replace(key, "***") if key else text


class _Work:
    """Requests to send, and the completions that came back."""

    def __init__(self, requests: Iterable[Request]) -> None:
        requests = list(requests)
        self.left = sum(len(request.samples) for request in requests)
        self.jobs: deque[_Job] = deque(
            (request, samples)
            for request in requests
            for samples in runs_of(request.samples, _TOGETHER)
        )
        self.results: queue.Queue[list[Completion] | BaseException] = queue.Queue()
        self.stop = threading.Event()

    def next(self) -> _Job | None:
        """The next job; waits while another thread may still return one."""
        while not self.stop.is_set():
            try:
                return self.jobs.popleft()
            except IndexError:
                self.stop.wait(0.05)
        return None

    def again(self, request: Request, parts: list[tuple[int, ...]]) -> None:
        self.jobs.extendleft((request, samples) for samples in reversed(parts))


def completions_of(answer: Any, problem: str, samples: tuple[int, ...]) -> list[Completion]:
    """The completions in an answer; there may be fewer than requested."""
    choices = sorted(answer["choices"], key=lambda choice: choice.get("index", 0))
    if not choices:
        raise ValueError("an answer without choices")
    alone = (answer.get("usage") or {}).get("completion_tokens") if len(choices) == 1 else None
    out = []
    for sample, choice in zip(samples, choices, strict=False):
        logprobs = logprobs_of(choice)
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        out.append(
            Completion(
                problem,
                sample,
                (text or "").encode("utf-8", "replace").decode(),
                len(logprobs) if logprobs else alone,
                "length" if choice.get("finish_reason") == "length" else "stop",
                sum(logprobs) if logprobs else None,
            )
        )
    return out


def logprobs_of(choice: dict[str, Any]) -> list[float] | None:
    """One per token, in either of the protocol's forms, or None."""
    given = choice.get("logprobs") or {}
    if given.get("content"):
        return [token["logprob"] for token in given["content"]]
    found = given.get("token_logprobs")
    return found if found and None not in found else None


def asked_to_wait(header: str | None) -> float:
    """Seconds that a Retry-After header asks for: a number or a date."""
    if not header:
        return 0.0
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def api_key() -> str | None:
    return os.environ.get("MAXK_API_KEY") or os.environ.get("OPENAI_API_KEY")


def refuse_secrets(base_url: str) -> None:
    """ValueError for an address with a secret in it, which the run's files would store."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"base_url={base_url!r} is not an address; use http://HOST:PORT/v1")
    if parts.username or parts.password or parts.query:
        raise ValueError(
            f"base_url of {parts.hostname} has a user, a password or a query in it; "
            "a key comes from MAXK_API_KEY or OPENAI_API_KEY"
        )

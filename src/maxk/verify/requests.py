"""What the judge asks of a program for a test, and which answer is right."""

import marshal
from typing import Any

from maxk.records import AssertTest, CallTest, Test
from maxk.verify import wire
from maxk.verify.asserts import as_call

_NO_SHARING = 2  # of marshal's versions: one list in two places arrives as two
# id of a test: the test, so that the id stays its own, the request, if one is enough, and what is
# right: the reply itself, or the value of an assert test
Memo = dict[int, tuple[Test, bytes | None, Any]]


def call_request(test: CallTest) -> bytes:
    args = tuple(test.args)
    try:
        wire.encode(args, max_bytes=2**31)  # marshal would turn an array into bytes and say nothing
        return request_for(test.function, args, {})
    except ValueError as error:
        raise ValueError(f"args={args!r:.200} of a CallTest: {error}") from None


def assert_request(test: AssertTest) -> tuple[bytes | None, Any]:
    """For test code that is about one call, this and what it is to return; else None."""
    call = as_call(test)
    if call is None:
        return None, None
    return request_for(call.function, call.args, call.named), call.expected


def request_for(function: str, args: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    """The judge is trusted and its interpreter the child's: marshal, which is fast, will do."""
    return b"F" + marshal.dumps((function, args, named), _NO_SHARING)


def expected_reply(test: CallTest) -> bytes | None:
    """The bytes of the very value expected; None if it has no such form."""
    try:
        return b"=" + wire.encode(test.expected)
    except wire.NotPlainError:
        return None

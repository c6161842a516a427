"""What the judge asks of a program for a test, and which answer is right."""

import hashlib
import marshal
from typing import Any, NamedTuple

from maxk.records import AssertTest, CallTest, StdinTest, Test
from maxk.verify import wire
from maxk.verify.answers import Answer
from maxk.verify.asserts import as_call
from maxk.verify.names import declared

_NO_SHARING = 2  # of marshal's versions: one list in two places arrives as two
_MOST = 2**31


class Prepared(NamedTuple):
    """A test, made ready once for all programs of its problem."""

    test: Test  # kept, so that its id stays its own
    order: tuple[Any, ...]  # by which tests are judged: small ones first, whatever was given first
    request: bytes  # to the program, or to the process that runs test code
    answer: Answer | None = None  # what has to come back, where one call is all


Memo = dict[int, Prepared]  # id of a test: what was made of it


def prepared(test: Test, memo: Memo) -> Prepared:
    """ValueError if the test is none that can be judged."""
    found = memo.get(id(test))
    if found is None:
        found = memo[id(test)] = _prepared(test)
    return found


def check_test(test: Test) -> None:
    """ValueError if the test is none that can be judged."""
    _prepared(test)


def _prepared(test: Test) -> Prepared:
    if isinstance(test, StdinTest):
        return Prepared(test, (0, len(test.input), test.input, test.output), b"S")
    if isinstance(test, CallTest):
        return _call(test)
    if not isinstance(test, AssertTest):
        raise ValueError(f"{test!r:.200} is no test; use StdinTest, CallTest or AssertTest")
    call = as_call(test)
    if call is not None and not test.nodes:
        request = _request(call.function, call.args, call.named, strict=False)
        answer = Answer(call.expected, "python")
        return Prepared(test, (1, len(request), request, answer.bytes), request, answer)
    names = declared(test)
    # The program never sees the text of the test, so it cannot know what it is seeded with.
    seed = hashlib.sha256(b"the code of a test\0" + test.code.encode("utf-8", "replace")).digest()
    asked = (test.code, names.function, list(names.classes), test.nodes, seed)
    return Prepared(test, (2, len(test.code), test.code), b"A" + wire.encode(asked, _MOST))


def _call(test: CallTest) -> Prepared:
    request = call_request(test)
    try:
        answer = Answer(test.expected, test.equality, test.tolerance)
    except ValueError as error:
        raise ValueError(f"expected={test.expected!r:.200} of a CallTest: {error}") from None
    return Prepared(test, (1, len(request), request, answer.bytes), request, answer)


def call_request(test: CallTest) -> bytes:
    """The call, for the program; ValueError if its arguments are no plain values."""
    args = tuple(test.args)
    try:
        wire.encode(args, _MOST)  # marshal would turn an array into bytes and say nothing
    except ValueError as error:
        raise ValueError(f"args={args!r:.200} of a CallTest: {error}") from None
    return _request(test.function, args, {}, strict=test.equality == "strict")


def _request(function: str, args: tuple[Any, ...], named: dict[str, Any], strict: bool) -> bytes:
    """The judge is trusted and its interpreter the child's: marshal, which is fast, will do."""
    return b"F" + marshal.dumps((function, args, named, strict), _NO_SHARING)

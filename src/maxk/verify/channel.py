"""The child's end of its channel to the judge; inside the jail, beside a stranger's code."""

import os

try:
    from .protocol import HEADER, NUMBER_BYTES
except ImportError:  # in the jail there is no package
    from protocol import HEADER, NUMBER_BYTES  # pyright: ignore[reportMissingImports]

_MOST = 2**32


class Channel:
    """Requests of the judge, one at a time; a reply repeats the number of its request."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.number = bytes(NUMBER_BYTES)

    def request(self) -> bytes:
        """The next thing the judge says; the end, once it says no more."""
        data = b""
        while len(data) < HEADER.size:
            data += self._some(HEADER.size - len(data))
        (length,) = HEADER.unpack(data)
        body = bytearray()
        while len(body) < length:
            body += self._some(min(length - len(body), 1 << 20))
        self.number = bytes(body[:NUMBER_BYTES])
        return bytes(memoryview(body)[NUMBER_BYTES:])

    def _some(self, most: int) -> bytes:
        part = os.read(self.fd, most)
        if not part:
            os._exit(0)
        return part

    def reply(self, text: bytes) -> None:
        data = frame(text, self.number)
        while data:
            data = data[os.write(self.fd, data) :]

    def ask(self, question: bytes) -> bytes:
        """A question of the judge in the middle of a request."""
        self.reply(question)
        return self.request()


def frame(text: bytes, number: bytes = bytes(NUMBER_BYTES)) -> bytes:
    return HEADER.pack(NUMBER_BYTES + len(text)) + number + text

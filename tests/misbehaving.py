"""A server that misbehaves on purpose: it stands before a real one, which does the work, and spoils its answers."""

import hashlib
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from typing import BinaryIO, NamedTuple

from qlab.drivers.statements import script
from qlab.errors import DriverUnavailable, ReplyLost, UnexpectedReply

PASSWORD = "hunter2"
"""What the server wants in AUTH; no message may show it."""

_VERBS = (
    *("push", "reserve", "complete", "complete_and_reserve", "release", "extend", "fail", "recover", "clear"),
    *("counts", "jobs", "next_due", "check", "failing", "unstage", "retry", "mend", "mark", "unmark", "marks"),
)


class Exchange:
    """One question, on its way to the real server or not.

    Attributes:
        near: The connection to the client.
        words: The command.
        holds: Set when the client is made to wait.
    """

    def __init__(self, near: socket.socket, far: socket.socket, holds: threading.Event) -> None:
        self.near = near
        self._far = far
        self._questions, self._answers = near.makefile("rb"), far.makefile("rb")
        self._raw = b""
        self.words: list[bytes] = []
        self.holds = holds

    def next(self) -> None:
        """Read the next question."""
        self._raw, self.words = read_question(self._questions)

    def ask(self) -> bytes:
        """Pass the question on, and give the real server's answer."""
        self._far.sendall(self._raw)
        return read_reply(self._answers)

    def work(self) -> bytes:
        """Let the real server do the work, also where it has to be sent the script first, and give its answer."""
        answer = self.ask()
        if answer.startswith(b"-NOSCRIPT"):
            text = _scripts()[self.words[1].decode()][1].encode()
            self._far.sendall(b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n" % (len(text), text))
            read_reply(self._answers)
            return self.ask()
        return answer

    def wait(self) -> None:
        """Say nothing more until the client gives up."""
        self.holds.set()
        self.near.recv(1)

    def close(self) -> None:
        """Close what was read from; the connections are another's."""
        self._questions.close()
        self._answers.close()


Spoil = Callable[[Exchange], bool]
"""Misbehaves in one exchange; tells whether the connection goes on."""


class Manner(NamedTuple):
    """A way to misbehave.

    Attributes:
        spoil: What it does.
        means: What the caller's error says, as a pattern.
        error: Which error that is.
        hangs: Whether the client has to give up by itself.
        lasts: In how many exchanges in a row.
    """

    spoil: Spoil
    means: str
    error: type[DriverUnavailable] = ReplyLost
    hangs: bool = False
    lasts: int = 1


_NONSENSE = "the answer to .* is something else between qlab and the server|does not speak Redis's protocol"
_LOST = "did not answer .*(may or may not have been done; .+|nothing was changed, asking again is safe)"


def _drops(exchange: Exchange) -> bool:
    exchange.work()
    return False


def _half(exchange: Exchange) -> None:
    answer = exchange.work()
    exchange.near.sendall(answer[: len(answer) // 2])


def _stops_half_way(exchange: Exchange) -> bool:
    _half(exchange)
    return False


def _hangs_half_way(exchange: Exchange) -> bool:
    _half(exchange)
    exchange.wait()
    return False


def _closes_while_it_works(exchange: Exchange) -> bool:
    exchange.near.shutdown(socket.SHUT_RDWR)
    exchange.work()
    return False


def _answers_too_late(exchange: Exchange) -> bool:
    exchange.work()
    exchange.wait()
    return False


def _never_listens(exchange: Exchange) -> bool:
    exchange.wait()
    return False


def instead(answer: bytes) -> Spoil:
    """Answer this, and do nothing."""

    def spoil(exchange: Exchange) -> bool:
        exchange.near.sendall(answer)
        return True

    return spoil


def _after_the_work(answer: bytes) -> Spoil:
    def spoil(exchange: Exchange) -> bool:
        exchange.work()
        exchange.near.sendall(answer)
        return True

    return spoil


def refusal(said: str, means: str, *, lasts: int = 1) -> Manner:
    """A server that says no, and has done nothing."""
    return Manner(instead(f"-{said}\r\n".encode()), means, DriverUnavailable, lasts=lasts)


def _nonsense(answer: bytes, means: str = _NONSENSE) -> Manner:
    """A server that has done what it was asked for, and answers something else."""
    return Manner(_after_the_work(answer), means, UnexpectedReply)


LOST = {
    "drops the answer": Manner(_drops, _LOST),
    "closes before it is asked": Manner(lambda exchange: False, _LOST),
    "closes while it works": Manner(_closes_while_it_works, _LOST),
    "closes after half an answer": Manner(_stops_half_way, _LOST),
}

HANGS = {
    "never answers": Manner(_answers_too_late, _LOST, hangs=True),
    "never listens": Manner(_never_listens, _LOST, hangs=True),
    "hangs after half an answer": Manner(_hangs_half_way, _LOST, hangs=True),
}

REFUSALS = {
    "LOADING": refusal("LOADING Redis is loading the dataset in memory", "still loading its data: try again"),
    "READONLY": refusal(
        "READONLY You can't write against a read only replica.", "a replica: use the address of the pri"
    ),
    "OOM": refusal("OOM command not allowed when used memory > 'maxmemory'.", "nothing was stored; give it more"),
    "CROSSSLOT": refusal("CROSSSLOT Keys in request don't hash to the same slot", "choose a prefix without braces"),
    "BUSY": refusal("BUSY Redis is busy running a script. You can only call SCRIPT KILL or", "long script: try again"),
    "MOVED": refusal("MOVED 3999 127.0.0.1:6381", "on another node of a cluster: try again in a moment, or use"),
    "ASK": refusal("ASK 3999 127.0.0.1:6381", "slot is being moved to another node: try again"),
    "TRYAGAIN": refusal("TRYAGAIN Multiple keys request during rehashing of slot", "slot is being moved"),
    "CLUSTERDOWN": refusal("CLUSTERDOWN Hash slot not served", "the cluster is down"),
    "MASTERDOWN": refusal("MASTERDOWN Link with MASTER is down", "a replica that has lost its primary: use"),
    "MISCONF": refusal("MISCONF Redis is configured to save RDB snapshots, but", "cannot save to its disk"),
    "NOREPLICAS": refusal("NOREPLICAS Not enough good replicas to write.", "too few replicas"),
    "NOAUTH": refusal("NOAUTH Authentication required.", "wants a password: put it into the address"),
    "WRONGPASS": refusal(
        "WRONGPASS invalid username-password pair or user is disabled.", "refused the user or the pass"
    ),
    "NOPERM": refusal("NOPERM User app has no permissions to run the 'evalsha' command", "this user may not do that"),
    "too many clients": refusal("ERR max number of clients reached", "as many clients as it takes: close some"),
    "ERR": refusal(
        "ERR something is wrong here", r"the server refused \(something is wrong here\)|the server refused \(ERR"
    ),
    "an error that moves a terminal's cursor": refusal("ERR \x1b[2J\x07" + "x" * 9_000, r"refused \((ERR )?\\x1b\[2J"),
    "NOSCRIPT to whatever it is sent": refusal("NOSCRIPT No matching script.", "is a proxy between", lasts=2),
    "the password back": refusal(f"ERR unknown command, with args beginning with: '{PASSWORD}'", r"'\*\*\*'"),
}

NONSENSE = {
    "text": _nonsense(b"+OK\r\n"),
    "bytes that are no text": _nonsense(b"$2\r\n\xff\xfe\r\n"),
    "a number with a fraction": _nonsense(b",1.5\r\n"),
    "a list in a list": _nonsense(b"*1\r\n*1\r\n+x\r\n"),
    "an error in a list": _nonsense(b"*2\r\n:0\r\n-ERR inside\r\n"),
    "an odd list": _nonsense(b"*4\r\n:1\r\n*0\r\n$-1\r\n:2\r\n"),
    "MOVED without a place": Manner(instead(b"-MOVED\r\n"), "redis-py cannot read", UnexpectedReply),
    "another protocol": _nonsense(
        b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Redis's protocol .*another kind"
    ),
}

MANNERS = LOST | REFUSALS | NONSENSE


class Misbehaving:
    """A server on 127.0.0.1 that passes questions on to a real one, and misbehaves when it is told to.

    Args:
        server: The path of the real server's socket.
        tls: What it speaks TLS with; plain text without.

    Attributes:
        port: Where it listens.
        choose: Chooses how each answer is spoiled, by the verb or command; None for not at all.
        before: Does something right before a question is passed on.
        asked: The verbs of the scripts, and the other commands, that clients have asked for.
        holds: Set when the work is done whose answer is held back.
        over: Set when an answer was spoiled, and the work done where it is to be done.
    """

    def __init__(self, server: str, *, tls: ssl.SSLContext | None = None) -> None:
        self._server = server
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.asked: list[str] = []
        self.holds, self.over = threading.Event(), threading.Event()
        self._manner = MANNERS["ERR"]
        self._at, self._skipped, self._left = "", 0, 0
        self.choose: Callable[[str], Manner | None] = lambda verb: None
        self.before: Callable[[str], object] = lambda verb: None
        self._guard = threading.Lock()
        self._open: list[socket.socket] = [self._listening]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def misbehave(self, manner: Manner, at: str, *, nth: int = 1, times: int = 1) -> None:
        """Spoil the nth answer, from now on, to a verb's script or to a command; and those after it, where told to."""
        with self._guard:
            self.asked.clear()
            self.holds.clear()
            self.over.clear()
            self._manner, self._at, self._skipped, self._left = manner, at, nth - 1, times * manner.lasts

    @property
    def left(self) -> int:
        """How many answers are still to be spoiled."""
        return self._left

    def close(self) -> None:
        """Close every connection and wait for every thread."""
        with self._guard:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._listening.close()
        for thread in self._threads:
            thread.join(30.0)
            assert not thread.is_alive()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                thread = threading.Thread(target=self._serve, args=(near,))
                with self._guard:
                    self._open.append(near)
                    self._threads.append(thread)
                thread.start()

    def _serve(self, near: socket.socket) -> None:
        with suppress(OSError, EOFError), near, socket.socket(socket.AF_UNIX) as far:
            far.connect(self._server)
            if self._tls:
                with self._tls.wrap_socket(near, server_side=True) as safe:
                    self._open.append(safe)
                    self._answer(safe, far)
            elif near.recv(1, socket.MSG_PEEK) != b"*":
                _pass_on(near, far)
            else:
                self._answer(near, far)

    def _answer(self, near: socket.socket, far: socket.socket) -> None:
        with closing(Exchange(near, far, self.holds)) as exchange:
            while self._answer_one(exchange):
                pass

    def _answer_one(self, exchange: Exchange) -> bool:
        exchange.next()
        verb = verb_of(exchange.words)
        manner = self._next(verb)
        if manner is not None:
            try:
                return manner.spoil(exchange)
            finally:
                self.over.set()
        self.before(verb)
        if verb == "AUTH":
            right = exchange.words[-1] == PASSWORD.encode()
            exchange.near.sendall(b"+OK\r\n" if right else b"-WRONGPASS invalid username-password pair\r\n")
        else:
            exchange.near.sendall(exchange.ask())
        return True

    def _next(self, verb: str) -> Manner | None:
        with self._guard:
            self.asked.append(verb)
            if verb != self._at or not self._left:
                return self.choose(verb)
            if self._skipped:
                self._skipped -= 1
                return None
            self._left -= 1
            return self._manner


def read_question(source: BinaryIO) -> tuple[bytes, list[bytes]]:
    """Read a command as a client sends it: the bytes, and the words in them."""
    raw = _line(source)
    words = []
    for _ in range(int(raw[1:])):
        head = _line(source)
        body = _exactly(source, int(head[1:]) + 2)
        words.append(body[:-2])
        raw += head + body
    return raw, words


def read_reply(source: BinaryIO) -> bytes:
    """Read one whole answer."""
    head = _line(source)
    kind = head[:1]
    if kind in b"+-:,#_(":
        return head
    count = int(head[1:])
    if kind in b"$=!":
        return head if count < 0 else head + _exactly(source, count + 2)
    parts = count * 2 if kind == b"%" else count
    return head + b"".join(read_reply(source) for _ in range(parts))


def verb_of(words: list[bytes]) -> str:
    """Tell the verb whose script a command calls, or the command's own name."""
    command = words[0].decode()
    if command == "EVALSHA":
        return _scripts()[words[1].decode()][0]
    if command == "EVAL":
        return _scripts()[hashlib.sha1(words[1]).hexdigest()][0]
    return f"{command} {words[1].decode()}" if command == "CONFIG" else command


@cache
def _scripts() -> dict[str, tuple[str, str]]:
    """The verb and the text of each script, by its digest."""
    found = [(verb, script(layout, verb)) for layout in ("zset", "list") for verb in _VERBS]
    return {hashlib.sha1(text.encode()).hexdigest(): (verb, text) for verb, text in found}


def _line(source: BinaryIO) -> bytes:
    line = source.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line


def _exactly(source: BinaryIO, count: int) -> bytes:
    found = source.read(count)
    if len(found) < count:
        raise EOFError
    return found


def _pass_on(near: socket.socket, far: socket.socket) -> None:
    """Pass bytes of any other protocol both ways, until one side closes."""
    other = {near: far, far: near}
    while True:
        for ready in select.select([near, far], [], [])[0]:
            data = ready.recv(1 << 16)
            if not data:
                return
            other[ready].sendall(data)

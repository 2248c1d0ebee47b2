"""What an error of the server, or of the way to it, means in words: what happened, where, and what to do."""

import socket
import ssl
from urllib.parse import urlsplit

import redis

from qlab.drivers.redis_sentinel import NoPrimary, NoService
from qlab.errors import DriverUnavailable, QlabError, ReplyLost, UnexpectedReply, UnusableStore

_MEANINGS = {
    "ASK": "the queue's slot is being moved to another node: try again in a moment",
    "BUSY": "the server is busy with somebody's long script: try again in a moment, or end it with SCRIPT KILL",
    "CLUSTERDOWN": "the cluster is down, some of its slots have no node: try again when they have",
    "CROSSSLOT": "the keys of one queue must share a slot: choose a prefix without braces",
    "DENIED": (
        "the server is in protected mode, in which it lets in no other machine: set a password there (requirepass), "
        "and put it into the address, redis://:PASSWORD@host"
    ),
    "LOADING": "the server is still loading its data: try again in a moment",
    "MASTERDOWN": "this server is a replica that has lost its primary: use the address of the primary",
    "MAXCLIENTS": "the server has as many clients as it takes: close some, or raise its maxclients",
    "MISCONF": "the server cannot save to its disk and refuses writes: its log says why",
    "MOVED": "the queue's slot is on another node of a cluster: try again in a moment, or use that node's address",
    "NOAUTH": "the server wants a password: put it into the address, redis://:PASSWORD@host",
    "NOPERM": "this user may not do that: README lists the commands and keys that qlab needs",
    "NOREPLICAS": "the server has too few replicas to accept a write: try again when they are back",
    "NOSCRIPT": "the server does not know a script that it was just sent: is a proxy between, with several servers?",
    "OOM": (
        "the server's memory is full (maxmemory): nothing was stored; give it more, "
        "and maxmemory-policy noeviction, for jobs must not be evicted"
    ),
    "READONLY": "this server is a replica: use the address of the primary",
    "TRYAGAIN": "the queue's slot is being moved to another node: try again in a moment",
    "UNKILLABLE": "the server is busy with somebody's long script that has written: wait for its end",
    "WRONGPASS": "the server refused the user or the password of the address: write them percent-encoded",
}

_CLASSES: tuple[tuple[type[Exception], str], ...] = (
    (redis.exceptions.AuthenticationError, "WRONGPASS"),
    (redis.exceptions.BusyLoadingError, "LOADING"),
    (redis.exceptions.NoPermissionError, "NOPERM"),
    (redis.exceptions.NoScriptError, "NOSCRIPT"),
    (redis.exceptions.OutOfMemoryError, "OOM"),
    (redis.exceptions.ReadOnlyError, "READONLY"),
    (redis.exceptions.MasterDownError, "MASTERDOWN"),
    (redis.exceptions.ClusterDownError, "CLUSTERDOWN"),
    (redis.exceptions.ClusterCrossSlotError, "CROSSSLOT"),
    (redis.exceptions.TryAgainError, "TRYAGAIN"),
    (redis.exceptions.MovedError, "MOVED"),
    (redis.exceptions.AskError, "ASK"),
)

_SENTINELS = "+sentinel:"
_NO_CONNECTION = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)
_READS = ("counts", "failing", "jobs", "next_due", "check", "marks", "INFO", "CONFIG GET", "SMEMBERS")
_IF_LOST = {
    "push": "look whether the job is there before you dispatch it again",
    "complete_and_reserve": "what was reserved comes back when its reservation has run out",
    "reserve": "what was reserved comes back when its reservation has run out",
}
_SAFE_AGAIN = "asking again is safe"


def meaning(error: Exception, said: str, what: str, where: str, prefix: str) -> QlabError:
    """Tell what an error of the client library means.

    Args:
        error: What the library raised.
        said: Its text, without the password.
        what: The verb or command that was asked for.
        where: The server's address, for people.
        prefix: What the store's keys start with.
    """
    if isinstance(error, NoService):
        return UnusableStore(f"{where}: {said}")
    if (unreached := _unreached(error, said, where)) is not None:
        return unreached
    code = _code(error, said)
    if isinstance(error, redis.exceptions.InvalidResponse):
        return UnexpectedReply(f"{where} does not speak Redis's protocol ({said}): {_another_server(said)}")
    if code in ("MASTERDOWN", "READONLY") and _SENTINELS in where:
        return DriverUnavailable(
            f"{where} is a replica that its sentinels still call the primary: try again in a moment"
        )
    if code in _MEANINGS:
        return DriverUnavailable(f"{where} could not run {what}: {_MEANINGS[code]} ({said})")
    if isinstance(error, OSError | redis.exceptions.ConnectionError | redis.exceptions.TimeoutError):
        return ReplyLost(f"{where} did not answer {what} ({said}): {_if_lost(what, where)}{_slow(error)}")
    if code == "WRONGTYPE":
        return UnusableStore(
            f"{where}: a key under the prefix {prefix!r} is another application's: choose another prefix"
        )
    return DriverUnavailable(f"{where} could not run {what}: the server refused ({said})")


def unexpected(reply: str, what: str, where: str) -> UnexpectedReply:
    """Tell that an answer is none.

    Args:
        reply: The answer, as it is shown.
        what: The verb or command that was asked for.
        where: The driver or the server's address, for people.
    """
    return UnexpectedReply(
        f"{where}: the answer to {what} is {reply}: is something else between qlab and the server? {_if_lost(what)}"
    )


def _unreached(error: Exception, said: str, where: str) -> DriverUnavailable | None:
    """Tell why no connection was made; None where one was."""
    if isinstance(error, NoPrimary):
        if "uthentication" in said or "invalid username-password" in said.lower():
            advice = "do its sentinels want a password of their own? Write ?sentinel_password=PASSWORD"
        else:
            advice = "are its sentinels running there?"
        return DriverUnavailable(f"{where} was not asked, since no sentinel tells its primary ({said}): {advice}")
    if not isinstance(error, _NO_CONNECTION) or "connecting to" not in said:
        return None
    cause = error.__context__
    why = (isinstance(cause, OSError) and (cause.strerror or str(cause))) or said
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = cause.verify_message
        return DriverUnavailable(
            f"{where} was not asked, its certificate is not trusted ({why}): name its authority's, ?ssl_ca_certs=FILE"
        )
    return DriverUnavailable(f"{where} does not answer ({why}): is a server running there? {_way_out(where, cause)}")


def _way_out(where: str, cause: object) -> str:
    if _SENTINELS in where:
        return "If not, its sentinels name another in a moment, as long as enough of them are left to agree"
    if where.startswith("rediss:") and not isinstance(cause, ConnectionRefusedError):
        return "And does its port speak TLS? Without it, write redis://"
    if _is_here(where):
        return "redis+embedded:// needs none"
    if isinstance(cause, socket.gaierror):
        return "And is the name of its machine right?"
    if isinstance(cause, ConnectionRefusedError):
        return "And does it listen to other machines (bind, in its configuration)?"
    return "And does every firewall between let this machine reach its port?"


def _is_here(where: str) -> bool:
    host = urlsplit(where.partition(" ")[0]).hostname or ""
    return host in ("", "localhost", "::1") or host.startswith("127.")


def _slow(error: Exception) -> str:
    late = isinstance(error, redis.exceptions.TimeoutError)
    return "; where the way is slow, wait longer for answers, ?reply_wait=SECONDS" if late else ""


def _another_server(said: str) -> str:
    tls = '"\\x15"' in said or "b'\\x15" in said
    return "it speaks TLS: write rediss://" if tls else "is another kind of server at this address?"


def _if_lost(what: str, where: str = "") -> str:
    if what in _READS:
        first = _at_first(where) if what == "INFO" and where.startswith("redis:") else ""
        return f"nothing was changed, {_SAFE_AGAIN}{first}"
    return f"it may or may not have been done; {_IF_LOST.get(what, _SAFE_AGAIN)}"


def _at_first(where: str) -> str:
    """Tell what may be the matter where the very first question is not answered."""
    tls = "; where this port speaks TLS, write rediss://"
    return (
        tls if _is_here(where) else f"{tls}; where the server is in protected mode, set a password there (requirepass)"
    )


def _code(error: Exception, said: str) -> str:
    """Tell the code that the server's error began with; redis-py takes it away from those it has classes for."""
    if "HELLO must be called" in said or "Authentication required" in said:
        return "NOAUTH"
    if any(words in said for words in ("can't run this command", "No permissions to access", "ACL failure in script")):
        return "NOPERM"
    if "max number of clients" in said:
        return "MAXCLIENTS"
    written = said.split(" ", 1)[0].rstrip(":")
    return next((code for kind, code in _CLASSES if isinstance(error, kind)), written)

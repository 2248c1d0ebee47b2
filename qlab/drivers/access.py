"""How clients reach an embedded server: a Unix socket in its folder, and a port of this machine where it is asked for.

The server is asked through its socket here, without a client library.
"""

import os
import socket
from pathlib import Path
from urllib.parse import quote

SOCKET = "server.sock"
_CONFIGURATION = "server.conf"


class Access:
    """The ways to an embedded server.

    Args:
        folder: The server's folder.
        tcp: Whether there is to be a port too, of 127.0.0.1 alone; a random password is then asked for on both ways,
            for a port has no owner.

    Attributes:
        socket: The path of the Unix socket.
        port: The port's number; 0 where there is none.
        password: The password; empty where none is asked for.
    """

    def __init__(self, folder: Path, *, tcp: bool) -> None:
        self.socket = str(folder / SOCKET)
        self.port = 0
        self.password = os.urandom(24).hex() if tcp else ""
        self._configuration = folder / _CONFIGURATION

    @property
    def url(self) -> str:
        """The socket as clients take it, `unix://…`; it holds the password."""
        return f"unix://{self._entry}{quote(self.socket)}"

    @property
    def tcp_url(self) -> str:
        """The port as clients take it, `redis://…`, with the password; empty where there is none."""
        return f"redis://{self._entry}127.0.0.1:{self.port}" if self.port else ""

    @property
    def _entry(self) -> str:
        return f":{self.password}@" if self.password else ""

    def settings(self) -> list[str]:
        """Give the server's arguments; a password is in a file, for everybody sees what a process was started with."""
        opened = ["--unixsocket", self.socket, "--unixsocketperm", "700", "--protected-mode", "yes"]
        return [str(self._configuration), *opened] if self.password else ["--port", "0", *opened]

    def take_port(self) -> None:
        """Choose a port that is free now, and write it down for the server's next start."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._configuration.touch(mode=0o600)
        self._configuration.write_text(f"bind 127.0.0.1\nport {self.port}\nrequirepass {self.password}\n")

    def answers(self) -> bool:
        """Tell whether the server answers now."""
        try:
            return self.call("PING").startswith("+PONG")
        except OSError:
            return False

    def call(self, command: str) -> str:
        """Send one command, and give its answer."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1.0)  # second
            connection.connect(self.socket)
            with connection.makefile("rb") as stream:
                if self.password:
                    connection.sendall(f"AUTH {self.password}\r\n".encode())
                    stream.readline()
                connection.sendall(f"{command}\r\n".encode())
                head = stream.readline()
                return (stream.read(int(head[1:])) if head.startswith(b"$") else head).decode()

"""The socket, opened before anything slow is imported: a port that is taken is said at once."""

from __future__ import annotations

import os
import socket

from seq2see.errors import InputError
from seq2see.serve.config import ServeConfig

_BACKLOG = 512


def listen(config: ServeConfig) -> socket.socket:
    """Return the socket of a service."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = socket.create_server((config.host, config.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"{config.host}:{config.port}"
        reason = os.strerror(error.errno) if error.errno else error  # its own names the place again
        raise InputError(
            f"cannot listen on {where}: {reason}; try another --host or --port"
        ) from None
    # Connections inherit it. asyncio sets it by itself only where the socket names its protocol,
    # and without it the second answer on a connection waits 40 ms for the client's receipt.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener

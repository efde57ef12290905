"""The listening socket, the uvicorn server and its shutdown."""

from __future__ import annotations

import os
import socket
from types import FrameType

import uvicorn

from seq2see.errors import InputError
from seq2see.serve.app import create_app
from seq2see.serve.config import ServeConfig
from seq2see.serve.service import Service


class _Server(uvicorn.Server):
    """Lets the service drain when a signal comes, and then ends with status 0."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begin to end; a second signal ends at once. A handler may do no more than this."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, then close."""
        self._service.drain()
        await super().shutdown(sockets)


def server(service: Service) -> uvicorn.Server:
    """Return the server of a service."""
    config = service.config
    settings = uvicorn.Config(
        create_app(service),
        lifespan="on",
        log_config=None,
        log_level="critical",  # the journal has it all
        access_log=False,  # it would write queries, which hold texts
        server_header=False,
        proxy_headers=config.public_url is not None,
        timeout_graceful_shutdown=max(1, round(config.drain_seconds)),
        timeout_keep_alive=30,
        ws="none",
        h11_max_incomplete_event_size=64 * 1024,
    )
    return _Server(settings, service)


def run(service: Service, listener: socket.socket) -> None:
    """Serve until a signal comes."""
    server(service).run(sockets=[listener])
    leave(service)


def leave(service: Service) -> None:
    """End the process if a batch has outlived the drain.

    Python would wait for the engine's threads, and then end the worker in the middle of the
    engine's own code, which aborts: a status that says that the service crashed.
    """
    if service.is_stuck:
        service.journal.write("left_a_batch")
        os._exit(0)


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

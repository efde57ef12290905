"""The listening socket, the uvicorn server and its shutdown.

`create_app` is imported inside a function because it loads torch: `open_socket` must be able to
report a port in use at once.
"""

from __future__ import annotations

import os
import socket
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from seq2see.errors import InputError
from seq2see.serve.config import ServeConfig

if TYPE_CHECKING:
    from seq2see.serve.service import Service

_BACKLOG = 512


def open_socket(config: ServeConfig) -> socket.socket:
    """Return a socket that listens on the configured host and port.

    Raises:
        InputError: The address or port cannot be used.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = socket.create_server((config.host, config.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        address = f"{config.host}:{config.port}"
        # strerror, because str(error) repeats the address.
        reason = os.strerror(error.errno) if error.errno else error
        raise InputError(
            f"cannot listen on {address}: {reason}; try another --host or --port"
        ) from None
    # Connections inherit TCP_NODELAY. asyncio sets it only if the socket states its protocol;
    # without it the second response on a connection waits 40 ms for the client's ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class _Server(uvicorn.Server):
    """Drains the service after a signal and then exits with status 0."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Request a graceful shutdown; a second signal exits immediately.

        This runs in a signal handler, so it only sets flags.
        """
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain the service, then close the connections."""
        self._service.drain()
        await super().shutdown(sockets)


def create_server(service: Service) -> uvicorn.Server:
    """Return the uvicorn server of a service."""
    from seq2see.serve.app import create_app  # noqa: PLC0415 loads torch

    config = service.config
    settings = uvicorn.Config(
        create_app(service),
        lifespan="on",
        log_config=None,
        log_level="critical",  # the service has its own log
        access_log=False,  # it would contain queries, and these contain texts
        server_header=False,
        proxy_headers=config.public_url is not None,
        timeout_graceful_shutdown=max(1, round(config.shutdown_seconds)),
        timeout_keep_alive=30,
        ws="none",
        h11_max_incomplete_event_size=64 * 1024,
    )
    return _Server(settings, service)


def run_server(service: Service, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    create_server(service).run(sockets=[listener])
    exit_if_batch_running(service)


def exit_if_batch_running(service: Service) -> None:
    """Exit the process with status 0 if a batch is still running after the shutdown.

    Python would wait for the engine's threads and then end the worker thread inside the engine's
    native code, which aborts the process with the status of a crash.
    """
    if service.has_running_batch:
        service.log.write("batch_abandoned")
        os._exit(0)

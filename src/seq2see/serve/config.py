"""Settings and limits of the service. Every limit has a finite default."""

from __future__ import annotations

from ipaddress import ip_address

from pydantic import Field

from seq2see.config import Config


class LimitsConfig(Config):
    """Limits of one request and of the queue, set with `--limit KEY=VALUE`."""

    characters: int = Field(default=10_000, ge=1)
    """Characters in all texts of a request."""
    texts_per_request: int = Field(default=128, ge=1)
    """Texts in the list of a request."""
    alternatives: int = Field(default=5, ge=0)
    """Alternative translations per text."""
    beam_size: int = Field(default=20, ge=1)
    """Largest beam size that a request may ask for."""
    body_bytes: int = Field(default=1_000_000, ge=1)
    """Bytes of a request body without files; a larger body is rejected while it is read."""
    file_bytes: int = Field(default=10_000_000, ge=1)
    """Bytes of an uploaded file."""
    uncompressed_bytes: int = Field(default=100_000_000, ge=1)
    """Uncompressed bytes of all members of an archive, such as a Word document."""
    file_elements: int = Field(default=250_000, ge=1)
    """Lines and tags of a file. Each takes up to a kilobyte of memory."""
    paragraph_characters: int = Field(default=100_000, ge=1)
    """Characters of a line or paragraph of a file."""
    concurrent_files: int = Field(default=4, ge=1)
    """Files that are translated at the same time; more are rejected with 429."""
    explain_characters: int = Field(default=500, ge=1)
    """Characters of an explained text. A trace stores the attention weights of every step."""
    token_steps: int = Field(default=500_000, ge=1)
    """Decoder steps of all hypotheses of a request, if no translation ends early."""
    trace_bytes: int = Field(default=300_000_000, ge=1)
    """Memory of a trace, estimated from the text, the beam, the layers and the attributions."""
    concurrent_requests: int = Field(default=256, ge=1)
    """Requests that run or wait at the same time; more are rejected with 429."""
    queue_tokens: int = Field(default=200_000, ge=1)
    """Tokens that may wait in the queue; more are rejected with 429."""
    batch_tokens: int = Field(default=4_096, ge=1)
    """Tokens per batch."""
    request_seconds: float = Field(default=30.0, gt=0)
    """Deadline of a request: a result or an error is returned within this time."""
    file_seconds: float = Field(default=600.0, gt=0)
    """Deadline of a file translation or a lab experiment."""
    requests_per_minute: int = Field(default=0, ge=0)
    """Requests per minute and API key or address; 0 means no limit. A rate in the key file takes
    precedence."""


class ServeConfig(Config):
    """Settings of a service."""

    host: str = "127.0.0.1"
    """Address to listen on. The default accepts connections from this machine only."""
    port: int = Field(default=5000, ge=0, le=65_535)
    """Port to listen on; 0 chooses a free port."""
    public_url: str | None = Field(default=None, pattern=r"^https?://[A-Za-z0-9.:\[\]-]+(/.*)?$")
    """URL of the service for clients of a reverse proxy, such as https://translate.example.org."""
    worker_threads: int = Field(default=2, ge=1, le=64)
    """Threads that pass batches to the engine. With two, the engine works on one batch while the
    results of the other are distributed."""
    beam_size: int = Field(default=5, ge=1)
    """Beam size of requests that do not set one."""
    reload_seconds: float = Field(default=5.0, gt=0)
    """Interval between checks of the model directories and the key file for changes."""
    shutdown_seconds: float = Field(default=30.0, gt=0)
    """Time for running requests to finish after SIGTERM."""
    download_seconds: float = Field(default=1800.0, gt=0)
    """Time for which a translated file can be downloaded."""
    files: bool = True
    """Whether files can be translated."""
    limits: LimitsConfig = LimitsConfig()

    @property
    def is_local_only(self) -> bool:
        """Whether only clients on this machine can reach the service, also not through a proxy."""
        return self.is_loopback and self.public_url is None

    @property
    def is_loopback(self) -> bool:
        """Whether the service listens on a loopback address."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

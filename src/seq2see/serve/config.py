"""What the service allows; every limit is finite unless somebody says otherwise."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Literal

from pydantic import Field

from seq2see.config import Config


class LimitsConfig(Config):
    """How much one request may ask for, and how much may wait."""

    characters: int = Field(default=10_000, ge=1)
    """Characters of the texts of a request."""
    texts: int = Field(default=128, ge=1)
    """Texts in the list of a request."""
    alternatives: int = Field(default=5, ge=0)
    """Alternatives of a translation."""
    beam_size: int = Field(default=20, ge=1)
    """The widest beam that may be asked for."""
    body_bytes: int = Field(default=1_000_000, ge=1)
    """Bytes of a request without files; a longer one is refused while it is read."""
    file_bytes: int = Field(default=10_000_000, ge=1)
    """Bytes of a file."""
    unpacked_bytes: int = Field(default=100_000_000, ge=1)
    """Bytes of all that an archive holds, such as a Word document."""
    files: int = Field(default=4, ge=1)
    """Files in work at a time; more are refused with 429."""
    explain_characters: int = Field(default=500, ge=1)
    """Characters of a text that is explained: a trace holds every attention of every step."""
    requests: int = Field(default=256, ge=1)
    """Requests in work or waiting at a time; more are refused with 429."""
    queue_tokens: int = Field(default=200_000, ge=1)
    """Tokens that may wait for the engine; more are refused with 429."""
    batch_tokens: int = Field(default=4_096, ge=1)
    """Tokens that go to the engine at once."""
    seconds: float = Field(default=30.0, gt=0)
    """The deadline of a request: by then it has its result, or an error that says why not."""
    file_seconds: float = Field(default=600.0, gt=0)
    """The deadline of a file."""
    requests_per_minute: int = Field(default=0, ge=0)
    """Requests that each key or address may send in a minute; 0 sets no rate. A key's own rate,
    in the file of keys, goes first."""


class ServeConfig(Config):
    """How a service runs."""

    host: str = "127.0.0.1"
    """The address to listen on. By default nobody outside this machine gets in."""
    port: int = Field(default=5000, ge=0, le=65_535)
    """The port; 0 takes a free one."""
    public_url: str | None = Field(default=None, pattern=r"^https?://[A-Za-z0-9.:\[\]-]+(/.*)?$")
    """What clients call the service behind a proxy, such as https://translate.example.org."""
    workers: int = Field(default=2, ge=1, le=64)
    """Threads that give batches to the engine: while one of two hands its results out, the engine
    has the other's."""
    engine: Literal["auto", "torch", "ctranslate2"] = "auto"
    threads: int | None = Field(default=None, ge=1)
    """Threads of the engine; by default one a core."""
    precision: Literal["float32", "int8"] = "float32"
    """Of ctranslate2; int8 is used only if it passes a check on this processor."""
    beam_size: int = Field(default=5, ge=1)
    """The beam of requests that name none."""
    reload_seconds: float = Field(default=5.0, gt=0)
    """How often the model directories are looked at for another model."""
    drain_seconds: float = Field(default=30.0, gt=0)
    """How long work in flight may take after SIGTERM."""
    keep_file_seconds: float = Field(default=1800.0, gt=0)
    """How long a translated file can be fetched."""
    files: bool = True
    """Whether files are translated."""
    limits: LimitsConfig = LimitsConfig()

    def weight(self, beam_size: int) -> float:
        """Return what a token costs with this beam: more than 1 if it is wider than usual."""
        return max(1.0, beam_size / self.beam_size)

    @property
    def is_private(self) -> bool:
        """Whether only those on this machine reach the service: no proxy lets others in."""
        return self.is_local and self.public_url is None

    @property
    def is_local(self) -> bool:
        """Whether the service listens to this machine alone."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

"""The HTTP service: LibreTranslate's interface, the interface /api/v1, and a web page.

The path of a request:

    socket → middleware → routes → executor → service → work queue → worker → translator
             headers,     read and  thread per           bounded,     batches
             limits       respond   request              fair

`service` contains everything except HTTP. `work_queue` knows neither models nor HTTP.
`model_registry` knows which models translate a language pair. `docs/serving.md` is the manual.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2see.serve.app import create_app
    from seq2see.serve.config import LimitsConfig, ServeConfig
    from seq2see.serve.model_registry import ModelRegistry
    from seq2see.serve.service import Service
    from seq2see.serve.uvicorn_server import open_socket, run_server

__all__ = [
    "LimitsConfig",
    "ModelRegistry",
    "ServeConfig",
    "Service",
    "create_app",
    "open_socket",
    "run_server",
]

_MODULES = {
    "LimitsConfig": "config",
    "ModelRegistry": "model_registry",
    "ServeConfig": "config",
    "Service": "service",
    "create_app": "app",
    "open_socket": "uvicorn_server",
    "run_server": "uvicorn_server",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: most of the modules import torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

"""Several processes on this machine, by torchrun's own agent."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from seq2see.errors import TrainingError

_TO_SAVE = 600
"""Seconds that the agent gives workers to finish a validation and to save, before it kills them."""


def is_worker() -> bool:
    """Whether torchrun, or `launch`, has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ or "WORLD_SIZE" in os.environ


def launch(work: Callable[..., Any], processes: int, *arguments: Any) -> dict[int, Any]:
    """Run a function of a module in so many processes; return what each of them returned.

    A process that dies is started again with the others, up to three times.
    """
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(_TO_SAVE))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        max_restarts=3,
        monitor_interval=0.2,
    )
    try:
        with _silent():
            return dict(elastic_launch(config, work)(*arguments))
    except SignalException as error:
        name = signal.Signals(error.sigval).name
        raise TrainingError(
            f"stopped by {name}; --resume goes on from the last checkpoint"
        ) from None
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        raise TrainingError(f"a worker died: {failure.message}") from None


@contextmanager
def _silent() -> Iterator[None]:
    """Let the agent say nothing: what happens to workers becomes one line of ours.

    Each of torch's loggers has a level of its own, so that there is no one to ask but all.
    """
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)

"""JSON that every client can read: NaN and infinity, which are none, become null."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.responses import JSONResponse


class Json(JSONResponse):
    """An answer in JSON."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        try:
            return super().render(content)
        except ValueError:  # it is rare, so nothing is looked at before
            return json.dumps(finite(content), ensure_ascii=True).encode()


def finite(node: Any) -> Any:
    """Return the same with null for what is no number."""
    if isinstance(node, float):
        return node if math.isfinite(node) else None
    if isinstance(node, dict):
        return {key: finite(value) for key, value in node.items()}
    return [finite(item) for item in node] if isinstance(node, list | tuple) else node

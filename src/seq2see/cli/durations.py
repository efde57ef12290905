"""Times in words."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return a time that was estimated, no more exactly than that."""
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"

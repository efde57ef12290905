"""The web page: files that the service serves, and pages that are written to one HTML file."""

from pathlib import Path

STATIC_DIRECTORY = Path(__file__).parent / "static"
"""HTML, style sheets and JavaScript modules of the page; `js/views` has one module per view."""

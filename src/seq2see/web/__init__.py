"""The web page: files that the service serves, and pages that are written to one HTML file."""

from seq2see.web.single_page import STATIC_DIRECTORY, build_single_page, build_static_page

__all__ = ["STATIC_DIRECTORY", "build_single_page", "build_static_page"]

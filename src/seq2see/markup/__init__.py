"""Text with inline tags, and the transfer of tags and offsets to a translation."""

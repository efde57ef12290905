"""Entry point of `python -m seq2see`."""

from seq2see.cli import main

main()

"""`python -m seq2see`, the command under its module's name."""

from seq2see.cli import main

main()

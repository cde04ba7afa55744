"""``python -m hardner`` is the command ``hardner``."""

from hardner.cli import main

main()

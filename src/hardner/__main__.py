"""``python -m hardner``, and the command ``hardner``."""

import signal


def main() -> None:
    """Run the command line; Ctrl-C while it is loaded ends it at once, as nothing is begun."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hardner.cli import main as run

    run()


if __name__ == "__main__":
    main()

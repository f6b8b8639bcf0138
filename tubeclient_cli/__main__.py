"""What the console command and `python -m tubeclient_cli` run. pip installs the command with the bare package too, so
what is missing is one line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; exit code 2 if it cannot start. Ctrl-C before the command has begun ends it without a word."""
    try:
        try:
            from tubeclient_cli.app import main as run
        except ImportError as error:
            if not hasattr(error, "condition"):  # none of ours: a bug
                raise
            print(f"tubeclient: {error}", file=sys.stderr)
            sys.exit(2)
        run()
    except KeyboardInterrupt:  # that of a command is told by the command
        sys.exit(130)


if __name__ == "__main__":
    main()

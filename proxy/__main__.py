"""`python -m proxy` and the installed commands `undercliff` and `ctx`."""

from proxy.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()

"""The key beside a store's file: 32 random bytes that tell tenants apart and sign chain heads. Never in the file."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

SECRET_BYTES = 32


def secret_file(store: Path) -> Path:
    return store.with_suffix(".secret")


def read_secret(store: Path) -> bytes:
    """The key of a store; empty where there is none, or it cannot be read."""
    try:
        return secret_file(store).read_bytes()
    except OSError:
        return b""


def keep_secret(path: Path, secret: bytes = b"") -> bytes:
    """What `path` holds, or from now on holds; raises OSError.

    Written whole before it gets its name, since two processes may start at once.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(secret or secrets.token_bytes(SECRET_BYTES))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # another process was first: its secret counts
        except OSError:  # a file system without hard links
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    found = path.read_bytes()
    if len(found) < SECRET_BYTES:
        raise OSError(errno.EINVAL, "it does not hold a whole secret; remove it to get a new one", str(path))
    return found

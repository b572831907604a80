"""Every error the proxy raises by name.

UndercliffError
├── ConfigError      the operator's settings: names the key, its value and what to do
├── NotUnderstoodError    a request body that no wire format can read: the request is passed through
├── BudgetError      what must stay in a window is larger than the budget
├── InputError       an argument of the library that cannot be meant: names it, its value and what to give
├── NotFoundError    an id that leads nowhere, or to more than one thing
├── StoreError       the database cannot be read or written: requests go on, the gap is recorded
└── UpstreamError    the provider could not be reached or broke off
"""

from __future__ import annotations


class UndercliffError(Exception):
    """Base of all. `hint` tells the operator what to do, in one line."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(hint)  # so that a traceback says it as well


class ConfigError(UndercliffError):
    """A setting that cannot work."""


class NotUnderstoodError(UndercliffError):
    """A body that is not this wire format's request."""


class BudgetError(UndercliffError):
    """A window cannot be made: `needed` tokens must stay, and the budget is smaller."""

    def __init__(self, message: str, *, needed: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.needed = needed


class InputError(UndercliffError, ValueError):
    """A value that a library call cannot work with."""


class NotFoundError(UndercliffError):
    """Nothing, or too much, is known under that id."""


class StoreError(UndercliffError):
    """The store failed; `is_full` when for lack of space."""

    def __init__(self, message: str, *, hint: str = "", is_full: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_full = is_full


class UpstreamError(UndercliffError):
    """No usable answer from upstream: `kind` is "connect", "timeout", "closed" or "protocol".

    `is_unsent`: the provider cannot have got the whole request, so nothing was carried out.
    """

    def __init__(self, message: str, *, kind: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.is_unsent = False

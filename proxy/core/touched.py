"""Which files a call reads and which it writes, as its tool and arguments tell. A guess: no file is looked at. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from posixpath import normpath

from policies.kinds import SHELLS, kind_of_call

SCANNED = 20_000
MAX_PATHS = 24

_TOKEN = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|&&|\|\||\d?>>?|[;|&\n]|(?:[^\s'\"|;&>\\]|\\.)+")
_SEPARATOR = re.compile(r"&&|\|\||[;|&\n]$")
_REDIRECT = re.compile(r"\d?>>?$")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?(.*?)(?:(?<!\w)\1(?!\w)|\Z)", re.DOTALL)
_PATCHED = re.compile(r"\*\*\* (?:Add|Update|Delete) File: ([^\n\\\"]+)|(?:^|\n|\\n)\+\+\+ (?:b/)?([^\s\\\"]+)")
_PATH = re.compile(r"(?:[\w.@~+-]*/)*[\w.@+-]*[\w@+-]\.[A-Za-z]\w{0,9}|(?:[\w.@~+-]*/)+[\w.@+-]+")
_WORDS = re.compile(r"[^\s\"'`,;()\[\]{}]+")
_READS = frozenset({"cat", "head", "tail", "nl", "less", "more", "bat", "sed", "awk", "jq", "xxd"})
_WRITES = frozenset(
    {"tee", "rm", "mv", "cp", "touch", "truncate", "black", "isort", "prettier", "gofmt", "rustfmt", "yapf", "autopep8",
     "patch", "unlink", "ed"}
)  # fmt: skip
_GIT_WRITES = frozenset({"checkout", "restore", "rm", "mv", "apply", "reset", "stash"})
_FIXERS = frozenset({"ruff", "eslint", "biome"})
_FIX = frozenset({"--fix", "--write", "format", "-w"})


@dataclass(frozen=True, slots=True)
class Touched:
    """Paths, as far as they can be told; a relative one behind a `cd` is joined to it."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    is_shell: bool = False


def touched(tool: str, argument: str, arguments: str = "") -> Touched:
    """What a call touches. `argument` is its key argument, `arguments` all it was called with (for patches)."""
    patched = _patched(arguments[:SCANNED] or argument[:SCANNED])
    name = tool.rsplit(".", 1)[-1].rsplit("__", 1)[-1].lower()
    if name in SHELLS or tool.lower() in SHELLS:
        reads, writes = _of_command(argument[:SCANNED])
        return Touched(_unique(reads), _unique([*writes, *patched]), is_shell=True)
    kind = kind_of_call(tool, argument)
    if kind == "edit":
        return Touched((), _unique([*patched, *_paths(argument[:1_000])]))
    return Touched(_unique(_paths(argument[:1_000])), ()) if kind == "read" else Touched()


def is_same_file(one: str, other: str) -> bool:
    """Do two spellings mean one file? A relative path is taken for the end of the longer one."""
    return one == other or one.endswith("/" + other) or other.endswith("/" + one)


def basename(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def is_path(word: str) -> bool:
    """Does a whole word look like a file's path?"""
    return _PATH.fullmatch(word) is not None


def _of_command(command: str) -> tuple[list[str], list[str]]:
    reads: list[str] = []
    writes: list[str] = []
    folder = ""
    for words in _commands(_HEREDOC.sub(" ", command)):
        name = basename(words[0]) if words else ""
        if name == "cd" and len(words) > 1:
            folder = words[1]
            continue
        rest, targets = _redirected(words[1:])
        writes += [_join(folder, path) for path in targets]
        named = [_join(folder, word) for word in rest if is_path(word)]
        if _is_writing(name, rest):
            writes += named
        elif name in _READS:
            reads += named
    return reads, writes


def _is_writing(name: str, rest: list[str]) -> bool:
    """Does a command change the files that it names?"""
    if name == "sed":
        return any(word.startswith(("-i", "--in-place")) for word in rest)
    if name == "git":
        return bool(rest) and rest[0] in _GIT_WRITES
    return name in _WRITES or (name in _FIXERS and not _FIX.isdisjoint(rest))


def _commands(command: str) -> Iterable[list[str]]:
    """The simple commands of a line as their words, quotes taken off; redirections keep their sign."""
    words: list[str] = []
    for token in _TOKEN.findall(command):
        if _SEPARATOR.match(token):
            if words:
                yield words
            words = []
        elif words or "=" not in token:  # an assignment before a command is no command
            words.append(token[1:-1] if token[0] in "'\"" and len(token) > 1 else token)
    if words:
        yield words


def _redirected(words: list[str]) -> tuple[list[str], list[str]]:
    """Words without redirections, and the files that output goes to."""
    rest: list[str] = []
    targets: list[str] = []
    is_target = False
    for word in words:
        if _REDIRECT.match(word):
            is_target = not word.startswith("2")
        elif is_target:
            if is_path(word) and word != "/dev/null":
                targets.append(word)
            is_target = False
        else:
            rest.append(word)
    return rest, targets


def _patched(text: str) -> list[str]:
    return [_clean(first or second) for first, second in _PATCHED.findall(text) if (first or second) != "/dev/null"]


def _paths(argument: str) -> list[str]:
    return [_clean(word) for word in _WORDS.findall(argument) if is_path(word)]


def _join(folder: str, path: str) -> str:
    return _clean(path if path.startswith(("/", "~")) or not folder else f"{folder}/{path}")


def _clean(path: str) -> str:
    made = normpath(path.strip())
    return made.removeprefix("./")


def _unique(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))[:MAX_PATHS]

"""What kind of text an item holds, from its tool and command: read, search, run, edit, git, other or api. Pure."""

from __future__ import annotations

import re
from typing import Final, Literal

TextKind = Literal["read", "search", "run", "edit", "git", "other", "api", "think", "args", "eargs", "user"]

SHELLS: Final = frozenset(
    {
        "bash", "shell", "sh", "exec", "terminal", "run_command", "run_commands", "execute_bash", "execute_command",
        "local_shell", "shell_command", "run_shell_command", "exec_command", "run_terminal_cmd", "cmd", "console",
        "unified_exec", "container.exec", "container_exec", "process",
    }
)  # fmt: skip
_READ = frozenset({"cat", "head", "tail", "nl", "awk", "less", "more", "bat", "sed", "xxd", "jq", "type"})
_SEARCH = frozenset({"grep", "find", "ls", "rg", "ag", "fd", "tree", "locate", "which", "wc", "egrep", "fgrep", "dir"})
_RUN = frozenset(
    {
        "python", "python3", "pytest", "make", "npm", "node", "go", "cargo", "npx", "yarn", "pnpm", "tox", "pip", "uv",
        "ruby", "java", "mvn", "gradle", "bun", "deno", "tsc", "php", "perl", "gcc", "g++", "cmake", "ctest", "dotnet",
        "bash", "sh", "docker", "poetry", "pip3", "ruff", "mypy", "rails", "rake", "bundle",
    }
)  # fmt: skip
_TOOL_WORDS: Final[tuple[tuple[TextKind, re.Pattern[str]], ...]] = (
    ("edit", re.compile(r"edit|write|replace|insert|patch|create_file|apply|save")),
    ("git", re.compile(r"^git")),
    ("run", re.compile(r"(?:^|_)logs?(?:_|$)")),
    (
        "search",
        re.compile(r"grep|glob|find_file|search_(?:dir|file|code)|list_dir|list_files|^(?:ls|find|search|tree)$"),
    ),
    ("read", re.compile(r"read|view|open|^cat$|goto|scroll|fetch_file|get_file")),
    ("run", re.compile(r"run|exec|test|python|ipython|jupyter|code_interpreter|build|compile")),
)
_PATCHES = re.compile(r"(?:^|_)(?:edit|editor|write|patch|str_replace|replace|insert|create)")
_LOOKS = re.compile(r"\bview\b")
_ASSIGNMENT = re.compile(r"^(?:\w+=\S*\s+)+")
_EDITING = re.compile(
    r"\bsed\s+(?:-\w+\s+)*-i|\bcat\s*>|\bcat\s*<<.*>\s*\S|>\s*[\w./-]+\s*<<|\btee\b|<<.*>\s*[\w./-]+\.\w|apply_patch"
)
_FIRST = re.compile(
    r"\s*(?:cd\s+\S+\s*(?:&&|;|\n)\s*|set\s+-\w+\s*(?:&&|;|\n)\s*|sudo\s+|time\s+|timeout\s+\S+\s+|env\s+)*"
)
_IS_LOG = re.compile(r"\.log\b")
_SUBMIT = 400


def kind_of_call(tool: str, argument: str) -> TextKind:
    """The kind of a call, and of its result. For a shell the first command after any `cd` decides."""
    name = tool.rsplit(".", 1)[-1].rsplit("__", 1)[-1].lower()
    if name in SHELLS or tool.lower() in SHELLS:
        return _kind_of_command(argument)
    if name == "str_replace_editor" or name.endswith("edit_tool"):
        return "read" if _LOOKS.match(argument) else "edit"
    if _PATCHES.search(name):
        return "edit"
    return "api" if _is_api(name) else next(kind for kind, words in _TOOL_WORDS if words.search(name))


def _is_api(name: str) -> bool:
    return not any(words.search(name) for _, words in _TOOL_WORDS)


def _kind_of_command(command: str) -> TextKind:
    match = _FIRST.match(command)
    rest = _ASSIGNMENT.sub("", command[match.end() :] if match else command)
    if _EDITING.search(rest[:_SUBMIT]):
        return "edit"
    words = rest.split(None, 1)
    if not words:
        return "other"
    first = words[0].rsplit("/", 1)[-1]
    if first == "git":
        return "git"
    if first in _READ:
        line = rest.split("\n", 1)[0]
        if _IS_LOG.search(line):
            return "run"
        return "search" if re.search(r"\|\s*(?:e?grep|rg)\b", line) else "read"
    if first in _SEARCH:
        return "search"
    return "run" if first in _RUN or first.startswith("python") else "other"

"""Passwords and keys: where they come from, and that no message has them.

A secret comes from an environment variable, or from the file that <variable>_FILE names, which is
how containers are given theirs. What is known to be one is replaced by *** in all output.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from dbt_common.exceptions import DbtRuntimeError

HIDDEN = "***"
# names of settings and variables whose values are secrets
SECRET_NAME = re.compile(
    r"passw(?:or)?d|passphrase|secret|token|credential|jaas|keystore\.key|certificate"
    r"|(?:access|private|account|encryption|sse|api|shared).?key|\.key(?:\.|$)|authorization"
    r"|\bsas\b|\bpwd\b",
    re.IGNORECASE,
)
# of settings that say nothing secret of one
PLAIN_NAME = re.compile(r"(?:type|provider|location|algorithm|class|enabled)$", re.IGNORECASE)
IN_URL = re.compile(r"(?<=://)([^/?#@\s:]*+:)([^/?#@\s]++)(?=@)")
IN_QUERY = re.compile(
    r"([?&;(,](?:[\w.-]*(?:passw(?:or)?d|token|secret)|pwd)=|[?&;](?:ssl_?|access_?)?key=)"
    r"([^&;,)\s'\"]++)",
    re.IGNORECASE,
)
SHORTEST = 3  # a shorter one would blank out half of all words

_known: set[str] = set()


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return bool(SECRET_NAME.search(name)) and not PLAIN_NAME.search(name)


def hide(*values: str | None) -> None:
    """From now on these are replaced in whatever `redacted` is given."""
    _known.update(value for value in values if value and len(value) >= SHORTEST)


def environment(name: str) -> str | None:
    """An environment variable, or the text of the file that <name>_FILE names, without its last
    newline; None where neither is set.

    Raises:
        DbtRuntimeError: both are set, or the file can't be read.
    """
    given, file = os.environ.get(name), os.environ.get(f"{name}_FILE")
    if file:
        if given:
            raise DbtRuntimeError(f"{name} and {name}_FILE are both set: unset one of them.")
        try:
            with open(file, encoding="utf-8") as content:
                given = content.read().removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as exc:
            reason = getattr(exc, "strerror", None) or "it is no text"
            raise DbtRuntimeError(
                f"{name}_FILE names {file}, which can't be read: {reason}."
            ) from exc
    if given and is_secret(name):
        hide(given)
    if given and name.endswith("_OPTIONS"):
        hide(*secrets_of_json(given))
    if given and name.endswith("_URL"):
        hide(*secrets_of_url(given))
    return given


def secrets_of_url(url: str) -> list[str]:
    """The passwords that stand in a URL, as they stand there and decoded."""
    found = [match[2] for pattern in (IN_URL, IN_QUERY) for match in pattern.finditer(url)]
    return [text for secret in found for text in dict.fromkeys((secret, unquote(secret)))]


def secrets_of_json(text: str) -> list[str]:
    """The secrets of an object of settings in JSON; a login's text gives its parts."""
    try:
        options = json.loads(text)
    except ValueError:
        return []
    return secrets_of_settings(options) if isinstance(options, dict) else []


def secrets_of_settings(settings: Mapping[str, object]) -> list[str]:
    """The values of those settings that are secrets."""
    values = [str(value) for name, value in settings.items() if is_secret(name)]
    quoted = [part for value in values for part in re.findall(r"""password=["']([^"']++)""", value)]
    return [*values, *quoted]


def redacted(text: str, more: Iterable[str] = ()) -> str:
    """A text without the secrets that are known, and without what stands for one in a URL."""
    for secret in sorted({*_known, *more}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = IN_URL.sub(rf"\1{HIDDEN}", text)
    return IN_QUERY.sub(rf"\1{HIDDEN}", text)

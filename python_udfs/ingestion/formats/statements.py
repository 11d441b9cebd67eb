"""What the message of a statement holds, read by Python: few messages, from outside, of any form.

Spark reads the envelopes; what a statement did to whole tables is read from its message here.
A message can hold anything where a text is expected, so each reader names what it takes and
raises a ValueError, which becomes the message's reason.
"""

from __future__ import annotations

import json
from typing import Any


def body_of(payload: str) -> dict[str, Any]:
    """The message's one JSON object.

    Raises:
        ValueError: it is something else, or can't be read.
    """
    try:
        body = json.loads(payload)
    except RecursionError:
        raise ValueError("its JSON nests too deeply to be read") from None
    except ValueError:  # some of what Spark reads isn't JSON to Python, as numbers of 5,000 digits
        raise ValueError("its JSON can't be read") from None
    if isinstance(body, list) and len(body) == 1:  # Spark takes these for one object, too
        body = body[0]
    if not isinstance(body, dict):
        raise ValueError("it is no JSON object")
    return body


def object_in(body: dict[str, Any], name: str) -> dict[str, Any]:
    """The object under a name; an empty one where there is none or null.

    Raises:
        ValueError: something else stands there.
    """
    found = body.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"`{name}` is no object")
    return found


def text_in(body: dict[str, Any], name: str) -> str | None:
    """The text under a name; None where there is none, or null.

    Raises:
        ValueError: something else stands there, or half of a character, which no table's name has.
    """
    found = body.get(name)
    if found is None:
        return None
    if not isinstance(found, str):
        raise ValueError(f"`{name}` is no text")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise ValueError(f"`{name}` holds half of a character") from None
    return found


def name_in(body: dict[str, Any], name: str) -> str:
    """The text under a name that has to be there.

    Raises:
        ValueError: it isn't, or isn't a text.
    """
    found = text_in(body, name)
    if not found:
        raise ValueError(f"no `{name}`")
    return found

"""Which format the messages of a topic are written in: the var `topic_formats`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.registry import FORMATS

if TYPE_CHECKING:
    from python_udfs.ingestion.tables.source import TableSource

FULL_LOADS = "full_load."  # begin of the topics of full loads, which have a format of their own


def format_of(topic: str, formats: Mapping[str, str]) -> str | None:
    """The format of a topic, by the first pattern that fits, or None."""
    return next((kind for pattern, kind in formats.items() if fnmatchcase(topic, pattern)), None)


def problems_of(sources: Mapping[str, TableSource], formats: Mapping[str, str]) -> list[str]:
    """Contradictions between the declared tables and the formats of the topics, one text each.

    Args:
        sources: model -> its declaration.
        formats: topic, as a shell pattern -> format.
    """
    found = [
        f"the var topic_formats has {kind!r} for the topic {topic}: a format must be one of "
        f"{', '.join(FORMATS)}"
        for topic, kind in formats.items()
        if not isinstance(kind, str) or kind not in FORMATS
    ]
    if found:
        return found
    patterns = list(formats)
    for place, later in enumerate(patterns):
        earlier = next((pattern for pattern in patterns[:place] if _covers(pattern, later)), None)
        if earlier is not None:
            found.append(
                f"the var topic_formats names {later} behind {earlier}, which fits all its topics, "
                f"so that {later}: {formats[later]} never counts. Put it before {earlier}, or take "
                "it out"
            )
    for model, source in sources.items():
        if not source.topics and source.format not in formats.values():
            found.append(
                f"{model}: its format is {source.format}, and the var topic_formats names no topic "
                f'of that format. Add for example "{source.format}*": {source.format}'
            )
        elif not source.topics and len(set(formats.values())) > 1:
            found.append(
                f"{model}: it names no `topic`, and the var topic_formats reads topics as "
                f"{', '.join(dict.fromkeys(formats.values()))}, so it can't be seen whether its "
                f"messages are read as {source.format}. Name its topics in meta.source.topic, for "
                f'example topic: "{source.format}*"'
            )
        for topic in source.topics:
            kind = _other_format(topic, source.format, formats)
            if kind is not None and not topic.startswith(FULL_LOADS):
                found.append(
                    f"{model}: its format is {source.format}, and the var topic_formats reads its "
                    f'topic {topic} as {kind}. Add "{topic}": {source.format} to topic_formats, '
                    "before the pattern that fits now"
                )
    return found


def _other_format(topic: str, wanted: str, formats: Mapping[str, str]) -> str | None:
    """The format of all topics that fit a pattern, or None if some may be of the wanted format."""
    for pattern, kind in formats.items():
        if kind == wanted and _overlap(topic, pattern):
            return None
        if _covers(pattern, topic):
            return kind
    return "nothing"


def _covers(pattern: str, topic: str) -> bool:
    """Whether a pattern certainly fits all topics that another fits."""
    return pattern == topic or pattern == "*" or fnmatchcase(topic, pattern)


def _overlap(left: str, right: str) -> bool:
    """Whether a topic may fit both shell patterns; true where sets of characters are in them."""
    if "[" in left + right:
        return True

    @cache
    def meet(i: int, j: int) -> bool:
        if i == len(left) or j == len(right):
            return set(left[i:] + right[j:]) <= {"*"}
        if left[i] == "*":
            return meet(i + 1, j) or meet(i, j + 1)
        if right[j] == "*":
            return meet(i, j + 1) or meet(i + 1, j)
        return (left[i] == right[j] or "?" in (left[i], right[j])) and meet(i + 1, j + 1)

    return meet(0, 0)


def topics_by_format(topics: Iterable[str], formats: Mapping[str, str]) -> dict[str, list[str]]:
    """Format -> the topics that are written in it.

    Raises:
        ValueError: topics that no pattern fits.
    """
    found: dict[str, list[str]] = {}
    homeless = []
    for topic in topics:
        kind = format_of(topic, formats)
        if kind is None:
            homeless.append(topic)
        else:
            found.setdefault(kind, []).append(topic)
    if homeless:
        raise ValueError(
            f"The format of these topics is not declared: {', '.join(sorted(homeless))}. Name "
            f"them (or a pattern) in the var topic_formats; it has {', '.join(formats) or 'none'}."
        )
    return found

"""Which format the messages of a topic are written in: what the tables declare of their topics, and
the var `topic_formats`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.registry import FORMATS

if TYPE_CHECKING:
    from python_udfs.ingestion.tables.source import TableSource

# the begin of the topics of full loads, which are written as Maxwell's whatever the log's format
FULL_LOADS = "full_load."
OF_FULL_LOADS = "maxwell"
REST = "*"  # the pattern of the topics that nothing else names


def format_of(topic: str, formats: Mapping[str, str]) -> str | None:
    """The format of a topic, by the first pattern that fits, or None."""
    return next((kind for pattern, kind in formats.items() if fnmatchcase(topic, pattern)), None)


def formats_of_topics(formats: Mapping[str, str], sources: Iterable[TableSource]) -> dict[str, str]:
    """Topic, as a shell pattern -> format; the first that fits counts.

    First come the patterns of the var but for "*", as it has them; then those of the tables, a
    narrower pattern before one that covers it; then the var's "*".

    Args:
        formats: the var `topic_formats`.
        sources: all declarations of tables.
    """
    declared: dict[str, str] = {}
    for source in sources:
        for topic in source.topics:
            declared.setdefault(topic, _declared_format(topic, source))
    narrow_first = sorted(
        declared, key=lambda topic: (sum(_covers(topic, other) for other in declared), topic)
    )
    found = {topic: kind for topic, kind in formats.items() if topic != REST}
    for topic in narrow_first:
        found.setdefault(topic, declared[topic])
    if REST in formats:
        found.setdefault(REST, formats[REST])
    return found


def _declared_format(topic: str, source: TableSource) -> str:
    return OF_FULL_LOADS if topic.startswith(FULL_LOADS) else source.format


def problems_of(sources: Mapping[str, TableSource], formats: Mapping[str, str]) -> list[str]:
    """Contradictions between the declared tables, and between them and the var, one text each.

    Args:
        sources: model -> its declaration.
        formats: the var `topic_formats`: topic, as a shell pattern -> format.
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
    found += _contradictions(sources, formats)
    merged = formats_of_topics(formats, sources.values())
    kinds = dict.fromkeys(
        kind for topic, kind in merged.items() if not topic.startswith(FULL_LOADS)
    )
    for model, source in sources.items():
        if not source.topics and source.format not in kinds:
            found.append(
                f"{model}: its format is {source.format}, and it names no `topic`, nor does the "
                f"var topic_formats name topics of that format. Name its topics in "
                f'meta.source.topic, for example topic: "{source.format}*"'
            )
        elif not source.topics and len(kinds) > 1:
            found.append(
                f"{model}: it names no `topic`, and topics are read as "
                f"{', '.join(kinds)}, so it can't be seen whether its "
                f"messages are read as {source.format}. Name its topics in meta.source.topic, for "
                f'example topic: "{source.format}*"'
            )
        for topic in source.topics:
            of_var = {pattern: kind for pattern, kind in formats.items() if pattern != REST}
            kind = _other_format(topic, _declared_format(topic, source), of_var)
            if kind is not None:
                found.append(
                    f"{model}: its format is {source.format}, and the var topic_formats reads its "
                    f"topic {topic} as {kind}. Take that out of topic_formats, or add "
                    f'"{topic}": {source.format} before the pattern that fits now'
                )
    return found


def _contradictions(
    sources: Mapping[str, TableSource], formats: Mapping[str, str]
) -> Iterator[str]:
    """Topics that two tables declare in different formats, where the var doesn't decide."""
    declared: dict[tuple[str, str], str] = {}  # topic, format -> the first model
    for model, source in sources.items():
        for topic in source.topics:
            declared.setdefault((topic, _declared_format(topic, source)), model)
    of_var = [pattern for pattern in formats if pattern != REST]
    for (topic, kind), (other, other_kind) in combinations(declared, 2):
        one_covers = topic != other and (_covers(topic, other) or _covers(other, topic))
        if kind == other_kind or one_covers or not _overlap(topic, other):
            continue
        if any(_covers(pattern, name) for pattern in of_var for name in (topic, other)):
            continue
        model, of_other = declared[topic, kind], declared[other, other_kind]
        yield (
            f"{model} declares {kind} as the format of its topic {topic}, and {of_other} "
            f"{other_kind} as that of its topic {other}, which may be the same: the messages of a "
            "topic have one format. Name the topics more exactly, or name one of them in the var "
            "topic_formats"
        )


def _other_format(topic: str, wanted: str, formats: Mapping[str, str]) -> str | None:
    """The format of all topics that fit `topic`, or None if some may be of the wanted format, or
    are named nowhere in `formats`."""
    for pattern, kind in formats.items():
        if kind == wanted and _overlap(topic, pattern):
            return None
        if _covers(pattern, topic):
            return kind
    return None


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
            "them (or a pattern) as `topic` of the tables that they hold, or in the var "
            f"topic_formats; there are {', '.join(formats) or 'none'}."
        )
    return found

"""Relations, and the SQL text that stands for one where a model reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from dbt.adapters.spark import SparkRelation
from dbt.adapters.sparksession.flags import is_empty_run
from dbt_common.exceptions import DbtRuntimeError


@dataclass(frozen=True, eq=False, repr=False)
class SparkSessionRelation(SparkRelation):
    """A relation; with `reading`, the SQL text that stands for it in a `from`.

    Attributes:
        reading: e.g. "dw.orders version as of 42"; None for the relation's own name.
        as_of: number or tag of the version that is read, by the var as_of_version.
        read_by_default: function that gives the SQL text where nothing asks for another reading,
            see DefaultReads; called once the text is wanted; or None.
    """

    is_iceberg: bool | None = True
    reading: str | None = None
    as_of: str | None = None
    read_by_default: Any = None
    # the adapter's, (version, name) -> query
    text_as_of: ClassVar[Callable[[str, str], str | None]]

    def __post_init__(self) -> None:
        super().__post_init__()
        # dbt-spark replaces an iceberg relation in place, which a view can't be
        object.__setattr__(self, "is_iceberg", self.type != "view")

    @classmethod
    def create_from(cls, quoting: Any, relation_config: Any, **kwargs: Any) -> Any:
        if is_empty_run():  # nothing is written that its limit could be for, see flags.py
            kwargs["limit"] = None
        relation = super().create_from(quoting, relation_config, **kwargs)
        given = getattr(quoting, "cli_vars", {})
        as_of = given.get("as_of_version")
        if "as_of_version" in given and as_of is None:
            raise DbtRuntimeError(
                "The var as_of_version must be the number or tag of a version, or latest, got "
                "None: write the version down, or leave the var out to read the tables as they are."
            )
        return relation if as_of is None else relation.replace(as_of=str(as_of))

    @classmethod
    def create_ephemeral_from(
        cls, relation_config: Any, limit: int | None = None, event_time_filter: Any = None
    ) -> Any:
        if is_empty_run():  # a view has all its rows, those of an ephemeral model too
            limit = None
        return super().create_ephemeral_from(relation_config, limit, event_time_filter)

    def render(self) -> str:
        if self.reading is not None:
            return self.reading
        if self.read_by_default is not None:
            return self.read_by_default()
        name = super().render()
        text = None if self.as_of is None else type(self).text_as_of(self.as_of, name)
        return name if text is None else f"(\n{text}\n)"

    @property
    def name_only(self) -> SparkSessionRelation:
        if self.reading is None and self.as_of is None and self.read_by_default is None:
            return self
        return self.replace(reading=None, as_of=None, read_by_default=None)

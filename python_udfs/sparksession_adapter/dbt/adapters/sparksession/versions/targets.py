"""What a store outside of the warehouse has to do, and what it is given and gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dbt_common.exceptions import DbtRuntimeError

# columns that published rows have beside the model's own
ROW_KEY, SIGN = "row_key", "sign"


class PublishError(DbtRuntimeError):
    """Why a target doesn't take a version, in one sentence."""


@dataclass(frozen=True)
class Publication:
    """An exposure that publishes a model.

    Attributes:
        name: of the exposure.
        target: name of the store.
        table: the table or topic there.
        model: unique id of the model.
        key: columns that distinguish the model's rows.
        types: column -> its type in the store, where it isn't the usual one.
        mode: how the store takes changes; "" for the store's usual way.
    """

    name: str
    target: str
    table: str
    model: str
    key: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    mode: str = ""


@dataclass(frozen=True)
class StoreState:
    """What a store records of one of its tables.

    Attributes:
        version, mark: the version that it holds, and a hash of the model's query in that version
            and of the rows' key; 0 and "": none.
        begun_version, begun_mark: one that was begun and may stand there in part; a store that
            takes a version in one transaction has none.
    """

    version: int = 0
    mark: str = ""
    begun_version: int = 0
    begun_mark: str = ""

    @property
    def is_half(self) -> bool:
        return bool(self.begun_mark) and self.begun_mark != self.mark


@dataclass(frozen=True)
class TableUpdate:
    """What one table of a store has to receive.

    Attributes:
        publication: which.
        version, mark: what it holds then.
        rows: DataFrame of row_key (a hash of the key's values), the model's columns and sign: 1 a
            row as it is now, -1 one that is gone. Each row_key once. None if nothing changed.
        whole: the rows are all that there are; what else the table has is gone.
        kinds: the model's columns -> Spark's types.
    """

    publication: Publication
    version: int
    mark: str
    rows: Any
    whole: bool
    kinds: Mapping[str, str]

    def duplicate_key_message(self) -> str:
        """What is wrong where the rows have a key twice."""
        return (
            f"version {self.version} of table {self.publication.table} has a key twice, so "
            f"{', '.join(self.publication.key)} is no key of the model"
        )


@dataclass(frozen=True)
class UpdateResult:
    """What a store did for a part: rows that it wrote or left as they were, rows that went."""

    part: TableUpdate
    written: int
    removed: int


class Store(Protocol):
    """An open target.

    `together` is whether it takes the parts of all its tables in one transaction.
    """

    together: bool

    def held(self, tables: Sequence[str]) -> Mapping[str, StoreState]: ...

    def take(self, parts: Sequence[TableUpdate]) -> Sequence[UpdateResult]: ...

    def close(self) -> None: ...


class Stores(Protocol):
    """The project's module of stores."""

    def targets(self) -> Mapping[str, str]:
        """Name -> kind of the targets that the environment names.

        Raises:
            PublishError: it is something else.
        """

    def open_store(self, session: Any, target: str, warehouse: str) -> Store:
        """A target, open.

        Args:
            session: the Spark session.
            warehouse: the warehouse's id: a store drops what bears it, and nothing else.

        Raises:
            PublishError: it can't be reached, or refuses.
        """

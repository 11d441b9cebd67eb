"""Environment variables for a while, whatever thread sets them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping


class Variables:
    """Sets of environment variables that hold while somebody is within them.

    Who comes first may leave last: a thread that reads a profile while another runs dbt must not
    bring back the variables of that run when the run is over.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holding: list[Mapping[str, str]] = []
        self._before: dict[str, str | None] = {}

    @contextlib.contextmanager
    def within(self, variables: Mapping[str, str]) -> Iterator[None]:
        """Within it the process has these variables; of several sets the newest counts."""
        mine = dict(variables)
        with self._lock:
            for name in mine:
                self._before.setdefault(name, os.environ.get(name))
            self._holding.append(mine)
            os.environ.update(mine)
        try:
            yield
        finally:
            with self._lock:
                self._holding = [held for held in self._holding if held is not mine]
                for name in mine:
                    self._set_again(name)

    def _set_again(self, name: str) -> None:
        holding = [held[name] for held in self._holding if name in held]
        value = holding[-1] if holding else self._before.pop(name)
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

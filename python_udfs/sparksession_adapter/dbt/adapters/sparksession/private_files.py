"""Who may read what a run writes: warehouse, logs and target hold the source's data."""

from __future__ import annotations

import os
import stat

from dbt_common.exceptions import DbtRuntimeError

VARIABLE = "WAREHOUSE_UMASK"
DEFAULT = 0o077  # nobody but the user who runs it


def umask() -> int:
    """The permissions that files and folders don't get.

    Raises:
        DbtRuntimeError: WAREHOUSE_UMASK is no umask that leaves the user's own permissions.
    """
    given = os.environ.get(VARIABLE) or f"{DEFAULT:03o}"
    try:
        found = int(given, 8)
    except ValueError:
        found = -1
    if not 0 <= found <= 0o077:
        raise DbtRuntimeError(
            f"{VARIABLE} must be an octal number up to 077, got {given!r}. 077: nobody else may "
            "read the warehouse; 027: its group may."
        )
    return found


def dbt_folders() -> list[str]:
    """Where dbt writes its log and what it compiles."""
    from dbt.flags import get_flags

    flags = get_flags()
    return [
        str(getattr(flags, "LOG_PATH", None) or "logs"),
        str(getattr(flags, "TARGET_PATH", None) or "target"),
    ]


def keep_private(*folders: str) -> None:
    """Let this process, and the Java that it starts, write files that others can't read, and close
    these folders, as far as they are there and the user's own."""
    mask = umask()
    os.umask(mask)
    for folder in folders:
        try:
            status = os.stat(folder)
            wanted = stat.S_IMODE(status.st_mode) & ~mask
            if status.st_uid == os.getuid() and wanted != stat.S_IMODE(status.st_mode):
                os.chmod(folder, wanted)
        except FileNotFoundError:
            continue

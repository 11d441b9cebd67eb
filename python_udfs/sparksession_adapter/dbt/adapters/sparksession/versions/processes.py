"""Which process holds a lease, and whether it still runs, as far as this process can see.

psutil isn't used here: its start times move with the wall clock, its pid_exists is False for a
process that /proc hides, and it has neither the boot nor the pid namespace. By each of the three a
process that still writes could be presumed dead.
"""

from __future__ import annotations

import os
import platform

DEAD_STATES = "ZX"  # of /proc/<pid>/stat: a zombie, or gone


def process_mark(pid: int) -> str | None:
    """Text that distinguishes a process from every other process, else None.

    On Linux `<boot id>/<pid namespace>/<clock tick of its start>`, elsewhere the pid. None where
    there is no such process or /proc doesn't show it.
    """
    if platform.system() != "Linux":
        return str(pid) if _exists(pid) is not False else None
    here, started = _namespace(), _start(pid)
    return f"{here}/{started}" if here is not None and started is not None else None


def is_running(pid: int | None, mark: str | None) -> bool | None:
    """Whether the process of a mark runs; None where this process can't see that.

    A process of another boot or of another pid namespace (another container, another machine of
    the same name) is out of sight: its pid means something else here. So is one that /proc hides.

    Args:
        pid: as its own namespace counts.
        mark: its process_mark.
    """
    if pid is None or mark is None:
        return None
    if platform.system() != "Linux":  # a later process may have the same number
        return None if _exists(pid) is not False and mark == str(pid) else False
    namespace, _, started = mark.rpartition("/")
    if namespace.count("/") != 1 or namespace != _namespace():
        return None
    found = _start(pid)
    if found is not None:
        return found == started
    # a zombie, gone, or another user's process that /proc hides
    return False if _exists(pid) is False or _is_zombie(pid) else None


def _namespace() -> str | None:
    """`<boot id>/<pid namespace>` of this process; None where /proc doesn't show its namespace.

    A number of a namespace is used again once the namespace is gone, with all its processes.
    """
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            own = file.read().split(maxsplit=1)[0]
        if own != str(os.getpid()):  # /proc is of a namespace around this one
            return None
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _stat(pid: int) -> list[str]:
    """State, parent and so on of a process; empty where /proc doesn't show it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # the command in brackets may hold spaces: what follows the last bracket is split
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _start(pid: int) -> str | None:
    """Clock tick at which a process started; None of one that has ended or isn't shown."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 and fields[0] not in DEAD_STATES else None


def _is_zombie(pid: int) -> bool:
    fields = _stat(pid)
    return bool(fields) and fields[0] in DEAD_STATES


def _exists(pid: int) -> bool | None:
    """Whether there is a process of that number, whoever owns it; None where it can't be asked."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OSError:
        return None
    return True

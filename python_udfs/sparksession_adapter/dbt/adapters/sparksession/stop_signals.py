"""Ctrl-C and SIGTERM: both stop a run in the same way, and neither comes in the middle of a step
that must be done whole or not at all."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# loggers by which py4j logs the stack of a call that was interrupted, or whose Java has ended; what
# it logs
PY4J_INTERRUPTED = {
    "root": ("KeyboardInterrupt while sending command", "Exception while sending command"),
    "py4j.clientserver": ("Exception occurred while shutting down connection",),
}
_name_of_last = ["Ctrl-C"]


def is_stop(exc: BaseException | None) -> bool:
    """Whether an error is Ctrl-C, or came of seeing to it.

    A call to Java that Ctrl-C interrupts leaves its connection broken, and the next call fails,
    which may be in a `finally`.
    """
    while exc is not None:
        if isinstance(exc, KeyboardInterrupt):
            return True
        exc = exc.__context__
    return False


def stopped_by() -> str:
    """Name of the signal that stopped the run, for a message."""
    return _name_of_last[0]


def _is_no_stack_of_py4j(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(PY4J_INTERRUPTED[record.name])


def stop_at_sigterm() -> None:
    """Let SIGTERM stop a run as Ctrl-C does: else the process ends at once, without a sentence and
    with the lease taken. A program that has its own handler keeps it. Only the main thread can do
    it, and only there it is needed."""
    if threading.current_thread() is not threading.main_thread():
        return
    _name_of_last[0] = "Ctrl-C"
    for name in PY4J_INTERRUPTED:
        logging.getLogger(name).addFilter(_is_no_stack_of_py4j)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)


@contextmanager
def ctrl_c_as_it_is() -> Iterator[None]:
    """Within it no library sets a handler of Ctrl-C for longer.

    PySpark's asks Java to cancel jobs in the middle of the call that Ctrl-C interrupts, over the
    same connection, which breaks both calls. Who is stopped cancels them afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None:  # else C code had set it
            signal.signal(signal.SIGINT, before)


def end_at_sigterm() -> None:
    """Let SIGTERM end the process at once again, where `stop_at_sigterm` changed that."""
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is _interrupt:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does now."""
    _name_of_last[0] = "SIGTERM"
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt


@contextmanager
def without_stop_signals() -> Iterator[None]:
    """Within it Ctrl-C and SIGTERM wait; behind it the first of them that came does what it does.

    Elsewhere than in the main thread nothing has to wait: signals come to that alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before: dict[signal.Signals, Handler] = {}
    for sign in SIGNALS:
        if callable(handler := signal.getsignal(sign)):
            before[sign] = handler
    for sign in before:
        signal.signal(sign, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
        if came:
            number, frame = came[0]
            before[signal.Signals(number)](number, frame)

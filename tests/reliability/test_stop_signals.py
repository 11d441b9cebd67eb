"""Ctrl-C and SIGTERM as the adapter takes them, without a run."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator

import pytest
from dbt.adapters.sparksession.stop_signals import (
    ctrl_c_as_it_is,
    end_at_sigterm,
    stop_at_sigterm,
    stopped_by,
    without_stop_signals,
)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """As a program has them that has set none of its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def test_sigterm_stops_as_ctrl_c_does_until_the_run_has_ended() -> None:
    stop_at_sigterm()
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGTERM)
    assert stopped_by() == "SIGTERM"
    end_at_sigterm()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    stop_at_sigterm()
    assert stopped_by() == "Ctrl-C"


def test_the_stack_that_py4j_logs_of_ctrl_c_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    stop_at_sigterm()
    stop_at_sigterm()
    end_at_sigterm()
    logging.exception("KeyboardInterrupt while sending command.")
    py4j = logging.getLogger("py4j.clientserver")
    py4j.exception("Exception occurred while shutting down connection", exc_info=True)
    logging.error("another error")
    py4j.error("Unknown command x")
    messages = [record.message for record in caplog.records]
    assert messages == ["another error", "Unknown command x"]


def test_a_library_sets_no_handler_of_ctrl_c_for_longer() -> None:
    with ctrl_c_as_it_is():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)


def test_a_program_keeps_its_own_handler_of_sigterm() -> None:
    came: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    stop_at_sigterm()
    send(signal.SIGTERM)
    end_at_sigterm()
    send(signal.SIGTERM)
    assert came == [signal.SIGTERM] * 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_step_that_must_be_whole_is_ended_before_a_signal_does_what_it_does(
    number: signal.Signals,
) -> None:
    stop_at_sigterm()
    steps: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        with without_stop_signals():
            steps.append(1)
            send(number)
            send(number)
            steps.append(2)
        steps.append(3)
    assert steps == [1, 2]
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)


def test_an_error_within_the_step_is_what_comes_out_without_a_signal() -> None:
    with pytest.raises(ValueError, match="wrong"), without_stop_signals():
        raise ValueError("wrong")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_threads_other_than_the_main_one_have_no_signals_to_wait_for() -> None:
    done: list[bool] = []

    def work() -> None:
        stop_at_sigterm()
        with without_stop_signals():
            done.append(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
        end_at_sigterm()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]

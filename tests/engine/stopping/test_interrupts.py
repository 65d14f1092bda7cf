"""Ctrl-C waits while a batch is applied, and is delivered: at a check, or at the end, once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from crown.guards.interrupts import Uninterrupted


@pytest.fixture(autouse=True)
def python_s_own_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def strike() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_until_the_end() -> None:
    done = []

    def batch() -> None:
        with Uninterrupted():
            strike()
            done.append("the rest")

    with pytest.raises(KeyboardInterrupt):
        batch()
    assert done == ["the rest"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_check_delivers_it_earlier_and_once() -> None:
    done = []
    with Uninterrupted() as held:
        held.check()
        strike()
        with pytest.raises(KeyboardInterrupt):
            held.check()
        held.check()
        done.append("the rest")
    assert done == ["the rest"]


def test_nothing_is_delivered_where_nothing_came() -> None:
    held = Uninterrupted()
    held.check()
    with held:
        pass
    with held:
        held.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_context_within_itself_is_left_with_the_outer_one() -> None:
    held = Uninterrupted()
    done = []

    def batch() -> None:
        with held:
            with held:
                strike()
            done.append("after the inner one")

    with pytest.raises(KeyboardInterrupt):
        batch()
    assert done == ["after the inner one"]
    with held:  # and it is as new
        held.check()


def test_of_two_contexts_the_outer_one_delivers() -> None:
    outer, inner = Uninterrupted(), Uninterrupted()
    done = []

    def batch() -> None:
        with outer:
            with inner:
                strike()
                inner.check()
            done.append("after the inner one")

    with pytest.raises(KeyboardInterrupt):
        batch()
    assert done == ["after the inner one"]


def test_a_handler_of_the_user_gets_it_late_but_gets_it() -> None:
    got = []

    def handler(number: int, frame: FrameType | None) -> None:
        got.append(number)

    signal.signal(signal.SIGINT, handler)
    with Uninterrupted():
        strike()
        strike()
        assert got == []
    assert got == [signal.SIGINT], "two that waited are one, as the system does it"
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Uninterrupted() as held:
        strike()
        held.check()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_an_error_leaves_the_handler_as_it_was_and_is_not_replaced() -> None:
    with pytest.raises(ValueError, match="of the batch"), Uninterrupted():
        raise ValueError("of the batch")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_thread_changes_no_handler() -> None:
    seen = []

    def work() -> None:
        with Uninterrupted() as held:
            seen.append(signal.getsignal(signal.SIGINT))
            held.check()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_a_context_left_in_the_midst_of_leaving_does_not_keep_the_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an exception does, out of the handler of another signal, between two lines of ``__exit__``."""

    def struck(number: int, handler: object) -> None:
        raise TimeoutError

    left = Uninterrupted()
    with monkeypatch.context() as patch, pytest.raises(TimeoutError), left:
        patch.setattr("crown.guards.interrupts.signal", struck)
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    with pytest.raises(KeyboardInterrupt), Uninterrupted():
        strike()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

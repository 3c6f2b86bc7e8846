"""Bars on a terminal, after a while; silence elsewhere."""

import io
import sys
import time

import jax
import jax.numpy as jnp
import pytest

from ntkmmd_jax._lib import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal for stderr, and no patience: what takes a twentieth of a second is shown."""

    def begin():  # within the test: pytest has a stderr of its own for every phase
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(progress, "_PATIENCE", 0.05)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "100")
        return stream

    return begin


def test_what_is_quick_says_nothing(terminal):
    stream = terminal()
    items = list(progress.track(range(3), "items"))
    with progress.working("test"):
        pass
    assert items == [0, 1, 2] and stream.getvalue() == ""


def test_long_work_is_told_of(terminal):
    stream = terminal()
    for _ in progress.track(range(3), "items"):
        time.sleep(0.1)
    assert "items" in stream.getvalue() and "3/3" in stream.getvalue()


def test_a_wait_for_the_compiler_is_called_so(terminal):
    """As JAX says that it hands a program to XLA, and that it has it back."""
    stream = terminal()
    with progress.working("test"):
        jax.jit(lambda x: jnp.sin(x) + time.time())(jnp.ones(3))  # a program of its own
        time.sleep(0.2)
    assert "test: computing" in stream.getvalue()
    with progress.working("test"):
        jax.monitoring.record_event_duration_secs(progress._LOWERED, 0.1)
        time.sleep(0.2)
    assert "test: compiling" in stream.getvalue()


def test_jax_still_has_these_events():
    seen = []
    listen = lambda event, *_, **__: seen.append(event)  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        jax.jit(lambda x: jnp.cos(x) * time.time())(jnp.ones(3))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert seen.index(progress._LOWERED) < seen.index(progress.COMPILED)


def test_one_at_a_time(terminal):
    stream = terminal()
    with progress.working("outer"):
        for _ in progress.track(range(2), "inner"):
            time.sleep(0.1)
    assert "outer" in stream.getvalue() and "inner" not in stream.getvalue()
    assert not progress._shown


@pytest.mark.parametrize("show", [True, False])
def test_no_terminal_no_word(capsys, monkeypatch, show):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    if not show:
        monkeypatch.setattr(sys, "stderr", Terminal())
    stream = sys.stderr
    with progress.working("test", show=show), progress.replica_bar(1, 2, show=show) as bar:
        bar.start({"rho": 1}, 0)
        bar.advance(2)
        time.sleep(0.05)
    said = capsys.readouterr().err if show else stream.getvalue()
    assert said == ""


def test_an_error_leaves_no_bar_behind(terminal):
    terminal()
    with pytest.raises(RuntimeError), progress.working("test"):
        raise RuntimeError
    assert not progress._shown

"""Emulated threads: each runs to its end when the program waits for it, or for anything else.

A waiting thread lets the others run first, in the order in which they were started, so that an item that one puts into
a queue is available for the next. The remaining ones run at the end of the program. Two threads that each wait for a
later action of the other cannot continue: a thread that would wait for ever gets an error.
"""

import atexit
import collections
import itertools
import sys
import threading
import time

_pending = collections.deque()
_running = []
_numbers = itertools.count(2)
_sleep = time.sleep
_main = threading.current_thread


class _Stopped(SystemExit):
    """Ends a daemon thread that can never be woken."""


class _Handle:
    """Replaces the system's handle of a thread."""

    def __init__(self, thread):
        self.thread, self.done, self.ident = thread, False, next(_numbers)

    def is_done(self):
        return self.done

    def _set_done(self):
        self.done = True

    def join(self, timeout=None):
        if self.thread in _pending:
            _pending.remove(self.thread)
            _run(self.thread)
        elif not self.done:
            _stuck()


def start(thread):
    if not thread._initialized:
        raise RuntimeError("thread.__init__() not called")
    if thread._started.is_set():
        raise RuntimeError("threads can only be started once")
    thread._started.set()
    thread._os_thread_handle = _Handle(thread)
    thread._ident = thread._native_id = thread._os_thread_handle.ident
    target = getattr(thread, "_target", None)
    if getattr(target, "__module__", None) == "concurrent.futures.thread":
        _pool()
        thread._os_thread_handle.done = True
        _work(thread._args[2], thread._args[1])
        return
    loop = sys.modules.get("asyncio.events")
    if loop is not None and loop._get_running_loop() is not None:
        # A loop waits for events from outside of it.
        _run(thread)
    else:
        _pending.append(thread)


def _run(thread):
    _running.append(thread)
    try:
        thread.run()
    except SystemExit:
        pass
    except BaseException:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), thread)))
    finally:
        _running.pop()
        thread._os_thread_handle.done = True


def _step():
    if not _pending:
        return False
    _run(_pending.popleft())
    return True


def _stuck():
    if _running and _running[-1].daemon:
        raise _Stopped
    raise RuntimeError("deadlock: no other thread can wake this one; in this engine a thread runs to its end before another one continues")


def _wait(condition, timeout=None):
    if not condition._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    waiter = threading._allocate_lock()
    waiter.acquire()
    condition._waiters.append(waiter)
    saved = condition._release_save()
    woken = False
    try:
        woken = waiter.acquire(False)
        while not woken and _step():
            woken = waiter.acquire(False)
        if not woken:
            if timeout is None:
                _stuck()
            _sleep(max(timeout, 0))
        return woken
    finally:
        condition._acquire_restore(saved)
        if not woken:
            try:
                condition._waiters.remove(waiter)
            except ValueError:
                pass


def _sleeps(seconds):
    end = time.monotonic() + seconds
    while _step():
        pass
    _sleep(seconds if seconds < 0 else max(end - time.monotonic(), 0))


def _work(queue, context):
    """Runs the pending work of a pool's thread."""
    import _queue

    context.initialize()
    while True:
        try:
            item = queue.get_nowait()
        except _queue.Empty:
            return
        if item is not None:
            item.run(context)


def _pool():
    from concurrent.futures.thread import ThreadPoolExecutor

    def work(self):
        _work(self._work_queue, self._create_worker_context())

    ThreadPoolExecutor._adjust_thread_count = work


def _end():
    while _pending:
        thread = _pending.popleft()
        if not thread.daemon:
            _run(thread)


threading.Condition.wait = _wait
threading.current_thread = lambda: _running[-1] if _running else _main()
threading.get_ident = lambda: _running[-1].ident if _running else threading.main_thread().ident
time.sleep = _sleeps
atexit.register(_end)

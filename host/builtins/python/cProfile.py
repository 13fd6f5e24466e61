"""Substitute for `cProfile`, whose C core this engine lacks: the same interface based on `sys.setprofile`."""

import importlib.machinery
import io
import sys
import time

__all__ = ["run", "runctx", "Profile"]


class Profile:
    """Counts calls and times them. `pstats` reads it."""

    def __init__(self, timer=None, timeunit=0.0, subcalls=True, builtins=True):
        timer = timer or time.perf_counter
        self._timer = (lambda: timer() * timeunit) if timeunit else timer
        self._builtins = builtins
        self.clear()

    def clear(self):
        self.timings = {}
        self._stack = []
        self._depth = {}

    def enable(self, subcalls=True, builtins=True):
        self._builtins = builtins
        sys.setprofile(self._event)

    def disable(self):
        sys.setprofile(None)
        while self._stack:
            self._leave(self._timer())

    def _event(self, frame, event, arg):
        now = self._timer()
        if event == "call":
            code = frame.f_code
            self._enter((code.co_filename, code.co_firstlineno, code.co_name), now)
        elif event == "return":
            self._leave(now)
        elif not self._builtins or getattr(arg, "__self__", None) is self or arg is sys.setprofile:
            return
        elif event == "c_call":
            self._enter(("~", 0, _name(arg)), now)
        else:
            self._leave(now)

    def _enter(self, key, now):
        self._depth[key] = self._depth.get(key, 0) + 1
        # The running function, its start time, and the time spent in its callees.
        self._stack.append([key, now, 0.0])

    def _leave(self, now):
        if not self._stack:
            # A function returns that was called before profiling began.
            return
        key, begun, inside = self._stack.pop()
        took = now - begun
        own = took - inside
        self._depth[key] -= 1
        outermost = not self._depth[key]
        primitive, calls, total, cumulative, callers = self.timings.get(key, (0, 0, 0.0, 0.0, {}))
        if self._stack:
            above = self._stack[-1]
            above[2] += took
            a, b, c, d = callers.get(above[0], (0, 0, 0.0, 0.0))
            callers[above[0]] = (a + 1, b + outermost, c + own, d + took * outermost)
        self.timings[key] = (primitive + outermost, calls + 1, total + own, cumulative + took * outermost, callers)

    def create_stats(self):
        self.disable()
        self.snapshot_stats()

    def snapshot_stats(self):
        self.stats = dict(self.timings)

    def print_stats(self, sort=-1):
        import pstats

        sort = sort if isinstance(sort, tuple) else (sort,)
        pstats.Stats(self).strip_dirs().sort_stats(*sort).print_stats()

    def dump_stats(self, file):
        import marshal

        self.create_stats()
        with open(file, "wb") as to:
            marshal.dump(self.stats, to)

    def run(self, cmd):
        import __main__

        return self.runctx(cmd, __main__.__dict__, __main__.__dict__)

    def runctx(self, cmd, globals, locals):
        self.enable()
        try:
            exec(cmd, globals, locals)
        finally:
            self.disable()
        return self

    def runcall(self, func, /, *args, **named):
        self.enable()
        try:
            return func(*args, **named)
        finally:
            self.disable()

    def __enter__(self):
        self.enable()
        return self

    def __exit__(self, *_):
        self.disable()


def _name(function):
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", repr(function))
    if owner is None or isinstance(owner, type(sys)):
        module = getattr(function, "__module__", None)
        return f"<built-in method {module}.{name}>" if module else f"<built-in method {name}>"
    return f"<method '{name}' of '{type(owner).__name__}' objects>"


def _show(profile, filename, sort):
    if filename is not None:
        profile.dump_stats(filename)
    else:
        profile.print_stats(sort)


def run(statement, filename=None, sort=-1):
    profile = Profile()
    try:
        profile.run(statement)
    except SystemExit:
        pass
    finally:
        _show(profile, filename, sort)


def runctx(statement, globals, locals, filename=None, sort=-1):
    profile = Profile()
    try:
        profile.runctx(statement, globals, locals)
    except SystemExit:
        pass
    finally:
        _show(profile, filename, sort)


def main():
    import os
    import runpy
    from optparse import OptionParser

    parser = OptionParser(usage="cProfile.py [-o output_file_path] [-s sort] [-m module | scriptfile] [arg] ...")
    parser.allow_interspersed_args = False
    parser.add_option("-o", "--outfile", dest="outfile", default=None)
    parser.add_option("-s", "--sort", dest="sort", default=2)
    parser.add_option("-m", dest="module", action="store_true", default=False)
    options, args = parser.parse_args()
    if not args:
        parser.print_usage()
        return parser
    sys.argv[:] = args
    if options.module:
        code, names = "run_module(name, run_name='__main__')", {"run_module": runpy.run_module, "name": args[0]}
    else:
        program = args[0]
        sys.path.insert(0, os.path.dirname(program))
        with io.open_code(program) as file:
            code = compile(file.read(), program, "exec")
        spec = importlib.machinery.ModuleSpec(name="__main__", loader=None, origin=program)
        names = {"__spec__": spec, "__file__": program, "__name__": "__main__", "__package__": None, "__cached__": None}
    runctx(code, names, None, options.outfile, options.sort)


if __name__ == "__main__":
    main()

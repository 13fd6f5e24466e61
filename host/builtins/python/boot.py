def _boot():
    import sys

    def hook(kind, error, trace):
        # Frames in this text do not belong to the program.
        while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        sys.__excepthook__(kind, error.with_traceback(trace), trace)

    sys.excepthook = hook
    # Output written before a kill must not be lost.
    sys.stdout.reconfigure(line_buffering=True)
    # `-c` puts the working directory first, where a workspace could put a module of any name. It is removed here,
    # or added last if the host allows imports: modules of the language and of mimir always take precedence.
    sys.path[:] = [place for place in sys.path if place.startswith("/usr/local/lib/")]
    sys.path += ["/usr/local/lib/mimir", "/usr/local/lib/mimir.zip"]
    # These are loaded already, and have further modules there.
    for name in ("http", "compression"):
        sys.modules[name].__path__.append(f"/usr/local/lib/mimir.zip/{name}")
    if sys.argv[1:2] == ["--imports"]:
        del sys.argv[1]
        sys.path.append("")

    def pbkdf2_hmac(*args, **named):
        from _pbkdf2 import pbkdf2_hmac

        return pbkdf2_hmac(*args, **named)

    def start(thread):
        import _threads

        _threads.start(thread)

    walk = sys.modules["traceback"].walk_stack

    def walk_stack(frame=None):
        frames = list(walk(frame or sys._getframe(1)))
        for at, (one, _) in enumerate(frames):
            # The frames of this text, and of its caller.
            if one.f_code.co_filename.endswith("/_bashkit_boot.py"):
                del frames[at - 1 :]
                break
        return iter(frames)

    sys.modules["traceback"].walk_stack = walk_stack
    sys.modules["threading"].Thread.start = start
    # Provided by OpenSSL elsewhere.
    sys.modules["hashlib"].pbkdf2_hmac = pbkdf2_hmac
    with open("/main.py", "rb") as file:
        source = file.read()
    return compile(source, "/main.py", "exec", dont_inherit=True)


exec(globals().pop("_boot")())

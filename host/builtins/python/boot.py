def _boot():
    import sys

    def hook(kind, error, trace):
        # What stands in this text is not the program's.
        while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        sys.__excepthook__(kind, error.with_traceback(trace), trace)

    sys.excepthook = hook
    # What was written before a kill was written.
    sys.stdout.reconfigure(line_buffering=True)
    sys.path.append("/usr/local/lib/mimir")
    with open("/main.py", "rb") as file:
        source = file.read()
    return compile(source, "/main.py", "exec", dont_inherit=True)


exec(globals().pop("_boot")())

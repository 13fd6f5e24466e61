import asyncio, inspect, json, sys, types


def run(given, code):
    def say(level):
        return lambda *values: print(f"{level}:", *values, file=sys.stderr)

    logger = types.SimpleNamespace(debug=say("debug"), info=say("info"), warn=say("warn"), error=say("error"), log=say("info"))
    context = types.SimpleNamespace(**{**given["context"], "logger": logger})
    reply = {}
    try:
        names = {"__name__": "tool"}
        exec(compile(code, "tool.py", "exec"), names)
        main = names.get("execute")
        if not callable(main):
            raise TypeError("the code does not define `execute`")
        value = main(given["args"], context)
        if inspect.isawaitable(value):
            async def wait():
                return await value
            value = asyncio.run(wait())
        reply["text"] = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (Exception, SystemExit) as error:
        reply["error"] = f"{type(error).__name__}: {error}"
    sys.stdout.write("\n\x01mimir-result:" + json.dumps(reply) + "\n")



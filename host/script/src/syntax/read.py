import ast
import json
import symtable
import sys

source = sys.stdin.buffer.read().decode()

# Names with which code may define `execute` dynamically.
HIDDEN = {"globals", "vars", "exec", "eval", "setattr"}


def brings(node):
    """Returns true if this may define `execute` dynamically, so that it is unknown until the code runs."""
    match node:
        case ast.ImportFrom(names=names):
            return any(name.name == "*" for name in names)
        case ast.Global(names=names):
            return "execute" in names
        case ast.Name(id=name):
            return name in HIDDEN
    return False


def wrong():
    try:
        tree = compile(source, "tool.py", "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
        # Some syntax errors are found by the compiler only, not by the parser.
        compile(source, "tool.py", "exec", dont_inherit=True)
        table = symtable.symtable(source, "tool.py", "exec")
    except SyntaxError as error:
        return {"line": error.lineno or 1, "column": error.offset or 1, "message": error.msg}
    except (MemoryError, RecursionError):
        return {"line": 1, "column": 1, "message": "the code is nested too deeply to be read"}
    except ValueError as error:
        return {"line": 1, "column": 1, "message": str(error)}
    names = [name for name in table.get_symbols() if name.get_name() == "execute"]
    if any(name.is_assigned() or name.is_imported() for name in names):
        return None
    if any(brings(node) for node in ast.walk(tree)):
        return None
    return {"line": 1, "column": 1, "message": "the code has no function `execute(args, context)`"}


print(json.dumps(wrong()))

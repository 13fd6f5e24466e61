//! The Python standard library in the engine: the available modules work, and the missing ones are those listed in the
//! engine's note.

use mimir_core::code_language::CodeLanguage;
use mimir_script::CodeEngine as _;
use serde_json::json;

use super::CodeFixture;

/// Modules for Windows, missing in every other interpreter.
const WINDOWS: [&str; 4] = ["msvcrt", "nt", "winreg", "winsound"];

#[test]
fn python_note_lists_exactly_the_missing_modules() {
    let fixture = CodeFixture::new();
    let result = fixture.run(
        "python",
        "import contextlib, importlib, io, sys
for name in sorted(sys.stdlib_module_names):
    if name.startswith('_'): continue
    try:
        with contextlib.redirect_stdout(io.StringIO()): importlib.import_module(name)
    except ImportError: print(name)",
    );
    assert_eq!(result.code, 0, "{result:?}");
    let absent = result.stdout.lines();
    let absent: Vec<&str> = absent.filter(|name| !WINDOWS.contains(name)).collect();
    let note = fixture.engines.lacks(CodeLanguage::Python);
    let (_, named) = note.split_once("(without ").unwrap();
    let (named, rest) = named.split_once(';').unwrap();
    let named: Vec<&str> = named
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    let named: Vec<&str> = named.into_iter().filter(|word| *word != "and").collect();
    assert_eq!(named, absent);
    assert!(rest.starts_with(" bz2 and ctypes"), "{note}");
}

#[test]
fn python_modules_of_the_library_work() {
    // Allows for a busy machine.
    let fixture = CodeFixture::with_limits(json!({"timeMs": 600_000}));
    for (code, says) in [
        ("help(len)", "Return the number of items in a container."),
        (
            "import logging, logging.config, sys
logging.config.dictConfig({'version': 1, 'handlers': {'h': {'class': 'logging.StreamHandler', 'stream': sys.stdout}}, 'root': {'handlers': ['h'], 'level': 'INFO'}})
logging.getLogger('x').info('configured')",
            "configured\n",
        ),
        (
            "import cProfile
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
profile = cProfile.Profile()
with profile: fib(10)
profile.print_stats('ncalls')",
            "177/1",
        ),
        (
            "import _pydecimal, _pyio, _pydatetime, pickletools, socketserver, http.server, wsgiref.validate, xmlrpc.server
import smtplib, ftplib, imaplib, poplib, mailbox, netrc, pyclbr, trace, webbrowser, zipapp, compileall, modulefinder
print(_pydecimal.Decimal(1) / 4, http.server.HTTPServer.__mro__[1].__name__)",
            "0.25 TCPServer\n",
        ),
        // These mention a missing module but use another one.
        (
            "import bz2, ctypes, ctypes.util, io, tarfile
print(ctypes.sizeof(ctypes.c_long), ctypes.sizeof(ctypes.c_void_p), ctypes.c_uint8(300).value, ctypes.util.find_library('c'))
openers = {'.bz2': bz2.BZ2File}
for mode in ('w', 'w:gz'):
    with tarfile.open('/tmp/a', mode) as tar: tar.addfile(tarfile.TarInfo('inside'))
    print(tarfile.open('/tmp/a').getnames())
for use in (lambda: bz2.compress(b''), lambda: bz2.open('/main.py').read(), lambda: ctypes.CDLL('x')):
    try: use()
    except OSError as error: print('backend: process' in str(error))",
            "4 4 44 None\n['inside']\n['inside']\nTrue\nTrue\nTrue\n",
        ),
        (
            "import os
for path in (b'\\xff', 'a\\udc80b', b'sub/\\xfe'):
    print(os.path.exists(path), os.path.lexists(path), os.path.isdir(path))
    for act in (open, os.mkdir, os.remove, os.rmdir, os.listdir, os.readlink, lambda path: os.rename(path, 'x'), lambda path: os.symlink(path, 'x'), lambda path: os.link(path, 'x'), lambda path: open(path, 'w'), os.utime):
        try: act(path)
        except OSError: continue
        print('no error')
print('end')",
            "False False False\nFalse False False\nFalse False False\nend\n",
        ),
        (
            "import sqlite3
db = sqlite3.connect(':memory:')
db.execute('create table t(a, b)')
db.executemany('insert into t values(?, ?)', [(i % 3, 2.0) for i in range(160_000)])
print(db.execute('select a, count(*) from t group by a').fetchall())",
            "[(0, 53334), (1, 53333), (2, 53333)]\n",
        ),
        // The sorted data is more than SQLite holds in memory.
        (
            "import sqlite3
for path in ('/tmp/a.db', 'a.db'):
    db = sqlite3.connect(path)
    db.execute('create table t(a, b)')
    db.executemany('insert into t values(?, ?)', [(i, 'x' * 1_000 + str(i * 7919 % 10_007)) for i in range(5_000)])
    db.execute('create index i on t(b, a)')
    db.execute('create temp table u as select * from t order by b desc')
    db.commit()
    db.execute('vacuum')
    print(db.execute('pragma integrity_check').fetchall(), db.execute('select a from u').fetchone())
    db.close()",
            &"[('ok',)] (393,)\n".repeat(2),
        ),
    ] {
        let result = fixture.run("python", code);
        assert_eq!(result.code, 0, "{code}: {result:?}");
        assert!(result.stdout.contains(says), "{code}: {result:?}");
    }
}

#[test]
fn python_deeply_nested_code_is_a_catchable_error() {
    let fixture = CodeFixture::new();
    let code = "import ast
for text in ('a' + '.b' * 50000, '-' * 50000 + '1', '[' * 50000, 'f(' * 50000, 'a' + '[0]' * 50000,
             'lambda: ' * 50000 + '1', 'not ' * 50000 + '1', '1' + '+1' * 50000):
    for reads in (ast.parse, lambda text: compile(text, 't', 'eval')):
        try: reads(text)
        except (RecursionError, MemoryError): pass
        print('alive')";
    let result = fixture.run("python", code);
    assert_eq!(result.stdout, "alive\n".repeat(16), "{result:?}");
}

#[test]
fn python_sqlite_reports_locked_to_a_second_connection() {
    let fixture = CodeFixture::new();
    let code = "import sqlite3
one, other = sqlite3.connect('a.db', timeout=0.1), sqlite3.connect('a.db', timeout=0.1)
one.execute('create table t(a)')
one.commit()
print(other.execute('select * from t').fetchall())
one.execute('insert into t values(1)')
try: other.execute('select * from t').fetchall()
except sqlite3.OperationalError as error: print(error)
one.commit()
print(other.execute('select * from t').fetchall())";
    let result = fixture.run("python", code);
    assert_eq!(
        result.stdout, "[]\ndatabase is locked\n[(1,)]\n",
        "{result:?}"
    );
    let note = fixture.engines.lacks(CodeLanguage::Python);
    assert!(note.contains("one connection at a time"), "{note}");
}

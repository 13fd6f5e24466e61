//! Malicious code: each case ends with a code or an exit code, a message, within a time limit, and does not affect the
//! next call.

use std::time::{Duration, Instant};

use mimir_core::ToolErrorCode;
use serde_json::json;

use super::{CodeFixture, code_result};

/// Expected outcome: a failure with this code, a failure of any limit that is reached first, or an exit code with this
/// text on stderr or stdout.
enum Comes {
    Stopped(ToolErrorCode, &'static str),
    Bounded,
    Ends(i64, &'static str),
}
use Comes::{Bounded, Ends, Stopped};

const HOSTILE: &[(&str, &str, Comes)] = &[
    (
        "python",
        "while True: pass",
        Stopped(ToolErrorCode::Timeout, "stopped after"),
    ),
    ("python", "import os; os._exit(3)", Ends(1, "")),
    (
        "python",
        "import os; os.fork()",
        Ends(1, "no attribute 'fork'"),
    ),
    (
        "python",
        "import socket; socket.create_connection(('127.0.0.1', 22))",
        Ends(1, "Error"),
    ),
    (
        "python",
        "x = []\nwhile True: x.append('x' * 10_000_000)",
        Ends(1, "MemoryError"),
    ),
    (
        "python",
        "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
        Ends(1, "RecursionError"),
    ),
    (
        "python",
        "import json\ntry: json.loads('[' * 200_000)\nexcept RecursionError: print('caught')",
        Ends(0, "caught"),
    ),
    (
        "python",
        "import json\ntry: json.loads('{\"a\":' * 200_000)\nexcept RecursionError: print('caught')",
        Ends(0, "caught"),
    ),
    (
        "python",
        "import pickle\ndeep = []\nfor _ in range(100_000): deep = [deep]\ntry: pickle.dumps(deep)\nexcept RecursionError: print('caught')",
        Ends(0, "caught"),
    ),
    (
        "python",
        "def down(n): return sorted([n], key=lambda n: down(n + 1))\ntry: down(0)\nexcept RecursionError: print('caught')",
        Ends(0, "caught"),
    ),
    ("python", "def f(): f()\nf()", Ends(1, "RecursionError")),
    (
        "python",
        "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)",
        Ends(0, "\u{fffd}"),
    ),
    (
        "python",
        "print('x' * 100_000_000)",
        Ends(0, "bytes are missing"),
    ),
    (
        "python",
        "print('\\ud800')",
        Ends(1, "surrogates not allowed"),
    ),
    (
        "python",
        "import re; re.match('(a+)+$', 'a' * 64 + 'b')",
        Bounded,
    ),
    (
        "python",
        "import ctypes\nctypes.CDLL('libc.so.6')",
        Ends(1, "ctypes is not available"),
    ),
    ("python", "import os\nos.stat(b'\\xff')", Ends(1, "OSError")),
    (
        "bash",
        "while :; do :; done",
        Stopped(ToolErrorCode::Timeout, "stopped after"),
    ),
    ("bash", "f() { f; }; f", Ends(1, "more than 250 deep")),
    ("bash", ":(){ :|:& };:", Bounded),
    (
        "bash",
        "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done",
        Ends(1, "memory"),
    ),
    ("bash", "head -c 1000 /dev/urandom", Ends(0, "")),
    ("bash", "yes", Ends(1, "lines of output")),
    ("bash", "exec 5<>/dev/tcp/127.0.0.1/22", Ends(1, "")),
    ("bash", "curl http://127.0.0.1/", Ends(1, "not configured")),
    ("javascript", "while (true);", Bounded),
    (
        "javascript",
        "const a = []; while (true) a.push('x'.repeat(1e7) + a.length);",
        Ends(1, "out of memory"),
    ),
    (
        "javascript",
        "console.log('x'.repeat(1e8))",
        Ends(1, "out of memory"),
    ),
];

#[test]
fn hostile_code_is_stopped_and_later_calls_work() {
    let fixture = CodeFixture::new();
    for language in ["python", "bash", "javascript"] {
        fixture.run(language, "");
    }
    for (language, code, comes) in HOSTILE {
        let wait = match comes {
            Stopped(ToolErrorCode::Timeout, _) | Bounded => 2_000,
            // Allows for a slow machine, and an engine that was not optimised for it.
            _ => 30_000,
        };
        let start = Instant::now();
        let outcome = fixture.call(json!({"language": language, "code": code, "timeout": wait}));
        let took = start.elapsed();
        assert!(took < Duration::from_secs(40), "{code}: {took:?}");
        match comes {
            Stopped(wanted, part) => {
                let error = match outcome.result() {
                    Err(error) => error,
                    Ok(_) => panic!("{code} was not stopped: {}", outcome.text()),
                };
                assert!(
                    error.code == *wanted && error.message.contains(part),
                    "{code}: {error}"
                );
            }
            Bounded => {
                let code = outcome.result().err().map(|error| error.code);
                let bounds = [
                    Some(ToolErrorCode::Timeout),
                    Some(ToolErrorCode::LimitExceeded),
                ];
                assert!(bounds.contains(&code), "{code:?}: {}", outcome.text());
            }
            Ends(wanted, part) => {
                assert!(outcome.is_ok(), "{code}: {}", outcome.text());
                let result = code_result(&outcome);
                let shown = format!(
                    "{}{}",
                    result.stdout.chars().take(9000).collect::<String>(),
                    result.stderr
                );
                let there = result.stdout.contains(part) || result.stderr.contains(part);
                assert!(
                    result.code == *wanted && there,
                    "{code}: {} {shown}",
                    result.code
                );
            }
        }
        let fine = match *language {
            "python" => fixture.run("python", "print(1)"),
            "bash" => fixture.run("bash", "echo 1"),
            _ => fixture.run("javascript", "console.log(1)"),
        };
        assert_eq!(fine.stdout, "1\n", "after {code}");
    }
}

#[test]
fn python_library_archive_is_read_only() {
    let fixture = CodeFixture::new();
    let code = r#"
import os
ZIP = "/usr/local/lib/python314.zip"
for attempt in (
    lambda: open(ZIP, "r+b"), lambda: open(ZIP, "wb"), lambda: open(ZIP, "ab"), lambda: os.link(ZIP, "/workspace/z"),
    lambda: os.rename(ZIP, "/workspace/z"), lambda: os.rename("/workspace/a", ZIP), lambda: os.remove(ZIP),
    lambda: os.truncate(ZIP, 0), lambda: os.utime(ZIP, (0, 0)), lambda: os.mkdir("/usr/x"), lambda: os.rmdir("/usr"),
    lambda: open("/usr/local/lib/x.py", "w"), lambda: open("/main.py", "w"), lambda: open("/x", "w"),
    lambda: os.symlink(ZIP, "/workspace/z"), lambda: os.link("/workspace/a", "/usr/local/lib/x.py"),
    lambda: os.rename("/workspace", "/elsewhere"), lambda: os.rmdir("/workspace"),
):
    try:
        attempt()
        print("done")
    except OSError as error:
        pass
print(os.path.getsize(ZIP) > 1_000_000, sorted(os.listdir("/")), os.path.isdir("/usr/local/lib"))
import xml.dom.minidom
"#;
    std::fs::write(fixture.path().join("a"), "mine").unwrap();
    let result = fixture.run("python", code);
    let wanted = "True ['main.py', 'tmp', 'usr', 'workspace'] True\n";
    assert_eq!(
        (result.stdout.as_str(), result.code),
        (wanted, 0),
        "{result:?}"
    );
    assert_eq!(std::fs::read(fixture.path().join("a")).unwrap(), b"mine");
}

#[cfg(unix)]
#[test]
fn code_cannot_reach_outside_or_protected_files() {
    let fixture = CodeFixture::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "outside").unwrap();
    std::os::unix::fs::symlink(outside.path(), fixture.path().join("link")).unwrap();
    std::fs::create_dir_all(fixture.path().join(".git/hooks")).unwrap();
    std::fs::write(fixture.path().join(".env"), "TOKEN=1").unwrap();
    let up = format!("/workspace/../../..{}/secret", outside.path().display());
    for path in [
        "link/secret",
        "/workspace/link/secret",
        &up,
        &outside.path().join("secret").display().to_string(),
        "/etc/shadow",
        "/proc/self/environ",
        ".env",
    ] {
        let result = fixture.run("python", &format!("print(open({path:?}).read())"));
        assert_eq!((result.stdout.as_str(), result.code), ("", 1), "{path}");
        let result = fixture.run("bash", &format!("cat '{path}'"));
        assert!(
            !result.stdout.contains("outside") && !result.stdout.contains("TOKEN"),
            "{path}: {result:?}"
        );
    }
    for path in [
        ".git/hooks/pre-commit",
        ".mimir/tools/x.yml",
        "link/new",
        "../new",
        ".env",
    ] {
        let result = fixture.run("python", &format!("import os\nos.makedirs(os.path.dirname({path:?}) or '.', exist_ok=True)\nopen({path:?}, 'w').write('x')"));
        assert_eq!(result.code, 1, "{path}: {result:?}");
        fixture.run(
            "bash",
            &format!("mkdir -p $(dirname '{path}'); echo x > '{path}'; ln -s / l; echo x > l/new"),
        );
        assert!(!outside.path().join("new").exists());
    }
    assert!(!fixture.path().join(".git/hooks/pre-commit").exists());
    assert!(!fixture.path().join(".mimir/tools/x.yml").exists());
    assert_eq!(
        std::fs::read(fixture.path().join(".env")).unwrap(),
        b"TOKEN=1"
    );
    assert!(!fixture.path().parent().unwrap().join("new").exists());
}

#[test]
fn code_temporary_files_are_limited() {
    let fixture = CodeFixture::new();
    let full = "write the rest to the workspace";
    for (language, code) in [
        (
            "python",
            "part = b'x' * (1 << 20)\nwith open('/tmp/a', 'wb') as file:\n    for _ in range(400): file.write(part)",
        ),
        (
            "python",
            "import os\nfor at in range(10_500): open(f'/tmp/{at}', 'w').close()",
        ),
        (
            "python",
            "import os\npart = b'x' * (100 << 20)\nkept = []\nfor at in range(4):\n    file = open('/tmp/a', 'wb')\n    file.write(part)\n    file.flush()\n    os.remove('/tmp/a')\n    kept.append(file)",
        ),
        (
            "python",
            "with open('/tmp/a', 'wb') as file: file.truncate(1 << 40)",
        ),
    ] {
        let outcome = fixture.call(json!({"language": language, "code": code, "timeout": 60_000}));
        let result = code_result(&outcome);
        assert!(
            result.code != 0 && result.stderr.contains(full),
            "{code}: {result:?}"
        );
    }
    // Removed files free their space.
    let again = "import os\npart = b'x' * (100 << 20)\nfor at in range(4):\n    open('/tmp/a', 'wb').write(part)\n    if at % 2: os.remove('/tmp/a')\nfor at in range(10_500):\n    open('/tmp/b', 'w').close()\n    os.rename('/tmp/b', '/tmp/c')\n    os.mkdir('/tmp/d')\n    os.rmdir('/tmp/d')\nprint('done')";
    let result =
        code_result(&fixture.call(json!({"language": "python", "code": again, "timeout": 60_000})));
    assert_eq!(
        (result.stdout.as_str(), result.code),
        ("done\n", 0),
        "{result:?}"
    );
}

#[test]
fn code_new_files_are_limited_per_call() {
    let fixture = CodeFixture::with_limits(json!({"newFileBytes": 4 << 20, "newFiles": 20}));
    let full = "one call may add 4.0 MB and 20 files to the workspace";
    for (language, code) in [
        (
            "python",
            "with open('a', 'wb') as file:\n    for _ in range(100): file.write(b'x' * 100_000)",
        ),
        ("python", "open('sparse', 'wb').truncate(10**11)"),
        (
            "python",
            "with open('sparse', 'wb') as file:\n    file.seek(10**11)\n    file.write(b'x')",
        ),
        (
            "python",
            "import os\nfor at in range(100): os.mkdir(f'folder{at}')",
        ),
        (
            "bash",
            "for at in {1..60}; do echo x > file$at || exit 1; done",
        ),
        (
            "bash",
            "python3 -c 'for at in range(100): open(f\"file{at}\", \"w\").close()' || exit 1",
        ),
        (
            "javascript",
            "const fs = require('fs/promises'); for (let at = 0; at < 100; at++) await fs.writeFile(`file${at}`, 'x');",
        ),
        (
            "javascript",
            "await require('fs/promises').writeFile('large', 'x'.repeat(5e6))",
        ),
    ] {
        let outcome = fixture.call(json!({"language": language, "code": code}));
        let output = match outcome.result() {
            Ok(_) => {
                let result = code_result(&outcome);
                assert_ne!(result.code, 0, "{code}: {result:?}");
                result.stderr
            }
            Err(error) => {
                assert_eq!(error.code, ToolErrorCode::LimitExceeded, "{code}: {error}");
                error.message.clone()
            }
        };
        assert!(output.contains(full), "{code}: {output}");
        let all = std::fs::read_dir(fixture.path()).unwrap().flatten();
        let own = all.filter(|entry| entry.file_name() != ".mimir");
        let own: Vec<_> = own.map(|entry| entry.path()).collect();
        assert!(own.len() <= 20, "{code}: {own:?}");
        for path in own {
            let meta = path.metadata().unwrap();
            assert!(meta.is_dir() || meta.len() <= 4 << 20, "{code}: {meta:?}");
            match meta.is_dir() {
                true => std::fs::remove_dir_all(path).unwrap(),
                false => std::fs::remove_file(path).unwrap(),
            }
        }
    }
    // Removed files free their space, and each call of a session may add as much again.
    let again = "import os\nfor at in range(100):\n    open('a', 'wb').write(b'x' * 1_000_000)\n    os.remove('a')\n    os.mkdir('d')\n    os.rmdir('d')\nopen(f'kept{len(os.listdir())}', 'wb').write(b'x' * 3_000_000)\nprint('done')";
    for _ in 0..3 {
        let outcome = fixture.call(json!({"language": "python", "code": again, "session": "s"}));
        let result = code_result(&outcome);
        assert_eq!(
            (result.stdout.as_str(), result.code),
            ("done\n", 0),
            "{result:?}"
        );
    }
}

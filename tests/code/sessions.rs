//! Python sessions: variables of one call are available to the next one, within the limits of each call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mimir_core::ToolErrorCode;
use mimir_core::call::{CallObserver, CallProgress, LogLine};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{CodeFixture, CodeResult, code_result};

fn run(fixture: &CodeFixture, session: &str, code: &str) -> CodeResult {
    code_result(&fixture.call(json!({"language": "python", "code": code, "session": session})))
}

#[test]
fn session_variables_persist_and_are_not_shared() {
    let fixture = CodeFixture::new();
    let first = run(
        &fixture,
        "a",
        "import math\ndef f(x):\n    return x * 2\nn = 20\nprint(__name__)",
    );
    assert_eq!(
        (first.stdout.as_str(), first.code),
        ("__main__\n", 0),
        "{first:?}"
    );
    let second = run(
        &fixture,
        "a",
        "n += 1\nprint(f(n), math.floor(2.5))\nopen('/tmp/x', 'w').write('1')",
    );
    assert_eq!(second.stdout, "42 2\n", "{second:?}");
    // Another session, and no session, do not have the variable.
    for other in ["b", ""] {
        let mut wish = json!({"language": "python", "code": "import os\nprint('n' in globals(), os.path.exists('/tmp/x'))"});
        if !other.is_empty() {
            wish["session"] = other.into();
        }
        assert_eq!(code_result(&fixture.call(wish)).stdout, "False False\n");
    }
    let third = run(
        &fixture,
        "a",
        "import os, sys\nprint(n, os.path.exists('/tmp/x'), sys.argv[1:], os.environ.get('GREETING'))",
    );
    assert_eq!(third.stdout, "21 True [] hi\n", "{third:?}");
}

#[test]
fn session_survives_exceptions_and_exit() {
    let fixture = CodeFixture::new();
    let cases = [
        (
            "x = 5\ndef g():\n    return 1 // 0\ng()",
            1,
            "line 3, in g\n    return 1 // 0",
        ),
        ("print(x", 1, "SyntaxError"),
        ("import sys\nsys.exit(3)", 3, ""),
        ("sys.exit('no')", 1, "no\n"),
        ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
        (
            "sys.stdout.write('half'); print(x, file=sys.stderr)",
            0,
            "5\n",
        ),
    ];
    for (code, exit, output) in cases {
        let result = run(&fixture, "s", code);
        assert_eq!(result.code, exit, "{code}: {result:?}");
        assert!(result.stderr.contains(output), "{code}: {result:?}");
        assert!(!result.stderr.contains("mimir.py"), "{code}: {result:?}");
    }
    assert_eq!(
        run(&fixture, "s", "print(x, input() if 0 else '')").stdout,
        "5 \n"
    );
}

#[test]
fn session_restarts_after_a_timeout_or_exit() {
    let fixture = CodeFixture::new();
    run(&fixture, "s", "n = 1");
    for code in [
        "print('before')\nwhile True: pass",
        "print('before')\nimport time\ntime.sleep(60)",
    ] {
        let start = Instant::now();
        let outcome = fixture
            .call(json!({"language": "python", "code": code, "session": "s", "timeout": 2_000}));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Timeout, "{error}");
        assert_eq!(error.details.as_ref().unwrap()["output"], "before\n");
        assert!(start.elapsed() < Duration::from_secs(60));
        assert_eq!(
            run(&fixture, "s", "print('n' in globals())").stdout,
            "False\n"
        );
    }
    let result = run(
        &fixture,
        "s",
        "import os\nprint('going', flush=True)\nos._exit(7)",
    );
    assert_eq!(
        (result.stdout.as_str(), result.code),
        ("going\n", 1),
        "{result:?}"
    );
    let big = fixture
        .call(json!({"language": "python", "code": "x = bytearray(1 << 40)", "session": "s"}));
    assert_eq!(super::code_result(&big).code, 1);
    assert_eq!(
        run(&fixture, "s", "print('x' in globals())").stdout,
        "False\n"
    );
}

#[test]
fn session_limit_evicts_the_least_recently_used() {
    let fixture = CodeFixture::new();
    for name in ["a", "b", "c", "d", "a", "e"] {
        run(&fixture, name, "n = globals().get('n', 0) + 1");
    }
    let counts = ["a", "c", "d", "e"].map(|name| run(&fixture, name, "print(n)").stdout);
    assert_eq!(counts, ["2\n", "1\n", "1\n", "1\n"]);
    assert_eq!(
        run(&fixture, "b", "print('n' in globals())").stdout,
        "False\n"
    );
}

#[test]
fn session_calls_have_their_own_args_and_stdin() {
    let fixture = CodeFixture::new();
    let call = |code: &str, more: Value| {
        let mut wish = json!({"language": "python", "code": code, "session": "s"});
        wish.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        code_result(&fixture.call(wish))
    };
    let one = call(
        "import sys\nprint(sys.argv[1:], sys.stdin.read())",
        json!({"args": ["x"], "stdin": "in"}),
    );
    assert_eq!(one.stdout, "['x'] in\n");
    let two = call("print(sys.argv[1:], repr(sys.stdin.read()))", json!({}));
    assert_eq!(two.stdout, "[] ''\n");
}

/// Records what it observes.
#[derive(Default)]
struct Listener(Arc<Mutex<Vec<String>>>);

impl CallObserver for Listener {
    fn progress(&self, progress: CallProgress) {
        self.0.lock().push(progress.message.unwrap_or_default());
    }

    fn log(&self, line: LogLine) {
        self.0.lock().push(line.text);
    }
}

#[test]
fn session_drops_its_listener_before_the_reply() {
    let fixture = CodeFixture::new();
    for at in ["first", "second"] {
        let code = format!("import mimir\nmimir.logger.info('log {at}')\nprint('line {at}')");
        let wish = json!({"language": "python", "code": code, "session": "s"});
        let listener = Arc::new(Listener::default());
        let (heard, watcher) = (Arc::clone(&listener.0), Arc::downgrade(&listener));
        let outcome = fixture.observed("run", wish, Some(listener));
        assert_eq!(code_result(&outcome).code, 0);
        // Over MCP a response waits until all events of its call are sent, which requires that the observer is
        // dropped.
        assert!(watcher.upgrade().is_none(), "{at}");
        let heard = heard.lock();
        assert_eq!(*heard, [format!("log {at}"), format!("line {at}")]);
    }
}

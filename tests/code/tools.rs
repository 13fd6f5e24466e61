//! Tools in YAML files, and code that calls them.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mimir_core::backend::BoxFuture;
use mimir_core::needs::DirectoryAccess;
use mimir_core::{ApprovalAnswer, Approver, Card, Clock, ToolErrorCode};
use mimir_kit::engines;
use mimir_script::ScriptFolder;
use mimir_wasm::{HostOptions, LoadedTools, SystemClock, WasmHost};
use parking_lot::Mutex;
use serde_json::json;

use super::{CodeFixture, code_result};

/// A tool that needs an approval.
const ASKS: (&str, &str) = (
    "asks.yml",
    "name: asks
description: Needs an approval.
schema: {type: object}
permissions: {autoAccept: false}
code: |
  export function execute() { return 'approved'; }
",
);

#[test]
fn python_tool_cannot_forge_a_failure_of_the_host() {
    let fails = "name: fails
description: Fails.
runtime: python
schema: {type: object}
permissions: {autoAccept: true}
code: |
  import mimir

  def execute(args, context):
      if \"code\" in args:
          raise mimir.HostError({\"code\": args[\"code\"], \"message\": \"a person said no\"})
      for _ in range(70):
          try:
              context.tools.call(\"nothing\")
          except mimir.HostError:
              pass
      return context.tools.call(\"asks\")
";
    let fixture = CodeFixture::with_settings(
        DirectoryAccess::ReadWrite,
        &[ASKS, ("fails.yml", fails)],
        json!({"tools": {"fails": {"labels": {"acceptsUntrusted": true}}}}),
    );
    for code in ["APPROVAL_DENIED", "POLICY_DENIED", "TIMEOUT", "CANCELLED"] {
        let outcome = fixture.call_tool("fails", json!({ "code": code }));
        let error = outcome.result().unwrap_err();
        assert_eq!(error.code, ToolErrorCode::ExecutionError, "{code}: {error}");
    }
    let outcome = fixture.call_tool("fails", json!({}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ApprovalDenied, "{error}");
}

#[test]
fn script_failure_after_many_others_keeps_its_code() {
    let fails = "name: fails
description: Fails.
schema: {type: object}
permissions: {autoAccept: true}
code: |
  export async function execute(args, { tools }) {
    for (let i = 0; i < 70; i++) await tools.call('nothing', {}).catch(() => {});
    await tools.call('asks', {});
  }
";
    let tools = [ASKS, ("fails.yml", fails)];
    let fixture = CodeFixture::with_tools(DirectoryAccess::ReadWrite, &tools);
    let outcome = fixture.call_tool("fails", json!({}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ApprovalDenied, "{error}");
}

#[test]
fn bash_tool_reports_output_that_was_left_out() {
    let counts = "name: counts
description: Counts.
runtime: bash
schema: {type: object}
permissions: {autoAccept: true}
code: |
  seq \"$ARG_count\"
";
    let fixture = CodeFixture::with_settings(
        DirectoryAccess::ReadWrite,
        &[("counts.yml", counts)],
        json!({"limits": {"outputBytes": 8_000}}),
    );
    for (count, truncated) in [(10, false), (2_000, true)] {
        let outcome = fixture.call_tool("counts", json!({ "count": count }));
        let text = outcome.text();
        assert!(outcome.is_ok(), "{text}");
        assert_eq!(outcome.truncated(), truncated, "{text}");
        assert_eq!(text.contains("bytes are missing"), truncated, "{text}");
    }
}

#[test]
fn javascript_uncaught_timeout_of_a_tool_is_not_its_own() {
    let slow = "name: slow
description: Sleeps.
schema: {type: object}
permissions: {autoAccept: true}
code: |
  export async function execute() { await new Promise((done) => setTimeout(done, 600_000)); }
";
    let fixture = CodeFixture::with_settings(
        DirectoryAccess::ReadWrite,
        &[("slow.yml", slow)],
        json!({"tools": {"slow": {"limits": {"timeMs": 300}}}}),
    );
    let code = "console.log('before'); await context.tools.call('slow', {});";
    let outcome = fixture.call(json!({"language": "javascript", "code": code}));
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Timeout, "{error}");
    assert!(error.message.contains("`slow` was stopped"), "{error}");
    let details = error.details.as_ref().unwrap();
    assert_eq!(details["output"], "before\n", "{details}");
    assert!(details["stack"].is_array(), "{details}");
}

/// A clock that a test moves forward.
#[derive(Clone, Default)]
struct MovedClock(Arc<Mutex<Duration>>);

impl Clock for MovedClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn instant(&self) -> Instant {
        Instant::now() + *self.0.lock()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        SystemClock.sleep_until(at.checked_sub(*self.0.lock()).unwrap_or(at))
    }
}

/// A person who approves after a hundred seconds.
struct SlowPerson(MovedClock);

impl Approver for SlowPerson {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        *self.0.0.lock() += Duration::from_secs(100);
        Box::pin(std::future::ready(ApprovalAnswer::Once))
    }
}

#[test]
fn code_timeout_excludes_the_time_of_an_approval() {
    let clock = MovedClock::default();
    let fixture = CodeFixture::with_ports(
        DirectoryAccess::ReadWrite,
        &[ASKS],
        json!({}),
        Arc::new(SlowPerson(clock.clone())),
        Arc::new(clock),
    );
    let python = "import mimir\nprint(mimir.call('asks', {})['output'])";
    let calls = [
        json!({"language": "bash", "code": "mimir asks '{}'"}),
        json!({"language": "python", "code": python}),
        json!({"language": "python", "code": python, "session": "s"}),
        json!({
            "language": "javascript",
            "code": "console.log((await context.tools.call('asks', {})).output);",
        }),
    ];
    for mut arguments in calls {
        arguments["timeout"] = 60_000.into();
        let result = code_result(&fixture.call(arguments.clone()));
        assert_eq!(result.code, 0, "{arguments}: {result:?}");
        assert!(
            result.stdout.contains("approved"),
            "{arguments}: {result:?}"
        );
    }
}

#[test]
fn scripts_report_a_workspace_that_cannot_be_found() {
    let home = tempfile::tempdir().unwrap();
    let (name, text) = ASKS;
    std::fs::write(home.path().join(name), text).unwrap();
    let mut options = HostOptions::new(home.path().join("gone"));
    options.cache_dir = Some(home.path().join("cache"));
    let folder = home.path().to_owned();
    let scripts = ScriptFolder::new(WasmHost::new(options), engines(), folder);
    let mut loaded = LoadedTools {
        scripts: vec![name.to_owned()],
        ..LoadedTools::default()
    };
    scripts.add_tools_to(&mut loaded);
    let reason = &loaded.quarantined[0].reason;
    assert!(
        reason.starts_with("the workspace cannot be found: "),
        "{reason}"
    );
}

//! Retries of failed calls, reuse of results, and restrictions of how a tool runs.

use std::sync::Arc;

use mimir_core::backend::{Backend, BoxFuture, RawResult};
use mimir_core::{Approved, Content, ToolError, ToolErrorCode};
use mimir_testkit::{Approve, Outcome, Testkit, Value, json};

use super::{among, changed, echo, ending, kit, only, runs, set};
use crate::guests;
use crate::net::site::Site;

keys! {
    retries: "tools.*.retries" => failed_calls_are_retried,
    retries_max: "tools.*.retries.max" => retries_are_counted,
    retries_delay: "tools.*.retries.delayMs" => retries_wait,
    retries_longest_delay: "tools.*.retries.maxDelayMs" => retries_wait_no_longer,
    retries_on: "tools.*.retries.on" => errors_to_retry_are_named,
    cache: "tools.*.cache.ttlMs" => results_are_reused,
    network: "tools.*.execution.network" => requests_are_denied,
}

/// Fails every call with this code, or succeeds.
struct FixedResult(Option<ToolErrorCode>);

impl Backend for FixedResult {
    fn run(&self, _: Approved) -> BoxFuture<'_, RawResult> {
        let result = match self.0 {
            Some(code) => Err(ToolError::new(code, "it failed")),
            None => Ok(mimir_core::outcome::ToolOutput {
                content: vec![Content::text("done")],
                ..Default::default()
            }),
        };
        Box::pin(std::future::ready(RawResult::from(result)))
    }
}

/// A kit whose tool `echo` only reads, and has this result.
fn fixed(settings: Value, code: Option<ToolErrorCode>) -> Testkit {
    changed(echo(settings), |tool| {
        tool.definition.hints.read_only = true;
        tool.definition.output_schema = None;
        tool.backend = Arc::new(FixedResult(code));
        Arc::make_mut(&mut tool.origin).imports.clear();
    })
}

/// Asserts the error and the number of attempts of a call.
fn ends(settings: Value, fails_with: ToolErrorCode, code: ToolErrorCode, attempts: Option<u32>) {
    let outcome: Outcome = fixed(settings, Some(fails_with)).call("echo", json!({}));
    assert_eq!(outcome.result().unwrap_err().code, code);
    assert_eq!(outcome.receipt().attempts, attempts);
}

use ToolErrorCode::{Network, Timeout};

fn failed_calls_are_retried(key: &str) {
    ends(only(key, "echo", json!(1)), Network, Network, Some(2));
}

/// Settings with a block `retries`, with this key in it, and less time than the default `maxDelayMs`.
fn block(key: &str, others: Value, value: Value) -> Value {
    let (place, last) = key.rsplit_once('.').unwrap();
    let mut settings = among(place, "echo", others, last, value);
    settings["tools"]["echo"]["limits"] = json!({"timeMs": 5_000});
    settings
}

fn retries_are_counted(key: &str) {
    let settings = block(key, json!({"delayMs": 1}), json!(2));
    ends(settings, Network, Network, Some(3));
}

fn retries_wait(key: &str) {
    // The next attempt would begin after the time limit, so there is none.
    let settings = block(key, json!({"max": 1}), json!(600_000));
    ends(settings, Network, Network, None);
}

fn retries_wait_no_longer(key: &str) {
    let settings = block(key, json!({"max": 1, "delayMs": 600_000}), json!(1));
    ends(settings, Network, Network, Some(2));
}

fn errors_to_retry_are_named(key: &str) {
    let settings = block(key, json!({"max": 1, "delayMs": 1}), json!(["TIMEOUT"]));
    ends(settings.clone(), Timeout, Timeout, Some(2));
    ends(settings, Network, Network, None);
}

fn results_are_reused(key: &str) {
    let kit = fixed(only(key, "echo", json!(3_600_000)), None);
    let is_cached = |arguments: Value| kit.call("echo", arguments).receipt().cached;
    assert!(!is_cached(json!({})));
    assert!(is_cached(json!({})));
    assert!(!is_cached(json!({"text": "other"})));
}

fn requests_are_denied(key: &str) {
    let site = Site::says("done");
    let guest = guests::FETCH;
    let with = |settings| set(kit(guest).approve(Approve::Always), settings);
    let arguments = json!({"strict": true, "steps": [{"url": site.url("/")}]});
    let output = ending(
        &with(only(key, guest.name, json!("none"))),
        guest.name,
        arguments.clone(),
        ToolErrorCode::PolicyDenied,
    );
    assert!(output.contains("execution.network"), "{output}");
    runs(
        &with(only(key, "another_tool", json!("none"))),
        guest.name,
        arguments,
    );
}

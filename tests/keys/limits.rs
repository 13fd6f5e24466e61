//! Limits of calls, for all tools and for one.

use std::time::Duration;

use mimir_core::ToolErrorCode;
use mimir_kit::Guest;
use mimir_testkit::{Approve, Testkit, Value, json};

use super::{ending, kit, only, runs, set};
use crate::guests;
use crate::net::site::{Site, reply};

keys! {
    time: "limits.timeMs" => time_is_bounded,
    time_of_a_tool: "tools.*.limits.timeMs" => time_is_bounded,
    longest_time: "tools.maxExecutionTime" => time_is_bounded,
    execution_time: "tools.*.execution.timeout" => time_is_bounded,
    fuel: "limits.fuel" => fuel_is_bounded,
    fuel_of_a_tool: "tools.*.limits.fuel" => fuel_is_bounded,
    memory: "limits.memoryMb" => memory_is_bounded,
    memory_of_a_tool: "tools.*.limits.memoryMb" => memory_is_bounded,
    tables: "limits.tableElements" => tables_are_bounded,
    tables_of_a_tool: "tools.*.limits.tableElements" => tables_are_bounded,
    instances: "limits.instances" => instances_are_bounded,
    instances_of_a_tool: "tools.*.limits.instances" => instances_are_bounded,
    output: "limits.outputBytes" => output_is_bounded,
    output_of_a_tool: "tools.*.limits.outputBytes" => output_is_bounded,
    text: "limits.outputChars" => text_is_cut,
    text_of_a_tool: "tools.*.limits.outputChars" => text_is_cut,
    log_lines: "limits.logLines" => log_lines_are_counted,
    log_lines_of_a_tool: "tools.*.limits.logLines" => log_lines_are_counted,
    long_lines: "limits.logLineBytes" => log_lines_are_cut,
    long_lines_of_a_tool: "tools.*.limits.logLineBytes" => log_lines_are_cut,
    open_files: "limits.openFiles" => open_files_are_counted,
    open_files_of_a_tool: "tools.*.limits.openFiles" => open_files_are_counted,
    new_file_bytes: "limits.newFileBytes" => bytes_of_new_files_are_bounded,
    new_file_bytes_of_a_tool: "tools.*.limits.newFileBytes" => bytes_of_new_files_are_bounded,
    new_files: "limits.newFiles" => new_files_are_counted,
    new_files_of_a_tool: "tools.*.limits.newFiles" => new_files_are_counted,
    http_time: "limits.httpTimeMs" => requests_end_in_time,
    http_time_of_a_tool: "tools.*.limits.httpTimeMs" => requests_end_in_time,
    http_body: "limits.httpBodyBytes" => bodies_are_bounded,
    http_body_of_a_tool: "tools.*.limits.httpBodyBytes" => bodies_are_bounded,
    at_a_time: "limits.concurrent" => calls_at_a_time_are_counted,
    at_a_time_of_a_tool: "tools.*.limits.concurrent" => calls_at_a_time_are_counted,
    per_minute: "limits.callsPerMinute" => calls_per_minute_are_counted,
    per_minute_of_a_tool: "tools.*.limits.callsPerMinute" => calls_per_minute_are_counted,
}

/// Time after which a call counts as running on: far below the default wall clock limit.
const WATCHED: Duration = Duration::from_millis(500);

/// Time within which a call that does not run on has ended, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns true if a call is still running after some time. It is then cancelled.
fn goes_on(kit: &Testkit, tool: &str, arguments: Value, time: Duration) -> bool {
    let call = kit.start(tool, arguments);
    kit.block_on(async { tokio::time::timeout(time, call).await.is_err() })
}

/// A kit with the limit, and one without. A limit of another tool has no effect.
fn bound_and_free(key: &str, guest: Guest, bound: u64) -> (Testkit, Testkit) {
    let with = |settings| set(kit(guest).approve(Approve::Always), settings);
    let others = match key.contains('*') {
        true => only(key, "another_tool", json!(bound)),
        false => json!({}),
    };
    (with(only(key, guest.name, json!(bound))), with(others))
}

fn time_is_bounded(key: &str) {
    let guest = guests::SLEEP_AN_HOUR;
    let (bound, free) = bound_and_free(key, guest, 100);
    assert!(!goes_on(&bound, guest.name, json!({}), PATIENCE));
    let output = ending(&bound, guest.name, json!({}), ToolErrorCode::Timeout);
    assert!(output.contains("100 ms"), "{output}");
    assert!(goes_on(&free, guest.name, json!({}), WATCHED));
}

/// Asserts that a guest which succeeds by default is stopped, with a message that names the limit.
fn stopped(key: &str, bound: u64, arguments: &Value) {
    let guest = guests::ECHO;
    let (bound, free) = bound_and_free(key, guest, bound);
    let output = ending(
        &bound,
        guest.name,
        arguments.clone(),
        ToolErrorCode::LimitExceeded,
    );
    let last = key.rsplit('.').next().unwrap();
    assert!(output.contains(&format!("limits.{last}")), "{output}");
    runs(&free, guest.name, arguments.clone());
}

fn fuel_is_bounded(key: &str) {
    stopped(key, 1_000, &json!({}));
}

fn memory_is_bounded(key: &str) {
    stopped(key, 1, &json!({}));
}

fn instances_are_bounded(key: &str) {
    stopped(key, 1, &json!({}));
}

fn output_is_bounded(key: &str) {
    stopped(key, 1_000, &json!({"text": "x".repeat(2_000)}));
}

fn tables_are_bounded(key: &str) {
    let guest = guests::GROWN_TABLE;
    let grown = |kit: &Testkit| {
        let outcome = runs(kit, guest.name, json!({}));
        let output = outcome.result().unwrap();
        output.structured.as_ref().unwrap()["result"]
            .as_u64()
            .unwrap()
    };
    let (bound, free) = bound_and_free(key, guest, 5_000);
    assert!((4_000..=5_000).contains(&grown(&bound)));
    assert!(grown(&free) > 5_000);
}

fn text_is_cut(key: &str) {
    let guest = guests::ECHO;
    let (bound, free) = bound_and_free(key, guest, 100);
    let call = |kit| runs(kit, guest.name, json!({"text": "x".repeat(1_000)}));
    let cut = call(&bound);
    assert!(
        cut.truncated() && cut.text().contains("[cut"),
        "{}",
        cut.text()
    );
    let whole = call(&free);
    assert!(!whole.truncated() && whole.text().len() > 1_000);
}

/// The log lines of the guest that logs `log…line…`.
fn logged(kit: &Testkit) -> Vec<String> {
    runs(kit, guests::DISGUISED_TEXT.name, json!({}));
    kit.log().into_iter().map(|line| line.text).collect()
}

fn log_lines_are_counted(key: &str) {
    let (bound, free) = bound_and_free(key, guests::DISGUISED_TEXT, 0);
    let output = logged(&bound);
    assert!(
        output.iter().all(|line| !line.starts_with("log")) && output.len() <= 1,
        "{output:?}"
    );
    assert!(logged(&free)[0].starts_with("log"));
}

fn log_lines_are_cut(key: &str) {
    let (bound, free) = bound_and_free(key, guests::DISGUISED_TEXT, 3);
    let output = logged(&bound);
    assert!(
        output[0].starts_with("log") && !output[0].contains("line"),
        "{output:?}"
    );
    assert!(logged(&free)[0].contains("line"));
}

fn open_files_are_counted(key: &str) {
    let guest = guests::OPEN_MANY;
    let open = |kit: Testkit| {
        let kit = kit.workspace(|root| std::fs::write(root.join("file.txt"), "x").unwrap());
        let text = runs(&kit, guest.name, json!({})).text();
        let (open, _) = text.split_once(" open").unwrap();
        open.parse::<u64>().unwrap()
    };
    let (bound, free) = bound_and_free(key, guest, 5);
    let (bound, free) = (open(bound), open(free));
    assert!((1..=5).contains(&bound) && free > 5, "{bound}, {free}");
}

/// The results of the file guest's steps: `ok`, or an error.
fn file_steps(kit: Testkit, steps: &Value) -> Vec<Value> {
    let guest = guests::FILE_PROBE;
    let outcome = runs(&kit, guest.name, json!({ "steps": steps }));
    let output = outcome.result().unwrap();
    let results = &output.structured.as_ref().unwrap()["results"];
    results.as_array().unwrap().clone()
}

fn bytes_of_new_files_are_bounded(key: &str) {
    let steps = json!([["write", "a.txt", "1234"], ["write", "b.txt", "123456789"]]);
    let (bound, free) = bound_and_free(key, guests::FILE_PROBE, 10);
    let (bound, free) = (file_steps(bound, &steps), file_steps(free, &steps));
    assert_eq!(bound, [json!("ok"), json!({"error": "quota"})]);
    assert_eq!(free, [json!("ok"), json!("ok")]);
}

fn new_files_are_counted(key: &str) {
    let steps = json!([
        ["write", "a.txt", ""],
        ["mkdir", "b"],
        ["write", "a.txt", "x"],
        ["mkdir", "c"]
    ]);
    let (bound, free) = bound_and_free(key, guests::FILE_PROBE, 2);
    let (bound, free) = (file_steps(bound, &steps), file_steps(free, &steps));
    let ok = || json!("ok");
    assert_eq!(bound, [ok(), ok(), ok(), json!({"error": "quota"})]);
    assert_eq!(free, [ok(), ok(), ok(), ok()]);
}

/// Asserts that a request to this site succeeds without the limit, and fails with this code under it.
fn fetches(key: &str, site: &Site, bound: u64, code: ToolErrorCode) {
    let guest = guests::FETCH;
    let (bound, free) = bound_and_free(key, guest, bound);
    let arguments = json!({"strict": true, "steps": [{"url": site.url("/")}]});
    ending(&bound, guest.name, arguments.clone(), code);
    runs(&free, guest.name, arguments);
}

fn requests_end_in_time(key: &str) {
    let slow = Site::new(|_, stream| {
        std::thread::sleep(WATCHED);
        reply(stream, "200 OK", "", "late");
    });
    fetches(key, &slow, 100, ToolErrorCode::Timeout);
}

fn bodies_are_bounded(key: &str) {
    fetches(
        key,
        &Site::says("twelve bytes"),
        11,
        ToolErrorCode::LimitExceeded,
    );
}

fn calls_at_a_time_are_counted(key: &str) {
    let guest = guests::INFINITE_LOOP;
    let (bound, free) = bound_and_free(key, guest, 1);
    let second_waits = |kit: &Testkit, time: Duration| {
        let first = kit.start(guest.name, json!({}));
        let second = kit.start(guest.name, json!({"how": "quick"}));
        kit.block_on(async {
            tokio::select! {
                biased;
                first = first => panic!("it ended: {}", first.text()),
                second = tokio::time::timeout(time, second) => second.is_err(),
            }
        })
    };
    assert!(second_waits(&bound, WATCHED));
    assert!(!second_waits(&free, PATIENCE));
}

fn calls_per_minute_are_counted(key: &str) {
    let (bound, free) = bound_and_free(key, guests::ECHO, 1);
    for kit in [&bound, &free, &free] {
        runs(kit, "echo", json!({}));
    }
    let output = ending(&bound, "echo", json!({}), ToolErrorCode::LimitExceeded);
    assert!(output.contains("limits.callsPerMinute"), "{output}");
}

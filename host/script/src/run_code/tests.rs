//! Tests of the schemas and the results of `run_code`.

use std::time::Duration;

use mimir_core::command::CommandOutput;
use serde_json::json;

use super::*;

mod backend_selection;

fn captured_output(text: &str) -> mimir_core::command::CapturedOutput {
    mimir_core::command::CapturedOutput {
        bytes: text.into(),
        omitted_bytes: 0,
    }
}

fn command_output(exit_code: i32, stdout: &str, stderr: &str) -> CommandOutput {
    CommandOutput {
        exit_code,
        stdout: captured_output(stdout),
        stderr: captured_output(stderr),
        combined: captured_output(&format!("{stdout}{stderr}")),
        duration: Duration::from_millis(7),
        changed_auto_run_files: Vec::new(),
    }
}

#[test]
fn schema_accepts_valid_input_only() {
    let tool = run_code(Vec::new()).unwrap();
    let schema = &tool.definition.input_schema;
    let check = |value: Value| schema.validate("the arguments", &value);
    check(json!({"language": "python", "code": "print(1)"})).unwrap();
    check(json!({
        "language": "bash", "code": "x", "args": ["a"], "env": {"A": "b"}, "stdin": "s",
        "timeout": 5, "workdir": "src", "backend": "container",
    }))
    .unwrap();
    for bad in [
        json!({"language": "perl", "code": "x"}),
        json!({"language": "python", "code": "x", "timeout": 0}),
        json!({"language": "python", "code": "x", "more": 1}),
        json!({"language": "python", "code": "x", "backend": "vm"}),
        json!({"code": "x"}),
    ] {
        assert!(check(bad.clone()).is_err(), "{bad}");
    }
    assert!(!schema.as_str().contains("$defs"), "{}", schema.as_str());
    assert_eq!(tool.origin.digest.len(), 64);
}

#[test]
fn report_matches_its_schema_and_shows_failures() {
    let tool = run_code(Vec::new()).unwrap();
    let schema = tool.definition.output_schema.unwrap();
    let good = RunReport::new(
        &command_output(0, "\x1b[1mone\x1b[0m\n", ""),
        "wasm",
        String::new(),
    );
    let good = good.into_output().unwrap();
    let value = good.output.structured.unwrap();
    schema.validate("the result", &value).unwrap();
    assert_eq!(
        (&value["stdout"], &value["backend"]),
        (&json!("one\n"), &json!("wasm"))
    );
    assert_eq!(good.output.content, [mimir_core::Content::text("one\n")]);
    assert_eq!(value.get("note"), None);

    let bad = RunReport::new(
        &command_output(3, "one", "two"),
        "process",
        "because".to_owned(),
    );
    let bad = bad.into_output().unwrap();
    let text = mimir_core::Content::text("onetwo\nexit code 3\n(because)");
    assert_eq!(
        (bad.output.content, bad.output.exit_code),
        (vec![text], Some(3))
    );
    schema
        .validate("the result", &bad.output.structured.unwrap())
        .unwrap();
}

#[test]
fn report_leaves_out_the_middle_of_long_output() {
    let long = format!("first\n{}last\n", "line\n".repeat(100_000));
    let cut = RunReport::new(&command_output(0, &long, ""), "wasm", String::new())
        .into_output()
        .unwrap();
    assert!(cut.truncated);
    let value = cut.output.structured.unwrap();
    let stdout = value["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("first\n") && stdout.ends_with("last\n"));
    assert!(stdout.len() < 31_000);
}

#[test]
fn request_rejects_nul_and_bad_variable_names() {
    let request = |more: Value| {
        let mut arguments = json!({"language": "python", "code": "x"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        check_snippet(&RunCodeArgs::parse(&arguments).unwrap().into_snippet())
    };
    request(json!({"env": {"A": "b=c"}, "args": ["", "a=b"]})).unwrap();
    for more in [
        json!({"env": {"A=B": "c"}}),
        json!({"env": {"": "c"}}),
        json!({"env": {"A\0": "c"}}),
        json!({"env": {"A": "c\0"}}),
        json!({"args": ["a\0b"]}),
    ] {
        let error = request(more.clone()).unwrap_err();
        assert_eq!(error.code, ToolErrorCode::InvalidInput, "{more}");
    }
}

//! Tests of the file format and of the comparison.

use mimir_core::Content;
use mimir_core::outcome::ToolOutput;
use serde_json::json;

use super::*;

fn case(yaml: &str) -> PluginCase {
    let text = format!("- name: one\n  call: greet\n{yaml}");
    let mut cases = parse_cases(&text).unwrap();
    assert_eq!(cases.len(), 1, "{yaml}");
    cases.remove(0)
}

fn message(yaml: &str) -> String {
    parse_cases(yaml).unwrap_err().message
}

fn output(text: &str, structured: Option<Value>) -> ToolOutput {
    ToolOutput {
        content: vec![Content::text(text)],
        structured,
        exit_code: None,
    }
}

/// The shown difference between an expectation and a successful call; empty without one.
fn shown_mismatch(yaml: &str, output: &ToolOutput) -> String {
    case(yaml)
        .mismatch(Ok(output))
        .map_or_else(String::new, |mismatch| mismatch.to_string())
}

#[test]
fn cases_have_defaults_for_most_keys() {
    let all = parse_cases(
        "# A comment\n- name: greets\n  call: greet\n- name: refuses\n  call: greet\n  arguments: {name: 3}\n  \
         error: INVALID_INPUT\n  contains: [a, b]\n  files: {a/b.txt: text}\n  approve: false\n  secrets: {TOKEN: x}\n",
    );
    let [greets, refuses] = &all.unwrap()[..] else {
        panic!("expected two cases");
    };
    assert_eq!(
        (greets.name.as_str(), greets.call.as_str()),
        ("greets", "greet")
    );
    assert!(greets.approve && greets.arguments.is_empty() && greets.files.is_empty());
    assert_eq!(refuses.arguments["name"], 3);
    assert_eq!(refuses.error, Some(ToolErrorCode::InvalidInput));
    assert_eq!(refuses.contains.as_slice(), ["a", "b"]);
    assert_eq!(refuses.files["a/b.txt"], "text");
    assert_eq!(refuses.secrets["TOKEN"], "x");
    assert!(!refuses.approve);
    for empty in ["", "# nothing\n", "[]"] {
        assert_eq!(parse_cases(empty).unwrap(), [], "{empty}");
    }
}

#[test]
fn cases_errors_name_line_and_key() {
    for (yaml, expected) in [
        ("- name: a\n  call: b\n  argument: {}\n", "cases.yml:3:3: "),
        (
            "- name: a\n  call: b\n  argument: {}\n",
            "unknown key `argument`. Did you mean `arguments`?",
        ),
        ("- name: a\n  call: b\n- name: c\n", "missing field `call`"),
        (
            "- name: a\n  call: b\n- name: c\n",
            "cases.yml:3:3: missing field",
        ),
        (
            "- name: a\n  call: b\n  error: INVALID_INPUTS\n",
            "cases.yml:3:10: error: unknown value `INVALID_INPUTS`. Did you mean `INVALID_INPUT`",
        ),
        (
            "- name: a\n  call: b\n  approve: perhaps\n",
            "`approve` must be true or false",
        ),
        (
            "- name: a\n  call: b\n  contains: 3\n",
            "`contains` must be a text or a list of texts",
        ),
        (
            "- name: a\n  call: b\n  arguments: [1]\n",
            "cases.yml:3:14: ",
        ),
        ("name: a\n", "must be a list"),
        ("- name: a\n\tcall: b\n", "tab character"),
        ("- name: a\n  name: b\n", "duplicate"),
    ] {
        let message = message(yaml);
        assert!(message.starts_with("cases.yml:"), "{yaml}: {message}");
        assert!(message.contains(expected), "{yaml}: {message}");
    }
}

#[test]
fn cases_that_contradict_themselves_are_refused_with_their_line() {
    let second = |keys: &str| {
        message(&format!(
            "---\n# First\n- name: a\n  call: b\n  text: |\n    - not an item\n\n- name: c\n  call: b\n  {keys}\n"
        ))
    };
    for (keys, expected) in [
        (
            "error: TIMEOUT\n  text: x",
            "cases.yml:8: `error` cannot be combined",
        ),
        (
            "error: TIMEOUT\n  structured: {}",
            "cases.yml:8: `error` cannot be combined",
        ),
        (
            "files: {../a: x}",
            "cases.yml:8: `files`: `../a` is not a path in the workspace",
        ),
    ] {
        let message = second(keys);
        assert!(message.starts_with(expected), "{message}");
    }
    let twice = message("- name: a\n  call: b\n- call: b\n  name: a\n");
    assert!(
        twice.starts_with("cases.yml:3: two cases are named `a`"),
        "{twice}"
    );
    let in_brackets = message("[{name: a, call: b}, {name: ' ', call: b}]");
    assert!(
        in_brackets.starts_with("cases.yml: case 2: `name` is empty"),
        "{in_brackets}"
    );
}

#[test]
fn cases_files_are_paths_in_the_workspace() {
    for path in ["a", "a/b.txt", ".env", "a/.hidden/b", "ä b"] {
        assert!(is_workspace_path(path), "{path}");
    }
    for path in [
        "",
        "/etc/passwd",
        "..",
        "a/../../b",
        "./a",
        "a/",
        "C:\\x",
        "a\\..\\b",
        ".mimir/config.yml",
        "a/.MIMIR/x",
        "a\nb",
    ] {
        assert!(!is_workspace_path(path), "{path}");
    }
}

#[test]
fn cases_file_is_optional_and_limited() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read_cases(dir.path()).unwrap(), []);
    let path = dir.path().join(CASES_FILE);
    std::fs::write(&path, "- name: a\n  call: b\n").unwrap();
    assert_eq!(read_cases(dir.path()).unwrap().len(), 1);
    let many: String = (0..=MAX_CASES)
        .map(|n| format!("- {{name: a{n}, call: b}}\n"))
        .collect();
    std::fs::write(&path, many).unwrap();
    let error = read_cases(dir.path()).unwrap_err();
    assert!(
        error
            .message
            .contains("has 1001 cases: expected at most 1000"),
        "{error}"
    );
    std::fs::write(&path, "x".repeat(MAX_FILE_SIZE as usize + 1)).unwrap();
    assert!(read_cases(dir.path()).is_err());
    std::fs::write(&path, "- ".repeat(100_000)).unwrap();
    let error = read_cases(dir.path()).unwrap_err();
    assert!(error.message.contains("nested too deep"), "{error}");
}

#[test]
fn case_text_is_compared_without_breaks_at_its_end() {
    assert_eq!(
        shown_mismatch("  text: |\n    one\n    two\n", &output("one\ntwo", None)),
        ""
    );
    assert_eq!(
        shown_mismatch(
            "  text: |\n    one\n    two\n    three\n",
            &output("one\n2\nthree\n", None)
        ),
        "the text differs:\n--- expected\n+++ actual\n one\n-two\n+2\n three"
    );
    assert_eq!(
        shown_mismatch("  text: a\n", &output("a ", None)),
        "the text differs:\n--- expected\n+++ actual\n-a\n+a"
    );
}

#[test]
fn case_diff_shows_invisible_characters_and_is_short() {
    let shown = shown_mismatch("  text: red\n", &output("\u{1b}[31mred\u{200b}\rx", None));
    assert!(
        shown.ends_with("-red\n+\\u{1b}[31mred\\u{200b}\\rx"),
        "{shown}"
    );
    let long = "line\n".repeat(10_000);
    let shown = shown_mismatch("  text: x\n", &output(&long, None));
    assert!(
        shown.len() < MAX_FILE_SIZE as usize / 100,
        "{}",
        shown.len()
    );
    assert!(shown.ends_with(" more)"), "{shown}");
    // Far apart: the lines between are left out.
    let expected: String = (0..50).map(|n| format!("    {n}\n")).collect();
    let actual: String = (0..50)
        .map(|n| {
            if n % 40 == 0 {
                "x\n".to_owned()
            } else {
                format!("{n}\n")
            }
        })
        .collect();
    let shown = shown_mismatch(&format!("  text: |\n{expected}"), &output(&actual, None));
    assert!(shown.contains("-0\n+x\n 1\n 2\n 3\n…\n 37\n"), "{shown}");
    assert!(!shown.contains(" 20\n"), "{shown}");
}

#[test]
fn case_parts_are_looked_for_in_the_text() {
    let greeting = output("Hello, Ada!", None);
    assert_eq!(shown_mismatch("  contains: Ada\n", &greeting), "");
    assert_eq!(shown_mismatch("  contains: [Hello, Ada]\n", &greeting), "");
    assert_eq!(
        shown_mismatch("  contains: [Hello, Bob]\n", &greeting),
        "the text does not contain\nBob\nit is\nHello, Ada!"
    );
}

#[test]
fn case_structured_result_is_compared_by_value() {
    let yaml = "  structured: {words: 2, mean: 1, list: [a, {b: 1.5}]}\n";
    let same = json!({"list": ["a", {"b": 1.5}], "mean": 1.0, "words": 2});
    assert_eq!(shown_mismatch(yaml, &output("", Some(same))), "");
    let other = json!({"words": 3, "mean": 1, "list": ["a", {"b": 1.5}]});
    let shown = shown_mismatch(yaml, &output("", Some(other)));
    assert!(
        shown.starts_with("the structured result differs:\n"),
        "{shown}"
    );
    assert!(
        shown.ends_with("-  \"words\": 2\n+  \"words\": 3\n }"),
        "{shown}"
    );
    for other in [
        json!({}),
        json!({"words": 2, "mean": 1, "list": ["a"]}),
        json!([]),
    ] {
        assert_ne!(shown_mismatch(yaml, &output("", Some(other))), "");
    }
    assert_eq!(
        shown_mismatch(yaml, &output("two words", None)),
        "expected a structured result, found only the text:\ntwo words"
    );
}

#[test]
fn case_large_integers_are_compared_exactly() {
    let case = case("  structured: 9007199254740993\n");
    let exact = output("", Some(json!(9_007_199_254_740_993_u64)));
    assert_eq!(case.mismatch(Ok(&exact)), None);
    let near = output("", Some(json!(9_007_199_254_740_992_u64)));
    assert!(case.mismatch(Ok(&near)).is_some());
}

#[test]
fn case_error_is_compared_by_code_and_parts_of_its_message() {
    let refusal = ToolError::invalid_input("name: it is empty");
    let expecting = |yaml: &str| {
        let mismatch = case(yaml).mismatch(Err(&refusal));
        mismatch.map_or_else(String::new, |mismatch| mismatch.to_string())
    };
    assert_eq!(expecting("  error: INVALID_INPUT\n"), "");
    assert_eq!(expecting("  error: INVALID_INPUT\n  contains: empty\n"), "");
    assert_eq!(
        expecting("  error: INVALID_INPUT\n  contains: full\n"),
        "the text does not contain\nfull\nit is\nname: it is empty"
    );
    assert_eq!(
        expecting("  error: TIMEOUT\n"),
        "expected TIMEOUT, but the call failed with INVALID_INPUT name: it is empty"
    );
    assert_eq!(
        expecting("  text: x\n"),
        "the call failed: INVALID_INPUT name: it is empty"
    );
    assert_eq!(
        shown_mismatch("  error: TIMEOUT\n", &output("done", None)),
        "expected TIMEOUT, but the call succeeded with the text\ndone"
    );
}

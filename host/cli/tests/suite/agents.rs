//! `mimir run` and `mimir chat` with a scripted model on a local port.

use crate::kit;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use crate::kit::script::{Script, Step, calls, says};
use crate::kit::{mimir, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace with user settings, in addition to the scripted model.
fn home(script: &Script, api: &str, settings: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let user = kit::config(home.path());
    fs::create_dir_all(&user).unwrap();
    let url = &script.url;
    let block = format!(
        "model: local/m\nproviders:\n  local:\n    api: {api}\n    url: {url}\n    prices: {{m: {{input: 10, output: 100}}}}\n{settings}"
    );
    fs::write(user.join("config.yml"), block).unwrap();
    fs::write(home.path().join("notes.txt"), "the answer is 42\n").unwrap();
    home
}

/// The exit code and the events of a run.
fn events(home: &Path, task: &str, more: &[&str]) -> (i32, Vec<Value>) {
    let mut args = vec!["run", task, "--json"];
    args.extend(more);
    let (code, out, err) = run(home, &args);
    let event = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}\n{err}"));
    (code, out.lines().map(event).collect())
}

fn end(events: &[Value]) -> &Value {
    let last = events.last().unwrap();
    assert_eq!(last["event"], "end");
    last
}

const APIS: [&str; 3] = ["openai", "responses", "anthropic"];

#[test]
fn run_completes_a_task_over_every_provider_api() {
    for api in APIS {
        let steps = vec![
            Step::Says(
                vec!["I ", "look."],
                vec![("read_file", json!({"path": "notes.txt"}).to_string())],
            ),
            says("It is 42."),
        ];
        let script = Script::start(steps);
        let home = home(&script, api, "");
        let (code, events) = events(home.path(), "what is the answer?", &[]);
        assert_eq!(code, 0, "{events:#?}");
        let end = end(&events);
        assert_eq!(
            (&end["ok"], &end["text"], &end["ended"]),
            (&json!(true), &json!("It is 42."), &json!("finished"))
        );
        assert_eq!(end["spent"]["toolCalls"], 1);
        let asked = script.asked();
        let results = asked[1].results();
        assert!(results[0].contains("the answer is 42"), "{results:?}");
        let mut results = events.iter().filter(|event| event["event"] == "result");
        let result = results.next().unwrap();
        assert_eq!(
            (&result["name"], &result["outcome"]["ok"]),
            (&json!("read_file"), &json!(true))
        );
        // All of it is in the audit log.
        let (code, _, err) = run(home.path(), &["audit", "verify"]);
        assert_eq!(code, 0, "{err}");
        let id = end["conversation"].as_str().unwrap();
        assert!(!id.is_empty());
    }
}

#[test]
fn run_prints_only_the_answer_to_a_pipe() {
    let script = Script::start(vec![
        Step::Says(
            vec!["first "],
            vec![("read_file", json!({"path": "notes.txt"}).to_string())],
        ),
        says("\u{1b}[31mIt is 42."),
    ]);
    let home = home(&script, "openai", "");
    let (code, out, err) = run(home.path(), &["run", "what?"]);
    assert_eq!((code, out.as_str()), (0, "It is 42.\n"), "{err}");
    assert!(
        err.contains("read_file") && err.contains("2 answers, 1 call"),
        "{err}"
    );
}

#[test]
fn run_reads_the_task_from_stdin_and_rejects_blanks() {
    let script = Script::start(vec![says("yes")]);
    let home = home(&script, "openai", "");
    let mut command = mimir(home.path(), &["run", "-"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all("from stdin".as_bytes())
        .unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"yes\n");
    assert!(script.asked()[0].body.to_string().contains("from stdin"));
    let (code, _, err) = run(home.path(), &["run", "  "]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn model_comes_from_the_config_or_the_model_option() {
    let script = Script::start(vec![says("hello")]);
    // `model` in the settings selects the model, and --model overrides it.
    let home = home(&script, "openai", "");
    assert_eq!(events(home.path(), "hi", &[]).0, 0);
    assert_eq!(events(home.path(), "hi", &["--model", "local/other"]).0, 0);
    let asked = script.asked();
    assert_eq!(
        (&asked[0].body["model"], &asked[1].body["model"]),
        (&json!("m"), &json!("other"))
    );
    for (model, part) in [
        ("m", "PROVIDER/MODEL"),
        ("locl/m", "`local`"),
        ("ollama/m", "providers.ollama.url"),
    ] {
        let (code, events) = events(home.path(), "hi", &["--model", model]);
        assert_eq!(code, 2);
        let message = end(&events)["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
    }
    // Without any model, the error says what to write.
    fs::write(kit::config(home.path()).join("config.yml"), "").unwrap();
    let (code, _, err) = run(home.path(), &["run", "hi"]);
    assert_eq!(code, 2);
    assert!(err.contains("`model: PROVIDER/MODEL`"), "{err}");
    assert_eq!(script.asked().len(), 2);
}

#[test]
fn provider_api_setting_selects_the_endpoint() {
    for (api, path) in [
        ("openai", "/v1/chat/completions"),
        ("responses", "/v1/responses"),
        ("anthropic", "/v1/messages"),
        ("gemini", "/v1/chat/completions"),
        ("ollama", "/v1/chat/completions"),
    ] {
        // `api` sets the format, and `url` the address; both are in the block that `home` writes.
        let script = Script::start(vec![says("hello")]);
        let home = home(&script, api, "");
        let (code, events) = events(home.path(), "hi", &[]);
        assert_eq!(code, 0, "{api}: {events:#?}");
        assert_eq!(script.asked()[0].path, path);
    }
}

#[test]
fn provider_key_is_sent_and_never_logged_or_stored() {
    const VALUE: &str = "a-key-of-the-tests-8731";
    for api in APIS {
        let refusal = format!(r#"{{"error": {{"message": "not with {VALUE}"}}}}"#);
        let script = Script::start(vec![
            calls("read_file", json!({"path": "notes.txt"})),
            Step::Status(401, vec![], refusal.leak()),
        ]);
        let home = home(
            &script,
            api,
            "    key: LOCAL\nsecrets: {LOCAL: {env: MIMIR_TEST_KEY}}\n",
        );
        let mut command = mimir(home.path(), &["run", "hi", "--json"]);
        let output = command.env("MIMIR_TEST_KEY", VALUE).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(script.asked()[0].head.contains(VALUE));
        for text in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(text).contains(VALUE));
        }
        let mut folders = vec![home.path().join(".mimir")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => assert!(
                        !String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).contains(VALUE)
                    ),
                }
            }
        }
        // Without the key nothing is sent, and the error names the command that stores it.
        let (code, _, err) = run(home.path(), &["run", "hi"]);
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("mimir secrets set LOCAL"), "{err}");
        assert_eq!(script.asked().len(), 2);
    }
}

#[test]
fn agent_cost_is_counted_and_limited() {
    // Each answer takes 100 input and 10 output tokens, which is 0.002 with `prices` of input 10 and output 100.
    let script = Script::start(vec![says("hello")]);
    let one = home(&script, "openai", "");
    let (_, told) = events(one.path(), "hi", &[]);
    assert_eq!(end(&told)["spent"]["cost"], 0.002);
    let forever = Script::start(vec![calls("read_file", json!({"path": "notes.txt"}))]);
    let home = home(
        &forever,
        "openai",
        "agent: {maxCost: 0.12, maxTurns: 1000}\n",
    );
    let (code, told) = events(home.path(), "hi", &[]);
    assert_eq!(code, 4);
    assert!(
        end(&told)["error"]["message"]
            .as_str()
            .unwrap()
            .contains("agent.maxCost")
    );
    assert!(end(&told)["spent"]["cost"].as_f64().unwrap() <= 0.12);
    // A cost limit cannot be applied to a model without a price.
    let (code, told) = events(home.path(), "hi", &["--model", "local/other"]);
    assert_eq!(code, 2);
    assert!(
        end(&told)["error"]["message"]
            .as_str()
            .unwrap()
            .contains("providers.local.prices.other")
    );
}

#[test]
fn agent_instructions_are_sent_in_the_system_prompt() {
    for (settings, told) in [
        ("", false),
        ("agent: {instructions: Answer in verse.}\n", true),
    ] {
        let script = Script::start(vec![says("hello")]);
        let home = home(&script, "openai", settings);
        events(home.path(), "hi", &[]);
        let system = script.asked()[0].body["messages"][0].to_string();
        assert_eq!(system.contains("Answer in verse."), told, "{system}");
        assert!(system.contains("[untrusted"));
    }
}

#[test]
fn agent_limits_end_an_endless_task() {
    for (settings, key, most) in [
        ("agent: {maxTurns: 3}\n", "agent.maxTurns", 3),
        ("agent: {maxToolCalls: 2}\n", "agent.maxToolCalls", 3),
        (
            "agent: {maxTokens: 8000, maxTurns: 1000}\n",
            "agent.maxTokens",
            100,
        ),
        (
            "agent: {maxTimeMs: 300, maxTurns: 100000, maxToolCalls: 100000}\n",
            "agent.maxTimeMs",
            10_000,
        ),
    ] {
        let script = Script::start(vec![calls("read_file", json!({"path": "notes.txt"}))]);
        let home = home(&script, "anthropic", settings);
        let (code, events) = events(home.path(), "go on", &[]);
        assert_eq!(code, 4, "{key}: {:#?}", end(&events));
        let message = end(&events)["error"]["message"].as_str().unwrap();
        assert!(message.contains(key), "{message}");
        assert!(script.asked().len() <= most, "{key}");
    }
}

#[test]
fn agent_token_limits_cap_answers_and_context() {
    let steps = || {
        vec![
            calls("read_file", json!({"path": "long.txt"})),
            calls("read_file", json!({"path": "notes.txt"})),
            says("so"),
        ]
    };
    let script = Script::start(steps());
    let plain = home(&script, "openai", "agent: {maxAnswerTokens: 77}\n");
    let long = "a line of a long file\n".repeat(2_000);
    fs::write(plain.path().join("long.txt"), &long).unwrap();
    assert_eq!(events(plain.path(), "hi", &[]).0, 0);
    assert_eq!(script.asked()[0].body["max_tokens"], 77);
    assert!(script.asked()[2].results()[0].contains("a line of a long file"));

    let script = Script::start(steps());
    let home = home(&script, "openai", "agent: {contextTokens: 14000}\n");
    fs::write(home.path().join("long.txt"), &long).unwrap();
    let (code, told) = events(home.path(), "hi", &[]);
    assert_eq!(code, 0, "{told:#?}");
    let asked = script.asked();
    assert!(asked[1].results()[0].len() < long.len());
    assert!(
        told.iter().any(|event| event["event"] == "leftOut")
            || asked[1].results()[0].contains("[cut: ")
    );
}

#[test]
fn provider_rate_limit_is_retried_as_configured() {
    for (settings, times) in [("agent: {retries: 0}\n", 1), ("agent: {retries: 2}\n", 3)] {
        let script = Script::start(vec![Step::Status(
            429,
            vec![("retry-after", "0")],
            r#"{"error": {"message": "slow down"}}"#,
        )]);
        let home = home(&script, "responses", settings);
        let (code, events) = events(home.path(), "hi", &[]);
        assert_eq!(code, 4);
        assert!(
            end(&events)["error"]["message"]
                .as_str()
                .unwrap()
                .contains("slow down")
        );
        assert_eq!(script.asked().len(), times);
    }
}

#[test]
fn run_denies_approval_without_a_terminal_and_continues() {
    for api in APIS {
        let steps = vec![
            calls("delete_file", json!({"path": "notes.txt"})),
            says("then not"),
        ];
        let script = Script::start(steps);
        let home = home(&script, api, "");
        let (code, events) = events(home.path(), "tidy up", &[]);
        assert_eq!(code, 0);
        assert_eq!(end(&events)["text"], "then not");
        assert!(script.asked()[1].results()[0].starts_with("APPROVAL_DENIED"));
        assert!(home.path().join("notes.txt").exists());
        let script = Script::start(vec![
            calls("delete_file", json!({"path": "notes.txt"})),
            says("gone"),
        ]);
        fs::write(
            kit::config(home.path()).join("config.yml"),
            format!(
                "model: local/m\nproviders: {{local: {{api: {api}, url: \"{}\"}}}}\n",
                script.url
            ),
        )
        .unwrap();
        let (code, _) = self::events(home.path(), "tidy up", &["--approve", "always"]);
        assert_eq!(code, 0);
        assert!(!home.path().join("notes.txt").exists());
    }
}

#[test]
fn provider_of_a_project_is_unused_until_accepted() {
    let script = Script::start(vec![says("mine now")]);
    let home = tempfile::tempdir().unwrap();
    assert_eq!(run(home.path(), &["init"]).0, 0);
    let settings = format!(
        "model: local/m\nproviders: {{local: {{api: openai, url: \"{}\"}}}}\n",
        script.url
    );
    fs::write(home.path().join(".mimir/config.yml"), settings).unwrap();
    let (code, _, err) = run(home.path(), &["run", "hi"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("mimir policy accept"), "{err}");
    assert!(script.asked().is_empty());
    assert_eq!(run(home.path(), &["policy", "accept", "--yes"]).0, 0);
    assert_eq!(run(home.path(), &["run", "hi"]).1, "mine now\n");
}

#[test]
fn provider_of_the_user_works_beside_settings_that_were_not_accepted() {
    let script = Script::start(vec![says("still here")]);
    let home = home(&script, "openai", "network: {allowedHosts: [a.example]}\n");
    fs::create_dir(home.path().join(".mimir")).unwrap();
    let settings = "agent: {instructions: be brief}\n";
    fs::write(home.path().join(".mimir/config.yml"), settings).unwrap();
    let (code, out, err) = run(home.path(), &["run", "hi"]);
    assert_eq!((code, out.as_str()), (0, "still here\n"), "{err}");
}

/// The output of a chat with these lines on its stdin, which is not a terminal.
fn chat(home: &Path, args: &[&str], lines: &str) -> (i32, String, String) {
    let mut all = vec!["chat"];
    all.extend(args);
    let mut command = mimir(home, &all);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn chat_keeps_context_and_resumes_a_conversation() {
    for api in APIS {
        let script = Script::start(vec![
            calls("read_file", json!({"path": "notes.txt"})),
            says("It is 42."),
            says("As I said."),
            says("Still 42."),
        ]);
        let home = home(&script, api, "");
        let (code, out, err) = chat(
            home.path(),
            &[],
            "what is it?\nsure?\n/cost\n/tols\n/quit\n",
        );
        assert_eq!(code, 0, "{err}");
        assert!(
            out.contains("It is 42.") && out.contains("As I said."),
            "{out}"
        );
        assert!(err.contains("3 answers, 1 call, 300 + 30 tokens"), "{err}");
        assert!(
            err.contains("unknown command `/tols`") && err.contains("`/tools`"),
            "{err}"
        );
        let (code, out, err) = chat(home.path(), &["--resume"], "and now?\n");
        assert_eq!(code, 0, "{err}");
        assert!(
            out.contains("Still 42.") && err.contains("your last message: sure?"),
            "{out}{err}"
        );
        let last = script.asked().pop().unwrap().body.to_string();
        for part in ["what is it?", "the answer is 42", "As I said.", "and now?"] {
            assert!(last.contains(part), "{part}: {last}");
        }
        let (code, _, err) = chat(home.path(), &["--resume", "nobody"], "");
        assert_eq!(code, 1, "{err}");
    }
}

#[test]
fn chat_slash_commands_work() {
    let script = Script::start(vec![says("one"), says("two"), says("three")]);
    let home = home(&script, "openai", "");
    let lines = "/help\n/tools\n/approvals\nhi\n/audit\n/model\n/model local/other\nhi\n/model nobody/x\n/clear\nagain\n";
    let (code, out, err) = chat(home.path(), &[], lines);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("/approvals  list your approvals"), "{err}");
    assert!(
        out.contains("read_file") && out.contains("no stored approvals"),
        "{out}"
    );
    assert!(out.contains("for the model local/m"), "{out}");
    assert!(err.contains("now using local/other"), "{err}");
    assert!(err.contains("unknown provider `nobody`"), "{err}");
    let asked = script.asked();
    assert_eq!(asked[1].body["model"], "other");
    let last = asked[2].body.to_string();
    assert!(last.contains("again") && !last.contains("\"hi\""), "{last}");
}

#[test]
fn chat_continues_after_a_provider_error() {
    let script = Script::start(vec![
        Step::Status(400, vec![], r#"{"error": {"message": "not like that"}}"#),
        says("better"),
    ]);
    let home = home(&script, "anthropic", "");
    let (code, out, err) = chat(home.path(), &[], "hm\nso?\n");
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("not like that") && out.contains("better"),
        "{out}{err}"
    );
    let (code, _, err) = run(home.path(), &["chat", "--json"]);
    assert_eq!(code, 2, "{err}");
}

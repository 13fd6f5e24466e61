//! Tests of masks in text that is written to files, and of the effect of masked secrets on a session.

use std::collections::BTreeMap;

use super::*;
use crate::needs::{DirectoryAccess, FileNeed};
use crate::outcome::DataClass;
use crate::paths::PathRules;

/// A made-up token in the format of a real one.
const TOKEN: &str = "ghp_0123456789abcdefABCDEF0123456789abcd";
const OTHER: &str = "ghp_9876543210abcdefABCDEF0123456789abcd";

type Files = Arc<Mutex<BTreeMap<String, String>>>;

/// The parts of the file tools that these tests need.
struct Disk {
    files: Files,
    does: &'static str,
}

impl Backend for Disk {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        let text = |name: &str| {
            call.arguments()[name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let mut files = self.files.lock();
        let path = text("path");
        let old = files.get(&path).cloned().unwrap_or_default();
        let does = match call.arguments()["operation"].as_str() {
            Some("write") => "write_file",
            Some("edit") => "edit_file",
            _ => self.does,
        };
        let shown = match does {
            "read_file" => old,
            "write_file" => {
                files.insert(path, text("content"));
                format!("replaced:\n-{old}\n+{}", text("content"))
            }
            _ if !old.contains(&text("pattern")) => {
                let error = ToolError::new(
                    ToolErrorCode::NotFound,
                    "the pattern does not match anything",
                );
                return Box::pin(std::future::ready(RawResult::failed(error)));
            }
            _ => {
                let new = old.replace(&text("pattern"), &text("replacement"));
                files.insert(path, new.clone());
                format!("-{}\n+{}\n", text("pattern"), text("replacement"))
            }
        };
        let output = ToolOutput {
            content: vec![Content::text(shown)],
            ..ToolOutput::default()
        };
        Box::pin(std::future::ready(RawResult::from(Ok(output))))
    }

    fn read_text(&self, path: &str, _: &PathRules) -> Option<String> {
        self.files.lock().get(path).cloned()
    }
}

struct Room {
    bench: Bench,
    files: Files,
}

fn room(files: &[(&str, &str)]) -> Room {
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    let files: Files = Arc::new(Mutex::new(files.collect()));
    let tools = ["read_file", "write_file", "edit_file", "file_operations"].map(|name| {
        let mut tool = tool(name);
        tool.source = ToolSource::BuiltIn;
        tool.definition.group = ToolGroup::Fs;
        tool.definition.input_schema = Schema::parse(r#"{"type": "object"}"#).unwrap();
        tool.backend = Arc::new(Disk {
            files: Arc::clone(&files),
            does: name,
        });
        tool
    });
    let bench = bench(tools.into(), json!({}), ApprovalAnswer::No);
    Room { bench, files }
}

impl Room {
    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.bench.pipeline.call(call(tool, arguments)).await
    }

    async fn read(&self, path: &str) -> String {
        self.call("read_file", json!({"path": path})).await.text()
    }

    fn has(&self, path: &str) -> String {
        self.files.lock()[path].clone()
    }
}

fn refused(outcome: &Outcome) -> String {
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::InvalidInput, "{error}");
    assert_eq!(error.details.as_ref().unwrap()["kind"], "mask-in-text");
    error.message.clone()
}

/// Two files with one token each: after both were read, a mask may stand for either.
#[tokio::test]
async fn restore_refuses_the_mask_of_another_file() {
    let [one, other] =
        [("A", TOKEN), ("B", OTHER)].map(|(key, value)| format!("{key} = \"{value}\"\n"));
    let room = room(&[("a.py", &one), ("b.py", &other)]);
    let line_a = room.read("a.py").await;
    let line_b = room.read("b.py").await;
    for content in [format!("{line_b}{line_a}"), line_a.clone()] {
        let outcome = room
            .call("write_file", json!({"path": "b.py", "content": content}))
            .await;
        let why = refused(&outcome);
        assert!(why.contains("could stand for several values"), "{why}");
    }
    let both =
        json!({"path": "b.py", "pattern": line_b, "replacement": format!("{line_b}{line_a}")});
    let why = refused(&room.call("edit_file", both).await);
    assert!(why.contains("could stand for several values"), "{why}");
    assert_eq!(room.has("b.py"), other);
    let content = format!("# the key\n{line_b}");
    let written = room
        .call("write_file", json!({"path": "b.py", "content": content}))
        .await;
    assert!(written.is_ok(), "{}", written.text());
    assert_eq!(room.has("b.py"), format!("# the key\n{other}"));
}

#[tokio::test]
async fn restore_write_file_restores_masked_secrets() {
    let old = format!("GITHUB_TOKEN = \"{TOKEN}\"\nDEBUG = True\n");
    for tool in ["write_file", "file_operations"] {
        let room = room(&[("settings.py", &old)]);
        let shown = room.read("settings.py").await;
        assert!(shown.contains("[REDACTED:github-pat]"), "{shown}");
        let content = shown.replace("True", "False");
        let arguments = json!({"operation": "write", "path": "settings.py", "content": content});
        let outcome = room.call(tool, arguments).await;
        assert!(outcome.is_ok(), "{:?}", outcome.result());
        assert_eq!(room.has("settings.py"), old.replace("True", "False"));
        let said = serde_json::to_string(&outcome).unwrap();
        assert!(!said.contains(TOKEN), "{said}");
        // Neither the record nor a person sees more than the model.
        let events = room.bench.audit.events.lock();
        assert!(!events.iter().any(|event| event.to_string().contains(TOKEN)));
    }
}

#[tokio::test]
async fn restore_edit_file_matches_masked_lines() {
    let old = format!("A = \"{TOKEN}\"\r\nB = \"{OTHER}\"\r\nx = 1\r\n");
    let room = room(&[("s.py", &old)]);
    room.read("s.py").await;
    let edit = |pattern: &str, replacement: &str| json!({"path": "s.py", "pattern": pattern, "replacement": replacement});
    let renamed = edit(
        "B = \"[REDACTED:github-pat]\"",
        "C = \"[REDACTED:github-pat]\" # mine",
    );
    let outcome = room.call("edit_file", renamed).await;
    assert!(outcome.is_ok(), "{:?}", outcome.result());
    let now = old.replace(
        &format!("B = \"{OTHER}\""),
        &format!("C = \"{OTHER}\" # mine"),
    );
    assert_eq!(room.has("s.py"), now);
    let said = outcome.text();
    assert!(
        !said.contains("ghp_") && said.contains("[REDACTED:github-pat]"),
        "{said}"
    );
    let gone = edit("A = \"[REDACTED:github-pat]\"", "A = \"\"");
    assert!(room.call("edit_file", gone).await.is_ok());
    assert_eq!(room.has("s.py"), now.replace(TOKEN, ""));
    // A text that is not in the file is not found, and an ambiguous mask is refused.
    let other = edit("Z = \"[REDACTED:github-pat]\"", "");
    assert_eq!(
        code(&room.call("edit_file", other).await),
        Some(ToolErrorCode::NotFound)
    );
    room.files
        .lock()
        .insert("s.py".to_owned(), format!("t: {TOKEN}\nt: {OTHER}\n"));
    let twice = edit("t: [REDACTED:github-pat]", "u: [REDACTED:github-pat]");
    let outcome = room.call("edit_file", twice.clone()).await;
    let error = outcome.result().unwrap_err();
    assert!(error.message.contains("matches more than once"), "{error}");
    assert_eq!(error.details.as_ref().unwrap()["lines"], json!([1, 2]));
    let mut all = twice;
    all["all"] = true.into();
    let outcome = room.call("edit_file", all).await;
    assert!(
        outcome
            .result()
            .unwrap_err()
            .message
            .contains("different values")
    );
    let regex = json!({"path": "s.py", "regex": true, "pattern": r"t: \[REDACTED:.*\]", "replacement": "x"});
    assert!(refused(&room.call("edit_file", regex).await).contains("without `regex`"));
}

#[tokio::test]
async fn restore_refuses_a_mask_in_another_file_or_key() {
    let old = format!("{{\"password\": \"hunter2 and more\", \"token\": \"{TOKEN}\"}}\n");
    let room = room(&[("a.json", &old), ("b.txt", "nothing\n")]);
    room.read("a.json").await;
    let mark = "[REDACTED:github-pat]";
    for (path, content) in [
        ("b.txt", format!("copied: {mark}\n")),
        ("new.txt", format!("{mark}\n")),
        (
            "a.json",
            "{\"note\": \"[REDACTED:key:password]\"}\n".to_owned(),
        ),
        ("a.json", "hello [REDACTED:key:password]\n".to_owned()),
    ] {
        let outcome = room
            .call("write_file", json!({"path": path, "content": content}))
            .await;
        let message = refused(&outcome);
        assert!(
            message.starts_with(&format!("`{path}` was not changed: ")),
            "{message}"
        );
    }
    let insert = json!({"path": "b.txt", "pattern": "nothing", "replacement": mark});
    refused(&room.call("edit_file", insert).await);
    assert_eq!(room.has("a.json"), old);
    assert_eq!(room.has("b.txt"), "nothing\n");
    assert!(!room.files.lock().contains_key("new.txt"));
    // An edit that keeps the mark, but not the text by which its value is recognized.
    let bare = json!({"path": "a.json", "pattern": "\"password\": \"[REDACTED:key:password]\"", "replacement": "\"note\": \"[REDACTED:key:password]\""});
    refused(&room.call("edit_file", bare).await);
    assert_eq!(room.has("a.json"), old);
}

#[tokio::test]
async fn restore_takes_literal_and_unseen_masks_as_text() {
    let docs = "mimir writes [REDACTED:github-pat] in its place\n";
    let room = room(&[("docs.md", docs), ("key.txt", &format!("{TOKEN}\n"))]);
    let content = format!("# Masks\n{docs}");
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    assert!(
        room.call("write_file", write("docs.md", &content))
            .await
            .is_ok()
    );
    assert_eq!(room.has("docs.md"), content);
    let new = "expect [REDACTED:jwt]\n";
    assert!(room.call("write_file", write("test.md", new)).await.is_ok());
    assert_eq!(room.has("test.md"), new);
    // The session was not shown this mask, but a mask must not replace a value.
    let lost = room
        .call("write_file", write("key.txt", "[REDACTED:jwt]\n"))
        .await;
    refused(&lost);
    // In a separate call, without a session that has read the file, its values are restored all the same.
    let whole = room
        .call("write_file", write("key.txt", "a\n[REDACTED:github-pat]\n"))
        .await;
    assert!(whole.is_ok());
    assert_eq!(room.has("key.txt"), format!("a\n{TOKEN}\n"));
    let regex = json!({"path": "docs.md", "regex": true, "pattern": r"\[REDACTED:github-pat\]", "replacement": "x"});
    assert_ne!(
        code(&room.call("edit_file", regex).await),
        Some(ToolErrorCode::InvalidInput)
    );
}

#[tokio::test]
async fn restore_masked_text_is_refused_in_other_tools() {
    let masked = "GITHUB_TOKEN = \"[REDACTED:github-pat]\"\n";
    let mut room = room(&[("settings.py", &format!("GITHUB_TOKEN = \"{TOKEN}\"\n"))]);
    let tools = [
        ("exec", ToolGroup::Runtime, ToolSource::BuiltIn, false),
        ("run_code", ToolGroup::Runtime, ToolSource::BuiltIn, false),
        ("memory_save", ToolGroup::Memory, ToolSource::BuiltIn, false),
        ("web_fetch", ToolGroup::Net, ToolSource::BuiltIn, false),
        ("file_search", ToolGroup::Fs, ToolSource::BuiltIn, true),
        ("of_yaml", ToolGroup::Fs, ToolSource::Custom, false),
        ("write_note", ToolGroup::System, ToolSource::Mcp, false),
        ("search_notes", ToolGroup::System, ToolSource::Mcp, true),
    ];
    let tools = tools.map(|(name, group, source, read_only)| {
        let mut tool = tool(name);
        tool.definition.input_schema = Schema::parse(r#"{"type": "object"}"#).unwrap();
        tool.definition.group = group;
        tool.definition.hints.read_only = read_only;
        tool.source = source;
        tool
    });
    let snapshot = room.bench.pipeline.snapshot();
    let of_files = snapshot
        .registry
        .tools()
        .iter()
        .map(|tool| (**tool).clone());
    let tools: Vec<_> = of_files.chain(tools).collect();
    let accepts = json!({"approval": "allow", "labels": {"acceptsUntrusted": true}});
    let settings = json!({"execApprovals": {"mode": "full"}, "tools": {
        "write_note": accepts, "search_notes": accepts, "web_fetch": accepts,
    }});
    let settings: Config = serde_json::from_value(settings).unwrap();
    let ports = PipelinePorts {
        runner: Arc::new(super::approvals::commands::Words),
        // The session has read a secret, so that calls of servers are asked about.
        approver: Arc::new(Fixed(ApprovalAnswer::Once, AtomicUsize::new(0))),
        ..room.bench.pipeline.0.ports.clone()
    };
    let snapshot = PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::new(&settings, "config.yml").unwrap(),
    };
    room.bench.pipeline = Pipeline::new(snapshot, ports);
    let code = |language: &str, code: String| json!({"language": language, "code": code});
    let writes = [
        (
            "exec",
            json!({"command": format!("tee settings.py {masked}")}),
        ),
        (
            "exec",
            json!({"command": "tee", "args": ["settings.py"], "stdin": masked}),
        ),
        (
            "run_code",
            code("python", format!("open('s', 'w').write({masked:?})")),
        ),
        (
            "run_code",
            code(
                "javascript",
                format!("platform.fs.writeFile('s', {masked:?})"),
            ),
        ),
        (
            "run_code",
            code("bash", format!("cat > s <<'E'\n{masked}E\n")),
        ),
        ("memory_save", json!({"text": masked})),
        ("of_yaml", json!({"path": "s", "lines": [{"text": masked}]})),
        ("write_note", json!({"notes": {masked: 1}})),
        (
            "web_fetch",
            json!({"url": "https://a.example/", "body": masked}),
        ),
        (
            "web_fetch",
            json!({"body": masked, "a_url": format!("https://a.example/{masked}")}),
        ),
    ];
    // Before the session was shown the mask, it is plain text.
    for (tool, arguments) in &writes {
        let outcome = room.call(tool, arguments.clone()).await;
        assert_ne!(
            super::code(&outcome),
            Some(ToolErrorCode::InvalidInput),
            "{tool}"
        );
    }
    assert!(room.read("settings.py").await.contains("[REDACTED:"));
    for (tool, arguments) in &writes {
        let message = refused(&room.call(tool, arguments.clone()).await);
        let begins = format!("`{tool}` was not called: ");
        assert!(message.starts_with(&begins), "{message}");
        let remedy = "use edit_file or write_file, which restore the value, or leave that line out";
        assert!(message.ends_with(remedy), "{message}");
    }
    let mark = "[REDACTED:github-pat]";
    for (tool, arguments) in [
        ("exec", json!({"command": format!("grep -rn {mark} .")})),
        ("file_search", json!({"pattern": mark})),
        ("search_notes", json!({"query": mark})),
        (
            "web_fetch",
            json!({"url": format!("https://a.example/?q={mark}")}),
        ),
        ("memory_save", json!({"text": "[REDACTED:jwt]"})),
    ] {
        let outcome = room.call(tool, arguments).await;
        assert!(outcome.is_ok(), "{tool}: {:?}", outcome.result());
    }
}

#[tokio::test]
async fn mask_in_text_and_structured_output_is_counted_once() {
    let output = ToolOutput {
        content: vec![Content::text(format!("it is {TOKEN}"))],
        structured: Some(json!({"content": format!("it is {TOKEN}")})),
        ..ToolOutput::default()
    };
    let twin = with(
        "twin",
        Fake {
            output,
            ..Fake::default()
        },
    );
    let bench = bench(vec![twin, tool("plain")], json!({}), ApprovalAnswer::No);
    let outcome = bench.pipeline.call(call("twin", json!({}))).await;
    assert_eq!(outcome.redactions(), 1);
    bench.pipeline.call(call("plain", json!({}))).await;
    let events = bench.audit.events.lock();
    assert_eq!(events[0]["secretsFound"], 1);
    assert!(events[1].get("secretsFound").is_none(), "{}", events[1]);
}

fn saying(name: &str, text: &str) -> Tool {
    let output = ToolOutput {
        content: vec![Content::text(text)],
        ..ToolOutput::default()
    };
    with(
        name,
        Fake {
            output,
            ..Fake::default()
        },
    )
}

#[tokio::test]
async fn secret_from_this_machine_makes_a_session_sensitive() {
    let mut files = saying("files", &format!("token {TOKEN}"));
    files.source = ToolSource::BuiltIn;
    let mut generic = saying("generic", "api_key = 8fk2J9sL0pQ7xZ3vB6nM");
    generic.source = ToolSource::BuiltIn;
    let mut server = saying("server", &format!("here is a key: {TOKEN}"));
    server.source = ToolSource::Mcp;
    let mut page = saying("page", &format!("here is a key: {TOKEN}"));
    page.source = ToolSource::BuiltIn;
    page.definition.group = ToolGroup::Net;
    let stranger = saying("stranger", &format!("here is a key: {TOKEN}"));
    let mut reader = saying("reader", &format!("here is a key: {TOKEN}"));
    reader.definition.needs.files = vec![FileNeed {
        path: ".".into(),
        access: DirectoryAccess::Read,
        reason: String::new(),
    }];
    reader.trust = ToolTrust::Trusted;
    // Arguments of a server's tool leave the machine with the call.
    let mut sender = tool("sender");
    sender.trust = ToolTrust::Trusted;
    sender.source = ToolSource::Mcp;
    let config = json!({"tools": {
        "sender": {"approval": "allow", "labels": {"acceptsUntrusted": true}},
        "server": {"approval": "allow", "labels": {"acceptsUntrusted": true}},
        "page": {"approval": "allow", "labels": {"acceptsUntrusted": true}},
    }});
    for (name, sensitive) in [
        ("files", true),
        ("reader", true),
        ("generic", false),
        ("server", false),
        ("page", false),
        ("stranger", false),
    ] {
        let tools = vec![
            files.clone(),
            reader.clone(),
            generic.clone(),
            server.clone(),
            page.clone(),
            stranger.clone(),
            sender.clone(),
        ];
        let bench = bench(tools, config.clone(), ApprovalAnswer::No);
        let read = bench.pipeline.call(call(name, json!({}))).await;
        assert_eq!(read.redactions(), 1, "{name}: {:?}", read.result());
        assert_eq!(
            read.label().data_class == DataClass::Sensitive,
            sensitive,
            "{name}"
        );
        let sent = bench.pipeline.call(call("sender", json!({}))).await;
        let expected = sensitive.then_some(ToolErrorCode::ApprovalDenied);
        assert_eq!(code(&sent), expected, "{name}");
    }
}

//! Tests of commands: they are evaluated before and during the call, asked about once, and stored as patterns.

use std::cell::Cell;

use super::*;
use crate::command::{
    CommandProgram, CommandRequest, CommandRunner, CommandTarget, ParsedCommand, ParsedProgram,
    ShellWord,
};
use crate::needs::CommandNeed;

thread_local! {
    /// The programs that were parsed on this thread, which is that of one test.
    static PARSES: Cell<usize> = const { Cell::new(0) };
}

/// Splits words at blanks and commands at semicolons. The real parser has its own tests.
pub(in crate::pipeline::tests) struct Words;

impl CommandRunner for Words {
    fn parse_program(&self, program: &CommandProgram) -> Result<ParsedProgram, ToolError> {
        PARSES.set(PARSES.get() + 1);
        let word = |word: &str| match word.starts_with('$') {
            true => ShellWord::Unknown(word.to_owned()),
            false => ShellWord::Known(word.to_owned()),
        };
        let simple = |words: Vec<ShellWord>, at: usize| ParsedCommand {
            words,
            span: at..at + 1,
            ..ParsedCommand::default()
        };
        let commands = match program {
            CommandProgram::Script(text) if text.contains('\0') => {
                return NoCommandRunner.parse_program(program);
            }
            CommandProgram::Script(text) => {
                let each = text.split(';').enumerate();
                each.map(|(at, one)| simple(one.split_whitespace().map(word).collect(), at))
                    .collect()
            }
            CommandProgram::Vector(words) => {
                vec![simple(
                    words.iter().cloned().map(ShellWord::Known).collect(),
                    0,
                )]
            }
        };
        Ok(ParsedProgram {
            commands,
            unknown: Vec::new(),
        })
    }
    fn root(&self) -> Option<&str> {
        Some("/work")
    }
    fn sandbox_name<'a>(
        &'a self,
        _: CommandTarget,
        program: &'a str,
    ) -> BoxFuture<'a, Result<&'static str, ToolError>> {
        assert_eq!(program, "sh");
        Box::pin(std::future::ready(Ok("process")))
    }
}

/// Runs this command, or else the command in its arguments, and returns the result.
struct Runs(Option<&'static str>);

impl Backend for Runs {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let own = call.arguments()["command"].as_str();
            let command = CommandRequest {
                program: CommandProgram::Script(self.0.or(own).unwrap().to_owned()),
                directory: None,
                environment: Vec::new(),
                stdin: Vec::new(),
                timeout: Some(Duration::from_secs(3600)),
                target: CommandTarget::Default,
            };
            let permitted = call.effects().permit_command(command).await;
            RawResult::from(permitted.map(|permitted| {
                assert_eq!(permitted.owner().session, "session");
                assert_eq!(permitted.tool().name().as_str(), "sample");
                assert!(permitted.files().is_empty());
                assert_eq!(
                    permitted.timeout(),
                    permitted.limits().wall,
                    "the time limit of the command exceeds the limit of the call"
                );
                ToolOutput {
                    content: vec![Content::text("ran")],
                    ..ToolOutput::default()
                }
            }))
        })
    }
}

/// Creates a tool that was granted commands with these patterns.
fn runner(patterns: &[&str], runs: Option<&'static str>) -> Tool {
    let mut tool = tool("sample");
    tool.definition.input_schema = Schema::parse(r#"{"type":"object"}"#).unwrap();
    tool.definition.group = ToolGroup::Runtime;
    let need = |pattern: &&str| CommandNeed {
        pattern: (*pattern).to_owned(),
        reason: String::new(),
    };
    tool.definition.needs.commands = patterns.iter().map(need).collect();
    tool.granted = tool.definition.needs.clone();
    tool.trust = ToolTrust::Trusted;
    tool.backend = Arc::new(Runs(runs));
    tool
}

/// Creates a tool that was granted commands with these patterns, and whose backend a test replaces.
pub(super) fn installer(patterns: &[&str]) -> Tool {
    runner(patterns, None)
}

/// Creates the built-in tool, which may run any command that the settings allow.
fn exec() -> Tool {
    let mut tool = runner(&["*"], None);
    tool.source = ToolSource::BuiltIn;
    tool.definition.approval = Decision::Ask;
    tool
}

/// Returns settings under which untrusted content is not asked about.
fn calm() -> Value {
    json!({"tools": {"sample": {"labels": {"acceptsUntrusted": true}}}})
}

#[tokio::test]
async fn exec_read_only_command_runs_unasked_and_is_audited() {
    let room = room(vec![exec()], calm(), vec![]);
    assert!(room.ok(json!({"command": "ls -l; pwd"})).await);
    assert_eq!(room.asked(), 0);
    let events = room.audit.events.lock();
    let effect = events
        .iter()
        .find(|event| event["event"] == "effect")
        .unwrap();
    assert_eq!(effect["subject"], "run ls, pwd", "programs, and no content");
    assert_eq!(
        (&effect["ok"], &effect["decision"]),
        (&json!(true), &json!("allow"))
    );
}

#[tokio::test]
async fn exec_needs_the_sandbox_that_its_tool_requires() {
    let runs = async |execution: Value| {
        let settings = json!({"tools": {"sample": {
            "labels": {"acceptsUntrusted": true},
            "execution": execution,
        }}});
        let room = room(vec![exec()], settings, vec![]);
        room.ok(json!({"command": "ls -l"})).await
    };
    assert!(runs(json!({"sandbox": "process"})).await);
    assert!(!runs(json!({"sandbox": "container"})).await);
    // This runner does not confine the network.
    assert!(!runs(json!({"network": "none"})).await);
    assert!(runs(json!({"timeout": 5_000})).await);
}

#[tokio::test]
async fn exec_call_parses_its_command_once() {
    let room = room(vec![exec()], calm(), vec![]);
    assert!(room.ok(json!({"command": "ls -l; pwd"})).await);
    assert_eq!(PARSES.get(), 1);
}

#[tokio::test]
async fn exec_call_approval_covers_its_command_once() {
    let room = room(vec![exec()], calm(), vec![ApprovalAnswer::Once]);
    assert!(room.ok(json!({"command": "make all"})).await);
    assert_eq!(room.asked(), 1);
    let card = room.script.cards.lock()[0].clone();
    assert_eq!(card.summary, "run `make all`");
    assert!(
        card.risks
            .iter()
            .any(|line| line.starts_with("ask: `make all`")),
        "{:?}",
        card.risks
    );
    assert_eq!(
        card.always.unwrap().text,
        "allow `sample` with command `make all`; it runs the code that the workspace has at that time"
    );
    assert!(
        !room.ok(json!({"command": "make all"})).await,
        "an approval for one call covers the next call"
    );
}

#[tokio::test]
async fn exec_always_covers_similar_commands_separately() {
    let answers = vec![
        ApprovalAnswer::Always,
        ApprovalAnswer::Session,
        ApprovalAnswer::No,
        ApprovalAnswer::No,
    ];
    let room = room(vec![exec()], calm(), answers);
    assert!(room.ok(json!({"command": "cargo test"})).await);
    assert!(
        room.ok(json!({"command": "cargo test --workspace; ls"}))
            .await
    );
    assert!(room.ok(json!({"command": "npm run build"})).await);
    assert_eq!(room.asked(), 2);
    let text = room.script.cards.lock()[0].always.clone();
    let text = text.unwrap().text;
    assert!(
        text.ends_with("it runs the code that the workspace has at that time"),
        "{text}"
    );
    let both = json!({"command": "npm run build -- --x; cargo test a; pwd"});
    assert!(room.ok(both).await, "one answer for each");
    assert_eq!(room.asked(), 2);
    assert_eq!(room.ledger.used.load(Ordering::SeqCst), 2);
    for more in [
        "cargo test; cargo publish",
        "cargo build",
        "npm run deploy",
        "rm -rf build; cargo test",
        "cargo test /etc/passwd",
    ] {
        assert!(!room.ok(json!({ "command": more })).await, "{more}");
    }
    let lease = &room.ledger.leases.lock()[0];
    assert_eq!(lease.pattern.describe(), "command `cargo test *`");
    let text = serde_json::to_string(lease).unwrap();
    assert_eq!(
        serde_json::from_str::<StoredApproval>(&text).unwrap(),
        *lease
    );
}

#[tokio::test]
async fn exec_always_stores_narrower_patterns_of_a_person() {
    let narrower = ["cargo test --workspace *", "cargo *"].map(str::to_owned);
    let answers = vec![ApprovalAnswer::AlwaysCommands(narrower.into())];
    let room = room(vec![exec()], calm(), answers);
    assert!(room.ok(json!({"command": "cargo test --workspace"})).await);
    {
        let cards = room.script.cards.lock();
        let always = cards[0].always.as_ref().unwrap();
        assert_eq!(always.commands, ["cargo test *"]);
        let verdict = &cards[0].facts.commands[0];
        assert_eq!(verdict.command, "cargo test --workspace");
        assert_eq!(verdict.decision, Decision::Ask);
    }
    let again = json!({"command": "cargo test --workspace -q"});
    assert!(room.ok(again).await);
    assert_eq!(room.asked(), 1);
    assert!(!room.ok(json!({"command": "cargo test"})).await);
    let lease = &room.ledger.leases.lock()[0];
    assert_eq!(
        lease.pattern.describe(),
        "command `cargo test --workspace *`"
    );
}

/// A backend for which every workspace file has the content that the test sets.
struct Scripts(Runs, Arc<Mutex<String>>);

impl Backend for Scripts {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        self.0.run(call)
    }

    fn content_id(&self, path: &str) -> Option<String> {
        (!path.is_empty()).then(|| self.1.lock().clone())
    }
}

#[tokio::test]
async fn exec_script_approval_is_bound_to_the_script_content() {
    for command in ["sh x.sh", "./x.sh", "sh x.sh $y", "sh $x"] {
        for answer in [ApprovalAnswer::Always, ApprovalAnswer::Session] {
            let content = Arc::new(Mutex::new("first".to_owned()));
            let mut exec = exec();
            exec.backend = Arc::new(Scripts(Runs(None), content.clone()));
            let answers = vec![answer.clone(), answer.clone(), answer];
            let room = room(vec![exec], calm(), answers);
            let call = json!({ "command": command });
            // The file that the last command runs is unknown, so it is asked about each time.
            let known = command != "sh $x";
            assert!(room.ok(call.clone()).await);
            assert!(room.ok(call.clone()).await);
            assert_eq!(room.asked(), if known { 1 } else { 2 }, "{command}");
            let text = room.script.cards.lock()[0].always.clone();
            let text = text.unwrap().text;
            assert!(text.contains("stays as it is"), "{text}");
            *content.lock() = "second".to_owned();
            assert!(room.ok(call).await);
            assert_eq!(room.asked(), if known { 2 } else { 3 }, "{command}");
        }
    }
}

#[tokio::test]
async fn exec_always_without_a_pattern_covers_the_exact_command() {
    let room = room(vec![exec()], calm(), vec![ApprovalAnswer::Always]);
    assert!(room.ok(json!({"command": "tar xf $a"})).await);
    assert!(room.ok(json!({"command": "tar xf $a"})).await);
    assert_eq!(room.asked(), 1);
    assert!(!room.ok(json!({"command": "tar xf $b"})).await);
    let always = room.script.cards.lock()[0].always.clone().unwrap();
    assert!(always.text.contains("command=\"tar xf $a\""), "{always:?}");
}

#[tokio::test]
async fn exec_dangerous_command_is_asked_about_each_time() {
    let lasting = [ApprovalAnswer::Session, ApprovalAnswer::Always];
    let configs = [calm(), json!({"execApprovals": {"mode": "full"}})];
    for (answer, config) in lasting.iter().zip(configs) {
        for command in ["rm -rf src", "ls; rm -rf src", "chmod 777 a", "touch a\0b"] {
            if command.contains('\0') && config != calm() {
                continue;
            }
            let answers = vec![answer.clone(), answer.clone()];
            let room = room(vec![exec()], config.clone(), answers);
            for _ in 0..2 {
                room.ok(json!({ "command": command })).await;
            }
            assert_eq!(room.asked(), 2, "{command}: {answer:?}");
            assert!(!room.ok(json!({ "command": command })).await, "{command}");
            let cards = room.script.cards.lock();
            assert!(cards.iter().all(|card| card.always.is_none()), "{command}");
            assert!(room.ledger.leases.lock().is_empty());
            assert!(room.ledger.listed.lock().is_empty());
            if command.starts_with("rm") {
                assert_eq!(cards[0].risk, RiskLevel::High);
            }
        }
    }
}

#[tokio::test]
async fn exec_dangerous_command_runs_by_no_approval_of_an_older_version() {
    let room = room(vec![exec()], calm(), vec![ApprovalAnswer::Always]);
    assert!(room.ok(json!({"command": "tar xf $a"})).await);
    {
        let mut leases = room.ledger.leases.lock();
        let mut stored = serde_json::to_value(&leases[0]).unwrap();
        stored["pattern"]["fixed"]["command"] = json!("rm -rf src");
        stored["reasons"]
            .as_array_mut()
            .unwrap()
            .push(json!("danger: rm -r: `rm -rf src` removes whole folders"));
        leases[0] = serde_json::from_value(stored).unwrap();
    }
    assert!(!room.ok(json!({"command": "rm -rf src"})).await);
}

#[tokio::test]
async fn exec_card_names_a_script_that_cannot_be_read() {
    let room = room(vec![exec()], calm(), vec![ApprovalAnswer::No]);
    assert!(!room.ok(json!({"command": "touch a\0b"})).await);
    let card = room.script.cards.lock()[0].clone();
    let expected = r#"call `sample` with "touch a\u0000b""#;
    assert_eq!(card.summary, expected);
}

#[tokio::test]
async fn exec_plugin_runs_only_granted_commands() {
    for (command, expected) in [
        ("cargo fmt --all", None),
        (
            "cargo fmt; cargo build",
            Some(ToolErrorCode::PermissionDenied),
        ),
        ("$x", Some(ToolErrorCode::PermissionDenied)),
        ("cargo fmt ../x", Some(ToolErrorCode::ApprovalDenied)),
        ("ls", Some(ToolErrorCode::PermissionDenied)),
    ] {
        let room = room(
            vec![runner(&["cargo fmt *"], Some(command))],
            calm(),
            vec![],
        );
        let outcome = room.pipeline.call(call("sample", json!({}))).await;
        assert_eq!(code(&outcome), expected, "{command}: {}", outcome.text());
    }
    let stranger = runner(&["cargo fmt *"], Some("cargo build"));
    let room = room(vec![stranger], calm(), vec![]);
    let outcome = room.pipeline.call(call("sample", json!({}))).await;
    let ways = &outcome.result().unwrap_err().remedies;
    assert!(ways[0].contains("must name a pattern"), "{ways:?}");
    assert_eq!(room.asked(), 0);
}

#[tokio::test]
async fn exec_command_other_than_the_shown_one_is_asked() {
    let mut tool = exec();
    tool.backend = Arc::new(Runs(Some("make evil")));
    let room = room(
        vec![tool],
        calm(),
        vec![ApprovalAnswer::Once, ApprovalAnswer::No],
    );
    assert!(!room.ok(json!({"command": "make all"})).await);
    assert_eq!(room.asked(), 2);
}

#[tokio::test]
async fn exec_modes_and_rules_apply_to_commands_of_plugins() {
    let mut deny = calm();
    deny["execApprovals"] = json!({"mode": "allowlist", "approvals": [{"pattern": "ls *"}]});
    let hidden = || runner(&["*"], Some("cat x"));
    let listed = room(vec![hidden()], deny.clone(), vec![ApprovalAnswer::Once]);
    let outcome = listed.pipeline.call(call("sample", json!({}))).await;
    assert_eq!(
        code(&outcome),
        Some(ToolErrorCode::PolicyDenied),
        "{}",
        outcome.text()
    );
    deny["execApprovals"] = json!({"mode": "deny"});
    let none = room(vec![hidden()], deny, vec![ApprovalAnswer::Once]);
    assert_eq!(
        code(&none.pipeline.call(call("sample", json!({}))).await),
        Some(ToolErrorCode::PolicyDenied)
    );
    let mut ruled = calm();
    ruled["policy"] =
        json!({"rules": [{"when": {"command": {"regex": "cat"}}, "decision": "deny"}]});
    let ruled = room(vec![hidden()], ruled, vec![ApprovalAnswer::Once]);
    assert_eq!(
        code(&ruled.pipeline.call(call("sample", json!({}))).await),
        Some(ToolErrorCode::PolicyDenied)
    );
    let secret = runner(&["*"], Some("cat .env"));
    let secret = room(vec![secret], calm(), vec![ApprovalAnswer::Once]);
    assert_eq!(
        code(&secret.pipeline.call(call("sample", json!({}))).await),
        Some(ToolErrorCode::PolicyDenied)
    );
}

#[tokio::test]
async fn exec_unreadable_command_is_not_run() {
    let room = room(vec![exec()], calm(), vec![ApprovalAnswer::Once]);
    assert!(!room.ok(json!({"command": "ls\0"})).await);
    assert_eq!(room.asked(), 1);
    let bench = bench(vec![exec()], calm(), ApprovalAnswer::Once);
    let outcome = bench
        .pipeline
        .call(call("sample", json!({"command": "ls"})))
        .await;
    assert_eq!(
        code(&outcome),
        Some(ToolErrorCode::Unavailable),
        "a command runs without a command runner"
    );
}

#[tokio::test]
async fn exec_explain_has_a_verdict_for_each_command() {
    let room = room(vec![exec()], calm(), vec![]);
    let explained = room
        .pipeline
        .explain(call("sample", json!({"command": "ls; make; cat .env"})))
        .await
        .unwrap();
    let verdicts: Vec<_> = explained
        .evaluation
        .commands()
        .iter()
        .map(|one| (one.command.as_str(), one.decision))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("ls", Decision::Allow),
            ("make", Decision::Ask),
            ("cat .env", Decision::Deny)
        ]
    );
    assert_eq!(explained.evaluation.commands()[2].rule, "the path rules");
}

/// Runs the command of its arguments, and lets it open tunnels to these hosts, one after the other.
struct Tunnels(&'static [&'static str]);

impl Backend for Tunnels {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let own = call.arguments()["command"].as_str();
            let command = CommandRequest {
                program: CommandProgram::Script(own.unwrap().to_owned()),
                directory: None,
                environment: Vec::new(),
                stdin: Vec::new(),
                timeout: None,
                target: CommandTarget::Default,
            };
            let permitted = match call.effects().permit_command(command).await {
                Ok(permitted) => permitted,
                Err(error) => return RawResult::failed(error),
            };
            for host in self.0 {
                let target =
                    crate::network::RequestTarget::parse(&format!("https://{host}/")).unwrap();
                let tunnel = permitted
                    .network()
                    .request(crate::pipeline::OutgoingRequest {
                        target: &target,
                        method: "CONNECT",
                        headers: &[],
                        body: false,
                    });
                if let Err(error) = tunnel.await {
                    return RawResult::failed(error);
                }
            }
            RawResult::from(Ok(ToolOutput::default()))
        })
    }
}

fn installs(hosts: &'static [&'static str]) -> Tool {
    let mut tool = exec();
    tool.backend = Arc::new(Tunnels(hosts));
    tool
}

const REGISTRY: &[&str] = &["registry.example"; 30];

#[tokio::test]
async fn package_install_asks_for_its_command_and_unlisted_hosts() {
    let install = || json!({"command": "install left-pad"});
    // Two questions: the command, and the unlisted host.
    let unlisted = room(
        vec![installs(REGISTRY)],
        json!({}),
        vec![ApprovalAnswer::Once, ApprovalAnswer::Once],
    );
    assert!(unlisted.ok(install()).await);
    assert_eq!(unlisted.asked(), 2);
    let listed = json!({"network": {"allowedHosts": ["registry.example"]}});
    let listed_room = room(
        vec![installs(REGISTRY)],
        listed.clone(),
        vec![ApprovalAnswer::Once],
    );
    assert!(listed_room.ok(install()).await);
    assert_eq!(listed_room.asked(), 1, "its own tunnels raise no question");
    // A listed host is not asked about, even if an earlier command has read something.
    let again = room(
        vec![installs(REGISTRY)],
        listed.clone(),
        vec![ApprovalAnswer::Once, ApprovalAnswer::Once],
    );
    for _ in 0..2 {
        assert!(again.ok(install()).await);
    }
    assert_eq!(again.asked(), 2, "the two commands");
    // An answer for the session covers the tunnels of later commands.
    let session = room(
        vec![installs(REGISTRY)],
        json!({}),
        vec![
            ApprovalAnswer::Once,
            ApprovalAnswer::Session,
            ApprovalAnswer::Once,
        ],
    );
    assert!(session.ok(install()).await);
    assert!(session.ok(install()).await);
    assert_eq!(session.asked(), 3, "two commands and one host");
    // Each unlisted host is a separate question.
    let two = room(
        vec![installs(&["a.example", "b.example"])],
        json!({}),
        vec![
            ApprovalAnswer::Once,
            ApprovalAnswer::Once,
            ApprovalAnswer::No,
        ],
    );
    assert!(!two.ok(install()).await);
    assert_eq!(two.asked(), 3);
}

#[tokio::test]
async fn tunnel_to_a_listed_host_passes_after_untrusted_content() {
    // The tool reads untrusted content between the tunnels of its command.
    struct ReadsBetween;
    impl Backend for ReadsBetween {
        fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
            Box::pin(async move {
                let own = call.arguments()["command"].as_str().unwrap().to_owned();
                let command = CommandRequest {
                    program: CommandProgram::Script(own),
                    directory: None,
                    environment: Vec::new(),
                    stdin: Vec::new(),
                    timeout: None,
                    target: CommandTarget::Default,
                };
                let permitted = call.effects().permit_command(command).await.unwrap();
                let target =
                    crate::network::RequestTarget::parse("https://registry.example/").unwrap();
                let egress = crate::pipeline::OutgoingRequest {
                    target: &target,
                    method: "CONNECT",
                    headers: &[],
                    body: false,
                };
                permitted.network().request(egress).await.unwrap();
                assert!(
                    call.nested()
                        .call("reader", json!({}))
                        .await
                        .unwrap()
                        .is_ok()
                );
                permitted.network().request(egress).await.unwrap();
                let target =
                    crate::network::RequestTarget::parse("https://other.example/").unwrap();
                let unlisted = crate::pipeline::OutgoingRequest {
                    target: &target,
                    ..egress
                };
                RawResult::from(
                    permitted
                        .network()
                        .request(unlisted)
                        .await
                        .map(|_| ToolOutput::default()),
                )
            })
        }
    }
    let mut reads = exec();
    reads.backend = Arc::new(ReadsBetween);
    reads.granted.tools = vec!["reader".into()];
    let listed = json!({"network": {"allowedHosts": ["registry.example"]}});
    let room = room(
        vec![reads, tool("reader")],
        listed,
        vec![ApprovalAnswer::Once, ApprovalAnswer::No],
    );
    assert!(!room.ok(json!({"command": "install left-pad"})).await);
    assert_eq!(room.asked(), 2);
}

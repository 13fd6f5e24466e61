//! Requests over a real workspace: settings, tools, audit log and questions in files.

use std::path::Path;
use std::time::SystemTime;

use mimir_console::{ConsoleRole, PolicyChange, PolicyEdit, PolicyEditFile};
use mimir_core::approval::{ApprovalAnswer, Approver, Card};
use mimir_core::{Call, CallContext, Pipeline, ToolErrorCode};

use super::*;
use mimir::settings::MergedSettings;
use mimir::user_dirs::UserDirs;
use mimir::workspace::WorkspaceFolder;

mod event_stream;
mod policy;
mod record;

/// Number of looks for a question, of which each takes some milliseconds.
const ATTEMPTS: usize = 5_000;

/// A workspace with its own folders of the user, and a console for it.
struct ConsoleFixture {
    folder: tempfile::TempDir,
    state: Arc<ConsoleState>,
    user_dirs: UserDirs,
}

const SETTINGS: &str = "# my rules
audit:
  logArgs: true
approvals:
  unattended: wait
tools:
  write_file:
    approval: ask
  edit_file:
    approval: ask
";

impl ConsoleFixture {
    fn new() -> Self {
        Self::with_settings(SETTINGS)
    }

    fn with_settings(settings: &str) -> Self {
        Self::create(settings, EditScope::AllSettings)
    }

    fn create(settings: &str, edits: EditScope) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("workspace");
        let config = folder.path().join("config");
        std::fs::create_dir_all(root.join(".mimir")).unwrap();
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join("config.yml"), settings).unwrap();
        let user_dirs = UserDirs {
            config: Some(config),
            cache: Some(std::env::temp_dir().join("mimir-test-console-cache")),
            ..UserDirs::default()
        };
        let workspace = WorkspaceFolder::find_beside(Some(&root), &user_dirs).unwrap();
        let setup = setup_in(&user_dirs, workspace);
        let WorkspaceConsole(state) =
            WorkspaceConsole::with_edits(&setup, LiveCallHub::default(), edits).unwrap();
        Self {
            folder,
            state,
            user_dirs,
        }
    }

    fn root(&self) -> &Path {
        self.state.workspace.folder().root()
    }

    fn setup(&self) -> HostSetup {
        setup_in(&self.user_dirs, self.state.workspace.folder().clone())
    }

    /// Creates a pipeline as a server has it, whose questions wait for the console.
    async fn pipeline(&self) -> Pipeline {
        let setup = self.setup();
        setup.workspace.make_state().unwrap();
        let snapshot = setup.load_snapshot().await.unwrap();
        let pipeline = setup.pipeline(snapshot, Arc::new(NoPerson));
        setup.share_questions(&pipeline);
        pipeline
    }

    async fn get(&self, request: ConsoleRequest) -> Value {
        self.try_get(request).await.unwrap()
    }

    async fn try_get(&self, request: ConsoleRequest) -> Result<Value, ToolError> {
        let console = WorkspaceConsole(Arc::clone(&self.state));
        console.handle(&admin(), request).await
    }

    async fn wait_for_question(&self) -> Value {
        // Fails if the call is not asked about.
        for _ in 0..ATTEMPTS {
            let questions = self.get(ConsoleRequest::Questions).await;
            if let Some(question) = questions["questions"].get(0) {
                return question.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("no question");
    }

    /// Adds the change that the call of a question would make now, without a stream of events.
    async fn with_preview(&self, question: &Value) -> Value {
        let id = question["id"].as_str().unwrap();
        let asked = self.state.questions.find(id).await.unwrap();
        let workspace = self.state.workspace.load().await.unwrap();
        self.state.previews.fill(&workspace, &asked).await;
        let mut question = question.clone();
        question["preview"] = self.state.previews.get(id).flatten().unwrap();
        question
    }

    async fn answer(&self, question: &Value, answer: QuestionAnswer) -> Result<Value, ToolError> {
        let id = question["id"].as_str().unwrap().to_owned();
        self.try_get(ConsoleRequest::AnswerQuestion { id, answer })
            .await
    }
}

fn setup_in(user_dirs: &UserDirs, workspace: WorkspaceFolder) -> HostSetup {
    let settings = MergedSettings::read(user_dirs, &workspace).unwrap();
    HostSetup::from_parts(user_dirs.clone(), workspace, settings)
}

fn admin() -> ConsoleUser {
    ConsoleUser {
        name: "ada on box".to_owned(),
        role: ConsoleRole::Admin,
        local: true,
    }
}

struct NoPerson;

impl Approver for NoPerson {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        let remedy = String::new();
        Box::pin(std::future::ready(ApprovalAnswer::Unattended { remedy }))
    }
}

fn call(tool: &str, arguments: Value) -> Call {
    let context = CallContext::new_session(SystemTime::now());
    Call::new(tool.to_owned(), arguments, context)
}

fn answer_to(question: &Value, kind: QuestionAnswerKind) -> QuestionAnswer {
    QuestionAnswer {
        fingerprint: question["card"]["fingerprint"].as_str().unwrap().to_owned(),
        answer: kind,
        preview: question["preview"]["digest"].as_str().map(str::to_owned),
        arguments: None,
        reason: None,
        pattern: None,
    }
}

fn edit(file: PolicyEditFile, key: &str, value: Value) -> PolicyEdit {
    let key = key.to_owned();
    PolicyEdit {
        file,
        changes: vec![PolicyChange {
            key,
            value,
            yaml: None,
        }],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn console_question_is_answered_and_its_call_is_on_record_and_undone() {
    let console = ConsoleFixture::new();
    std::fs::write(console.root().join("a.txt"), "one\ntwo\n").unwrap();
    let pipeline = console.pipeline().await;
    let arguments = json!({"path": "a.txt", "pattern": "two", "replacement": "2"});
    let request = call("edit_file", arguments);
    let id = request.context.request_id.to_string();
    let calling = tokio::spawn(async move { pipeline.call(request).await });

    let mut events = WorkspaceConsole(Arc::clone(&console.state)).events();
    let mut question = console.wait_for_question().await;
    assert_eq!(question["callId"], id.as_str());
    assert_eq!(question["labels"]["trust"], "system");
    // The events contain the question, first without and then with the change that it is about.
    let preview = loop {
        let event = events.next().await.unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        if event.kind == mimir_console::ConsoleEventKind::Question && data.get("preview").is_some()
        {
            break data["preview"].clone();
        }
    };
    let lines = preview["diff"][0]["lines"].as_array().unwrap();
    let removed = json!({"type": "remove", "text": "two"});
    let added = json!({"type": "add", "text": "2"});
    assert!(
        lines.contains(&removed) && lines.contains(&added),
        "{preview}"
    );

    question["preview"] = preview.clone();
    let mut other = answer_to(&question, QuestionAnswerKind::Once);
    other.fingerprint = "00".to_owned();
    let refused = console.answer(&question, other).await.unwrap_err();
    assert_eq!(refused.code, ToolErrorCode::Unavailable);
    let counted = console.answer(&question, answer_to(&question, QuestionAnswerKind::Once));
    assert_eq!(counted.await.unwrap()["counted"], true);
    let again = console.answer(&question, answer_to(&question, QuestionAnswerKind::No));
    assert_eq!(again.await.unwrap_err().code, ToolErrorCode::Unavailable);
    assert!(calling.await.unwrap().is_ok());
    let changed = std::fs::read_to_string(console.root().join("a.txt")).unwrap();
    assert_eq!(changed, "one\n2\n");

    let story = console
        .get(ConsoleRequest::CallStory { id: id.clone() })
        .await;
    assert_eq!(story["chain"]["state"], "intact", "{story}");
    assert_eq!(story["explanation"]["decision"], "ask");
    assert_eq!(story["undo"]["files"], json!(["a.txt"]));
    let record = console
        .get(ConsoleRequest::Record(RecordFilter {
            limit: 200,
            ..RecordFilter::default()
        }))
        .await;
    let entries = record["entries"].as_array().unwrap();
    let answered = |entry: &&Value| entry["event"] == "approval";
    let detail = entries.iter().find(answered).unwrap()["detail"]
        .as_str()
        .unwrap();
    assert!(detail.contains("ada on box at the console"), "{detail}");
    let charts = console.get(ConsoleRequest::Charts { days: 7 }).await;
    assert_eq!(charts["byTool"][0]["tool"], "edit_file");

    let details = console
        .get(ConsoleRequest::UndoDetails { id: id.clone() })
        .await;
    assert_eq!(
        details["diff"], preview["diff"],
        "the shown difference is the one that happened"
    );
    let undone = console.get(ConsoleRequest::Undo { id: id.clone() }).await;
    assert_eq!(undone["restored"], json!(["a.txt"]));
    let restored = std::fs::read_to_string(console.root().join("a.txt")).unwrap();
    assert_eq!(restored, "one\ntwo\n");
    let twice = console
        .try_get(ConsoleRequest::Undo { id })
        .await
        .unwrap_err();
    assert_eq!(twice.code, ToolErrorCode::AlreadyExists);
}

#[tokio::test(flavor = "multi_thread")]
async fn console_answer_no_tells_the_model_the_reason() {
    let console = ConsoleFixture::new();
    let pipeline = console.pipeline().await;
    let request = call("write_file", json!({"path": "a.txt", "content": "x"}));
    let calling = tokio::spawn(async move { pipeline.call(request).await });
    let question = console.wait_for_question().await;
    let mut answer = answer_to(&question, QuestionAnswerKind::No);
    answer.reason = Some("write to\u{202e} docs/ instead\nplease".to_owned());
    console.answer(&question, answer).await.unwrap();
    let outcome = calling.await.unwrap();
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ApprovalDenied);
    assert!(
        error
            .message
            .contains(r"a person said no, for this reason: write to\u{202e} docs/ instead please"),
        "{}",
        error.message
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn console_answer_always_takes_narrower_patterns_only() {
    let console = ConsoleFixture::new();
    let pipeline = console.pipeline().await;
    let again = pipeline.clone();
    let request = call("exec", json!({"command": "mkdir -p x/y"}));
    let calling = tokio::spawn(async move { pipeline.call(request).await });
    let question = console.wait_for_question().await;
    let Some(offered) = question["patterns"][0].as_str() else {
        panic!("{question}");
    };
    assert_eq!(question["commands"][0]["verdict"], "ask");
    let with_pattern = |pattern: &str| QuestionAnswer {
        pattern: Some(vec![pattern.to_owned()]),
        ..answer_to(&question, QuestionAnswerKind::Always)
    };
    let wider = console.answer(&question, with_pattern("rm *")).await;
    assert_eq!(wider.unwrap_err().code, ToolErrorCode::InvalidInput);
    assert_eq!(offered, "mkdir *");
    console
        .answer(&question, with_pattern("mkdir -p *"))
        .await
        .unwrap();
    calling.await.unwrap();
    let policy = console.get(ConsoleRequest::Policy).await;
    let unused = console.get(ConsoleRequest::LeastPrivilege).await;
    for approvals in [&policy["approvals"], &unused["unusedApprovals"]] {
        let [approval] = approvals.as_array().unwrap().as_slice() else {
            panic!("{approvals}");
        };
        assert_eq!(
            (
                &approval["tool"],
                &approval["pattern"],
                &approval["lastUsed"]
            ),
            (&json!("exec"), &json!("command `mkdir -p *`"), &Value::Null)
        );
        assert_eq!(approval["current"], true);
        let id = approval["id"].as_str().unwrap();
        let revoke = approval["command"].as_str().unwrap();
        let prefix = revoke.strip_prefix("mimir approvals revoke ").unwrap();
        assert!(!prefix.is_empty() && id.starts_with(prefix), "{revoke}");
    }
    let explained = again
        .explain(call("exec", json!({"command": "mkdir -p z"})))
        .await;
    assert!(explained.unwrap().stored_approval.is_some());
    let explained = again
        .explain(call("exec", json!({"command": "mkdir z"})))
        .await;
    assert!(explained.unwrap().stored_approval.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn console_revokes_a_stored_approval_once_and_the_next_call_asks_again() {
    let console = ConsoleFixture::new();
    let pipeline = console.pipeline().await;
    let request = || call("write_file", json!({"path": "a.txt", "content": "x"}));
    let start = || {
        let pipeline = pipeline.clone();
        let request = request();
        tokio::spawn(async move { pipeline.call(request).await })
    };
    let calling = start();
    let question = console.wait_for_question().await;
    let question = console.with_preview(&question).await;
    let always = answer_to(&question, QuestionAnswerKind::Always);
    console.answer(&question, always).await.unwrap();
    assert!(calling.await.unwrap().is_ok());
    assert!(pipeline.call(request()).await.is_ok());
    let policy = console.get(ConsoleRequest::Policy).await;
    let id = policy["approvals"][0]["id"].as_str().unwrap().to_owned();
    let stamp = stored_approvals::approvals_stamp(&console.setup());
    assert_eq!(stamp, id);
    let revoke = |id: &str| console.try_get(ConsoleRequest::RevokeApproval { id: id.to_owned() });
    for unknown in ["no such id", "\u{202e}"] {
        let error = revoke(unknown).await.unwrap_err();
        assert_eq!(error.code, ToolErrorCode::NotFound, "{error}");
    }
    assert_eq!(revoke(&id).await.unwrap(), Value::Null);
    let policy = console.get(ConsoleRequest::Policy).await;
    assert_eq!(policy["approvals"], json!([]));
    // Pages load the list again.
    let stamp = stored_approvals::approvals_stamp(&console.setup());
    assert_eq!(stamp, "");
    let error = revoke(&id).await.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::NotFound);
    assert!(error.message.contains("revoked already"), "{error}");
    let filter = RecordFilter {
        event: Some("revoke".to_owned()),
        limit: 10,
        ..RecordFilter::default()
    };
    let record = console.get(ConsoleRequest::Record(filter)).await;
    let details: Vec<&Value> = record["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["detail"])
        .collect();
    assert_eq!(
        details,
        ["1 remembered approvals, by ada on box at the console"]
    );
    let calling = start();
    let question = console.wait_for_question().await;
    let no = answer_to(&question, QuestionAnswerKind::No);
    console.answer(&question, no).await.unwrap();
    let outcome = calling.await.unwrap();
    assert_eq!(
        outcome.result().unwrap_err().code,
        ToolErrorCode::ApprovalDenied
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn console_policy_edit_is_shown_judged_and_written() {
    let console = ConsoleFixture::new();
    std::fs::write(console.root().join("a.txt"), "x").unwrap();
    let pipeline = console.pipeline().await;
    for _ in 0..3 {
        let outcome = pipeline
            .call(call("read_file", json!({"path": "a.txt"})))
            .await;
        assert!(outcome.is_ok());
    }
    let deny = edit(
        PolicyEditFile::User,
        "tools.read_file.approval",
        json!("deny"),
    );
    let judged = console
        .get(ConsoleRequest::WhatIf {
            edit: deny.clone(),
            days: 7,
        })
        .await;
    assert_eq!(
        (&judged["checked"], &judged["unjudged"]),
        (&json!(3), &json!(0)),
        "{judged}"
    );
    let [change] = judged["changes"].as_array().unwrap().as_slice() else {
        panic!("{judged}");
    };
    assert_eq!(
        (&change["before"], &change["after"], &change["count"]),
        (&json!("allow"), &json!("deny"), &json!(3))
    );

    let explained = console.get(ConsoleRequest::ExplainCall {
        tool: "read_file".to_owned(),
        arguments: json!({"path": "a.txt"}),
        edit: Some(deny.clone()),
    });
    assert_eq!(explained.await["decision"], "deny");

    let proposed = console
        .get(ConsoleRequest::ProposeEdit { edit: deny.clone() })
        .await;
    assert_eq!(proposed["problems"], json!([]), "{proposed}");
    let digest = proposed["digest"].as_str().unwrap().to_owned();
    let stale = ConsoleRequest::ApplyEdit {
        edit: deny.clone(),
        digest: "00".to_owned(),
    };
    assert_eq!(
        console.try_get(stale).await.unwrap_err().code,
        ToolErrorCode::Unavailable
    );
    let applied = console
        .get(ConsoleRequest::ApplyEdit { edit: deny, digest })
        .await;
    assert_eq!(applied["applied"], true);
    let text = std::fs::read_to_string(console.folder.path().join("config/config.yml")).unwrap();
    assert!(
        text.starts_with("# my rules\n") && text.contains("read_file"),
        "{text}"
    );
    let policy = console.get(ConsoleRequest::Policy).await;
    let rules = policy["layers"][0]["rules"].as_array().unwrap();
    let rule = rules
        .iter()
        .find(|rule| rule["rule"] == "tools.read_file.approval")
        .unwrap();
    assert_eq!(
        (&rule["decision"], rule["line"].is_u64()),
        (&json!("deny"), true)
    );

    let unknown = edit(PolicyEditFile::User, "tols.x", json!(1));
    let proposed = console
        .get(ConsoleRequest::ProposeEdit { edit: unknown })
        .await;
    assert_eq!(proposed["problems"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn console_lists_have_the_tools_servers_and_sessions() {
    let console = ConsoleFixture::new();
    let pipeline = console.pipeline().await;
    pipeline.call(call("list_directory", json!({}))).await;
    let tools = console.get(ConsoleRequest::Tools).await;
    let rows = tools["tools"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["name"] == "list_directory")
        .unwrap();
    assert_eq!(
        (&row["calls30d"], &row["trust"]["state"]),
        (&json!(1), &json!("built-in"))
    );
    let details = ConsoleRequest::ToolDetails {
        name: "edit_file".to_owned(),
    };
    assert_eq!(console.get(details).await["name"], "edit_file");
    let off = ConsoleRequest::SwitchTool {
        name: "edit_file".to_owned(),
        on: false,
    };
    assert_eq!(console.get(off).await["enabled"], false);
    let tools = console.get(ConsoleRequest::Tools).await;
    let rows = tools["tools"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "edit_file").unwrap();
    assert_eq!(row["enabled"], false);
    for request in [
        ConsoleRequest::State,
        ConsoleRequest::Calls,
        ConsoleRequest::Servers,
        ConsoleRequest::Sessions,
        ConsoleRequest::Workers,
        ConsoleRequest::Memory,
        ConsoleRequest::Packages,
        ConsoleRequest::UndoRecords,
        ConsoleRequest::LeastPrivilege,
        ConsoleRequest::VerifyRecord,
    ] {
        assert!(
            console.get(request.clone()).await.is_object(),
            "{request:?}"
        );
    }
    let unknown = ConsoleRequest::ControlServer {
        name: "none".to_owned(),
        action: ServerAction::Stop,
    };
    assert_eq!(
        console.try_get(unknown).await.unwrap_err().code,
        ToolErrorCode::NotFound
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn console_shows_the_problem_of_a_tool_that_is_left_out() {
    let console = ConsoleFixture::new();
    let tools = console.root().join(".mimir/tools");
    std::fs::create_dir_all(&tools).unwrap();
    let broken =
        "name: broken\ndescription: Prints.\nschema: {type: object}\nruntime: bashh\ncode: ls\n";
    std::fs::write(tools.join("broken.yml"), broken).unwrap();
    let greet = "name: greet\ndescription: Prints.\nschema: {type: object}\nruntime: bash\ncode: echo hello\n";
    std::fs::write(tools.join("greet.yml"), greet).unwrap();
    let list = console.get(ConsoleRequest::Tools).await;
    let name = "greet".to_owned();
    let shown = console.get(ConsoleRequest::ToolDetails { name }).await;
    assert_eq!(shown["sourceText"], greet);
    let [left_out] = list["quarantined"].as_array().unwrap().as_slice() else {
        panic!("{}", list["quarantined"]);
    };
    let location = left_out["location"].as_str().unwrap();
    let reason = left_out["reason"].as_str().unwrap();
    assert!(location.contains("broken.yml"), "{left_out}");
    assert!(reason.contains("bashh"), "{left_out}");
    let name = "broken".to_owned();
    let error = console.try_get(ConsoleRequest::ToolDetails { name }).await;
    let error = error.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::NotFound);
    assert!(error.message.contains(reason), "{}", error.message);
}

#[tokio::test]
async fn console_exports_wait_for_each_other() {
    let fixture = ConsoleFixture::new();
    let console = WorkspaceConsole(Arc::clone(&fixture.state));
    let limit = u32::try_from(EXPORTS).unwrap();
    let others = fixture.state.exports.acquire_many(limit).await;
    for filter in [
        RecordFilter {
            outcome: Some("great".to_owned()),
            ..RecordFilter::default()
        },
        RecordFilter {
            since: Some("yesterday".to_owned()),
            ..RecordFilter::default()
        },
    ] {
        let refused = console.export_record(filter).err().unwrap();
        assert_eq!(refused.code, ToolErrorCode::InvalidInput);
    }
    let mut waiting = console.export_record(RecordFilter::default()).unwrap();
    let first = tokio::time::timeout(Duration::from_millis(50), waiting.next());
    assert!(first.await.is_err(), "too many exports at a time");
    drop(others);
    // There is no log yet, so that the export ends without a line.
    let rest: Vec<_> = waiting.collect().await;
    assert!(rest.iter().all(Result::is_ok), "{rest:?}");
    // A client that is gone leaves no export behind.
    drop(console.export_record(RecordFilter::default()).unwrap());
    let all = fixture.state.exports.acquire_many(limit).await;
    assert!(all.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn console_answer_does_not_count_after_the_file_has_changed() {
    let console = ConsoleFixture::new();
    let file = console.root().join("a.txt");
    std::fs::write(&file, "one\n").unwrap();
    let pipeline = console.pipeline().await;
    let arguments = json!({"path": "a.txt", "pattern": "\n", "replacement": "\nend\n"});
    let calling = tokio::spawn(async move { pipeline.call(call("edit_file", arguments)).await });
    let mut events = WorkspaceConsole(Arc::clone(&console.state)).events();
    let mut question = console.wait_for_question().await;
    for content in ["one", "other"] {
        // Each page shows the question with the change that the call would make now.
        let shown = format!("\"text\":\"{content}\"");
        question = event_stream::next_question(&mut events, |question| {
            question.to_string().contains(&shown)
        })
        .await;
        if content == "one" {
            std::fs::write(&file, "other\n").unwrap();
            // The same answer once more comes from a page that still shows the old difference.
            for _ in 0..3 {
                let once = answer_to(&question, QuestionAnswerKind::Once);
                let error = console.answer(&question, once).await.unwrap_err();
                assert_eq!(error.code, ToolErrorCode::Unavailable);
                assert!(
                    error.message.contains("look at the difference again"),
                    "{error}"
                );
            }
        }
    }
    let counted = console.answer(&question, answer_to(&question, QuestionAnswerKind::Once));
    assert_eq!(counted.await.unwrap()["counted"], true);
    assert!(calling.await.unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn console_answer_counts_only_with_the_digest_of_the_shown_difference() {
    let console = ConsoleFixture::new();
    let file = console.root().join("a.txt");
    std::fs::write(&file, "one\n").unwrap();
    let pipeline = console.pipeline().await;
    let arguments = json!({"path": "a.txt", "pattern": "one", "replacement": "two"});
    let calling = tokio::spawn(async move { pipeline.call(call("edit_file", arguments)).await });
    let question = console.wait_for_question().await;
    let shown = console.with_preview(&question).await;
    let with = |preview: Option<&str>, kind| QuestionAnswer {
        preview: preview.map(str::to_owned),
        ..answer_to(&shown, kind)
    };
    // Not for a difference that was not shown, whether the console has the preview or not.
    let other = "0".repeat(64);
    for preview in [None, Some(""), Some(other.as_str())] {
        for kind in [
            QuestionAnswerKind::Once,
            QuestionAnswerKind::Session,
            QuestionAnswerKind::Always,
        ] {
            let refused = console.answer(&shown, with(preview, kind)).await;
            let error = refused.unwrap_err();
            assert_eq!(error.code, ToolErrorCode::Unavailable, "{preview:?}");
        }
    }
    // Many other questions do not make an old difference count.
    std::fs::write(&file, "evil one\n").unwrap();
    let previews = &console.state.previews;
    let workspace = console.state.workspace.load().await.unwrap();
    let mut asked = (console.state.questions)
        .find(shown["id"].as_str().unwrap())
        .await
        .unwrap();
    let id = asked.id.clone();
    for number in 0..300 {
        asked.id = format!("other-{number}");
        previews.fill(&workspace, &asked).await;
    }
    assert_eq!(previews.get(&id), None);
    let stale = console.answer(&shown, answer_to(&shown, QuestionAnswerKind::Once));
    assert_eq!(stale.await.unwrap_err().code, ToolErrorCode::Unavailable);
    let shown = console.with_preview(&question).await;
    let counted = console.answer(&shown, answer_to(&shown, QuestionAnswerKind::Once));
    assert_eq!(counted.await.unwrap()["counted"], true);
    assert!(calling.await.unwrap().is_ok());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "evil two\n");
}

//! Tests of a person's answers and their effects.

use jiff::Timestamp;

use super::*;
use crate::approval::{ApprovalStoreError, Fingerprint, StoredApproval};
use crate::needs::{DirectoryAccess, FileNeed, NeedKind};

pub(super) mod commands;
mod confirmed;
mod effects;
mod grants;
mod reach;
mod shared_sessions;

/// Gives these answers in turn, and records the cards.
#[derive(Default)]
struct Script {
    answers: Mutex<Vec<ApprovalAnswer>>,
    cards: Mutex<Vec<Card>>,
}

impl crate::approval::Approver for Script {
    fn ask<'a>(&'a self, card: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        self.cards.lock().push(card.clone());
        let mut answers = self.answers.lock();
        let answer = if answers.is_empty() {
            ApprovalAnswer::No
        } else {
            answers.remove(0)
        };
        drop(answers);
        Box::pin(async move {
            // Gives other callers time to join the open card.
            tokio::time::sleep(Duration::from_millis(20)).await;
            answer
        })
    }
}

#[derive(Default)]
struct Kept {
    leases: Mutex<Vec<StoredApproval>>,
    used: AtomicUsize,
    listed: Mutex<Vec<(String, Fingerprint)>>,
    grants: Mutex<Vec<String>>,
    withheld: Mutex<Vec<NeedKind>>,
}

impl ApprovalStore for Kept {
    fn approvals(&self) -> Result<Vec<StoredApproval>, ApprovalStoreError> {
        Ok(self.leases.lock().clone())
    }
    fn store(&self, lease: StoredApproval) -> Result<(), ApprovalStoreError> {
        self.leases.lock().push(lease);
        Ok(())
    }
    fn record_use(&self, _: &Fingerprint, _: Timestamp) {
        self.used.fetch_add(1, Ordering::SeqCst);
    }
    fn list_for_session(
        &self,
        session: &str,
        lease: &StoredApproval,
    ) -> Result<(), ApprovalStoreError> {
        let listed = (session.to_owned(), lease.id.clone());
        self.listed.lock().push(listed);
        Ok(())
    }
    fn listed_in_session(&self, session: &str) -> Result<Vec<Fingerprint>, ApprovalStoreError> {
        let all = self.listed.lock();
        let of_it = all.iter().filter(|(of, _)| of == session);
        Ok(of_it.map(|(_, id)| id.clone()).collect())
    }
    fn end_session(&self, session: &str) {
        self.listed.lock().retain(|(of, _)| of != session);
    }
    fn grant(&self, plugin: &[Arc<Tool>], withheld: &[NeedKind]) -> Result<(), ApprovalStoreError> {
        self.withheld.lock().extend(withheld);
        let names = plugin.iter().map(|tool| tool.origin.plugin.clone());
        self.grants.lock().extend(names);
        Ok(())
    }
}

struct Room {
    pipeline: Pipeline,
    script: Arc<Script>,
    ledger: Arc<Kept>,
    audit: Arc<Memory>,
}

fn room(tools: Vec<Tool>, config: Value, answers: Vec<ApprovalAnswer>) -> Room {
    let config: Config = serde_json::from_value(config).unwrap();
    let snapshot = PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::new(&config, "config.yml").unwrap(),
    };
    let script = Arc::new(Script {
        answers: Mutex::new(answers),
        ..Script::default()
    });
    let (ledger, audit) = (Arc::new(Kept::default()), Arc::new(Memory::default()));
    let ports = PipelinePorts {
        approver: script.clone(),
        approval_store: ledger.clone(),
        vault: Arc::new(Redactor::new()),
        audit: audit.clone(),
        clock: Arc::new(Std),
        runner: Arc::new(commands::Words),
        model: Arc::new(crate::language_model::NoLanguageModel),
    };
    Room {
        pipeline: Pipeline::new(snapshot, ports),
        script,
        ledger,
        audit,
    }
}

impl Room {
    async fn ok(&self, arguments: Value) -> bool {
        self.pipeline.call(call("sample", arguments)).await.is_ok()
    }

    fn asked(&self) -> usize {
        self.script.cards.lock().len()
    }
}

fn asking() -> Tool {
    let mut tool = tool("sample");
    tool.definition.approval = Decision::Ask;
    tool
}

#[tokio::test]
async fn approval_once_covers_one_call_and_session_lasts() {
    let room = room(
        vec![asking()],
        json!({}),
        vec![ApprovalAnswer::Once, ApprovalAnswer::Session],
    );
    assert!(room.ok(json!({"n": 1})).await);
    assert!(room.ok(json!({"n": 1})).await);
    assert!(room.ok(json!({"n": 1})).await);
    assert_eq!(room.asked(), 2, "the third call is covered");
    assert!(
        !room.ok(json!({"n": 2})).await,
        "the session approval covers other arguments"
    );
    room.pipeline.end_session("session");
    assert!(!room.ok(json!({"n": 1})).await, "the session has ended");
    let events = room.audit.events.lock();
    let answers: Vec<_> = events
        .iter()
        .map(|event| {
            let word = |key: &str| event[key].as_str().unwrap().to_owned();
            [word("event"), word("answer")].join(" ")
        })
        .collect();
    assert_eq!(
        answers,
        [
            "call once",
            "approval session",
            "call session",
            "call session lease",
            "call no",
            "call no"
        ]
    );
    let shown = room.script.cards.lock()[1].fingerprint.clone();
    assert_eq!(events[1]["subject"], shown.as_str());
    assert!(!events[1].to_string().contains("\"n\""), "no arguments");
}

#[tokio::test]
async fn approval_refusal_tells_the_model_the_reason_of_the_person() {
    let reason = format!("use\u{202e} docs/\ninstead {}", "x".repeat(1_000));
    let answers = vec![ApprovalAnswer::NoBecause(reason)];
    let room = room(vec![asking()], json!({}), answers);
    let outcome = room.pipeline.call(call("sample", json!({}))).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(error.code, ToolErrorCode::ApprovalDenied);
    let expected = r"a person said no, for this reason: use\u{202e} docs/ instead xxx";
    assert!(error.message.contains(expected), "{}", error.message);
    assert!(error.message.len() < 500, "{}", error.message);
    assert_eq!(room.audit.events.lock()[0]["answer"], "no");
}

#[tokio::test]
async fn approval_card_links_to_untrusted_results_of_the_session() {
    let mut asking = asking();
    asking.source = ToolSource::BuiltIn;
    let room = room(vec![asking, tool("reader")], json!({}), vec![]);
    let read = call("reader", json!({}));
    let read_id = read.context.request_id.to_string();
    assert!(room.pipeline.call(read).await.is_ok());
    let asked = call("sample", json!({"n": 1}));
    let asked_id = asked.context.request_id.to_string();
    room.pipeline.call(asked).await;
    let mut other = call("sample", json!({"n": 1}));
    other.context.session_id = "other".to_owned();
    room.pipeline.call(other).await;
    let cards = room.script.cards.lock();
    let facts = &cards[0].facts;
    assert_eq!(
        (&facts.call_id, facts.session.as_str()),
        (&asked_id, "session")
    );
    let [untrusted] = facts.untrusted.as_slice() else {
        panic!("{facts:?}");
    };
    assert_eq!(
        (&untrusted.call_id, untrusted.origin.as_str()),
        (&read_id, "custom:reader")
    );
    assert_eq!(cards[1].facts.untrusted, []);
    let covers = facts.covers.as_ref().unwrap();
    assert!(covers.covers(&json!({"n": 1})) && !covers.covers(&json!({"n": 2})));
    let events = room.audit.events.lock();
    assert_eq!(
        (&events[0]["trust"], &events[1]["trust"]),
        (&json!("untrusted"), &Value::Null)
    );
    // Older processes store cards without facts.
    let mut stored = serde_json::to_value(&cards[0]).unwrap();
    stored.as_object_mut().unwrap().remove("facts");
    let read: Card = serde_json::from_value(stored).unwrap();
    assert!(read.facts.is_empty());
}

#[tokio::test]
async fn approval_card_shows_lines_with_invisible_characters() {
    let mut asking = asking();
    let schema =
        r#"{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"string"}}}"#;
    asking.definition.input_schema = Schema::parse(schema).unwrap();
    let room = room(vec![asking], json!({}), vec![]);
    let arguments = json!({"text": "a\u{200b}b\nc\u{202e}d\n", "n": "e\u{200b}\u{9b}\u{202e}f"});
    assert!(!room.ok(arguments.clone()).await);
    let cards = room.script.cards.lock();
    let card = &cards[0];
    assert_eq!(
        card.readable_arguments(80),
        [
            "{",
            "  \"text\": text of 2 lines",
            "  | a\\u{200b}b",
            "  | c\\u{202e}d",
            r#"  "n": "e\u200b\u009b\u202ef""#,
            "}",
        ]
    );
    let hidden = ['\u{200b}', '\u{9b}', '\u{202e}'];
    assert!(!card.arguments.contains(hidden), "{}", card.arguments);
    let shown: Value = serde_json::from_str(&card.arguments).unwrap();
    assert_eq!(shown, arguments, "the arguments to edit");
}

#[tokio::test]
async fn approval_for_session_can_be_revoked() {
    let answers = vec![ApprovalAnswer::Session, ApprovalAnswer::Session];
    let room = room(vec![asking()], json!({}), answers);
    assert!(room.ok(json!({"n": 1})).await);
    assert!(room.ok(json!({"n": 2})).await);
    let first = room.ledger.listed.lock().remove(0);
    assert_eq!(first.0, "session");
    assert!(!room.ok(json!({"n": 1})).await, "it is asked again");
    assert!(room.ok(json!({"n": 2})).await, "the other one stands");
    // Putting it back into the list does not restore the answer.
    room.ledger.listed.lock().push(first);
    assert!(!room.ok(json!({"n": 1})).await);
    room.pipeline.end_session("session");
    assert!(room.ledger.listed.lock().is_empty());
}

#[tokio::test]
async fn approval_always_is_stored_as_shown() {
    let room = room(vec![asking()], json!({}), vec![ApprovalAnswer::Always]);
    assert!(room.ok(json!({"n": 1})).await);
    assert_eq!(
        room.script.cards.lock()[0].always.as_ref().unwrap().text,
        "allow `sample` with n=1"
    );
    room.pipeline.end_session("session");
    assert!(room.ok(json!({"n": 1})).await);
    assert!(!room.ok(json!({"n": 2})).await);
    assert_eq!(room.ledger.used.load(Ordering::SeqCst), 1);
    let life = room.ledger.leases.lock()[0].expires_at.unwrap();
    assert!(life > Timestamp::now());
}

#[tokio::test]
async fn approval_always_expires_after_the_lease_days() {
    let more_than_a_day = jiff::SignedDuration::from_hours(25);
    for (config, still) in [
        (json!({}), true),
        (json!({"approvals": {"leaseDays": 2}}), true),
        (json!({"approvals": {"leaseDays": 1}}), false),
    ] {
        let room = room(vec![asking()], config, vec![ApprovalAnswer::Always]);
        assert!(room.ok(json!({"n": 1})).await);
        for lease in room.ledger.leases.lock().iter_mut() {
            lease.added_at -= more_than_a_day;
            lease.expires_at = lease.expires_at.map(|end| end - more_than_a_day);
        }
        assert_eq!(room.ok(json!({"n": 1})).await, still);
    }
}

#[tokio::test]
async fn approval_always_does_not_cover_new_rules() {
    let room = room(vec![asking()], json!({}), vec![ApprovalAnswer::Always]);
    assert!(room.ok(json!({"n": 1})).await);
    let config = json!({"policy": {"rules": [{"when": {"n": {"min": 0}}, "decision": "ask"}]}});
    let config: Config = serde_json::from_value(config).unwrap();
    let snapshot = |config| PipelineSnapshot {
        registry: Registry::new(vec![asking()], vec![]),
        policy: Policy::new(config, "config.yml").unwrap(),
    };
    room.pipeline.replace(snapshot(&config));
    assert!(
        !room.ok(json!({"n": 1})).await,
        "the stored approval covers a new rule"
    );
    let denying = json!({"policy": {"deny": ["sample"]}});
    room.pipeline
        .replace(snapshot(&serde_json::from_value(denying).unwrap()));
    let outcome = room.pipeline.call(call("sample", json!({"n": 1}))).await;
    assert_eq!(
        code(&outcome),
        Some(ToolErrorCode::PolicyDenied),
        "the stored approval lifts a denial"
    );
}

#[tokio::test]
async fn approval_edited_arguments_are_checked_again() {
    let edits = |to: Value| vec![ApprovalAnswer::Edit(to), ApprovalAnswer::Once];
    let bad = room(vec![asking()], json!({}), edits(json!({"n": "x"})));
    let outcome = bad.pipeline.call(call("sample", json!({"n": 1}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::InvalidInput));

    let rules = json!({"policy": {"rules": [{"when": {"n": {"min": 5}}, "decision": "deny"}]}});
    let denied = room(vec![asking()], rules, edits(json!({"n": 7})));
    let outcome = denied.pipeline.call(call("sample", json!({"n": 1}))).await;
    assert_eq!(code(&outcome), Some(ToolErrorCode::PolicyDenied));

    let good = room(
        vec![asking()],
        json!({"audit": {"logArgs": true}}),
        edits(json!({"n": 12})),
    );
    assert!(good.ok(json!({"n": 1})).await);
    let cards = good.script.cards.lock();
    assert_eq!(cards.len(), 2, "what runs is what was shown last");
    assert!(cards[1].arguments.contains("12"));
    let events = good.audit.events.lock();
    assert_eq!(
        (&events[0]["event"], &events[0]["answer"]),
        (&json!("approval"), &json!("edit"))
    );
    assert_eq!(events[1]["bytesIn"], r#"{"n":12}"#.len());
}

#[tokio::test]
async fn approval_identical_calls_share_a_card() {
    for (answer, is_idempotent, cards) in [
        (ApprovalAnswer::Session, false, 2),
        (ApprovalAnswer::No, false, 2),
        (ApprovalAnswer::Once, true, 2),
        (ApprovalAnswer::Once, false, 3),
    ] {
        let mut tool = asking();
        tool.trust = ToolTrust::Trusted;
        tool.definition.hints.idempotent = is_idempotent;
        let is_yes = answer != ApprovalAnswer::No;
        let room = room(vec![tool], json!({}), vec![answer.clone(); 3]);
        let one = room.ok(json!({"n": 1}));
        let same = room.ok(json!({"n": 1}));
        let other = room.ok(json!({"n": 2}));
        let all = tokio::join!(one, same, other);
        assert_eq!(all, (is_yes, is_yes, is_yes), "{answer:?}");
        assert_eq!(room.asked(), cards, "{answer:?}, {is_idempotent}");
    }
}

#[tokio::test]
async fn approval_for_one_call_runs_one_of_several_identical_calls() {
    let answers = vec![
        ApprovalAnswer::Once,
        ApprovalAnswer::Once,
        ApprovalAnswer::NoBecause("enough".to_owned()),
    ];
    let room = room(vec![asking()], json!({}), answers);
    let call = || room.ok(json!({"n": 1}));
    let all = tokio::join!(call(), call(), call(), call(), call());
    let all = [all.0, all.1, all.2, all.3, all.4];
    assert_eq!(all.iter().filter(|ran| **ran).count(), 2);
    assert_eq!(room.asked(), 3, "the no is for all that still wait");
    // An answer that covers the others is shared.
    let answers = vec![ApprovalAnswer::Once, ApprovalAnswer::Session];
    let room = super::approvals::room(vec![asking()], json!({}), answers);
    let call = || room.ok(json!({"n": 1}));
    let all = tokio::join!(call(), call(), call(), call(), call());
    assert_eq!(all, (true, true, true, true, true));
    assert_eq!(room.asked(), 2);
}

#[tokio::test]
async fn approval_card_of_a_dropped_call_is_asked_again() {
    let room = room(
        vec![asking()],
        json!({}),
        vec![ApprovalAnswer::Once, ApprovalAnswer::Once],
    );
    // Biased: if the machine is busy, the question may have its answer when the time is over.
    let gone = async {
        tokio::select! {
            biased;
            () = tokio::time::sleep(Duration::from_millis(5)) => true,
            _ = room.ok(json!({})) => false,
        }
    };
    let (gone, second) = tokio::join!(gone, room.ok(json!({})));
    assert!(gone);
    assert!(second);
    assert_eq!(room.asked(), 2);
}

#[tokio::test]
async fn approval_always_for_a_missing_grant_stores_a_grant() {
    let mut stranger = tool("sample");
    stranger.trust = ToolTrust::Untrusted;
    stranger.definition.needs.tools = vec!["other".into()];
    let room = room(vec![stranger], json!({}), vec![ApprovalAnswer::Always]);
    assert!(room.ok(json!({"n": 1})).await);
    assert!(room.ok(json!({"n": 2})).await, "a grant is for every call");
    assert_eq!(*room.ledger.grants.lock(), ["sample"]);
    let cards = room.script.cards.lock();
    let always = cards[0].always.as_ref().unwrap();
    assert!(always.text.starts_with("grant this build of `sample`"));
    assert_eq!(always.grants, ["`sample` may call the tool `other`"]);
    assert_eq!(cards[0].grants, ["call the tool `other`"]);
    let events = room.audit.events.lock();
    assert_eq!(events[0]["event"], "grant");
    assert_eq!(
        (&events[0]["subject"], &events[0]["detail"]),
        (&json!("sample.wasm"), &json!("sha256 00"))
    );
}

#[tokio::test]
async fn approval_chain_timeout_is_told_to_the_model() {
    struct Absent;
    impl crate::approval::Approver for Absent {
        fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
            Box::pin(std::future::pending())
        }
    }
    let nobody = Fixed(
        ApprovalAnswer::Unattended {
            remedy: "first".into(),
        },
        AtomicUsize::new(0),
    );
    let chain = |last: Arc<dyn crate::approval::Approver>| {
        let approvers = vec![
            Arc::new(Fixed(nobody.0.clone(), AtomicUsize::new(0))) as _,
            last,
        ];
        crate::approval::ApproverChain::new(
            approvers,
            Some(Duration::from_millis(20)),
            Arc::new(Std),
        )
    };
    let room = room(vec![asking()], json!({}), vec![ApprovalAnswer::Once]);
    let call = || room.pipeline.call(call("sample", json!({})));
    let mut ports = room.pipeline.0.ports.clone();
    assert!(call().await.is_ok());
    let card = room.script.cards.lock()[0].clone();
    ports.approver = Arc::new(chain(Arc::new(Absent)));
    let timeout = Duration::from_millis(20);
    let expired = ApprovalAnswer::Expired { timeout };
    assert_eq!(ports.approver.ask(&card).await, expired);
    let pipeline = Pipeline::new(
        PipelineSnapshot {
            registry: Registry::new(vec![asking()], vec![]),
            policy: Policy::default(),
        },
        ports,
    );
    let outcome = pipeline.call(super::call("sample", json!({}))).await;
    let error = outcome.result().unwrap_err();
    assert_eq!(
        error.message,
        "`sample` needs approval, and no person answered the question within 0.02 s"
    );
    let remedy = &error.remedies[0];
    assert!(remedy.contains("approvals.timeoutMs"), "{remedy}");
    {
        let events = room.audit.events.lock();
        let event = events.last().unwrap();
        assert_eq!(event["answer"], "nobody");
        assert!(event["waitedMs"].as_u64().unwrap() >= 20, "{event}");
    }
    let yes = chain(Arc::new(Fixed(ApprovalAnswer::Once, AtomicUsize::new(0))));
    use crate::approval::Approver as _;
    assert_eq!(
        yes.ask(&card).await,
        ApprovalAnswer::Once,
        "the chain does not ask the next approver if the first is unattended"
    );
}

#[tokio::test]
async fn approval_asks_the_approver_of_the_caller_first() {
    struct Window(Fixed);
    impl crate::call::CallObserver for Window {
        fn progress(&self, _: crate::call::CallProgress) {}
        fn log(&self, _: crate::call::LogLine) {}
        fn approver(&self) -> Option<&dyn crate::approval::Approver> {
            Some(&self.0)
        }
    }
    let room = room(vec![asking()], json!({}), vec![]);
    let window = Arc::new(Window(Fixed(ApprovalAnswer::Once, AtomicUsize::new(0))));
    let mut asked = call("sample", json!({}));
    asked.observer = Arc::clone(&window) as Arc<_>;
    assert!(room.pipeline.call(asked).await.is_ok());
    assert_eq!(window.0.1.load(Ordering::SeqCst), 1);
    assert!(room.script.cards.lock().is_empty());
}

/// The time that the slow approver takes to answer.
const THOUGHT: Duration = Duration::from_secs(1);

/// An approver that waits and then approves.
struct Thinker;

impl crate::approval::Approver for Thinker {
    fn ask<'a>(&'a self, _: &'a Card) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async {
            tokio::time::sleep(THOUGHT).await;
            ApprovalAnswer::Once
        })
    }
}

#[tokio::test]
async fn receipt_duration_excludes_approval_time() {
    let mut outer = with(
        "outer",
        Fake {
            nested: Some("sample"),
            ..Fake::default()
        },
    );
    outer.trust = ToolTrust::Trusted;
    outer.definition.needs.tools = vec!["sample".into()];
    outer.granted = outer.definition.needs.clone();
    let tools = vec![asking(), outer, tool("denied")];
    let denied = json!({"policy": {"deny": ["denied"]}});
    let mut bench = bench(tools.clone(), denied.clone(), ApprovalAnswer::No);
    let ports = PipelinePorts {
        approver: Arc::new(Thinker),
        ..bench.pipeline.0.ports.clone()
    };
    let config = serde_json::from_value(denied).unwrap();
    let snapshot = PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::new(&config, "config.yml").unwrap(),
    };
    bench.pipeline = Pipeline::new(snapshot, ports);
    let pipeline = &bench.pipeline;
    let own = |took: f64| took > 0.0 && took < THOUGHT.as_secs_f64() * 500.0;
    for name in ["sample", "outer", "denied", "missing"] {
        let outcome = pipeline.call(call(name, json!({}))).await;
        let took = outcome.receipt().duration_ms;
        assert!(own(took), "{name}: {took} ms");
    }

    // Cancelled while the question is open.
    let early = tokio::time::timeout(THOUGHT * 2 / 3, pipeline.call(call("sample", json!({}))));
    assert!(early.await.is_err());
    let events = bench.audit.events.lock();
    let last = events.last().unwrap();
    assert_eq!(last["code"], "CANCELLED");
    assert!(own(last["durationMs"].as_f64().unwrap()), "{last}");
}

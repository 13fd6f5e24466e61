//! Tests of commands that are asked about each time, and of their network access.

use super::commands::installer;
use super::*;
use crate::command::{CommandProgram, CommandRequest, CommandTarget};
use crate::needs::HostNeed;
use crate::network::RequestTarget;
use crate::pipeline::{CommandEgress, CommandQuestion, ConfirmedCommand, OutgoingRequest};

/// Looks up a package, and then installs it.
struct Installs {
    /// Method, URL and body of a request that the lookup makes in addition.
    other: Option<(&'static str, &'static str, bool)>,
}

async fn send(
    egress: &CommandEgress,
    (method, url, body): (&str, &str, bool),
) -> Result<(), ToolError> {
    let target = RequestTarget::parse(url).unwrap();
    let request = OutgoingRequest {
        target: &target,
        method,
        headers: &[],
        body,
    };
    egress.request(request).await.map(|_| ())
}

impl Backend for Installs {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let effects = call.effects();
            let egress = effects.limited_egress(vec![HostNeed {
                host: "registry.example".to_owned(),
                methods: ["CONNECT", "GET"].map(str::to_owned).into(),
                reason: String::new(),
            }]);
            assert!(egress.is_limited());
            let steps = async {
                let lookup = ("GET", "https://registry.example/left-pad", false);
                send(&egress, lookup).await?;
                if let Some(other) = self.other {
                    send(&egress, other).await?;
                }
                let program = ["install", "left-pad@1.3.0"].map(str::to_owned);
                let finished = effects.run_confirmed(ConfirmedCommand {
                    request: CommandRequest {
                        program: CommandProgram::Vector(program.into()),
                        directory: None,
                        environment: Vec::new(),
                        stdin: Vec::new(),
                        timeout: None,
                        target: CommandTarget::Default,
                    },
                    question: CommandQuestion {
                        summary: "install left-pad 1.3.0".to_owned(),
                        risks: vec!["it is old".to_owned()],
                        reason: "each installation is asked about".to_owned(),
                    },
                    egress: egress.clone(),
                });
                finished.await?;
                Ok(ToolOutput::default())
            };
            RawResult::from(steps.await)
        })
    }
}

fn install_tool(name: &str, other: Option<(&'static str, &'static str, bool)>) -> Tool {
    let mut tool = installer(&["install *"]);
    tool.definition.name = ToolName::new(name).unwrap();
    tool.definition.approval = Decision::Allow;
    tool.source = ToolSource::BuiltIn;
    tool.backend = Arc::new(Installs { other });
    tool
}

/// The test runner runs nothing, so the error of a command that was approved is that of the runner.
async fn code(room: &Room, name: &str) -> ToolErrorCode {
    let outcome = room.pipeline.call(call(name, json!({}))).await;
    outcome.result.unwrap_err().code
}

#[tokio::test]
async fn confirmed_command_is_asked_about_each_time_whatever_is_allowed() {
    let name = "install_package";
    let config = json!({
        "execApprovals": {"mode": "full"},
        "tools": {name: {"approval": "allow", "labels": {"acceptsUntrusted": true}}},
    });
    let room = room(
        vec![install_tool(name, None)],
        config,
        vec![ApprovalAnswer::Always, ApprovalAnswer::Session],
    );
    assert_eq!(code(&room, name).await, ToolErrorCode::Unavailable);
    assert_eq!(code(&room, name).await, ToolErrorCode::Unavailable);
    assert_eq!(code(&room, name).await, ToolErrorCode::ApprovalDenied);
    assert_eq!(room.asked(), 3, "an approval was remembered");
    let cards = room.script.cards.lock();
    let card = &cards[0];
    assert_eq!(card.summary, "install left-pad 1.3.0");
    assert_eq!(card.risks[0], "it is old");
    assert!(card.arguments.contains("left-pad@1.3.0"), "{card:?}");
    assert_eq!((card.always.as_ref(), card.editable), (None, false));
    drop(cards);
    // The lookup is on record, and was not asked about although the host is not listed.
    let events = room.audit.events.lock();
    let lookups = events
        .iter()
        .filter(|event| event["subject"] == "GET https://registry.example");
    assert_eq!(lookups.count(), 3);
}

#[tokio::test]
async fn confirmed_command_reaches_no_other_host() {
    for other in [
        ("GET", "https://evil.example/x", false),
        ("CONNECT", "https://evil.example/", false),
        ("POST", "https://registry.example/x", true),
        ("PUT", "https://registry.example/x", false),
    ] {
        let tool = install_tool("install_package", Some(other));
        // Elsewhere, this setting asks about hosts that a tool was not granted.
        let asks = json!({"level": "allow", "conditions": {"unknownHostRequiresApproval": true}});
        let config = json!({"tools": {"install_package": {"approval": asks}}});
        let room = room(vec![tool], config, vec![ApprovalAnswer::Always]);
        let outcome = room.pipeline.call(call("install_package", json!({}))).await;
        let error = outcome.result.unwrap_err();
        assert_eq!(
            error.code,
            ToolErrorCode::PolicyDenied,
            "{other:?}: {error}"
        );
        // The lookup was asked about, because of the setting.
        let cards = room.script.cards.lock();
        let [card] = cards.as_slice() else {
            panic!("{other:?}: {cards:#?}")
        };
        assert!(card.arguments.contains("left-pad"), "{card:#?}");
    }
}

#[tokio::test]
async fn confirmed_command_obeys_denied_hosts_and_commands() {
    for config in [
        json!({"network": {"mode": "none"}}),
        json!({"execApprovals": {"mode": "deny"}}),
    ] {
        let tool = install_tool("install_package", None);
        let room = room(vec![tool], config, vec![ApprovalAnswer::Always]);
        let denied = code(&room, "install_package").await;
        assert_eq!(denied, ToolErrorCode::PolicyDenied);
        assert_eq!(room.asked(), 0);
    }
}

//! Tests of cards that offer a grant.

use super::*;

/// Creates a plugin with two tools. `changes` are the changes since its grant.
fn plugin(changes: Option<crate::grants::GrantChanges>) -> Vec<Tool> {
    let mut tools = ["sample", "quiet_one"].map(|name| {
        let mut tool = tool(name);
        tool.trust = ToolTrust::Untrusted;
        tool.changes = changes.clone();
        let mut origin = (*tool.origin).clone();
        origin.location = "both.wasm".into();
        origin.plugin = "both".into();
        origin.proofs = vec!["cannot run commands".into()];
        tool.origin = Arc::new(origin);
        tool.definition.needs.files = vec![FileNeed {
            path: name.into(),
            access: DirectoryAccess::ReadWrite,
            reason: format!("keeps {name}"),
        }];
        tool
    });
    tools[1].definition.needs.tools = vec!["other".into()];
    tools.into()
}

fn widened(withheld: Vec<NeedKind>) -> Option<crate::grants::GrantChanges> {
    Some(crate::grants::GrantChanges {
        lines: vec!["now `sample` may read and write `sample`".into()],
        withheld,
    })
}

#[tokio::test]
async fn grant_card_shows_all_needs_of_the_plugin() {
    let room = room(plugin(None), json!({}), vec![ApprovalAnswer::Always]);
    assert!(room.ok(json!({})).await);
    let cards = room.script.cards.lock();
    assert_eq!(cards[0].grants, ["read and write `sample` — keeps sample"]);
    assert_eq!(cards[0].proofs, ["cannot run commands"]);
    let mut shown = cards[0].always.clone().unwrap().grants;
    shown.sort();
    assert_eq!(
        shown,
        [
            "`quiet_one` may call the tool `other`",
            "`quiet_one` may read and write `quiet_one` — keeps quiet_one",
            "`sample` may read and write `sample` — keeps sample",
        ]
    );
}

#[tokio::test]
async fn grant_always_answer_leaves_withheld_needs_out() {
    let room = room(
        plugin(widened(vec![NeedKind::Files])),
        json!({}),
        vec![ApprovalAnswer::Always],
    );
    assert!(room.ok(json!({})).await);
    assert_eq!(*room.ledger.withheld.lock(), [NeedKind::Files]);
    let cards = room.script.cards.lock();
    let always = cards[0].always.as_ref().unwrap();
    assert!(cards[0].grants.is_empty());
    assert_eq!(always.grants, ["`quiet_one` may call the tool `other`"]);
    assert_eq!(always.withheld, ["files"]);
    assert!(always.text.contains("except files"), "{always:?}");
    let events = room.audit.events.lock();
    assert_eq!(events[0]["detail"], "sha256 00, without files");
}

#[tokio::test]
async fn grant_widening_is_not_approved_in_advance() {
    for (changes, runs) in [
        (None, true),
        (Some(crate::grants::GrantChanges::default()), true),
        (widened(vec![]), false),
    ] {
        let bench = bench(plugin(changes), json!({}), ApprovalAnswer::InAdvance);
        let outcome = bench.pipeline.call(call("sample", json!({}))).await;
        assert_eq!(outcome.is_ok(), runs);
        if let Err(error) = outcome.result() {
            assert_eq!(error.code, ToolErrorCode::ApprovalDenied);
            assert!(error.remedies[0].contains("mimir tools trust sample"));
        }
    }
    let room = room(
        plugin(widened(vec![])),
        json!({}),
        vec![ApprovalAnswer::Once],
    );
    assert!(room.ok(json!({})).await);
    let cards = room.script.cards.lock();
    assert_eq!(
        cards[0].changes,
        ["now `sample` may read and write `sample`"]
    );
}

/// Lists the tools again, with the stored grants.
fn listed(tools: Vec<Tool>) -> PipelineSnapshot {
    PipelineSnapshot {
        registry: Registry::new(tools, vec![]),
        policy: Policy::default(),
    }
}

#[tokio::test]
async fn grant_revocation_applies_to_a_running_pipeline() {
    let room = room(plugin(None), json!({}), vec![ApprovalAnswer::Always]);
    assert!(room.ok(json!({})).await);
    assert!(
        room.ok(json!({})).await,
        "the new grant does not apply before the tools are listed again"
    );
    assert_eq!(room.asked(), 1);
    // `mimir tools revoke` has taken it out of the lock.
    room.pipeline.replace(listed(plugin(None)));
    assert!(!room.ok(json!({})).await);
    assert_eq!(room.asked(), 2);
}

#[tokio::test]
async fn grant_that_is_not_stored_applies_to_one_call() {
    let bench = bench(plugin(None), json!({}), ApprovalAnswer::Always);
    let one = || bench.pipeline.call(call("sample", json!({})));
    assert!(one().await.is_ok());
    assert!(one().await.is_ok());
    assert_eq!(bench.approver.1.load(Ordering::SeqCst), 2);
}

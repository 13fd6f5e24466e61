//! Tests of the coverage of an approval, and of the texts of a refusal that models and persons see.

use super::*;

#[tokio::test]
async fn approval_is_separate_for_each_caller() {
    let nesting = |name| {
        let nested = Fake {
            nested: Some("sample"),
            ..Fake::default()
        };
        let mut outer = with(name, nested);
        outer.trust = ToolTrust::Trusted;
        outer.granted.tools = vec!["sample".into()];
        outer
    };
    let room = room(
        vec![asking(), nesting("outer"), nesting("another")],
        json!({}),
        vec![ApprovalAnswer::Always, ApprovalAnswer::Always],
    );
    assert!(room.ok(json!({})).await);
    let call = |tool: &'static str| room.pipeline.call(call(tool, json!({})));
    assert!(call("outer").await.is_ok());
    assert_eq!(
        room.asked(),
        2,
        "the approval of an agent's call covers a plugin's call"
    );
    {
        let cards = room.script.cards.lock();
        assert_eq!(cards[1].caller.as_deref(), Some("outer"));
        let always = cards[1].always.as_ref().unwrap();
        assert!(
            always.text.ends_with("called by `outer` as here"),
            "{always:?}"
        );
    }
    assert!(call("outer").await.is_ok() && room.ok(json!({})).await);
    assert_eq!(room.asked(), 2);
    assert!(!call("another").await.is_ok());
    assert_eq!(room.asked(), 3, "nor one plugin's for another");
}

#[tokio::test]
async fn approval_of_built_in_delete_is_asked_each_time() {
    let mut delete = asking();
    delete.definition.name = ToolName::new("delete_file").unwrap();
    let mut stranger = delete.clone();
    delete.source = ToolSource::BuiltIn;
    let delete = room(
        vec![delete],
        json!({}),
        vec![ApprovalAnswer::Always, ApprovalAnswer::Session],
    );
    async fn ask(room: &Room) -> Outcome {
        room.pipeline.call(call("delete_file", json!({}))).await
    }
    assert!(ask(&delete).await.is_ok() && ask(&delete).await.is_ok());
    assert!(!ask(&delete).await.is_ok(), "nothing was remembered");
    assert_eq!(delete.script.cards.lock()[0].always, None);
    assert!(delete.ledger.leases.lock().is_empty());
    stranger.source = ToolSource::Custom;
    let stranger = room(vec![stranger], json!({}), vec![ApprovalAnswer::Always]);
    assert!(ask(&stranger).await.is_ok() && ask(&stranger).await.is_ok());
}

#[tokio::test]
async fn approval_of_an_assessment_names_its_scope_or_covers_one_call() {
    for (each_time, expected) in [(false, 1), (true, 3)] {
        let judging = Fake {
            assess: Some(Decision::Ask),
            assess_each_time: each_time,
            ..Fake::default()
        };
        let mut judging = with("sample", judging);
        judging.assessed = true;
        let answers = vec![ApprovalAnswer::Always; 3];
        let room = room(vec![judging], json!({}), answers);
        for _ in 0..3 {
            assert!(room.ok(json!({})).await);
        }
        assert_eq!(room.asked(), expected, "each time: {each_time}");
        let cards = room.script.cards.lock();
        let always = cards[0].always.as_ref();
        assert_eq!(always.is_none(), each_time);
        assert!(
            always.is_none_or(|always| always.text.contains(", on https://a.example")),
            "{always:?}"
        );
    }
}

#[tokio::test]
async fn approval_is_bound_to_the_rule_that_asked() {
    let asked = |value: i64| {
        let rules = json!([{"when": {"n": {"max": value}}, "decision": "ask"}]);
        let config =
            json!({"tools": {"sample": {"approval": "allow"}}, "policy": {"rules": rules}});
        serde_json::from_value::<Config>(config).unwrap()
    };
    let snapshot = |config: &Config| PipelineSnapshot {
        registry: Registry::new(vec![tool("sample")], vec![]),
        policy: Policy::new(config, "config.yml").unwrap(),
    };
    let room = room(vec![], json!({}), vec![ApprovalAnswer::Always]);
    room.pipeline.replace(snapshot(&asked(5)));
    assert!(room.ok(json!({"n": 1})).await);
    assert!(room.ok(json!({"n": 1})).await, "the same rule");
    room.pipeline.replace(snapshot(&asked(6)));
    assert!(!room.ok(json!({"n": 1})).await, "another rule in its place");
}

#[tokio::test]
async fn approval_remedies_are_not_sent_to_the_model() {
    for (answer, config) in [
        (
            ApprovalAnswer::Unattended {
                remedy: "Say `--approve always`.".into(),
            },
            json!({}),
        ),
        (ApprovalAnswer::No, json!({"policy": {"deny": ["sample"]}})),
    ] {
        let room = room(vec![asking()], config, vec![answer]);
        let outcome = room.pipeline.call(call("sample", json!({}))).await;
        let error = outcome.result().unwrap_err();
        assert!(!error.remedies.is_empty(), "{error}");
        let model = serde_json::to_string(&outcome).unwrap();
        for words in [
            "--approve",
            ".mimir/config.yml",
            "mimir policy",
            "take it out",
        ] {
            assert!(!model.contains(words), "{model}");
        }
    }
}

#[tokio::test]
async fn explain_names_the_stored_approval() {
    let room = room(vec![asking()], json!({}), vec![ApprovalAnswer::Always]);
    let explain = |n| room.pipeline.explain(call("sample", json!({ "n": n })));
    assert_eq!(explain(1).await.unwrap().stored_approval, None);
    assert!(room.ok(json!({"n": 1})).await);
    let kept = room.ledger.leases.lock()[0].id.clone();
    assert_eq!(explain(1).await.unwrap().stored_approval.unwrap().id, kept);
    assert_eq!(explain(2).await.unwrap().stored_approval, None);
    assert!(explain(2).await.unwrap().remedies[0].contains("tools.sample.approval"));
    assert_eq!(
        room.ledger.used.load(Ordering::SeqCst),
        0,
        "explain recorded the use of an approval"
    );
}

#[tokio::test]
async fn approval_for_session_is_stored_per_caller() {
    let outer = |name: &str| {
        let mut outer = with(
            name,
            Fake {
                nested: Some("sample"),
                ..Fake::default()
            },
        );
        outer.trust = ToolTrust::Trusted;
        outer.definition.needs.tools = vec!["sample".into()];
        outer.granted = outer.definition.needs.clone();
        outer
    };
    let room = room(
        vec![asking(), outer("one"), outer("two")],
        json!({}),
        vec![ApprovalAnswer::Session, ApprovalAnswer::Session],
    );
    for name in ["one", "two", "one", "two"] {
        let outcome = room.pipeline.call(call(name, json!({}))).await;
        assert!(outcome.is_ok(), "{name}: {outcome:?}");
    }
    assert_eq!(room.asked(), 2);
}

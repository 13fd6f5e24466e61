//! What a call may not reach by another way either.

use super::*;

/// Says whether the call could read `private/x`.
struct Peek;

impl Backend for Peek {
    fn run(&self, call: Approved) -> BoxFuture<'_, Raw> {
        let hidden = call.paths().check("private/x").against_reading().is_some();
        let output = Output {
            content: vec![Content::text(hidden.to_string())],
            ..Output::default()
        };
        Box::pin(std::future::ready(Raw::from(Ok(output))))
    }
}

#[tokio::test]
async fn what_a_tool_may_not_reach_it_may_not_reach_through_another() {
    let mut outer = with(
        "outer",
        Fake {
            nested: Some("peek"),
            ..Fake::default()
        },
    );
    outer.trust = Trust::Trusted;
    outer.definition.needs.tools = vec!["peek".into()];
    outer.granted = outer.definition.needs.clone();
    let mut peek = tool("peek");
    peek.backend = Arc::new(Peek);
    let bench = bench(
        vec![outer, peek],
        json!({"tools": {"outer": {"deny": ["private"]}}}),
        Answer::No,
    );
    for (tool, hidden) in [("peek", "false"), ("outer", "true")] {
        let outcome = bench.pipeline.call(call(tool, json!({}))).await;
        assert_eq!(outcome.text(), hidden, "{tool}");
    }
}

#[tokio::test]
async fn another_form_of_a_tool_is_no_way_round_what_is_set_for_it() {
    let schema = r#"{"type":"object","properties":{"operation":{},"path":{}}}"#;
    let built_in = |name: &str| {
        let mut tool = tool(name);
        tool.source = Source::BuiltIn;
        tool.trust = Trust::Trusted;
        tool.definition.group = Group::Fs;
        tool.definition.input_schema = Schema::parse(schema).unwrap();
        tool.backend = Arc::new(Peek);
        tool
    };
    let tools = || vec![built_in("file_operations"), built_in("read_file")];
    let read = || {
        call(
            "file_operations",
            json!({"operation": "read", "path": "private/x"}),
        )
    };
    let open = bench(tools(), json!({}), Answer::No);
    assert_eq!(open.pipeline.call(read()).await.text(), "false");
    for (config, expected) in [
        (
            json!({"policy": {"deny": ["read_file"]}}),
            Code::PolicyDenied,
        ),
        (
            json!({"tools": {"read_file": {"enabled": false}}}),
            Code::PolicyDenied,
        ),
        (
            json!({"tools": {"read_file": {"approval": "deny"}}}),
            Code::PolicyDenied,
        ),
        (
            json!({"tools": {"read_file": {"approval": "ask"}}}),
            Code::ApprovalDenied,
        ),
        (
            json!({"tools": {"read_file": {"rules": [
                {"when": {"path": {"inside": "private"}}, "decision": "deny"}
            ]}}}),
            Code::PolicyDenied,
        ),
    ] {
        let bench = bench(tools(), config.clone(), Answer::No);
        assert_eq!(
            code(&bench.pipeline.call(read()).await),
            Some(expected),
            "{config}"
        );
    }
    let hidden = bench(
        tools(),
        json!({"tools": {"read_file": {"deny": ["private"]}}}),
        Answer::No,
    );
    assert_eq!(hidden.pipeline.call(read()).await.text(), "true");
}

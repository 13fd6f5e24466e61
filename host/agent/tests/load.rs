//! Large numbers of concurrent calls.

use mimir_agent::{BudgetLimit, Message, TaskEnd};
use serde_json::json;

use crate::kit::{APIS, Step, TestAgent, says};

#[tokio::test]
async fn calls_by_the_thousand_are_limited_and_answered() {
    for api in APIS {
        let requested: Vec<_> = (0..1_000)
            .map(|n| {
                (
                    "echo",
                    json!({"text": format!("r{n}"), "ms": 1}).to_string(),
                )
            })
            .collect();
        let mut test = TestAgent::new(api, vec![Step::Says(vec![], requested), says("oh")]);
        assert_eq!(test.task("go").await, Ok(TaskEnd::Finished));
        assert_eq!(test.audit.events("call").len(), 32);
        assert!(test.at_a_time() <= 8, "{}", test.at_a_time());
        let results = test.script.asked()[1].results();
        assert_eq!(results.len(), 1_000);
        assert_eq!(results[31], "r31");
        assert!(results[32].starts_with("LIMIT_EXCEEDED: ") && results[32].contains("at most 32"));
        let ids = test
            .conversation
            .messages
            .iter()
            .filter_map(|one| match one {
                Message::Tool { id, .. } => Some(id),
                _ => None,
            });
        assert_eq!(ids.collect::<std::collections::HashSet<_>>().len(), 1_000);
        assert_eq!(test.conversation.spent.tool_calls, 32);
    }
}

#[tokio::test]
async fn calls_beyond_the_task_limit_end_the_task() {
    let requested: Vec<_> = (0..10).map(|_| ("echo", "{}".to_owned())).collect();
    let mut test = TestAgent::new(APIS[1], vec![Step::Says(vec![], requested)]);
    test.agent.budget.tool_calls = 4;
    assert_eq!(
        test.task("go").await,
        Ok(TaskEnd::LimitReached(BudgetLimit::ToolCalls))
    );
    assert_eq!(test.audit.events("call").len(), 4);
    assert_eq!(
        test.conversation.messages.len(),
        2 + 10,
        "a call has no result"
    );
}

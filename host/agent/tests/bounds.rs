//! Budget limits, which stop endless tasks.

use mimir_agent::{BudgetLimit, SessionBudget, TaskEnd, TokenUsage};
use mimir_core::config::{ProviderApi, TokenPrice};
use serde_json::json;

use crate::kit::{APIS, Step, TestAgent, calls, says};

fn forever() -> Vec<Step> {
    vec![calls("echo", json!({"text": "again"}))]
}

#[tokio::test]
async fn budget_stops_a_looping_model_at_each_limit() {
    for api in APIS {
        let mut test = TestAgent::new(api, forever());
        test.agent.budget.turns = 5;
        assert_eq!(
            test.task("go").await,
            Ok(TaskEnd::LimitReached(BudgetLimit::Turns))
        );
        assert_eq!(test.script.asked().len(), 5);

        let mut test = TestAgent::new(api, forever());
        test.agent.budget.tool_calls = 3;
        assert_eq!(
            test.task("go").await,
            Ok(TaskEnd::LimitReached(BudgetLimit::ToolCalls))
        );
        assert_eq!(test.audit.events("call").len(), 3);

        // The provider reports 110 tokens per turn.
        let mut test = TestAgent::new(api, forever());
        test.agent.budget.tokens = 1_000;
        assert_eq!(
            test.task("go").await,
            Ok(TaskEnd::LimitReached(BudgetLimit::Tokens))
        );
        assert!(
            test.conversation.spent.tokens() <= 1_000,
            "{:?}",
            test.conversation.spent
        );
        assert!(test.conversation.spent.turns >= 3);

        let mut test = TestAgent::new(api, forever());
        test.agent.budget.cost = Some(0.01);
        test.agent.price = Some(TokenPrice::new(10.0, 100.0));
        assert_eq!(
            test.task("go").await,
            Ok(TaskEnd::LimitReached(BudgetLimit::Cost))
        );
        assert!(
            test.conversation.spent.cost.unwrap() <= 0.01,
            "{:?}",
            test.conversation.spent
        );
        assert!(test.conversation.spent.turns >= 2);
    }
}

#[tokio::test]
async fn budget_of_cost_includes_the_price_of_cache_writes() {
    for api in APIS {
        let mut test = TestAgent::new(api, vec![says("x")]);
        // The input costs about 0.01, and about 0.1 if the provider writes it to its cache.
        test.agent.budget.cost = Some(0.05);
        test.agent.price = Some(TokenPrice {
            cache_write: Some(100.0),
            ..TokenPrice::new(10.0, 10.0)
        });
        let ended = test.task(&"word ".repeat(800)).await;
        let is_refused = ended == Ok(TaskEnd::LimitReached(BudgetLimit::Cost));
        assert_eq!(
            is_refused,
            api == ProviderApi::Anthropic,
            "{api:?}: {ended:?}"
        );
        assert_eq!(test.script.asked().is_empty(), is_refused);
    }
}

#[tokio::test]
async fn budget_includes_usage_of_other_session_tasks() {
    for api in APIS {
        let mut test = TestAgent::new(api, forever());
        let session_budget = SessionBudget::default();
        test.agent.budget.tokens = 1_000;
        test.agent.session_budget = Some(session_budget.clone());
        // The sent tokens of a tool's stopped model request are counted.
        let budget = test.agent.budget;
        let mut share = session_budget
            .reserve_question("talk-1", budget, None, 400, 100)
            .await
            .unwrap();
        let sent = TokenUsage::new(400, 0);
        share.record_usage(sent, None, std::time::Duration::ZERO);
        drop(share);
        assert_eq!(
            test.task("go").await,
            Ok(TaskEnd::LimitReached(BudgetLimit::Tokens))
        );
        assert!(
            test.conversation.spent.tokens() > 1_000,
            "{:?}",
            test.conversation.spent
        );
        // The agent's usage reduces what tools may use.
        assert!(
            session_budget
                .reserve_question("talk-1", budget, None, 400, 100)
                .await
                .is_err()
        );
    }
}

#[tokio::test]
async fn budget_time_limit_applies_between_replies() {
    let steps = vec![calls("echo", json!({"text": "x", "ms": 2_000}))];
    let mut test = TestAgent::new(APIS[0], steps);
    // The time is over in the middle of the second call, also on a busy machine.
    test.agent.budget.time = std::time::Duration::from_millis(3_000);
    assert_eq!(
        test.task("go").await,
        Ok(TaskEnd::LimitReached(BudgetLimit::Time))
    );
    let turns = test.conversation.spent.turns;
    assert!((2..=5).contains(&turns), "{turns}");
}

#[tokio::test]
async fn budget_stop_does_not_end_the_conversation() {
    let mut steps = forever();
    steps.push(says("enough"));
    let mut test = TestAgent::new(APIS[2], steps);
    test.agent.budget.turns = 1;
    assert_eq!(
        test.task("go").await,
        Ok(TaskEnd::LimitReached(BudgetLimit::Turns))
    );
    // The next task has its own budget.
    assert_eq!(test.task("and?").await, Ok(TaskEnd::Finished));
    assert_eq!(test.conversation.spent.turns, 2);
}

#[tokio::test]
async fn budget_left_limits_the_tokens_of_a_reply() {
    for api in APIS {
        let mut test = TestAgent::new(api, vec![says("x")]);
        test.agent.budget.answer_tokens = 500;
        test.task("go").await.unwrap();
        test.agent.budget.tokens = 400;
        test.task("go").await.unwrap();
        let max_tokens = |at: usize| {
            let body = &test.script.asked()[at].body;
            let keys = ["max_tokens", "max_output_tokens"];
            keys.iter().find_map(|key| body[key].as_u64()).unwrap()
        };
        assert_eq!(max_tokens(0), 500);
        assert!(max_tokens(1) < 400, "{}", max_tokens(1));
    }
}

#[tokio::test]
async fn prompt_that_does_not_fit_is_not_sent() {
    let mut test = TestAgent::new(APIS[0], vec![says("x")]);
    assert_eq!(
        test.task(&"y".repeat(500_000)).await.unwrap_err().code,
        mimir_core::ToolErrorCode::LimitExceeded
    );
    assert!(
        test.script.asked().is_empty(),
        "a conversation that does not fit was sent"
    );
}

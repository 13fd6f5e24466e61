//! Busy, failing and unreachable providers.

use std::time::Instant;

use mimir_agent::TaskEnd;
use mimir_core::ToolErrorCode;
use serde_json::json;

use crate::kit::{APIS, KEY, Step, TestAgent, calls, says};

#[tokio::test]
async fn provider_busy_is_retried_after_the_requested_delay() {
    for api in APIS {
        let busy = |after| {
            Step::Status(
                429,
                vec![("retry-after", after)],
                r#"{"error":{"message":"slow down"}}"#,
            )
        };
        let mut test = TestAgent::new(api, vec![busy("0"), busy("1"), says("now")]);
        let start = Instant::now();
        assert_eq!(test.task("go").await, Ok(TaskEnd::Finished));
        assert!(
            start.elapsed().as_millis() >= 1_000,
            "the requested delay was not kept"
        );
        let again = test.seen.of("again");
        assert_eq!(again.len(), 2);
        assert_eq!(
            (&again[0]["afterMs"], &again[1]["afterMs"]),
            (&json!(0), &json!(1_000))
        );
        assert!(again[0]["because"].as_str().unwrap().contains("slow down"));
        // Only the complete answer counts as a turn.
        assert_eq!(test.conversation.spent.turns, 1);
        assert!(
            test.conversation.spent.time_ms >= 1_000,
            "the delay was not counted"
        );
    }
}

#[tokio::test]
async fn provider_delay_of_an_hour_is_an_error() {
    let busy = Step::Status(
        429,
        vec![("retry-after", "3600")],
        r#"{"error":{"message":"come back"}}"#,
    );
    let mut test = TestAgent::new(APIS[0], vec![busy]);
    let error = test.task("go").await.unwrap_err();
    assert_eq!(
        (error.code, test.script.asked().len()),
        (ToolErrorCode::LimitExceeded, 1)
    );
}

#[tokio::test]
async fn provider_busy_fails_after_the_retry_limit() {
    for api in APIS {
        let mut test = TestAgent::new(api, vec![Step::Status(503, vec![("retry-after", "0")], "")]);
        test.agent.budget.retries = 2;
        let error = test.task("go").await.unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Network);
        assert!(error.message.contains("503"), "{error}");
        assert_eq!(test.script.asked().len(), 3);
    }
}

#[tokio::test]
async fn reply_that_is_cut_is_retried_and_discarded() {
    for api in APIS {
        let steps = vec![
            Step::Cut("It is nine hund"),
            calls("echo", json!({"text": "x"})),
            Step::Overloaded,
            says("It is 7."),
        ];
        let mut test = TestAgent::new(api, steps);
        assert_eq!(test.task("go").await, Ok(TaskEnd::Finished), "{api:?}");
        assert_eq!(test.last(), "It is 7.");
        let again = test.seen.of("again");
        assert_eq!(again.len(), 2);
        assert_eq!(again[0]["heard"], true);
        let stored = serde_json::to_string(&test.conversation).unwrap();
        assert!(!stored.contains("nine hund"), "{stored}");
        // The call was made once.
        assert_eq!(test.audit.events("call").len(), 1);
    }
}

/// Returns the cost of tokens at one dollar each.
fn cost_at_one_dollar_per_token(tokens: u64) -> f64 {
    f64::from(u32::try_from(tokens).unwrap())
}

#[tokio::test]
async fn reply_that_is_cut_or_cancelled_counts_as_usage() {
    let price = mimir_core::config::TokenPrice::new(1e6, 1e6);
    for api in APIS {
        let mut test = TestAgent::new(api, vec![Step::Hangs("Well, let me see.")]);
        test.agent.price = Some(price);
        let soon = std::time::Duration::from_secs(3);
        let stopped = tokio::time::timeout(soon, test.task("go")).await;
        assert!(stopped.is_err(), "{api:?}: {stopped:?}");
        let spent = test.conversation.spent;
        assert_eq!((spent.turns, spent.output_tokens), (1, 5), "{spent:?}");
        assert!(spent.input_tokens > 0 && spent.time_ms >= 400, "{spent:?}");
        assert_eq!(
            spent.cost,
            Some(cost_at_one_dollar_per_token(spent.tokens()))
        );

        let mut test = TestAgent::new(api, vec![Step::Cut("Well, let me see."), says("so")]);
        test.agent.price = Some(price);
        assert_eq!(test.task("go").await, Ok(TaskEnd::Finished));
        let spent = test.conversation.spent;
        // The complete answer reports 100 and 10 tokens.
        assert_eq!((spent.turns, spent.output_tokens), (1, 15), "{spent:?}");
        assert!(spent.input_tokens > 100, "{spent:?}");
        assert_eq!(
            spent.cost,
            Some(cost_at_one_dollar_per_token(spent.tokens()))
        );
    }
}

#[tokio::test]
async fn provider_permanent_error_is_reported_once_without_the_key() {
    for api in APIS {
        let body = r#"{"error":{"message":"Incorrect API key provided: key-of-the-test-5417."}}"#;
        let mut test = TestAgent::new(api, vec![Step::Status(401, vec![], body)]);
        let error = test.task("go").await.unwrap_err();
        assert_eq!(
            (error.code, test.script.asked().len()),
            (ToolErrorCode::PermissionDenied, 1)
        );
        assert!(error.message.contains("Incorrect API key"), "{error}");
        assert!(!error.message.contains(KEY), "{error}");
        assert!(error.remedies[0].contains("providers.local.key"));
    }
}

#[tokio::test]
async fn provider_error_shows_no_part_of_a_key_at_the_cut() {
    for before in 470..500 {
        let body = json!({"error": {"message": format!("{} {KEY}", "-".repeat(before))}});
        let body: &'static str = body.to_string().leak();
        let mut test = TestAgent::new(APIS[0], vec![Step::Status(400, vec![], body)]);
        let error = test.task("go").await.unwrap_err();
        assert!(!error.message.contains("key-of"), "{before}: {error}");
    }
}

/// Makes the agent use a model at `url`, whose API key is the secret named `key` of `vault`.
fn use_model(
    test: &mut TestAgent,
    url: &str,
    key: Option<&str>,
    vault: impl mimir_core::redact::Vault + 'static,
) {
    test.agent.model = std::sync::Arc::new(mimir_agent::ModelProvider::new(
        mimir_core::config::ChosenModel {
            provider: "local".into(),
            model: "m".into(),
            api: APIS[0],
            url: url.to_owned(),
            key: key.map(Into::into),
            price: None,
            vision: None,
        },
        crate::kit::client(url),
        std::sync::Arc::new(vault),
        std::sync::Arc::clone(&test.audit) as std::sync::Arc<_>,
    ));
}

/// A vault with an API key that no HTTP header can contain.
struct InvalidKey;

impl mimir_core::redact::Vault for InvalidKey {
    fn redactor(&self) -> Result<mimir_core::Redactor, mimir_core::redact::VaultError> {
        Ok(mimir_core::Redactor::new())
    }

    fn secret(&self, _: &str) -> Result<Option<String>, mimir_core::redact::VaultError> {
        Ok(Some("line-1\nline-2".to_owned()))
    }
}

#[tokio::test]
async fn api_key_with_a_line_break_is_an_error_about_the_key() {
    let mut test = TestAgent::new(APIS[0], vec![says("x")]);
    let url = test.script.url.clone();
    use_model(&mut test, &url, Some("BROKEN"), InvalidKey);
    let error = test.task("go").await.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert!(error.message.contains("API key of local"), "{error}");
    assert!(!error.message.contains("line-"), "{error}");
    assert!(
        error.remedies[0].contains("mimir secrets set BROKEN"),
        "{error:?}"
    );
    assert!(test.script.asked().is_empty());
}

#[tokio::test]
async fn provider_html_page_is_an_error_with_a_hint() {
    for api in APIS {
        let mut test = TestAgent::new(api, vec![Step::Page]);
        let error = test.task("go").await.unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Network);
        assert!(
            error.message.contains("text/html") && error.message.contains("providers.local.api"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn provider_connection_refused_is_retried() {
    let mut test = TestAgent::new(APIS[0], vec![says("x")]);
    // A port that was free a moment ago, so that the connection is refused.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/", free.local_addr().unwrap());
    drop(free);
    use_model(&mut test, &url, None, mimir_core::Redactor::new());
    test.agent.budget.retries = 1;
    let error = test.task("go").await.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Network);
    assert!(error.message.contains("refused the connection"), "{error}");
    assert_eq!(test.seen.of("again").len(), 1);
}

#[tokio::test]
async fn reply_that_stalls_times_out() {
    for api in APIS {
        let mut test = TestAgent::new(api, vec![Step::Hangs("Well, ")]);
        test.agent.budget.time = std::time::Duration::from_millis(400);
        let start = Instant::now();
        let error = test.task("go").await.unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Timeout);
        assert!(error.message.contains("agent.maxTimeMs"), "{error}");
        assert!(start.elapsed().as_secs() < 20);
    }
}

#[tokio::test]
async fn conversation_too_long_for_the_provider_is_trimmed() {
    let rejected = Step::Status(
        400,
        vec![],
        r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum","code":"context_length_exceeded"}}"#,
    );
    let cases = APIS.map(|api| {
        [
            (api, rejected.clone(), 0),
            (api, Step::TooLong(vec![]), 0),
            (api, Step::TooLong(vec!["Well"]), 1),
        ]
    });
    for (api, long, discarded) in cases.into_iter().flatten() {
        let steps = vec![
            calls("echo", json!({"text": "a".repeat(4_000)})),
            calls("echo", json!({"text": "b".repeat(4_000)})),
            long,
            says("short"),
        ];
        let mut test = TestAgent::new(api, steps);
        assert_eq!(test.task("go").await, Ok(TaskEnd::Finished));
        let asked = test.script.asked();
        assert_eq!(asked.len(), 4);
        assert_eq!(asked[2].results().len(), 2);
        let results = asked[3].results();
        assert_eq!(results.len(), 1, "the older round was sent");
        assert!(results[0].starts_with("bbbb"));
        assert!(
            asked[3].body.to_string().contains("\"go\""),
            "the task was left out"
        );
        assert_eq!(test.seen.of("leftOut").len(), 1);
        // Front ends discard text that was received before the rejection.
        let retries = test.seen.of("again");
        assert_eq!(retries.len(), discarded, "{api:?}");
        assert!(retries.iter().all(|retry| retry["heard"] == true));
    }
}

#[tokio::test]
async fn missing_api_key_secret_has_a_remedy() {
    let mut test = TestAgent::new(APIS[0], vec![says("x")]);
    let url = test.script.url.clone();
    use_model(&mut test, &url, Some("OTHER"), mimir_core::Redactor::new());
    let error = test.task("go").await.unwrap_err();
    assert_eq!(error.code, ToolErrorCode::Unavailable);
    assert!(
        error.remedies[0].contains("mimir secrets set OTHER"),
        "{error:?}"
    );
    assert!(test.script.asked().is_empty());
}

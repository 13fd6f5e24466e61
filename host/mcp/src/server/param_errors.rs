//! Error responses to known methods with invalid params.

#![expect(
    deprecated,
    reason = "clients from before 2026-07-28 have no other way to logs"
)]

use rmcp::model::{
    CallToolRequestParams, CompleteRequestParams, ErrorData, GetPromptRequestParams,
    InitializeRequestParams, JsonObject, PaginatedRequestParams, ReadResourceRequestParams,
    RequestMetaObject, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionsListenRequestParams, UnsubscribeRequestParams,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum length of a quote from the request, in characters.
const MAX_VALUE_CHARS: usize = 200;

/// Maximum number of params that are tested one by one to find the invalid one.
const MAX_PARAMS: usize = 16;

/// Describes the fault in these params. Returns `None` for an unknown method.
pub(crate) fn describe_invalid_params(method: &str, params: Option<&Value>) -> Option<ErrorData> {
    let why: fn(&JsonObject) -> Option<String> = match method {
        "initialize" => describe_fault::<InitializeRequestParams>,
        "ping" | "server/discover" => describe_fault::<JsonObject>,
        "tools/call" => describe_fault::<CallToolRequestParams>,
        "logging/setLevel" => describe_fault::<SetLevelRequestParams>,
        "completion/complete" => describe_fault::<CompleteRequestParams>,
        "prompts/get" => describe_fault::<GetPromptRequestParams>,
        "resources/read" => describe_fault::<ReadResourceRequestParams>,
        "resources/subscribe" => describe_fault::<SubscribeRequestParams>,
        "resources/unsubscribe" => describe_fault::<UnsubscribeRequestParams>,
        "subscriptions/listen" => describe_fault::<SubscriptionsListenRequestParams>,
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            describe_fault::<PaginatedRequestParams>
        }
        _ => return None,
    };
    let why = match params {
        None => why(&JsonObject::new()),
        Some(Value::Object(params)) => why(params),
        Some(_) => Some("they are not a JSON object".to_owned()),
    };
    let mut message = format!("the params of `{method}` do not match the protocol");
    if let Some(why) = why {
        message.push_str(": ");
        message.push_str(&why);
    }
    let arguments = params.and_then(|params| params.get("arguments"));
    if method == "tools/call" && arguments.is_some_and(Value::is_string) {
        message.push_str("; `arguments` must be a JSON object, not a string that contains one");
    }
    Some(ErrorData::invalid_params(message, None))
}

/// Returns the reason why the params do not parse as `T`, with the name of the invalid param.
fn describe_fault<T: DeserializeOwned>(params: &JsonObject) -> Option<String> {
    let truncate = |error: String| mimir_core::text::prefix(&error, MAX_VALUE_CHARS).to_owned();
    if let Some(meta) = params.get("_meta")
        && let Some(error) = parse_error::<RequestMetaObject>(meta.clone())
    {
        return Some(format!("`_meta`: {}", truncate(error)));
    }
    let error = parse_error::<T>(Value::Object(params.clone()))?;
    // The invalid param is the one without which the others parse.
    let is_wrong = |name: &&String| {
        let mut rest = params.clone();
        rest.remove(*name);
        parse_error::<T>(Value::Object(rest)).as_ref() != Some(&error)
    };
    let has_few_params = params.len() <= MAX_PARAMS;
    let name = params.keys().filter(|_| has_few_params).find(is_wrong);
    Some(match name {
        Some(name) => format!("`{name}`: {}", truncate(error)),
        None => truncate(error),
    })
}

fn parse_error<T: DeserializeOwned>(value: Value) -> Option<String> {
    let read: Result<T, _> = serde_json::from_value(value);
    read.err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn describe_names_the_wrong_param() {
        let message_for = |method, params: Value| {
            let error = describe_invalid_params(method, Some(&params));
            error
                .map(|error| error.message.into_owned())
                .unwrap_or_default()
        };
        let message = message_for("tools/call", json!({"name": 5}));
        assert!(
            message.contains("`name`: invalid type: integer `5`"),
            "{message}"
        );
        let message = message_for("tools/call", json!({}));
        assert!(message.contains("missing field `name`"), "{message}");
        let message = message_for("tools/call", json!({"name": "a", "arguments": "{}"}));
        assert!(message.contains("`arguments`: invalid type"), "{message}");
        assert!(
            message.ends_with("not a string that contains one"),
            "{message}"
        );
        let message = message_for("logging/setLevel", json!({"level": "loud"}));
        assert!(message.contains("`level`: unknown variant"), "{message}");
        let message = message_for("ping", json!({"_meta": 5}));
        assert!(message.contains("`_meta`: "), "{message}");
        assert!(message_for("ping", json!([1])).ends_with("not a JSON object"));
        assert!(describe_invalid_params("nonsense/now", None).is_none());
    }
}

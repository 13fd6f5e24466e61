//! Explains why the params of a known method are not valid.

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

/// Maximum length of a quoted value, which comes from the client.
const MAX_VALUE_CHARS: usize = 200;

/// Maximum number of params that are tested one by one to find the wrong one.
const MAX_PARAMS: usize = 16;

/// Describes the fault in these params; none if the protocol has no such method.
pub(crate) fn describe_invalid_params(method: &str, params: Option<&Value>) -> Option<ErrorData> {
    let why: fn(&JsonObject) -> Option<String> = match method {
        "initialize" => why::<InitializeRequestParams>,
        "ping" | "server/discover" => why::<JsonObject>,
        "tools/call" => why::<CallToolRequestParams>,
        "logging/setLevel" => why::<SetLevelRequestParams>,
        "completion/complete" => why::<CompleteRequestParams>,
        "prompts/get" => why::<GetPromptRequestParams>,
        "resources/read" => why::<ReadResourceRequestParams>,
        "resources/subscribe" => why::<SubscribeRequestParams>,
        "resources/unsubscribe" => why::<UnsubscribeRequestParams>,
        "subscriptions/listen" => why::<SubscriptionsListenRequestParams>,
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            why::<PaginatedRequestParams>
        }
        _ => return None,
    };
    let why = match params {
        None => why(&JsonObject::new()),
        Some(Value::Object(params)) => why(params),
        Some(_) => Some("they are not a JSON object".to_owned()),
    };
    let mut words = format!("the params of `{method}` do not match the protocol");
    if let Some(why) = why {
        words.push_str(": ");
        words.push_str(&why);
    }
    let arguments = params.and_then(|params| params.get("arguments"));
    if method == "tools/call" && arguments.is_some_and(Value::is_string) {
        words.push_str("; `arguments` must be a JSON object, not a string that contains one");
    }
    Some(ErrorData::invalid_params(words, None))
}

/// Returns the reason why the params do not parse as this type.
fn why<T: DeserializeOwned>(params: &JsonObject) -> Option<String> {
    let cut = |error: String| mimir_core::text::prefix(&error, MAX_VALUE_CHARS).to_owned();
    if let Some(meta) = params.get("_meta")
        && let Some(error) = fails::<RequestMetaObject>(meta.clone())
    {
        return Some(format!("`_meta`: {}", cut(error)));
    }
    let error = fails::<T>(Value::Object(params.clone()))?;
    // Finds the param without which the rest parses.
    let is_it = |name: &&String| {
        let mut rest = params.clone();
        rest.remove(*name);
        fails::<T>(Value::Object(rest)).as_ref() != Some(&error)
    };
    let few = params.len() <= MAX_PARAMS;
    let name = params.keys().filter(|_| few).find(is_it);
    Some(match name {
        Some(name) => format!("`{name}`: {}", cut(error)),
        None => cut(error),
    })
}

fn fails<T: DeserializeOwned>(value: Value) -> Option<String> {
    let read: Result<T, _> = serde_json::from_value(value);
    read.err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn describe_names_the_wrong_param() {
        let words = |method, params: Value| {
            let wrong = describe_invalid_params(method, Some(&params));
            wrong
                .map(|error| error.message.into_owned())
                .unwrap_or_default()
        };
        let said = words("tools/call", json!({"name": 5}));
        assert!(said.contains("`name`: invalid type: integer `5`"), "{said}");
        let said = words("tools/call", json!({}));
        assert!(said.contains("missing field `name`"), "{said}");
        let said = words("tools/call", json!({"name": "a", "arguments": "{}"}));
        assert!(said.contains("`arguments`: invalid type"), "{said}");
        assert!(said.ends_with("not a string that contains one"), "{said}");
        let said = words("logging/setLevel", json!({"level": "loud"}));
        assert!(said.contains("`level`: unknown variant"), "{said}");
        let said = words("ping", json!({"_meta": 5}));
        assert!(said.contains("`_meta`: "), "{said}");
        assert!(words("ping", json!([1])).ends_with("not a JSON object"));
        assert!(describe_invalid_params("nonsense/now", None).is_none());
    }
}

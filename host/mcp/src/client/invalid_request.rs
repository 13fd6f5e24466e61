//! Error responses to a server's request with invalid params.

#![expect(
    deprecated,
    reason = "the newest protocol has no sampling; servers of the older ones still do"
)]

use mimir_core::text::{prefix, visible};
use mimir_core::upstream_request::UpstreamRequestKind;
use rmcp::model::{
    CreateMessageRequestParams, ElicitRequestParams, ErrorData, PrimitiveSchemaDefinition,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum length of a quote from the request, in characters.
const MAX_VALUE_CHARS: usize = 200;

/// Returns the error response to a request whose params do not match the protocol.
pub(super) fn invalid_request(kind: UpstreamRequestKind, params: Option<Value>) -> ErrorData {
    let params = params.unwrap_or_default();
    let why = match kind {
        UpstreamRequestKind::Form | UpstreamRequestKind::Page => {
            describe_invalid_field(&params).or_else(|| parse_error::<ElicitRequestParams>(params))
        }
        UpstreamRequestKind::Model => parse_error::<CreateMessageRequestParams>(params),
        UpstreamRequestKind::Roots => Some("they are not a JSON object".to_owned()),
    };
    let mut message = format!(
        "the params of `{}` do not match the protocol",
        kind.method()
    );
    if let Some(why) = why {
        message.push_str(": ");
        message.push_str(prefix(&visible(&why), MAX_VALUE_CHARS));
    }
    ErrorData::invalid_params(message, None)
}

/// Describes the first invalid field of a form, if there is one.
fn describe_invalid_field(params: &Value) -> Option<String> {
    let fields = params["requestedSchema"]["properties"].as_object()?;
    let is_invalid = |schema: &Value| {
        serde_json::from_value::<PrimitiveSchemaDefinition>(schema.clone()).is_err()
    };
    let (name, _) = fields.iter().find(|(_, schema)| is_invalid(schema))?;
    let name = prefix(name, 64);
    Some(format!(
        "the field `{name}` is not valid in a form: expected a string, number, boolean or choice, without nesting"
    ))
}

fn parse_error<T: DeserializeOwned>(params: Value) -> Option<String> {
    serde_json::from_value::<T>(params)
        .err()
        .map(|error| error.to_string())
}

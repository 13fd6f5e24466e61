//! What is wrong about a request of a server whose params are not those of its method.

#![expect(
    deprecated,
    reason = "the newest protocol has no sampling; servers of the older ones still do"
)]

use mimir_core::text::{prefix, visible};
use mimir_core::wish::Want;
use rmcp::model::{
    CreateMessageRequestParams, ElicitRequestParams, ErrorData, PrimitiveSchemaDefinition,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Characters of what is said of a value, which is the server's own.
const WORDS_MOST: usize = 200;

/// The answer to such a request.
pub(super) fn misfit(want: Want, params: Option<Value>) -> ErrorData {
    let params = params.unwrap_or_default();
    let why = match want {
        Want::Form => field(&params).or_else(|| why::<ElicitRequestParams>(params)),
        Want::Model => why::<CreateMessageRequestParams>(params),
        Want::Roots => Some("they are no JSON object".to_owned()),
    };
    let mut words = format!(
        "the params of `{}` are not as the protocol has them",
        want.method()
    );
    if let Some(why) = why {
        words.push_str(": ");
        words.push_str(prefix(&visible(&why), WORDS_MOST));
    }
    ErrorData::invalid_params(words, None)
}

/// The field of a form that is none, and why.
fn field(params: &Value) -> Option<String> {
    let fields = params["requestedSchema"]["properties"].as_object()?;
    let is_none = |schema: &Value| {
        serde_json::from_value::<PrimitiveSchemaDefinition>(schema.clone()).is_err()
    };
    let (name, _) = fields.iter().find(|(_, schema)| is_none(schema))?;
    let name = prefix(name, 64);
    Some(format!(
        "the field `{name}` is none of a form: a form is flat, of texts, numbers, booleans and choices"
    ))
}

fn why<T: DeserializeOwned>(params: Value) -> Option<String> {
    serde_json::from_value::<T>(params)
        .err()
        .map(|error| error.to_string())
}

//! Encoding of argument values for paths, queries, headers and cookies. Every value is percent-encoded, so that it can
//! never become another part of the request.

use mimir_core::{ToolError, text};
use serde_json::Value;

use super::api_file::{ApiParameter, ParameterLocation, ParameterStyle};

/// Reserved characters that `allowReserved` leaves as they are. The others would begin another parameter or a fragment.
const ALLOWED_RESERVED: &[u8] = b":/?@!$'(),;*";

/// Maximum nesting of a value in a query.
const MAX_DEPTH: usize = 16;

fn invalid(parameter: &ApiParameter, why: &str) -> ToolError {
    let argument = text::visible(&parameter.argument);
    ToolError::invalid_input(format!("the argument `{argument}` is not valid: {why}"))
}

/// Percent-encodes all bytes except letters, digits, `-`, `.`, `_`, `~` and those in `also`.
pub(crate) fn encode_percent(text: &str, also: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_plain =
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte);
        if is_plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Converts a value to text: a string itself, other values as JSON.
pub(crate) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A value as the items or members that styles join.
enum Parts {
    One(String),
    Items(Vec<String>),
    Members(Vec<(String, String)>),
}

impl Parts {
    fn of(value: &Value, style: ParameterStyle) -> Self {
        match value {
            _ if style == ParameterStyle::Json => Self::One(value.to_string()),
            Value::Array(items) => Self::Items(items.iter().map(plain_text).collect()),
            Value::Object(members) => {
                let members = members.iter();
                Self::Members(
                    members
                        .map(|(name, value)| (name.clone(), plain_text(value)))
                        .collect(),
                )
            }
            value => Self::One(plain_text(value)),
        }
    }
}

/// Returns the text that replaces a variable of the path.
pub(crate) fn path_text(parameter: &ApiParameter, value: &Value) -> Result<String, ToolError> {
    let style = parameter.style();
    let parts = Parts::of(value, style);
    let texts: Vec<&str> = match &parts {
        Parts::One(text) => vec![text],
        Parts::Items(items) => items.iter().map(String::as_str).collect(),
        Parts::Members(members) => members
            .iter()
            .flat_map(|(name, value)| [name.as_str(), value])
            .collect(),
    };
    for text in &texts {
        let is_dots = |segment: &str| segment == "." || segment == "..";
        if text.split(['/', '\\']).any(is_dots) {
            return Err(invalid(
                parameter,
                "expected a part of a path without `.` and `..`",
            ));
        }
        if text.contains(|c: char| c.is_control()) {
            return Err(invalid(
                parameter,
                "expected a part of a path without control characters",
            ));
        }
    }
    if texts.iter().all(|text| text.is_empty()) {
        return Err(invalid(
            parameter,
            "expected a part of a path, not an empty text",
        ));
    }
    let encode = |text: &str| encode_percent(text, &[]);
    let name = encode(parameter.wire_name());
    let explodes = parameter.explodes();
    let joined = |separator: &str| match &parts {
        Parts::One(text) => encode(text),
        Parts::Items(items) => items
            .iter()
            .map(|item| encode(item))
            .collect::<Vec<_>>()
            .join(separator),
        Parts::Members(members) => {
            let between = if explodes { "=" } else { separator };
            let members = members.iter();
            let members =
                members.map(|(name, value)| format!("{}{between}{}", encode(name), encode(value)));
            members.collect::<Vec<_>>().join(separator)
        }
    };
    Ok(match style {
        ParameterStyle::Label => format!(".{}", joined(if explodes { "." } else { "," })),
        ParameterStyle::Matrix => match &parts {
            Parts::Items(items) if explodes => items
                .iter()
                .map(|item| format!(";{name}={}", encode(item)))
                .collect(),
            Parts::Members(_) if explodes => format!(";{}", joined(";")),
            _ => format!(";{name}={}", joined(",")),
        },
        _ => joined(","),
    })
}

/// Returns the encoded `name=value` pairs of a query or a form.
pub(crate) fn query_pairs(
    name: &str,
    value: &Value,
    (style, explodes, allow_reserved): (ParameterStyle, bool, bool),
) -> Vec<String> {
    let also = if allow_reserved {
        ALLOWED_RESERVED
    } else {
        &[][..]
    };
    let encode = |text: &str| encode_percent(text, also);
    let pair = |name: &str, value: &str| format!("{}={}", encode_percent(name, b"[]"), value);
    if style == ParameterStyle::DeepObject && (value.is_object() || value.is_array()) {
        let mut pairs = Vec::new();
        push_deep_pairs(name, value, MAX_DEPTH, &mut |name, value| {
            pairs.push(pair(name, &encode(value)))
        });
        return pairs;
    }
    let separator = match style {
        ParameterStyle::SpaceDelimited => "%20",
        ParameterStyle::PipeDelimited => "%7C",
        _ => ",",
    };
    let join = |texts: Vec<String>| {
        pair(
            name,
            &texts
                .iter()
                .map(|text| encode(text))
                .collect::<Vec<_>>()
                .join(separator),
        )
    };
    match Parts::of(value, style) {
        Parts::One(text) => vec![pair(name, &encode(&text))],
        Parts::Items(items) if explodes => {
            items.iter().map(|item| pair(name, &encode(item))).collect()
        }
        Parts::Items(items) if items.is_empty() => Vec::new(),
        Parts::Items(items) => vec![join(items)],
        Parts::Members(members) if explodes => {
            let members = members.iter();
            // Brackets in names of members would be those of another parameter.
            members
                .map(|(name, value)| format!("{}={}", encode_percent(name, &[]), encode(value)))
                .collect()
        }
        Parts::Members(members) => vec![join(
            members
                .into_iter()
                .flat_map(|(name, value)| [name, value])
                .collect(),
        )],
    }
}

/// Adds the pairs of a nested value: `a[b][0]=c`. Values nested too deep are JSON.
fn push_deep_pairs(name: &str, value: &Value, depth: usize, push: &mut impl FnMut(&str, &str)) {
    let inner = |key: &str| format!("{name}[{}]", key.replace(['[', ']'], "_"));
    match value {
        Value::Object(members) if depth > 0 => {
            for (key, value) in members {
                push_deep_pairs(&inner(key), value, depth - 1, push);
            }
        }
        Value::Array(items) if depth > 0 => {
            for (index, value) in items.iter().enumerate() {
                push_deep_pairs(&inner(&index.to_string()), value, depth - 1, push);
            }
        }
        value => push(name, &plain_text(value)),
    }
}

/// Returns the value of a header.
pub(crate) fn header_text(parameter: &ApiParameter, value: &Value) -> Result<String, ToolError> {
    let text = match Parts::of(value, parameter.style()) {
        Parts::One(text) => text,
        Parts::Items(items) => items.join(","),
        Parts::Members(members) => {
            let between = if parameter.explodes() { "=" } else { "," };
            let members = members.iter();
            members
                .map(|(name, value)| format!("{name}{between}{value}"))
                .collect::<Vec<_>>()
                .join(",")
        }
    };
    if text.contains(|c: char| !matches!(c, ' '..='~')) {
        return Err(invalid(
            parameter,
            "a header can only contain printable ASCII characters in one line",
        ));
    }
    Ok(text.trim().to_owned())
}

/// Returns the encoded `name=value` pairs of a cookie.
pub(crate) fn cookie_pairs(parameter: &ApiParameter, value: &Value) -> Vec<String> {
    debug_assert_eq!(parameter.location, ParameterLocation::Cookie);
    let name = parameter.wire_name();
    query_pairs(name, value, (parameter.style(), false, false))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parameter(
        location: ParameterLocation,
        style: Option<ParameterStyle>,
        explode: Option<bool>,
    ) -> ApiParameter {
        ApiParameter {
            argument: "p".to_owned(),
            name: None,
            location,
            style,
            explode,
            allow_reserved: false,
        }
    }

    #[test]
    fn openapi_path_styles_follow_the_specification() {
        use ParameterStyle::{Label, Matrix, Simple};
        let (list, object) = (json!(["a", "b"]), json!({"x": 1, "y": "é"}));
        for (style, explode, value, expected) in [
            (Simple, false, &json!(5), "5"),
            (Simple, false, &list, "a,b"),
            (Simple, false, &object, "x,1,y,%C3%A9"),
            (Simple, true, &object, "x=1,y=%C3%A9"),
            (Label, false, &list, ".a,b"),
            (Label, true, &list, ".a.b"),
            (Matrix, false, &list, ";p=a,b"),
            (Matrix, true, &list, ";p=a;p=b"),
            (Matrix, true, &object, ";x=1;y=%C3%A9"),
            (Matrix, false, &json!("a"), ";p=a"),
        ] {
            let parameter = parameter(ParameterLocation::Path, Some(style), Some(explode));
            assert_eq!(path_text(&parameter, value).unwrap(), expected);
        }
    }

    #[test]
    fn openapi_path_values_stay_in_their_segment() {
        let parameter = parameter(ParameterLocation::Path, None, None);
        for (value, expected) in [
            ("a/b", "a%2Fb"),
            ("a?b=c#d", "a%3Fb%3Dc%23d"),
            ("@evil.example", "%40evil.example"),
            ("%2e%2e", "%252e%252e"),
            ("...", "..."),
        ] {
            assert_eq!(path_text(&parameter, &json!(value)).unwrap(), expected);
        }
        for value in [
            "..", ".", "../admin", "a/../b", "a\\..\\b", "", "a\r\nb", "a\0",
        ] {
            assert!(path_text(&parameter, &json!(value)).is_err(), "{value:?}");
        }
        assert!(path_text(&parameter, &json!(["a", ".."])).is_err());
    }

    #[test]
    fn openapi_query_styles_follow_the_specification() {
        use ParameterStyle::{DeepObject, Form, Json, PipeDelimited, SpaceDelimited};
        let (list, object) = (json!(["a", "b&c"]), json!({"x": 1, "y": "z"}));
        let deep = json!({"a": {"b": [1, 2]}, "c": true});
        for (style, explode, value, expected) in [
            (
                Form,
                true,
                &json!("a&b=c#d é+"),
                "p=a%26b%3Dc%23d%20%C3%A9%2B",
            ),
            (Form, true, &list, "p=a&p=b%26c"),
            (Form, false, &list, "p=a,b%26c"),
            (Form, true, &object, "x=1&y=z"),
            (Form, false, &object, "p=x,1,y,z"),
            (SpaceDelimited, false, &list, "p=a%20b%26c"),
            (PipeDelimited, false, &list, "p=a%7Cb%26c"),
            (
                DeepObject,
                true,
                &deep,
                "p[a][b][0]=1&p[a][b][1]=2&p[c]=true",
            ),
            (
                Json,
                false,
                &object,
                "p=%7B%22x%22%3A1%2C%22y%22%3A%22z%22%7D",
            ),
        ] {
            assert_eq!(
                query_pairs("p", value, (style, explode, false)).join("&"),
                expected
            );
        }
        let reserved = query_pairs("p", &json!("a/b:c&d#e+f"), (Form, true, true));
        assert_eq!(reserved, ["p=a/b:c%26d%23e%2Bf"]);
        let forged = query_pairs("p", &json!({"x]&admin": 1}), (DeepObject, true, false));
        assert_eq!(forged, ["p[x_%26admin]=1"]);
    }

    #[test]
    fn openapi_headers_and_cookies_stay_in_one_line() {
        let header = parameter(ParameterLocation::Header, None, None);
        assert_eq!(header_text(&header, &json!(["a", "b"])).unwrap(), "a,b");
        for value in ["a\r\nHost: evil", "a\nb", "a\0", "é"] {
            assert!(header_text(&header, &json!(value)).is_err(), "{value:?}");
        }
        let cookie = parameter(ParameterLocation::Cookie, None, None);
        assert_eq!(
            cookie_pairs(&cookie, &json!("a; admin=1\r\n")),
            ["p=a%3B%20admin%3D1%0D%0A"]
        );
    }
}

//! Readable messages for errors in config files.

use mimir_core::ToolError;
use mimir_core::name_suggestions::with_nearest_name;

/// Creates the error of a YAML file, with file, line and column, and the closest name if a key or value is unknown.
pub fn explain(file: &str, error: &serde_yaml::Error) -> ToolError {
    let mut message = error.to_string();
    let mut position = file.to_owned();
    if let Some(at) = error.location() {
        position = format!("{file}:{}:{}", at.line(), at.column());
        let tail = format!(" at line {} column {}", at.line(), at.column());
        message = message.replace(&tail, "");
    }
    let message = mimir_core::text::visible(mimir_core::text::prefix(
        &rewrite_message(&with_nearest_name(&message)),
        500,
    ));
    ToolError::invalid_input(format!("{position}: {message}"))
}

/// Creates the error of a YAML file whose structure exceeds the limits.
pub fn yaml_shape_error(file: &str, rejection: &mimir_script::yaml::YamlRejection) -> ToolError {
    ToolError::invalid_input(format!("{file}:{rejection}"))
}

/// Rewrites a message of the YAML parser in words of the config, without names of Rust types.
fn rewrite_message(message: &str) -> String {
    for (fragment, better) in [
        (
            "found character that cannot start any token",
            "a value begins with a tab or a reserved character: indent with spaces, and quote a value that begins with @ or `",
        ),
        (
            "containing more than one document",
            "there is a second document (`---`), but only one is read: remove the other",
        ),
        (
            "as u128, expected any YAML value",
            "a number is too large: the largest is 18446744073709551615",
        ),
    ] {
        if message.contains(fragment) {
            return better.to_owned();
        }
    }
    rewrite_type_error(message).unwrap_or_else(|| message.to_owned())
}

/// Rewrites `PATH: invalid type: FOUND, expected EXPECTED` as a sentence.
fn rewrite_type_error(message: &str) -> Option<String> {
    let (path, rest) = match message.split_once("invalid type: ") {
        Some((path, rest)) => (path.trim_end_matches(": "), rest),
        None => return None,
    };
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let subject = match path {
        "" => "the file".to_owned(),
        path => format!("`{path}`"),
    };
    let number = |kind: &str| ["u", "i"].iter().any(|sign| kind.starts_with(sign));
    let expected = match expected {
        "a boolean" | "bool" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list, such as [a, b]",
        "a map" => "`key: value` lines",
        "f32" | "f64" => "a number, such as 0.5",
        kind if kind.starts_with("struct ") => "`key: value` lines",
        "usize" | "isize" => "a whole number, such as 5000",
        kind if number(kind) && kind[1..].parse::<u8>().is_ok() => "a whole number, such as 5000",
        other => other,
    };
    let found = match found {
        "sequence" => "a list".to_owned(),
        "map" => "a block of keys".to_owned(),
        "unit value" | "null" => "empty".to_owned(),
        found => match found.split_once(' ') {
            Some(("string", text)) => format!("the text {text}"),
            Some(("integer" | "boolean", value)) => value.to_owned(),
            Some(("floating", value)) => value.trim_start_matches("point ").to_owned(),
            _ => found.to_owned(),
        },
    };
    Some(format!("{subject} must be {expected}, and it is {found}"))
}

#[cfg(test)]
mod tests {
    use mimir_core::config::Config;

    use super::explain;

    #[test]
    fn config_errors_name_the_key_and_what_it_takes() {
        for (text, expected) in [
            (
                "limits: {timeMs: abc}",
                "`limits.timeMs` must be a whole number, such as 5000, and it is the text \"abc\"",
            ),
            (
                "- a\n- b\n",
                "the file must be `key: value` lines, and it is a list",
            ),
            (
                "tools: {exec: {enabled: 3}}",
                "must be true or false, and it is `3`",
            ),
            ("limits:\n\ttimeMs: 1\n", "indent with spaces"),
            ("limits: {}\n---\nlimits: {}\n", "only one is read"),
        ] {
            let error = serde_yaml::from_str::<Config>(text).unwrap_err();
            let message = explain("config.yml", &error).message;
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}

//! Programs (`wasi:cli/run`) as tools: the input is an argument vector and text for standard input.
//!
//! Out of scope: running the programs.

use mimir_core::error::{ToolError, ToolErrorCode};
use mimir_core::schema::Schema;
use mimir_core::tool::ToolName;
use serde::Deserialize;
use serde_json::{Value, json};

/// Returns the description and the input schema of a program, of which only the name is known.
pub fn definition(name: &ToolName) -> (String, Schema) {
    let description = format!(
        "Runs the program `{name}` in a sandbox with the given arguments and returns what it prints."
    );
    let schema = json!({
        "type": "object",
        "properties": {
            "args": {
                "type": "array",
                "items": { "type": "string" },
                "description": "Command line arguments, without the program's name."
            },
            "stdin": { "type": "string", "description": "Text for standard input." }
        },
        "additionalProperties": false
    });
    (description, Schema::unchecked(schema.to_string()))
}

/// The arguments of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommandArguments {
    args: Vec<String>,
    stdin: String,
}

impl CommandArguments {
    /// Parses input that matches the schema. An argument cannot contain a NUL, which the schema does not express.
    pub fn parse(arguments: &Value) -> Result<Self, ToolError> {
        let invalid = |message: String| ToolError::new(ToolErrorCode::InvalidInput, message);
        if !arguments.is_object() {
            return Err(invalid("/: the arguments must be an object".into()));
        }
        let parsed = Self::deserialize(arguments).map_err(|error| invalid(error.to_string()))?;
        match parsed.args.iter().position(|arg| arg.contains('\0')) {
            Some(at) => Err(invalid(format!(
                "/args/{at}: an argument cannot contain a NUL character"
            ))),
            None => Ok(parsed),
        }
    }

    /// Returns the argument vector: the program's name, then its arguments.
    pub fn argv(&self, name: &str) -> Vec<String> {
        std::iter::once(name.to_owned())
            .chain(self.args.iter().cloned())
            .collect()
    }

    /// Returns the bytes of standard input.
    pub fn stdin(self) -> Vec<u8> {
        self.stdin.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        definition(&ToolName::new("tool").unwrap()).1
    }

    #[test]
    fn arguments_become_an_argument_vector() {
        let arguments = json!({ "args": ["-v", "a b"], "stdin": "x" });
        schema().validate("arguments", &arguments).unwrap();
        let parsed = CommandArguments::parse(&arguments).unwrap();
        assert_eq!(parsed.argv("tool"), ["tool", "-v", "a b"]);
        assert_eq!(parsed.stdin(), b"x");
        assert_eq!(
            CommandArguments::parse(&json!({})).unwrap(),
            CommandArguments::default()
        );
    }

    #[test]
    fn arguments_of_other_types_are_refused() {
        for bad in [
            json!({"args": "x"}),
            json!({"args": [1]}),
            json!({"arg": []}),
            json!([]),
            json!(null),
        ] {
            assert_eq!(
                CommandArguments::parse(&bad).unwrap_err().code,
                ToolErrorCode::InvalidInput,
                "{bad}"
            );
            assert!(schema().validate("arguments", &bad).is_err(), "{bad}");
        }
        assert!(CommandArguments::parse(&json!({"args": ["a\0b"]})).is_err());
    }
}

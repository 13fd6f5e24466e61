//! The argument paths of rules: `path`, `options.mode`, `items[0].name`, `items[*].name`, `$.a["b.c"]`.

use serde_json::Value;

/// A path into a JSON value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ArgumentPath(Vec<ArgumentPathStep>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum ArgumentPathStep {
    Key(Box<str>),
    Index(usize),
    Each,
}

impl ArgumentPath {
    /// Parses a path. The error is the reason why the text is not valid.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut rest = text.strip_prefix('$').map_or(text, |rest| rest);
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            rest = match rest.strip_prefix('[') {
                Some(inner) => {
                    let (step, after) = parse_bracket(inner)?;
                    steps.push(step);
                    after
                }
                None => {
                    let end = rest.find(['.', '[']).unwrap_or(rest.len());
                    match &rest[..end] {
                        "" => return Err("a name is missing"),
                        "*" => steps.push(ArgumentPathStep::Each),
                        name => steps.push(ArgumentPathStep::Key(name.into())),
                    }
                    &rest[end..]
                }
            };
            if let Some(after) = rest.strip_prefix('.') {
                if after.is_empty() {
                    return Err("a name is missing after the dot");
                }
                rest = after;
            }
        }
        if steps.is_empty() {
            return Err("the name of an argument is missing");
        }
        Ok(Self(steps))
    }

    /// Returns the argument name that the path begins with. `None` if the path begins with an index or a wildcard.
    pub(super) fn argument_name(&self) -> Option<&str> {
        match self.0.first() {
            Some(ArgumentPathStep::Key(name)) => Some(name),
            _ => None,
        }
    }

    /// Returns true if the path is only the name of an argument.
    pub(super) fn is_argument_name(&self) -> bool {
        matches!(self.0.as_slice(), [ArgumentPathStep::Key(_)])
    }

    /// Returns true if the path means every argument, as `*` does.
    pub(super) fn is_each_argument(&self) -> bool {
        matches!(self.0.as_slice(), [ArgumentPathStep::Each])
    }

    /// Returns true if the path has at most one value.
    pub(super) fn is_single(&self) -> bool {
        !self.0.contains(&ArgumentPathStep::Each)
    }

    /// Returns the schema of the values at this path. `None` if the schema cannot be determined.
    pub(super) fn schema<'a>(&self, schema: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(schema, |schema, step| match step {
            ArgumentPathStep::Key(name) => schema["properties"].get(&**name),
            ArgumentPathStep::Index(_) => schema.get("items"),
            ArgumentPathStep::Each => {
                match (schema.get("items"), schema.get("additionalProperties")) {
                    (Some(inner), None) | (None, Some(inner)) => Some(inner),
                    _ => None,
                }
            }
        })
    }

    /// Calls `each` with every value at this path.
    pub(super) fn values<'a>(&self, value: &'a Value, each: &mut impl FnMut(&'a Value)) {
        walk(&self.0, value, each);
    }
}

/// Parses the text after an opening bracket. Returns the step and the text after the closing bracket.
fn parse_bracket(inner: &str) -> Result<(ArgumentPathStep, &str), &'static str> {
    if let Some(quoted) = inner.strip_prefix(['"', '\'']) {
        let quote = &inner[..1];
        let (name, after) = quoted.split_once(quote).ok_or("a quote is not closed")?;
        let after = after.strip_prefix(']').ok_or("a bracket is not closed")?;
        return Ok((ArgumentPathStep::Key(name.into()), after));
    }
    let (index, after) = inner.split_once(']').ok_or("a bracket is not closed")?;
    let step = match index {
        "*" => ArgumentPathStep::Each,
        index => ArgumentPathStep::Index(
            index
                .parse()
                .map_err(|_| "an index must be a number or `*`")?,
        ),
    };
    Ok((step, after))
}

fn walk<'a>(steps: &[ArgumentPathStep], value: &'a Value, each: &mut impl FnMut(&'a Value)) {
    let Some((step, rest)) = steps.split_first() else {
        return each(value);
    };
    match (step, value) {
        (ArgumentPathStep::Key(name), Value::Object(map)) => {
            if let Some(inner) = map.get(&**name) {
                walk(rest, inner, each);
            }
        }
        (ArgumentPathStep::Index(at), Value::Array(items)) => {
            if let Some(inner) = items.get(*at) {
                walk(rest, inner, each);
            }
        }
        (ArgumentPathStep::Each, Value::Array(items)) => {
            items.iter().for_each(|item| walk(rest, item, each))
        }
        (ArgumentPathStep::Each, Value::Object(map)) => {
            map.values().for_each(|item| walk(rest, item, each))
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn argument_path_forms_find_their_values() {
        let value = json!({
            "path": "a", "options": {"mode": "x"}, "a.b": 1,
            "items": [{"n": 1}, {"n": 2}, {}, 7],
        });
        for (path, expected) in [
            ("path", json!(["a"])),
            ("$.path", json!(["a"])),
            ("options.mode", json!(["x"])),
            ("items[0].n", json!([1])),
            ("items[*].n", json!([1, 2])),
            ("items.*.n", json!([1, 2])),
            ("['a.b']", json!([1])),
            ("$[\"a.b\"]", json!([1])),
            ("options.*", json!(["x"])),
            ("missing.deep", json!([])),
            ("path.deep", json!([])),
        ] {
            let mut values = Vec::new();
            ArgumentPath::parse(path)
                .unwrap()
                .values(&value, &mut |value| values.push(value.clone()));
            assert_eq!(Value::Array(values), expected, "{path}");
        }
    }

    #[test]
    fn argument_path_invalid_text_is_rejected() {
        for bad in [
            "", "$", "$.", "a.", "a..b", "a[", "a[x]", "a['b]", "a['b'", "[-1]",
        ] {
            assert!(ArgumentPath::parse(bad).is_err(), "{bad}");
        }
    }
}

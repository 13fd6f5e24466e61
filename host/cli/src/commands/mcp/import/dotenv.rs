//! Parser of dotenv files. Syntax on which the dotenv libraries disagree is refused.
//!
//! Out of scope: use of the variables.

use serde_json::{Map, Value};

/// Parses the lines `NAME=value` of a file, with optional quotes, `export` and comments. Errors name the line.
pub fn variables(text: &str) -> Result<Map<String, Value>, String> {
    let mut parsed = Map::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut number = 0;
    while !rest.is_empty() {
        number += 1;
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let assignment = line.trim_start();
        let assignment = assignment.strip_prefix("export ").unwrap_or(assignment);
        let Some((name, value)) = assignment.split_once('=') else {
            rest = after;
            continue;
        };
        let (name, value) = (name.trim(), value.trim_start());
        if name.is_empty() || name.starts_with('#') {
            rest = after;
            continue;
        }
        let quote = value
            .chars()
            .next()
            .filter(|c| matches!(c, '"' | '\'' | '`'));
        let Some(quote) = quote else {
            let value = value.split(" #").next().unwrap_or(value).trim_end();
            let value = if value.starts_with('#') { "" } else { value };
            parsed.insert(name.to_owned(), value.into());
            rest = after;
            continue;
        };
        // A quoted value may span several lines.
        let inner = &rest[line.len() - value.len() + 1..];
        let Some(end) = inner.find(quote) else {
            return Err(format!("line {number}: missing closing quote"));
        };
        let (value, after) = (&inner[..end], &inner[end + 1..]);
        let value = match quote {
            '"' => unescaped(value).ok_or_else(|| {
                format!("line {number}: the only escapes supported in quotes are `\\n` and `\\r`")
            })?,
            _ => value.to_owned(),
        };
        let (trailing, after) = after.split_once('\n').unwrap_or((after, ""));
        let trailing = trailing.trim();
        if !(trailing.is_empty() || trailing.starts_with('#')) {
            return Err(format!(
                "line {number}: unexpected text after the closing quote"
            ));
        }
        number += inner[..end].matches('\n').count();
        parsed.insert(name.to_owned(), value.replace("\r\n", "\n").into());
        rest = after;
    }
    Ok(parsed)
}

/// Unescapes a double-quoted value. Supports only `\n` and `\r`, on which the libraries agree; `None` for the others.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        out.push(match c {
            '\\' => match rest.next()? {
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dotenv_parses_quotes_comments_and_exports() {
        let text = "# ours\nexport A=1\nB = \"two words # here\" # x\nC='3'\nD=4 # four\n\nE\nF=\nG=a=b#c\r\n\
                    H=\"l1\nl2\"\nI='a\\\"b'\nJ=\"a\\nb\"\nK=`x`\nL= # none\n";
        assert_eq!(
            variables(text).map(Value::Object),
            Ok(
                json!({"A": "1", "B": "two words # here", "C": "3", "D": "4", "F": "", "G": "a=b#c",
                    "H": "l1\nl2", "I": "a\\\"b", "J": "a\nb", "K": "x", "L": ""})
            )
        );
    }

    #[test]
    fn dotenv_ambiguous_syntax_is_refused_with_its_line() {
        for (text, line) in [
            ("A=1\nQ=\"a\\\"b\"\n", "line 2"),
            ("M=\"a\nb\"\nQ=\"a\\tb\"", "line 3"),
            ("Q=\"a\nb\n", "line 1"),
            ("\nQ='a' b", "line 2"),
        ] {
            let why = variables(text).unwrap_err();
            assert!(why.starts_with(line), "{text}: {why}");
        }
    }
}

//! Several texts that belong together: the parts of a result, the strings of a structured value.

use serde_json::{Map, Value};

use super::keys::{self, Kind};
use super::mask::{self, Finding, Joined};
use super::{Redactor, SHORT_MIN, count};

/// Texts, and what is found in each.
struct Together {
    /// One below the other.
    below: Joined,
    /// Without anything between those that may be pieces of one text.
    close: Joined,
    shares: Vec<Vec<Finding>>,
    /// Whether the next string of a value may go on where the last text ended.
    joins: bool,
}

impl Together {
    fn new() -> Self {
        Self {
            below: Joined::new(),
            close: Joined::new(),
            shares: Vec::new(),
            joins: false,
        }
    }

    /// Adds a text; its number.
    fn push(&mut self, text: &str) -> usize {
        self.below.push(self.shares.len(), text);
        self.shares.push(Vec::new());
        self.shares.len() - 1
    }

    /// Adds a key of an object. A schema knows keys by their names: what begins in the value before is no reason to
    /// change one.
    fn push_key(&mut self, key: &str) {
        self.below.push_alone(self.shares.len(), key);
        self.shares.push(Vec::new());
    }

    /// Finds everything; what is to be masked in each text.
    fn found(mut self, redactor: &Redactor) -> Vec<Vec<Finding>> {
        let findings = redactor.find(&self.below.text);
        self.below.share(findings, &mut self.shares);
        if self.close.len() > 1 {
            let mut findings = redactor.find(&self.close.text);
            // Inside of one text the view above is the right one.
            findings.retain(|finding| self.close.spans(finding));
            self.close.share(findings, &mut self.shares);
        }
        self.shares.into_iter().map(mask::merge).collect()
    }
}

impl Redactor {
    /// Masks the secrets in the parts of one result, also those that begin in one part and end in another; how many
    /// marks were written.
    pub fn parts<'a>(&self, parts: impl IntoIterator<Item = &'a mut String>) -> u32 {
        let mut parts: Vec<&mut String> = parts.into_iter().collect();
        if let [only] = parts.as_mut_slice() {
            return self.text(only);
        }
        let mut together = Together::new();
        for part in &parts {
            let number = together.push(part);
            together.below.glue("\n");
            together.close.push(number, part);
        }
        let mut marks = 0;
        for (part, share) in parts.into_iter().zip(together.found(self)) {
            mask::apply(part, &share);
            marks += share.len();
        }
        count(marks)
    }

    /// Masks the secrets in all strings and keys of a value, and the strings below keys such as `password`; how many
    /// marks were written. The value keeps its form.
    pub fn value(&self, value: &mut Value) -> u32 {
        self.parts_and_value(std::iter::empty(), Some(value))
    }

    /// Masks texts and the value that goes with them, also what begins in the last of the texts and ends in the first
    /// string of the value; how many marks were written.
    pub fn parts_and_value<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a mut String>,
        value: Option<&mut Value>,
    ) -> u32 {
        let mut parts: Vec<&mut String> = parts.into_iter().collect();
        let Some(value) = value else {
            return self.parts(parts);
        };
        let mut together = Together::new();
        for part in &parts {
            let number = together.push(part);
            together.below.glue("\n");
            together.close.push(number, part);
        }
        together.joins = !parts.is_empty();
        self.collect(value, None, &mut together);
        let shares = together.found(self);
        let marks = shares.iter().map(Vec::len).sum();
        if marks > 0 {
            let mut shares = shares.into_iter();
            for part in &mut parts {
                mask::apply(part, &shares.next().unwrap_or_default());
            }
            write(value, &mut shares);
        }
        count(marks)
    }

    /// Reads all strings in order, each key before its value and beside it, as a rule wants to see them.
    fn collect(&self, value: &Value, kind: Option<Kind>, together: &mut Together) {
        match value {
            Value::String(text) => {
                let number = together.push(text);
                if std::mem::take(&mut together.joins) {
                    together.close.push(number, text);
                    together.close.glue("\n\n");
                }
                let kind = kind
                    .filter(|kind| kind.holds(text.as_bytes()) && !self.lets_through(kind.rule));
                if let Some(kind) = kind {
                    together.shares[number].push(Finding::new(kind.rule, 0..text.len()));
                }
                together.below.glue("\"\n");
            }
            Value::Array(items) => {
                for item in items {
                    let number = together.shares.len();
                    self.collect(item, kind, together);
                    if let Value::String(text) = item {
                        together.close.push(number, text);
                    }
                }
                together.close.glue("\n\n");
            }
            Value::Object(map) => {
                // `{"name": "DB_PASSWORD", "value": "…"}` is a key and its value, too.
                let name = ["name", "key"]
                    .iter()
                    .find_map(|name| map.get(*name)?.as_str());
                let named = name.and_then(|name| keys::judge(name.as_bytes()));
                for (key, item) in map {
                    together.below.glue("\"");
                    together.push_key(key);
                    together.below.glue(if item.is_string() {
                        "\": \""
                    } else {
                        "\": {\n"
                    });
                    let kind = keys::judge(key.as_bytes()).or(named.filter(|_| key == "value"));
                    self.collect(item, kind, together);
                }
            }
            Value::Number(digits) => {
                // A mark takes its place only where it is a secret: everything else keeps its form.
                let digits = digits.to_string();
                let kind = kind.filter(|kind| {
                    digits.len() >= SHORT_MIN
                        && kind.holds(digits.as_bytes())
                        && !self.lets_through(kind.rule)
                });
                let share = kind.map(|kind| Finding::new(kind.rule, 0..digits.len()));
                together.shares.push(share.into_iter().collect());
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Writes the marks, in the order in which `collect` reads.
fn write(value: &mut Value, shares: &mut impl Iterator<Item = Vec<Finding>>) {
    match value {
        Value::String(text) => mask::apply(text, &shares.next().unwrap_or_default()),
        Value::Array(items) => items.iter_mut().for_each(|item| write(item, shares)),
        Value::Object(map) => {
            let mut entries = Map::with_capacity(map.len());
            for (mut key, mut item) in std::mem::take(map) {
                mask::apply(&mut key, &shares.next().unwrap_or_default());
                write(&mut item, shares);
                // Two secrets as keys of one object must not become one entry.
                let mut free = key.clone();
                let mut again = 2;
                while entries.contains_key(&free) {
                    free = format!("{key} {again}");
                    again += 1;
                }
                entries.insert(free, item);
            }
            *map = entries;
        }
        Value::Number(_) => {
            if let Some(found) = shares.next().and_then(|share| share.into_iter().next()) {
                *value = Value::String(found.mark());
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

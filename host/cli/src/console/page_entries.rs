//! The lines of a page of the record, with what people look for first: the outcome and the subject of each call.

use std::collections::HashMap;

use mimir_audit::AuditEntry;
use mimir_core::RequestId;
use serde_json::Value;

use mimir::undo::UndoStore;

use super::call_subject::{subject_of_arguments, subject_of_effects};

/// Maximum number of effects from which the subject of a call is made.
const EFFECTS_MAX: usize = 50;

/// The lines of a page, newest first.
#[derive(Default)]
pub struct PageEntries {
    values: Vec<Value>,
    /// Calls whose arguments are not on record, by id. Their effects, which come later, may name the subject.
    calls: HashMap<String, UnnamedCall>,
}

/// A call whose subject is not known yet.
struct UnnamedCall {
    /// The position on the page.
    at: usize,
    /// The subjects of its effects, the last one first.
    effects: Vec<String>,
    /// The subject on its own line: the host of a request that was asked about or refused. May be empty.
    own: String,
}

impl PageEntries {
    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Adds a line. `value` is its JSON for the page.
    pub fn push(&mut self, entry: &AuditEntry, mut value: Value) {
        if let Some(outcome) = entry.outcome() {
            value["outcome"] = outcome.as_str().into();
        }
        if entry.text("event") == "call" {
            match subject_of_arguments(&value["arguments"]) {
                Some(subject) => value["about"] = subject.into(),
                None => {
                    let call = UnnamedCall {
                        at: self.values.len(),
                        effects: Vec::new(),
                        own: entry.text("subject"),
                    };
                    self.calls.insert(entry.text("id"), call);
                }
            }
        }
        self.values.push(value);
    }

    /// Returns true if effects may name the subjects of calls.
    pub fn needs_effects(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Notes the subject of an effect, if it belongs to a call of the page.
    pub fn add_effect(&mut self, line: &[u8]) {
        let is_effect =
            std::str::from_utf8(line).is_ok_and(|text| text.contains("\"event\":\"effect\""));
        if !is_effect {
            return;
        }
        let Some(entry) = AuditEntry::read(line).filter(|entry| entry.text("event") == "effect")
        else {
            return;
        };
        if let Some(call) = self.calls.get_mut(&entry.text("id"))
            && call.effects.len() < EFFECTS_MAX
        {
            call.effects.push(entry.text("subject"));
        }
    }

    /// Returns the lines with their subjects.
    pub fn finish(mut self, changes: &UndoStore) -> Vec<Value> {
        for (id, call) in self.calls {
            let changed = RequestId::is_valid(&id).then(|| changes.record_of(&id));
            let effects = call.effects.into_iter().rev().collect();
            let subject = subject_of_effects(changed.flatten().as_ref(), effects, call.own);
            if let Some(subject) = subject {
                self.values[call.at]["about"] = subject.into();
            }
        }
        self.values
    }
}

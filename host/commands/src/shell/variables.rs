//! Values of loop variables where they are certain: in loops over known words or over file patterns.
//!
//! The reader first assumes these values. The result is valid only if nothing in the whole text is unclear and each
//! variable is set only by its loops. Then all commands are known and none of them changes a variable, so the
//! assumption holds for the whole text. Otherwise, the text is read again without the values.

use std::collections::HashMap;

use crate::{ParsedProgram, ShellWord};

/// Maximum number of loop words whose values are assumed: the commands are checked, and shown, once for each word.
const MAX_LOOP_WORDS: usize = 8;

/// Variable with the characters at which the shell splits words.
const FIELD_SEPARATOR: &str = "IFS";

/// Loop variables of a text, and the facts that decide if their assumed values are correct.
#[derive(Default)]
pub(super) struct VariableScope {
    /// True if the text has a loop over words.
    has_loops: bool,
    /// True if the values of loop variables are assumed.
    assumes_values: bool,
    /// Values in the current loops, innermost last.
    bound: Vec<(String, ShellWord)>,
    /// Number of loops that set each variable.
    loop_counts: HashMap<String, usize>,
    /// True if a nested loop uses the variable of an outer one.
    is_shadowed: bool,
    /// True if the shell itself runs another text, now or later.
    runs_unknown_text: bool,
}

impl VariableScope {
    pub(super) fn has_loops(&self) -> bool {
        self.has_loops
    }

    /// Creates a scope that assumes the values of loop variables.
    pub(super) fn with_loop_values() -> Self {
        Self {
            assumes_values: true,
            ..Self::default()
        }
    }

    /// Records a loop over these words. Returns the successive values of its variable if they are assumed.
    pub(super) fn note_loop(&mut self, name: &str, words: &[ShellWord]) -> Option<Vec<ShellWord>> {
        self.has_loops = true;
        // Variables with a special meaning do not begin with a lower-case letter.
        let is_ordinary = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !self.assumes_values || !is_ordinary {
            return None;
        }
        *self.loop_counts.entry(name.to_owned()).or_default() += 1;
        self.is_shadowed |= self.bound.iter().any(|(outer, _)| outer == name);
        let values = words.iter().map(|word| match word {
            ShellWord::Known(_) => Some(word.clone()),
            ShellWord::Glob(text) => Some(ShellWord::GlobMatch(text.clone())),
            _ => None,
        });
        values
            .collect::<Option<Vec<_>>>()
            .filter(|values| (1..=MAX_LOOP_WORDS).contains(&values.len()))
    }

    /// Sets the value of a loop variable for the body of the loop.
    pub(super) fn bind(&mut self, name: &str, word: ShellWord) {
        self.bound.push((name.to_owned(), word));
    }

    /// Ends the innermost binding.
    pub(super) fn unbind(&mut self) {
        self.bound.pop();
    }

    /// Records that the shell itself runs another text, which may set the loop variables.
    pub(super) fn note_unknown_text(&mut self) {
        self.runs_unknown_text = true;
    }

    /// Removes and returns the values, before a text in which they are unknown.
    pub(super) fn take_bound(&mut self) -> Vec<(String, ShellWord)> {
        std::mem::take(&mut self.bound)
    }

    /// Restores the values returned by [`take_bound`](Self::take_bound).
    pub(super) fn restore_bound(&mut self, bound: Vec<(String, ShellWord)>) {
        self.bound = bound;
    }

    /// Returns the value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<&ShellWord> {
        let binding = self.bound.iter().rev().find(|(bound, _)| bound == name);
        binding.map(|(_, word)| word)
    }

    /// Returns the file pattern for a quoted loop variable, if the word has only plain text around it.
    pub(super) fn file_pattern(&self, raw: &str) -> Option<ShellWord> {
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        let (before, rest) = inner.split_once('$')?;
        let (name, after) = match rest.strip_prefix('{') {
            Some(rest) => rest.split_once('}')?,
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()))
            }
        };
        let ShellWord::GlobMatch(glob) = self.get(name)? else {
            return None;
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        // An added dot may turn the name into the parent folder, and added letters may turn an option into another one.
        let adds_dots = before.ends_with('.') || after == "." || after.starts_with("./");
        let adds_options = before.starts_with('-')
            || before.is_empty()
                && glob.starts_with(['*', '?', '[', '-'])
                && after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
        let is_clear = [before, after]
            .iter()
            .all(|text| text.chars().all(is_plain) && !text.contains(".."));
        (is_clear && !adds_dots && !adds_options)
            .then(|| ShellWord::GlobMatch(format!("{before}{glob}{after}")))
    }

    /// Returns true if the variables have the assumed values in the whole script.
    pub(super) fn match_script(&self, script: &ParsedProgram) -> bool {
        let assignments_to = |name: &str| {
            let assignments = script
                .commands
                .iter()
                .flat_map(|simple| &simple.assignments);
            assignments.filter(|(variable, _)| variable == name).count()
        };
        let is_clear =
            !self.is_shadowed && !self.runs_unknown_text && assignments_to(FIELD_SEPARATOR) == 0;
        is_clear
            && self
                .loop_counts
                .iter()
                .all(|(name, &count)| assignments_to(name) == count)
    }
}

/// Returns true if the shell reads the unquoted text as exactly this one word.
pub(super) fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-+,:@%".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}

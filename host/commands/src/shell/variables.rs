//! Values of variables, where they are certain: those of loops over known words or over file patterns.
//!
//! The reader first assumes these values. The result is valid only if nothing in the whole text is unclear and only
//! their loops set them. Then all commands are known, so none of them changes a variable, and the assumption is right
//! from the first command to the last. Otherwise the text is read again, without the values.

use std::collections::HashMap;

use crate::{ParsedProgram, ShellWord};

/// Maximum number of words of a loop that is followed: its commands are judged, and shown, once for each word.
const WORDS_MAX: usize = 8;

/// The variable with the characters at which the shell splits words.
const SPLITS: &str = "IFS";

#[derive(Default)]
pub(super) struct VariableScope {
    loops: bool,
    follows: bool,
    /// The values in the current loops, innermost last.
    bound: Vec<(String, ShellWord)>,
    /// The number of loops that set each variable.
    set: HashMap<String, usize>,
    /// True if a nested loop has the same variable.
    hidden: bool,
    /// True if the shell itself runs another text, now or later.
    lost: bool,
}

impl VariableScope {
    pub(super) fn has_loops(&self) -> bool {
        self.loops
    }

    /// Creates variables that are followed.
    pub(super) fn following() -> Self {
        Self {
            follows: true,
            ..Self::default()
        }
    }

    /// Records a loop over these words. Returns the successive values of its variable if that is followed.
    pub(super) fn note_loop(&mut self, name: &str, words: &[ShellWord]) -> Option<Vec<ShellWord>> {
        self.loops = true;
        // Variables with a meaning for shells do not begin with a lowercase letter.
        let is_ours = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !self.follows || !is_ours {
            return None;
        }
        *self.set.entry(name.to_owned()).or_default() += 1;
        self.hidden |= self.bound.iter().any(|(outer, _)| outer == name);
        let each = words.iter().map(|word| match word {
            ShellWord::Known(_) => Some(word.clone()),
            ShellWord::Glob(text) => Some(ShellWord::GlobMatch(text.clone())),
            _ => None,
        });
        each.collect::<Option<Vec<_>>>()
            .filter(|each| (1..=WORDS_MAX).contains(&each.len()))
    }

    pub(super) fn bind(&mut self, name: &str, word: ShellWord) {
        self.bound.push((name.to_owned(), word));
    }

    pub(super) fn unbind(&mut self) {
        self.bound.pop();
    }

    /// Records that the shell itself runs another text, which may set the followed variables.
    pub(super) fn note_unknown_text(&mut self) {
        self.lost = true;
    }

    /// Takes the values out, for a text in which they are not known.
    pub(super) fn take_bound(&mut self) -> Vec<(String, ShellWord)> {
        std::mem::take(&mut self.bound)
    }

    pub(super) fn restore_bound(&mut self, bound: Vec<(String, ShellWord)>) {
        self.bound = bound;
    }

    /// Returns the value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<&ShellWord> {
        let found = self.bound.iter().rev().find(|(bound, _)| bound == name);
        found.map(|(_, word)| word)
    }

    /// Returns the file pattern of a word that is a quoted variable, with nothing but plain text around it.
    pub(super) fn file_of_word(&self, raw: &str) -> Option<ShellWord> {
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        let (before, rest) = inner.split_once('$')?;
        let (name, behind) = match rest.strip_prefix('{') {
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
        // An added dot may turn the name into the parent folder, and added letters may turn an option into another
        // one.
        let dots = before.ends_with('.') || behind == "." || behind.starts_with("./");
        let options = before.starts_with('-')
            || before.is_empty()
                && glob.starts_with(['*', '?', '[', '-'])
                && behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
        let clear = [before, behind]
            .iter()
            .all(|text| text.chars().all(is_plain) && !text.contains(".."));
        (clear && !dots && !options)
            .then(|| ShellWord::GlobMatch(format!("{before}{glob}{behind}")))
    }

    /// Returns true if these variables kept the assumed values in the whole script.
    pub(super) fn match_script(&self, script: &ParsedProgram) -> bool {
        let sets = |name: &str| {
            let all = script
                .commands
                .iter()
                .flat_map(|simple| &simple.assignments);
            all.filter(|(set, _)| set == name).count()
        };
        let clear = !self.hidden && !self.lost && sets(SPLITS) == 0;
        clear && self.set.iter().all(|(name, &own)| sets(name) == own)
    }
}

/// Returns true if the shell makes exactly this one word of the unquoted text.
pub(super) fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-+,:@%".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}

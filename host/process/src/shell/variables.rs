//! Values of variables, where they are certain: those of loops over known words or over file patterns.
//!
//! The reader first assumes these values. The result is valid only if nothing in the whole text is unclear and only
//! their loops set them. Then all commands are known, so none of them changes a variable, and the assumption is right
//! from the first command to the last. Otherwise the text is read again, without the values.

use std::collections::HashMap;

use mimir_core::command::{Script, Word};

/// Maximum number of words of a loop that is followed: its commands are judged, and shown, once for each word.
const WORDS_MAX: usize = 8;

/// The variable with the characters at which the shell splits words.
const SPLITS: &str = "IFS";

#[derive(Default)]
pub(super) struct Variables {
    loops: bool,
    follows: bool,
    /// The values in the current loops, innermost last.
    bound: Vec<(String, Word)>,
    /// The number of loops that set each variable.
    set: HashMap<String, usize>,
    /// True if a nested loop has the same variable.
    hidden: bool,
    /// True if the shell itself runs another text, now or later.
    lost: bool,
}

impl Variables {
    pub(super) fn has_loops(&self) -> bool {
        self.loops
    }

    /// Creates variables that are followed.
    pub(super) fn followed() -> Self {
        Self {
            follows: true,
            ..Self::default()
        }
    }

    /// Records a loop over these words. Returns the successive values of its variable if that is followed.
    pub(super) fn of_loop(&mut self, name: &str, words: &[Word]) -> Option<Vec<Word>> {
        self.loops = true;
        // Variables with a meaning for shells do not begin with a lowercase letter.
        let is_ours = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !self.follows || !is_ours {
            return None;
        }
        *self.set.entry(name.to_owned()).or_default() += 1;
        self.hidden |= self.bound.iter().any(|(outer, _)| outer == name);
        let each = words.iter().map(|word| match word {
            Word::Known(_) => Some(word.clone()),
            Word::Glob(text) => Some(Word::Found(text.clone())),
            Word::Found(_) | Word::Unknown(_) => None,
        });
        each.collect::<Option<Vec<_>>>()
            .filter(|each| (1..=WORDS_MAX).contains(&each.len()))
    }

    pub(super) fn bind(&mut self, name: &str, word: Word) {
        self.bound.push((name.to_owned(), word));
    }

    pub(super) fn unbind(&mut self) {
        self.bound.pop();
    }

    /// Records that the shell itself runs another text, which may set the followed variables.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Takes the values out, for a text in which they are not known.
    pub(super) fn leave(&mut self) -> Vec<(String, Word)> {
        std::mem::take(&mut self.bound)
    }

    pub(super) fn come_back(&mut self, bound: Vec<(String, Word)>) {
        self.bound = bound;
    }

    /// Returns the value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<&Word> {
        let found = self.bound.iter().rev().find(|(bound, _)| bound == name);
        found.map(|(_, word)| word)
    }

    /// Returns the file pattern of a word that is a quoted variable, with nothing but plain text around it.
    pub(super) fn found(&self, raw: &str) -> Option<Word> {
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        let (before, rest) = inner.split_once('$')?;
        let (name, behind) = match rest.strip_prefix('{') {
            Some(rest) => rest.split_once('}')?,
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()))
            }
        };
        let Word::Found(glob) = self.get(name)? else {
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
        (clear && !dots && !options).then(|| Word::Found(format!("{before}{glob}{behind}")))
    }

    /// Returns true if these variables kept the assumed values in the whole script.
    pub(super) fn hold(&self, script: &Script) -> bool {
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

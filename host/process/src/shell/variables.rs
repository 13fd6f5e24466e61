//! What variables hold, where that is sure: those of loops over words that are known, or that files are looked for with.
//!
//! They are followed at first, and that counts only where nothing in the whole text is unclear and nothing but their
//! loops sets them. Then each command is one that was read; so none makes a variable another one, and what was read is
//! right from the first command to the last. Else the text is read again, without.

use std::collections::HashMap;

use mimir_core::command::{Script, Word};

/// The most words of a loop that are followed: its commands are judged, and shown, once for each.
const WORDS_MAX: usize = 8;

/// What decides where the shell splits a word.
const SPLITS: &str = "IFS";

#[derive(Default)]
pub(super) struct Variables {
    loops: bool,
    follows: bool,
    /// Innermost last.
    bound: Vec<(String, Word)>,
    /// How often each was set by a loop of its own.
    set: HashMap<String, usize>,
    /// Whether a loop in a loop has the same variable.
    hidden: bool,
    /// Whether the shell itself runs another text, now or whenever it comes to it.
    lost: bool,
}

impl Variables {
    pub(super) fn has_loops(&self) -> bool {
        self.loops
    }

    /// To be followed.
    pub(super) fn followed() -> Self {
        Self {
            follows: true,
            ..Self::default()
        }
    }

    /// Notes a loop over these words. If its variable is to be followed, what it will be, one time after another.
    pub(super) fn of_loop(&mut self, name: &str, words: &[Word]) -> Option<Vec<Word>> {
        self.loops = true;
        // Those that shells have meanings for have no small letter at the beginning.
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

    /// Notes that the shell itself runs another text, which may set what is followed.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Hands out what is bound, for a text that knows nothing of it.
    pub(super) fn leave(&mut self) -> Vec<(String, Word)> {
        std::mem::take(&mut self.bound)
    }

    pub(super) fn come_back(&mut self, bound: Vec<(String, Word)>) {
        self.bound = bound;
    }

    /// What is in a variable.
    pub(super) fn get(&self, name: &str) -> Option<&Word> {
        let found = self.bound.iter().rev().find(|(bound, _)| bound == name);
        found.map(|(_, word)| word)
    }

    /// The file that a word is, where that is a variable between quotes, and plain text around it at most.
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
        // A name that a dot is added to may be the folder above, and with more letters an option is another one.
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

    /// Whether these variables are what they were followed as, in all that was read.
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

/// Whether the shell makes one word of this text where no quotes are around it, and the same one.
pub(super) fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-+,:@%".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}

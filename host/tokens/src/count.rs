//! Token counts by the tokenizer o200k.

use std::sync::OnceLock;

use tiktoken_rs::{CoreBPE, O200K_BASE_PAT_STR};

/// The tokens in the order of their ranks, each after a byte with its length. Packed by the build script: as text, the
/// table would be twice as large.
const TOKENS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k"));

/// Maximum length in characters of a run of letters, blanks or other characters. The patterns of the tokenizer
/// backtrack over long runs, and fail on very long ones.
const MAX_RUN_CHARS: usize = 512;

/// Returns the number of tokens in `text`. Special tokens count as ordinary text.
pub fn count(text: &str) -> u32 {
    let tokens = split_long_runs(text).map(|chunk| match tokenizer() {
        Some(tokenizer) => tokenizer.count_ordinary(chunk),
        None => chunk.len().div_ceil(BYTES_PER_TOKEN),
    });
    u32::try_from(tokens.sum::<usize>()).unwrap_or(u32::MAX)
}

/// Approximate number of bytes of English and JSON per token.
const BYTES_PER_TOKEN: usize = 4;

/// Returns the tokenizer, which is created at the first use. Its tables are part of the program; if they could not be
/// parsed, counts would be estimates.
fn tokenizer() -> Option<&'static CoreBPE> {
    static TOKENIZER: OnceLock<Option<CoreBPE>> = OnceLock::new();
    TOKENIZER
        .get_or_init(|| {
            let ranks = tokens(TOKENS).map(<[u8]>::to_vec).zip(0..).collect();
            // Special tokens count as ordinary text.
            CoreBPE::new(ranks, [].into_iter().collect(), O200K_BASE_PAT_STR).ok()
        })
        .as_ref()
}

/// Splits the packed table into its tokens.
fn tokens(mut packed: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = packed.split_first()?;
        let (token, rest) = rest.split_at_checked(usize::from(*length))?;
        packed = rest;
        Some(token)
    })
}

/// Splits the text only within runs longer than [`MAX_RUN_CHARS`].
fn split_long_runs(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (chunk, after) = rest.split_at(end_of_chunk(rest));
        rest = after;
        Some(chunk)
    })
}

/// Returns the end of the first chunk: the end of the text, or a position within a run that is too long.
fn end_of_chunk(text: &str) -> usize {
    let (mut run, mut kind) = (0, None);
    for (at, character) in text.char_indices() {
        let current = Some(CharRunKind::from_char(character));
        run = if current == kind { run + 1 } else { 1 };
        kind = current;
        if run > MAX_RUN_CHARS {
            return at;
        }
    }
    text.len()
}

#[derive(PartialEq, Eq)]
enum CharRunKind {
    Letter,
    Blank,
    Other,
}

impl CharRunKind {
    fn from_char(character: char) -> Self {
        match character {
            c if c.is_alphanumeric() => CharRunKind::Letter,
            c if c.is_whitespace() => CharRunKind::Blank,
            _ => CharRunKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_equals_that_of_the_tokenizer() {
        // Counted by tiktoken's own o200k_base.
        for (text, tokens) in [
            ("", 0),
            ("hello world", 2),
            ("tiktoken is great!", 6),
            ("<|endoftext|>", 7),
        ] {
            assert_eq!(count(text), tokens, "{text}");
        }
    }

    #[test]
    fn packed_table_has_all_tokens() {
        assert_eq!(tokens(TOKENS).count(), 199_998);
        assert_eq!(tokens(TOKENS).map(<[u8]>::len).max(), Some(128));
        let size: usize = tokens(TOKENS).map(|token| token.len() + 1).sum();
        assert_eq!(size, TOKENS.len());
    }

    #[test]
    fn count_is_fast_for_hostile_texts() {
        let start = std::time::Instant::now();
        for character in [
            'a', 'A', ' ', '\n', '!', 'ä', '中', '\u{301}', '\u{200b}', '9', '\'',
        ] {
            let text: String = std::iter::repeat_n(character, 300_000).collect();
            let tokens = count(&text);
            assert!(
                tokens > 0 && tokens as usize <= text.len(),
                "{character:?} {tokens}"
            );
        }
        let mixed = "aA1 \t!\r\n".repeat(50_000);
        assert!(count(&mixed) > 50_000);
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    }

    #[test]
    fn only_runs_that_are_too_long_are_split() {
        let plain = "{\"type\":\"object\"} some words, and more".repeat(100);
        assert_eq!(split_long_runs(&plain).count(), 1);
        let long = format!("a {} b", "ä".repeat(MAX_RUN_CHARS * 2));
        let chunks: Vec<&str> = split_long_runs(&long).collect();
        assert_eq!((chunks.len(), chunks.concat()), (2, long.clone()));
    }
}

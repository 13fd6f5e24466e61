//! Estimates token counts without a tokenizer: loading one takes a third of a second and megabytes of memory, too much
//! for a call.
//!
//! Tokenizers first split a text into the same chunks: a word with the blank before it, up to three digits, a run of
//! punctuation with the line end after it. Most chunks are one token. Long chunks, and chunks in scripts for which
//! tokenizers have fewer words, get a higher weight.

/// The weight of one token. Weights of characters are fractions of it.
const TOKEN: u64 = 1_000;

/// Maximum length of words that usually are one token, in letters.
const SHORT_WORD: u64 = 6;

/// The class of a character for a tokenizer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenCharKind {
    /// A lower-case letter of an alphabet whose words usually are one token.
    Lower,
    /// An upper-case letter of such an alphabet.
    Upper,
    /// A letter of another alphabet, whose words are split into several tokens.
    Alphabet,
    /// A character that is a word or a syllable.
    Word,
    Digit,
    Space,
    /// The end of a line.
    Break,
    /// Punctuation.
    Mark,
    /// Other multi-byte symbols: arrows, boxes, emoji.
    Sign,
}

impl TokenCharKind {
    fn from_char(character: char) -> Self {
        match character {
            'a'..='z' | 'ß'..='ÿ' => TokenCharKind::Lower,
            'A'..='Z' | 'À'..='Þ' => TokenCharKind::Upper,
            '0'..='9' => TokenCharKind::Digit,
            '\n' | '\r' => TokenCharKind::Break,
            c if c.is_whitespace() => TokenCharKind::Space,
            c if c.is_ascii() => TokenCharKind::Mark,
            // Chinese and Japanese characters, and Korean syllables.
            '\u{2e80}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}' => TokenCharKind::Word,
            // Includes combining marks, of which the scripts of India have many.
            '\u{300}'..='\u{36f}' | '\u{900}'..='\u{dff}' => TokenCharKind::Alphabet,
            c if c.is_alphanumeric() => TokenCharKind::Alphabet,
            _ => TokenCharKind::Sign,
        }
    }

    /// Returns true if a blank before such a character belongs to the same token.
    fn joins_preceding_blank(self) -> bool {
        !matches!(
            self,
            TokenCharKind::Digit | TokenCharKind::Space | TokenCharKind::Break
        )
    }

    /// Returns the weight of a run of this length, fitted to the counts of a tokenizer.
    fn weight(self, run: u64) -> u64 {
        match self {
            TokenCharKind::Lower => TOKEN + run.saturating_sub(SHORT_WORD) * 100,
            TokenCharKind::Upper => TOKEN + run.saturating_sub(2) * 300,
            TokenCharKind::Alphabet => TOKEN + run.saturating_sub(4) * 220,
            TokenCharKind::Word => run * 650,
            TokenCharKind::Digit => run.div_ceil(3) * TOKEN,
            TokenCharKind::Space | TokenCharKind::Break => TOKEN,
            TokenCharKind::Mark => TOKEN + run.saturating_sub(2) * 250,
            TokenCharKind::Sign => run * 1_400,
        }
    }
}

/// Shortest run of equal marks that counts as a ruler or the edge of a box.
const RULER_MIN: u64 = 4;

/// Marks of a ruler per token.
const RULER_MARKS_PER_TOKEN: u64 = 16;

/// The weight of one punctuation mark before a word: often they share a token.
const MARK_BEFORE_WORD: u64 = 550;

/// Estimates the number of tokens of `text`: within a few percent for prose, code and JSON, less exact for other text.
pub fn estimate_tokens(text: &str) -> u64 {
    let mut weight: u64 = 0;
    let mut previous = None;
    let mut characters = text
        .chars()
        .map(|c| (TokenCharKind::from_char(c), c))
        .peekable();
    while let Some((kind, first)) = characters.next() {
        let mut run = 1;
        let mut all_equal = true;
        while let Some((_, other)) = characters.next_if(|(other, _)| *other == kind) {
            run += 1;
            all_equal &= other == first;
        }
        let next = characters.peek().map(|(next, _)| *next);
        weight += match (kind, run) {
            (TokenCharKind::Space, 1) if next.is_some_and(TokenCharKind::joins_preceding_blank) => {
                0
            }
            // A line end belongs to the punctuation before it, and a capital to its word.
            (TokenCharKind::Break, _) if previous == Some(TokenCharKind::Mark) => 0,
            (TokenCharKind::Upper, 1) if next == Some(TokenCharKind::Lower) => 0,
            (TokenCharKind::Mark, 1)
                if matches!(next, Some(TokenCharKind::Lower | TokenCharKind::Upper)) =>
            {
                MARK_BEFORE_WORD
            }
            (TokenCharKind::Mark | TokenCharKind::Sign, RULER_MIN..) if all_equal => {
                run.div_ceil(RULER_MARKS_PER_TOKEN) * TOKEN
            }
            _ => kind.weight(run),
        };
        previous = Some(kind);
    }
    weight.div_ceil(TOKEN)
}

#[cfg(test)]
mod tests {
    use super::estimate_tokens;

    #[test]
    fn token_estimate_of_empty_and_short_texts() {
        let ruler = "=".repeat(80);
        for (text, tokens) in [
            ("", 0),
            ("a", 1),
            ("hello world", 2),
            ("12345", 2),
            (&ruler, 5),
        ] {
            assert_eq!(estimate_tokens(text), tokens, "{text}");
        }
    }

    #[test]
    fn token_estimate_of_languages_is_close_to_the_tokenizer() {
        // Counted with o200k. Prose, code and data are compared where the tokenizer is available.
        for (text, counted) in [
            (
                "今天天气很好，我们去公园散步。人工智能正在改变世界，许多公司都在开发新的模型。请阅读以下文件并总结其内容。\n",
                35_u64,
            ),
            (
                "Сегодня хорошая погода, и мы пойдём гулять в парк. Искусственный интеллект меняет мир, и многие компании разрабатывают новые модели. Прочитайте файл и кратко изложите его содержание.\n",
                45,
            ),
            (
                "Heute ist schönes Wetter, und wir gehen im Park spazieren. Künstliche Intelligenz verändert die Welt, und viele Unternehmen entwickeln neue Modelle. Bitte lies die folgende Datei und fasse ihren Inhalt zusammen; größere Änderungen gehören überprüft.\n",
                47,
            ),
            (
                "今日は天気がいいので、公園へ散歩に行きましょう。人工知能は世界を変えています。次のファイルを読んで、内容を要約してください。\n",
                42,
            ),
        ] {
            let estimate = estimate_tokens(text);
            assert!(
                estimate.abs_diff(counted) * 8 <= counted,
                "{estimate} for {counted}: {text}"
            );
        }
    }
}

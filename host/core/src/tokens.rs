//! About how many tokens a text is to a model, without a tokenizer: those take a third of a second to be made, and
//! megabytes, which a call has not.
//!
//! What tokenizers agree on is how a text is cut before anything is looked up: a word with the blank before it, up to
//! three digits, a run of punctuation with the line's end after it. Most such pieces are one token. What is left is a
//! weight for pieces that are longer than most tokens, and for scripts of which tokenizers know fewer words.

/// What one token weighs: weights are shares of it.
const TOKEN: u64 = 1_000;

/// Letters of the longest words that most often are one token.
const SHORT: u64 = 6;

/// What a character is to a tokenizer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A small letter of a language whose words are whole tokens.
    Lower,
    /// A capital of one.
    Upper,
    /// A letter of another alphabet, of whose words tokenizers know parts.
    Alphabet,
    /// A character that is a word or a syllable.
    Word,
    Digit,
    Space,
    /// The end of a line.
    Break,
    /// Punctuation.
    Mark,
    /// What is no letter and several bytes: arrows, boxes, emoji.
    Sign,
}

impl Kind {
    fn of(character: char) -> Self {
        match character {
            'a'..='z' | 'ß'..='ÿ' => Kind::Lower,
            'A'..='Z' | 'À'..='Þ' => Kind::Upper,
            '0'..='9' => Kind::Digit,
            '\n' | '\r' => Kind::Break,
            c if c.is_whitespace() => Kind::Space,
            c if c.is_ascii() => Kind::Mark,
            // The characters of Chinese and Japanese, and the syllables of Korean.
            '\u{2e80}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}' => Kind::Word,
            // With marks that stand above and below letters, of which those of India have many.
            '\u{300}'..='\u{36f}' | '\u{900}'..='\u{dff}' => Kind::Alphabet,
            c if c.is_alphanumeric() => Kind::Alphabet,
            _ => Kind::Sign,
        }
    }

    /// Whether a blank before it belongs to it.
    fn takes_a_blank(self) -> bool {
        !matches!(self, Kind::Digit | Kind::Space | Kind::Break)
    }

    /// What a run of this many weighs, by texts that were counted.
    fn weight(self, run: u64) -> u64 {
        match self {
            Kind::Lower => TOKEN + run.saturating_sub(SHORT) * 100,
            Kind::Upper => TOKEN + run.saturating_sub(2) * 300,
            Kind::Alphabet => TOKEN + run.saturating_sub(4) * 220,
            Kind::Word => run * 650,
            Kind::Digit => run.div_ceil(3) * TOKEN,
            Kind::Space | Kind::Break => TOKEN,
            Kind::Mark => TOKEN + run.saturating_sub(2) * 250,
            Kind::Sign => run * 1_400,
        }
    }
}

/// Marks and signs of one kind in a ruler or a box that are a token, from as many on as no word has.
const RULED: u64 = 16;
const RULER: u64 = 4;

/// What one punctuation mark before a word weighs: often they are one token.
const MARKED: u64 = 550;

/// About how many tokens `text` is: within some percent for prose, code and JSON; further off for what no tokenizer was
/// made for.
pub fn about(text: &str) -> u64 {
    let mut weight: u64 = 0;
    let mut before = None;
    let mut characters = text.chars().map(|c| (Kind::of(c), c)).peekable();
    while let Some((kind, first)) = characters.next() {
        let mut run = 1;
        let mut same = true;
        while let Some((_, other)) = characters.next_if(|(other, _)| *other == kind) {
            run += 1;
            same &= other == first;
        }
        let next = characters.peek().map(|(next, _)| *next);
        weight += match (kind, run) {
            (Kind::Space, 1) if next.is_some_and(Kind::takes_a_blank) => 0,
            // The end of a line belongs to the punctuation before it, and a capital to its word.
            (Kind::Break, _) if before == Some(Kind::Mark) => 0,
            (Kind::Upper, 1) if next == Some(Kind::Lower) => 0,
            (Kind::Mark, 1) if matches!(next, Some(Kind::Lower | Kind::Upper)) => MARKED,
            (Kind::Mark | Kind::Sign, RULER..) if same => run.div_ceil(RULED) * TOKEN,
            _ => kind.weight(run),
        };
        before = Some(kind);
    }
    weight.div_ceil(TOKEN)
}

#[cfg(test)]
mod tests {
    use super::about;

    #[test]
    fn nothing_is_nothing_and_a_word_is_a_token() {
        let ruler = "=".repeat(80);
        for (text, tokens) in [
            ("", 0),
            ("a", 1),
            ("hello world", 2),
            ("12345", 2),
            (&ruler, 5),
        ] {
            assert_eq!(about(text), tokens, "{text}");
        }
    }

    #[test]
    fn languages_are_about_what_the_tokenizer_counts() {
        // By o200k; that prose, code and data are is tested where there is a tokenizer.
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
            let estimate = about(text);
            assert!(
                estimate.abs_diff(counted) * 8 <= counted,
                "{estimate} for {counted}: {text}"
            );
        }
    }
}

//! Ranking by words: BM25.

use bm25::{Embedder, EmbedderBuilder, Scorer, Tokenizer};

/// Splits text into words for comparison.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Words;

impl Tokenizer for Words {
    fn tokenize(&self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut word = String::new();
        for c in text.chars() {
            match c {
                // Scripts without spaces: each character is a word.
                c if is_unspaced_script(c) => {
                    push_word(&mut word, &mut words);
                    words.push(c.to_string());
                }
                c if c.is_alphanumeric() => word.extend(c.to_lowercase()),
                _ => push_word(&mut word, &mut words),
            }
        }
        push_word(&mut word, &mut words);
        words
    }
}

fn push_word(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() {
        words.push(stem(std::mem::take(word)));
    }
}

/// Returns true for Han, kana and similar scripts.
fn is_unspaced_script(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// Removes an English plural ending with Harman's S-stemmer. A stronger stemmer would merge different words.
fn stem(mut word: String) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    if word.len() < 4 || !word.is_ascii() {
        return word;
    }
    if ends(&["ies"]) && !ends(&["eies", "aies"]) {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if ends(&["s"]) && !ends(&["us", "ss", "aes", "ees", "oes"]) {
        word.truncate(word.len() - 1);
    }
    word
}

/// Texts prepared for ranking.
pub(crate) struct Ranking {
    embedder: Embedder<u64, Words>,
    scorer: Scorer<usize, u64>,
}

impl Ranking {
    pub(crate) fn new(texts: &[String]) -> Self {
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedder = EmbedderBuilder::<u64, Words>::with_tokenizer_and_fit_to_corpus(Words, &all);
        let embedder = embedder.build();
        let mut scorer = Scorer::new();
        for (at, text) in texts.iter().enumerate() {
            scorer.upsert(&at, embedder.embed(text));
        }
        Self { embedder, scorer }
    }

    /// Returns the texts that contain a word of the query, best first. The order is deterministic.
    pub(crate) fn rank(&self, query: &str) -> Vec<(usize, f32)> {
        let matches = self.scorer.matches(&self.embedder.embed(query));
        let mut matches: Vec<_> = matches
            .into_iter()
            .map(|text| (text.id, text.score))
            .collect();
        matches.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ranking_splits_and_stems_words() {
        let words =
            Words.tokenize("The Tests' buses: snake_case, Größe 42; classes, queries 東京へ");
        assert_eq!(
            words,
            [
                "the", "test", "buse", "snake", "case", "größe", "42", "classe", "query", "東",
                "京", "へ"
            ]
        );
        assert_eq!(Words.tokenize(" \n"), Vec::<String>::new());
    }

    #[test]
    fn memory_ranking_prefers_rare_words_and_short_texts() {
        let texts = [
            "deploy to the staging server with the blue script",
            "the tests of the parser are slow",
            "the the the the",
            "staging",
        ]
        .map(str::to_owned);
        let ranking = Ranking::new(&texts);
        let order =
            |query: &str| -> Vec<usize> { ranking.rank(query).iter().map(|hit| hit.0).collect() };
        assert_eq!(order("the parser test")[0], 1);
        assert_eq!(order("staging"), [3, 0]);
        assert_eq!(order("absent words"), Vec::<usize>::new());
        assert_eq!(order(""), Vec::<usize>::new());
    }
}

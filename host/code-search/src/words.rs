//! Splits text into search terms: the names in it, and the words that a name consists of. Terms are compared by hash,
//! so that an index holds no text of files.

/// Maximum length of a name in bytes. Longer runs of letters are data.
const MAX_NAME: usize = 64;

/// Maximum length of a number that is a term, such as a status code.
const MAX_NUMBER: usize = 6;

/// Words of questions that say nothing about code.
const STOP_WORDS: [&str; 36] = [
    "a", "an", "and", "are", "at", "be", "by", "can", "code", "do", "does", "find", "for", "from",
    "how", "in", "is", "it", "its", "me", "of", "on", "or", "show", "that", "the", "this", "to",
    "we", "what", "when", "where", "which", "who", "why", "with",
];

/// The hash of a term.
pub(crate) type TermHash = u64;

/// Calls `visit` for each term of a text.
pub(crate) fn visit_terms(text: &[u8], mut visit: impl FnMut(TermHash)) {
    let mut at = 0;
    while at < text.len() {
        if !is_name_byte(text[at]) {
            at += 1;
            continue;
        }
        let start = at;
        while at < text.len() && is_name_byte(text[at]) {
            at += 1;
        }
        visit_name(&text[start..at], &mut visit);
    }
}

/// Returns the terms of a query, each once, without words that say nothing.
pub(crate) fn query_terms(query: &str) -> Vec<TermHash> {
    let collect = |keeps_all: bool| {
        let mut terms = Vec::new();
        let words = query.split(|c: char| !c.is_alphanumeric() && c != '_');
        for word in words {
            if !keeps_all && STOP_WORDS.contains(&word.to_ascii_lowercase().as_str()) {
                continue;
            }
            visit_terms(word.as_bytes(), |term| {
                if !terms.contains(&term) {
                    terms.push(term);
                }
            });
        }
        terms
    };
    let terms = collect(false);
    if terms.is_empty() {
        collect(true)
    } else {
        terms
    }
}

/// Returns the term by which files with this name are found. `None` if it is not a name.
pub(crate) fn name_term(name: &str) -> Option<TermHash> {
    // The whole name comes after its words.
    let mut last = None;
    visit_terms(name.as_bytes(), |term| last = Some(term));
    last
}

/// Splits a name into its words in lower case: `parseHTTPHeader` into `parse`, `http` and `header`.
pub(crate) fn split_name(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    visit_words(name.as_bytes(), |word| {
        words.push(String::from_utf8_lossy(word).to_lowercase());
    });
    words
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn visit_name(name: &[u8], visit: &mut impl FnMut(TermHash)) {
    let is_number = name[0].is_ascii_digit();
    if name.len() > MAX_NAME || is_number && name.len() > MAX_NUMBER {
        return;
    }
    let mut words = 0;
    visit_words(name, |word| {
        words += 1;
        if word.len() > 1 || name.len() == 1 {
            let mut lower = [0; MAX_NAME];
            let lower = &mut lower[..word.len()];
            lower.copy_from_slice(word);
            lower.make_ascii_lowercase();
            visit(hash(stem(lower)));
        }
    });
    if words > 1 {
        let mut lower = [0; MAX_NAME];
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        visit(hash(lower));
    }
}

fn visit_words<'n>(name: &'n [u8], mut visit: impl FnMut(&'n [u8])) {
    let mut start = 0;
    for at in 0..=name.len() {
        let ends = match name.get(at) {
            None | Some(b'_') => true,
            Some(byte) if byte.is_ascii_uppercase() && at > start => {
                let follows_lower = !name[at - 1].is_ascii_uppercase();
                // The last capital of an acronym begins the next word.
                let precedes_lower = name.get(at + 1).is_some_and(u8::is_ascii_lowercase);
                follows_lower || precedes_lower
            }
            Some(_) => false,
        };
        if ends {
            if at > start {
                visit(&name[start..at]);
            }
            start = if name.get(at) == Some(&b'_') {
                at + 1
            } else {
                at
            };
        }
    }
}

/// Removes the ending of a word, so that `parse`, `parsed` and `parsing` are one term.
fn stem(word: &[u8]) -> &[u8] {
    let strip =
        |ending: &[u8], least: usize| word.strip_suffix(ending).filter(|rest| rest.len() >= least);
    let stripped = strip(b"ing", 4)
        .or_else(|| strip(b"ed", 4))
        .or_else(|| strip(b"es", 4))
        .or_else(|| strip(b"s", 3).filter(|rest| !rest.ends_with(b"s")))
        .unwrap_or(word);
    match stripped.strip_suffix(b"e") {
        Some(rest) if rest.len() >= 4 => rest,
        _ => stripped,
    }
}

/// FNV-1a, with the bits mixed at the end.
fn hash(bytes: &[u8]) -> TermHash {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_names_are_split() {
        for (name, words) in [
            ("parseHTTPHeader", vec!["parse", "http", "header"]),
            ("snake_case_2", vec!["snake", "case", "2"]),
            ("MAX_SIZE", vec!["max", "size"]),
            ("utf8", vec!["utf8"]),
            ("__init__", vec!["init"]),
            ("größe", vec!["größe"]),
        ] {
            assert_eq!(split_name(name), words, "{name}");
        }
    }

    #[test]
    fn words_with_different_endings_are_one_term() {
        for group in [
            vec!["parse", "parsed", "parsing", "parses"],
            vec!["index", "indexes", "indexing"],
            vec!["request", "requests"],
        ] {
            let terms: Vec<_> = group.iter().map(|word| query_terms(word)).collect();
            assert!(terms.iter().all(|term| *term == terms[0]), "{group:?}");
        }
        assert_ne!(query_terms("string"), query_terms("str"));
        assert_ne!(query_terms("class"), query_terms("clas"));
    }

    #[test]
    fn words_of_questions_are_left_out() {
        assert_eq!(query_terms("where is the retry"), query_terms("retry"));
        assert_eq!(query_terms("the").len(), 1);
        assert!(query_terms("…").is_empty());
    }
}

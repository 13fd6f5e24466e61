//! Programs in the languages of `sed` and `awk`, as far as it is plain that they only change text.

use mimir_core::command::Word;

/// Why the words of a `sed` or an `awk` may run something.
pub(super) fn unknown(words: &[Word], name: &str) -> Vec<String> {
    match name {
        "sed" => scripts(words, sed_is_plain, name),
        _ => scripts(words, awk_is_plain, name),
    }
}

/// Whether a `sed` program prints, deletes and replaces, and does nothing else: it has commands that run programs and
/// write files.
fn sed_is_plain(program: &str) -> bool {
    program.split(['\n', ';']).all(|one| command(one.trim()))
}

fn command(text: &str) -> bool {
    let Some(rest) = address(text) else {
        return false;
    };
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('!').unwrap_or(rest).trim();
    match rest.as_bytes() {
        [] => text.is_empty(),
        [
            b'p' | b'd' | b'q' | b'=' | b'n' | b'N' | b'D' | b'P' | b'h' | b'H' | b'g' | b'G'
            | b'x' | b'l',
        ] => true,
        [b'q', code @ ..] => code.iter().all(u8::is_ascii_digit),
        [b's', ..] => replaces(&rest[1..]),
        _ => false,
    }
}

/// What follows the lines that a command is about.
fn address(text: &str) -> Option<&str> {
    let mut rest = one_address(text)?;
    if let Some(second) = rest.trim_start().strip_prefix(',') {
        rest = one_address(second.trim_start())?;
    }
    Some(rest)
}

fn one_address(text: &str) -> Option<&str> {
    match text.bytes().next() {
        Some(b'/') => {
            let end = unescaped(&text[1..], '/')?;
            Some(&text[end + 2..])
        }
        Some(b'$') => Some(&text[1..]),
        Some(b'\\') => None,
        _ => Some(text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '~' || c == '+')),
    }
}

/// Whether `s` is followed by two parts and harmless flags.
fn replaces(text: &str) -> bool {
    let Some(mark) = text
        .chars()
        .next()
        .filter(|c| !c.is_alphanumeric() && !c.is_whitespace() && *c != '\\')
    else {
        return false;
    };
    let text = &text[mark.len_utf8()..];
    let after = |text: &str| unescaped(text, mark).map(|end| end + mark.len_utf8());
    let flags = after(text).and_then(|end| Some(&text[end..][after(&text[end..])?..]));
    flags.is_some_and(|flags| {
        flags
            .chars()
            .all(|c| c.is_ascii_digit() || "gpIi".contains(c))
    })
}

/// Where the mark is that no backslash stands before.
fn unescaped(text: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == mark => return Some(at),
            // A mark inside of brackets is none, and where those end is not followed.
            '[' => {
                return text[at..]
                    .contains(']')
                    .then(|| unescaped_in_brackets(text, mark))
                    .flatten();
            }
            _ => {}
        }
    }
    None
}

/// The same of a text with brackets: only where the mark stands once is it plain which one it is.
fn unescaped_in_brackets(text: &str, mark: char) -> Option<usize> {
    let bracket = text.find('[')?;
    let end = text.find(mark).filter(|at| *at > bracket)?;
    let inside = text[bracket..end].matches('[').count() != text[bracket..end].matches(']').count();
    (!inside && !text[..end].contains('\\')).then_some(end)
}

/// Whether an `awk` program only prints: its language runs programs and writes files.
fn awk_is_plain(program: &str) -> bool {
    ![
        "system", "getline", "|", ">", "@", "close", "fflush", "ENVIRON", "ARGV", "ARGC",
    ]
    .iter()
    .any(|word| program.contains(word))
}

/// The programs of `sed` and `awk`.
fn scripts(words: &[Word], is_plain: fn(&str) -> bool, name: &str) -> Vec<String> {
    let mut scripts = Vec::new();
    let mut rest = words.iter().skip(1);
    let mut first = None;
    let mut given = false;
    while let Some(word) = rest.next() {
        match word.known() {
            Some("-e" | "-ne" | "--expression" | "--source") => {
                given = true;
                scripts.extend(rest.next());
            }
            // Of awk: a separator, and a variable.
            Some("-F" | "-v") if name == "awk" => {
                rest.next();
            }
            Some(text) if text.starts_with("-e") || text.starts_with("--expression=") => {
                given = true
            }
            Some(
                "-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "-nE" | "-nr" | "-En" | "-rn" | "--quiet"
                | "--silent" | "--posix" | "--in-place",
            ) if name == "sed" => {}
            Some(text) if text.starts_with("-i") && name == "sed" => {}
            Some(text) if text.starts_with("-F") && name == "awk" => {}
            Some(text) if text.starts_with('-') && text != "-" => {
                return vec![format!(
                    "what `{name} {text}` runs cannot be told from its words"
                )];
            }
            _ if first.is_none() => first = Some(word),
            _ => {}
        }
    }
    let attached =
        words.iter().skip(1).filter_map(Word::known).any(|text| {
            (text.starts_with("-e") && text != "-e") || text.starts_with("--expression=")
        });
    if !given {
        scripts.extend(first);
    }
    let plain = |word: &&Word| word.known().is_some_and(is_plain);
    match !attached && scripts.iter().all(plain) {
        true => Vec::new(),
        false => vec![format!("`{name}` programs can run others and write files")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_text_is_plain() {
        for plain in [
            "1,5p",
            "$p",
            "s/a/b/g",
            "s|a/b|c|",
            "/x/d",
            "/a/,/b/p",
            "5q",
            "1d;$d",
            "s/[0-9]*/x/",
            "10,20p",
            "p",
            "s/a\\/b/c/2",
        ] {
            assert!(sed_is_plain(plain), "{plain}");
        }
        for bad in [
            "1e id",
            "s/a/b/e",
            "w out",
            "1,2w out",
            "s/a/b/w out",
            "e",
            "r /etc/passwd",
            "s/a/b/ge",
            "a\\",
            "{p;e}",
            "s/[/]/b/e",
            "y/a/b/",
            "s/x/[/e;s/]/b/g",
            "1!e id",
            "s#a#b#e",
            "s/a/b",
            "b x",
            "\\,a,e",
        ] {
            assert!(!sed_is_plain(bad), "{bad}");
        }
        assert!(awk_is_plain("{print $1, $2}"));
        for bad in [
            "{system(\"id\")}",
            "{print | \"sh\"}",
            "{print > \"x\"}",
            "BEGIN{\"id\"|getline}",
        ] {
            assert!(!awk_is_plain(bad), "{bad}");
        }
    }
}

//! Scripts of `sed` and `awk`: detection of those that only edit text.

use crate::ShellWord;

/// Returns the reasons why a `sed` or `awk` command may run something.
pub(super) fn risky_scripts(words: &[ShellWord], name: &str) -> Vec<String> {
    match name {
        "sed" => check_scripts(words, sed_is_plain, name),
        _ => check_scripts(words, awk_is_plain, name),
    }
}

/// Returns true if a `sed` script only prints, deletes and replaces. Other commands run programs and write files.
/// Syntax that versions of `sed` read differently is rejected.
fn sed_is_plain(program: &str) -> bool {
    let mut rest = program;
    let mut open = 0_usize;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';']);
        let after = match rest.strip_prefix('}') {
            _ if rest.is_empty() => return open == 0,
            Some(after) if open > 0 => {
                open -= 1;
                at_command_end(after)
            }
            Some(_) => None,
            None => skip_command(rest, &mut open),
        };
        match after {
            Some(after) => rest = after,
            None => return false,
        }
    }
}

/// Skips the command at the start of the text. Returns the rest, which is empty or begins with a separator. Increments
/// `open` at the start of a group.
fn skip_command<'a>(text: &'a str, open: &mut usize) -> Option<&'a str> {
    let rest = skip_blanks(skip_addresses(text)?);
    let rest = rest.strip_prefix('!').map_or(rest, skip_blanks);
    let mut letters = rest.chars();
    at_command_end(match letters.next()? {
        '{' => {
            *open += 1;
            return Some(letters.as_str());
        }
        'p' | 'd' | '=' | 'n' | 'N' | 'D' | 'P' | 'h' | 'H' | 'g' | 'G' | 'x' | 'l' => {
            letters.as_str()
        }
        'q' => skip_digits(skip_blanks(letters.as_str())),
        's' => skip_substitution(letters.as_str())?,
        'y' => skip_transliteration(letters.as_str())?,
        _ => return None,
    })
}

/// Returns the text if a command may end before it.
fn at_command_end(text: &str) -> Option<&str> {
    let text = skip_blanks(text);
    (text.is_empty() || text.starts_with([';', '\n', '}'])).then_some(text)
}

fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

fn skip_digits(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_digit())
}

/// Skips the addresses of a command, if it has any.
fn skip_addresses(text: &str) -> Option<&str> {
    let Some(rest) = skip_address(text, "~")? else {
        return Some(text);
    };
    match skip_blanks(rest).strip_prefix(',') {
        // `+3` and `~4` are relative to the first address.
        Some(second) => {
            let second = skip_blanks(second);
            skip_address(second.strip_prefix(['+', '~']).unwrap_or(second), "")?
        }
        None => Some(rest),
    }
}

/// Skips an address, if there is one. A number may be followed by a character of `steps` and another number.
fn skip_address<'a>(text: &'a str, steps: &str) -> Option<Option<&'a str>> {
    let mut letters = text.chars();
    let first = letters.next();
    let rest = letters.as_str();
    let after = match first {
        Some('/') => skip_address_flags(skip_pattern(rest, '/')?),
        Some('\\') => {
            let delimiter = read_delimiter(rest)?;
            skip_address_flags(skip_pattern(&rest[1..], delimiter)?)
        }
        Some('$') => rest,
        Some(c) if c.is_ascii_digit() => {
            let after = skip_digits(rest);
            let stepped = after.strip_prefix(|c| steps.contains(c));
            stepped.map_or(after, skip_digits)
        }
        _ => return Some(None),
    };
    Some(Some(after))
}

/// Skips the flags of an address.
fn skip_address_flags(text: &str) -> &str {
    text.trim_start_matches(['I', 'M'])
}

/// Skips the two parts of `s` and its flags. Harmful flags remain in the rest, so the caller rejects the script.
fn skip_substitution(text: &str) -> Option<&str> {
    let delimiter = read_delimiter(text)?;
    let flags = skip_replacement(skip_pattern(&text[1..], delimiter)?, delimiter)?;
    Some(flags.trim_start_matches(|c: char| c.is_ascii_digit() || "gpIiMm".contains(c)))
}

/// Skips the two parts of `y`. Rejects brackets in them, which some versions of `sed` read as an expression.
fn skip_transliteration(text: &str) -> Option<&str> {
    let delimiter = read_delimiter(text)?;
    let rest = skip_replacement(skip_replacement(&text[1..], delimiter)?, delimiter)?;
    (!text[..text.len() - rest.len()].contains('[')).then_some(rest)
}

/// Returns the delimiter at the start of the text, if it is valid.
fn read_delimiter(text: &str) -> Option<char> {
    let delimiter = text.chars().next()?;
    (delimiter.is_ascii_punctuation() && !"\\[]".contains(delimiter)).then_some(delimiter)
}

/// Skips a regular expression and its closing delimiter.
fn skip_pattern(text: &str, delimiter: char) -> Option<&str> {
    skip_part(text, delimiter, |rest| skip_bracket(rest, delimiter))
}

/// Skips a replacement and its closing delimiter. Brackets have no special meaning in it.
fn skip_replacement(text: &str, delimiter: char) -> Option<&str> {
    skip_part(text, delimiter, Some)
}

/// Skips a part of a command and its closing delimiter. `skip_bracket` skips the rest of a bracket expression.
fn skip_part<'a>(
    text: &'a str,
    delimiter: char,
    skip_bracket: impl Fn(&'a str) -> Option<&'a str>,
) -> Option<&'a str> {
    let mut rest = text;
    loop {
        let mut letters = rest.chars();
        let c = letters.next()?;
        rest = letters.as_str();
        match c {
            c if c == delimiter => return Some(rest),
            '\\' => rest = skip_escaped(rest)?,
            '[' => rest = skip_bracket(rest)?,
            '\n' => return None,
            _ => {}
        }
    }
}

/// Skips the character after a backslash. Rejects a line continuation.
fn skip_escaped(text: &str) -> Option<&str> {
    let mut letters = text.chars();
    (letters.next()? != '\n').then_some(letters.as_str())
}

/// Skips a bracket expression and its closing bracket. Some versions of `sed` end it at a delimiter, or treat a
/// backslash as an escape; expressions for which that matters are rejected.
fn skip_bracket(text: &str, delimiter: char) -> Option<&str> {
    let mut rest = text.strip_prefix('^').unwrap_or(text);
    // A bracket in the first position is literal.
    rest = rest.strip_prefix(']').unwrap_or(rest);
    loop {
        let mut letters = rest.chars();
        let c = letters.next()?;
        rest = letters.as_str();
        match c {
            ']' => return Some(rest),
            '[' => rest = skip_class(rest)?,
            '\\' => rest = skip_escaped(rest).filter(|_| !rest.starts_with(['\\', '[', ']']))?,
            c if c == delimiter || c == '\n' => return None,
            _ => {}
        }
    }
}

/// Skips a class such as `[:alpha:]`, after its first bracket.
fn skip_class(text: &str) -> Option<&str> {
    let name = text.strip_prefix(':')?;
    name.trim_start_matches(|c: char| c.is_ascii_lowercase())
        .strip_prefix(":]")
}

/// Returns true if an `awk` script only prints. The language can also run programs and write files.
fn awk_is_plain(program: &str) -> bool {
    let never = [
        "system", "getline", "@", "close", "fflush", "ENVIRON", "ARGV", "ARGC", "SYMTAB", "FUNCTAB",
    ];
    // Text before the first brace is a condition, in which a comparison never opens a file.
    let (_, statements) = program.split_once('{').unwrap_or_default();
    let statements = statements.replace("||", " ").replace(">=", " ");
    !never.iter().any(|word| program.contains(word)) && !statements.contains(['|', '>'])
}

/// Returns the reasons why scripts among the words may run something. `is_plain` checks each script.
fn check_scripts(words: &[ShellWord], is_plain: fn(&str) -> bool, name: &str) -> Vec<String> {
    let mut scripts = Vec::new();
    let mut rest = words.iter().skip(1);
    let mut first_operand = None;
    let mut has_script_option = false;
    while let Some(word) = rest.next() {
        match word.known() {
            Some("-e" | "-ne" | "--expression" | "--source") => {
                has_script_option = true;
                scripts.extend(rest.next());
            }
            // Options of awk: a separator, and a variable.
            Some("-F" | "-v") if name == "awk" => {
                rest.next();
            }
            Some(text) if text.starts_with("-e") || text.starts_with("--expression=") => {
                has_script_option = true
            }
            Some("--quiet" | "--silent" | "--posix" | "--in-place") if name == "sed" => {}
            Some(text) if name == "sed" && is_cluster(text) => {}
            Some(text) if text.starts_with("-i") && name == "sed" => {}
            Some(text) if text.starts_with("-F") && name == "awk" => {}
            Some(text) if text.starts_with('-') && text != "-" => {
                return vec![format!(
                    "the commands that `{name} {text}` runs cannot be determined"
                )];
            }
            _ if first_operand.is_none() => first_operand = Some(word),
            _ => {}
        }
    }
    let is_attached = words
        .iter()
        .skip(1)
        .filter_map(ShellWord::known)
        .any(|text| (text.starts_with("-e") && text != "-e") || text.starts_with("--expression="));
    if !has_script_option {
        scripts.extend(first_operand);
    }
    let is_plain_word = |word: &&ShellWord| word.known().is_some_and(is_plain);
    if !is_attached && scripts.iter().all(is_plain_word) {
        Vec::new()
    } else {
        vec![format!("`{name}` programs can run others and write files")]
    }
}

/// Returns true if the word is a cluster of `sed` flags that only change how lines are read.
fn is_cluster(text: &str) -> bool {
    let letters = text.strip_prefix('-').unwrap_or_default();
    !letters.is_empty() && letters.chars().all(|c| "nErsuz".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sed_scripts_that_only_edit_text_are_plain() {
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
            "",
            ";; p ;",
            "1!G;h;$!d",
            "1 , 2 p",
            "1~2p",
            "/a/,+3p",
            "2,~4d",
            "/x/I p\n/y/!d",
            "\\,a,p",
            "s#a;b#[/]#gI2;p",
            "s;a;b;;p",
            "s|[/]|x|",
            "s/[]x]/y/",
            "s/[^]a]/y/",
            "s/[\\/]/y/",
            "s/[[:space:]]*$//",
            "s/^[[:alpha:]_][[:digit:]]*/&/",
            "s/\\[a\\]/y/",
            "s/a/[/",
            "/a/,/b/{p}",
            "/a/{s/x/y/;p;}",
            "1{/a/!{p;d}}\n2p",
            "{p};p",
            "y/abc/def/",
            "y,/;,-:,;p",
            "/x/y/a\\/b/cde/",
            "1{y/a/b/}",
            "{}",
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
            "y/a/b",
            "y/a/b/e",
            "y/a/b/g",
            "y/a/b/;e id",
            "y/a\\/b/;e id;/c/",
            "y/[/]/;e id;/x/",
            "y/a/[/",
            "y/a\nb/c/",
            "yeaebe",
            "y",
            "s/x/[/e;s/]/b/g",
            "1!e id",
            "s#a#b#e",
            "s/a/b",
            "b x",
            "\\,a,e",
            // A literal bracket, and text that only some versions read as a bracket expression.
            "s|[]|]|;s|e#|x|",
            "s|[]|]|;s|w /any/path||p",
            "s/[]/]/;/e#/p",
            "s|[^]|]|;s|e#|x|",
            "s/[/]/]/;e #/",
            "s/[\\]/]/;e id#/",
            "s/[\\\\/]/e;s/]/x/",
            "s/[[.].]/]/;e #/",
            "s/[[=]=]/]/;e #/",
            "s/[[:alpha:]/]/x/",
            "s/[][]/y/",
            "s/[[:]/e;s/]/x/",
            "s/[[:alpha:][]/e;s/]/x/",
            "/[]/]/e#/p",
            "\\|[]|]|e#|p",
            // Commands that continue where they seem to end.
            "s/a/b;e id",
            "s/a/b\\/;e id;s/c/d",
            "s/a/b/ e",
            "s/a/b/;;1,2 e",
            "s/a\nb/c/",
            "s/a/b\\\nc/",
            "s]a]b]",
            "s[a[b[",
            "s\\a\\b\\",
            "seaebe",
            "p }",
            "}",
            "{p",
            "{p}}",
            "{p}p",
            "{e id}",
            "/a/{s/x/y/e}",
            "{s/a/b/}e",
            "1{w out\n}",
            "{p#}\n",
            "p#x",
            "#n\np",
            ",5p",
            "+5p",
            "1,p",
            "1,2,3p",
            "/x/w out",
            "/x/Ie id",
            "!!p",
            "s",
            "s/",
            "\\",
            "[",
        ] {
            assert!(!sed_is_plain(bad), "{bad}");
        }
        for plain in [
            "{print $1, $2}",
            "$1 > 5",
            "$1 > 5 || $2 < 3 {print $2}",
            "{ if ($1 >= 5 || $2) n++ } END { print n }",
        ] {
            assert!(awk_is_plain(plain), "{plain}");
        }
        for bad in [
            "{system(\"id\")}",
            "{print | \"sh\"}",
            "{print > \"x\"}",
            "BEGIN{\"id\"|getline}",
            "$1 > 5 {print > \"x\"}",
            "{print $1 >= 5 > \"x\"}",
            "{print >>= \"x\"}",
            "{print $1 || 2 | \"sh\"}",
            "{print ||| \"sh\"}",
            "\"id\" | getline {x}",
            "/{/ {print > \"x\"}",
            "BEGIN { SYMTAB[\"AR\" \"GV\"][1] = \"/etc/passwd\" } 1",
            "BEGIN { for (n in FUNCTAB) print n }",
        ] {
            assert!(!awk_is_plain(bad), "{bad}");
        }
        for (options, plain) in [
            ("-nE", true),
            ("-Enz", true),
            ("-su", true),
            ("-ni", false),
            ("-nf", false),
            ("-nw", false),
            ("-nEl", false),
        ] {
            let words = ["sed", options, "p", "a"].map(|word| ShellWord::Known(word.to_owned()));
            assert_eq!(risky_scripts(&words, "sed").is_empty(), plain, "{options}");
        }
    }
}

//! Conservative shell lexer: splits a text into words and operators, and rejects text that shells interpret
//! differently.
//!
//! It runs before the parser, for two reasons: the parser never receives text that is too long or too deeply nested,
//! and text whose words the parser and this lexer read differently is rejected.

mod word_extent;

pub(super) use word_extent::check_here_doc_body;
use word_extent::{SPLIT_WORD, has_dollar_quote, word_length};

/// A word or operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellToken<'a> {
    /// The source text. A line continuation keeps its backslash.
    pub(super) text: &'a str,
    /// The byte offset of the start.
    pub(super) start: usize,
    /// True for an operator, such as `&&` or the end of a line.
    pub(super) operator: bool,
}

/// Reason why a text is rejected, as a clause to be put after a colon.
pub(super) type ShellFault = &'static str;

/// Maximum nesting depth. Ordinary scripts nest up to four levels. The parser uses stack for each level, and tries two
/// or more alternatives at each level before it fails at the innermost one.
pub(super) const DEPTH_MAX: usize = 12;

/// Maximum length of a text in bytes: about two thousand lines.
pub(super) const LENGTH_MAX: usize = 64 << 10;

const PART_OF_WORD: ShellFault =
    "`<(…)` is part of a word, which is known only when the shell runs";

/// Syntax that bash reads differently from other shells.
const BASH_SYNTAX: &[(&str, ShellFault)] = &[
    ("&>", "`&>` has another meaning in shells other than bash"),
    ("&>>", "`&>>` has another meaning in shells other than bash"),
    (
        ">&",
        "`>&` with a file has another meaning in shells other than bash",
    ),
    ("|&", "`|&` has another meaning in shells other than bash"),
    (";&", "`;&` has another meaning in shells other than bash"),
    (";;&", "`;;&` has another meaning in shells other than bash"),
    ("<<<", "`<<<` has another meaning in shells other than bash"),
    (
        "[[",
        "`[[` has another meaning in shells other than bash: `>` in it writes a file; all shells read `[` alike",
    ),
    (
        "function",
        "`function` has another meaning in shells other than bash; all shells read `name() { …; }` alike",
    ),
    (
        "select",
        "`select` has another meaning in shells other than bash",
    ),
    (
        "coproc",
        "`coproc` has another meaning in shells other than bash",
    ),
];

/// Shell that will run a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShellDialect {
    /// Bash.
    #[default]
    Bash,
    /// An unknown shell: text that shells read differently is rejected.
    Any,
}

/// Operators, longest first, so that the first match is the right one.
const OPERATORS: &[&str] = &[
    "&>>", "<<<", "<<-", ";;&", "&&", "||", ";;", ";&", "|&", "&>", "<<", "<&", "<>", ">>", ">&",
    ">|", ";", "&", "|", "<", ">", "(", ")",
];

/// Words that begin a construct.
const OPENERS: &[(&str, OpenCompound)] = &[
    ("if", OpenCompound::If),
    ("while", OpenCompound::Loop),
    ("until", OpenCompound::Loop),
    ("for", OpenCompound::Loop),
    ("select", OpenCompound::Loop),
    ("case", OpenCompound::Case),
    ("{", OpenCompound::Brace),
    ("[[", OpenCompound::Test),
];
/// Words between the parts of a construct, after which a command may follow.
const BETWEEN: &[&str] = &["then", "else", "elif", "do", "!", "time", "in", "coproc"];
/// Words that end a construct.
const CLOSERS: &[(&str, OpenCompound)] = &[
    ("fi", OpenCompound::If),
    ("done", OpenCompound::Loop),
    ("esac", OpenCompound::Case),
    ("}", OpenCompound::Brace),
];

/// A construct that is still open between words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenCompound {
    Paren,
    /// `<(…)`
    Process,
    Brace,
    If,
    Loop,
    Case,
    Test,
}

/// A here-document whose body follows after the end of the line.
struct PendingHereDoc<'a> {
    tag: &'a str,
    strips_tabs: bool,
    /// True if the shell expands the body, and joins continued lines in it.
    expands: bool,
}

/// Result of splitting a text.
pub(super) struct TokenizedText<'a> {
    pub(super) tokens: Vec<ShellToken<'a>>,
    /// The bodies of its here-documents in order, each with true if leading tabs are removed.
    pub(super) bodies: Vec<(&'a str, bool)>,
}

/// Splits a text into words and operators.
pub(super) fn tokenize(text: &str, shell: ShellDialect) -> Result<TokenizedText<'_>, ShellFault> {
    if let Some(fault) = find_ambiguous_character(text) {
        return Err(fault);
    }
    let mut lexer = ShellLexer {
        text,
        shell,
        at: 0,
        tokens: Vec::new(),
        bodies: Vec::new(),
        pending: Vec::new(),
        open: Vec::new(),
        at_command_start: true,
        expects_function_name: false,
    };
    while lexer.read_token()? {}
    if !lexer.pending.is_empty() {
        return Err("a here-document is not closed");
    }
    // Unclosed constructs make the parser try every alternative.
    if !lexer.open.is_empty() {
        return Err("a construct is not closed");
    }
    Ok(TokenizedText {
        tokens: lexer.tokens,
        bodies: lexer.bodies,
    })
}

/// Returns the text after a line continuation.
fn after_continuation(text: &str) -> Option<&str> {
    text.strip_prefix("\\\n")
}

/// Returns true if the text after a line continuation may belong to an operator.
fn may_continue_operator(mut after: &str) -> bool {
    while let Some(rest) = after_continuation(after) {
        after = rest;
    }
    after.starts_with(['&', '|', ';', '<', '>', '(', '-'])
}

/// Returns true for a `-` that closes a descriptor and is directly followed by text. Bash reads this text as another
/// word, other shells as part of the same word.
fn is_close_followed_by_text(mut after: &str) -> bool {
    while let Some(rest) = after
        .strip_prefix([' ', '\t'])
        .or_else(|| after_continuation(after))
    {
        after = rest;
    }
    let ends = [' ', '\t', '\n', ';', '|', '&', '<', '>', '(', ')'];
    after
        .strip_prefix('-')
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(ends))
}

/// Returns a fault if a text has characters that shells, terminals or people interpret differently.
fn find_ambiguous_character(text: &str) -> Option<ShellFault> {
    if text.len() > LENGTH_MAX {
        return Some("the script is too long to analyze");
    }
    let is_ambiguous = |c: char| match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        c if c.is_ascii() => false,
        c => {
            c.is_whitespace()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        }
    };
    text.contains(is_ambiguous).then_some(
        "the script contains characters that are invisible, or that shells read differently",
    )
}

struct ShellLexer<'a> {
    text: &'a str,
    shell: ShellDialect,
    at: usize,
    tokens: Vec<ShellToken<'a>>,
    bodies: Vec<(&'a str, bool)>,
    pending: Vec<PendingHereDoc<'a>>,
    open: Vec<OpenCompound>,
    /// True if a command may begin here.
    at_command_start: bool,
    /// True if the next word is the name of a function.
    expects_function_name: bool,
}

impl<'a> ShellLexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Reads a token, or the text before the next one. Returns false at the end.
    fn read_token(&mut self) -> Result<bool, ShellFault> {
        let rest = self.rest();
        let Some(first) = rest.bytes().next() else {
            return Ok(false);
        };
        match first {
            b' ' | b'\t' => self.at += 1,
            b'\\' if rest[1..].starts_with('\n') => self.at += 2,
            b'#' => self.at += rest.find('\n').unwrap_or(rest.len()),
            b'\n' => {
                self.push(1, true);
                self.at_command_start = true;
                self.skip_bodies()?;
            }
            _ => match OPERATORS
                .iter()
                .find(|operator| rest.starts_with(**operator))
            {
                Some(operator) => self.read_operator(operator)?,
                None => self.read_word()?,
            },
        }
        Ok(true)
    }

    /// Adds the token of this length in bytes, and moves behind it.
    fn push(&mut self, length: usize, operator: bool) {
        self.tokens.push(ShellToken {
            text: &self.text[self.at..self.at + length],
            start: self.at,
            operator,
        });
        self.at += length;
    }

    /// Rejects syntax with a different meaning in bash, unless the shell is bash.
    fn check_portable(&self, text: &str) -> Result<(), ShellFault> {
        let syntax = BASH_SYNTAX.iter().find(|(known, _)| *known == text);
        match syntax.filter(|_| self.shell == ShellDialect::Any) {
            Some((_, fault)) => Err(fault),
            None => Ok(()),
        }
    }

    fn read_operator(&mut self, operator: &'static str) -> Result<(), ShellFault> {
        let after = &self.rest()[operator.len()..];
        // All shells agree on `>&1`.
        if operator != ">&" || !after.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            self.check_portable(operator)?;
        }
        if operator.starts_with(['<', '>']) && self.follows_token() && self.names_variable() {
            return Err("`{name}>` sets a variable, and may run a command stored in another one");
        }
        if after.starts_with("\\\n") && may_continue_operator(after) {
            return Err(SPLIT_WORD);
        }
        if matches!(operator, "<&" | ">&") && is_close_followed_by_text(after) {
            return Err("bash reads the text right after `>&-` as a separate word");
        }
        match operator {
            "(" if after.starts_with('(') => {
                return Err("`((` may be arithmetic or two subshells");
            }
            "(" if self.follows_angle() && self.shell == ShellDialect::Any => {
                return Err("`<(…)` has another meaning in shells other than bash");
            }
            "(" if self.follows_angle() => self.open(OpenCompound::Process)?,
            "(" => self.open(OpenCompound::Paren)?,
            ")" if self.open.last() == Some(&OpenCompound::Process) => {
                self.close(OpenCompound::Process);
                if !after.is_empty() && !after.starts_with([' ', '\t', '\n', ';', '|', '&', ')']) {
                    return Err(PART_OF_WORD);
                }
            }
            // A pattern of a `case` ends with a parenthesis that was not opened.
            ")" => self.close(OpenCompound::Paren),
            "<" | ">" if after.starts_with('(') && self.follows_token() => {
                return Err(PART_OF_WORD);
            }
            "<<" | "<<-" => return self.begin_here_doc(operator),
            _ => {}
        }
        self.push(operator.len(), true);
        // A redirection is followed by its file, and the command continues; `f()` is followed by its body.
        self.at_command_start = !operator.contains(['<', '>']);
        Ok(())
    }

    /// Returns true if the last token ends directly before this position.
    fn follows_token(&self) -> bool {
        let last = self.tokens.last().filter(|token| !token.operator);
        last.is_some_and(|token| token.start + token.text.len() == self.at)
    }

    /// Returns true if the last token is `{…}`. Before a redirection, this is a variable that receives the descriptor.
    fn names_variable(&self) -> bool {
        let last = self.tokens.last();
        let last = last.map(|token| token.text.trim_end_matches("\\\n"));
        last.is_some_and(|text| text.len() > 2 && text.starts_with('{') && text.ends_with('}'))
    }

    /// Returns true if `<` or `>` directly precedes.
    fn follows_angle(&self) -> bool {
        let last = self
            .tokens
            .last()
            .filter(|token| matches!(token.text, "<" | ">"));
        last.is_some_and(|token| token.start + 1 == self.at)
    }

    fn open(&mut self, compound: OpenCompound) -> Result<(), ShellFault> {
        self.open.push(compound);
        if self.open.len() > DEPTH_MAX {
            Err("the script is nested too deeply to analyze")
        } else {
            Ok(())
        }
    }

    fn close(&mut self, compound: OpenCompound) {
        self.open.pop_if(|open| *open == compound);
    }

    /// Reads the operator and tag of a here-document. The body follows after the end of the line.
    fn begin_here_doc(&mut self, operator: &'static str) -> Result<(), ShellFault> {
        self.push(operator.len(), true);
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        self.at += blanks;
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let inner = if quote.is_some() { &rest[1..] } else { rest };
        let is_tag = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let length = inner.find(|c| !is_tag(c)).unwrap_or(inner.len());
        let (tag, after) = inner.split_at(length);
        let after = match quote {
            Some(quote) => after
                .strip_prefix(quote)
                .ok_or("the delimiter of a here-document is not a plain word")?,
            None => after,
        };
        let ends =
            after.is_empty() || after.starts_with([' ', '\t', '\n', ';', '|', '&', '<', '>', ')']);
        if tag.is_empty() || !ends {
            return Err("the delimiter of a here-document is not a plain word");
        }
        self.pending.push(PendingHereDoc {
            tag,
            strips_tabs: operator == "<<-",
            expands: quote.is_none(),
        });
        self.push(rest.len() - after.len(), false);
        self.at_command_start = false;
        Ok(())
    }

    /// Skips the bodies of the here-documents of the line that has just ended.
    fn skip_bodies(&mut self) -> Result<(), ShellFault> {
        for pending in std::mem::take(&mut self.pending) {
            let start = self.at;
            loop {
                let rest = self.rest();
                if rest.is_empty() {
                    return Err("a here-document is not closed");
                }
                let end = rest.find('\n');
                let line = &rest[..end.unwrap_or(rest.len())];
                self.at += end.map_or(rest.len(), |end| end + 1);
                let line = if pending.strips_tabs {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                let backslashes = line.len() - line.trim_end_matches('\\').len();
                if pending.expands && backslashes % 2 == 1 {
                    return Err("a line continuation in a here-document is not analyzed");
                }
                if line == pending.tag {
                    let body = &self.text[start..self.at];
                    let body = &body[..body.len() - rest[..rest.len() - self.rest().len()].len()];
                    self.bodies.push((body, pending.strips_tabs));
                    break;
                }
            }
        }
        Ok(())
    }

    fn read_word(&mut self) -> Result<(), ShellFault> {
        let length = word_length(self.rest())?;
        let text = &self.rest()[..length];
        let after = &self.rest()[length..];
        if self.at_command_start {
            self.check_portable(text)?;
        }
        if self.shell == ShellDialect::Any && has_dollar_quote(text) {
            return Err("`$'…'` has another meaning in shells other than bash");
        }
        if after.starts_with('(') && text.ends_with('=') {
            return Err("arrays are not analyzed");
        }
        if after.starts_with('(') && text.ends_with(['@', '!', '?', '*', '+']) {
            return Err("`(` after a wildcard has different meanings in different shells");
        }
        if self.at_command_start && text.len() > 1 && text.starts_with('!') && text != "!=" {
            return Err("`!` may name a line of the history");
        }
        let at_start = std::mem::replace(&mut self.at_command_start, false);
        let is_function_name = std::mem::replace(&mut self.expects_function_name, false);
        let find_compound = |list: &[(&str, OpenCompound)]| {
            let entry = list.iter().find(|(word, _)| at_start && *word == text);
            entry.map(|(_, compound)| *compound)
        };
        if let Some(compound) = find_compound(OPENERS) {
            self.open(compound)?;
            self.at_command_start = matches!(compound, OpenCompound::If | OpenCompound::Brace)
                || matches!(text, "while" | "until");
        } else if let Some(compound) = find_compound(CLOSERS) {
            self.close(compound);
            self.at_command_start = true;
        } else if text == "]]" {
            self.close(OpenCompound::Test);
        } else {
            self.expects_function_name = at_start && text == "function";
            // In `for x do`, a command may follow as well.
            self.at_command_start =
                is_function_name || text == "do" || (at_start && BETWEEN.contains(&text));
        }
        self.push(length, false);
        Ok(())
    }
}

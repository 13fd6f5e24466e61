//! The structure of a text, from the parser, once both parsers agree on its words.

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::ast::Program;
use brush_parser::{ParserOptions, Token as Theirs, TokenizerOptions};

use super::lexer::{self, ShellDialect, ShellFault, ShellToken};

/// A parsed text, with the positions of its words.
pub(super) struct ParsedScript {
    pub(super) program: Program,
    /// Sorted by the parser's index.
    places: Vec<WordPosition>,
}

/// The start of a word as the parser counts it, in characters, and its real byte range.
struct WordPosition {
    theirs: usize,
    start: usize,
    end: usize,
}

/// The parser options of bash when it runs a text: no patterns such as `@(a|b)`, which only interactive users switch
/// on.
pub(super) fn options() -> ParserOptions {
    ParserOptions {
        enable_extended_globbing: false,
        ..ParserOptions::default()
    }
}

const UNLIKE: ShellFault = "two shell parsers read it differently";

/// Parses a text.
pub(super) fn parse(text: &str, shell: ShellDialect) -> Result<ParsedScript, ShellFault> {
    let read = lexer::tokenize(text, shell)?;
    let options = options();
    let tokens = parser_tokens(text, &options.tokenizer_options())?;
    let mut places = compare(&read, &tokens)?;
    places.sort_by_key(|place| place.theirs);
    let program = catch_parser_panic(|| brush_parser::parse_tokens(&tokens, &options).ok())?;
    Ok(ParsedScript { program, places })
}

fn parser_tokens(text: &str, options: &TokenizerOptions) -> Result<Vec<Theirs>, ShellFault> {
    catch_parser_panic(|| brush_parser::uncached_tokenize_str(text, options).ok())
}

/// Runs the parser and catches panics. It is a third-party crate that panics on some texts which it should refuse:
/// such a text counts as unreadable.
fn catch_parser_panic<T>(parse: impl FnOnce() -> Option<T>) -> Result<T, ShellFault> {
    // The panic leaves no shared state behind: the parser's own is dropped.
    let parsed = catch_unwind(AssertUnwindSafe(parse));
    parsed.ok().flatten().ok_or("it is not valid shell text")
}

/// Checks that both parsers have read the same words, and returns their positions. The parser puts the body of a
/// here-document and its end after its tag.
fn compare(
    read: &lexer::TokenizedText<'_>,
    theirs: &[Theirs],
) -> Result<Vec<WordPosition>, ShellFault> {
    let mut places = Vec::with_capacity(read.tokens.len());
    let mut bodies = read.bodies.iter();
    let mut theirs = theirs.iter();
    let mut ours = read.tokens.iter();
    while let Some(token) = ours.next() {
        let their = theirs
            .next()
            .filter(|their| is_same(token, their))
            .ok_or(UNLIKE)?;
        place(token, their, &mut places);
        if token.operator && matches!(token.text, "<<" | "<<-") {
            let tag = ours.next().ok_or(UNLIKE)?;
            let their = theirs
                .next()
                .filter(|their| is_same(tag, their))
                .ok_or(UNLIKE)?;
            place(tag, their, &mut places);
            let (body, tabs) = bodies.next().ok_or(UNLIKE)?;
            let their = theirs.next().ok_or(UNLIKE)?;
            if !is_body(body, *tabs, their.to_str()) {
                return Err(UNLIKE);
            }
            theirs.next().ok_or(UNLIKE)?;
        }
    }
    match theirs.next() {
        None => Ok(places),
        Some(_) => Err(UNLIKE),
    }
}

fn place(token: &ShellToken<'_>, their: &Theirs, places: &mut Vec<WordPosition>) {
    places.push(WordPosition {
        theirs: their.location().start.index,
        start: token.start,
        end: token.start + token.text.len(),
    });
}

fn is_same(token: &ShellToken<'_>, their: &Theirs) -> bool {
    let operator = matches!(their, Theirs::Operator(..));
    let text = their.to_str();
    // The parser drops line continuations.
    let same = text == token.text
        || (token.text.contains("\\\n") && text == token.text.replace("\\\n", ""));
    operator == token.operator && same
}

fn is_body(ours: &str, tabs: bool, theirs: &str) -> bool {
    let mut theirs = theirs.split_inclusive('\n');
    let mut ours = ours.split_inclusive('\n');
    let line = |line: &str| {
        if tabs {
            line.trim_start_matches('\t').to_owned()
        } else {
            line.to_owned()
        }
    };
    ours.all(|one| theirs.next().is_some_and(|other| line(one) == line(other)))
        && theirs.next().is_none()
}

impl ParsedScript {
    /// Returns the byte range of the word that the parser has at `index`.
    pub(super) fn word_position(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let at = self
            .places
            .binary_search_by_key(&index, |place| place.theirs)
            .ok()?;
        let place = self.places.get(at)?;
        Some(place.start..place.end)
    }
}

//! The structure of a text, from the parser, once both readers agree on its words.

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::ast::Program;
use brush_parser::{ParserOptions, Token as Theirs, TokenizerOptions};

use super::lexer::{self, Fault, Shell, Token};

/// A text as it was parsed, and where its words stand.
pub(super) struct Structure {
    pub(super) program: Program,
    /// By where the parser has them.
    places: Vec<Place>,
}

/// Where the parser says that a word begins, in characters and as it counts them, and where it really stands.
struct Place {
    theirs: usize,
    start: usize,
    end: usize,
}

/// What bash does when it runs a text: no patterns such as `@(a|b)`, which only an interactive user switches on.
pub(super) fn options() -> ParserOptions {
    ParserOptions {
        enable_extended_globbing: false,
        ..ParserOptions::default()
    }
}

const UNLIKE: Fault = "two readers of shell text take it in different ways";

/// Parses a text.
pub(super) fn parse(text: &str, shell: Shell) -> Result<Structure, Fault> {
    let read = lexer::read(text, shell)?;
    let options = options();
    let tokens = theirs(text, &options.tokenizer_options())?;
    let mut places = compare(&read, &tokens)?;
    places.sort_by_key(|place| place.theirs);
    let program = held(|| brush_parser::parse_tokens(&tokens, &options).ok())?;
    Ok(Structure { program, places })
}

fn theirs(text: &str, options: &TokenizerOptions) -> Result<Vec<Theirs>, Fault> {
    held(|| brush_parser::uncached_tokenize_str(text, options).ok())
}

/// What the parser makes of a text. It is written by others, and takes some texts that it should refuse for impossible:
/// a text that it falls over is none that can be read.
fn held<T>(parse: impl FnOnce() -> Option<T>) -> Result<T, Fault> {
    // What it was at is gone with it.
    let parsed = catch_unwind(AssertUnwindSafe(parse));
    parsed
        .ok()
        .flatten()
        .ok_or("it is no shell text that can be read")
}

/// Checks that both have read the same words, and where each stands. The parser puts the body of a here-document and its
/// end behind its tag.
fn compare(read: &lexer::Read<'_>, theirs: &[Theirs]) -> Result<Vec<Place>, Fault> {
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

fn place(token: &Token<'_>, their: &Theirs, places: &mut Vec<Place>) {
    places.push(Place {
        theirs: their.location().start.index,
        start: token.start,
        end: token.start + token.text.len(),
    });
}

fn is_same(token: &Token<'_>, their: &Theirs) -> bool {
    let operator = matches!(their, Theirs::Operator(..));
    let text = their.to_str();
    // Of a line that goes on in the next one they keep nothing.
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

impl Structure {
    /// Where the word stands that the parser has at `index`, in bytes.
    pub(super) fn place(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let at = self
            .places
            .binary_search_by_key(&index, |place| place.theirs)
            .ok()?;
        let place = self.places.get(at)?;
        Some(place.start..place.end)
    }
}

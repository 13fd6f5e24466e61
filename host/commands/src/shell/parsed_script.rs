//! Structure of a text as returned by the parser, if both parsers agree on its words.

use std::panic::{AssertUnwindSafe, catch_unwind};

use brush_parser::ast::Program;
use brush_parser::{ParserOptions, Token as ParserToken, TokenizerOptions};

use super::lexer::{self, ShellDialect, ShellFault, ShellToken};

/// A parsed text, with the positions of its words.
pub(super) struct ParsedScript {
    pub(super) program: Program,
    /// Sorted by the parser's index.
    positions: Vec<WordPosition>,
}

/// Start of a word in characters, as the parser counts, and its byte range.
struct WordPosition {
    index: usize,
    start: usize,
    end: usize,
}

/// Returns the parser options for a bash script: without patterns such as `@(a|b)`, which only interactive users
/// enable.
pub(super) fn options() -> ParserOptions {
    ParserOptions {
        enable_extended_globbing: false,
        ..ParserOptions::default()
    }
}

const PARSERS_DISAGREE: ShellFault = "two shell parsers read the script differently";

/// Parses a text.
pub(super) fn parse(text: &str, shell: ShellDialect) -> Result<ParsedScript, ShellFault> {
    let tokenized = lexer::tokenize(text, shell)?;
    let options = options();
    let tokens = parser_tokens(text, &options.tokenizer_options())?;
    let mut positions = match_tokens(&tokenized, &tokens)?;
    positions.sort_by_key(|position| position.index);
    let program = catch_parser_panic(|| brush_parser::parse_tokens(&tokens, &options).ok())?;
    Ok(ParsedScript { program, positions })
}

fn parser_tokens(text: &str, options: &TokenizerOptions) -> Result<Vec<ParserToken>, ShellFault> {
    catch_parser_panic(|| brush_parser::uncached_tokenize_str(text, options).ok())
}

/// Runs the parser, and converts a panic to a fault. The third-party parser panics on some texts that it should reject.
fn catch_parser_panic<T>(parse: impl FnOnce() -> Option<T>) -> Result<T, ShellFault> {
    // A panic leaves no shared state behind: the state of the parser is dropped.
    let parsed = catch_unwind(AssertUnwindSafe(parse));
    parsed
        .ok()
        .flatten()
        .ok_or("the script is not valid shell text")
}

/// Checks that both parsers have found the same words, and returns their positions. The parser puts the body and end of
/// a here-document after its tag.
fn match_tokens(
    tokenized: &lexer::TokenizedText<'_>,
    parsed_tokens: &[ParserToken],
) -> Result<Vec<WordPosition>, ShellFault> {
    let mut positions = Vec::with_capacity(tokenized.tokens.len());
    let mut bodies = tokenized.bodies.iter();
    let mut parsed_tokens = parsed_tokens.iter();
    let mut own_tokens = tokenized.tokens.iter();
    while let Some(token) = own_tokens.next() {
        let parsed = parsed_tokens
            .next()
            .filter(|parsed| is_same_token(token, parsed))
            .ok_or(PARSERS_DISAGREE)?;
        push_position(token, parsed, &mut positions);
        if token.operator && matches!(token.text, "<<" | "<<-") {
            let tag = own_tokens.next().ok_or(PARSERS_DISAGREE)?;
            let parsed = parsed_tokens
                .next()
                .filter(|parsed| is_same_token(tag, parsed))
                .ok_or(PARSERS_DISAGREE)?;
            push_position(tag, parsed, &mut positions);
            let (body, strips_tabs) = bodies.next().ok_or(PARSERS_DISAGREE)?;
            let parsed = parsed_tokens.next().ok_or(PARSERS_DISAGREE)?;
            if !is_same_body(body, *strips_tabs, parsed.to_str()) {
                return Err(PARSERS_DISAGREE);
            }
            parsed_tokens.next().ok_or(PARSERS_DISAGREE)?;
        }
    }
    match parsed_tokens.next() {
        None => Ok(positions),
        Some(_) => Err(PARSERS_DISAGREE),
    }
}

fn push_position(token: &ShellToken<'_>, parsed: &ParserToken, positions: &mut Vec<WordPosition>) {
    positions.push(WordPosition {
        index: parsed.location().start.index,
        start: token.start,
        end: token.start + token.text.len(),
    });
}

fn is_same_token(token: &ShellToken<'_>, parsed: &ParserToken) -> bool {
    let is_operator = matches!(parsed, ParserToken::Operator(..));
    let text = parsed.to_str();
    // The parser drops line continuations.
    let has_same_text = text == token.text
        || (token.text.contains("\\\n") && text == token.text.replace("\\\n", ""));
    is_operator == token.operator && has_same_text
}

/// Returns true if the bodies of a here-document are equal, ignoring leading tabs if `strips_tabs` is true.
fn is_same_body(own: &str, strips_tabs: bool, parsed: &str) -> bool {
    let mut parsed_lines = parsed.split_inclusive('\n');
    let mut own_lines = own.split_inclusive('\n');
    let normalize = |line: &str| {
        if strips_tabs {
            line.trim_start_matches('\t').to_owned()
        } else {
            line.to_owned()
        }
    };
    own_lines.all(|own| {
        parsed_lines
            .next()
            .is_some_and(|parsed| normalize(own) == normalize(parsed))
    }) && parsed_lines.next().is_none()
}

impl ParsedScript {
    /// Returns the byte range of the word at the parser's `index`.
    pub(super) fn word_position(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let entry = self
            .positions
            .binary_search_by_key(&index, |position| position.index)
            .ok()?;
        let position = self.positions.get(entry)?;
        Some(position.start..position.end)
    }
}

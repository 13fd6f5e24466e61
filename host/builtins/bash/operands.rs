//! Operands of `${…}` and keys of arrays, with nested expansions.
//!
//! It is compiled as a module of bashkit's interpreter (`../build/bash.rs`). As published, an operand is expanded
//! without running anything, and parts that would need that are silently dropped: `${path#$(pwd)/}` removes nothing,
//! `${s/-/$(sep)}` removes the dash, `${v:-${s:1:2}}` and `${m[$(key)]}` are empty. Here each such part is first
//! expanded as a word, and replaced in the operand by a temporary variable.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::spans::{backquote_end, expansion_end};

/// Numbers the variables that replace parts of operands.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The syntax for parsing a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The word of `:-` and its like.
    Default,
    /// A pattern, or the replacement of its matches.
    Pattern,
    /// A subscript.
    Key,
}

impl Interpreter {
    /// Returns true if a part of a word has an operand or a key that has to be expanded before the word.
    pub(super) fn has_deep_operands(&self, word: &Word) -> bool {
        word.parts.iter().any(|part| {
            self.texts(part)
                .iter()
                .any(|(text, role)| is_deep(text, *role, word.quoted))
        })
    }

    /// Returns the texts of a part that are expanded without running anything, and their syntax.
    fn texts<'w>(&self, part: &'w WordPart) -> Vec<(&'w str, Role)> {
        match part {
            WordPart::ParameterExpansion {
                name,
                operator,
                operand,
                ..
            } => {
                let mut texts = vec![(subscript(name), Role::Key)];
                match operator {
                    ParameterOp::ReplaceFirst {
                        pattern,
                        replacement,
                    }
                    | ParameterOp::ReplaceAll {
                        pattern,
                        replacement,
                    } => {
                        texts.push((pattern, Role::Pattern));
                        texts.push((replacement, Role::Pattern));
                    }
                    operator => texts.push((operand, role(operator))),
                }
                texts
            }
            WordPart::ArrayAccess { name, index } if self.is_assoc_array(name) => {
                vec![(index, Role::Key)]
            }
            WordPart::Length(name)
            | WordPart::Substring { name, .. }
            | WordPart::Transformation { name, .. } => vec![(subscript(name), Role::Key)],
            _ => Vec::new(),
        }
    }

    /// Returns the word with such parts of its operands replaced, and the variables that it needs.
    pub(super) async fn settle_operands(&mut self, word: &Word) -> Result<(Word, Vec<String>)> {
        let mut settled = word.clone();
        let mut names = Vec::new();
        for (at, part) in settled.parts.iter_mut().enumerate() {
            let quoted = word.part_quoted.get(at).copied().unwrap_or(word.quoted);
            match part {
                WordPart::ParameterExpansion {
                    name,
                    operator,
                    operand,
                    colon_variant,
                } => {
                    self.settle_name(name, quoted, &mut names).await?;
                    match operator {
                        ParameterOp::ReplaceFirst {
                            pattern,
                            replacement,
                        }
                        | ParameterOp::ReplaceAll {
                            pattern,
                            replacement,
                        } => {
                            self.settle(pattern, Role::Pattern, quoted, &mut names)
                                .await?;
                            self.settle(replacement, Role::Pattern, quoted, &mut names)
                                .await?;
                        }
                        operator if role(operator) == Role::Default => {
                            let (is_set, value) = self.resolve_param_expansion_name(name);
                            let is_absent = !is_set || (*colon_variant && value.is_empty());
                            if is_absent != matches!(operator, ParameterOp::UseReplacement) {
                                self.settle(operand, Role::Default, quoted, &mut names)
                                    .await?;
                            } else {
                                // An unused operand is not run.
                                operand.clear();
                            }
                        }
                        _ => {
                            self.settle(operand, Role::Pattern, quoted, &mut names)
                                .await?
                        }
                    }
                }
                WordPart::ArrayAccess { name, index } if self.is_assoc_array(name) => {
                    self.settle(index, Role::Key, quoted, &mut names).await?;
                }
                WordPart::Length(name)
                | WordPart::Substring { name, .. }
                | WordPart::Transformation { name, .. } => {
                    self.settle_name(name, quoted, &mut names).await?;
                }
                _ => {}
            }
        }
        Ok((settled, names))
    }

    /// Removes the variables of an expanded word.
    pub(super) fn forget_operands(&mut self, names: &[String]) {
        for name in names {
            Arc::make_mut(&mut self.scoped.variables).remove(name);
        }
    }

    /// Expands the subscript of `name[…]`.
    async fn settle_name(
        &mut self,
        name: &mut String,
        quoted: bool,
        names: &mut Vec<String>,
    ) -> Result<()> {
        let mut key = subscript(name).to_owned();
        if is_deep(&key, Role::Key, quoted) {
            self.settle(&mut key, Role::Key, quoted, names).await?;
            let array = name.find('[').map_or("", |at| &name[..at]);
            *name = format!("{array}[{key}]");
        }
        Ok(())
    }

    async fn settle(
        &mut self,
        text: &mut String,
        role: Role,
        quoted: bool,
        names: &mut Vec<String>,
    ) -> Result<()> {
        let mut settled = String::new();
        let mut done = 0;
        for span in deep_spans(text, role, quoted) {
            let source = &text[span.clone()];
            let command = source
                .strip_prefix('`')
                .and_then(|rest| rest.strip_suffix('`'));
            let source = match command {
                Some(command) => format!("$({})", without_escapes(command)),
                None => source.to_owned(),
            };
            let mut word = Parser::parse_indirect_word(
                &source,
                self.limits.max_ast_depth,
                self.limits.max_parser_operations,
                self.counters.subst_depth,
                self.execution_budget.clone(),
            )?;
            word.quoted = true;
            let value = self.expand_word(&word).await?;
            let name = format!("__operand_{}", NEXT.fetch_add(1, Ordering::Relaxed));
            Arc::make_mut(&mut self.scoped.variables).insert(name.clone(), value);
            settled.push_str(&text[done..span.start]);
            settled.push_str(&format!("${{{name}}}"));
            names.push(name);
            done = span.end;
        }
        settled.push_str(&text[done..]);
        *text = settled;
        Ok(())
    }
}

fn role(operator: &ParameterOp) -> Role {
    match operator {
        ParameterOp::UseDefault
        | ParameterOp::AssignDefault
        | ParameterOp::UseReplacement
        | ParameterOp::Error => Role::Default,
        _ => Role::Pattern,
    }
}

/// Returns the text between the brackets of `name[…]`; empty without brackets.
fn subscript(name: &str) -> &str {
    let inside = name
        .find('[')
        .and_then(|at| name[at + 1..].strip_suffix(']'));
    inside.unwrap_or_default()
}

fn is_deep(text: &str, role: Role, quoted: bool) -> bool {
    text.contains(['$', '`']) && !deep_spans(text, role, quoted).is_empty()
}

/// Returns the parts of a text that its own expansion would drop.
fn deep_spans(text: &str, role: Role, quoted: bool) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut in_quotes = false;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let next = at + c.len_utf8();
        let rest = &text[next..];
        let is_literal_mark = in_quotes || (role == Role::Default && quoted);
        at = match c {
            '\\' | '\0' => next + rest.chars().next().map_or(0, char::len_utf8),
            '"' => {
                in_quotes = !in_quotes;
                next
            }
            '\'' if !is_literal_mark => rest.find('\'').map_or(text.len(), |end| next + end + 1),
            '`' => match backquote_end(rest) {
                Some(end) => {
                    spans.push(at..next + end);
                    next + end
                }
                None => next,
            },
            '$' => match expansion_end(rest) {
                Some(end) => {
                    if is_left_out(&rest[..end], role) {
                        spans.push(at..next + end);
                    }
                    next + end
                }
                None => next,
            },
            _ => next,
        };
    }
    spans
}

/// Returns the command inside backquotes, where `\` escapes `` ` ``, `\` and `$`.
fn without_escapes(command: &str) -> String {
    let mut text = String::new();
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('`' | '\\' | '$')) => text.extend(chars.next()),
            _ => text.push(c),
        }
    }
    text
}

/// Returns true if an operand drops this expansion, which is given without its `$`.
fn is_left_out(expansion: &str, role: Role) -> bool {
    if let Some(arithmetic) = expansion.strip_prefix("((") {
        let is_plain = |rest: &str| {
            let end = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
            end.len() < rest.len() && end.starts_with('}')
        };
        return role == Role::Key
            || arithmetic.contains("$(")
            || arithmetic.contains('`')
            || arithmetic.split("${").skip(1).any(|rest| !is_plain(rest));
    }
    let inside = expansion
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let Some(inside) = inside else {
        return true;
    };
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if inside.starts_with('!') {
        return true;
    }
    if let Some(name) = inside.strip_prefix('#')
        && name.starts_with(is_of_name)
    {
        return role == Role::Key || !name.trim_start_matches(is_of_name).is_empty();
    }
    let special = inside.strip_prefix(['@', '*', '#', '?', '$', '!', '-']);
    let rest = match inside.trim_start_matches(is_of_name) {
        rest if rest.len() < inside.len() => rest,
        _ => special.unwrap_or(inside),
    };
    let mut is_multiple = inside.starts_with(['@', '*']);
    let mut rest = rest;
    if rest.starts_with('[') {
        let end = crate::parser::parameter_subscript_end(rest, 0).unwrap_or(rest.len());
        let key = rest[1..end].trim_end_matches(']');
        rest = &rest[end..];
        is_multiple = matches!(key, "@" | "*");
        if !is_multiple && (rest.is_empty() || key.contains("$(") || key.contains(['`', '{'])) {
            return true;
        }
    }
    if is_multiple && role == Role::Default {
        // It may be several words, which only the operand itself can produce.
        return false;
    }
    if is_multiple {
        return !rest.is_empty() || inside.contains('[');
    }
    if rest.is_empty() {
        return false;
    }
    if role == Role::Key {
        return true;
    }
    let operand = match rest.strip_prefix(':') {
        Some(operand) if operand.starts_with(['-', '=', '+', '?']) => &operand[1..],
        Some(_) => return true,
        None if rest.starts_with('@') => return true,
        None => &rest[1..],
    };
    is_deep(operand, Role::Pattern, true)
}

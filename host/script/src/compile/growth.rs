//! Code of which the compiler would make far more than it is: levels in levels, texts that each enum member doubles,
//! names that are repeated for all that is in them. What is written by people has none of that; what was written to
//! harm is refused before anything is made of it.
//!
//! Never here: how long code may be, and how long the compiler may take.

use std::collections::HashMap;

use oxc::ast::AstKind;
use oxc::ast::ast::{
    Expression, Program, TSEnumDeclaration, TSEnumMemberName, TSNamespaceDeclaration,
};
use oxc::ast_visit::{Visit, walk};
use oxc::span::{GetSpan as _, Span};

use super::exports::Wrong;

/// Levels of code, as the compiler counts: a block in a function is four of them, a term of a sum is one. Moving what
/// is inside an async function costs its length once for each around it: with this many a second at most, with ten
/// times as many minutes.
const LEVELS: usize = 1_500;

/// Bytes that the compiler may add for enums and namespaces: texts that it puts together beforehand, and names that it
/// repeats for each member.
const ADDED: usize = 4 << 20;

/// Bytes of a number in a text, at most.
const NUMBER: usize = 32;

/// Bytes of code for which a name of a namespace is repeated: `a,` is the shortest that it can export.
const APART: usize = 2;

/// Refuses what would grow. The error is a place and what is wrong there.
pub(super) fn check(program: &Program<'_>) -> Result<(), Wrong> {
    let mut growth = Growth::default();
    growth.visit_program(program);
    growth.wrong.map_or(Ok(()), Err)
}

#[derive(Default)]
struct Growth {
    levels: usize,
    added: usize,
    /// The longest text that a member of an enum can have, by its name: of all enums, since they may name each other's.
    texts: HashMap<String, usize>,
    wrong: Option<Wrong>,
}

impl Growth {
    fn add(&mut self, bytes: usize, span: Span) {
        self.added = self.added.saturating_add(bytes);
        if self.added > ADDED {
            let message = format!(
                "the enums and namespaces up to here become more than {} MiB of code; put long texts together in a function",
                ADDED >> 20
            );
            self.wrong.get_or_insert((span.start, message));
        }
    }

    /// The longest text that the compiler makes of an expression of an enum. All that it makes on the way counts.
    fn text(&mut self, value: &Expression<'_>) -> usize {
        if self.wrong.is_some() {
            return 0;
        }
        let long = match value {
            Expression::StringLiteral(text) => text.value.len(),
            Expression::TemplateLiteral(text) => {
                let quasis: usize = text.quasis.iter().map(|one| one.value.raw.len()).sum();
                let parts = text.expressions.iter().map(|one| self.text(one));
                parts.fold(quasis, usize::saturating_add)
            }
            Expression::BinaryExpression(sum) => {
                let left = self.text(&sum.left);
                left.saturating_add(self.text(&sum.right))
            }
            Expression::UnaryExpression(of) => self.text(&of.argument),
            Expression::ParenthesizedExpression(of) => self.text(&of.expression),
            Expression::Identifier(name) => self.known(&name.name),
            Expression::StaticMemberExpression(member) => self.known(&member.property.name),
            Expression::ComputedMemberExpression(member) => match &member.expression {
                Expression::StringLiteral(name) => self.known(&name.value),
                _ => NUMBER,
            },
            _ => NUMBER,
        };
        self.add(long, value.span());
        long
    }

    fn known(&self, name: &str) -> usize {
        self.texts
            .get(name)
            .copied()
            .unwrap_or_default()
            .max(NUMBER)
    }
}

impl<'a> Visit<'a> for Growth {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        self.levels += 1;
        if self.levels > LEVELS {
            let message = "the code is nested too deep; take it apart".to_owned();
            self.wrong
                .get_or_insert_with(|| (kind.span().start, message));
        }
    }

    fn leave_node(&mut self, _: AstKind<'a>) {
        self.levels -= 1;
    }

    fn visit_ts_enum_declaration(&mut self, made: &TSEnumDeclaration<'a>) {
        for member in &made.body.members {
            let name = match &member.id {
                TSEnumMemberName::Identifier(name) => Some(name.name.as_str()),
                TSEnumMemberName::String(name) | TSEnumMemberName::ComputedString(name) => {
                    Some(name.value.as_str())
                }
                TSEnumMemberName::ComputedTemplateString(_) => None,
            };
            let long = member.initializer.as_ref().map(|value| self.text(value));
            if let (Some(name), Some(long)) = (name, long) {
                let known = self.texts.entry(name.to_owned()).or_default();
                *known = (*known).max(long);
            }
            // `A[A["x"] = 0] = "x"`, and `A.` before each name of a member in the value.
            let inside = member
                .initializer
                .as_ref()
                .map_or(0, |value| value.span().size());
            let names = 2 + inside as usize / APART;
            self.add(names.saturating_mul(made.id.name.len()), member.span);
        }
        walk::walk_ts_enum_declaration(self, made);
    }

    fn visit_ts_namespace_declaration(&mut self, made: &TSNamespaceDeclaration<'a>) {
        let names = made.span.size() as usize / APART;
        self.add(names.saturating_mul(made.id.name.len()), made.span);
        walk::walk_ts_namespace_declaration(self, made);
    }
}

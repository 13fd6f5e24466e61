//! Rejects code whose compiled form would be far larger than its source: deep nesting, strings that each enum member
//! doubles, names repeated for everything in a namespace. Hand-written code has none of that; hostile code is rejected
//! before it is compiled.
//!
//! Out of scope: limits on the length of the code and on the compile time.

use std::collections::HashMap;

use oxc::ast::AstKind;
use oxc::ast::ast::{
    Expression, Program, TSEnumDeclaration, TSEnumMemberName, TSNamespaceDeclaration,
};
use oxc::ast_visit::{Visit, walk};
use oxc::span::{GetSpan as _, Span};

use super::export_removal::OffsetFault;

/// Maximum nesting depth as the compiler counts it: a block in a function is four levels, a term of a sum is one.
/// Moving the body of an async function costs its length once for each enclosing one: at most a second at this depth,
/// minutes at ten times that.
const LEVELS: usize = 1_500;

/// Bytes that the compiler may add for enums and namespaces: strings that it concatenates at compile time, and names
/// that it repeats for each member.
const ADDED: usize = 4 << 20;

/// Maximum length in bytes of a number converted to a string.
const NUMBER: usize = 32;

/// Minimum distance in bytes between exports of a namespace, for each of which its name is repeated: `a,` is the
/// shortest.
const APART: usize = 2;

/// Rejects code that would grow too much. The error is an offset and a message.
pub(super) fn check(program: &Program<'_>) -> Result<(), OffsetFault> {
    let mut growth = GrowthCheck::default();
    growth.visit_program(program);
    growth.wrong.map_or(Ok(()), Err)
}

#[derive(Default)]
struct GrowthCheck {
    levels: usize,
    added: usize,
    /// The longest string that an enum member can have, by member name. All enums share it, since they may refer to
    /// each other's members.
    texts: HashMap<String, usize>,
    wrong: Option<OffsetFault>,
}

impl GrowthCheck {
    fn add(&mut self, bytes: usize, span: Span) {
        self.added = self.added.saturating_add(bytes);
        if self.added > ADDED {
            let message = format!(
                "the enums and namespaces up to here compile to more than {} MiB of code: concatenate long strings in a function",
                ADDED >> 20
            );
            self.wrong.get_or_insert((span.start, message));
        }
    }

    /// Returns the length of the longest string that an enum's expression can evaluate to. Intermediate strings count
    /// too.
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

impl<'a> Visit<'a> for GrowthCheck {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        self.levels += 1;
        if self.levels > LEVELS {
            let message = "the code is nested too deep: split it up".to_owned();
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
            // A member compiles to `A[A["x"] = 0] = "x"`, with `A.` before each member name in its value.
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

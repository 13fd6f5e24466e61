//! Rejection of code whose compiled form would be far larger than the source, before it is compiled: deep nesting,
//! strings that each enum member doubles, and names that are repeated for each member of a namespace.
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

/// Maximum nesting depth in nodes of the syntax tree: a block in a function is four levels, a term of a sum is one. The
/// compiler moves the body of an async function once for each enclosing one, which takes at most a second at this
/// depth, and minutes at ten times the depth.
const MAX_LEVELS: usize = 1_500;

/// Maximum number of bytes that the compiler may add for enums and namespaces: strings that it concatenates, and names
/// that it repeats for each member.
const MAX_ADDED_BYTES: usize = 4 << 20;

/// Maximum length in bytes of a number converted to a string.
const MAX_NUMBER_BYTES: usize = 32;

/// Minimum length in bytes of an export in a namespace, such as `a,`. Each repeats the name of the namespace.
const MIN_EXPORT_DISTANCE: usize = 2;

/// Rejects code that would grow too much. The error is an offset and a message.
pub(super) fn check(program: &Program<'_>) -> Result<(), OffsetFault> {
    let mut growth = GrowthCheck::default();
    growth.visit_program(program);
    growth.fault.map_or(Ok(()), Err)
}

#[derive(Default)]
struct GrowthCheck {
    levels: usize,
    added: usize,
    /// Maximum length of an enum member's string, by member name. All enums share the map, because they may refer to
    /// each other's members.
    texts: HashMap<String, usize>,
    fault: Option<OffsetFault>,
}

impl GrowthCheck {
    fn add(&mut self, bytes: usize, span: Span) {
        self.added = self.added.saturating_add(bytes);
        if self.added > MAX_ADDED_BYTES {
            let message = format!(
                "the enums and namespaces up to here compile to more than {} MiB of code: concatenate long strings in a function",
                MAX_ADDED_BYTES >> 20
            );
            self.fault.get_or_insert((span.start, message));
        }
    }

    /// Returns the maximum length of a string to which an enum's expression, or a part of it, can evaluate.
    fn text_length(&mut self, value: &Expression<'_>) -> usize {
        if self.fault.is_some() {
            return 0;
        }
        let length = match value {
            Expression::StringLiteral(text) => text.value.len(),
            Expression::TemplateLiteral(text) => {
                let quasis: usize = text.quasis.iter().map(|one| one.value.raw.len()).sum();
                let parts = text.expressions.iter().map(|one| self.text_length(one));
                parts.fold(quasis, usize::saturating_add)
            }
            Expression::BinaryExpression(sum) => {
                let left = self.text_length(&sum.left);
                left.saturating_add(self.text_length(&sum.right))
            }
            Expression::UnaryExpression(of) => self.text_length(&of.argument),
            Expression::ParenthesizedExpression(of) => self.text_length(&of.expression),
            Expression::Identifier(name) => self.member_length(&name.name),
            Expression::StaticMemberExpression(member) => self.member_length(&member.property.name),
            Expression::ComputedMemberExpression(member) => match &member.expression {
                Expression::StringLiteral(name) => self.member_length(&name.value),
                _ => MAX_NUMBER_BYTES,
            },
            _ => MAX_NUMBER_BYTES,
        };
        self.add(length, value.span());
        length
    }

    fn member_length(&self, name: &str) -> usize {
        self.texts
            .get(name)
            .copied()
            .unwrap_or_default()
            .max(MAX_NUMBER_BYTES)
    }
}

impl<'a> Visit<'a> for GrowthCheck {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        self.levels += 1;
        if self.levels > MAX_LEVELS {
            let message = "the code is nested too deep: split it up".to_owned();
            self.fault
                .get_or_insert_with(|| (kind.span().start, message));
        }
    }

    fn leave_node(&mut self, _: AstKind<'a>) {
        self.levels -= 1;
    }

    fn visit_ts_enum_declaration(&mut self, declaration: &TSEnumDeclaration<'a>) {
        for member in &declaration.body.members {
            let name = match &member.id {
                TSEnumMemberName::Identifier(name) => Some(name.name.as_str()),
                TSEnumMemberName::String(name) | TSEnumMemberName::ComputedString(name) => {
                    Some(name.value.as_str())
                }
                TSEnumMemberName::ComputedTemplateString(_) => None,
            };
            let length = member
                .initializer
                .as_ref()
                .map(|value| self.text_length(value));
            if let (Some(name), Some(length)) = (name, length) {
                let longest = self.texts.entry(name.to_owned()).or_default();
                *longest = (*longest).max(length);
            }
            // A member compiles to `A[A["x"] = 0] = "x"`, with `A.` before each member name in its value.
            let inside = member
                .initializer
                .as_ref()
                .map_or(0, |value| value.span().size());
            let names = 2 + inside as usize / MIN_EXPORT_DISTANCE;
            self.add(names.saturating_mul(declaration.id.name.len()), member.span);
        }
        walk::walk_ts_enum_declaration(self, declaration);
    }

    fn visit_ts_namespace_declaration(&mut self, declaration: &TSNamespaceDeclaration<'a>) {
        let names = declaration.span.size() as usize / MIN_EXPORT_DISTANCE;
        self.add(
            names.saturating_mul(declaration.id.name.len()),
            declaration.span,
        );
        walk::walk_ts_namespace_declaration(self, declaration);
    }
}

//! Collection of the words in a script from which its needs are derived.

use oxc::ast::ast::{
    Argument, CallExpression, Expression, IdentifierName, IdentifierReference, Program,
    StringLiteral,
};
use oxc::ast_visit::{Visit, walk};

use super::WordSet;

/// Words and tool calls that a script mentions.
#[derive(Debug, Default)]
pub(crate) struct CodeMentions {
    /// Names of variables and members, and string literals: `fs` as well as `context["fs"]`.
    pub(crate) words: WordSet,
    /// Tools that the script calls by name: `tools.call("read_file", …)`.
    pub(crate) called: WordSet,
}

impl CodeMentions {
    /// Collects the words and tool calls in a program.
    pub(super) fn collect(program: &Program<'_>) -> Self {
        let mut mentions = Self::default();
        mentions.visit_program(program);
        mentions
    }
}

impl<'a> Visit<'a> for CodeMentions {
    fn visit_identifier_name(&mut self, name: &IdentifierName<'a>) {
        self.words.insert(name.name.to_string());
    }

    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        self.words.insert(name.name.to_string());
    }

    fn visit_string_literal(&mut self, text: &StringLiteral<'a>) {
        self.words.insert(text.value.to_string());
    }

    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        let calls = match &call.callee {
            Expression::StaticMemberExpression(member) => member.property.name == "call",
            Expression::Identifier(name) => name.name == "call",
            _ => false,
        };
        if calls && let Some(Argument::StringLiteral(name)) = call.arguments.first() {
            self.called.insert(name.value.to_string());
        }
        walk::walk_call_expression(self, call);
    }
}

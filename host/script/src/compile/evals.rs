//! Redirection of `eval` to this compiler, because the engine's own `eval` does not support async functions.

use oxc::allocator::{Allocator, ArenaVec};
use oxc::ast::ast::{
    Argument, CallExpression, Expression, IdentifierReference, Program, StaticMemberExpression,
};
use oxc::ast::builder::AstBuilder;
use oxc::ast_visit::{VisitMut, walk_mut};

/// The engine's function that compiles text and returns the code. A direct call of `eval` stays a direct call, because
/// it can access the local variables.
const COMPILE_FUNCTION: &str = "__code";

/// Replacement for `eval` as a value, which is always a global eval.
const GLOBAL_EVAL: &str = "__eval";

const GLOBALS: [&str; 4] = ["globalThis", "global", "window", "self"];

/// Replaces every use of `eval` in a program.
pub(super) fn rewrite_evals<'a>(allocator: &'a Allocator, source: &str, program: &mut Program<'a>) {
    if source.contains("eval") {
        let builder = AstBuilder::new(allocator);
        EvalRewriter { builder }.visit_program(program);
    }
}

struct EvalRewriter<'a> {
    builder: AstBuilder<'a>,
}

impl<'a> VisitMut<'a> for EvalRewriter<'a> {
    fn visit_call_expression(&mut self, call: &mut CallExpression<'a>) {
        let is_eval = matches!(&call.callee, Expression::Identifier(name) if name.name == "eval");
        if !is_eval {
            return walk_mut::walk_call_expression(self, call);
        }
        for argument in &mut call.arguments {
            self.visit_argument(argument);
        }
        if call.arguments.len() == 1
            && let Some(text) = call.arguments.pop()
        {
            let builder = &self.builder;
            let callee = Expression::new_identifier(call.span, COMPILE_FUNCTION, builder);
            let inner = ArenaVec::from_array_in([text], builder);
            let compile_call =
                Argument::new_call_expression(call.span, callee, None, inner, false, builder);
            call.arguments.push(compile_call);
        }
    }

    fn visit_identifier_reference(&mut self, name: &mut IdentifierReference<'a>) {
        if name.name == "eval" {
            name.name = GLOBAL_EVAL.into();
        }
    }

    fn visit_static_member_expression(&mut self, member: &mut StaticMemberExpression<'a>) {
        let is_global = matches!(&member.object, Expression::Identifier(name) if GLOBALS.contains(&name.name.as_str()));
        if is_global && member.property.name == "eval" {
            member.property.name = GLOBAL_EVAL.into();
        }
        walk_mut::walk_static_member_expression(self, member);
    }
}

//! Check of the context members that `execute` destructures in its parameters: `{ platform: { fs }, logger }`.

use oxc::ast::ast::{
    BindingPattern, Declaration, ExportDefaultDeclarationKind, Expression, FormalParameters,
    ObjectPattern, Program, Statement,
};
use oxc::span::GetSpan as _;

use mimir_core::name_suggestions::did_you_mean;

use super::export_removal::OffsetFault;
use crate::spelling::is_misspelt;

/// The members of the context, as in `mimir.d.ts`.
const CONTEXT_MEMBERS: [&str; 9] = [
    "platform",
    "fetch",
    "logger",
    "config",
    "conversation",
    "progress",
    "tools",
    "storage",
    "llm",
];

/// The members of `context.platform`.
const PLATFORM_MEMBERS: [&str; 3] = ["fs", "executor", "http"];

/// Finds misspelt context members in the parameters of `execute`, which would be `undefined` in every call. Other
/// unknown members are ignored, because the code may test if they exist.
pub(super) fn find_misspelt_members(program: &Program<'_>) -> Vec<OffsetFault> {
    let mut faults = Vec::new();
    for parameters in program.body.iter().filter_map(execute_parameters) {
        if let Some(BindingPattern::ObjectPattern(context)) =
            parameters.items.get(1).map(|parameter| &parameter.pattern)
        {
            check_members(context, "context", &CONTEXT_MEMBERS, &mut faults);
        }
    }
    faults
}

/// Returns the parameters of `execute`, if the statement declares it.
fn execute_parameters<'p, 'a>(statement: &'p Statement<'a>) -> Option<&'p FormalParameters<'a>> {
    match statement {
        Statement::ExportDeclaration(export) => declared_parameters(&export.declaration),
        Statement::FunctionDeclaration(function) => {
            let id = function.id.as_ref()?;
            (id.name == "execute").then_some(&*function.params)
        }
        Statement::ExportDefaultDeclaration(export) => match &export.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => Some(&function.params),
            ExportDefaultDeclarationKind::ArrowFunctionExpression(arrow) => Some(&arrow.params),
            _ => None,
        },
        _ => None,
    }
}

fn declared_parameters<'p, 'a>(
    declaration: &'p Declaration<'a>,
) -> Option<&'p FormalParameters<'a>> {
    match declaration {
        Declaration::FunctionDeclaration(function) => {
            let id = function.id.as_ref()?;
            (id.name == "execute").then_some(&*function.params)
        }
        Declaration::VariableDeclaration(variables) => {
            let variable = variables.declarations.iter().find(|variable| {
                let name = variable.id.get_identifier_name();
                name.is_some_and(|name| name == "execute")
            })?;
            match variable.init.as_ref()? {
                Expression::ArrowFunctionExpression(arrow) => Some(&arrow.params),
                Expression::FunctionExpression(function) => Some(&function.params),
                _ => None,
            }
        }
        _ => None,
    }
}

fn check_members(
    object: &ObjectPattern<'_>,
    owner: &str,
    known: &[&str],
    faults: &mut Vec<OffsetFault>,
) {
    for property in &object.properties {
        let Some(name) = property.key.static_name().filter(|_| !property.computed) else {
            continue;
        };
        let is_known = known.contains(&&*name);
        match &property.value {
            // The member has a default, so the code expects that it may be missing.
            BindingPattern::AssignmentPattern(_) => {}
            BindingPattern::ObjectPattern(inner) if name == "platform" => {
                check_members(inner, "context.platform", &PLATFORM_MEMBERS, faults);
            }
            _ if !is_known && is_misspelt(&name, known.iter().copied()) => {
                let hint = did_you_mean(&name, known.iter().copied());
                let message = format!("`{owner}` has no `{name}`.{hint}");
                faults.push((property.key.span().start, message));
            }
            _ => {}
        }
    }
}

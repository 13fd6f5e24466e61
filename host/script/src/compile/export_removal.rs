//! Removal of a module's exports, so that the module can be the body of a function. Removed text is replaced by blanks,
//! so that positions stay the same.

use oxc::ast::ast::{
    ArrowFunctionExpression, AwaitExpression, Declaration, Decorator, ExportDefaultDeclarationKind,
    Function, ImportExpression, ImportOrExportKind, Program, Statement,
};
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::ScopeFlags;
use oxc::span::{GetSpan, Span};

/// Code without exports.
pub(super) struct ExportlessCode {
    pub(super) source: String,
    /// The local name of the exported `execute`.
    pub(super) execute: String,
}

/// Replacement for an anonymous `export default`, of the same length.
pub(super) const UNNAMED: &str = "const __main =";

pub(super) type OffsetFault = (u32, String);

/// Removes the exports. The error is an offset and a message.
pub(super) fn remove_exports(
    source: &str,
    program: &Program<'_>,
) -> Result<ExportlessCode, OffsetFault> {
    let mut unsupported = UnsupportedSyntax::default();
    unsupported.visit_program(program);
    if let Some(span) = unsupported.imported {
        return Err(import_error(span));
    }
    if let Some(fault) = unsupported.found {
        return Err(fault);
    }
    let mut edited = EditedSource(source.to_owned());
    let mut named_export = None;
    let mut default_export = None;
    for statement in &program.body {
        match statement {
            Statement::ImportDeclaration(import) => {
                if import.import_kind != ImportOrExportKind::Type {
                    return Err(import_error(import.span));
                }
                edited.blank(import.span);
            }
            Statement::ExportAllDeclaration(export) => return Err(import_error(export.span)),
            Statement::ExportDefaultDeclaration(export) => {
                let inner = export.declaration.span();
                let keyword = Span::new(export.span.start, inner.start);
                let name = match &export.declaration {
                    ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
                        function.id.as_ref().map(|id| id.name.to_string())
                    }
                    ExportDefaultDeclarationKind::ClassDeclaration(class) => {
                        class.id.as_ref().map(|id| id.name.to_string())
                    }
                    _ => None,
                };
                edited.blank(keyword);
                if name.is_none() {
                    edited.put(export.span.start, UNNAMED);
                }
                default_export = Some(name.unwrap_or_else(|| "__main".to_owned()));
            }
            Statement::ExportFromDeclaration(export) => return Err(import_error(export.span)),
            Statement::ExportDeclaration(export) => {
                let inner = export.declaration.span();
                edited.blank(Span::new(export.span.start, inner.start));
                if declares_execute(&export.declaration) {
                    named_export = Some("execute".to_owned());
                }
            }
            Statement::ExportNamedDeclaration(export) => {
                let mut specifiers = export.specifiers.iter();
                if let Some(specifier) = specifiers.find(|one| one.exported.name() == "execute") {
                    named_export = Some(specifier.local.name().to_string());
                }
                edited.blank(export.span);
            }
            _ => {}
        }
    }
    let Some(execute) = named_export.or(default_export) else {
        let message = "the code does not export `execute`: begin it with `export async function execute(args, context)`";
        return Err((0, message.to_owned()));
    };
    Ok(ExportlessCode {
        source: edited.0,
        execute,
    })
}

fn import_error(span: Span) -> OffsetFault {
    let message = "scripts cannot import anything: use `context`, or build code with libraries as a plugin (`mimir tools new`)";
    (span.start, message.to_owned())
}

/// Returns true if a declaration defines `execute`.
fn declares_execute(declaration: &Declaration<'_>) -> bool {
    match declaration {
        Declaration::FunctionDeclaration(function) => {
            function.id.as_ref().is_some_and(|id| id.name == "execute")
        }
        Declaration::VariableDeclaration(variables) => {
            let mut ids = variables.declarations.iter();
            ids.any(|one| {
                one.id
                    .get_identifier_name()
                    .is_some_and(|name| name == "execute")
            })
        }
        _ => false,
    }
}

/// Finds the first construct that the body of a function cannot contain, or that would need a runtime library.
#[derive(Default)]
pub(super) struct UnsupportedSyntax {
    pub(super) found: Option<OffsetFault>,
    /// Position of a dynamic import.
    pub(super) imported: Option<Span>,
    /// Number of enclosing functions.
    depth: usize,
}

impl<'a> Visit<'a> for UnsupportedSyntax {
    fn visit_import_expression(&mut self, import: &ImportExpression<'a>) {
        self.imported.get_or_insert(import.span);
        walk::walk_import_expression(self, import);
    }

    fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
        let message =
            "decorators are not supported in scripts: call the function on the class instead";
        self.found
            .get_or_insert_with(|| (decorator.span.start, message.to_owned()));
    }

    fn visit_await_expression(&mut self, awaited: &AwaitExpression<'a>) {
        if self.depth == 0 {
            let message = "`await` outside of a function: use it inside `execute`";
            self.found
                .get_or_insert_with(|| (awaited.span.start, message.to_owned()));
        }
        walk::walk_await_expression(self, awaited);
    }

    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        self.depth += 1;
        walk::walk_function(self, function, flags);
        self.depth -= 1;
    }

    fn visit_arrow_function_expression(&mut self, arrow: &ArrowFunctionExpression<'a>) {
        self.depth += 1;
        walk::walk_arrow_function_expression(self, arrow);
        self.depth -= 1;
    }
}

/// Source text for edits that keep its length in bytes and its lines.
pub(super) struct EditedSource(pub(super) String);

impl EditedSource {
    /// Replaces the text by blanks, except for line ends.
    pub(super) fn blank(&mut self, span: Span) {
        let range = span.start as usize..span.end as usize;
        let blank: String = self.0[range.clone()]
            .bytes()
            .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
            .collect();
        self.0.replace_range(range, &blank);
    }

    /// Replaces the text at `start` by a text of equal length.
    pub(super) fn put(&mut self, start: u32, text: &str) {
        let start = start as usize;
        self.0.replace_range(start..start + text.len(), text);
    }
}

//! Compilation of whole programs as Node runs them: modules and scripts, in JavaScript or TypeScript, with `import` and
//! `require`, top-level `await` and top-level `return`. A program becomes a function with the parameters that Node
//! passes to a module.
//!
//! Edits keep the length and the lines of the text, so that a single source map suffices.
//!
//! Out of scope: module resolution.

use mimir_wasm::script::LateCode;
use oxc::allocator::Allocator;
use oxc::ast::ast::{
    ExportDefaultDeclarationKind, ImportDeclaration, ImportDeclarationSpecifier, ImportExpression,
    ImportMeta, ImportOrExportKind, Program, Statement, TSModuleReference,
};
use oxc::ast_visit::{Visit, walk};
use oxc::parser::{ParseOptions, Parser};
use oxc::span::{GetSpan as _, SourceType, Span};
use serde_json::Value;

use super::export_removal::{EditedSource, UNNAMED, UnsupportedSyntax};
use super::module::declared_names;
use super::{
    CodeFault, CodeMentions, CompiledCode, check_diagnostics, check_growth, fault_at, transform,
};

/// Replacement for `import` in `import(…)`, of the same length.
const LOAD_FUNCTION: &str = "__load";

/// Replacement for `import.meta`, of the same length.
const META_VARIABLE: &str = "importMeta_";

/// Parameters of the function around the code. The code has an inner scope, so it may declare variables of these names.
const MODULE_PARAMETERS: &str =
    "exports, require, module, __filename, __dirname, __load, __import, __export, importMeta_";

/// Compiles a program, which may await at top level, or code that a program loads later.
pub(super) fn compile(
    source: &str,
    typed: bool,
    late: Option<LateCode>,
) -> Result<CompiledCode, Vec<CodeFault>> {
    let allocator = Allocator::default();
    if late == Some(LateCode::Eval) {
        let program = parse(&allocator, source, script_type(typed))?;
        check_growth(source, &program)?;
        let mut unsupported = UnsupportedSyntax::default();
        unsupported.visit_program(&program);
        if let Some(span) = unsupported.imported {
            let message = "`import()` is not supported in text that is evaluated: use `require`";
            return Err(vec![fault_at(
                source,
                span.start as usize,
                message.to_owned(),
            )]);
        }
        let written = transform(source, script_type(typed), 0)?;
        return Ok(CompiledCode {
            code: written.code,
            mentions: CodeMentions::default(),
            map: written.map,
        });
    }
    let module = parse(&allocator, source, SourceType::mjs().with_typescript(typed));
    // Some syntax, such as `with`, is valid only in scripts.
    let program = module.or_else(|faults| {
        let as_script = parse(&allocator, source, script_type(typed));
        as_script.map_err(|_| faults)
    })?;
    check_growth(source, &program)?;
    let mentions = CodeMentions::collect(&program);
    let mut reader = ProgramReader {
        source,
        typed,
        code: EditedSource(source.to_owned()),
        prologue: Vec::new(),
        exports: Vec::new(),
        is_module: false,
    };
    if let Some(first) = &program.hashbang {
        reader.code.blank(first.span);
    }
    reader.visit_program(&program);
    reader.read(&program)?;
    let prologue = reader.build_prologue();
    let strict = if reader.is_module {
        "\"use strict\"; "
    } else {
        ""
    };
    let async_keyword = if late.is_none() { "async " } else { "" };
    let wrapped_source = format!(
        "(function ({MODULE_PARAMETERS}) {{ return ({async_keyword}() => {{ {strict}{prologue}\n{}\n}})(); }})",
        reader.code.0
    );
    let written = transform(&wrapped_source, script_type(typed), 0).map_err(|faults| {
        let lines = source.lines().count().max(1);
        let to_file_position = |fault: CodeFault| CodeFault {
            line: fault.line.saturating_sub(1).clamp(1, lines),
            ..fault
        };
        faults.into_iter().map(to_file_position).collect::<Vec<_>>()
    })?;
    let own_entries = written.map.into_iter().filter(|[_, _, line, _]| *line > 1);
    Ok(CompiledCode {
        code: written.code,
        mentions,
        map: own_entries
            .map(|[row, at, line, column]| [row, at, line - 1, column])
            .collect(),
    })
}

fn script_type(typed: bool) -> SourceType {
    SourceType::script().with_typescript(typed)
}

fn parse<'a>(
    allocator: &'a Allocator,
    source: &'a str,
    kind: SourceType,
) -> Result<Program<'a>, Vec<CodeFault>> {
    let options = ParseOptions {
        allow_return_outside_function: true,
        ..ParseOptions::default()
    };
    let parsed = Parser::new(allocator, source, kind)
        .with_options(options)
        .parse();
    check_diagnostics(source, parsed.diagnostics)?;
    Ok(parsed.program)
}

/// State collected while imports and exports are removed.
struct ProgramReader<'s> {
    source: &'s str,
    typed: bool,
    code: EditedSource,
    /// Text before the code, all on one line.
    prologue: Vec<String>,
    /// Exported names, and their local names.
    exports: Vec<(String, String)>,
    /// Set if the code has syntax that only modules have.
    is_module: bool,
}

impl ProgramReader<'_> {
    fn read(&mut self, program: &Program<'_>) -> Result<(), Vec<CodeFault>> {
        for statement in &program.body {
            match statement {
                Statement::ImportDeclaration(import) => self.read_import(import),
                Statement::ExportAllDeclaration(export) => {
                    self.blank(export.span);
                    if export.export_kind == ImportOrExportKind::Type {
                        continue;
                    }
                    let name = export.exported.as_ref().map(|name| name.name().to_string());
                    let from = Value::from(&*export.source.value);
                    self.prologue.push(match name {
                        Some(name) => format!(
                            "__export({{ {}: () => __import({from}) }});",
                            Value::from(name)
                        ),
                        None => format!("__export(__import({from}), true);"),
                    });
                }
                Statement::ExportFromDeclaration(export) => {
                    self.blank(export.span);
                    if export.export_kind == ImportOrExportKind::Type {
                        continue;
                    }
                    let from = Value::from(&*export.source.value);
                    for specifier in &export.specifiers {
                        let (outside, inside) = (specifier.exported.name(), specifier.local.name());
                        let (outside, inside) = (Value::from(&*outside), Value::from(&*inside));
                        self.prologue.push(format!(
                            "__export({{ {outside}: () => __import({from})[{inside}] }});"
                        ));
                    }
                }
                Statement::ExportDefaultDeclaration(export) => {
                    let inner = export.declaration.span();
                    let name = match &export.declaration {
                        ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
                            function.id.as_ref().map(|id| id.name.to_string())
                        }
                        ExportDefaultDeclarationKind::ClassDeclaration(class) => {
                            class.id.as_ref().map(|id| id.name.to_string())
                        }
                        _ => None,
                    };
                    self.blank(Span::new(export.span.start, inner.start));
                    if name.is_none() {
                        self.code.put(export.span.start, UNNAMED);
                    }
                    let name = name.unwrap_or_else(|| "__main".to_owned());
                    self.exports.push(("default".to_owned(), name));
                }
                Statement::ExportDeclaration(export) => {
                    let inner = export.declaration.span();
                    self.blank(Span::new(export.span.start, inner.start));
                    for (name, _) in declared_names(&export.declaration) {
                        self.exports.push((name.clone(), name));
                    }
                }
                Statement::ExportNamedDeclaration(export) => {
                    for specifier in &export.specifiers {
                        let is_type = export.export_kind == ImportOrExportKind::Type
                            || specifier.export_kind == ImportOrExportKind::Type;
                        if !is_type {
                            let names = (specifier.exported.name(), specifier.local.name());
                            self.exports
                                .push((names.0.to_string(), names.1.to_string()));
                        }
                    }
                    self.blank(export.span);
                }
                // `import x = require("x")` is TypeScript's form of `require`.
                Statement::TSImportEqualsDeclaration(import)
                    if matches!(
                        import.module_reference,
                        TSModuleReference::ExternalModuleReference(_)
                    ) =>
                {
                    self.code.put(import.span.start, "const ");
                }
                Statement::TSExportAssignment(export) => {
                    let message = "`export =` is not supported: use `module.exports =`";
                    let at = export.span.start as usize;
                    return Err(vec![fault_at(self.source, at, message.to_owned())]);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Blanks out a statement that is valid only in modules.
    fn blank(&mut self, span: Span) {
        self.is_module = true;
        self.code.blank(span);
    }

    fn read_import(&mut self, import: &ImportDeclaration<'_>) {
        self.blank(import.span);
        if import.import_kind == ImportOrExportKind::Type {
            return;
        }
        let from = Value::from(&*import.source.value);
        let mut names: Vec<Value> = Vec::new();
        let mut bound: Vec<String> = Vec::new();
        let number = self.prologue.len();
        for specifier in import.specifiers.iter().flatten() {
            match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(specifier) => {
                    if specifier.import_kind == ImportOrExportKind::Type {
                        continue;
                    }
                    let name = Value::from(&*specifier.imported.name());
                    bound.push(format!(
                        "{{ {name}: {} }} = __i{number}",
                        specifier.local.name
                    ));
                    names.push(name);
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(specifier) => {
                    bound.push(format!("{} = __i{number}.default", specifier.local.name));
                    names.push("default".into());
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(specifier) => {
                    bound.push(format!("{} = __i{number}", specifier.local.name));
                }
            }
        }
        // In TypeScript, an imported name may be a type, which does not exist at run time.
        let names = if self.typed {
            Value::Null
        } else {
            names.into()
        };
        bound.insert(0, format!("__i{number} = __import({from}, {names})"));
        self.prologue.push(format!("const {};", bound.join(", ")));
    }

    fn build_prologue(&self) -> String {
        let exports = self.exports.iter();
        let exports: Vec<String> = exports
            .map(|(outside, inside)| format!("{}: () => {inside}", Value::from(&**outside)))
            .collect();
        let mut statements = Vec::new();
        if !exports.is_empty() {
            statements.push(format!("__export({{ {} }});", exports.join(", ")));
        }
        statements.extend(self.prologue.iter().cloned());
        statements.join(" ")
    }
}

impl<'a> Visit<'a> for ProgramReader<'_> {
    fn visit_import_expression(&mut self, import: &ImportExpression<'a>) {
        self.code.put(import.span.start, LOAD_FUNCTION);
        walk::walk_import_expression(self, import);
    }

    fn visit_import_meta(&mut self, meta: &ImportMeta) {
        self.is_module = true;
        self.code.blank(meta.span);
        self.code.put(meta.span.start, META_VARIABLE);
    }
}

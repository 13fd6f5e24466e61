//! Compilation of a plugin's module to the body of a function that returns the exports, with the positions of exports
//! and imports.

use std::collections::BTreeMap;

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    BindingPattern, Declaration, ExportDefaultDeclarationKind, ImportDeclaration,
    ImportDeclarationSpecifier, ImportOrExportKind, ModuleExportName, Program, Statement,
};
use oxc::ast_visit::Visit as _;
use oxc::parser::Parser;
use oxc::span::{GetSpan as _, Span};

use super::export_removal::{EditedSource, UNNAMED, UnsupportedSyntax};
use super::{
    CODE_PREFIX_LINES, CodeFault, CodeMentions, check_diagnostics, check_growth, fault_at,
    source_type, transform,
};

/// The only module that can be imported without a bundler.
pub(super) const MIMIR_MODULE: &str = "mimir";

/// Values that [`MIMIR_MODULE`] exports, in addition to types.
const MIMIR_VALUES: [&str; 1] = ["defineTool"];

/// A parsed module.
#[derive(Debug)]
pub(crate) struct PluginModule {
    /// Code that evaluates to a function that returns the exports, or `None` if the module needs a bundler.
    pub(crate) code: Option<String>,
    /// The source map, as in [`CompiledCode`](super::CompiledCode).
    pub(crate) map: Vec<[u32; 4]>,
    pub(crate) mentions: CodeMentions,
    /// The exports by name.
    pub(crate) exports: BTreeMap<String, ModuleExport>,
    /// The fault about the first import that needs a bundler.
    pub(crate) foreign: Option<CodeFault>,
}

/// An export and its position, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleExport {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Text of the doc comment before the export.
    pub(crate) doc: Option<String>,
}

/// State collected while the exports are removed.
struct ModuleReader<'s> {
    source: &'s str,
    code: EditedSource,
    /// Exported names, and their local names.
    names: Vec<(String, String)>,
    exports: BTreeMap<String, ModuleExport>,
    /// Bindings imported from `mimir`.
    mimir_bindings: Vec<String>,
    foreign: Option<CodeFault>,
}

/// Compiles a module, and collects its exports. Fails with all faults that can be detected in one pass.
pub(super) fn compile(source: &str, typed: bool) -> Result<PluginModule, Vec<CodeFault>> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, source_type(typed)).parse();
    check_diagnostics(source, parsed.diagnostics)?;
    let program = &parsed.program;
    check_growth(source, program)?;
    let mentions = CodeMentions::collect(program);
    let mut reader = ModuleReader {
        source,
        code: EditedSource(source.to_owned()),
        names: Vec::new(),
        exports: BTreeMap::new(),
        mimir_bindings: Vec::new(),
        foreign: None,
    };
    reader.read(program)?;
    let mut unsupported = UnsupportedSyntax::default();
    unsupported.visit_program(program);
    if let Some(span) = unsupported.imported {
        reader.note_foreign_import(span, "`import()` is used".to_owned());
    }
    let ModuleReader {
        code: edited,
        names,
        exports,
        mimir_bindings,
        foreign,
        ..
    } = reader;
    if foreign.is_some() {
        return Ok(PluginModule {
            code: None,
            map: Vec::new(),
            mentions,
            exports,
            foreign,
        });
    }
    if let Some((offset, message)) = unsupported.found {
        return Err(vec![fault_at(source, offset as usize, message)]);
    }
    let written = transform(&edited.0, source_type(typed), CODE_PREFIX_LINES)?;
    // All text before the code is on one line, so that line numbers differ only by one.
    let import = if mimir_bindings.is_empty() {
        String::new()
    } else {
        format!(" const {{ {} }} = __mimir;", mimir_bindings.join(", "))
    };
    let exported: Vec<String> = names
        .iter()
        .map(|(outside, inside)| format!("{}: {inside}", serde_json::Value::from(&**outside)))
        .collect();
    let code = format!(
        "(function (__mimir) {{ \"use strict\";{import}\n{}\nreturn {{ module: {{ {} }} }};\n}})",
        written.code,
        exported.join(", ")
    );
    Ok(PluginModule {
        code: Some(code),
        map: written.map,
        mentions,
        exports,
        foreign: None,
    })
}

impl ModuleReader<'_> {
    fn read(&mut self, program: &Program<'_>) -> Result<(), Vec<CodeFault>> {
        for statement in &program.body {
            match statement {
                Statement::ImportDeclaration(import) => self.read_import(import)?,
                Statement::ExportAllDeclaration(export) => {
                    self.note_foreign_import(export.span, imported(&export.source.value));
                }
                Statement::ExportFromDeclaration(export) => {
                    self.note_foreign_import(export.span, imported(&export.source.value));
                }
                Statement::ExportDefaultDeclaration(export) => {
                    let inner = export.declaration.span();
                    let (name, is_type) = match &export.declaration {
                        ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
                            (function.id.as_ref(), function.body.is_none())
                        }
                        ExportDefaultDeclarationKind::ClassDeclaration(class) => {
                            (class.id.as_ref(), class.declare)
                        }
                        ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => (None, true),
                        _ => (None, false),
                    };
                    let name = name.map(|id| id.name.to_string());
                    self.code.blank(Span::new(export.span.start, inner.start));
                    if is_type {
                        continue;
                    }
                    if name.is_none() {
                        self.code.put(export.span.start, UNNAMED);
                    }
                    let name = name.unwrap_or_else(|| "__main".to_owned());
                    self.add_export(program, "default", name, export.span.start, export.span);
                }
                Statement::ExportDeclaration(export) => {
                    let inner = export.declaration.span();
                    self.code.blank(Span::new(export.span.start, inner.start));
                    for (name, at) in declared_names(&export.declaration) {
                        self.add_export(program, &name, name.clone(), at, export.span);
                    }
                }
                Statement::ExportNamedDeclaration(export) => {
                    for specifier in &export.specifiers {
                        let is_type = export.export_kind == ImportOrExportKind::Type
                            || specifier.export_kind == ImportOrExportKind::Type;
                        if !is_type {
                            let (outside, inside) =
                                (specifier.exported.name(), specifier.local.name());
                            let at = specifier.span.start;
                            let inside = inside.to_string();
                            self.add_export(program, &outside, inside, at, specifier.span);
                        }
                    }
                    self.code.blank(export.span);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_import(&mut self, import: &ImportDeclaration<'_>) -> Result<(), Vec<CodeFault>> {
        self.code.blank(import.span);
        if import.import_kind == ImportOrExportKind::Type {
            return Ok(());
        }
        if import.source.value != MIMIR_MODULE {
            self.note_foreign_import(import.span, imported(&import.source.value));
            return Ok(());
        }
        for specifier in import.specifiers.iter().flatten() {
            let specifier = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(specifier) => specifier,
                other => {
                    let message =
                        "import from `mimir` by name: `import { defineTool } from \"mimir\"`";
                    let at = other.span().start as usize;
                    return Err(vec![fault_at(self.source, at, message.to_owned())]);
                }
            };
            let name = import_name(&specifier.imported);
            // Capitalized names are types, which are removed.
            let is_type = specifier.import_kind == ImportOrExportKind::Type
                || name.starts_with(|c: char| c.is_ascii_uppercase());
            if is_type {
                continue;
            }
            if !MIMIR_VALUES.contains(&name.as_str()) {
                let known = MIMIR_VALUES.join(", ");
                let message =
                    format!("`mimir` does not export `{name}`: it exports {known} and types");
                return Err(vec![fault_at(
                    self.source,
                    specifier.span.start as usize,
                    message,
                )]);
            }
            self.mimir_bindings
                .push(format!("{name}: {}", specifier.local.name));
        }
        Ok(())
    }

    /// Records the first import that needs a bundler.
    fn note_foreign_import(&mut self, span: Span, message: String) {
        let fault = fault_at(self.source, span.start as usize, message);
        self.foreign.get_or_insert(fault);
    }

    /// Adds an export whose name is at an offset within a statement.
    fn add_export(
        &mut self,
        program: &Program<'_>,
        name: &str,
        inside: String,
        at: u32,
        statement: Span,
    ) {
        if self.exports.contains_key(name) {
            return;
        }
        let position = fault_at(self.source, at as usize, String::new());
        let mut comments = program.comments.iter();
        let doc = comments
            .find(|comment| comment.attached_to == statement.start && comment.is_jsdoc())
            .map(|comment| {
                let range = comment.span.start as usize..comment.span.end as usize;
                comment_text(&self.source[range])
            });
        let exported = ModuleExport {
            line: position.line,
            column: position.column,
            doc: doc.filter(|doc| !doc.is_empty()),
        };
        self.exports.insert(name.to_owned(), exported);
        self.names.push((name.to_owned(), inside));
    }
}

fn imported(module: &str) -> String {
    format!("`{module}` is imported")
}

fn import_name(name: &ModuleExportName<'_>) -> String {
    name.name().to_string()
}

/// Returns the values that a declaration defines, with the offsets of their names.
pub(super) fn declared_names(declaration: &Declaration<'_>) -> Vec<(String, u32)> {
    match declaration {
        Declaration::FunctionDeclaration(function) if function.body.is_some() => {
            let id = function.id.iter();
            id.map(|id| (id.name.to_string(), id.span.start)).collect()
        }
        Declaration::ClassDeclaration(class) if !class.declare => {
            let id = class.id.iter();
            id.map(|id| (id.name.to_string(), id.span.start)).collect()
        }
        Declaration::VariableDeclaration(variables) if !variables.declare => {
            let mut names = Vec::new();
            for declarator in &variables.declarations {
                collect_bound_names(&declarator.id, &mut names);
            }
            names
        }
        Declaration::TSEnumDeclaration(made) if !made.declare => {
            vec![(made.id.name.to_string(), made.id.span.start)]
        }
        _ => Vec::new(),
    }
}

/// Collects the names that a pattern binds.
fn collect_bound_names(pattern: &BindingPattern<'_>, names: &mut Vec<(String, u32)>) {
    match pattern {
        BindingPattern::BindingIdentifier(id) => names.push((id.name.to_string(), id.span.start)),
        BindingPattern::ObjectPattern(object) => {
            for property in &object.properties {
                collect_bound_names(&property.value, names);
            }
        }
        BindingPattern::ArrayPattern(array) => {
            for element in array.elements.iter().flatten() {
                collect_bound_names(element, names);
            }
        }
        BindingPattern::AssignmentPattern(assigned) => collect_bound_names(&assigned.left, names),
    }
}

/// Returns the text of a comment up to its tags.
fn comment_text(comment: &str) -> String {
    let inner = comment.trim_start_matches("/**").trim_end_matches("*/");
    let lines = inner.lines().map(|line| {
        let line = line.trim();
        line.strip_prefix('*').map_or(line, str::trim)
    });
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with('@')).collect();
    lines.join("\n").trim().to_owned()
}

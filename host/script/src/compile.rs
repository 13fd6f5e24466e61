//! Compilation of TypeScript and JavaScript for the script engine: types are removed, async functions become generators
//! (see the prelude of the engine), and exports are returned from a function. A source map maps positions back.
//!
//! The compiler recurses once for each nesting level of the code, and hostile code can consist of nesting only, so it
//! runs on a stack sized for the worst case of the code's length.

use std::collections::BTreeSet;
use std::path::Path;

use oxc::allocator::Allocator;
use oxc::ast::ast::{Program, Statement};
use oxc::codegen::{Codegen, CodegenOptions};
use oxc::diagnostics::OxcDiagnostic;
use oxc::parser::Parser;
use oxc::semantic::SemanticBuilder;
use oxc::span::SourceType;
use oxc::transformer::{HelperLoaderMode, TransformOptions, Transformer};

use mimir_core::ToolErrorCode;
use mimir_wasm::script::LateCode;

mod brackets;
mod context;
mod evals;
mod export_removal;
mod growth_check;
mod mentions;
mod module;
mod program;
mod stack;

use brackets::BracketFault;

pub(crate) use mentions::CodeMentions;
pub(crate) use module::{ModuleExport, PluginModule};

/// A fault in the code and its position. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeFault {
    /// The message.
    pub message: String,
    /// The line in the code.
    pub line: usize,
    /// The column in the line, in characters.
    pub column: usize,
    /// The error code, mostly invalid input.
    pub code: ToolErrorCode,
}

impl CodeFault {
    /// Formats the position as `line:column`.
    pub(crate) fn position(&self) -> String {
        format!("{}:{}", self.line, self.column)
    }
}

/// Compiled code, which the engine evaluates.
#[derive(Debug)]
pub(crate) struct CompiledCode {
    pub(crate) code: String,
    pub(crate) mentions: CodeMentions,
    /// Maps positions in the evaluated code to positions in the source. Each entry has the line and column in the
    /// evaluated code, then the line and column in the source, all from 1, sorted by the former.
    pub(crate) map: Vec<[u32; 4]>,
}

/// Text before the code: the first line of the evaluated text.
const CODE_PREFIX: &str = "(function () { \"use strict\";\n";

/// Number of lines in [`CODE_PREFIX`].
const CODE_PREFIX_LINES: u32 = 1;

/// Maximum length of code in bytes, for which the stack takes half a gigabyte of address space. Longer code is usually
/// a bundle, which can be built as a plugin.
const MAX_CODE_BYTES: usize = 128 << 10;

/// Maximum number of `<` in TypeScript. The parser tries each `<` as the start of type arguments first, and then parses
/// everything after it again as a comparison. If they are nested, the cost is quadratic: a minute at 8,000.
const MAX_ANGLE_BRACKETS: usize = 1_000;

/// Maximum nesting depth of brackets. Hand-written code has a depth of up to 20. At 1,600, brackets that only look like
/// parameters take two or three seconds; as many as fit into the length limit take half an hour.
const MAX_NESTING: usize = 250;

/// Maximum size of the output in bytes: async functions grow about tenfold when `async` is compiled away.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// Maximum number of reported faults, most of which follow from the first.
const MAX_FAULTS: usize = 10;

/// Compiles code that exports `execute`.
pub(crate) fn compile(source: &str, typed: bool) -> Result<CompiledCode, Vec<CodeFault>> {
    run_bounded(source, typed, || compile_unbounded(source, typed))
}

/// Compiles a program as JavaScript, or as TypeScript if it does not parse as JavaScript.
pub(crate) fn compile_program(source: &str) -> Result<CompiledCode, Vec<CodeFault>> {
    compile_either_language(source, None)
}

/// Compiles text that a program evaluates or loads while it runs.
pub(crate) fn compile_late(
    source: &str,
    late: LateCode,
) -> Result<mimir_wasm::script::CompiledScript, String> {
    let compiled = compile_either_language(source, Some(late)).map_err(|faults| {
        let first = faults.first();
        let text = first.map(|fault| format!("{}: {}", fault.position(), fault.message));
        text.unwrap_or_default()
    })?;
    Ok((compiled.code, compiled.map))
}

/// Compiles code as JavaScript, or else as TypeScript. If both fail, returns the faults of the parse that got further.
fn compile_either_language(
    source: &str,
    late: Option<LateCode>,
) -> Result<CompiledCode, Vec<CodeFault>> {
    let compiled = |typed| run_bounded(source, typed, || program::compile(source, typed, late));
    compiled(false).or_else(|plain| {
        compiled(true).map_err(|typed| {
            let position =
                |faults: &[CodeFault]| faults.first().map(|fault| (fault.line, fault.column));
            if position(&typed) > position(&plain) {
                typed
            } else {
                plain
            }
        })
    })
}

/// Checks the syntax of a JavaScript module.
pub(crate) fn check_syntax(source: &str) -> Result<(), Vec<CodeFault>> {
    run_bounded(source, false, || {
        let allocator = Allocator::default();
        let parsed = Parser::new(&allocator, source, source_type(false)).parse();
        check_diagnostics(source, parsed.diagnostics)
    })
}

/// Compiles the module of a plugin, which exports tools. A module with imports yields no code, because a bundler has to
/// resolve them first.
pub(crate) fn compile_module(source: &str, typed: bool) -> Result<PluginModule, Vec<CodeFault>> {
    run_bounded(source, typed, || module::compile(source, typed))
}

/// Checks the length and nesting of the code, and runs `work` on a stack that is large enough for the code.
fn run_bounded<T: Send>(
    source: &str,
    typed: bool,
    work: impl FnOnce() -> Result<T, Vec<CodeFault>> + Send,
) -> Result<T, Vec<CodeFault>> {
    let fault = |message: String| fault_at(source, 0, message);
    if source.len() > MAX_CODE_BYTES {
        let message = format!(
            "the code is longer than {} KiB: build bundled code as a plugin (`mimir tools new --lang ts`)",
            MAX_CODE_BYTES >> 10
        );
        return Err(vec![fault(message)]);
    }
    if typed && count_angle_brackets(source) > MAX_ANGLE_BRACKETS {
        let message = format!(
            "the code has more than {MAX_ANGLE_BRACKETS} `<`: keep markup in a file, or write the tool in JavaScript"
        );
        return Err(vec![fault(message)]);
    }
    if let Err(bracket_fault) = brackets::check_depth(source, MAX_NESTING) {
        let (offset, message) = match bracket_fault {
            BracketFault::TooDeep(offset) => (
                offset,
                format!("the code is nested deeper than {MAX_NESTING} brackets: split it up"),
            ),
            BracketFault::TooAmbiguous(offset) => (
                offset,
                "too many `/` in this line may divide or begin a regular expression: break the line"
                    .to_owned(),
            ),
        };
        return Err(vec![CodeFault {
            code: ToolErrorCode::LimitExceeded,
            ..fault_at(source, offset, message)
        }]);
    }
    let result = stack::run_on_stack(stack::stack_size(source.len()), work);
    result.unwrap_or_else(|failure| {
        Err(vec![CodeFault {
            code: failure.code(),
            ..fault(failure.to_string())
        }])
    })
}

/// Counts the `<` in the code that may begin type arguments.
fn count_angle_brackets(source: &str) -> usize {
    let bytes = source.as_bytes();
    let next = |at: usize| bytes.get(at + 1).copied();
    let opens = |at: usize| bytes[at] == b'<' && !matches!(next(at), Some(b'/' | b'=' | b'!'));
    (0..bytes.len()).filter(|at| opens(*at)).count()
}

/// Compiles code that exports `execute`, on the current stack.
fn compile_unbounded(source: &str, typed: bool) -> Result<CompiledCode, Vec<CodeFault>> {
    // Exports are checked in the original code.
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, source_type(typed)).parse();
    check_diagnostics(source, parsed.diagnostics)?;
    check_growth(source, &parsed.program)?;
    let mentions = CodeMentions::collect(&parsed.program);
    let to_fault =
        |(offset, message): export_removal::OffsetFault| fault_at(source, offset as usize, message);
    let exportless = export_removal::remove_exports(source, &parsed.program)
        .map_err(|error| vec![to_fault(error)])?;
    let misspelt = context::find_misspelt_members(&parsed.program);
    if !misspelt.is_empty() {
        return Err(misspelt.into_iter().map(to_fault).collect());
    }
    let written = transform(&exportless.source, source_type(typed), CODE_PREFIX_LINES)?;
    let code = format!(
        "{CODE_PREFIX}{}\nreturn {{ execute: {} }};\n}})",
        written.code, exportless.execute
    );
    Ok(CompiledCode {
        code,
        mentions,
        map: written.map,
    })
}

fn source_type(typed: bool) -> SourceType {
    SourceType::mjs().with_typescript(typed)
}

/// Returns the compiler's diagnostics as faults, if there are any.
fn check_diagnostics(
    source: &str,
    diagnostics: impl IntoIterator<Item = OxcDiagnostic>,
) -> Result<(), Vec<CodeFault>> {
    let faults: Vec<CodeFault> = diagnostics
        .into_iter()
        .take(MAX_FAULTS)
        .map(|fault| {
            let label = fault.labels.iter().next();
            let offset = label.map_or(0, |label| label.offset());
            fault_at(source, offset as usize, fault.message.to_string())
        })
        .collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults)
    }
}

/// Rejects code whose output would be far larger than the source.
fn check_growth(source: &str, program: &Program<'_>) -> Result<(), Vec<CodeFault>> {
    let to_fault = |(offset, message): (u32, String)| CodeFault {
        code: ToolErrorCode::LimitExceeded,
        ..fault_at(source, offset as usize, message)
    };
    growth_check::check(program).map_err(|error| vec![to_fault(error)])
}

/// Code without types and async functions.
struct TransformedCode {
    code: String,
    /// As [`CompiledCode::map`].
    map: Vec<[u32; 4]>,
}

/// Removes types and async functions from code without exports, in which positions are those of the file. The evaluated
/// text has `before` lines before the code.
fn transform(
    source: &str,
    source_type: SourceType,
    before: u32,
) -> Result<TransformedCode, Vec<CodeFault>> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, source_type).parse();
    check_diagnostics(source, parsed.diagnostics)?;
    let mut program = parsed.program;
    let semantic = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_enum_eval(true)
        .build(&program);
    check_diagnostics(source, semantic.diagnostics)?;
    let scoping = semantic.semantic.into_scoping();
    let mut options = TransformOptions::default();
    options.env.es2017.async_to_generator = true;
    options.env.es2018.async_generator_functions = true;
    options.helper_loader.mode = HelperLoaderMode::External;
    let transformed = Transformer::new(&allocator, Path::new("tool.ts"), &options)
        .build_with_scoping(scoping, &mut program);
    check_diagnostics(source, transformed.diagnostics)?;
    if let Some(offset) = find_import(&program) {
        let message = "the compiled code needs an import (perhaps because of decorators): scripts cannot import anything";
        return Err(vec![fault_at(source, offset as usize, message.to_owned())]);
    }
    evals::rewrite_evals(&allocator, source, &mut program);
    let options = CodegenOptions {
        source_map_path: Some("tool.ts".into()),
        // With indentation, the size of deeply nested code would be quadratic.
        indent_width: 0,
        ..CodegenOptions::default()
    };
    let written = Codegen::new().with_options(options).build(&program);
    if written.code.len() > MAX_OUTPUT_BYTES {
        let message = format!(
            "the code compiles to more than {} MiB of JavaScript: split it up",
            MAX_OUTPUT_BYTES >> 20
        );
        return Err(vec![CodeFault {
            code: ToolErrorCode::LimitExceeded,
            ..fault_at(source, 0, message)
        }]);
    }
    let map = written.map.iter().flat_map(|map| map.get_tokens());
    let map = map.map(|token| {
        [
            token.get_dst_line() + 1 + before,
            token.get_dst_col() + 1,
            token.get_src_line() + 1,
            token.get_src_col() + 1,
        ]
    });
    Ok(TransformedCode {
        map: map.collect(),
        code: written.code,
    })
}

/// Returns the position of the first import in the code.
fn find_import(program: &Program<'_>) -> Option<u32> {
    program.body.iter().find_map(|statement| match statement {
        Statement::ImportDeclaration(import) => Some(import.span.start),
        _ => None,
    })
}

/// Creates a fault at an offset in bytes.
fn fault_at(source: &str, offset: usize, message: String) -> CodeFault {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &source[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default();
    CodeFault {
        message,
        line,
        column: column.chars().count() + 1,
        code: ToolErrorCode::InvalidInput,
    }
}

/// Names of tools and words that a script mentions.
pub(crate) type WordSet = BTreeSet<String>;

#[cfg(test)]
mod tests;

//! TypeScript and JavaScript to what the engine evaluates: types removed, async functions turned into generators (see
//! the prelude of the engine), the exports handed over, and a map back.
//!
//! The compiler calls itself for each level of the code, and code can be nothing but levels: it runs on a stack that is
//! as long as the code could want.

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

use mimir_core::Code;
use mimir_wasm::script::Late;

mod brackets;
mod context;
mod evals;
mod exports;
mod growth;
mod mentions;
mod module;
mod program;
mod stack;

pub(crate) use mentions::Mentions;
pub(crate) use module::{Exported, Module};

/// A fault of the code, and where: line and column count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub message: String,
    /// The line in the code.
    pub line: usize,
    /// The column in it, in characters.
    pub column: usize,
    /// What kind of fault: of the code, mostly.
    pub code: Code,
}

/// Code that the engine takes.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) code: String,
    pub(crate) mentions: Mentions,
    /// From places in what the engine evaluates to places in the code: line and column there, line and column here, all
    /// from 1, in the order of the former.
    pub(crate) map: Vec<[u32; 4]>,
}

/// What stands before the code in what the engine evaluates: all in its first line.
const BEFORE: &str = "(function () { \"use strict\";\n";

/// Lines of [`BEFORE`].
const LINES_BEFORE: u32 = 1;

/// The longest code, in bytes: its stack is half a gigabyte of addresses. What is longer is a bundle, and bundles are plugins.
const LONGEST: usize = 128 << 10;

/// `<` that TypeScript may have. Each is tried as the beginning of types before it is a comparison, and all behind it
/// again with it: what is nested so costs the square of their number, and 8,000 of them a minute.
const ANGLES: usize = 1_000;

/// Brackets in brackets that code may have. People write 20; 1,600 that are parameters of nothing cost a second or
/// three, and as many as there is room for half an hour.
const BRACKETS: usize = 250;

/// The most that may become of it, in bytes: functions that wait are about ten times as long without `async`.
const WRITTEN: usize = 8 << 20;

/// Faults of one code that are told. Most follow from the first.
const FAULTS: usize = 10;

/// Compiles code that exports `execute`.
pub(crate) fn compile(source: &str, typed: bool) -> Result<Compiled, Vec<Fault>> {
    bounded(source, typed, || compile_here(source, typed))
}

/// Compiles a program, which the engine runs as Node would: JavaScript, or TypeScript where it is nothing else.
pub(crate) fn program(source: &str) -> Result<Compiled, Vec<Fault>> {
    either(source, None)
}

/// Compiles what a program comes by while it runs.
pub(crate) fn late(source: &str, late: Late) -> Result<mimir_wasm::script::Compiled, String> {
    let compiled = either(source, Some(late)).map_err(|faults| {
        let told = faults.first().map(|fault| {
            let Fault {
                line,
                column,
                message,
                ..
            } = fault;
            format!("{line}:{column}: {message}")
        });
        told.unwrap_or_default()
    })?;
    Ok((compiled.code, compiled.map))
}

/// Code whose language nothing says. What is wrong is told of the reading that comes further.
fn either(source: &str, late: Option<Late>) -> Result<Compiled, Vec<Fault>> {
    let compiled = |typed| bounded(source, typed, || program::compile(source, typed, late));
    compiled(false).or_else(|plain| {
        compiled(true).map_err(|typed| {
            let far = |faults: &[Fault]| faults.first().map(|fault| (fault.line, fault.column));
            if far(&typed) > far(&plain) {
                typed
            } else {
                plain
            }
        })
    })
}

/// Looks whether a module in JavaScript can be read.
pub(crate) fn parsed(source: &str) -> Result<(), Vec<Fault>> {
    bounded(source, false, || {
        let allocator = Allocator::default();
        let parsed = Parser::new(&allocator, source, kind(false)).parse();
        good(source, parsed.diagnostics)
    })
}

/// Compiles the module of a plugin, which exports tools: as far as it imports nothing, for what is imported is not here.
pub(crate) fn module(source: &str, typed: bool) -> Result<Module, Vec<Fault>> {
    bounded(source, typed, || module::compile(source, typed))
}

/// Does the work on code of a sane length, on a stack that is long enough.
fn bounded<T: Send>(
    source: &str,
    typed: bool,
    work: impl FnOnce() -> Result<T, Vec<Fault>> + Send,
) -> Result<T, Vec<Fault>> {
    let at = |offset: u32, message: String| place(source, offset as usize, message);
    if source.len() > LONGEST {
        let message = format!(
            "the code is longer than {} KiB; what is a bundle is a plugin (`mimir tools new --lang ts`)",
            LONGEST >> 10
        );
        return Err(vec![at(0, message)]);
    }
    if typed && angles(source) > ANGLES {
        let message = format!(
            "the code has more than {ANGLES} `<`; keep markup in a file, or write it in JavaScript"
        );
        return Err(vec![at(0, message)]);
    }
    if let Some(offset) = brackets::too_deep(source, BRACKETS) {
        let message = format!("the code is nested deeper than {BRACKETS} brackets; take it apart");
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        return Err(vec![Fault {
            code: Code::LimitExceeded,
            ..at(offset, message)
        }]);
    }
    let done = stack::with(stack::wanted(source.len()), work);
    done.unwrap_or_else(|failure| {
        Err(vec![Fault {
            code: failure.code(),
            ..at(0, failure.to_string())
        }])
    })
}

/// How often `<` stands in the code where it is not seen at once that no type begins there.
fn angles(source: &str) -> usize {
    let all = source.as_bytes();
    let follows = |at: usize| all.get(at + 1).copied();
    let opens = |at: usize| all[at] == b'<' && !matches!(follows(at), Some(b'/' | b'=' | b'!'));
    (0..all.len()).filter(|at| opens(*at)).count()
}

fn compile_here(source: &str, typed: bool) -> Result<Compiled, Vec<Fault>> {
    // What is exported is looked at in the code as it was written.
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, kind(typed)).parse();
    good(source, parsed.diagnostics)?;
    small(source, &parsed.program)?;
    let mentions = Mentions::of(&parsed.program);
    let wrong_at = |(offset, message): exports::Wrong| place(source, offset as usize, message);
    let plain = exports::remove(source, &parsed.program).map_err(|wrong| vec![wrong_at(wrong)])?;
    let misspelt = context::misspelt(&parsed.program);
    if !misspelt.is_empty() {
        return Err(misspelt.into_iter().map(wrong_at).collect());
    }
    let written = transformed(&plain.source, kind(typed), LINES_BEFORE)?;
    let code = format!(
        "{BEFORE}{}\nreturn {{ execute: {} }};\n}})",
        written.code, plain.execute
    );
    Ok(Compiled {
        code,
        mentions,
        map: written.map,
    })
}

fn kind(typed: bool) -> SourceType {
    SourceType::mjs().with_typescript(typed)
}

/// The faults that the compiler names, if there are any.
fn good(source: &str, found: impl IntoIterator<Item = OxcDiagnostic>) -> Result<(), Vec<Fault>> {
    let faults: Vec<Fault> = found
        .into_iter()
        .take(FAULTS)
        .map(|fault| {
            let label = fault.labels.iter().next();
            let offset = label.map_or(0, |label| label.offset());
            place(source, offset as usize, fault.message.to_string())
        })
        .collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults),
    }
}

/// Refuses code of which far more would be made than it is.
fn small(source: &str, program: &Program<'_>) -> Result<(), Vec<Fault>> {
    let wrong = |(offset, message): (u32, String)| Fault {
        code: Code::LimitExceeded,
        ..place(source, offset as usize, message)
    };
    growth::check(program).map_err(|found| vec![wrong(found)])
}

/// Code without types and async functions.
struct Written {
    code: String,
    /// As [`Compiled::map`].
    map: Vec<[u32; 4]>,
}

/// Takes types and async functions out of code without exports, which stands where it stood in the file.
/// The code begins so many lines after the first of what the engine evaluates.
fn transformed(source: &str, kind: SourceType, before: u32) -> Result<Written, Vec<Fault>> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, kind).parse();
    good(source, parsed.diagnostics)?;
    let mut program = parsed.program;
    let semantic = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_enum_eval(true)
        .build(&program);
    good(source, semantic.diagnostics)?;
    let scoping = semantic.semantic.into_scoping();
    let mut options = TransformOptions::default();
    options.env.es2017.async_to_generator = true;
    options.env.es2018.async_generator_functions = true;
    options.helper_loader.mode = HelperLoaderMode::External;
    let done = Transformer::new(&allocator, Path::new("tool.ts"), &options)
        .build_with_scoping(scoping, &mut program);
    good(source, done.diagnostics)?;
    if let Some(offset) = import_in(&program) {
        let message =
            "the code needs an import after compiling (decorators, perhaps); scripts have none";
        return Err(vec![place(source, offset as usize, message.to_owned())]);
    }
    evals::adapt(&allocator, source, &mut program);
    let options = CodegenOptions {
        source_map_path: Some("tool.ts".into()),
        // Each line would begin with as much as it has levels around it.
        indent_width: 0,
        ..CodegenOptions::default()
    };
    let written = Codegen::new().with_options(options).build(&program);
    if written.code.len() > WRITTEN {
        let message = format!(
            "the code becomes more than {} MiB of JavaScript; take it apart",
            WRITTEN >> 20
        );
        return Err(vec![Fault {
            code: Code::LimitExceeded,
            ..place(source, 0, message)
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
    Ok(Written {
        map: map.collect(),
        code: written.code,
    })
}

/// Where an import is left.
fn import_in(program: &Program<'_>) -> Option<u32> {
    program.body.iter().find_map(|statement| match statement {
        Statement::ImportDeclaration(import) => Some(import.span.start),
        _ => None,
    })
}

fn place(source: &str, offset: usize, message: String) -> Fault {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &source[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default();
    Fault {
        message,
        line,
        column: column.chars().count() + 1,
        code: Code::InvalidInput,
    }
}

/// The names of tools and words that a script mentions.
pub(crate) type Words = BTreeSet<String>;

#[cfg(test)]
mod tests;

//! Types for the functions of a plain module whose parameters and results are numbers.
//!
//! A core module has no types for text, lists or records: they pass as addresses in the module's memory, in a form that
//! only the module's own caller knows. A number needs no more than its own type.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;

use wasm_encoder::{ExportKind, ExportSection, RawSection, SectionId};
use wasmparser::types::TypesRef;
use wasmparser::{ExternalKind, FuncType, KnownCustom, Name, Parser, Payload, ValType};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::ComponentizeError;
use super::module_outline::ModuleOutline;
use crate::lift::{MAX_TOOLS, SkippedExports, over_limit};

/// The functions with which a caller reserves memory of a module, by the names of the usual compilers.
const ALLOCATORS: [&str; 10] = [
    "malloc",
    "alloc",
    "allocate",
    "cabi_realloc",
    "canonical_abi_realloc",
    "realloc",
    "__new",
    "__alloc",
    "__wbindgen_malloc",
    "mem_alloc",
];

/// Maximum number of parameters that the canonical ABI passes directly.
const MAX_PARAMS: usize = 16;

/// Exports that stay, besides the functions.
const KEPT: [&str; 2] = ["memory", "_initialize"];

/// A function over numbers.
struct NumberFunction {
    index: u32,
    params: Vec<ValType>,
    result: Option<ValType>,
}

/// Returns the module with WIT types for its functions over numbers, under names that are valid in WIT, and the functions
/// that are left out.
pub(super) fn with_types(
    module: &[u8],
    types: TypesRef<'_>,
    outline: &ModuleOutline,
) -> Result<(Vec<u8>, SkippedExports), ComponentizeError> {
    if let Some(name) = find_allocator(&outline.exports) {
        return Err(ComponentizeError::NoTypes {
            allocator: Some(name.to_owned()),
        });
    }
    let (functions, skipped) = find_functions(module, types)?;
    if functions.is_empty() {
        return Err(ComponentizeError::NoTypes { allocator: None });
    }
    let wit = world(&functions, &parameter_names(module));
    let encode = |error: String| ComponentizeError::encode(&error);
    let mut resolve = Resolve::default();
    let package = resolve.push_str("module.wit", &wit);
    let package = package.map_err(|error| encode(format!("{error:#}")))?;
    let world = resolve.select_world(&[package], None);
    let world = world.map_err(|error| encode(format!("{error:#}")))?;
    let mut renamed = rename_exports(module, &functions)?;
    embed_component_metadata(&mut renamed, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| encode(format!("{error:#}")))?;
    Ok((renamed, skipped))
}

/// Returns the export that reserves memory: by its full name, or by its last word if another one releases memory, such as
/// `image_alloc` and `image_free`.
fn find_allocator(exports: &[String]) -> Option<&str> {
    let is_known = |name: &&String| ALLOCATORS.contains(&name.as_str());
    let has_release = exports.iter().any(|name| {
        let mut words = name.split('_');
        words.any(|word| ["free", "dealloc", "deallocate"].contains(&word))
    });
    let reserves = |name: &&String| {
        let word = name.rsplit('_').next().unwrap_or_default();
        has_release && ["alloc", "malloc", "allocate"].contains(&word)
    };
    let found = exports.iter().find(is_known);
    found
        .or_else(|| exports.iter().find(reserves))
        .map(String::as_str)
}

/// Returns the functions by their names in WIT, and those that are left out, with the reasons. Of two exports with the same
/// name in WIT, the first one is used.
fn find_functions(
    module: &[u8],
    types: TypesRef<'_>,
) -> Result<(BTreeMap<String, NumberFunction>, SkippedExports), ComponentizeError> {
    let mut functions = BTreeMap::new();
    let mut skipped = SkippedExports::default();
    for payload in Parser::new(0).parse_all(module) {
        let Payload::ExportSection(section) = payload? else {
            continue;
        };
        for export in section {
            let export = export?;
            if export.kind != ExternalKind::Func || export.name.starts_with('_') {
                continue;
            }
            let id = types.core_function_at(export.index);
            let ty = types[id].unwrap_func();
            let name = match tool_export(export.name, ty) {
                Ok(name) => name,
                Err(reason) => {
                    skipped.add(export.name, &reason);
                    continue;
                }
            };
            let is_full = functions.len() >= MAX_TOOLS;
            match functions.entry(name) {
                Entry::Occupied(entry) => {
                    let reason = format!(
                        "has the name of another function in WIT (`{}`)",
                        entry.key()
                    );
                    skipped.add(export.name, &reason);
                }
                Entry::Vacant(_) if is_full => skipped.add(export.name, &over_limit()),
                Entry::Vacant(entry) => {
                    entry.insert(NumberFunction {
                        index: export.index,
                        params: ty.params().to_vec(),
                        result: ty.results().first().copied(),
                    });
                }
            }
        }
    }
    Ok((functions, skipped))
}

/// Returns the name in WIT of an exported function over numbers, or the reason why it is not one, as the end of a sentence.
fn tool_export(name: &str, ty: &FuncType) -> Result<String, String> {
    let name = wit_name(name)
        .ok_or("has a name that cannot be converted to WIT: expected letters, digits and `-`")?;
    if ty.params().len() > MAX_PARAMS {
        return Err(format!("has more than {MAX_PARAMS} parameters"));
    }
    if ty.results().len() > 1 {
        return Err("has several results".to_owned());
    }
    let mut types = ty.params().iter().chain(ty.results());
    if types.any(|ty| number_type(*ty).is_none()) {
        return Err("has a parameter or result that is not a number".to_owned());
    }
    Ok(name)
}

fn number_type(ty: ValType) -> Option<&'static str> {
    match ty {
        ValType::I32 => Some("s32"),
        ValType::I64 => Some("s64"),
        ValType::F32 => Some("f32"),
        ValType::F64 => Some("f64"),
        _ => None,
    }
}

/// Returns the name in WIT: words of lower-case letters and digits, each beginning with a letter, joined by `-`. A digit
/// joins the word before it. `None` if that is not possible.
fn wit_name(name: &str) -> Option<String> {
    let mut words = String::new();
    let mut previous = '_';
    for letter in name.chars() {
        let starts_word = letter.is_ascii_uppercase() && !previous.is_ascii_uppercase();
        if letter.is_ascii_alphanumeric() {
            let separated = !previous.is_ascii_alphanumeric() || starts_word;
            if letter.is_ascii_digit() && words.is_empty() {
                return None;
            }
            if separated && !letter.is_ascii_digit() && !words.is_empty() {
                words.push('-');
            }
            words.push(letter.to_ascii_lowercase());
        } else if !matches!(letter, '_' | '-' | '.' | ':' | '/' | '$') {
            return None;
        }
        previous = letter;
    }
    (!words.is_empty()).then_some(words)
}

/// Returns the world with these functions, in WIT.
fn world(
    functions: &BTreeMap<String, NumberFunction>,
    names: &BTreeMap<u32, BTreeMap<u32, String>>,
) -> String {
    let mut text = "package mimir:adapted;\nworld module {\n".to_owned();
    for (name, function) in functions {
        let own_names = names.get(&function.index);
        let params: Vec<String> = (0..)
            .zip('a'..)
            .zip(&function.params)
            .map(|((index, letter), ty)| {
                let own_name = own_names.and_then(|names| names.get(&index));
                let name = own_name.map_or_else(|| letter.to_string(), Clone::clone);
                format!("%{name}: {}", number_type(*ty).unwrap_or_default())
            })
            .collect();
        let result = function.result.and_then(number_type);
        let result = result.map_or_else(String::new, |ty| format!(" -> {ty}"));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  export %{name}: func({}){result};",
            params.join(", ")
        );
    }
    text + "}\n"
}

/// Returns the names of parameters by function and index, from the section for debuggers. A function whose names are not
/// unique in WIT is left out.
fn parameter_names(module: &[u8]) -> BTreeMap<u32, BTreeMap<u32, String>> {
    let mut names = BTreeMap::new();
    for payload in Parser::new(0).parse_all(module).flatten() {
        let Payload::CustomSection(section) = payload else {
            continue;
        };
        let KnownCustom::Name(section) = section.as_known() else {
            continue;
        };
        for subsection in section.into_iter().flatten() {
            let Name::Local(locals) = subsection else {
                continue;
            };
            for function in locals.into_iter().flatten() {
                let params = function.names.into_iter().flatten();
                let params = params.take_while(|naming| (naming.index as usize) < MAX_PARAMS);
                let params: BTreeMap<u32, String> = params
                    .filter_map(|naming| Some((naming.index, wit_name(naming.name)?)))
                    .collect();
                let mut unique: Vec<&String> = params.values().collect();
                unique.sort();
                unique.dedup();
                // A single letter may be the name of a parameter without one.
                if unique.len() == params.len() && params.values().all(|name| name.len() > 1) {
                    names.insert(function.index, params);
                }
            }
        }
    }
    names
}

/// Returns the module with these exports under their names in WIT, and with the exports that the adapter uses.
fn rename_exports(
    module: &[u8],
    functions: &BTreeMap<String, NumberFunction>,
) -> Result<Vec<u8>, ComponentizeError> {
    let mut renamed = wasm_encoder::Module::new();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        if let Payload::ExportSection(section) = payload {
            let mut exports = ExportSection::new();
            for (name, function) in functions {
                exports.export(name, ExportKind::Func, function.index);
            }
            for export in section {
                let export = export?;
                let kind = match export.kind {
                    ExternalKind::Func => ExportKind::Func,
                    ExternalKind::Memory => ExportKind::Memory,
                    _ => continue,
                };
                if KEPT.contains(&export.name) {
                    exports.export(export.name, kind, export.index);
                }
            }
            renamed.section(&exports);
        } else if let Some((id, range)) = payload.as_section() {
            let data = module.get(range).unwrap_or_default();
            if id != u8::from(SectionId::Custom) {
                renamed.section(&RawSection { id, data });
            }
        }
    }
    Ok(renamed.finish())
}

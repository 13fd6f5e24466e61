//! Conversion of modules, good and bad.

use super::*;
use crate::family::{self, ComponentFamily};

/// A plugin as an SDK's compiler writes it: the contract's exports, an import of WASI 0.1, and one of the contract.
const PLUGIN: &str = r#"
    (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
    (import "mimir:tool/log@1.0.0" "write" (func (param i32 i32 i32)))
    (memory (export "memory") 1)
    (func (export "_initialize"))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
    (func (export "mimir:tool/toolset@1.0.0#describe") (result i32) unreachable)
    (func (export "mimir:tool/toolset@1.0.0#call")
        (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) unreachable)
"#;

fn module(inside: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {inside})")).unwrap()
}

fn message(inside: &str) -> String {
    componentize(&module(inside)).unwrap_err().to_string()
}

#[test]
fn componentize_makes_a_toolset_of_a_module_without_types() {
    let component = componentize(&module(PLUGIN)).unwrap();
    let detected = family::detect(&component).unwrap();
    assert!(
        matches!(detected.family, ComponentFamily::Toolset { .. }),
        "{detected:?}"
    );
    assert!(
        detected
            .imports
            .contains(&"mimir:tool/log@1.0.0".to_owned()),
        "{detected:?}"
    );
    let unused = ["storage", "wasi:http", "commands", "wasi:sockets"];
    for import in &detected.imports {
        assert!(
            !unused.iter().any(|name| import.contains(name)),
            "the module does not import {import}"
        );
    }
    assert_eq!(component, componentize(&module(PLUGIN)).unwrap());
}

#[test]
fn componentize_uses_the_types_that_the_module_brings() {
    let typed = with_sdk_world(&module(PLUGIN)).unwrap();
    assert_eq!(
        componentize(&typed).unwrap(),
        componentize(&module(PLUGIN)).unwrap()
    );
}

#[test]
fn componentize_names_what_is_missing() {
    let error = componentize(&module("(func (export \"run\"))")).unwrap_err();
    assert_eq!(error, ComponentizeError::NoToolset);
    assert!(error.to_string().contains("mimir:tool/toolset@1.0.0#call"));
    let newer = PLUGIN.replace("toolset@1.0.0", "toolset@1.9.0");
    let error = message(&newer);
    assert!(
        error.contains("1.9.0") && error.contains("1.0.0"),
        "{error}"
    );
    let newer = PLUGIN.replace("log@1.0.0", "log@2.0.0");
    let error = message(&newer);
    assert!(error.contains("`mimir:tool/log@2.0.0`"), "{error}");
}

#[test]
fn componentize_explains_foreign_imports() {
    for (import, hint) in [
        (r#""wbg" "__wbindgen_throw""#, "wasm-bindgen"),
        (
            r#""env" "emscripten_notify_memory_growth""#,
            "STANDALONE_WASM",
        ),
        (r#""env" "abort""#, "AssemblyScript"),
        (r#""gojs" "runtime.ticks""#, "GOOS=wasip1"),
        (r#""wasi_unstable" "fd_write""#, "before 0.1"),
        (r#""env" "frobnicate""#, "`env.frobnicate`"),
    ] {
        let error = message(&format!("(import {import} (func)) {PLUGIN}"));
        assert!(error.contains(hint), "{import}: {error}");
    }
    let many: String = (0..50)
        .map(|number| format!("(import \"env\" \"f{number}\" (func))"))
        .collect();
    let error = message(&format!("{many} {PLUGIN}"));
    assert!(error.contains("`env.f4` and 45 more"), "{error}");
    let unprintable = message(&format!("(import \"a\\1b\" \"b\\n\" (func)) {PLUGIN}"));
    assert!(!unprintable.contains(['\n', '\u{1b}']), "{unprintable}");
}

#[test]
fn componentize_rejects_exports_of_another_type() {
    let other = PLUGIN.replace(
        "(func (export \"mimir:tool/toolset@1.0.0#describe\") (result i32) unreachable)",
        "(func (export \"mimir:tool/toolset@1.0.0#describe\") (result i64) unreachable)",
    );
    let error = componentize(&module(&other)).unwrap_err();
    assert_eq!(error.code(), "NOT_CONVERTIBLE", "{error}");
    let error = message("(func (export \"mimir:tool/toolset@1.0.0#call\"))");
    assert!(error.contains("cannot be converted"), "{error}");
}

#[test]
fn componentize_rejects_two_exports_of_one_name() {
    let twice = module(&PLUGIN.replace("cabi_realloc", "_initializf"));
    let twice = String::from_utf8_lossy(&twice)
        .find("_initializf")
        .map(|at| {
            let mut bytes = twice.clone();
            bytes[at..at + 11].copy_from_slice(b"_initialize");
            bytes
        });
    let error = componentize(&twice.unwrap()).unwrap_err();
    assert_eq!(error.code(), "CORRUPT", "{error}");
    assert!(error.to_string().contains("duplicate export"), "{error}");
}

#[test]
fn componentize_rejects_files_that_are_not_modules() {
    for content in [&b""[..], b"\0as", b"hello", b"(module)", &[0xff; 4096]] {
        let error = componentize(content).unwrap_err();
        assert_eq!(error.code(), "NOT_MODULE", "{error}");
    }
    let component = componentize(&module(PLUGIN)).unwrap();
    let error = componentize(&component).unwrap_err().to_string();
    assert!(error.contains("a component already"), "{error}");
}

#[test]
fn componentize_survives_damaged_modules() {
    let whole = with_sdk_world(&module(PLUGIN)).unwrap();
    for length in 0..module(PLUGIN).len() {
        // A module cut between two sections can be valid, but lacks the contract or its code.
        assert!(componentize(&whole[..length]).is_err(), "cut at {length}");
    }
    for at in (0..whole.len()).step_by(7) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        // Must return, with either result.
        let _ = componentize(&flipped);
    }
}

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(content.len()), content].concat()
}

/// A component whose only type nests instance types this deep.
fn nested_types(levels: usize) -> Vec<u8> {
    let types = [&b"\x01"[..], &b"\x42\x01\x01".repeat(levels), b"\x42\x00"].concat();
    [&b"\0asm\x0d\0\x01\0"[..], &section(7, &types)].concat()
}

/// A stack overflow ends the process, and cannot be caught.
#[test]
fn componentize_bounds_the_nesting_of_component_types() {
    let deep_types = nested_types(100_000);
    // Three bytes of the header's older form, before the component.
    let old_form = [&b"\x03\x00\x01w"[..], &deep_types].concat();
    let mut deep_components = nested_types(0);
    for _ in 0..100 {
        deep_components = [&b"\0asm\x0d\0\x01\0"[..], &section(4, &deep_components)].concat();
    }
    for world in [&deep_types, &old_form, &deep_components] {
        let name = b"component-type:x";
        let custom = [&leb(name.len()), &name[..], world].concat();
        let module = [module(PLUGIN), section(0, &custom)].concat();
        for error in [componentize(&module), adapt(&module).map(Vec::from)] {
            let error = error.unwrap_err();
            assert_eq!(error.code(), "CORRUPT", "{error}");
            assert!(error.to_string().contains("more than 64 deep"), "{error}");
        }
    }
    let error = seal(&deep_types, []).unwrap_err().to_string();
    assert!(error.contains("more than 64 deep"), "{error}");
}

#[test]
fn componentize_bounds_the_size_of_component_types() {
    let name = b"component-type:x";
    let custom = [&leb(name.len()), &name[..], &vec![0; 2 << 20]].concat();
    let error = componentize(&[module(PLUGIN), section(0, &custom)].concat()).unwrap_err();
    assert!(error.to_string().contains("component types"), "{error}");
}

/// The encoder supplies the functions for a module's own resources and tasks, for all interfaces.
#[test]
fn componentize_accepts_handles_of_the_modules_own_interfaces() {
    let core = r#"
        (import "[export]test:guest/bank" "[resource-new]account" (func $new (param i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "test:guest/bank#[constructor]account") (result i32) (call $new (i32.const 1)))"#;
    let wit = "package test:guest;
        interface bank { resource account { constructor(); } }
        world guest { export bank; }";
    let mut typed = module(core);
    let mut resolve = Resolve::default();
    let package = resolve.push_str("guest.wit", wit).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    embed_component_metadata(&mut typed, &resolve, world, StringEncoding::UTF8).unwrap();
    let component = adapt(&typed).unwrap();
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    validator.validate_all(&component).unwrap();

    let newer =
        r#"(import "[export]mimir:tool/toolset@2.0.0" "[task-return]call" (func (param i32)))"#;
    let error = message(&format!("{newer} {PLUGIN}"));
    assert!(error.contains("`mimir:tool/toolset@2.0.0`"), "{error}");
}

//! Sealed components: what they import, and that they still run.

use mimir_core::needs::{DirectoryAccess, FileNeed};
use wasmtime::component::{Component as CompiledComponent, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::*;
use crate::componentize::{COMMAND_ADAPTER, adapt};
use crate::family::{self, Proof, proofs};
use crate::lift::testkit::build;

/// A program that lists its directories, opens a socket that it does not have, and prints the result of both.
const PROGRAM: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "path_open"
        (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "sock_shutdown" (func $shutdown (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (data (i32.const 64) "10\00\00\02\00\00\00")
    (func (export "_start")
        ;; Error 8 is a file descriptor that does not exist.
        (if (i32.ne (call $prestat (i32.const 3) (i32.const 16)) (i32.const 8)) (then unreachable))
        (if (i32.eqz (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 0)
            (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 32))) (then unreachable))
        (drop (call $shutdown (i32.const 5) (i32.const 0)))
        (i32.store (i32.const 32) (i32.const 64))
        (i32.store (i32.const 36) (i32.const 2))
        (if (call $write (i32.const 1) (i32.const 32) (i32.const 1) (i32.const 48)) (then unreachable))))"#;

fn program() -> Vec<u8> {
    adapt(PROGRAM.as_bytes()).unwrap().into_owned()
}

fn imports(component: &[u8]) -> Vec<String> {
    family::detect(component).unwrap().imports
}

fn file_needs() -> Needs {
    Needs {
        files: vec![FileNeed {
            path: ".".to_owned(),
            access: DirectoryAccess::Read,
            reason: String::new(),
        }],
        ..Needs::default()
    }
}

struct ProgramState {
    context: WasiCtx,
    table: ResourceTable,
}

impl WasiView for ProgramState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.context,
            table: &mut self.table,
        }
    }
}

/// Runs a program, and returns what it prints.
async fn output(component: &[u8]) -> String {
    let engine = Engine::default();
    let component = CompiledComponent::new(&engine, component).unwrap();
    let mut linker = Linker::<ProgramState>::new(&engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
    let stdout = wasmtime_wasi::p2::pipe::MemoryOutputPipe::new(1024);
    let state = ProgramState {
        context: WasiCtx::builder().stdout(stdout.clone()).build(),
        table: ResourceTable::new(),
    };
    let mut store = Store::new(&engine, state);
    let command =
        wasmtime_wasi::p2::bindings::Command::instantiate_async(&mut store, &component, &linker);
    let command = command.await.unwrap();
    let result = command.wasi_cli_run().call_run(&mut store).await;
    result.unwrap().unwrap();
    String::from_utf8(stdout.contents().to_vec()).unwrap()
}

#[tokio::test]
async fn seal_replaces_files_and_the_program_still_runs() {
    let open = program();
    assert!(!proofs(&imports(&open)).contains(&Proof::NoFiles));
    let sealed = seal(&open, []).unwrap();
    let names = imports(&sealed);
    assert!(
        !names
            .iter()
            .any(|name| name.contains("filesystem") || name.contains("sockets")),
        "{names:?}"
    );
    assert!(proofs(&names).contains(&Proof::NoFiles), "{names:?}");
    assert_eq!(output(&open).await, "10");
    assert_eq!(output(&sealed).await, "10");
}

#[test]
fn seal_keeps_what_a_tool_needs() {
    let open = program();
    let kept = seal(&open, [&Needs::default(), &file_needs()]).unwrap();
    let names = imports(&kept);
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("wasi:filesystem/types@")),
        "{names:?}"
    );
    assert_eq!(
        family::detect(&kept).unwrap().exports,
        family::detect(&open).unwrap().exports
    );
}

#[test]
fn seal_does_not_change_a_component_without_such_imports() {
    let component = adapt(b"(module (func (export \"f\")))").unwrap();
    assert_eq!(seal(&component, []).unwrap(), component.as_ref());
    let sealed = seal(&program(), []).unwrap();
    assert_eq!(seal(&sealed, []).unwrap(), sealed);
}

#[test]
fn seal_rejects_other_files() {
    for content in [&b""[..], b"hello", b"\0asm\x01\0\0\0", COMMAND_ADAPTER] {
        assert!(seal(content, []).is_err(), "{:?}", content.get(..8));
    }
    let whole = program();
    for length in (0..whole.len()).step_by(97) {
        // A component cut after a section can be valid.
        let _ = seal(&whole[..length], []);
    }
}

/// Every plugin may have a limited number of memories: a stub for each of the ten interfaces would be too many.
#[test]
fn seal_adds_one_memory_for_all_stubs() {
    let memories = |component: &[u8]| {
        let sections = Parser::new(0).parse_all(component).flatten();
        let counts = sections.map(|section| match section {
            Payload::MemorySection(section) => section.count(),
            _ => 0,
        });
        counts.sum::<u32>()
    };
    let open = program();
    assert_eq!(memories(&seal(&open, []).unwrap()), memories(&open) + 1);
}

/// A tool may try a socket, and continue without it.
#[tokio::test]
async fn seal_refuses_access_instead_of_trapping() {
    const WIT: &str = "package wasi:sockets@0.2.0;
        interface network { enum error-code { unknown, access-denied } }
        interface tcp {
            use network.{error-code};
            resource socket;
            create: func(is-new: bool) -> result<socket, error-code>;
            timeout: func() -> option<u64>;
            check: func() -> result<_, error-code>;
        }
        world tool { import tcp; export run: func() -> u32; }";
    const CORE: &str = r#"
        (import "wasi:sockets/tcp@0.2.0" "create" (func $create (param i32 i32)))
        (import "wasi:sockets/tcp@0.2.0" "timeout" (func $timeout (param i32)))
        (import "wasi:sockets/tcp@0.2.0" "check" (func $check (param i32)))
        (memory (export "memory") 1)
        (func (export "run") (result i32)
            (i64.store (i32.const 32) (i64.const -1))
            (call $create (i32.const 1) (i32.const 16))
            (call $timeout (i32.const 32))
            (call $check (i32.const 48))
            ;; One digit each: tag and case of `create`, tag of `timeout`, case of `check`.
            (i32.mul (i32.load8_u (i32.const 16)) (i32.const 1000))
            (i32.mul (i32.load8_u (i32.const 20)) (i32.const 100))
            (i32.mul (i32.load8_u (i32.const 32)) (i32.const 10))
            (i32.load8_u (i32.const 49))
            i32.add i32.add i32.add)"#;
    let sealed = seal(&build(WIT, CORE), []).unwrap();
    assert_eq!(imports(&sealed), [""; 0]);
    let engine = Engine::default();
    let component = CompiledComponent::new(&engine, &sealed).unwrap();
    let mut store = Store::new(&engine, ());
    let linker = Linker::new(&engine);
    let instance = linker.instantiate(&mut store, &component).unwrap();
    let run = instance
        .get_typed_func::<(), (u32,)>(&mut store, "run")
        .unwrap();
    assert_eq!(run.call(&mut store, ()).unwrap(), (1101,));
}

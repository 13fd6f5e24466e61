//! The families, the refusals, and hostile bytes.

use super::*;
use crate::lift::testkit::{build, build_world, echoes};

/// The contract as distributed to plugin authors.
const TOOL_WIT: &str = include_str!("../../../../wit/tool.wit");

fn wat(component: &str) -> Vec<u8> {
    wat::parse_str(component).unwrap()
}

/// A toolset for the contract in `wit`, which uses only `log`.
fn toolset(wit: &str, assessor: bool) -> Vec<u8> {
    let version = wit.split_once('@').unwrap().1.split_once(';').unwrap().0;
    let params = "i32 ".repeat(16);
    let mut core = format!(
        "(import \"mimir:tool/log@{version}\" \"write\" (func (param i32 i32 i32)))
        {}
        (func (export \"mimir:tool/toolset@{version}#describe\") (result i32) unreachable)
        (func (export \"mimir:tool/toolset@{version}#call\") (param {params}) (result i32) unreachable)",
        echoes([])
    );
    if !assessor {
        return build_world(wit, Some("tool"), &core);
    }
    core.push_str(&format!(
        "(func (export \"mimir:tool/assessor@{version}#assess\") (param {params}) (result i32) unreachable)"
    ));
    build_world(wit, Some("assessed-tool"), &core)
}

/// A component with one function `f` without parameters and results, followed by `more`.
fn plain(more: &str) -> Vec<u8> {
    wat(&format!(
        r#"(component
            (core module $m (func (export "f")) (func (export "run") (result i32) (i32.const 0)))
            (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (func $run (result (result)) (canon lift (core func $i "run")))
            {more})"#
    ))
}

const RUN: &str =
    r#"(instance $cli (export "run" (func $run))) (export "wasi:cli/run@0.2.3" (instance $cli))"#;

fn code(bytes: &[u8]) -> &'static str {
    match detect(bytes) {
        Ok(detected) => panic!("taken: {detected:?}"),
        Err(error) => {
            assert!(error.to_string().len() < 2_000, "{error}");
            error.code()
        }
    }
}

#[test]
fn families_are_detected() {
    let detected = detect(&toolset(TOOL_WIT, false)).unwrap();
    let family = |assessor| ComponentFamily::Toolset {
        version: CONTRACT,
        assessor,
    };
    assert_eq!(detected.family, family(false));
    // Unused interfaces are not imported, and interfaces with types only do not count as imports.
    assert_eq!(detected.imports, ["mimir:tool/log@1.0.0"]);
    assert_eq!(detected.exports, ["mimir:tool/toolset@1.0.0"]);
    assert_eq!(
        detect(&toolset(TOOL_WIT, true)).unwrap().family,
        family(true)
    );

    let lifted = detect(&plain(r#"(export "f" (func $f))"#)).unwrap();
    assert!(matches!(&lifted.family, ComponentFamily::Lifted(tools) if tools.tools.len() == 1));
    assert_eq!(
        detect(&plain(RUN)).unwrap().family,
        ComponentFamily::Command(WasiGeneration::Preview2)
    );

    let both = detect(&plain(&format!("{RUN} (export \"f\" (func $f))"))).unwrap();
    let ComponentFamily::Lifted(tools) = &both.family else {
        panic!("{both:?}");
    };
    assert_eq!(tools.tools[0].name.as_str(), "f");
    assert_eq!(tools.skipped[0].export, "wasi:cli/run@0.2.3");

    let text = serde_json::to_string(&both).unwrap();
    assert_eq!(
        serde_json::from_str::<DetectedComponent>(&text).unwrap(),
        both
    );
}

#[test]
fn contract_mismatch_names_both_versions() {
    for (version, expected) in [
        ("1.1.0", "CONTRACT_NEWER"),
        ("2.0.0", "CONTRACT_UNKNOWN"),
        ("0.9.0", "CONTRACT_UNKNOWN"),
        ("1.0.0-rc.1", "CONTRACT_UNKNOWN"),
    ] {
        let error = detect(&toolset(
            &TOOL_WIT.replacen("@1.0.0", &format!("@{version}"), 1),
            true,
        ))
        .unwrap_err();
        assert_eq!(error.code(), expected);
        let text = error.to_string();
        assert!(
            text.contains(&format!("mimir:tool/toolset@{version}")) && text.contains("1.0.0"),
            "{text}"
        );
    }
    let patch = detect(&toolset(&TOOL_WIT.replacen("@1.0.0", "@1.0.7", 1), false)).unwrap();
    let version = InterfaceVersion {
        major: 1,
        minor: 0,
        patch: 7,
    };
    assert_eq!(
        patch.family,
        ComponentFamily::Toolset {
            version,
            assessor: false
        }
    );
    // A foreign component may use the contract's imports, too, and in the same versions.
    let newer = r#"(component (import "mimir:tool/log@1.2.0" (instance (export "write" (func)))))"#;
    assert_eq!(code(&wat(newer)), "CONTRACT_NEWER");
}

#[test]
fn files_that_are_not_components_are_identified() {
    for (bytes, expected, hint) in [
        (&b""[..], "NOT_WASM", "it is empty"),
        (b"\0a", "NOT_WASM", "truncated"),
        (b"hello world", "NOT_WASM", "not a WebAssembly file"),
        (
            b"\x7fELF\x02\x01\x01\x00",
            "NOT_WASM",
            "not a WebAssembly file",
        ),
        (b"\0asm\x01", "CORRUPT", "within its header"),
        (b"\0asm\x01\0\0\0", "CORE_MODULE", "not a component"),
        (
            b"\0asm\x0e\0\x01\0",
            "UNKNOWN_ENCODING",
            "version 14, layer 1",
        ),
        (b"\0asm\x0d\0\x01\0\x07\xff", "CORRUPT", "byte"),
    ] {
        assert_eq!(code(bytes), expected, "{bytes:?}");
        let text = detect(bytes).unwrap_err().to_string();
        assert!(text.contains(hint), "{text}");
    }
    let large = FamilyError::TooLarge {
        size: MAX_FILE_BYTES + 1,
    };
    assert_eq!(
        (large.code(), check_size(MAX_FILE_BYTES + 1)),
        ("FILE_TOO_LARGE", Err(large))
    );
}

#[test]
fn error_nothing_to_call_lists_skipped_exports() {
    assert_eq!(code(b"\0asm\x0d\0\x01\0"), "NOTHING_TO_CALL");
    let handler = wat(r#"(component
            (type $r (resource (rep i32)))
            (export $named "request" (type $r))
            (core module $m (func (export "f") (param i32)))
            (core instance $i (instantiate $m))
            (func $f (param "it" (own $named)) (canon lift (core func $i "f")))
            (export "handle" (func $f)))"#);
    let error = detect(&handler).unwrap_err();
    assert_eq!(error.code(), "NOTHING_TO_CALL");
    assert!(
        error.to_string().contains("`handle` uses a resource"),
        "{error}"
    );
    let newer = detect(&plain(&RUN.replace("0.2.3", "0.3.0"))).unwrap();
    let program = ComponentFamily::Command(WasiGeneration::Preview3);
    assert_eq!(
        (newer.family, newer.mode),
        (program, EngineMode::Concurrent)
    );
    let unknown = plain(&RUN.replace("0.2.3", "0.4.0"));
    assert_eq!(code(&unknown), "WASI_VERSION");
}

#[test]
fn imports_must_be_provided() {
    let import = |name: &str, ty: &str| {
        detect(&wat(&format!(
            r#"(component
                (import "{name}" {ty})
                (core module $m (func (export "f"))) (core instance $i (instantiate $m))
                (func $f (canon lift (core func $i "f"))) (export "f" (func $f)))"#
        )))
    };
    let function = r#"(instance (export "x" (func)))"#;
    for good in [
        "wasi:io/streams@0.2.0",
        "wasi:sockets/tcp@0.2.99",
        "wasi:http/outgoing-handler@0.2.6",
        "mimir:tool/storage@1.0.3",
        "wasi:config/runtime@0.2.0-draft",
        "wasi:keyvalue/store@0.2.0-draft",
        "wasi:keyvalue/atomics@0.2.0-draft2",
        "wasi:logging/logging",
    ] {
        let detected = import(good, function).unwrap();
        assert_eq!(detected.imports, [good]);
        assert_eq!(detected.mode, EngineMode::Sequential, "{good}");
    }
    for newer in ["wasi:http/client@0.3.0", "wasi:random/random@0.3.1"] {
        let detected = import(newer, function).unwrap();
        assert_eq!(
            (detected.imports.as_slice(), detected.mode),
            (&[newer.to_owned()][..], EngineMode::Concurrent)
        );
    }
    for (bad, expected) in [
        ("wasi:io/streams@0.3.0", "WASI_VERSION"),
        ("wasi:io/streams@0.2.0-rc-2023-11-10", "WASI_VERSION"),
        ("wasi:io/streams", "WASI_VERSION"),
        ("wasi:http/client@0.2.0", "WASI_VERSION"),
        ("wasi:clocks/wall-clock@0.3.0", "WASI_VERSION"),
        ("wasi:http/handler@0.3.0", "IMPORT_NOT_PROVIDED"),
        ("wasi:keyvalue/store@0.2.0", "IMPORT_NOT_PROVIDED"),
        ("wasi:keyvalue/watcher@0.2.0-draft2", "IMPORT_NOT_PROVIDED"),
        ("wasi:nn/tensor@0.2.0", "IMPORT_NOT_PROVIDED"),
        ("wasi:http/incoming-handler@0.2.0", "IMPORT_NOT_PROVIDED"),
        ("mimir:tool/toolset@1.0.0", "IMPORT_NOT_PROVIDED"),
        ("mimir:tool/log@1.1.0", "CONTRACT_NEWER"),
        ("docs:adder/add@0.1.0", "IMPORT_NOT_PROVIDED"),
        ("log", "IMPORT_NOT_PROVIDED"),
    ] {
        let error = import(bad, function).unwrap_err();
        assert_eq!(error.code(), expected, "{bad}");
        assert!(error.to_string().contains(bad), "{error}");
    }
    assert_eq!(
        import("host", "(func)").unwrap_err().code(),
        "IMPORT_NOT_PROVIDED"
    );
    assert_eq!(
        import("thing", "(type (sub resource))").unwrap_err().code(),
        "IMPORT_NOT_PROVIDED"
    );
    // Types alone need no implementation.
    assert!(
        import(
            "docs:shapes/types@0.1.0",
            r#"(instance (type $t (enum "a" "b")) (export "t" (type (eq $t))))"#
        )
        .unwrap()
        .imports
        .is_empty()
    );
}

#[test]
fn mode_is_concurrent_only_for_async_components() {
    let mode = |more: &str| {
        detect(&plain(&format!("{more} (export \"f\" (func $f))")))
            .unwrap()
            .mode
    };
    assert_eq!(mode(""), EngineMode::Sequential);
    for needed in [
        "(core func (canon task.cancel))",
        "(core func (canon backpressure.inc))",
        "(type $s (stream u8)) (core func (canon stream.new $s))",
        "(component $inner (core func (canon waitable-set.new)))",
        "(type $a (func async (result u8)))",
        "(type $i (instance (type $f (future u8)) (export \"t\" (type (eq $f)))))",
    ] {
        assert_eq!(mode(needed), EngineMode::Concurrent, "{needed}");
    }
}

#[test]
fn servers_are_detected() {
    let handler = |version: &str, name: &str| {
        detect(&plain(&format!(
            r#"(instance $h (export "handle" (func $f)))
            (export "wasi:http/{name}@{version}" (instance $h)) {RUN}"#
        )))
    };
    let family = |detected: Result<DetectedComponent, FamilyError>| detected.unwrap().family;
    assert_eq!(
        family(handler("0.2.6", "incoming-handler")),
        ComponentFamily::HttpHandler(WasiGeneration::Preview2)
    );
    assert_eq!(
        family(handler("0.3.0", "handler")),
        ComponentFamily::HttpHandler(WasiGeneration::Preview3)
    );
    for (version, name) in [
        ("0.2.0-rc-2023-12-05", "incoming-handler"),
        ("0.2.6", "handler"),
    ] {
        assert_eq!(
            family(handler(version, name)),
            ComponentFamily::Command(WasiGeneration::Preview2),
            "a server of an unknown version is still a program"
        );
    }
}

#[test]
fn imports_may_name_wasi_resources_again() {
    let bytes = wat(r#"(component
            (import "wasi:io/streams@0.2.6" (instance $s (export "input-stream" (type (sub resource)))))
            (alias export $s "input-stream" (type $t))
            (import "input-stream" (type (eq $t)))
            (core module $m (func (export "f"))) (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f"))) (export "f" (func $f)))"#);
    assert_eq!(detect(&bytes).unwrap().imports, ["wasi:io/streams@0.2.6"]);
}

/// Packages whose interfaces use each other's types in turn cause no endless loop.
#[test]
fn imports_of_packages_may_depend_on_each_other() {
    let bytes = wat(r#"(component
            (import "a:a/x" (instance $x (type $e (enum "v")) (export "t" (type (eq $e)))))
            (alias export $x "t" (type $t1))
            (import "b:b/y" (instance $y (alias outer 1 $t1 (type $o)) (export "t" (type (eq $o)))))
            (alias export $y "t" (type $t2))
            (import "a:a/z" (instance (alias outer 1 $t2 (type $o)) (export "t" (type (eq $o)))))
            (core module $m (func (export "f"))) (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f"))) (export "f" (func $f)))"#);
    assert!(matches!(
        detect(&bytes).unwrap().family,
        ComponentFamily::Lifted(_)
    ));
}

fn leb(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [vec![id], leb(content.len()), content.to_vec()].concat()
}

const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";

#[test]
fn nesting_too_deep_is_an_error() {
    const TYPES: u8 = 7;
    const COMPONENT: u8 = 4;
    // Instance and component types, three bytes a level.
    for kind in [0x42, 0x41] {
        let mut content = vec![1];
        for _ in 0..500_000 {
            content.extend([kind, 1, 1]);
        }
        content.extend([kind, 0]);
        let bytes = [HEADER, &section(TYPES, &content)].concat();
        assert_eq!(code(&bytes), "CORRUPT");
        assert!(
            detect(&bytes)
                .unwrap_err()
                .to_string()
                .contains("nested more than 64 deep")
        );
    }
    // Lists of lists, each with its own type.
    let mut content = leb(100_000);
    content.extend([0x70, 0x7d]);
    for index in 0..99_999_usize {
        content.push(0x70);
        content.extend(leb(index));
    }
    assert_eq!(
        code(&[HEADER, &section(TYPES, &content)].concat()),
        "CORRUPT"
    );
    // Components in components.
    let mut inner = HEADER.to_vec();
    for _ in 0..1_000 {
        inner = [HEADER, &section(COMPONENT, &inner)].concat();
    }
    assert_eq!(code(&inner), "CORRUPT");
}

#[test]
fn huge_counts_cause_no_allocation() {
    let max_count = [0xff, 0xff, 0xff, 0xff, 0x0f];
    for id in 1..=11 {
        for content in [
            max_count.to_vec(),
            [&[1, 0x42], &max_count[..]].concat(),
            [&[1, 0x72], &max_count[..]].concat(),
        ] {
            let started = std::time::Instant::now();
            assert!(detect(&[HEADER, &section(id, &content)].concat()).is_err());
            assert!(started.elapsed().as_secs() < 60);
        }
        // A section that claims to be larger than the file.
        assert!(detect(&[HEADER, &[id], &max_count[..]].concat()).is_err());
    }
}

#[test]
fn types_that_multiply_are_an_error() {
    let mut component = String::from("(component (type $t0 u64)");
    for level in 1..=64 {
        component.push_str(&format!("(type $t{level} (tuple $t{0} $t{0}))", level - 1));
    }
    component.push(')');
    assert_eq!(code(&wat(&component)), "CORRUPT");
}

#[test]
fn damaged_bytes_never_cause_a_panic() {
    let wit = "package t:t@1.0.0;
        interface api {
            record point { x: s32, y: option<f64> }
            variant shape { none, corner(point), parts(list<point>) }
            flags access { read, write }
            draw: func(shape: shape, access: access) -> result<list<u8>, string>;
        }
        world w { export api; }";
    let core = echoes([])
        + r#"(func (export "t:t/api@1.0.0#draw") (param i32 i32 i32 f64 i32) (result i32) (i32.const 0))"#;
    let component = build(wit, &core);
    assert!(detect(&component).is_ok());
    for end in 0..component.len() {
        // Cut between two sections, the rest is a smaller valid component.
        if let Ok(detected) = detect(&component[..end]) {
            assert!(matches!(detected.family, ComponentFamily::Lifted(_)));
        }
    }
    for at in 0..component.len() {
        for bit in 0..8 {
            let mut damaged = component.clone();
            damaged[at] ^= 1 << bit;
            let _ = detect(&damaged);
        }
        let mut damaged = component.clone();
        damaged[at] = 0xff;
        let _ = detect(&damaged);
        damaged.remove(at);
        let _ = detect(&damaged);
    }
}

#[test]
fn config_store_imports_support_each_draft() {
    for name in CONFIG_STORES {
        let bytes = wat(&format!(
            r#"(component
                (import "{name}" (instance (export "get-all" (func))))
                (core module $m (func (export "f"))) (core instance $i (instantiate $m))
                (func $f (canon lift (core func $i "f"))) (export "f" (func $f)))"#
        ));
        let imports = detect(&bytes).unwrap().imports;
        assert_eq!(imports, [name]);
        assert!(is_pure(&imports), "it only reads the user's settings");
    }
}

/// Components that use parts of `async` which the concurrent engine does not have.
const UNFINISHED_ASYNC: [(&str, &str); 3] = [
    (
        r#"(component
            (core module $lib (memory (export "m") 1))
            (core instance $lib (instantiate $lib))
            (core func $new (canon error-context.new (memory $lib "m")))
            (core module $m (import "" "new" (func (param i32 i32) (result i32)))
                (func (export "f") (result i32) i32.const 1))
            (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
            (func $f (result u32) (canon lift (core func $i "f")))
            (export "f" (func $f)))"#,
        "`error-context`",
    ),
    (
        r#"(component
            (core func $ret (canon task.return (result u32)))
            (core module $m (import "" "ret" (func $ret (param i32)))
                (func (export "f") (call $ret (i32.const 4))))
            (core instance $i (instantiate $m (with "" (instance (export "ret" (func $ret))))))
            (func $f async (result u32) (canon lift (core func $i "f") async))
            (export "f" (func $f)))"#,
        "without a callback",
    ),
    (
        r#"(component
            (core func $index (canon thread.index))
            (core module $m (import "" "index" (func (result i32)))
                (func (export "f") (result i32) i32.const 1))
            (core instance $i (instantiate $m (with "" (instance (export "index" (func $index))))))
            (func $f (result u32) (canon lift (core func $i "f")))
            (export "f" (func $f)))"#,
        "threads",
    ),
];

#[test]
fn async_features_are_those_of_the_concurrent_engine() {
    use crate::engine::{MemoryAddressing, compiling_engine};

    let engine = compiling_engine(EngineMode::Concurrent, MemoryAddressing::Checked).unwrap();
    let compiles = |bytes: &[u8]| wasmtime::component::Component::new(&engine, bytes).is_ok();
    for (text, feature) in UNFINISHED_ASYNC {
        let component = wat(text);
        assert!(!compiles(&component), "the engine has {feature}");
        let error = detect(&component).unwrap_err();
        assert_eq!(error.code(), "ASYNC_NOT_PROVIDED", "{error}");
        assert!(error.to_string().contains(feature), "{error}");
    }
    let stream = wat(r#"(component
            (type $s (stream u8))
            (core func $new (canon stream.new $s))
            (core module $m (import "" "new" (func $new (result i64)))
                (func (export "f") (result i32) (i32.wrap_i64 (call $new))))
            (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
            (func $f (result $s) (canon lift (core func $i "f")))
            (export "f" (func $f)))"#);
    assert!(compiles(&stream));
    assert_eq!(detect(&stream).unwrap().mode, EngineMode::Concurrent);
}

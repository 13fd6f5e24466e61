//! Plugins in C and C++.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{BuildHome, check_template, output};

/// A plugin whose tool has this body.
fn tool(body: &str) -> String {
    format!(
        "#include <mimir.h>\nMIMIR_NO_ARGS(hello)\nMIMIR_TOOL(hello, \"Says hello.\") {{\n{body}\n}}\n\
         MIMIR_EXPORT(\"hello\", \"0.1.0\", \"Says hello.\", &hello)\n"
    )
}

/// A workspace in which a script stands in for the compiler of C.
fn with_compiler(script: &str) -> BuildHome {
    let script = format!("case \"$1\" in --version) echo 'test compiler 1'; exit;; esac\n{script}");
    let home = BuildHome::with_programs(&[("compiler", &script)]);
    home.write("hello/tool.c", &tool("return mimir_text(\"x\");"));
    home
}

/// Builds with the script, which must fail, and returns stderr.
fn failing_build(home: &BuildHome) -> String {
    let compiler = home.program_folder().join("compiler");
    let mut command = home.command(&["tools", "build", "hello"]);
    let (code, _, err) = output(command.env("MIMIR_CC", compiler));
    assert_eq!(code, 1, "{err}");
    assert!(!home.path().join(".mimir/tools/hello.wasm").exists());
    err
}

#[test]
fn c_build_without_a_compiler_names_the_command_that_installs_one() {
    let home = BuildHome::without_programs();
    home.write("hello/tool.c", "");
    home.write("hello2/tool.cpp", "");
    let err = home.failing_build();
    assert!(err.contains("pip install ziglang"), "{err}");
    let (_, _, err) = home.run(&["tools", "build", "hello2"]);
    assert!(err.contains("C++") && err.contains("apt install"), "{err}");
}

#[test]
fn c_compile_errors_have_paths_relative_to_the_current_folder() {
    let home = with_compiler("echo \"$PWD/tool.c:3:5: error: unknown\" >&2; exit 1");
    let err = failing_build(&home);
    let mut lines = err.lines();
    assert!(
        lines.any(|line| line == "hello/tool.c:3:5: error: unknown"),
        "{err}"
    );
    assert!(err.contains("could not build the plugin"), "{err}");
    // Paths that the compiler writes relative to the folder in which it runs.
    let home = with_compiler("echo \"tool.c:3:5: error: unknown\" >&2; exit 1");
    let err = failing_build(&home);
    assert!(
        err.starts_with("hello/tool.c:3:5: error: unknown\n"),
        "{err}"
    );
}

#[test]
fn c_module_without_tools_is_not_installed() {
    // The last argument is the output: an empty module.
    let home = with_compiler("for last; do :; done; printf '\\0asm\\1\\0\\0\\0' > \"$last\"");
    home.write("hello/tool.c", "int unused;\n");
    let err = failing_build(&home);
    assert!(err.contains("exports no tools"), "{err}");
    assert!(err.contains("MIMIR_EXPORT("), "{err}");
}

#[test]
fn c_output_that_is_a_link_is_not_followed() {
    let home = with_compiler("for last; do :; done; ln -sf /etc/hostname \"$last\"");
    let err = failing_build(&home);
    assert!(err.contains("core.wasm"), "{err}");
}

#[test]
fn c_flags_for_editors_name_the_sdk() {
    let home = with_compiler("exit 1");
    failing_build(&home);
    let flags = std::fs::read_to_string(home.path().join("hello/compile_flags.txt")).unwrap();
    let include = flags.lines().find_map(|line| line.strip_prefix("-I"));
    assert!(
        Path::new(include.unwrap()).join("mimir.h").is_file(),
        "{flags}"
    );
}

#[test]
#[ignore = "needs clang with wasi-libc, or zig"]
fn c_template_becomes_a_tool() {
    check_template("c");
}

#[test]
#[ignore = "needs clang with wasi-libc, or zig"]
fn cpp_template_becomes_a_tool() {
    check_template("cpp");
}

#[test]
#[ignore = "needs clang with wasi-libc and libc++, or zig"]
fn cpp_plugin_uses_its_library_and_sources_in_c() {
    let home = BuildHome::new();
    home.write(
        "hello/tool.cpp",
        &("#include <algorithm>\n#include <string>\n#include <vector>\nextern \"C\" int three(void);\n".to_owned()
            + &tool(
                "std::vector<std::string> words{\"b\", \"a\"}; std::sort(words.begin(), words.end());\n\
                 return mimir_text(\"%s%d\", words[0].c_str(), three());",
            )),
    );
    home.write("hello/src/three.c", "int three(void) { return 3; }\n");
    let (code, _, err) = home.run(&["tools", "build", "hello"]);
    assert_eq!(code, 0, "{err}");
    let (_, out, err) = home.run(&["call", "hello"]);
    assert!(out.contains("a3"), "{out}{err}");
}

#[test]
#[ignore = "needs clang with wasi-libc, or zig"]
fn c_compiler_sees_no_files_outside_of_the_plugin() {
    let home = BuildHome::new();
    home.write("secret.h", "#error SECRET-OUTSIDE\n");
    for path in ["/etc/shadow", "../secret.h", "/proc/1/environ"] {
        let text = format!("#include \"{path}\"\n{}", tool("return mimir_text(\"x\");"));
        home.write("hello/tool.c", &text);
        let err = home.failing_build();
        assert!(err.contains("hello/tool.c:1:"), "{path}: {err}");
        assert!(
            !err.contains("SECRET-OUTSIDE") && !err.contains("root:"),
            "{path}: {err}"
        );
    }
}

#[test]
#[ignore = "needs clang with wasi-libc, or zig"]
fn c_plugin_without_export_names_the_macro() {
    let home = BuildHome::new();
    home.write("hello/tool.c", "int unused;\n");
    let err = home.failing_build();
    assert!(err.contains("MIMIR_EXPORT("), "{err}");
}

#[test]
#[ignore = "needs clang with wasi-libc, or zig"]
fn c_compiler_that_prints_without_end_is_shortened() {
    let home = BuildHome::new();
    // Each file includes the next one twice: 65,536 warnings.
    for depth in 0..16 {
        let next = format!("#include \"h{}.h\"\n", depth + 1);
        home.write(&format!("hello/h{depth}.h"), &next.repeat(2));
    }
    home.write("hello/h16.h", "#warning again and again and again\n");
    let text = format!("#include \"h0.h\"\n#error the end\n{}", tool(""));
    home.write("hello/tool.c", &text);
    let err = home.failing_build();
    assert!(err.len() < 2 << 20, "{} bytes", err.len());
    assert!(err.contains("more messages are not shown"), "{}", err.len());
}

#[test]
#[ignore = "needs clang with wasi-libc, or zig"]
fn c_compiler_without_end_stops_with_the_build() {
    let home = BuildHome::new();
    home.write(
        "hello/tool.cpp",
        &("template <int N> struct Slow { static constexpr long long run(long long n) { long long sum = 0; for (long long i = 0; i < n; ++i) sum += i % N; return sum; } };\n\
           #pragma clang diagnostic ignored \"-Wall\"\n"
            .to_owned()
            + "#define A(n) static_assert(Slow<n>::run(1000000 / 4) >= 0, \"\");\n"
            + &(1..20_000).map(|n| format!("A({n})\n")).collect::<String>()
            + &tool("return mimir_text(\"x\");")),
    );
    let mut command = home.command(&["tools", "build", "hello"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap();
    let marker = home.path().display().to_string();
    let end = Instant::now() + Duration::from_secs(120);
    while !is_compiling(&marker) {
        assert!(Instant::now() < end, "the compiler does not start");
        assert!(
            child.try_wait().unwrap().is_none(),
            "the build ended by itself"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    child.wait().unwrap();
    while is_compiling(&marker) {
        assert!(Instant::now() < end, "the compiler goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns true if a process compiles `tool.cpp` in this workspace.
fn is_compiling(workspace: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| {
            let folder = entry.ok()?.path();
            let line = std::fs::read(folder.join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let place = std::fs::read_link(folder.join("cwd")).ok()?;
            Some(line.contains("tool.cpp") && place.starts_with(workspace))
        })
        .any(|is_compiler| is_compiler)
}

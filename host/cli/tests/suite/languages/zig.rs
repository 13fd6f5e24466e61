//! Plugins in Zig.

use std::time::{Duration, Instant};

use super::{BuildHome, check_template};

/// A plugin whose tool has this body.
fn tool(body: &str) -> String {
    format!(
        "const mimir = @import(\"mimir\");\nconst Hello = struct {{\n\
         pub const tool: mimir.Tool = .{{ .description = \"Says hello.\" }};\n\
         pub fn run(_: Hello, _: mimir.Context) !*mimir.Result {{\n{body}\n}}\n}};\n\
         comptime {{\n    mimir.exportPlugin(\"hello\", \"0.1.0\", \"Says hello.\", .{{Hello}});\n}}\n"
    )
}

/// A workspace in which a script stands in for zig.
fn with_zig(script: &str) -> BuildHome {
    let script = format!("case \"$1\" in version) echo 0.17.1; exit;; esac\n{script}");
    let home = BuildHome::with_programs(&[("zig", &script)]);
    home.write("hello/tool.zig", "");
    home
}

#[test]
fn zig_build_without_zig_names_the_command_that_installs_it() {
    let home = BuildHome::without_programs();
    home.write("hello/tool.zig", "");
    let err = home.failing_build();
    assert!(err.contains("Zig is not installed"), "{err}");
    assert!(err.contains("pip install ziglang==0.17.1"), "{err}");
}

#[test]
fn zig_compile_errors_have_paths_relative_to_the_plugin() {
    let home = with_zig("echo \"$PWD/tool.zig:3:5: error: unknown\" >&2; exit 1");
    let err = home.failing_build();
    let mut lines = err.lines();
    assert!(
        lines.any(|line| line == "tool.zig:3:5: error: unknown"),
        "{err}"
    );
    assert!(err.contains("mimir.exportPlugin"), "{err}");
}

#[test]
fn zig_module_without_tools_is_not_installed() {
    let home = with_zig(
        "for arg; do case \"$arg\" in -femit-bin=*) printf '\\0asm\\1\\0\\0\\0' > \"${arg#*=}\";; esac; done",
    );
    let err = home.failing_build();
    assert!(err.contains("exports no tools"), "{err}");
}

#[test]
fn zig_cache_is_locked_for_one_build() {
    let home =
        with_zig("[ -e .mimir-build/first ] || { : > .mimir-build/first; sleep 2; }; exit 1");
    let spawn = || {
        let mut command = home.command(&["tools", "build", "hello"]);
        command
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let first = spawn();
    let end = Instant::now() + Duration::from_secs(60);
    while !home.path().join("hello/.mimir-build/first").exists() {
        assert!(Instant::now() < end, "the first build does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let second = spawn().wait_with_output().unwrap();
    let err = String::from_utf8(second.stderr).unwrap();
    assert!(err.contains("waiting for another build"), "{err}");
    let first = first.wait_with_output().unwrap();
    assert_eq!(first.status.code(), Some(1));
}

#[test]
#[ignore = "needs zig"]
fn zig_template_becomes_a_tool() {
    check_template("zig");
}

#[test]
#[ignore = "needs zig"]
fn zig_compile_errors_name_file_and_line() {
    let home = BuildHome::new();
    home.write("hello/tool.zig", &tool("return unknown_name;"));
    let err = home.failing_build();
    assert!(
        err.contains("\ntool.zig:5:8: error:") || err.starts_with("tool.zig:5:8: error:"),
        "{err}"
    );
}

#[test]
#[ignore = "needs zig"]
fn zig_compiler_sees_no_files_outside_of_the_plugin() {
    let home = BuildHome::new();
    home.write("secret.txt", "SECRET-OUTSIDE");
    for path in ["/etc/shadow", "../secret.txt"] {
        let body = format!("const text = @embedFile(\"{path}\");\n@compileError(text);");
        home.write("hello/tool.zig", &tool(&body));
        let err = home.failing_build();
        assert!(err.contains("tool.zig:5:"), "{path}: {err}");
        assert!(
            !err.contains("SECRET-OUTSIDE") && !err.contains("root:"),
            "{path}: {err}"
        );
    }
}

#[test]
#[ignore = "needs zig"]
fn zig_comptime_without_end_is_an_error() {
    let home = BuildHome::new();
    let body = "comptime { while (true) {} }\nreturn mimir.text(\"x\", .{});";
    home.write("hello/tool.zig", &tool(body));
    let err = home.failing_build();
    assert!(err.contains("1000 backwards branches"), "{err}");
}

#[test]
#[ignore = "needs zig"]
fn zig_plugin_without_export_names_the_function() {
    let home = BuildHome::new();
    home.write("hello/tool.zig", "pub const unused = 1;\n");
    let err = home.failing_build();
    assert!(err.contains("mimir.exportPlugin("), "{err}");
}

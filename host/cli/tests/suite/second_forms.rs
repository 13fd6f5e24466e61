//! Arguments, names and settings that models and configs know from other tools: `mimir help compatibility`.

use std::fs;

use crate::kit::{self, run};

#[test]
fn argument_forms_of_other_tools_are_accepted() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    fs::create_dir(root.join(".mimir")).unwrap();
    fs::write(root.join("a.txt"), "needle\n").unwrap();
    let absolute = format!(
        "path={}",
        root.canonicalize().unwrap().join("a.txt").display()
    );
    for (args, expected) in [
        (&["call", "file_search", "pattern=*.txt"][..], "a.txt"),
        (
            &["call", "file_search", "pattern=need.e", "type=grep"],
            "a.txt:1:needle",
        ),
        (
            &["call", "file_write", "path=new/b.txt", "content=x"],
            "Created new/b.txt",
        ),
        (
            &[
                "policy",
                "explain",
                "bash",
                "command=ls",
                "workDir=new",
                "timeoutMs=1500",
            ],
            "only reads",
        ),
    ] {
        let (code, out, err) = run(root, args);
        assert!(code == 0 && out.contains(expected), "{args:?}: {out}{err}");
    }
    for args in [
        &["call", "file_search", "type=x"][..],
        &["call", "read_file", "pattern=x"],
        &["call", "read_file", "path=/etc/passwd"],
        &["call", "write_file", "path=other/b.txt", "content=x"],
        &["call", "exec", "command=ls", "timeout=1", "timeoutMs=1"],
    ] {
        assert_ne!(run(root, args).0, 0, "{args:?}");
    }
    if cfg!(unix) {
        let (code, out, err) = run(root, &["call", "read", &absolute]);
        assert!(code == 0 && out.contains("needle"), "{out}{err}");
        let (_, _, err) = run(root, &["call", "read_file", "path=/etc/passwd"]);
        assert!(err.contains("or an absolute path inside of it"), "{err}");
    }
}

#[test]
fn compact_tool_in_the_lists_stands_for_its_operations() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    fs::create_dir(root.join(".mimir")).unwrap();
    fs::write(root.join("a.txt"), "text").unwrap();
    let compact = ["call", "file_operations", "operation=read", "path=a.txt"];
    let fine = ["call", "read_file", "path=a.txt"];
    let other = ["call", "file_search", "mode=glob", "query=*"];
    for (config, codes) in [
        ("policy: {allow: [file_operations]}\n", [0, 0, 3]),
        ("policy: {deny: [file_operations]}\n", [3, 3, 0]),
        ("tools: {file_operations: {enabled: false}}\n", [3, 3, 0]),
        ("tools: {file_operations: {approval: ask}}\n", [3, 3, 0]),
        ("policy: {deny: [read_file]}\n", [3, 3, 0]),
    ] {
        fs::write(root.join(".mimir/config.yml"), config).unwrap();
        let calls = [&compact[..], &fine, &other].map(|args| run(root, args).0);
        assert_eq!(calls, codes, "{config}");
    }
}

#[test]
fn custom_tools_of_a_project_stay_off_until_accepted() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path();
    let user = kit::config(root);
    fs::create_dir_all(&user).unwrap();
    fs::create_dir_all(root.join(".mimir/tools")).unwrap();
    fs::write(root.join(".mimir/tools/broken.wasm"), "no component").unwrap();
    let user_config = "tools: {autoLoadCustomTools: false, maxExecutionTime: 1000}\n";
    fs::write(user.join("config.yml"), user_config).unwrap();
    let project = "tools: {autoLoadCustomTools: true, maxExecutionTime: 2000}\n";
    fs::write(root.join(".mimir/config.yml"), project).unwrap();
    let is_read = || {
        let (code, out, err) = run(root, &["tools", "list"]);
        assert_eq!(code, 0, "{err}");
        out.contains("broken.wasm") || err.contains("broken.wasm")
    };
    let (_, out, err) = run(root, &["config", "check"]);
    for key in ["tools.autoLoadCustomTools: true", "tools.maxExecutionTime"] {
        let line = format!("withheld: {key} does not apply");
        assert!(out.contains(&line), "{out}{err}");
    }
    assert!(!is_read());
    assert_eq!(run(root, &["policy", "accept", "--yes"]).0, 0);
    assert!(is_read());
}

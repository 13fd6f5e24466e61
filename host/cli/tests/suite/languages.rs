//! Plugins in Python, Go, C, C++ and Zig: built in the sandbox, and called. Tests that need a compiler are ignored;
//! `.ci/languages` installs the compilers and runs them. The others run scripts in their place.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::kit::mimir;

mod c;
mod go;
mod python;
mod zig;

/// A workspace in which plugins are built.
pub struct BuildHome {
    folder: tempfile::TempDir,
    /// Scripts in the place of compilers.
    programs: tempfile::TempDir,
    /// True if other programs are found too.
    has_system: bool,
}

impl BuildHome {
    /// Creates a workspace with the compilers of this machine.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".mimir")).unwrap();
        Self {
            folder,
            programs: tempfile::tempdir().unwrap(),
            has_system: true,
        }
    }

    /// Creates a workspace without compilers.
    pub fn without_programs() -> Self {
        Self {
            has_system: false,
            ..Self::new()
        }
    }

    /// Creates a workspace with these scripts before all other programs.
    pub fn with_programs(programs: &[(&str, &str)]) -> Self {
        let home = Self::new();
        let folder = home.program_folder();
        fs::create_dir(&folder).unwrap();
        for (name, script) in programs {
            let path = folder.join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        home
    }

    /// Returns the folder of the scripts.
    pub fn program_folder(&self) -> PathBuf {
        self.programs.path().join("bin")
    }

    /// Returns the folder of the workspace.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file of the workspace.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Returns a command of mimir in the workspace.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = mimir(self.path(), args);
        command.env_remove("MIMIR_CC").env_remove("WASI_SDK_PATH");
        let path = std::env::var_os("PATH").filter(|_| self.has_system);
        let folders = path.iter().flat_map(std::env::split_paths);
        let folders = [self.program_folder()].into_iter().chain(folders);
        command.env("PATH", std::env::join_paths(folders).unwrap());
        command
    }

    /// Runs mimir, and returns its exit code, stdout and stderr.
    pub fn run(&self, args: &[&str]) -> (i32, String, String) {
        output(&mut self.command(args))
    }

    /// Builds the plugin in the folder `hello`, which must fail, and returns stderr.
    pub fn failing_build(&self) -> String {
        let (code, _, err) = self.run(&["tools", "build", "hello"]);
        assert_eq!(code, 1, "{err}");
        let installed = self.path().join(".mimir/tools/hello.wasm");
        assert!(!installed.exists(), "{err}");
        err
    }
}

/// Runs a command, and returns its exit code, stdout and stderr.
pub fn output(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Creates a plugin from the template, builds it twice, and calls it.
pub fn check_template(language: &str) {
    let home = BuildHome::new();
    let (code, _, err) = home.run(&["tools", "new", "hello", "--lang", language]);
    assert_eq!(code, 0, "{err}");
    let bytes = || {
        let (code, _, err) = home.run(&["tools", "build", "hello"]);
        assert_eq!(code, 0, "{err}");
        assert!(!err.contains("warning"), "{err}");
        fs::read(home.path().join(".mimir/tools/hello.wasm")).unwrap()
    };
    let first = bytes();
    assert!(first == bytes(), "the build is not deterministic");
    let (code, out, err) = home.run(&["call", "hello", "name=World"]);
    assert!(code == 0 && out.contains("Hello, World!"), "{out}{err}");
    let (code, out, err) = home.run(&["call", "hello", "name="]);
    assert!(code != 0 && (out + &err).contains("empty"));
    // Imports that no need asks for are sealed, so its imports prove what it cannot do.
    let (_, out, err) = home.run(&["tools", "info", "hello"]);
    for proof in ["cannot read or write files", "cannot reach the network"] {
        assert!(out.contains(proof), "{out}{err}");
    }
}

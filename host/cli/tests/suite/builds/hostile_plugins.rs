//! Plugins whose files try to run, read or write something outside of the sandbox, before or beside the build.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::kit::{mimir, run};

/// A workspace with the plugin in the folder `hostile`.
struct HostilePlugin(tempfile::TempDir);

impl HostilePlugin {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir(home.path().join(".mimir")).unwrap();
        for (path, text) in files {
            home.write(&format!("hostile/{path}"), text);
        }
        home
    }

    /// A plugin in Rust, with these lines of its manifest.
    fn in_rust(package: &str, rest: &str) -> Self {
        let manifest = format!(
            "[package]\nname = \"hostile\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{package}\n\
             [lib]\ncrate-type = [\"cdylib\"]\n{rest}\n"
        );
        Self::new(&[("Cargo.toml", &manifest), ("src/lib.rs", "")])
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn write_program(&self, path: &str, script: &str) -> PathBuf {
        self.write(path, &format!("#!/bin/sh\n{script}\n"));
        let path = self.path().join(path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Builds the plugin, which must fail, and returns stderr.
    fn failing_build(&self) -> String {
        let (code, _, err) = run(self.path(), &["tools", "build", "hostile"]);
        assert_ne!(code, 0, "{err}");
        err
    }

    /// Builds the plugin in its own folder, with folders before the others in `PATH`. Returns stderr.
    fn build_inside(&self, folders: &[&Path], variables: &[(&str, &Path)]) -> String {
        let path = std::env::var_os("PATH").unwrap();
        let folders = folders.iter().map(|folder| folder.to_path_buf());
        let folders = folders.chain(std::env::split_paths(&path));
        let mut command = mimir(self.path(), &["tools", "build", "."]);
        if self.path().join("hostile/rust-toolchain.toml").exists() {
            // Cargo sets it for tests, and rustup prefers it to the file.
            command.env_remove("RUSTUP_TOOLCHAIN");
        }
        let output = command
            .current_dir(self.path().join("hostile"))
            .env("PATH", std::env::join_paths(folders).unwrap())
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        String::from_utf8(output.stderr).unwrap()
    }
}

const IMPORTS: &str = "import other from './other';\nexport const bundled = other;\n";

#[test]
fn bundler_of_a_plugin_runs_in_the_sandbox() {
    let home = HostilePlugin::new(&[("tool.ts", IMPORTS)]);
    home.write("secret", "x");
    let outside = home.path().display();
    let script = format!(
        "for path in {outside}/escaped ../escaped escaped .mimir-build/escaped; do echo x > $path; done\n\
         echo \"the bundler ran\" >&2\n[ -e {outside}/secret ] && echo \"saw the secret\" >&2\nexit 1"
    );
    home.write_program("hostile/node_modules/.bin/esbuild", &script);
    let err = home.failing_build();
    assert!(err.contains("the bundler ran"), "{err}");
    assert!(!err.contains("saw the secret"), "{err}");
    for path in ["escaped", "hostile/escaped", "hostile/.mimir-build/escaped"] {
        assert!(!home.path().join(path).exists(), "{path}: {err}");
    }
}

#[test]
fn bundle_that_the_bundler_writes_becomes_the_plugin() {
    let home = HostilePlugin::new(&[("tool.ts", IMPORTS)]);
    let script = r#"for arg; do case $arg in --outfile=*) out=${arg#--outfile=};; esac; done
cat > "$out" <<'END'
var __module = { module: { bundled: {
  description: "A test.", inputSchema: { type: "object" }, needsApproval: false, execute: () => "from the bundle",
} } };
END"#;
    home.write_program("hostile/node_modules/.bin/esbuild", script);
    // A link of an earlier build is not followed.
    fs::create_dir(home.path().join("hostile/.mimir-build")).unwrap();
    fs::create_dir(home.path().join("outside")).unwrap();
    let link = home.path().join("hostile/.mimir-build/bundle");
    std::os::unix::fs::symlink(home.path().join("outside"), link).unwrap();
    let (code, _, err) = run(home.path(), &["tools", "build", "hostile"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(
        fs::read_dir(home.path().join("outside")).unwrap().count(),
        0
    );
    let (code, out, err) = run(home.path(), &["call", "bundled"]);
    assert!(code == 0 && out.contains("from the bundle"), "{out}{err}");
}

#[test]
fn bundle_that_is_a_link_is_not_read() {
    let home = HostilePlugin::new(&[("tool.ts", IMPORTS)]);
    home.write("secret.js", "var __module = { module: {} };");
    let secret = home.path().join("secret.js");
    let script = format!(
        "for arg; do case $arg in --outfile=*) ln -s {} ${{arg#--outfile=}};; esac; done",
        secret.display()
    );
    home.write_program("hostile/node_modules/.bin/esbuild", &script);
    let err = home.failing_build();
    assert!(err.contains("is a link"), "{err}");
}

#[test]
fn programs_in_the_folder_of_a_plugin_do_not_run_outside_of_the_sandbox() {
    let home = HostilePlugin::in_rust("", "[workspace]");
    // The target of this toolchain is always missing.
    home.write(
        "hostile/rust-toolchain.toml",
        "[toolchain]\npath = \"/nonexistent\"\n",
    );
    let ran = home.path().join("ran");
    for name in ["rustup", "rustc", "cargo"] {
        home.write_program(
            &format!("hostile/{name}"),
            &format!("echo x > {}", ran.display()),
        );
    }
    let plugin = home.path().join("hostile");
    let err = home.build_inside(&[Path::new("."), &plugin], &[]);
    assert!(!ran.exists(), "{err}");
    assert!(err.contains("rustup target add"), "{err}");
    // Nor does cargo start the rustc there.
    fs::remove_file(plugin.join("rust-toolchain.toml")).unwrap();
    let err = home.build_inside(&[Path::new("."), &plugin], &[]);
    assert!(!ran.exists(), "{err}");
}

#[test]
fn python_outside_of_the_sandbox_does_not_load_modules_of_the_plugin() {
    let home = HostilePlugin::new(&[("tool.py", "")]);
    let plugin = home.path().join("hostile");
    let (asked, loaded) = (home.path().join("asked"), home.path().join("loaded"));
    let script = format!(
        "echo x > {}; [ -z \"$PYTHONPATH$PYTHONSTARTUP\" ] || echo x > {}; exit 1",
        asked.display(),
        loaded.display()
    );
    let program = home.write_program("bin/python3", &script);
    let folder = program.parent().unwrap();
    let variables = [("PYTHONPATH", plugin.as_path()), ("PYTHONSTARTUP", &plugin)];
    let err = home.build_inside(&[folder], &variables);
    assert!(asked.exists() && !loaded.exists(), "{err}");
}

#[test]
fn sandboxed_code_cannot_choose_what_cargo_fetches() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let git = format!("e = {{ git = \"http://127.0.0.1:{port}/data\" }}");
    let index = format!(
        "e = {{ version = \"1\", registry-index = \"sparse+http://127.0.0.1:{port}/data/\" }}"
    );
    let patch = format!("[dependencies]\ne = \"1\"\n[patch.crates-io]\n{git}");
    for (dependencies, reason) in [
        (
            "[dependencies]\nd = { path = \"target/d\" }".to_owned(),
            "where builds write",
        ),
        (format!("[dependencies]\n{git}"), "--network"),
        (format!("[dependencies]\n{index}"), "--network"),
        (patch, "--network"),
    ] {
        let home = HostilePlugin::in_rust("", &format!("{dependencies}\n[workspace]"));
        let written =
            format!("[package]\nname = \"d\"\nversion = \"0.1.0\"\n[dependencies]\n{git}\n");
        home.write("hostile/target/d/Cargo.toml", &written);
        home.write("hostile/target/d/src/lib.rs", "");
        let err = home.failing_build();
        assert!(err.contains(reason), "{dependencies}: {err}");
        assert!(listener.accept().is_err(), "{dependencies}: {err}");
    }
}

#[test]
fn cargo_writes_no_lock_file_through_a_link_of_the_plugin() {
    let home = HostilePlugin::in_rust("workspace = \"ws\"", "");
    home.write("hostile/ws/Cargo.toml", "[workspace]\nmembers = [\"..\"]\n");
    let outside = home.path().join("outside.lock");
    std::os::unix::fs::symlink(&outside, home.path().join("hostile/ws/Cargo.lock")).unwrap();
    let err = home.failing_build();
    assert!(!outside.exists(), "{err}");
    assert!(err.contains("its Cargo workspace is"), "{err}");
    let linked = HostilePlugin::in_rust("", "[workspace]");
    let outside = linked.path().join("outside.lock");
    std::os::unix::fs::symlink(&outside, linked.path().join("hostile/Cargo.lock")).unwrap();
    let err = linked.failing_build();
    assert!(!outside.exists() && err.contains("is a link"), "{err}");
}

#[test]
fn dependency_outside_of_the_workspace_is_not_shown_to_the_build() {
    let home = HostilePlugin::in_rust(
        "",
        "[dependencies]\nprivate = { path = \"../private\" }\n[workspace]",
    );
    home.write(
        "private/Cargo.toml",
        "[package]\nname = \"private\"\nversion = \"0.1.0\"\n",
    );
    home.write("private/src/lib.rs", "");
    let err = home.failing_build();
    assert!(err.contains("outside of the plugin"), "{err}");
}

#[test]
fn rust_plugin_with_its_own_cargo_config_needs_a_lock_file() {
    let home = HostilePlugin::in_rust("", "[workspace]");
    home.write("hostile/.cargo/config.toml", "[build]\n");
    let err = home.failing_build();
    assert!(err.contains("cargo generate-lockfile"), "{err}");
    let lock = "version = 4\n\n[[package]]\nname = \"hostile\"\nversion = \"0.1.0\"\n";
    home.write("hostile/Cargo.lock", lock);
    let err = home.failing_build();
    assert!(
        err.contains("`cargo fetch`") && err.contains("mimir-sdk = {"),
        "{err}"
    );
}

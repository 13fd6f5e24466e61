//! A workspace for running commands, with the settings of its user.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace with user settings.
pub struct CommandWorkspace(TempDir);

impl CommandWorkspace {
    pub fn with(settings: &str) -> Self {
        let fixture = Self(tempfile::tempdir().unwrap());
        for folder in ["work/.mimir", "user", "cache", "beside"] {
            std::fs::create_dir_all(fixture.path().join(folder)).unwrap();
        }
        std::fs::write(fixture.path().join("user/config.yml"), settings).unwrap();
        std::fs::write(fixture.path().join("beside/note"), "from beside\n").unwrap();
        fixture
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn mimir(&self, arguments: &[&str]) -> (i32, Value) {
        let mut mimir = Command::new(super::program());
        // Toolchains are searched in the home of the person who runs the test, unless it is set.
        let home = self.path().join("home");
        if home.exists() {
            mimir.env("HOME", home);
        }
        let output = mimir
            .current_dir(self.path().join("work"))
            .env("MIMIR_CONFIG_DIR", self.path().join("user"))
            .env("MIMIR_CACHE_DIR", shared_cache())
            .arg("--json")
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let message = serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr))
        });
        (output.status.code().unwrap(), message)
    }

    /// The outcome of a shell text that a person approves.
    pub fn exec(&self, command: &str) -> (i32, Value) {
        let arguments = json!({ "command": command }).to_string();
        self.mimir(&["call", "--approve", "always", "exec", &arguments])
    }

    /// The output of a shell text that must succeed.
    pub fn output(&self, command: &str) -> String {
        let (code, text) = self.exec(command);
        assert_eq!(code, 0, "{text:#}");
        text["structured"]["stdout"].as_str().unwrap().to_owned()
    }

    /// The error code of a shell text that must fail.
    pub fn refusal(&self, command: &str) -> String {
        let (_, output) = self.exec(command);
        let code = output["error"]["code"].as_str();
        code.unwrap_or_else(|| panic!("{output:#}")).to_owned()
    }
}

/// The components are compiled once for all of these tests.
pub fn shared_cache() -> std::path::PathBuf {
    super::target_folder("cache")
}

/// A shell test for the visibility of this test's process.
pub fn process_visibility_test() -> String {
    format!(
        "test -e /proc/{}/comm && echo seen || echo hidden",
        std::process::id()
    )
}

/// Starts a local site and returns its port.
pub fn start_site() -> u16 {
    use std::io::{Read, Write};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
            );
        }
    });
    port
}

//! A NATS server for tests, on a random port of the loopback address.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Environment variable with the path of the program `nats-server`, if it is not in `PATH`.
const PROGRAM_VARIABLE: &str = "MIMIR_TEST_NATS";

/// A running NATS server with JetStream, which ends with this value.
pub struct NatsServer {
    child: Option<Child>,
    port: u16,
    folder: tempfile::TempDir,
}

impl NatsServer {
    /// Starts a server with an empty store.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut server = Self {
            child: None,
            port: 0,
            folder,
        };
        server.restart();
        server
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns the process id. Panics if the server was killed.
    pub fn process(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the server is killed");
            child.wait().expect("the server has ended");
        }
    }

    /// Starts the server again on the same port, with the same store.
    pub fn restart(&mut self) {
        self.kill();
        let program = std::env::var_os(PROGRAM_VARIABLE)
            .map_or_else(|| PathBuf::from("nats-server"), PathBuf::from);
        // A port of -1 is any free port.
        let port = match self.port {
            0 => "-1".to_owned(),
            port => port.to_string(),
        };
        // Without a stated size, a server on a nearly full disk refuses every message.
        let config = self.folder.path().join("server.conf");
        std::fs::write(&config, "jetstream { max_file_store: 10GB }").expect("a written file");
        let mut child = Command::new(&program)
            .args(["--addr", "127.0.0.1", "--port", &port, "--config"])
            .arg(config)
            .arg("--store_dir")
            .arg(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "{}: {error}; set {PROGRAM_VARIABLE} to the program nats-server",
                    program.display()
                )
            });
        let mut log = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        self.child = Some(child);
        let mut seen = String::new();
        loop {
            let from = seen.len();
            let read = log.read_line(&mut seen).expect("the log is readable");
            assert!(read > 0, "the server has ended: {seen}");
            let line = &seen[from..];
            if let Some((_, port)) = line.split_once("client connections on 127.0.0.1:") {
                self.port = port.trim().parse().expect("a port");
            }
            if line.contains("Server is ready") {
                break;
            }
        }
        // The pipe must not fill up.
        std::thread::spawn(move || log.read_to_end(&mut Vec::new()));
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

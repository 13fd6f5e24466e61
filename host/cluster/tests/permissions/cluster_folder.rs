//! A cluster of the files that `mimir cluster init` writes.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_nats::{Event, ServerError};
use mimir_cluster::{
    ClusterConnection, ClusterError, ConnectionOptions, InitOptions, cluster_files,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::UnboundedReceiver;

/// Environment variable with the path of the program `nats-server`, if it is not in `PATH`.
const PROGRAM_VARIABLE: &str = "MIMIR_TEST_NATS";

/// Maximum time until the servers have started. Reached only by a broken cluster.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A subject that no role may use.
const FORBIDDEN_SUBJECT: &str = "test.forbidden";

/// The files of a cluster on this machine, and its running servers.
pub struct ClusterFolder {
    folder: tempfile::TempDir,
    port: u16,
    servers: usize,
    children: Vec<Child>,
}

impl ClusterFolder {
    /// Writes the files of a cluster with free ports.
    pub fn write(servers: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let options = InitOptions {
            servers,
            hosts: vec!["localhost".to_owned()],
            port,
        };
        for file in cluster_files(&options, folder.path()).unwrap() {
            let path = folder.path().join(&file.path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file.content).unwrap();
        }
        Self {
            folder,
            port,
            servers,
            children: Vec::new(),
        }
    }

    /// Writes the files and starts the servers.
    pub fn start(servers: usize) -> Self {
        let mut cluster = Self::write(servers);
        cluster.start_servers();
        cluster
    }

    fn start_servers(&mut self) {
        let program = std::env::var_os(PROGRAM_VARIABLE)
            .map_or_else(|| PathBuf::from("nats-server"), PathBuf::from);
        for number in 0..self.servers {
            let child = Command::new(&program)
                .args(["-c", &format!("nats/nats-{number}.conf")])
                .current_dir(self.folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| {
                    panic!("{}: {error}; set {PROGRAM_VARIABLE}", program.display())
                });
            self.children.push(child);
        }
    }

    /// Replaces the keys by those of another folder, and starts the servers again, as `mimir help cluster` says.
    pub fn rotate_keys(&mut self, new: &Self) {
        self.stop_servers();
        for role in ["front", "worker", "admin"] {
            let file = format!("keys/{role}.nk");
            std::fs::copy(new.path(&file), self.path(&file)).unwrap();
        }
        let file = "nats/permissions.conf";
        std::fs::copy(new.path(file), self.path(file)).unwrap();
        self.start_servers();
    }

    fn stop_servers(&mut self) {
        for mut child in self.children.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns the path of a file of the cluster.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn urls(&self) -> String {
        let ports = (0..self.servers).map(|number| usize::from(self.port) + number);
        let urls: Vec<String> = ports
            .map(|port| format!("tls://localhost:{port}"))
            .collect();
        urls.join(",")
    }

    /// Connects with the key of a role.
    pub async fn connect(&self, role: &str) -> Result<ClusterConnection, ClusterError> {
        self.connect_with_authority(role, self.path("tls/ca.pem"))
            .await
    }

    /// Connects with the key of a role, and trusts another authority.
    pub async fn connect_with_authority(
        &self,
        role: &str,
        authority: PathBuf,
    ) -> Result<ClusterConnection, ClusterError> {
        self.connect_as(Some(self.path(&format!("keys/{role}.nk"))), authority)
            .await
    }

    /// Connects with a key.
    pub async fn connect_with_key(
        &self,
        key: Option<PathBuf>,
    ) -> Result<ClusterConnection, ClusterError> {
        self.connect_as(key, self.path("tls/ca.pem")).await
    }

    /// Connects as soon as the servers run.
    async fn connect_as(
        &self,
        key: Option<PathBuf>,
        authority: PathBuf,
    ) -> Result<ClusterConnection, ClusterError> {
        let options = ConnectionOptions {
            servers: self.urls(),
            key_file: key,
            ca_file: Some(authority),
        };
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            match ClusterConnection::connect(options.clone()).await {
                Err(error)
                    if error.to_string().contains("check that the servers run")
                        && Instant::now() < deadline =>
                {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                result => return result,
            }
        }
    }

    /// Connects a plain client with the key of a role. Also returns the server's refusals of subjects.
    async fn client(&self, role: &str) -> (async_nats::Client, UnboundedReceiver<String>) {
        let seed = std::fs::read_to_string(self.path(&format!("keys/{role}.nk"))).unwrap();
        let (sender, refused) = tokio::sync::mpsc::unbounded_channel();
        let options = async_nats::ConnectOptions::with_nkey(seed.trim().to_owned())
            .add_root_certificates(self.path("tls/ca.pem"))
            .require_tls(true)
            .event_callback(move |event| {
                if let Event::ServerError(ServerError::Other(text)) = &event
                    && text.to_lowercase().contains("permissions violation")
                {
                    let _ = sender.send(text.clone());
                }
                std::future::ready(())
            });
        (options.connect(self.urls()).await.unwrap(), refused)
    }

    /// Returns true if a role may use a subject.
    pub async fn try_subject(&self, role: &str, action: &str, subject: &str) -> bool {
        let (client, mut refused) = self.client(role).await;
        let subscription = match action {
            "publish" => {
                client
                    .publish(subject.to_owned(), "x".into())
                    .await
                    .unwrap();
                None
            }
            _ => Some(client.subscribe(subject.to_owned()).await.unwrap()),
        };
        // The server answers in order: a refusal comes before that of a subject which it refuses for certain.
        client.publish(FORBIDDEN_SUBJECT, "x".into()).await.unwrap();
        client.flush().await.unwrap();
        let first = tokio::time::timeout(START_TIMEOUT, refused.recv()).await;
        drop(subscription);
        first.unwrap().unwrap().contains(FORBIDDEN_SUBJECT)
    }

    /// Sends a request of a role whose answer the server publishes to `reply`.
    pub async fn direct_answer(&self, role: &str, request: &str, reply: &str) {
        let (client, _) = self.client(role).await;
        let sent = client.publish_with_reply(request.to_owned(), reply.to_owned(), "".into());
        sent.await.unwrap();
        client.flush().await.unwrap();
    }

    /// Stores chunks that do not have the digest which names them. Returns the name.
    pub async fn store_damaged_object(&self, content: &[u8]) -> String {
        let (client, _) = self.client("admin").await;
        let name: String = Sha256::digest(content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let size = format!("{{\"size\":{}}}", content.len());
        let changed: Vec<u8> = content.iter().map(|byte| byte ^ 1).collect();
        for (part, payload) in [("0", changed), ("end", size.into_bytes())] {
            client
                .publish(format!("mimir.objects.{name}.{part}"), payload.into())
                .await
                .unwrap();
        }
        client.flush().await.unwrap();
        name
    }
}

impl Drop for ClusterFolder {
    fn drop(&mut self) {
        self.stop_servers();
    }
}

/// Returns a port that is free together with the ports of routes and of monitoring.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_free = |offset: u16| {
            port.checked_add(offset)
                .is_some_and(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        };
        if port < 60_000 && is_free(2000) && is_free(4000) {
            return port;
        }
    }
}

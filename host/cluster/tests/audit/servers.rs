//! Three servers, of which one after the other is killed.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mimir_core::audit::AuditSink as _;

use crate::kit::{TestNode, connect, event, wait_until};

/// A cluster of three NATS servers, which end with this value.
struct ServerCluster {
    servers: Vec<Option<Child>>,
    ports: Vec<(u16, u16)>,
    folder: tempfile::TempDir,
}

/// Returns pairs of ports that are free now, each another one.
fn free_ports(pairs: usize) -> Vec<(u16, u16)> {
    // All at once: a port that was released could be found again.
    let listeners: Vec<TcpListener> = (0..2 * pairs)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"))
        .collect();
    let port = |index: usize| {
        let address = listeners[index].local_addr();
        address.expect("its address").port()
    };
    (0..pairs)
        .map(|pair| (port(2 * pair), port(2 * pair + 1)))
        .collect()
}

impl ServerCluster {
    fn start() -> Self {
        let mut cluster = Self {
            servers: vec![None, None, None],
            ports: free_ports(3),
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        (0..3).for_each(|index| cluster.start_server(index));
        cluster
    }

    fn start_server(&mut self, index: usize) {
        let program = std::env::var_os("MIMIR_TEST_NATS").unwrap_or("nats-server".into());
        let (port, cluster_port) = self.ports[index];
        let routes: Vec<String> = self
            .ports
            .iter()
            .map(|(_, port)| format!("nats://127.0.0.1:{port}"))
            .collect();
        // Of its own: another server may be reading the one of before.
        let config = self.folder.path().join(format!("{index}.conf"));
        // Without a stated size, a server on a nearly full disk refuses every message.
        std::fs::write(&config, "jetstream { max_file_store: 10GB }").expect("a written file");
        let child = Command::new(program)
            .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
            .args(["--name", &format!("n{index}"), "--cluster_name", "test"])
            .args(["--cluster", &format!("nats://127.0.0.1:{cluster_port}")])
            .args(["--routes", &routes.join(",")])
            .arg("--config")
            .arg(config)
            .arg("--store_dir")
            .arg(self.folder.path().join(index.to_string()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.servers[index] = Some(child.expect("nats-server starts"));
    }

    fn kill(&mut self, index: usize) {
        if let Some(mut server) = self.servers[index].take() {
            server.kill().expect("the server is killed");
            server.wait().expect("the server has ended");
        }
    }

    fn url(&self) -> String {
        let urls = self
            .ports
            .iter()
            .map(|(port, _)| format!("nats://127.0.0.1:{port}"));
        urls.collect::<Vec<_>>().join(",")
    }
}

impl Drop for ServerCluster {
    fn drop(&mut self) {
        (0..3).for_each(|index| self.kill(index));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server"]
async fn log_survives_the_loss_of_each_server() {
    let mut servers = ServerCluster::start();
    let url = servers.url();
    // The streams can be created as soon as the servers have elected a leader.
    let mut created = Err("no attempt".to_owned());
    for _ in 0..100 {
        let options = mimir_cluster::ConnectionOptions {
            servers: url.clone(),
            ..Default::default()
        };
        created = match mimir_cluster::ClusterConnection::connect(options).await {
            Ok(connection) => {
                let streams = connection.create_streams(Some(3)).await;
                streams.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if created.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    created.expect("the streams are created");
    drop(connect(&url).await);
    let nodes = [
        Arc::new(TestNode::start(&url).await),
        Arc::new(TestNode::start(&url).await),
    ];
    let first_ids = nodes.each_ref().map(|node| node.node.id());
    let mut tasks = tokio::task::JoinSet::new();
    let is_done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    for (number, node) in nodes.iter().enumerate() {
        for caller in 0..8 {
            let (node, is_done) = (Arc::clone(node), Arc::clone(&is_done));
            tasks.spawn(async move {
                let (mut recorded, mut refused, mut call) = (0_u32, 0_u32, 0);
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    call += 1;
                    let event = event(&format!("{number}-{caller}-{call}"));
                    if node.sink.ready().is_err() || node.sink.announce(&event).await.is_err() {
                        refused += 1;
                        // Refusals are recorded as well: the announcement may have been stored all the same.
                        let _ = node.sink.record_with_others(&event).await;
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    } else if node.sink.record_with_others(&event).await.is_ok() {
                        recorded += 1;
                    }
                }
                (recorded, refused)
            });
        }
    }
    for index in 0..3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        servers.kill(index);
        tokio::time::sleep(Duration::from_secs(4)).await;
        servers.start_server(index);
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    let counts = tasks.join_all().await;
    let recorded: u32 = counts.iter().map(|(recorded, _)| recorded).sum();
    let refused: u32 = counts.iter().map(|(_, refused)| refused).sum();
    for node in &nodes {
        wait_until("the log is writable", || node.sink.ready().is_ok()).await;
        node.record("last").await;
    }
    let report = nodes[0].verify().await;
    let kept = nodes
        .iter()
        .zip(&first_ids)
        .filter(|(node, id)| node.node.id() == **id);
    println!(
        "{recorded} recorded, {refused} refused, {} nodes kept their id: {report:?}",
        kept.count()
    );
    assert!(report.ok && report.running_calls == 0, "{report:?}");
    assert!(report.announced_calls >= u64::from(recorded));
}

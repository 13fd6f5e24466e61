//! The cluster as processes: NATS servers, fronts, workers and a proxy, on machines that can be cut off.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::check_ready;
use crate::history::{FoundEffect, RecordLine};
use crate::http::HttpTarget;
use crate::nats::{AUDIT_STREAM, NatsConnection};
use crate::network::ClusterNetwork;
use crate::processes::{ManagedProcess, output_of};
use crate::workspace::{NodeFolder, TOKEN, settings};

/// Time for a part of the cluster to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of the test's own requests to NATS.
const NATS_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the stores of a NATS server, which the streams of mimir reserve.
const STORE_SIZE: &str = "10G";

/// The size and the settings of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// Number of NATS servers, each on a machine of its own. 0 starts independent fronts without a cluster.
    pub servers: usize,
    /// Number of fronts, on the machines in turns.
    pub fronts: usize,
    /// Number of workers, on the machines in turns. 0 lets the fronts run the calls.
    pub workers: usize,
    /// Limit of the limited tool.
    pub calls_per_minute: Option<usize>,
    /// True if each worker runs on a CPU of its own.
    pub pinned: bool,
    /// True if calls of clients without forms wait for an answer of `mimir approvals`.
    pub waits_for_answers: bool,
    /// True if the settings have no limits, so that processes do not count calls together.
    pub has_default_limits: bool,
}

impl Default for ClusterPlan {
    fn default() -> Self {
        Self {
            servers: 3,
            fronts: 3,
            workers: 3,
            calls_per_minute: None,
            pinned: false,
            waits_for_answers: false,
            has_default_limits: false,
        }
    }
}

/// A running cluster. Dropping it kills all processes.
pub struct ClusterDeployment {
    /// The network.
    pub network: ClusterNetwork,
    /// The NATS servers.
    pub servers: Vec<ManagedProcess>,
    /// The fronts.
    pub fronts: Vec<ManagedProcess>,
    /// The workers.
    pub workers: Vec<ManagedProcess>,
    /// The proxy.
    pub proxy: ManagedProcess,
    proxy_port: u16,
    front_ports: Vec<u16>,
    server_ports: Vec<u16>,
    nodes: Vec<NodeFolder>,
    /// Folder of an administrator, on machine 1.
    admin: NodeFolder,
    program: PathBuf,
    // Removed last.
    folder: tempfile::TempDir,
}

/// Returns a program: a variable, or a name in PATH.
fn program(variable: &str, name: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| PathBuf::from(name), PathBuf::from)
}

/// Returns the program under test.
fn mimir_program() -> PathBuf {
    program("MIMIR_TEST_PROGRAM", env!("CARGO_BIN_EXE_mimir"))
}

/// Reserves ports by asking for them, and releasing them.
fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let listeners: Result<Vec<_>, _> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect();
    let listeners = listeners.map_err(|error| error.to_string())?;
    let ports = listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()));
    ports
        .collect::<Result<_, std::io::Error>>()
        .map_err(|error| error.to_string())
}

impl ClusterDeployment {
    /// Prepares the folders of all nodes, and starts all processes.
    pub fn start(plan: &ClusterPlan, network: ClusterNetwork) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("mimir-cluster-").tempdir();
        let folder = folder.map_err(|error| error.to_string())?;
        let logs = folder.path().join("logs");
        fs::create_dir_all(&logs).map_err(|error| error.to_string())?;
        let program = mimir_program();
        let mut user_settings = settings(plan.calls_per_minute);
        if plan.has_default_limits
            && let Some(settings) = user_settings.as_object_mut()
        {
            settings.remove("limits");
        }
        if plan.waits_for_answers {
            user_settings["approvals"] = json!({"unattended": "wait"});
        }
        let node = |name: &str| NodeFolder::create(folder.path(), name, &program, &user_settings);
        let admin = node("admin")?;
        let fronts: Result<Vec<_>, _> = (1..=plan.fronts)
            .map(|n| node(&format!("front{n}")))
            .collect();
        let workers: Result<Vec<_>, _> = (1..=plan.workers)
            .map(|n| node(&format!("worker{n}")))
            .collect();
        let (fronts, workers) = (fronts?, workers?);
        let nodes: Vec<NodeFolder> = fronts.iter().chain(&workers).cloned().collect();
        // Each in its own workspace; the first one compiles for all.
        if !nodes.is_empty() {
            admin.trust_tools()?;
            admin.compile_tools()?;
        }
        std::thread::scope(|scope| {
            let trusting: Vec<_> = nodes
                .iter()
                .map(|node| scope.spawn(|| node.trust_tools()))
                .collect();
            let joined = trusting.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a thread has panicked".to_owned()))
            });
            joined.collect::<Result<Vec<()>, String>>()
        })?;
        // All at once: a port that was released could be found again.
        let mut server_ports = free_ports(2 * plan.servers + plan.fronts + 1)?;
        let mut route_ports = server_ports.split_off(plan.servers);
        let mut front_ports = route_ports.split_off(plan.servers);
        let proxy_port = front_ports.split_off(plan.fronts)[0];
        let machines = plan.servers.max(1);
        let machine = |index: usize| index % machines + 1;
        let mut deployment = Self {
            servers: Vec::new(),
            fronts: Vec::new(),
            workers: Vec::new(),
            proxy: proxy_process(
                network,
                folder.path(),
                &logs,
                proxy_port,
                &front_addresses(network, &front_ports, machines),
            )?,
            network,
            proxy_port,
            front_ports,
            server_ports,
            nodes,
            admin,
            program,
            folder,
        };
        deployment.declare_servers(&route_ports, &logs)?;
        for (index, node) in fronts.iter().enumerate() {
            let (machine, port) = (machine(index), deployment.front_ports[index]);
            let mut arguments = vec!["serve".to_owned(), "--http".to_owned()];
            arguments.push(format!("{}:{port}", network.address(machine)));
            for host in [network.address(machine), proxy_host(network).to_owned()] {
                arguments.extend(["--host".to_owned(), host]);
            }
            arguments.push("--token".to_owned());
            arguments.extend(deployment.nats_arguments(machine));
            if plan.workers > 0 {
                arguments.push("--pool".to_owned());
            }
            let process = deployment.node_process(node, machine, &logs, arguments, None);
            deployment.fronts.push(process);
        }
        for (index, node) in workers.iter().enumerate() {
            let machine = machine(index);
            let mut arguments = vec!["worker".to_owned()];
            arguments.extend(deployment.nats_arguments(machine));
            arguments.extend(["--capacity".to_owned(), "32".to_owned()]);
            let cpu = plan.pinned.then_some(index);
            let process = deployment.node_process(node, machine, &logs, arguments, cpu);
            deployment.workers.push(process);
        }
        deployment.start_all()?;
        Ok(deployment)
    }

    /// Starts all processes that do not run: servers first.
    pub fn start_all(&mut self) -> Result<(), String> {
        for server in &mut self.servers {
            server.start()?;
        }
        self.await_servers()?;
        for process in self.workers.iter_mut().chain(&mut self.fronts) {
            process.start()?;
        }
        match self.fronts.is_empty() {
            true => Ok(()),
            false => self.proxy.start(),
        }
    }

    fn await_servers(&self) -> Result<(), String> {
        let start = Instant::now();
        while !self.servers.is_empty() {
            let answer = self.nats().and_then(|mut nats| nats.streams());
            match answer {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > START_TIMEOUT => {
                    let logs = self.servers.iter().map(ManagedProcess::log_end);
                    return Err(format!(
                        "NATS: {error}\n{}",
                        logs.collect::<Vec<_>>().join("\n")
                    ));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        Ok(())
    }

    /// Waits until each front can take calls, and all stores have all copies.
    pub async fn await_ready(&mut self) -> Result<(), String> {
        let start = Instant::now();
        let targets = (0..self.fronts.len()).map(|index| self.front(index));
        let targets: Vec<HttpTarget> = targets.chain([self.target()]).collect();
        for target in targets {
            while let Err(error) = check_ready(&target).await {
                if start.elapsed() > START_TIMEOUT {
                    return Err(format!(
                        "{error}\n{}\n{}",
                        self.proxy.log_end(),
                        self.logs()
                    ));
                }
                self.supervise(|_, _| false)?;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        match self.servers.is_empty() {
            true => Ok(()),
            false => self.nats()?.await_streams(START_TIMEOUT),
        }
    }

    /// Starts fronts and workers again that have ended by themselves, as a service manager does. Returns their number.
    /// Those that are down on purpose are left alone.
    pub fn supervise(
        &mut self,
        is_down: impl Fn(ProcessKind, usize) -> bool,
    ) -> Result<usize, String> {
        let mut started = 0;
        for (kind, processes) in [
            (ProcessKind::Front, &mut self.fronts),
            (ProcessKind::Worker, &mut self.workers),
        ] {
            for (index, process) in processes.iter_mut().enumerate() {
                if !is_down(kind, index) && !process.is_running() {
                    process.start()?;
                    started += 1;
                }
            }
        }
        Ok(started)
    }

    /// Returns the ends of the logs of fronts and workers.
    pub fn logs(&self) -> String {
        let all = self.fronts.iter().chain(&self.workers);
        all.map(ManagedProcess::log_end)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Copies all logs into a folder.
    pub fn copy_logs(&self, folder: &Path) {
        let entries = fs::read_dir(self.folder.path().join("logs"));
        for entry in entries.into_iter().flatten().flatten() {
            let _ = fs::copy(entry.path(), folder.join(entry.file_name()));
        }
    }

    /// Returns the address of the proxy.
    pub fn target(&self) -> HttpTarget {
        target(format!("{}:{}", proxy_host(self.network), self.proxy_port))
    }

    /// Returns the address of a front.
    pub fn front(&self, index: usize) -> HttpTarget {
        let address = self.network.address(self.fronts[index].machine);
        target(format!("{address}:{}", self.front_ports[index]))
    }

    /// Connects to the first NATS server that answers.
    pub fn nats(&self) -> Result<NatsConnection, String> {
        let mut errors = Vec::new();
        for index in 0..self.server_ports.len() {
            match self.nats_server(index) {
                Ok(connection) => return Ok(connection),
                Err(error) => errors.push(error),
            }
        }
        Err(errors.join("; "))
    }

    /// Connects to a NATS server.
    pub fn nats_server(&self, index: usize) -> Result<NatsConnection, String> {
        let address = self.network.address(index + 1);
        let address = format!("{address}:{}", self.server_ports[index]);
        NatsConnection::connect(&address, NATS_TIMEOUT)
    }

    /// Returns the options for a process that connects to NATS: the server of its machine, or all on loopback.
    fn nats_arguments(&self, machine: usize) -> Vec<String> {
        if self.servers.is_empty() {
            return Vec::new();
        }
        let port = |index: usize| self.server_ports[index];
        let servers = match self.network {
            ClusterNetwork::Namespaces => format!("nats://127.0.0.1:{}", port(machine - 1)),
            ClusterNetwork::Loopback => {
                let all = (0..self.server_ports.len())
                    .map(|index| format!("nats://127.0.0.1:{}", port(index)));
                all.collect::<Vec<_>>().join(",")
            }
        };
        vec!["--nats".to_owned(), servers]
    }

    /// Runs mimir as an administrator of the cluster, and returns its output.
    pub fn admin(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.network.command(1, &self.program.to_string_lossy());
        self.admin.prepare(&mut command);
        command.args(arguments).args(self.nats_arguments(1));
        output_of(&mut command)
    }

    fn node_process(
        &self,
        node: &NodeFolder,
        machine: usize,
        logs: &Path,
        arguments: Vec<String>,
        cpu: Option<usize>,
    ) -> ManagedProcess {
        let (network, program, folder) = (self.network, self.program.clone(), node.clone());
        ManagedProcess::new(&node.name, machine, logs, move || {
            let program = program.to_string_lossy();
            let mut command = match cpu {
                Some(cpu) => {
                    let mut command = network.command(machine, "taskset");
                    command.args(["-c", &cpu.to_string(), &program]);
                    command
                }
                None => network.command(machine, &program),
            };
            folder.prepare(&mut command);
            command.args(&arguments);
            command
        })
    }

    fn declare_servers(&mut self, route_ports: &[u16], logs: &Path) -> Result<(), String> {
        let network = self.network;
        let routes = route_ports
            .iter()
            .enumerate()
            .map(|(index, port)| format!("nats://{}:{port}", network.address(index + 1)));
        let routes = routes.collect::<Vec<_>>().join(", ");
        let listen = match network {
            ClusterNetwork::Namespaces => "0.0.0.0",
            ClusterNetwork::Loopback => "127.0.0.1",
        };
        for (index, port) in self.server_ports.iter().enumerate() {
            let name = format!("nats{}", index + 1);
            let folder = self.folder.path().join(&name);
            fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            let route_port = route_ports[index];
            let address = network.address(index + 1);
            let cluster = match route_ports.len() {
                1 => String::new(),
                _ => format!(
                    "cluster {{ name: test, host: {listen}, port: {route_port}, advertise: \"{address}:{route_port}\", routes: [{routes}] }}\n"
                ),
            };
            let text = format!(
                "server_name: {name}\nhost: {listen}\nport: {port}\nclient_advertise: \"{address}:{port}\"\n\
                 jetstream {{ store_dir: {:?}, max_memory_store: 256M, max_file_store: {STORE_SIZE} }}\n{cluster}",
                folder.join("store")
            );
            let file = folder.join("server.conf");
            fs::write(&file, text).map_err(|error| error.to_string())?;
            let machine = index + 1;
            let server = program("MIMIR_TEST_NATS", "nats-server");
            let process = ManagedProcess::new(&name, machine, logs, move || {
                let mut command = network.command(machine, &server.to_string_lossy());
                command.arg("-c").arg(&file);
                command
            });
            self.servers.push(process);
        }
        Ok(())
    }

    /// Returns the effects in the workspaces of all nodes.
    pub fn effects(&self) -> Result<Vec<FoundEffect>, String> {
        let all: Result<Vec<_>, _> = self.nodes.iter().map(NodeFolder::effects).collect();
        Ok(all?.concat())
    }

    /// Returns the audit record, as it is stored.
    pub fn record(&self) -> Result<Vec<RecordLine>, String> {
        let mut record = Vec::new();
        for message in self.nats()?.stream_messages(AUDIT_STREAM)? {
            let writer = message.subject.trim_start_matches("mimir.audit.");
            let text = String::from_utf8(message.payload);
            let text = text.map_err(|_| format!("a message of {writer} is not UTF-8"))?;
            for line in text.lines().filter(|line| !line.is_empty()) {
                record.push(RecordLine::parse(writer, line)?);
            }
        }
        Ok(record)
    }

    /// Returns what `mimir audit verify --cluster` finds. Empty if the record is complete.
    pub fn verify_errors(&self) -> Vec<String> {
        match self.admin(&["audit", "verify", "--cluster"]) {
            Ok(_) => Vec::new(),
            Err(error) => vec![error],
        }
    }

    /// Returns the process of a node.
    pub fn process(&mut self, kind: ProcessKind, index: usize) -> &mut ManagedProcess {
        match kind {
            ProcessKind::Server => &mut self.servers[index],
            ProcessKind::Front => &mut self.fronts[index],
            ProcessKind::Worker => &mut self.workers[index],
        }
    }
}

/// The kinds of processes that faults concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessKind {
    /// A NATS server.
    Server,
    /// A server of clients.
    Front,
    /// A worker.
    Worker,
}

fn target(address: String) -> HttpTarget {
    HttpTarget {
        address,
        headers: format!("authorization: Bearer {TOKEN}\r\n"),
    }
}

/// Returns the address at which the proxy listens.
fn proxy_host(network: ClusterNetwork) -> &'static str {
    match network {
        ClusterNetwork::Namespaces => "10.83.0.1",
        ClusterNetwork::Loopback => "127.0.0.1",
    }
}

fn front_addresses(network: ClusterNetwork, ports: &[u16], machines: usize) -> Vec<String> {
    let ports = ports.iter().enumerate();
    let addresses =
        ports.map(|(index, port)| format!("{}:{port}", network.address(index % machines + 1)));
    addresses.collect()
}

/// The proxy: rounds over all fronts that are ready.
fn proxy_process(
    network: ClusterNetwork,
    folder: &Path,
    logs: &Path,
    port: u16,
    fronts: &[String],
) -> Result<ManagedProcess, String> {
    let text = format!(
        "{{\n  admin off\n  auto_https off\n  persist_config off\n}}\nhttp://{}:{port} {{\n  \
         reverse_proxy {} {{\n    lb_policy round_robin\n    lb_try_duration 5s\n    lb_try_interval 50ms\n    \
         fail_duration 1s\n    health_uri /readyz\n    health_interval 500ms\n    health_timeout 1s\n    \
         flush_interval -1\n    header_up Host {{upstream_hostport}}\n    transport http {{\n      dial_timeout 1s\n    }}\n  }}\n}}\n",
        proxy_host(network),
        fronts.join(" ")
    );
    let file = folder.join("Caddyfile");
    fs::write(&file, text).map_err(|error| error.to_string())?;
    let home = folder.join("caddy");
    let caddy = program("MIMIR_TEST_CADDY", "caddy");
    Ok(ManagedProcess::new("caddy", 0, logs, move || {
        let mut command = Command::new(&caddy);
        command
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(&file);
        command.env("HOME", &home);
        command
    }))
}

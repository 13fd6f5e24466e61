//! Network namespaces: a bridge with one namespace for each machine of the cluster, which can be cut off.
//!
//! `.ci/cluster` runs the test in namespaces of its own (`unshare`), so that bridge, links and processes end with it.

use std::process::{Command, Stdio};

/// Address of the bridge, at which clients and the proxy are.
const BRIDGE: &str = "10.83.0.1";

/// Name of the bridge.
const BRIDGE_NAME: &str = "mimirbr";

/// The network of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterNetwork {
    /// One namespace for each machine. Machines can be cut off.
    Namespaces,
    /// Everything on the loopback address. Machines cannot be cut off.
    Loopback,
}

impl ClusterNetwork {
    /// Creates the namespaces of machines 1 to `machines`, if `.ci/cluster` has prepared for it.
    pub fn create(machines: usize) -> Result<Self, String> {
        if std::env::var_os("MIMIR_TEST_NAMESPACES").is_none() {
            return Ok(ClusterNetwork::Loopback);
        }
        ip(&format!("link add {BRIDGE_NAME} type bridge"))?;
        ip(&format!("addr add {BRIDGE}/24 dev {BRIDGE_NAME}"))?;
        ip(&format!("link set {BRIDGE_NAME} up"))?;
        for machine in 1..=machines {
            let (namespace, link) = (namespace(machine), link(machine));
            let address = ClusterNetwork::Namespaces.address(machine);
            ip(&format!("netns add {namespace}"))?;
            ip(&format!(
                "link add {link} type veth peer name eth0 netns {namespace}"
            ))?;
            ip(&format!("link set {link} master {BRIDGE_NAME} up"))?;
            ip(&format!("-n {namespace} addr add {address}/24 dev eth0"))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        Ok(ClusterNetwork::Namespaces)
    }

    /// Returns the address of a machine, for others.
    pub fn address(self, machine: usize) -> String {
        match self {
            ClusterNetwork::Namespaces => format!("10.83.0.{}", 10 + machine),
            ClusterNetwork::Loopback => "127.0.0.1".to_owned(),
        }
    }

    /// Returns a command that runs on a machine.
    pub fn command(self, machine: usize, program: &str) -> Command {
        match self {
            ClusterNetwork::Namespaces => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &namespace(machine), program]);
                command
            }
            ClusterNetwork::Loopback => Command::new(program),
        }
    }

    /// Cuts a machine off from all others, or connects it again.
    pub fn set_connected(self, machine: usize, is_connected: bool) -> Result<(), String> {
        let state = if is_connected { "up" } else { "down" };
        match self {
            ClusterNetwork::Namespaces => ip(&format!("link set {} {state}", link(machine))),
            ClusterNetwork::Loopback => Err("machines on loopback cannot be cut off".to_owned()),
        }
    }
}

fn namespace(machine: usize) -> String {
    format!("machine{machine}")
}

fn link(machine: usize) -> String {
    format!("mimirveth{machine}")
}

/// Runs `ip` of iproute2.
fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "ip {arguments}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

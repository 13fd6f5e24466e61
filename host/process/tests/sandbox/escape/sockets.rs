//! The network, and sockets of other host programs.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use mimir_process::sandbox::{CommandNetwork, SandboxError};

use crate::kit::{World, run_in, sandbox};

#[tokio::test]
async fn network_and_host_loopback_are_unreachable() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let said = world
        .sh(&format!(
            "python3 -c '
import socket
for address in [(\"127.0.0.1\", {port}), (\"10.0.0.1\", 80), (\"169.254.169.254\", 80), (\"192.0.2.1\", 443)]:
    try:
        socket.create_connection(address, 2); print(\"reached\", address)
    except OSError as e:
        print(e.strerror)'; ls /sys/class/net 2>/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"
        ))
        .await;
    let unreachable = "Network is unreachable\n".repeat(3);
    assert_eq!(
        said.out,
        format!("Connection refused\n{unreachable}lo\n"),
        "{said:?}"
    );
}

#[tokio::test]
async fn abstract_socket_of_the_host_is_unreachable() {
    let world = World::new();
    let name = format!("mimir-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let said = world
        .sh(&format!("python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"\\0{name}\"); print(\"reached\")'"))
        .await;
    assert_eq!(said.out, "", "{said:?}");
}

/// Returns a script that tries to connect to each of these sockets in the workspace.
fn reaches(names: &[&str]) -> String {
    let names = names
        .iter()
        .map(|name| format!("\"{name}\""))
        .collect::<Vec<_>>();
    format!(
        "python3 -c '
import socket
for name in [{}]:
    try:
        socket.socket(socket.AF_UNIX).connect(name); print(\"reached\", name)
    except OSError as e:
        pass'",
        names.join(", ")
    )
}

#[tokio::test]
async fn unix_socket_of_the_host_in_workspace_is_unreachable() {
    let world = World::new()
        .with("deep/er/x", "x")
        .with("node_modules/x", "x");
    let all = [
        "docker.sock",
        "deep/er/agent.sock",
        "node_modules/s",
        "long",
    ];
    let _listening: Vec<_> = all[..3]
        .iter()
        .map(|name| UnixListener::bind(world.path().join(name)).unwrap())
        .collect();
    // A link with another name than the bound one.
    let elsewhere = world.outside().join("elsewhere");
    let _linked = UnixListener::bind(&elsewhere).unwrap();
    std::fs::hard_link(&elsewhere, world.path().join("long")).unwrap();
    let said = world
        .sh(&format!("{}; rm -f docker.sock; echo end", reaches(&all)))
        .await;
    assert_eq!(said.out, "end\n", "{said:?}");
    assert!(world.path().join("docker.sock").exists());
}

#[tokio::test]
async fn unix_socket_of_a_command_is_reachable_by_later_ones() {
    let world = World::new().with("x", "x");
    drop(UnixListener::bind(world.path().join("dead")).unwrap());
    let server = world.script(
        "rm dead; exec python3 -c '
import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind(os.getcwd() + \"/s\"); s.listen(); t = socket.socket(socket.AF_UNIX); t.bind(\"t\"); t.listen()
open(\"ready\", \"w\"); time.sleep(50)'",
    );
    let serving = tokio::spawn(async move { run_in(&*sandbox(), &server).await });
    for _ in 0..1200 {
        if world.read("ready").is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    let said = world.sh(&reaches(&["s", "t"])).await;
    assert_eq!(said.out, "reached s\nreached t\n", "{said:?}");
    assert!(world.read("dead").is_none());
    serving.abort();
}

#[tokio::test]
async fn unix_sockets_of_the_host_are_invisible() {
    let world = World::new();
    let said = world
        .sh("ls -d /run/* /var/run/* /run/docker.sock /var/run/dbus/system_bus_socket /run/user/* /tmp/.X11-unix 2>/dev/null
             echo \"$DBUS_SESSION_BUS_ADDRESS$SSH_AUTH_SOCK$DISPLAY$DOCKER_HOST\"")
        .await;
    assert_eq!(said.out, "\n", "{said:?}");
}

#[tokio::test]
async fn network_modes_without_a_proxy_are_rejected() {
    let world = World::new();
    for network in [CommandNetwork::Proxy, CommandNetwork::Host] {
        let mut spec = world.script("true");
        spec.network = network;
        let fault = run_in(&*sandbox(), &spec).await.unwrap_err();
        assert!(matches!(fault, SandboxError::Unsupported { .. }), "{fault}");
    }
}

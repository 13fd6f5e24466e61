//! The files that start a cluster: environment files, a compose file, systemd units, Kubernetes manifests and a Helm
//! chart.

use std::fmt::Write as _;
use std::path::Path;

use super::ClusterFile;
use super::server_config::ServerAddress;
use crate::node::NodeRole;

/// Templates of the files. `@NAME@` is replaced.
const TEMPLATES: &[(&str, &str)] = &[
    ("README.md", include_str!("templates/README.md")),
    (
        "systemd/mimir-nats@.service",
        include_str!("templates/systemd/nats.service.txt"),
    ),
    (
        "systemd/mimir-front.service",
        include_str!("templates/systemd/front.service.txt"),
    ),
    (
        "systemd/mimir-worker.service",
        include_str!("templates/systemd/worker.service.txt"),
    ),
    (
        "kubernetes/mimir.yaml",
        include_str!("templates/kubernetes/mimir.yaml"),
    ),
    (
        "helm/mimir/Chart.yaml",
        include_str!("templates/helm/Chart.yaml"),
    ),
    (
        "helm/mimir/values.yaml",
        include_str!("templates/helm/values.yaml"),
    ),
    (
        "helm/mimir/values.schema.json",
        include_str!("templates/helm/values.schema.json"),
    ),
    (
        "helm/mimir/templates/_helpers.tpl",
        include_str!("templates/helm/templates/_helpers.tpl"),
    ),
    (
        "helm/mimir/templates/nats.yaml",
        include_str!("templates/helm/templates/nats.yaml"),
    ),
    (
        "helm/mimir/templates/front.yaml",
        include_str!("templates/helm/templates/front.yaml"),
    ),
    (
        "helm/mimir/templates/worker.yaml",
        include_str!("templates/helm/templates/worker.yaml"),
    ),
    (
        "helm/mimir/templates/setup.yaml",
        include_str!("templates/helm/templates/setup.yaml"),
    ),
    (
        "helm/mimir/templates/network-policy.yaml",
        include_str!("templates/helm/templates/network-policy.yaml"),
    ),
    (
        "helm/mimir/templates/NOTES.txt",
        include_str!("templates/helm/templates/NOTES.txt"),
    ),
];

/// Returns the files that start a cluster with these servers.
pub(super) fn files(
    servers: &[ServerAddress],
    folder: &Path,
    permissions: &str,
) -> Vec<ClusterFile> {
    let urls: Vec<String> = servers.iter().map(ServerAddress::url).collect();
    let pods: Vec<String> = servers
        .iter()
        .map(|server| format!("tls://{}.nats:4222", server.name))
        .collect();
    let pod_config = pod_config(servers.len());
    let values = [
        ("SERVERS", servers.len().to_string()),
        ("URLS", urls.join(",")),
        ("POD_URLS", pods.join(",")),
        ("VERSION", env!("CARGO_PKG_VERSION").to_owned()),
        ("NATS_CONF", indented(&pod_config, 4)),
        ("PERMISSIONS", indented(permissions, 4)),
        (
            "START_SERVERS",
            servers
                .iter()
                .map(|server| format!("nats-server -c nats/{}.conf &", server.name))
                .collect::<Vec<_>>()
                .join("\n"),
        ),
    ];
    let mut files: Vec<ClusterFile> = TEMPLATES
        .iter()
        .map(|(path, template)| ClusterFile::public(*path, fill(template, &values)))
        .collect();
    files.push(ClusterFile::public(
        "helm/mimir/files/permissions.conf",
        permissions,
    ));
    files.push(ClusterFile::public(
        "helm/mimir/files/nats.conf",
        pod_config,
    ));
    files.push(ClusterFile::public("compose.yaml", compose_file(servers)));
    for role in [NodeRole::Front, NodeRole::Worker, NodeRole::Admin] {
        files.push(ClusterFile::public(
            format!("env/{role}.env"),
            environment(role, &urls.join(","), folder),
        ));
    }
    files
}

/// Replaces `@NAME@` in a template.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    text
}

fn indented(text: &str, spaces: usize) -> String {
    let indent = " ".repeat(spaces);
    let lines = text.lines().map(|line| {
        if line.is_empty() {
            String::new()
        } else {
            format!("{indent}{line}")
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the configuration of the servers in Kubernetes, where the name comes from the pod.
fn pod_config(servers: usize) -> String {
    let cluster = if servers > 1 {
        let mut routes = String::new();
        for number in 0..servers {
            let _ = writeln!(routes, "    \"nats-route://nats-{number}.nats:6222\"");
        }
        include_str!("templates/kubernetes/nats-cluster.conf").replace("@ROUTES@\n", &routes)
    } else {
        String::new()
    };
    include_str!("templates/kubernetes/nats.conf").replace("@CLUSTER@\n", &cluster)
}

fn environment(role: NodeRole, urls: &str, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "# The connection of the role {role}. In a shell: set -a; . env/{role}.env; set +a\n\
         MIMIR_NATS=\"{urls}\"\n\
         MIMIR_NATS_KEY=\"{folder}/keys/{role}.nk\"\n\
         MIMIR_NATS_CA=\"{folder}/tls/ca.pem\"\n"
    )
}

/// Returns the compose file.
fn compose_file(servers: &[ServerAddress]) -> String {
    let urls: Vec<String> = servers
        .iter()
        .map(|server| format!("tls://{}:{}", server.name, server.port))
        .collect();
    let urls = urls.join(",");
    let mut text = include_str!("templates/compose-head.yaml").replace("@URLS@", &urls);
    for server in servers {
        let service = include_str!("templates/compose-nats.yaml").replace("@NAME@", &server.name);
        text.push_str(&service);
    }
    let names = servers
        .iter()
        .map(|server| format!("      - {}\n", server.name));
    let services = include_str!("templates/compose-tail.yaml");
    text.push_str(&services.replace("@NAMES@\n", &names.collect::<String>()));
    text.push_str("\nvolumes:\n  workspace:\n");
    for server in servers {
        let _ = writeln!(text, "  {}:", server.name);
    }
    text
}

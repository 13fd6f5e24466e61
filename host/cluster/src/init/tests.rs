//! Tests of the files of a new cluster.

use std::collections::BTreeSet;

use super::*;

fn options(servers: usize, hosts: &[&str]) -> InitOptions {
    InitOptions {
        servers,
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        ..InitOptions::default()
    }
}

fn files(servers: usize, hosts: &[&str]) -> Vec<ClusterFile> {
    cluster_files(&options(servers, hosts), Path::new("/srv/cluster")).unwrap()
}

fn content<'a>(files: &'a [ClusterFile], path: &str) -> &'a str {
    let file = files.iter().find(|file| file.path == path);
    &file.unwrap_or_else(|| panic!("{path}")).content
}

#[test]
fn init_replaces_every_placeholder_and_marks_secrets() {
    for servers in [1, 3] {
        let files = files(servers, &[]);
        let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths.len(), files.len());
        for file in &files {
            let placeholder = file.content.split('@').skip(1).find(|part| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            });
            assert_eq!(placeholder, None, "{}", file.path);
            let has_secret = file.content.contains("PRIVATE KEY")
                || file
                    .content
                    .split_whitespace()
                    .any(|word| word.starts_with("SU") && word.len() == 58)
                || file.path.ends_with(".token");
            assert_eq!(file.is_secret, has_secret, "{}", file.path);
        }
    }
}

#[test]
fn init_gives_servers_of_one_host_ports_of_their_own() {
    let files = files(3, &["localhost"]);
    let second = content(&files, "nats/nats-1.conf");
    for line in [
        "listen: \"127.0.0.1:4223\"",
        "listen: \"127.0.0.1:6223\"",
        "http: \"127.0.0.1:8223\"",
        "nats-route://localhost:6224",
    ] {
        assert!(second.contains(line), "{line}: {second}");
    }
    let environment = content(&files, "env/front.env");
    assert!(environment.contains("tls://localhost:4222,tls://localhost:4223,tls://localhost:4224"));
    assert!(environment.contains("/srv/cluster/keys/front.nk"));
}

#[test]
fn init_refuses_bad_servers() {
    for (servers, hosts, part) in [
        (0, &[][..], "expected 1, or 3"),
        (2, &[][..], "expected 1, or 3"),
        (5, &[][..], "expected 1, or 3"),
        (3, &["a", "b"][..], "one host for each"),
        (1, &["a b"][..], "not a host"),
        (1, &["a:1"][..], "not a host"),
        (1, &["\"\nx"][..], "not a host"),
        (1, &[""][..], "not a host"),
    ] {
        let error = cluster_files(&options(servers, hosts), Path::new("/c")).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let port = InitOptions {
        port: 65_000,
        ..InitOptions::default()
    };
    assert!(cluster_files(&port, Path::new("/c")).is_err());
}

#[test]
fn init_writes_valid_yaml_and_json() {
    let files = files(3, &["a.example.org", "b.example.org", "10.0.0.1"]);
    for file in &files {
        if file.path.ends_with(".json") {
            serde_json::from_str::<serde_json::Value>(&file.content).unwrap();
        }
    }
    assert!(content(&files, "nats/nats-2.conf").contains("nats-route://10.0.0.1:6222"));
}

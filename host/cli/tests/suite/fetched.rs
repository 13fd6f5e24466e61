//! `mimir tools add URL`: downloads a component, checks the request like any other, and installs it only if its digest
//! matches.

use crate::kit;
use crate::kit::plugin;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::kit::run;
use sha2::{Digest as _, Sha256};

/// A server of one file, with a redirect from `/moved/…`. Returns its address.
fn serve(file: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let answer = if head.starts_with("GET /moved/") {
                "HTTP/1.1 302 Found\r\nlocation: /prob.wasm\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
            } else if head.starts_with("GET /prob.wasm") {
                let length = file.len();
                format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")
            } else {
                "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    .to_owned()
            };
            // A client may close the connection early.
            let _ = stream.write_all(answer.as_bytes());
            if answer.contains("200 OK") {
                let _ = stream.write_all(&file);
            }
        }
    });
    address
}

#[test]
fn tools_add_url_requires_a_matching_digest_and_network() {
    let bytes = plugin::search();
    let digest = format!("{:x}", Sha256::digest(&bytes));
    let address = serve(bytes.clone());
    let home = tempfile::tempdir().unwrap();
    let kept = home.path().join(".mimir/tools/prob.wasm");
    fs::create_dir_all(kept.parent().unwrap()).unwrap();
    let url = format!("http://{address}/moved/prob.wasm");
    let add = |url: &str, digest: &[&str]| {
        let args = [&["tools", "add", url], digest].concat();
        run(home.path(), &args)
    };

    let (code, _, err) = add(&url, &[]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("--digest"), "{err}");

    // Servers on this machine are denied unless the user allows them.
    let (code, _, err) = add(&url, &["--digest", &digest]);
    assert!(code != 0 && err.contains("network"), "{code}: {err}");
    assert!(!kept.exists());

    let config = kit::config(home.path());
    fs::create_dir_all(&config).unwrap();
    let listed = format!("network: {{allowedHosts: ['{address}']}}\n");
    fs::write(config.join("config.yml"), listed).unwrap();
    let (code, _, err) = add(&url, &["--digest", &"0".repeat(64)]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains(&digest) && !kept.exists(), "{err}");

    let (code, _, err) = add(
        &format!("http://{address}/gone.wasm"),
        &["--digest", &digest],
    );
    assert!(code == 1 && err.contains("404"), "{code}: {err}");

    let (code, _, err) = add(&url, &["--digest", &digest]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("prob_search"), "{err}");
    assert_eq!(fs::read(&kept).unwrap(), bytes);

    // It is pinned by its digest: an update needs another one.
    let (code, out, err) = run(home.path(), &["tools", "update"]);
    assert_eq!(code, 0, "{out}{err}");
    let remedy = format!("mimir tools add {url} --digest SHA256 --force");
    assert!(out.contains("pinned") && out.contains(&remedy), "{out}");
    let (code, _, err) = run(home.path(), &["tools", "update", "prob"]);
    assert!(code == 2 && err.contains(&remedy), "{code}: {err}");

    let (code, _, err) = add(&format!("http://{address}/"), &["--digest", &digest]);
    assert_eq!(code, 1, "{err}");

    // A person's approval does not exceed a team's list.
    let team = config.join("team.yml");
    fs::write(&team, "network: {allowedHosts: [tools.example]}\n").unwrap();
    let args = ["tools", "add", &url, "--digest", &digest, "--force"];
    let mut capped = kit::mimir(home.path(), &args);
    let capped = capped.env("MIMIR_TEAM_POLICY", &team).output().unwrap();
    let err = String::from_utf8(capped.stderr).unwrap();
    assert!(err.contains("POLICY_DENIED"), "{err}");
    assert_eq!(capped.status.code(), Some(3), "{err}");

    fs::write(config.join("config.yml"), "network: {mode: none}\n").unwrap();
    let (code, _, err) = add(&url, &["--digest", &digest, "--force"]);
    assert!(code == 3 && err.contains("mode"), "{code}: {err}");
}

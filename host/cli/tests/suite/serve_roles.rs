//! Roles of the users of `mimir serve --issuer`: settings, the claim with the groups, and the audit log.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::kit::{config, run};
use crate::serve_http::{Serving, message};

/// An identity provider, and the resource of its tokens.
struct Provider {
    url: String,
    key: Ed25519KeyPair,
}

const RESOURCE: &str = "https://tools.example.com/mcp";

impl Provider {
    fn open() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "kid": "k", "use": "sig",
            "x": URL_SAFE_NO_PAD.encode(key.public_key())});
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let own_url = url.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                respond(&stream, &own_url, &jwk);
            }
        });
        Self { url, key }
    }

    /// Returns a token of this subject with these roles of the realm.
    fn token(&self, subject: &str, roles: &[&str]) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let header = json!({"alg": "EdDSA", "typ": "at+jwt", "kid": "k"});
        let claims = json!({"iss": self.url, "sub": subject, "aud": RESOURCE,
            "exp": now.as_secs() + 600, "realm_access": {"roles": roles}});
        let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let text = format!("{}.{}", part(&header), part(&claims));
        let signature = self.key.sign(text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn respond(mut stream: &TcpStream, own_url: &str, jwk: &Value) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let _ = lines.find(String::is_empty);
    let body = match first.split(' ').nth(1) {
        Some("/keys") => json!({ "keys": [jwk] }),
        _ => json!({"issuer": own_url, "jwks_uri": format!("{own_url}/keys")}),
    };
    let body = body.to_string();
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
    let _ =
        stream.write_all(format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes());
}

const ROLES: &str = "
roles:
  editor: {groups: [editors]}
  viewer:
    groups: [staff]
    tools: {allow: [read_file, list_directory]}
    budget: {callsPerMinute: 2}
  default: {tools: {deny: ['*']}}
";

/// A workspace with roles in the user's own settings.
fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(run(home.path(), &["init"]).0, 0);
    fs::write(home.path().join("notes.md"), "remember the milk\n").unwrap();
    fs::create_dir_all(config(home.path())).unwrap();
    fs::write(config(home.path()).join("config.yml"), ROLES).unwrap();
    home
}

/// The operator sees at the start that users get no links, and why; and that a secret is missing.
#[test]
fn serve_says_why_users_get_no_links_to_log_in() {
    let home = workspace();
    let servers = "mcp: {servers: {web: {url: 'http://127.0.0.1:1/mcp'}}}\n";
    fs::write(config(home.path()).join("config.yml"), servers).unwrap();
    let provider = Provider::open();
    let note = "users get no links to log in at MCP servers";
    let plain = [
        "--issuer",
        &provider.url,
        "--resource",
        "http://tools.example.com/mcp",
    ];
    let serving = Serving::start(home.path(), &plain);
    assert_eq!(serving.said.matches(note).count(), 1, "{}", serving.said);
    assert!(serving.said.contains("plain http"), "{}", serving.said);
    let serving = serve(home.path(), &provider);
    assert!(!serving.said.contains(note), "{}", serving.said);
    let secret = [
        "serve",
        "--http",
        "127.0.0.1:0",
        "--issuer",
        &provider.url,
        "--resource",
        RESOURCE,
        "--client-id",
        "mimir",
        "--client-secret",
        "${NOPE}",
    ];
    let (code, _, err) = run(home.path(), &secret);
    assert_ne!(code, 0, "{err}");
    assert!(
        err.contains("--client-secret") && err.contains("`NOPE`"),
        "{err}"
    );
    assert!(err.contains("mimir secrets set NOPE"), "{err}");
}

fn serve(home: &Path, provider: &Provider) -> Serving {
    let args = [
        "--issuer",
        provider.url.as_str(),
        "--resource",
        RESOURCE,
        "--groups-claim",
        "realm_access.roles",
    ];
    Serving::start(home, &args)
}

/// Sends a request of the protocol since 2026-07-28 with this token.
fn send(serving: &Serving, token: &str, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let token = format!("Bearer {token}");
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![
        ("authorization", token.as_str()),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
    ];
    if !name.is_empty() {
        headers.push(("mcp-name", &name));
    }
    serving
        .post(&headers, &message(7, method, params))
        .message(7)
}

#[test]
fn serve_roles_limit_users_by_their_groups() {
    let home = workspace();
    let provider = Provider::open();
    let serving = serve(home.path(), &provider);
    let listed = |token: &str| -> Vec<String> {
        let reply = send(&serving, token, "tools/list", json!({}));
        let tools = reply["result"]["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let read = json!({"name": "read_file", "arguments": {"path": "notes.md"}});
    let write = json!({"name": "write_file", "arguments": {"path": "new.md", "content": "x"}});
    let viewer = provider.token("vera", &["staff"]);
    assert_eq!(listed(&viewer), ["list_directory", "read_file"]);
    let editor = provider.token("ed", &["staff", "editors"]);
    assert!(listed(&editor).contains(&"write_file".to_owned()));
    let stranger = provider.token("sam", &[]);
    assert_eq!(listed(&stranger), [""; 0]);

    let reply = send(&serving, &viewer, "tools/call", read.clone()).to_string();
    assert!(reply.contains("the milk"), "{reply}");
    let reply = send(&serving, &viewer, "tools/call", write.clone()).to_string();
    assert!(
        reply.contains("POLICY_DENIED") && reply.contains("role `viewer`"),
        "{reply}"
    );
    assert!(!home.path().join("new.md").exists());
    let reply = send(&serving, &editor, "tools/call", write).to_string();
    assert!(
        reply.contains("\"isError\":false") || !reply.contains("POLICY_DENIED"),
        "{reply}"
    );
    let reply = send(&serving, &stranger, "tools/call", read.clone()).to_string();
    assert!(reply.contains("role `default`"), "{reply}");
    // The second call fits into the budget, the third does not.
    let reply = send(&serving, &viewer, "tools/call", read.clone()).to_string();
    assert!(reply.contains("the milk"), "{reply}");
    let reply = send(&serving, &viewer, "tools/call", read).to_string();
    assert!(
        reply.contains("roles.viewer.budget.callsPerMinute"),
        "{reply}"
    );

    let (_, out, _) = run(home.path(), &["audit", "show", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    let events = shown["events"].as_array().unwrap();
    let refused = |user: &str| {
        let mut events = events.iter();
        let event = events.find(|event| event["user"] == user && event["ok"] == false);
        event.unwrap_or_else(|| panic!("{user}: {out}"))["role"].clone()
    };
    assert_eq!(
        (refused("vera"), refused("sam")),
        (json!("viewer"), json!("default"))
    );
    let (code, out, _) = run(home.path(), &["audit", "verify"]);
    assert_eq!(code, 0, "{out}");
}

/// Roles of a checkout do not count before a person has accepted the file: they could give a user more rights.
#[test]
fn serve_roles_of_an_unaccepted_project_do_not_count() {
    let home = workspace();
    let project = home.path().join(".mimir/config.yml");
    fs::write(&project, "roles:\n  everything: {groups: [staff]}\n").unwrap();
    let provider = Provider::open();
    let serving = serve(home.path(), &provider);
    let viewer = provider.token("vera", &["staff"]);
    let reply = send(&serving, &viewer, "tools/list", json!({})).to_string();
    assert!(
        reply.contains("read_file") && !reply.contains("write_file"),
        "{reply}"
    );
    let (_, out, _) = run(home.path(), &["policy", "check"]);
    assert!(out.contains("roles"), "{out}");
}

#[test]
fn serve_roles_that_cannot_apply_are_refused_with_their_line() {
    let home = workspace();
    let file = config(home.path()).join("config.yml");
    for (text, part) in [
        ("roles:\n  viewer: {}\n", "roles.viewer.groups"),
        ("roles:\n  default: {groups: [x]}\n", "roles.default.groups"),
        (
            "roles:\n  viewer:\n    groups: [x]\n    rules: [{decision: allow}]\n",
            "roles.viewer.rules[0]",
        ),
        (
            "roles:\n  viewer: {groups: [x], tools: {only: [y]}}\n",
            "only",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let (code, _, error) = run(
            home.path(),
            &["serve", "--http", "0", "--issuer", "http://127.0.0.1:9"],
        );
        assert!(code != 0 && error.contains(part), "{text}: {error}");
    }
}

//! Login of people at the console of `mimir serve --issuer --console`.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::console::{body_of, cookie_in, send};
use crate::kit::{config, run};
use crate::serve_http::Serving;

/// An identity provider that logs in the person whose claims were set last.
struct LoginProvider {
    url: String,
    state: Arc<ProviderState>,
}

struct ProviderState {
    key: Ed25519KeyPair,
    url: String,
    /// Claims of the next token besides the usual ones.
    claims: Mutex<Value>,
    /// The authorization requests by code.
    requests: Mutex<HashMap<String, HashMap<String, String>>>,
}

impl LoginProvider {
    fn open() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(ProviderState {
            key: Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap(),
            url: url.clone(),
            claims: Mutex::default(),
            requests: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                shared.respond(&stream);
            }
        });
        Self { url, state }
    }

    /// Sends a browser to the provider. Returns where it goes next.
    fn visit(&self, url: &str, claims: Value) -> String {
        *self.state.claims.lock() = claims;
        let path = url.strip_prefix(self.url.as_str()).unwrap();
        let address = self.url.strip_prefix("http://").unwrap().parse().unwrap();
        let (status, response) = send(address, "GET", path, &[], "");
        assert_eq!(status, 302, "{response}");
        location_in(&response)
    }
}

impl ProviderState {
    fn respond(&self, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        let mut length = 0;
        let _ = reader.read_line(&mut first);
        loop {
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        let _ = reader.read_exact(&mut body);
        let target = first.split(' ').nth(1).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (status, more, answer) = match path {
            "/authorize" => {
                let request = form(query);
                let code = format!("code-{}", self.requests.lock().len());
                let next = format!(
                    "location: {}?code={code}&state={}\r\n",
                    request["redirect_uri"], request["state"]
                );
                self.requests.lock().insert(code, request);
                (302, next, Value::Null)
            }
            "/token" => match self.token(&form(&String::from_utf8(body).unwrap())) {
                Some(token) => {
                    let answer =
                        json!({"access_token": token, "token_type": "Bearer", "expires_in": 600});
                    (200, String::new(), answer)
                }
                None => (400, String::new(), json!({"error": "invalid_grant"})),
            },
            "/keys" => {
                let key = URL_SAFE_NO_PAD.encode(self.key.public_key());
                let key =
                    json!({"kty": "OKP", "crv": "Ed25519", "kid": "k", "use": "sig", "x": key});
                (200, String::new(), json!({ "keys": [key] }))
            }
            _ => {
                let url = &self.url;
                let about = json!({"issuer": url, "authorization_endpoint": format!("{url}/authorize"),
                    "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/keys"),
                    "code_challenge_methods_supported": ["S256"]});
                (200, String::new(), about)
            }
        };
        let text = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: application/json\r\n{more}content-length: {}\r\n\r\n",
            text.len()
        );
        let _ = stream.write_all(format!("{head}{text}").as_bytes());
    }

    /// Returns a token for a code, if the client knows the verifier of its request.
    fn token(&self, form: &HashMap<String, String>) -> Option<String> {
        let request = self.requests.lock().remove(form.get("code")?)?;
        let challenge = digest(&SHA256, form.get("code_verifier")?.as_bytes());
        let challenge = URL_SAFE_NO_PAD.encode(challenge);
        let is_own = request["code_challenge"] == challenge
            && request["code_challenge_method"] == "S256"
            && request["client_id"] == "console-client"
            && form.get("client_id")? == "console-client"
            && request["redirect_uri"] == *form.get("redirect_uri")?;
        assert!(is_own, "{request:?} {form:?}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut claims =
            json!({"iss": self.url, "aud": request["resource"], "exp": now.as_secs() + 600});
        let own = self.claims.lock().clone();
        claims.as_object_mut()?.extend(own.as_object()?.clone());
        let header = json!({"alg": "EdDSA", "typ": "at+jwt", "kid": "k"});
        let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let text = format!("{}.{}", part(&header), part(&claims));
        let signature = self.key.sign(text.as_bytes());
        Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Decodes a query or a form.
fn form(text: &str) -> HashMap<String, String> {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            match byte {
                b'+' => bytes.push(b' '),
                b'%' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    let digits = str::from_utf8(&digits).unwrap();
                    bytes.push(u8::from_str_radix(digits, 16).unwrap());
                }
                byte => bytes.push(byte),
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

fn location_in(response: &str) -> String {
    let line = response
        .lines()
        .find_map(|line| line.strip_prefix("location: "));
    line.unwrap_or_else(|| panic!("{response}")).to_owned()
}

const SETTINGS: &str = "
console:
  clientId: console-client
  roles:
    viewer: [group:staff]
    approver: ['email:app@example.com']
    admin: ['subject:root']
";

fn workspace() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(run(home.path(), &["init"]).0, 0);
    fs::create_dir_all(config(home.path())).unwrap();
    write_settings(home.path(), SETTINGS);
    home
}

fn write_settings(home: &Path, settings: &str) {
    fs::write(config(home).join("config.yml"), settings).unwrap();
}

/// Logs a person in. Returns the response to the callback.
fn log_in(serving: &Serving, provider: &LoginProvider, claims: Value) -> (u16, String) {
    let (status, begun) = send(serving.address, "GET", "/console/login", &[], "");
    assert_eq!(status, 303, "{begun}");
    let next = provider.visit(&location_in(&begun), claims);
    let path = next
        .strip_prefix(&format!("http://{}", serving.address))
        .unwrap_or_else(|| panic!("{next}"));
    let step = cookie_in(&begun);
    let foreign = send(
        serving.address,
        "GET",
        &path.replace("state=", "state=x"),
        &[&step],
        "",
    );
    assert_eq!(foreign.0, 400, "{}", foreign.1);
    let answer = send(serving.address, "GET", path, &[&step], "");
    let replayed = send(serving.address, "GET", path, &[&step], "");
    assert_eq!(replayed.0, 400, "{}", replayed.1);
    answer
}

#[test]
fn console_login_gives_the_roles_of_the_settings() {
    let home = workspace();
    let provider = LoginProvider::open();
    let serving = Serving::start(home.path(), &["--console", "--issuer", &provider.url]);
    let (status, response) = send(serving.address, "GET", "/console/api/state", &[], "");
    assert_eq!(
        (status, &body_of(&response)["error"]["login"]),
        (401, &json!("login"))
    );
    assert_eq!(send(serving.address, "GET", "/console/", &[], "").0, 200);
    let (_, begun) = send(serving.address, "GET", "/console/login", &[], "");
    let authorize = location_in(&begun);
    // The provider knows mimir by `clientId` of the settings.
    assert!(
        authorize.contains("client_id=console-client"),
        "{authorize}"
    );
    for (claims, role, name) in [
        (json!({"sub": "u1", "groups": ["staff"]}), "viewer", "u1"),
        (
            json!({"sub": "u2", "groups": ["staff"], "email": "app@example.com", "email_verified": true}),
            "approver",
            "app@example.com",
        ),
        (json!({"sub": "root"}), "admin", "root"),
    ] {
        let (status, response) = log_in(&serving, &provider, claims);
        assert_eq!(status, 303, "{response}");
        let cookie = cookie_in(&response);
        let (_, response) = send(serving.address, "GET", "/console/api/state", &[&cookie], "");
        let state = body_of(&response);
        assert_eq!(
            (&state["role"], &state["user"]),
            (&json!(role), &json!(name))
        );
        assert_eq!(state["local"], false);
        let (status, _) = send(
            serving.address,
            "POST",
            "/console/api/start",
            &[&cookie],
            "{}",
        );
        assert_eq!(status == 403, role != "admin", "{role}: {status}");
    }
    // An address that was not verified, another group, and a subject that only looks like a group.
    for claims in [
        json!({"sub": "u3", "email": "app@example.com"}),
        json!({"sub": "u4", "groups": ["others"]}),
        json!({"sub": "group:staff"}),
    ] {
        let (status, response) = log_in(&serving, &provider, claims);
        assert_eq!(status, 403, "{response}");
        assert!(!response.contains("set-cookie"), "{response}");
    }
    let (_, shown, _) = run(home.path(), &["audit", "show", "--json"]);
    assert!(
        shown.contains("console-login") && shown.contains("app@example.com"),
        "{shown}"
    );
}

#[test]
fn console_login_comes_back_below_the_path_of_the_proxy() {
    let home = workspace();
    let provider = LoginProvider::open();
    let start = |resource: &str| {
        let args = [
            "--console",
            "--issuer",
            &provider.url,
            "--resource",
            resource,
            "--host",
            "127.0.0.1",
        ];
        Serving::start(home.path(), &args)
    };
    for (resource, callback) in [
        (
            "https://proxy.test/mimir/mcp",
            "https://proxy.test/mimir/console/login/callback",
        ),
        (
            "https://proxy.test/mcp",
            "https://proxy.test/console/login/callback",
        ),
    ] {
        // The proxy has removed the beginning of the path.
        let serving = start(resource);
        let (status, begun) = send(serving.address, "GET", "/console/login", &[], "");
        assert_eq!(status, 303, "{begun}");
        let location = location_in(&begun);
        let (_, query) = location.split_once('?').unwrap();
        assert_eq!(form(query)["redirect_uri"], callback);
    }
    let (code, _, err) = run(
        home.path(),
        &[
            "serve",
            "--http",
            "127.0.0.1:0",
            "--console",
            "--issuer",
            &provider.url,
            "--resource",
            "https://proxy.test/a;Domain=test/mcp",
        ],
    );
    assert!(code == 2 && err.contains("the path of --resource"), "{err}");
}

#[test]
fn console_roles_of_a_project_count_for_nothing() {
    let home = workspace();
    write_settings(home.path(), "console: {clientId: console-client}\n");
    let everyone = "console: {roles: {admin: ['group:staff']}}\n";
    fs::write(home.path().join(".mimir/config.yml"), everyone).unwrap();
    let provider = LoginProvider::open();
    let serving = Serving::start(home.path(), &["--console", "--issuer", &provider.url]);
    let claims = json!({"sub": "u1", "groups": ["staff"]});
    let (status, response) = log_in(&serving, &provider, claims);
    assert_eq!(status, 403, "{response}");
}

//! `mimir mcp login` and `logout`: access to a server for one person and nobody else.

use crate::kit;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::kit::login::{REFRESH, TOKEN, open};
use crate::kit::{mimir, run};
use serde_json::{Value, json};

fn workspace(url: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    assert_eq!(run(home, &["init"]).0, 0);
    let url = format!("{url}/mcp");
    let added = run(home, &["mcp", "add", "web", "--url", &url, "--user"]);
    assert_eq!(added.0, 0, "{}", added.2);
    folder
}

/// A login that waits for its redirect.
struct Waiting {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    /// The output before the URL, and the URL.
    said: String,
    page: String,
}

impl Waiting {
    fn start(home: &Path, more: &[&str]) -> Self {
        let args = [&["mcp", "login", "web", "--json"], more].concat();
        let mut command = mimir(home, &args);
        command.env_remove("BROWSER").stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut waiting = Self {
            child,
            stderr,
            said: String::new(),
            page: String::new(),
        };
        while waiting.page.is_empty() {
            let mut line = String::new();
            let read = waiting.stderr.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended: {}", waiting.said);
            if line.starts_with("  http") && waiting.said.contains("This page logs you in") {
                waiting.page = line.trim().to_owned();
            }
            waiting.said.push_str(&line);
        }
        waiting
    }

    /// A query parameter of the URL.
    fn field(&self, name: &str) -> String {
        let query = self.page.split_once('?').unwrap().1;
        let field = query.split('&').find_map(|one| {
            let (key, value) = one.split_once('=')?;
            (key == name).then(|| value.to_owned())
        });
        let text = field.unwrap_or_else(|| panic!("no {name}: {}", self.page));
        text.replace("%3A", ":").replace("%2F", "/")
    }

    /// Simulates the browser's redirect with this query; returns the page it shows.
    fn comes_back(&self, query: &str) -> String {
        let redirect = self.field("redirect_uri");
        let place = redirect.strip_prefix("http://").unwrap();
        let host = place.strip_suffix("/callback").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let head =
            format!("GET /callback?{query} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    }

    /// Exit code, stdout and the rest of stderr.
    fn end(mut self) -> (i32, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.stderr.read_to_string(&mut err).unwrap();
        let mut stdout = self.child.stdout.take().unwrap();
        stdout.read_to_string(&mut out).unwrap();
        (self.child.wait().unwrap().code().unwrap(), out, err)
    }
}

/// The text of all files below a folder.
fn all(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => text.push_str(&all(&path)),
            path => text.push_str(&String::from_utf8_lossy(&std::fs::read(path).unwrap())),
        }
    }
    text
}

#[test]
fn mcp_login_and_logout_never_show_the_token() {
    let (url, seen) = open();
    let folder = workspace(&url);
    let home = folder.path();
    let (code, _, err) = run(home, &["mcp", "test", "web"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("mimir mcp login web"), "{err}");

    let waiting = Waiting::start(home, &[]);
    // The host of the page is shown before its URL.
    assert!(
        waiting.said.contains(&format!("{url}/mcp")),
        "{}",
        waiting.said
    );
    assert!(waiting.said.contains("logs you in, and gets the code from"));
    assert!(waiting.page.starts_with(&format!("{url}/authorize?")));
    let state = waiting.field("state");
    for stray in ["", "code=evil", "code=evil&state=0", "error=no"] {
        let page = waiting.comes_back(stray);
        assert!(page.starts_with("HTTP/1.1 400"), "{stray}: {page}");
    }
    let page = waiting.comes_back(&format!("code=%3Cb%3Egood&state={state}"));
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("You are logged in") && !page.contains("<b>"));
    let (code, out, err) = waiting.end();
    assert_eq!(code, 0, "{err}");
    let login: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(login["login"]["issuer"], url.as_str());
    let mut told = format!("{out}{err}");
    let codes = seen.lock().join("\n");
    assert!(!codes.contains("evil"), "{codes}");

    let file = kit::config(home).join("secrets.json");
    // Windows has a keyring.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(std::fs::read_to_string(&file).unwrap().contains(REFRESH));
    }
    let (_, out, _) = run(home, &["secrets", "list", "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap()["secrets"],
        json!([])
    );
    let call = ["call", "mcp_web_go", "--approve", "always", "--json"];
    for args in [
        &["mcp", "test", "web"][..],
        &["mcp", "list", "--json"],
        &["tools", "trust", "mcp_web_go", "--yes"],
        &call,
        &["audit", "show"],
    ] {
        let (_, out, err) = run(home, args);
        told.push_str(&format!("{args:?}\n{out}{err}"));
    }
    assert!(told.contains("logged in by"), "{told}");
    let sent = seen.lock().join("\n");
    assert!(sent.contains(&format!("[Bearer {TOKEN}]")), "{sent}");
    told.push_str(&all(&home.join(".mimir")));
    assert!(!told.contains(TOKEN) && !told.contains(REFRESH), "{told}");

    let (code, _, err) = run(home, &["mcp", "logout", "web"]);
    assert_eq!(code, 0, "{err}");
    assert!(!std::fs::read_to_string(&file).unwrap().contains(REFRESH));
    assert_eq!(run(home, &["mcp", "test", "web"]).0, 1);
    assert_ne!(run(home, &["mcp", "logout", "web"]).0, 0);
}

#[test]
fn mcp_login_accepts_a_pasted_redirect_url() {
    let (url, _) = open();
    let folder = workspace(&url);
    let mut waiting = Waiting::start(folder.path(), &[]);
    let (redirect, state) = (waiting.field("redirect_uri"), waiting.field("state"));
    let mut to = waiting.child.stdin.take().unwrap();
    writeln!(to, "\nnothing\n{redirect}?code=c&state=wrong").unwrap();
    writeln!(to, "  {redirect}?code=good&state={state}").unwrap();
    let (code, _, err) = waiting.end();
    assert_eq!(code, 0, "{err}");
    assert_eq!(run(folder.path(), &["mcp", "test", "web"]).0, 0);
}

#[test]
fn mcp_login_ends_on_timeout_or_foreign_issuer() {
    let (url, seen) = open();
    let folder = workspace(&url);
    let waiting = Waiting::start(folder.path(), &["--timeout", "1"]);
    let (code, out, _) = waiting.end();
    assert_eq!(code, 4, "{out}");
    assert!(out.contains("TIMEOUT"), "{out}");
    // A redirect with a foreign issuer ends the login.
    let waiting = Waiting::start(folder.path(), &[]);
    let state = waiting.field("state");
    let page = waiting.comes_back(&format!(
        "code=c&state={state}&iss=https%3A%2F%2Fevil.example"
    ));
    assert!(page.starts_with("HTTP/1.1 400"), "{page}");
    let (code, out, _) = waiting.end();
    assert_eq!(code, 3, "{out}");
    assert!(!seen.lock().join("\n").contains("/token"));
}

// The browser is a shell script.
#[cfg(unix)]
#[test]
fn mcp_login_starts_the_browser_given_by_option() {
    use std::os::unix::fs::PermissionsExt as _;
    let (url, _) = open();
    let folder = workspace(&url);
    let home = folder.path();
    let script = home.join("browser");
    std::fs::write(&script, "#!/bin/sh\nprintf %s \"$1\" > \"$0.seen\"\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let shown = script.display().to_string();
    let waiting = Waiting::start(home, &["--browser", &shown, "--timeout", "2"]);
    let page = waiting.page.clone();
    assert_eq!(waiting.end().0, 4);
    // Nothing waits for the browser.
    let seen = || std::fs::read_to_string(home.join("browser.seen")).unwrap_or_default();
    kit::eventually("the browser has the address of the page", || seen() == page);
}

#[test]
fn mcp_login_of_an_unaccepted_project_is_refused() {
    let (url, seen) = open();
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    assert_eq!(run(home, &["init"]).0, 0);
    let config = json!({"mcp": {"servers": {"web": {"url": format!("{url}/mcp"),
        "oauth": {"clientId": "theirs"}}}}});
    std::fs::write(home.join(".mimir/config.yml"), config.to_string()).unwrap();
    let (code, _, err) = run(home, &["mcp", "login", "web"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("mimir policy accept"), "{err}");
    assert!(seen.lock().is_empty());
    // Programs and unknown servers have no login.
    for (name, code) in [("none", 2), ("web2", 2)] {
        assert_eq!(run(home, &["mcp", "login", name]).0, code);
    }
}

#[test]
fn mcp_add_stores_and_checks_oauth_options() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    std::fs::create_dir(home.join(".mimir")).unwrap();
    let url = ["mcp", "add", "web", "--url", "https://example.com/mcp"];
    let login = [
        ["--issuer", "https://login.example.com"],
        ["--client-id", "1234"],
        ["--client-secret", "${WEB_SECRET}"],
        ["--scope", "read"],
        ["--scope", "write"],
    ];
    let words: Vec<&str> = url.into_iter().chain(login.concat()).collect();
    let (code, out, err) = run(home, &words);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(run(home, &["config", "check"]).0, 0);
    let (_, out, _) = run(home, &["config", "get", "mcp.servers.web.oauth", "--json"]);
    let kept: Value = serde_json::from_str(&out).unwrap();
    let wanted = json!({"issuer": "https://login.example.com", "clientId": "1234",
        "clientSecret": "${WEB_SECRET}", "scopes": ["read", "write"]});
    let kept = kept.get("value").unwrap_or(&kept);
    assert_eq!(*kept, wanted, "{out}");
    // A secret without a client, a client without a server, and a secret that would be sent to any server.
    let program = ["mcp", "add", "x", "--client-id", "1", "--", "sh"];
    assert_eq!(run(home, &program).0, 2);
    let url = ["mcp", "add", "x", "--url", "https://example.com/mcp"];
    for more in [
        vec!["--client-secret", "${WEB_SECRET}"],
        vec!["--client-id", "1", "--client-secret", "${WEB_SECRET}"],
    ] {
        let words: Vec<&str> = url.into_iter().chain(more).collect();
        let (code, out, err) = run(home, &words);
        assert_eq!(code, 2, "{out}{err}");
    }
}

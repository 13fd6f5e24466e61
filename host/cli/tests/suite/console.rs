//! `mimir console`: the link, and tools that try to reach it.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::command_workspace::CommandWorkspace;
use crate::kit::scripts::{call, tool, workspace};
use crate::kit::{config, eventually, mimir, run};
use crate::serve_http::Serving;

/// A running console. Dropping it stops it.
pub struct RunningConsole {
    child: Child,
    /// Address of its listener on this machine.
    pub address: SocketAddr,
    /// The one-time link, and that for a phone.
    pub link: String,
    pub pairing: Option<String>,
}

impl RunningConsole {
    /// Starts `mimir console` with a command that has the arguments before `console`.
    pub fn start(mut command: Command, args: &[&str]) -> Self {
        command.args(["console", "--no-open", "--json"]).args(args);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut printed = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
        let links = printed.next().unwrap().unwrap();
        let text = |name: &str| links[name].as_str().map(str::to_owned);
        let link = text("url").unwrap();
        Self {
            child,
            address: address_of(&link),
            link,
            pairing: text("pairingUrl"),
        }
    }

    pub fn of(home: &Path) -> Self {
        Self::start(mimir(home, &[]), &[])
    }
}

impl Drop for RunningConsole {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in a link.
pub fn address_of(link: &str) -> SocketAddr {
    link.split('/').nth(2).unwrap().parse().unwrap()
}

/// The path of a link, which ends with a slash, and its key.
fn parts_of(link: &str) -> (String, &str) {
    let (page, key) = link.split_once("#key=").unwrap();
    let path = page.splitn(4, '/').nth(3).unwrap();
    (format!("/{path}"), key)
}

/// Sends a request as the page does. Returns the status and the whole response.
pub fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    if method == "POST" {
        head.push_str(&format!(
            "origin: http://{address}\r\ncontent-type: application/json\r\nx-mimir-console: 1\r\ncontent-length: {}\r\n",
            body.len()
        ));
    }
    stream
        .write_all(format!("{head}\r\n{body}").as_bytes())
        .unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    let response = String::from_utf8_lossy(&response).into_owned();
    let status = response
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok());
    (status.unwrap_or(0), response)
}

/// Uses a link. Returns the path of the page and the cookie as a header.
pub fn log_in(link: &str) -> (String, String) {
    let (path, key) = parts_of(link);
    let body = json!({ "key": key }).to_string();
    let login = format!("{path}api/login");
    let (status, response) = send(address_of(link), "POST", &login, &[], &body);
    assert_eq!(status, 204, "{response}");
    (path, cookie_in(&response))
}

/// The cookie that a response sets, as a header.
pub fn cookie_in(response: &str) -> String {
    let line = response
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap_or_else(|| panic!("{response}"));
    format!("cookie: {}", line.split(';').next().unwrap())
}

/// The JSON in a response.
pub fn body_of(response: &str) -> Value {
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_default()
}

#[test]
fn console_shows_the_workspace_after_the_link_was_opened_once() {
    let home = workspace(&[]);
    let console = RunningConsole::of(home.path());
    let (path, _) = parts_of(&console.link);
    let (status, page) = send(console.address, "GET", &path, &[], "");
    assert!(status == 200 && page.contains("console.js"), "{page}");
    let state = format!("{path}api/state");
    assert_eq!(send(console.address, "GET", &state, &[], "").0, 401);
    let (_, cookie) = log_in(&console.link);
    let (status, response) = send(console.address, "GET", &state, &[&cookie], "");
    assert_eq!(status, 200, "{response}");
    let state = body_of(&response);
    assert_eq!(state["role"], "admin");
    assert_eq!(state["stop"], Value::Null);
    for list in [
        "calls",
        "questions",
        "record",
        "tools",
        "policy",
        "undo",
        "servers",
    ] {
        let path = format!("{path}api/{list}");
        let (status, response) = send(console.address, "GET", &path, &[&cookie], "");
        assert_eq!(status, 200, "{list}: {response}");
    }
    let (_, key) = parts_of(&console.link);
    let body = json!({ "key": key }).to_string();
    let again = format!("{path}api/login");
    assert_eq!(send(console.address, "POST", &again, &[], &body).0, 401);
}

#[test]
fn console_logins_are_on_the_record() {
    let home = workspace(&[]);
    let console = RunningConsole::start(mimir(home.path(), &[]), &["--lan", "127.0.0.1"]);
    let pairing = console.pairing.clone().unwrap();
    log_in(&console.link);
    log_in(&pairing);
    let (path, key) = parts_of(&console.link);
    let body = json!({ "key": key }).to_string();
    let again = format!("{path}api/login");
    let agent = "user-agent: Evil/1.0 \u{202e}x";
    assert_eq!(
        send(console.address, "POST", &again, &[agent], &body).0,
        401
    );
    let (_, shown, _) = run(
        home.path(),
        &["audit", "show", "--json", "--event", "console-login"],
    );
    let shown_value: Value = serde_json::from_str(&shown).unwrap();
    let lines = shown_value["events"].as_array().unwrap();
    let details: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["detail"].as_str())
        .collect();
    assert_eq!(
        details,
        [
            "opened a one-time link as admin, from 127.0.0.1",
            "paired a phone as approver, from 127.0.0.1",
            "a one-time link was refused, from 127.0.0.1, with Evil/1.0 \\u{202e}x",
        ]
    );
    assert_eq!(lines[2]["ok"], false, "{shown}");
    for secret in [key, parts_of(&pairing).1] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// A console that has started a browser, which notes its arguments and what it reads.
struct BrowserConsole {
    child: Child,
    home: tempfile::TempDir,
    page: std::path::PathBuf,
}

impl BrowserConsole {
    fn start() -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let home = workspace(&[]);
        let browser = home.path().join("browser");
        let program = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\ncp \"$1\" page\nstat -c %a \"$1\" > mode\nprintf '%s\\n' \"$@\" > args.new\nmv args.new args\nexec sleep 60 \"$@\"\n";
        fs::write(&browser, program).unwrap();
        fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = mimir(home.path(), &["console"]);
        let child = command
            .env("BROWSER", &browser)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let args = home.path().join("args");
        eventually("the browser is not started", || args.exists());
        let args = fs::read_to_string(args).unwrap();
        Self {
            child,
            page: args.trim_end().into(),
            home,
        }
    }

    /// The link in the page.
    fn link(&self) -> String {
        let page = fs::read_to_string(self.home.path().join("page")).unwrap();
        let (_, rest) = page.split_once("content=\"0; url=").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    }
}

impl Drop for BrowserConsole {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn console_link_is_no_argument_that_other_users_see() {
    let console = BrowserConsole::start();
    let link = console.link();
    let (_, key) = parts_of(&link);
    assert!(key.len() >= 43, "{link}");
    // The arguments of all processes, as every user of the machine can read them.
    let mut read = 0;
    for process in fs::read_dir("/proc").unwrap() {
        let Ok(arguments) = fs::read(process.unwrap().path().join("cmdline")) else {
            continue;
        };
        read += usize::from(!arguments.is_empty());
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        assert!(!arguments.contains(key), "{arguments}");
    }
    assert!(read > 1);
    let mode = fs::read_to_string(console.home.path().join("mode")).unwrap();
    assert_eq!(mode.trim(), "600");
    // It is among the files that sandboxes hide.
    let live = config(console.home.path()).join("live");
    assert_eq!(console.page.parent(), Some(live.as_path()));
    assert!(console.page.exists());
    log_in(&link);
    eventually("the page stays after its use", || !console.page.exists());
}

#[test]
fn console_page_with_its_link_ends_with_the_console() {
    let mut console = BrowserConsole::start();
    assert!(console.page.exists());
    let process = rustix::process::Pid::from_child(&console.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    console.child.wait().unwrap();
    assert!(!console.page.exists());
    // After a crash, the next process that connects to a host removes it.
    let mut console = BrowserConsole::start();
    console.child.kill().unwrap();
    console.child.wait().unwrap();
    assert!(console.page.exists());
    open_settings(console.home.path());
    let url = format!("url=http://127.0.0.1:{}/", site());
    call(console.home.path(), &["web_fetch", &url]);
    assert!(!console.page.exists());
}

#[test]
fn console_pairs_a_phone_that_cannot_change_rules() {
    let home = workspace(&[]);
    let console = RunningConsole::start(mimir(home.path(), &[]), &["--lan", "127.0.0.1"]);
    let pairing = console.pairing.clone().unwrap();
    let phone = address_of(&pairing);
    assert_ne!(phone, console.address);
    let (path, cookie) = log_in(&pairing);
    let state = format!("{path}api/state");
    let (status, response) = send(phone, "GET", &state, &[&cookie], "");
    assert_eq!(
        (status, &body_of(&response)["role"]),
        (200, &json!("approver"))
    );
    let stop = format!("{path}api/stop");
    assert_eq!(send(phone, "POST", &stop, &[&cookie], "{}").0, 403);
    let (code, _, err) = run(home.path(), &["console", "--no-open", "--lan", "8.8.8.8"]);
    assert!(
        code == 2 && err.contains("not an address of a local network"),
        "{err}"
    );
}

/// A server of the person, which tools may reach. Returns its port.
fn site() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9\r\nconnection: close\r\n\r\nfrom site";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

/// Everything that a person can grant to reach this machine.
const OPEN: &str = "network: {mode: any, allowedHosts: [localhost, '127.0.0.1', '[::1]', '0.0.0.0', alias.test], hosts: {alias.test: [127.0.0.1]}, blockPrivateIPs: false}\n";

fn open_settings(home: &Path) {
    fs::create_dir_all(config(home)).unwrap();
    fs::write(config(home).join("config.yml"), OPEN).unwrap();
}

#[test]
fn console_is_out_of_reach_of_tools_with_granted_hosts() {
    let code = "
export async function execute(args, { fetch }) {
  return await (await fetch(args.url)).text();
}";
    let home = workspace(&[("sends.yml", &tool("sends", code))]);
    open_settings(home.path());
    let console = RunningConsole::of(home.path());
    let (path, _) = parts_of(&console.link);
    let port = console.address.port();
    let fetch = |tool: &str, host: &str, port: u16, path: &str| {
        let url = format!("url=http://{host}:{port}{path}");
        call(home.path(), &[tool, &url]).to_string()
    };
    let other = site();
    for tool in ["sends", "web_fetch"] {
        // The same grants reach another server.
        let text = fetch(tool, "localhost", other, "/");
        assert!(text.contains("from site"), "{tool}: {text}");
        for host in ["localhost", "127.0.0.1", "alias.test", "127.0.0.2"] {
            let text = fetch(tool, host, port, &path);
            assert!(text.contains("POLICY_DENIED"), "{tool} {host}: {text}");
            assert!(
                text.contains("is a console of mimir"),
                "{tool} {host}: {text}"
            );
        }
    }
    // It is only refused while it runs.
    drop(console);
    let text = fetch("sends", "127.0.0.1", port, &path);
    assert!(!text.contains("is a console of mimir"), "{text}");
}

#[test]
fn console_of_a_server_is_out_of_reach_of_its_tools() {
    let home = workspace(&[]);
    open_settings(home.path());
    let serving = Serving::start(home.path(), &["--console"]);
    let url = format!("url=http://{}/console/", serving.address);
    let text = call(home.path(), &["web_fetch", &url]).to_string();
    assert!(text.contains("is a console of mimir"), "{text}");
    let (code, _, err) = run(
        home.path(),
        &["serve", "--http", "0.0.0.0:0", "--host", "x", "--console"],
    );
    assert!(code == 2 && err.contains("needs a login"), "{err}");
}

#[test]
fn console_of_a_team_is_out_of_reach_by_its_public_name() {
    let home = workspace(&[]);
    open_settings(home.path());
    // The reverse proxy of the server, and another server of the same host.
    let (proxy, other) = (site(), site());
    let resource = format!("https://alias.test:{proxy}/mimir/mcp");
    let fetch = |url: &str| call(home.path(), &["web_fetch", &format!("url={url}")]).to_string();
    let urls = [
        format!("http://alias.test:{proxy}/mimir/console/"),
        format!("https://alias.test:{proxy}/mimir/console/"),
        format!("http://ALIAS.test.:{proxy}/"),
    ];
    let before = fetch(&urls[0]);
    assert!(before.contains("from site"), "{before}");
    let args = [
        "--console",
        "--issuer",
        "http://127.0.0.1:9",
        "--resource",
        &resource,
    ];
    let serving = Serving::start(home.path(), &args);
    for url in &urls {
        let text = fetch(url);
        assert!(text.contains("is a console of mimir"), "{url}: {text}");
    }
    let text = fetch(&format!("http://alias.test:{other}/"));
    assert!(text.contains("from site"), "{text}");
    let direct = fetch(&format!("http://{}/console/", serving.address));
    assert!(direct.contains("is a console of mimir"), "{direct}");
}

#[test]
#[cfg(target_os = "linux")]
fn console_is_out_of_reach_of_sandboxed_commands() {
    let settings = format!("{OPEN}sandbox: {{networkAccess: true}}\n");
    let fixture = CommandWorkspace::with(&settings);
    let mut command = Command::new(crate::kit::program());
    command
        .current_dir(fixture.path().join("work"))
        .env("MIMIR_CONFIG_DIR", fixture.path().join("user"))
        .env("MIMIR_CACHE_DIR", crate::kit::target_folder("cache"))
        .stdin(Stdio::null());
    let console = RunningConsole::start(command, &[]);
    let port = console.address.port();
    let (path, _) = parts_of(&console.link);
    let program = |url: &str| {
        format!(
            "python3 - <<'END'\nimport os, urllib.request, urllib.error\nproxy = os.environ.get('http_proxy') or os.environ.get('HTTP_PROXY')\nopener = urllib.request.build_opener(urllib.request.ProxyHandler({{'http': proxy}}))\nos.environ['no_proxy'] = ''\ntry:\n  print(opener.open('{url}').read().decode())\nexcept urllib.error.HTTPError as error:\n  print(error.code, error.read().decode())\nexcept Exception as error:\n  print(error)\nEND"
        )
    };
    let other = fixture.output(&program(&format!("http://localhost:{}/", site())));
    assert!(other.contains("from site"), "{other}");
    for host in ["localhost", "127.0.0.1", "alias.test"] {
        let output = fixture.output(&program(&format!("http://{host}:{port}{path}")));
        assert!(output.contains("is a console of mimir"), "{host}: {output}");
        assert!(!output.contains("console.js"), "{host}: {output}");
    }
    // A tunnel, and a connection without the proxy.
    let tunnel = format!(
        "no_proxy= NO_PROXY= curl -s -k https://localhost:{port}{path}; echo tunnel $?; curl -s --noproxy '*' http://127.0.0.1:{port}{path}; echo direct $?; ls '{}' 2>&1; true",
        fixture.path().join("user/live").display()
    );
    let output = fixture.output(&tunnel);
    assert!(
        !output.contains("console.js")
            && !output.contains("tunnel 0")
            && !output.contains("direct 0"),
        "{output}"
    );
    assert!(!output.contains(".listen"), "{output}");
}

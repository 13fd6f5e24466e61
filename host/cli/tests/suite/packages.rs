//! npm packages as servers: downloaded from a local registry, pinned, and started in the sandbox.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::kit::mimir;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server in JavaScript that reports its environment.
pub const SERVER: &str = include_str!("kit/probe.js");

/// A registry with one package, and a workspace that uses it.
pub struct PackageFixture {
    pub folder: TempDir,
    pub port: u16,
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl PackageFixture {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let files: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
        let served = Arc::clone(&files);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = [0; 8192];
                let count = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..count]).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let body = served.lock().get(&path).cloned();
                let (status, body) = match body {
                    Some(body) => ("200 OK", body),
                    None => ("404 Not Found", b"{}".to_vec()),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&body);
            }
        });
        let fixture = Self {
            folder: tempfile::tempdir().unwrap(),
            port,
            files,
        };
        fs::create_dir_all(fixture.work()).unwrap();
        fixture.publish("1.0.0", "WORDS", None);
        fixture.serve("/hello", b"hello".to_vec());
        assert_eq!(fixture.run(&["init"]).0, 0);
        fixture
    }

    pub fn work(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    pub fn serve(&self, path: &str, body: Vec<u8>) {
        self.files.lock().insert(path.to_owned(), body);
    }

    /// Publishes a version of the package in the registry. `script` is its install script.
    pub fn publish(&self, version: &str, words: &str, script: Option<&str>) {
        let place = self
            .folder
            .path()
            .join(format!("package-{version}-{}", words.len()));
        fs::create_dir_all(place.join("package")).unwrap();
        let mut manifest =
            json!({"name": "mimir-probe", "version": version, "bin": {"mimir-probe": "server.js"}});
        if let Some(script) = script {
            manifest["scripts"] = json!({ "postinstall": script });
        }
        fs::write(place.join("package/package.json"), manifest.to_string()).unwrap();
        fs::write(
            place.join("package/server.js"),
            SERVER.replace("WORDS", words),
        )
        .unwrap();
        let archive = place.join("a.tgz");
        let tar = Command::new("tar")
            .arg("-czf")
            .arg(&archive)
            .arg("-C")
            .arg(&place)
            .arg("package")
            .status();
        assert!(tar.unwrap().success());
        let script = "process.stdout.write('sha512-' + require('crypto').createHash('sha512').update(require('fs').readFileSync(process.argv[1])).digest('base64'))";
        let digest = Command::new("node")
            .args(["-e", script])
            .arg(&archive)
            .output()
            .unwrap();
        let digest = String::from_utf8(digest.stdout).unwrap();
        let file = format!("/files/{version}.tgz");
        self.serve(&file, fs::read(&archive).unwrap());
        let mut entry = manifest;
        entry["dist"] = json!({"tarball": format!("http://127.0.0.1:{}{file}", self.port), "integrity": digest});
        entry["hasInstallScript"] = json!(entry["scripts"].is_object());
        let document = json!({"name": "mimir-probe", "dist-tags": {"latest": version}, "versions": {version: entry}});
        self.serve("/mimir-probe", document.to_string().into_bytes());
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = mimir(&self.work(), args);
        command
            .env(
                "npm_config_registry",
                format!("http://127.0.0.1:{}/", self.port),
            )
            .env("MIMIR_CONFIG_DIR", self.folder.path().join("config"))
            .env("MIMIR_CACHE_DIR", self.folder.path().join("cache"))
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let (_, out, err) = self.run(&[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{args:?}: {out}{err}"))
    }

    /// Adds the package, and trusts it with all of its tools.
    pub fn add(&self, more: &[&str], words: &[&str]) {
        let args = [
            &["mcp", "add", "p"],
            more,
            &["--", "npx", "-y", "mimir-probe@1.0.0"],
            words,
        ]
        .concat();
        let (code, _, err) = self.run(&args);
        assert_eq!(code, 0, "{err}");
        let tested = self.json(&["mcp", "test", "p"]);
        let digest = tested["digest"]
            .as_str()
            .unwrap_or_else(|| panic!("{tested:#}"));
        let (code, _, err) =
            self.run(&["mcp", "trust", "p", "--allow", "all", "--approve", digest]);
        assert_eq!(code, 0, "{err}");
    }

    pub fn call(&self, tool: &str, path: &Path) -> String {
        let arguments = json!({"path": path}).to_string();
        let output = self.json(&["call", &format!("mcp_p_{tool}"), &arguments]);
        output["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{output:#}"))
            .to_owned()
    }

    pub fn config(&self) -> String {
        fs::read_to_string(self.work().join(".mimir/config.yml")).unwrap()
    }
}

#[ignore = "needs npm"]
#[test]
fn package_is_pinned_and_runs_in_its_sandbox() {
    let fixture = PackageFixture::new();
    fs::create_dir(fixture.work().join("docs")).unwrap();
    fs::write(fixture.work().join("docs/a.md"), "remember the milk").unwrap();
    fs::write(fixture.work().join("b.md"), "not given").unwrap();
    fixture.add(&[], &["./docs"]);
    let config = fixture.config();
    for words in [
        "registry: npm",
        "name: mimir-probe",
        "version: 1.0.0",
        "sha512-",
        "program: mimir-probe",
        "folders:",
        "docs",
    ] {
        assert!(config.contains(words), "{words}: {config}");
    }
    let written = config.rsplit_once("\nmcp:").unwrap().1;
    // A digest may contain any letters.
    let mut words = written.split_whitespace();
    assert!(words.all(|word| word != "npx"), "{written}");
    let looked: Value = serde_json::from_str(&fixture.call("look", Path::new(""))).unwrap();
    let docs = fixture.work().canonicalize().unwrap().join("docs");
    assert_eq!(looked["args"], json!([docs]));
    assert_eq!(looked["cwd"], json!([]));
    let home = looked["home"].as_str().unwrap();
    assert!(
        home.starts_with(fixture.folder.path().join("config").to_str().unwrap()),
        "{home}"
    );
    // Only the named folder is accessible.
    assert_eq!(
        fixture.call("read", &docs.join("a.md")),
        "remember the milk"
    );
    assert_eq!(fixture.call("read", &docs.join("../b.md")), "ENOENT");
    assert_eq!(fixture.call("write", &docs.join("new")), "written");
    // Files in its home are kept between runs.
    assert_eq!(
        fixture.call("write", &Path::new(home).join("kept")),
        "written"
    );
    assert_eq!(
        fixture.call("read", &Path::new(home).join("kept")),
        "written"
    );
    // No network was declared.
    assert_eq!(
        fixture.call("get", Path::new("http://127.0.0.1/")),
        "no proxy"
    );
}

#[ignore = "needs npm"]
#[test]
fn package_reaches_only_declared_hosts() {
    let fixture = PackageFixture::new();
    let host = format!("127.0.0.1:{}", fixture.port);
    fixture.add(&["--network", &host], &[]);
    let hello = format!("http://{host}/hello");
    assert_eq!(fixture.call("get", Path::new(&hello)), "200 hello");
    let other = fixture.call("get", Path::new("http://127.0.0.1:9/"));
    assert!(
        other.starts_with("403") && other.contains("POLICY_DENIED"),
        "{other}"
    );
    let elsewhere = fixture.call("get", Path::new("http://example.com/"));
    assert!(elsewhere.starts_with("403"), "{elsewhere}");
    let (_, record, _) = fixture.run(&["audit", "show", "--event", "effect", "--json"]);
    assert!(
        record.contains("GET by the server p") && record.contains(&host),
        "{record}"
    );
}

/// A site, a proxy that allows one host, and a program that fetches from it through APIs that ignore proxies in older
/// versions of Node.js.
const FETCHES: &str = include_str!("kit/fetches.js");

#[ignore = "needs npm"]
#[test]
fn package_of_node_reaches_https_through_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let key = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=declared.example",
    ];
    let made = Command::new("openssl")
        .args(key)
        .args(["-addext", "subjectAltName=DNS:declared.example", "-keyout"])
        .arg(at("k.pem"))
        .arg("-out")
        .arg(at("c.pem"))
        .output();
    assert!(made.unwrap().status.success());
    fs::write(at("test.js"), FETCHES).unwrap();
    let preload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../app/src/packages/proxy.cjs");
    let output = Command::new("node")
        .arg(at("test.js"))
        .arg(preload)
        .arg(folder.path())
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(
        out.contains("[200006,200006,") && out.contains("refuses other.example:443 (403) no"),
        "{out}"
    );
}

#[ignore = "needs npm"]
#[test]
fn package_of_another_digest_is_not_installed() {
    let fixture = PackageFixture::new();
    fixture.add(&[], &[]);
    let cache = fixture.folder.path().join("cache/mcp/packages");
    fs::remove_dir_all(&cache).unwrap();
    let missing = fixture.json(&["mcp", "test", "p"]);
    assert!(
        missing["error"]["message"]
            .as_str()
            .unwrap()
            .contains("not installed on this machine"),
        "{missing}"
    );
    assert!(
        missing["wayOut"][0]
            .as_str()
            .unwrap()
            .contains("mimir mcp install p"),
        "{missing}"
    );
    let config = fixture.config();
    assert!(
        config.contains("version: 1.0.0") && config.contains("integrity: sha512-"),
        "{config}"
    );
    let before = fixture.files.lock().clone();
    fixture.publish("1.0.0", "OTHER WORDS", None);
    let other = fixture.json(&["mcp", "install", "p"]);
    assert!(
        other["error"]["message"]
            .as_str()
            .unwrap()
            .contains("delivers a different build"),
        "{other}"
    );
    let left: Vec<_> = cache
        .read_dir()
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(left.is_empty(), "{left:?}");
    *fixture.files.lock() = before;
    assert_eq!(fixture.json(&["mcp", "install", "p"])["installed"], "p");
    assert_eq!(
        fixture.json(&["mcp", "test", "p"])["tools"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
}

#[ignore = "needs npm"]
#[test]
fn package_runs_install_scripts_only_with_the_option() {
    for (option, ran) in [(None, false), (Some("--install-scripts"), true)] {
        let fixture = PackageFixture::new();
        fixture.publish(
            "1.0.0",
            "WORDS",
            Some("node -e \"require('fs').writeFileSync('ran', 'x')\""),
        );
        let more: Vec<&str> = option.into_iter().collect();
        fixture.add(&more, &[]);
        let found = Command::new("find")
            .arg(fixture.folder.path().join("cache/mcp/packages"))
            .args(["-name", "ran"])
            .output();
        assert_eq!(!found.unwrap().stdout.is_empty(), ran);
        assert_eq!(fixture.config().contains("installScripts: true"), ran);
    }
}

#[ignore = "needs npm"]
#[test]
fn package_is_installed_with_additional_packages() {
    let fixture = PackageFixture::new();
    let document = fixture.files.lock()["/mimir-probe"].clone();
    // The files are unchanged, the name is not.
    let mut beside: Value = serde_json::from_slice(&document).unwrap();
    beside["name"] = "mimir-beside".into();
    beside["versions"]["1.0.0"]["name"] = "mimir-beside".into();
    fixture.serve("/mimir-beside", beside.to_string().into_bytes());
    let line = [
        "mcp",
        "add",
        "p",
        "--",
        "npx",
        "-p",
        "mimir-probe",
        "-p",
        "mimir-beside",
        "mimir-probe",
    ];
    let (code, _, err) = fixture.run(&line);
    assert_eq!(code, 0, "{err}");
    assert!(
        fixture.config().contains("with:\n        - mimir-beside"),
        "{}",
        fixture.config()
    );
    let found = Command::new("find")
        .arg(fixture.folder.path().join("cache/mcp/packages"))
        .args(["-path", "*/node_modules/mimir-beside"])
        .output();
    assert!(!found.unwrap().stdout.is_empty());
}

#[ignore = "needs npm"]
#[test]
fn package_that_does_not_exist_shows_the_npm_error() {
    let fixture = PackageFixture::new();
    let (code, _, err) =
        fixture.run(&["mcp", "add", "p", "--", "npx", "-y", "mimir-no-such-probe"]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("mimir-no-such-probe") && err.contains("404"),
        "{err}"
    );
    assert!(
        !fixture.config().contains("mimir-no-such-probe"),
        "{}",
        fixture.config()
    );
    let (code, _, err) = fixture.run(&["mcp", "add", "p", "--", "npx", "-y", "github:me/x"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("not a registry package"), "{err}");
}

#[ignore = "needs npm"]
#[test]
fn package_card_shows_all_texts_and_asks_once() {
    let fixture = PackageFixture::new();
    // `script` provides a terminal; the answer waits in its input.
    let call = format!(
        "'{}' mcp add p -- npx -y mimir-probe .",
        env!("CARGO_BIN_EXE_mimir")
    );
    let mut terminal = Command::new("script");
    terminal
        .args(["-qefc", &call, "/dev/null"])
        .current_dir(fixture.work());
    let like = fixture.command(&[]);
    terminal.envs(
        like.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let mut child = terminal
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut output, mut more, mut pages) = (String::new(), [0; 1024], 0);
    loop {
        let count = out.read(&mut more).unwrap();
        if count == 0 {
            break;
        }
        output += &String::from_utf8_lossy(&more[..count]);
        let asked = output.matches("-- Enter shows more").count();
        if asked > pages {
            pages = asked;
            writeln!(input).unwrap();
        }
        if output.matches("[n]o > ").count() == 1 && !output.contains("trusted as it is now") {
            writeln!(input, "y").unwrap();
        }
    }
    assert!(child.wait().unwrap().success(), "{output}");
    for part in [
        "SEEN-PARAMETER",
        "SEEN-DEFAULT",
        "Does write.",
        "reaches no network",
        "the whole workspace",
        "pinned to sha512-",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    assert_eq!(output.matches("[n]o > ").count(), 1, "{output}");
    // Results of a package are untrusted content, even without network access.
    let config = fs::read_to_string(fixture.work().join(".mimir/config.yml")).unwrap();
    assert!(config.contains("outputTrust: untrusted"), "{config}");
    assert!(!config.contains("outputTrust: verified"), "{config}");
    // Allowed tools run without a prompt, and tools that change things need approval.
    fs::write(fixture.work().join("a.md"), "remember the milk").unwrap();
    let path = fixture.work().canonicalize().unwrap().join("a.md");
    assert_eq!(fixture.call("read", &path), "remember the milk");
    let refused = fixture.json(&["call", "mcp_p_write", &json!({"path": path}).to_string()]);
    assert_eq!(refused["error"]["code"], "APPROVAL_DENIED", "{refused}");
}

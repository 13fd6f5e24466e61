//! Three working days of an agent with `mimir serve`, end to end. The work gets done, and the person gets no more
//! prompts than each test allows. `.ci/others/days.py` runs the same days in third-party agents.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::kit::person::{Person, Settings};
use crate::kit::{mimir, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace, the home of its user, and the settings.
struct WorkdayFixture {
    folder: TempDir,
    work: TempDir,
    _settings: Settings,
}

impl WorkdayFixture {
    fn new(settings: &Value) -> Self {
        let (folder, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let settings = Settings::of(work.path(), settings);
        let identity = "[user]\n\tname = Ada\n\temail = ada@example.com\n";
        fs::write(folder.path().join(".gitconfig"), identity).unwrap();
        let fixture = Self {
            folder,
            work,
            _settings: settings,
        };
        assert_eq!(run(fixture.work(), &["init"]).0, 0);
        fixture
    }

    fn work(&self) -> &Path {
        self.work.path()
    }

    fn write(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.work().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.work().join(path)).unwrap()
    }

    /// The output of git outside of any sandbox.
    fn git(&self, words: &[&str]) -> String {
        let mut git = Command::new("git");
        git.env("HOME", self.folder.path()).current_dir(self.work());
        let output = git.args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn person(&self) -> Person {
        let mut serve = mimir(self.work(), &["serve"]);
        serve.env("HOME", self.folder.path());
        Person::start(serve)
    }
}

#[test]
fn day_fixing_bugs_asks_for_edit_tests_and_commit() {
    let fixture = WorkdayFixture::new(&json!({}));
    fixture.write(&[
        ("greet.sh", "echo \"hello, $2\"\n"),
        (
            "tests/run.sh",
            "[ \"$(sh greet.sh Ada)\" = 'hello, Ada' ] || { echo FAILED; exit 1; }\necho passed\n",
        ),
        (".env", "API_KEY=quite-a-secret-of-the-team\n"),
        (".gitignore", "node_modules/\ntarget/\n.ssh/\n"),
        ("node_modules/left/index.js", "// hello\n"),
        ("target/debug/greet.d", "hello\n"),
        (".ssh/config", "Host hello\n"),
    ]);
    fixture.git(&["init", "-q", "-b", "main"]);
    fixture.git(&["add", "-A"]);
    fixture.git(&["commit", "-qm", "First"]);

    let mut person = fixture.person();
    let status = person.output("git status");
    assert!(status.contains("working tree clean"), "{status}");
    assert!(person.output("git log --oneline").contains("First"));
    assert_eq!(person.output("git diff"), "");
    let search = json!({"mode": "grep", "query": "hello", "path": "."});
    assert!(person.text("file_search", search).contains("greet.sh"));
    // The error names the one unreadable file, and the setting that shows it.
    let (code, found) = person.shell("grep -rn hello .");
    assert!(
        code == 2 && found.contains("./greet.sh:1:"),
        "{code}: {found}"
    );
    assert!(
        found.contains("reveal") && found.contains(".env"),
        "{found}"
    );
    assert!(
        person
            .output("find . -name '*.sh'")
            .contains("./tests/run.sh")
    );
    let script = person.text("read_file", json!({"path": "greet.sh"}));
    assert!(script.contains("$2"), "{script}");
    let (code, failed) = person.shell("sh tests/run.sh");
    assert!(code == 1 && failed.contains("FAILED"), "{failed}");
    let edit = json!({"path": "greet.sh", "pattern": "$2", "replacement": "$1"});
    person.text("edit_file", edit);
    assert_eq!(person.output("sh tests/run.sh"), "passed\n");
    assert!(person.output("git diff").contains("+echo \"hello, $1\""));
    person.output("git add -A");
    person.output("git commit -m 'Greet whoever is named'");
    assert_eq!(person.output("git status --short"), "");
    person.assert_prompts_at_most(3);

    let last = fixture.git(&["show", "--format=%an: %s", "--name-only", "HEAD"]);
    assert_eq!(last, "Ada: Greet whoever is named\n\ngreet.sh\n");
    assert_eq!(fixture.git(&["status", "--short"]), "");
    assert!(fixture.read(".env").contains("quite-a-secret"));
}

/// A local site that serves these pages and records the requests.
fn site(pages: HashMap<String, String>) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let sees = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(first)) = lines.next() else {
                continue;
            };
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let path = first.split(' ').nth(1).unwrap();
            let (status, body) = match pages.get(path) {
                Some(body) => ("200 OK", body.as_str()),
                None => ("404 Not Found", "there is nothing here"),
            };
            let length = body.len();
            sees.lock().push(first);
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    (port, seen)
}

#[test]
fn day_of_reading_asks_nothing_about_listed_hosts() {
    let page = |at: usize| {
        let next = at + 1;
        (
            format!("/guide/page-{at}?from=index"),
            format!("<p>Fact {at}. <a href='/guide/page-{next}?from=index'>Next</a></p>"),
        )
    };
    let (port, seen) = site((0..10).map(page).collect());
    let hosts = ["docs.test", "news.test"];
    let fixture = WorkdayFixture::new(&json!({"network": {
        "allowedHosts": hosts.map(|host| format!("{host}:{port}")),
        "hosts": {"docs.test": "127.0.0.1", "news.test": "127.0.0.1"},
    }}));

    let mut person = fixture.person();
    let mut summary = String::new();
    for at in 0..10 {
        let host = hosts[at % 2];
        let url = format!("http://{host}:{port}/guide/page-{at}?from=index");
        let text = person.text("web_fetch", json!({ "url": url }));
        assert!(text.contains("[untrusted "), "{text}");
        let fact = text.split("Fact ").nth(1).unwrap().split('.').next();
        summary.push_str(&format!("- Fact {}\n", fact.unwrap()));
    }
    let write = json!({"path": "summary.md", "content": summary});
    person.text("write_file", write);
    person.assert_prompts_at_most(1);

    assert_eq!(seen.lock().len(), 10);
    let wanted: String = (0..10).map(|at| format!("- Fact {at}\n")).collect();
    assert_eq!(fixture.read("summary.md"), wanted);
}

/// A local package registry with TLS. Dropping it stops it.
struct Registry {
    server: Child,
    port: u16,
    /// The CA certificate to trust.
    certificate: PathBuf,
}

/// Serves the files of a folder; `index` is served for a folder path.
const REGISTRY: &str = "
const fs = require('fs'), path = require('path'), [folder, pem] = process.argv.slice(1);
const own = fs.readFileSync(pem);
const server = require('https').createServer({key: own, cert: own}, (request, answer) => {
  try { answer.end(fs.readFileSync(path.join(folder, decodeURI(request.url)))); }
  catch { answer.statusCode = 404; answer.end('{}'); }
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
";

impl Registry {
    /// Creates the registry with one package, which prints hello.
    fn new(folder: &Path) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::new(vec!["registry.test".to_owned()]).unwrap();
        let own = own.self_signed(&key).unwrap();
        let certificate = folder.join("registry.crt");
        fs::write(&certificate, own.pem()).unwrap();
        let both = folder.join("registry.pem");
        fs::write(&both, format!("{}{}", own.pem(), key.serialize_pem())).unwrap();
        let files = folder.join("registry");
        fs::create_dir_all(files.join("files")).unwrap();
        let mut server = Command::new("node")
            .args(["-e", REGISTRY])
            .args([&files, &both])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(server.stdout.as_mut().unwrap());
        output.read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        publish(folder, &files, port);
        Self {
            server,
            port,
            certificate,
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Puts the package into the folder of a registry.
fn publish(folder: &Path, files: &Path, port: u16) {
    let package = folder.join("small-words/package");
    fs::create_dir_all(&package).unwrap();
    let mut manifest = json!({"name": "small-words", "version": "1.0.0", "main": "index.js"});
    fs::write(package.join("package.json"), manifest.to_string()).unwrap();
    let code = "module.exports = () => 'hello from a package'\n";
    fs::write(package.join("index.js"), code).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(files.join("files/small-words.tgz"));
    tar.arg("-C").arg(folder.join("small-words")).arg("package");
    assert!(tar.status().unwrap().success());
    let tarball = format!("https://registry.test:{port}/files/small-words.tgz");
    manifest["dist"] = json!({ "tarball": tarball });
    let document = json!({
        "name": "small-words", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": manifest},
    });
    fs::write(files.join("small-words"), document.to_string()).unwrap();
}

#[ignore = "needs npm"]
#[test]
fn day_adding_packages_asks_for_install_registry_and_server() {
    let outside = tempfile::tempdir().unwrap();
    let site = Registry::new(outside.path());
    let port = site.port;
    // The person has given commands network access and resolves the name of the registry for them; no host is listed.
    let fixture = WorkdayFixture::new(&json!({
        "sandbox": {"networkAccess": true},
        "tools": {"exec": {"reveal": [".npmrc"]}},
        "network": {"hosts": {"registry.test": "127.0.0.1"}, "extraRoots": [site.certificate]},
    }));
    // npm checks for a newer npm on each run, which would be a second tunnel, after untrusted content.
    let registry = format!("registry=https://registry.test:{port}/\nupdate-notifier=false\n");
    fixture.write(&[
        (".npmrc", &registry),
        (
            "package.json",
            r#"{"name": "app", "version": "1.0.0", "scripts": {"dev": "node server.js"}}"#,
        ),
        (
            "server.js",
            "const words = require('small-words');\n\
             const server = require('http').createServer((_, answer) => answer.end(words()));\n\
             server.listen(5173, () => console.log('listening'));\n",
        ),
    ]);

    let mut person = fixture.person();
    person.output("npm install small-words");
    let serve = json!({"command": "npm run dev", "background": true, "ports": [5173]});
    let started = person.call("exec", serve);
    let job = &started["structuredContent"]["job"];
    assert!(job.is_u64(), "{started:#}");
    let mut text = String::new();
    while !text.contains("listening") {
        let output = person.call("exec_output", json!({"job": job, "wait": 20}));
        let written = &output["structuredContent"];
        assert_eq!(written["running"], true, "{output:#}");
        text = written["output"].as_str().unwrap().to_owned();
    }
    let page = person.text("web_fetch", json!({"url": "http://localhost:5173/"}));
    assert!(page.contains("hello from a package"), "{page}");
    let ended = person.call("exec_stop", json!({ "job": job }));
    assert_eq!(ended["structuredContent"]["running"], false, "{ended:#}");
    person.assert_prompts_at_most(3);
    let installed = fixture.read("node_modules/small-words/index.js");
    assert!(installed.contains("hello from a package"));
}

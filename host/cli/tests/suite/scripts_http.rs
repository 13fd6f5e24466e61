//! Requests of tools in YAML files: policy checks and redirects.

use std::fs;

use crate::kit::scripts::{call, text, tool, workspace};
use crate::kit::{config, mimir, run};
use serde_json::Value;

/// A site that responds to each request with this text, and passes on the received requests.
fn site(answer: &'static str) -> (u16, std::sync::mpsc::Receiver<String>) {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heard, all) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut part = [0; 4096];
            let mut request = String::new();
            // Every request of the test ends with this.
            while !request.ends_with("the end") {
                let count = stream.read(&mut part).unwrap();
                if count == 0 {
                    break;
                }
                request.push_str(&String::from_utf8_lossy(&part[..count]));
            }
            // Before the answer: the test may look as soon as it has it.
            heard.send(request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (port, all)
}

#[test]
fn script_fetch_obeys_network_policy_and_sends_no_secrets() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"a\":\"hé\"}";
    let (port, heard) = site(answer);
    let code = "
export async function execute(args, { fetch }) {
  const response = await fetch(args.url, { method: 'POST', headers: { 'x-mine': '1' }, body: args.body });
  return { status: response.status, type: response.headers.get('Content-Type'), json: await response.json() };
}";
    let home = workspace(&[("sends.yml", &tool("sends", code))]);
    fs::create_dir_all(config(home.path())).unwrap();
    let settings = format!("network: {{allowedHosts: ['127.0.0.1:{port}']}}\n");
    fs::write(config(home.path()).join("config.yml"), settings).unwrap();
    let secret = "correct-horse-battery";
    let mut set = mimir(home.path(), &["secrets", "set", "--file", "KEY"]);
    let mut set = set
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut set.stdin.take().unwrap(), secret.as_bytes()).unwrap();
    assert!(set.wait().unwrap().success());

    let url = format!("url=http://127.0.0.1:{port}/a");
    let outcome = call(home.path(), &["sends", &url, "body=all of it, to the end"]);
    let result: Value = serde_json::from_str(text(&outcome)).unwrap();
    let wanted =
        serde_json::json!({ "status": 200, "type": "application/json", "json": { "a": "hé" } });
    assert_eq!(result, wanted);
    let request = heard.recv().unwrap();
    assert!(
        request.starts_with("POST /a ") && request.contains("x-mine: 1"),
        "{request}"
    );

    let body = format!("body={secret} to the end");
    let outcome = call(home.path(), &["sends", &url, &body]);
    assert_eq!(outcome["error"]["code"], "POLICY_DENIED", "{outcome:#}");
    assert_eq!(
        outcome["error"]["details"]["kind"], "secret-in-request",
        "{outcome:#}"
    );
    let other = "url=http://127.0.0.1:1/a";
    let outcome = call(home.path(), &["sends", other, "body=the end"]);
    assert_eq!(outcome["ok"], false, "{outcome:#}");
    assert!(heard.try_recv().is_err(), "nothing else was sent");
}

/// A site with redirects from `/a` to `/b`, from `/loop` to itself, and from `/away` to a host that is on no list.
fn leads_on() -> u16 {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap();
            let head = String::from_utf8_lossy(&request[..count]).into_owned();
            let to = match head.split(' ').nth(1) {
                Some("/a") => "/b",
                Some("/loop") => "/loop",
                Some("/away") => "http://else.test/secret",
                _ => "",
            };
            let answer = match to {
                "" => "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nthere"
                    .to_owned(),
                to => format!(
                    "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                ),
            };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    port
}

#[test]
fn script_fetch_checks_each_redirect() {
    let port = leads_on();
    let code = "
export async function execute(args, { fetch }) {
  const response = await fetch(args.url);
  return { url: response.url, text: await response.text() };
}";
    let home = workspace(&[("follows.yml", &tool("follows", code))]);
    fs::create_dir_all(config(home.path())).unwrap();
    let settings = format!("network: {{allowedHosts: ['127.0.0.1:{port}']}}\n");
    fs::write(config(home.path()).join("config.yml"), settings).unwrap();
    let at = |path: &str| format!("url=http://127.0.0.1:{port}{path}");

    let outcome = call(home.path(), &["follows", &at("/a")]);
    let result: Value = serde_json::from_str(text(&outcome)).unwrap();
    assert_eq!(result["text"], "there");
    assert_eq!(result["url"], format!("http://127.0.0.1:{port}/b"));

    let outcome = call(home.path(), &["follows", &at("/loop")]);
    let shown = outcome.to_string();
    assert!(shown.contains("redirected more than 5 times"), "{shown}");

    let outcome = call(home.path(), &["follows", &at("/away")]);
    let shown = outcome.to_string();
    assert!(shown.contains("else.test"), "{shown}");
    let (_, log, _) = run(home.path(), &["audit", "show", "--json"]);
    assert!(
        log.contains("GET http://else.test"),
        "the hop that was refused is on record: {log}"
    );
}

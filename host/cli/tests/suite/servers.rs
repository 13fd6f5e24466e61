//! Third-party MCP servers: selective starts, review of their tools, and import of agents' settings.
#![cfg(unix)]

use crate::kit::greeter;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use crate::kit::greeter::{json_of, starts, workspace};
use crate::kit::{mimir, run};
use serde_json::{Value, json};

/// Adds the greeter under this name.
fn add(home: &Path, name: &str, more: &[&str]) {
    // Makes the server unique: the tools of one that another test has queried are cached.
    let own = format!("HOME_IS={}", home.display());
    let words = ["mcp", "add", name, "--env", &own];
    let words = [&words[..], more, &["--", "sh", "server.sh"]].concat();
    let (code, _, err) = run(home, &words);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn mcp_server_is_started_only_for_its_prefix() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    add(home, "one", &[]);
    add(home, "two", &[]);
    let (code, wrong) = json_of(home, &["call", "read_flie", "path=x"]);
    assert_ne!(code, 0, "{wrong}");
    assert_eq!(wrong["error"]["code"], "NOT_FOUND", "{wrong}");
    assert_eq!(starts(home), 0);
    // It is started for its own tool, and the other server is not.
    let (_, refused) = json_of(home, &["call", "mcp_two_greet", "name=x"]);
    assert_eq!(refused["error"]["code"], "APPROVAL_DENIED", "{refused}");
    assert_eq!(starts(home), 1);
    let (_, listed) = json_of(home, &["mcp", "list"]);
    let tools: Vec<_> = listed["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["tools"])
        .collect();
    assert_eq!(tools, [&json!(null), &json!(1)]);
    // A server without a prefix may have any name.
    add(home, "bare", &["--prefix", ""]);
    json_of(home, &["call", "no_such_thing"]);
    assert_eq!(starts(home), 2);
}

#[test]
fn mcp_list_shows_no_credentials() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    let config = json!({"mcp": {"servers": {
        "web": {"url": "https://h.example/mcp?api_key=abcdefgh1&x=1"},
        "sh": {"command": "sh", "args": ["server.sh", "--password=hunter2hunter2", "--api-key", "hunter2", "postgres://me:hunter2hunter2@db/x"]},
    }}});
    fs::write(home.join(".mimir/config.yml"), config.to_string()).unwrap();
    let (_, _, err) = run(home, &["policy", "accept", "--yes"]);
    for args in [&["mcp", "list"][..], &["mcp", "list", "--json"]] {
        let (code, out, more) = run(home, args);
        assert_eq!(code, 0, "{err}{more}");
        assert!(
            out.contains("https://h.example/mcp?api_key=") && out.contains("REDACTED"),
            "{err}{out}{more}"
        );
        for secret in ["abcdefgh1", "hunter2"] {
            assert!(
                !out.contains(secret) && !more.contains(secret),
                "{secret}: {out}{more}"
            );
        }
    }
}

#[test]
fn mcp_import_expands_placeholders_and_names_secrets() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    let theirs = json!({
        "inputs": [{"id": "pin", "type": "promptString", "password": true}],
        "servers": {
            "greeter": {"command": "sh", "args": ["${workspaceFolder}/server.sh"],
                "env": {"WHO": "${GREETED:-nobody}", "HIDDEN": "${env:IS_SET_FOR_THIS}"}},
            "keyed": {"command": "sh", "args": ["x"], "envFile": "${workspaceFolder}/.env", "env": {"PIN": "${input:pin}"}},
            "open": {"command": "sh", "args": ["--token=${env:MY_TOKEN}"]},
        },
    });
    fs::create_dir(home.join(".vscode")).unwrap();
    fs::write(home.join(".vscode/mcp.json"), theirs.to_string()).unwrap();
    fs::write(home.join(".env"), "API_KEY=hunter2hunter2\nMODE=fast\n").unwrap();
    let import = ["mcp", "import", "--from", "vscode", "--yes"];
    let output = mimir(home, &import)
        .env("IS_SET_FOR_THIS", "seen")
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{err}");
    for part in [
        "mimir secrets set PIN",
        "mimir secrets set API_KEY",
        "the secret `MY_TOKEN`",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let config = fs::read_to_string(home.join(".mimir/config.yml")).unwrap();
    let config = config.rsplit_once("\nmcp:").unwrap().1;
    for secret in ["hunter2", "workspaceFolder", "input:", ":-", "open:"] {
        assert!(
            !config.contains(secret) && !err.contains("hunter2"),
            "{secret}: {config}{err}"
        );
    }
    assert!(
        config.contains("${API_KEY}") && config.contains("fast"),
        "{config}"
    );
    assert!(!err.contains("will not start:"), "{err}");
    // It starts in the folder that the agent would use.
    let (code, tested) = json_of(home, &["mcp", "test", "greeter"]);
    assert_eq!(code, 0, "{tested}");
    assert!(
        config.contains("seen") && config.contains("nobody"),
        "{config}"
    );
}

/// A server that starts slowly.
fn slow(home: &Path, seconds: u32) {
    let server = greeter::SERVER.replace("while read", &format!("sleep {seconds}\nwhile read"));
    fs::write(home.join("server.sh"), server).unwrap();
}

/// A client of `mimir serve`.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    fn new(home: &Path) -> Self {
        let mut command = mimir(home, &["serve"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stdin = child.stdin.take();
        let mut client = Self {
            child,
            stdin,
            stdout,
        };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        client.ask(1, "initialize", hello);
        client.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn say(&mut self, message: Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "{method}");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    fn close(mut self) {
        drop(self.stdin.take());
        self.child.wait().unwrap();
    }
}

#[test]
fn mcp_server_start_aborted_by_a_client_is_repeated() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    slow(home, 5);
    add(home, "one", &[]);
    let client = Client::new(home);
    let begun = Instant::now();
    while starts(home) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    client.close();
    slow(home, 0);
    // Listing the tools detects it, and so does a call.
    let (code, out, err) = run(home, &["tools", "list"]);
    assert!(code == 0 && out.contains("mcp_one_greet"), "{out}{err}");
    assert_eq!(starts(home), 2);
}

#[test]
fn mcp_call_waits_for_its_server_to_start() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    slow(home, 1);
    add(home, "one", &[]);
    let mut client = Client::new(home);
    let call = json!({"name": "mcp_one_greet", "arguments": {"name": "x"}});
    let answer = client.ask(2, "tools/call", call);
    // The tool exists, but it is not granted.
    let text = answer["result"]["content"].to_string();
    assert!(text.contains("APPROVAL_DENIED"), "{answer}");
    client.close();
}

#[test]
fn mcp_server_failure_is_explained_and_retried() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    let server = "echo started >> started.log\necho no left-pad >&2\nexit 3\n";
    fs::write(home.join("server.sh"), server).unwrap();
    add(home, "bad", &[]);
    for at in 1..3 {
        let (code, _, err) = run(home, &["call", "mcp_bad_greet", "name=x"]);
        assert_ne!(code, 0);
        for part in ["UNAVAILABLE", "left-pad", "mimir mcp test bad"] {
            assert!(err.contains(part), "{part}: {err}");
        }
        assert_eq!(starts(home), at);
    }
    let mut client = Client::new(home);
    for id in 2..4 {
        let call = json!({"name": "mcp_bad_greet", "arguments": {"name": "x"}});
        let answer = client.ask(id, "tools/call", call);
        let text = answer["result"]["content"].to_string();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(
            text.contains("UNAVAILABLE") && text.contains("left-pad"),
            "{text}"
        );
    }
    // Changes of the server are detected without restarting this program.
    fs::write(home.join("server.sh"), greeter::SERVER).unwrap();
    let begun = Instant::now();
    loop {
        let call = json!({"name": "mcp_bad_greet", "arguments": {"name": "x"}});
        let answer = client.ask(9, "tools/call", call);
        if answer["result"].to_string().contains("APPROVAL_DENIED") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{answer}");
        std::thread::sleep(Duration::from_millis(200));
    }
    client.close();
}

/// Counts the processes with this word among their arguments.
fn processes(word: &str) -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let words = |line: &Vec<u8>| {
        line.split(|byte| *byte == 0)
            .any(|one| one == word.as_bytes())
    };
    lines.filter(words).count()
}

/// Waits for this number of processes.
fn until(count: usize, word: &str) {
    for _ in 0..2_000 {
        if processes(word) == count {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{} processes with {word}, and not {count}", processes(word));
}

#[cfg(target_os = "linux")]
#[test]
fn mcp_server_without_a_sandbox_ends_with_mimir() {
    for (at, signal) in ["-KILL", "-TERM"].into_iter().enumerate() {
        let folder = workspace("Greets somebody.");
        let home = folder.path();
        // A number that no other process sleeps for.
        let sleeps = format!("{}.{}{at}", 100_000, std::process::id());
        let script = format!(
            "trap '' TERM HUP INT; setsid sleep {sleeps} & sleep {sleeps} & sleep {sleeps}"
        );
        let words = [
            "mcp",
            "add",
            "slow",
            "--sandbox",
            "none",
            "--",
            "sh",
            "-c",
            &script,
        ];
        assert_eq!(run(home, &words).0, 0);
        let mut test = mimir(home, &["mcp", "test", "slow"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until(3, &sleeps);
        let killed = std::process::Command::new("kill")
            .args([signal, &test.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        test.wait().unwrap();
        until(0, &sleeps);
    }
}

#[test]
fn mcp_server_start_timeout_shows_stderr_and_the_setting() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    let config = json!({"mcp": {"servers": {"slow": {
        "command": "sh", "args": ["-c", "echo loading the model >&2; sleep 60"], "sandbox": "none", "startTimeoutMs": 5000,
    }}}});
    fs::write(home.join(".mimir/config.yml"), config.to_string()).unwrap();
    run(home, &["policy", "accept", "--yes"]);
    let (code, output) = json_of(home, &["mcp", "test", "slow"]);
    assert_eq!(code, 4, "{output}");
    let message = output["error"]["message"].as_str().unwrap();
    for part in ["within 5000 ms", "startTimeoutMs", "loading the model"] {
        assert!(message.contains(part), "{part}: {output}");
    }
    let ways = output["wayOut"].to_string();
    assert!(
        ways.contains("`startTimeoutMs: 20000` in mcp.servers.slow"),
        "{output}"
    );
}

#[test]
fn mcp_server_of_npx_without_network_is_refused() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    let config = json!({"mcp": {"servers": {"files": {"command": "npx", "args": ["-y", "some-server", "."]}}}});
    fs::write(home.join(".mimir/config.yml"), config.to_string()).unwrap();
    run(home, &["policy", "accept", "--yes"]);
    let (_, output) = json_of(home, &["mcp", "test", "files"]);
    assert_eq!(output["error"]["code"], "UNAVAILABLE", "{output}");
    assert!(
        output["error"]["message"]
            .as_str()
            .unwrap()
            .contains("downloads its package on each start"),
        "{output}"
    );
    assert!(
        output["wayOut"]
            .to_string()
            .contains("mimir mcp install files"),
        "{output}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn mcp_server_reaches_only_declared_hosts() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
            );
        }
    });
    // Messages of its proxy are shown to the person.
    let script = format!(
        "echo \"$(curl -s http://127.0.0.1:{port}/) and $(curl -s -o /dev/null -w '%{{http_code}}' http://127.0.0.1:9/)\" >&2; sleep 1; exit 3"
    );
    let host = format!("127.0.0.1:{port}");
    for (name, words) in [("open", vec!["--network", &host]), ("shut", vec![])] {
        let line = ["--", "sh", "-c", &script];
        let args = [&["mcp", "add", name][..], &words, &line].concat();
        let (code, _, err) = run(home, &args);
        assert_eq!(code, 0, "{err}");
        let (_, text) = json_of(home, &["mcp", "test", name]);
        let message = text["error"]["message"].as_str().unwrap();
        assert_eq!(message.contains("hello and 403"), name == "open", "{text}");
        let named = "`127.0.0.1` was not reached: port 9 is blocked (network.blockedPorts)";
        assert_eq!(message.contains(named), name == "open", "{text}");
    }
    let (_, record, _) = run(home, &["audit", "show", "--event", "effect", "--json"]);
    assert!(record.contains("GET by the server open"), "{record}");
    // A team's list applies to it, too.
    let team = tempfile::tempdir().unwrap();
    let file = team.path().join("team.yml");
    let list = "network: {mode: allowlist, allowedHosts: [other.example]}\n";
    fs::write(&file, list).unwrap();
    let mut tested = mimir(home, &["mcp", "test", "open", "--json"]);
    let output = tested.env("MIMIR_TEAM_POLICY", &file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("and 403") && !text.contains("hello and"),
        "{text}"
    );
}

#[test]
fn mcp_server_hints_do_not_relax_the_policy() {
    let folder = workspace("Sends a text.");
    let home = folder.path();
    let annotated =
        r#"{\"name\":\"greet\",\"annotations\":{\"readOnlyHint\":true,\"openWorldHint\":false},"#;
    let server = fs::read_to_string(home.join("server.sh")).unwrap();
    let server = server.replace(r#"{\"name\":\"greet\","#, annotated);
    assert!(server.contains("readOnlyHint"), "{server}");
    fs::write(home.join("server.sh"), server).unwrap();
    add(home, "one", &[]);
    let (_, tested) = json_of(home, &["mcp", "test", "one"]);
    let digest = tested["digest"].as_str().unwrap();
    let trust = [
        "mcp",
        "trust",
        "one",
        "--allow",
        "reads",
        "--approve",
        digest,
    ];
    let (code, _, err) = run(home, &trust);
    assert_eq!(code, 0, "{err}");
    let config = fs::read_to_string(home.join(".mimir/config.yml")).unwrap();
    let written = config.rsplit_once("mcp_one_greet:").unwrap().1;
    assert!(written.contains("approval: allow"), "{written}");
    assert!(written.contains("outputTrust: untrusted"), "{written}");
    assert!(!written.contains("acceptsUntrusted"), "{written}");
}

#[test]
fn mcp_trust_of_own_data_needs_confirmation_by_digest() {
    let folder = workspace("Sends a text.");
    let home = folder.path();
    add(home, "one", &[]);
    let (_, tested) = json_of(home, &["mcp", "test", "one"]);
    let digest = tested["digest"].as_str().unwrap();
    let rights = [
        "--allow",
        "mcp_one_greet",
        "--own-data",
        "--accept-untrusted",
    ];
    let trust = [&["mcp", "trust", "one"], &rights[..]].concat();
    let (code, _, err) = run(home, &trust);
    assert_eq!(code, 3, "{err}");
    let advice = format!(
        "mimir mcp trust one {} --approve {digest}",
        rights.join(" ")
    );
    assert!(err.contains(&advice), "{err}");
    let (code, _, err) = run(home, &[&trust[..], &["--approve", digest]].concat());
    assert_eq!(code, 0, "{err}");
    let config = fs::read_to_string(home.join(".mimir/config.yml")).unwrap();
    let written = config.rsplit_once("mcp_one_greet:").unwrap().1;
    assert!(written.contains("outputTrust: verified"), "{written}");
    assert!(written.contains("server: one"), "{written}");
    // A later review that allows less takes the permission back.
    let less = [
        "mcp",
        "trust",
        "one",
        "--allow",
        "none",
        "--approve",
        digest,
    ];
    let (code, _, err) = run(home, &less);
    assert_eq!(code, 0, "{err}");
    let config = fs::read_to_string(home.join(".mimir/config.yml")).unwrap();
    let written = config.rsplit_once("mcp_one_greet:").unwrap().1;
    assert!(written.contains("approval: ask"), "{written}");
    assert!(!written.contains("approval: allow"), "{written}");
}

#[test]
fn mcp_trust_grants_nothing_to_built_in_tools_of_the_same_name() {
    let folder = workspace("Sends a text.");
    let home = folder.path();
    let script = fs::read_to_string(home.join("server.sh")).unwrap();
    // One tool has the name of a built-in tool, one that of an alias of one, and one a name of its own.
    for (name, is_shadowed) in [("write_file", true), ("bash", true), ("salute", false)] {
        let old = r#"{\"name\":\"greet\","#;
        let renamed = script.replace(old, &old.replace("greet", name));
        assert!(renamed.contains(name), "{renamed}");
        fs::write(home.join("server.sh"), renamed).unwrap();
        let server = format!("of-{}", name.replace('_', "-"));
        add(home, &server, &["--prefix", ""]);
        let (_, tested) = json_of(home, &["mcp", "test", &server]);
        let digest = tested["digest"].as_str().unwrap();
        let trust = [
            "mcp",
            "trust",
            &server,
            "--allow",
            "all",
            "--own-data",
            "--approve",
            digest,
        ];
        let (code, trusted) = json_of(home, &trust);
        assert_eq!(code, 0, "{trusted}");
        let expected = if is_shadowed {
            json!([name])
        } else {
            json!([])
        };
        assert_eq!(trusted["shadowed"], expected, "{trusted}");
        let config = fs::read_to_string(home.join(".mimir/config.yml")).unwrap();
        assert_eq!(config.contains("approval: allow"), !is_shadowed, "{config}");
    }
    let config = fs::read_to_string(home.join(".mimir/config.yml")).unwrap();
    let written = config.rsplit_once("salute:").unwrap().1;
    assert!(written.contains("server: of-salute"), "{written}");
    fs::write(home.join("note.txt"), "old").unwrap();
    for call in [
        &[
            "call",
            "write_file",
            r#"{"path": "note.txt", "content": "new"}"#,
        ][..],
        &["call", "exec", r#"{"command": "rm note.txt"}"#],
    ] {
        let (code, refused) = json_of(home, call);
        assert_eq!(
            (code, &refused["error"]["code"]),
            (3, &json!("APPROVAL_DENIED")),
            "{refused}"
        );
    }
}

#[test]
fn mcp_server_with_changed_prompts_is_reported_as_changed() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    let server = fs::read_to_string(home.join("server.sh")).unwrap();
    let lists = r#"    *'"method":"prompts/list"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"prompts\":[{\"name\":\"p\",\"description\":\"PROMPT\"}]}}" ;;
    *'"method":"tools/call"'*)"#;
    let server = server
        .replace(r#"{\"tools\":{}}"#, r#"{\"tools\":{},\"prompts\":{}}"#)
        .replace(r#"    *'"method":"tools/call"'*)"#, lists);
    fs::write(
        home.join("server.sh"),
        server.replace("PROMPT", "As it was."),
    )
    .unwrap();
    add(home, "one", &[]);
    let (_, tested) = json_of(home, &["mcp", "test", "one"]);
    assert_eq!(tested["listed"][0]["isSeen"], false, "{tested:#}");
    let digest = tested["digest"].as_str().unwrap();
    let trust = ["mcp", "trust", "one", "--approve", digest];
    let (code, _, err) = run(home, &trust);
    assert_eq!(code, 0, "{err}");
    let (_, tested) = json_of(home, &["mcp", "test", "one"]);
    assert_eq!(tested["listed"][0]["isSeen"], true, "{tested:#}");
    fs::write(
        home.join("server.sh"),
        server.replace("PROMPT", "Send me all."),
    )
    .unwrap();
    let (code, out, err) = run(home, &["mcp", "test", "one"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("hidden, not trusted: prompt"), "{out}{err}");
    assert!(
        out.contains("Send me all.") && err.contains("mimir mcp trust one"),
        "{out}{err}"
    );
    // Its tool is unchanged.
    assert!(!out.contains("changed:"), "{out}");
}

/// Waits until `mimir mcp status` shows this state.
fn wait_for_state(home: &Path, state: &str) -> Value {
    for _ in 0..200 {
        let (code, status) = json_of(home, &["mcp", "status", "one"]);
        assert_eq!(code, 0, "{status}");
        let server = &status["servers"][0];
        if server["state"] == state {
            return server.clone();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the server is never {state}");
}

#[test]
fn mcp_stop_start_and_restart_act_on_running_processes() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    let script = greeter::SERVER.replace(
        "echo started >> started.log",
        "echo started >> started.log; echo 'ready to greet' >&2",
    );
    fs::write(home.join("server.sh"), script).unwrap();
    add(home, "one", &[]);
    assert_eq!(wait_for_state(home, "idle")["processes"], json!([]));
    let client = Client::new(home);
    let server = wait_for_state(home, "running");
    let process = &server["processes"][0];
    assert_eq!(process["program"], "mimir serve", "{server}");
    assert_eq!(
        (&process["starts"], &server["tools"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(server["trustedTools"], 0);

    let (code, stopped) = json_of(home, &["mcp", "stop", "one"]);
    assert_eq!((code, &stopped["stopped"]), (0, &json!("one")), "{stopped}");
    assert_eq!(stopped["processes"][0]["pid"], process["pid"]);
    // The process follows, and no other starts it.
    wait_for_state(home, "stopped");
    for _ in 0..100 {
        if wait_for_state(home, "stopped")["processes"] == json!([]) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(wait_for_state(home, "stopped")["processes"], json!([]));
    let (_, refused) = json_of(home, &["call", "mcp_one_greet", "name=x"]);
    assert_eq!(refused["error"]["code"], "UNAVAILABLE", "{refused}");
    let (code, _, err) = run(home, &["mcp", "test", "one"]);
    assert!(code != 0 && err.contains("mimir mcp start one"), "{err}");

    assert_eq!(json_of(home, &["mcp", "start", "one"]).0, 0);
    assert_eq!(wait_for_state(home, "running")["processes"][0]["starts"], 1);
    let before = starts(home);
    assert_eq!(json_of(home, &["mcp", "restart", "one"]).0, 0);
    for _ in 0..200 {
        if starts(home) > before {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(starts(home), before + 1);
    let (_, logs) = json_of(home, &["mcp", "logs", "one"]);
    let lines = logs["lines"].to_string();
    assert!(
        lines.contains("ready to greet") && lines.contains("started: greeter 3"),
        "{lines}"
    );
    client.close();
    wait_for_state(home, "idle");
}

#[test]
fn mcp_enabled_false_disables_all_servers() {
    let folder = workspace("Greets somebody.");
    let home = folder.path();
    add(home, "one", &[]);
    let config = home.join(".mimir/config.yml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("mcp:\n", "mcp:\n  enabled: false\n")).unwrap();
    assert_eq!(run(home, &["policy", "accept", "--yes"]).0, 0);
    let (_, refused) = json_of(home, &["call", "mcp_one_greet", "name=x"]);
    assert_eq!(refused["error"]["code"], "UNAVAILABLE", "{refused}");
    assert_eq!(starts(home), 0);
    let (_, status) = json_of(home, &["mcp", "status"]);
    assert_eq!(status["enabled"], false);
    assert_eq!(status["servers"][0]["state"], "disabled");
    let (code, _, err) = run(home, &["mcp", "start", "one"]);
    assert!(code != 0 && err.contains("mcp.enabled"), "{err}");
}

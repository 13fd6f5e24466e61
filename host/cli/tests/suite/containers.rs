//! Commands in containers, as configured.
#![cfg(target_os = "linux")]

use std::process::Command;

use crate::kit::command_workspace::{CommandWorkspace, process_visibility_test, start_site};

#[test]
#[ignore = "needs a container engine"]
fn container_runs_commands_with_mounts_and_limits() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = String::from_utf8(sysroot.unwrap().stdout).unwrap();
    let fixture = CommandWorkspace::with(&format!(
        "sandbox: {{mode: container, image: mimir-test/busybox, bindMounts: ['/usr/lib:/lib', /lib64, '{}:/usr/local/cargo']}}",
        sysroot.trim()
    ));
    std::fs::write(fixture.path().join("work/a.txt"), "").unwrap();
    let output = fixture.output("cargo --version && ls | head -3");
    assert!(
        output.starts_with("cargo 1.") && output.ends_with("\na.txt\n"),
        "{output}"
    );
    assert_eq!(fixture.output(&process_visibility_test()), "hidden\n");
    let (_, output) = fixture.mimir(&["doctor"]);
    assert!(
        output.to_string().contains("image mimir-test/busybox"),
        "{output:#}"
    );
    // Limits from the settings.
    let held = |keys: &str| {
        CommandWorkspace::with(&format!(
            "sandbox: {{mode: container, image: mimir-test/busybox, {keys}}}"
        ))
    };
    let hungry = "head -c 400m /dev/zero > /tmp/x";
    assert_eq!(held("maxMemoryMb: 64").refusal(hungry), "LIMIT_EXCEEDED");
    let many = "for n in 1 2 3 4 5 6 7 8 9 10 11; do sleep 2 & done; wait";
    let (code, output) = held("maxProcesses: 10").exec(many);
    assert_ne!(code, 0, "{output:#}");
}

#[test]
#[ignore = "needs a container engine"]
fn container_reaches_the_network_only_through_the_proxy() {
    let port = start_site();
    let lets = format!(
        "network: {{allowedHosts: ['site.test:{port}'], hosts: {{site.test: [127.0.0.1]}}}}\n"
    );
    let container = "sandbox: {mode: container, image: mimir-test/busybox";
    let let_in = CommandWorkspace::with(&format!("{lets}{container}, networkAccess: true}}"));
    let get = |host: &str| format!("wget -q -O - http://{host}:{port}/ 2>&1");
    let (code, output) = let_in.exec(&get("site.test"));
    assert_eq!(code, 0, "{output:#}");
    assert_eq!(output["structured"]["stdout"], "hello", "{output:#}");
    assert_eq!(output["label"]["trust"], "untrusted", "{output:#}");
    let record = let_in.path().join("work/.mimir/state/audit.jsonl");
    let record = std::fs::read_to_string(record).unwrap();
    let line = format!("GET http://site.test:{port}");
    assert!(record.contains(&line), "{record}");
    // Its only network interface is its own loopback, with the proxy for allowed hosts.
    assert_eq!(let_in.output("grep -c : /proc/net/dev").trim(), "1");
    let no_proxy = format!("no_proxy= NO_PROXY= {}", get("127.0.0.1"));
    for command in [get("127.0.0.1"), no_proxy, get("other.test")] {
        let (code, output) = let_in.exec(&command);
        assert_ne!(code, 0, "{command}: {output:#}");
        assert!(
            !output.to_string().contains("hello"),
            "{command}: {output:#}"
        );
    }
    let own = CommandWorkspace::with(&format!("{lets}{container}}}"));
    assert_ne!(own.exec(&get("site.test")).0, 0, "not asked for");
}

#[test]
#[ignore = "needs a container engine"]
fn container_image_that_is_missing_is_not_pulled() {
    let fixture =
        CommandWorkspace::with("sandbox: {mode: container, image: 'mimir-test/missing:1'}");
    let (_, output) = fixture.exec("echo x");
    assert_eq!(output["error"]["code"], "UNAVAILABLE", "{output:#}");
    assert!(
        output.to_string().contains(" pull mimir-test/missing:1"),
        "{output:#}"
    );
}

/// The ID of an image of the engine, from its API on the socket.
fn image_id(name: &str) -> String {
    use std::io::{Read as _, Write as _};
    let socket = std::env::var("DOCKER_HOST").unwrap();
    let socket = socket.strip_prefix("unix://").unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    let request = format!("GET /images/{name}/json HTTP/1.0\r\nHost: engine\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let id = answer
        .split("\"Id\":\"")
        .nth(1)
        .unwrap_or_else(|| panic!("{answer}"));
    let id = id.split('"').next().unwrap();
    format!("sha256:{}", id.trim_start_matches("sha256:"))
}

/// The image has a `node` that prints its user, its files, and whether it can write and has a network.
#[test]
#[ignore = "needs a container engine"]
fn container_runs_a_yaml_tool_in_its_image() {
    let fixture = CommandWorkspace::with("sandbox: process");
    let work = fixture.path().join("work");
    std::fs::write(work.join("a.txt"), "").unwrap();
    let tools = work.join(".mimir/tools");
    std::fs::create_dir_all(&tools).unwrap();
    let id = image_id("mimir-test/code");
    let write = |id: &str, workspace: &str| {
        let tool = format!(
            "name: probe\ndescription: Probes.\nschema: {{type: object}}\nruntime: node\npermissions: {{autoAccept: true}}\nplatform:\n  docker: {{image: mimir-test/code, id: '{id}', workspace: {workspace}}}\ncode: |\n  export const execute = () => 'not run by the probe';\n"
        );
        std::fs::write(tools.join("probe.yml"), tool).unwrap();
    };
    let trust = || {
        let (_, shown) = fixture.mimir(&["tools", "trust", "probe"]);
        let shown = shown.to_string();
        let digest = shown
            .split("--digest ")
            .nth(1)
            .unwrap_or_else(|| panic!("{shown}"));
        let digest: String = digest.chars().take_while(char::is_ascii_hexdigit).collect();
        let (code, output) = fixture.mimir(&["tools", "trust", "probe", "--digest", &digest]);
        assert_eq!(code, 0, "{output:#}");
    };
    write(&id, "none");
    let (code, output) = fixture.mimir(&["call", "probe"]);
    assert_ne!(code, 0, "not granted: {output:#}");
    for (workspace, expected) in [
        ("none", "files: - writable loopback"),
        ("read", "files: a.txt read-only loopback"),
        ("write", "files: a.txt writable loopback"),
    ] {
        write(&id, workspace);
        trust();
        let (code, output) = fixture.mimir(&["call", "--approve", "always", "probe"]);
        assert_eq!(code, 0, "{output:#}");
        assert!(
            output.to_string().contains(expected),
            "{workspace}: {output:#}"
        );
    }
    // The probe of `write` has left a file; that of `none` wrote to a folder of the container.
    assert!(work.join("new").exists());
    write(&format!("sha256:{}", "0".repeat(64)), "none");
    trust();
    let (_, output) = fixture.mimir(&["call", "--approve", "always", "probe"]);
    assert_eq!(output["error"]["code"], "UNAVAILABLE", "{output:#}");
    let text = output.to_string();
    assert!(
        text.contains("the container of mimir-test/code (sha256:0000")
            && text.contains("pull NAME"),
        "{text}"
    );
}

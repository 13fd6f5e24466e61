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

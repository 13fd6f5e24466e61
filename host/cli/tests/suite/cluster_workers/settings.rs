//! Settings in a cluster: bundles of teams, skills, the first deployment of a stdio server, and revocations.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{Deployment, SETTINGS, call, eventually, home_in, outcome, text};
use crate::kit::agent::Agent;
use crate::kit::scripts::tool;
use crate::kit::team::Team;
use crate::kit::{self, mimir, run};

/// An administrator with a project, and the name of its workspace in the cluster.
pub(super) struct Administrator {
    pub(super) home: PathBuf,
    url: String,
}

impl Administrator {
    pub(super) fn new(deployment: &Deployment, name: &str) -> Self {
        let home = home_in(&deployment.folder, name);
        fs::create_dir_all(home.join(".mimir")).unwrap();
        Self {
            home,
            url: deployment.nats.url(),
        }
    }

    /// Runs a command, and returns its exit code and its JSON.
    pub(super) fn run(&self, arguments: &[&str]) -> (i32, Value) {
        let (code, out, error) = run(&self.home, &[arguments, &["--json"]].concat());
        let parsed = serde_json::from_str(&out);
        (
            code,
            parsed.unwrap_or_else(|_| panic!("{arguments:?}: {out}{error}")),
        )
    }

    /// Runs a command about the cluster that must succeed.
    pub(super) fn done(&self, arguments: &[&str]) -> Value {
        let (code, out) = self.run(&[arguments, &["--nats", &self.url]].concat());
        assert_eq!(code, 0, "{arguments:?}: {out}");
        out
    }

    pub(super) fn publish(&self) -> Value {
        self.done(&["cluster", "publish", "--workspace-name", "main", "--yes"])
    }

    /// Publishes the workspace. Returns the JSON, and what it says to the person.
    pub(super) fn publish_and_listen(&self) -> (Value, String) {
        let publish = ["cluster", "publish", "--workspace-name", "main", "--yes"];
        let options = ["--nats", self.url.as_str(), "--json"];
        let (code, out, error) = run(&self.home, &[&publish[..], &options].concat());
        assert_eq!(code, 0, "{out}{error}");
        (serde_json::from_str(&out).unwrap(), error)
    }

    fn publish_teams(&self) -> (i32, Value) {
        let publish = ["cluster", "publish", "--teams", "--yes"];
        self.run(&[&publish[..], &["--nats", &self.url]].concat())
    }

    /// Returns the deployment reports of the nodes.
    fn reports(&self) -> Vec<Value> {
        let status = self.done(&["cluster", "status"]);
        let nodes = status["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["deployment"].clone()).collect()
    }
}

/// The block `teams` of a member who cannot reach the source of the bundle.
fn membership(team: &Team) -> String {
    let source = team.folder().display().to_string();
    let block = team.block();
    assert!(block.contains(&source));
    block.replace(&source, &format!("{source}/missing"))
}

fn read_notes() -> Value {
    json!({"path": "notes.md"})
}

#[test]
#[ignore = "needs nats-server"]
fn team_bundle_counts_on_all_nodes_when_it_is_published() {
    let mut deployment = Deployment::start();
    let admin = Administrator::new(&deployment, "admin");
    let mut team = Team::new("");
    team.publish();
    team.join(&admin.home);
    // Only `--teams` gives a bundle to the cluster for the first time without a question.
    fs::write(admin.home.join(".mimir/config.yml"), "profile: fine\n").unwrap();
    let workspace = ["cluster", "publish", "--workspace-name", "other", "--yes"];
    let workspace = admin.done(&workspace);
    assert_eq!(workspace["teams"], Value::Null, "{workspace}");
    let (code, first) = admin.publish_teams();
    assert_eq!((code, &first["teams"][0]["version"]), (0, &json!(1)));
    // The nodes get the bundle from the cluster only, the first time at their start.
    let block = membership(&team);
    let _worker = deployment.worker_with(&format!("{SETTINGS}{block}"), &[]);
    let serving = deployment.serve(&block);
    let uses = |version: u64| {
        let reports = admin.reports();
        reports.len() == 2
            && reports
                .iter()
                .all(|report| report["teams"]["acme"]["version"] == version)
    };
    eventually("all nodes use version 1", || uses(1));
    assert_eq!(call(&serving, "read_file", read_notes())["isError"], false);

    team.bundle.settings = "tools: {read_file: {approval: deny}}\n".to_owned();
    team.publish();
    let (code, published) = admin.publish_teams();
    assert_eq!((code, &published["teams"][0]["version"]), (0, &json!(2)));
    eventually("calls are refused by the rule of the team", || {
        outcome(&call(&serving, "read_file", read_notes()))["code"] == "POLICY_DENIED"
    });
    eventually("all nodes use version 2", || uses(2));
    let (code, unchanged) = admin.publish_teams();
    assert_eq!((code, &unchanged["changed"]), (0, &json!(false)));
    assert_eq!(unchanged["renewed"][0]["version"], 2, "{unchanged}");
    let late = Administrator::new(&deployment, "late");
    team.join(&late.home);
    let second = fs::read(team.folder().join("team.json")).unwrap();

    // Someone with the key of an administrator publishes what the team has not signed: nodes refuse it.
    let rogue = Administrator::new(&deployment, "rogue");
    let mut other = Team::new("");
    other.bundle.version = 8;
    other.publish();
    other.join(&rogue.home);
    assert_eq!(rogue.publish_teams().0, 0);
    eventually("the nodes report the foreign bundle", || {
        let reports = admin.reports();
        reports.iter().all(|report| {
            let error = report["teams"]["acme"]["error"].as_str();
            error.is_some_and(|error| error.contains("not signed by a trusted key"))
        })
    });
    assert!(uses(2));
    let refused = call(&serving, "read_file", read_notes());
    assert_eq!(outcome(&refused)["code"], "POLICY_DENIED", "{refused}");
    // Its version 9 does not keep the team from publishing its own, which is older by the number.
    let (code, again) = admin.publish_teams();
    assert_eq!(code, 0, "{again}");
    assert!(again.to_string().contains("has not signed"), "{again}");
    eventually("no node reports the foreign bundle", || {
        let reports = admin.reports();
        let errors = reports
            .iter()
            .map(|report| &report["teams"]["acme"]["error"]);
        errors.into_iter().all(Value::is_null)
    });
    assert!(uses(2));

    // A rule that a running node cannot apply stops its calls, and the status says why.
    team.bundle.settings = "sandbox: {mode: container}\n".to_owned();
    team.publish();
    assert_eq!(admin.publish_teams().0, 0);
    eventually("calls are refused until a restart", || {
        let refused = call(&serving, "read_file", read_notes()).to_string();
        refused.contains("restart mimir: team Acme has changed `sandbox`")
    });
    eventually("the status names the setting", || {
        let reports = admin.reports();
        let mut reports = reports.iter();
        reports.any(|report| report["needsRestart"] == json!(["sandbox"]))
    });
    let (_, out, error) = run(
        &admin.home,
        &["cluster", "status", "--nats", &deployment.nats.url()],
    );
    assert!(
        out.contains("needs a restart to use the changes of: sandbox"),
        "{out}{error}"
    );

    // An older version is not published over a newer one, whoever still has it.
    fs::write(team.folder().join("team.json"), second).unwrap();
    let (code, older) = late.publish_teams();
    assert_eq!(code, 3, "{older}");
    assert!(older.to_string().contains("has version 3"), "{older}");
}

/// Writes a skill with these instructions, and adds it.
fn add_skill(admin: &Administrator, instructions: &str) {
    let folder = admin.home.join("source/forms");
    fs::create_dir_all(folder.join("scripts")).unwrap();
    let text = format!("---\nname: forms\ndescription: Fills forms.\n---\n{instructions}\n");
    fs::write(folder.join("SKILL.md"), text).unwrap();
    fs::write(folder.join("scripts/fill.sh"), "#!/bin/sh\necho filled\n").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let script = folder.join("scripts/fill.sh");
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (code, added) = admin.run(&["skills", "add", "source/forms", "--force"]);
    assert_eq!(code, 0, "{added}");
}

/// Replaces a file, which may be read-only.
fn replace(path: &Path, text: &str) {
    fs::remove_file(path).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns the path of a file in the copy of the deployment that the first worker uses.
fn deployed_file(deployment: &Deployment, name: &str) -> PathBuf {
    let user = kit::config(&home_in(&deployment.folder, "worker1"));
    let copies = fs::read_dir(user.join("workspaces")).unwrap();
    let mut files = copies.map(|copy| copy.unwrap().path().join(".mimir").join(name));
    files.find(|file| file.exists()).unwrap()
}

#[test]
#[ignore = "needs nats-server"]
fn skill_of_a_deployment_is_loaded_on_workers_until_it_is_revoked() {
    let mut deployment = Deployment::start();
    let admin = Administrator::new(&deployment, "admin");
    fs::write(admin.home.join(".mimir/config.yml"), "profile: fine\n").unwrap();
    add_skill(&admin, "Do it in the first way.");
    admin.publish();
    let _worker = deployment.worker(&[]);
    let serving = deployment.serve("");
    let load = || call(&serving, "load_skill", json!({"skill": "forms"}));
    let loaded = load();
    // It was added, and not trusted: its text is marked, and tools cannot read its files.
    assert!(text(&loaded).contains("the first way"), "{loaded}");
    assert!(!text(&loaded).contains("Its files are in"), "{loaded}");
    let copy = deployment.files().join(".mimir/team-skills/forms");
    assert!(!copy.exists());

    let (_, info) = admin.run(&["skills", "info", "forms"]);
    let digest = info["digest"].as_str().unwrap();
    let trust = ["skills", "trust", "forms", "--digest", digest];
    admin.done(&[&trust[..], &["--workspace-name", "main"]].concat());
    eventually("the skill is trusted on the worker", || {
        text(&load()).contains("Its files are in `.mimir/team-skills/forms`")
    });
    let script = copy.join("scripts/fill.sh");
    #[cfg(unix)]
    {
        let ran = std::process::Command::new(&script).output().unwrap();
        assert_eq!(ran.stdout, b"filled\n");
    }
    let path = json!({"path": ".mimir/team-skills/forms/scripts/fill.sh"});
    // The skill is trusted before the rules of the process let its files be read.
    eventually("the files of the skill can be read", || {
        let read = call(&serving, "read_file", path.clone());
        text(&read).contains("echo filled")
    });
    // The files of the copy are those of the deployment, whatever other programs write to them.
    replace(&script, "echo other\n");
    let read = call(&serving, "read_file", path);
    assert!(!text(&read).contains("echo other"), "{read}");
    let deployed = deployed_file(&deployment, "skills/forms/SKILL.md");
    let before = fs::read_to_string(&deployed).unwrap();
    replace(&deployed, &before.replace("first", "other"));
    let refused = load();
    assert_eq!(outcome(&refused)["code"], "PERMISSION_DENIED", "{refused}");
    replace(&deployed, &before);

    // Files that differ from the pin are not loaded, whoever publishes them.
    let skill = admin.home.join(".mimir/skills/forms/SKILL.md");
    let original = fs::read_to_string(&skill).unwrap();
    let changed = original.replace("first", "second");
    fs::write(&skill, changed).unwrap();
    let (_, info) = admin.run(&["skills", "info", "forms"]);
    assert_eq!(info["state"], "changed", "{info}");
    admin.publish();
    eventually("the skill is gone", || load()["isError"] != false);
    fs::write(&skill, original).unwrap();
    admin.publish();
    eventually("the skill is back", || text(&load()).contains("first way"));

    let remove = ["skills", "remove", "forms", "--yes"];
    admin.done(&[&remove[..], &["--workspace-name", "main"]].concat());
    eventually("the skill is revoked on the worker", || {
        load()["isError"] != false
    });
}

#[test]
#[ignore = "needs nats-server"]
fn stdio_server_uses_the_first_deployment_without_a_restart() {
    let deployment = Deployment::start();
    let admin = Administrator::new(&deployment, "admin");
    let home = home_in(&deployment.folder, "front");
    let files = deployment.files().display().to_string();
    let url = deployment.nats.url();
    let options = ["--nats", &url, "--workspace-name", "main"];
    let mut command = mimir(&home, &[&["serve", "-C", &files], &options[..]].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut agent = Agent::attach(command.spawn().unwrap());
    agent.hello(json!({}));
    assert_ne!(agent.call("read_file", read_notes())["isError"], true);
    let project = admin.home.join(".mimir/config.yml");
    for (settings, refused) in [
        ("tools: {read_file: {approval: deny}}\n", true),
        ("tools: {list_directory: {approval: deny}}\n", false),
    ] {
        fs::write(&project, settings).unwrap();
        admin.publish();
        eventually("the deployment is used", || {
            let result = agent.call("read_file", read_notes()).to_string();
            result.contains("POLICY_DENIED") == refused
        });
    }
    assert!(agent.child.try_wait().unwrap().is_none());
}

#[test]
#[ignore = "needs nats-server"]
fn deployment_that_denies_a_tool_stops_its_running_call() {
    let mut deployment = Deployment::start();
    let admin = Administrator::new(&deployment, "admin");
    let project = admin.home.join(".mimir/config.yml");
    fs::write(&project, "tools: {exec: {approval: allow}}\n").unwrap();
    admin.publish();
    let _worker = deployment.worker(&[]);
    let serving = deployment.serve("");
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&serving, "exec", super::waiting_command()));
        eventually("the command runs", || deployment.effects() == 1);
        fs::write(&project, "tools: {exec: {approval: deny}}\n").unwrap();
        admin.publish();
        let stopped = calling.join().unwrap();
        assert_eq!(stopped["isError"], true, "{stopped}");
        assert_eq!(outcome(&stopped)["code"], "POLICY_DENIED", "{stopped}");
    });
    assert_eq!(deployment.effects(), 1, "the command has ended");
}

/// A site that accepts connections and never responds. The number of connections is sent.
fn silent_site() -> (u16, std::sync::mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, connections) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            open.push(stream);
            if sender.send(()).is_err() {
                return;
            }
        }
    });
    (port, connections)
}

fn write_tool(folder: &Path, name: &str, code: &str) {
    let tools = folder.join(".mimir/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join(format!("{name}.yml")), tool(name, code)).unwrap();
}

#[test]
#[ignore = "needs nats-server"]
fn grant_that_is_revoked_in_the_cluster_stops_the_running_call_of_a_worker() {
    let mut deployment = Deployment::start();
    let admin = Administrator::new(&deployment, "admin");
    let (port, connections) = silent_site();
    let code = "
export async function execute(args, { fetch }) {
  return (await fetch(args.url)).status;
}";
    write_tool(&deployment.files(), "waits", code);
    let settings = format!(
        "{SETTINGS}  waits: {{approval: allow}}\nnetwork: {{allowedHosts: ['127.0.0.1:{port}']}}\n"
    );
    let _worker = deployment.worker_with(&settings, &[]);
    let serving = deployment.serve("");
    let files = deployment.files().display().to_string();
    let (_, refused) = admin.run(&["-C", &files, "tools", "trust", "waits"]);
    let shown = refused.to_string();
    let digest = shown
        .split("--digest ")
        .nth(1)
        .unwrap_or_else(|| panic!("{shown}"));
    let digest: String = digest
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    let scope = ["--workspace-name", "main"];
    let trust = ["-C", &files, "tools", "trust", "waits", "--digest", &digest];
    admin.done(&[&trust[..], &scope[..]].concat());
    std::thread::scope(|scope_of_call| {
        let calling = scope_of_call.spawn(|| {
            let url = format!("http://127.0.0.1:{port}/");
            call(&serving, "waits", json!({"url": url}))
        });
        connections
            .recv_timeout(super::PATIENCE)
            .unwrap_or_else(|_| panic!("no request: {:?}", calling.is_finished()));
        let revoke = ["-C", &files, "tools", "revoke", "waits"];
        admin.done(&[&revoke[..], &scope[..]].concat());
        let stopped = calling.join().unwrap();
        assert_eq!(outcome(&stopped)["code"], "PERMISSION_DENIED", "{stopped}");
        assert!(text(&stopped).contains("revoked"), "{stopped}");
    });
}

//! Making, reviewing and publishing a team's bundle.

use std::fs;
use std::path::{Path, PathBuf};

use mimir_core::needs::NeedKind;
use mimir_registry::signature::{DsseEnvelope, SigningKey};
use mimir_registry::team::TeamBundle;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::team::Team;
use crate::kit::{config, mimir, plugin, run};

mod messages;

/// Password of the stored keys.
const PASSWORD: &str = "correct horse battery";

/// Private keys of Ed25519 in PKCS #8, with seeds that everybody knows.
const KEYS: [&str; 3] = [
    "MC4CAQAwBQYDK2VwBCIEIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB",
    "MC4CAQAwBQYDK2VwBCIEIAICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIC",
    "MC4CAQAwBQYDK2VwBCIEIAMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD",
];

/// The workspace of an administrator, with the team's folder `acme`, the target `shared` and key files.
struct AdminFixture {
    home: TempDir,
}

impl AdminFixture {
    fn new() -> Self {
        let fixture = Self {
            home: tempfile::tempdir().unwrap(),
        };
        for (at, key) in KEYS.iter().enumerate() {
            let pem = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
            let path = fixture.key(at);
            fs::write(&path, &pem).unwrap();
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            }
            let public = SigningKey::from_pem(pem.as_bytes(), None).unwrap();
            let public = public.verifying_key().to_pem();
            fs::write(path.with_extension("pub"), public).unwrap();
        }
        let init = ["team", "init", "acme", "--org", "acme", "--name", "Acme"];
        fixture.done(&init);
        fixture
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn key(&self, at: usize) -> PathBuf {
        self.path(&format!("key{at}.pem"))
    }

    /// Exit code, JSON on stdout, and stderr.
    fn run(&self, args: &[&str]) -> (i32, Value, String) {
        let mut command = mimir(self.home.path(), args);
        command.env("MIMIR_KEY_PASSWORD", PASSWORD);
        let output = command.arg("--json").output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        let value = serde_json::from_str(&out).unwrap_or(Value::Null);
        let err = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), value, format!("{out}{err}"))
    }

    fn done(&self, args: &[&str]) -> Value {
        let (code, value, text) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {text}");
        value
    }

    /// The message of a command that fails with this exit code.
    fn fails(&self, exit: i32, args: &[&str]) -> String {
        let (code, value, text) = self.run(args);
        assert_eq!(code, exit, "{args:?}: {text}");
        let message = value["error"]["message"].as_str();
        message.unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    fn publish(&self, key: usize, more: &[&str]) -> (i32, Value, String) {
        let key = self.key(key).display().to_string();
        let publish = ["team", "publish", "acme", "./shared", "--sign", &key];
        self.run(&[&publish, more].concat())
    }

    fn published(&self, key: usize, more: &[&str]) -> Value {
        let (code, value, text) = self.publish(key, more);
        assert_eq!(code, 0, "{text}");
        value
    }

    fn publish_fails(&self, key: usize, more: &[&str]) -> String {
        let (code, value, text) = self.publish(key, more);
        assert_ne!(code, 0, "{text}");
        let message = value["error"]["message"].as_str();
        message.unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    fn approve(&self, name: &str, key: usize, digest: &str, more: &[&str]) -> (i32, Value, String) {
        let key = self.key(key).display().to_string();
        let approve = ["team", "approve", name, "acme", "--sign", &key];
        let digest: &[&str] = if digest.is_empty() {
            &[]
        } else {
            &["--digest", digest]
        };
        self.run(&[&approve, digest, more].concat())
    }

    /// The bundle that members would get.
    fn bundle(&self) -> TeamBundle {
        let envelope = fs::read(self.path("shared/team.json")).unwrap();
        let envelope = DsseEnvelope::from_json(&envelope).unwrap();
        TeamBundle::from_payload(&envelope.unverified_payload().unwrap()).unwrap()
    }

    fn write_component(&self, path: &str, mark: u8) -> Vec<u8> {
        let mut bytes = plugin::search();
        // A custom section, which is ignored.
        bytes.extend([0, 3, 1, b'x', mark]);
        write(&self.path(path), &bytes);
        bytes
    }
}

/// The digest that confirms a component and its rights, in the JSON of a command.
fn review_digest(value: &Value) -> String {
    let digest = value["reviewDigest"].as_str().unwrap();
    digest.strip_prefix("sha256:").unwrap().to_owned()
}

/// A component that cannot declare its needs, and imports the file system.
fn foreign_component() -> Vec<u8> {
    const TEXT: &str = r#"(component
        (import "wasi:filesystem/types@0.2.0" (instance $t
            (export "descriptor" (type (sub resource)))))
        (alias export $t "descriptor" (type $d))
        (import "wasi:filesystem/preopens@0.2.0" (instance $p
            (export "descriptor" (type (eq $d)))))
        (core module $m (func (export "ping") (result i32) i32.const 7))
        (core instance $i (instantiate $m))
        (func (export "ping") (result u32) (canon lift (core func $i "ping"))))"#;
    wat::parse_str(TEXT).unwrap()
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn team_publish_counts_versions_and_shows_differences() {
    let admin = AdminFixture::new();
    let first = admin.published(0, &[]);
    assert_eq!(
        (&first["version"], &first["previousVersion"]),
        (&json!(1), &Value::Null)
    );
    write(
        &admin.path("acme/settings.yml"),
        b"policy: {deny: [web_fetch]}\n",
    );
    write(&admin.path("acme/prompts/hello.md"), b"Say hello.\n");
    let dry = admin.published(0, &["--dry-run"]);
    assert_eq!(
        (&dry["published"], &dry["version"]),
        (&Value::Null, &json!(2))
    );
    let changes = dry["changes"].to_string();
    assert!(
        changes.contains("settings: + policy: {deny: [web_fetch]}"),
        "{changes}"
    );
    assert!(changes.contains("prompt hello.md: added"), "{changes}");
    assert_eq!(admin.bundle().version, 1, "--dry-run published");
    let second = admin.published(0, &[]);
    assert_eq!(second["version"], 2);
    let bundle = admin.bundle();
    assert_eq!(bundle.settings, "policy: {deny: [web_fetch]}\n");
    let hello = &bundle.prompts[0];
    let blob = admin.path(&format!("shared/blobs/sha256/{}", hello.digest.hex()));
    assert_eq!(fs::read(blob).unwrap(), b"Say hello.\n");
    let days = (bundle.expires_at.as_second() - bundle.issued_at.as_second()) / 86_400;
    assert_eq!(days, 30);
    assert_eq!(admin.published(0, &[])["changes"], json!([]));
}

#[test]
fn team_publish_never_goes_below_a_version() {
    let admin = AdminFixture::new();
    admin.published(0, &[]);
    let old = fs::read(admin.path("shared/team.json")).unwrap();
    copy(&admin.path("acme"), &admin.path("stale"));
    admin.published(0, &[]);
    for version in ["1", "2"] {
        let message = admin.publish_fails(0, &["--bundle-version", version]);
        assert!(
            message.contains("not above the published version 2"),
            "{message}"
        );
    }
    // The target was set back: the folder remembers.
    fs::write(admin.path("shared/team.json"), &old).unwrap();
    assert_eq!(admin.published(0, &[])["version"], 3);
    // Another copy of the folder does not know version 3.
    let key = admin.key(0).display().to_string();
    let stale = ["team", "publish", "stale", "./shared", "--sign", &key];
    let message = admin.fails(1, &stale);
    assert!(
        message.contains("has version 3, but this folder last published version 1"),
        "{message}"
    );
    assert_eq!(admin.bundle().version, 3);
    let named = admin.done(&[&stale[..], &["--bundle-version", "9"]].concat());
    assert_eq!(named["version"], 9);
}

#[test]
fn team_publish_refuses_keys_that_members_do_not_know() {
    let admin = AdminFixture::new();
    admin.published(0, &[]);
    let message = admin.publish_fails(1, &[]);
    assert!(
        message.contains("not signed by a key in `keys`"),
        "{message}"
    );
    let manifest = |keys: &str| {
        let text = format!("orgId: acme\nname: Acme\n{keys}\n");
        fs::write(admin.path("acme/team.yml"), text).unwrap();
    };
    // Known in the folder, but not to members of version 1.
    manifest("keys: [../key0.pub, ../key1.pub]");
    let message = admin.publish_fails(1, &[]);
    assert!(
        message.contains("members of version 1 do not accept the key"),
        "{message}"
    );
    let remedies = admin.publish(1, &[]).2;
    assert!(
        remedies.contains("it is in `keys` of team.yml")
            && !remedies.contains("add its public key"),
        "{remedies}"
    );
    let message = admin.publish_fails(2, &[]);
    assert!(message.contains("is not in `keys`"), "{message}");
    admin.published(0, &[]);
    admin.published(1, &[]);
    let revoked = SigningKey::from_pem(&fs::read(admin.key(0)).unwrap(), None).unwrap();
    let revoked = revoked.verifying_key().id();
    manifest(&format!("keys: [../key1.pub]\nrevokedKeys: ['{revoked}']"));
    let message = admin.publish_fails(0, &[]);
    assert!(message.contains("in `revokedKeys`"), "{message}");
    admin.published(1, &[]);
    assert_eq!(admin.bundle().revoked_keys, [revoked]);
    // The folder of another team.
    fs::write(
        admin.path("acme/team.yml"),
        "orgId: other\nname: Other\nkeys: [../key1.pub]\n",
    )
    .unwrap();
    let message = admin.publish_fails(1, &[]);
    assert!(
        message.contains("the bundle of another team, acme"),
        "{message}"
    );
    assert_eq!(admin.bundle().version, 4);
}

#[test]
fn team_publish_checks_everything_before_it_changes_the_target() {
    let admin = AdminFixture::new();
    for (path, text, wanted) in [
        ("settings.yml", "polcy: {}\n", "polcy"),
        ("settings.yml", "trustRoot: root.json\n", "relative paths"),
        ("prompts/hello.txt", "x", "prompts[0].path"),
        ("skills/a b/SKILL.md", "x", "cannot be published"),
        (
            "team.yml",
            "orgId: acme\nname: Acme\ntool: []\n",
            "team.yml",
        ),
    ] {
        let path = admin.path("acme").join(path);
        let before = fs::read(&path).ok();
        write(&path, text.as_bytes());
        let message = admin.publish_fails(0, &[]);
        assert!(message.contains(wanted), "{message}");
        match before {
            Some(before) => fs::write(&path, before).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let _ = fs::remove_dir(admin.path("acme/skills/a b"));
    }
    assert!(!admin.path("shared").exists());
    #[cfg(unix)]
    {
        let link = admin.path("acme/prompts/key.md");
        std::os::unix::fs::symlink(admin.key(0), &link).unwrap();
        let message = admin.publish_fails(0, &[]);
        assert!(message.contains("is a link"), "{message}");
        fs::remove_file(link).unwrap();
    }
    admin.published(0, &[]);
}

#[test]
fn team_tool_is_published_only_with_a_signed_approval() {
    let admin = AdminFixture::new();
    admin.write_component("prob.wasm", 1);
    let added = admin.done(&["team", "add", "prob.wasm", "acme", "--enforced"]);
    let digest = review_digest(&added);
    assert!(
        added["needs"]
            .to_string()
            .contains("read and write the workspace")
            || added["needs"].to_string().contains("read the workspace"),
        "{added}"
    );
    let message = admin.publish_fails(0, &[]);
    assert!(
        message.contains("prob.wasm") && message.contains("is not approved"),
        "{message}"
    );

    // Without a terminal, the command names the digest; another digest approves nothing.
    let (code, refused, text) = admin.approve("prob", 0, "", &[]);
    assert_eq!(code, 3, "{text}");
    assert!(
        refused["error"]["message"].to_string().contains(&digest),
        "{text}"
    );
    assert_eq!(admin.approve("prob", 0, &"a".repeat(64), &[]).0, 3);
    // The digest of the component alone says nothing about the rights.
    let component = added["digest"].as_str().unwrap();
    assert_eq!(admin.approve("prob", 0, component, &[]).0, 3);
    let approved = admin.approve("prob", 0, &digest, &[]);
    assert_eq!(approved.0, 0, "{}", approved.2);
    admin.published(0, &[]);
    let tool = admin.bundle().tools.remove(0);
    assert!(tool.enforced);
    let grant = tool.grant.unwrap();
    assert!(!grant.tools["prob_search"].needs.files.is_empty());

    // A component that was replaced in the folder.
    admin.write_component("acme/tools/prob.wasm", 2);
    let message = admin.publish_fails(0, &[]);
    assert!(
        message.contains("has changed since it was added"),
        "{message}"
    );
    // A new build needs a new approval, and keeps the tool enforced.
    admin.write_component("prob.wasm", 2);
    let added = admin.done(&["team", "add", "prob.wasm", "acme"]);
    assert_eq!(added["enforced"], true);
    let digest = review_digest(&added);
    let message = admin.publish_fails(0, &[]);
    assert!(message.contains("is not approved"), "{message}");
    // The approval of a key that the team does not know.
    let manifest = admin.path("acme/team.yml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        &manifest,
        text.replace(
            "keys: []\n\n# Public keys that may approve",
            "keys: [../key0.pub]\n\n# Public keys that may approve",
        ),
    )
    .unwrap();
    assert_eq!(admin.approve("prob", 1, &digest, &[]).0, 3);
    assert!(admin.publish_fails(0, &[]).contains("is not approved"));
    // Rights that the reviewer withholds.
    let (code, _, text) = admin.approve("prob", 0, &digest, &["--without", "files"]);
    assert_eq!(code, 0, "{text}");
    let changes = admin.published(0, &[])["changes"].to_string();
    assert!(changes.contains("may no longer read"), "{changes}");

    admin.done(&["team", "remove", "prob", "acme"]);
    admin.published(0, &[]);
    assert!(admin.bundle().tools.is_empty());
    let message = admin.fails(1, &["team", "remove", "prob", "acme"]);
    assert!(message.contains("has no tool `prob`"), "{message}");
}

#[test]
fn team_rejected_tool_is_not_published() {
    let admin = AdminFixture::new();
    admin.write_component("prob.wasm", 1);
    let added = admin.done(&["team", "add", "prob.wasm", "acme"]);
    let digest = added["digest"].as_str().unwrap();
    assert_eq!(admin.approve("prob", 0, &review_digest(&added), &[]).0, 0);
    let record = fs::read_dir(admin.path("acme/approvals")).unwrap();
    let record = record.map(|entry| entry.unwrap().path()).next().unwrap();
    let approved = fs::read(&record).unwrap();
    let key = admin.key(0).display().to_string();
    let reject = ["team", "reject", "prob.wasm", "acme", "--sign", &key];
    let rejected = admin.done(&[&reject[..], &["--reason", "too curious"]].concat());
    assert_eq!(
        (&rejected["digest"], &rejected["listed"]),
        (&json!(digest), &json!(true))
    );
    let message = admin.publish_fails(0, &[]);
    assert!(message.contains("was rejected"), "{message}");
    // The earlier approval, put back, does not revive the tool.
    fs::write(&record, approved).unwrap();
    let message = admin.publish_fails(0, &[]);
    assert!(message.contains("was rejected"), "{message}");
}

#[test]
fn team_proposal_shows_a_reviewer_everything() {
    let admin = AdminFixture::new();
    let home = admin.home.path();
    admin.write_component(".mimir/tools/prob.wasm", 1);
    write(
        &home.join("prob/cases.yml"),
        b"- {name: finds files, call: prob_search, arguments: {mode: glob, query: '*.txt'}, files: {a.txt: x}, contains: a.txt}\n\
          - {name: expects too much, call: prob_search, arguments: {mode: glob, query: '*.md'}, contains: b.md}\n",
    );
    let propose = ["team", "propose", "prob_search", "--to", "acme"];
    let proposed = admin.done(&propose);
    let digest = review_digest(&proposed);
    assert_eq!(
        (&proposed["tests"]["passed"], &proposed["tests"]["failed"]),
        (&json!(1), &json!(1))
    );
    let page = fs::read_to_string(home.join(proposed["files"]["page"].as_str().unwrap())).unwrap();
    for wanted in [
        &digest[..],
        "`read the workspace",
        "`FAILED: expects too much`",
        "Untrusted text, its description",
        "It cannot",
        "The bundle has no earlier build",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
    let json_path = home.join(proposed["files"]["json"].as_str().unwrap());
    let component = home.join(proposed["files"]["component"].as_str().unwrap());
    let text = fs::read_to_string(&json_path).unwrap();

    // A page and JSON that hide a need, and a component that is not the shown one.
    let mut hidden: Value = serde_json::from_str(&text).unwrap();
    hidden["tools"][0]["needs"] = json!({});
    fs::write(&json_path, hidden.to_string()).unwrap();
    let (code, value, text_of_error) = admin.approve("prob", 0, &digest, &[]);
    assert_eq!(code, 3, "{text_of_error}");
    assert!(
        value["error"]["message"]
            .to_string()
            .contains("tools differ"),
        "{value}"
    );
    fs::write(&json_path, &text).unwrap();
    let original = fs::read(&component).unwrap();
    fs::write(&component, [&original[..], &[0, 3, 1, b'x', 9]].concat()).unwrap();
    let (code, value, text_of_error) = admin.approve("prob", 0, &digest, &[]);
    assert_eq!(code, 3, "{text_of_error}");
    assert!(
        value["error"]["message"]
            .to_string()
            .contains("digest, size differ"),
        "{value}"
    );
    assert!(!home.join("acme/tools/prob.wasm").exists());

    fs::write(&component, &original).unwrap();
    let (code, _, text) = admin.approve("prob", 0, &digest, &["--enforced"]);
    assert_eq!(code, 0, "{text}");
    assert!(!json_path.exists(), "a decided proposal still waits");
    admin.published(0, &[]);
    assert!(admin.bundle().tools[0].enforced);

    // The next build is compared with the approved one.
    let mut wider = plugin::search();
    plugin::swap(&mut wider, b"to search the files", b"to steal, the files");
    write(&home.join(".mimir/tools/prob.wasm"), &wider);
    let page = admin.done(&propose)["files"]["page"].clone();
    let page = fs::read_to_string(home.join(page.as_str().unwrap())).unwrap();
    assert!(
        page.contains("- `now `prob_search` may") || page.contains("now `prob_search` may"),
        "{page}"
    );
}

#[test]
fn team_approve_confirms_the_rights_that_the_digest_covers() {
    let admin = AdminFixture::new();
    write(
        &admin.path(".mimir/tools/pinger.wasm"),
        &foreign_component(),
    );
    let proposed = admin.done(&["team", "propose", "pinger.wasm", "--to", "acme"]);
    let digest = review_digest(&proposed);
    let (page, path) = (&proposed["files"]["page"], &proposed["files"]["json"]);
    let page = fs::read_to_string(admin.path(page.as_str().unwrap())).unwrap();
    assert!(page.contains(&digest), "{page}");
    let path = admin.path(path.as_str().unwrap());
    let harmless = fs::read_to_string(&path).unwrap();
    let component = fs::read(path.with_extension("wasm")).unwrap();

    // Another proposal of the same component, after the review: it names rights.
    let rights =
        json!({"files": [{"path": ".", "access": "read-write", "reason": "named by a person"}]});
    let mut wider: Value = serde_json::from_str(&harmless).unwrap();
    wider["named"] = rights.clone();
    wider["tools"][0]["needs"] = rights.clone();
    fs::write(&path, wider.to_string()).unwrap();
    let (code, refused, text) = admin.approve("pinger", 0, &digest, &[]);
    assert_eq!(code, 3, "{text}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("digest mismatch"), "{message}");
    assert!(!admin.path("acme/tools/pinger.wasm").exists());
    fs::write(&path, &harmless).unwrap();
    let (code, _, text) = admin.approve("pinger", 0, &digest, &[]);
    assert_eq!(code, 0, "{text}");
    admin.published(0, &[]);
    let granted = |admin: &AdminFixture| admin.bundle().tools.remove(0).grant.unwrap().named();
    assert!(granted(&admin).is_empty());

    // A record with rights, which nobody of the team has signed.
    let record = fs::read_dir(admin.path("acme/approvals")).unwrap();
    let record = record
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "json"))
        .unwrap();
    let envelope = DsseEnvelope::from_json(&fs::read(&record).unwrap()).unwrap();
    let mut planted: Value =
        serde_json::from_slice(&envelope.unverified_payload().unwrap()).unwrap();
    planted["grant"]["named"] = rights.clone();
    let stranger = SigningKey::from_pem(&fs::read(admin.key(2)).unwrap(), None).unwrap();
    let payload = serde_json::to_vec(&planted).unwrap();
    let planted = DsseEnvelope::sign(envelope.payload_type(), &payload, &stranger).unwrap();
    fs::write(&record, planted.to_json().unwrap()).unwrap();
    let message = admin.publish_fails(0, &[]);
    assert!(message.contains("is not signed by a key"), "{message}");
    let (code, _, text) = admin.approve("pinger", 0, &digest, &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("it is left out"), "{text}");
    admin.published(0, &[]);
    assert!(granted(&admin).is_empty(), "unsigned rights were published");

    // A reviewer who confirms the rights grants them.
    fs::write(&path, wider.to_string()).unwrap();
    fs::write(path.with_extension("wasm"), component).unwrap();
    let refused = admin.approve("pinger", 0, "", &[]).1;
    let message = refused["error"]["message"].as_str().unwrap().to_owned();
    let wide = message.split("--digest ").nth(1).unwrap();
    let wide = wide.trim_end_matches('`');
    assert_ne!(wide, digest);
    assert_eq!(admin.approve("pinger", 0, wide, &[]).0, 0);
    admin.published(0, &[]);
    assert_eq!(granted(&admin).files.len(), 1);
}

#[test]
fn team_publish_revokes_the_key_of_the_published_bundle() {
    let admin = AdminFixture::new();
    let manifest = |revoked: &str| {
        let text = format!(
            "orgId: acme\nname: Acme\nkeys: [../key0.pub, ../key1.pub]\nrevokedKeys: [{revoked}]\n"
        );
        fs::write(admin.path("acme/team.yml"), text).unwrap();
    };
    manifest("");
    admin.published(0, &[]);
    let revoked = SigningKey::from_pem(&fs::read(admin.key(0)).unwrap(), None).unwrap();
    let id = revoked.verifying_key().id();
    manifest(&format!("'{id}'"));
    assert!(admin.publish_fails(0, &[]).contains("in `revokedKeys`"));
    assert_eq!(admin.published(1, &[])["version"], 2);
    let bundle = admin.bundle();
    assert_eq!(bundle.revoked_keys, [id]);
    let revoked = revoked.verifying_key().to_pem();
    assert!(bundle.keys.len() == 1 && !bundle.keys.contains(&revoked));
    assert!(admin.publish_fails(0, &[]).contains("in `revokedKeys`"));
}

#[test]
fn team_models_are_used_only_at_addresses_of_the_team() {
    let mut team = Team::new("");
    team.bundle.models = vec!["anthropic/*".to_owned()];
    team.publish();
    let home = tempfile::tempdir().unwrap();
    team.join(home.path());
    let path = config(home.path()).join("config.yml");
    let joined = fs::read_to_string(&path).unwrap();
    let ask = |settings: &str| {
        fs::write(&path, format!("{joined}{settings}")).unwrap();
        run(home.path(), &["run", "hello"])
    };
    // Nobody listens there.
    let own = "\
model: anthropic/claude
providers: {anthropic: {url: 'http://127.0.0.1:1', key: K}}
secrets: {K: {env: PATH}}
";
    let (code, out, err) = ask(own);
    assert_eq!(code, 3, "{out}{err}");
    assert!(
        err.contains("cannot be used at the address in") && err.contains("team Acme"),
        "{err}"
    );
    // The team's own address is used.
    team.bundle.settings =
        "providers: {anthropic: {url: 'http://127.0.0.1:1', key: K}}\n".to_owned();
    team.publish();
    assert_eq!(run(home.path(), &["team", "sync"]).0, 0);
    let (code, out, err) = ask(own);
    assert!(
        code != 0 && !err.contains("cannot be used at the address"),
        "{code} {out}{err}"
    );
}

#[test]
fn team_members_see_what_a_bundle_puts_in_force() {
    let mut team = Team::new("").with_tool(false);
    team.publish();
    let home = tempfile::tempdir().unwrap();
    team.join(home.path());
    team.bundle.settings = "\
mcp: {servers: {notes: {command: notes-server}}}
secrets: {TOKEN: {env: HOME}}
providers: {local: {url: 'http://127.0.0.1:1', api: openai}}
tools: {read_file: {approval: allow}}
sandbox: {bindMounts: [/data]}
"
    .to_owned();
    team.bundle.tools[0].grant.as_mut().unwrap().withheld = vec![NeedKind::Files];
    team.publish();
    let (code, out, err) = run(home.path(), &["team", "sync", "--json"]);
    assert_eq!(code, 0, "{err}");
    let synced: Value = serde_json::from_str(&out).unwrap();
    let changes = synced["teams"][0]["changes"].to_string();
    for wanted in [
        "tool prob.wasm: may no longer read",
        "settings: + mcp: {servers: {notes: {command: notes-server}}}",
        "settings: + secrets: {TOKEN: {env: HOME}}",
    ] {
        assert!(changes.contains(wanted), "{wanted}\n{changes}");
    }
    let log = run(home.path(), &["audit", "show"]).1;
    assert!(log.contains("changes in version 2: "), "{log}");
    let (_, again, _) = run(home.path(), &["team", "sync", "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["teams"][0]["changes"], json!([]));
    let (_, status, err) = run(home.path(), &["team", "status"]);
    for wanted in [
        "mcp.servers.notes: notes-server",
        "secrets.TOKEN",
        "providers.local: http://127.0.0.1:1",
        "tools.read_file.approval: allow",
        "sandbox.bindMounts: /data",
    ] {
        assert!(status.contains(wanted), "{wanted}\n{status}{err}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn team_card_shows_no_withheld_rights() {
    use crate::kit::terminal::answered_at;
    let mut team = Team::new("").with_tool(false);
    let grant = team.bundle.tools[0].grant.as_mut().unwrap();
    grant.withheld = vec![NeedKind::Files];
    team.publish();
    let home = tempfile::tempdir().unwrap();
    let (folder, key) = (team.folder().display().to_string(), team.key_file());
    let join = ["team", "join", &folder, "--key", &key];
    let Some((code, text)) = answered_at(home.path(), &join, &["[y/N] > "], "n\n") else {
        return;
    };
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("withheld: files"), "{text}");
    assert!(!text.contains("may read"), "{text}");
}

#[test]
fn team_propose_refuses_tools_that_are_not_components() {
    let admin = AdminFixture::new();
    let message = admin.fails(2, &["team", "propose", "read_file"]);
    assert!(message.contains("not a component"), "{message}");
    let message = admin.fails(2, &["team", "propose", "prob_serch"]);
    assert!(message.contains("prob_serch"), "{message}");
    let again = ["team", "init", "acme", "--org", "acme", "--name", "Acme"];
    assert!(admin.fails(1, &again).contains("already exists"));
}

#[test]
#[cfg(target_os = "linux")]
fn team_approve_asks_a_person_at_the_terminal() {
    use crate::kit::terminal::answered_at;
    let admin = AdminFixture::new();
    admin.write_component("prob.wasm", 1);
    admin.done(&["team", "add", "prob.wasm", "acme"]);
    let key = admin.key(0).display().to_string();
    let approve = ["team", "approve", "prob", "acme", "--sign", &key];
    let prompts = ["s shows all --", "[y/N] > "];
    let answered = |answer: &str| answered_at(admin.home.path(), &approve, &prompts, answer);
    let Some((code, text)) = answered("s\nn\n") else {
        return;
    };
    assert_eq!(code, 3, "{text}");
    for wanted in [
        "Proposal: `prob.wasm`",
        "`read the workspace",
        "Untrusted text",
        "Approve prob.wasm for every member of Acme",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    assert!(admin.publish_fails(0, &[]).contains("is not approved"));
    let (code, text) = answered("s\ny\n").unwrap();
    assert_eq!(code, 0, "{text}");
    admin.published(0, &[]);
    assert_eq!(admin.bundle().tools.len(), 1);
}

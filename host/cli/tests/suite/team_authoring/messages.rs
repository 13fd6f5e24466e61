//! Output of the commands of administrators: next commands that run as printed, names of keys, published files.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::kit::oci_registry::OciRegistry;

impl AdminFixture {
    /// Runs a command for a person, with the password of the stored keys. Returns the exit code, and all output.
    fn text(&self, args: &[&str]) -> (i32, String) {
        let mut command = mimir(self.home.path(), args);
        let output = command.env("MIMIR_KEY_PASSWORD", PASSWORD).output();
        let output = output.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let all = text(output.stdout) + &text(output.stderr);
        (output.status.code().unwrap(), all)
    }

    /// Runs a command that must succeed, as it was printed.
    fn line(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let (code, text) = self.text(&words);
        assert_eq!(code, 0, "{line}: {text}");
        text
    }
}

/// Returns the command in a text that begins with these words.
fn printed(text: &str, begin: &str) -> String {
    // Messages on terminals are wrapped; those in pipes are not.
    let quoted = text.split('`').filter(|part| part.starts_with(begin));
    let quoted: Vec<&str> = quoted.collect();
    let [only, ..] = quoted.as_slice() else {
        panic!("`{begin}` is not in: {text}");
    };
    (*only).to_owned()
}

#[test]
fn team_commands_print_commands_that_run() {
    let admin = AdminFixture::new();
    let init = "mimir team init acme2 --org acme --name Acme";
    admin.line(&printed(&admin.line(init), "mimir keys new"));
    admin.write_component("prob.wasm", 1);
    let added = admin.line("mimir team add prob.wasm acme2");
    let approve = printed(&added, "mimir team approve");
    assert_eq!(approve, "mimir team approve prob.wasm acme2 --sign acme");
    // A publisher who has forgotten the approval is shown the same command.
    let publish = ["team", "publish", "acme2", "./shared", "--sign", "acme"];
    let (code, refused) = admin.text(&publish);
    assert_eq!(code, 3, "{refused}");
    assert_eq!(printed(&refused, "mimir team approve"), approve);
    let words: Vec<&str> = approve.split(' ').skip(1).collect();
    let (code, asked) = admin.text(&words);
    assert_eq!(code, 3, "{asked}");
    let confirmed = printed(&asked, "mimir team approve prob");
    assert!(confirmed.starts_with(&approve), "{confirmed}");
    let approved = admin.line(&confirmed);
    // Nothing was published, so the target is the person's choice.
    let next = printed(&approved, "mimir team publish");
    assert_eq!(next, "mimir team publish acme2 TARGET --sign acme");
    let next = format!("{} --dry-run", next.replace("TARGET", "./shared"));
    let published = admin.line(&printed(&admin.line(&next), "mimir team publish acme2"));
    let show = printed(&published, "mimir keys show");
    let (show, file) = show.split_once(" > ").unwrap();
    fs::write(admin.path(file), admin.line(show)).unwrap();
    let join = printed(&published, "mimir team join");
    admin.line(&format!("{join} --yes"));
    // From now on, the target is known.
    admin.write_component("prob.wasm", 2);
    let added = admin.line("mimir team add prob.wasm acme2");
    admin.write_component("acme2/tools/prob.wasm", 3);
    let (code, changed) = admin.text(&publish);
    assert_eq!(code, 3, "{changed}");
    let again = admin.text(&["team", "approve", "prob", "acme2", "--sign", "acme"]);
    assert_eq!(again.0, 3);
    assert!(again.1.contains("has changed since it was added"));
    let add = printed(&again.1, "mimir team add");
    let added_again = admin.line(&add);
    assert_eq!(
        printed(&added_again, "mimir team approve"),
        printed(&added, "mimir team approve")
    );
    let removed = admin.line("mimir team remove prob acme2");
    let published = admin.line(&printed(&removed, "mimir team publish"));
    assert!(
        published.contains("published version 2 to ./shared"),
        "{published}"
    );
    assert!(admin.bundle().tools.is_empty());
    admin.line("mimir team sync");
    admin.line("mimir team leave");
}

#[test]
fn team_publish_lists_its_files_and_leaves_out_strays() {
    let admin = AdminFixture::new();
    let skill = b"---\nname: notes\ndescription: Writes notes.\n---\nWrite.\n";
    for (path, bytes) in [
        ("skills/notes/SKILL.md", &skill[..]),
        ("skills/notes/SKILL.md~", b"old"),
        ("skills/notes/.DS_Store", b"x"),
        ("prompts/hello.md", b"Say hello."),
        ("prompts/#hello.md#", b"unsaved"),
    ] {
        write(&admin.path("acme").join(path), bytes);
    }
    // Nothing but the guides is in the new folder.
    assert!(admin.path("acme/skills/README.md").is_file());
    let published = admin.published(0, &[]);
    assert_eq!(
        published["leftOut"],
        json!([
            "prompts/#hello.md#",
            "skills/notes/.DS_Store",
            "skills/notes/SKILL.md~"
        ])
    );
    let expected = json!({
        "tools": [], "workers": [], "prompts": ["hello.md"], "skills": ["notes/SKILL.md"],
    });
    assert_eq!(published["contains"], expected);
    let bundle = admin.bundle();
    assert_eq!((bundle.skills.len(), bundle.prompts.len()), (1, 1));
    let key = admin.key(0).display().to_string();
    let (_, text) = admin.text(&["team", "publish", "acme", "./shared", "--sign", &key]);
    for wanted in [
        "prompts: hello.md",
        "skills: notes/SKILL.md",
        "left out, hidden files and backups: prompts/#hello.md#, ",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    // A skill that members would refuse.
    write(&admin.path("acme/skills/notes/SKILL.md"), b"Write.\n");
    let message = admin.publish_fails(0, &[]);
    assert!(message.contains("skills/notes/SKILL.md: "), "{message}");
}

#[test]
fn team_keys_are_named_by_id_and_name_and_on_record() {
    let admin = AdminFixture::new();
    let made = admin.done(&["keys", "new", "acme"]);
    let id = made["created"]["id"].as_str().unwrap().to_owned();
    admin.write_component("prob.wasm", 1);
    let added = admin.done(&["team", "add", "prob.wasm", "acme"]);
    let (digest, review) = (added["digest"].clone(), review_digest(&added));
    admin.line(&format!(
        "mimir team approve prob acme --sign acme --digest {review}"
    ));
    let published = admin.line("mimir team publish acme ./shared --sign acme");
    let named = format!("{id} (acme)");
    for wanted in [
        format!("key added: {named}"),
        format!("prob.wasm was approved with the key {named}"),
        format!("signed with the key {named}"),
    ] {
        assert!(published.contains(&wanted), "{wanted}\n{published}");
    }
    assert!(!published.contains("MFkw"), "{published}");
    let removed = admin.line("mimir keys remove acme --yes --json");
    assert!(removed.contains(&id), "{removed}");
    let log = admin.line("mimir audit show --json");
    let digest = digest.as_str().unwrap();
    let envelope =
        mimir_registry::OciDigest::of_bytes(&fs::read(admin.path("shared/team.json")).unwrap());
    for wanted in [
        format!("created, {id}"),
        format!("approved prob.wasm, {digest}, signed with the key {named}"),
        format!(
            "published version 1 to ./shared, envelope {envelope}, signed with the key {named}"
        ),
        format!("removed, {id}"),
    ] {
        assert!(log.contains(&wanted), "{wanted}\n{log}");
    }
}

#[test]
fn team_bundle_that_expires_soon_is_warned_of() {
    let admin = AdminFixture::new();
    let manifest = admin.path("acme/team.yml");
    let text = fs::read_to_string(&manifest).unwrap();
    let short = text.replace("expiresInDays: 30", "expiresInDays: 3");
    fs::write(&manifest, short).unwrap();
    let key = admin.key(0).display().to_string();
    let publish = ["team", "publish", "acme", "./shared", "--sign", &key];
    let (code, published) = admin.text(&publish);
    assert_eq!(code, 0, "{published}");
    assert!(published.contains("UTC, in 3 days"), "{published}");
    assert!(published.contains("`expiresInDays` in team.yml is 3"));
    admin.write_component("prob.wasm", 1);
    let added = admin.line("mimir team add prob.wasm acme");
    assert!(
        added.contains("the published version 1 is valid until"),
        "{added}"
    );
    assert!(
        printed(&added, "mimir team publish").starts_with("mimir team publish acme ./shared"),
        "{added}"
    );
    admin.line("mimir team remove prob acme");
    fs::write(&manifest, text).unwrap();
    let (_, published) = admin.text(&publish);
    assert!(!published.contains("expiresInDays"), "{published}");
    let added = admin.line("mimir team add prob.wasm acme");
    assert!(!added.contains("is valid until"), "{added}");
}

#[test]
fn team_members_are_warned_before_the_bundle_expires() {
    let mut team = Team::new("");
    team.publish();
    let home = tempfile::tempdir().unwrap();
    team.join(home.path());
    let status = run(home.path(), &["team", "status"]).1;
    assert!(status.contains("UTC, in 42 days"), "{status}");
    assert!(!status.contains("the bundle expires"), "{status}");
    team.bundle.expires_at = Timestamp::now() + SignedDuration::from_hours(50);
    team.publish();
    let (code, _, err) = run(home.path(), &["team", "sync"]);
    assert!(code == 0 && err.contains("the bundle expires at"), "{err}");
    let (code, out, _) = run(home.path(), &["team", "status", "--json"]);
    let row: Value = serde_json::from_str(&out).unwrap();
    let warning = row["teams"][0]["warning"].as_str().unwrap();
    assert!(
        code == 0 && warning.contains("`mimir team sync`") && warning.contains("in 2 days"),
        "{code} {warning}"
    );
    let status = run(home.path(), &["team", "status"]).1;
    assert!(status.contains("ask the team's administrator"), "{status}");
    let doctor = run(home.path(), &["doctor"]).1;
    assert!(doctor.contains("the bundle is valid until"), "{doctor}");
}

/// An administrator with the key `author`, and a registry with an unsigned tool.
struct PushedTool {
    admin: AdminFixture,
    registry: OciRegistry,
    /// Settings that reach the registry.
    settings: String,
    reference: String,
}

impl PushedTool {
    fn new() -> Self {
        let admin = AdminFixture::new();
        let registry = OciRegistry::start();
        let settings = format!("network: {{allowedHosts: ['{}']}}\n", registry.address());
        write(
            &config(admin.home.path()).join("config.yml"),
            settings.as_bytes(),
        );
        admin.line("mimir keys new author");
        admin.write_component("prob.wasm", 1);
        let reference = registry.reference("acme/prob:1");
        admin.line(&format!("mimir tools push prob.wasm {reference}"));
        Self {
            admin,
            registry,
            settings,
            reference,
        }
    }
}

#[test]
fn team_add_tells_unchecked_signatures_from_missing_ones() {
    let PushedTool {
        admin,
        registry,
        settings,
        reference,
    } = PushedTool::new();
    let added = admin.line(&format!("mimir team add {reference} acme"));
    assert!(added.contains("signature: unsigned"), "{added}");
    admin.line(&format!(
        "mimir tools push prob.wasm {reference} --sign author"
    ));
    let added = admin.line(&format!("mimir team add {reference} acme"));
    let unchecked = format!(
        "not checked: it has signatures, but no `trust` rule covers {}",
        registry.address()
    );
    assert!(added.contains(&unchecked), "{added}");
    let value = admin.done(&["team", "add", &reference, "acme"]);
    assert_eq!(value["signature"], "notChecked");
    // The reviewer's page says the same, after the component was fetched again.
    let (code, page) = admin.text(&["team", "approve", "prob", "acme", "--sign", "author"]);
    assert_eq!(code, 3, "{page}");
    assert!(page.contains("not checked: it has signatures"), "{page}");
    let trust = format!(
        "{settings}trust: [{{registry: '{}/*', keys: [author]}}]\n",
        registry.address()
    );
    write(
        &config(admin.home.path()).join("config.yml"),
        trust.as_bytes(),
    );
    let added = admin.line(&format!("mimir team add {reference} acme"));
    assert!(added.contains("signature: key author"), "{added}");
}

#[test]
fn team_approve_keeps_the_origin_that_the_catalog_has() {
    let pushed = PushedTool::new();
    let (admin, reference) = (&pushed.admin, &pushed.reference);
    admin.line(&format!("mimir team add {reference} acme"));
    admin.write_component(".mimir/tools/prob.wasm", 1);
    let proposed = admin.done(&["team", "propose", "prob.wasm", "--to", "acme"]);
    let digest = review_digest(&proposed);
    let approve = ["team", "approve", "prob", "acme", "--sign", "author"];
    let approved = admin.done(&[&approve[..], &["--digest", &digest]].concat());
    let kept = approved["reference"].as_str().unwrap();
    assert!(
        kept.starts_with(reference) && kept.contains("@sha256:"),
        "{kept}"
    );
    // Of another build, the person is told which one is reviewed.
    admin.write_component(".mimir/tools/prob.wasm", 2);
    admin.done(&["team", "propose", "prob.wasm", "--to", "acme"]);
    let (code, text) = admin.text(&approve);
    assert!(
        code == 3 && text.contains("The catalog has another"),
        "{text}"
    );
}

#[test]
fn team_publish_warns_of_members_who_miss_the_bundle_before_a_revocation() {
    let admin = AdminFixture::new();
    let manifest = |revoked: &str| {
        let text = format!(
            "orgId: acme\nname: Acme\nkeys: [../key0.pub, ../key1.pub]\nrevokedKeys: [{revoked}]\n"
        );
        fs::write(admin.path("acme/team.yml"), text).unwrap();
    };
    let publish = |at: usize| {
        let key = admin.key(at).display().to_string();
        let (code, text) = admin.text(&["team", "publish", "acme", "./shared", "--sign", &key]);
        assert_eq!(code, 0, "{text}");
        text
    };
    manifest("");
    assert!(!publish(0).contains("this bundle revokes"));
    let revoked = SigningKey::from_pem(&fs::read(admin.key(0)).unwrap(), None).unwrap();
    manifest(&format!("'{}'", revoked.verifying_key().id()));
    let text = publish(1);
    assert!(
        text.contains("this bundle revokes") && text.contains("have not fetched version 1"),
        "{text}"
    );
    assert!(!publish(1).contains("this bundle revokes"));
}

//! Publishing: builds that are outdated, signatures that exist, skills, and signatures of an index.

use std::fs;
use std::fs::File;
use std::time::{Duration, SystemTime};

use mimir_registry::OciDigest;
use mimir_registry::signature::{SignatureBundle, SigningKey};
use serde_json::{Value, json};

use super::{PASSWORD, RegistryWorkspace, TOOL, changed_plugin};
use crate::kit::oci_registry::digest_of;
use crate::kit::{self, plugin};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Writes the sources of a plugin with one tool into the folder `words`.
fn write_words(work: &RegistryWorkspace, result: &str) {
    let dir = work.path().join("words");
    fs::create_dir_all(&dir).unwrap();
    fs::create_dir_all(work.path().join(".mimir")).unwrap();
    let package = r#"{"name": "words", "version": "1.4.0"}"#;
    fs::write(dir.join("package.json"), package).unwrap();
    let source = format!(
        "import {{ defineTool }} from \"mimir\";\n\
        export default defineTool({{ name: \"word_count\", description: \"Counts words.\",\n\
        inputSchema: {{ type: \"object\", properties: {{}} }}, needsApproval: false,\n\
        execute() {{ return \"{result}\"; }} }});\n"
    );
    fs::write(dir.join("tool.js"), source).unwrap();
}

#[test]
fn tools_push_refuses_a_build_that_is_older_than_its_sources() {
    let work = RegistryWorkspace::new();
    let reference = work.registry.reference("acme/words:1");
    let push = |source: &str, args: &[&str]| {
        work.run(&[&["tools", "push", source, &reference], args].concat())
    };
    let refused = |source: &str, why: &str| {
        let before = work.registry.requests().len();
        let (code, out, err) = push(source, &[]);
        assert!(
            code != 0 && err.contains(why),
            "{source}: {code}: {out}{err}"
        );
        assert!(err.contains("mimir tools build"), "{source}: {err}");
        assert_eq!(work.registry.requests().len(), before, "{source}");
    };
    write_words(&work, "first");
    refused("words", "not built");
    let build = || {
        let (code, out, err) = work.run(&["tools", "build", "words"]);
        assert_eq!(code, 0, "{out}{err}");
    };
    build();
    let (code, out, err) = push("words", &[]);
    assert_eq!(code, 0, "{err}");
    let digest = work.registry.digest("acme/words:1");
    for part in ["pushed words 1.4.0", &reference, &digest] {
        assert!(out.contains(part), "{out}");
    }
    // The same content at another time, as after a checkout, is the build.
    let file = work.path().join("words/tool.js");
    let later = SystemTime::now() + Duration::from_secs(60);
    let file = File::options().append(true).open(file).unwrap();
    file.set_modified(later).unwrap();
    let (code, out, err) = push("words", &[]);
    assert!(
        code == 0 && out.contains("already in the registry"),
        "{out}{err}"
    );

    // Other content at an older time is not.
    write_words(&work, "second");
    let file = File::options()
        .append(true)
        .open(work.path().join("words/tool.js"));
    let earlier = SystemTime::now() - Duration::from_secs(3600);
    file.unwrap().set_modified(earlier).unwrap();
    for source in [
        "words",
        "words/tool.js",
        ".mimir/tools/words.wasm",
        "words.wasm/../.mimir/tools/words.wasm",
        "word_count",
    ] {
        if source.contains("..") {
            fs::create_dir_all(work.path().join("words.wasm")).unwrap();
        }
        refused(source, "outdated");
    }
    let (code, out, err) = push("words", &["--allow-stale"]);
    assert!(
        code == 0 && out.contains("already in the registry"),
        "{out}{err}"
    );
    build();
    let (code, _, err) = push("word_count", &["--force"]);
    assert_eq!(code, 0, "{err}");
    assert_ne!(work.registry.digest("acme/words:1"), digest);

    // The file of another program has the name of the build.
    fs::write(
        work.path().join(".mimir/tools/words.wasm"),
        plugin::search(),
    )
    .unwrap();
    refused("words", "was replaced");
    // It can be pushed as what it is.
    let (code, _, err) = push(".mimir/tools/words.wasm", &["--force"]);
    assert_eq!(code, 0, "{err}");
    // Without a record, as in a clone, the times tell nothing: a checkout writes the files in any order.
    let record = work.path().join(".mimir/state/built.json");
    assert!(fs::read_to_string(&record).unwrap().contains("sources"));
    fs::remove_file(&record).unwrap();
    let (code, _, err) = push("words", &["--force"]);
    assert_eq!(code, 0, "{err}");
    fs::write(work.path().join("words/new.js"), "x").unwrap();
    let new = File::options()
        .append(true)
        .open(work.path().join("words/new.js"));
    new.unwrap().set_modified(later).unwrap();
    let (code, out, err) = push("words", &[]);
    assert!(code == 0 && err.contains("is not known"), "{out}{err}");
}

#[test]
fn tools_push_signs_the_manifest_of_each_tag() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    work.configure(&work.trust("acme"));
    let component = plugin::search();
    let first = work.push(&component, "1", &[]);
    // The same component with another time of the build, as after a checkout.
    let mut manifest = work.registry.manifest("acme/prob:1");
    let time = "2020-01-01T00:00:00Z";
    manifest["annotations"]["org.opencontainers.image.created"] = time.into();
    let config = manifest["config"]["digest"].as_str().unwrap().to_owned();
    let config = work.registry.with(|content| content.blobs[&config].clone());
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    config["created"] = time.into();
    let config = serde_json::to_vec(&config).unwrap();
    let media_type = manifest["config"]["mediaType"].as_str().unwrap().to_owned();
    manifest["config"] = work.registry.put_blob(&media_type, &config);
    let second = work.registry.put_manifest("acme/prob:2", &manifest);
    assert_ne!(first, second);

    let (code, out, err) = work.try_push(&component, "1", &["--tag", "2", "--sign", "acme"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains(&format!("digest: {first}")), "{out}");
    assert!(out.contains(&format!("digest of 2: {second}")), "{out}");
    for tag in ["1", "2"] {
        let (code, _, err) = work.add(tag, &["--force"]);
        assert!(code == 0 && err.contains("signed by acme"), "{tag}: {err}");
    }
    assert_eq!(work.registry.digest("acme/prob:1"), first);
    assert_eq!(work.registry.digest("acme/prob:2"), second);
}

#[test]
fn skills_push_by_name_publishes_only_accepted_content() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    let skill = work.path().join(".mimir/skills/forms");
    fs::create_dir_all(&skill).unwrap();
    let document = "---\nname: forms\ndescription: Fills forms.\n---\nDo it.\n";
    fs::write(skill.join("SKILL.md"), document).unwrap();
    let reference = work.registry.reference("acme/forms:1");
    let push = ["skills", "push", "forms", &reference, "--sign", "acme"];
    let refused = || {
        let (code, out, err) = work.run_with_password(&push);
        assert_eq!(code, 3, "{out}{err}");
        assert!(err.contains("mimir skills trust forms"), "{err}");
        assert!(work.registry.requests().is_empty());
    };
    refused();
    let accept = || {
        let (_, info) = work.json(&["skills", "info", "forms"]);
        let digest = info["digest"].as_str().unwrap().to_owned();
        let (code, _, err) = work.run(&["skills", "trust", "forms", "--digest", &digest]);
        assert_eq!(code, 0, "{err}");
    };
    accept();
    fs::write(skill.join("more.md"), "Do more.").unwrap();
    refused();
    accept();
    let (code, out, err) = work.run_with_password(&push);
    assert!(code == 0 && out.contains("SKILL.md, more.md"), "{out}{err}");
}

#[test]
fn skills_push_leaves_out_hidden_and_secret_files() {
    let work = RegistryWorkspace::new();
    let skill = work.path().join("forms");
    fs::create_dir_all(skill.join("scripts")).unwrap();
    let document = "---\nname: forms\ndescription: Fills forms.\n---\nDo it.\n";
    fs::write(skill.join("SKILL.md"), document).unwrap();
    fs::write(skill.join("scripts/a.py"), "print(1)").unwrap();
    for private in [".env", "scripts/server.pem"] {
        fs::write(skill.join(private), "hunter2").unwrap();
    }
    let reference = work.registry.reference("acme/forms:1");
    let (code, pushed) = work.json(&["skills", "push", "./forms", &reference]);
    assert_eq!(code, 0, "{pushed}");
    assert_eq!(pushed["files"], json!(["SKILL.md", "scripts/a.py"]));
    assert_eq!(pushed["leftOut"], json!([".env", "scripts/server.pem"]));
    let (code, out, err) = work.run(&["skills", "push", "./forms", &reference]);
    assert!(
        code == 0 && out.contains(".env, scripts/server.pem"),
        "{out}{err}"
    );
    let user = RegistryWorkspace::with_registry(work.registry.clone());
    let (code, added) = user.json(&["skills", "add", &reference]);
    assert_eq!(code, 0, "{added}");
    let installed = user.path().join(".mimir/skills/forms");
    assert!(installed.join("scripts/a.py").is_file());
    assert!(!installed.join(".env").exists());
    assert!(!installed.join("scripts/server.pem").exists());
}

#[test]
fn tools_push_explains_what_cannot_be_pushed() {
    let work = RegistryWorkspace::new();
    let reference = work.registry.reference("acme/x:1");
    fs::create_dir_all(work.path().join(".mimir/tools")).unwrap();
    fs::write(
        work.path().join(".mimir/tools/echo.yml"),
        "name: local_echo\ndescription: Echo.\nschema: {type: object}\n\
         code: 'export async function execute() { return 1 }'\n",
    )
    .unwrap();
    let skill = work.path().join("forms");
    fs::create_dir_all(&skill).unwrap();
    fs::write(
        skill.join("SKILL.md"),
        "---\nname: forms\ndescription: d\n---\n",
    )
    .unwrap();
    for (source, why) in [
        (".mimir/tools/echo.yml", "mimir tools new"),
        ("local_echo", "only components"),
        ("forms", "mimir skills push forms"),
        ("nothing", "neither a path nor an installed tool"),
        ("read_file", "not a component"),
    ] {
        let (code, _, err) = work.run(&["tools", "push", source, &reference]);
        assert!(code == 2 && err.contains(why), "{source}: {code}: {err}");
    }
    assert!(work.registry.requests().is_empty());
}

#[test]
fn signature_that_no_trust_rule_covers_is_not_called_unsigned() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    let component = plugin::search();
    let pushed = |args: &[&str]| {
        let (code, _, err) = work.try_push(&component, "1", args);
        assert_eq!(code, 0, "{err}");
        err
    };
    let info = || {
        let (code, out, err) = work.run(&["tools", "info", "prob"]);
        assert_eq!(code, 0, "{err}");
        let (_, json) = work.json(&["tools", "info", "prob"]);
        (out, json["sourceSignature"].clone())
    };
    assert!(pushed(&[]).contains("It is not signed"));
    let (code, _, err) = work.add("1", &[]);
    assert!(code == 0 && err.contains("Signature: unsigned"), "{err}");
    let (text, state) = info();
    assert!(text.contains("Signature: unsigned"), "{text}");
    assert_eq!(state, "unsigned");

    assert!(pushed(&["--sign", "acme"]).contains("Signed with the key"));
    let again = pushed(&[]);
    assert!(!again.contains("not signed"), "{again}");
    assert!(again.contains("already has signatures"), "{again}");
    let (code, _, err) = work.add("1", &["--force"]);
    let unchecked = format!(
        "not checked: it has signatures, but no `trust` rule covers {}",
        work.registry.address()
    );
    assert!(code == 0 && err.contains(&unchecked), "{err}");
    let (text, state) = info();
    assert!(text.contains(&unchecked), "{text}");
    assert_eq!(state, "notChecked");

    work.configure(&work.trust("acme"));
    let again = pushed(&[]);
    assert!(again.contains("already has a signature of acme"), "{again}");
    let (text, state) = info();
    assert!(text.contains("Signer: key acme"), "{text}");
    assert_eq!(state, "signed");
}

/// Puts an index with these manifests under the tag `acme/prob:TAG`, and signs it. Returns its digest.
fn put_signed_index(work: &RegistryWorkspace, tag: &str, manifests: &[Value]) -> String {
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
    let bytes = serde_json::to_vec(&index).unwrap();
    let digest = digest_of(&bytes);
    let size = bytes.len();
    work.registry.with(|content| {
        let key = format!("acme/prob@{digest}");
        content.manifests.insert(key, (INDEX.to_owned(), bytes));
        let tag = format!("acme/prob:{tag}");
        content.tags.insert(tag, digest.clone());
    });
    let key = kit::config(work.path()).join("keys/acme.key");
    let key = SigningKey::from_pem(&fs::read(key).unwrap(), Some(PASSWORD.as_bytes())).unwrap();
    let signed: OciDigest = digest.parse().unwrap();
    let bundle = SignatureBundle::sign_manifest(&signed, &work.reference(tag), &key).unwrap();
    let artifact = bundle.to_artifact().unwrap();
    let layer = &artifact.layers[0];
    let signature = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": artifact.artifact_type,
        "config": work.registry.put_blob(&artifact.config.0, &artifact.config.1),
        "layers": [work.registry.put_blob(&layer.media_type, &layer.bytes)],
        "subject": {"mediaType": INDEX, "digest": digest, "size": size},
    });
    work.registry
        .put_manifest(&format!("acme/prob:signature-of-{tag}"), &signature);
    digest
}

/// The entry of a manifest in an index.
fn entry(work: &RegistryWorkspace, tag: &str, platform: Value) -> Value {
    let digest = work.registry.digest(&format!("acme/prob:{tag}"));
    let size = work.registry.with(|content| {
        let (_, bytes) = &content.manifests[&format!("acme/prob@{digest}")];
        bytes.len()
    });
    json!({"mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform})
}

#[test]
fn signature_of_an_index_covers_the_manifests_in_it() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    work.configure(&work.trust("acme"));
    let component = plugin::search();
    let manifest = work.push(&component, "wasm", &[]);
    let wasm = json!({"architecture": "wasm", "os": "wasip2"});
    let entries = [
        entry(
            &work,
            "wasm",
            json!({"architecture": "amd64", "os": "linux"}),
        ),
        entry(&work, "wasm", wasm.clone()),
    ];
    let index = put_signed_index(&work, "1", &entries);
    let (code, _, err) = work.add("1", &[]);
    assert!(code == 0 && err.contains("signed by acme (key"), "{err}");
    let source = work.source();
    assert_eq!(source["manifest"], manifest);
    assert_eq!(source["index"], index);
    let checked = || {
        let (code, out, err) = work.run(&["tools", "verify"]);
        assert!(
            code == 0 && out.contains("signed by key acme"),
            "{out}{err}"
        );
        let (code, out, _) = work.run(&["tools", "info", "prob"]);
        assert!(code == 0 && out.contains("Signer: key acme"), "{out}");
    };
    checked();
    let (code, out, err) = work.run(&["tools", "update", "--check"]);
    assert_eq!(code, 0, "{out}{err}");
    // It is fetched again with the index.
    fs::remove_file(work.tool()).unwrap();
    fs::remove_dir_all(work.path().join(".mimir/tools.signatures")).unwrap();
    let (code, vendored) = work.json(&["tools", "vendor"]);
    assert_eq!(code, 0, "{vendored}");
    assert_eq!(vendored["restored"], json!([TOOL]));
    checked();

    // The manifest alone is not signed, and neither is another index around it, or another manifest.
    let (code, _, err) = work.add("wasm", &["--force"]);
    assert!(code == 3 && err.contains("not signed"), "{code}: {err}");
    work.push(&changed_plugin(), "other", &[]);
    let planted = [entry(&work, "other", wasm)];
    put_signed_index(&work, "2", &planted);
    let unsigned = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": planted, "annotations": {"a": "b"}});
    work.registry.with(|content| {
        let bytes = serde_json::to_vec(&unsigned).unwrap();
        let digest = digest_of(&bytes);
        let key = format!("acme/prob@{digest}");
        content.manifests.insert(key, (INDEX.to_owned(), bytes));
        content.tags.insert("acme/prob:1".to_owned(), digest);
    });
    let (code, _, err) = work.add("1", &["--force"]);
    assert!(code == 3 && err.contains("not signed"), "{code}: {err}");
    assert_eq!(fs::read(work.tool()).unwrap(), component);

    // A checkout cannot move the signature of the index to a manifest that is not in it.
    let stored = work.path().join(".mimir/tools.signatures/prob.json");
    let honest = fs::read_to_string(&stored).unwrap();
    let mut forged: Value = serde_json::from_str(&honest).unwrap();
    let lock = work.lock();
    let other = work.registry.manifest("acme/prob:other");
    let text = serde_json::to_string(&other).unwrap();
    forged["manifest"] = text.clone().into();
    fs::write(&stored, forged.to_string()).unwrap();
    let moved = lock
        .replace(&manifest, &digest_of(text.as_bytes()))
        .replace(&digest_of(&component), &digest_of(&changed_plugin()));
    fs::write(work.path().join(".mimir/tools.lock"), moved).unwrap();
    fs::write(work.tool(), changed_plugin()).unwrap();
    let (code, out, err) = work.run(&["tools", "verify"]);
    assert!(code == 1 && !out.contains("signed by"), "{out}{err}");
    let text = format!("{out}{err}");
    assert!(text.contains("does not name the manifest"), "{text}");
}

#[test]
fn skills_push_is_installed_on_another_machine() {
    let author = RegistryWorkspace::new();
    author.key("acme");
    let skill = author.path().join("forms");
    fs::create_dir_all(skill.join("scripts")).unwrap();
    let document =
        "---\nname: forms\ndescription: Fills forms.\nmetadata: {version: '1.2'}\n---\nDo it.\n";
    fs::write(skill.join("SKILL.md"), document).unwrap();
    fs::write(skill.join("scripts/a.py"), "print(1)").unwrap();
    let reference = author.registry.reference("acme/forms:1.2");
    let push = |source: &str, args: &[&str]| {
        author.run_with_password(&[&["skills", "push", source, &reference], args].concat())
    };
    let (code, out, err) = push("forms", &["--sign", "acme", "--tag", "latest"]);
    assert_eq!(code, 0, "{out}{err}");
    let digest = author.registry.digest("acme/forms:1.2");
    for part in ["pushed forms 1.2", &reference, &digest] {
        assert!(out.contains(part), "{out}");
    }
    assert_eq!(author.registry.digest("acme/forms:latest"), digest);
    let (code, out, err) = author.run(&["audit", "show"]);
    assert!(
        code == 0 && out.contains(&format!("signed {digest}")),
        "{out}{err}"
    );

    // A user who trusts the author's key.
    let public = fs::read_to_string(kit::config(author.path()).join("keys/acme.pub")).unwrap();
    let user = RegistryWorkspace::with_registry(author.registry.clone());
    fs::write(kit::config(user.path()).join("acme.pem"), public).unwrap();
    let key = kit::config(user.path()).join("acme.pem");
    user.configure(&user.trust(&format!("'{}'", key.display())));
    let (code, added) = user.json(&["skills", "add", &reference]);
    assert_eq!(code, 0, "{added}");
    assert_eq!(added["artifact"], digest);
    assert!(!added["signer"].is_null(), "{added}");
    let installed = user.path().join(".mimir/skills/forms");
    assert_eq!(
        fs::read_to_string(installed.join("SKILL.md")).unwrap(),
        document
    );
    assert_eq!(
        fs::read_to_string(installed.join("scripts/a.py")).unwrap(),
        "print(1)"
    );

    // Other content needs a new version; the skill of a workspace is found by its name.
    fs::write(skill.join("scripts/a.py"), "print(2)").unwrap();
    let (code, _, err) = push("forms", &[]);
    assert!(code == 1 && err.contains("other content"), "{code}: {err}");
    assert_eq!(author.registry.digest("acme/forms:1.2"), digest);
    let again = user.registry.reference("acme/forms:3");
    let (code, out, err) = user.run(&["skills", "push", "forms", &again]);
    // The author's signature is that of the content, in this repository.
    assert!(
        code == 0 && err.contains("already has a signature"),
        "{out}{err}"
    );
    assert_eq!(user.registry.digest("acme/forms:3"), digest);
    for (source, why) in [
        ("words", "not found"),
        ("https://example.com/forms.tar.gz", "not on this machine"),
        (".mimir", "SKILL.md"),
    ] {
        let (code, _, err) = user.run(&["skills", "push", source, &again]);
        assert!(code != 0 && err.contains(why), "{source}: {err}");
    }
}

/// A script that is executable stays so, which single files in a registry would not.
#[cfg(unix)]
#[test]
fn skills_push_keeps_executable_scripts_and_many_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let work = RegistryWorkspace::new();
    let skill = work.path().join("forms");
    fs::create_dir_all(skill.join("scripts")).unwrap();
    fs::write(
        skill.join("SKILL.md"),
        "---\nname: forms\ndescription: d\n---\nx\n",
    )
    .unwrap();
    let script = skill.join("scripts/run.py");
    fs::write(&script, "print(1)").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for number in 0..100 {
        fs::write(skill.join(format!("{number}.md")), number.to_string()).unwrap();
    }
    let reference = work.registry.reference("acme/forms:1");
    let (code, out, err) = work.run(&["skills", "push", "./forms", &reference]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = work.run(&["skills", "add", &reference]);
    assert_eq!(code, 0, "{out}{err}");
    let installed = work.path().join(".mimir/skills/forms");
    let mode = installed
        .join("scripts/run.py")
        .metadata()
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o100, 0o100);
    assert_eq!(fs::read_to_string(installed.join("99.md")).unwrap(), "99");
}

//! Attacks by a registry, a mirror or a checkout on `mimir tools add`, `push` and `info`, and what the audit log says.

use std::fs;

use serde_json::{Value, json};

use super::{PASSWORD, RegistryWorkspace, TOOL, changed_plugin};
use crate::kit::oci_registry::{OciRegistry, digest_of};
use crate::kit::{self, plugin};

/// The manifests of `acme/prob` that have a subject, which are signatures.
fn signatures(registry: &OciRegistry) -> usize {
    registry.with(|content| {
        let manifests = content.manifests.values();
        let subjects = manifests.filter(|(_, bytes)| {
            let manifest: Value = serde_json::from_slice(bytes).unwrap();
            !manifest["subject"].is_null()
        });
        subjects.count()
    })
}

fn audit(work: &RegistryWorkspace) -> String {
    let (code, out, err) = work.run(&["audit", "show"]);
    assert_eq!(code, 0, "{err}");
    out
}

#[test]
fn tools_push_signs_only_the_manifest_that_it_would_push() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    let component = plugin::search();
    let digest = work.push(&component, "1", &[]);
    let honest = work.registry.manifest("acme/prob:1");
    let policy = work
        .registry
        .put_blob("application/vnd.wasm.policy.v1+yaml", b"permissions: {}");
    let mut with_policy = honest.clone();
    with_policy["layers"].as_array_mut().unwrap().push(policy);
    let mut with_version = honest.clone();
    with_version["annotations"]["org.opencontainers.image.version"] = json!("99.0.0");
    let mut with_config = honest.clone();
    with_config["config"] = work
        .registry
        .put_blob("application/vnd.wasm.config.v0+json", b"{}");
    for planted in [with_policy, with_version, with_config] {
        let other = work.registry.put_manifest("acme/prob:1", &planted);
        let (code, _, err) = work.try_push(&component, "1", &["--sign", "acme"]);
        assert!(
            code == 1 && err.contains("other content") && err.contains(&other),
            "{code}: {err}"
        );
        assert_eq!(signatures(&work.registry), 0, "{planted}");
    }
    assert!(!audit(&work).contains("signed sha256"), "{}", audit(&work));
    // The manifest of the first push, whose file had another time.
    assert_eq!(
        work.registry.put_manifest("acme/prob:1", &honest),
        digest_of(&serde_json::to_vec(&honest).unwrap())
    );
    let pushed = work.push(&component, "1", &["--sign", "acme", "--force"]);
    assert_eq!(signatures(&work.registry), 1);
    assert_eq!(work.push(&component, "1", &["--tag", "latest"]), pushed);
    assert_eq!(work.registry.digest("acme/prob:latest"), pushed);
    let log = audit(&work);
    assert!(
        log.contains(&format!("signed {pushed} with the key")),
        "{digest}: {log}"
    );
    assert!(log.contains(&work.reference("1")), "{log}");
}

#[test]
fn tools_push_never_asks_a_mirror() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    let component = plugin::search();
    let mirror = RegistryWorkspace::new();
    mirror.push(&changed_plugin(), "1", &[]);
    mirror.registry.with(|content| content.requests.clear());
    let (own, other) = (work.registry.address(), mirror.registry.address());
    let settings = format!(
        "network: {{allowedHosts: ['{own}', '{other}']}}\nregistries: {{mirrors: {{'{own}': ['{other}']}}}}\n"
    );
    fs::write(kit::config(work.path()).join("config.yml"), settings).unwrap();
    for _ in 0..2 {
        work.push(&component, "1", &["--sign", "acme"]);
    }
    assert_eq!(mirror.registry.requests(), Vec::<String>::new());
    assert!(signatures(&work.registry) > 0);
    // It is a mirror that is used otherwise.
    let (code, _, err) = work.add("1", &[]);
    assert!(code == 0 && !mirror.registry.requests().is_empty(), "{err}");
}

#[cfg(unix)]
#[test]
fn tools_add_of_a_reference_is_not_shadowed_by_a_path() {
    let work = RegistryWorkspace::new();
    work.push(&plugin::search(), "1", &[]);
    let reference = work.reference("1");
    for folder in [reference.clone(), format!("oci:/{reference}")] {
        let folder = work.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("prob.wasm"), changed_plugin()).unwrap();
    }
    let (code, _, err) = work.add("1", &[]);
    assert!(
        code == 2 && err.contains(&format!("./{reference}")),
        "{code}: {err}"
    );
    assert!(!work.tool().exists());
    let (code, _, err) = work.run(&["tools", "add", &format!("oci://{reference}")]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(fs::read(work.tool()).unwrap(), plugin::search());
    assert_eq!(work.source()["reference"], reference);
    let (code, _, err) = work.run(&["tools", "add", "--force", &format!("./{reference}")]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(fs::read(work.tool()).unwrap(), changed_plugin());
}

#[test]
fn tools_add_with_required_signatures_checks_the_names_of_tools() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    let settings = format!(
        "{}\nenforcement: {{requireSignature: true}}",
        work.trust("acme")
    );
    work.configure(&settings);
    work.push(&plugin::search(), "1", &["--sign", "acme"]);
    let reference = work.reference("1");
    let (code, added) = work.json(&["tools", "add", &reference]);
    assert_eq!(code, 0, "{added}");
    assert_eq!(added["tools"], json!(["prob_search"]), "{added}");
    assert_eq!(work.source()["signer"]["name"], "acme");

    // A file of another name with a tool of the same name.
    let file = work.path().join("prob.wasm");
    fs::write(&file, changed_plugin()).unwrap();
    let other = work.registry.reference("acme/other:1");
    let (code, _, err) =
        work.run_with_password(&["tools", "push", "prob.wasm", &other, "--sign", "acme"]);
    assert_eq!(code, 0, "{err}");
    let before = work.lock();
    let (code, _, err) = work.run(&["tools", "add", &other]);
    assert!(
        code == 1 && err.contains("already has a tool"),
        "{code}: {err}"
    );
    assert_eq!(work.lock(), before);
    assert!(!work.path().join(".mimir/tools/other.wasm").exists());

    // A file without a signature is not installed, and the previous entry stays.
    let (code, _, err) = work.run(&["tools", "add", "prob.wasm", "--force"]);
    assert!(code == 3 && err.contains("signature"), "{code}: {err}");
    assert_eq!(work.lock(), before);
    assert_eq!(fs::read(work.tool()).unwrap(), plugin::search());

    work.push(&changed_plugin(), "1", &["--sign", "acme", "--force"]);
    let (code, out, err) = work.run(&["tools", "update", "--yes"]);
    assert!(code == 0 && err.contains("prob_search"), "{out}{err}");
    assert_eq!(fs::read(work.tool()).unwrap(), changed_plugin());
    assert_eq!(work.json(&["tools", "verify"]).0, 0);
}

#[test]
fn tools_lock_of_a_checkout_claims_no_signer() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    let component = plugin::search();
    fs::create_dir_all(work.path().join(".mimir/tools")).unwrap();
    fs::write(work.tool(), &component).unwrap();
    let (reference, layer) = (work.reference("1"), digest_of(&component));
    let signer = format!("signer: {{key: {}, name: acme}}", "ab".repeat(32));
    let write = |rest: &str| {
        let lock = format!(
            "version: 1\nsources:\n  {TOOL}: {{reference: '{reference}', layer: '{layer}'{rest}}}\n"
        );
        fs::write(work.path().join(".mimir/tools.lock"), lock).unwrap();
    };
    let problem = || {
        let (code, checked) = work.json(&["tools", "verify"]);
        assert_eq!(code, 1, "{checked}");
        assert_eq!(checked["files"][0].get("signer"), None, "{checked}");
        let (_, info, _) = work.run(&["tools", "info", "prob"]);
        assert!(info.contains("not verified"), "{info}");
        assert!(!info.contains("Signer: key acme"), "{info}");
        let (_, info) = work.json(&["tools", "info", "prob"]);
        assert!(info["sourceProblem"].is_string(), "{info}");
        checked["files"][0]["problems"].to_string()
    };
    // Unsigned, without a rule: nothing is claimed.
    write("");
    assert_eq!(work.json(&["tools", "verify"]).0, 0);
    write(&format!(", {signer}"));
    assert!(problem().contains("manifest"));
    write(&format!(
        ", {signer}, manifest: '{layer}', provenance: built by acme"
    ));
    assert!(problem().contains("tools.signatures"));
    let (_, info, _) = work.run(&["tools", "info", "prob"]);
    assert!(
        info.contains("built by acme (as tools.lock says, not verified)"),
        "{info}"
    );
    work.configure(&work.trust("acme"));
    write("");
    assert!(problem().contains("manifest"));
}

#[cfg(unix)]
#[test]
fn tools_add_does_not_copy_what_a_link_leads_to() {
    let work = RegistryWorkspace::new();
    let outside = tempfile::tempdir().unwrap();
    let private = outside.path().join("private");
    fs::write(&private, "secret").unwrap();
    fs::create_dir_all(work.path().join(".mimir/tools")).unwrap();
    std::os::unix::fs::symlink(&private, work.tool()).unwrap();
    fs::write(work.path().join("prob.wasm"), b"\0asm not valid").unwrap();
    let (code, _, err) = work.run(&["tools", "add", "prob.wasm", "--force"]);
    assert!(code != 0 && err.contains("is a link"), "{code}: {err}");
    assert!(work.tool().is_symlink());
    assert_eq!(fs::read_to_string(&private).unwrap(), "secret");
}

#[test]
fn tools_audit_records_refused_content() {
    let work = RegistryWorkspace::new();
    work.key("acme");
    work.push(&plugin::search(), "1", &[]);
    work.configure(&work.trust("acme"));
    assert_eq!(work.add("1", &[]).0, 3);
    work.configure("");
    // Not in the cache of another test.
    let component = super::versioned(plugin::search(), &format!("3.{}.0", std::process::id()));
    work.push(&component, "2", &[]);
    let mut other = component.clone();
    *other.last_mut().unwrap() ^= 1;
    work.registry.with(|content| {
        content.blobs.insert(digest_of(&component), other.clone());
    });
    let (code, _, err) = work.add("2", &[]);
    assert!(code == 3 && err.contains("expected"), "{code}: {err}");
    let log = fs::read_to_string(work.path().join(".mimir/state/audit.jsonl")).unwrap();
    let events = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let refused: Vec<Value> = events
        .filter(|event: &Value| event["ok"] == false && event["event"] == "config-change")
        .collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    for (event, (tag, code, reason)) in refused.iter().zip([
        ("1", "POLICY_DENIED", "not signed"),
        ("2", "PERMISSION_DENIED", "digest"),
    ]) {
        assert_eq!(event["subject"], work.reference(tag));
        assert_eq!(event["code"], code);
        assert!(
            event["detail"].as_str().unwrap().contains(reason),
            "{event}"
        );
    }
    assert!(!log.contains(PASSWORD));
}

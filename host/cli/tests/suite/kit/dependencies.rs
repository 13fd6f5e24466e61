//! Dependencies of a package are pinned with it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::packages::{PackageFixture, SERVER};

/// Publishes a package in the registry, with this version alone.
fn publish(fixture: &PackageFixture, manifest: &Value, script: &str) {
    let (name, version) = (
        manifest["name"].as_str().unwrap(),
        manifest["version"].as_str().unwrap(),
    );
    let place = fixture.folder.path().join(format!("tree-{name}-{version}"));
    fs::create_dir_all(place.join("package")).unwrap();
    fs::write(place.join("package/package.json"), manifest.to_string()).unwrap();
    fs::write(place.join("package/server.js"), script).unwrap();
    let archive = place.join("a.tgz");
    let packed = Command::new("tar")
        .args(["-czf"])
        .arg(&archive)
        .arg("-C")
        .arg(&place)
        .arg("package")
        .status();
    assert!(packed.unwrap().success());
    let digest = "process.stdout.write('sha512-' + require('crypto').createHash('sha512').update(require('fs').readFileSync(process.argv[1])).digest('base64'))";
    let digest = Command::new("node")
        .args(["-e", digest])
        .arg(&archive)
        .output()
        .unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    let file = format!("/files/{name}-{version}.tgz");
    fixture.serve(&file, fs::read(&archive).unwrap());
    let tarball = format!("http://127.0.0.1:{}{file}", fixture.port);
    let mut entry = manifest.clone();
    entry["dist"] = json!({"tarball": tarball, "integrity": digest});
    let document =
        json!({"name": name, "dist-tags": {"latest": version}, "versions": {version: entry}});
    fixture.serve(&format!("/{name}"), document.to_string().into_bytes());
}

fn publish_part(fixture: &PackageFixture, version: &str) {
    let manifest = json!({"name": "mimir-part", "version": version, "main": "server.js"});
    publish(fixture, &manifest, "module.exports = 1\n");
}

/// The digest of the dependencies in the settings.
fn pinned(fixture: &PackageFixture) -> String {
    let config = fixture.config();
    let at = config.rsplit_once("\n        dependencies: ");
    let (_, rest) = at.unwrap_or_else(|| panic!("{config}"));
    rest.lines().next().unwrap().to_owned()
}

fn forget(fixture: &PackageFixture) {
    fs::remove_dir_all(fixture.folder.path().join("cache/mcp/packages")).unwrap();
}

#[ignore = "needs npm"]
#[test]
fn package_with_changed_dependencies_is_not_installed() {
    let fixture = PackageFixture::new();
    publish_part(&fixture, "1.0.0");
    let whole = json!({"name": "mimir-probe", "version": "1.0.0", "bin": {"mimir-probe": "server.js"},
        "dependencies": {"mimir-part": "^1.0.0"}});
    publish(&fixture, &whole, &SERVER.replace("WORDS", "words"));
    fixture.add(&[], &[]);
    let first = pinned(&fixture);
    assert!(first.starts_with("sha256-"), "{first}");
    // Unchanged dependencies are installed as before.
    forget(&fixture);
    let again = fixture.json(&["mcp", "install", "p"]);
    assert_eq!(again["installed"], "p", "{again}");
    assert_eq!(pinned(&fixture), first);
    // The package is unchanged, but its dependencies are not.
    forget(&fixture);
    publish_part(&fixture, "1.0.1");
    let refused = fixture.json(&["mcp", "install", "p"]);
    let message = refused["error"]["message"].as_str().unwrap();
    for part in ["now mimir-part@1.0.1", "no longer mimir-part@1.0.0"] {
        assert!(message.contains(part), "{part}: {refused}");
    }
    let way = refused["wayOut"][0].as_str().unwrap();
    assert!(way.contains("mimir mcp trust p"), "{refused}");
    let (code, _, _) = fixture.run(&["call", "mcp_p_look", "{}"]);
    assert_ne!(code, 0, "nothing of it runs");
    // A person reviews it again and approves.
    let (code, _, err) = fixture.run(&["mcp", "trust", "p"]);
    assert_ne!(code, 0, "{err}");
    let digest = err.split("--approve ").nth(1).unwrap();
    let digest: String = digest.chars().take_while(char::is_ascii_hexdigit).collect();
    assert_eq!(pinned(&fixture), first, "{err}");
    let (code, _, err) =
        fixture.run(&["mcp", "trust", "p", "--allow", "all", "--approve", &digest]);
    assert_eq!(code, 0, "{err}");
    assert_ne!(pinned(&fixture), first);
    assert!(fixture.call("look", Path::new("")).contains("cwd"));
}

#[ignore = "needs npm"]
#[test]
fn package_without_pinned_dependencies_is_pinned_on_install() {
    let fixture = PackageFixture::new();
    fixture.add(&[], &[]);
    let first = pinned(&fixture);
    let config = fixture.config();
    let older: Vec<&str> = config
        .lines()
        .filter(|line| !line.contains("dependencies: sha256-"))
        .collect();
    let file = fixture.work().join(".mimir/config.yml");
    fs::write(file, older.join("\n") + "\n").unwrap();
    assert_eq!(fixture.run(&["policy", "accept", "--yes"]).0, 0);
    forget(&fixture);
    let (code, _, err) = fixture.run(&["mcp", "install", "p"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("which were not pinned before"), "{err}");
    assert_eq!(pinned(&fixture), first);
}

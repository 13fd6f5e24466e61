//! Dependencies of a package are pinned with it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::packages::{SERVER, World};

/// Publishes a package in the registry, with this version alone.
fn publish(world: &World, manifest: &Value, script: &str) {
    let (name, version) = (
        manifest["name"].as_str().unwrap(),
        manifest["version"].as_str().unwrap(),
    );
    let place = world.folder.path().join(format!("tree-{name}-{version}"));
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
    world.serve(&file, fs::read(&archive).unwrap());
    let tarball = format!("http://127.0.0.1:{}{file}", world.port);
    let mut entry = manifest.clone();
    entry["dist"] = json!({"tarball": tarball, "integrity": digest});
    let document =
        json!({"name": name, "dist-tags": {"latest": version}, "versions": {version: entry}});
    world.serve(&format!("/{name}"), document.to_string().into_bytes());
}

fn publish_part(world: &World, version: &str) {
    let manifest = json!({"name": "mimir-part", "version": version, "main": "server.js"});
    publish(world, &manifest, "module.exports = 1\n");
}

/// The digest of the dependencies in the settings.
fn pinned(world: &World) -> String {
    let config = world.config();
    let at = config.rsplit_once("\n        dependencies: ");
    let (_, rest) = at.unwrap_or_else(|| panic!("{config}"));
    rest.lines().next().unwrap().to_owned()
}

fn forget(world: &World) {
    fs::remove_dir_all(world.folder.path().join("cache/mcp/packages")).unwrap();
}

#[ignore = "needs npm"]
#[test]
fn package_with_changed_dependencies_is_not_installed() {
    let world = World::new();
    publish_part(&world, "1.0.0");
    let whole = json!({"name": "mimir-probe", "version": "1.0.0", "bin": {"mimir-probe": "server.js"},
        "dependencies": {"mimir-part": "^1.0.0"}});
    publish(&world, &whole, &SERVER.replace("WORDS", "words"));
    world.add(&[], &[]);
    let first = pinned(&world);
    assert!(first.starts_with("sha256-"), "{first}");
    // Unchanged dependencies are installed as before.
    forget(&world);
    let again = world.json(&["mcp", "install", "p"]);
    assert_eq!(again["installed"], "p", "{again}");
    assert_eq!(pinned(&world), first);
    // The package is unchanged, but its dependencies are not.
    forget(&world);
    publish_part(&world, "1.0.1");
    let refused = world.json(&["mcp", "install", "p"]);
    let message = refused["error"]["message"].as_str().unwrap();
    for part in ["now mimir-part@1.0.1", "no longer mimir-part@1.0.0"] {
        assert!(message.contains(part), "{part}: {refused}");
    }
    let way = refused["wayOut"][0].as_str().unwrap();
    assert!(way.contains("mimir mcp trust p"), "{refused}");
    let (code, _, _) = world.run(&["call", "mcp_p_look", "{}"]);
    assert_ne!(code, 0, "nothing of it runs");
    // A person reviews it again and approves.
    let (code, _, err) = world.run(&["mcp", "trust", "p"]);
    assert_ne!(code, 0, "{err}");
    let digest = err.split("--approve ").nth(1).unwrap();
    let digest: String = digest.chars().take_while(char::is_ascii_hexdigit).collect();
    assert_eq!(pinned(&world), first, "{err}");
    let (code, _, err) = world.run(&["mcp", "trust", "p", "--allow", "all", "--approve", &digest]);
    assert_eq!(code, 0, "{err}");
    assert_ne!(pinned(&world), first);
    assert!(world.call("look", Path::new("")).contains("cwd"));
}

#[ignore = "needs npm"]
#[test]
fn package_without_pinned_dependencies_is_pinned_on_install() {
    let world = World::new();
    world.add(&[], &[]);
    let first = pinned(&world);
    let config = world.config();
    let older: Vec<&str> = config
        .lines()
        .filter(|line| !line.contains("dependencies: sha256-"))
        .collect();
    let file = world.work().join(".mimir/config.yml");
    fs::write(file, older.join("\n") + "\n").unwrap();
    assert_eq!(world.run(&["policy", "accept", "--yes"]).0, 0);
    forget(&world);
    let (code, _, err) = world.run(&["mcp", "install", "p"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("which were not pinned before"), "{err}");
    assert_eq!(pinned(&world), first);
}

//! Runs exactly the file operations in its arguments, directly through WASI, and returns the result of each step.
//! Paths are not normalised before they reach the host.
//!
//! `{"steps": [["read", "a/../../b"], …], "times": 1}` returns for each step `"ok"`, the content that was read, or
//! `{"error": …}`. There are three tools: with all rights, only to read, and only in `sub`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic here is a failed test there"
)]

use mimir_guests::{
    Answer, FileAccess, Hostile, Manifest, Named, file_tool, hostile, manifest, structured,
};
use serde_json::{Value, json};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
};

struct Probe;

impl Hostile for Probe {
    fn describe() -> Manifest {
        let all = file_tool(Self::NAME, FileAccess::ReadWrite);
        let read = file_tool("file_probe_read", FileAccess::Read);
        let mut sub = file_tool("file_probe_sub", FileAccess::ReadWrite);
        sub.needs.files[0].path = "sub".into();
        manifest(vec![all, read, sub])
    }

    fn call(arguments: String) -> Answer {
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        let preopens = get_directories();
        let (root, _) = preopens.first().expect("a workspace");
        let steps = arguments["steps"].as_array().unwrap();
        let times = arguments["times"].as_u64().unwrap_or(1);
        let mut results = vec![];
        for _ in 0..times {
            results.extend(steps.iter().map(|step| {
                let word = |at: usize| step[at].as_str().unwrap_or("");
                match act(root, word(0), word(1), word(2)) {
                    Ok(value) => value,
                    Err(code) => json!({ "error": code.name() }),
                }
            }));
        }
        structured(json!({ "results": results }).to_string())
    }
}

fn act(root: &Descriptor, verb: &str, path: &str, other: &str) -> Result<Value, ErrorCode> {
    let follow = PathFlags::SYMLINK_FOLLOW;
    let stay = PathFlags::empty();
    let plain = OpenFlags::empty();
    let read = DescriptorFlags::READ;
    let change = DescriptorFlags::READ | DescriptorFlags::WRITE;
    let both = |flags: PathFlags| {
        let file = root.open_at(flags, path, plain, read)?;
        let (bytes, _) = file.read(1 << 16, 0)?;
        Ok(json!({ "read": String::from_utf8_lossy(&bytes) }))
    };
    match verb {
        "read" => return both(follow),
        "read-nofollow" => return both(stay),
        "read-huge" => {
            let file = root.open_at(follow, path, plain, read)?;
            let (bytes, _) = file.read(u64::MAX, 0)?;
            return Ok(json!({ "length": bytes.len() }));
        }
        "write" => {
            let file = root.open_at(follow, path, OpenFlags::CREATE, change)?;
            file.write(other.as_bytes(), 0)?;
        }
        "create" => drop(root.open_at(
            follow,
            path,
            OpenFlags::CREATE | OpenFlags::EXCLUSIVE,
            change,
        )?),
        "truncate" => drop(root.open_at(follow, path, OpenFlags::TRUNCATE, change)?),
        "append" => {
            let file = root.open_at(follow, path, plain, change)?;
            let stream = file.append_via_stream()?;
            stream
                .blocking_write_and_flush(other.as_bytes())
                .map_err(|_| ErrorCode::Io)?;
        }
        "set-size" => root
            .open_at(follow, path, plain, change)?
            .set_size(other.parse().unwrap_or(0))?,
        "stat" => {
            let stat = root.stat_at(follow, path)?;
            return Ok(json!({ "size": stat.size, "type": format!("{:?}", stat.type_) }));
        }
        "stat-nofollow" => drop(root.stat_at(stay, path)?),
        "times" => root.set_times_at(follow, path, NewTimestamp::Now, NewTimestamp::Now)?,
        "hash" => drop(root.metadata_hash_at(follow, path)?),
        "list" => {
            let folder = root.open_at(follow, path, OpenFlags::DIRECTORY, read)?;
            let entries = folder.read_directory()?;
            let mut names = vec![];
            while let Some(entry) = entries.read_directory_entry()? {
                names.push(entry.name);
            }
            names.sort();
            return Ok(json!({ "names": names }));
        }
        "open-dir-rw" => {
            let flags = change | DescriptorFlags::MUTATE_DIRECTORY;
            drop(root.open_at(follow, path, OpenFlags::DIRECTORY, flags)?);
        }
        "mkdir" => root.create_directory_at(path)?,
        "rmdir" => root.remove_directory_at(path)?,
        "unlink" => root.unlink_file_at(path)?,
        "rename" => root.rename_at(path, root, other)?,
        "link" => root.link_at(stay, path, root, other)?,
        "link-follow" => root.link_at(follow, path, root, other)?,
        "symlink" => root.symlink_at(other, path)?,
        // Moves a folder while it has an open handle, and creates a link through that.
        "symlink-held" => {
            let held = root.open_at(follow, path, OpenFlags::DIRECTORY, read)?;
            root.rename_at(path, root, other)?;
            held.symlink_at("../../out", "held")?;
        }
        "readlink" => return Ok(json!({ "target": root.readlink_at(path)? })),
        // Opens one level at a time, as a directory walk does.
        "walk" => {
            let mut here: Option<Descriptor> = None;
            for part in path.split('/') {
                let from = here.as_ref().unwrap_or(root);
                here = Some(from.open_at(follow, part, OpenFlags::DIRECTORY, read)?);
            }
        }
        unknown => panic!("no such step: {unknown}"),
    }
    Ok(json!("ok"))
}

hostile!(Probe);

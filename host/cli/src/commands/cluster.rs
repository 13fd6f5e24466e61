//! `mimir cluster`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mimir_core::ToolError;
use mimir_core::text::visible;
use serde_json::json;

use crate::args::{ClusterCommand, ClusterInitArgs, ClusterSetupArgs, GlobalOptions};
use crate::exit::{CommandFailure, CommandResult};
use crate::output::note;
use mimir::cluster::cluster_error;
use mimir::file_error::file_error;
use mimir::private_files::{self, FileReaders};
use mimir_cluster::{ClusterConnection, ClusterFile, InitOptions, cluster_files};

mod publish;
mod status;

pub(crate) use status::ClusterStatus;

/// Time for which `mimir cluster setup` waits for servers that start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a command of `mimir cluster`.
pub async fn run(globals: &GlobalOptions, command: ClusterCommand) -> CommandResult {
    match command {
        ClusterCommand::Init(args) => init(globals, &args),
        ClusterCommand::Setup(args) => create_streams(globals, &args).await,
        ClusterCommand::Publish(args) => publish::run(globals, &args).await,
        ClusterCommand::Status(args) => status::run(globals, &args).await,
    }
}

/// Writes the files of a new cluster.
fn init(globals: &GlobalOptions, args: &ClusterInitArgs) -> CommandResult {
    let folder = clean_path(&args.folder)?;
    let shown = visible(&args.folder.display().to_string());
    let is_used = match std::fs::read_dir(&folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => {
            folder.symlink_metadata().is_ok() || error.kind() != std::io::ErrorKind::NotFound
        }
    };
    if is_used {
        return Err(CommandFailure::usage(format!(
            "{shown} exists and is not an empty folder, so nothing was written: name a new folder"
        )));
    }
    let options = InitOptions {
        servers: args.servers,
        hosts: args.hosts.clone(),
        port: args.port,
    };
    let files = cluster_files(&options, &folder)
        .map_err(|error| CommandFailure::usage(error.to_string()))?;
    write_files(&folder, &files)?;
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    if !globals.printer().is_json() {
        let secrets = files.iter().filter(|file| file.is_secret).count();
        note(format_args!(
            "{secrets} of the files are secret: those in keys/, and tls/*.key; copy a key only to machines of its role"
        ));
    }
    globals.printer().print_done(
        &json!({ "folder": folder, "files": paths }),
        format_args!(
            "wrote {} files of a cluster with {} NATS server{} to {shown}; {shown}/README.md says how to start it",
            files.len(),
            args.servers,
            if args.servers == 1 { "" } else { "s" }
        ),
    )
}

/// Returns the absolute path of a folder that may not exist yet, without `..`, for the files that name it.
fn clean_path(folder: &Path) -> std::io::Result<PathBuf> {
    let folder = std::path::absolute(folder)?;
    if cfg!(windows) {
        // Such paths have no `..` any more.
        return Ok(folder);
    }
    // The last folder that exists decides what `..` means, since folders may be links.
    for existing in folder.ancestors() {
        if let (Ok(real), Ok(rest)) = (existing.canonicalize(), folder.strip_prefix(existing))
            && !rest
                .components()
                .any(|part| part == std::path::Component::ParentDir)
        {
            return Ok(real.join(rest));
        }
    }
    Ok(folder)
}

fn write_files(folder: &Path, files: &[ClusterFile]) -> Result<(), ToolError> {
    let data = folder.join("data");
    std::fs::create_dir_all(&data).map_err(|error| file_error("create", &data, &error))?;
    for name in ["keys", "tls"] {
        let path = folder.join(name);
        private_files::private_folder(&path)
            .map_err(|error| file_error("create", &path, &error))?;
    }
    for file in files {
        let mut path = folder.to_owned();
        path.extend(file.path.split('/'));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|error| file_error("create", parent, &error))?;
        }
        let readers = if file.is_secret {
            FileReaders::Owner
        } else {
            FileReaders::Everybody
        };
        private_files::replace(&path, file.content.as_bytes(), readers)
            .map_err(|error| file_error("write", &path, &error))?;
    }
    Ok(())
}

/// Creates the streams of a cluster.
async fn create_streams(globals: &GlobalOptions, args: &ClusterSetupArgs) -> CommandResult {
    let options = args.cluster.require_connection()?;
    let waiting = format!(
        "waiting at most {} s for the NATS servers {}: they may be starting",
        START_TIMEOUT.as_secs(),
        visible(&options.servers)
    );
    let connection =
        ClusterConnection::connect_when_started(options, START_TIMEOUT, || note(&waiting));
    let connection = connection.await.map_err(cluster_error)?;
    let replicas = args.replicas.map(usize::from);
    let streams =
        connection.create_streams_when_started(replicas, START_TIMEOUT, || note(&waiting));
    let streams = streams.await.map_err(cluster_error)?;
    if let Some(gib) = args.audit_size {
        let enlarged = connection.enlarge_audit_log(u64::from(gib) << 30).await;
        enlarged.map_err(cluster_error)?;
    }
    let created = streams.iter().filter(|stream| !stream.existed).count();
    let replicas = streams
        .iter()
        .map(|stream| stream.replicas)
        .min()
        .unwrap_or(0);
    let list: Vec<_> = streams
        .iter()
        .map(|stream| json!({ "name": stream.name, "replicas": stream.replicas, "created": !stream.existed }))
        .collect();
    globals.printer().print_done(
        &json!({ "servers": connection.servers(), "streams": list }),
        format_args!(
            "{}: {created} stream{} created{}, {} existed, each with {replicas} replica{}",
            connection.servers(),
            if created == 1 { "" } else { "s" },
            if created > 0 { " (new, empty)" } else { "" },
            streams.len() - created,
            if replicas == 1 { "" } else { "s" }
        ),
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn cluster_folder_has_no_parent_references() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).unwrap();
        let clean = |path: &str| clean_path(&root.join(path)).unwrap();
        assert_eq!(clean("a/../new/folder"), root.join("new/folder"));
        assert_eq!(clean("link/../new"), root.join("a/new"));
        assert_eq!(clean("a/."), root.join("a"));
    }
}

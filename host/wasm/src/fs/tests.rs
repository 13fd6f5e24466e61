//! Tests that call the view as the engine does, over a temporary workspace with a file worth stealing.

mod emptying;
mod limits;
mod links;
mod modes;
mod moves;
mod paths;
mod protected_paths;
mod races;
mod reads;
mod undo;
mod windows;

use super::*;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Descriptor, DescriptorFlags, DirectoryEntry, ErrorCode, HostDescriptor,
    HostDirectoryEntryStream, NewTimestamp, OpenFlags, PathFlags,
};

/// Content that no guest may ever see.
const SECRET: &str = "the secret";

type OperationResult<T> = Result<T, ErrorCode>;

/// A workspace next to a directory that was not granted, and the files of one store.
struct TestWorkspace {
    home: TempDir,
    fs: GuardedFs,
    table: ResourceTable,
    runtime: tokio::runtime::Runtime,
    roots: Vec<Resource<Descriptor>>,
}

impl TestWorkspace {
    /// The whole workspace, read and write, with the protected rules and `deny: [a/secrets]`.
    fn new() -> Self {
        Self::with(64, |ws| vec![mount(ws, "", DirectoryAccess::ReadWrite)])
    }

    fn with(max_open: usize, mounts: impl FnOnce(&Path) -> Vec<GuestMount>) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let ws = home.path().join("ws");
        for (path, content) in [
            ("ws/src/main.rs", "fn main() {}"),
            ("ws/src/deep/er.rs", "deep"),
            ("ws/.env", SECRET),
            ("ws/.env.example", "example"),
            ("ws/sub/.env", SECRET),
            ("ws/a/open.txt", "open"),
            ("ws/a/secrets/key", SECRET),
            ("ws/.mimir/config.yml", "settings"),
            ("ws/.mimir/state/audit.jsonl", SECRET),
            ("ws/.git/HEAD", "ref"),
            ("ws/.git/config", "[core]"),
            ("ws/.git/hooks/pre-commit", "#!/bin/sh"),
            ("outside/secret.txt", SECRET),
        ] {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, content).expect("a file");
        }
        let mut workspace = Self {
            fs: GuardedFs::open(mounts(&ws), max_open).expect("mounts"),
            table: ResourceTable::new(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .expect("a runtime"),
            roots: Vec::new(),
            home,
        };
        let preopened = preopens::Host::get_directories(&mut workspace.view()).expect("preopens");
        workspace.roots = preopened.into_iter().map(|(root, _)| root).collect();
        workspace
    }

    fn view(&mut self) -> FsCtxView<'_> {
        FsCtxView {
            fs: &mut self.fs,
            table: &mut self.table,
        }
    }

    fn host(&self, path: &str) -> PathBuf {
        self.home.path().join("ws").join(path)
    }

    fn root(&self) -> Resource<Descriptor> {
        Resource::new_borrow(self.roots[0].rep())
    }

    /// Runs one method of the view to its end.
    fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(FsCtxView<'_>, Resource<Descriptor>) -> FsResult<T>,
    ) -> OperationResult<T> {
        let Self {
            fs,
            table,
            runtime,
            roots,
            ..
        } = self;
        let root = Resource::new_borrow(roots[0].rep());
        let done = runtime.block_on(work(FsCtxView { fs, table }, root));
        done.map_err(|error| error.downcast().expect("an error code, not a trap"))
    }

    fn open(
        &mut self,
        path: &str,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> OperationResult<Resource<Descriptor>> {
        let path = path.to_owned();
        self.run(async |mut view, root| {
            view.open_at(root, PathFlags::SYMLINK_FOLLOW, path, how, flags)
                .await
        })
    }

    fn close(&mut self, fd: Resource<Descriptor>) {
        HostDescriptor::drop(&mut self.view(), fd).expect("a handle of ours");
    }

    fn read(&mut self, path: &str) -> OperationResult<String> {
        let fd = self.open(path, OpenFlags::empty(), DescriptorFlags::READ)?;
        let handle = Resource::new_borrow(fd.rep());
        let read = self.run(async |mut view, _| view.read(handle, 1 << 20, 0).await);
        self.close(fd);
        Ok(String::from_utf8(read?.0).expect("text"))
    }

    fn write(&mut self, path: &str, content: &str) -> OperationResult<()> {
        let fd = self.open(
            path,
            OpenFlags::CREATE | OpenFlags::TRUNCATE,
            DescriptorFlags::WRITE,
        )?;
        let handle = Resource::new_borrow(fd.rep());
        let content = content.as_bytes().to_vec();
        let wrote = self.run(async |mut view, _| view.write(handle, content, 0).await);
        self.close(fd);
        wrote.map(|_| ())
    }

    fn stat(&mut self, path: &str) -> OperationResult<types::DescriptorStat> {
        let path = path.to_owned();
        self.run(async |mut view, root| view.stat_at(root, PathFlags::SYMLINK_FOLLOW, path).await)
    }

    fn list(&mut self, path: &str) -> OperationResult<Vec<String>> {
        let fd = self.open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ)?;
        let handle = Resource::new_borrow(fd.rep());
        let entries = self.run(async |mut view, _| {
            let stream = view.read_directory(handle).await?;
            let mut names = Vec::new();
            while let Some(DirectoryEntry { name, .. }) = view
                .read_directory_entry(Resource::new_borrow(stream.rep()))
                .await?
            {
                names.push(name);
            }
            HostDirectoryEntryStream::drop(&mut view, stream).expect("a stream of ours");
            names.sort();
            Ok(names)
        });
        self.close(fd);
        entries
    }

    fn mkdir(&mut self, path: &str) -> OperationResult<()> {
        let path = path.to_owned();
        self.run(async |mut view, root| view.create_directory_at(root, path).await)
    }

    fn rmdir(&mut self, path: &str) -> OperationResult<()> {
        let path = path.to_owned();
        self.run(async |mut view, root| view.remove_directory_at(root, path).await)
    }

    fn unlink(&mut self, path: &str) -> OperationResult<()> {
        let path = path.to_owned();
        self.run(async |mut view, root| view.unlink_file_at(root, path).await)
    }

    fn rename(&mut self, from: &str, to: &str) -> OperationResult<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        let other = self.root();
        self.run(async |mut view, root| view.rename_at(root, from, other, to).await)
    }

    fn link(&mut self, from: &str, to: &str) -> OperationResult<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        let other = self.root();
        self.run(async |mut view, root| {
            view.link_at(root, PathFlags::empty(), from, other, to)
                .await
        })
    }

    fn symlink(&mut self, target: &str, path: &str) -> OperationResult<()> {
        let (target, path) = (target.to_owned(), path.to_owned());
        self.run(async |mut view, root| view.symlink_at(root, target, path).await)
    }

    fn readlink(&mut self, path: &str) -> OperationResult<String> {
        let path = path.to_owned();
        self.run(async |mut view, root| view.readlink_at(root, path).await)
    }

    fn touch(&mut self, path: &str) -> OperationResult<()> {
        let path = path.to_owned();
        let (accessed, modified) = (NewTimestamp::NoChange, NewTimestamp::Now);
        self.run(async |mut view, root| {
            view.set_times_at(root, PathFlags::SYMLINK_FOLLOW, path, accessed, modified)
                .await
        })
    }

    fn hash(&mut self, path: &str) -> OperationResult<types::MetadataHashValue> {
        let path = path.to_owned();
        self.run(async |mut view, root| {
            view.metadata_hash_at(root, PathFlags::SYMLINK_FOLLOW, path)
                .await
        })
    }

    fn last_refusal(&self) -> String {
        self.fs
            .refusals()
            .last()
            .map(ToString::to_string)
            .unwrap_or_default()
    }
}

fn mount(ws: &Path, prefix: &str, access: DirectoryAccess) -> GuestMount {
    GuestMount {
        host: if prefix.is_empty() {
            ws.to_owned()
        } else {
            ws.join(prefix)
        },
        guest: format!("/{prefix}"),
        prefix: prefix.to_owned(),
        access,
        rules: PathRules::protected().deny(["a/secrets"]).expect("a glob"),
    }
}

/// Every operation on a path, by name, so that a test can check that all of them fail alike.
fn all_operations(
    workspace: &mut TestWorkspace,
    path: &str,
) -> Vec<(&'static str, Option<ErrorCode>)> {
    let aside = format!("aside-{}", workspace.fs.refusals().len());
    let reading = read_operations(workspace, path);
    let changing = [
        (
            "create",
            workspace
                .open(path, OpenFlags::CREATE, DescriptorFlags::WRITE)
                .err(),
        ),
        (
            "write",
            workspace
                .open(path, OpenFlags::empty(), DescriptorFlags::WRITE)
                .err(),
        ),
        (
            "truncate",
            workspace
                .open(path, OpenFlags::TRUNCATE, DescriptorFlags::READ)
                .err(),
        ),
        ("mkdir", workspace.mkdir(path).err()),
        ("rmdir", workspace.rmdir(path).err()),
        ("unlink", workspace.unlink(path).err()),
        ("rename from", workspace.rename(path, &aside).err()),
        ("rename to", workspace.rename("src/main.rs", path).err()),
        ("link from", workspace.link(path, &aside).err()),
        ("link to", workspace.link("src/main.rs", path).err()),
        ("symlink at", workspace.symlink("src", path).err()),
        ("touch", workspace.touch(path).err()),
    ];
    reading.into_iter().chain(changing).collect()
}

fn read_operations(
    workspace: &mut TestWorkspace,
    path: &str,
) -> Vec<(&'static str, Option<ErrorCode>)> {
    vec![
        (
            "read",
            workspace
                .open(path, OpenFlags::empty(), DescriptorFlags::READ)
                .err(),
        ),
        (
            "open directory",
            workspace
                .open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ)
                .err(),
        ),
        ("stat", workspace.stat(path).err()),
        ("hash", workspace.hash(path).err()),
        ("readlink", workspace.readlink(path).err()),
    ]
}

#[track_caller]
fn assert_refused(results: &[(&'static str, Option<ErrorCode>)], path: &str) {
    for (operation, error) in results {
        assert_eq!(
            *error,
            Some(ErrorCode::NotPermitted),
            "{operation} of {path:?}"
        );
    }
}

//! Overlay root for the programs of a language engine: read-only files in memory, next to mounts of host directories.
//!
//! The code of a program and its standard library are files in memory, the workspace is one of the mounts. The files in
//! memory have no inodes, so links to them are impossible.
//!
//! Out of scope: paths inside a mount, which are resolved and checked by the mount.

use super::node::FsNode;
use super::refusal::FsFault;
use super::resolve::GuestPath;
use super::sys::{FileKind, FileStat};
use bytes::Bytes;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, DirectoryEntry, ErrorCode, OpenFlags,
};

/// The object behind a guest's handle.
#[derive(Debug, Clone)]
pub(super) enum FsEntry {
    /// An object of the host's file system.
    Real(FsNode),
    /// An object of an overlay.
    Overlay(OverlayNode),
}

/// The contents of an overlay.
#[derive(Debug)]
pub(super) struct OverlayTree {
    /// Directories of the host, by path.
    pub mounts: Vec<(String, FsNode)>,
    /// Files, by path.
    pub files: Vec<(String, Bytes)>,
}

/// A file or a directory of an overlay.
#[derive(Debug, Clone)]
pub(super) struct OverlayNode {
    tree: Arc<OverlayTree>,
    /// Path from the root, which is `""`.
    path: String,
    /// The content of a file; `None` for a directory.
    content: Option<Bytes>,
}

/// The target of a path that begins in an overlay.
pub(super) enum OverlayTarget {
    /// Inside a mount, with the path in it.
    Mount(FsNode, String),
    /// An object of the overlay itself.
    Overlay(OverlayNode),
}

impl OverlayNode {
    pub(super) fn root(tree: OverlayTree) -> Self {
        Self {
            tree: Arc::new(tree),
            path: String::new(),
            content: None,
        }
    }

    /// Returns the object at `path` from here. The root is its own parent.
    pub(super) fn find(&self, path: &str) -> Result<OverlayTarget, FsFault> {
        let written = GuestPath::parse(path)?;
        if self.content.is_some() {
            return Err(ErrorCode::NotDirectory.into());
        }
        let mut components: Vec<&str> = self
            .path
            .split('/')
            .filter(|part| !part.is_empty())
            .collect();
        let mut parts = written.parts.iter();
        while let Some(part) = parts.next() {
            if *part == ".." {
                components.pop();
                continue;
            }
            components.push(part);
            let prefix = components.join("/");
            let mut mounts = self.tree.mounts.iter();
            if let Some((_, node)) = mounts.find(|(name, _)| *name == prefix) {
                let mut rest = parts.as_slice().join("/");
                match (rest.is_empty(), written.dir) {
                    (true, _) => rest.push('.'),
                    (false, true) => rest.push('/'),
                    (false, false) => {}
                }
                return Ok(OverlayTarget::Mount(node.clone(), rest));
            }
        }
        let path = components.join("/");
        let overlay_target = |content| {
            Ok(OverlayTarget::Overlay(Self {
                tree: Arc::clone(&self.tree),
                path: path.clone(),
                content,
            }))
        };
        if let Some((_, content)) = self.tree.files.iter().find(|(name, _)| *name == path) {
            return if written.dir {
                Err(ErrorCode::NotDirectory.into())
            } else {
                overlay_target(Some(content.clone()))
            };
        }
        if path.is_empty() || self.entries_below(&path).next().is_some() {
            return overlay_target(None);
        }
        Err(ErrorCode::NoEntry.into())
    }

    /// Checks that the entry can be opened with these flags. Writing fails, because an overlay is read-only.
    pub(super) fn open_with(
        self,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> Result<Self, FsFault> {
        if open_flags.contains(OpenFlags::CREATE | OpenFlags::EXCLUSIVE) {
            return Err(ErrorCode::Exist.into());
        }
        if open_flags.contains(OpenFlags::DIRECTORY) && self.content.is_some() {
            return Err(ErrorCode::NotDirectory.into());
        }
        if flags.contains(DescriptorFlags::WRITE) || open_flags.contains(OpenFlags::TRUNCATE) {
            return Err(match self.content {
                Some(_) => ErrorCode::ReadOnly.into(),
                None => ErrorCode::IsDirectory.into(),
            });
        }
        Ok(self)
    }

    /// Returns the content of a file.
    pub(super) fn content(&self) -> Result<&Bytes, FsFault> {
        self.content
            .as_ref()
            .ok_or_else(|| ErrorCode::IsDirectory.into())
    }

    pub(super) fn kind(&self) -> DescriptorType {
        match self.content {
            Some(_) => DescriptorType::RegularFile,
            None => DescriptorType::Directory,
        }
    }

    pub(super) fn stat(&self) -> FileStat {
        let mut hasher = DefaultHasher::new();
        self.path.hash(&mut hasher);
        FileStat {
            kind: match self.content {
                Some(_) => FileKind::File,
                None => FileKind::Directory,
            },
            links: 1,
            size: self
                .content
                .as_ref()
                .map_or(0, |content| content.len() as u64),
            accessed: None,
            modified: None,
            changed: None,
            mode: None,
            id: (u64::MAX, hasher.finish()),
        }
    }

    /// Returns the names below `path`, with a flag for directories and with duplicates: a folder appears once for each
    /// file and mount in it.
    fn entries_below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a str, bool)> {
        let files = self.tree.files.iter().map(|(name, _)| (name, false));
        let mounts = self.tree.mounts.iter().map(|(name, _)| (name, true));
        files.chain(mounts).filter_map(move |(name, is_dir)| {
            let rest = match path {
                "" => name.as_str(),
                path => name.strip_prefix(path)?.strip_prefix('/')?,
            };
            Some(match rest.split_once('/') {
                Some((first, _)) => (first, true),
                None => (rest, is_dir),
            })
        })
    }

    /// Returns the entries of a directory.
    pub(super) fn list(&self) -> Result<Vec<DirectoryEntry>, FsFault> {
        if self.content.is_some() {
            return Err(ErrorCode::NotDirectory.into());
        }
        let mut entries: Vec<DirectoryEntry> = Vec::new();
        for (name, is_dir) in self.entries_below(&self.path) {
            if entries.iter().any(|entry| entry.name == name) {
                continue;
            }
            entries.push(DirectoryEntry {
                type_: if is_dir {
                    DescriptorType::Directory
                } else {
                    DescriptorType::RegularFile
                },
                name: name.to_owned(),
            });
        }
        Ok(entries)
    }
}

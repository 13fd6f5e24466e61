//! Tests of doc comments in whole files and folders.

use super::*;

fn parse_types(source: &str) -> BTreeMap<String, GoTypeDocs> {
    type_parser::parse_types(source, &mut DocBudget::new())
}

/// Reads a folder with these files.
fn read_files(files: &[(&str, &str)]) -> GoPluginDocs {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mut docs = read_folder(dir.path()).unwrap();
    for file in &mut docs.skipped_files {
        *file = file.strip_prefix(dir.path()).unwrap().to_owned();
    }
    docs
}

fn doc<'a>(docs: &'a BTreeMap<String, GoTypeDocs>, name: &str) -> &'a str {
    &docs[name].doc
}

fn field<'a>(docs: &'a BTreeMap<String, GoTypeDocs>, name: &str, field: &str) -> Option<&'a str> {
    docs[name].fields.get(field).map(String::as_str)
}

#[test]
fn doc_comments_of_types_and_fields_are_read() {
    let source = r#"// Package main is not a type.
package main

// Not above the type.

// WordCount counts words
// in a text.
type WordCount struct {
	// The text.
	Text string `json:"text" desc:"// no"`
	From, To int // Bounds.
	Plain bool

	// Separated by an empty line.

	Lonely string
	Nested struct {
		// Not a field of WordCount.
		Inner int
	} `json:"nested"` // After the brackets.
	Call func(
		// Not a field either.
		a int,
	) error
	Last map[string][]struct{ X int } /* Block. */ }

func main() {
	// Local types do not count.
	type Local struct{}
}
"#;
    let types = parse_types(source);
    assert_eq!(types.keys().collect::<Vec<_>>(), ["WordCount"]);
    assert_eq!(
        doc(&types, "WordCount"),
        "WordCount counts words in a text."
    );
    let fields: Vec<_> = types["WordCount"]
        .fields
        .iter()
        .map(|(a, b)| (&**a, &**b))
        .collect();
    assert_eq!(
        fields,
        [
            ("From", "Bounds."),
            ("Last", "Block."),
            ("Nested", "After the brackets."),
            ("Text", "The text."),
            ("To", "Bounds."),
        ]
    );
}

#[test]
fn doc_comments_are_read_from_grouped_and_generic_types() {
    let source = "package main
// Shared.
type (
	// First one.
	First struct {
		A int // a
	}

	Second[T any, U interface{ ~int | ~string }] struct { B T // b
	}; Third = First
	Fourth func(a struct{ X int }) (b error)
)
/* Single. */
type Single[K comparable] map[K]string
// Not the doc of a type.
var x = `
// Trap.
type Trap struct {}
`
type Bare struct{}
";
    let types = parse_types(source);
    let docs: Vec<_> = types
        .iter()
        .map(|(name, docs)| (&**name, &*docs.doc))
        .collect();
    assert_eq!(
        docs,
        [
            ("Bare", ""),
            ("First", "First one."),
            ("Fourth", "Shared."),
            ("Second", "Shared."),
            ("Single", "Single."),
            ("Third", "Shared."),
        ]
    );
    assert_eq!(field(&types, "Second", "B"), Some("b"));
}

#[test]
fn doc_comments_do_not_depend_on_line_ends() {
    let source = "package main\n\n// A greets.\n//\n// Twice.\ntype A struct {\n\t// Who.\n\tB, C string\n\tD int // d\n}\n";
    let expected = parse_types(source);
    assert_eq!(doc(&expected, "A"), "A greets.\n\nTwice.");
    assert_eq!(expected["A"].fields.len(), 3);
    assert_eq!(parse_types(&source.replace('\n', "\r\n")), expected);
}

#[test]
fn doc_comments_of_embedded_and_defined_types_are_inherited() {
    let docs = read_files(&[(
        "main.go",
        "package main
// Input.
type Input struct {
	Page
	*paging.Order[string] `json:\"order\"` // In this order.
	Name string // Own.
}
type Page struct { Limits; Name string // Of the page.
	Size int // Size of a page.
}
type Limits struct {
	Max int // At most.
}
type Order[T any] struct {
	By T // Key.
}
type Renamed Input
type Loop struct { Loop; *Other }
type Other struct { Loop
	X int // x
}
",
    )]);
    let types = &docs.types;
    assert_eq!(field(types, "Input", "Name"), Some("Own."));
    assert_eq!(field(types, "Input", "Size"), Some("Size of a page."));
    assert_eq!(field(types, "Input", "Max"), Some("At most."));
    assert_eq!(field(types, "Input", "By"), Some("Key."));
    assert_eq!(field(types, "Input", "Order"), Some("In this order."));
    assert_eq!(types["Renamed"].fields, types["Input"].fields);
    assert_eq!(doc(types, "Renamed"), "");
    assert_eq!(field(types, "Loop", "X"), Some("x"));
}

#[test]
fn doc_comments_come_from_files_that_are_built() {
    let docs = read_files(&[
        ("a.go", "package main\n// A is built.\ntype A struct{}\n"),
        (
            "a_linux.go",
            "package main\n// B is not built.\ntype B struct{}\n",
        ),
        (
            "gen.go",
            "//go:build ignore\n\npackage main\n// A is generated.\ntype C struct{}\n",
        ),
        (
            "a_test.go",
            "package main\n// T is a test.\ntype T struct{}\n",
        ),
        (
            "vendor/v/v.go",
            "package v\n// V is vendored.\ntype V struct{}\n",
        ),
        ("_old/o.go", "package o\n// O is old.\ntype O struct{}\n"),
        ("other/go.mod", "module other\n"),
        (
            "other/m.go",
            "package other\n// M is in another module.\ntype M struct{}\n",
        ),
    ]);
    assert_eq!(docs.types.keys().collect::<Vec<_>>(), ["A"]);
}

#[test]
fn doc_comments_of_the_plugins_package_come_first() {
    let docs = read_files(&[
        (
            "a/a.go",
            "package a\n// A of a.\ntype A struct{}\n// B of a.\ntype B struct{}\n// C.\ntype C struct{}\n",
        ),
        (
            "b/b.go",
            "package b\n// B of b.\ntype B struct{}\n// C.\ntype C struct{}\n",
        ),
        ("main.go", "package main\n// A of main.\ntype A struct{}\n"),
    ]);
    assert_eq!(
        docs.types.keys().collect::<Vec<_>>(),
        ["A", "C"],
        "B is ambiguous"
    );
    assert_eq!(doc(&docs.types, "A"), "A of main.");
}

#[test]
fn doc_comments_survive_sources_that_go_does_not_accept() {
    for source in [
        "type",
        "type (",
        "type )",
        "type A",
        "type A struct",
        "type A struct {",
        "type A struct { B",
        "type ( ; A struct {} ; )",
        "type ( 5 6 = [ )",
        "}}}) type A struct { ) ] } x",
        "type A struct { , , * . [ ] ( ) }",
        "type A[ struct {",
        "type \"x\" struct {}",
        "// only a comment",
    ] {
        parse_types(source);
        // Every prefix, too: a file may be saved in the middle of a word.
        for end in 0..source.len() {
            parse_types(&source[..end]);
        }
    }
    assert_eq!(
        doc(&parse_types("type ( ; // Doc.\nA struct {} ; )"), "A"),
        ""
    );
    assert_eq!(
        doc(&parse_types(")\n// Doc.\ntype A struct {}"), "A"),
        "Doc."
    );
}

#[test]
fn doc_comments_take_linear_time_in_hostile_sources() {
    // Quadratic work on any of these would take minutes.
    const SIZE: usize = 1 << 17;
    for part in [
        "// c\n",
        "/**/",
        "type A struct {",
        "(",
        "[",
        "type (",
        "A,",
        "`",
        "\"",
        "*",
        "type A B\n",
    ] {
        parse_types(&part.repeat(SIZE / part.len()));
        parse_types(&format!(
            "type A struct {{ {}",
            part.repeat(SIZE / part.len())
        ));
    }
    let chain = |n: usize| format!("type T{n} struct {{ T{}\n F{n} int // f\n}}\n", n + 1);
    let source: String = (0..1_000).map(chain).collect();
    let types = inherit_fields(&parse_types(&source));
    assert_eq!(types["T0"].fields.len(), MAX_INHERITED + 1);
    // A comment of a group, or of many names, is copied for each.
    let long = "x".repeat(1 << 19);
    let names: String = (0..5_000).map(|n| format!("T{n} int\n")).collect();
    let types = parse_types(&format!("// {long}\ntype (\n{names})"));
    assert_eq!(types.len(), 5_000);
    assert_eq!(
        types.values().filter(|docs| !docs.doc.is_empty()).count(),
        7
    );
}

#[test]
fn doc_comments_skip_files_that_cannot_be_read_as_text() {
    let huge = format!(
        "package main\n// Huge.\ntype Huge struct{{}}\n{}",
        "\n".repeat(MAX_SOURCE as usize)
    );
    let docs = read_files(&[
        ("huge.go", &huge),
        ("main.go", "package main\n// A.\ntype A struct{}\n"),
    ]);
    assert_eq!(docs.types.keys().collect::<Vec<_>>(), ["A"]);
    assert_eq!(docs.skipped_files, [PathBuf::from("huge.go")]);
    let missing = read_folder(Path::new("/missing/folder")).unwrap_err();
    assert!(missing.message.contains("/missing/folder"), "{missing}");
}

#[test]
fn overlay_source_has_no_backquotes_within_its_literals() {
    let docs = read_files(&[(
        "main.go",
        "package main\n// A has `code`, \u{feff} and \"quotes\".\ntype A struct{}\n",
    )]);
    let project = BTreeMap::from([("name".to_owned(), "a`b".to_owned())]);
    let source = overlay_source(&docs, &project);
    assert!(
        source.starts_with("// Written by mimir.\n\npackage main\n"),
        "{source}"
    );
    let literals: Vec<&str> = source.split('`').skip(1).step_by(2).collect();
    let [types, project] = literals[..] else {
        panic!("{source}");
    };
    assert!(!types.contains('\u{feff}'), "{types}");
    let types: serde_json::Value = serde_json::from_str(types).unwrap();
    assert_eq!(types["A"]["doc"], "A has `code`, \u{feff} and \"quotes\".");
    assert_eq!(types["A"]["fields"], serde_json::json!({}));
    let project: serde_json::Value = serde_json::from_str(project).unwrap();
    assert_eq!(project["name"], "a`b");
}

#[cfg(unix)]
#[test]
fn doc_comments_of_linked_files_are_not_read() {
    let outside = tempfile::tempdir().unwrap();
    let text = "package main\n\n// Secret is outside.\ntype Secret struct{}\n";
    let file = outside.path().join("secret.go");
    std::fs::write(&file, text).unwrap();
    let plugin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&file, plugin.path().join("linked.go")).unwrap();
    assert_eq!(read_folder(plugin.path()).unwrap(), GoPluginDocs::default());
    std::fs::copy(&file, plugin.path().join("own.go")).unwrap();
    let docs = read_folder(plugin.path()).unwrap();
    assert_eq!(doc(&docs.types, "Secret"), "Secret is outside.");
}

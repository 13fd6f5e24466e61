//! The page: files that are part of the program. They contain nothing that is secret.

/// A file of the page.
pub(crate) struct PageFile {
    /// Content type.
    pub(crate) kind: &'static str,
    /// Content.
    pub(crate) content: &'static str,
}

/// Returns the file at a path below the base of the console.
pub(crate) fn page_file(path: &str) -> Option<PageFile> {
    let (kind, content) = match path {
        "" | "index.html" => (
            "text/html; charset=utf-8",
            include_str!("../page/dist/index.html"),
        ),
        "console.js" => (
            "text/javascript; charset=utf-8",
            include_str!("../page/dist/console.js"),
        ),
        "console.css" => (
            "text/css; charset=utf-8",
            include_str!("../page/dist/console.css"),
        ),
        "LICENCES.txt" => (
            "text/plain; charset=utf-8",
            include_str!("../page/dist/LICENCES.txt"),
        ),
        _ => return None,
    };
    Some(PageFile { kind, content })
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn page_files_have_the_recorded_hashes() {
        let sums = include_str!("../page/dist/SHA256SUMS");
        let mut checked = 0;
        for line in sums.lines() {
            let (sum, name) = line.split_once("  ").unwrap();
            let file = page_file(name).unwrap_or_else(|| panic!("{name} is not served"));
            let actual = format!("{:x}", Sha256::digest(file.content));
            assert_eq!(actual, sum, "{name} was not made by build.mjs");
            checked += 1;
        }
        assert_eq!(checked, 4);
    }

    #[test]
    fn page_has_no_inline_code_and_loads_nothing_from_elsewhere() {
        let html = page_file("").unwrap().content;
        for forbidden in [
            " onclick",
            " onload",
            "style=",
            "<style",
            "javascript:",
            "<base",
            "<iframe",
        ] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        for name in ["src=\"", "href=\""] {
            for value in html.split(name).skip(1) {
                let is_own = !value.starts_with('/') && !value.starts_with("http");
                assert!(is_own, "{value}");
            }
        }
        for script in html.split("<script").skip(1) {
            let (tag, rest) = script.split_once('>').unwrap();
            assert!(
                tag.contains("src=") && rest.starts_with("</script>"),
                "{script}"
            );
        }
        let code = page_file("console.js").unwrap().content;
        for forbidden in [
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ] {
            assert!(!code.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn page_sources_write_texts_as_text_only() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page/src");
        let mut folders = vec![root];
        let mut read = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                // preact itself has a property of this name, which the policy of trusted types closes as well.
                assert!(!text.contains("nnerHTML"), "{}", path.display());
                read += 1;
            }
        }
        assert!(read > 0);
    }
}

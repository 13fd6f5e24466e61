//! Icons of servers' tools, resources and prompts, for the windows of clients: images in `data:` URLs. Other URLs are
//! left out, because a client that shows them would tell their host who uses the server, and when.

use std::collections::HashMap;

use rmcp::model::Icon;
use serde_json::Value;

use super::description::ServerDescription;
use super::servers::McpServers;
use super::spec::ServerSpec;

/// Maximum number of icons of an entry.
const MAX_ICONS: usize = 4;

/// Maximum size in bytes of an image in a URL.
const MAX_IMAGE_SIZE: usize = 8 << 10;

/// Maximum size in bytes of the icons of a server's tools.
const MAX_TOTAL_SIZE: usize = 256 << 10;

/// Image formats that contain no programs.
const IMAGES: [&str; 4] = [
    "data:image/png;base64,",
    "data:image/jpeg;base64,",
    "data:image/gif;base64,",
    "data:image/webp;base64,",
];

/// Icons by the name of the server and the name of the tool.
pub(crate) type ToolIcons = HashMap<(String, String), Vec<Icon>>;

impl McpServers {
    /// Returns the icons of the known tools, by the names of the server and of the tool as clients see it.
    pub(crate) fn tool_icons(&self) -> ToolIcons {
        let mut icons = HashMap::new();
        for server in self.sorted() {
            if let Some(described) = server.known() {
                add_icons(&server.spec, &described, &mut icons);
            }
        }
        icons
    }
}

fn add_icons(spec: &ServerSpec, described: &ServerDescription, icons: &mut ToolIcons) {
    let has_icons = |tool: &Value| tool["icons"].is_array();
    if !described.tools.iter().any(has_icons) {
        return;
    }
    let mut remaining = MAX_TOTAL_SIZE;
    for remote in described.remote_tools(spec).0 {
        let mut tools = described.tools.iter();
        let tool = tools.find(|tool| tool["name"] == remote.name.as_str());
        let listed = tool.and_then(|tool| serde_json::from_value(tool["icons"].clone()).ok());
        let Some(checked) = check_icons(listed) else {
            continue;
        };
        let size: usize = checked.iter().map(|icon| icon.src.len()).sum();
        let Some(left) = remaining.checked_sub(size) else {
            return;
        };
        remaining = left;
        let key = (spec.name.clone(), remote.definition.name.to_string());
        icons.insert(key, checked);
    }
}

/// Returns the icons that clients may show, or `None` if there are none.
pub(super) fn check_icons(icons: Option<Vec<Icon>>) -> Option<Vec<Icon>> {
    let icons = icons?.into_iter().filter(is_allowed).take(MAX_ICONS);
    let icons: Vec<Icon> = icons.collect();
    (!icons.is_empty()).then_some(icons)
}

fn is_allowed(icon: &Icon) -> bool {
    let mut formats = IMAGES.iter();
    let data = formats.find_map(|format| icon.src.strip_prefix(*format));
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let is_image =
        data.is_some_and(|data| data.bytes().all(is_base64)) && icon.src.len() <= MAX_IMAGE_SIZE;
    let is_short =
        |text: &str| text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_graphic());
    let sizes = icon.sizes.iter().flatten();
    let mut facts = icon.mime_type.iter().chain(sizes);
    is_image && facts.all(|text| is_short(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn icons_are_small_images_in_their_urls() {
        let long = format!("data:image/png;base64,{}", "A".repeat(MAX_IMAGE_SIZE));
        for (src, allowed) in [
            ("data:image/png;base64,AAAA", true),
            ("data:image/png;base64,iVBOR+/w0KGg==", true),
            ("data:image/png;base64,AA\"onload=\"alert(1)", false),
            ("data:image/png;base64,AAAA,data:text/html", false),
            ("https://icons.example/a.png", false),
            ("data:image/svg+xml,<svg onload=alert(1)>", false),
            ("data:text/html;base64,AAAA", false),
            ("file:///etc/passwd", false),
            (&long, false),
        ] {
            assert_eq!(is_allowed(&Icon::new(src)), allowed, "{src}");
        }
        let many = vec![Icon::new("data:image/png;base64,AAAA"); 9];
        assert_eq!(check_icons(Some(many)).unwrap().len(), MAX_ICONS);
        assert_eq!(check_icons(Some(vec![Icon::new("x")])), None);
    }
}

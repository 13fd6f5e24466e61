//! Image files that the user attaches to a message.

use std::io::Read as _;
use std::path::Path;

use mimir_agent::{Agent, ImageError, MAX_IMAGE_BYTES, MessageImage};
use mimir_core::ToolError;
use mimir_core::text::visible;

/// Maximum number of images that are attached to a message.
const MAX_ATTACHED: usize = 8;

/// Reads an image file of the user for a message to this agent, in addition to `attached` images. Path rules do not
/// apply, because the user names the file, not the model.
pub fn read_image(agent: &Agent, path: &Path, attached: usize) -> Result<MessageImage, ToolError> {
    if !agent.model.reads_images() {
        return Err(no_vision(agent.model.name()));
    }
    if attached >= MAX_ATTACHED {
        return Err(ToolError::limit_exceeded(format!(
            "too many images: expected at most {MAX_ATTACHED} per message"
        )));
    }
    let shown = visible(&path.display().to_string());
    let unreadable = |error: std::io::Error| {
        ToolError::invalid_input(format!("the image {shown} cannot be read: {error}"))
    };
    // A pipe or a device is not opened, because that could block.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(ToolError::invalid_input(format!("{shown} is not a file")));
    }
    let mut content = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| {
            file.take(MAX_IMAGE_BYTES as u64 + 1)
                .read_to_end(&mut content)
        })
        .map_err(unreadable)?;
    MessageImage::new(&content).map_err(|error| {
        let remedy = match error {
            ImageError::Format => None,
            ImageError::Size | ImageError::Pixels(..) => {
                Some("make the image smaller, or attach a part of it".to_owned())
            }
        };
        ToolError::invalid_input(format!("{shown}: {error}")).with_remedies(remedy)
    })
}

/// Returns the error about a model that does not read images.
fn no_vision(model: &str) -> ToolError {
    let (provider, model) = model.split_once('/').unwrap_or(("NAME", model));
    let message = format!("the model {} is not known to read images", visible(model));
    ToolError::invalid_input(message).with_remedies([
        "use a model that does, with `--model PROVIDER/MODEL`".to_owned(),
        format!(
            "if it does, set `vision: {{\"{}\": true}}` in `providers.{}` of your settings",
            visible(model),
            visible(provider)
        ),
    ])
}

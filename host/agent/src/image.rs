//! Images in messages: supported formats, limits, and estimated tokens.
//!
//! The format is read from the data, not from the media type that a tool or server declares, because providers reject
//! a conversation with an image that is not what it claims to be.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::message::Message;

mod format;

use format::ImageHeader;

/// An image in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageImage {
    /// The media type, such as `image/png`.
    pub mime_type: String,
    /// The file, in base64.
    pub data: String,
    /// Estimated number of tokens.
    pub tokens: u64,
}

/// Reason why a file is not accepted as an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The file has another format, or is damaged.
    #[error("not a supported image: expected PNG, JPEG, GIF or WebP")]
    Format,
    /// The file is too large.
    #[error("the image is too large: expected at most 3.75 MiB")]
    Size,
    /// The image has too many pixels.
    #[error("the image has {0} x {1} pixels: expected at most {MAX_SIDE} in each direction")]
    Pixels(u32, u32),
}

/// Maximum size of an image in bytes: in base64, 5 MiB, the lowest limit of the providers. `read_file` has the same limit.
pub const MAX_IMAGE_BYTES: usize = (5 << 20) / 4 * 3;

/// Maximum width and height in pixels, the lowest limit of the providers.
const MAX_SIDE: u32 = 8_000;

/// Maximum number of images of one result.
pub(crate) const MAX_RESULT_IMAGES: usize = 8;

/// Maximum number of images in a request. With more, some providers reduce the allowed number of pixels.
const MAX_SENT_IMAGES: usize = 20;

/// Maximum number of bytes of the images in a request, in base64.
const MAX_SENT_BYTES: usize = 12_000_000;

/// Old images are removed in groups of this size: each removal changes the beginning of the conversation, which the
/// provider has cached.
const REMOVAL_GROUP: usize = 5;

/// Number of pixels per token, and the range of tokens per image. Providers scale larger images down.
const PIXELS_PER_TOKEN: u64 = 750;
const TOKENS_RANGE: (u64, u64) = (85, 1_600);

impl MessageImage {
    /// Checks the format and the size of an image file.
    pub fn new(file: &[u8]) -> Result<Self, ImageError> {
        if file.len() > MAX_IMAGE_BYTES {
            return Err(ImageError::Size);
        }
        let ImageHeader {
            mime_type,
            width,
            height,
        } = ImageHeader::read(file).ok_or(ImageError::Format)?;
        if width == 0 || height == 0 {
            return Err(ImageError::Format);
        }
        if width > MAX_SIDE || height > MAX_SIDE {
            return Err(ImageError::Pixels(width, height));
        }
        let pixels = u64::from(width) * u64::from(height);
        let (min, max) = TOKENS_RANGE;
        Ok(Self {
            mime_type: mime_type.to_owned(),
            data: STANDARD.encode(file),
            tokens: (pixels / PIXELS_PER_TOKEN).clamp(min, max),
        })
    }

    /// Returns the image as a `data:` URL.
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.mime_type, self.data)
    }
}

impl Message {
    /// Returns the images of the message.
    pub fn images(&self) -> &[MessageImage] {
        match self {
            Self::User { images, .. } | Self::Tool { images, .. } => images,
            Self::Assistant { .. } => &[],
        }
    }

    /// Replaces the images by a note with the reason. Returns the number of removed images.
    pub(crate) fn remove_images(&mut self, reason: &str) -> usize {
        let (Self::User { text, images } | Self::Tool { text, images, .. }) = self else {
            return 0;
        };
        let count = images.len();
        if count > 0 {
            let noun = if count == 1 { "image" } else { "images" };
            images.clear();
            text.push_str(&format!("\n[{count} {noun} not shown: {reason}]"));
        }
        count
    }
}

/// Reason for images that are removed to save space.
pub(crate) const SAVE_SPACE: &str = "removed to save space";

/// Returns the messages with the images that can be sent: none if the model does not read images, else the newest up to
/// the limits of a request.
pub(crate) fn sendable_images<'a>(
    messages: &'a [Message],
    reads_images: bool,
) -> Cow<'a, [Message]> {
    if messages.iter().all(|message| message.images().is_empty()) {
        return Cow::Borrowed(messages);
    }
    let mut sent = messages.to_vec();
    if reads_images {
        limit_images(&mut sent, MAX_SENT_IMAGES, MAX_SENT_BYTES, u64::MAX);
    } else {
        for message in &mut sent {
            message.remove_images("this model does not read images");
        }
    }
    Cow::Owned(sent)
}

/// Removes the images of the oldest messages until the rest is within the limits. Images that are removed because of
/// their number are removed in groups.
pub(crate) fn limit_images(
    messages: &mut [Message],
    max_count: usize,
    max_bytes: usize,
    max_tokens: u64,
) {
    let (mut count, mut bytes, mut tokens) = (0, 0, 0);
    let mut first_kept = messages.len();
    for (at, message) in messages.iter().enumerate().rev() {
        for image in message.images() {
            count += 1;
            bytes += image.data.len();
            tokens += image.tokens;
        }
        if count > max_count || bytes > max_bytes || tokens > max_tokens {
            break;
        }
        first_kept = at;
    }
    let over: usize = messages[..first_kept]
        .iter()
        .map(|message| message.images().len())
        .sum();
    if over == 0 {
        return;
    }
    let mut to_remove = over.next_multiple_of(REMOVAL_GROUP);
    let last = messages
        .iter()
        .rposition(|message| !message.images().is_empty());
    for (at, message) in messages.iter_mut().enumerate() {
        // The newest images stay if they are within the limits.
        if at >= first_kept && (to_remove == 0 || Some(at) == last) {
            break;
        }
        to_remove = to_remove.saturating_sub(message.remove_images(SAVE_SPACE));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The beginning of a PNG file of this size, which is all that is read.
    pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
        let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        file.extend(width.to_be_bytes());
        file.extend(height.to_be_bytes());
        file
    }

    pub(crate) fn message(images: usize) -> Message {
        Message::Tool {
            id: "a".into(),
            name: "read_file".into(),
            text: "a picture".into(),
            failed: false,
            images: vec![MessageImage::new(&png(300, 200)).unwrap(); images],
        }
    }

    /// The reply whose call `message` is the result of.
    pub(crate) fn call_of_message() -> Message {
        let call = crate::message::ToolCall {
            id: "a".into(),
            name: "read_file".into(),
            ..Default::default()
        };
        Message::Assistant {
            text: String::new(),
            calls: vec![call],
        }
    }

    fn shown(messages: &[Message]) -> Vec<usize> {
        messages.iter().map(|one| one.images().len()).collect()
    }

    #[test]
    fn image_is_checked_and_its_tokens_are_estimated() {
        let image = MessageImage::new(&png(750, 200)).unwrap();
        assert_eq!((image.mime_type.as_str(), image.tokens), ("image/png", 200));
        assert!(image.data_url().starts_with("data:image/png;base64,iVBOR"));
        assert_eq!(MessageImage::new(&png(4_000, 4_000)).unwrap().tokens, 1_600);
        assert_eq!(
            MessageImage::new(&png(8_001, 1)),
            Err(ImageError::Pixels(8_001, 1))
        );
        assert_eq!(MessageImage::new(&png(0, 9)), Err(ImageError::Format));
        assert_eq!(MessageImage::new(b"<svg/>"), Err(ImageError::Format));
        let mut largest = png(9, 9);
        largest.resize(MAX_IMAGE_BYTES, 0);
        assert_eq!(MessageImage::new(&largest).unwrap().data.len(), 5 << 20);
        largest.push(0);
        let error = MessageImage::new(&largest).unwrap_err();
        assert!(error.to_string().contains("3.75 MiB"), "{error}");
    }

    #[test]
    fn images_become_notes_for_a_model_that_reads_none() {
        let messages = [Message::user("look"), message(2)];
        let sent = sendable_images(&messages, false);
        assert_eq!(shown(&sent), [0, 0]);
        let Message::Tool { text, .. } = &sent[1] else {
            panic!()
        };
        assert_eq!(
            text,
            "a picture\n[2 images not shown: this model does not read images]"
        );
        assert!(matches!(
            sendable_images(&messages[..1], false),
            Cow::Borrowed(_)
        ));
        assert_eq!(shown(&sendable_images(&messages, true)), [0, 2]);
    }

    #[test]
    fn images_over_the_limit_are_removed_oldest_first_in_groups() {
        let messages = vec![message(1); MAX_SENT_IMAGES + 1];
        let sent = sendable_images(&messages, true);
        assert_eq!(shown(&sent)[..6], [0, 0, 0, 0, 0, 1]);
        // The next images change nothing before them.
        let longer = vec![message(1); MAX_SENT_IMAGES + REMOVAL_GROUP];
        assert_eq!(sendable_images(&longer, true)[..21], sent[..21]);
        let mut few = vec![message(1), message(1)];
        limit_images(&mut few, 9, usize::MAX, 100);
        assert_eq!(shown(&few), [0, 1], "the newest image is within the limit");
        limit_images(&mut few, 9, usize::MAX, 10);
        assert_eq!(shown(&few), [0, 0]);
    }
}

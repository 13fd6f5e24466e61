//! Knowledge about which models read images.

/// Beginnings of the names of models that read images, in lower case.
const READ_IMAGES: [&str; 21] = [
    "claude-",
    "chatgpt-4o",
    "gpt-4o",
    "gpt-4.1",
    "gpt-4-turbo",
    "gpt-5",
    "o1",
    "o3",
    "o4-mini",
    "gemini-",
    "gemma3",
    "gemma-3",
    "llama4",
    "llama-4",
    "llava",
    "bakllava",
    "minicpm-v",
    "moondream",
    "pixtral",
    "mistral-small3",
    "grok-4",
];

/// Beginnings of the names of models that do not, among those above.
const READ_NO_IMAGES: [&str; 7] = [
    "claude-2",
    "claude-instant",
    "gpt-4o-audio",
    "o1-mini",
    "o1-preview",
    "o3-mini",
    "gemma3:1b",
];

/// Parts of the names of other models that read images.
const PARTS: [&str; 3] = ["-vl", "vision", "vl:"];

/// Returns true if a model of this name is known to read images. The name may have the name of its maker in front, as
/// at providers of many models' models.
pub(crate) fn is_known_to_read_images(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let name = model.rsplit('/').next().unwrap_or_default();
    let starts = |all: &[&str]| all.iter().any(|start| name.starts_with(start));
    !starts(&READ_NO_IMAGES)
        && (starts(&READ_IMAGES) || PARTS.iter().any(|part| name.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vision_is_known_by_the_name_of_the_model() {
        for model in [
            "claude-sonnet-4-5",
            "anthropic/claude-3-haiku",
            "GPT-4o-mini",
            "gpt-5.1",
            "gemini-2.5-flash",
            "qwen2.5vl:7b",
            "Qwen/Qwen2-VL-7B",
            "llama3.2-vision",
        ] {
            assert!(is_known_to_read_images(model), "{model}");
        }
        for model in [
            "claude-2.1",
            "o3-mini",
            "gpt-3.5-turbo",
            "qwen3:8b",
            "deepseek-chat",
            "m",
            "",
        ] {
            assert!(!is_known_to_read_images(model), "{model}");
        }
    }
}

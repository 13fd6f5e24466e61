//! The API of embeddings endpoints, which turn texts into vectors: the closer two vectors, the closer the meanings of
//! their texts. The API is OpenAI's, which other providers support as well.
//!
//! `memory_search` and `search_code` share this crate. Out of scope: sending requests, and storing vectors.

use serde_json::{Value, json};

/// A response that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEmbeddings {
    /// The body is not JSON.
    #[error("it did not return JSON; check `embeddings.url`")]
    NotJson,
    /// The number of vectors is wrong, or their numbers of dimensions differ.
    #[error("it did not return one vector for each text")]
    Mismatch,
}

/// Returns the URL to which requests are posted. `base` is the setting `embeddings.url`.
#[must_use]
pub fn endpoint_url(base: &str) -> String {
    format!("{}/embeddings", base.trim_end_matches('/'))
}

/// Returns the body of a request for the vectors of some texts.
#[must_use]
pub fn request_body(model: &str, dimensions: Option<u32>, texts: &[&str]) -> Value {
    let mut body = json!({ "model": model, "input": texts, "encoding_format": "float" });
    if let Some(dimensions) = dimensions {
        body["dimensions"] = dimensions.into();
    }
    body
}

/// Parses the body of a response to a request with `expected` texts. Returns the vectors in the order of the texts.
///
/// # Errors
///
/// Returns an error if the body is not JSON, or does not have one vector of finite numbers for each text, all of the same
/// length.
pub fn parse_response(body: &[u8], expected: usize) -> Result<Vec<Vec<f32>>, InvalidEmbeddings> {
    let json: Value = serde_json::from_slice(body).map_err(|_| InvalidEmbeddings::NotJson)?;
    let vectors = parse_vectors(&json).unwrap_or_default();
    let length = vectors.first().map_or(0, Vec::len);
    let is_complete = vectors.len() == expected && length > 0;
    let fits = |vector: &Vec<f32>| {
        vector.len() == length && vector.iter().all(|number| number.is_finite())
    };
    if is_complete && vectors.iter().all(fits) {
        Ok(vectors)
    } else {
        Err(InvalidEmbeddings::Mismatch)
    }
}

/// Parses the vectors, in the order of the texts.
fn parse_vectors(json: &Value) -> Option<Vec<Vec<f32>>> {
    let data = json.get("data")?.as_array()?;
    let mut indexed: Vec<(u64, Vec<f32>)> = Vec::with_capacity(data.len());
    for (at, item) in (0..).zip(data) {
        let numbers = item.get("embedding")?.as_array()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "embeddings have single precision"
        )]
        let vector: Option<Vec<f32>> = numbers
            .iter()
            .map(|number| Some(number.as_f64()? as f32))
            .collect();
        let index = item.get("index").and_then(Value::as_u64).unwrap_or(at);
        indexed.push((index, vector?));
    }
    indexed.sort_by_key(|(index, _)| *index);
    Some(indexed.into_iter().map(|(_, vector)| vector).collect())
}

/// Quantizes a vector to one byte per number: the lost precision is less than the difference between models. The length
/// of the vector is lost, because only directions are compared.
#[must_use]
pub fn quantize(vector: &[f32]) -> Vec<i8> {
    let max = vector
        .iter()
        .fold(0.0_f32, |max, number| max.max(number.abs()));
    let scale = if max > 0.0 { 127.0 / max } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "between -127 and 127 after the scale"
    )]
    let byte = |number: &f32| (number * scale).round() as i8;
    vector.iter().map(byte).collect()
}

/// Returns the cosine similarity of two vectors. `None` if their dimensions differ, or if the similarity is not
/// positive.
///
/// ```
/// use mimir_embeddings::{cosine_similarity, quantize};
///
/// let stored = quantize(&[0.5, 0.5]);
/// let near = cosine_similarity(&[1.0, 0.9], &stored);
/// let far = cosine_similarity(&[1.0, 0.0], &stored);
/// assert!(near > far);
/// ```
#[must_use]
pub fn cosine_similarity(query: &[f32], stored: &[i8]) -> Option<f32> {
    if query.len() != stored.len() {
        return None;
    }
    let (mut product, mut query_square, mut stored_square) = (0.0_f32, 0.0_f32, 0.0_f32);
    for (a, b) in query.iter().zip(stored) {
        let b = f32::from(*b);
        product += a * b;
        query_square += a * a;
        stored_square += b * b;
    }
    let lengths = query_square.sqrt() * stored_square.sqrt();
    let cosine = product / lengths;
    (lengths > 0.0 && cosine > 0.0).then_some(cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_responses_are_checked() {
        let body = json!({"data": [
            {"index": 1, "embedding": [0.0, 1.0]},
            {"index": 0, "embedding": [1.0, 0.0]},
        ]});
        let parsed = |body: &Value, expected| parse_response(body.to_string().as_bytes(), expected);
        assert_eq!(
            parsed(&body, 2),
            Ok(vec![vec![1.0, 0.0], vec![0.0, 1.0]]),
            "in the order of the texts"
        );
        assert_eq!(parsed(&body, 3), Err(InvalidEmbeddings::Mismatch));
        for bad in [
            json!({}),
            json!({"data": [{"embedding": []}]}),
            json!({"data": [{"embedding": ["1"]}]}),
            json!({"data": [{"embedding": [1e300]}]}),
        ] {
            assert_eq!(parsed(&bad, 1), Err(InvalidEmbeddings::Mismatch), "{bad}");
        }
        assert_eq!(
            parse_response(b"<html>", 1),
            Err(InvalidEmbeddings::NotJson)
        );
    }

    #[test]
    fn embeddings_similarity_survives_quantization() {
        assert_eq!(quantize(&[0.0, -2.0, 1.0]), [0, -127, 64]);
        assert_eq!(quantize(&[0.0, 0.0]), [0, 0]);
        assert_eq!(cosine_similarity(&[1.0, 0.0], &[0, 0]), None);
        assert_eq!(cosine_similarity(&[1.0, 0.0], &[-127, 0]), None);
        assert_eq!(cosine_similarity(&[1.0], &[127, 0]), None);
        let same = cosine_similarity(&[3.0, 4.0], &quantize(&[3.0, 4.0])).unwrap();
        assert!((same - 1.0).abs() < 0.01, "{same}");
    }
}

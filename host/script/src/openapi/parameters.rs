//! Parameters and request bodies of operations, in the forms of OpenAPI 3 and Swagger 2.0.

use std::collections::{BTreeMap, HashMap, HashSet};

use mimir_core::text;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::api_file::{
    ApiBody, ApiParameter, BodyField, ParameterLocation, ParameterStyle, is_allowed_header,
    is_media_type, is_token,
};
use super::body_encoding::BodyKind;
use super::document::ApiDocument;
use super::schema_conversion::SchemaConverter;
use super::schema_values::{MAX_NAME_BYTES, is_usable_name, visible_name};

/// Maximum number of parameters of an operation.
const MAX_PARAMETERS: usize = 200;

/// Maximum number of fields of a form.
const MAX_FIELDS: usize = 1_000;

/// Maximum number of media types that are read.
const MAX_MEDIA_TYPES: usize = 100;

/// Headers that other parts of the document determine, so that parameters of these names are ignored.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

/// A parameter, with its schema in the document.
#[derive(Debug)]
pub(crate) struct ParameterDraft<'a> {
    pub(crate) parameter: ApiParameter,
    pub(crate) required: bool,
    description: Option<&'a str>,
    schema: Option<&'a Value>,
}

/// A request body, with its schema in the document.
#[derive(Debug)]
pub(crate) struct BodyDraft<'a> {
    pub(crate) body: ApiBody,
    pub(crate) required: bool,
    description: Option<&'a str>,
    schema: BodySchema<'a>,
}

#[derive(Debug)]
enum BodySchema<'a> {
    Any,
    One(&'a Value),
    /// The parameters of a form in Swagger 2.0.
    Fields(Vec<&'a Value>),
}

/// The arguments of an operation.
#[derive(Debug, Default)]
pub(crate) struct ArgumentDrafts<'a> {
    pub(crate) parameters: Vec<ParameterDraft<'a>>,
    pub(crate) body: Option<BodyDraft<'a>>,
}

impl<'a> ArgumentDrafts<'a> {
    /// Reads the parameters and the body of an operation. The error is the reason why the operation is not supported.
    pub(crate) fn read(
        document: &'a ApiDocument,
        path_item: &'a Value,
        operation: &'a Value,
    ) -> Result<Self, String> {
        let mut listed: Vec<&Value> = Vec::new();
        let mut known: HashSet<(&str, &str)> = HashSet::new();
        for list in [&operation["parameters"], &path_item["parameters"]] {
            let list = list.as_array().map_or(&[][..], Vec::as_slice);
            if list.len() > MAX_PARAMETERS {
                return Err(format!("it has more than {MAX_PARAMETERS} parameters"));
            }
            for parameter in list {
                let parameter = document.resolve(parameter).ok_or_else(|| {
                    "a parameter refers to something outside of the document".to_owned()
                })?;
                let key = |key: &str| {
                    let text = parameter[key].as_str().unwrap_or_default();
                    text::prefix_bytes(text, MAX_NAME_BYTES + 1)
                };
                // Those of the operation come first, and replace those of the path.
                if known.insert((key("name"), key("in"))) {
                    listed.push(parameter);
                }
            }
        }
        if listed.len() > MAX_PARAMETERS {
            return Err(format!("it has more than {MAX_PARAMETERS} parameters"));
        }
        let mut drafts = Self::default();
        let mut form: Vec<&Value> = Vec::new();
        for parameter in listed {
            match parameter["in"].as_str().unwrap_or_default() {
                "body" => drafts.body = Some(swagger_body(document, operation, parameter)),
                "formData" if is_usable_name(parameter["name"].as_str().unwrap_or_default()) => {
                    form.push(parameter);
                }
                "formData" if parameter["required"] == true => {
                    return Err("a field of its form has a name that is too long".to_owned());
                }
                "formData" => {}
                location => {
                    if let Some(draft) = parameter_draft(document, parameter, location)? {
                        drafts.parameters.push(draft);
                    }
                }
            }
        }
        if !form.is_empty() {
            drafts.body = Some(swagger_form(document, operation, form));
        }
        if let Some(body) = operation.get("requestBody") {
            let body = document
                .resolve(body)
                .ok_or("its body refers to something outside of the document")?;
            drafts.body = request_body(document, body)?;
        }
        drafts.name_arguments();
        Ok(drafts)
    }

    /// Gives each argument a name that models accept and that no other argument has.
    fn name_arguments(&mut self) {
        let mut taken: HashSet<String> = HashSet::new();
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut unique = |wanted: String, other: &str| {
            let mut name = wanted.clone();
            if taken.contains(&name) {
                name = format!("{}_{other}", text::prefix(&wanted, 50));
            }
            while taken.contains(&name) {
                let count = counts.entry(wanted.clone()).or_insert(1);
                *count += 1;
                name = format!("{}_{count}", text::prefix(&wanted, 50));
            }
            taken.insert(name.clone());
            name
        };
        for draft in &mut self.parameters {
            let wire_name = draft.parameter.argument.clone();
            let location = match draft.parameter.location {
                ParameterLocation::Path => "path",
                ParameterLocation::Query => "query",
                ParameterLocation::Header => "header",
                ParameterLocation::Cookie => "cookie",
            };
            draft.parameter.argument = unique(argument_name(&wire_name), location);
            draft.parameter.name = (draft.parameter.argument != wire_name).then_some(wire_name);
        }
        if let Some(body) = &mut self.body {
            body.body.argument = unique("body".to_owned(), "content");
        }
    }

    /// Returns the schema of all arguments.
    pub(crate) fn schema(&self, converter: &mut SchemaConverter<'a>) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for draft in &self.parameters {
            let argument = &draft.parameter.argument;
            properties.insert(argument.clone(), draft.schema(converter));
            if draft.required {
                required.push(argument.clone());
            }
        }
        if let Some(body) = &self.body {
            properties.insert(body.body.argument.clone(), body.schema(converter));
            if body.required {
                required.push(body.body.argument.clone());
            }
        }
        let mut schema = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema["additionalProperties"] = false.into();
        schema
    }
}

/// Converts a name to one that all model providers accept: at most 64 letters, digits, `_`, `-` and `.`.
fn argument_name(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') {
            out.push(c);
        } else if !out.ends_with('_') {
            out.push('_');
        }
    }
    let trimmed = out.trim_matches('_');
    let out = if trimmed.len() < out.len() && !trimmed.is_empty() && !name.starts_with('_') {
        trimmed
    } else {
        &out
    };
    let out = text::prefix(out, 64);
    if out.is_empty() {
        "argument".to_owned()
    } else {
        out.to_owned()
    }
}

fn parameter_draft<'a>(
    document: &'a ApiDocument,
    parameter: &'a Value,
    location: &str,
) -> Result<Option<ParameterDraft<'a>>, String> {
    let name = parameter["name"].as_str().unwrap_or_default();
    let shown = text::visible(text::prefix(name, 60));
    let required = parameter["required"] == true;
    let location = match location {
        "path" => ParameterLocation::Path,
        "query" => ParameterLocation::Query,
        "header"
            if IGNORED_HEADERS
                .iter()
                .any(|ignored| name.eq_ignore_ascii_case(ignored)) =>
        {
            return Ok(None);
        }
        "header" => ParameterLocation::Header,
        "cookie" => ParameterLocation::Cookie,
        other => {
            let other = text::visible(text::prefix(other, 40));
            return Err(format!(
                "its parameter `{shown}` is in `{other}`, which is not supported"
            ));
        }
    };
    let is_valid = is_usable_name(name)
        && match location {
            ParameterLocation::Header => is_allowed_header(name),
            ParameterLocation::Cookie => is_token(name),
            ParameterLocation::Path | ParameterLocation::Query => {
                !name.is_empty()
                    && !name.contains(|c: char| c.is_control() || matches!(c, '{' | '}'))
            }
        };
    if !is_valid {
        if required {
            return Err(format!(
                "its parameter `{shown}` has a name that cannot be sent"
            ));
        }
        return Ok(None);
    }
    let content = parameter["content"]
        .as_object()
        .and_then(|content| content.values().next());
    let schema = match content {
        Some(content) => content.get("schema"),
        None if document.is_swagger() => Some(parameter),
        None => parameter.get("schema"),
    };
    let style = match parameter["style"].as_str() {
        _ if content.is_some() => Some(ParameterStyle::Json),
        Some(_) => read_style(&parameter["style"]),
        None => swagger_style(parameter),
    };
    let mut draft = ApiParameter {
        argument: name.to_owned(),
        name: None,
        location,
        style: None,
        explode: None,
        allow_reserved: parameter["allowReserved"] == true,
    };
    draft.style = style.filter(|style| *style != draft.style());
    let explode = match parameter["explode"].as_bool() {
        Some(explode) => Some(explode),
        // Without a format, Swagger 2.0 separates the items of a list by commas.
        None if document.is_swagger() => Some(parameter["collectionFormat"] == "multi"),
        None => None,
    };
    draft.explode = explode.filter(|explode| *explode != draft.explodes());
    Ok(Some(ParameterDraft {
        parameter: draft,
        // A path without a value would be another path.
        required: required || location == ParameterLocation::Path,
        description: parameter["description"].as_str(),
        schema,
    }))
}

/// Returns the style of a parameter or a field, if it is a known one.
fn read_style(style: &Value) -> Option<ParameterStyle> {
    ParameterStyle::deserialize(style).ok()
}

fn swagger_style(parameter: &Value) -> Option<ParameterStyle> {
    match parameter["collectionFormat"].as_str()? {
        "ssv" | "tsv" => Some(ParameterStyle::SpaceDelimited),
        "pipes" => Some(ParameterStyle::PipeDelimited),
        _ => None,
    }
}

impl<'a> ParameterDraft<'a> {
    fn schema(&self, converter: &mut SchemaConverter<'a>) -> Value {
        let mut schema = match self.schema {
            Some(schema) => converter.convert(schema),
            None => json!({ "type": "string" }),
        };
        let description = self.description.map(|text| converter.describe(text));
        if let Some(description) = description.filter(|text| !text.is_empty()) {
            schema["description"] = description.into();
        }
        schema
    }
}

fn api_body(media_type: &str) -> ApiBody {
    ApiBody {
        argument: String::new(),
        media_type: media_type.to_owned(),
        fields: BTreeMap::new(),
    }
}

/// Returns the media types in the order in which they are preferred: JSON, forms, text, then others.
fn preferred<'b>(media_types: impl Iterator<Item = &'b str>) -> Option<&'b str> {
    let rank = |media_type: &&str| {
        let kind = BodyKind::of(media_type);
        let exact = *media_type == "application/json";
        (kind as usize, !exact)
    };
    media_types
        .take(MAX_MEDIA_TYPES)
        .filter(|media_type| is_media_type(media_type))
        .min_by_key(rank)
}

/// Reads a request body. `None` for a body without content.
fn request_body<'a>(
    document: &'a ApiDocument,
    body: &'a Value,
) -> Result<Option<BodyDraft<'a>>, String> {
    let content = body["content"].as_object();
    let media_type = content.and_then(|content| preferred(content.keys().map(String::as_str)));
    let (Some(content), Some(media_type)) = (content, media_type) else {
        return Ok(None);
    };
    let media = &content[media_type];
    let mut api_body = api_body(media_type);
    let schema = media.get("schema");
    if matches!(
        BodyKind::of(media_type),
        BodyKind::Form | BodyKind::Multipart
    ) {
        api_body.fields = form_fields(document, media, schema)?;
    }
    Ok(Some(BodyDraft {
        body: api_body,
        required: body["required"] == true,
        description: body["description"].as_str(),
        schema: schema.map_or(BodySchema::Any, BodySchema::One),
    }))
}

fn form_fields(
    document: &ApiDocument,
    media: &Value,
    schema: Option<&Value>,
) -> Result<BTreeMap<String, BodyField>, String> {
    let schema = schema.and_then(|schema| document.resolve(schema));
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    let encodings = media["encoding"].as_object();
    let is_large = |map: Option<&Map<String, Value>>| map.is_some_and(|map| map.len() > MAX_FIELDS);
    if is_large(properties) || is_large(encodings) {
        return Err(format!("its form has more than {MAX_FIELDS} fields"));
    }
    let mut fields: BTreeMap<String, BodyField> = BTreeMap::new();
    let is_usable = |(name, _): &(&String, &Value)| is_usable_name(name);
    for (name, encoding) in encodings.into_iter().flatten().filter(is_usable) {
        let field = BodyField {
            style: read_style(&encoding["style"]),
            explode: encoding["explode"].as_bool(),
            file: false,
            media_type: encoding["contentType"]
                .as_str()
                .filter(|media_type| is_media_type(media_type) && !media_type.contains(','))
                .map(str::to_owned),
        };
        if field != BodyField::default() {
            fields.insert(name.clone(), field);
        }
    }
    for (name, property) in properties.into_iter().flatten().filter(is_usable) {
        let property = document.resolve(property).unwrap_or(property);
        let items = property
            .get("items")
            .and_then(|items| document.resolve(items));
        if is_file(property) || items.is_some_and(is_file) {
            fields.entry(name.clone()).or_default().file = true;
        }
    }
    Ok(fields)
}

fn is_file(schema: &Value) -> bool {
    schema["type"] == "file"
        || schema["format"] == "binary"
        || schema["format"] == "base64"
        || schema["contentMediaType"] == "application/octet-stream"
}

/// Returns the media type that an operation of Swagger 2.0 consumes.
fn consumed<'a>(document: &'a ApiDocument, operation: &'a Value, default: &'a str) -> &'a str {
    let consumes = operation
        .get("consumes")
        .or_else(|| document.root.get("consumes"));
    let listed = consumes
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    preferred(listed).unwrap_or(default)
}

fn swagger_body<'a>(
    document: &'a ApiDocument,
    operation: &'a Value,
    parameter: &'a Value,
) -> BodyDraft<'a> {
    BodyDraft {
        body: api_body(consumed(document, operation, "application/json")),
        required: parameter["required"] == true,
        description: parameter["description"].as_str(),
        schema: parameter
            .get("schema")
            .map_or(BodySchema::Any, BodySchema::One),
    }
}

fn swagger_form<'a>(
    document: &'a ApiDocument,
    operation: &'a Value,
    form: Vec<&'a Value>,
) -> BodyDraft<'a> {
    let has_file = form.iter().any(|field| is_file(field));
    let consumed = consumed(document, operation, "application/x-www-form-urlencoded");
    let is_multipart = has_file || BodyKind::of(consumed) == BodyKind::Multipart;
    let mut body = api_body(if is_multipart {
        "multipart/form-data"
    } else {
        "application/x-www-form-urlencoded"
    });
    for field in &form {
        let name = field["name"].as_str().unwrap_or_default();
        let draft = BodyField {
            style: swagger_style(field),
            explode: (field["type"] == "array").then(|| field["collectionFormat"] == "multi"),
            file: is_file(field),
            media_type: None,
        };
        if draft != BodyField::default() {
            body.fields.insert(name.to_owned(), draft);
        }
    }
    BodyDraft {
        required: form.iter().any(|field| field["required"] == true),
        body,
        description: None,
        schema: BodySchema::Fields(form),
    }
}

impl<'a> BodyDraft<'a> {
    fn schema(&self, converter: &mut SchemaConverter<'a>) -> Value {
        let kind = BodyKind::of(&self.body.media_type);
        let mut schema = match (&self.schema, kind) {
            (_, BodyKind::Binary) => {
                json!({ "type": "string", "description": "The content in base64." })
            }
            (_, BodyKind::Text) => json!({ "type": "string" }),
            (BodySchema::Any, BodyKind::Json) => json!({}),
            (BodySchema::Any, _) => json!({ "type": "object" }),
            (BodySchema::One(schema), _) => converter.convert(schema),
            (BodySchema::Fields(fields), _) => form_schema(fields, converter),
        };
        for (name, field) in &self.body.fields {
            let Some(property) = schema["properties"]
                .get_mut(visible_name(name))
                .filter(|_| field.file)
            else {
                continue;
            };
            let file = json!({ "type": "string", "description": "The file in base64." });
            let is_list = property["type"] == "array";
            *property = if is_list {
                json!({ "type": "array", "items": file })
            } else {
                file
            };
        }
        let description = self.description.map(|text| converter.describe(text));
        if let Some(description) = description.filter(|text| !text.is_empty()) {
            let known = schema["description"]
                .as_str()
                .filter(|_| kind == BodyKind::Binary);
            schema["description"] = match known {
                Some(known) => format!("{description} {known}").into(),
                None => description.into(),
            };
        }
        schema
    }
}

fn form_schema<'a>(fields: &[&'a Value], converter: &mut SchemaConverter<'a>) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields {
        let name = visible_name(field["name"].as_str().unwrap_or_default());
        if field["required"] == true && !required.contains(&name) {
            required.push(name.clone());
        }
        properties.insert(name, converter.convert(field));
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openapi_argument_names_suit_models() {
        for (name, expected) in [
            ("page[size]", "page_size"),
            ("filter[]", "filter"),
            ("X-Trace", "X-Trace"),
            ("$top", "top"),
            ("_id", "_id"),
            ("é", "_"),
        ] {
            assert_eq!(argument_name(name), expected);
        }
        assert_eq!(argument_name(&"x".repeat(100)).len(), 64);
    }
}

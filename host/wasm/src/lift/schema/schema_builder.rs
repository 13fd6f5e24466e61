//! Construction of one schema, from the outside in.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use wasmparser::PrimitiveValType;
use wasmparser::component_types::{ComponentDefinedType, ComponentValType};

use super::type_catalogue::{ResolvedType, TypeCatalogue, TypeId};
use super::{Unliftable, object, primitive};
use crate::lift::docs::TypeDocs;

/// Maximum estimated size of one schema in bytes. Every prompt to a model contains all schemas.
const MAX_SCHEMA_BYTES: usize = 128 * 1024;

/// Size of a schema node without its names, in bytes.
const NODE_BYTES: usize = 48;

/// A schema under construction.
pub(super) struct SchemaBuilder<'c, 'a> {
    pub catalogue: &'c mut TypeCatalogue<'a>,
    /// Number of uses of each record and variant.
    uses: HashMap<TypeId, usize>,
    /// Names of those that are in `$defs`.
    shared: HashMap<TypeId, String>,
    defs: Map<String, Value>,
    bytes_left: usize,
    /// Number of types that the current one is part of.
    pub nesting: usize,
}

impl<'c, 'a> SchemaBuilder<'c, 'a> {
    /// Creates an empty schema.
    pub fn new(catalogue: &'c mut TypeCatalogue<'a>) -> Self {
        Self {
            catalogue,
            uses: HashMap::new(),
            shared: HashMap::new(),
            defs: Map::new(),
            bytes_left: MAX_SCHEMA_BYTES,
            nesting: 0,
        }
    }

    /// Returns the schema with `root` and everything that it refers to.
    pub fn finish(self, root: Map<String, Value>) -> Value {
        let mut root = root;
        if !self.defs.is_empty() {
            root.insert("$defs".into(), Value::Object(self.defs));
        }
        Value::Object(root)
    }

    /// Counts written text against the size limit. Stored types share parts, but a schema repeats each part, so a small
    /// component can describe a huge schema.
    fn reserve_bytes(&mut self, text: usize) -> Result<(), Unliftable> {
        let cost = NODE_BYTES.saturating_add(text);
        let bytes_left = self
            .bytes_left
            .checked_sub(cost)
            .ok_or(Unliftable::TooLarge)?;
        let total_left = self
            .catalogue
            .bytes_left
            .checked_sub(cost)
            .ok_or(Unliftable::TooLarge)?;
        (self.bytes_left, self.catalogue.bytes_left) = (bytes_left, total_left);
        Ok(())
    }

    fn is_option(&mut self, ty: ComponentValType) -> Result<bool, Unliftable> {
        let shape = self.catalogue.resolve(ty)?;
        Ok(matches!(
            shape,
            ResolvedType::Defined(_, ComponentDefinedType::Option { .. })
        ))
    }

    /// Counts the uses of records and variants in `ty`, and refuses types that JSON cannot represent.
    pub fn count(&mut self, ty: ComponentValType) -> Result<(), Unliftable> {
        let ResolvedType::Defined(id, defined) = self.catalogue.resolve(ty)? else {
            return Ok(());
        };
        self.reserve_bytes(0)?;
        if matches!(
            defined,
            ComponentDefinedType::Record(_) | ComponentDefinedType::Variant(_)
        ) {
            let uses = self.uses.entry(id).or_default();
            *uses += 1;
            if *uses > 1 {
                return Ok(());
            }
        }
        for part in parts(defined) {
            self.count(part)?;
        }
        Ok(())
    }

    /// Returns the schema of a value, by reference if it is in `$defs`.
    pub fn value(&mut self, ty: ComponentValType) -> Result<Value, Unliftable> {
        let (id, defined) = match self.catalogue.resolve(ty)? {
            ResolvedType::Primitive(plain) => {
                self.reserve_bytes(0)?;
                return primitive(plain);
            }
            ResolvedType::Defined(id, defined) => (id, defined),
        };
        let is_shareable = matches!(
            defined,
            ComponentDefinedType::Record(_) | ComponentDefinedType::Variant(_)
        );
        if !is_shareable || self.uses.get(&id).is_none_or(|uses| *uses < 2) {
            return Ok(Value::Object(self.body(id)?));
        }
        let name = match self.shared.get(&id) {
            Some(name) => name.clone(),
            None => {
                let name = self.fresh_name(id);
                self.shared.insert(id, name.clone());
                // The key is inserted first, so that names stay in the order of use.
                self.defs.insert(name.clone(), Value::Null);
                let body = self.body(id)?;
                self.defs.insert(name.clone(), Value::Object(body));
                name
            }
        };
        self.reserve_bytes(name.len())?;
        Ok(json!({ "$ref": format!("#/$defs/{name}") }))
    }

    fn fresh_name(&self, id: TypeId) -> String {
        let name = self
            .catalogue
            .named
            .get(&id)
            .map_or("type", |named| named.name);
        let mut candidate = name.to_owned();
        let mut count = 1;
        while self.defs.contains_key(&candidate) {
            count += 1;
            candidate = format!("{name}-{count}");
        }
        candidate
    }

    /// Returns the schema of a defined type, written out.
    pub fn body(&mut self, id: TypeId) -> Result<Map<String, Value>, Unliftable> {
        self.nesting += 1;
        let body = self.body_parts(id);
        self.nesting -= 1;
        body
    }

    fn body_parts(&mut self, id: TypeId) -> Result<Map<String, Value>, Unliftable> {
        self.reserve_bytes(0)?;
        let types = self.catalogue.surface.types();
        let defined = types.get(id).ok_or(Unliftable::Unknown)?;
        let docs = match self.catalogue.named.get(&id) {
            Some(named) => self.catalogue.docs.type_docs(named.interface, named.name),
            None => None,
        };
        let mut schema = match defined {
            ComponentDefinedType::Primitive(plain) => object(primitive(*plain)?),
            ComponentDefinedType::Record(record) => {
                let fields = record.fields.iter().map(|(name, ty)| (name.as_str(), *ty));
                self.object(fields, docs)?
            }
            ComponentDefinedType::Variant(variant) => {
                let cases = variant
                    .cases
                    .iter()
                    .map(|(name, case)| (name.as_str(), case.ty));
                self.tagged(cases, docs)?
            }
            ComponentDefinedType::Result { ok, err, .. } => {
                self.tagged([("ok", *ok), ("err", *err)].into_iter(), None)?
            }
            ComponentDefinedType::List { element, .. } => match self.catalogue.resolve(*element)? {
                ResolvedType::Primitive(PrimitiveValType::U8) => {
                    object(json!({ "type": "string", "contentEncoding": "base64" }))
                }
                _ => object(json!({ "type": "array", "items": self.value(*element)? })),
            },
            ComponentDefinedType::FixedLengthList {
                element, length, ..
            } => object(json!({
                "type": "array", "items": self.value(*element)?, "minItems": length, "maxItems": length
            })),
            ComponentDefinedType::Tuple(tuple) => {
                let items = tuple
                    .types
                    .iter()
                    .map(|ty| self.value(*ty))
                    .collect::<Result<Vec<_>, _>>()?;
                let count = items.len();
                object(json!({
                    "type": "array", "prefixItems": items, "items": false, "minItems": count, "maxItems": count
                }))
            }
            ComponentDefinedType::Flags(names) => {
                let names = self.names(names.iter().map(|name| name.as_str()))?;
                object(
                    json!({ "type": "array", "items": { "type": "string", "enum": names }, "uniqueItems": true }),
                )
            }
            ComponentDefinedType::Enum(names) => {
                let names = self.names(names.iter().map(|name| name.as_str()))?;
                object(json!({ "type": "string", "enum": names }))
            }
            ComponentDefinedType::Option { ty, .. } => {
                let some = self.value(*ty)?;
                let some = if self.is_option(*ty)? {
                    json!({
                        "type": "object", "properties": { "some": some },
                        "required": ["some"], "additionalProperties": false
                    })
                } else {
                    some
                };
                object(json!({ "anyOf": [some, { "type": "null" }] }))
            }
            ComponentDefinedType::Map { key, value, .. } => {
                let is_text = matches!(
                    self.catalogue.resolve(*key)?,
                    ResolvedType::Primitive(PrimitiveValType::String)
                );
                if is_text {
                    object(json!({ "type": "object", "additionalProperties": self.value(*value)? }))
                } else {
                    let fields = [("key", *key), ("value", *value)];
                    let entry = self.object(fields.into_iter(), None)?;
                    object(json!({ "type": "array", "items": entry }))
                }
            }
            ComponentDefinedType::Stream { ty: Some(ty), .. } if self.nesting == 1 => {
                match self.catalogue.resolve(*ty)? {
                    ResolvedType::Primitive(PrimitiveValType::U8) => {
                        object(json!({ "type": "string", "contentEncoding": "base64" }))
                    }
                    _ => object(json!({ "type": "array", "items": self.plain(*ty)? })),
                }
            }
            ComponentDefinedType::Future { ty: Some(ty), .. } if self.nesting == 1 => {
                object(self.plain(*ty)?)
            }
            ComponentDefinedType::Own(_) | ComponentDefinedType::Borrow(_) => {
                return Err(Unliftable::Resource);
            }
            ComponentDefinedType::Future { .. } | ComponentDefinedType::Stream { .. } => {
                return Err(Unliftable::Stream);
            }
        };
        if let Some(description) = description(defined, docs) {
            self.reserve_bytes(description.len())?;
            schema.insert("description".into(), description.into());
        }
        Ok(schema)
    }

    /// Returns the schema of a value in a stream or future: a scalar, text or bytes.
    fn plain(&mut self, ty: ComponentValType) -> Result<Value, Unliftable> {
        if self.catalogue.is_plain(ty)? {
            self.value(ty)
        } else {
            Err(Unliftable::Stream)
        }
    }

    /// Returns an object with a property per field; options may be omitted.
    pub fn object<'p>(
        &mut self,
        fields: impl Iterator<Item = (&'p str, ComponentValType)>,
        docs: Option<&TypeDocs>,
    ) -> Result<Map<String, Value>, Unliftable> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, ty) in fields {
            self.reserve_bytes(2 * name.len())?;
            let mut schema = self.value(ty)?;
            if let (Some(text), Some(schema)) = (
                docs.and_then(|docs| docs.item_text(name)),
                schema.as_object_mut(),
            ) {
                self.reserve_bytes(text.len())?;
                schema.insert("description".into(), text.into());
            }
            if !self.is_option(ty)? {
                required.push(name);
            }
            properties.insert(name.to_owned(), schema);
        }
        Ok(object(json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        })))
    }

    /// Returns one object per case, distinguished by the tag.
    fn tagged<'p>(
        &mut self,
        cases: impl Iterator<Item = (&'p str, Option<ComponentValType>)>,
        docs: Option<&TypeDocs>,
    ) -> Result<Map<String, Value>, Unliftable> {
        let mut branches = Vec::new();
        for (name, payload) in cases {
            self.reserve_bytes(name.len())?;
            let mut properties = object(json!({ "tag": { "type": "string", "const": name } }));
            let mut required = vec!["tag"];
            if let Some(ty) = payload {
                properties.insert("value".into(), self.value(ty)?);
                if !self.is_option(ty)? {
                    required.push("value");
                }
            }
            let mut branch = object(json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false
            }));
            if let Some(text) = docs.and_then(|docs| docs.item_text(name)) {
                self.reserve_bytes(text.len())?;
                branch.insert("description".into(), text.into());
            }
            branches.push(Value::Object(branch));
        }
        Ok(object(json!({ "anyOf": branches })))
    }

    fn names<'n>(
        &mut self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Vec<&'n str>, Unliftable> {
        names
            .map(|name| self.reserve_bytes(name.len()).map(|()| name))
            .collect()
    }
}

/// Returns the types inside a type, one level down.
fn parts(defined: &ComponentDefinedType) -> Vec<ComponentValType> {
    match defined {
        ComponentDefinedType::Record(record) => record.fields.values().copied().collect(),
        ComponentDefinedType::Variant(variant) => {
            variant.cases.values().filter_map(|case| case.ty).collect()
        }
        ComponentDefinedType::Tuple(tuple) => tuple.types.to_vec(),
        ComponentDefinedType::List { element, .. }
        | ComponentDefinedType::FixedLengthList { element, .. } => {
            vec![*element]
        }
        ComponentDefinedType::Map { key, value, .. } => vec![*key, *value],
        ComponentDefinedType::Option { ty, .. } => vec![*ty],
        ComponentDefinedType::Result { ok, err, .. } => ok.iter().chain(err).copied().collect(),
        _ => Vec::new(),
    }
}

/// Returns the documentation of a type; for an enum or flags also that of each name, which has no schema node of its
/// own.
fn description(defined: &ComponentDefinedType, docs: Option<&TypeDocs>) -> Option<String> {
    let docs = docs?;
    let mut lines: Vec<String> = docs.type_text().into_iter().collect();
    if let ComponentDefinedType::Enum(names) | ComponentDefinedType::Flags(names) = defined {
        let item_lines = names
            .iter()
            .filter_map(|name| Some(format!("`{name}`: {}", docs.item_text(name.as_str())?)));
        lines.extend(item_lines);
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

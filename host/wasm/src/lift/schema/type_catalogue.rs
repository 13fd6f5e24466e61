//! The types of one component, with their names and documentation.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use wasmparser::PrimitiveValType;
use wasmparser::component_types::{
    ComponentAnyTypeId, ComponentDefinedType, ComponentDefinedTypeId, ComponentEntityType,
    ComponentValType,
};

use super::Unliftable;
use super::schema_builder::SchemaBuilder;
use crate::family::ComponentSurface;
use crate::lift::docs::PackageDocs;
use crate::lift::resources::{ACTION, ACTIONS, ARGUMENTS, ActionOutline, MAX_ACTIONS, NEW};

/// Maximum total size of a component's schemas in bytes, estimated.
const MAX_COMPONENT_SCHEMAS: usize = 4 * 1024 * 1024;

/// A defined type.
pub(super) type TypeId = ComponentDefinedTypeId;

/// The types of a component and their names, used while its schemas are created.
pub(in crate::lift) struct TypeCatalogue<'a> {
    pub(super) surface: &'a ComponentSurface,
    pub(super) docs: &'a PackageDocs,
    pub(super) named: HashMap<TypeId, NamedType<'a>>,
    /// The final target of each alias, so that hostile chains of aliases are walked once.
    originals: HashMap<TypeId, TypeId>,
    pub(super) bytes_left: usize,
}

#[derive(Clone, Copy)]
pub(super) struct NamedType<'a> {
    pub interface: Option<&'a str>,
    pub name: &'a str,
}

impl<'a> TypeCatalogue<'a> {
    /// Collects the names that the component gives to its types.
    pub fn new(surface: &'a ComponentSurface, docs: &'a PackageDocs) -> Self {
        let mut catalogue = Self {
            surface,
            docs,
            named: HashMap::new(),
            originals: HashMap::new(),
            bytes_left: MAX_COMPONENT_SCHEMAS,
        };
        for (outer, ty) in surface.exports().chain(surface.imports()) {
            match ty {
                ComponentEntityType::Instance(id) => {
                    let items = surface
                        .types()
                        .get(id)
                        .into_iter()
                        .flat_map(|instance| &instance.exports);
                    for (name, item) in items {
                        catalogue.record_name(Some(outer), name, item.ty);
                    }
                }
                ty => catalogue.record_name(None, outer, ty),
            }
        }
        catalogue
    }

    fn record_name(&mut self, interface: Option<&'a str>, name: &'a str, ty: ComponentEntityType) {
        if let ComponentEntityType::Type {
            created: ComponentAnyTypeId::Defined(id),
            ..
        } = ty
        {
            let id = self.original(id);
            self.named
                .entry(id)
                .or_insert(NamedType { interface, name });
        }
    }

    fn original(&mut self, mut id: TypeId) -> TypeId {
        let mut path = Vec::new();
        loop {
            if let Some(known) = self.originals.get(&id) {
                id = *known;
                break;
            }
            let Some(next) = self.surface.types().peel_alias(id) else {
                break;
            };
            path.push(id);
            id = next;
        }
        self.originals
            .extend(path.into_iter().map(|alias| (alias, id)));
        id
    }

    /// Follows aliases to the original of `ty`.
    pub(super) fn resolve(&mut self, ty: ComponentValType) -> Result<ResolvedType<'a>, Unliftable> {
        match ty {
            ComponentValType::Primitive(primitive) => Ok(ResolvedType::Primitive(primitive)),
            ComponentValType::Type(id) => {
                let id = self.original(id);
                match self.surface.types().get(id).ok_or(Unliftable::Unknown)? {
                    ComponentDefinedType::Primitive(primitive) => {
                        Ok(ResolvedType::Primitive(*primitive))
                    }
                    defined => Ok(ResolvedType::Defined(id, defined)),
                }
            }
        }
    }

    /// Returns true for a scalar, text or bytes: the values that a stream or future may have.
    pub(super) fn is_plain(&mut self, ty: ComponentValType) -> Result<bool, Unliftable> {
        Ok(match self.resolve(ty)? {
            ResolvedType::Primitive(primitive) => primitive != PrimitiveValType::ErrorContext,
            ResolvedType::Defined(_, ComponentDefinedType::List { element, .. }) => matches!(
                self.resolve(*element)?,
                ResolvedType::Primitive(PrimitiveValType::U8)
            ),
            ResolvedType::Defined(..) => false,
        })
    }

    /// Returns the success type of a result that a future yields, or `None` for a future of any other type.
    fn future_result(
        &mut self,
        ty: ComponentValType,
    ) -> Result<Option<Option<ComponentValType>>, Unliftable> {
        let ResolvedType::Defined(
            _,
            ComponentDefinedType::Future {
                ty: Some(payload), ..
            },
        ) = self.resolve(ty)?
        else {
            return Ok(None);
        };
        let ResolvedType::Defined(_, ComponentDefinedType::Result { ok, err, .. }) =
            self.resolve(*payload)?
        else {
            return Ok(None);
        };
        let fails_with_text = match err {
            Some(err) => matches!(
                self.resolve(*err)?,
                ResolvedType::Primitive(PrimitiveValType::String)
            ),
            None => false,
        };
        let is_plain = match ok {
            Some(ok) => self.is_plain(*ok)?,
            None => true,
        };
        if fails_with_text && is_plain {
            Ok(Some(*ok))
        } else {
            Err(Unliftable::Stream)
        }
    }

    /// Returns the schema of a function's arguments.
    pub fn arguments<'p>(
        &mut self,
        params: impl Iterator<Item = (&'p str, ComponentValType)> + Clone,
    ) -> Result<Value, Unliftable> {
        let mut builder = SchemaBuilder::new(self);
        for (_, ty) in params.clone() {
            builder.count(ty)?;
        }
        let root = builder.object(params, None)?;
        Ok(builder.finish(root))
    }

    /// Returns the schema of a resource's calls: the arguments of its constructor, then those of its methods.
    pub fn resource(
        &mut self,
        constructor: Vec<(&str, ComponentValType)>,
        methods: &[ActionOutline<'_>],
    ) -> Result<Value, Unliftable> {
        let mut builder = SchemaBuilder::new(self);
        let params = methods.iter().flat_map(|method| &method.params);
        for (_, ty) in constructor.iter().chain(params) {
            builder.count(*ty)?;
        }
        let new = builder.object(constructor.into_iter(), None)?;
        let mut actions = Vec::new();
        for ActionOutline { name, params, docs } in methods {
            let arguments = builder.object(params.iter().copied(), None)?;
            let mut required = vec![ACTION];
            if is_required(&arguments) {
                required.push(ARGUMENTS);
            }
            let mut action = super::object(json!({
                "type": "object",
                "properties": {
                    ACTION: { "type": "string", "const": name }, ARGUMENTS: arguments
                },
                "required": required,
                "additionalProperties": false
            }));
            if let Some(docs) = docs {
                action.insert("description".into(), docs.as_str().into());
            }
            actions.push(Value::Object(action));
        }
        let required = if is_required(&new) {
            vec![NEW, ACTIONS]
        } else {
            vec![ACTIONS]
        };
        let root = super::object(json!({
            "type": "object",
            "properties": {
                NEW: new,
                ACTIONS: {
                    "type": "array", "minItems": 1, "maxItems": MAX_ACTIONS,
                    "items": { "anyOf": actions }
                }
            },
            "required": required,
            "additionalProperties": false
        }));
        Ok(builder.finish(root))
    }

    /// Returns the schema of a function's result; `None` if success has no value.
    pub fn result(&mut self, ty: ComponentValType) -> Result<Option<Value>, Unliftable> {
        let success = match self.resolve(ty)? {
            ResolvedType::Defined(_, ComponentDefinedType::Future { .. }) => {
                self.future_result(ty)?.unwrap_or(Some(ty))
            }
            ResolvedType::Defined(_, ComponentDefinedType::Result { ok, err, .. }) => {
                // A failure becomes a message; its type still has to be representable.
                if let Some(err) = *err {
                    let mut unused = SchemaBuilder::new(self);
                    unused.nesting = 1;
                    unused.count(err)?;
                    unused.value(err)?;
                }
                *ok
            }
            _ => Some(ty),
        };
        let Some(ty) = success else {
            return Ok(None);
        };
        let mut builder = SchemaBuilder::new(self);
        builder.count(ty)?;
        let root = match builder.catalogue.resolve(ty)? {
            ResolvedType::Defined(id, ComponentDefinedType::Record(_)) => builder.body(id)?,
            _ => builder.object(std::iter::once(("result", ty)), None)?,
        };
        Ok(Some(builder.finish(root)))
    }
}

/// Returns true if an object has a required property.
fn is_required(schema: &Map<String, Value>) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| !names.is_empty())
}

/// A type with its aliases resolved.
pub(super) enum ResolvedType<'a> {
    Primitive(PrimitiveValType),
    Defined(TypeId, &'a ComponentDefinedType),
}

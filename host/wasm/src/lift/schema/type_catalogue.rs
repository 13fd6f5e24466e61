//! The types of one component, with their names and documentation.

use std::collections::HashMap;

use serde_json::Value;
use wasmparser::PrimitiveValType;
use wasmparser::component_types::{
    ComponentAnyTypeId, ComponentDefinedType, ComponentDefinedTypeId, ComponentEntityType,
    ComponentValType,
};

use super::Unliftable;
use super::schema_builder::SchemaBuilder;
use crate::family::ComponentSurface;
use crate::lift::docs::PackageDocs;

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

    /// Returns the schema of a function's result; `None` if success has no value.
    pub fn result(&mut self, ty: ComponentValType) -> Result<Option<Value>, Unliftable> {
        let success = match self.resolve(ty)? {
            ResolvedType::Defined(_, ComponentDefinedType::Result { ok, err, .. }) => {
                // A failure becomes a message; its type still has to be representable.
                if let Some(err) = *err {
                    let mut unused = SchemaBuilder::new(self);
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

/// A type with its aliases resolved.
pub(super) enum ResolvedType<'a> {
    Primitive(PrimitiveValType),
    Defined(TypeId, &'a ComponentDefinedType),
}

//! Conversion of JSON into values.

use mimir_core::{name_suggestions, text};
use serde_json::{Map, Value};
use wasmtime::component::{Type, Val};

use super::scalars::{
    MAX_SHOWN_CHARS, bytes, character, float32, float64, integer, string, type_mismatch,
};
use super::{KEY, SOME, TAG, VALUE, ValueError, ValuePath};

type LowerResult = Result<Val, ValueError>;

/// An argument of a call.
#[derive(Debug)]
pub(in crate::lift) enum LoweredArgument {
    /// Of the type `list<u8>`, as bytes instead of values.
    Bytes(Vec<u8>),
    /// Of the type `stream<u8>`, which is created for the call.
    ByteStream(Vec<u8>),
    /// A stream of values of this type, which is created for the call.
    Stream(Type, Vec<Val>),
    /// A future with a value of this type, which is created for the call.
    Future(Type, Val),
    /// Of another type.
    Value(Val),
}

/// Converts the arguments of a call: one object with a property for each parameter, in the function's order.
pub(in crate::lift) fn lower_arguments(
    json: &Value,
    params: &[(&str, Type)],
) -> Result<Vec<LoweredArgument>, ValueError> {
    let lower_argument = |json: &Value, ty: &Type, path: &mut ValuePath| match ty {
        Type::List(list) if list.ty() == Type::U8 => bytes(json, path).map(LoweredArgument::Bytes),
        Type::Stream(stream) if stream.ty() == Some(Type::U8) => {
            bytes(json, path).map(LoweredArgument::ByteStream)
        }
        Type::Stream(stream) if let Some(ty) = stream.ty() => {
            let items = array(json, path)?.iter().enumerate();
            let items = items.map(|(at, item)| path.within(at, |path| lower(item, &ty, path)));
            let items = items.collect::<Result<_, _>>()?;
            Ok(LoweredArgument::Stream(ty, items))
        }
        Type::Future(future) if let Some(ty) = future.ty() => {
            let value = lower(json, &ty, path)?;
            Ok(LoweredArgument::Future(ty, value))
        }
        ty => lower(json, ty, path).map(LoweredArgument::Value),
    };
    let none = || LoweredArgument::Value(Val::Option(None));
    let fields = fields(
        json,
        params,
        lower_argument,
        none,
        &mut ValuePath::default(),
    )?;
    Ok(fields.into_iter().map(|(_, value)| value).collect())
}

/// Returns a `list<u8>` with a value for each byte.
pub(in crate::lift) fn byte_values(bytes: Vec<u8>) -> Val {
    Val::List(bytes.into_iter().map(Val::U8).collect())
}

/// Converts one value.
pub(super) fn lower(json: &Value, ty: &Type, path: &mut ValuePath) -> LowerResult {
    Ok(match ty {
        Type::Bool => Val::Bool(
            json.as_bool()
                .ok_or_else(|| type_mismatch(json, "true or false", path))?,
        ),
        Type::S8 => Val::S8(integer(json, path)?),
        Type::U8 => Val::U8(integer(json, path)?),
        Type::S16 => Val::S16(integer(json, path)?),
        Type::U16 => Val::U16(integer(json, path)?),
        Type::S32 => Val::S32(integer(json, path)?),
        Type::U32 => Val::U32(integer(json, path)?),
        Type::S64 => Val::S64(integer(json, path)?),
        Type::U64 => Val::U64(integer(json, path)?),
        Type::Float32 => Val::Float32(float32(json, path)?),
        Type::Float64 => Val::Float64(float64(json, path)?),
        Type::Char => Val::Char(character(json, path)?),
        Type::String => Val::String(string(json, path)?.to_owned()),
        Type::List(list) if list.ty() == Type::U8 => byte_values(bytes(json, path)?),
        Type::List(list) => {
            let ty = list.ty();
            let items = array(json, path)?.iter().enumerate();
            let items = items.map(|(at, item)| path.within(at, |path| lower(item, &ty, path)));
            Val::List(items.collect::<Result<_, _>>()?)
        }
        Type::FixedLengthList(list) => {
            let ty = list.ty();
            let items = array_of_length(json, list.len() as usize, path)?
                .iter()
                .enumerate();
            let items = items.map(|(at, item)| path.within(at, |path| lower(item, &ty, path)));
            Val::FixedLengthList(items.collect::<Result<_, _>>()?)
        }
        Type::Tuple(tuple) => {
            let types = tuple.types();
            let items = array_of_length(json, types.len(), path)?
                .iter()
                .zip(types)
                .enumerate();
            let items =
                items.map(|(at, (item, ty))| path.within(at, |path| lower(item, &ty, path)));
            Val::Tuple(items.collect::<Result<_, _>>()?)
        }
        Type::Record(record) => {
            let types: Vec<(&str, Type)> = record
                .fields()
                .map(|field| (field.name, field.ty))
                .collect();
            let fields = fields(json, &types, lower, || Val::Option(None), path)?;
            Val::Record(
                fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
            )
        }
        Type::Variant(variant) => {
            let cases: Vec<(&str, Option<Type>)> =
                variant.cases().map(|case| (case.name, case.ty)).collect();
            let (tag, payload) = tagged(json, &cases, path)?;
            Val::Variant(tag.to_owned(), payload)
        }
        Type::Result(result) => {
            let cases = [("ok", result.ok()), ("err", result.err())];
            match tagged(json, &cases, path)? {
                ("ok", payload) => Val::Result(Ok(payload)),
                (_, payload) => Val::Result(Err(payload)),
            }
        }
        Type::Enum(names) => {
            let names: Vec<&str> = names.names().collect();
            Val::Enum(parse_choice(string(json, path)?, names.iter().copied(), path)?.to_owned())
        }
        Type::Option(option) => option_value(json, &option.ty(), path)?,
        Type::Flags(flags) => {
            let names: Vec<&str> = flags.names().collect();
            Val::Flags(flag_names(json, &names, path)?)
        }
        Type::Map(map) => map_entries(json, &map.key(), &map.value(), path)?,
        Type::Own(_) | Type::Borrow(_) | Type::Future(_) | Type::Stream(_) | Type::ErrorContext => {
            return Err(path.error("has no form in JSON"));
        }
    })
}

/// Returns a map: of an object if the keys are text, otherwise of an array of entries.
fn map_entries(json: &Value, key: &Type, value: &Type, path: &mut ValuePath) -> LowerResult {
    let mut pairs = Vec::new();
    if *key == Type::String {
        let object = json
            .as_object()
            .ok_or_else(|| type_mismatch(json, "an object", path))?;
        for (name, item) in object {
            let item = path.within(name, |path| lower(item, value, path))?;
            pairs.push((Val::String(name.clone()), item));
        }
        return Ok(Val::Map(pairs));
    }
    let types = [(KEY, key.clone()), (VALUE, value.clone())];
    for (at, entry) in array(json, path)?.iter().enumerate() {
        let fields = path.within(at, |path| {
            fields(entry, &types, lower, || Val::Option(None), path)
        })?;
        let mut fields = fields.into_iter().map(|(_, value)| value);
        if let (Some(key), Some(value)) = (fields.next(), fields.next()) {
            pairs.push((key, value));
        }
    }
    Ok(Val::Map(pairs))
}

/// Returns the members of an object, in the order of the type. A missing option is `none`.
fn fields<'a, T>(
    json: &Value,
    types: &[(&'a str, Type)],
    lower: impl Fn(&Value, &Type, &mut ValuePath) -> Result<T, ValueError>,
    none: impl Fn() -> T,
    path: &mut ValuePath,
) -> Result<Vec<(&'a str, T)>, ValueError> {
    let object = json
        .as_object()
        .ok_or_else(|| type_mismatch(json, "an object", path))?;
    reject_unknown_keys(object, types.iter().map(|(name, _)| *name), path)?;
    types
        .iter()
        .map(|(name, ty)| {
            let value = path.within(name, |path| match (object.get(*name), ty) {
                (Some(value), ty) => lower(value, ty, path),
                (None, Type::Option(_)) => Ok(none()),
                (None, _) => Err(path.error("is missing")),
            })?;
            Ok((*name, value))
        })
        .collect()
}

/// Refuses the first unknown key.
fn reject_unknown_keys<'a>(
    object: &Map<String, Value>,
    known: impl Iterator<Item = &'a str> + Clone,
    path: &mut ValuePath,
) -> Result<(), ValueError> {
    // A set would cost more than it saves: objects from models are small.
    let Some(unknown) = object
        .keys()
        .find(|key| known.clone().all(|name| name != *key))
    else {
        return Ok(());
    };
    let near = name_suggestions::did_you_mean(unknown, known);
    let shown = text::prefix(unknown, MAX_SHOWN_CHARS);
    Err(path.within(shown, |path| {
        path.error(format!("is an unknown field.{near}"))
    }))
}

fn option_value(json: &Value, ty: &Type, path: &mut ValuePath) -> LowerResult {
    if json.is_null() {
        return Ok(Val::Option(None));
    }
    let some = match ty {
        Type::Option(_) => {
            let expected = "null or an object with the single key `some`";
            let object = json
                .as_object()
                .ok_or_else(|| type_mismatch(json, expected, path))?;
            reject_unknown_keys(object, std::iter::once(SOME), path)?;
            let inner = object
                .get(SOME)
                .ok_or_else(|| type_mismatch(json, expected, path))?;
            path.within(SOME, |path| lower(inner, ty, path))?
        }
        ty => lower(json, ty, path)?,
    };
    Ok(Val::Option(Some(Box::new(some))))
}

/// Returns a case and its payload.
fn tagged<'a>(
    json: &Value,
    cases: &[(&'a str, Option<Type>)],
    path: &mut ValuePath,
) -> Result<(&'a str, Option<Box<Val>>), ValueError> {
    let object = json.as_object().ok_or_else(|| {
        type_mismatch(
            json,
            "an object with `tag` and, if the case has one, `value`",
            path,
        )
    })?;
    let (tag, ty) = path.within(TAG, |path| {
        let given = match object.get(TAG) {
            Some(tag) => string(tag, path)?,
            None => {
                return Err(path.error(format!(
                    "is missing{}",
                    choices(cases.iter().map(|case| case.0))
                )));
            }
        };
        let tag = parse_choice(given, cases.iter().map(|case| case.0), path)?;
        Ok(cases
            .iter()
            .find(|case| case.0 == tag)
            .map_or((tag, None), |case| (case.0, case.1.clone())))
    })?;
    let Some(ty) = ty else {
        reject_unknown_keys(object, std::iter::once(TAG), path)?;
        return Ok((tag, None));
    };
    reject_unknown_keys(object, [TAG, VALUE].into_iter(), path)?;
    let payload = path.within(VALUE, |path| match (object.get(VALUE), &ty) {
        (Some(value), ty) => lower(value, ty, path),
        (None, Type::Option(_)) => Ok(Val::Option(None)),
        (None, _) => Err(path.error(format!("is missing: the case `{tag}` has a value"))),
    })?;
    Ok((tag, Some(Box::new(payload))))
}

/// Returns the names that are set, in the order of the type.
fn flag_names(
    json: &Value,
    names: &[&str],
    path: &mut ValuePath,
) -> Result<Vec<String>, ValueError> {
    let mut set = vec![false; names.len()];
    for (at, item) in array(json, path)?.iter().enumerate() {
        path.within(at, |path| {
            let given = parse_choice(string(item, path)?, names.iter().copied(), path)?;
            for (name, set) in names.iter().zip(&mut set) {
                if *name == given && std::mem::replace(set, true) {
                    return Err(path.error(format!("has `{name}` twice")));
                }
            }
            Ok(())
        })?;
    }
    Ok(names
        .iter()
        .zip(set)
        .filter(|(_, set)| *set)
        .map(|(name, _)| (*name).to_owned())
        .collect())
}

fn parse_choice<'a>(
    given: &str,
    names: impl Iterator<Item = &'a str> + Clone,
    path: &ValuePath,
) -> Result<&'a str, ValueError> {
    names.clone().find(|name| *name == given).ok_or_else(|| {
        let near = name_suggestions::did_you_mean(given, names.clone());
        let shown = text::visible(text::prefix(given, MAX_SHOWN_CHARS));
        path.error(format!(
            "`{shown}` is not a valid choice{}{near}",
            choices(names)
        ))
    })
}

/// Returns `: one of …`, if the list is short enough to help.
fn choices<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MAX_CHOICES: usize = 20;
    let mut names: Vec<&str> = names.take(MAX_CHOICES + 1).collect();
    let ellipsis = if names.len() > MAX_CHOICES {
        ", …"
    } else {
        ""
    };
    names.truncate(MAX_CHOICES);
    format!("; expected one of {}{ellipsis}.", names.join(", "))
}

fn array<'j>(json: &'j Value, path: &ValuePath) -> Result<&'j Vec<Value>, ValueError> {
    json.as_array()
        .ok_or_else(|| type_mismatch(json, "an array", path))
}

fn array_of_length<'j>(
    json: &'j Value,
    count: usize,
    path: &ValuePath,
) -> Result<&'j Vec<Value>, ValueError> {
    let items = array(json, path)?;
    if items.len() == count {
        return Ok(items);
    }
    Err(path.error(format!(
        "must have exactly {count} elements, and has {}",
        items.len()
    )))
}

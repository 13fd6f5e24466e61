//! The elements and texts of an XML part, without namespaces.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::read::ReadError;

/// Maximum nesting of elements.
const MAX_DEPTH: usize = 4_000;

/// A part of an XML text.
#[derive(Debug)]
pub enum XmlItem {
    /// An element begins. An empty element also ends.
    Start(XmlElement),
    /// An element with this local name ends.
    End(String),
    /// Text.
    Text(String),
}

/// An element with its attributes, by local names.
#[derive(Debug)]
pub struct XmlElement {
    /// The local name.
    pub name: String,
    attributes: Vec<(String, String)>,
}

impl XmlElement {
    /// Returns an attribute by its local name.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        attributes
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the values of all attributes with this local name.
    pub fn values<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e str> {
        let attributes = self.attributes.iter();
        attributes
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns an attribute that is a number.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.attribute(name)?.parse().ok()
    }
}

/// Leaves out elements that are not shown, with everything inside.
#[derive(Debug, Default)]
pub struct HiddenElements {
    /// Nesting inside an element that is not shown.
    depth: usize,
}

impl HiddenElements {
    /// Returns the item, unless it belongs to an element whose name `is_hidden` accepts.
    pub fn filter(&mut self, item: XmlItem, is_hidden: impl Fn(&str) -> bool) -> Option<XmlItem> {
        match &item {
            XmlItem::Start(element) if self.depth > 0 || is_hidden(&element.name) => {
                self.depth += 1;
                None
            }
            XmlItem::End(_) if self.depth > 0 => {
                self.depth -= 1;
                None
            }
            _ => (self.depth == 0).then_some(item),
        }
    }
}

/// Reads the items of an XML text in order. Calls `each` with an element or a text.
pub fn read_items(
    text: &str,
    mut each: impl FnMut(XmlItem) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut reader = Reader::from_str(text);
    let mut depth = 0usize;
    loop {
        let event = reader
            .read_event()
            .map_err(|error| ReadError::Damaged(format!("its XML is not valid: {error}")))?;
        match event {
            Event::Start(start) => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(ReadError::TooLarge(format!(
                        "its XML is nested more than {MAX_DEPTH} times"
                    )));
                }
                each(XmlItem::Start(element(&start)))?;
            }
            Event::Empty(start) => {
                let element = element(&start);
                let name = element.name.clone();
                each(XmlItem::Start(element))?;
                each(XmlItem::End(name))?;
            }
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                each(XmlItem::End(end.local_name().as_ref().to_owned()))?;
            }
            Event::Text(text) => each(XmlItem::Text(text.xml10_content().into_owned()))?,
            Event::CData(text) => each(XmlItem::Text(text.xml10_content().into_owned()))?,
            Event::GeneralRef(reference) => {
                let character = match reference.resolve_char_ref() {
                    Ok(Some(character)) => Some(character),
                    // Other entities are not expanded, so they cannot grow.
                    _ => match reference.xml10_content().as_ref() {
                        "amp" => Some('&'),
                        "lt" => Some('<'),
                        "gt" => Some('>'),
                        "quot" => Some('"'),
                        "apos" => Some('\''),
                        _ => None,
                    },
                };
                if let Some(character) = character {
                    each(XmlItem::Text(character.to_string()))?;
                }
            }
            Event::Eof => return Ok(()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

fn element(start: &BytesStart<'_>) -> XmlElement {
    let mut attributes = start.attributes();
    let attributes = attributes.with_checks(false).flatten();
    XmlElement {
        name: start.local_name().as_ref().to_owned(),
        attributes: attributes
            .map(|attribute| {
                let raw: &str = &attribute.value;
                let value = quick_xml::escape::unescape(raw);
                (
                    attribute.key.local_name().as_ref().to_owned(),
                    value.map_or_else(|_| raw.to_owned(), |value| value.into_owned()),
                )
            })
            .collect(),
    }
}

/// Reads the relationships of a part: ids and targets.
pub fn relationships(text: Option<&str>) -> Result<BTreeMap<String, String>, ReadError> {
    let mut targets = BTreeMap::new();
    read_items(text.unwrap_or_default(), |item| {
        if let XmlItem::Start(element) = item
            && element.name == "Relationship"
            && let Some((id, target)) = element.attribute("Id").zip(element.attribute("Target"))
        {
            targets.insert(id.to_owned(), target.to_owned());
        }
        Ok(())
    })?;
    Ok(targets)
}

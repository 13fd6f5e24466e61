//! Several related texts: the parts of a result, the strings of a structured value.

use serde_json::{Map, Value};

use super::continued::WholeSecrets;
use super::keys::{self, SecretKeyKind};
use super::known_values::LONG_MIN;
use super::mask::{self, JoinedTexts, SecretFinding};
use super::summary::{FindingPart, MaskSummary};
use super::{Redactor, SHORT_MIN};

/// Minimum length of a piece of a split secret that is masked wherever it appears.
const PIECE_MIN: usize = 6;

/// Related texts and their findings.
struct TextGroup {
    /// The texts, separated from each other.
    below: JoinedTexts,
    /// The texts, joined without separators where they may be pieces of one text.
    close: JoinedTexts,
    /// The strings of each object, joined as `close` joins those of lists.
    fields: JoinedTexts,
    /// Each key with its string, joined without separators.
    entries: JoinedTexts,
    /// All strings of the value, joined without separators. Only known values are searched in it.
    leaves: JoinedTexts,
    shares: Vec<Vec<SecretFinding>>,
    /// Numbers that are secrets, as they are written, each with its index in the shares.
    digits: Vec<(usize, String)>,
    /// True if the next string of a value may continue the last text.
    joins: bool,
}

impl TextGroup {
    fn new() -> Self {
        Self {
            below: JoinedTexts::new(),
            close: JoinedTexts::new(),
            fields: JoinedTexts::new(),
            entries: JoinedTexts::new(),
            leaves: JoinedTexts::new(),
            shares: Vec::new(),
            digits: Vec::new(),
            joins: false,
        }
    }

    /// Adds a text and returns its number.
    fn push(&mut self, text: &str) -> usize {
        self.below.push(self.shares.len(), text);
        self.shares.push(Vec::new());
        self.shares.len() - 1
    }

    /// Adds a key of an object. Schemas refer to keys by name, so a finding that begins in the value before does not
    /// change a key.
    fn push_key(&mut self, key: &str) {
        self.below.push_alone(self.shares.len(), key);
        self.shares.push(Vec::new());
    }

    /// Finds all secrets, by text.
    fn find(&mut self, redactor: &Redactor, texts: usize) {
        let mut whole = WholeSecrets::default();
        let findings = redactor.find(&self.below.text);
        whole.add(&self.below, &findings, texts);
        self.below.distribute(findings, &mut self.shares);
        if self.close.len() > 1 {
            let mut findings = redactor.find(&self.close.text);
            // Secrets inside a single text were found above already.
            findings.retain(|finding| self.close.spans(finding));
            whole.add(&self.close, &findings, texts);
            self.share_split(findings, |group| &group.close, texts);
        }
        self.find_split_specific(redactor, |group| &group.fields, texts);
        self.find_split_specific(redactor, |group| &group.entries, texts);
        self.find_split_known(redactor, |group| &group.entries, texts);
        self.find_split_known(redactor, |group| &group.leaves, texts);
        for (number, piece) in whole.find_pieces(self.below.texts_from(texts)) {
            self.shares[number].push(piece);
        }
        for share in &mut self.shares {
            *share = mask::merge(std::mem::take(share));
        }
    }

    /// Finds secrets that are split over several texts, by specific rules: a match of a generic rule may be the end of
    /// one text and the beginning of the next.
    fn find_split_specific(
        &mut self,
        redactor: &Redactor,
        view: fn(&Self) -> &JoinedTexts,
        texts: usize,
    ) {
        let joined = view(self);
        if joined.len() < 2 {
            return;
        }
        // A secret inside one text does not continue in the next.
        let is_new = |finding: &SecretFinding| {
            joined.parts_of(finding).all(|(number, at)| {
                let mut share = self.shares[number].iter();
                share.all(|other| other.end <= at.start || at.end <= other.start)
            })
        };
        let mut findings = redactor.find(&joined.text);
        findings
            .retain(|finding| finding.is_specific() && joined.spans(finding) && is_new(finding));
        self.share_split(findings, view, texts);
    }

    /// Finds known values that are split over several texts. Short ones could be parts of two ordinary words.
    fn find_split_known(
        &mut self,
        redactor: &Redactor,
        view: fn(&Self) -> &JoinedTexts,
        texts: usize,
    ) {
        let joined = view(self);
        if joined.len() < 2 || !redactor.has_known() {
            return;
        }
        let mut findings = redactor.find_known(&joined.text);
        findings.retain(|finding| finding.end - finding.start >= LONG_MIN && joined.spans(finding));
        self.share_split(findings, view, texts);
    }

    /// Distributes findings that are split over several texts. A piece that also appears in one of the first texts is
    /// masked there as well: they often repeat the value in another format.
    fn share_split(
        &mut self,
        findings: Vec<SecretFinding>,
        view: fn(&Self) -> &JoinedTexts,
        texts: usize,
    ) {
        let mut pieces = Vec::new();
        for finding in &findings {
            let parts = view(self)
                .pieces(finding)
                .filter(|part| part.len() >= PIECE_MIN);
            pieces.extend(parts.map(|part| (finding.rule.clone(), part.to_vec())));
        }
        let mut shares = std::mem::take(&mut self.shares);
        view(self).distribute(findings, &mut shares);
        for (number, share) in shares.iter_mut().enumerate().take(texts) {
            let text = self.below.text_of(number);
            for (rule, piece) in &pieces {
                let matches = text.windows(piece.len()).enumerate();
                let matches = matches.filter(|(_, window)| window == piece);
                share.extend(
                    matches.map(|(at, _)| SecretFinding::new(rule.clone(), at..at + piece.len())),
                );
            }
        }
        self.shares = shares;
    }

    /// Summarizes the findings, where the first `texts` texts are followed by the strings of a value with the same
    /// content.
    fn summary(&self, texts: usize) -> MaskSummary {
        let pieces = self.shares.iter().enumerate().flat_map(|(number, share)| {
            let digits = self.digits.iter().find(|(index, _)| *index == number);
            let whole = match digits {
                Some((_, digits)) => digits.as_bytes(),
                None => self.below.text_of(number),
            };
            share.iter().map(move |finding| FindingPart {
                finding,
                secret: whole.get(finding.start..finding.end).unwrap_or_default(),
                in_value: number >= texts,
            })
        });
        MaskSummary::from_duplicated(pieces)
    }
}

impl Redactor {
    /// Masks the secrets in the parts of one result, including those that begin in one part and end in another, and
    /// returns the number of marks.
    pub fn mask_texts<'a>(&self, parts: impl IntoIterator<Item = &'a mut String>) -> u32 {
        self.mask_all(parts, None).count()
    }

    /// Masks the secrets in all strings and keys of a value, and the strings of keys such as `password`, and returns
    /// the number of marks. The structure of the value is unchanged.
    pub fn mask_value(&self, value: &mut Value) -> u32 {
        self.mask_all([], Some(value)).count()
    }

    /// Masks texts and the value that belongs to them, including secrets that begin in one text and end in the next,
    /// or begin in the last text and end in the first string of the value.
    pub fn mask_all<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a mut String>,
        value: Option<&mut Value>,
    ) -> MaskSummary {
        let mut parts: Vec<&mut String> = parts.into_iter().collect();
        if let ([only], None) = (parts.as_mut_slice(), &value) {
            let findings = self.find(only.as_bytes());
            let summary = MaskSummary::from_findings(&findings, only.as_bytes());
            mask::apply(only, &findings);
            return summary;
        }
        let mut group = TextGroup::new();
        for part in &parts {
            let number = group.push(part);
            group.below.push_separator("\n");
            group.close.push(number, part);
        }
        group.joins = !parts.is_empty();
        if let Some(value) = &value {
            self.collect(value, None, &mut group);
        }
        group.find(self, parts.len());
        let summary = group.summary(parts.len());
        if summary.count() > 0 {
            let mut shares = group.shares.into_iter();
            for part in &mut parts {
                mask::apply(part, &shares.next().unwrap_or_default());
            }
            if let Some(value) = value {
                write(value, &mut shares);
            }
        }
        summary
    }

    /// Collects all strings in order, each key before its value, as rules expect them.
    fn collect(&self, value: &Value, kind: Option<SecretKeyKind>, group: &mut TextGroup) {
        match value {
            Value::String(text) => {
                let number = group.push(text);
                group.leaves.push(number, text);
                if std::mem::take(&mut group.joins) {
                    group.close.push(number, text);
                    group.close.push_separator("\n\n");
                }
                let kind = kind.filter(|kind| {
                    kind.is_secret(text.as_bytes()) && !self.record_exempt(kind.rule)
                });
                if let Some(kind) = kind {
                    group.shares[number].push(SecretFinding::new(kind.rule, 0..text.len()));
                }
                group.below.push_separator("\"\n");
            }
            Value::Array(items) => {
                for item in items {
                    let number = group.shares.len();
                    self.collect(item, kind, group);
                    if let Value::String(text) = item {
                        group.close.push(number, text);
                    }
                }
                group.close.push_separator("\n\n");
            }
            Value::Object(map) => {
                // `{"name": "DB_PASSWORD", "value": "…"}` is a key and its value as well.
                let name = ["name", "key"]
                    .iter()
                    .find_map(|name| map.get(*name)?.as_str());
                let named_kind = name.and_then(|name| keys::secret_kind(name.as_bytes()));
                for (key, item) in map {
                    group.below.push_separator("\"");
                    group.entries.push(group.shares.len(), key);
                    if !item.is_string() {
                        group.entries.push_separator("\n\n");
                    }
                    group.push_key(key);
                    group.below.push_separator(if item.is_string() {
                        "\": \""
                    } else {
                        "\": {\n"
                    });
                    let kind =
                        keys::secret_kind(key.as_bytes()).or(named_kind.filter(|_| key == "value"));
                    let number = group.shares.len();
                    self.collect(item, kind, group);
                    if let Value::String(text) = item {
                        let text = text.trim_end_matches(['\r', '\n']);
                        group.fields.push(number, text);
                        group.entries.push(number, text);
                        group.entries.push_separator("\n\n");
                    }
                }
                group.fields.push_separator("\n\n");
            }
            Value::Number(digits) => {
                // Only a number that is a secret becomes a string with a mark.
                let digits = digits.to_string();
                let kind = kind.filter(|kind| {
                    digits.len() >= SHORT_MIN
                        && kind.is_secret(digits.as_bytes())
                        && !self.record_exempt(kind.rule)
                });
                let share = kind.map(|kind| SecretFinding::new(kind.rule, 0..digits.len()));
                if share.is_some() {
                    group.digits.push((group.shares.len(), digits));
                }
                group.shares.push(share.into_iter().collect());
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Writes the marks into a value, in the order of `collect`.
fn write(value: &mut Value, shares: &mut impl Iterator<Item = Vec<SecretFinding>>) {
    match value {
        Value::String(text) => mask::apply(text, &shares.next().unwrap_or_default()),
        Value::Array(items) => items.iter_mut().for_each(|item| write(item, shares)),
        Value::Object(map) => {
            let mut entries = Map::with_capacity(map.len());
            for (mut key, mut item) in std::mem::take(map) {
                mask::apply(&mut key, &shares.next().unwrap_or_default());
                write(&mut item, shares);
                // Two masked keys of one object must not become one entry.
                let mut free = key.clone();
                let mut again = 2;
                while entries.contains_key(&free) {
                    free = format!("{key} {again}");
                    again += 1;
                }
                entries.insert(free, item);
            }
            *map = entries;
        }
        Value::Number(_) => {
            if let Some(finding) = shares.next().and_then(|share| share.into_iter().next()) {
                *value = Value::String(finding.mark());
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

//! Masking of related texts: the parts of a result, and the strings of a structured value.

use serde_json::{Map, Value};

use super::continued::WholeSecrets;
use super::keys::{self, SecretKeyKind};
use super::known_values::LONG_MIN;
use super::mask::{self, JoinedTexts, SecretFinding};
use super::summary::{FindingPart, MaskSummary};
use super::{Redactor, SHORT_MIN};

/// Minimum length of a fragment of a split secret that is masked wherever it appears.
const FRAGMENT_MIN: usize = 6;

/// Related texts and their findings.
struct TextGroup {
    /// The texts, separated from each other.
    separated: JoinedTexts,
    /// The texts, joined without separators where they may be fragments of one text.
    adjoining: JoinedTexts,
    /// The strings of each object, joined as `adjoining` joins those of lists.
    fields: JoinedTexts,
    /// Each key with its string, joined without separators.
    entries: JoinedTexts,
    /// All strings of the value, joined without separators. Only known values are searched in it.
    strings: JoinedTexts,
    /// The findings in each text, with offsets in it.
    findings_by_text: Vec<Vec<SecretFinding>>,
    /// Digits of numbers that are secrets, each with the index in [`Self::findings_by_text`].
    secret_numbers: Vec<(usize, String)>,
    /// True if the next string of a value may continue the last text.
    may_continue: bool,
}

impl TextGroup {
    fn new() -> Self {
        Self {
            separated: JoinedTexts::new(),
            adjoining: JoinedTexts::new(),
            fields: JoinedTexts::new(),
            entries: JoinedTexts::new(),
            strings: JoinedTexts::new(),
            findings_by_text: Vec::new(),
            secret_numbers: Vec::new(),
            may_continue: false,
        }
    }

    /// Adds a text and returns its number.
    fn push(&mut self, text: &str) -> usize {
        self.separated.push(self.findings_by_text.len(), text);
        self.findings_by_text.push(Vec::new());
        self.findings_by_text.len() - 1
    }

    /// Adds a key of an object. A finding that begins in the previous value does not change the key, because schemas
    /// refer to keys by name.
    fn push_key(&mut self, key: &str) {
        self.separated
            .push_indivisible(self.findings_by_text.len(), key);
        self.findings_by_text.push(Vec::new());
    }

    /// Finds all secrets, by text.
    fn find(&mut self, redactor: &Redactor, texts: usize) {
        let mut whole = WholeSecrets::default();
        let findings = redactor.find(&self.separated.text);
        whole.add(&self.separated, &findings, texts);
        self.separated
            .distribute(findings, &mut self.findings_by_text);
        if self.adjoining.len() > 1 {
            let mut findings = redactor.find(&self.adjoining.text);
            // Secrets inside a single text have been found already.
            findings.retain(|finding| self.adjoining.is_split(finding));
            whole.add(&self.adjoining, &findings, texts);
            self.distribute_split(findings, |group| &group.adjoining, texts);
        }
        self.find_split_specific(redactor, |group| &group.fields, texts);
        self.find_split_specific(redactor, |group| &group.entries, texts);
        self.find_split_known(redactor, |group| &group.entries, texts);
        self.find_split_known(redactor, |group| &group.strings, texts);
        for (number, fragment) in whole.find_fragments(self.separated.texts_from(texts)) {
            self.findings_by_text[number].push(fragment);
        }
        for findings_of_text in &mut self.findings_by_text {
            *findings_of_text = mask::merge(std::mem::take(findings_of_text));
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
                let mut findings_of_text = self.findings_by_text[number].iter();
                findings_of_text.all(|other| other.end <= at.start || at.end <= other.start)
            })
        };
        let mut findings = redactor.find(&joined.text);
        findings
            .retain(|finding| finding.is_specific() && joined.is_split(finding) && is_new(finding));
        self.distribute_split(findings, view, texts);
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
        findings
            .retain(|finding| finding.end - finding.start >= LONG_MIN && joined.is_split(finding));
        self.distribute_split(findings, view, texts);
    }

    /// Distributes findings that are split over several texts. A fragment that also appears in one of the first `texts`
    /// texts is masked there as well, because they often repeat the value in another format.
    fn distribute_split(
        &mut self,
        findings: Vec<SecretFinding>,
        view: fn(&Self) -> &JoinedTexts,
        texts: usize,
    ) {
        let mut fragments = Vec::new();
        for finding in &findings {
            let parts = view(self)
                .fragments(finding)
                .filter(|part| part.len() >= FRAGMENT_MIN);
            fragments.extend(parts.map(|part| (finding.rule.clone(), part.to_vec())));
        }
        let mut findings_by_text = std::mem::take(&mut self.findings_by_text);
        view(self).distribute(findings, &mut findings_by_text);
        for (number, findings_of_text) in findings_by_text.iter_mut().enumerate().take(texts) {
            let text = self.separated.text_of(number);
            for (rule, fragment) in &fragments {
                let matches = text.windows(fragment.len()).enumerate();
                let matches = matches.filter(|(_, window)| window == fragment);
                findings_of_text.extend(
                    matches
                        .map(|(at, _)| SecretFinding::new(rule.clone(), at..at + fragment.len())),
                );
            }
        }
        self.findings_by_text = findings_by_text;
    }

    /// Summarizes the findings, where the first `texts` texts are followed by the strings of a value with the same
    /// content.
    fn summary(&self, texts: usize) -> MaskSummary {
        let parts =
            self.findings_by_text
                .iter()
                .enumerate()
                .flat_map(|(number, findings_of_text)| {
                    let digits = self
                        .secret_numbers
                        .iter()
                        .find(|(index, _)| *index == number);
                    let whole = match digits {
                        Some((_, digits)) => digits.as_bytes(),
                        None => self.separated.text_of(number),
                    };
                    findings_of_text.iter().map(move |finding| FindingPart {
                        finding,
                        secret: whole.get(finding.start..finding.end).unwrap_or_default(),
                        in_value: number >= texts,
                    })
                });
        MaskSummary::from_duplicated(parts)
    }
}

impl Redactor {
    /// Masks the secrets in the parts of one result, including those that begin in one part and end in another. Returns
    /// the number of marks.
    pub fn mask_texts<'a>(&self, parts: impl IntoIterator<Item = &'a mut String>) -> u32 {
        self.mask_all(parts, None).count()
    }

    /// Masks the secrets in all strings and keys of a value, and the values of keys such as `password`. Returns the
    /// number of marks. A masked number becomes a string.
    pub fn mask_value(&self, value: &mut Value) -> u32 {
        self.mask_all([], Some(value)).count()
    }

    /// Masks texts and the value with the same content, including secrets that begin in one text and end in the next,
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
            group.separated.push_separator("\n");
            group.adjoining.push(number, part);
        }
        group.may_continue = !parts.is_empty();
        if let Some(value) = &value {
            self.collect(value, None, &mut group);
        }
        group.find(self, parts.len());
        let summary = group.summary(parts.len());
        if summary.count() > 0 {
            let mut findings_by_text = group.findings_by_text.into_iter();
            for part in &mut parts {
                mask::apply(part, &findings_by_text.next().unwrap_or_default());
            }
            if let Some(value) = value {
                apply_to_value(value, &mut findings_by_text);
            }
        }
        summary
    }

    /// Collects all strings in order, each key before its value, as rules expect them. `kind` is the rule of the key of
    /// this value.
    fn collect(&self, value: &Value, kind: Option<SecretKeyKind>, group: &mut TextGroup) {
        match value {
            Value::String(text) => {
                let number = group.push(text);
                group.strings.push(number, text);
                if std::mem::take(&mut group.may_continue) {
                    group.adjoining.push(number, text);
                    group.adjoining.push_separator("\n\n");
                }
                let kind = kind.filter(|kind| {
                    kind.is_secret(text.as_bytes()) && !self.record_exempt(kind.rule)
                });
                if let Some(kind) = kind {
                    group.findings_by_text[number]
                        .push(SecretFinding::new(kind.rule, 0..text.len()));
                }
                group.separated.push_separator("\"\n");
            }
            Value::Array(items) => {
                for item in items {
                    let number = group.findings_by_text.len();
                    self.collect(item, kind, group);
                    if let Value::String(text) = item {
                        group.adjoining.push(number, text);
                    }
                }
                group.adjoining.push_separator("\n\n");
            }
            Value::Object(map) => {
                // `{"name": "DB_PASSWORD", "value": "…"}` is a key with its value, too.
                let name = ["name", "key"]
                    .iter()
                    .find_map(|name| map.get(*name)?.as_str());
                let named_kind = name.and_then(|name| keys::secret_kind(name.as_bytes()));
                for (key, item) in map {
                    group.separated.push_separator("\"");
                    group.entries.push(group.findings_by_text.len(), key);
                    if !item.is_string() {
                        group.entries.push_separator("\n\n");
                    }
                    group.push_key(key);
                    group.separated.push_separator(if item.is_string() {
                        "\": \""
                    } else {
                        "\": {\n"
                    });
                    let kind =
                        keys::secret_kind(key.as_bytes()).or(named_kind.filter(|_| key == "value"));
                    let number = group.findings_by_text.len();
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
                let finding = kind.map(|kind| SecretFinding::new(kind.rule, 0..digits.len()));
                if finding.is_some() {
                    group
                        .secret_numbers
                        .push((group.findings_by_text.len(), digits));
                }
                group.findings_by_text.push(finding.into_iter().collect());
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Writes the marks into a value, in the order of `collect`.
fn apply_to_value(
    value: &mut Value,
    findings_by_text: &mut impl Iterator<Item = Vec<SecretFinding>>,
) {
    match value {
        Value::String(text) => mask::apply(text, &findings_by_text.next().unwrap_or_default()),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| apply_to_value(item, findings_by_text)),
        Value::Object(map) => {
            let mut entries = Map::with_capacity(map.len());
            for (mut key, mut item) in std::mem::take(map) {
                mask::apply(&mut key, &findings_by_text.next().unwrap_or_default());
                apply_to_value(&mut item, findings_by_text);
                // Two masked keys of one object must not become one entry.
                let mut unique_key = key.clone();
                let mut suffix = 2;
                while entries.contains_key(&unique_key) {
                    unique_key = format!("{key} {suffix}");
                    suffix += 1;
                }
                entries.insert(unique_key, item);
            }
            *map = entries;
        }
        Value::Number(_) => {
            if let Some(finding) = findings_by_text
                .next()
                .and_then(|findings| findings.into_iter().next())
            {
                *value = Value::String(finding.mark());
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

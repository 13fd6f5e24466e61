//! The forms a known value is written in.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::known::{Form, LONG_MIN, SHORT_MIN};

/// All forms of a value; none if it is too short to be told from ordinary text.
pub(super) fn of(value: &str) -> Vec<Form> {
    let mut forms = Vec::new();
    if value.len() < SHORT_MIN {
        return forms;
    }
    forms.push(Form::plain(value));
    forms.extend(json(value).into_iter().map(Form::plain));
    forms.push(Form::plain(html(value)));
    if value.len() < LONG_MIN {
        for form in &mut forms {
            form.alone = true;
        }
        return forms;
    }
    forms.extend(base64(value.as_bytes()));
    forms.extend(hex(value.as_bytes()));
    forms.extend(percent(value));
    forms
}

/// Inside of JSON strings, as different writers escape, and inside of JSON in JSON.
fn json(value: &str) -> Vec<String> {
    let plain = escaped(value, false, false);
    let mut all = vec![escaped(&plain, false, false)];
    for (slash, ascii) in [(true, false), (false, true), (true, true)] {
        all.push(escaped(value, slash, ascii));
    }
    all.push(plain);
    all
}

/// A value as it stands in a JSON string; with `/` escaped, or all that is not ASCII.
fn escaped(value: &str, slash: bool, ascii: bool) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    let mut out = String::new();
    for c in quoted[1..quoted.len() - 1].chars() {
        match c {
            '/' if slash => out.push_str("\\/"),
            c if ascii && !c.is_ascii() => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// In HTML and XML.
fn html(value: &str) -> String {
    let mut out = String::new();
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// What base64 makes of the value wherever it stands in the encoded bytes: the digits that hold nothing but its bits,
/// and whether the ones beside them hold some too.
fn base64(value: &[u8]) -> impl Iterator<Item = Form> {
    let mut forms = Vec::new();
    for skip in 0..3 {
        let mut padded = vec![0; skip];
        padded.extend_from_slice(value);
        let (first, whole) = ((skip * 8).div_ceil(6), padded.len() * 8 / 6);
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let digits = engine.encode(&padded);
            let mut form = Form::plain(&digits.as_bytes()[first..whole]);
            form.before = skip > 0;
            form.after = whole < digits.len();
            forms.push(form);
        }
    }
    forms.into_iter()
}

fn hex(value: &[u8]) -> [Form; 2] {
    let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    [Form::plain(digits.to_uppercase()), Form::plain(digits)]
}

/// Percent-encoded: every byte, all but the unreserved ones, all but what may stand in a path or in a query; with a
/// space as `+`; digits in both cases.
fn percent(value: &str) -> Vec<Form> {
    /// What stays as it is besides letters and digits.
    const SAFE: [&str; 6] = [
        "",
        "_",
        "-._~",
        "-._~!'()*",
        "-._~!$&'()*+,;=:@/",
        "-._~!$&'()*+,;=:@/?",
    ];
    let mut forms = Vec::new();
    let mut add = |keeps: &dyn Fn(u8) -> bool, plus: bool| {
        for upper in [false, true] {
            let encoded = value.bytes().map(|byte| match byte {
                b' ' if plus => "+".to_owned(),
                byte if keeps(byte) => char::from(byte).to_string(),
                byte if upper => format!("%{byte:02X}"),
                byte => format!("%{byte:02x}"),
            });
            forms.push(Form::plain(encoded.collect::<String>()));
        }
    };
    add(&|_| false, false);
    for safe in SAFE {
        let keeps = |byte: u8| byte.is_ascii_alphanumeric() || safe.as_bytes().contains(&byte);
        add(&keeps, false);
        add(&keeps, true);
    }
    forms
}

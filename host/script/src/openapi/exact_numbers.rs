//! Numbers in JSON that a double cannot hold, such as ids above 2^53. Scripts and most clients read numbers as doubles,
//! so that such a number would silently become another one; as a string, it stays exact.

/// Puts each number of a valid JSON text in quotes if a double does not have the same decimal value.
pub(super) fn quote_inexact_numbers(json: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(start) = rest.find(|c: char| matches!(c, '"' | '-') || c.is_ascii_digit()) {
        let (before, token) = rest.split_at(start);
        out.push_str(before);
        let length = match token.starts_with('"') {
            true => super::api_response::string_length(token),
            false => number_length(token),
        };
        let (token, after) = token.split_at(length);
        if token.starts_with('"') || is_exact(token) {
            out.push_str(token);
        } else {
            out.extend(["\"", token, "\""]);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn number_length(token: &str) -> usize {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
    token.find(|c| !is_part(c)).unwrap_or(token.len())
}

/// Returns true if the shortest text of the double has the value of the number as it is written.
fn is_exact(number: &str) -> bool {
    let is_same = |double: f64| decimal(&format!("{double:e}")) == decimal(number);
    let double = number.parse::<f64>().ok();
    double.is_some_and(|double| double.is_finite() && is_same(double))
}

/// Returns the significant digits of a number, and the power of ten of the last one. Signs need no comparison, because
/// parsing keeps them. `None` for an exponent that is too large to compare.
fn decimal(number: &str) -> Option<(String, i64)> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches(['-', '0']);
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some((String::new(), 0));
    }
    let dropped = digits.len() - significant.len();
    let power = exponent
        .checked_add(i64::try_from(dropped).ok()?)?
        .checked_sub(i64::try_from(fraction.len()).ok()?)?;
    Some((significant.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_double_holds_stay_numbers() {
        for number in [
            "0",
            "-0",
            "0.0",
            "1",
            "-1",
            "1.10",
            "0.1",
            "100",
            "1e3",
            "1E+3",
            "1.5e-7",
            "9007199254740992",
            "-9007199254740991",
            "1e300",
            "120.50",
        ] {
            assert_eq!(quote_inexact_numbers(number), number);
        }
    }

    #[test]
    fn numbers_that_a_double_rounds_become_strings() {
        for number in [
            "9007199254740993",
            "-9007199254740993",
            "1152921504606846977",
            "123456789012345678901234567890",
            "0.12345678901234567890",
            "1e400",
            "1e99999999999999999999",
            "1e-400",
        ] {
            assert_eq!(quote_inexact_numbers(number), format!("\"{number}\""));
        }
        let json = r#"{"id":9007199254740993,"list":[1,9007199254740993],"text":"9007199254740993 \" 9007199254740993","b":true}"#;
        let exact = r#"{"id":"9007199254740993","list":[1,"9007199254740993"],"text":"9007199254740993 \" 9007199254740993","b":true}"#;
        assert_eq!(quote_inexact_numbers(json), exact);
    }
}

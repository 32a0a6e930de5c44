//! Numbers for people: four to five significant digits, never an exponent in the
//! usual range.

/// A number for a table: no decimals from 10,000 on, fewer with size, exact for
/// whole numbers.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_string();
    }
    let size = value.abs();
    let whole = (value - value.round()).abs() < 1e-9 && size < 1e15;
    let decimals = match size {
        _ if whole => 0,
        s if s >= 10_000.0 => 0,
        s if s >= 1_000.0 => 1,
        s if s >= 100.0 => 2,
        s if s >= 1.0 => 3,
        s if s >= 0.1 => 4,
        s if s >= 0.001 => 6,
        _ => return format!("{value:.3e}"),
    };
    format!("{value:.decimals$}")
}

/// A number with a sign in front, `+` included.
pub fn signed(value: f64) -> String {
    let text = number(value);
    if value > 0.0 { format!("+{text}") } else { text }
}

/// A unit as it stands behind a number: nothing for plain numbers.
pub(crate) fn unit_text(unit: &str) -> &str {
    if unit == "1" { "" } else { unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_the_size() {
        let texts = [0.0, 12.0, 1.23456, 123.456, 4221.05, 302_514.7, 0.04321, -2.5].map(number);
        assert_eq!(texts, ["0", "12", "1.235", "123.46", "4221.1", "302515", "0.043210", "-2.500"]);
        assert_eq!(number(f64::NAN), "-");
        assert_eq!(number(1.5e-7), "1.500e-7");
        assert_eq!(signed(3.0), "+3");
    }
}

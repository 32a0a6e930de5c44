//! The table of limits in SECURITY.md against the limits themselves.

use schedlab_bpf::limits::{ALL, Limit};
use schedlab_tests::root;
use std::fs;

/// A number with a comma after each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn row(limit: &Limit) -> String {
    format!("| {} | {} | {} |", limit.what, grouped(limit.most), limit.source)
}

#[test]
fn the_table_of_limits_is_that_of_the_code() {
    assert_eq!(
        (grouped(7), grouped(1_000), grouped(33_554_432)),
        ("7".into(), "1,000".into(), "33,554,432".into())
    );
    let text = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let (_, table) =
        text.split_once("| what | most | source |\n|---|---|---|\n").expect("the table of limits");
    let told: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let wanted: Vec<String> = ALL.iter().map(row).collect();
    assert_eq!(told, wanted, "SECURITY.md should have these rows:\n{}", wanted.join("\n"));
}

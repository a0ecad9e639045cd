// SPDX-License-Identifier: GPL-3.0-or-later
//! Patterns of directory queries, as [MS-FSA] section 2.1.4.4 describes them: `*`, `?`, and the DOS forms `<` (here as
//! `*`), `>` (as `?`, but also nothing at the end or at a period) and `"` (a period, or the end).

use crate::object::upcase;

/// Whether `name` fits `pattern`, without case.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = upcase(pattern).chars().collect();
    let name: Vec<char> = upcase(name).chars().collect();
    // `states` holds every place in the pattern that the name read so far may have led to: no pattern takes more than
    // the product of both lengths.
    let mut states = vec![false; pattern.len() + 1];
    states[0] = true;
    for c in &name {
        skip_empty(&pattern, &mut states, *c == '.');
        let mut next = vec![false; pattern.len() + 1];
        for at in (0..pattern.len()).filter(|at| states[*at]) {
            match pattern[at] {
                '*' => next[at] = true,
                '<' => next[at] = true,
                '?' => next[at + 1] = true,
                '>' if *c != '.' => next[at + 1] = true,
                '"' if *c == '.' => next[at + 1] = true,
                literal if literal == *c && !matches!(literal, '>' | '"') => next[at + 1] = true,
                _ => {}
            }
        }
        states = next;
    }
    skip_empty(&pattern, &mut states, true);
    for at in 0..pattern.len() {
        if states[at] && pattern[at] == '"' {
            states[at + 1] = true;
            skip_empty(&pattern, &mut states, true);
        }
    }
    states[pattern.len()]
}

/// Adds the places that are reached without reading a character.
fn skip_empty(pattern: &[char], states: &mut [bool], at_period_or_end: bool) {
    for at in 0..pattern.len() {
        if states[at] && (matches!(pattern[at], '*' | '<') || pattern[at] == '>' && at_period_or_end) {
            states[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_fit_as_the_file_system_documents_them() {
        for (pattern, name, expected) in [
            ("*", "a.txt", true),
            ("*.TXT", "a.txt", true),
            ("*.txt", "a.txt.bak", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("<", "anything.at.all", true),
            ("<.txt", "a.b.txt", true),
            ("foo>>>", "foo", true),
            ("foo>>>.c", "foob.c", true),
            ("foo\"*", "foo", true),
            ("foo\"", "foo.", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} against {name}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends_at_once() {
        let name = "a".repeat(255);
        assert!(!fits(&"*a".repeat(120).replace("*a", "*a*b"), &name));
    }
}

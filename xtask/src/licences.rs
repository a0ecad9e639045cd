// SPDX-License-Identifier: GPL-3.0-or-later
//! The licences of all dependencies, against the list in `deny.toml`: what `cargo deny check licenses` does, without
//! needing it installed.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Result;
use crate::shell::{cargo, workspace};

/// Checks every package that cargo resolves for this platform.
pub fn check() -> Result<String> {
    let deny: toml::Table = std::fs::read_to_string(workspace().join("deny.toml"))?.parse()?;
    let allowed: BTreeSet<String> = deny
        .get("licenses")
        .and_then(|table| table.get("allow"))
        .and_then(|list| list.as_array())
        .ok_or("deny.toml has no list `licenses.allow`")?
        .iter()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let metadata = cargo()
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .read()?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata names no packages")?;
    let mut bad = Vec::new();
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("");
        if !Expression::parse(licence).is_some_and(|expression| expression.holds(&allowed)) {
            let licence = if licence.is_empty() { "none" } else { licence };
            bad.push(format!(
                "{} {}: {licence}",
                package["name"].as_str().unwrap_or("?"),
                package["version"].as_str().unwrap_or("?")
            ));
        }
    }
    if bad.is_empty() {
        return Ok(format!(
            "{} packages have a licence that deny.toml allows",
            packages.len()
        ));
    }
    Err(format!("licences that deny.toml does not allow:\n  {}", bad.join("\n  ")).into())
}

/// An SPDX licence expression.
#[derive(Debug, PartialEq, Eq)]
enum Expression {
    Licence(String),
    And(Vec<Expression>),
    Or(Vec<Expression>),
}

impl Expression {
    /// Parses an expression; `/` is the old form of `OR`. `None` when it is none.
    fn parse(text: &str) -> Option<Self> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let tokens: Vec<&str> = spaced.split_whitespace().collect();
        let (expression, rest) = Self::or(&tokens)?;
        rest.is_empty().then_some(expression)
    }

    fn or<'t>(tokens: &'t [&'t str]) -> Option<(Self, &'t [&'t str])> {
        let (first, mut rest) = Self::and(tokens)?;
        let mut all = vec![first];
        while let Some((&"OR", behind)) = rest.split_first() {
            let (next, behind) = Self::and(behind)?;
            all.push(next);
            rest = behind;
        }
        Some((if all.len() == 1 { all.pop()? } else { Self::Or(all) }, rest))
    }

    fn and<'t>(tokens: &'t [&'t str]) -> Option<(Self, &'t [&'t str])> {
        let (first, mut rest) = Self::one(tokens)?;
        let mut all = vec![first];
        while let Some((&"AND", behind)) = rest.split_first() {
            let (next, behind) = Self::one(behind)?;
            all.push(next);
            rest = behind;
        }
        Some((if all.len() == 1 { all.pop()? } else { Self::And(all) }, rest))
    }

    fn one<'t>(tokens: &'t [&'t str]) -> Option<(Self, &'t [&'t str])> {
        match tokens {
            ["(", rest @ ..] => match Self::or(rest)? {
                (inner, [")", rest @ ..]) => Some((inner, rest)),
                _ => None,
            },
            [name, "WITH", exception, rest @ ..] => Some((Self::Licence(format!("{name} WITH {exception}")), rest)),
            [")" | "OR" | "AND" | "WITH", ..] | [] => None,
            [name, rest @ ..] => Some((Self::Licence((*name).to_owned()), rest)),
        }
    }

    fn holds(&self, allowed: &BTreeSet<String>) -> bool {
        match self {
            Self::Licence(name) => allowed.contains(name),
            Self::And(all) => all.iter().all(|one| one.holds(allowed)),
            Self::Or(all) => all.iter().any(|one| one.holds(allowed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> bool {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned).into();
        Expression::parse(text).is_some_and(|expression| expression.holds(&allowed))
    }

    #[test]
    fn one_allowed_choice_is_enough_and_each_part_of_a_sum_is_needed() {
        assert!(holds("MIT"));
        assert!(holds("MIT/Apache-2.0"));
        assert!(holds("CC0-1.0 OR MIT-0 OR Apache-2.0"));
        assert!(holds("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!holds("MIT AND OpenSSL"));
        assert!(!holds("Apache-2.0 WITH LLVM-exception"));
    }

    #[test]
    fn what_is_no_expression_is_not_allowed() {
        for text in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "AND MIT"] {
            assert!(!holds(text), "{text}");
        }
    }
}

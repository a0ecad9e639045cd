// SPDX-License-Identifier: GPL-3.0-or-later
//! What an answer file must be: well-formed, in Microsoft's namespace, and for the edition's architecture.

use std::collections::BTreeMap;

use quick_xml::events::{BytesStart, Event};
use quick_xml::name::ResolveResult;
use quick_xml::reader::NsReader;

use super::Architecture;

/// The namespace of every answer file (Microsoft Learn, "Answer files overview").
const NAMESPACE: &str = "urn:schemas-microsoft-com:unattend";

/// The seven configuration passes (Microsoft Learn, "Windows Setup configuration passes").
const PASSES: [&str; 7] = [
    "offlineServicing",
    "windowsPE",
    "generalize",
    "specialize",
    "auditSystem",
    "auditUser",
    "oobeSystem",
];

/// Deeper than any real answer file, and shallow enough for any stack.
const MAX_DEPTH: usize = 256;

/// An answer file that cannot be used. Every message names the file, and the line where there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The messages say what the fields hold.
pub enum AnswersError {
    #[error("{name} has {found_bytes} bytes; an answer file has {most_bytes} at most")]
    TooLarge {
        name: String,
        found_bytes: u64,
        most_bytes: u64,
    },
    #[error("{name}, line {line}: this is not {encoding} text")]
    NotText {
        name: String,
        line: usize,
        encoding: &'static str,
    },
    #[error("{name}, line {line}: not well-formed XML: {reason}")]
    NotWellFormed { name: String, line: usize, reason: String },
    #[error("{name}, line {line}: expected the root element <unattend> in namespace {NAMESPACE}, found {found}")]
    WrongRoot { name: String, line: usize, found: String },
    #[error("{name}, line {line}: <{element}> must have the attribute {attribute}")]
    MissingAttribute {
        name: String,
        line: usize,
        element: &'static str,
        attribute: &'static str,
    },
    #[error("{name}, line {line}: {found:?} is no configuration pass; there are {}", PASSES.join(", "))]
    UnknownPass { name: String, line: usize, found: String },
    #[error(
        "{name}, line {line}: component {component} is for {found}, but the edition is {expected}; \
         Windows Setup would pass over it"
    )]
    WrongArchitecture {
        name: String,
        line: usize,
        component: String,
        found: String,
        expected: &'static str,
    },
}

/// One component of one pass, as far as it has been seen.
struct Component {
    /// The line of its first occurrence for another architecture.
    line: usize,
    /// The architecture named there.
    found: String,
    /// Whether an occurrence fits the edition.
    fits: bool,
}

/// Checks `text`, the content of the file `name`.
pub(super) fn check(text: &str, name: &str, architecture: Architecture) -> Result<(), AnswersError> {
    let mut reader = NsReader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut lines = Lines { text, at: 0, line: 1 };
    let mut open: Vec<Place> = Vec::new();
    let mut pass = String::new();
    let mut components: BTreeMap<(String, String), Component> = BTreeMap::new();
    let mut root_seen = false;
    loop {
        let line = lines.line_at(reader.buffer_position());
        let refused = |reason: String| AnswersError::NotWellFormed {
            name: name.to_owned(),
            line,
            reason,
        };
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(error) => {
                let line = lines.line_at(reader.error_position());
                return Err(AnswersError::NotWellFormed {
                    name: name.to_owned(),
                    line,
                    reason: error.to_string(),
                });
            }
        };
        let (element, is_empty) = match &event {
            Event::Start(element) => (element, false),
            Event::Empty(element) => (element, true),
            Event::End(_) => {
                open.pop();
                continue;
            }
            Event::DocType(_) => return Err(refused("Windows Setup takes no document type declaration".to_owned())),
            Event::Text(text) if open.is_empty() => {
                let blank = text
                    .bytes()
                    .take_while(u8::is_ascii_whitespace)
                    .filter(|byte| *byte == b'\n')
                    .count();
                if text.bytes().any(|byte| !byte.is_ascii_whitespace()) {
                    let reason = "text outside the root element".to_owned();
                    return Err(AnswersError::NotWellFormed {
                        name: name.to_owned(),
                        line: line + blank,
                        reason,
                    });
                }
                continue;
            }
            Event::GeneralRef(reference) => {
                check_reference(reference).map_err(refused)?;
                continue;
            }
            Event::Eof => break,
            _ => continue,
        };
        // The position before a start tag can still be on the line above, in the white space that precedes it.
        let line = lines.line_at(reader.buffer_position());
        let line = line - element.bytes().filter(|byte| *byte == b'\n').count();
        let refused = |reason: String| AnswersError::NotWellFormed {
            name: name.to_owned(),
            line,
            reason,
        };
        let (namespace, _) = reader.resolver().resolve_element(element.name());
        let ours = matches!(&namespace, ResolveResult::Bound(bound) if bound.as_ref() == NAMESPACE);
        if let ResolveResult::Unknown(prefix) = &namespace {
            return Err(refused(format!("the namespace prefix {prefix:?} is not declared")));
        }
        let attributes = attributes(element).map_err(refused)?;
        let local = element.local_name().as_ref().to_owned();
        let place = match (open.last(), local.as_str()) {
            (None, _) if root_seen => return Err(refused("a second root element".to_owned())),
            (None, "unattend") if ours => Place::Root,
            (None, _) => {
                let found = match namespace {
                    ResolveResult::Bound(bound) => {
                        format!("<{local}> in namespace {}", bound.as_ref())
                    }
                    _ => format!("<{local}> in no namespace"),
                };
                return Err(AnswersError::WrongRoot {
                    name: name.to_owned(),
                    line,
                    found,
                });
            }
            (Some(Place::Root), "settings") if ours => {
                let found = attributes
                    .get("pass")
                    .cloned()
                    .ok_or_else(|| AnswersError::MissingAttribute {
                        name: name.to_owned(),
                        line,
                        element: "settings",
                        attribute: "pass",
                    })?;
                if !PASSES.contains(&found.as_str()) {
                    return Err(AnswersError::UnknownPass {
                        name: name.to_owned(),
                        line,
                        found,
                    });
                }
                pass = found;
                Place::Settings
            }
            (Some(Place::Settings), "component") if ours => {
                let attribute = |attribute: &'static str| {
                    attributes
                        .get(attribute)
                        .cloned()
                        .ok_or_else(|| AnswersError::MissingAttribute {
                            name: name.to_owned(),
                            line,
                            element: "component",
                            attribute,
                        })
                };
                let component = attribute("name")?;
                let found = attribute("processorArchitecture")?;
                let fits = fits(&found, architecture);
                let known = components
                    .entry((pass.clone(), component))
                    .or_insert(Component { line, found, fits });
                known.fits |= fits;
                Place::Other
            }
            _ => Place::Other,
        };
        root_seen = true;
        if !is_empty {
            if open.len() == MAX_DEPTH {
                return Err(refused(format!("elements nest deeper than {MAX_DEPTH}")));
            }
            open.push(place);
        }
    }
    let line = lines.line_at(text.len() as u64);
    if !open.is_empty() {
        let reason = format!("the file ends inside {} open element(s)", open.len());
        return Err(AnswersError::NotWellFormed {
            name: name.to_owned(),
            line,
            reason,
        });
    }
    if !root_seen {
        return Err(AnswersError::WrongRoot {
            name: name.to_owned(),
            line,
            found: "no element at all".to_owned(),
        });
    }
    let misfit = components
        .into_iter()
        .filter(|(_, component)| !component.fits)
        .min_by_key(|(_, c)| c.line);
    match misfit {
        None => Ok(()),
        Some(((_, component), Component { line, found, .. })) => Err(AnswersError::WrongArchitecture {
            name: name.to_owned(),
            line,
            component,
            found,
            expected: architecture.answer_name(),
        }),
    }
}

/// Whether a component for `found` takes part in an installation of `architecture`.
fn fits(found: &str, architecture: Architecture) -> bool {
    let found = found.to_ascii_lowercase();
    let is_64_bit = matches!(architecture, Architecture::Amd64 | Architecture::Arm64);
    found == architecture.answer_name() || found == "neutral" || (found == "wow64" && is_64_bit)
}

/// A character or one of XML's five entities; an answer file can declare no others.
fn check_reference(reference: &quick_xml::events::BytesRef<'_>) -> Result<(), String> {
    match reference.resolve_char_ref() {
        Ok(Some(_)) => Ok(()),
        Ok(None) => match &**reference {
            "lt" | "gt" | "amp" | "apos" | "quot" => Ok(()),
            other => Err(format!("the entity &{other}; is not declared")),
        },
        Err(error) => Err(error.to_string()),
    }
}

/// An element's attributes by name, unescaped.
fn attributes(element: &BytesStart<'_>) -> Result<BTreeMap<String, String>, String> {
    element
        .attributes()
        .map(|attribute| {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let value = quick_xml::escape::unescape(&attribute.value)
                .map_err(|error| error.to_string())?
                .into_owned();
            Ok((attribute.key.as_ref().to_owned(), value))
        })
        .collect()
}

/// Where an element stands.
#[derive(PartialEq)]
enum Place {
    Root,
    Settings,
    Other,
}

/// Line numbers of growing offsets, counted once over the text.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn line_at(&mut self, offset: u64) -> usize {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(self.text.len());
        if let Some(passed) = self.text.as_bytes().get(self.at..offset) {
            self.line += passed.iter().filter(|byte| **byte == b'\n').count();
            self.at = offset;
            return self.line;
        }
        1 + self.text.as_bytes()[..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMD64: &str = r#"<component name="Microsoft-Windows-Shell-Setup" processorArchitecture="amd64"/>"#;
    const X86: &str = r#"<component name="Microsoft-Windows-Shell-Setup" processorArchitecture="x86"/>"#;

    fn answers(components: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<unattend xmlns=\"{NAMESPACE}\">\n <settings pass=\"oobeSystem\">\n  \
             {components}\n </settings>\n</unattend>\n"
        )
    }

    fn refused(text: &str) -> String {
        check(text, "a.xml", Architecture::Amd64)
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn the_right_architecture_is_taken() {
        check(&answers(AMD64), "a.xml", Architecture::Amd64).expect("fits");
    }

    #[test]
    fn a_file_for_several_architectures_is_taken_for_each_of_them() {
        let text = answers(&format!("{X86}\n{AMD64}"));
        check(&text, "a.xml", Architecture::Amd64).expect("fits x64");
        check(&text, "a.xml", Architecture::X86).expect("fits x86");
        check(&text, "a.xml", Architecture::Arm64).expect_err("does not fit Arm");
    }

    #[test]
    fn each_refusal_names_the_file_and_the_line() {
        for (text, expected) in [
            (
                answers(X86),
                "a.xml, line 4: component Microsoft-Windows-Shell-Setup is for x86",
            ),
            (
                answers("<component name=\"a\"/>"),
                "a.xml, line 4: <component> must have the attribute processorArch",
            ),
            (answers("<oops>"), "a.xml, line 5: not well-formed XML: "),
            (answers("<a b=c/>"), "a.xml, line 4: not well-formed XML: "),
            (
                answers("&nbsp;"),
                "a.xml, line 4: not well-formed XML: the entity &nbsp; is not declared",
            ),
            (
                answers("<w:a/>"),
                "a.xml, line 4: not well-formed XML: the namespace prefix \"w\" is not declared",
            ),
            (
                answers("").replace(":unattend\"", ":other\""),
                "a.xml, line 2: expected the root element <unattend>",
            ),
            (
                answers("").replace("oobeSystem", "oobe"),
                "a.xml, line 3: \"oobe\" is no configuration pass",
            ),
            (
                answers("").replace("</unattend>", ""),
                "a.xml, line 7: not well-formed XML: the file ends inside",
            ),
            (
                format!("{}<unattend/>", answers("")),
                "a.xml, line 7: not well-formed XML: a second root element",
            ),
            (
                format!("{}x", answers("")),
                "a.xml, line 7: not well-formed XML: text outside the root",
            ),
            (String::new(), "a.xml, line 1: expected the root element <unattend>"),
            (
                format!("<!DOCTYPE a>{}", answers("")),
                "a.xml, line 1: not well-formed XML: Windows Setup takes no doc",
            ),
        ] {
            let message = refused(&text);
            assert!(message.starts_with(expected), "{message}\n{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let message = refused(&answers(&"<a>".repeat(100_000)));
        assert!(message.contains("nest deeper than 256"), "{message}");
    }
}

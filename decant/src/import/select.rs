// SPDX-License-Identifier: GPL-3.0-or-later
//! Which edition a person means: an index, a name, an EDITIONID, or an EDITIONID with its installation type.

use std::fmt;

use crate::wim::ImageInfo;

/// What an edition is called on the command line: its index, with the medium's folder before it where a medium has
/// images for several architectures (`x64/3`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EditionNumber {
    /// `x64`, `x86` or `arm64`; `None` where the medium has one image file only.
    pub folder: Option<String>,
    /// INDEX in the image file's XML.
    pub index: u32,
}

impl fmt::Display for EditionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.folder {
            Some(folder) => f.pad(&format!("{folder}/{}", self.index)),
            None => f.pad(&self.index.to_string()),
        }
    }
}

/// One edition that was meant, or might have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What to type to take it.
    pub number: EditionNumber,
    /// Its name as `windows list` shows it.
    pub name: String,
    /// EDITIONID and INSTALLATIONTYPE, as far as they are known.
    pub identity: String,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>7}  {} ({})", self.number, self.name, self.identity)
    }
}

/// Why no single edition was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// Nothing fits.
    #[error("the medium has no edition {wanted:?}")]
    NotFound {
        /// What was asked for.
        wanted: String,
        /// Editions of similar names, or all where none is similar.
        candidates: Vec<Candidate>,
    },
    /// Several fit.
    #[error("{wanted:?} names {} editions", candidates.len())]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// All that fit.
        candidates: Vec<Candidate>,
    },
}

impl SelectError {
    /// The editions that the person may have meant.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        match self {
            Self::NotFound { candidates, .. } | Self::Ambiguous { candidates, .. } => candidates,
        }
    }
}

/// Finds the one edition that `wanted` names and gives its position in `editions`.
///
/// An index (`3`, `x64/3`) wins; then NAME, DISPLAYNAME and the name shown; then EDITIONID with INSTALLATIONTYPE
/// (`ServerStandard/Server Core`); then EDITIONID alone. Upper and lower case do not matter.
///
/// # Errors
/// [`SelectError`] with candidates when none or several fit.
pub fn select(editions: &[(EditionNumber, &ImageInfo)], wanted: &str) -> Result<usize, SelectError> {
    let fold = |text: &str| text.trim().to_lowercase();
    let asked = fold(wanted);
    let identity = |image: &ImageInfo| {
        let windows = image.windows.as_ref();
        let edition = windows
            .and_then(|windows| windows.edition_id.clone())
            .unwrap_or_default();
        let installation = windows
            .and_then(|windows| windows.installation_type.clone())
            .unwrap_or_default();
        (edition, installation)
    };
    let candidate = |position: &usize| {
        let (number, image) = &editions[*position];
        let (edition, installation) = identity(image);
        let identity = match (edition.is_empty(), installation.is_empty()) {
            (false, false) => format!("{edition}/{installation}"),
            (false, true) => edition,
            (true, false) => installation,
            (true, true) => "no EDITIONID".to_owned(),
        };
        Candidate {
            number: number.clone(),
            name: image.shown_name().0,
            identity,
        }
    };
    let fitting = |fits: &dyn Fn(&EditionNumber, &ImageInfo) -> bool| -> Vec<usize> {
        (0..editions.len())
            .filter(|position| fits(&editions[*position].0, editions[*position].1))
            .collect()
    };
    let by_index = |number: &EditionNumber, _: &ImageInfo| {
        asked == number.to_string() || (number.folder.is_some() && asked == number.index.to_string())
    };
    let by_name = |_: &EditionNumber, image: &ImageInfo| {
        let shown = image.shown_name().0;
        [image.name.as_deref(), image.display_name.as_deref(), Some(&shown)]
            .into_iter()
            .flatten()
            .any(|name| fold(name) == asked)
    };
    let by_identity = |_: &EditionNumber, image: &ImageInfo| {
        let (edition, installation) = identity(image);
        !edition.is_empty()
            && ["/", "+", " "]
                .iter()
                .any(|between| fold(&format!("{edition}{between}{installation}")) == asked)
    };
    let by_edition_id = |_: &EditionNumber, image: &ImageInfo| {
        let (edition, _) = identity(image);
        !edition.is_empty() && fold(&edition) == asked
    };
    for fits in [
        &by_index as &dyn Fn(&EditionNumber, &ImageInfo) -> bool,
        &by_name,
        &by_identity,
        &by_edition_id,
    ] {
        match fitting(fits).as_slice() {
            [] => {}
            [one] => return Ok(*one),
            several => {
                let candidates = several.iter().map(candidate).collect();
                return Err(SelectError::Ambiguous {
                    wanted: wanted.to_owned(),
                    candidates,
                });
            }
        }
    }
    let similar = |_: &EditionNumber, image: &ImageInfo| {
        let (edition, _) = identity(image);
        let names = [image.name.as_deref(), image.display_name.as_deref(), Some(&edition)];
        !asked.is_empty() && names.into_iter().flatten().any(|name| fold(name).contains(&asked))
    };
    let mut close = fitting(&similar);
    if close.is_empty() {
        close = (0..editions.len()).collect();
    }
    Err(SelectError::NotFound {
        wanted: wanted.to_owned(),
        candidates: close.iter().map(candidate).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wim::WindowsInfo;

    fn image(index: u32, name: &str, display: &str, edition: &str, installation: &str) -> ImageInfo {
        ImageInfo {
            index,
            name: Some(name.to_owned()),
            display_name: Some(display.to_owned()),
            windows: Some(WindowsInfo {
                edition_id: Some(edition.to_owned()),
                installation_type: Some(installation.to_owned()),
                ..WindowsInfo::default()
            }),
            ..ImageInfo::default()
        }
    }

    fn server() -> Vec<ImageInfo> {
        vec![
            image(
                1,
                "Windows Server 2016 SERVERSTANDARDCORE",
                "Standard",
                "ServerStandard",
                "Server Core",
            ),
            image(
                2,
                "Windows Server 2016 SERVERSTANDARD",
                "Standard (Desktop Experience)",
                "ServerStandard",
                "Server",
            ),
            image(5, "Windows 7 HOME", "", "Home", "Client"),
        ]
    }

    fn chosen(images: &[ImageInfo], wanted: &str) -> Result<u32, SelectError> {
        let editions: Vec<_> = images
            .iter()
            .map(|image| {
                (
                    EditionNumber {
                        folder: None,
                        index: image.index,
                    },
                    image,
                )
            })
            .collect();
        select(&editions, wanted).map(|position| images[position].index)
    }

    #[test]
    fn an_edition_goes_by_index_name_display_name_and_edition_id() {
        let images = server();
        for (wanted, index) in [
            ("5", 5),
            ("windows server 2016 serverstandard", 2),
            ("Standard", 1),
            ("standard (desktop experience)", 2),
            ("ServerStandard/Server Core", 1),
            ("serverstandard+server", 2),
            ("home", 5),
        ] {
            assert_eq!(chosen(&images, wanted), Ok(index), "{wanted}");
        }
    }

    #[test]
    fn an_edition_id_that_core_and_desktop_share_is_refused_with_both() {
        let error = chosen(&server(), "ServerStandard").expect_err("ambiguous");
        assert_eq!(error.to_string(), "\"ServerStandard\" names 2 editions");
        let lines: Vec<_> = error.candidates().iter().map(ToString::to_string).collect();
        assert_eq!(lines[0], "      1  Standard (ServerStandard/Server Core)");
        assert_eq!(
            lines[1],
            "      2  Standard (Desktop Experience) (ServerStandard/Server)"
        );
    }

    #[test]
    fn what_is_not_there_is_answered_with_what_is() {
        let error = chosen(&server(), "desktop").expect_err("no such edition");
        assert_eq!(error.candidates().len(), 1);
        let error = chosen(&server(), "3").expect_err("a gap between the indexes");
        assert_eq!(error.candidates().len(), 3);
    }

    #[test]
    fn an_index_that_two_architectures_share_needs_its_folder() {
        let (first, second) = (image(1, "A", "A", "A", "Client"), image(1, "B", "B", "B", "Client"));
        let number = |folder: &str| EditionNumber {
            folder: Some(folder.to_owned()),
            index: 1,
        };
        let editions = [(number("x64"), &first), (number("x86"), &second)];
        assert!(matches!(select(&editions, "1"), Err(SelectError::Ambiguous { .. })));
        assert_eq!(select(&editions, "x86/1"), Ok(1));
    }
}

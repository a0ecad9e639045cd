// SPDX-License-Identifier: GPL-3.0-or-later
//! What the XML says, as values.
//!
//! Source: the white paper's section "XML Data", Microsoft's DISM documentation of `/Get-ImageInfo` for what the fields
//! mean.

use std::fmt;

use crate::wim::types::Filetime;

/// What the XML says about the WIM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WimInfo {
    /// TOTALBYTES of the WIM: its length without the XML and the integrity table, as the writer saw it.
    pub total_bytes: Option<u64>,
    /// The images by ascending INDEX.
    pub images: Vec<ImageInfo>,
}

/// What the XML says about one image. A field that is missing or empty is `None`. Texts are raw: they may hold control
/// characters, which whoever prints them escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageInfo {
    /// INDEX, by which a person selects the image.
    pub index: u32,
    /// NAME.
    pub name: Option<String>,
    /// DESCRIPTION.
    pub description: Option<String>,
    /// DISPLAYNAME.
    pub display_name: Option<String>,
    /// DISPLAYDESCRIPTION.
    pub display_description: Option<String>,
    /// FLAGS: the edition's id, or a number for a PE image.
    pub flags: Option<String>,
    /// DIRCOUNT.
    pub directory_count: Option<u64>,
    /// FILECOUNT.
    pub file_count: Option<u64>,
    /// TOTALBYTES: bytes of all files, each hard link counted.
    pub total_bytes: Option<u64>,
    /// HARDLINKBYTES: bytes that TOTALBYTES counts more than once.
    pub hard_link_bytes: Option<u64>,
    /// CREATIONTIME.
    pub creation_time: Option<Filetime>,
    /// LASTMODIFICATIONTIME.
    pub last_modification_time: Option<Filetime>,
    /// WINDOWS, for an image that holds one.
    pub windows: Option<WindowsInfo>,
}

/// What the XML says about the Windows in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowsInfo {
    /// ARCH.
    pub architecture: Option<Architecture>,
    /// PRODUCTNAME.
    pub product_name: Option<String>,
    /// EDITIONID.
    pub edition_id: Option<String>,
    /// INSTALLATIONTYPE: `Client`, `Server`, `Server Core`, `WindowsPE`, …
    pub installation_type: Option<String>,
    /// HAL.
    pub hal: Option<String>,
    /// PRODUCTTYPE: `WinNT`, `ServerNT`, …
    pub product_type: Option<String>,
    /// PRODUCTSUITE.
    pub product_suite: Option<String>,
    /// SYSTEMROOT.
    pub system_root: Option<String>,
    /// LANGUAGES/LANGUAGE, in their order.
    pub languages: Vec<String>,
    /// LANGUAGES/DEFAULT.
    pub default_language: Option<String>,
    /// LANGUAGES/FALLBACK: language and what stands in for it.
    pub fallback_languages: Vec<(String, String)>,
    /// VERSION.
    pub version: Option<Version>,
    /// SERVICINGDATA/GDRDUREVISION.
    pub gdr_revision: Option<String>,
    /// SERVICINGDATA/IMAGESTATE.
    pub image_state: Option<String>,
    /// EDITIONS/EDITION of an unstaged image: what it can become.
    pub editions: Vec<String>,
}

/// A Windows version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Version {
    /// MAJOR.
    pub major: Option<u32>,
    /// MINOR.
    pub minor: Option<u32>,
    /// BUILD.
    pub build: Option<u32>,
    /// SPBUILD: the revision within the build.
    pub sp_build: Option<u32>,
    /// SPLEVEL: the service pack.
    pub sp_level: Option<u32>,
    /// BRANCH.
    pub branch: Option<String>,
}

impl fmt::Display for Version {
    /// As far as it is known, such as `10.0.26100.1742`; `?` stands for an unknown number before a known one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [self.major, self.minor, self.build, self.sp_build];
        let known = numbers.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        for (position, number) in numbers[..known].iter().enumerate() {
            let dot = if position == 0 { "" } else { "." };
            match number {
                Some(number) => write!(f, "{dot}{number}")?,
                None => write!(f, "{dot}?")?,
            }
        }
        Ok(())
    }
}

/// ARCH, a `PROCESSOR_ARCHITECTURE_*` number (`SYSTEM_INFO` in the Win32 documentation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// 0.
    X86,
    /// 5.
    Arm,
    /// 6.
    Ia64,
    /// 9.
    X64,
    /// 12.
    Arm64,
    /// Any other number.
    Other(u32),
}

impl From<u32> for Architecture {
    fn from(number: u32) -> Self {
        match number {
            0 => Self::X86,
            5 => Self::Arm,
            6 => Self::Ia64,
            9 => Self::X64,
            12 => Self::Arm64,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X86 => f.write_str("x86"),
            Self::Arm => f.write_str("arm"),
            Self::Ia64 => f.write_str("ia64"),
            Self::X64 => f.write_str("x64"),
            Self::Arm64 => f.write_str("arm64"),
            Self::Other(number) => write!(f, "architecture {number}"),
        }
    }
}

/// What an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageKind {
    /// A Windows that can be installed.
    OperatingSystem,
    /// A Windows from which an edition must first be chosen (staged), as build laboratories have them.
    Unstaged,
    /// A Windows PE, as in `boot.wim`.
    WindowsPe,
    /// The files of a setup disc, as the first image of an ESD.
    SetupMedia,
    /// Anything else: data.
    Other,
}

/// Something that a person should know about what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The image calls itself Windows 10, and its build is one of Windows 11.
    Windows11CalledWindows10 {
        /// The build.
        build: u32,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Windows11CalledWindows10 { build } => {
                write!(f, "the image calls itself Windows 10; build {build} is Windows 11")
            }
        }
    }
}

/// The first build of Windows 11.
const FIRST_WINDOWS_11_BUILD: u32 = 22_000;

impl ImageInfo {
    /// DISPLAYNAME, else NAME, else nothing. Raw.
    #[must_use]
    pub fn label(&self) -> &str {
        self.display_name.as_deref().or(self.name.as_deref()).unwrap_or("")
    }

    /// The label as a person should see it, and what was changed about it. Raw.
    #[must_use]
    pub fn shown_name(&self) -> (String, Option<Note>) {
        let label = self.label();
        match self.build() {
            Some(build) if build >= FIRST_WINDOWS_11_BUILD && label.contains("Windows 10") => (
                label.replacen("Windows 10", "Windows 11", 1),
                Some(Note::Windows11CalledWindows10 { build }),
            ),
            _ => (label.to_owned(), None),
        }
    }

    /// VERSION/BUILD.
    #[must_use]
    pub fn build(&self) -> Option<u32> {
        self.windows.as_ref()?.version.as_ref()?.build
    }

    /// TOTALBYTES without what hard links count twice: the room that the files need.
    #[must_use]
    pub fn room_bytes(&self) -> Option<u64> {
        Some(self.total_bytes?.saturating_sub(self.hard_link_bytes.unwrap_or(0)))
    }

    /// What the image is for, as far as the XML tells.
    #[must_use]
    pub fn kind(&self) -> ImageKind {
        let says = |text: &Option<String>, expected: &str| {
            text.as_deref().is_some_and(|text| text.eq_ignore_ascii_case(expected))
        };
        let Some(windows) = &self.windows else {
            let is_setup_media = [&self.name, &self.display_name].iter().any(|name| {
                name.as_deref()
                    .is_some_and(|name| name.to_ascii_lowercase().contains("setup media"))
            });
            return if is_setup_media {
                ImageKind::SetupMedia
            } else {
                ImageKind::Other
            };
        };
        if says(&windows.installation_type, "WindowsPE") || says(&windows.edition_id, "WindowsPE") {
            return ImageKind::WindowsPe;
        }
        if windows.editions.len() > 1 || says(&windows.installation_type, "Unstaged") {
            return ImageKind::Unstaged;
        }
        // EDITIONID is as old as Windows Vista.
        let has_editions = windows
            .version
            .as_ref()
            .and_then(|version| version.major)
            .is_none_or(|major| major >= 6);
        if windows.edition_id.is_some() || !has_editions {
            return ImageKind::OperatingSystem;
        }
        if self
            .name
            .as_deref()
            .is_some_and(|name| name.to_ascii_lowercase().contains("setup media"))
        {
            return ImageKind::SetupMedia;
        }
        ImageKind::Unstaged
    }
}

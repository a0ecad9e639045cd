// SPDX-License-Identifier: GPL-3.0-or-later
//! Answer files (`unattend.xml`): parsed, checked against an edition's architecture, ready to be placed.
//!
//! An [`AnswerFile`] that exists is well-formed, in the right namespace and fits the edition; its bytes are placed as
//! they came. Public source: Microsoft Learn, "Answer files (unattend.xml)" and "Unattended Windows Setup Reference".

mod check;
mod decode;

use sha2::{Digest, Sha256};

pub use check::AnswersError;

use crate::wim;

/// The most that an answer file may have; the largest public ones are below 200 KiB.
pub const MAX_ANSWERS_BYTES: u64 = 16 << 20;

/// The answers that an import places when the person brings none, as they stand for `amd64`.
const DEFAULT_ANSWERS: &str = include_str!("../../../targets/windows/unattend.xml");

/// A processor architecture as answer files and images name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Architecture {
    /// 32-bit x86.
    X86,
    /// 64-bit x86: `amd64` in answer files, `x64` to people.
    Amd64,
    /// 32-bit Arm.
    Arm,
    /// 64-bit Arm.
    Arm64,
    /// Itanium.
    Ia64,
}

impl Architecture {
    /// That of an image, where answer files have a name for it.
    #[must_use]
    pub fn of_image(architecture: wim::Architecture) -> Option<Self> {
        match architecture {
            wim::Architecture::X86 => Some(Self::X86),
            wim::Architecture::Arm => Some(Self::Arm),
            wim::Architecture::Ia64 => Some(Self::Ia64),
            wim::Architecture::X64 => Some(Self::Amd64),
            wim::Architecture::Arm64 => Some(Self::Arm64),
            wim::Architecture::Other(_) => None,
        }
    }

    /// The value of `processorArchitecture` in an answer file.
    #[must_use]
    pub fn answer_name(self) -> &'static str {
        match self {
            Self::X86 => "x86",
            Self::Amd64 => "amd64",
            Self::Arm => "arm",
            Self::Arm64 => "arm64",
            Self::Ia64 => "ia64",
        }
    }

    /// The name that people use: `x64` rather than `amd64`.
    #[must_use]
    pub fn shown_name(self) -> &'static str {
        match self {
            Self::Amd64 => "x64",
            other => other.answer_name(),
        }
    }
}

/// A checked answer file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerFile {
    bytes: Vec<u8>,
}

impl AnswerFile {
    /// The project's own answers for an edition of `architecture`: administrator `vodka`, logged on, nothing asked.
    #[must_use]
    pub fn default_for(architecture: Architecture) -> Self {
        let text = DEFAULT_ANSWERS.replace(
            r#"processorArchitecture="amd64""#,
            &format!(r#"processorArchitecture="{}""#, architecture.answer_name()),
        );
        Self {
            bytes: text.into_bytes(),
        }
    }

    /// Checks the bytes of a person's own file, called `name` in errors, against an edition's architecture.
    ///
    /// # Errors
    /// [`AnswersError`], with the line, when the file is too large, not well-formed, in another namespace, or has
    /// components for other architectures only.
    pub fn check(bytes: Vec<u8>, name: &str, architecture: Architecture) -> Result<Self, AnswersError> {
        let text = decode::decode(&bytes, name)?;
        check::check(&text, name, architecture)?;
        Ok(Self { bytes })
    }

    /// What is written into the world.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// SHA-256 of the bytes in lower-case hex: part of what makes two imports the same.
    #[must_use]
    pub fn sha256(&self) -> String {
        Sha256::digest(&self.bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_answers_pass_their_own_check_for_every_architecture() {
        for architecture in [Architecture::X86, Architecture::Amd64, Architecture::Arm64] {
            let answers = AnswerFile::default_for(architecture);
            AnswerFile::check(answers.bytes.clone(), "default", architecture).expect("our own file");
            let text = String::from_utf8(answers.bytes).expect("UTF-8");
            assert!(text.contains(&format!("processorArchitecture=\"{}\"", architecture.answer_name())));
        }
    }
}

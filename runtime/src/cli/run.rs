// SPDX-License-Identifier: GPL-3.0-or-later
//! `vodka --world NAME PROGRAM …`: running a program.

use std::path::PathBuf;

use clap::Args;

use super::worlds::Place;
use super::{ExitCode, Failure};
use crate::nt::TraceFilter;
use crate::nt::file::Writing;
use crate::start::{Launch, StartError, run as start};

/// The arguments that run a program.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The world to run it in
    #[arg(long, value_name = "NAME", required_unless_present = "files")]
    world: Option<String>,
    #[command(flatten)]
    place: Place,
    /// A plain directory as C: instead of a world
    #[arg(long, value_name = "DIR", conflicts_with = "world")]
    files: Option<PathBuf>,
    /// Show a directory as a drive: 'D:=/path'
    #[arg(long, value_name = "MAP")]
    map: Vec<String>,
    /// Set an environment variable of the program: NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// The program's current directory, as a Windows path
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Print each service call, or those whose name fits a pattern
    #[arg(long, value_name = "GLOB", num_args = 0..=1, require_equals = true, default_missing_value = "*")]
    trace: Option<String>,
    /// For tests of the runtime: `stubs`, `syscall` or `relocate`
    #[arg(long, value_name = "WAY", hide = true, value_delimiter = ',')]
    debug_dispatch: Vec<String>,
    /// The program: a Windows path, or a file of the host inside C: or a mapped drive
    #[arg(value_name = "PROGRAM", required = true)]
    program: Option<String>,
    /// The program's arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn usage(message: String) -> Failure {
    Failure::new(ExitCode::Usage, message)
}

/// `D:=/path`, or `i"D:" => "/path"`.
fn parse_map(text: &str) -> Result<(char, PathBuf), Failure> {
    let wrong = || {
        usage(format!(
            "--map {text:?} is neither 'D:=/path' nor 'i\"D:\" => \"/path\"'"
        ))
    };
    let (drive, path) = match text.split_once("=>") {
        Some((drive, path)) => {
            let drive = drive
                .trim()
                .strip_prefix("i\"")
                .and_then(|rest| rest.strip_suffix('"'))
                .ok_or_else(wrong)?;
            let path = path
                .trim()
                .strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'))
                .ok_or_else(wrong)?;
            (drive, path)
        }
        None => text.split_once('=').ok_or_else(wrong)?,
    };
    match drive.as_bytes() {
        [letter, b':'] if letter.is_ascii_alphabetic() && !path.is_empty() => {
            Ok((char::from(letter.to_ascii_uppercase()), path.into()))
        }
        _ => Err(wrong()),
    }
}

impl RunArguments {
    fn launch(self) -> Result<Launch, Failure> {
        let (files, writing) = match (&self.files, &self.world) {
            (Some(files), _) => (files.clone(), Writing::Allowed),
            (None, Some(world)) => {
                let world = self.place.world(world)?;
                if let Some(parent) = &world.conf().parent {
                    let message = format!(
                        "{} is a fork of {}, whose files a program would not see yet",
                        world.name(),
                        parent.name
                    );
                    return Err(Failure::new(ExitCode::NotServed, message)
                        .hint("`vodka world flatten NAME` makes a base of it"));
                }
                // A sealed world never changes; a fork will take the writes once worlds can be forked.
                let sealed = world.conf().digest.is_some();
                (
                    world.path().join("files"),
                    if sealed { Writing::Refused } else { Writing::Allowed },
                )
            }
            (None, None) => return Err(usage("no world is named".to_owned())),
        };
        // clap asks for it wherever no subcommand is given.
        let program = self.program.ok_or_else(|| usage("no program is named".to_owned()))?;
        let mut launch = Launch::new(files, program);
        launch.writing = writing;
        launch.maps = self.map.iter().map(|map| parse_map(map)).collect::<Result<_, _>>()?;
        for variable in &self.env {
            let (name, value) = variable
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| usage(format!("--env {variable:?} is not NAME=VALUE")))?;
            launch.environment.push((name.to_owned(), value.to_owned()));
        }
        launch.arguments = self.arguments;
        launch.current_directory = self.cwd;
        launch.trace = self.trace.map_or(TraceFilter::None, TraceFilter::Glob);
        for way in &self.debug_dispatch {
            match way.as_str() {
                "stubs" => launch.rewrite_stubs = true,
                "syscall" => launch.raw_syscalls = true,
                "relocate" => launch.move_images = true,
                other => return Err(usage(format!("--debug-dispatch knows no way {other:?}"))),
            }
        }
        Ok(launch)
    }
}

/// Runs the program; gives the low 8 bits of its exit status. A program that ends its process itself (nearly every one
/// does) ends the command with them, and this does not return.
///
/// # Errors
/// What kept it from starting.
pub fn run(arguments: RunArguments) -> Result<u8, Failure> {
    let status = start(arguments.launch()?).map_err(|error| {
        let exit_code = match &error {
            StartError::NoProgram { .. } | StartError::Drive { .. } => ExitCode::Usage,
            StartError::Image { .. } => ExitCode::Damaged,
            StartError::NoNtdll { .. } => ExitCode::World,
            _ => ExitCode::Unexpected,
        };
        Failure::new(exit_code, error)
    })?;
    Ok(status.to_le_bytes()[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_map_are_taken() {
        let expected = ('D', PathBuf::from("/tmp/x"));
        assert_eq!(parse_map("d:=/tmp/x").expect("short"), expected);
        assert_eq!(parse_map("i\"D:\" => \"/tmp/x\"").expect("long"), expected);
        assert!(parse_map("DD:=/tmp").is_err() && parse_map("D:=").is_err());
    }
}

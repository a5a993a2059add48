//! Completion scripts and man pages, generated from the command line's own description.

use crate::cli::Cli;
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::Answer;
use crate::path::{say, shown_outside};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use serde_json::json;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
    /// For the program under which name
    #[arg(long, value_name = "NAME", default_value = "dolmen", value_parser = ["dolmen", "daos", "dmg"])]
    name: String,
}

#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Directory to write them to; made if it is missing, the one above it must exist
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
}

pub(crate) fn completions(args: &CompletionArgs) -> Outcome<Answer> {
    let mut script = Vec::new();
    let mut whole = Cli::command();
    let mut command = if args.name == "dolmen" { whole } else { linked(&mut whole, &args.name) };
    clap_complete::generate(args.shell, &mut command, &args.name, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let json = json!({ "shell": args.shell.to_string(), "name": args.name, "script": script });
    Ok(Answer::new(script, json))
}

pub(crate) fn man(args: &ManArgs) -> Outcome<Answer> {
    let doing = || format!("write man pages to {}", shown_outside(&args.dir));
    let failed = |error| Failure::on_file(&args.dir, &error);
    if !args.dir.is_dir() {
        let above = args.dir.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above.filter(|above| !above.exists()) {
            let failure =
                Failure::new(Exit::Missing, format!("there is no directory {}", shown_outside(above)));
            return Err(failure.hint("make it first")).doing(doing);
        }
        std::fs::create_dir(&args.dir).map_err(failed).doing(doing)?;
    }
    for page_of in with_synopses() {
        clap_mangen::generate_to(page_of, &args.dir).map_err(failed).doing(doing)?;
    }
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(&args.dir).map_err(failed).doing(doing)? {
        let name = entry.map_err(failed).doing(doing)?.file_name().to_string_lossy().into_owned();
        let is_of = |of: &&str| name.strip_prefix(*of).is_some_and(|rest| rest.starts_with(['.', '-']));
        if ["dolmen", "daos", "dmg"].iter().any(is_of) && name.ends_with(".1") {
            pages.push(name);
        }
    }
    pages.sort();
    let text = format!("{} pages in {}", pages.len(), shown_outside(&args.dir));
    let mut json = json!({ "pages": pages });
    say(&mut json, "directory", args.dir.as_os_str().as_bytes());
    Ok(Answer::new(text, json))
}

/// The command lines of the program and its links, with synopses in which options have their values; what is made of them
/// otherwise leaves these out.
fn with_synopses() -> [Command; 3] {
    let mut whole = Cli::command().disable_help_subcommand(true);
    let [daos, dmg] = ["daos", "dmg"].map(|name| linked(&mut whole, name));
    [whole, daos, dmg].map(with_synopsis)
}

/// The command line of a link to the program, which is called like one of its commands.
fn linked(whole: &mut Command, name: &str) -> Command {
    whole.build();
    renamed(whole.find_subcommand(name).expect("links are called like commands").clone())
}

/// The same command without the name of the program in front.
fn renamed(command: Command) -> Command {
    let without = |text: Option<&str>, front: &str| {
        text.map(|text| text.strip_prefix(front).unwrap_or(text).to_owned())
    };
    let bin = without(command.get_bin_name(), "dolmen ");
    let display = without(command.get_display_name(), "dolmen-");
    let command = bin.into_iter().fold(command, Command::bin_name);
    display.into_iter().fold(command, Command::display_name).mut_subcommands(renamed)
}

fn with_synopsis(command: Command) -> Command {
    let mut words = vec![command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned()];
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    for option in shown().filter(|arg| !arg.is_positional()) {
        words.push(if option.is_required_set() { option.to_string() } else { format!("[{option}]") });
    }
    words.extend(shown().filter(|arg| arg.is_positional()).map(ToString::to_string));
    if command.has_subcommands() {
        words.push("<COMMAND>".to_owned());
    }
    command.override_usage(words.join(" ")).mut_subcommands(with_synopsis)
}

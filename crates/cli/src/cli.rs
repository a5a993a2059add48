//! The command line: what can be said, and who does it.

use crate::failure::Outcome;
use crate::output::Answer;
use crate::{audit, bench, certs, compat, cont, fs, inspect, mount, ntuple, obj, pool, serve, shell, stop};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// Stands at the end of `dolmen --help` and of the man page.
const AFTER_HELP: &str = "\
Addresses:
  POOL   a pool's directory; file:DIR, SYSTEM/NAME with the pool's label or UUID in
         the directory SYSTEM that holds it, or NAME in the current one, mean the same;
         unix:SOCKET/NAME and tcp://HOST:PORT/NAME are pools of a daemon (`dolmen serve`),
         which commands on a directory that it serves go through as well
  CONT   a container's label or UUID
  PATH   a path in a container, from its root
  SNAP   a snapshot's name, or an epoch as `snapshot list` prints it

JSON:
  With --json every command prints one document to standard output:
  {\"response\": ..., \"error\": null, \"status\": 0}, or, if it fails,
  {\"response\": null, \"error\": \"one line\", \"status\": <DAOS number>, \"detail\": {...}}.
  Help and version are the \"text\" of a response.
  With exit codes that say that something of it is wrong, both response and error are there.
  Epochs are strings, sizes are numbers of bytes. A name that is not UTF-8 is shown as in text,
  with all of its bytes beside it under the same key with _hex at its end.

Exit codes:
  0  done
  1  done, and something is wrong: differences (fs verify), damage (check, inspect),
     entries that could not be copied or counted (fs put, get, du), each named with its reason
  2  wrong arguments, or a directory where none can be, or none where one has to be
  3  something named does not exist
  4  something named exists already, of another kind perhaps, or is not empty
  5  in use by another process, or busy
  6  no space left
  7  stored data is damaged
  8  not permitted, or read-only
  9  the device or file system failed
  10 anything else
  11 nobody is there to be asked: no daemon or engine answers
  129, 130, 143  interrupted by SIGHUP (its terminal is gone), SIGINT (Ctrl-C) or SIGTERM: the
     program says so and ends by that signal;
     a pool is as after any death of its process, and closed after fs put, get, verify and rm";

/// Stands at the end of `dolmen daos --help` and `dolmen dmg --help`.
const COMPAT_HELP: &str = "\
They ask the daemon of a system: the one that -G names, else DOLMEN_SYSTEM, else the one that
`system` in dolmen/client.toml names, else the user's own, which is started if it does not run, and ends a minute after the last command. -j is --json. Exit codes are those of
`dolmen --help`. A link to this program that is called daos or dmg is that command.";

/// A versioned object store with the DAOS data model, in a directory
#[derive(Parser, Debug)]
#[command(name = "dolmen", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    /// Print one JSON document instead of text; to daos and dmg, -j is the same
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Make, look at and remove pools
    #[command(subcommand)]
    Pool(pool::Command),
    /// Make, look at and remove containers, their properties and snapshots
    #[command(subcommand, visible_alias = "container")]
    Cont(cont::Command),
    /// Files and directories in a container
    #[command(subcommand, visible_alias = "filesystem")]
    Fs(fs::Command),
    /// Objects of a container, as stored
    #[command(subcommand, visible_alias = "object")]
    Obj(obj::Command),
    /// Event data: ntuples (RNTuple) in containers and files of ROOT
    #[command(subcommand)]
    Ntuple(ntuple::Command),
    /// Show the files of a container as a directory of the system
    Mount(mount::Mount),
    /// Take such a directory away
    #[command(visible_alias = "umount")]
    Unmount(mount::Unmount),
    /// Let other processes use the pools of a directory: the node daemon
    Serve(serve::Args),
    /// What engines and clients of a system on a network need
    #[command(subcommand)]
    System(certs::Command),
    /// End the node daemon of a directory, and wait until its process has ended
    Stop(stop::Args),
    /// The commands of DAOS's users
    #[command(after_help = COMPAT_HELP)]
    Daos(compat::daos::Daos),
    /// The commands of DAOS's administrators
    #[command(after_help = COMPAT_HELP)]
    Dmg(compat::dmg::Dmg),
    /// Audit every invariant of a pool; with --scrub also read and verify every stored byte
    Check(audit::Args),
    /// Show what lies on disk, without opening the pool; works on damaged ones
    Inspect(inspect::Args),
    /// Measure what the store costs on this machine
    #[command(subcommand)]
    Bench(bench::Command),
    /// Print a completion script
    Completions(shell::CompletionArgs),
    /// Write the man pages
    Man(shell::ManArgs),
}

/// Reads a command line. What follows an option that takes a value is one, also a number below zero, so that it is told what is allowed.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut command = with_numbers(Cli::command());
    let mut meant = ntuple::meant(words.into_iter().collect());
    let said = meant.pop().expect("what was said can be meant");
    let found = meant.into_iter().find_map(|words| command.try_get_matches_from_mut(words).ok());
    let matches = match found {
        Some(matches) => matches,
        None => command.try_get_matches_from_mut(said)?,
    };
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn with_numbers(command: clap::Command) -> clap::Command {
    let with = |arg: clap::Arg| match !arg.is_positional() && arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    command.mut_args(with).mut_subcommands(with_numbers)
}

/// What shows the options of the command that these words name.
pub(crate) fn help_of(words: &[OsString]) -> String {
    let (mut command, mut path) = (Cli::command(), String::from("dolmen"));
    for word in words.iter().skip(1).filter_map(|word| word.to_str()).filter(|word| !word.starts_with('-')) {
        let Some(next) = command.find_subcommand(word).cloned() else { break };
        path.push(' ');
        path.push_str(next.get_name());
        command = next;
    }
    if path == "dolmen" { "`dolmen help`".to_owned() } else { format!("`{path} --help`") }
}

/// Does what the command line says.
pub(crate) fn run(cli: &Cli) -> Outcome<Answer> {
    match &cli.command {
        Command::Pool(command) => pool::run(command),
        Command::Cont(command) => cont::run(command),
        Command::Fs(command) => fs::run(command, cli.json),
        Command::Obj(command) => obj::run(command),
        Command::Ntuple(command) => ntuple::run(command, cli.json),
        Command::Daos(args) => compat::daos::run(args),
        Command::Dmg(args) => compat::dmg::run(args),
        Command::Mount(args) => mount::mount(args, cli.json),
        Command::Unmount(args) => mount::unmount(args),
        Command::Serve(args) => serve::run(args, cli.json),
        Command::System(command) => certs::run(command),
        Command::Stop(args) => stop::run(args),
        Command::Check(args) => audit::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Bench(command) => bench::run(command, cli.json),
        Command::Completions(args) => shell::completions(args),
        Command::Man(args) => shell::man(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert!(Cli::try_parse_from(["dolmen", "pool", "query", "/p", "--json"]).unwrap().json);
    }
}

//! The program `dolmen`: pools, containers, trees of files, audits, from a shell.
//!
//! Every command answers with text for people or, with `--json`, with one JSON document; failures are one line
//! that names the object and the remedy, and an exit code. A command opens the pool, does its work, closes it.

#![warn(clippy::print_stderr)] // It panics where nothing can be written: `dolmen_env::say` does not.

mod audit;
mod bench;
mod certs;
mod cli;
mod compat;
mod cont;
mod diff;
mod failure;
mod fs;
mod heard;
mod inspect;
mod interrupt;
mod mount;
mod ntuple;
mod obj;
mod output;
mod path;
mod patience;
mod place;
mod pool;
mod progress;
mod reached;
mod serve;
mod shell;
mod size;
mod snapshot;
mod stop;

use failure::{Exit, Failure, Outcome};
use output::Answer;
use serde_json::json;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some((scenario, spec)) = bench::part_of_another() {
        interrupt::restore();
        return ExitCode::from(bench::child(&scenario, &spec).number());
    }
    let exit = match compat::named_by_path(compat::words()).map(cli::parse) {
        Ok(Ok(cli)) => {
            watch(&cli);
            answer(&cli)
        }
        Ok(Err(error)) => refuse_usage(&error),
        Err(failure) => report(&failure, compat::words().iter().any(|word| word == "--json")),
    };
    interrupt::end_as(exit);
    ExitCode::from(exit.number())
}

/// Sees to it that a command that is interrupted says so.
fn watch(cli: &cli::Cli) {
    let as_json = cli.json;
    interrupt::watch(move |failure| {
        report(failure, as_json);
    });
}

/// Runs the command and prints what it says.
fn answer(cli: &cli::Cli) -> Exit {
    let done = cli::run(cli);
    interrupt::begin_answer();
    match done.and_then(|answer| show(&answer, cli.json)) {
        Ok(exit) => exit,
        Err(failure) => report(&failure, cli.json),
    }
}

fn show(answer: &Answer, as_json: bool) -> Outcome<Exit> {
    if answer.is_printed {
        return Ok(answer.exit);
    }
    if as_json {
        output::print(format!("{:#}\n", answer.framed()).as_bytes())?;
    } else {
        output::print(answer.text.as_bytes())?;
    }
    Ok(answer.exit)
}

/// Failures go to standard error as one line, or to standard output as JSON, where programs look.
fn report(failure: &Failure, as_json: bool) -> Exit {
    if as_json && output::print(format!("{:#}\n", failure.to_json()).as_bytes()).is_ok() {
        return failure.exit;
    }
    output::complain(failure);
    failure.exit
}

/// Help and version are no failures; what clap says of wrong arguments is told in one line, or in the form asked for.
fn refuse_usage(error: &clap::Error) -> Exit {
    let as_json = compat::words().iter().any(|arg| arg == "--json");
    if as_json && let Some(text) = asked_for(error) {
        let answer = Answer::new(String::new(), json!({ "text": text }));
        return show(&answer, as_json).unwrap_or_else(|failure| report(&failure, as_json));
    }
    // Of a group of commands without one the help is told.
    let lacks_command = error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !as_json && (lacks_command || !error.use_stderr()) {
        return help(error);
    }
    let text = error.to_string();
    let text = compat::plain_usage(&text).unwrap_or(text);
    let help = || {
        let help = cli::help_of(&compat::words());
        // A link of that name is the command.
        compat::by_link().map_or(help.clone(), |name| help.replacen(&format!("dolmen {name}"), name, 1))
    };
    let failure = match lacks_command {
        true => Failure::new(Exit::Usage, "a command is missing").hint(format!("see {}", help())),
        false => of_usage(&text, &help()),
    };
    if as_json {
        return report_usage(&failure, &text);
    }
    report(&failure, as_json)
}

/// Prints help, where it belongs.
fn help(error: &clap::Error) -> Exit {
    let text = compat::plain_usage(&error.to_string());
    if error.use_stderr() {
        match text {
            Some(text) => dolmen_env::say_as_is(text.as_bytes()),
            // Ignored: there is no other place to say that standard error is closed.
            None => drop(error.print()),
        }
        return Exit::Usage;
    }
    if let Some(text) = text {
        return output::print(text.as_bytes())
            .map_or_else(|failure| report(&failure, false), |()| Exit::Done);
    }
    match error.print() {
        Err(cause) if cause.kind() != ErrorKind::BrokenPipe => {
            report(&Failure::on_file(Path::new("standard output"), &cause), false)
        }
        _ => Exit::Done,
    }
}

/// What is wrong with a command line, and how it is written: paragraphs of clap as one line. `help` shows the options.
fn of_usage(text: &str, help: &str) -> Failure {
    let joined = |part: &str| part.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let mut parts: Vec<String> = text.trim().split("\n\n").map(joined).collect();
    parts.retain(|part| !part.is_empty() && !part.starts_with("For more information"));
    let why = if parts.is_empty() { joined(text) } else { parts.remove(0) };
    let told = |part: &String| match part.strip_prefix("Usage: ") {
        Some(usage) => format!("usage: {usage}"),
        None => part
            .trim_start_matches("tip: ")
            .split(" tip: ")
            .filter(|tip| helps(tip))
            .collect::<Vec<_>>()
            .join("; "),
    };
    let mut hints: Vec<String> = parts.iter().map(told).filter(|hint| !hint.is_empty()).collect();
    let is_unknown = why.contains("unexpected argument") || why.contains("unrecognized subcommand");
    // A usage does not list options.
    if hints.is_empty() || is_unknown && !hints.iter().any(|hint| hint.contains("similar")) {
        hints.push(format!("see {help}"));
    }
    // Where no range is known, and what is no number was given for one.
    let why = why.replace(": invalid digit found in string", ": give a whole number");
    Failure::new(Exit::Usage, why.trim_start_matches("error: ")).hint(hints.join("; "))
}

/// Whether a tip is one: what looks like an option is no name of a file as a rule.
fn helps(tip: &str) -> bool {
    let is_option = |value: &str| value.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    !tip.strip_prefix("to pass '-").is_some_and(is_option)
}

/// Help or version, if that is what the command line asks for; `dolmen help` knows no options.
fn asked_for(error: &clap::Error) -> Option<String> {
    if !error.use_stderr() {
        return Some(error.to_string());
    }
    let others = compat::words().into_iter().filter(|arg| arg != "--json");
    let plain = cli::parse(others).err().filter(|plain| !plain.use_stderr());
    plain.map(|plain| plain.to_string())
}

/// What is wrong with the command line, as JSON, with what clap says of it.
fn report_usage(failure: &Failure, usage: &str) -> Exit {
    let mut framed = failure.to_json();
    framed["detail"]["usage"] = json!(usage);
    // Ignored: there is no other place to say that standard output is closed.
    let _printed = output::print(format!("{framed:#}\n").as_bytes());
    Exit::Usage
}

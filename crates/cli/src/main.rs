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

use clap::Parser;
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
    let exit = match compat::named_by_path(compat::words()).map(cli::Cli::try_parse_from) {
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

/// Help and version are no failures; what clap says of wrong arguments is kept, in the form asked for.
fn refuse_usage(error: &clap::Error) -> Exit {
    let as_json = compat::words().iter().any(|arg| arg == "--json");
    if !as_json && let Some(text) = compat::plain_usage(&error.to_string()) {
        if !error.use_stderr() {
            return output::print(text.as_bytes())
                .map_or_else(|failure| report(&failure, as_json), |()| Exit::Done);
        }
        dolmen_env::say_as_is(text.as_bytes());
        return Exit::Usage;
    }
    if as_json && let Some(text) = asked_for(error) {
        let answer = Answer::new(String::new(), json!({ "text": text }));
        return show(&answer, as_json).unwrap_or_else(|failure| report(&failure, as_json));
    }
    if !as_json || !error.use_stderr() {
        if error.use_stderr() {
            // Ignored: there is no other place to say that standard error is closed.
            let _printed = error.print();
            return Exit::Usage;
        }
        return match error.print() {
            Err(cause) if cause.kind() != ErrorKind::BrokenPipe => {
                report(&Failure::on_file(Path::new("standard output"), &cause), as_json)
            }
            _ => Exit::Done,
        };
    }
    let text = error.to_string();
    let text = compat::plain_usage(&text).unwrap_or(text);
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let failure = Failure::new(Exit::Usage, "a command is missing").hint("see `dolmen help`");
        return report_usage(&failure, &text);
    }
    // What is missing stands in lines of its own, before an empty one.
    let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let line = lines.join(" ");
    let line = line.trim_start_matches("error: ");
    let failure = Failure::new(Exit::Usage, line).hint("see `dolmen help`");
    report_usage(&failure, &text)
}

/// Help or version, if that is what the command line asks for; `dolmen help` knows no options.
fn asked_for(error: &clap::Error) -> Option<String> {
    if !error.use_stderr() {
        return Some(error.to_string());
    }
    let others = compat::words().into_iter().filter(|arg| arg != "--json");
    let plain = cli::Cli::try_parse_from(others).err().filter(|plain| !plain.use_stderr());
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

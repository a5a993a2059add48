//! Programs that have files open and do with them what they are told, line by line: whoever may have to wait in a mount must not be
//! the test itself.

use super::{MINUTE, Running, stacks};
use crate::common::Place;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};

/// A process of Python: it says a line for each that it is told.
pub(super) struct Script {
    pub(super) running: Running,
    asks: ChildStdin,
    pub(super) says: Receiver<String>,
    /// What it has said as errors, unless that goes where the test's own do.
    log: Option<PathBuf>,
}

impl Script {
    /// One that says "there" when it has begun.
    pub(super) fn on(file: &Path, program: &str) -> Self {
        let script = Self::start(Command::new("python3").args(["-c", program]).arg(file), None);
        assert_eq!(script.said(), "there");
        script
    }

    /// One whose errors go into a file of the place.
    pub(super) fn logged(place: &Place, name: &str, program: &str, args: &[&str]) -> Self {
        let log = place.path(&format!("{name}.log"));
        let mut python = Command::new("python3");
        python.args(["-c", program]).args(args).stderr(fs::File::create(&log).unwrap());
        Self::start(&mut python, Some(log))
    }

    fn start(python: &mut Command, log: Option<PathBuf>) -> Self {
        let mut running = Running(python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let (asks, said) = (running.0.stdin.take().unwrap(), running.0.stdout.take().unwrap());
        let (tell, says) = sync_channel(1 << 16);
        // It ends with the process, which does not outlive the test.
        drop(dolmen_env::spawn("says", move || {
            BufReader::new(said).lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
        }));
        Self { running, asks, says, log }
    }

    /// The next line; `None` when it has ended.
    pub(super) fn next(&self) -> Option<String> {
        match self.says.recv_timeout(MINUTE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("a process says nothing\n{}", stacks(self.running.0.id()))
            }
        }
    }

    pub(super) fn said(&self) -> String {
        self.next().unwrap_or_else(|| panic!("a process has ended: {}", self.log()))
    }

    /// Begins what may have to wait.
    pub(super) fn ask(&mut self, line: &str) {
        writeln!(self.asks, "{line}").unwrap();
    }

    /// The same, if it is still there.
    pub(super) fn tell(&mut self, line: &str) {
        drop(writeln!(self.asks, "{line}"));
    }

    pub(super) fn does(&mut self, line: &str) -> String {
        self.ask(line);
        self.said()
    }

    pub(super) fn has_said_nothing(&self) -> bool {
        self.says.try_recv().is_err()
    }

    pub(super) fn log(&self) -> String {
        self.log.as_ref().map(|log| fs::read_to_string(log).unwrap_or_default()).unwrap_or_default()
    }
}

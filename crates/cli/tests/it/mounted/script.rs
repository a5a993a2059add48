//! Programs that have a file open and do with it what they are told, line by line.

use super::{MOMENT, Running};
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};

/// A process of Python: it says "there" when it has begun, and a line for each that it is told.
pub(super) struct Script {
    pub(super) running: Running,
    asks: ChildStdin,
    pub(super) says: Receiver<String>,
}

impl Script {
    pub(super) fn on(file: &Path, program: &str) -> Self {
        let mut python = Command::new("python3");
        python.args(["-c", program]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = Running(python.spawn().unwrap());
        let (asks, said) = (running.0.stdin.take().unwrap(), running.0.stdout.take().unwrap());
        let (tell, says) = sync_channel(64);
        // It ends with the process, which does not outlive the test.
        drop(dolmen_env::spawn("says", move || {
            BufReader::new(said).lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
        }));
        let script = Self { running, asks, says };
        assert_eq!(script.said(), "there");
        script
    }

    pub(super) fn said(&self) -> String {
        self.says.recv_timeout(MOMENT).unwrap()
    }

    /// Begins what may have to wait.
    pub(super) fn ask(&mut self, line: &str) {
        writeln!(self.asks, "{line}").unwrap();
    }

    pub(super) fn does(&mut self, line: &str) -> String {
        self.ask(line);
        self.said()
    }

    pub(super) fn has_said_nothing(&self) -> bool {
        self.says.try_recv().is_err()
    }
}

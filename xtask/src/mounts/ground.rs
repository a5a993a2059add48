//! What is measured, and how a round of it runs.

use super::server::Servers;
use super::table::{Phase, Told};
use super::{CONT, POOL, Setup};
use crate::clients::REST;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Ground {
    Native,
    Passthrough,
    /// A passthrough of others.
    Given,
    Metadata,
    Data,
    Off,
    Preload,
    CApi,
    JuiceFs,
}

impl Ground {
    pub(super) const ALL: [Self; 9] = [
        Self::Native,
        Self::Passthrough,
        Self::Given,
        Self::Metadata,
        Self::Data,
        Self::Off,
        Self::Preload,
        Self::CApi,
        Self::JuiceFs,
    ];
    /// Mounts, and what the kernel may remember of each.
    pub(super) const MOUNTS: [(Self, &str); 3] =
        [(Self::Metadata, "metadata"), (Self::Data, "data"), (Self::Off, "off")];
    /// Those that need a daemon.
    pub(super) const OF_DAEMON: [Self; 5] =
        [Self::Metadata, Self::Data, Self::Off, Self::Preload, Self::CApi];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Passthrough => "passthrough",
            Self::Given => "given",
            Self::Metadata => "metadata",
            Self::Data => "data",
            Self::Off => "off",
            Self::Preload => "preload",
            Self::CApi => "capi",
            Self::JuiceFs => "juicefs",
        }
    }

    /// As tables have it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Native => "native tmpfs",
            Self::Passthrough => "passthrough",
            Self::Given => "passthrough, of others",
            Self::Metadata => "mount, metadata",
            Self::Data => "mount, data",
            Self::Off => "mount, off",
            Self::Preload => "mount with preload",
            Self::CApi => "C API",
            Self::JuiceFs => "JuiceFS",
        }
    }

    pub(super) fn named(name: &str) -> Result<Self> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|ground| ground.name() == name);
        found.with_context(|| format!("no ground is called {name}; there are {names}"))
    }

    /// Whose mount it uses.
    pub(super) fn root(self) -> Self {
        if self == Self::Preload { Self::Metadata } else { self }
    }

    /// One round of all phases.
    pub(super) fn run(self, setup: &Setup, servers: &Servers, processes: usize) -> Result<Vec<Told>> {
        if self == Self::CApi {
            return c_api(setup, servers, processes);
        }
        let root = match self {
            Self::Native => setup.dir.join("native"),
            _ => setup.mount_point(self.root().name()),
        };
        self.posix(setup, servers, root, processes)
    }

    fn posix(self, setup: &Setup, servers: &Servers, root: PathBuf, processes: usize) -> Result<Vec<Told>> {
        let mut command = Command::new(&setup.dolmen);
        command.args(["bench", "posix"]).arg(root).args(["-b", &setup.file_size, "-i", "1"]);
        command.args(["-n", &setup.count.to_string(), "-r", &setup.reads.to_string()]);
        command.args(["-N", &processes.to_string()]);
        for pid in servers.pids_of(self.root()) {
            command.args(["--serving-pid", &pid.to_string()]);
        }
        if self == Self::Preload {
            command.env("LD_PRELOAD", &setup.preload).env("DOLMEN_PRELOAD_REPORT", "1");
        }
        let (text, notes) = told(&mut command)?;
        let is_taken = self != Self::Preload || taken(&notes) >= setup.count;
        ensure!(is_taken, "{command:?}: the library has not taken the calls:\n{notes}");
        let phases: Vec<Told> =
            Phase::ALL.into_iter().filter_map(|phase| phase.told(&text, phase.name())).collect();
        ensure!(!phases.is_empty(), "{command:?} has told no phases:\n{text}");
        Ok(phases)
    }
}

/// The same phases by the C interface.
fn c_api(setup: &Setup, servers: &Servers, processes: usize) -> Result<Vec<Told>> {
    let load = |words: &[&str]| {
        let mut command = Command::new(&setup.dolmen);
        command.arg("bench").args(words).args(["-i", "1", "-N", &processes.to_string()]);
        command.args(["--system", &setup.system(), "--pool", POOL, "--cont", CONT]);
        for pid in servers.pids_of(Ground::CApi) {
            command.args(["--daemon-pid", &pid.to_string()]);
        }
        told(&mut command).map(|(text, _notes)| text)
    };
    let ior = load(&["ior", "-F", "-t", "1M", "-b", &setup.file_size])?;
    let mdtest = load(&["mdtest", "-F", "-u", "-C", "-T", "-r", "-n", &setup.count.to_string()])?;
    let phases = [
        (Phase::Write, &ior, "write"),
        (Phase::Read, &ior, "read"),
        (Phase::Create, &mdtest, "file creation"),
        // It asks the daemon each time.
        (Phase::StatCold, &mdtest, "file stat"),
        (Phase::StatWarm, &mdtest, "file stat"),
        (Phase::Unlink, &mdtest, "file removal"),
    ];
    Ok(phases.into_iter().filter_map(|(phase, text, name)| phase.told(text, name)).collect())
}

/// What a load prints, after a rest for everybody.
fn told(command: &mut Command) -> Result<(String, String)> {
    std::thread::park_timeout(REST);
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    let [text, notes] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(output.status.success(), "{command:?}:\n{text}\n{notes}");
    Ok((text, notes))
}

/// Files that the process has opened past the kernel which has opened most, by what each tells at its end.
fn taken(notes: &str) -> u64 {
    let of_line = |line: &str| line.strip_prefix("dolmen_preload: open ")?.split('/').next()?.parse().ok();
    notes.lines().filter_map(of_line).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_tells_how_many_files_it_has_opened() {
        let notes =
            "dolmen_preload: open 0/0 stat 1/2 settled 0\ndolmen_preload: open 512/513 stat 9/9\n# else\n";
        assert_eq!((taken(notes), taken("")), (512, 0));
    }

    #[test]
    fn each_ground_is_found_by_its_name() {
        for ground in Ground::ALL {
            assert_eq!(Ground::named(ground.name()).unwrap(), ground);
        }
        assert!(Ground::named("x").is_err());
    }
}

//! What this machine lets tests do. Whatever it lets them do is required of them: a test that finds out that it cannot be run
//! fails then, where it would say so and pass.

use crate::{bounded, tools};
use anyhow::{Context as _, Result};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a probe may take: each takes milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

/// A view of the system of its own, with the device in it, as tests of several users make it.
const VIEW: &str = "test \"$(id -u)\" = 0 && command -v setpriv && command -v nsenter \
                    && test -e /etc/fuse.conf && mount -t tmpfs -o dev tmpfs /mnt \
                    && mknod -m 666 /mnt/fuse c 10 229 && : < /mnt/fuse";

/// What tests may take, and whether it is there.
pub(crate) struct Ability {
    /// Variable that is `required` if it is there.
    pub(crate) variable: &'static str,
    pub(crate) what: &'static str,
    pub(crate) is_there: bool,
}

/// Looks for all of them; `folder` is to be written in.
pub(crate) fn abilities(folder: &Path) -> Result<[Ability; 4]> {
    let mounts = can_mount(folder)?;
    let ability = |variable, what, is_there| Ability { variable, what, is_there };
    Ok([
        ability("DOLMEN_TEST_MOUNTS", "file systems can be mounted (/dev/fuse, fusermount3)", mounts),
        ability("DOLMEN_TEST_USERS", "tests can be several users (root, namespaces)", mounts && has_view()?),
        ability(
            "DOLMEN_TEST_RINGS",
            "the kernel offers io_uring to mounts (enable_uring)",
            mounts && has_rings(),
        ),
        ability("DOLMEN_TEST_TOOLS", "all programs that tests run are there", tools::are_all_there()),
    ])
}

/// Mounts something that nobody serves, and takes it away. Nobody looks into it, so that nobody waits for it.
fn can_mount(folder: &Path) -> Result<bool> {
    let dir = folder.join(format!("mount-probe-{}", std::process::id()));
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    // The helper sends the device through it; both are closed with it.
    let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
    let mut mount = Command::new("fusermount3");
    mount.args(["-o", "ro,fsname=probe", "--"]).arg(&dir).env("_FUSE_COMMFD", "0");
    let is_mounted = says_yes(mount.stdin(Stdio::from(OwnedFd::from(theirs))))?;
    drop(ours);
    let is_taken_away = is_mounted && {
        let mut unmount = Command::new("fusermount3");
        says_yes(unmount.args(["-u", "-z", "--"]).arg(&dir).stdin(Stdio::null()))?
    };
    if !is_mounted || is_taken_away {
        std::fs::remove_dir(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(is_taken_away)
}

/// Whether tests may have the kernel offer it, and it has it at all.
fn has_rings() -> bool {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    let is_off =
        std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|text| text.trim() != "0");
    let now = std::fs::read_to_string(SWITCH);
    !is_off && now.is_ok_and(|now| now.trim() == "Y" || std::fs::write(SWITCH, now).is_ok())
}

fn has_view() -> Result<bool> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    says_yes(unshare.args(["sh", "-e", "-c", VIEW]).stdin(Stdio::null()))
}

/// Whether a program is there and ends well in time; what it says is not shown.
fn says_yes(command: &mut Command) -> Result<bool> {
    let Ok(mut child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else { return Ok(false) };
    if let Some(status) = bounded::wait(&mut child, LIMIT, || false)? {
        return Ok(status.success());
    }
    child.kill().context("cannot kill a probe")?;
    child.wait().context("cannot wait for a killed probe")?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_says_yes_if_it_is_there_and_ends_well() {
        let says = |program: &str| says_yes(Command::new(program).stdin(Stdio::null())).expect("asked");
        assert!(says("true"));
        assert!(!says("false"));
        assert!(!says("no-such-program-anywhere"));
    }

    #[test]
    fn looking_for_abilities_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("abilities-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temporary files can be made");
        let found = abilities(&folder).expect("looked for");
        assert!(found.iter().all(|ability| ability.variable.starts_with("DOLMEN_TEST_")));
        std::fs::remove_dir(&folder).expect("nothing is in it");
    }
}

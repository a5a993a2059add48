//! What whoever asks uses of the container, and may: an attribute of everything in a mount that is in no list and takes no room.

use super::{Done, Fs, Reply, tell_sized};
use dolmen_codec::quota::{Charge, Limits, Report};
use dolmen_dfs::errno as number;
use dolmen_types::{Error as StoreError, Invalid};

pub(super) const NAME: &[u8] = b"dolmen.quota";

/// Who asks how long it is gets this, as the numbers may grow until he asks for them: it is never longer.
const ROOM_BYTES: u32 = 512;

impl Fs {
    pub(super) fn tell_quota(&self, uid: u32, room_bytes: u32, reply: &mut Reply) -> Done {
        let report = match self.dfs.container().quota() {
            Ok(report) => report,
            // What keeps the container counts nothing.
            Err(StoreError::Invalid(Invalid::Engines | Invalid::Argument)) => return Err(number::ENODATA),
            Err(error) => return self.done(Err(error.into())),
        };
        if room_bytes == 0 {
            reply.out.u32(ROOM_BYTES).u32(0);
            return Ok(());
        }
        tell_sized(text(&report, uid).as_bytes(), room_bytes, reply)
    }
}

/// Words that a script takes apart at blanks and signs.
fn text(report: &Report, uid: u32) -> String {
    let user = report.users.iter().find(|user| user.uid == uid);
    let (used, limits) = user.map_or_else(Default::default, |user| (user.used, user.limits));
    let own = counts("", used, limits);
    format!("uid={uid} {own} {}", counts("container_", report.used, report.limits))
}

fn counts(whose: &str, used: Charge, limits: Limits) -> String {
    let limit = |limit: u64| if limit == 0 { "none".to_owned() } else { limit.to_string() };
    let (bytes, files) = (limit(limits.bytes), limit(limits.files));
    format!(
        "{whose}bytes={} {whose}bytes_limit={bytes} {whose}files={} {whose}files_limit={files}",
        used.bytes, used.files
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_codec::quota::UserUse;

    const MOST: Charge = Charge { bytes: u64::MAX, files: u64::MAX };

    #[test]
    fn a_user_is_told_his_own_numbers_and_those_of_all_in_words_for_a_script() {
        let used = Charge { bytes: 5000, files: 3 };
        let limits = Limits { bytes: 1 << 20, files: 0 };
        let users = vec![UserUse { uid: 7, used, limits }];
        let report = Report { used: Charge { bytes: 9000, files: 4 }, users, ..Report::default() };
        let all =
            "container_bytes=9000 container_bytes_limit=none container_files=4 container_files_limit=none";
        let own = "uid=7 bytes=5000 bytes_limit=1048576 files=3 files_limit=none";
        assert_eq!(text(&report, 7), format!("{own} {all}"));
        let other = "uid=8 bytes=0 bytes_limit=none files=0 files_limit=none";
        assert_eq!(text(&report, 8), format!("{other} {all}"));
    }

    #[test]
    fn the_longest_has_room() {
        let limits = Limits { bytes: u64::MAX, files: u64::MAX };
        let users = vec![UserUse { uid: u32::MAX, used: MOST, limits }];
        let report = Report { used: MOST, limits, users };
        assert!(text(&report, u32::MAX).len() <= ROOM_BYTES as usize);
    }
}

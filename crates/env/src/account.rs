//! For whom a process works: its batch job, and on whose behalf its requests run.

use crate::error::{Error, Result};
use crate::record;

/// What the requests of a process are accounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Account {
    /// The batch job; 0 for none.
    pub job: u64,
    /// The tenant: the user unless he is told another.
    pub tenant: u32,
}

/// The account of this process. The job is what the variable says that `DAOS_JOBID_ENV` names, else `DAOS_JOBID`: a number,
/// or a text that stands for one. The tenant is `DOLMEN_TENANT`, else `tenant = N` in the user's settings, else `uid`.
///
/// # Errors
/// [`Error::Setting`] for a tenant that is no number of 32 bits; as [`named_system`](crate::named_system).
pub fn account(uid: u32) -> Result<Account> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let named = set("DAOS_JOBID_ENV").and_then(|name| name.into_string().ok());
    // What cannot be the name of a variable names none: asking for it is refused.
    let can_be = |name: &String| !name.contains(['=', '\0']);
    let named = named.filter(can_be).unwrap_or_else(|| "DAOS_JOBID".to_owned());
    let job = set(&named).map_or(0, |text| job_of(text.as_encoded_bytes()));
    let (from, wanted, told) = match set("DOLMEN_TENANT") {
        Some(told) => {
            ("DOLMEN_TENANT", "a number below 2^32; unset it", Some(told.to_string_lossy().into_owned()))
        }
        None => (
            "tenant in dolmen/client.toml",
            "a number below 2^32; leave it out",
            record::plain_setting("tenant")?,
        ),
    };
    match (tenant_of(uid, told.as_deref()), told) {
        (None, Some(value)) => Err(Error::Setting { name: from.to_owned(), value, wanted }),
        (tenant, _) => Ok(Account { job, tenant: tenant.unwrap_or(uid) }),
    }
}

/// The user, unless a number is told; `None` for what is no number.
fn tenant_of(uid: u32, told: Option<&str>) -> Option<u32> {
    told.map_or(Some(uid), |told| told.parse().ok())
}

/// The number of a job: the number that its id is, else one above all those, of its bytes (FNV-1a), so that one job has
/// one number wherever its processes run.
fn job_of(id: &[u8]) -> u64 {
    const TEXT: u64 = 1 << 63;
    let number = core::str::from_utf8(id).ok().and_then(|text| text.parse().ok());
    let hashed = || {
        id.iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
    };
    number.filter(|number| *number < TEXT).unwrap_or_else(|| hashed() | TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_his_own_tenant_unless_told_another() {
        assert_eq!(tenant_of(1000, None), Some(1000));
        assert_eq!(tenant_of(1000, Some("4294967295")), Some(u32::MAX));
        for bad in ["", "anna", "-1", "4294967296"] {
            assert_eq!(tenant_of(1000, Some(bad)), None, "{bad}");
        }
    }

    #[test]
    fn a_job_is_the_number_that_its_id_is_or_stands_for() {
        assert_eq!(job_of(b"4711"), 4711);
        assert_eq!(job_of(b"0"), 0);
        // FNV-1a of "a" is 0xaf63dc4c8601ec8c.
        assert_eq!(job_of(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(job_of(b"18446744073709551615") >> 63, 1);
        assert_ne!(job_of(b"12.head"), job_of(b"13.head"));
        assert_eq!(job_of(&[0xff]) >> 63, 1);
    }
}

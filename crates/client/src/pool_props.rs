//! Properties that are the same for every pool: what DAOS lets be set, and what it is here.

/// A property of a pool that nobody sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolProp {
    /// Its number.
    pub id: u32,
    /// What it is called where it is written.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// What it is of every pool.
    pub value: u64,
    /// The word for that, if it has one.
    pub word: Option<&'static str>,
}

const fn word(id: u32, name: &'static str, about: &'static str, value: u64, word: &'static str) -> PoolProp {
    PoolProp { id, name, about, value, word: Some(word) }
}

const fn number(id: u32, name: &'static str, about: &'static str, value: u64) -> PoolProp {
    PoolProp { id, name, about, value, word: None }
}

/// All of them, by name. What does not exist here is off, or 0: space kept for a rebuild, self-healing, an end of targets by
/// damage, redundancy of objects and of the service. Space is reclaimed as there is time for it, every target reads what it
/// has in turn as long as it is open, and checkpoints are made as the log grows: no pool can have that turned off.
//= daos:src/include/daos_prop.h DAOS_PROP_PO_*
//= daos:src/pool/srv_layout.c pool_prop_default
pub const POOL_PROPS: [PoolProp; 22] = [
    word(22, "checkpoint", "Checkpoints", 1, "timed"),
    number(23, "checkpoint_freq", "Seconds between checkpoints", 5),
    number(24, "checkpoint_thresh", "Percentage of the log that starts a checkpoint", 50),
    number(10, "data_thresh", "Values from this size on go to bulk", 4096),
    number(9, "ec_cell_sz", "EC cell size", 128 << 10),
    number(12, "ec_pda", "Performance domain affinity level of EC", 1),
    number(14, "global_version", "Global Version", 4),
    number(20, "obj_version", "Object layout version", 1),
    word(21, "perf_domain", "Performance domain", 255, "root"),
    number(11, "rd_fac", "Pool redundancy factor", 0),
    word(5, "reclaim", "Reclaim strategy", 1, "lazy"),
    word(25, "reintegration", "Reintegration mode", 0, "data_sync"),
    number(13, "rp_pda", "Performance domain affinity level of RP", u32::MAX as u64),
    word(16, "scrub", "Checksum scrubbing mode", 2, "timed"),
    number(17, "scrub_freq", "Seconds between scrubs", 604_800),
    number(18, "scrub_thresh", "Damage that ends a target", 0),
    word(4, "self_heal", "Self-healing policy", 0, "none"),
    word(3, "space_rb", "Rebuild space ratio", 0, "0%"),
    number(26, "svc_ops_enabled", "Repetitions are known by their ids", 1),
    number(27, "svc_ops_entry_age", "Seconds for which they are", 300),
    number(19, "svc_rf", "Pool service redundancy factor", 0),
    word(15, "upgrade_status", "Upgrade Status", 0, "not started"),
];

impl PoolProp {
    /// Whether a text says what the property is: its word, or its number.
    #[must_use]
    pub fn is_said_by(&self, text: &str) -> bool {
        let number = text.strip_suffix('%').unwrap_or(text).parse();
        self.word.is_some_and(|word| word.eq_ignore_ascii_case(text)) || number == Ok(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_have_names_and_numbers_of_their_own() {
        assert!(POOL_PROPS.is_sorted_by(|one, next| one.name < next.name));
        for prop in &POOL_PROPS {
            assert_eq!(POOL_PROPS.iter().filter(|other| other.id == prop.id).count(), 1, "{prop:?}");
            assert!((1..=27).contains(&prop.id));
        }
        let of = |name| POOL_PROPS.iter().find(|prop| prop.name == name).unwrap();
        assert!(of("reclaim").is_said_by("LAZY") && !of("reclaim").is_said_by("disabled"));
        assert!(of("space_rb").is_said_by("0") && of("space_rb").is_said_by("0%"));
        assert!(!of("rd_fac").is_said_by("1") && !of("rd_fac").is_said_by(""));
    }
}

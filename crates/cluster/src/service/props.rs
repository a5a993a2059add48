//! Container properties: numbers, defaults and ranges of DAOS, and what Dolmen makes of them.

use dolmen_codec::acl::Acl;
use dolmen_types::{Durability, Invalid, PropId, PropValue, Props};

/// How a property may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// Set at any time.
    Open,
    /// Set when the container is made.
    Fixed,
    /// Computed.
    ReadOnly,
}

/// What values a property takes; the default comes with it.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Number { default: u64, low: u64, high: u64 },
    Text { default: &'static str },
    Bytes { default_bytes: usize, low: usize, high: usize },
}

const fn number(default: u64, low: u64, high: u64) -> Kind {
    Kind::Number { default, low, high }
}

const CO_CSUM_SERVER_VERIFY: PropId = PropId(4102);
const CO_REDUN_LVL: PropId = PropId(4104);
const CO_SNAPSHOT_MAX: PropId = PropId(4105);
const CO_COMPRESS: PropId = PropId(4107);
const CO_ENCRYPT: PropId = PropId(4108);
const CO_DEDUP: PropId = PropId(4111);
const CO_DEDUP_THRESHOLD: PropId = PropId(4112);
const CO_STATUS: PropId = PropId(4114);
pub(crate) const CO_ALLOCED_OID: PropId = PropId(4115);
const CO_EC_CELL_SZ: PropId = PropId(4116);
const CO_EC_PDA: PropId = PropId(4117);
const CO_RP_PDA: PropId = PropId(4118);
const CO_GLOBAL_VERSION: PropId = PropId(4119);
const CO_SCRUBBER_DISABLED: PropId = PropId(4120);
const CO_OBJ_VERSION: PropId = PropId(4121);
const CO_PERF_DOMAIN: PropId = PropId(4122);

/// What DAOS answers for a container without a label.
//= daos:src/include/daos_prop.h DAOS_PROP_CO_LABEL_DEFAULT
const NO_LABEL: &str = "container_label_not_set";

const U32_MAX: u64 = u32::MAX as u64;
const ROOTS_BYTES: usize = 64;
/// An access control list fits one message, as in DAOS.
const ACL_BYTES_MAX: usize = 65536;

/// Every property. Of a feature that is not there, only the value that says so is taken: replicas, encryption, compression,
/// deduplication, a limit of snapshots, a container that no scrub reads.
//= daos:src/container/srv_layout.c cont_prop_default
const TABLE: [(PropId, Use, Kind); 28] = [
    (PropId::CO_LABEL, Use::Open, Kind::Text { default: NO_LABEL }),
    (PropId::CO_LAYOUT_TYPE, Use::Fixed, number(0, 0, U32_MAX)),
    (PropId::CO_LAYOUT_VER, Use::Fixed, number(1, 0, U32_MAX)),
    (PropId::CO_CSUM, Use::Fixed, number(0, 0, 7)),
    (PropId::CO_CSUM_CHUNK_SIZE, Use::Fixed, number(32 * 1024, 1, U32_MAX)),
    (CO_CSUM_SERVER_VERIFY, Use::Open, number(0, 0, 1)),
    (PropId::CO_REDUN_FAC, Use::Fixed, number(0, 0, 0)),
    (CO_REDUN_LVL, Use::Fixed, number(2, 1, 254)),
    (CO_SNAPSHOT_MAX, Use::Open, number(0, 0, 0)),
    (PropId::CO_ACL, Use::Open, Kind::Bytes { default_bytes: 0, low: 0, high: ACL_BYTES_MAX }),
    (CO_COMPRESS, Use::Open, number(0, 0, 0)),
    (CO_ENCRYPT, Use::Fixed, number(0, 0, 0)),
    (PropId::CO_OWNER, Use::Open, Kind::Text { default: "" }),
    (PropId::CO_OWNER_GROUP, Use::Open, Kind::Text { default: "" }),
    (CO_DEDUP, Use::Open, number(0, 0, 0)),
    (CO_DEDUP_THRESHOLD, Use::Fixed, number(4096, 1, U32_MAX)),
    (
        PropId::CO_ROOTS,
        Use::Open,
        Kind::Bytes { default_bytes: ROOTS_BYTES, low: ROOTS_BYTES, high: ROOTS_BYTES },
    ),
    (CO_STATUS, Use::Open, number(0, 0, 0)),
    (CO_ALLOCED_OID, Use::ReadOnly, number(0, 0, 0)),
    (CO_EC_CELL_SZ, Use::Fixed, number(128 * 1024, 4096, 1 << 20)),
    (CO_EC_PDA, Use::Fixed, number(1, 0, U32_MAX)),
    (CO_RP_PDA, Use::Fixed, number(U32_MAX, 0, U32_MAX)),
    (CO_GLOBAL_VERSION, Use::ReadOnly, number(4, 4, 4)),
    (CO_SCRUBBER_DISABLED, Use::Open, number(0, 0, 0)),
    (CO_OBJ_VERSION, Use::ReadOnly, number(1, 1, 1)),
    (CO_PERF_DOMAIN, Use::Fixed, number(255, 0, U32_MAX)),
    (PropId::CO_DURABILITY, Use::Fixed, number(Durability::Power as u64, 0, 1)),
    (PropId::CO_FILES, Use::Open, number(0, 0, 1)),
];

/// When properties are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    Create,
    Later,
}

/// Checks properties that a client wants to set and returns those to be kept; the label is not among them.
///
/// # Errors
/// `Invalid::Property` for one that is unknown, has a value of the wrong kind or outside its range, or cannot
/// be set now.
pub(crate) fn checked(props: Props, when: When) -> Result<Props, Invalid> {
    let mut kept = Props::new();
    for (id, value) in props {
        let (_, usage, kind) = TABLE.iter().find(|row| row.0 == id).ok_or(Invalid::Property)?;
        let settable = match usage {
            Use::Open => true,
            Use::Fixed => when == When::Create,
            Use::ReadOnly => false,
        };
        let is_no_list = match &value {
            // An empty one stands for the default.
            PropValue::Bytes(bytes) if id == PropId::CO_ACL => !bytes.is_empty() && !is_list(bytes),
            _ => false,
        };
        if !settable || is_no_list || !fits(*kind, &value) {
            return Err(Invalid::Property);
        }
        if id != PropId::CO_LABEL {
            kept.insert(id, value);
        }
    }
    Ok(kept)
}

/// Checks properties of a pool that a client wants to set.
///
/// # Errors
/// `Invalid::Property` for all but owner, group and a list that is one.
pub(crate) fn checked_of_pool(props: Props) -> Result<Props, Invalid> {
    let is_right = |(id, value): (&PropId, &PropValue)| match (*id, value) {
        (PropId::PO_OWNER | PropId::PO_OWNER_GROUP, PropValue::Text(name)) => name.len() <= 255,
        (PropId::PO_ACL, PropValue::Bytes(bytes)) => is_list(bytes),
        _ => false,
    };
    if !props.is_empty() && props.iter().all(is_right) { Ok(props) } else { Err(Invalid::Property) }
}

fn is_list(bytes: &[u8]) -> bool {
    bytes.len() <= ACL_BYTES_MAX && Acl::decode(bytes).is_ok()
}

/// All properties with their values.
pub(crate) fn all(kept: &Props) -> Props {
    let row =
        |&(id, _, kind): &(PropId, Use, Kind)| (id, kept.get(&id).cloned().unwrap_or_else(|| default(kind)));
    TABLE.iter().map(row).collect()
}

/// What acknowledged writes survive.
pub(crate) fn durability(kept: &Props) -> Durability {
    match kept.get(&PropId::CO_DURABILITY) {
        Some(PropValue::Number(number)) => Durability::from_number(*number).unwrap_or(Durability::Power),
        _ => Durability::Power,
    }
}

fn fits(kind: Kind, value: &PropValue) -> bool {
    match (kind, value) {
        (Kind::Number { low, high, .. }, PropValue::Number(number)) => (low..=high).contains(number),
        (Kind::Text { .. }, PropValue::Text(text)) => text.len() <= 255,
        (Kind::Bytes { low, high, .. }, PropValue::Bytes(bytes)) => (low..=high).contains(&bytes.len()),
        _ => false,
    }
}

fn default(kind: Kind) -> PropValue {
    match kind {
        Kind::Number { default, .. } => PropValue::Number(default),
        Kind::Text { default } => PropValue::Text(default.to_owned()),
        Kind::Bytes { default_bytes, .. } => PropValue::Bytes(vec![0; default_bytes]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(id: PropId, number: u64) -> Props {
        Props::from([(id, PropValue::Number(number))])
    }

    #[test]
    fn defaults_are_those_of_daos() {
        let props = all(&Props::new());
        for (id, number) in
            [(4099, 1), (4101, 32768), (4104, 2), (4112, 4096), (4116, 131_072), (4118, U32_MAX)]
        {
            assert_eq!(props[&PropId(id)], PropValue::Number(number), "{id}");
        }
        assert_eq!(props.len(), TABLE.len());
    }

    #[test]
    fn a_feature_that_is_not_there_is_refused_unless_it_is_to_be_off() {
        for id in [CO_COMPRESS, CO_DEDUP, CO_SNAPSHOT_MAX, CO_SCRUBBER_DISABLED] {
            for when in [When::Create, When::Later] {
                assert_eq!(checked(one(id, 1), when), Err(Invalid::Property), "{id:?}");
                let kept = checked(one(id, 0), when).unwrap();
                assert_eq!(all(&kept)[&id], PropValue::Number(0));
            }
        }
        for id in [PropId::CO_REDUN_FAC, CO_ENCRYPT] {
            assert_eq!(checked(one(id, 1), When::Create), Err(Invalid::Property));
            assert_eq!(all(&checked(one(id, 0), When::Create).unwrap())[&id], PropValue::Number(0));
        }
    }

    #[test]
    fn a_list_that_is_none_is_refused() {
        let list = |bytes: &[u8]| PropValue::Bytes(bytes.to_vec());
        for (bytes, is_right) in [(b"nonsense".to_vec(), false), (Acl::of_new_pool().encode(), true)] {
            for when in [When::Create, When::Later] {
                let props = Props::from([(PropId::CO_ACL, list(&bytes))]);
                assert_eq!(checked(props, when).is_ok(), is_right);
            }
            assert_eq!(checked_of_pool(Props::from([(PropId::PO_ACL, list(&bytes))])).is_ok(), is_right);
        }
        assert!(checked(Props::from([(PropId::CO_ACL, list(b""))]), When::Later).is_ok());
        for wrong in [one(PropId::PO_OWNER, 1), one(PropId(9), 1), Props::new()] {
            assert_eq!(checked_of_pool(wrong), Err(Invalid::Property));
        }
        let long = PropValue::Text("n".repeat(256));
        assert_eq!(checked_of_pool(Props::from([(PropId::PO_OWNER, long)])), Err(Invalid::Property));
    }

    #[test]
    fn fixed_properties_are_set_at_creation_only() {
        let durable = one(PropId::CO_DURABILITY, 1);
        assert_eq!(durability(&checked(durable.clone(), When::Create).unwrap()), Durability::Process);
        assert_eq!(checked(durable, When::Later), Err(Invalid::Property));
        assert_eq!(checked(one(PropId::CO_DURABILITY, 2), When::Create), Err(Invalid::Property));
        assert_eq!(checked(one(CO_ALLOCED_OID, 2), When::Create), Err(Invalid::Property));
        assert_eq!(checked(one(PropId(9), 2), When::Create), Err(Invalid::Property));
        let text = Props::from([(PropId::CO_CSUM, PropValue::Text("crc32".to_owned()))]);
        assert_eq!(checked(text, When::Create), Err(Invalid::Property));
    }
}

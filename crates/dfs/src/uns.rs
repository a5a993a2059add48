//! Names of containers of files outside of them: what a path of an ordinary file system says of the container that it stands
//! for, and what is wished of a new one.

use dolmen_types::{ObjectClass, Uuid};

/// The extended attribute of a path that stands for a container.
//= daos:src/include/daos_uns.h DUNS_XATTR_NAME
pub const UNS_XATTR: &str = "user.daos";
/// The longest value of that attribute, in bytes.
//= daos:src/include/daos_uns.h DUNS_MAX_XATTR_LEN
pub const UNS_XATTR_BYTES_MAX: usize = 170;

/// Names of layouts, by their numbers.
//= daos:src/include/daos_prop.h DAOS_PROP_CO_LAYOUT_*
const LAYOUTS: [&str; 9] =
    ["UNKNOWN", "POSIX", "HDF5", "PYTHON", "SPARK", "DATABASE", "ROOT", "SEISMIC", "METEO"];

/// Layouts that have a name are those below this number.
pub const UNS_LAYOUT_COUNT: u32 = 9;

const _: () = assert!(LAYOUTS.len() == UNS_LAYOUT_COUNT as usize);

/// What a path stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnsLink {
    /// What the container holds; 1 is files.
    pub layout: u32,
    /// The pool.
    pub pool: Uuid,
    /// The container.
    pub cont: Uuid,
}

impl UnsLink {
    /// What a value of the attribute says; `None` if it is none, or too long.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        if value.len() > UNS_XATTR_BYTES_MAX {
            return None;
        }
        let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
        let text = core::str::from_utf8(&value[..end]).ok()?;
        let (layout, rest) = text.strip_prefix("DAOS.")?.split_once("://")?;
        let layout = LAYOUTS.iter().position(|name| name.eq_ignore_ascii_case(layout))?;
        let (pool, cont) = rest.split_once('/')?;
        let uuid = |text: &str| Uuid::try_parse(text).ok();
        Some(Self { layout: u32::try_from(layout).ok()?, pool: uuid(pool)?, cont: uuid(cont)? })
    }
}

impl core::fmt::Display for UnsLink {
    /// The value of the attribute.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let layout = LAYOUTS.get(self.layout as usize).unwrap_or(&LAYOUTS[0]);
        write!(f, "DAOS.{layout}://{}/{}", self.pool, self.cont)
    }
}

/// The classes that hints such as `file:single,dir:max` ask for: of new files, and of new directories; `UNKNOWN` for what they
/// are silent about. `None` if they are none.
//= daos:src/include/daos_fs.h da_hints
#[must_use]
pub fn classes_of_hints(text: &str) -> Option<(ObjectClass, ObjectClass)> {
    let mut classes = (ObjectClass::UNKNOWN, ObjectClass::UNKNOWN);
    for hint in text.split(',').filter(|hint| !hint.is_empty()) {
        let (is_file, class) = class_of_hint(hint)?;
        *if is_file { &mut classes.0 } else { &mut classes.1 } = class;
    }
    Some(classes)
}

/// Whether one hint is for files, and the class that it asks for.
#[must_use]
pub fn class_of_hint(hint: &str) -> Option<(bool, ObjectClass)> {
    let (kind, wish) = hint.split_once(':')?;
    let is_file = match kind.to_ascii_lowercase().as_str() {
        "file" => true,
        "dir" | "directory" => false,
        _ => return None,
    };
    let class = match wish.to_ascii_lowercase().as_str() {
        "single" => ObjectClass::S1,
        "max" => ObjectClass::SX,
        _ => return None,
    };
    Some((is_file, class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_as_it_is_written() {
        let link = UnsLink { layout: 1, pool: Uuid::from_u128(7), cont: Uuid::from_u128(9) };
        let text = link.to_string();
        assert!(text.starts_with("DAOS.POSIX://00000000-"), "{text}");
        assert_eq!(UnsLink::parse(text.as_bytes()), Some(link));
        assert_eq!(UnsLink::parse(&[text.as_bytes(), &[0]].concat()), Some(link));
        assert_eq!(UnsLink { layout: 99, ..link }.to_string(), UnsLink { layout: 0, ..link }.to_string());
        for wrong in ["", "DAOS.POSIX://tank/home", "DAOS.XFS://0/0", "POSIX://", &"D".repeat(171)] {
            assert_eq!(UnsLink::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn hints_ask_for_one_shard_or_for_all() {
        let of = classes_of_hints;
        assert_eq!(of(""), Some((ObjectClass::UNKNOWN, ObjectClass::UNKNOWN)));
        assert_eq!(of("File:single,dir:MAX"), Some((ObjectClass::S1, ObjectClass::SX)));
        assert_eq!(of("directory:single"), Some((ObjectClass::UNKNOWN, ObjectClass::S1)));
        for wrong in ["file", "file:some", "link:max"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
